//! Names that change, and names that are not known yet, in virtual time.

use super::*;
use std::io;
use std::sync::Mutex;
use suffrage_net::Keyring;
use suffrage_net::seal::{Boot, Seal};
use suffrage_net::transport::{Config, Transport as _};
use tokio::sync::mpsc;

const ME: NodeId = NodeId(1);
const PEER: NodeId = NodeId(2);
const NAME: &str = "two.example:7400";

/// A name service under control of a test.
#[derive(Clone, Default)]
struct TestNames(Arc<Mutex<Names>>);

#[derive(Default)]
struct Names {
    /// The addresses of [`NAME`].
    addresses: Option<Vec<SocketAddr>>,
    lookups: usize,
}

impl NameService for TestNames {
    async fn lookup(&self, name: &str) -> Result<Vec<SocketAddr>, String> {
        assert_eq!(name, NAME);
        let names = &mut *self.0.lock().unwrap();
        names.lookups += 1;
        // Failures with different texts are one state of the name.
        names.addresses.clone().ok_or_else(|| format!("unknown in lookup {}", names.lookups))
    }
}

impl TestNames {
    fn set(&self, addresses: &[SocketAddr]) {
        self.0.lock().unwrap().addresses = Some(addresses.to_vec());
    }
    fn remove(&self) {
        self.0.lock().unwrap().addresses = None;
    }
    fn lookups(&self) -> usize {
        self.0.lock().unwrap().lookups
    }
}

/// A wire that delivers what a test puts into its queue.
#[derive(Debug)]
struct Queue(tokio::sync::Mutex<mpsc::UnboundedReceiver<(Vec<u8>, SocketAddr)>>);

impl Wire for Queue {
    type Address = SocketAddr;
    fn send_to(&self, _: &[u8], _: SocketAddr) -> io::Result<()> {
        Ok(())
    }
    async fn receive_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (datagram, source) = self.0.lock().await.recv().await.ok_or(io::ErrorKind::BrokenPipe)?;
        buffer[..datagram.len()].copy_from_slice(&datagram);
        Ok((datagram.len(), source))
    }
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 7_400))
}

struct Test {
    names: TestNames,
    transport: Arc<Sealed<Queue>>,
    peers: PeerNames,
    reports: mpsc::UnboundedReceiver<Lookup>,
    state: watch::Sender<NodeState>,
    seal: Seal,
    inbox: mpsc::UnboundedSender<(Vec<u8>, SocketAddr)>,
}

impl Test {
    async fn new(names: TestNames) -> Test {
        let keyring = Keyring::generate().unwrap();
        let seal = Seal::new(PEER, Boot::now().unwrap(), &keyring);
        let (inbox, queue) = mpsc::unbounded_channel();
        let wire = Queue(tokio::sync::Mutex::new(queue));
        let transport = Arc::new(Sealed::new(wire, Config::new(ME, keyring).unwrap()).unwrap());
        let (state, watched) = watch::channel(NodeState::default());
        let (reported, reports) = mpsc::unbounded_channel();
        let resolver = Resolver::with_service(names.clone(), [(PEER, NAME.to_string())].into()).await;
        resolver.configure(&transport, address(1));
        let peers = resolver.start(&transport, address(1), &watched, move |id, name, lookup| {
            assert_eq!((id, name), (PEER, NAME));
            reported.send(lookup.clone()).unwrap();
        });
        Test { names, transport, peers, reports, state, seal, inbox }
    }

    /// The peer sends a datagram from this address.
    async fn hear(&self, source: SocketAddr) {
        self.inbox.send((self.seal.seal(ME, b"x"), source)).unwrap();
        self.transport.receive().await.unwrap();
    }

    async fn report(&mut self) -> Lookup {
        self.reports.recv().await.expect("the resolver runs")
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_name_is_retried_and_reported_once() {
    let mut test = Test::new(TestNames::default()).await;
    assert!(test.report().await.is_err());
    tokio::time::sleep(REFRESH * 10).await;
    assert!(test.reports.try_recv().is_err(), "the same failure is not reported again");
    assert!((10..20).contains(&test.names.lookups()), "{} lookups", test.names.lookups());
    test.names.set(&[address(2)]);
    assert_eq!(test.report().await, Ok(address(2)));
    assert_eq!(test.transport.address(PEER), Some(address(2)));
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_that_has_moved_is_found_by_its_name() {
    let names = TestNames::default();
    names.set(&[address(2)]);
    let mut test = Test::new(names).await;
    assert_eq!(test.transport.address(PEER), Some(address(2)));
    test.names.set(&[SocketAddr::from(([0; 8], 7_400)), address(3)]);
    assert_eq!(test.report().await, Ok(address(3)), "an IPv4 socket prefers IPv4");
    assert_eq!(test.transport.address(PEER), Some(address(3)));
    test.names.remove();
    assert!(test.report().await.is_err());
    assert_eq!(test.transport.address(PEER), Some(address(3)), "the last known address stays in use");
    test.names.set(&[address(3)]);
    assert_eq!(test.report().await, Ok(address(3)));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_heard_is_not_looked_up() {
    let names = TestNames::default();
    names.set(&[address(2)]);
    let test = Test::new(names).await;
    let lookups = test.names.lookups();
    for _ in 0..100 {
        test.hear(address(9)).await;
        tokio::time::sleep(REFRESH / 2).await;
    }
    assert_eq!(test.names.lookups(), lookups);
    assert_eq!(test.transport.address(PEER), Some(address(9)));
}

/// A voter that is replaced, and one whose name becomes an address, are reached where the configuration says.
#[tokio::test(start_paused = true)]
async fn addresses_follow_the_configuration_of_the_cluster() {
    let names = TestNames::default();
    names.set(&[address(2)]);
    let test = Test::new(names).await;
    let configuration = |voters: &[(NodeId, &str)]| {
        let voters = voters.iter().map(|(id, address)| (*id, address.to_string()));
        Arc::new(Configuration::founding(voters, "1%".parse().unwrap()).unwrap())
    };
    let (sender, receiver) = watch::channel(configuration(&[(ME, "10.0.0.1:7400"), (PEER, NAME)]));
    test.peers.follow(ME, receiver);
    let added = NodeId(3);
    let next = [(ME, "10.0.0.1:7400"), (PEER, "10.0.0.7:7400"), (added, "10.0.0.8:7400"), (NodeId(4), "")];
    sender.send_replace(configuration(&next));
    tokio::time::sleep(REFRESH * 3).await;
    assert_eq!(test.transport.address(PEER), Some(address(7)), "the name is not looked up any more");
    assert_eq!(test.transport.address(added), Some(address(8)));
    assert_eq!(test.transport.address(ME), None);
}

#[tokio::test(start_paused = true)]
async fn the_resolver_ends_with_the_node() {
    for aborted in [false, true] {
        let mut test = Test::new(TestNames::default()).await;
        assert!(test.report().await.is_err());
        match aborted {
            true => drop(test.state),
            false => _ = test.state.send(NodeState::Stopped { cause: None }),
        }
        // The report is dropped with the task.
        assert!(test.reports.recv().await.is_none());
        assert_eq!(Arc::strong_count(&test.transport), 1);
    }
}

#[test]
fn malformed_addresses_are_refused_and_names_are_not() {
    let long = format!("{}:1", "a.".repeat(126) + "a");
    for valid in ["10.0.0.1:7400", "[::1]:7400", "localhost:1", "a-1.b_2.example.:65535", &long] {
        assert_eq!(check_address(valid), Ok(()), "{valid}");
    }
    let label = format!("{}:1", "a".repeat(64));
    let long = format!("{}:1", "a.".repeat(127) + "a");
    for malformed in [
        "",
        ":",
        "host",
        "host:",
        ":7400",
        "host:0",
        "host:65536",
        "host:x",
        "::1:7400",
        "10.0.0.300:7400",
        "10.0.0:1",
        "a b:1",
        "a..b:1",
        ".:1",
        "http://host:1",
        "10.0.0.1:0",
        &label,
        &long,
    ] {
        let error = check_address(malformed).unwrap_err();
        assert!(error.contains("is not a host and a port"), "{malformed}: {error}");
    }
}
