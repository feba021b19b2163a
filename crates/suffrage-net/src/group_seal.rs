//! Sealed datagrams of large groups: shorter than those of a cluster ([`seal`](crate::seal)), because a ping of a group is
//! short.
//!
//! ```text
//!   version 1 │ key 1 │ from 8 │ session 8 │ counter 4 │ payload, encrypted │ tag 16
//!   └──────── authenticated, in the clear ────────────┘ └── authenticated ──┘
//!                      └──────── nonce ────────────────┘
//! ```
//!
//! The name of the group and the id of the addressee are authenticated too, but not sent: both sides know them. A datagram
//! of another group with the same key, or to another member, does not open. A datagram to a seed, whose id its sender does
//! not know, opens at every member of the group.
//!
//! **No nonce twice.** A session is the start of the member in units of 10 ms, and 24 random bits. Two members with the same
//! id would have to start in the same 10 ms and draw the same bits. Where clocks start at the same time after every boot, only
//! the 24 bits are left: such machines need a clock that keeps the time, or a key for each group and boot. A member
//! that has used up its counter draws a new session.
//!
//! **No datagram twice.** [`Replays`] keeps the latest session of each sender and the last 64 counters of it. What `seal` says
//! about restarts of sender and receiver holds here too. To the group, a replayed datagram is a late one.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use suffrage_core::NodeId;

use crate::seal::{Boot, BootKey, TAG};
use crate::{Dropped, Error, Key, Keyring};

/// The version of the datagram format: no version of the format of clusters.
const VERSION: u8 = 0x67;
/// The number of bytes by which a datagram is longer than its payload.
pub const OVERHEAD: usize = HEADER + TAG;
const HEADER: usize = 1 + 1 + 8 + 8 + 4;

/// Seals the datagrams of one member of a group, and opens those that it receives.
pub struct GroupSeal {
    local: NodeId,
    group: u64,
    session: u64,
    counter: u32,
    keys: Vec<Key>,
    /// The key of what this member sends.
    own: BootKey,
}

impl fmt::Debug for GroupSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupSeal").field("local", &self.local).finish_non_exhaustive()
    }
}

/// An opened datagram, which may be a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedByGroup {
    /// The sender.
    pub from: NodeId,
    session: u64,
    counter: u32,
    /// The payload.
    pub payload: Vec<u8>,
}

/// The key of the datagrams of one session. The sender and its session take the place of the boot of a node.
fn session_key(key: &Key, from: NodeId, session: u64) -> BootKey {
    key.boot_key(Boot::from_parts(from.0, session))
}

fn new_session() -> Result<u64, Error> {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64 / 10);
    Ok(clock << 24 | getrandom::u64()? >> 40)
}

impl GroupSeal {
    /// The seal of a member. `group` is a hash of the group's name.
    pub fn new(local: NodeId, group: u64, keyring: &Keyring) -> Result<GroupSeal, Error> {
        let (session, keys) = (new_session()?, keyring.keys().to_vec());
        let own = session_key(&keys[0], local, session);
        Ok(GroupSeal { local, group, session, counter: 0, keys, own })
    }

    /// Replaces the keys. The counter continues.
    pub fn rekey(&mut self, keyring: &Keyring) {
        self.keys = keyring.keys().to_vec();
        self.own = session_key(&self.keys[0], self.local, self.session);
    }

    /// Seals a payload for a member; for `None`, for whoever has the address that it is sent to.
    pub fn seal(&mut self, to: Option<NodeId>, payload: &[u8]) -> Result<Vec<u8>, Error> {
        if self.counter == u32::MAX {
            (self.session, self.counter) = (new_session()?.max(self.session + 1), 0);
            self.own = session_key(&self.keys[0], self.local, self.session);
        }
        let mut datagram = Vec::with_capacity(payload.len() + OVERHEAD);
        datagram.extend([VERSION, self.keys[0].id().0[0]]);
        datagram.extend(self.local.0.to_be_bytes());
        datagram.extend(self.session.to_be_bytes());
        datagram.extend(self.counter.to_be_bytes());
        datagram.extend(payload);
        let (header, body) = datagram.split_at_mut(HEADER);
        let tag = self.own.encrypt(self.counter.into(), &self.associated(header, to), body);
        datagram.extend(tag);
        self.counter += 1;
        Ok(datagram)
    }

    /// Opens a datagram, or returns the reason for dropping it. Changes no state.
    pub fn open(&self, datagram: &[u8]) -> Result<OpenedByGroup, Dropped> {
        match datagram.first() {
            None => return Err(Dropped::Malformed),
            Some(&VERSION) => {}
            Some(_) => return Err(Dropped::WrongVersion),
        }
        if datagram.len() < OVERHEAD {
            return Err(Dropped::Malformed);
        }
        let (header, rest) = datagram.split_at(HEADER);
        let (body, tag) = rest.split_last_chunk::<TAG>().ok_or(Dropped::Malformed)?;
        let (from, session) = (NodeId(number(header, 2)), number(header, 10));
        let counter = u32::from_be_bytes([header[18], header[19], header[20], header[21]]);
        let mut payload = body.to_vec();
        for key in self.keys.iter().filter(|key| key.id().0[0] == header[1]) {
            let session_key = session_key(key, from, session);
            let opens =
                |to| session_key.decrypt(counter.into(), &self.associated(header, to), &mut payload, tag);
            // A failure leaves the payload as it is.
            if [Some(self.local), None].into_iter().any(opens) {
                return Ok(OpenedByGroup { from, session, counter, payload });
            }
        }
        Err(Dropped::Unauthenticated)
    }

    /// What is authenticated beside the payload: header, addressee and group.
    fn associated(&self, header: &[u8], to: Option<NodeId>) -> [u8; HEADER + 17] {
        let mut associated = [0; HEADER + 17];
        associated[..HEADER].copy_from_slice(header);
        associated[HEADER] = u8::from(to.is_some());
        associated[HEADER + 1..HEADER + 9].copy_from_slice(&to.map_or(0, |id| id.0).to_be_bytes());
        associated[HEADER + 9..].copy_from_slice(&self.group.to_be_bytes());
        associated
    }
}

fn number(header: &[u8], offset: usize) -> u64 {
    header[offset..offset + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The sessions and counters that a member has seen: 32 bytes a sender.
#[derive(Debug, Default)]
pub struct Replays {
    /// Sorted by id.
    senders: Vec<Sender>,
}

#[derive(Debug)]
struct Sender {
    id: NodeId,
    session: u64,
    highest: u32,
    /// Bit `n` is the counter `highest - n`.
    seen: u64,
}

impl Replays {
    /// Accepts an authenticated datagram, or returns the reason for dropping it.
    pub fn admit(&mut self, opened: &OpenedByGroup) -> Result<(), Dropped> {
        let OpenedByGroup { from, session, counter, .. } = *opened;
        let fresh = Sender { id: from, session, highest: counter, seen: 1 };
        let index = match self.senders.binary_search_by_key(&from, |sender| sender.id) {
            Ok(index) => index,
            Err(index) => {
                if self.senders.len() == self.senders.capacity() {
                    self.senders.reserve_exact(self.senders.len() / 8 + 8);
                }
                self.senders.insert(index, fresh);
                return Ok(());
            }
        };
        let sender = &mut self.senders[index];
        if session < sender.session {
            return Err(Dropped::Stale);
        }
        if session > sender.session {
            *sender = fresh;
            return Ok(());
        }
        if counter > sender.highest {
            sender.seen = sender.seen.checked_shl(counter - sender.highest).unwrap_or(0) | 1;
            sender.highest = counter;
            return Ok(());
        }
        let bit = 1u64.checked_shl(sender.highest - counter).unwrap_or(0);
        if bit == 0 || sender.seen & bit != 0 {
            return Err(Dropped::Replayed);
        }
        sender.seen |= bit;
        Ok(())
    }

    /// The number of senders.
    pub fn len(&self) -> usize {
        self.senders.len()
    }

    /// True if there are no senders.
    pub fn is_empty(&self) -> bool {
        self.senders.is_empty()
    }

    /// Forgets all senders but these.
    pub fn retain(&mut self, keep: impl Fn(NodeId) -> bool) {
        self.senders.retain(|sender| keep(sender.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn ring(seeds: &[u8]) -> Keyring {
        Keyring::new(seeds.iter().map(|&seed| Key::new([seed; 32])).collect()).unwrap()
    }

    fn seal(id: u64, group: u64, keys: &[u8]) -> GroupSeal {
        GroupSeal::new(NodeId(id), group, &ring(keys)).unwrap()
    }

    #[test]
    fn a_datagram_opens_at_its_addressee_in_its_group_with_its_key() {
        let mut sender = seal(1, 7, &[1]);
        let datagram = sender.seal(Some(NodeId(2)), b"news").unwrap();
        assert_eq!(datagram.len(), 4 + OVERHEAD);
        let opened = seal(2, 7, &[3, 1]).open(&datagram).unwrap();
        assert_eq!((opened.from, &opened.payload[..]), (NodeId(1), &b"news"[..]));
        for other in [seal(3, 7, &[1]), seal(2, 8, &[1]), seal(2, 7, &[2])] {
            assert_eq!(other.open(&datagram), Err(Dropped::Unauthenticated));
        }
        let to_seed = sender.seal(None, b"hello").unwrap();
        assert!(seal(9, 7, &[1]).open(&to_seed).is_ok());
        assert_eq!(seal(9, 8, &[1]).open(&to_seed), Err(Dropped::Unauthenticated));
    }

    #[test]
    fn any_changed_bit_and_any_cut_is_noticed() {
        let datagram = seal(1, 7, &[1]).seal(Some(NodeId(2)), b"news").unwrap();
        let receiver = seal(2, 7, &[1]);
        for bit in 0..datagram.len() * 8 {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(receiver.open(&changed).is_err(), "bit {bit}");
        }
        for length in 0..datagram.len() {
            assert!(receiver.open(&datagram[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_rotation_of_keys_loses_no_datagram() {
        let (mut old, new) = (seal(1, 7, &[1]), seal(2, 7, &[1, 2]));
        assert!(new.open(&old.seal(Some(NodeId(2)), b"x").unwrap()).is_ok());
        old.rekey(&ring(&[2, 1]));
        assert!(new.open(&old.seal(Some(NodeId(2)), b"x").unwrap()).is_ok());
        assert!(seal(2, 7, &[1]).open(&old.seal(Some(NodeId(2)), b"x").unwrap()).is_err());
    }

    #[test]
    fn no_datagram_is_accepted_twice() {
        let (mut sender, receiver) = (seal(1, 7, &[1]), seal(2, 7, &[1]));
        let opened: Vec<OpenedByGroup> =
            (0..200).map(|_| receiver.open(&sender.seal(Some(NodeId(2)), b"").unwrap()).unwrap()).collect();
        let mut replays = Replays::default();
        // Out of order, within the window.
        for index in [1, 0, 5, 3, 63, 64, 60] {
            assert_eq!(replays.admit(&opened[index]), Ok(()), "{index}");
            assert_eq!(replays.admit(&opened[index]), Err(Dropped::Replayed), "{index}");
        }
        assert_eq!(replays.admit(&opened[199]), Ok(()));
        assert_eq!(replays.admit(&opened[100]), Err(Dropped::Replayed));
        assert_eq!(replays.admit(&opened[136]), Ok(()));
        // A later session replaces the earlier one.
        let later = OpenedByGroup { session: opened[0].session + 1, ..opened[0].clone() };
        assert_eq!(replays.admit(&later), Ok(()));
        assert_eq!(replays.admit(&opened[150]), Err(Dropped::Stale));
        assert_eq!(replays.len(), 1);
        replays.retain(|_| false);
        assert!(replays.is_empty());
    }
}
