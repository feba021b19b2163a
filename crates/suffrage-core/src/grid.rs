//! A grid of members, whose rows and columns are quorums (Maekawa 1985).

use std::collections::BTreeSet;

/// The members of a group in rows, by slot. The grid has as many columns as rows, or one more.
///
/// If the last row is short, the member above a missing cell fills the cell. Every row therefore meets every column
/// in a cell, and a row with a column is a quorum: any two quorums have a member in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    members: usize,
    columns: usize,
}

impl Grid {
    /// The grid of `members` members.
    pub fn of(members: usize) -> Grid {
        let root = members.isqrt();
        Grid { members, columns: if root * root < members { root + 1 } else { root } }
    }

    /// The number of rows.
    pub fn rows(self) -> usize {
        self.members.div_ceil(self.columns.max(1))
    }

    /// The number of columns.
    pub fn columns(self) -> usize {
        self.columns
    }

    /// The row and the column of a slot.
    pub fn position(self, slot: usize) -> (usize, usize) {
        (slot / self.columns, slot % self.columns)
    }

    /// The slot in a cell.
    fn cell(self, row: usize, column: usize) -> usize {
        match row * self.columns + column {
            slot if slot < self.members => slot,
            missing => missing - self.columns,
        }
    }

    /// The slots of a row.
    pub fn row(self, row: usize) -> impl Iterator<Item = usize> {
        (0..self.columns).map(move |column| self.cell(row, column))
    }

    /// The slots of a column.
    pub fn column(self, column: usize) -> impl Iterator<Item = usize> {
        (0..self.rows()).map(move |row| self.cell(row, column))
    }

    /// The slots of a row and a column.
    pub fn quorum(self, row: usize, column: usize) -> BTreeSet<usize> {
        self.row(row).chain(self.column(column)).collect()
    }

    /// A row and a column whose members are all present: the row and the column of the given slot if possible,
    /// otherwise the next ones. `None` if there is no such row or no such column.
    pub fn available(self, slot: usize, present: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
        let (row, column) = self.position(slot);
        let (rows, columns) = (self.rows(), self.columns);
        let row = (0..rows).map(|offset| (row + offset) % rows).find(|&row| self.row(row).all(&present))?;
        let complete = |&column: &usize| self.column(column).all(&present);
        let column = (0..columns).map(|offset| (column + offset) % columns).find(complete)?;
        Some((row, column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maekawa 1985, section 2: "for any combination of i and j, S_i and S_j have a member in common".
    #[test]
    fn any_two_quorums_intersect() {
        for members in 1..=100 {
            let grid = Grid::of(members);
            let quorum = |cell: usize| grid.quorum(cell / grid.columns(), cell % grid.columns());
            let quorums: Vec<_> = (0..grid.rows() * grid.columns()).map(quorum).collect();
            for (index, one) in quorums.iter().enumerate() {
                assert!(one.iter().all(|&slot| slot < members));
                assert!(one.len() < 2 * grid.columns(), "{members}: {one:?}");
                assert!(quorums[..index].iter().all(|other| !one.is_disjoint(other)), "{members}: {one:?}");
            }
            for slot in 0..members {
                let (row, column) = grid.position(slot);
                assert!(grid.quorum(row, column).contains(&slot), "every slot is in its own quorum");
            }
        }
    }

    #[test]
    fn a_short_last_row_is_filled_with_the_members_above() {
        let grid = Grid::of(7);
        assert_eq!((grid.rows(), grid.columns()), (3, 3));
        assert!(grid.row(2).eq([6, 4, 5]) && grid.column(1).eq([1, 4, 4]));
        assert_eq!(grid.quorum(0, 2), [0, 1, 2, 5].into());
    }

    #[test]
    fn available_avoids_absent_members_if_a_row_and_a_column_remain() {
        let grid = Grid::of(9);
        assert_eq!(grid.available(4, |_| true), Some((1, 1)));
        assert_eq!(grid.available(4, |slot| slot != 5), Some((2, 1)), "5 is in row 1");
        assert_eq!(grid.available(4, |slot| slot != 4), Some((2, 2)));
        assert_eq!(
            grid.available(4, |slot| ![0, 4, 8].contains(&slot)),
            None,
            "an absent diagonal breaks every row"
        );
    }
}
