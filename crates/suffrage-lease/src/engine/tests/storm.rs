//! Random changes of the voters among processes that the simulator cannot have: nodes that start with any list of voters
//! but one with themselves, nodes whose data folder was replaced by an empty one, and two live processes with one id. The
//! disks of some processes are slow in half of the storms, and the leases of some are shorter.
//!
//! A founder that starts again with an empty data folder and with the founding list is outside of the promise: it takes
//! itself for a voter that has never voted. So is a disk that was restored from an older copy.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::membership::{Change, Configuration};

/// The number of ids. A twin is a second process with one of them.
const NODES: u64 = 6;
/// The length of a storm, in milliseconds. A message takes about one, and a lease 60.
const LENGTH: u64 = 3_000;

fn config(voters: &[u64], bug: Option<Bug>) -> EngineConfig {
    let candidate =
        CandidateConfig { ttl: Span::from_millis(60), standing: true, ..CandidateConfig::default() };
    EngineConfig {
        can_vote: true,
        delay: Span::from_millis(2),
        longest_ttl: Span::from_millis(60),
        candidate,
        bug,
        ..EngineConfig::new(voters.iter().copied().map(NodeId))
    }
}

/// A process: a life of a node.
struct Life {
    id: u64,
    list: Vec<u64>,
    harness: Harness,
}

/// The data folder of a node that has stopped.
struct Folder {
    id: u64,
    list: Vec<u64>,
    saved: Option<Saved>,
}

struct Storm {
    now: u64,
    rng: Rng,
    bug: Option<Bug>,
    /// Whether the disks of some processes are slow, and leases differ in length.
    slow_disks: bool,
    /// The live processes, by number.
    lives: BTreeMap<u64, Life>,
    folders: Vec<Folder>,
    next_life: u64,
    in_flight: Vec<(u64, u64, Message)>,
    cut: BTreeSet<u64>,
    /// Ends of leases by process, also of processes that have stopped.
    leases: BTreeMap<u64, Time>,
    /// The processes that have won, with their tokens.
    won: BTreeSet<(u64, u64)>,
    greatest_token: u64,
    versions: BTreeMap<u64, Stamp>,
    newest: Arc<Configuration>,
    log: Vec<String>,
    failure: Option<String>,
}

impl Storm {
    fn new(seed: u64, bug: Option<Bug>) -> Storm {
        let mut rng = Rng::new(seed);
        let founders: Vec<u64> = (1..=1 + rng.below(4)).collect();
        let mut storm = Storm {
            now: 0,
            rng,
            bug,
            slow_disks: seed % 2 == 1,
            lives: BTreeMap::new(),
            folders: Vec::new(),
            next_life: seed * 1_000_000,
            in_flight: Vec::new(),
            cut: BTreeSet::new(),
            leases: BTreeMap::new(),
            won: BTreeSet::new(),
            greatest_token: 0,
            versions: BTreeMap::new(),
            newest: Arc::new(config(&founders, bug).founding().unwrap()),
            log: Vec::new(),
            failure: None,
        };
        (1..=NODES).for_each(|id| storm.start(id, founders.clone(), Start::Fresh));
        storm
    }

    fn note(&mut self, text: String) {
        self.log.push(format!("{} {text}", self.now));
    }

    fn fail(&mut self, text: String) {
        self.note(text.clone());
        self.failure.get_or_insert(text);
    }

    fn start(&mut self, id: u64, list: Vec<u64>, start: Start<Saved>) {
        self.next_life += 1;
        let (now, number) = (at(self.now), self.next_life);
        let kind = match &start {
            Start::Fresh => "with a new data folder",
            Start::Recovered(None) => "without its state",
            Start::Recovered(Some(_)) => "again",
        };
        self.note(format!("node {id} starts {kind} and with {list:?} as process {number}"));
        let mut rng = Rng::new(number * 7 + id);
        let mut config = config(&list, self.bug);
        let slow_disk = self.slow_disks && rng.chance(0.5);
        if self.slow_disks {
            config.candidate.ttl = Span::from_millis(20 + 20 * rng.below(3));
        }
        let record = Record { slow_disk, ..Record::new(now, rng) };
        let engine = Engine::new(NodeId(id), config).unwrap();
        let mut harness = Harness { engine, record };
        harness.input(now, |engine, cx| engine.on_start(cx, start));
        harness.join(now, "x");
        self.lives.insert(number, Life { id, list, harness });
    }

    /// A list of voters without this node: some of the voters that it knows, or of the present ones.
    fn seeds(&mut self, id: u64, known: &[u64]) -> Vec<u64> {
        let newest: Vec<u64> = self.newest.ids().iter().map(|id| id.0).collect();
        let from = if self.rng.chance(0.5) { newest } else { known.to_vec() };
        let mut list: Vec<u64> = from.into_iter().filter(|&other| other != id).collect();
        while list.len() > 1 && self.rng.chance(0.3) {
            list.remove(self.rng.below(list.len() as u64) as usize);
        }
        if list.is_empty() {
            list.push(if id == 1 { 2 } else { 1 });
        }
        list
    }

    fn random_life(&mut self) -> Option<u64> {
        let numbers: Vec<u64> = self.lives.keys().copied().collect();
        (!numbers.is_empty()).then(|| numbers[self.rng.below(numbers.len() as u64) as usize])
    }

    fn stop(&mut self) {
        let Some(number) = self.random_life() else { return };
        let Some(Life { id, list, harness }) = self.lives.remove(&number) else { return };
        self.note(format!("process {number} of node {id} stops"));
        // The disk has the state that was being written, or the one before.
        let Record { saved, saves, .. } = harness.record;
        let saved = saves.writing().filter(|_| self.rng.chance(0.5)).cloned().or(saved);
        self.folders.push(Folder { id, list, saved });
    }

    fn restart(&mut self) {
        if self.folders.is_empty() {
            return;
        }
        let index = self.rng.below(self.folders.len() as u64) as usize;
        let Folder { id, list, saved } = self.folders.swap_remove(index);
        match self.rng.below(10) {
            0 => self.start(id, list, Start::Recovered(None)),
            1 => {
                let list = self.seeds(id, &list);
                self.start(id, list, Start::Fresh);
            }
            _ => self.start(id, list, Start::Recovered(saved)),
        }
    }

    /// A second process with the id of a live one, and with a data folder of its own.
    fn start_twin(&mut self) {
        let Some(number) = self.random_life() else { return };
        let (id, list) = (self.lives[&number].id, self.lives[&number].list.clone());
        if self.lives.values().filter(|life| life.id == id).count() < 2 {
            let list = self.seeds(id, &list);
            self.start(id, list, Start::Fresh);
        }
    }

    fn change(&mut self) {
        let (Some(number), other) = (self.random_life(), NodeId(1 + self.rng.below(NODES))) else { return };
        let change = match self.rng.below(9) {
            0 => Some(Change::Adopt { without: BTreeSet::new() }),
            1 => Some(Change::Adopt { without: [other].into() }),
            2..=4 => Some(Change::Add(other, String::new())),
            5..=7 => Some(Change::Remove(other)),
            _ => None,
        };
        self.note(format!("process {number} is told to change: {change:?}"));
        let now = at(self.now);
        let Some(life) = self.lives.get_mut(&number) else { return };
        life.harness.input(now, |engine, cx| match change {
            Some(change) => _ = engine.start_change(cx, change),
            None => engine.stop_change(cx),
        });
    }

    fn event(&mut self) {
        match self.rng.below(16) {
            0 | 1 => self.stop(),
            2..=4 => self.restart(),
            5..=9 => self.change(),
            10 => self.start_twin(),
            11 => self.cut = (1..=NODES).filter(|_| self.rng.chance(0.4)).collect(),
            12 => self.cut.clear(),
            _ => {
                let (now, number) = (at(self.now), self.random_life());
                let action = if self.rng.chance(0.3) { Action::Resign } else { Action::Campaign };
                if let Some(life) = number.and_then(|number| self.lives.get_mut(&number)) {
                    life.harness.command(now, "x", action);
                }
            }
        }
    }

    fn step(&mut self) {
        self.now += 1;
        let now = at(self.now);
        if self.rng.chance(0.03) {
            self.event();
        }
        for life in self.lives.values_mut() {
            life.harness.fire_timer(now);
            if self.slow_disks && self.rng.chance(0.03) {
                life.harness.end_save(now);
            }
        }
        for _ in 0..3 {
            for life in self.lives.values_mut() {
                let sent = life.harness.sent().into_iter();
                self.in_flight.extend(sent.map(|(to, message)| (life.id, to.0, message)));
            }
            let mut in_flight = std::mem::take(&mut self.in_flight);
            self.rng.shuffle(&mut in_flight);
            in_flight.into_iter().for_each(|flight| self.carry(flight));
        }
        self.check();
    }

    /// Delivers a message once or twice, keeps it in flight, or loses it.
    fn carry(&mut self, (from, to, message): (u64, u64, Message)) {
        let dice = self.rng.below(100);
        let separated = self.cut.contains(&from) != self.cut.contains(&to);
        if dice < 32 || separated && dice < 50 {
            return self.in_flight.push((from, to, message));
        }
        if dice < 36 || separated {
            return;
        }
        if dice < 38 {
            self.in_flight.push((from, to, message.clone()));
        }
        // Of two processes with one id either gets the message.
        let processes: Vec<u64> =
            self.lives.iter().filter(|(_, life)| life.id == to).map(|(&number, _)| number).collect();
        if let [only] | [only, _] = processes[..] {
            let number = if self.rng.chance(0.5) { processes[processes.len() - 1] } else { only };
            let now = at(self.now);
            let life = self.lives.get_mut(&number).expect("it lives");
            life.harness.input(now, |engine, cx| engine.on_message(cx, NodeId(from), message));
            self.check();
        }
    }

    /// Never two leaders, greater tokens, one configuration of each version.
    fn check(&mut self) {
        let now = at(self.now);
        let mut failures = Vec::new();
        for (&number, life) in &mut self.lives {
            life.harness.record.news.clear();
            let engine = &life.harness.engine;
            let lease = engine.index_of(Name::of("x")).and_then(|index| engine.lease(now, index));
            match lease {
                Some(lease) => {
                    let token = lease.token.number();
                    self.leases.insert(number, lease.valid_until);
                    if self.won.insert((number, token)) {
                        let version = engine.configuration().version();
                        self.log.push(format!("{} {number} wins {token} at {version}", self.now));
                        if token <= self.greatest_token {
                            failures.push(format!("token {token} after {}", self.greatest_token));
                        }
                        self.greatest_token = self.greatest_token.max(token);
                    }
                }
                None => _ = self.leases.remove(&number),
            }
            if !engine.is_configuration_certain() {
                continue;
            }
            let stamp = engine.configuration().stamp();
            if stamp.cluster != self.newest.cluster() {
                failures.push(format!("process {number} is in another cluster"));
            } else if *self.versions.entry(stamp.version).or_insert(stamp) != stamp {
                failures.push(format!("two configurations of version {}", stamp.version));
            } else if stamp.version > self.newest.version() {
                self.newest = Arc::clone(engine.configuration());
                self.log.push(format!("{} {:?}", self.now, self.newest));
            }
        }
        self.leases.retain(|_, end| *end > now);
        if self.leases.len() > 1 {
            failures.push(format!("two leaders: {:?}", self.leases));
        }
        failures.into_iter().for_each(|failure| self.fail(failure));
    }

    /// Runs the storm to its end, or to the first broken promise.
    fn run(mut self) -> Storm {
        for _ in 0..LENGTH {
            if self.failure.is_none() {
                self.step();
            }
        }
        self
    }
}

#[test]
fn promises_hold_in_a_storm_of_changes_with_newcomers_and_twins() {
    let (mut versions, mut wins) = (0, 0);
    for seed in 1..=SEEDS {
        let storm = Storm::new(seed, None).run();
        assert_eq!(storm.failure, None, "seed {seed}:\n{}", storm.log.join("\n"));
        versions += storm.newest.version();
        wins += storm.won.len() as u64;
    }
    assert!(versions > SEEDS && wins > 5 * SEEDS, "{versions} versions, {wins} leaderships");
}

/// The number of storms without a bug.
const SEEDS: u64 = 60;
/// The most storms with one. Of 6,000 storms, 20 find the bug that is hardest to find, `ReplyBeforeSave`.
const SEEDS_WITH_BUG: u64 = 2_000;

#[test]
fn a_storm_of_changes_finds_deliberate_bugs() {
    for bug in [Bug::TrustEmptyDisk, Bug::IgnoreBoot, Bug::DropGrants, Bug::ReplyBeforeSave] {
        let found = (1..=SEEDS_WITH_BUG).find(|&seed| Storm::new(seed, Some(bug)).run().failure.is_some());
        assert!(found.is_some(), "{bug:?}");
    }
}
