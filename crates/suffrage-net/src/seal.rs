//! Sealed datagrams: only holders of the cluster's key can read, modify or create one.
//!
//! ```text
//!   version 1 │ key id 4 │ from 8 │ to 8 │ boot 16 │ counter 8 │ payload, encrypted │ tag 16
//!   └─────────────── authenticated, in the clear ─────────────┘ └── authenticated ──┘
//!                                        └────── nonce ────┘
//! ```
//!
//! The AEAD is XChaCha20-Poly1305 of the RustCrypto project: pure Rust, constant time without special hardware,
//! audited in an earlier version, and with nonces of 24 bytes, long enough to be unique by construction. (AES-GCM
//! and `ring` have nonces of 12 bytes, too short for the scheme below, and `ring` needs a C compiler.) What all datagrams of
//! one boot share is computed once (`cipher.rs`).
//!
//! **No nonce twice.** A nonce is the sender's [`Boot`] and a counter. Within a process the counter never repeats,
//! also across a change of keys. A boot is the start time of the process and 64 random bits from the operating
//! system. Therefore:
//! - Two processes with one id and one key (a misconfiguration, which must not cost the key's secrecy) differ in the
//!   random bits, unless they started in the same microsecond *and* drew the same 64 bits.
//! - A restart has a later time and other random bits.
//! - A clock that is set back does not affect uniqueness, by the random bits alone: n starts in the same microsecond
//!   collide with a probability of n^2 / 2^65.
//! - Not covered: a virtual machine that is cloned or restored *while the process runs* repeats boot and counter.
//!   Restart the process after that.
//!
//! **No datagram twice.** Receivers store the latest boot of each sender and a replay window of its counters
//! ([`replay`](crate::replay)). Boots are ordered by time. The consequences:
//! - After a restart of the sender, datagrams of its earlier boots are rejected, also if they are merely late.
//! - Of two processes with one id, the datagrams of the one started later are accepted, and the other's are counted
//!   as [`Stale`](Dropped::Stale) everywhere.
//! - A sender whose clock was set back is rejected after its restart until its clock has caught up, or the receivers
//!   restart; unless it has a disk: [`Boot::after`] the last boot is always later. Nodes with a data directory keep
//!   the last boot there (`suffrage-node`, `storage`), and are not affected.
//! - A receiver that restarts has lost its replay windows. Recorded datagrams to it under a key that it still has
//!   can be replayed, in their order and once each, until the next datagram of the sender arrives. To the election,
//!   a replayed datagram is a message with a very long delay. An algorithm whose model allows such delays, as the
//!   quorum lease does, stays safe. A key rotation makes old recordings useless.
//!
//! **Authentication first.** [`Seal::open`] changes no state, except that it keeps the keys of up to 4,096 boots
//! (`MAX_BOOTS`). Only datagrams that have been authenticated add one, so that an outsider can neither fill nor empty that
//! cache; a recorded datagram can add the key of an earlier boot, which costs time and opens nothing that it would not open anyway.
//! [`Seal::open`] checks the addressee only after the tag, so that [`NotForMe`](Dropped::NotForMe) indicates a wrong address in
//! a node's configuration, and not noise.
//!
//! The key belongs to the whole cluster: its holder can impersonate any node. The seal excludes outsiders, not
//! malicious members.

mod cipher;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fmt, mem};

use suffrage_core::NodeId;

pub(crate) use self::cipher::{BootKey, TAG};
use crate::keyring::KeyId;
use crate::{Dropped, Error, Key, Keyring};

/// The version of the datagram format.
pub const VERSION: u8 = 1;
/// The number of bytes by which a datagram is longer than its payload.
pub const OVERHEAD: usize = HEADER + TAG;
const HEADER: usize = 1 + 4 + 8 + 8 + NONCE;
const NONCE: usize = 16 + 8;
/// The greatest number of boots of senders whose keys are kept, for each key of the cluster: about 100 bytes each. When there
/// are more, all are dropped, and computed again when they are needed.
const MAX_BOOTS: usize = 4_096;

/// One run of a process. Later boots are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boot(u128);

impl Boot {
    /// The boot of no process.
    pub(crate) const NONE: Boot = Boot(0);

    /// A boot that begins now. Within one process each boot is later than those before.
    pub fn now() -> Result<Boot, Error> {
        Boot::after(0)
    }

    /// A boot that begins now, later than the boot that began at `last` ([`began`](Boot::began)), whatever the clock
    /// says.
    pub fn after(last: u64) -> Result<Boot, Error> {
        static LATEST: AtomicU64 = AtomicU64::new(0);
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        let earliest = clock.max(last.saturating_add(1));
        let mut began = earliest;
        LATEST
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |latest| {
                began = earliest.max(latest.saturating_add(1));
                Some(began)
            })
            .ok();
        Ok(Boot::from_parts(began, getrandom::u64()?))
    }

    pub(crate) fn from_parts(began: u64, random: u64) -> Boot {
        Boot(u128::from(began) << 64 | u128::from(random))
    }

    /// The start time, in microseconds since 1970 by a clock that may have been wrong.
    pub fn began(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

/// Seals the datagrams that this node sends, and opens those that it receives.
pub struct Seal {
    local: NodeId,
    boot: Boot,
    /// The number of sealed datagrams.
    counter: AtomicU64,
    keys: RwLock<Vec<LoadedKey>>,
}

/// A loaded key.
struct LoadedKey {
    key: Key,
    /// For the datagrams that this node sends.
    own: BootKey,
    /// For the datagrams of other nodes.
    boots: BTreeMap<Boot, BootKey>,
}

impl LoadedKey {
    fn id(&self) -> KeyId {
        self.key.id()
    }
}

fn load_keys(keyring: &Keyring, boot: Boot) -> Vec<LoadedKey> {
    let load = |key: &Key| LoadedKey { key: key.clone(), own: key.boot_key(boot), boots: BTreeMap::new() };
    keyring.keys().iter().map(load).collect()
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("local", &self.local).field("boot", &self.boot).finish_non_exhaustive()
    }
}

/// An opened datagram, which may be a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The sender.
    pub from: NodeId,
    /// The boot of the sender.
    pub boot: Boot,
    /// The counter of the datagram in that boot.
    pub counter: u64,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Seal {
    /// The seal of this node for this boot. No two seals may have the same boot.
    pub fn new(local: NodeId, boot: Boot, keyring: &Keyring) -> Seal {
        Seal { local, boot, counter: AtomicU64::new(0), keys: RwLock::new(load_keys(keyring, boot)) }
    }

    /// The id of this node.
    pub fn local(&self) -> NodeId {
        self.local
    }

    /// Replaces the keys. The counter continues.
    pub fn rekey(&self, keyring: &Keyring) {
        let new = load_keys(keyring, self.boot);
        let old = mem::replace(&mut *self.keys.write().unwrap_or_else(PoisonError::into_inner), new);
        drop(old);
    }

    /// Seals a payload for a node.
    pub fn seal(&self, to: NodeId, payload: &[u8]) -> Vec<u8> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let key = keys.first().expect("a keyring has a key");
        // At 10^9 datagrams per second the counter lasts for 500 years.
        let counter = self.counter.fetch_add(1, Ordering::Relaxed);
        let mut datagram = Vec::with_capacity(payload.len() + OVERHEAD);
        datagram.push(VERSION);
        datagram.extend(key.id().0);
        datagram.extend(self.local.0.to_be_bytes());
        datagram.extend(to.0.to_be_bytes());
        datagram.extend(self.boot.0.to_be_bytes());
        datagram.extend(counter.to_be_bytes());
        datagram.extend(payload);
        let (header, body) = datagram.split_at_mut(HEADER);
        let tag = key.own.encrypt(counter, header, body);
        datagram.extend(tag);
        datagram
    }

    /// Opens a datagram, or returns the reason for dropping it. Keeps the key of a sender's boot if the datagram is authentic,
    /// and changes no other state: the caller checks for replays ([`replay`](crate::replay)).
    pub fn open(&self, datagram: &[u8]) -> Result<Opened, Dropped> {
        match datagram.first() {
            None => return Err(Dropped::Malformed),
            Some(&VERSION) => {}
            Some(_) => return Err(Dropped::WrongVersion),
        }
        let (header, rest) = datagram.split_at_checked(HEADER).ok_or(Dropped::Malformed)?;
        let (body, tag) = rest.split_last_chunk::<TAG>().ok_or(Dropped::Malformed)?;
        let boot = Boot(u128::from(number(header, 21)) << 64 | u128::from(number(header, 29)));
        let counter = number(header, 37);
        let mut payload = body.to_vec();
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        // The key id is a hint: two keys may have the same id. The tag is verified before decryption, so that the
        // payload is unchanged for the next key.
        let mut candidates = keys.iter().enumerate().filter(|(_, key)| key.id().0 == header[1..5]);
        let opened = candidates.find_map(|(index, key)| match key.boots.get(&boot) {
            Some(known) => known.decrypt(counter, header, &mut payload, tag).then_some((index, true)),
            None => {
                let boot_key = key.key.boot_key(boot);
                boot_key.decrypt(counter, header, &mut payload, tag).then_some((index, false))
            }
        });
        drop(keys);
        let (index, known) = opened.ok_or(Dropped::Unauthenticated)?;
        if !known {
            self.keep_boot_key(index, boot);
        }
        if number(header, 13) != self.local.0 {
            return Err(Dropped::NotForMe);
        }
        Ok(Opened { from: NodeId(number(header, 5)), boot, counter, payload })
    }

    /// Keeps the key of a boot whose datagram was authentic. If the keys were replaced meanwhile, another key of the cluster
    /// may keep its own one for that boot.
    fn keep_boot_key(&self, index: usize, boot: Boot) {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(LoadedKey { key, boots, .. }) = keys.get_mut(index) {
            if boots.len() >= MAX_BOOTS {
                boots.clear();
            }
            boots.insert(boot, key.boot_key(boot));
        }
    }
}

fn number(header: &[u8], offset: usize) -> u64 {
    header[offset..offset + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
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
    fn a_sealed_datagram_opens_only_at_its_addressee() {
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
    fn a_change_of_any_bit_is_detected() {
        let (one, two) = (seal(1, &[7]), seal(2, &[7]));
        let datagram = one.seal(NodeId(2), b"payload");
        for bit in 0..datagram.len() * 8 {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit < 8 { Dropped::WrongVersion } else { Dropped::Unauthenticated };
            assert_eq!(two.open(&changed), Err(expected), "bit {bit}");
        }
        for length in 0..datagram.len() {
            let expected = if length < OVERHEAD { Dropped::Malformed } else { Dropped::Unauthenticated };
            assert_eq!(two.open(&datagram[..length]), Err(expected), "{length} bytes");
        }
        let longer = [&datagram[..], b"x"].concat();
        assert_eq!(two.open(&longer), Err(Dropped::Unauthenticated));
    }

    #[test]
    fn the_payload_is_encrypted_in_transit() {
        let datagram = seal(1, &[7]).seal(NodeId(2), b"attack at dawn");
        assert!(!datagram.windows(6).any(|part| part == b"attack"));
    }

    /// The rotation of `keyring`: nodes of adjacent steps understand each other.
    #[test]
    fn adjacent_steps_of_a_key_rotation_understand_each_other() {
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
    fn nonces_never_repeat() {
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

    /// The number of boots whose keys are kept, for each key of the cluster.
    fn kept(seal: &Seal) -> Vec<usize> {
        seal.keys.read().unwrap().iter().map(|key| key.boots.len()).collect()
    }

    #[test]
    fn only_authentic_datagrams_add_the_key_of_a_boot() {
        let (one, two) = (seal(1, &[7]), seal(2, &[8, 7]));
        let datagram = one.seal(NodeId(2), b"x");
        for bit in 8 * 21..8 * datagram.len() {
            let mut forged = datagram.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(two.open(&forged), Err(Dropped::Unauthenticated));
        }
        assert_eq!(kept(&two), [0, 0]);
        // The second time with the key that was kept.
        for _ in 0..2 {
            assert_eq!(two.open(&datagram).unwrap().payload, b"x");
            assert_eq!(kept(&two), [0, 1]);
        }
        two.rekey(&ring(&[7]));
        assert_eq!(kept(&two), [0]);
        assert!(two.open(&datagram).is_ok() && one.open(&two.seal(NodeId(1), b"y")).is_ok());
    }

    #[test]
    fn the_keys_of_boots_are_bounded() {
        let (local, ring) = (NodeId(2), ring(&[7]));
        let two = Seal::new(local, Boot::now().unwrap(), &ring);
        for number in 1..=MAX_BOOTS as u64 + 2 {
            let sender = Seal::new(NodeId(1), Boot::from_parts(number, 0), &ring);
            assert!(two.open(&sender.seal(local, b"x")).is_ok());
            assert!((1..=MAX_BOOTS).contains(&kept(&two)[0]));
        }
        assert_eq!(kept(&two), [2]);
    }

    #[test]
    fn boots_increase_whatever_the_clock_says() {
        let first = Boot::now().unwrap();
        assert!(Boot::now().unwrap() > first);
        // The clock was a year ahead at the last start.
        let ahead = first.began() + 31_536_000_000_000;
        let after = Boot::after(ahead).unwrap();
        assert!(after.began() > ahead);
        assert!(Boot::from_parts(5, 9) > Boot::from_parts(5, 8));
    }

    #[test]
    fn debug_output_hides_secrets() {
        let seal = seal(1, &[0x41]);
        assert_eq!(format!("{seal:?}"), format!("Seal {{ local: NodeId(1), boot: {:?}, .. }}", seal.boot));
    }
}
