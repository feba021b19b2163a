//! The messages of ZooKeeper's client protocol: records of Jute, in big-endian, each in a frame with its length.

use std::time::Duration;

/// The number of a kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Op {
    Delete = 2,
    Exists = 3,
    GetData = 4,
    GetChildren = 8,
    Sync = 9,
    Ping = 11,
    Check = 13,
    Multi = 14,
    Create = 15,
    CreateContainer = 19,
    Auth = 100,
    CloseSession = -11,
}

/// The numbers of messages that are not replies to a request by its number.
pub(super) const NOTIFICATION: i32 = -1;
pub(super) const PING: i32 = -2;
pub(super) const AUTH: i32 = -4;

/// The longest frame that is read: twice what servers send by default.
pub(super) const LONGEST_FRAME: usize = 2 << 20;

/// An error code of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(pub(super) i32);

impl Code {
    pub(super) const UNIMPLEMENTED: Code = Code(-6);
    pub(super) const NO_NODE: Code = Code(-101);
    pub(super) const NO_AUTH: Code = Code(-102);
    pub(super) const NODE_EXISTS: Code = Code(-110);
    pub(super) const SESSION_EXPIRED: Code = Code(-112);
    pub(super) const AUTH_FAILED: Code = Code(-115);
    pub(super) const SESSION_MOVED: Code = Code(-118);

    fn name(self) -> &'static str {
        match self.0 {
            -1 => "system error",
            -2 => "runtime inconsistency",
            -4 => "connection loss",
            -5 => "marshalling error",
            -6 => "the server does not know this request",
            -7 => "time-out",
            -8 => "bad arguments",
            -101 => "no such node",
            -102 => "no permission",
            -108 => "ephemeral nodes have no children",
            -110 => "the node exists",
            -112 => "the session has expired",
            -114 => "invalid ACL",
            -115 => "the credentials are wrong",
            -118 => "the session has moved to another connection",
            -119 => "the server is read-only",
            -125 => "the quota is exceeded",
            -127 => "the request was throttled",
            _ => "unknown error",
        }
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

/// The fields of a node that elections use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    /// The number of the transaction that created the node. Grows over all nodes, also over restarts and elections of
    /// the servers.
    pub(super) czxid: u64,
    /// The session that the node ends with.
    pub(super) owner: i64,
}

/// Who may do what with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acl {
    /// Everybody everything: what Curator and kazoo do by default.
    Open,
    /// The user of this connection everything, and nobody else anything.
    Creator,
}

/// The lifetime of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Persistent,
    /// Removed by the servers some time after its last child.
    Container,
    EphemeralSequential,
}

/// Writes a record.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn int(mut self, value: i32) -> Writer {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, value: i64) -> Writer {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn bool(mut self, value: bool) -> Writer {
        self.0.push(u8::from(value));
        self
    }

    pub(super) fn bytes(mut self, value: &[u8]) -> Writer {
        self.0.extend((value.len() as i32).to_be_bytes());
        self.0.extend(value);
        self
    }

    /// Another record after this one.
    pub(super) fn append(mut self, record: &[u8]) -> Writer {
        self.0.extend(record);
        self
    }

    pub(super) fn string(self, value: &str) -> Writer {
        self.bytes(value.as_bytes())
    }

    /// The record in a frame.
    pub(super) fn frame(self) -> Vec<u8> {
        let mut frame = Vec::with_capacity(self.0.len() + 4);
        frame.extend((self.0.len() as u32).to_be_bytes());
        frame.extend(self.0);
        frame
    }

    pub(super) fn record(self) -> Vec<u8> {
        self.0
    }
}

/// Reads a record. `None`: the record ends too early, or is not what it should be.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub(super) fn int(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }

    pub(super) fn bool(&mut self) -> Option<bool> {
        self.take::<1>().map(|[byte]| byte != 0)
    }

    /// Bytes. A length of -1 is no bytes.
    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.int()?.max(0)).ok()?;
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    pub(super) fn string(&mut self) -> Option<String> {
        self.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    pub(super) fn strings(&mut self) -> Option<Vec<String>> {
        let count = self.int()?.max(0);
        (0..count).map(|_| self.string()).collect()
    }

    pub(super) fn stat(&mut self) -> Option<Stat> {
        let czxid = self.long()?;
        // mzxid, ctime, mtime; version, cversion, aversion.
        self.take::<{ 3 * 8 + 3 * 4 }>()?;
        let owner = self.long()?;
        // dataLength, numChildren; pzxid.
        self.take::<{ 2 * 4 + 8 }>()?;
        Some(Stat { czxid: czxid.cast_unsigned(), owner })
    }
}

/// The session of a connection, as it is asked for and as a server has granted it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SessionKey {
    pub(super) id: i64,
    pub(super) password: Vec<u8>,
}

/// The first frame of a connection.
pub(super) fn connect(session: Option<&SessionKey>, timeout: Duration) -> Vec<u8> {
    let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let (id, password) = session.map_or((0, &[0_u8; 16] as &[u8]), |key| (key.id, &key.password));
    // Protocol version, last zxid seen: none, so that a server that lags behind is not refused. `Session` reads by `sync`.
    Writer::default().int(0).long(0).int(millis).long(id).bytes(password).bool(false).frame()
}

/// The server's answer: the session and its time-out, or `Some(None)` if the session has expired.
pub(super) fn connected(record: &[u8]) -> Option<Option<(SessionKey, Duration)>> {
    let mut reader = Reader(record);
    let (_version, millis, id, password) = (reader.int()?, reader.int()?, reader.long()?, reader.bytes()?);
    let timeout = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
    let key = SessionKey { id, password: password.to_vec() };
    Some((!timeout.is_zero() && id != 0).then_some((key, timeout)))
}

pub(super) fn create(path: &str, data: &str, acl: Acl, mode: Mode) -> (Op, Vec<u8>) {
    let (scheme, id) = match acl {
        Acl::Open => ("world", "anyone"),
        Acl::Creator => ("auth", ""),
    };
    let (op, flags) = match mode {
        Mode::Persistent => (Op::Create, 0),
        Mode::EphemeralSequential => (Op::Create, 3),
        Mode::Container => (Op::CreateContainer, 4),
    };
    // One entry of the ACL, with all five permissions.
    let record =
        Writer::default().string(path).string(data).int(1).int(31).string(scheme).string(id).int(flags);
    (op, record.record())
}

/// A path and whether to watch it.
pub(super) fn read(path: &str, watch: bool) -> Vec<u8> {
    Writer::default().string(path).bool(watch).record()
}

/// A path and its version: any.
pub(super) fn any_version(path: &str) -> Vec<u8> {
    Writer::default().string(path).int(-1).record()
}

/// A transaction that changes nothing: it succeeds if all paths exist. The servers agree on it like on a write.
pub(super) fn check_all(paths: &[String]) -> Vec<u8> {
    let mut writer = Writer::default();
    for path in paths {
        writer = writer.int(Op::Check as i32).bool(false).int(-1).string(path).int(-1);
    }
    writer.int(-1).bool(true).int(-1).record()
}

/// The code of each check of a transaction: zero if the path exists. `None` if the reply is malformed.
pub(super) fn checked(record: &[u8], count: usize) -> Option<Vec<Code>> {
    let mut reader = Reader(record);
    let mut codes = Vec::new();
    loop {
        let (kind, done, code) = (reader.int()?, reader.bool()?, reader.int()?);
        if done {
            return (codes.len() == count).then_some(codes);
        }
        // A result of an error repeats its code.
        codes.push(Code(if kind == -1 { reader.int()? } else { code.max(0) }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_granted_or_expired() {
        let reply = Writer::default().int(0).int(4_000).long(7).bytes(b"secret").bool(false).record();
        let (key, timeout) = connected(&reply).unwrap().unwrap();
        assert_eq!(
            (key.id, key.password.as_slice(), timeout),
            (7, b"secret" as &[u8], Duration::from_secs(4))
        );
        let reply = Writer::default().int(0).int(0).long(0).bytes(&[0; 16]).record();
        assert!(connected(&reply).unwrap().is_none());
        assert!(connected(&reply[..20]).is_none());
    }

    #[test]
    fn a_truncated_record_is_noticed_at_every_length() {
        let stat = Writer::default().long(5).long(0).long(0).long(0).int(0).int(0).int(0).long(9);
        let record = stat.int(0).int(0).long(0).record();
        assert_eq!(Reader(&record).stat(), Some(Stat { czxid: 5, owner: 9 }));
        for length in 0..record.len() {
            assert_eq!(Reader(&record[..length]).stat(), None);
        }
        assert_eq!(Reader(&[0, 0, 0, 9, 1]).bytes(), None);
        assert_eq!(Reader(&[0x7f, 0xff, 0xff, 0xff]).strings(), None);
    }

    #[test]
    fn the_codes_of_a_transaction_are_read() {
        // As a server answers: the first check would have succeeded, the second has failed.
        let one = |code: i32| Writer::default().int(-1).bool(false).int(code).int(code);
        let mut record = one(0).record();
        record.extend(one(-101).record());
        let end = Writer::default().int(-1).bool(true).int(-1).record();
        record.extend(&end);
        assert_eq!(checked(&record, 2), Some(vec![Code(0), Code::NO_NODE]));
        assert_eq!(checked(&record, 3), None);
        let mut good = Writer::default().int(Op::Check as i32).bool(false).int(0).record();
        good.extend(&end);
        assert_eq!(checked(&good, 1), Some(vec![Code(0)]));
        assert_eq!(checked(&end, 0), Some(Vec::new()));
    }
}
