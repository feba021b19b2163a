//! A transport over a wire: sealing, counters and an address book.
//!
//! A node is answered where it is: the source of its latest datagram that has been authenticated and is not a replay
//! has precedence over the configured address. A voter that has moved therefore rejoins with its first datagram, and a
//! candidate that is unknown to the voters gets its answers. The configured address is for a node that has not been
//! heard, or not for [`HEARD_RECENTLY`]; in the latter case datagrams go to both addresses, and the receiver drops the
//! copy as a replay.
//!
//! Nothing is sent to an address that is neither configured nor has proved knowledge of the key. (An attacker that
//! delays a datagram and forwards it from elsewhere gets the answers until the next datagram, and cannot read them; the
//! attacker could as well have dropped them.)

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use suffrage_core::NodeId;
use tokio::sync;

use super::{DATAGRAM, SendError, Transport, Wire};
use crate::replay::Senders;
use crate::seal::{Boot, OVERHEAD, Seal};
use crate::{Counters, Dropped, Error, Keyring};

/// The minimum of the datagram limit, in bytes.
pub const SMALLEST_DATAGRAM: usize = 256;
/// The maximum of the datagram limit, in bytes: the limit of UDP over IPv4. Datagrams beyond [`DATAGRAM`] may be
/// fragmented, and are lost if one fragment is lost; use them on loopback and on known networks.
pub const LARGEST_DATAGRAM: usize = 65_507;
/// The default number of stored senders: about 3 MB.
const SENDERS: usize = 16_384;

/// The time for which a node is answered only at the source of its latest datagram.
pub const HEARD_RECENTLY: Duration = Duration::from_secs(3);
/// The most datagrams that are dropped in a row before the other work of a task gets its turn. Less than the budget of
/// 128 operations that Tokio gives a task: in a task that has used that budget up, no channel and no timer is ready.
const DROPS_IN_A_ROW: usize = 32;

/// The configuration of a node's transport.
#[derive(Clone, Debug)]
pub struct Config<A> {
    /// The id of this node.
    pub local: NodeId,
    /// The boot of this node. Never use one twice.
    pub boot: Boot,
    /// The cluster's keys.
    pub keyring: Keyring,
    /// The addresses of the peers, for the time before they are heard and while they are not heard.
    pub peers: BTreeMap<NodeId, A>,
    /// The maximum length of sent and received datagrams, in bytes.
    pub datagram: usize,
    /// The maximum number of stored senders.
    pub senders: usize,
}

impl<A> Config<A> {
    /// A configuration with a new boot, no peers and the default limits.
    pub fn new(local: NodeId, keyring: Keyring) -> Result<Config<A>, Error> {
        let boot = Boot::now()?;
        Ok(Config { local, boot, keyring, peers: BTreeMap::new(), datagram: DATAGRAM, senders: SENDERS })
    }
}

/// A transport over a wire.
#[derive(Debug)]
pub struct Sealed<W: Wire> {
    wire: W,
    seal: Seal,
    datagram: usize,
    peers: RwLock<BTreeMap<NodeId, W::Address>>,
    senders: Mutex<Senders<W::Address>>,
    /// The receive buffer: one byte longer than the longest datagram, so that a longer datagram is detected.
    buffer: sync::Mutex<Box<[u8]>>,
    counters: Arc<Counters>,
}

impl<W: Wire> Sealed<W> {
    /// The transport over this wire.
    pub fn new(wire: W, config: Config<W::Address>) -> Result<Sealed<W>, Error> {
        Sealed::with_counters(wire, config, Arc::default())
    }

    pub(super) fn with_counters(
        wire: W,
        config: Config<W::Address>,
        counters: Arc<Counters>,
    ) -> Result<Sealed<W>, Error> {
        let Config { local, boot, keyring, peers, datagram, senders } = config;
        if !(SMALLEST_DATAGRAM..=LARGEST_DATAGRAM).contains(&datagram) {
            let (least, most) = (SMALLEST_DATAGRAM, LARGEST_DATAGRAM);
            return Err(Error::DatagramSize { size: datagram, least, most });
        }
        Ok(Sealed {
            wire,
            seal: Seal::new(local, boot, &keyring),
            datagram,
            peers: RwLock::new(peers),
            senders: Mutex::new(Senders::new(senders)),
            buffer: sync::Mutex::new(vec![0; datagram + 1].into()),
            counters,
        })
    }

    /// The wire.
    pub fn wire(&self) -> &W {
        &self.wire
    }

    /// Replaces the keys.
    pub fn rekey(&self, keyring: &Keyring) {
        self.seal.rekey(keyring);
    }

    /// Sets the configured address of a peer.
    pub fn set_peer(&self, id: NodeId, address: W::Address) {
        self.peers.write().unwrap_or_else(PoisonError::into_inner).insert(id, address);
    }

    /// The address of a node, if known: the source of its latest datagram, or the configured address.
    pub fn address(&self, id: NodeId) -> Option<W::Address> {
        self.heard_at(id).map(|(address, _)| address).or_else(|| self.configured(id))
    }

    /// The time since the last datagram of a node that was authenticated and no replay. None if there was none.
    pub fn last_heard(&self, id: NodeId) -> Option<Duration> {
        self.heard_at(id).map(|(_, age)| age)
    }

    /// The source of the node's latest datagram, and the time since it was heard.
    fn heard_at(&self, id: NodeId) -> Option<(W::Address, Duration)> {
        let heard = self.senders.lock().unwrap_or_else(PoisonError::into_inner).address(id);
        heard.map(|(address, heard)| (address, heard.elapsed()))
    }

    fn configured(&self, id: NodeId) -> Option<W::Address> {
        let listed = self.peers.read().unwrap_or_else(PoisonError::into_inner).get(&id).copied();
        listed.or_else(|| self.wire.address_of(id))
    }

    /// The addresses to send to.
    fn destinations(&self, id: NodeId) -> (Option<W::Address>, Option<W::Address>) {
        match self.heard_at(id) {
            Some((source, age)) if age <= HEARD_RECENTLY => (Some(source), None),
            Some((source, _)) => {
                (Some(source), self.configured(id).filter(|configured| *configured != source))
            }
            None => (self.configured(id), None),
        }
    }

    fn transmit(&self, datagram: &[u8], address: W::Address) -> Result<(), SendError> {
        match self.wire.send_to(datagram, address) {
            Ok(()) => {
                self.counters.send(datagram.len());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.counters.count_drop(Dropped::QueueFull);
                Err(SendError::Full)
            }
            Err(error) => {
                self.counters.count_drop(Dropped::Refused);
                Err(SendError::Io(error))
            }
        }
    }

    fn accept(&self, datagram: &[u8], source: W::Address) -> Result<(NodeId, Vec<u8>), Dropped> {
        if datagram.len() > self.datagram {
            return Err(Dropped::Oversized);
        }
        let opened = self.seal.open(datagram)?;
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        let admitted = senders.admit(opened.from, opened.boot, opened.counter, source);
        if admitted == Err(Dropped::Stale) {
            self.counters.note_stale_sender(opened.from);
        }
        admitted?;
        Ok((opened.from, opened.payload))
    }
}

impl<W: Wire> Transport for Sealed<W> {
    fn local(&self) -> NodeId {
        self.seal.local()
    }

    fn max_payload(&self) -> usize {
        self.datagram - OVERHEAD
    }

    fn send(&self, to: NodeId, payload: &[u8]) -> Result<(), SendError> {
        let (length, most) = (payload.len(), self.max_payload());
        if length > most {
            self.counters.count_drop(Dropped::Oversized);
            return Err(SendError::TooLong { length, most });
        }
        let (Some(first), second) = self.destinations(to) else {
            self.counters.count_drop(Dropped::UnknownPeer);
            return Err(SendError::UnknownPeer(to));
        };
        let datagram = self.seal.seal(to, payload);
        let sent = self.transmit(&datagram, first);
        match second {
            Some(second) => self.transmit(&datagram, second).or(sent),
            None => sent,
        }
    }

    async fn receive(&self) -> io::Result<(NodeId, Vec<u8>)> {
        let mut buffer = self.buffer.lock().await;
        loop {
            for _ in 0..DROPS_IN_A_ROW {
                let (length, source) = self.wire.receive_from(&mut buffer).await?;
                match self.accept(&buffer[..length], source) {
                    Ok(received) => {
                        self.counters.receive(length);
                        return Ok(received);
                    }
                    Err(reason) => self.counters.count_drop(reason),
                }
            }
            tokio::task::yield_now().await;
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
