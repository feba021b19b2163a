//! Sealed datagrams: nobody without the cluster's key can read, change or make one.
//!
//! ```text
//!   version 1 │ key id 4 │ from 8 │ to 8 │ boot 16 │ counter 8 │ payload, encrypted │ tag 16
//!   └─────────────── authenticated, in the clear ─────────────┘ └── authenticated ──┘
//!                                        └────── nonce ────┘
//! ```
//!
//! The cipher is XChaCha20-Poly1305 of the RustCrypto project: pure Rust, constant time without special
//! hardware, audited in an earlier version, and with nonces of 24 bytes, long enough to be *made unique*
//! rather than hoped to be. (AES-GCM and `ring` have 12, too short for what follows, and `ring` needs a C
//! compiler.)
//!
//! **No nonce twice.** A nonce is the sender's [`Boot`] and a counter. Within a process the counter is never
//! the same twice, also over a change of keys. A boot is the time of the process's start and 64 random bits
//! from the operating system. So
//! - two processes with one id and one key (a mistake, but nobody should pay for it with the key's secrecy)
//!   differ in the random bits, unless they started in the same microsecond *and* drew the same 64 bits;
//! - a restart has a later time, and other random bits;
//! - a clock set back makes no difference to uniqueness, by the random bits alone: n starts in one and the
//!   same microsecond coincide with a chance of n^2 / 2^65;
//! - one thing is not covered: a virtual machine copied or restored *while the process runs* repeats boot and
//!   counter. Restart the process after that.
//!
//! **No datagram twice.** Receivers remember the latest boot of each sender and a window of its counters
//! ([`replay`](crate::replay)); boots are ordered by time. What follows from that:
//! - after a restart, what an earlier run had sent is refused, also if it is merely late;
//! - of two processes with one id, the one started later is heard, and the other's datagrams are counted as
//!   [`Stale`](Dropped::Stale) everywhere;
//! - a sender whose clock was set back is refused after its restart until its clock is where it was, or the
//!   receivers restart; unless it has a disk: [`Boot::after`] the last one is always later. Nodes with a data
//!   folder keep it there (`suffrage-node`, `storage`), and are safe from this;
//! - a receiver that restarts has forgotten whom it heard. Recordings of what was ever sent to it under a key
//!   it still has can be played to it, in their order and once each, until the sender is next heard: to the
//!   election that is a message which took very long. An algorithm whose model allows for that, as quorum
//!   lease's does, is as safe as ever. Changing keys makes old recordings worthless.
//!
//! **First authenticated, then believed.** [`Seal::open`] changes nothing. It does not even count on the
//! addressee before the tag is right, so that [`NotForMe`](Dropped::NotForMe) speaks of a wrong address in
//! somebody's configuration, and not of noise.
//!
//! The key is the cluster's: whoever has it can be any node. It keeps strangers out, not traitors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fmt, mem};

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{Tag, XChaCha20Poly1305, XNonce};
use suffrage_core::NodeId;

use crate::keyring::KeyId;
use crate::{Dropped, Error, Keyring};

/// The version of all this.
pub const VERSION: u8 = 1;
/// By how many bytes a datagram is longer than its payload.
pub const OVERHEAD: usize = HEADER + TAG;
const HEADER: usize = 1 + 4 + 8 + 8 + NONCE;
const NONCE: usize = 16 + 8;
const TAG: usize = 16;

/// One run of a process: later runs are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boot(u128);

impl Boot {
    /// The run that begins now. Within one process each is later than those before it.
    pub fn now() -> Result<Boot, Error> {
        Boot::after(0)
    }

    /// The run that begins now, after one that began at `last` ([`began`](Boot::began)), whatever the clock
    /// says.
    pub fn after(last: u64) -> Result<Boot, Error> {
        static LATEST: AtomicU64 = AtomicU64::new(0);
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        let least = clock.max(last.saturating_add(1));
        let mut began = least;
        LATEST
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |latest| {
                began = least.max(latest.saturating_add(1));
                Some(began)
            })
            .ok();
        Ok(Boot::from_parts(began, getrandom::u64()?))
    }

    pub(crate) fn from_parts(began: u64, chance: u64) -> Boot {
        Boot(u128::from(began) << 64 | u128::from(chance))
    }

    /// When it began, in microseconds since 1970 by a clock that may have been wrong.
    pub fn began(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

/// Seals what this node sends, and opens what it receives.
pub struct Seal {
    local: NodeId,
    boot: Boot,
    /// How many datagrams have been sealed.
    counter: AtomicU64,
    keys: RwLock<Vec<Held>>,
}

/// A key that is in use.
struct Held {
    id: KeyId,
    cipher: XChaCha20Poly1305,
}

fn hold(keyring: &Keyring) -> Vec<Held> {
    keyring.keys().iter().map(|key| Held { id: key.id(), cipher: key.cipher() }).collect()
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("local", &self.local).field("boot", &self.boot).finish_non_exhaustive()
    }
}

/// A datagram that has been opened, and may have been seen before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Who sealed it.
    pub from: NodeId,
    /// In which run.
    pub boot: Boot,
    /// Which one of that run it is.
    pub counter: u64,
    /// What it says.
    pub payload: Vec<u8>,
}

impl Seal {
    /// For this run of this node. No two values may have the same boot.
    pub fn new(local: NodeId, boot: Boot, keyring: &Keyring) -> Seal {
        Seal { local, boot, counter: AtomicU64::new(0), keys: RwLock::new(hold(keyring)) }
    }

    /// Whose it is.
    pub fn local(&self) -> NodeId {
        self.local
    }

    /// Changes the keys from now on. Counters go on.
    pub fn rekey(&self, keyring: &Keyring) {
        let new = hold(keyring);
        let old = mem::replace(&mut *self.keys.write().unwrap_or_else(PoisonError::into_inner), new);
        drop(old);
    }

    /// The datagram that carries this payload to that node.
    pub fn seal(&self, to: NodeId, payload: &[u8]) -> Vec<u8> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let key = keys.first().expect("a keyring has a key");
        // At a billion a second they last for 500 years.
        let counter = self.counter.fetch_add(1, Ordering::Relaxed);
        let mut datagram = Vec::with_capacity(payload.len() + OVERHEAD);
        datagram.push(VERSION);
        datagram.extend(key.id.0);
        datagram.extend(self.local.0.to_be_bytes());
        datagram.extend(to.0.to_be_bytes());
        datagram.extend(self.boot.0.to_be_bytes());
        datagram.extend(counter.to_be_bytes());
        datagram.extend(payload);
        let (header, body) = datagram.split_at_mut(HEADER);
        let nonce = nonce_in(header);
        let tag = key.cipher.encrypt_inout_detached(&nonce, header, body.into());
        datagram.extend(tag.expect("a datagram is shorter than 2^38 bytes"));
        datagram
    }

    /// Opens a datagram, or says what is wrong with it. Changes nothing: whether it was seen before, the
    /// caller is to ask [`replay`](crate::replay).
    pub fn open(&self, datagram: &[u8]) -> Result<Opened, Dropped> {
        match datagram.first() {
            None => return Err(Dropped::Malformed),
            Some(&VERSION) => {}
            Some(_) => return Err(Dropped::WrongVersion),
        }
        if datagram.len() < OVERHEAD {
            return Err(Dropped::Malformed);
        }
        let (header, rest) = datagram.split_at(HEADER);
        let (body, tag) = rest.split_at(rest.len() - TAG);
        let tag = Tag::try_from(tag).map_err(|_| Dropped::Malformed)?;
        let nonce = nonce_in(header);
        let mut payload = body.to_vec();
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        // The id is a hint: two keys may have the same. The tag is compared before anything is decrypted,
        // so that the payload is still whole for the next key.
        let mut candidates = keys.iter().filter(|key| key.id.0 == header[1..5]);
        let opens = |key: &Held| {
            key.cipher.decrypt_inout_detached(&nonce, header, payload.as_mut_slice().into(), &tag).is_ok()
        };
        if !candidates.any(opens) {
            return Err(Dropped::Unauthenticated);
        }
        if number(header, 13) != self.local.0 {
            return Err(Dropped::NotForMe);
        }
        let boot = Boot(u128::from(number(header, 21)) << 64 | u128::from(number(header, 29)));
        Ok(Opened { from: NodeId(number(header, 5)), boot, counter: number(header, 37), payload })
    }
}

fn nonce_in(header: &[u8]) -> XNonce {
    let mut nonce = XNonce::default();
    nonce.copy_from_slice(&header[HEADER - NONCE..]);
    nonce
}

fn number(header: &[u8], place: usize) -> u64 {
    header[place..place + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use std::collections::BTreeSet;

    fn ring(seeds: &[u8]) -> Keyring {
        Keyring::new(seeds.iter().map(|&seed| Key::new([seed; 32])).collect()).unwrap()
    }

    fn seal(id: u64, keys: &[u8]) -> Seal {
        Seal::new(NodeId(id), Boot::now().unwrap(), &ring(keys))
    }

    #[test]
    fn what_is_sealed_opens_at_its_addressee() {
        let (one, two) = (seal(1, &[7]), seal(2, &[7]));
        for payload in [&b""[..], b"hello", &[0; 60_000]] {
            let datagram = one.seal(NodeId(2), payload);
            assert_eq!(datagram.len(), payload.len() + OVERHEAD);
            let opened = two.open(&datagram).unwrap();
            assert_eq!((opened.from, opened.boot, &*opened.payload), (NodeId(1), one.boot, payload));
            assert_eq!(seal(3, &[7]).open(&datagram), Err(Dropped::NotForMe));
        }
    }

    #[test]
    fn a_change_anywhere_is_noticed() {
        let (one, two) = (seal(1, &[7]), seal(2, &[7]));
        let datagram = one.seal(NodeId(2), b"payload");
        for place in 0..datagram.len() * 8 {
            let mut changed = datagram.clone();
            changed[place / 8] ^= 1 << (place % 8);
            let expected = if place < 8 { Dropped::WrongVersion } else { Dropped::Unauthenticated };
            assert_eq!(two.open(&changed), Err(expected), "bit {place}");
        }
        for length in 0..datagram.len() {
            let expected = if length < OVERHEAD { Dropped::Malformed } else { Dropped::Unauthenticated };
            assert_eq!(two.open(&datagram[..length]), Err(expected), "{length} bytes");
        }
        let longer = [&datagram[..], b"x"].concat();
        assert_eq!(two.open(&longer), Err(Dropped::Unauthenticated));
    }

    #[test]
    fn the_payload_cannot_be_read_on_the_way() {
        let datagram = seal(1, &[7]).seal(NodeId(2), b"attack at dawn");
        assert!(!datagram.windows(6).any(|part| part == b"attack"));
    }

    /// See the rotation in `keyring`: each step is understood by the one before and the one after.
    #[test]
    fn keys_are_replaced_one_node_after_the_other() {
        let steps: [&[u8]; 4] = [&[1], &[1, 2], &[2, 1], &[2]];
        for pair in steps.windows(2) {
            let (before, after) = (seal(1, pair[0]), seal(2, pair[1]));
            assert!(after.open(&before.seal(NodeId(2), b"x")).is_ok());
            assert!(before.open(&after.seal(NodeId(1), b"x")).is_ok());
        }
        let (old, new) = (seal(1, steps[0]), seal(2, steps[3]));
        assert_eq!(new.open(&old.seal(NodeId(2), b"x")), Err(Dropped::Unauthenticated));
        new.rekey(&ring(steps[2]));
        assert!(new.open(&old.seal(NodeId(2), b"x")).is_ok());
    }

    #[test]
    fn no_nonce_twice() {
        let (one, twin) = (seal(1, &[7]), seal(1, &[7]));
        let mut nonces = BTreeSet::new();
        for round in 0..300 {
            if round == 100 {
                one.rekey(&ring(&[8, 7]));
            }
            for sealer in [&one, &twin] {
                let datagram = sealer.seal(NodeId(2), b"x");
                assert!(nonces.insert(datagram[HEADER - NONCE..HEADER].to_vec()));
            }
        }
    }

    #[test]
    fn boots_are_later_than_those_before_whatever_the_clock_says() {
        let first = Boot::now().unwrap();
        assert!(Boot::now().unwrap() > first);
        // As if the clock had been a year ahead at the last start.
        let ahead = first.began() + 31_536_000_000_000;
        let after = Boot::after(ahead).unwrap();
        assert!(after.began() > ahead);
        assert!(Boot::from_parts(5, 9) > Boot::from_parts(5, 8));
    }

    #[test]
    fn secrets_are_not_shown() {
        let seal = seal(1, &[0x41]);
        assert_eq!(format!("{seal:?}"), format!("Seal {{ local: NodeId(1), boot: {:?}, .. }}", seal.boot));
    }
}
