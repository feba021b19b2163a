//! Random commands to real node tasks, in virtual time: at no moment two leases of one election are valid, as the handles
//! see them.

use std::sync::Arc;
use std::time::Duration;

use suffrage_core::{NodeId, Rng, Span, Time};
use suffrage_net::transport::memory::Network;
use suffrage_node::clock::{Clock, TokioClock};
use suffrage_node::lease::{CandidateConfig, HeldLease, Node, Participation, Saved, Settings};
use suffrage_node::storage::MemoryDisk;

/// The elections.
const NAMES: [&str; 2] = ["x", "y"];

/// The number of storms.
const SEEDS: u64 = 12;

/// A node with its disk and its participations.
struct Member {
    id: NodeId,
    disk: MemoryDisk<Saved>,
    node: Node,
    parts: [Option<Participation>; 2],
    observers: Vec<Participation>,
}

struct Storm {
    network: Network,
    clock: TokioClock,
    rng: Rng,
    members: Vec<Member>,
    /// Every lease that a handle has seen, by election.
    leases: [Vec<Arc<HeldLease>>; 2],
    greatest: [u64; 2],
    leaderships: u64,
}

fn settings() -> Settings {
    let mut settings = Settings::new([1, 2, 3].map(NodeId));
    settings.delay = Span::from_millis(5);
    settings
}

impl Storm {
    fn start(&mut self, id: NodeId, disk: MemoryDisk<Saved>) -> Member {
        let node = Node::start(self.network.join(id), self.clock, disk.clone(), settings()).unwrap();
        Member { id, disk, node, parts: [None, None], observers: Vec::new() }
    }

    async fn act(&mut self) {
        let place = self.rng.below(self.members.len() as u64) as usize;
        let name = self.rng.below(2) as usize;
        let to = NodeId(1 + self.rng.below(4));
        let config = CandidateConfig {
            ttl: Span::from_millis(300 + 100 * self.rng.below(4)),
            attribute: self.rng.below(3) as i64,
            failback: self.rng.chance(0.5).then(|| Span::from_millis(50 + self.rng.below(300))),
            stop_margin: Span::from_millis([0, 40, 100][self.rng.below(3) as usize]),
            standing: false,
        };
        let (dice, flag) = (self.rng.below(24), self.rng.chance(0.5));
        if dice == 0 {
            return self.restart(place).await;
        }
        let member = &mut self.members[place];
        match (dice, &member.parts[name]) {
            (1, _) => member.observers.push(member.node.observe(NAMES[name]).await.unwrap()),
            (2, _) => drop(member.observers.pop()),
            (_, None) => {
                let part = member.node.join(NAMES[name], config).await.unwrap();
                part.campaign();
                member.parts[name] = Some(part);
            }
            (3..=5, _) => _ = member.node.resign(NAMES[name]).await.unwrap(),
            (6..=7, _) => _ = member.node.move_leader(NAMES[name], None, None).await,
            (8, _) => _ = member.node.move_leader(NAMES[name], Some(to), None).await,
            (9, Some(part)) => part.transfer(to),
            (10..=11, Some(part)) => part.set_healthy(flag),
            (12, Some(part)) => part.set_attribute(to.0 as i64),
            (13, Some(part)) => _ = part.pin().await.unwrap(),
            (14, Some(part)) => part.unpin(),
            (15, Some(part)) => part.withdraw(),
            (16..=17, Some(part)) => {
                if let Some(held) = &part.belief().borrow().held {
                    held.end();
                }
                part.release(flag.then_some(to));
            }
            (18, Some(_)) => {
                let part = member.parts[name].take();
                if let Some(held) = part.as_ref().and_then(|part| part.belief().borrow().held.clone()) {
                    held.end();
                }
            }
            (_, Some(part)) => part.campaign(),
        }
    }

    async fn restart(&mut self, place: usize) {
        let Member { id, disk, node, parts, observers } = self.members.remove(place);
        match self.rng.chance(0.5) {
            true => node.stop().await,
            false => node.abort(),
        }
        drop((parts, observers, node));
        self.network.remove(id);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let member = self.start(id, disk);
        self.members.push(member);
    }

    /// All applications ask to lead: somebody leads soon, in every election.
    async fn settle(&mut self, seed: u64) {
        let config = CandidateConfig { ttl: Span::from_millis(400), ..CandidateConfig::default() };
        for member in &mut self.members {
            for (part, name) in member.parts.iter_mut().zip(NAMES) {
                if part.is_none() {
                    *part = Some(member.node.join(name, config).await.unwrap());
                }
            }
        }
        for (name, text) in NAMES.iter().enumerate() {
            let mut waited = 0;
            while self.leases[name].is_empty() {
                let parts = self.members.iter().filter_map(|member| member.parts[name].as_ref());
                parts.for_each(|part| (part.set_healthy(true), part.campaign()).1);
                tokio::time::sleep(Duration::from_millis(1)).await;
                self.check(seed);
                waited += 1;
                assert!(waited < 10_000, "seed {seed}: nobody leads {text}");
            }
        }
    }

    fn check(&mut self, seed: u64) {
        let now = self.clock.now();
        for member in &self.members {
            for (name, part) in member.parts.iter().enumerate() {
                let Some(held) = part.as_ref().and_then(|part| part.belief().borrow().held.clone()) else {
                    continue;
                };
                if !self.leases[name].iter().any(|known| Arc::ptr_eq(known, &held)) {
                    let token = held.token().number();
                    assert!(
                        token > self.greatest[name],
                        "seed {seed}: token {token} after {}",
                        self.greatest[name]
                    );
                    self.leases[name].push(held);
                    self.leaderships += 1;
                }
            }
        }
        for (name, leases) in self.leases.iter_mut().enumerate() {
            leases.retain(|held| held.valid_until() > Time::ZERO && held.valid_until() > now);
            assert!(leases.len() <= 1, "seed {seed}: {} leases at {now}: {leases:?}", leases.len());
            let tokens = leases.iter().map(|held| held.token().number());
            self.greatest[name] = tokens.max().unwrap_or(0).max(self.greatest[name]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn at_no_moment_two_leases_are_valid_whatever_the_applications_do() {
    let mut leaderships = 0;
    for seed in 0..SEEDS {
        let (network, clock) = (Network::new(seed), TokioClock::new());
        network.set_delay(Duration::from_millis(1)..=Duration::from_millis(4));
        network.set_loss(0.03);
        let mut storm = Storm {
            network,
            clock,
            rng: Rng::new(seed),
            members: Vec::new(),
            leases: [Vec::new(), Vec::new()],
            greatest: [0, 0],
            leaderships: 0,
        };
        for id in 1..=4 {
            let member = storm.start(NodeId(id), MemoryDisk::default());
            storm.members.push(member);
        }
        for step in 0..6_000 {
            if step % 7 == 0 {
                storm.act().await;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            storm.check(seed);
        }
        storm.network.set_loss(0.0);
        storm.settle(seed).await;
        leaderships += storm.leaderships;
    }
    assert!(leaderships > SEEDS * 10, "{leaderships}");
}
