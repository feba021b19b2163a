//! The fate of frames: which hosts a frame reaches, when, and how often. Has no device and no clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use suffrage_core::Rng;

/// The conditions of the link from one host to another, if it is not cut.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkConditions {
    /// The probability that a frame is lost.
    pub loss: f64,
    /// The delay of every frame.
    pub delay: Duration,
    /// The greatest additional delay, uniformly distributed: frames can overtake each other.
    pub jitter: Duration,
    /// The probability that a frame arrives twice, each time with its own delay.
    pub duplication: f64,
}

/// Counts of frames by fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames that have arrived or are in flight.
    pub forwarded: u64,
    /// Frames dropped by a cut.
    pub cut: u64,
    /// Frames lost at random.
    pub lost: u64,
    /// Duplicated frames.
    pub doubled: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    cut: bool,
    conditions: LinkConditions,
}

/// A frame in flight. Frames are ordered by arrival, and by departure if they arrive at the same time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    due: Duration,
    number: u64,
    to: usize,
    frame: Vec<u8>,
}

/// The links between all hosts. Hosts are numbered from 1.
#[derive(Debug)]
pub(crate) struct Fabric {
    hosts: usize,
    links: Vec<Link>,
    rng: Rng,
    in_flight: BinaryHeap<Reverse<InFlight>>,
    count: u64,
    tally: Tally,
}

/// The hardware address of a host.
pub(crate) fn address(host: usize) -> [u8; 6] {
    // A locally administered (second bit) unicast (first bit) address.
    [0x02, 0, 0, 0, (host >> 8) as u8, host as u8]
}

impl Fabric {
    pub(crate) fn new(hosts: usize, seed: u64) -> Fabric {
        Fabric {
            hosts,
            links: vec![Link::default(); hosts * hosts],
            rng: Rng::new(seed),
            in_flight: BinaryHeap::new(),
            count: 0,
            tally: Tally::default(),
        }
    }

    fn link(&mut self, from: usize, to: usize) -> &mut Link {
        let index = |host: usize| {
            assert!((1..=self.hosts).contains(&host), "there is no host {host}");
            host - 1
        };
        &mut self.links[index(from) * self.hosts + index(to)]
    }

    /// Drops all frames that a host of `from` sends from now on to a host of `to`.
    pub(crate) fn cut(&mut self, from: &[usize], to: &[usize]) {
        for &from in from {
            for &to in to {
                self.link(from, to).cut = true;
            }
        }
    }

    pub(crate) fn set_conditions(&mut self, from: usize, to: usize, conditions: LinkConditions) {
        self.link(from, to).conditions = conditions;
    }

    /// Ends all cuts, losses, delays and duplications.
    pub(crate) fn heal(&mut self) {
        self.links.fill(Link::default());
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// Handles a frame that a host has sent. A cut applies when a frame is sent: frames in flight arrive.
    pub(crate) fn on_frame(&mut self, now: Duration, from: usize, frame: &[u8]) {
        let Some(destination) = frame.get(..6) else { return };
        let is_broadcast = destination[0] & 1 == 1;
        for to in (1..=self.hosts).filter(|to| *to != from) {
            if is_broadcast || destination == address(to) {
                self.forward(now, from, to, frame);
            }
        }
    }

    fn forward(&mut self, now: Duration, from: usize, to: usize, frame: &[u8]) {
        let Link { cut, conditions } = *self.link(from, to);
        if cut {
            self.tally.cut += 1;
            return;
        }
        if self.rng.chance(conditions.loss) {
            self.tally.lost += 1;
            return;
        }
        self.tally.forwarded += 1;
        self.depart(now, to, conditions, frame);
        if self.rng.chance(conditions.duplication) {
            self.tally.doubled += 1;
            self.depart(now, to, conditions, frame);
        }
    }

    fn depart(&mut self, now: Duration, to: usize, conditions: LinkConditions, frame: &[u8]) {
        let due = now + conditions.delay + conditions.jitter.mul_f64(self.rng.unit());
        self.count += 1;
        self.in_flight.push(Reverse(InFlight { due, number: self.count, to, frame: frame.to_vec() }));
    }

    /// The time at which the next frame arrives.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.in_flight.peek().map(|Reverse(frame)| frame.due)
    }

    /// The next frame that has arrived by now, with its destination.
    pub(crate) fn arrival(&mut self, now: Duration) -> Option<(usize, Vec<u8>)> {
        if self.next_due()? > now {
            return None;
        }
        self.in_flight.pop().map(|Reverse(frame)| (frame.to, frame.frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(5);
    const MS: Duration = Duration::from_millis(1);

    fn frame(to: usize) -> Vec<u8> {
        [&address(to)[..], b"sender", b"payload"].concat()
    }

    /// The hosts that a frame reaches without delay.
    fn reached(fabric: &mut Fabric, from: usize, frame: &[u8]) -> Vec<usize> {
        fabric.on_frame(NOW, from, frame);
        std::iter::from_fn(|| fabric.arrival(NOW).map(|(to, _)| to)).collect()
    }

    #[test]
    fn a_unicast_reaches_its_addressee_and_a_broadcast_all_other_hosts() {
        let mut fabric = Fabric::new(3, 1);
        assert_eq!(reached(&mut fabric, 1, &frame(3)), [3]);
        assert_eq!(reached(&mut fabric, 3, &frame(3)), [] as [usize; 0]);
        assert_eq!(reached(&mut fabric, 2, &[0xff; 20]), [1, 3]);
        assert_eq!(reached(&mut fabric, 2, &[0x02; 20]), [] as [usize; 0], "no host has this address");
        assert_eq!(reached(&mut fabric, 2, b"stub"), [] as [usize; 0]);
    }

    #[test]
    fn a_cut_has_a_direction_and_heals() {
        let mut fabric = Fabric::new(4, 1);
        fabric.cut(&[1, 2], &[3]);
        assert_eq!(reached(&mut fabric, 1, &frame(3)), [] as [usize; 0]);
        assert_eq!(reached(&mut fabric, 2, &[0xff; 20]), [1, 4]);
        assert_eq!(reached(&mut fabric, 3, &frame(1)), [1]);
        assert_eq!(fabric.tally(), Tally { forwarded: 3, cut: 2, ..Tally::default() });
        fabric.heal();
        assert_eq!(reached(&mut fabric, 1, &frame(3)), [3]);
    }

    #[test]
    fn frames_in_flight_arrive_after_a_cut() {
        let mut fabric = Fabric::new(2, 1);
        fabric.set_conditions(1, 2, LinkConditions { delay: 10 * MS, ..LinkConditions::default() });
        fabric.on_frame(NOW, 1, &frame(2));
        fabric.heal();
        fabric.on_frame(NOW + MS, 1, &frame(2));
        fabric.cut(&[1], &[2]);
        assert_eq!(fabric.next_due(), Some(NOW + MS));
        assert!(fabric.arrival(NOW + MS).is_some());
        assert_eq!((fabric.arrival(NOW + 9 * MS), fabric.next_due()), (None, Some(NOW + 10 * MS)));
        assert!(fabric.arrival(NOW + 10 * MS).is_some());
        assert_eq!(fabric.next_due(), None);
    }

    /// Sends ten thousand frames. Every bound is more than five standard errors away, and the seed is fixed.
    #[test]
    fn frequencies_match_the_probabilities_and_depend_on_the_seed() {
        let conditions = LinkConditions { loss: 0.2, delay: 5 * MS, jitter: 10 * MS, duplication: 0.1 };
        let run = |seed| {
            let mut fabric = Fabric::new(2, seed);
            fabric.set_conditions(1, 2, conditions);
            (0..10_000).for_each(|_| fabric.on_frame(NOW, 1, &frame(2)));
            let dues = fabric.in_flight.iter().map(|Reverse(frame)| frame.due);
            let (first, last) = (dues.clone().min().unwrap(), dues.max().unwrap());
            (fabric.tally(), fabric.in_flight.len() as u64, first, last)
        };
        let (tally, in_flight, first, last) = run(7);
        assert_eq!(tally.lost + tally.forwarded, 10_000);
        assert_eq!(in_flight, tally.forwarded + tally.doubled);
        assert!(tally.lost.abs_diff(2_000) < 200, "{tally:?}");
        assert!(tally.doubled.abs_diff(800) < 150, "{tally:?}");
        assert!(NOW + 5 * MS <= first && first < NOW + 6 * MS, "{first:?}");
        assert!(NOW + 14 * MS < last && last <= NOW + 15 * MS, "{last:?}");
        assert_eq!(run(7), (tally, in_flight, first, last));
        assert_ne!(run(8).0, tally);
    }
}
