//! A transport made of a wire: sealed, counted, and with an address book.
//!
//! A peer's address is the configured one; that of anybody else is where its last datagram came from, once that
//! has been opened and found to be new. So a candidate that the voters have never heard of gets its
//! answers, and nothing is ever sent to an address that has not shown the key. (Who can hold up a datagram on
//! its way, and send it on from elsewhere, gets the answers until the next one, and cannot read them; it could as
//! well have dropped them.)

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use suffrage_core::NodeId;
use tokio::sync;

use super::{DATAGRAM, SendError, Transport, Wire};
use crate::replay::Senders;
use crate::seal::{Boot, OVERHEAD, Seal};
use crate::{Counters, Dropped, Error, Keyring};

/// The least that a datagram can be limited to.
pub const SMALLEST_DATAGRAM: usize = 256;
/// The most that a datagram can be limited to: what UDP over IPv4 can carry. Beyond [`DATAGRAM`] it may be
/// fragmented on the way, and be lost if one fragment is; it is for loopback and for networks one knows.
pub const LARGEST_DATAGRAM: usize = 65_507;
/// How many senders are remembered unless set otherwise: about 3 MB.
const SENDERS: usize = 16_384;

/// What a node must know to talk.
#[derive(Clone, Debug)]
pub struct Config<A> {
    /// Who it is.
    pub local: NodeId,
    /// Which run of it this is. Never use one twice.
    pub boot: Boot,
    /// The cluster's keys.
    pub keyring: Keyring,
    /// Where its peers are. Others are answered where they are heard from.
    pub peers: BTreeMap<NodeId, A>,
    /// The longest datagram it sends and takes.
    pub datagram: usize,
    /// How many senders it remembers.
    pub senders: usize,
}

impl<A> Config<A> {
    /// A node that begins now, knows nobody, and has the usual limits.
    pub fn new(local: NodeId, keyring: Keyring) -> Result<Config<A>, Error> {
        let boot = Boot::now()?;
        Ok(Config { local, boot, keyring, peers: BTreeMap::new(), datagram: DATAGRAM, senders: SENDERS })
    }
}

/// A transport made of a wire.
#[derive(Debug)]
pub struct Sealed<W: Wire> {
    wire: W,
    seal: Seal,
    datagram: usize,
    peers: RwLock<BTreeMap<NodeId, W::Address>>,
    senders: Mutex<Senders<W::Address>>,
    /// One byte longer than the longest datagram, so that a longer one is seen to be.
    buffer: sync::Mutex<Box<[u8]>>,
    counters: Arc<Counters>,
}

impl<W: Wire> Sealed<W> {
    /// The transport over this wire.
    pub fn new(wire: W, config: Config<W::Address>) -> Result<Sealed<W>, Error> {
        Sealed::counting(wire, config, Arc::default())
    }

    pub(super) fn counting(
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

    /// Changes the keys from now on.
    pub fn rekey(&self, keyring: &Keyring) {
        self.seal.rekey(keyring);
    }

    /// From now on this peer is there.
    pub fn set_peer(&self, id: NodeId, address: W::Address) {
        self.peers.write().unwrap_or_else(PoisonError::into_inner).insert(id, address);
    }

    /// Where a node is, as far as this one knows.
    pub fn address(&self, id: NodeId) -> Option<W::Address> {
        let listed = self.peers.read().unwrap_or_else(PoisonError::into_inner).get(&id).copied();
        let listed = listed.or_else(|| self.wire.address_of(id));
        listed.or_else(|| self.senders.lock().unwrap_or_else(PoisonError::into_inner).address(id))
    }

    fn take(&self, datagram: &[u8], source: W::Address) -> Result<(NodeId, Vec<u8>), Dropped> {
        if datagram.len() > self.datagram {
            return Err(Dropped::Oversized);
        }
        let opened = self.seal.open(datagram)?;
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        senders.admit(opened.from, opened.boot, opened.counter, source)?;
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
        let Some(address) = self.address(to) else {
            self.counters.count_drop(Dropped::UnknownPeer);
            return Err(SendError::UnknownPeer(to));
        };
        let datagram = self.seal.seal(to, payload);
        match self.wire.send_to(&datagram, address) {
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

    async fn receive(&self) -> io::Result<(NodeId, Vec<u8>)> {
        let mut buffer = self.buffer.lock().await;
        loop {
            let (length, source) = self.wire.receive_from(&mut buffer).await?;
            match self.take(&buffer[..length], source) {
                Ok(received) => {
                    self.counters.receive(length);
                    return Ok(received);
                }
                Err(reason) => self.counters.count_drop(reason),
            }
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
