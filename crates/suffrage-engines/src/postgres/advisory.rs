//! The advisory lock that clients of other languages take, on a session of its own.
//!
//! The lock alone has no bound in time: it ends with its session, of which the holder may hear late or never. So the
//! candidate also holds the row, which bounds its validity and gives the token, and the server ends a session that is
//! silent for the ttl (`idle_session_timeout`, PostgreSQL 14).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_postgres::types::Type;

use super::session::{LOCK_PATIENCE, Purpose, Servers, Session, ended, unavailable};
use super::settings::Advisory;
use crate::Error;
use crate::recipe::Wish;

/// The code of the error after `lock_timeout`.
const LOCK_TIMEOUT: &str = "SQLSTATE 55P03";

/// The key of a lock, as the view `pg_locks` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    class: u32,
    object: u32,
    /// 1: one key of 64 bits; 2: a pair of keys of 32 bits.
    kind: i16,
}

impl Key {
    pub(super) fn one(key: i64) -> Key {
        let bits = key.cast_unsigned();
        #[allow(clippy::cast_possible_truncation, reason = "the halves of 64 bits")]
        let (class, object) = ((bits >> 32) as u32, bits as u32);
        Key { class, object, kind: 1 }
    }

    pub(super) fn pair(first: i32, second: i32) -> Key {
        Key { class: first.cast_unsigned(), object: second.cast_unsigned(), kind: 2 }
    }

    /// The arguments of the functions of advisory locks.
    fn arguments(self) -> String {
        if self.kind == 2 {
            return format!("{}, {}", self.class.cast_signed(), self.object.cast_signed());
        }
        (u64::from(self.class) << 32 | u64::from(self.object)).cast_signed().to_string()
    }

    /// The condition that selects the lock from `pg_locks`.
    pub(super) fn condition(self) -> String {
        format!(
            "locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
             AND classid = {} AND objid = {} AND objsubid = {}",
            self.class, self.object, self.kind
        )
    }
}

pub(super) fn lost() -> Error {
    ended("the session of the advisory lock has ended, and the lock with it")
}

/// The lock of one candidate.
pub(super) struct Lock {
    servers: Arc<Servers>,
    advisory: Advisory,
    /// The session, and whether it has the lock.
    session: Option<(Session, Key, bool)>,
}

impl Lock {
    pub(super) fn new(servers: Arc<Servers>, advisory: Advisory) -> Lock {
        Lock { servers, advisory, session: None }
    }

    /// Waits until the candidate has the lock. The future can be dropped at any moment.
    pub(super) async fn acquire(&mut self, wish: &Wish, within: Duration) -> Result<(), Error> {
        if self.session.as_ref().is_some_and(|(session, _, locked)| *locked && !session.is_closed()) {
            return self.verify(within).await;
        }
        // A session whose request had no reply may get the lock later: it ends here.
        self.session = None;
        let purpose = Purpose::Lock { identity: &wish.identity, ttl: wish.ttl };
        let session = self.servers.open(purpose, within).await?;
        let settings = &self.servers.settings;
        let key = match self.advisory {
            Advisory::Key(key) => Key::one(key),
            Advisory::Pair(first, second) => Key::pair(first, second),
            Advisory::HashText => {
                let name: &str = &wish.name;
                let sql = "SELECT hashtext($1)::int8";
                let rows = session.query(sql, &[(&name, Type::TEXT)], within, settings).await?;
                let row = rows.first().ok_or_else(|| unavailable("no hash of the name"))?;
                Key::one(row.get(0))
            }
        };
        let (session, key, locked) = self.session.insert((session, key, false));
        let sql = format!("SELECT pg_advisory_lock({})", key.arguments());
        loop {
            // The server gives up after its `lock_timeout`, which shows that the connection works.
            match session.query(&sql, &[], LOCK_PATIENCE + within, settings).await {
                Err(Error::Unavailable { reason, .. }) if reason.contains(LOCK_TIMEOUT) => {}
                reply => {
                    *locked = reply.is_ok();
                    return reply.map(|_| ());
                }
            }
        }
    }

    /// Checks that the session lives and has the lock.
    pub(super) async fn verify(&mut self, within: Duration) -> Result<(), Error> {
        let Some((session, key, true)) = &self.session else {
            return Err(ended("the candidate does not have the advisory lock"));
        };
        // Behind a pool of connections, another session may answer: it does not have the lock.
        let sql = format!(
            "SELECT FROM pg_locks WHERE {} AND granted AND pid = pg_backend_pid() AND pid = {}",
            key.condition(),
            session.pid()
        );
        let rows = session.query(&sql, &[], within, &self.servers.settings).await;
        let gone = session.is_closed() || rows.as_ref().is_ok_and(Vec::is_empty);
        if gone {
            self.session = None;
            return Err(lost());
        }
        rows.map(|_| ())
    }

    /// Tells the end of the session that has the lock.
    pub(super) fn closed(&self) -> Option<watch::Receiver<bool>> {
        self.session.as_ref().map(|(session, ..)| session.closed())
    }

    /// Releases the lock: ends the session.
    pub(super) async fn release(&mut self, within: Duration) {
        let Some((session, key, locked)) = self.session.take() else { return };
        if locked {
            let sql = format!("SELECT pg_advisory_unlock({})", key.arguments());
            // If the server does not hear it, it releases the lock when the connection closes.
            _ = session.query(&sql, &[], within, &self.servers.settings).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_pg_locks() {
        assert_eq!(Key::one(7), Key { class: 0, object: 7, kind: 1 });
        assert_eq!(Key::one(-1), Key { class: u32::MAX, object: u32::MAX, kind: 1 });
        assert_eq!(Key::one(1 << 32 | 5), Key { class: 1, object: 5, kind: 1 });
        for key in [i64::MIN, -3, 0, 1 << 40] {
            assert_eq!(Key::one(key).arguments(), key.to_string());
        }
        assert_eq!(Key::pair(1, -2).arguments(), "1, -2");
    }
}
