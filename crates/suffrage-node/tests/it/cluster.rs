//! Every algorithm of the catalog as a cluster: in memory with virtual time, and on real sockets.
//!
//! All nodes campaign and agree on a leader. The leader crashes, and the remaining nodes agree on another, if the
//! algorithm allows it with so few.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use suffrage_algorithms::catalog::{self, CONTRACTS};
use suffrage_core::Visitor;
use suffrage_core::detectors::{self, heartbeat};
use suffrage_core::layers::{self, Stack};
use suffrage_core::multicast::bimodal;
use suffrage_core::{Algorithm, Command, Detection, NodeId, Roster, Safety, Span, Time, Topology};
use suffrage_net::codec::Protocol;
use suffrage_net::transport::Config;
use suffrage_net::transport::memory::{Memory, Network};
use suffrage_net::transport::udp::Udp;
use suffrage_net::{Counters, Keyring, SendError, Transport};
use suffrage_node::clock::{BootClock, Clock, TokioClock};
use suffrage_node::driver::{self, Handle, Settings};
use suffrage_node::storage::MemoryDisk;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// The timeout for agreement. An election takes a few seconds, and longer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// The transport of a member: one type for memory and UDP, so that every algorithm is compiled once.
enum Line {
    Memory(Memory),
    Udp(Udp),
}

impl Transport for Line {
    fn local(&self) -> NodeId {
        match self {
            Line::Memory(line) => line.local(),
            Line::Udp(line) => line.local(),
        }
    }
    fn max_payload(&self) -> usize {
        match self {
            Line::Memory(line) => line.max_payload(),
            Line::Udp(line) => line.max_payload(),
        }
    }
    fn send(&self, to: NodeId, payload: &[u8]) -> Result<(), SendError> {
        match self {
            Line::Memory(line) => line.send(to, payload),
            Line::Udp(line) => line.send(to, payload),
        }
    }
    async fn receive(&self) -> io::Result<(NodeId, Vec<u8>)> {
        match self {
            Line::Memory(line) => line.receive().await,
            Line::Udp(line) => line.receive().await,
        }
    }
    fn counters(&self) -> &Counters {
        match self {
            Line::Memory(line) => line.counters(),
            Line::Udp(line) => line.counters(),
        }
    }
}

/// The clock of tokio, which can be paused, or the clock of the machine.
#[derive(Clone, Copy)]
enum Watch {
    Tokio(TokioClock),
    Boot(BootClock),
}

impl Clock for Watch {
    fn now(&self) -> Time {
        match self {
            Watch::Tokio(clock) => clock.now(),
            Watch::Boot(clock) => clock.now(),
        }
    }
    async fn sleep_until(&self, time: Time) {
        match self {
            Watch::Tokio(clock) => clock.sleep_until(time).await,
            Watch::Boot(clock) => clock.sleep_until(time).await,
        }
    }
}

/// The environment of a cluster.
#[derive(Clone, Copy)]
enum Ground {
    Memory,
    Loopback,
}

impl Ground {
    /// The delay bound of messages. Timers have a resolution of 1 ms, and real sockets share a busy machine.
    fn delay_bound(self) -> Span {
        match self {
            Ground::Memory => Span::from_millis(10),
            Ground::Loopback => Span::from_millis(40),
        }
    }

    fn clock(self) -> Watch {
        match self {
            Ground::Memory => Watch::Tokio(TokioClock::new()),
            Ground::Loopback => Watch::Boot(BootClock),
        }
    }

    async fn connect(self, count: u64) -> Vec<Line> {
        match self {
            Ground::Memory => {
                let network = Network::new(count);
                network.set_delay(Duration::from_millis(1)..=Duration::from_millis(8));
                (1..=count).map(|id| Line::Memory(network.join(NodeId(id)))).collect()
            }
            Ground::Loopback => loopback(count).await.into_iter().map(Line::Udp).collect(),
        }
    }
}

async fn loopback(count: u64) -> Vec<Udp> {
    let keyring = Keyring::generate().unwrap();
    let mut members = Vec::new();
    for id in 1..=count {
        let config = Config::new(NodeId(id), keyring.clone()).unwrap();
        members.push(Udp::bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0), config).await.unwrap());
    }
    for member in &members {
        for other in &members {
            member.set_peer(other.local(), other.wire().local_address());
        }
    }
    members
}

/// Runs one algorithm.
struct Elect {
    count: u64,
    ground: Ground,
}

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Visitor for Elect {
    type Output = Running;

    fn visit<A: Algorithm>(self) -> Running {
        Box::pin(elect::<A>(self.count, self.ground))
    }
}

/// The options of the algorithm for lossy networks, with a failure detector and with gossip repair of multicasts if the
/// algorithm needs them.
fn options<A: Algorithm>(delay_bound: Span) -> layers::Options<A::Options> {
    let mut algorithm = A::Options::default();
    for (name, value) in A::CONTRACT.under_loss {
        A::set(&mut algorithm, name, value).unwrap();
    }
    let beats = heartbeat::Options { period: delay_bound * 3, timeout: delay_bound * 15 };
    let detector = (A::CONTRACT.detection == Detection::Detector).then_some(beats);
    let gossip = bimodal::Options { fanout: 2, rounds: 4 };
    let multicast = (A::CONTRACT.topology == Topology::Multicast).then_some(gossip);
    layers::Options { detector: detector.map(detectors::Options::Heartbeat), multicast, algorithm }
}

async fn elect<A: Algorithm>(count: u64, ground: Ground) {
    let name = A::CONTRACT.name;
    let (clock, delay_bound) = (ground.clock(), ground.delay_bound());
    let options = options::<A>(delay_bound);
    let roster = Roster::numbered(count as usize);
    A::check(&options.algorithm, &roster).unwrap();
    let start = |line: Line| {
        let settings = Settings {
            roster: roster.clone(),
            delay_bound,
            protocol: Protocol::named(name),
            seed: Some(line.local().0),
        };
        let process = <Stack<A> as Algorithm>::new(line.local(), &options);
        driver::spawn(process, line, clock, MemoryDisk::default(), settings).unwrap()
    };
    let mut running: Vec<_> = ground.connect(count).await.into_iter().map(start).collect();
    for member in &running {
        member.command(Command::Campaign).await.unwrap();
    }
    let first = agreement(&running, None).await;
    let place = running.iter().position(|member| member.me() == first).expect("a member leads");
    running.remove(place).stop().await.unwrap();
    let left: Vec<bool> = (0..count as usize).map(|slot| slot != place).collect();
    if A::electorate(&options.algorithm).is_quorum(&left) {
        let second = agreement(&running, Some(first)).await;
        assert_ne!(second, first, "{name}");
    }
    for member in running {
        member.stop().await.unwrap();
    }
}

/// Waits until all nodes, including the leader itself, agree on a leader other than the crashed one.
async fn agreement<A: Algorithm>(members: &[Handle<Stack<A>>], gone: Option<NodeId>) -> NodeId {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let leaders: Vec<Option<NodeId>> = members.iter().map(|member| member.belief().leader()).collect();
        if let Some(leader) = agreed::<A>(&leaders)
            && Some(leader) != gone
            && members.iter().any(|member| member.me() == leader)
        {
            return leader;
        }
        let name = A::CONTRACT.name;
        assert!(Instant::now() < deadline, "{name}: no agreement after {:?}: {leaders:?}", PATIENCE);
        sleep(Duration::from_millis(5)).await;
    }
}

/// All nodes must follow one leader. If the algorithm promises that only with high probability, more than half must, and
/// none may follow another.
fn agreed<A: Algorithm>(leaders: &[Option<NodeId>]) -> Option<NodeId> {
    let leader = leaders.iter().copied().flatten().next()?;
    let believers = leaders.iter().filter(|&&believed| believed == Some(leader)).count();
    let others = leaders.iter().flatten().count() - believers;
    let enough = match A::CONTRACT.safety {
        Safety::WithHighProbability => believers > leaders.len() / 2 && others == 0,
        _ => believers == leaders.len(),
    };
    enough.then_some(leader)
}

/// Virtual time.
#[tokio::test(start_paused = true)]
async fn every_algorithm_elects_in_memory() {
    for contract in CONTRACTS {
        catalog::visit(contract.name, Elect { count: 5, ground: Ground::Memory }).unwrap().await;
    }
}

/// All clusters at once, each on its own sockets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_algorithm_elects_on_loopback() {
    let mut clusters = JoinSet::new();
    for contract in CONTRACTS {
        let elect = Elect { count: 4, ground: Ground::Loopback };
        clusters.spawn(catalog::visit(contract.name, elect).unwrap());
    }
    while let Some(ended) = clusters.join_next().await {
        ended.unwrap();
    }
}
