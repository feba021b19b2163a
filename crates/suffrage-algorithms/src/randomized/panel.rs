//! The mediators that a contender has asked, and what they have said.

/// How a mediator stands to the contender that has asked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It has not answered.
    Asked,
    /// It has said yes.
    Granted,
    /// It has said yes to POTW as well.
    Confirmed,
}

/// The set `Psi` of a contender's mediators, by slot, each with its standing. Answers count once, however
/// often the network doubles them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Panel {
    /// Sorted.
    slots: Vec<u32>,
    standings: Vec<Standing>,
    granted: usize,
    confirmed: usize,
}

impl Panel {
    /// Adds so many mediators that are not in it yet, each drawn by `pick`, and returns them. If `pick` is
    /// uniform, every set of that size is as likely as another: it is the set of the first different ones.
    ///
    /// The caller sees to it that there are enough to be drawn.
    pub fn draw(&mut self, count: usize, mut pick: impl FnMut() -> u32) -> Vec<u32> {
        let mut fresh: Vec<u32> = Vec::with_capacity(count);
        while fresh.len() < count {
            let missing = count - fresh.len();
            let drawn = std::iter::repeat_with(&mut pick).take(missing);
            fresh.extend(drawn.filter(|slot| self.slots.binary_search(slot).is_err()));
            fresh.sort_unstable();
            fresh.dedup();
        }
        if self.slots.is_empty() {
            self.slots.clone_from(&fresh);
            self.standings = vec![Standing::Asked; count];
        } else {
            for &slot in &fresh {
                let place = self.slots.partition_point(|&other| other < slot);
                self.slots.insert(place, slot);
                self.standings.insert(place, Standing::Asked);
            }
        }
        fresh
    }

    /// Takes note of a yes. None if it is no news, or comes of a stranger.
    pub fn grant(&mut self, slot: u32) -> Option<()> {
        self.promote(slot, Standing::Asked, Standing::Granted)?;
        self.granted += 1;
        Some(())
    }

    /// Takes note of a yes to POTW. None if it is no news, or comes of one that was not sent it.
    pub fn confirm(&mut self, slot: u32) -> Option<()> {
        self.promote(slot, Standing::Granted, Standing::Confirmed)?;
        self.confirmed += 1;
        Some(())
    }

    fn promote(&mut self, slot: u32, from: Standing, to: Standing) -> Option<()> {
        let place = self.slots.binary_search(&slot).ok()?;
        let standing = &mut self.standings[place];
        (*standing == from).then(|| *standing = to)
    }

    /// Whether all have said yes.
    pub fn is_unanimous(&self) -> bool {
        self.granted == self.slots.len()
    }

    /// How many have said yes.
    pub fn granted(&self) -> usize {
        self.granted
    }

    /// How many have said yes to POTW as well.
    pub fn confirmed(&self) -> usize {
        self.confirmed
    }

    /// How many were asked.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether nobody was asked.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Everybody asked, with their standings.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Standing)> + '_ {
        self.slots.iter().copied().zip(self.standings.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_core::Rng;

    #[test]
    fn answers_count_once_and_in_order() {
        let mut panel = Panel::default();
        let mut next = [5, 3, 5, 9].into_iter();
        assert_eq!(panel.draw(3, || next.next().unwrap()), [3, 5, 9]);
        assert_eq!((panel.confirm(3), panel.grant(4)), (None, None));
        assert!(panel.grant(3).is_some() && panel.grant(3).is_none());
        assert!(panel.confirm(3).is_some() && panel.confirm(3).is_none());
        assert!(panel.grant(5).is_some() && !panel.is_unanimous() && panel.grant(9).is_some());
        assert_eq!((panel.granted(), panel.confirmed(), panel.is_unanimous()), (3, 1, true));
        let mut next = [3, 4].into_iter();
        assert_eq!(panel.draw(1, || next.next().unwrap()), [4], "one that is not there yet");
        assert_eq!((panel.len(), panel.is_unanimous()), (4, false));
        assert!(panel.grant(4).is_some() && panel.is_unanimous());
    }

    /// All ten pairs of five are equally likely: 10,000 draws, 1,000 of each expected, chi-square with 9
    /// degrees of freedom below 27.9, which one seed in a thousand would exceed; the seed is fixed.
    #[test]
    fn every_set_is_as_likely_as_another() {
        let mut rng = Rng::new(4);
        let mut counts = [0u32; 25];
        for _ in 0..10_000 {
            let pair = Panel::default().draw(2, || rng.below(5) as u32);
            counts[(pair[0] * 5 + pair[1]) as usize] += 1;
        }
        let seen: Vec<f64> =
            counts.iter().filter(|&&count| count > 0).map(|&count| f64::from(count)).collect();
        assert_eq!(seen.len(), 10);
        let chi_square: f64 = seen.iter().map(|count| (count - 1_000.0).powi(2) / 1_000.0).sum();
        assert!(chi_square < 27.9, "{chi_square}");
    }
}
