//! An in-memory network for tests, with configurable loss, delays and partitions.
//!
//! One seed determines losses and delays. With Tokio's clock paused, a single-threaded program over this network is
//! deterministic and does not wait. Datagrams are sealed as on UDP; nodes that [`join`](Network::join) share a fixed
//! key, which is not secret.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::io;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use suffrage_core::{NodeId, Rng};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Config, Sealed, Wire};
use crate::{Counters, Dropped, Error, Key, Keyring};

/// A node on an in-memory network.
pub type Memory = Sealed<Port>;

/// The maximum number of datagrams in an inbox. Further datagrams are dropped, as by a socket.
const INBOX: usize = 4_096;

/// An in-memory network. Clones share the same network. A node's address is its id.
#[derive(Clone, Debug)]
pub struct Network {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    rng: Rng,
    loss: f64,
    delay: RangeInclusive<Duration>,
    /// The cut links, as pairs of sender and receiver.
    cuts: BTreeSet<(NodeId, NodeId)>,
    inboxes: BTreeMap<NodeId, Arc<Inbox>>,
    sent: u64,
}

#[derive(Debug, Default)]
struct Inbox {
    /// The datagrams in order of arrival time, then of sending.
    waiting: Mutex<BinaryHeap<Reverse<Arrival>>>,
    /// Notifies of a new datagram.
    changed: Notify,
    counters: Arc<Counters>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at: Instant,
    number: u64,
    from: NodeId,
    datagram: Vec<u8>,
}

/// Locks a mutex. A poisoned lock only means that a test failed elsewhere.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Network {
    /// A network on which everything arrives at once.
    pub fn new(seed: u64) -> Network {
        let shared = Shared {
            rng: Rng::new(seed),
            loss: 0.0,
            delay: Duration::ZERO..=Duration::ZERO,
            cuts: BTreeSet::new(),
            inboxes: BTreeMap::new(),
            sent: 0,
        };
        Network { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Connects a node that can reach all others. A node of the same id is disconnected, and datagrams in transit to
    /// it are lost.
    ///
    /// # Panics
    /// If the operating system returns no random numbers.
    pub fn join(&self, id: NodeId) -> Memory {
        let keyring = Keyring::new(vec![Key::new([0; 32])]).expect("one key is a valid keyring");
        let config = Config::new(id, keyring).expect("the operating system returns random numbers");
        let port = Port { reaches_all: true, ..self.port(id) };
        let counters = Arc::clone(&port.inbox.counters);
        Sealed::with_counters(port, config, counters).expect("the default limits are valid")
    }

    /// Connects a node with this configuration.
    pub fn attach(&self, config: Config<NodeId>) -> Result<Memory, Error> {
        let port = self.port(config.local);
        let counters = Arc::clone(&port.inbox.counters);
        Sealed::with_counters(port, config, counters)
    }

    /// Connects a port that sends and receives raw bytes, for tests of malformed datagrams.
    pub fn port(&self, id: NodeId) -> Port {
        let inbox = Arc::new(Inbox::default());
        lock(&self.shared).inboxes.insert(id, Arc::clone(&inbox));
        Port { id, inbox, network: self.clone(), reaches_all: false }
    }

    /// Disconnects a node.
    pub fn remove(&self, id: NodeId) {
        lock(&self.shared).inboxes.remove(&id);
    }

    /// Sets the probability of loss of each datagram.
    pub fn set_loss(&self, probability: f64) {
        lock(&self.shared).loss = probability;
    }

    /// Sets the range of delays, from which each datagram's delay is drawn uniformly. Different delays reorder
    /// datagrams.
    pub fn set_delay(&self, delay: RangeInclusive<Duration>) {
        lock(&self.shared).delay = delay;
    }

    /// Cuts the link from one node to another, until healed.
    pub fn cut(&self, from: NodeId, to: NodeId) {
        lock(&self.shared).cuts.insert((from, to));
    }

    /// Partitions the network: cuts all links between nodes of different sides, until healed.
    pub fn partition(&self, sides: &[&[NodeId]]) {
        let mut shared = lock(&self.shared);
        for (index, side) in sides.iter().enumerate() {
            for other in sides[index + 1..].iter().copied().flatten() {
                shared.cuts.extend(side.iter().flat_map(|one| [(*one, *other), (*other, *one)]));
            }
        }
    }

    /// Heals all cut links.
    pub fn heal(&self) {
        lock(&self.shared).cuts.clear();
    }

    /// Transmits a datagram. A datagram to an unknown address is lost, as on any network.
    fn transmit(&self, from: NodeId, to: NodeId, datagram: &[u8]) {
        let shared = &mut *lock(&self.shared);
        let Some(inbox) = shared.inboxes.get(&to) else { return };
        if shared.cuts.contains(&(from, to)) || shared.rng.chance(shared.loss) {
            return;
        }
        let (least, most) = (*shared.delay.start(), *shared.delay.end());
        let delay = least + most.saturating_sub(least).mul_f64(shared.rng.unit());
        shared.sent += 1;
        let mut waiting = lock(&inbox.waiting);
        if waiting.len() >= INBOX {
            return inbox.counters.count_drop(Dropped::QueueFull);
        }
        let at = Instant::now() + delay;
        waiting.push(Reverse(Arrival { at, number: shared.sent, from, datagram: datagram.to_vec() }));
        inbox.changed.notify_one();
    }
}

/// A connection to a [`Network`].
#[derive(Debug)]
pub struct Port {
    id: NodeId,
    inbox: Arc<Inbox>,
    network: Network,
    reaches_all: bool,
}

impl Port {
    /// The address of the port, which is the node's id.
    pub fn id(&self) -> NodeId {
        self.id
    }
}

/// The next event of an inbox.
enum Next {
    Arrived(Arrival),
    At(Instant),
    Nothing,
}

impl Inbox {
    fn next(&self) -> Next {
        let mut waiting = lock(&self.waiting);
        match waiting.peek() {
            None => Next::Nothing,
            Some(Reverse(first)) if first.at > Instant::now() => Next::At(first.at),
            Some(_) => waiting.pop().map_or(Next::Nothing, |Reverse(first)| Next::Arrived(first)),
        }
    }
}

impl Wire for Port {
    type Address = NodeId;

    fn address_of(&self, id: NodeId) -> Option<NodeId> {
        self.reaches_all.then_some(id)
    }

    fn send_to(&self, datagram: &[u8], to: NodeId) -> io::Result<()> {
        self.network.transmit(self.id, to, datagram);
        Ok(())
    }

    async fn receive_from(&self, buffer: &mut [u8]) -> io::Result<(usize, NodeId)> {
        loop {
            let changed = self.inbox.changed.notified();
            match self.inbox.next() {
                Next::Arrived(Arrival { from, datagram, .. }) => {
                    let length = datagram.len().min(buffer.len());
                    buffer[..length].copy_from_slice(&datagram[..length]);
                    return Ok((length, from));
                }
                Next::Nothing => changed.await,
                Next::At(at) => tokio::select! {
                    () = tokio::time::sleep_until(at) => {}
                    () = changed => {}
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transport;

    #[tokio::test(start_paused = true)]
    async fn datagrams_arrive_after_their_delay_in_order_of_arrival() {
        let network = Network::new(1);
        let (one, two) = (network.join(NodeId(1)), network.join(NodeId(2)));
        let start = Instant::now();
        network.set_delay(Duration::from_secs(5)..=Duration::from_secs(5));
        one.send(NodeId(2), b"slow").unwrap();
        network.set_delay(Duration::ZERO..=Duration::ZERO);
        one.send(NodeId(2), b"quick").unwrap();
        assert_eq!(two.receive().await.unwrap(), (NodeId(1), b"quick".to_vec()));
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(two.receive().await.unwrap(), (NodeId(1), b"slow".to_vec()));
        assert!(start.elapsed() >= Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn no_datagram_crosses_a_cut_until_it_heals() {
        let network = Network::new(1);
        let [one, two, three] = [1, 2, 3].map(|id| network.join(NodeId(id)));
        network.partition(&[&[NodeId(1)], &[NodeId(2), NodeId(3)]]);
        network.cut(NodeId(3), NodeId(1));
        one.send(NodeId(2), b"lost").unwrap();
        three.send(NodeId(2), b"within").unwrap();
        assert_eq!(two.receive().await.unwrap().1, b"within");
        network.heal();
        one.send(NodeId(2), b"healed").unwrap();
        assert_eq!(two.receive().await.unwrap().1, b"healed");
        network.cut(NodeId(1), NodeId(2));
        one.send(NodeId(2), b"one way").unwrap();
        two.send(NodeId(1), b"other way").unwrap();
        assert_eq!(one.receive().await.unwrap().1, b"other way");
        assert!(matches!(two.wire().inbox.next(), Next::Nothing));
    }

    /// 2,000 datagrams at a loss of 0.3: a standard deviation of 20.5, so that a tolerance of 130 fails for fewer
    /// than one seed in 10^9. The seed is fixed.
    #[tokio::test(start_paused = true)]
    async fn datagrams_are_lost_with_the_set_probability_and_a_full_inbox_drops() {
        let network = Network::new(7);
        let (one, two) = (network.join(NodeId(1)), network.join(NodeId(2)));
        network.set_loss(0.3);
        (0..2_000).for_each(|_| one.send(NodeId(2), b"x").unwrap());
        let arrived = lock(&two.wire().inbox.waiting).len();
        assert!(arrived.abs_diff(1_400) < 130, "{arrived}");
        network.set_loss(0.0);
        (0..INBOX).for_each(|_| one.send(NodeId(2), b"x").unwrap());
        assert_eq!(two.counters().dropped(Dropped::QueueFull), arrived as u64);
    }

    #[tokio::test(start_paused = true)]
    async fn a_removed_node_is_unreachable_until_it_joins_again() {
        let network = Network::new(1);
        let (one, two) = (network.join(NodeId(1)), network.join(NodeId(2)));
        network.remove(NodeId(2));
        one.send(NodeId(2), b"lost").unwrap();
        assert!(matches!(two.wire().inbox.next(), Next::Nothing));
        let two = network.join(NodeId(2));
        one.send(NodeId(2), b"back").unwrap();
        assert_eq!(two.receive().await.unwrap().1, b"back");
        two.send(NodeId(1), b"heard").unwrap();
        assert_eq!(one.receive().await.unwrap().1, b"heard");
    }
}
