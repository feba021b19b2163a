//! Several hosts and many names over a network that loses, doubles, delays and is cut, in virtual time, with
//! clocks that drift, nodes that pause, and voters that crash and come back with what they had saved.
//!
//! Judged by true time, which no host sees: never two holders of a name at one moment; tokens increase; and
//! once all is well again, every name is held. Of every other name the holder is a client of the node, which does not
//! crash with it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use suffrage_core::{NodeId, Rng, Span, Start, Time};
use suffrage_node::lease::{Event, Host, Output, Saved, Seat, Settings, Terms, Token};

const NODES: usize = 5;
const VOTERS: usize = 3;
const NAMES: usize = 24;
const TTL: u64 = 300;

/// A clock that runs evenly, but not at the rate of true time.
#[derive(Clone, Copy)]
struct Clock {
    start: u64,
    millionths: i64,
}

impl Clock {
    fn shows(self, truth: Time) -> Time {
        let truth = i128::from(truth.as_nanos());
        let drift = truth * i128::from(self.millionths) / 1_000_000;
        Time::from_nanos((i128::from(self.start) + truth + drift) as u64)
    }

    /// The first true moment at which it shows that.
    fn when(self, shown: Time) -> Time {
        let shown = i128::from(shown.as_nanos().saturating_sub(self.start));
        let truth = shown * 1_000_000 / i128::from(1_000_000 + self.millionths);
        let mut truth = Time::from_nanos(truth as u64);
        while self.shows(truth).as_nanos() < self.start + shown as u64 {
            truth = truth + Span::from_nanos(1);
        }
        truth
    }
}

struct Node {
    host: Option<Host>,
    seats: BTreeMap<Seat, usize>,
    saved: Option<Saved>,
    /// How often it has started.
    life: u32,
    clock: Clock,
    paused_until: Time,
    out: Output,
    /// For when a call is in the queue.
    called: Option<Time>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Arrives { from: usize, to: usize, datagram: Vec<u8> },
    Due(usize),
    Restart(usize),
    Wish(usize),
    Weather,
}

/// Who holds a name, and until when by true time.
#[derive(Clone, Copy)]
struct Holding {
    node: usize,
    /// In which of its lives.
    life: u32,
    until: Time,
}

/// Whether a name is held for somebody who outlives the node.
fn is_outlived(place: usize) -> bool {
    place % 2 == 1
}

struct World {
    seed: u64,
    rng: Rng,
    truth: Time,
    queue: BinaryHeap<Reverse<(Time, u64, Happening)>>,
    count: u64,
    nodes: Vec<Node>,
    cut: [[bool; NODES]; NODES],
    loss: f64,
    calm: bool,
    holdings: Vec<Option<Holding>>,
    greatest: Vec<u64>,
    terms_led: u64,
    handovers: u64,
}

fn name(place: usize) -> String {
    format!("election {place}")
}

fn settings() -> Settings {
    let mut settings = Settings::new((0..VOTERS).map(|node| NodeId(node as u64)));
    settings.delay = Span::from_millis(5);
    settings.longest_ttl = Span::from_millis(TTL);
    settings
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let nodes = (0..NODES).map(|_| {
            // Clocks start anywhere, and drift within the bound of one per cent.
            let clock = Clock { start: rng.below(1 << 40), millionths: rng.below(19_900) as i64 - 9_950 };
            let out = Output::new(400);
            Node {
                host: None,
                seats: BTreeMap::new(),
                saved: None,
                life: 0,
                clock,
                paused_until: Time::ZERO,
                out,
                called: None,
            }
        });
        let mut world = World {
            seed,
            nodes: nodes.collect(),
            rng,
            truth: Time::ZERO,
            queue: BinaryHeap::new(),
            count: 0,
            cut: [[false; NODES]; NODES],
            loss: 0.0,
            calm: false,
            holdings: vec![None; NAMES],
            greatest: vec![0; NAMES],
            terms_led: 0,
            handovers: 0,
        };
        for node in 0..NODES {
            world.start(node);
            world.put(Span::from_millis(50), Happening::Wish(node));
        }
        world.put(Span::from_millis(20), Happening::Weather);
        world
    }

    fn put(&mut self, after: Span, happening: Happening) {
        self.count += 1;
        self.queue.push(Reverse((self.truth + after, self.count, happening)));
    }

    fn millis(&mut self, most: u64) -> Span {
        Span::from_nanos(self.rng.below(most * 1_000_000))
    }

    /// A node starts, with what it had saved if it is a voter, and stands for every name.
    fn start(&mut self, number: usize) {
        let seed = self.rng.bits();
        let node = &mut self.nodes[number];
        let now = node.clock.shows(self.truth);
        let start = match node.saved {
            Some(saved) => Start::Recovered(Some(saved)),
            None => Start::Fresh,
        };
        let mut host =
            Host::start(NodeId(number as u64), settings(), start, seed, now, &mut node.out).unwrap();
        node.seats.clear();
        node.life += 1;
        for place in 0..NAMES {
            let (ttl, attribute) = (Span::from_millis(TTL), (number % 3) as i64);
            let terms = Terms { ttl, attribute, failback: None, outlived: is_outlived(place) };
            let seat = host.join(now, &name(place), terms, &mut node.out).unwrap();
            host.stand(now, seat, &mut node.out);
            node.seats.insert(seat, place);
        }
        node.host = Some(host);
        node.called = None;
        self.settle(number);
    }

    /// A process that is gone believes nothing, though its clients may; what it had on the disk stays.
    fn crash(&mut self, number: usize) {
        self.nodes[number].host = None;
        self.nodes[number].called = None;
        for (_, holding) in self.holdings.iter_mut().enumerate().filter(|(place, _)| !is_outlived(*place)) {
            *holding = holding.filter(|holding| holding.node != number);
        }
    }

    /// Saves, sends and judges what a host wants done, and sees to it that it is called.
    fn settle(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        if let Some(saved) = node.out.save.take() {
            node.saved = Some(saved);
        }
        let mut mail = Vec::new();
        node.out.mail.drain(|to, datagram| mail.push((to.0 as usize, datagram.to_vec())));
        let events: Vec<(Seat, Event)> = node.out.events.drain(..).collect();
        for (seat, event) in events {
            self.judge(number, seat, event);
        }
        for (to, datagram) in mail {
            assert_ne!(to, number, "what it says to itself is no message; seed {}", self.seed);
            assert!(datagram.len() <= 400);
            if self.cut[number][to] || self.rng.chance(self.loss) {
                continue;
            }
            let copies = 1 + usize::from(self.rng.chance(self.loss / 2.0));
            for _ in 0..copies {
                let usual = Span::from_nanos(200_000 + self.rng.below(2_000_000));
                let late = if self.rng.chance(self.loss / 4.0) { self.millis(2 * TTL) } else { Span::ZERO };
                self.put(usual + late, Happening::Arrives { from: number, to, datagram: datagram.clone() });
            }
        }
        self.call(number);
    }

    fn call(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let Some(due) = node.host.as_ref().and_then(Host::next_due) else { return };
        let when = node.clock.when(due).max(self.truth);
        if node.called.is_none_or(|called| when < called) {
            node.called = Some(when);
            let after = when.since(self.truth);
            self.put(after, Happening::Due(number));
        }
    }

    fn judge(&mut self, number: usize, seat: Seat, event: Event) {
        let (truth, place) = (self.truth, self.nodes[number].seats[&seat]);
        let &Node { life, clock, .. } = &self.nodes[number];
        let holding = |valid_until| Holding { node: number, life, until: clock.when(valid_until) };
        match event {
            Event::Led { token, valid_until, .. } => {
                self.holds(place, holding(valid_until));
                self.rises(place, token);
            }
            Event::Renewed { valid_until, .. } => {
                self.holds(place, holding(valid_until));
            }
            Event::Lost => {
                let held = self.holdings[place];
                if held.is_some_and(|held| (held.node, held.life) == (number, life)) {
                    self.handovers += u64::from(held.is_some_and(|held| held.until > truth));
                    self.holdings[place] = None;
                }
            }
            // What a majority has granted is believed, though its holder may not have heard of it yet.
            Event::Follows { .. } | Event::Nobody => {}
        }
    }

    /// Never two holders of a name at one moment of true time.
    fn holds(&mut self, place: usize, holding: Holding) {
        let another = |other: &Holding| (other.node, other.life) != (holding.node, holding.life);
        if let Some(other) = self.holdings[place].filter(another) {
            assert!(
                other.until <= self.truth,
                "{} and {} hold {place} at {} (until {}); seed {}",
                other.node,
                holding.node,
                self.truth,
                other.until,
                self.seed
            );
        }
        self.holdings[place] = Some(holding);
    }

    fn rises(&mut self, place: usize, token: Token) {
        assert!(token.number() > self.greatest[place], "token {token} of {place} again; seed {}", self.seed);
        self.greatest[place] = token.number();
        self.terms_led += 1;
    }

    fn run(&mut self, until: Time) {
        while self.queue.peek().is_some_and(|Reverse((when, ..))| *when <= until) {
            let Some(Reverse((when, _, happening))) = self.queue.pop() else { return };
            self.truth = when;
            self.happen(happening);
        }
        self.truth = until;
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrives { to, .. } | Happening::Due(to) | Happening::Wish(to)
                if self.truth < self.nodes[to].paused_until =>
            {
                // A paused node finds it all when it wakes.
                let after = self.nodes[to].paused_until.since(self.truth);
                self.put(after, happening);
            }
            Happening::Arrives { from, to, datagram } => {
                let node = &mut self.nodes[to];
                let now = node.clock.shows(self.truth);
                let Some(host) = &mut node.host else { return };
                host.on_datagram(now, NodeId(from as u64), &datagram, &mut node.out).unwrap();
                self.settle(to);
            }
            Happening::Due(number) => {
                let node = &mut self.nodes[number];
                let now = node.clock.shows(self.truth);
                node.called = None;
                let Some(host) = &mut node.host else { return };
                host.on_due(now, &mut node.out);
                self.settle(number);
            }
            Happening::Restart(number) => self.start(number),
            Happening::Wish(number) => self.wish(number),
            Happening::Weather => self.weather(),
        }
    }

    /// What people do with elections.
    fn wish(&mut self, number: usize) {
        let wait = self.millis(100);
        self.put(wait, Happening::Wish(number));
        let (what, place) = (self.rng.below(6), self.rng.below(NAMES as u64) as usize);
        let to = NodeId(self.rng.below(NODES as u64));
        let calm = self.calm;
        let node = &mut self.nodes[number];
        let now = node.clock.shows(self.truth);
        let Some(host) = &mut node.host else { return };
        let seat = host.seat(suffrage_node::lease::Name::of(&name(place))).expect("it takes part in all");
        match what {
            _ if calm => {}
            0 => host.resign(now, seat, &mut node.out),
            1 => host.transfer(now, seat, to, &mut node.out),
            2 => host.yield_turn(now, seat, &mut node.out),
            3 => host.set_healthy(now, seat, false, &mut node.out),
            4 => host.set_healthy(now, seat, true, &mut node.out),
            _ => host.set_attribute(now, seat, to.0 as i64, &mut node.out),
        }
        self.settle(number);
    }

    /// Faults come and go.
    fn weather(&mut self) {
        if self.calm {
            return;
        }
        let wait = self.millis(150);
        self.put(wait, Happening::Weather);
        self.loss = [0.0, 0.02, 0.3][self.rng.below(3) as usize];
        let (one, other) = (self.rng.below(NODES as u64) as usize, self.rng.below(NODES as u64) as usize);
        match self.rng.below(5) {
            0 => self.cut[one][other] = true,
            1 => self.cut = [[false; NODES]; NODES],
            2 if self.nodes[one].host.is_some() => {
                self.crash(one);
                let away = self.millis(2 * TTL);
                self.put(away, Happening::Restart(one));
            }
            3 => self.nodes[one].paused_until = self.truth + self.millis(2 * TTL),
            _ => {}
        }
    }

    /// All is well from now on, and everybody with it.
    fn heal(&mut self) {
        self.calm = true;
        self.loss = 0.0;
        self.cut = [[false; NODES]; NODES];
        for number in 0..NODES {
            self.nodes[number].paused_until = self.truth;
            let node = &mut self.nodes[number];
            let now = node.clock.shows(self.truth);
            if let Some(host) = &mut node.host {
                for &seat in node.seats.keys() {
                    host.set_healthy(now, seat, true, &mut node.out);
                }
                self.settle(number);
            }
        }
    }
}

/// A storm of thirty leases' length, then calm; every run is decided by its seed, which a failure prints.
#[test]
fn nobody_leads_twice_tokens_rise_and_all_is_held_after_the_storm() {
    let (mut led, mut handovers) = (0, 0);
    for seed in 0..25 {
        let mut world = World::new(seed);
        let storm = Time::ZERO + Span::from_millis(30 * TTL);
        world.run(storm);
        world.heal();
        // All are back after two leases' length, and silent for one; backing off takes less than another.
        world.run(storm + Span::from_millis(6 * TTL));
        for (place, holding) in world.holdings.iter().enumerate() {
            let held = holding.is_some_and(|holding| holding.until > world.truth);
            assert!(held, "nobody holds {place} after the storm; seed {seed}");
        }
        led += world.terms_led;
        handovers += world.handovers;
    }
    // The storm was one, and not so strong that nothing happened.
    assert!(led > 25 * 30 * 5 && handovers > 300, "{led} terms, {handovers} handovers");
}

/// Every voter crashes at once and comes back with what it had saved: tokens still rise, and nobody leads
/// before what was granted is over.
#[test]
fn a_full_restart_keeps_tokens_rising() {
    for seed in 100..110 {
        let mut world = World::new(seed);
        world.calm = true;
        world.run(Time::ZERO + Span::from_millis(5 * TTL));
        let before = world.greatest.clone();
        assert!(world.holdings.iter().all(Option::is_some), "seed {seed}");
        (0..NODES).for_each(|node| world.crash(node));
        (0..NODES).for_each(|node| world.start(node));
        world.run(Time::ZERO + Span::from_millis(5 * TTL + TTL * 9 / 10));
        // Only clients of those that crashed may believe to lead.
        let led = |world: &World| world.holdings.iter().flatten().filter(|held| held.life == 2).count();
        assert_eq!(led(&world), 0, "the voters are silent; seed {seed}");
        world.run(Time::ZERO + Span::from_millis(9 * TTL));
        assert_eq!(led(&world), NAMES, "seed {seed}");
        assert!(world.greatest.iter().zip(&before).all(|(now, before)| now > before), "seed {seed}");
    }
}

/// The judge is awake: a voter that forgets what it saved lets two lead, or tokens fall.
#[test]
fn a_lost_disk_is_found_out() {
    let broken = (0..40).any(|seed| {
        std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for lease in 1..30 {
                world.run(Time::ZERO + Span::from_millis(lease * TTL));
                let voter = (lease as usize) % VOTERS;
                world.crash(voter);
                world.nodes[voter].saved = None;
                world.start(voter);
            }
        })
        .is_err()
    });
    assert!(broken);
}
