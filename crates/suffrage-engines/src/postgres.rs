//! Elections on PostgreSQL: a row per election, which is a lease by the server's clock.
//!
//! ```text
//!   table suffrage_election: name │ identity │ token │ holder │ expires
//!
//!   acquire   insert, or update where expires <= clock_timestamp(): token + 1, notify "acquired"
//!   renew     update expires where holder = ours and expires > clock_timestamp()
//!   resign    update holder = '', expires = 'epoch' where holder = ours, notify "released"
//! ```
//!
//! - Rows are never deleted: the token goes on. It also follows the clock of the server in milliseconds, so that it grows
//!   even if somebody deletes the row, or a standby without the row is promoted.
//! - One session serves all elections of an [`Engine`](crate::Engine): `rows.rs` puts the requests that wait into one
//!   statement. Candidates of one process and one election stand one at a time.
//! - Candidates are woken by a notification of the resignation, and by the expiry that the row tells.
//! - With `?advisory=KEY`, `advisory.rs` takes an advisory lock before the row, on a session per candidate.

mod advisory;
mod rows;
mod session;
mod settings;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tokio_postgres::types::Type;

use self::advisory::{Key, Lock};
use self::rows::{Action, Outcome, Rows};
use self::session::{Servers, ended};
use self::settings::{Advisory, Settings};
use crate::recipe::{Candidate, Grant, Pending, Recipe, Wish};
use crate::tenure::never;
use crate::url::Url;
use crate::waiting::{Changes, Turns, random_name};
use crate::{Error, Facts, Leader, Status};

/// How long a request of an observer waits.
const OBSERVER_PATIENCE: Duration = Duration::from_secs(3);
/// The shortest pause before a candidate asks again: the row changes at this moment.
const SHORT_PAUSE: Duration = Duration::from_millis(10);
/// The longest pause of a candidate or observer without a notification.
const LONG_PAUSE: Duration = Duration::from_secs(10);
/// How often an observer looks for clients that hold the advisory lock: there is no notification of it.
const ADVISORY_PAUSE: Duration = Duration::from_millis(250);

/// PostgreSQL.
pub(crate) struct Postgres {
    rows: Arc<Rows>,
    turns: Arc<Turns>,
}

impl Postgres {
    pub(crate) fn new(url: Url) -> Result<Postgres, Error> {
        let servers = Arc::new(Servers::new(Settings::parse(url)?));
        Ok(Postgres { rows: Arc::new(Rows::new(servers)), turns: Arc::default() })
    }

    fn advisory(&self) -> Option<Advisory> {
        self.rows.link.servers.settings.advisory
    }

    /// The key of the advisory lock of an election.
    async fn key(&self, advisory: Advisory, name: &str) -> Result<Key, Error> {
        Ok(match advisory {
            Advisory::Key(key) => Key::one(key),
            Advisory::Pair(first, second) => Key::pair(first, second),
            Advisory::HashText => {
                let sql = "SELECT hashtext($1)::int8";
                let rows = self.rows.ask(sql, &[(&name, Type::TEXT)], OBSERVER_PATIENCE).await?;
                rows.first().map(|row| Key::one(row.get(0))).ok_or_else(|| ended("no hash of the name"))?
            }
        })
    }

    /// Those who have the advisory lock and those who wait for it, as (application name or process, has it).
    async fn lockers(&self, advisory: Advisory, name: &str) -> Result<Vec<(String, bool)>, Error> {
        let key = self.key(advisory, name).await?;
        let sql = format!(
            "SELECT coalesce(nullif(application_name, ''), usename || ' (process ' || pid || ')', 'process ' || pid), \
             granted FROM pg_locks LEFT JOIN pg_stat_activity USING (pid) WHERE {} ORDER BY query_start",
            key.condition()
        );
        let rows = self.rows.ask(&sql, &[], OBSERVER_PATIENCE).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    async fn find(&self, name: &str) -> Result<(Status, Duration), Error> {
        let observed = self.rows.observe(name, OBSERVER_PATIENCE).await?;
        let mut status = Status { leader: observed.leader, ..Status::default() };
        if let Some(advisory) = self.advisory() {
            for (identity, granted) in self.lockers(advisory, name).await? {
                match (granted, &status.leader) {
                    (false, _) => status.waiting.push(identity),
                    // A client that does not know the row has no token.
                    (true, None) => status.leader = Some(Leader { identity, token: 0 }),
                    (true, Some(leader)) if leader.identity != identity => {
                        let remark = format!("`{identity}` has the advisory lock, and waits for the lease");
                        status.remarks.push(remark);
                    }
                    (true, Some(_)) => {}
                }
            }
        }
        Ok((status, observed.left))
    }

    /// What of the server's settings endangers leases.
    async fn remarks(&self) -> Result<Vec<String>, Error> {
        let sql = "SELECT current_setting('fsync') = 'off', \
            (SELECT string_agg(coalesce(nullif(application_name, ''), client_addr::text, 'a standby'), ', ') \
             FROM pg_stat_replication WHERE sync_state = 'async'), \
            NOT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state <> 'async')";
        let rows = self.rows.ask(sql, &[], OBSERVER_PATIENCE).await?;
        let Some(row) = rows.first() else { return Ok(Vec::new()) };
        let mut remarks = Vec::new();
        if row.get(0) {
            remarks.push("fsync is off: a crash of the server can lose leases".to_string());
        }
        if let (Some(standbys), true) = (row.get::<_, Option<String>>(1), row.get(2)) {
            remarks.push(format!(
                "the standby is asynchronous ({standbys}): its promotion can lose leases, and two can lead; \
                 synchronous_standby_names prevents it"
            ));
        }
        Ok(remarks)
    }
}

impl Recipe for Postgres {
    fn facts(&self) -> &'static Facts {
        &crate::facts::POSTGRES
    }

    fn check_name(&self, name: &str) -> Result<(), Error> {
        if name.contains('\0') {
            let cannot = "stores no name with a zero byte".to_string();
            return Err(Error::Unsupported { engine: "PostgreSQL", cannot });
        }
        Ok(())
    }

    fn candidate(&self, wish: Wish) -> Box<dyn Candidate> {
        let wish = Wish { identity: wish.identity.replace('\0', "").into(), ..wish };
        let lock = self.advisory().map(|advisory| Lock::new(Arc::clone(&self.rows.link.servers), advisory));
        let subscription = self.rows.link.servers.wakeups.subscribe(&wish.name);
        Box::new(Stander {
            rows: Arc::clone(&self.rows),
            turns: Arc::clone(&self.turns),
            holder: random_name().into(),
            lock,
            wakeups: subscription,
            heard: 0,
            asked: false,
            wish,
        })
    }

    fn status<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Status, Error>> {
        Box::pin(async move {
            let (mut status, _) = self.find(name).await?;
            status.remarks.extend(self.remarks().await?);
            Ok(status)
        })
    }

    fn changed<'a>(
        &'a self,
        name: &'a str,
        known: Option<Leader>,
    ) -> Pending<'a, Result<Option<Leader>, Error>> {
        Box::pin(async move {
            let mut wakeups = self.rows.link.servers.wakeups.subscribe(name);
            let longest = if self.advisory().is_some() { ADVISORY_PAUSE } else { LONG_PAUSE };
            loop {
                wakeups.mark_unchanged();
                let (status, left) = self.find(name).await?;
                if status.leader != known {
                    return Ok(status.leader);
                }
                // A lease that nobody renews ends without a notification.
                let pause = if left.is_zero() { longest } else { left.min(longest) };
                tokio::select! {
                    _ = wakeups.changed() => {}
                    () = sleep(pause) => {}
                }
            }
        })
    }

    fn depose<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Option<Leader>, Error>> {
        Box::pin(async move {
            let observed = self.rows.observe(name, OBSERVER_PATIENCE).await?;
            let Some(leader) = observed.leader else { return Ok(None) };
            let (name, holder) = (Arc::from(name), Arc::from(observed.holder));
            self.rows.request(&name, &holder, Action::Release, OBSERVER_PATIENCE).await?;
            Ok(Some(leader))
        })
    }
}

/// A candidate.
struct Stander {
    rows: Arc<Rows>,
    turns: Arc<Turns>,
    wish: Wish,
    /// The random name of this candidate, which distinguishes it from all others.
    holder: Arc<str>,
    lock: Option<Lock>,
    wakeups: watch::Receiver<Changes>,
    /// The number of changes that the leader knows.
    heard: u64,
    /// Whether the server may have heard of the candidate.
    asked: bool,
}

impl Stander {
    /// The time of a request.
    fn within(&self) -> Duration {
        self.wish.ttl / 3
    }

    async fn request(&self, action: Action) -> Result<Outcome, Error> {
        self.rows.request(&self.wish.name, &self.holder, action, self.within()).await
    }

    /// Waits for the row of the election.
    async fn acquire_row(&mut self) -> Result<Grant, Error> {
        loop {
            let releases = self.wakeups.borrow_and_update().releases;
            let sent = self.wish.now();
            self.asked = true;
            let action = Action::Acquire { identity: Arc::clone(&self.wish.identity), ttl: self.wish.ttl };
            let left = match self.request(action).await? {
                Outcome::Granted(token) => {
                    // The notification of the own acquisition comes before its reply.
                    self.heard = self.wakeups.borrow().changes;
                    return Ok(Grant { token, valid_until: self.wish.end_of_lease(sent, self.wish.ttl) });
                }
                Outcome::Held(left) => left,
                Outcome::Released => Duration::ZERO,
            };
            let mut pause = (left + Duration::from_millis(1)).clamp(SHORT_PAUSE, LONG_PAUSE);
            if let Some(lock) = &mut self.lock {
                // The server ends the session of the lock if it is silent.
                lock.verify(self.wish.ttl / 3).await?;
                pause = pause.min(self.wish.ttl / 3);
            }
            tokio::select! {
                _ = self.wakeups.wait_for(|known| known.releases != releases) => {}
                () = sleep(pause) => {}
            }
        }
    }
}

impl Candidate for Stander {
    fn campaign(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(async move {
            let _turn = self.turns.wait(&self.wish.name).await;
            let within = self.within();
            if let Some(lock) = &mut self.lock {
                lock.acquire(&self.wish, within).await?;
            }
            let grant = self.acquire_row().await?;
            if let Some(lock) = &mut self.lock {
                // The session of the lock may have ended while the candidate waited for the row.
                lock.verify(within).await?;
            }
            Ok(grant)
        })
    }

    fn renew(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(async move {
            let (sent, within) = (self.wish.now(), self.within());
            if let Some(lock) = &mut self.lock {
                lock.verify(within).await?;
            }
            match self.request(Action::Renew { ttl: self.wish.ttl }).await? {
                Outcome::Granted(token) => {
                    Ok(Grant { token, valid_until: self.wish.end_of_lease(sent, self.wish.ttl) })
                }
                Outcome::Held(_) | Outcome::Released => Err(ended("somebody else has the lease")),
            }
        })
    }

    fn ended(&mut self) -> Pending<'_, Error> {
        Box::pin(async move {
            let closed = self.lock.as_ref().map(Lock::closed);
            let lock_lost = async {
                match closed {
                    // An error: the task of the session has ended.
                    Some(Some(mut closed)) => _ = closed.wait_for(|closed| *closed).await,
                    Some(None) => {}
                    None => return never().await,
                }
                advisory::lost()
            };
            let row_lost = async {
                loop {
                    let heard = self.wakeups.wait_for(|known| known.changes != self.heard).await;
                    let Ok(heard) = heard.map(|known| known.changes) else { return never().await };
                    // An error: the renewal finds out. Until the answer is there, this future can be dropped.
                    if let Ok(observed) = self.rows.observe(&self.wish.name, self.wish.ttl / 3).await
                        && *observed.holder != *self.holder
                    {
                        return ended("somebody has ended the lease in the row of the election");
                    }
                    self.heard = heard;
                }
            };
            tokio::select! {
                error = lock_lost => error,
                error = row_lost => error,
            }
        })
    }

    fn withdraw(&mut self) -> Pending<'_, Result<(), Error>> {
        Box::pin(async move {
            // The row first: whoever gets the lock finds the row free.
            if self.asked {
                self.request(Action::Release).await?;
                self.asked = false;
            }
            let within = self.within();
            if let Some(lock) = &mut self.lock {
                lock.release(within).await;
            }
            Ok(())
        })
    }
}
