//! A grid of members, whose rows and columns are quorums (Maekawa 1985).

use std::collections::BTreeSet;

/// The members of a group in rows, by slot: as many columns as rows, or one more.
///
/// If the last row is short, the member above stands in for a missing one. So every row meets every
/// column in a cell, and a row with a column is a quorum: any two have a member in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    members: usize,
    columns: usize,
}

impl Grid {
    /// The grid of so many members.
    pub fn of(members: usize) -> Grid {
        let root = members.isqrt();
        Grid { members, columns: if root * root < members { root + 1 } else { root } }
    }

    /// How many rows there are.
    pub fn rows(self) -> usize {
        self.members.div_ceil(self.columns.max(1))
    }

    /// How many columns there are.
    pub fn columns(self) -> usize {
        self.columns
    }

    /// The row and the column of a slot.
    pub fn place(self, slot: usize) -> (usize, usize) {
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

    /// A row and a column of which all are present: those of the given slot if possible, otherwise the
    /// next ones. None if there is no such row or no such column.
    pub fn available(self, slot: usize, present: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
        let (row, column) = self.place(slot);
        let (rows, columns) = (self.rows(), self.columns);
        let row = (0..rows).map(|ahead| (row + ahead) % rows).find(|&row| self.row(row).all(&present))?;
        let whole = |&column: &usize| self.column(column).all(&present);
        let column = (0..columns).map(|ahead| (column + ahead) % columns).find(whole)?;
        Some((row, column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maekawa 1985, section 2: "for any combination of i and j, S_i and S_j have a member in common".
    #[test]
    fn any_two_quorums_meet() {
        for members in 1..=100 {
            let grid = Grid::of(members);
            let quorum = |cell: usize| grid.quorum(cell / grid.columns(), cell % grid.columns());
            let quorums: Vec<_> = (0..grid.rows() * grid.columns()).map(quorum).collect();
            for (place, one) in quorums.iter().enumerate() {
                assert!(one.iter().all(|&slot| slot < members));
                assert!(one.len() < 2 * grid.columns(), "{members}: {one:?}");
                assert!(quorums[..place].iter().all(|other| !one.is_disjoint(other)), "{members}: {one:?}");
            }
            for slot in 0..members {
                let (row, column) = grid.place(slot);
                assert!(grid.quorum(row, column).contains(&slot), "everybody is in its own");
            }
        }
    }

    #[test]
    fn a_short_row_is_filled_from_above() {
        let grid = Grid::of(7);
        assert_eq!((grid.rows(), grid.columns()), (3, 3));
        assert!(grid.row(2).eq([6, 4, 5]) && grid.column(1).eq([1, 4, 4]));
        assert_eq!(grid.quorum(0, 2), [0, 1, 2, 5].into());
    }

    #[test]
    fn the_dead_are_avoided_while_there_is_a_way() {
        let grid = Grid::of(9);
        assert_eq!(grid.available(4, |_| true), Some((1, 1)));
        assert_eq!(grid.available(4, |slot| slot != 5), Some((2, 1)), "5 is in row 1");
        assert_eq!(grid.available(4, |slot| slot != 4), Some((2, 2)));
        assert_eq!(grid.available(4, |slot| ![0, 4, 8].contains(&slot)), None, "a dead diagonal");
    }
}
