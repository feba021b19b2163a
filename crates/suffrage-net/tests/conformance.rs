//! Conformance suite of the transports, run in memory and over UDP.
//!
//! No test depends on timing. A drop is observed by a datagram that is sent after it: both networks deliver
//! undelayed datagrams in order, so when the latter has arrived, the former has been processed.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use suffrage_core::NodeId;
use suffrage_net::seal::{Boot, OVERHEAD, Seal};
use suffrage_net::transport::memory::{Network, Port};
use suffrage_net::transport::udp::Socket;
use suffrage_net::transport::{Config, HEARD_RECENTLY, Sealed, Wire};
use suffrage_net::{Dropped, Error, Key, Keyring, SendError, Transport};

/// A network under test.
trait TestNetwork {
    type Wire: Wire + std::fmt::Debug;
    async fn new() -> Self;
    async fn node(&self, config: Config<Address<Self>>) -> Result<Sealed<Self::Wire>, Error>;
    /// Connects a wire that sends and receives raw bytes.
    async fn raw(&self, id: NodeId) -> Self::Wire;
    fn address(wire: &Self::Wire) -> Address<Self>;
}

type Address<W> = <<W as TestNetwork>::Wire as Wire>::Address;

impl TestNetwork for Network {
    type Wire = Port;
    async fn new() -> Network {
        Network::new(1)
    }
    async fn node(&self, config: Config<NodeId>) -> Result<Sealed<Port>, Error> {
        self.attach(config)
    }
    async fn raw(&self, id: NodeId) -> Port {
        self.port(id)
    }
    fn address(wire: &Port) -> NodeId {
        wire.id()
    }
}

struct Loopback;

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl TestNetwork for Loopback {
    type Wire = Socket;
    async fn new() -> Loopback {
        Loopback
    }
    async fn node(&self, config: Config<SocketAddr>) -> Result<Sealed<Socket>, Error> {
        Sealed::<Socket>::bind(ANY_PORT, config).await
    }
    async fn raw(&self, _: NodeId) -> Socket {
        Socket::bind(ANY_PORT).await.unwrap()
    }
    fn address(wire: &Socket) -> SocketAddr {
        wire.local_address()
    }
}

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);
const OUTSIDE: NodeId = NodeId(9);

fn ring(seeds: &[u8]) -> Keyring {
    Keyring::new(seeds.iter().map(|&seed| Key::new([seed; 32])).collect()).unwrap()
}

fn config<A>(id: NodeId) -> Config<A> {
    Config::new(id, ring(&[7])).unwrap()
}

/// Node 1, which knows node 2, and node 2, which knows no peer.
async fn pair<W: TestNetwork>(network: &W) -> (Sealed<W::Wire>, Sealed<W::Wire>) {
    let one = network.node(config(ONE)).await.unwrap();
    let two = network.node(config(TWO)).await.unwrap();
    one.set_peer(TWO, W::address(two.wire()));
    (one, two)
}

/// Node 2 under attack: an outsider that sends it raw bytes, and a member whose datagrams show how far node 2 has
/// processed its queue.
struct Attack<W: TestNetwork> {
    two: Sealed<W::Wire>,
    one: Sealed<W::Wire>,
    outside: W::Wire,
    /// The seal of node 5, which has the key.
    seal: Seal,
    _world: W,
}

impl<W: TestNetwork> Attack<W> {
    async fn new() -> Attack<W> {
        let network = W::new().await;
        let (one, two) = pair(&network).await;
        let outside = network.raw(OUTSIDE).await;
        let seal = Seal::new(NodeId(5), Boot::now().unwrap(), &ring(&[7]));
        Attack { two, one, outside, seal, _world: network }
    }

    fn inject(&self, bytes: &[u8]) {
        self.outside.send_to(bytes, W::address(self.two.wire())).unwrap();
    }

    /// The injected datagrams that node 2 accepts.
    async fn accepted(&self) -> Vec<(NodeId, Vec<u8>)> {
        self.one.send(TWO, b"so far").unwrap();
        let mut accepted = Vec::new();
        loop {
            match self.two.receive().await.unwrap() {
                (ONE, _) => return accepted,
                received => accepted.push(received),
            }
        }
    }

    /// Checks that all datagrams are dropped, counted with this reason, and not answered.
    async fn all_dropped(&self, datagrams: &[Vec<u8>], reason: Dropped) {
        let (before, all) =
            (self.two.counters().dropped(reason), self.two.counters().snapshot().all_dropped());
        // Small batches, so that the kernel's buffer holds them all.
        for some in datagrams.chunks(100) {
            some.iter().for_each(|datagram| self.inject(datagram));
            assert_eq!(self.accepted().await, [], "{reason:?}");
        }
        assert_eq!(self.two.counters().dropped(reason) - before, datagrams.len() as u64, "{reason:?}");
        assert_eq!(self.two.counters().snapshot().all_dropped() - all, datagrams.len() as u64, "{reason:?}");
        assert_eq!(self.two.counters().snapshot().sent, 0);
    }
}

async fn payloads_are_delivered_completely_and_counted<W: TestNetwork>() {
    let network = W::new().await;
    let (one, two) = pair(&network).await;
    let most = one.max_payload();
    for length in [0, 1, 100, most] {
        let payload: Vec<u8> = (0..length).map(|place| place as u8).collect();
        one.send(TWO, &payload).unwrap();
        assert_eq!(two.receive().await.unwrap(), (ONE, payload));
    }
    let (sent, received) = (one.counters().snapshot(), two.counters().snapshot());
    let bytes = (101 + most + 4 * OVERHEAD) as u64;
    assert_eq!((sent.sent, sent.sent_bytes), (4, bytes));
    assert_eq!((received.received, received.received_bytes), (4, bytes));
    assert_eq!((sent.all_dropped(), received.all_dropped()), (0, 0));
}

async fn answers_go_to_the_source_of_the_last_datagram<W: TestNetwork>() {
    let network = W::new().await;
    let (one, two) = pair(&network).await;
    assert!(matches!(two.send(ONE, b"too early"), Err(SendError::UnknownPeer(ONE))));
    assert_eq!(two.counters().dropped(Dropped::UnknownPeer), 1);
    one.send(TWO, b"ask").unwrap();
    two.receive().await.unwrap();
    two.send(ONE, b"answer").unwrap();
    assert_eq!(one.receive().await.unwrap(), (TWO, b"answer".to_vec()));
}

async fn a_configured_peer_is_answered_where_it_is<W: TestNetwork>() {
    let attack = Attack::<W>::new().await;
    let (configured, moved) = (W::address(attack.one.wire()), W::address(&attack.outside));
    attack.two.set_peer(NodeId(5), configured);
    assert_eq!(attack.two.address(NodeId(5)), Some(configured));
    assert_eq!(attack.two.last_heard(NodeId(5)), None);
    let datagram = attack.seal.seal(TWO, b"from elsewhere");
    attack.inject(&datagram);
    assert_eq!(attack.accepted().await.len(), 1);
    assert_eq!(attack.two.address(NodeId(5)), Some(moved));
    assert!(attack.two.last_heard(NodeId(5)).is_some());
    attack.two.send(NodeId(5), b"answer").unwrap();
    let mut buffer = [0; 2_000];
    let (length, _) = attack.outside.receive_from(&mut buffer).await.unwrap();
    assert!(length > OVERHEAD, "the answer arrives where the peer is");
    // Neither a replay from elsewhere nor a new configured address changes that.
    attack.one.wire().send_to(&datagram, W::address(attack.two.wire())).unwrap();
    assert_eq!(attack.accepted().await, []);
    attack.two.set_peer(NodeId(5), configured);
    assert_eq!(attack.two.address(NodeId(5)), Some(moved));
}

async fn oversized_payloads_are_not_sent<W: TestNetwork>() {
    let network = W::new().await;
    let (one, _two) = pair(&network).await;
    let (length, most) = (one.max_payload() + 1, one.max_payload());
    match one.send(TWO, &vec![0; length]) {
        Err(SendError::TooLong { length: l, most: m }) => assert_eq!((l, m), (length, most)),
        other => panic!("{other:?}"),
    }
    assert_eq!(one.counters().dropped(Dropped::Oversized), 1);
    assert_eq!(one.counters().snapshot().sent, 0);
}

async fn datagram_sizes_are_limited_as_configured<W: TestNetwork>() {
    let network = W::new().await;
    for size in [0, 255, 65_508] {
        let error = network.node(Config { datagram: size, ..config(ONE) }).await.unwrap_err().to_string();
        assert!(error.contains("from 256 to 65507"), "{error}");
    }
    let large = Config { datagram: 60_000, ..config(ONE) };
    let (one, two) = (network.node(large.clone()).await.unwrap(), pair(&network).await.1);
    let three = network.node(Config { datagram: 60_000, ..config(NodeId(3)) }).await.unwrap();
    one.set_peer(TWO, W::address(two.wire()));
    one.set_peer(NodeId(3), W::address(three.wire()));
    one.send(NodeId(3), &[5; 50_000]).unwrap();
    assert_eq!(three.receive().await.unwrap(), (ONE, vec![5; 50_000]));
    one.send(TWO, &[5; 50_000]).unwrap();
    one.send(TWO, b"short").unwrap();
    assert_eq!(two.receive().await.unwrap().1, b"short");
    assert_eq!(two.counters().dropped(Dropped::Oversized), 1);
}

async fn noise_is_dropped<W: TestNetwork>() {
    let attack = Attack::<W>::new().await;
    let version = |byte: u8, length: usize| [vec![byte], vec![0x55; length]].concat();
    attack.all_dropped(&[vec![], vec![1], version(1, OVERHEAD - 2)], Dropped::Malformed).await;
    attack.all_dropped(&[vec![0], version(2, 90), version(255, 1_199)], Dropped::WrongVersion).await;
    attack.all_dropped(&[version(1, OVERHEAD - 1), version(1, 1_199)], Dropped::Unauthenticated).await;
    attack.all_dropped(&[version(1, 1_200), version(7, 5_000)], Dropped::Oversized).await;
}

async fn modified_and_truncated_datagrams_are_dropped<W: TestNetwork>() {
    let attack = Attack::<W>::new().await;
    let datagram = attack.seal.seal(TWO, b"pay 100 to Alice");
    let changed = (8..datagram.len() * 8).map(|bit| {
        let mut changed = datagram.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        changed
    });
    attack.all_dropped(&changed.collect::<Vec<_>>(), Dropped::Unauthenticated).await;
    let short: Vec<_> = (OVERHEAD..datagram.len()).map(|length| datagram[..length].to_vec()).collect();
    attack.all_dropped(&short, Dropped::Unauthenticated).await;
    let shorter: Vec<_> = (0..OVERHEAD).map(|length| datagram[..length].to_vec()).collect();
    attack.all_dropped(&shorter, Dropped::Malformed).await;
    assert_eq!(attack.two.address(NodeId(5)), None, "nothing unauthenticated changes state");
    attack.inject(&datagram);
    assert_eq!(
        attack.accepted().await,
        [(NodeId(5), b"pay 100 to Alice".to_vec())],
        "the unmodified datagram is accepted"
    );
}

async fn datagrams_with_another_key_or_addressee_are_dropped<W: TestNetwork>() {
    let attack = Attack::<W>::new().await;
    let outsider = Seal::new(NodeId(5), Boot::now().unwrap(), &ring(&[8]));
    attack.all_dropped(&[outsider.seal(TWO, b"x"), outsider.seal(TWO, b"")], Dropped::Unauthenticated).await;
    assert_eq!(attack.two.address(NodeId(5)), None);
    attack.all_dropped(&[attack.seal.seal(ONE, b"x")], Dropped::NotForMe).await;
    assert_eq!(attack.two.address(NodeId(5)), None);
}

async fn no_datagram_is_accepted_twice<W: TestNetwork>() {
    let attack = Attack::<W>::new().await;
    let later = Seal::new(NodeId(5), Boot::now().unwrap(), &ring(&[7]));
    let datagrams: Vec<_> = (0..50u8).map(|number| attack.seal.seal(TWO, &[number])).collect();
    // Reordered, but new.
    datagrams.iter().rev().for_each(|datagram| attack.inject(datagram));
    let accepted = attack.accepted().await;
    assert!(accepted.into_iter().rev().enumerate().all(|(number, (_, payload))| payload == [number as u8]));
    attack.all_dropped(&datagrams, Dropped::Replayed).await;
    attack.inject(&later.seal(TWO, b"after a restart"));
    assert_eq!(attack.accepted().await.len(), 1);
    assert_eq!(attack.two.counters().stale_sender(), None);
    attack.all_dropped(&datagrams, Dropped::Stale).await;
    assert_eq!(attack.two.counters().stale_sender(), Some(NodeId(5)));
    attack.all_dropped(&[attack.seal.seal(TWO, b"never seen, but of an earlier run")], Dropped::Stale).await;
}

async fn keys_are_rotated_without_interruption<W: TestNetwork>() {
    let network = W::new().await;
    let (one, two) = pair(&network).await;
    let exchange = async || {
        one.send(TWO, b"ask").unwrap();
        two.receive().await.unwrap();
        two.send(ONE, b"answer").unwrap();
        one.receive().await.unwrap();
    };
    exchange().await;
    for step in [&[7, 8][..], &[8, 7], &[8]] {
        for node in [&one, &two] {
            node.rekey(&ring(step));
            exchange().await;
        }
    }
    assert_eq!(one.counters().snapshot().all_dropped() + two.counters().snapshot().all_dropped(), 0);
    let old = Seal::new(NodeId(5), Boot::now().unwrap(), &ring(&[7]));
    let outside = network.raw(OUTSIDE).await;
    outside.send_to(&old.seal(TWO, b"x"), W::address(two.wire())).unwrap();
    exchange().await;
    assert_eq!(two.counters().dropped(Dropped::Unauthenticated), 1);
}

async fn receive_is_cancel_safe<W: TestNetwork>() {
    let network = W::new().await;
    let (one, two) = pair(&network).await;
    for round in 0..20u8 {
        let waited = tokio::time::timeout(Duration::from_millis(1), two.receive()).await;
        assert!(waited.is_err());
        one.send(TWO, &[round]).unwrap();
        assert_eq!(two.receive().await.unwrap(), (ONE, vec![round]));
    }
}

macro_rules! conformance {
    ($($network:ident: $name:ident { $($test:ident),* $(,)? })*) => {
        $(mod $name {
            $(#[tokio::test]
            async fn $test() {
                super::$test::<super::$network>().await;
            })*
        })*
    };
}

macro_rules! every_transport {
    ($($tests:tt)*) => {
        conformance! { Network: memory { $($tests)* } Loopback: udp { $($tests)* } }
    };
}

every_transport! {
    payloads_are_delivered_completely_and_counted,
    answers_go_to_the_source_of_the_last_datagram,
    a_configured_peer_is_answered_where_it_is,
    oversized_payloads_are_not_sent,
    datagram_sizes_are_limited_as_configured,
    noise_is_dropped,
    modified_and_truncated_datagrams_are_dropped,
    datagrams_with_another_key_or_addressee_are_dropped,
    no_datagram_is_accepted_twice,
    keys_are_rotated_without_interruption,
    receive_is_cancel_safe,
}

/// An IPv6 socket takes part in a cluster with IPv4 addresses.
#[tokio::test]
async fn udp_sockets_of_both_address_families_communicate() {
    let four = Sealed::<Socket>::bind(ANY_PORT, config(ONE)).await.unwrap();
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    // Some machines have no IPv6; the test is skipped there.
    let Ok(six) = Sealed::<Socket>::bind(any, config(TWO)).await else { return };
    six.set_peer(ONE, four.wire().local_address());
    six.send(ONE, b"ask").unwrap();
    assert_eq!(four.receive().await.unwrap().0, TWO);
    four.send(TWO, b"answer").unwrap();
    assert_eq!(six.receive().await.unwrap().0, ONE);
}

/// An unreachable address is reported, and does not affect other peers.
#[tokio::test]
async fn udp_tolerates_unreachable_peers() {
    let one = Sealed::<Socket>::bind(ANY_PORT, config(ONE)).await.unwrap();
    let closed = Socket::bind(ANY_PORT).await.unwrap().local_address();
    one.set_peer(TWO, closed);
    for _ in 0..20 {
        one.send(TWO, b"x").unwrap();
    }
    let unreachable = SocketAddr::new(Ipv4Addr::new(0, 0, 0, 0).into(), 0);
    one.set_peer(NodeId(3), unreachable);
    assert!(matches!(one.send(NodeId(3), b"x"), Err(SendError::Io(_))));
    assert_eq!(one.counters().dropped(Dropped::Refused), 1);
    one.set_peer(ONE, one.wire().local_address());
    one.send(ONE, b"to itself").unwrap();
    assert_eq!(one.receive().await.unwrap(), (ONE, b"to itself".to_vec()));
}

/// A peer that is not heard for a while may have returned to its configured address: it gets each datagram at both.
#[tokio::test(start_paused = true)]
async fn a_peer_that_has_fallen_silent_is_sought_at_both_addresses() {
    let network = Network::new(1);
    let two = network.attach(config(TWO)).unwrap();
    let [configured, moved] = [OUTSIDE, NodeId(10)].map(|id| network.port(id));
    two.set_peer(NodeId(5), configured.id());
    let seal = Seal::new(NodeId(5), Boot::now().unwrap(), &ring(&[7]));
    moved.send_to(&seal.seal(TWO, b"ask"), TWO).unwrap();
    two.receive().await.unwrap();
    let arrives = async |port: &Port| {
        let mut buffer = [0; 2_000];
        tokio::time::timeout(Duration::from_millis(1), port.receive_from(&mut buffer)).await.is_ok()
    };
    two.send(NodeId(5), b"answer").unwrap();
    assert!(arrives(&moved).await && !arrives(&configured).await);
    tokio::time::sleep(HEARD_RECENTLY).await;
    two.send(NodeId(5), b"question").unwrap();
    assert!(arrives(&moved).await && arrives(&configured).await);
    configured.send_to(&seal.seal(TWO, b"back"), TWO).unwrap();
    two.receive().await.unwrap();
    two.send(NodeId(5), b"answer").unwrap();
    assert!(!arrives(&moved).await && arrives(&configured).await);
}

/// A wire on which an invalid datagram is always ready.
#[derive(Debug)]
struct JunkFlood;

impl Wire for JunkFlood {
    type Address = u8;
    fn send_to(&self, _: &[u8], _: u8) -> io::Result<()> {
        Ok(())
    }
    async fn receive_from(&self, buffer: &mut [u8]) -> io::Result<(usize, u8)> {
        buffer[..100].fill(0x55);
        Ok((100, 0))
    }
}

/// The test would hang if `receive` did not return control to its task.
#[tokio::test(start_paused = true)]
async fn a_flood_of_invalid_datagrams_leaves_other_branches_their_turn() {
    let transport = Sealed::new(JunkFlood, config(ONE)).unwrap();
    for round in 1..=10 {
        tokio::select! {
            biased;
            received = transport.receive() => panic!("junk was received: {received:?}"),
            () = tokio::task::yield_now() => {}
        }
        let dropped = transport.counters().snapshot().all_dropped();
        assert!((1..=100 * round).contains(&dropped), "{dropped} datagrams in {round} rounds");
    }
}
