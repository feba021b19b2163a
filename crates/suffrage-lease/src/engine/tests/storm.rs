//! A storm of changes of the voters: lost disks, newcomers that know one seed, restarts, racing coordinators.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::membership::{Change, Configuration};

const NODES: u64 = 6;

fn config(voters: &[u64]) -> EngineConfig {
    let candidate = CandidateConfig { ttl: Span::from_millis(60), standing: true, ..CandidateConfig::default() };
    EngineConfig {
        can_vote: true,
        delay: Span::from_millis(2),
        longest_ttl: Span::from_millis(60),
        candidate,
        bug: std::env::var("BUG").ok().and_then(|bug| crate::timings::Bug::ALL.iter().find(|(name, _)| *name == bug).map(|(_, bug)| *bug)),
        ..EngineConfig::new(voters.iter().copied().map(NodeId))
    }
}

struct Storm {
    now: u64,
    rng: Rng,
    nodes: BTreeMap<u64, (u64, Vec<u64>, Harness)>,
    /// What is left of stopped nodes.
    disks: BTreeMap<u64, (Vec<u64>, Option<Saved>)>,
    lives: u64,
    pool: Vec<(u64, u64, Message)>,
    cut: BTreeSet<u64>,
    /// Ends of leases, by node and life.
    leases: BTreeMap<(u64, u64), (u64, Time)>,
    won: BTreeSet<(u64, u64, u64)>,
    last: u64,
    versions: BTreeMap<u64, Stamp>,
    newest: Arc<Configuration>,
    log: Vec<String>,
}

impl Storm {
    fn new(seed: u64) -> Storm {
        let mut rng = Rng::new(seed);
        let founders: Vec<u64> = (1..=1 + rng.below(4)).collect();
        let newest = Arc::new(config(&founders).founding().unwrap());
        let mut storm = Storm {
            now: 0,
            rng,
            nodes: BTreeMap::new(),
            disks: BTreeMap::new(),
            lives: seed * 1_000_000,
            pool: Vec::new(),
            cut: BTreeSet::new(),
            leases: BTreeMap::new(),
            won: BTreeSet::new(),
            last: 0,
            versions: BTreeMap::new(),
            newest,
            log: Vec::new(),
        };
        for &id in &founders {
            storm.life(id, founders.clone(), Start::Fresh);
        }
        for id in founders.len() as u64 + 1..=NODES {
            storm.life(id, founders.clone(), Start::Fresh);
        }
        storm
    }

    fn life(&mut self, id: u64, list: Vec<u64>, start: Start<Saved>) {
        self.lives += 1;
        let now = at(self.now);
        let kind = match &start {
            Start::Fresh => "fresh",
            Start::Recovered(None) => "lost",
            Start::Recovered(Some(_)) => "restarted",
        };
        self.log.push(format!("{} start {id} {kind} {list:?} life {}", self.now, self.lives));
        let rng = Rng::new(self.lives * 7 + id);
        let record = Record { now, rng, sent: Vec::new(), news: Vec::new(), saved: None, due: None };
        let mut harness = Harness { engine: Engine::new(NodeId(id), config(&list)).unwrap(), record };
        harness.input(now, |engine, cx| engine.on_start(cx, start));
        harness.join(now, "x");
        self.nodes.insert(id, (self.lives, list, harness));
    }

    fn stop(&mut self, id: u64) {
        if let Some((_, list, harness)) = self.nodes.remove(&id) {
            self.log.push(format!("{} stop {id}", self.now));
            self.disks.insert(id, (list, harness.record.saved));
        }
    }

    fn start(&mut self, id: u64) {
        let Some((list, saved)) = self.disks.remove(&id) else { return };
        let kind = self.rng.below(10);
        let newest: Vec<u64> = self.newest.ids().iter().map(|id| id.0).collect();
        match kind {
            0 => self.life(id, list, Start::Recovered(None)),
            1 => {
                let from = if self.rng.chance(0.5) { newest } else { list };
                let mut list: Vec<u64> = from.into_iter().filter(|&other| other != id).collect();
                while list.len() > 1 && self.rng.chance(0.3) {
                    let index = self.rng.below(list.len() as u64) as usize;
                    list.remove(index);
                }
                if list.is_empty() {
                    list.push(if id == 1 { 2 } else { 1 });
                }
                self.life(id, list, Start::Fresh);
            }
            _ => self.life(id, list, Start::Recovered(saved)),
        }
    }

    fn event(&mut self) {
        let id = 1 + self.rng.below(NODES);
        match self.rng.below(12) {
            0 | 1 => self.stop(id),
            2..=4 => self.start(id),
            5..=8 => {
                let other = NodeId(1 + self.rng.below(NODES));
                let change = match self.rng.below(7) {
                    0 => Change::Adopt { without: BTreeSet::new() },
                    1 => Change::Adopt { without: [other].into() },
                    2..=4 => Change::Add(other, String::new()),
                    _ => Change::Remove(other),
                };
                let now = at(self.now);
                if let Some((_, _, harness)) = self.nodes.get_mut(&id) {
                    self.log.push(format!("{} change at {id}: {change:?}", self.now));
                    harness.input(now, |engine, cx| _ = engine.start_change(cx, change));
                }
            }
            9 => {
                self.cut.clear();
                for id in 1..=NODES {
                    if self.rng.chance(0.4) {
                        self.cut.insert(id);
                    }
                }
            }
            10 => self.cut.clear(),
            _ => {
                let now = at(self.now);
                if let Some((_, _, harness)) = self.nodes.get_mut(&id) {
                    harness.command(now, "x", Action::Resign);
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
        for (_, _, harness) in self.nodes.values_mut() {
            harness.fire_timer(now);
        }
        for round in 0..3 {
            for (&id, (_, _, harness)) in &mut self.nodes {
                self.pool.extend(harness.sent().into_iter().map(|(to, message)| (id, to.0, message)));
            }
            let mut pool = std::mem::take(&mut self.pool);
            self.rng.shuffle(&mut pool);
            for (from, to, message) in pool {
                // Some wait, some come twice, some are lost.
                let dice = self.rng.below(100);
                if dice < 30 || dice < 31 + round {
                    self.pool.push((from, to, message));
                    continue;
                }
                if dice < 36 || self.cut.contains(&from) != self.cut.contains(&to) {
                    if dice % 5 == 0 {
                        self.pool.push((from, to, message));
                    }
                    continue;
                }
                if dice < 38 {
                    self.pool.push((from, to, message.clone()));
                }
                if let Some((_, _, harness)) = self.nodes.get_mut(&to) {
                    harness.input(now, |engine, cx| engine.on_message(cx, NodeId(from), message));
                    self.check();
                }
            }
        }
        self.check();
    }

    fn fail(&self, what: &str) -> ! {
        for line in &self.log {
            eprintln!("{line}");
        }
        panic!("{} {what}", self.now);
    }

    fn check(&mut self) {
        let now = at(self.now);
        let cluster = self.newest.cluster();
        for (&id, (life, _, harness)) in &mut self.nodes {
            harness.record.news.clear();
            let engine = &harness.engine;
            let lease = engine.index_of(Name::of("x")).and_then(|index| engine.lease(now, index));
            match lease {
                Some(lease) => {
                    let token = lease.token.number();
                    self.leases.insert((id, *life), (token, lease.valid_until));
                    if self.won.insert((id, *life, token)) {
                        self.log.push(format!(
                            "{} node {id} wins {token} at version {}",
                            self.now,
                            engine.configuration().version()
                        ));
                        if token <= self.last {
                            self.log.push(format!("token {token} after {}", self.last));
                            self.log.push("FAIL".into());
                        }
                        self.last = self.last.max(token);
                    }
                }
                None => _ = self.leases.remove(&(id, *life)),
            }
            if engine.is_configuration_certain() {
                let stamp = engine.configuration().stamp();
                if stamp.cluster == cluster {
                    if *self.versions.entry(stamp.version).or_insert(stamp) != stamp {
                        self.log.push("FAIL two configurations".into());
                    }
                    if stamp.version > self.newest.version() {
                        self.newest = Arc::clone(engine.configuration());
                        self.log.push(format!("{} {:?}", self.now, self.newest));
                    }
                } else {
                    self.log.push(format!("FAIL node {id} in another cluster"));
                }
            }
        }
        self.leases.retain(|_, (_, end)| *end > now);
        if self.log.last().is_some_and(|line| line.starts_with("FAIL")) {
            self.fail("failed");
        }
        if self.leases.len() > 1 {
            self.fail(&format!("two leaders: {:?}", self.leases));
        }
    }
}

#[test]
fn a_storm_of_changes_breaks_nothing() {
    let seeds: u64 = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(20);
    let first: u64 = std::env::var("FIRST").ok().and_then(|first| first.parse().ok()).unwrap_or(1);
    let (mut versions, mut wins) = (0, 0);
    for seed in first..first + seeds {
        let mut storm = Storm::new(seed);
        for _ in 0..4_000 {
            storm.step();
        }
        versions += storm.newest.version();
        wins += storm.won.len();
    }
    eprintln!("{seeds} seeds, {versions} versions, {wins} wins");
    assert!(versions > seeds && wins as u64 > seeds);
}
