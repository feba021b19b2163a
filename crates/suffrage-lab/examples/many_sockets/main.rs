//! A large group in one process, each member with its own socket:
//! `cargo run --release -p suffrage-lab --example many_sockets -- gupta 500 gossip detector loss=10`.
//!
//! A multicast is a datagram to each member. With `gossip`, members forward it to those that missed it (bimodal
//! multicast). With `detector`, members also have a gossip failure detector: the leader is stopped, and the others
//! detect it and elect the next leader. With `loss=N`, N of 100 datagrams are lost.
//!
//! The example prints when more than half and when all members believe in one leader, and the numbers of sent and
//! dropped datagrams.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "measures real time")]

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

/// The delay bound for five hundred members on two processors.
const DELAY_BOUND: Span = Span::from_millis(100);
/// The longest wait for an agreement.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(120);
/// The failure detector. A counter reaches a thousand members within about ten periods; the probability that it
/// does not change for twenty is about e^-10 (gossip.rs).
const DETECTOR: gossip::Options =
    gossip::Options { period: Span::from_millis(500), fail: Span::from_millis(10_000) };

#[derive(Clone, Copy)]
struct Arguments {
    members: u64,
    gossip: bool,
    detector: bool,
    /// In percent.
    loss: u64,
}

async fn agree<A: Algorithm>(group: &Group<A>) -> Option<NodeId> {
    let (mut agreed, start) = (None, Instant::now());
    for share in [0.5, 1.0] {
        match group.agree(share, AGREEMENT_TIMEOUT).await {
            Some((leader, believers, _)) => {
                println!(
                    "{:>8.1?}  {believers} of {} believe in {leader}",
                    start.elapsed(),
                    group.members.len()
                );
                agreed = Some(leader);
            }
            None => println!("no agreement after {AGREEMENT_TIMEOUT:?}: {:?}", group.most_believed()),
        }
    }
    agreed
}

async fn elect<A: Algorithm>(arguments: Arguments, algorithm: A::Options) -> Result<bool, Error> {
    let Arguments { members, gossip, detector, loss } = arguments;
    let options = layers::Options {
        detector: detector.then_some(detectors::Options::Gossip(DETECTOR)),
        multicast: gossip.then_some(bimodal::Options { fanout: 2, rounds: 5 }),
        algorithm,
    };
    let plan = Plan { members, loss: loss * 10, delay_bound: DELAY_BOUND, options };
    let mut group = Group::<A>::start(&plan).await?;
    println!("{}: {members} sockets, {loss}% of the datagrams lost", A::CONTRACT.name);
    group.campaign().await?;
    let leader = agree(&group).await;
    print_traffic(&group);
    // Without a detector or a time-out, no member would detect the stop.
    let detects = detector || A::CONTRACT.detection == Detection::Timeout;
    let Some(leader) = leader.filter(|_| detects) else { return Ok(leader.is_some()) };
    group.stop(leader).await?;
    println!("{leader} stops");
    let next = agree(&group).await;
    print_traffic(&group);
    Ok(next.is_some_and(|next| next != leader))
}

fn print_traffic<A: Algorithm>(group: &Group<A>) {
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

fn parse(words: &[String]) -> Option<Arguments> {
    let members = words.get(1).map_or(Some(500), |text| text.parse().ok());
    let members = members.filter(|members| (2..=20_000).contains(members))?;
    let mut arguments = Arguments { members, gossip: false, detector: false, loss: 0 };
    for word in words.iter().skip(2) {
        match (word.as_str(), word.strip_prefix("loss=").map(str::parse)) {
            ("gossip", _) => arguments.gossip = true,
            ("detector", _) => arguments.detector = true,
            (_, Some(Ok(loss @ 0..=90))) => arguments.loss = loss,
            _ => return None,
        }
    }
    Some(arguments)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let name = words.first().map_or("gupta", String::as_str);
    let Some(arguments) = parse(&words) else {
        eprintln!("usage: many_sockets [ALGORITHM] [MEMBERS] [gossip] [detector] [loss=PERCENT]");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let result = match name {
        "gupta" => runtime.block_on(elect::<Gupta>(arguments, Default::default())),
        "announce" => runtime.block_on(elect::<Announce>(arguments, Default::default())),
        "suppress" => runtime.block_on(elect::<Suppress>(arguments, Default::default())),
        _ => {
            eprintln!("`{name}` is not for large groups; use gupta, announce or suppress");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
