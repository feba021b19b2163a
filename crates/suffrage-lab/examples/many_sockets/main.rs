//! A large group in one process, each member on a socket of its own:
//! `cargo run --release -p runtime --example many_sockets -- gupta 500 gossip detector loss=10`.
//!
//! A multicast goes to each member, one after the other; with `gossip`, those that it misses are told by others
//! (bimodal multicast). With `detector`, members watch each other by gossip, too: then the leader is stopped, and
//! they find that out and elect the next. With `loss=N`, N of 100 datagrams are lost.
//!
//! It tells when more than half, and when all, believe in one leader; how much was sent; and what was dropped.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it takes the time")]

mod group;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use suffrage_algorithms::announce::Announce;
use suffrage_algorithms::gupta::Gupta;
use suffrage_algorithms::suppress::Suppress;
use suffrage_core::detectors::{self, gossip};
use suffrage_core::multicast::bimodal;
use suffrage_core::{Algorithm, Detection, NodeId, Span, layers};
use suffrage_node::Error;

use crate::group::{Group, Plan};

/// How long a message may take where five hundred share two processors.
const DELAY_BOUND: Span = Span::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(120);
/// A counter reaches a thousand members within about ten periods, and stands still for twenty with a probability
/// of some e^-10 (gossip.rs).
const WATCH: gossip::Options =
    gossip::Options { period: Span::from_millis(500), fail: Span::from_millis(10_000) };

#[derive(Clone, Copy)]
struct Wish {
    members: u64,
    gossip: bool,
    detector: bool,
    /// In percent.
    loss: u64,
}

async fn agree<A: Algorithm>(group: &Group<A>) -> Option<NodeId> {
    let (mut agreed, began) = (None, Instant::now());
    for share in [0.5, 1.0] {
        match group.agree(share, PATIENCE).await {
            Some((leader, believers, _)) => {
                println!(
                    "{:>8.1?}  {believers} of {} believe in {leader}",
                    began.elapsed(),
                    group.members.len()
                );
                agreed = Some(leader);
            }
            None => println!("{:?} is all there is after {PATIENCE:?}", group.favourite()),
        }
    }
    agreed
}

async fn elect<A: Algorithm>(wish: Wish, algorithm: A::Options) -> Result<bool, Error> {
    let Wish { members, gossip, detector, loss } = wish;
    let options = layers::Options {
        detector: detector.then_some(detectors::Options::Gossip(WATCH)),
        multicast: gossip.then_some(bimodal::Options { fanout: 2, rounds: 5 }),
        algorithm,
    };
    let plan = Plan { members, loss: loss * 10, delay_bound: DELAY_BOUND, options };
    let mut group = Group::<A>::start(&plan).await?;
    println!("{}: {members} sockets, {loss}% of the datagrams lost", A::CONTRACT.name);
    group.campaign().await?;
    let leader = agree(&group).await;
    tell(&group);
    // Without anything that finds the dead, nobody would miss it.
    let missed = detector || A::CONTRACT.detection == Detection::Timeout;
    let Some(leader) = leader.filter(|_| missed) else { return Ok(leader.is_some()) };
    group.stop(leader).await?;
    println!("{leader} stops");
    let next = agree(&group).await;
    tell(&group);
    Ok(next.is_some_and(|next| next != leader))
}

fn tell<A: Algorithm>(group: &Group<A>) {
    let traffic = group.traffic();
    let (sent, megabytes) = (traffic.sent, traffic.bytes as f64 / 1e6);
    println!(
        "          {sent} datagrams sent ({megabytes:.1} MB), {} received, {} lost",
        traffic.received, traffic.lost
    );
    for (reason, count) in traffic.dropped {
        println!("          {count} dropped: {reason}");
    }
}

fn wish(arguments: &[String]) -> Option<Wish> {
    let members = arguments.get(1).map_or(Some(500), |text| text.parse().ok());
    let members = members.filter(|members| (2..=20_000).contains(members))?;
    let mut wish = Wish { members, gossip: false, detector: false, loss: 0 };
    for word in arguments.iter().skip(2) {
        match (word.as_str(), word.strip_prefix("loss=").map(str::parse)) {
            ("gossip", _) => wish.gossip = true,
            ("detector", _) => wish.detector = true,
            (_, Some(Ok(loss @ 0..=90))) => wish.loss = loss,
            _ => return None,
        }
    }
    Some(wish)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("gupta", String::as_str);
    let Some(wish) = wish(&arguments) else {
        eprintln!("usage: many_sockets [ALGORITHM] [MEMBERS] [gossip] [detector] [loss=PERCENT]");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let ended = match name {
        "gupta" => runtime.block_on(elect::<Gupta>(wish, Default::default())),
        "announce" => runtime.block_on(elect::<Announce>(wish, Default::default())),
        "suppress" => runtime.block_on(elect::<Suppress>(wish, Default::default())),
        _ => {
            eprintln!("`{name}` is not for large groups: gupta, announce and suppress are");
            return ExitCode::from(2);
        }
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
