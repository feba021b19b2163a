//! The network between the processes: delay, loss, duplication, cuts.

use suffrage_core::{Rng, Span};

/// The distribution of message delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Latency {
    /// A constant delay.
    Const(Span),
    /// Uniform between two bounds.
    Uniform(Span, Span),
    /// Exponential with a mean.
    Exponential(Span),
    /// Log-normal with a median, and the standard deviation of its logarithm.
    LogNormal(Span, f64),
}

impl Latency {
    /// Draws the delay of one message.
    #[inline]
    pub(crate) fn sample(self, rng: &mut Rng) -> Span {
        match self {
            Latency::Const(span) => span,
            Latency::Uniform(min, max) => min + Span::from_nanos(rng.below((max - min).as_nanos() + 1)),
            Latency::Exponential(mean) => Span::from_nanos(rng.exponential(mean.as_nanos() as f64) as u64),
            Latency::LogNormal(median, sigma) => median.scale(libm::exp(sigma * rng.normal())),
        }
    }

    /// The delay bound that processes assume: the upper bound, or the 0.999 quantile of an unbounded distribution.
    pub fn bound(self) -> Span {
        /// The 0.999 quantile of the standard normal distribution.
        const Z: f64 = 3.090_232_306_167_814;
        match self {
            Latency::Const(span) | Latency::Uniform(_, span) => span,
            Latency::Exponential(mean) => mean.scale(libm::log(1000.0)),
            Latency::LogNormal(median, sigma) => median.scale(libm::exp(sigma * Z)),
        }
    }

    /// The median delay.
    pub fn median(self) -> Span {
        match self {
            Latency::Const(span) => span,
            Latency::Uniform(min, max) => (min + max).scale(0.5),
            Latency::Exponential(mean) => mean.scale(std::f64::consts::LN_2),
            Latency::LogNormal(median, _) => median,
        }
    }
}

/// The network between the processes.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) latency: Latency,
    pub(crate) loss: f64,
    /// The probability that an addressee misses a multicast, if it differs.
    pub(crate) multicast_loss: Option<f64>,
    pub(crate) duplicate: f64,
    /// The factor by which all delays are multiplied.
    factor: f64,
    /// The probability that a message is late, and the longest additional delay.
    late: (f64, Span),
    /// True if `factor` or `late` changes delays: one test on the hot path for both.
    has_extra_delay: bool,
    cuts: Vec<(usize, Cut)>,
    pub(crate) rng: Rng,
}

/// A partition: the side of each slot. Sides are numbered from 1. A slot with 0 is on no side and reaches all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    sides: Vec<u16>,
    one_way: bool,
}

impl Cut {
    /// Separates the groups of slots from each other. In a one-way cut, messages of a group do not reach the groups
    /// after it; messages in the other direction pass.
    pub fn new(members: usize, groups: &[Vec<usize>], one_way: bool) -> Cut {
        let mut sides = vec![0; members];
        for (side, group) in (1..).zip(groups) {
            for &slot in group {
                sides[slot] = side;
            }
        }
        Cut { sides, one_way }
    }

    /// Two processes cannot reach each other, and all others reach both: the chained scenario of the OmniPaxos paper
    /// (Ng, Haridi, Carbone 2023, section 2).
    pub fn chained(members: usize, one: usize, other: usize) -> Cut {
        Cut::new(members, &[vec![one], vec![other]], false)
    }

    /// The hub reaches all processes, and all others reach only the hub: the quorum-loss scenario of the same paper.
    pub fn hub(members: usize, hub: usize) -> Cut {
        let others: Vec<_> = (0..members).filter(|&slot| slot != hub).map(|slot| vec![slot]).collect();
        Cut::new(members, &others, false)
    }

    /// One process reaches nobody. Together with a hub, this is the constrained-election scenario.
    pub fn isolating(members: usize, slot: usize) -> Cut {
        Cut::new(members, &[vec![slot], (0..members).filter(|&other| other != slot).collect()], false)
    }

    /// The groups that are separated, by slot, and true if the cut is one-way.
    pub fn groups(&self) -> (Vec<Vec<usize>>, bool) {
        let sides = self.sides.iter().copied().max().unwrap_or(0);
        let on = |side| (0..self.sides.len()).filter(|&slot| self.sides[slot] == side).collect();
        ((1..=sides).map(on).collect(), self.one_way)
    }

    /// Renumbers the sides so that none is empty.
    pub(crate) fn drop_empty_sides(&mut self) {
        let mut groups = self.groups().0;
        groups.retain(|group| !group.is_empty());
        *self = Cut::new(self.sides.len(), &groups, self.one_way);
    }

    fn separates(&self, from: usize, to: usize) -> bool {
        let (from, to) = (self.sides[from], self.sides[to]);
        from != 0 && to != 0 && if self.one_way { from < to } else { from != to }
    }
}

impl Network {
    pub(crate) fn new(latency: Latency, seed: u64) -> Network {
        Network {
            latency,
            loss: 0.0,
            multicast_loss: None,
            duplicate: 0.0,
            factor: 1.0,
            late: (0.0, Span::ZERO),
            has_extra_delay: false,
            cuts: Vec::new(),
            rng: Rng::new(seed),
        }
    }

    pub(crate) fn cut(&mut self, name: usize, cut: Cut) {
        self.cuts.push((name, cut));
    }

    /// Heals the cuts of that name. False if there is none.
    pub(crate) fn heal(&mut self, name: usize) -> bool {
        let before = self.cuts.len();
        self.cuts.retain(|(other, _)| *other != name);
        self.cuts.len() < before
    }

    pub(crate) fn heal_all(&mut self) {
        (self.loss, self.multicast_loss, self.duplicate) = (0.0, None, 0.0);
        (self.factor, self.late, self.has_extra_delay) = (1.0, (0.0, Span::ZERO), false);
        self.cuts.clear();
    }

    pub(crate) fn set_factor(&mut self, factor: f64) {
        self.factor = factor;
        self.has_extra_delay = self.factor != 1.0 || self.late.0 > 0.0;
    }

    pub(crate) fn set_late(&mut self, probability: f64, max: Span) {
        self.late = (probability, max);
        self.has_extra_delay = self.factor != 1.0 || self.late.0 > 0.0;
    }

    /// The delay of every message, if all delays are equal.
    pub(crate) fn constant_delay(&self) -> Option<Span> {
        match self.latency {
            Latency::Const(delay) if !self.has_extra_delay => Some(delay),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn has_no_cuts(&self) -> bool {
        self.cuts.is_empty()
    }

    /// True if a cut separates the two.
    #[inline]
    pub(crate) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.iter().any(|(_, cut)| cut.separates(from, to))
    }

    /// The sides of a slot in all cuts. Processes with equal sides can reach the same others.
    pub(crate) fn sides(&self, slot: usize) -> Vec<u16> {
        self.cuts.iter().map(|(_, cut)| cut.sides[slot]).collect()
    }

    #[inline]
    pub(crate) fn draw_loss(&mut self) -> bool {
        self.draw_loss_at(self.loss)
    }

    #[inline]
    pub(crate) fn draw_loss_at(&mut self, loss: f64) -> bool {
        loss > 0.0 && self.rng.chance(loss)
    }

    #[inline]
    pub(crate) fn draw_duplicate(&mut self) -> bool {
        self.duplicate > 0.0 && self.rng.chance(self.duplicate)
    }

    #[inline]
    pub(crate) fn delay(&mut self) -> Span {
        let latency = self.latency.sample(&mut self.rng);
        if self.has_extra_delay { self.add_extra_delay(latency) } else { latency }
    }

    #[cold]
    #[inline(never)]
    fn add_extra_delay(&mut self, latency: Span) -> Span {
        let delay = if self.factor == 1.0 { latency } else { latency.scale(self.factor) };
        let (probability, max) = self.late;
        if probability > 0.0 && self.rng.chance(probability) {
            return delay + Span::from_nanos(self.rng.below(max.as_nanos().saturating_add(1)));
        }
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the bound is a quantile, one message in a thousand exceeds it: 100 of 100,000, with a standard deviation
    /// of 10. The test allows six standard deviations, on a fixed seed.
    #[test]
    fn the_bound_holds_for_999_of_1000() {
        let mut rng = Rng::new(1);
        for (text, rare) in
            [("const:3", 0..=0), ("uniform:1,2", 0..=0), ("exp:2", 40..=160), ("lognormal:1,0.7", 40..=160)]
        {
            let latency: Latency = text.parse().unwrap();
            let late = (0..100_000).filter(|_| latency.sample(&mut rng) > latency.bound()).count();
            assert!(rare.contains(&late), "{text}: {late}");
        }
    }

    /// Of 10,000 messages, a tenth is late, with a standard deviation of 30. The test allows six standard deviations, on
    /// a fixed seed.
    #[test]
    fn slow_and_late_messages_end_when_all_heals() {
        let mut network = Network::new(Latency::Const(Span::UNIT), 1);
        network.set_factor(3.0);
        assert_eq!((network.delay(), network.constant_delay()), (Span::from_millis(3), None));
        network.set_late(0.1, Span::from_millis(50));
        let delays: Vec<Span> = (0..10_000).map(|_| network.delay()).collect();
        let late = delays.iter().filter(|&&delay| delay > Span::from_millis(3)).count();
        assert!((820..=1180).contains(&late), "{late}");
        let max = delays.iter().max().copied();
        assert!(max > Some(Span::from_millis(52)) && max <= Some(Span::from_millis(53)), "{max:?}");
        network.set_factor(1.0);
        assert!(network.has_extra_delay, "late messages go on");
        network.heal_all();
        let before = network.rng.clone();
        assert_eq!((network.delay(), network.constant_delay()), (Span::UNIT, Some(Span::UNIT)));
        assert_eq!(network.rng, before, "a network without faults draws no random numbers");
    }

    #[test]
    fn a_cut_separates_its_sides_and_nobody_else() {
        let mut network = Network::new(Latency::Const(Span::UNIT), 0);
        network.cut(7, Cut::new(5, &[vec![0, 1], vec![2, 3]], false));
        assert!(network.is_cut(0, 2) && network.is_cut(3, 1));
        assert!(!network.is_cut(0, 1) && !network.is_cut(0, 4) && !network.is_cut(4, 2));
        assert!(network.heal(7) && !network.heal(7));
        assert!(network.has_no_cuts());
        network.cut(8, Cut::new(5, &[vec![0], vec![1]], true));
        assert!(network.is_cut(0, 1) && !network.is_cut(1, 0));
    }
}
