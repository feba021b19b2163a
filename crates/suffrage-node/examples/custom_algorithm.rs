//! A custom algorithm, first in the simulator and then on UDP, with the same state machine.
//!
//! `cargo run -p suffrage-node --example custom_algorithm`
//!
//! Members draw lots. A member without a leader opens a draw. All members draw a number and multicast it. After three
//! message delays, the member with the greatest number leads, and multicasts that periodically. When the leader is
//! silent, there is another draw.
//!
//! ```text
//!   1 ══Lot 17══▶ all      3 ══Lot 80══▶ all      2 ══Lot 34══▶ all
//!   3 ══Leads══▶ all, every two message delays
//! ```
//!
//! Not promised: a single leader. If lots are lost, two members may lead until they receive a message of each other, and
//! each side of a partition has a leader.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an application")]

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use suffrage_core::{Announcement, Command, Context, NodeId, Process, Roster, Span, Start, Term, Time};
use suffrage_net::Keyring;
use suffrage_net::codec::Protocol;
use suffrage_net::transport::udp::Udp;
use suffrage_net::transport::{Config, Transport};
use suffrage_node::Error;
use suffrage_node::clock::BootClock;
use suffrage_node::driver::{Handle, Settings, spawn};
use suffrage_node::storage::MemoryDisk;
use suffrage_sim::{Fault, Latency, World};
use tokio::time::{Instant, sleep};

const MEMBERS: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Message {
    /// The sender's lot in this draw.
    Lot { draw: u64, number: u64 },
    /// The sender has won this draw.
    Leads { draw: u64 },
}

suffrage_core::message_kinds!(Message { Lot, Leads });

/// The only timer: its meaning depends on the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Timer;

suffrage_core::timer_indices!(Timer);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Waits for a leader, and opens a draw if there is none.
    Listens,
    /// Collects lots: the greatest so far, and its owner.
    Counts(u64, NodeId),
    Leads,
    Follows(NodeId),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lots {
    draw: u64,
    stage: Stage,
}

impl Lots {
    fn new() -> Lots {
        Lots { draw: 0, stage: Stage::Listens }
    }

    /// Takes part in a draw.
    fn enter(&mut self, cx: &mut Context<'_, Self>, draw: u64) {
        if self.stage == Stage::Leads {
            cx.announce(Announcement::SteppedDown);
        }
        let number = cx.rng().bits();
        (self.draw, self.stage) = (draw, Stage::Counts(number, cx.me()));
        cx.multicast(Message::Lot { draw, number });
        // One delay until all members know of the draw, another until their lots arrive, and one in reserve.
        cx.set_timer(Timer, cx.delay_bound() * 3);
    }

    fn period(&mut self, cx: &mut Context<'_, Self>) {
        cx.multicast(Message::Leads { draw: self.draw });
        cx.set_timer(Timer, cx.delay_bound() * 2);
    }

    fn listen(&mut self, cx: &mut Context<'_, Self>, stage: Stage) {
        self.stage = stage;
        // Three successive messages of a leader may be lost.
        cx.set_timer(Timer, cx.delay_bound() * 8);
    }

    fn on_lot(&mut self, cx: &mut Context<'_, Self>, from: NodeId, draw: u64, number: u64) {
        if draw > self.draw {
            self.enter(cx, draw);
        }
        match &mut self.stage {
            Stage::Counts(best, whose) if draw == self.draw && (number, from) > (*best, *whose) => {
                (*best, *whose) = (number, from);
            }
            // The message is late, or its sender was partitioned.
            Stage::Leads => cx.send(from, Message::Leads { draw: self.draw }),
            _ => {}
        }
    }

    fn on_leads(&mut self, cx: &mut Context<'_, Self>, from: NodeId, draw: u64) {
        // Of two winners of one draw, the one with the greater id leads.
        let yields = self.stage != Stage::Leads || draw > self.draw || from > cx.me();
        if draw >= self.draw && yields {
            self.draw = draw;
            self.listen(cx, Stage::Follows(from));
            cx.announce(Announcement::Elected { leader: from, term: Term(draw) });
        }
    }
}

impl Process for Lots {
    type Message = Message;
    type Timer = Timer;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, _: Start<()>) {
        self.listen(cx, Stage::Listens);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        match message {
            Message::Lot { draw, number } => self.on_lot(cx, from, draw, number),
            Message::Leads { draw } => self.on_leads(cx, from, draw),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, Timer: Timer) {
        match self.stage {
            Stage::Leads => self.period(cx),
            Stage::Counts(_, winner) if winner == cx.me() => {
                self.stage = Stage::Leads;
                cx.announce(Announcement::Elected { leader: winner, term: Term(self.draw) });
                self.period(cx);
            }
            Stage::Counts(..) => self.listen(cx, Stage::Listens),
            Stage::Listens | Stage::Follows(_) => {
                cx.announce(Announcement::Undecided);
                self.enter(cx, self.draw.saturating_add(1));
            }
        }
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        if command == Command::Campaign && self.stage != Stage::Leads {
            self.enter(cx, self.draw.saturating_add(1));
        }
    }
}

/// A run of the simulator: a leader is elected and crashes, and a tenth of the messages is lost until the network heals.
/// Returns the first leader, and the leader that all live members follow at the end.
fn simulate(seed: u64) -> (NodeId, NodeId) {
    let at = |units: u64| Time::ZERO + Span::from_millis(units);
    let latency = Latency::Uniform(Span::from_nanos(100_000), Span::from_millis(1));
    let mut world = World::new(Roster::numbered(MEMBERS), seed, latency, |_| Lots::new());
    world.run(at(30));
    let first = world.facts().leader().unwrap_or_else(|| panic!("seed {seed}: nobody leads"));
    world.schedule_fault(at(30), Fault::Loss(0.1));
    world.schedule_fault(at(31), Fault::Crash(first));
    world.schedule_fault(at(100), Fault::Loss(0.0));
    world.run(at(170));
    let facts = world.facts();
    let leaders: Vec<usize> = facts.up().filter(|&slot| facts.leads(slot)).collect();
    let [leader] = leaders[..] else { panic!("seed {seed}: {leaders:?} lead at once") };
    let id = facts.roster().id(leader);
    for slot in facts.up() {
        assert_eq!(facts.belief(slot).map(|belief| belief.leader), Some(id), "seed {seed}");
    }
    assert_ne!(first, leader, "seed {seed}");
    (facts.roster().id(first), id)
}

/// The same algorithm on UDP over loopback, sealed with a key. In production, each member has its own machine.
async fn start() -> Result<Vec<Handle<Lots>>, Error> {
    let keyring = Keyring::generate()?;
    let mut sockets = Vec::new();
    for id in 1..=MEMBERS as u64 {
        let config = Config::new(NodeId(id), keyring.clone())?;
        sockets.push(Arc::new(Udp::bind(([127, 0, 0, 1], 0).into(), config).await?));
    }
    for socket in &sockets {
        for peer in &sockets {
            socket.set_peer(peer.local(), peer.wire().local_address());
        }
    }
    let settings = Settings {
        roster: Roster::numbered(MEMBERS),
        delay_bound: Span::from_millis(20),
        protocol: Protocol::named("lots"),
        seed: None,
    };
    // Use `DataFolder` instead of `MemoryDisk` for state that must survive a crash.
    let spawn = |socket| spawn(Lots::new(), socket, BootClock, MemoryDisk::default(), settings.clone());
    sockets.into_iter().map(spawn).collect()
}

/// Waits until all members follow one leader.
async fn agreement(members: &[Handle<Lots>]) -> NodeId {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let leader = members[0].belief().leader();
        let agreed = members.iter().all(|member| member.belief().leader() == leader);
        match leader {
            Some(leader) if agreed && members.iter().any(|member| member.me() == leader) => return leader,
            _ => assert!(Instant::now() < deadline, "no agreement within a minute"),
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// The first leader on the network, its successor, and the durations of both elections.
async fn network() -> Result<[(NodeId, Duration); 2], Error> {
    let mut members = start().await?;
    let began = Instant::now();
    let first = agreement(&members).await;
    let took = began.elapsed();
    let place = members.iter().position(|member| member.me() == first).expect("a member leads");
    members.swap_remove(place).stop().await?;
    let gone = Instant::now();
    let second = agreement(&members).await;
    Ok([(first, took), (second, gone.elapsed())])
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    for seed in 0..1_000 {
        simulate(seed);
    }
    println!("simulator: 1000 runs with loss and a crash, and one leader at the end of each");
    let [(first, took), (second, after)] = network().await?;
    println!("UDP: {first} leads after {took:.0?}; it stops, and {second} leads after {after:.0?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fixed seeds. After the loss ends, the runs have 70 delays to agree.
    #[test]
    fn a_leader_is_elected_in_the_simulator() {
        for seed in 0..300 {
            let (first, second) = simulate(seed);
            assert_ne!(first, second, "seed {seed}");
        }
    }

    #[tokio::test]
    async fn a_leader_and_its_successor_are_elected_on_the_network() {
        let [(first, _), (second, _)] = network().await.unwrap();
        assert_ne!(first, second);
    }
}
