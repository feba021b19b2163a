//! A network within one program, for tests: it loses, delays and is cut as it is told.
//!
//! One seed decides what is lost and how late the rest is. With tokio's clock paused, a single-threaded
//! program over it runs the same way every time, and waits for nothing. Datagrams are sealed as they are on
//! UDP; the key of those that just [`join`](Network::join) is no secret.

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

/// A node on a network in memory.
pub type Memory = Sealed<Port>;

/// How many datagrams wait for a node at most; more are dropped, as a socket would.
const INBOX: usize = 4_096;

/// A network within one program. Clones are the same network. A node's address is its id.
#[derive(Clone, Debug)]
pub struct Network {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    rng: Rng,
    loss: f64,
    delay: RangeInclusive<Duration>,
    /// From whom to whom nothing comes through.
    cuts: BTreeSet<(NodeId, NodeId)>,
    inboxes: BTreeMap<NodeId, Arc<Inbox>>,
    sent: u64,
}

#[derive(Debug, Default)]
struct Inbox {
    /// By when they arrive, and then in the order they were sent.
    waiting: Mutex<BinaryHeap<Reverse<Arrival>>>,
    /// Something was put in.
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

/// A poisoned lock only means that a test failed elsewhere.
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

    /// Connects a node that reaches everybody. One of the same id is disconnected: what was on its way to it
    /// is lost.
    ///
    /// # Panics
    /// If the system gives no random numbers.
    pub fn join(&self, id: NodeId) -> Memory {
        let keyring = Keyring::new(vec![Key::new([0; 32])]).expect("one key is enough");
        let config = Config::new(id, keyring).expect("the system gives random numbers");
        let port = Port { everybody: true, ..self.port(id) };
        let counters = Arc::clone(&port.inbox.counters);
        Sealed::counting(port, config, counters).expect("the usual limits are fine")
    }

    /// Connects a node that is set so.
    pub fn attach(&self, config: Config<NodeId>) -> Result<Memory, Error> {
        let port = self.port(config.local);
        let counters = Arc::clone(&port.inbox.counters);
        Sealed::counting(port, config, counters)
    }

    /// Connects one that sends and gets bytes as they are: for tests of what nodes make of them.
    pub fn port(&self, id: NodeId) -> Port {
        let inbox = Arc::new(Inbox::default());
        lock(&self.shared).inboxes.insert(id, Arc::clone(&inbox));
        Port { id, inbox, network: self.clone(), everybody: false }
    }

    /// Disconnects a node: nobody reaches it any more.
    pub fn remove(&self, id: NodeId) {
        lock(&self.shared).inboxes.remove(&id);
    }

    /// Loses each datagram with this probability from now on.
    pub fn set_loss(&self, probability: f64) {
        lock(&self.shared).loss = probability;
    }

    /// Makes each datagram take a time drawn uniformly from this range, from now on. What takes longer is
    /// overtaken.
    pub fn set_delay(&self, delay: RangeInclusive<Duration>) {
        lock(&self.shared).delay = delay;
    }

    /// Lets nothing through from one to the other, until healed.
    pub fn cut(&self, from: NodeId, to: NodeId) {
        lock(&self.shared).cuts.insert((from, to));
    }

    /// Lets nothing through, either way, between nodes of different sides, until healed.
    pub fn partition(&self, sides: &[&[NodeId]]) {
        let mut shared = lock(&self.shared);
        for (place, side) in sides.iter().enumerate() {
            for other in sides[place + 1..].iter().copied().flatten() {
                shared.cuts.extend(side.iter().flat_map(|one| [(*one, *other), (*other, *one)]));
            }
        }
    }

    /// Lets everything through again.
    pub fn heal(&self) {
        lock(&self.shared).cuts.clear();
    }

    /// What is sent to nobody is lost, as on any network.
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
    everybody: bool,
}

impl Port {
    /// Its address, which is the node's id.
    pub fn id(&self) -> NodeId {
        self.id
    }
}

/// What is next for a node.
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
        self.everybody.then_some(id)
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
    async fn what_is_sent_arrives_late_and_in_the_order_of_arrival() {
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
    async fn nothing_crosses_a_cut_until_it_heals() {
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

    /// 2,000 datagrams at a loss of 0.3: a standard deviation of 20.5, so that a bound of 130 fails for
    /// fewer than one seed in a billion; the seed is fixed.
    #[tokio::test(start_paused = true)]
    async fn some_are_lost_and_a_full_inbox_drops() {
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
    async fn one_that_left_is_not_reached_and_one_that_came_back_is() {
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
