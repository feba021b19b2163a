//! A large group in one process, each member on a socket of its own:
//! `cargo run --release -p runtime --example many_sockets -- suppress 500 gossip`.
//!
//! A multicast goes to each member, one after the other; with `gossip`, those that it misses are told by others
//! (bimodal multicast). One member is told to campaign. It tells when more than half, and when all, believe in one leader; how much
//! was sent; and what was dropped.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it takes the time")]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use election::algorithms::announce::Announce;
use election::algorithms::suppress::Suppress;
use election::layers::{self, Stack};
use election::multicast::bimodal;
use election::{Algorithm, Command, NodeId, Roster, Span};
use runtime::clock::BootClock;
use runtime::codec::Protocol;
use runtime::driver::{self, Handle, Settings};
use runtime::storage::MemoryDisk;
use runtime::transport::Config;
use runtime::transport::udp::Udp;
use runtime::{Dropped, Error, Keyring, Snapshot, Transport};

/// How long a message may take where five hundred share two processors.
const DELAY_BOUND: Span = Span::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(60);

async fn connect(count: u64) -> Result<Vec<Arc<Udp>>, Error> {
    let keyring = Keyring::generate()?;
    let mut nodes = Vec::new();
    for id in (1..=count).map(NodeId) {
        // Room for what a large group gossips about.
        let config = Config { datagram: 16_000, ..Config::new(id, keyring.clone())? };
        nodes.push(Arc::new(Udp::bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0), config).await?));
    }
    for node in &nodes {
        for peer in &nodes {
            node.set_peer(peer.local(), peer.wire().local_address());
        }
    }
    Ok(nodes)
}

/// Whom most believe in, and how many do.
fn favourite<P>(members: &[Handle<P>]) -> Option<(NodeId, usize)> {
    let mut votes = BTreeMap::new();
    for leader in members.iter().filter_map(|member| member.belief().leader()) {
        *votes.entry(leader).or_insert(0) += 1;
    }
    votes.into_iter().max_by_key(|&(_, count)| count)
}

async fn elect<A: Algorithm>(count: u64, gossip: bool) -> Result<bool, Error> {
    let nodes = connect(count).await?;
    println!("{}: {count} sockets", A::CONTRACT.name);
    let multicast = gossip.then_some(bimodal::Options { fanout: 2, rounds: 5 });
    let options = layers::Options { detector: None, multicast, algorithm: A::Options::default() };
    let start = |node: &Arc<Udp>| {
        let settings = Settings {
            roster: Roster::numbered(count as usize),
            delay_bound: DELAY_BOUND,
            protocol: Protocol::named(A::CONTRACT.name),
            seed: None,
        };
        let process = <Stack<A> as Algorithm>::new(node.local(), &options);
        driver::spawn(process, Arc::clone(node), BootClock, MemoryDisk::default(), settings)
    };
    let members: Vec<Handle<Stack<A>>> = nodes.iter().map(start).collect::<Result<_, _>>()?;
    let began = Instant::now();
    members[0].command(Command::Campaign).await?;
    let mut most = false;
    let all = loop {
        let found = favourite(&members).filter(|&(_, believers)| believers > members.len() / 2);
        if let Some((leader, believers)) = found {
            if !most {
                println!("{:>8.0?}  {believers} believe in {leader}", began.elapsed());
                most = true;
            }
            if believers == members.len() {
                println!("{:>8.0?}  all believe in {leader}", began.elapsed());
                break true;
            }
        }
        if began.elapsed() > PATIENCE {
            println!("{:>8.0?}  {found:?} is all there is", began.elapsed());
            break false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let counted: Vec<Snapshot> = nodes.iter().map(|node| node.counters().snapshot()).collect();
    let sum = |of: &dyn Fn(&Snapshot) -> u64| counted.iter().map(of).sum::<u64>();
    println!("{} datagrams sent, {} received", sum(&|it| it.sent), sum(&|it| it.received));
    for reason in Dropped::ALL {
        match sum(&|it| it.dropped(reason)) {
            0 => {}
            dropped => println!("{dropped} dropped: {}", reason.name()),
        }
    }
    Ok(all || most)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("announce", String::as_str);
    let count = arguments.get(1).map_or(Ok(500), |text| text.parse());
    let gossip = match arguments.get(2).map(String::as_str) {
        None => Some(false),
        Some("gossip") => Some(true),
        Some(_) => None,
    };
    let (Ok(count @ 1..=20_000), Some(gossip), 0..=3) = (count, gossip, arguments.len()) else {
        eprintln!("usage: many_sockets [ALGORITHM] [COUNT] [gossip]");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let ended = match name {
        "announce" => runtime.block_on(elect::<Announce>(count, gossip)),
        "suppress" => runtime.block_on(elect::<Suppress>(count, gossip)),
        _ => {
            eprintln!("`{name}` is not for large groups: announce and suppress are");
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
