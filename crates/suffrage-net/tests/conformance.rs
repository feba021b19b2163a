//! What every transport must do, asked of each of them: in memory and over UDP.
//!
//! Nothing here depends on how fast it runs. That something is dropped is seen by what is sent after it: both
//! networks hand over in order what nothing delays, so when the latter is there, the former has been judged.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use suffrage_core::NodeId;
use suffrage_net::seal::{Boot, OVERHEAD, Seal};
use suffrage_net::transport::memory::{Network, Port};
use suffrage_net::transport::udp::Socket;
use suffrage_net::transport::{Config, Sealed, Wire};
use suffrage_net::{Dropped, Error, Key, Keyring, SendError, Transport};

/// A network to try a transport on.
trait World {
    type Wire: Wire + std::fmt::Debug;
    async fn new() -> Self;
    async fn node(&self, config: Config<Address<Self>>) -> Result<Sealed<Self::Wire>, Error>;
    /// One that sends and gets bytes as they are.
    async fn raw(&self, id: NodeId) -> Self::Wire;
    fn address(wire: &Self::Wire) -> Address<Self>;
}

type Address<W> = <<W as World>::Wire as Wire>::Address;

impl World for Network {
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

impl World for Loopback {
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

/// Node 1, which knows node 2, which knows nobody.
async fn pair<W: World>(world: &W) -> (Sealed<W::Wire>, Sealed<W::Wire>) {
    let one = world.node(config(ONE)).await.unwrap();
    let two = world.node(config(TWO)).await.unwrap();
    one.set_peer(TWO, W::address(two.wire()));
    (one, two)
}

/// Node 2, an outsider that can send it bytes, and an insider whose datagrams show that it has got so far.
struct Siege<W: World> {
    two: Sealed<W::Wire>,
    one: Sealed<W::Wire>,
    outside: W::Wire,
    /// Of node 5, which has the key.
    seal: Seal,
    _world: W,
}

impl<W: World> Siege<W> {
    async fn new() -> Siege<W> {
        let world = W::new().await;
        let (one, two) = pair(&world).await;
        let outside = world.raw(OUTSIDE).await;
        let seal = Seal::new(NodeId(5), Boot::now().unwrap(), &ring(&[7]));
        Siege { two, one, outside, seal, _world: world }
    }

    fn throw(&self, bytes: &[u8]) {
        self.outside.send_to(bytes, W::address(self.two.wire())).unwrap();
    }

    /// What node 2 takes of what has been sent.
    async fn taken(&self) -> Vec<(NodeId, Vec<u8>)> {
        self.one.send(TWO, b"so far").unwrap();
        let mut taken = Vec::new();
        loop {
            match self.two.receive().await.unwrap() {
                (ONE, _) => return taken,
                received => taken.push(received),
            }
        }
    }

    /// Nothing of these is taken, all are counted so, and nobody is answered.
    async fn all_dropped(&self, datagrams: &[Vec<u8>], reason: Dropped) {
        let (before, all) =
            (self.two.counters().dropped(reason), self.two.counters().snapshot().all_dropped());
        // Few enough at a time for any kernel to keep them all.
        for some in datagrams.chunks(100) {
            some.iter().for_each(|datagram| self.throw(datagram));
            assert_eq!(self.taken().await, [], "{reason:?}");
        }
        assert_eq!(self.two.counters().dropped(reason) - before, datagrams.len() as u64, "{reason:?}");
        assert_eq!(self.two.counters().snapshot().all_dropped() - all, datagrams.len() as u64, "{reason:?}");
        assert_eq!(self.two.counters().snapshot().sent, 0);
    }
}

async fn delivers_whole_and_counts<W: World>() {
    let world = W::new().await;
    let (one, two) = pair(&world).await;
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

async fn answers_where_it_was_heard_from<W: World>() {
    let world = W::new().await;
    let (one, two) = pair(&world).await;
    assert!(matches!(two.send(ONE, b"too early"), Err(SendError::UnknownPeer(ONE))));
    assert_eq!(two.counters().dropped(Dropped::UnknownPeer), 1);
    one.send(TWO, b"ask").unwrap();
    two.receive().await.unwrap();
    two.send(ONE, b"answer").unwrap();
    assert_eq!(one.receive().await.unwrap(), (TWO, b"answer".to_vec()));
}

async fn a_listed_peer_stays_where_it_is_listed<W: World>() {
    let siege = Siege::<W>::new().await;
    siege.two.set_peer(NodeId(5), W::address(siege.one.wire()));
    siege.throw(&siege.seal.seal(TWO, b"from elsewhere"));
    assert_eq!(siege.taken().await.len(), 1);
    assert_eq!(siege.two.address(NodeId(5)), Some(W::address(siege.one.wire())));
}

async fn what_is_too_long_is_not_sent<W: World>() {
    let world = W::new().await;
    let (one, _two) = pair(&world).await;
    let (length, most) = (one.max_payload() + 1, one.max_payload());
    match one.send(TWO, &vec![0; length]) {
        Err(SendError::TooLong { length: l, most: m }) => assert_eq!((l, m), (length, most)),
        other => panic!("{other:?}"),
    }
    assert_eq!(one.counters().dropped(Dropped::Oversized), 1);
    assert_eq!(one.counters().snapshot().sent, 0);
}

async fn sizes_are_limited_as_set<W: World>() {
    let world = W::new().await;
    for size in [0, 255, 65_508] {
        let error = world.node(Config { datagram: size, ..config(ONE) }).await.unwrap_err().to_string();
        assert!(error.contains("from 256 to 65507"), "{error}");
    }
    let large = Config { datagram: 60_000, ..config(ONE) };
    let (one, two) = (world.node(large.clone()).await.unwrap(), pair(&world).await.1);
    let three = world.node(Config { datagram: 60_000, ..config(NodeId(3)) }).await.unwrap();
    one.set_peer(TWO, W::address(two.wire()));
    one.set_peer(NodeId(3), W::address(three.wire()));
    one.send(NodeId(3), &[5; 50_000]).unwrap();
    assert_eq!(three.receive().await.unwrap(), (ONE, vec![5; 50_000]));
    one.send(TWO, &[5; 50_000]).unwrap();
    one.send(TWO, b"short").unwrap();
    assert_eq!(two.receive().await.unwrap().1, b"short");
    assert_eq!(two.counters().dropped(Dropped::Oversized), 1);
}

async fn noise_is_dropped<W: World>() {
    let siege = Siege::<W>::new().await;
    let version = |byte: u8, length: usize| [vec![byte], vec![0x55; length]].concat();
    siege.all_dropped(&[vec![], vec![1], version(1, OVERHEAD - 2)], Dropped::Malformed).await;
    siege.all_dropped(&[vec![0], version(2, 90), version(255, 1_199)], Dropped::WrongVersion).await;
    siege.all_dropped(&[version(1, OVERHEAD - 1), version(1, 1_199)], Dropped::Unauthenticated).await;
    siege.all_dropped(&[version(1, 1_200), version(7, 5_000)], Dropped::Oversized).await;
}

async fn what_was_changed_or_cut_short_is_dropped<W: World>() {
    let siege = Siege::<W>::new().await;
    let datagram = siege.seal.seal(TWO, b"pay 100 to Alice");
    let changed = (8..datagram.len() * 8).map(|bit| {
        let mut changed = datagram.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        changed
    });
    siege.all_dropped(&changed.collect::<Vec<_>>(), Dropped::Unauthenticated).await;
    let short: Vec<_> = (OVERHEAD..datagram.len()).map(|length| datagram[..length].to_vec()).collect();
    siege.all_dropped(&short, Dropped::Unauthenticated).await;
    let shorter: Vec<_> = (0..OVERHEAD).map(|length| datagram[..length].to_vec()).collect();
    siege.all_dropped(&shorter, Dropped::Malformed).await;
    assert_eq!(siege.two.address(NodeId(5)), None, "nothing unauthenticated changes state");
    siege.throw(&datagram);
    assert_eq!(siege.taken().await, [(NodeId(5), b"pay 100 to Alice".to_vec())], "and the true one is taken");
}

async fn another_key_opens_nothing<W: World>() {
    let siege = Siege::<W>::new().await;
    let stranger = Seal::new(NodeId(5), Boot::now().unwrap(), &ring(&[8]));
    siege.all_dropped(&[stranger.seal(TWO, b"x"), stranger.seal(TWO, b"")], Dropped::Unauthenticated).await;
    assert_eq!(siege.two.address(NodeId(5)), None);
    siege.all_dropped(&[siege.seal.seal(ONE, b"x")], Dropped::NotForMe).await;
    assert_eq!(siege.two.address(NodeId(5)), None);
}

async fn nothing_is_taken_twice<W: World>() {
    let siege = Siege::<W>::new().await;
    let later = Seal::new(NodeId(5), Boot::now().unwrap(), &ring(&[7]));
    let datagrams: Vec<_> = (0..50u8).map(|number| siege.seal.seal(TWO, &[number])).collect();
    // Overtaken, but new.
    datagrams.iter().rev().for_each(|datagram| siege.throw(datagram));
    let taken = siege.taken().await;
    assert!(taken.into_iter().rev().enumerate().all(|(number, (_, payload))| payload == [number as u8]));
    siege.all_dropped(&datagrams, Dropped::Replayed).await;
    siege.throw(&later.seal(TWO, b"after a restart"));
    assert_eq!(siege.taken().await.len(), 1);
    siege.all_dropped(&datagrams, Dropped::Stale).await;
    siege.all_dropped(&[siege.seal.seal(TWO, b"never seen, but of an earlier run")], Dropped::Stale).await;
}

async fn keys_are_replaced_without_a_pause<W: World>() {
    let world = W::new().await;
    let (one, two) = pair(&world).await;
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
    let outside = world.raw(OUTSIDE).await;
    outside.send_to(&old.seal(TWO, b"x"), W::address(two.wire())).unwrap();
    exchange().await;
    assert_eq!(two.counters().dropped(Dropped::Unauthenticated), 1);
}

async fn to_give_up_waiting_loses_nothing<W: World>() {
    let world = W::new().await;
    let (one, two) = pair(&world).await;
    for round in 0..20u8 {
        let waited = tokio::time::timeout(Duration::from_millis(1), two.receive()).await;
        assert!(waited.is_err());
        one.send(TWO, &[round]).unwrap();
        assert_eq!(two.receive().await.unwrap(), (ONE, vec![round]));
    }
}

macro_rules! conformance {
    ($($world:ident: $name:ident { $($test:ident),* $(,)? })*) => {
        $(mod $name {
            $(#[tokio::test]
            async fn $test() {
                super::$test::<super::$world>().await;
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
    delivers_whole_and_counts,
    answers_where_it_was_heard_from,
    a_listed_peer_stays_where_it_is_listed,
    what_is_too_long_is_not_sent,
    sizes_are_limited_as_set,
    noise_is_dropped,
    what_was_changed_or_cut_short_is_dropped,
    another_key_opens_nothing,
    nothing_is_taken_twice,
    keys_are_replaced_without_a_pause,
    to_give_up_waiting_loses_nothing,
}

/// A socket of IPv6 takes part in a cluster that is listed by addresses of IPv4.
#[tokio::test]
async fn udp_of_both_families_meets() {
    let four = Sealed::<Socket>::bind(ANY_PORT, config(ONE)).await.unwrap();
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    // Some machines have no IPv6 at all; there is nothing to show on them.
    let Ok(six) = Sealed::<Socket>::bind(any, config(TWO)).await else { return };
    six.set_peer(ONE, four.wire().local_address());
    six.send(ONE, b"ask").unwrap();
    assert_eq!(four.receive().await.unwrap().0, TWO);
    four.send(TWO, b"answer").unwrap();
    assert_eq!(six.receive().await.unwrap().0, ONE);
}

/// An address that takes nothing is told of, and harms nobody.
#[tokio::test]
async fn udp_lives_with_peers_that_are_not_there() {
    let one = Sealed::<Socket>::bind(ANY_PORT, config(ONE)).await.unwrap();
    let gone = Socket::bind(ANY_PORT).await.unwrap().local_address();
    one.set_peer(TWO, gone);
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
