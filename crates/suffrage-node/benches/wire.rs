//! The cost of the wire: `cargo bench -p suffrage-node --bench wire`.
//!
//! Each value is the best of many short rounds, so that other load on the machine matters little. A memory copy is
//! measured as well, to distinguish a slow machine from a slow program.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it takes the time")]

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use suffrage_core::NodeId;
use suffrage_core::Span;
use suffrage_lease::{Ask, Body, Name, Request, Token};
use suffrage_net::codec::{Envelope, Protocol};
use suffrage_net::seal::{Boot, Seal};
use suffrage_net::transport::udp::Udp;
use suffrage_net::transport::{Config, MAX_PAYLOAD};
use suffrage_net::{Keyring, Transport};
use suffrage_node::storage::DataFolder;

const ROUNDS: usize = 500;
/// The number of calls in a round.
const CALLS: u32 = 50;

/// The best time for one call.
fn time(rounds: usize, mut call: impl FnMut()) -> Duration {
    let round = || {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed() / CALLS
    };
    std::iter::repeat_with(round).take(rounds).min().unwrap_or_default()
}

fn show(what: &str, each: Duration) {
    println!("{what:<58} {:>9.2} us", each.as_secs_f64() * 1e6);
}

fn seals(keyring: &Keyring) {
    let [one, two] = [1, 2].map(|id| Seal::new(NodeId(id), Boot::now().expect("randomness"), keyring));
    for length in [40, MAX_PAYLOAD, 8_000] {
        let payload = vec![7; length];
        show(&format!("seal {length} bytes"), time(ROUNDS, || _ = black_box(one.seal(NodeId(2), &payload))));
        let datagram = one.seal(NodeId(2), &payload);
        show(&format!("open {length} bytes"), time(ROUNDS, || _ = black_box(two.open(&datagram))));
        show(&format!("copy {length} bytes"), time(ROUNDS, || _ = black_box(payload.clone())));
    }
    let noise = vec![1; 1_200];
    show("refuse 1200 bytes of noise", time(ROUNDS, || _ = black_box(two.open(&noise))));
}

/// As many renewals as fit into one datagram.
fn envelopes() {
    let protocol = Protocol::named("quorum-lease");
    let renewal = |number: u64| {
        let propose = Ask::Propose {
            request: Request(number << 40),
            token: Token::after(number),
            ttl: Span::from_millis(3_000),
            attribute: 1,
            renewal: true,
            value: suffrage_lease::ValueVersion::NONE,
        };
        (Name::of(&number.to_string()), Body::Ask(propose))
    };
    let renewals: Vec<(Name, Body)> = (0..100).map(renewal).collect();
    let fill = || {
        let mut envelope = Envelope::new(protocol, MAX_PAYLOAD);
        let fits = |message: &&(Name, Body)| envelope.push(*message).expect("it is short");
        let count = renewals.iter().take_while(fits).count() as u32;
        (envelope, count)
    };
    let count = fill().1;
    let each = time(ROUNDS, || _ = black_box(fill()));
    show(&format!("encode a renewal, {count} to a datagram"), each / count);
    let envelope = fill().0;
    let each = time(ROUNDS, || _ = black_box(protocol.decode::<(Name, Body)>(envelope.as_bytes())));
    show("decode a renewal", each / count);
}

fn storage() {
    let path = std::env::temp_dir().join(format!("suffrage-bench-{}", std::process::id()));
    let folder = DataFolder::create(&path, NodeId(1)).expect("a new folder");
    let mut file = folder.file::<[u64; 4]>("state");
    show(
        "save 32 bytes durably (file, rename, folder)",
        time(1, || file.save(&[1; 4]).expect("there is room")),
    );
    drop(folder);
    std::fs::remove_dir_all(path).expect("it was made here");
}

async fn udp(keyring: &Keyring) {
    let mut nodes = Vec::new();
    for id in [1, 2] {
        let config = Config::new(NodeId(id), keyring.clone()).expect("randomness");
        nodes
            .push(Udp::bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0), config).await.expect("a socket"));
    }
    let [one, two] = &nodes[..] else { return };
    one.set_peer(NodeId(2), two.wire().local_address());
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..CALLS {
            one.send(NodeId(2), &[0; 40]).expect("room");
            two.receive().await.expect("it was sent");
            two.send(NodeId(1), &[0; 40]).expect("room");
            one.receive().await.expect("it was sent");
        }
        best = best.min(start.elapsed() / CALLS);
    }
    show("ask and answer over loopback, one thread", best);
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        (0..CALLS).for_each(|_| one.send(NodeId(2), &[0; MAX_PAYLOAD]).expect("room"));
        for _ in 0..CALLS {
            two.receive().await.expect("it was sent");
        }
        best = best.min(start.elapsed() / CALLS);
    }
    show("send and receive 1200 bytes over loopback, one thread", best);
}

fn main() {
    let keyring = Keyring::generate().expect("randomness");
    seals(&keyring);
    envelopes();
    storage();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(udp(&keyring));
}
