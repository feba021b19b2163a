//! What becomes of a frame: whom it reaches, when, and how often. No device and no clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use suffrage_core::Rng;

/// How one way from a host to another is, if it is not cut.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weather {
    /// How probable it is that a frame is lost.
    pub loss: f64,
    /// How long every frame takes.
    pub delay: Duration,
    /// How much longer it takes at most: uniformly, so that frames overtake each other.
    pub jitter: Duration,
    /// How probable it is that a frame comes twice, each at a time of its own.
    pub duplication: f64,
}

/// What has become of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Arrived, or are on their way.
    pub forwarded: u64,
    /// Met a cut.
    pub cut: u64,
    /// Were lost by chance.
    pub lost: u64,
    /// Came twice.
    pub doubled: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Way {
    cut: bool,
    weather: Weather,
}

/// A frame on its way, in the order of arrival; of two at the same moment the earlier one first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    due: Duration,
    number: u64,
    to: usize,
    frame: Vec<u8>,
}

/// All the ways between so many hosts, which are numbered from 1.
#[derive(Debug)]
pub(crate) struct Fabric {
    hosts: usize,
    ways: Vec<Way>,
    rng: Rng,
    flights: BinaryHeap<Reverse<Flight>>,
    count: u64,
    tally: Tally,
}

/// The hardware address of a host.
pub(crate) fn address(host: usize) -> [u8; 6] {
    // Of one's own making (the second bit), and for one (the first).
    [0x02, 0, 0, 0, (host >> 8) as u8, host as u8]
}

impl Fabric {
    pub(crate) fn new(hosts: usize, seed: u64) -> Fabric {
        Fabric {
            hosts,
            ways: vec![Way::default(); hosts * hosts],
            rng: Rng::new(seed),
            flights: BinaryHeap::new(),
            count: 0,
            tally: Tally::default(),
        }
    }

    fn way(&mut self, from: usize, to: usize) -> &mut Way {
        let place = |host: usize| {
            assert!((1..=self.hosts).contains(&host), "there is no host {host}");
            host - 1
        };
        &mut self.ways[place(from) * self.hosts + place(to)]
    }

    /// Nothing that any of these sends from now on reaches any of those.
    pub(crate) fn cut(&mut self, from: &[usize], to: &[usize]) {
        for &from in from {
            for &to in to {
                self.way(from, to).cut = true;
            }
        }
    }

    pub(crate) fn set_weather(&mut self, from: usize, to: usize, weather: Weather) {
        self.way(from, to).weather = weather;
    }

    /// Nothing is cut, lost, late or doubled any more.
    pub(crate) fn heal(&mut self) {
        self.ways.fill(Way::default());
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// A host has sent a frame. A cut is looked at now: what is on its way arrives.
    pub(crate) fn on_frame(&mut self, now: Duration, from: usize, frame: &[u8]) {
        let Some(destination) = frame.get(..6) else { return };
        let for_all = destination[0] & 1 == 1;
        for to in (1..=self.hosts).filter(|to| *to != from) {
            if for_all || destination == address(to) {
                self.forward(now, from, to, frame);
            }
        }
    }

    fn forward(&mut self, now: Duration, from: usize, to: usize, frame: &[u8]) {
        let Way { cut, weather } = *self.way(from, to);
        if cut {
            self.tally.cut += 1;
            return;
        }
        if self.rng.chance(weather.loss) {
            self.tally.lost += 1;
            return;
        }
        self.tally.forwarded += 1;
        self.depart(now, to, weather, frame);
        if self.rng.chance(weather.duplication) {
            self.tally.doubled += 1;
            self.depart(now, to, weather, frame);
        }
    }

    fn depart(&mut self, now: Duration, to: usize, weather: Weather, frame: &[u8]) {
        let due = now + weather.delay + weather.jitter.mul_f64(self.rng.unit());
        self.count += 1;
        self.flights.push(Reverse(Flight { due, number: self.count, to, frame: frame.to_vec() }));
    }

    /// When the next frame arrives.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.flights.peek().map(|Reverse(flight)| flight.due)
    }

    /// A frame that has arrived by now, and where.
    pub(crate) fn arrival(&mut self, now: Duration) -> Option<(usize, Vec<u8>)> {
        if self.next_due()? > now {
            return None;
        }
        self.flights.pop().map(|Reverse(flight)| (flight.to, flight.frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(5);
    const MS: Duration = Duration::from_millis(1);

    fn frame(to: usize) -> Vec<u8> {
        [&address(to)[..], b"sender", b"what it says"].concat()
    }

    /// Whom a frame from this host to that one reaches at once.
    fn reached(fabric: &mut Fabric, from: usize, frame: &[u8]) -> Vec<usize> {
        fabric.on_frame(NOW, from, frame);
        std::iter::from_fn(|| fabric.arrival(NOW).map(|(to, _)| to)).collect()
    }

    #[test]
    fn a_frame_reaches_whom_it_is_for_and_one_for_all_everybody_else() {
        let mut fabric = Fabric::new(3, 1);
        assert_eq!(reached(&mut fabric, 1, &frame(3)), [3]);
        assert_eq!(reached(&mut fabric, 3, &frame(3)), [] as [usize; 0]);
        assert_eq!(reached(&mut fabric, 2, &[0xff; 20]), [1, 3]);
        assert_eq!(reached(&mut fabric, 2, &[0x02; 20]), [] as [usize; 0], "nobody's address");
        assert_eq!(reached(&mut fabric, 2, b"stub"), [] as [usize; 0]);
    }

    #[test]
    fn a_cut_has_a_direction_and_ends_when_it_is_healed() {
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
    fn what_is_on_its_way_arrives_after_a_cut_in_the_order_of_arrival() {
        let mut fabric = Fabric::new(2, 1);
        fabric.set_weather(1, 2, Weather { delay: 10 * MS, ..Weather::default() });
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

    /// Ten thousand frames; every bound is more than five standard errors away, and the seed is fixed.
    #[test]
    fn chance_is_as_it_was_set_and_as_its_seed_decides() {
        let weather = Weather { loss: 0.2, delay: 5 * MS, jitter: 10 * MS, duplication: 0.1 };
        let run = |seed| {
            let mut fabric = Fabric::new(2, seed);
            fabric.set_weather(1, 2, weather);
            (0..10_000).for_each(|_| fabric.on_frame(NOW, 1, &frame(2)));
            let dues = fabric.flights.iter().map(|Reverse(flight)| flight.due);
            let (first, last) = (dues.clone().min().unwrap(), dues.max().unwrap());
            (fabric.tally(), fabric.flights.len() as u64, first, last)
        };
        let (tally, flights, first, last) = run(7);
        assert_eq!(tally.lost + tally.forwarded, 10_000);
        assert_eq!(flights, tally.forwarded + tally.doubled);
        assert!(tally.lost.abs_diff(2_000) < 200, "{tally:?}");
        assert!(tally.doubled.abs_diff(800) < 150, "{tally:?}");
        assert!(NOW + 5 * MS <= first && first < NOW + 6 * MS, "{first:?}");
        assert!(NOW + 14 * MS < last && last <= NOW + 15 * MS, "{last:?}");
        assert_eq!(run(7), (tally, flights, first, last));
        assert_ne!(run(8).0, tally);
    }
}
