//! A large group in one process, each member with its own socket.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use suffrage_core::layers::{self, Stack};
use suffrage_core::{Algorithm, Command, NodeId, Rng, Roster, Span};
use suffrage_net::codec::Protocol;
use suffrage_net::transport::Config;
use suffrage_net::transport::udp::Udp;
use suffrage_net::{Counters, Dropped, Keyring, SendError, Snapshot, Transport};
use suffrage_node::Error;
use suffrage_node::clock::BootClock;
use suffrage_node::driver::{self, Handle, Settings};
use suffrage_node::storage::MemoryDisk;

/// A socket that loses a share of the sent datagrams, by a seed.
pub(crate) struct Lossy {
    socket: Udp,
    /// The number of lost datagrams of a thousand.
    loss: u64,
    lost: AtomicU64,
    sent: AtomicU64,
}

impl Transport for Lossy {
    fn local(&self) -> NodeId {
        self.socket.local()
    }
    fn max_payload(&self) -> usize {
        self.socket.max_payload()
    }
    fn send(&self, to: NodeId, payload: &[u8]) -> Result<(), SendError> {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        if self.loss > 0 && Rng::new(self.local().0 << 32 | number).below(1_000) < self.loss {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        self.socket.send(to, payload)
    }
    async fn receive(&self) -> io::Result<(NodeId, Vec<u8>)> {
        self.socket.receive().await
    }
    fn counters(&self) -> &Counters {
        self.socket.counters()
    }
}

/// The configuration of a group.
#[derive(Clone, Debug)]
pub(crate) struct Plan<O> {
    pub(crate) members: u64,
    /// The number of lost datagrams of a thousand.
    pub(crate) loss: u64,
    pub(crate) delay_bound: Span,
    pub(crate) options: layers::Options<O>,
}

/// A running group.
pub(crate) struct Group<A: Algorithm> {
    sockets: Vec<Arc<Lossy>>,
    pub(crate) members: Vec<Handle<Stack<A>>>,
}

/// The traffic over all sockets.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) sent: u64,
    pub(crate) bytes: u64,
    pub(crate) received: u64,
    /// Lost on purpose.
    pub(crate) lost: u64,
    pub(crate) dropped: Vec<(&'static str, u64)>,
}

impl<A: Algorithm> Group<A> {
    pub(crate) async fn start(plan: &Plan<A::Options>) -> Result<Group<A>, Error> {
        let keyring = Keyring::generate()?;
        let mut sockets = Vec::new();
        for id in (1..=plan.members).map(NodeId) {
            // Gossip of a large group needs large datagrams.
            let config = Config { datagram: 16_000, ..Config::new(id, keyring.clone())? };
            let socket = Udp::bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0), config).await?;
            let (lost, sent) = (AtomicU64::new(0), AtomicU64::new(0));
            sockets.push(Arc::new(Lossy { socket, loss: plan.loss, lost, sent }));
        }
        for node in &sockets {
            for peer in &sockets {
                node.socket.set_peer(peer.local(), peer.socket.wire().local_address());
            }
        }
        let start = |socket: &Arc<Lossy>| {
            let settings = Settings {
                roster: Roster::numbered(plan.members as usize),
                delay_bound: plan.delay_bound,
                protocol: Protocol::named(A::CONTRACT.name),
                seed: Some(socket.local().0),
            };
            let process = <Stack<A> as Algorithm>::new(socket.local(), &plan.options);
            driver::spawn(process, Arc::clone(socket), BootClock, MemoryDisk::default(), settings)
        };
        let members = sockets.iter().map(start).collect::<Result<_, _>>()?;
        Ok(Group { sockets, members })
    }

    /// Tells the first member to call an election.
    pub(crate) async fn campaign(&self) -> Result<(), Error> {
        self.members[0].command(Command::Campaign).await
    }

    /// Stops a member and closes its socket, without a message to the others.
    pub(crate) async fn stop(&mut self, id: NodeId) -> Result<(), Error> {
        let index = self.members.iter().position(|member| member.me() == id).expect("the id is of a member");
        self.members.remove(index).stop().await.map(drop)
    }

    /// The live leader that most live members believe in, with the numbers of members that believe in it and in
    /// another.
    pub(crate) fn most_believed(&self) -> Option<(NodeId, usize, usize)> {
        let mut votes = BTreeMap::new();
        for leader in self.members.iter().filter_map(|member| member.belief().leader()) {
            *votes.entry(leader).or_insert(0) += 1;
        }
        let all: usize = votes.values().sum();
        let (leader, believers) = votes.into_iter().max_by_key(|&(_, count)| count)?;
        let lives = self.members.iter().any(|member| member.me() == leader);
        lives.then_some((leader, believers, all - believers))
    }

    /// Waits until at least `share` of the live members believe in one live member, and none in another. Returns the
    /// leader, the number of members that believe in it and the time that it took. None after `timeout`.
    pub(crate) async fn agree(&self, share: f64, timeout: Duration) -> Option<(NodeId, usize, Duration)> {
        let start = Instant::now();
        loop {
            let enough = (self.members.len() as f64 * share).ceil() as usize;
            match self.most_believed() {
                Some((leader, believers, 0)) if believers >= enough => {
                    return Some((leader, believers, start.elapsed()));
                }
                _ if start.elapsed() > timeout => return None,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let counted: Vec<Snapshot> = self.sockets.iter().map(|socket| socket.counters().snapshot()).collect();
        let sum = |of: &dyn Fn(&Snapshot) -> u64| counted.iter().map(of).sum::<u64>();
        let dropped = Dropped::ALL.map(|reason| (reason.name(), sum(&|snapshot| snapshot.dropped(reason))));
        Traffic {
            sent: sum(&|snapshot| snapshot.sent),
            bytes: sum(&|snapshot| snapshot.sent_bytes),
            received: sum(&|snapshot| snapshot.received),
            lost: self.sockets.iter().map(|socket| socket.lost.load(Ordering::Relaxed)).sum(),
            dropped: dropped.into_iter().filter(|&(_, count)| count > 0).collect(),
        }
    }
}
