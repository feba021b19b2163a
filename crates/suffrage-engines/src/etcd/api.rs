//! The messages of etcd: Lease, KV and Watch.

use bytes::Bytes;

use crate::grpc::{Message, all, number, within};

pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(super) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(super) const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
pub(super) const LEASE_REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
pub(super) const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
pub(super) const WATCH: &str = "/etcdserverpb.Watch/Watch";
pub(super) const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
pub(super) const STATUS: &str = "/etcdserverpb.Maintenance/Status";

/// The sort orders of a range request.
const ASCENDING: i64 = 1;
const DESCENDING: i64 = 2;
/// The sort target of a range request: the create revision.
const BY_CREATE_REVISION: i64 = 2;

/// The header of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The revision of the store at which the request was answered.
    pub(super) revision: i64,
    /// The term of the last entry that the answering server has applied.
    pub(super) term: i64,
}

pub(super) fn header(answer: &[u8]) -> Header {
    let header = within(answer, 1).unwrap_or_default();
    Header { revision: number(header, 3), term: number(header, 4) }
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) create_revision: i64,
    pub(super) lease: i64,
}

/// The entries of an answer to a range request.
pub(super) fn entries(range: &[u8]) -> impl Iterator<Item = Entry> {
    all(range, 2).map(|entry| Entry {
        key: within(entry, 1).unwrap_or_default().to_vec(),
        value: within(entry, 5).unwrap_or_default().to_vec(),
        create_revision: number(entry, 2),
        lease: number(entry, 6),
    })
}

/// The answers to the operations of a transaction, which were all range requests or puts.
pub(super) fn ranges(txn: &[u8]) -> impl Iterator<Item = &[u8]> {
    all(txn, 3).filter_map(|operation| within(operation, 1))
}

/// The end of the range of all keys with this prefix.
fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    // All keys.
    vec![0]
}

/// Asks for one key, without its value.
pub(super) fn get(key: &[u8]) -> Message {
    Message::new().bytes(1, key).number(8, 1)
}

/// Asks whether a key exists: the cheapest request that needs a majority of the servers.
pub(super) fn probe(key: &[u8]) -> Message {
    Message::new().bytes(1, key).number(9, 1)
}

fn of_prefix(prefix: &[u8], limit: i64, order: i64) -> Message {
    let range = Message::new().bytes(1, prefix).bytes(2, &end_of_prefix(prefix));
    range.number(3, limit).number(5, order).number(6, BY_CREATE_REVISION)
}

/// Asks for all keys with this prefix, the oldest first.
pub(super) fn get_all(prefix: &[u8]) -> Message {
    of_prefix(prefix, 0, ASCENDING)
}

/// Asks for the oldest key with this prefix.
pub(super) fn get_first(prefix: &[u8]) -> Message {
    of_prefix(prefix, 1, ASCENDING)
}

/// Asks for the newest key with this prefix that is older than a revision, without its value.
pub(super) fn get_last_before(prefix: &[u8], create_revision: i64) -> Message {
    of_prefix(prefix, 1, DESCENDING).number(8, 1).number(13, create_revision - 1)
}

fn create_revision_is(key: &[u8], create_revision: i64) -> Message {
    Message::new().number(1, 0).number(2, 1).bytes(3, key).number(5, create_revision)
}

fn range_operation(range: &Message) -> Message {
    Message::new().message(1, range)
}

/// The transaction of a campaign: puts the key unless it is there, and asks for it and for the oldest of the prefix.
pub(super) fn stand(key: &[u8], value: &[u8], lease: i64, prefix: &[u8]) -> Message {
    let put = Message::new().bytes(1, key).bytes(2, value).number(3, lease);
    let own = range_operation(&get(key));
    let first = range_operation(&get_first(prefix).number(8, 1));
    Message::new()
        .message(1, &create_revision_is(key, 0))
        .message(2, &Message::new().message(2, &put))
        .message(2, &own)
        .message(2, &first)
        .message(3, &own)
        .message(3, &first)
}

/// Deletes a key if it still has this create revision.
pub(super) fn delete(key: &[u8], create_revision: i64) -> Message {
    let delete = Message::new().message(3, &Message::new().bytes(1, key));
    Message::new().message(1, &create_revision_is(key, create_revision)).message(2, &delete)
}

/// Whether the condition of a transaction was true.
pub(super) fn succeeded(txn: &[u8]) -> bool {
    number(txn, 2) == 1
}

/// Several range requests in one transaction, which needs no entry in the log of etcd.
pub(super) fn read(requests: impl IntoIterator<Item = Message>) -> Message {
    requests.into_iter().fold(Message::new(), |txn, range| txn.message(2, &range_operation(&range)))
}

pub(super) fn lease_grant(seconds: i64, lease: i64) -> Message {
    Message::new().number(1, seconds).number(2, lease)
}

pub(super) fn lease(lease: i64) -> Message {
    Message::new().number(1, lease)
}

/// The length of a lease in an answer to a grant or a renewal, in seconds.
pub(super) fn seconds(answer: &[u8]) -> u64 {
    number(answer, 3).try_into().unwrap_or(0)
}

pub(super) fn lease_of(answer: &[u8]) -> i64 {
    number(answer, 2)
}

pub(super) fn authenticate(user: &str, password: &str) -> Message {
    Message::new().bytes(1, user.as_bytes()).bytes(2, password.as_bytes())
}

/// The text in field 2: the token of Authenticate, the version of Status.
pub(super) fn text(answer: &[u8]) -> String {
    String::from_utf8_lossy(within(answer, 2).unwrap_or_default()).into_owned()
}

/// The events that a watch waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The deletion of a key.
    Deletion(Vec<u8>),
    /// A put or the deletion of a key.
    Change(Vec<u8>),
    /// A put of a key with this prefix.
    PutBelow(Vec<u8>),
}

/// Starts a watch for all events from this revision on.
pub(super) fn watch(target: &Target, from: i64) -> Message {
    /// The filters leave these events out.
    const NO_PUT: i64 = 0;
    const NO_DELETE: i64 = 1;
    let create = match target {
        Target::Deletion(key) => Message::new().bytes(1, key).number(3, from).number(5, NO_PUT),
        Target::Change(key) => Message::new().bytes(1, key).number(3, from),
        Target::PutBelow(prefix) => {
            let range = Message::new().bytes(1, prefix).bytes(2, &end_of_prefix(prefix));
            range.number(3, from).number(5, NO_DELETE)
        }
    };
    Message::new().message(1, &create)
}

pub(super) fn cancel_watch(id: i64) -> Message {
    Message::new().message(2, &Message::new().number(1, id))
}

/// An answer on a stream of watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WatchAnswer {
    pub(super) id: i64,
    pub(super) created: bool,
    pub(super) canceled: bool,
    /// The events from the wanted revision on are not stored any more.
    pub(super) compacted: bool,
    pub(super) reason: String,
    pub(super) has_events: bool,
}

pub(super) fn watch_answer(answer: &Bytes) -> WatchAnswer {
    WatchAnswer {
        id: number(answer, 2),
        created: number(answer, 3) == 1,
        canceled: number(answer, 4) == 1,
        compacted: number(answer, 5) != 0,
        reason: String::from_utf8_lossy(within(answer, 6).unwrap_or_default()).into_owned(),
        has_events: within(answer, 11).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_key_without_it() {
        assert_eq!(end_of_prefix(b"a/b/"), b"a/b0");
        assert_eq!(end_of_prefix(b"a\xff\xff"), b"b");
        assert_eq!(end_of_prefix(b"\xff"), b"\0");
    }
}
