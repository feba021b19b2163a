//! The rows of the elections: requests of many elections travel in one statement, which is one commit of the server.
//!
//! A statement for many elections joins lists of names, which costs the server twice the time of a statement for one name.
//! Most programs have one election: a request that travels alone has a statement of its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::session::{Link, Parameter, Servers, Session, ended, unavailable};
use super::settings::Settings;
use crate::{Error, Leader};

/// What a request wants of the row of an election.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// The lease, if nobody has it.
    Acquire { identity: Arc<str>, ttl: Duration },
    /// A later end of the lease that the holder has.
    Renew { ttl: Duration },
    /// The end of the lease, if the holder has it.
    Release,
}

/// What a request has found.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// The holder has the lease, with this token.
    Granted(u64),
    /// Somebody else has the lease for this long.
    Held(Duration),
    /// The holder does not have the lease.
    Released,
}

struct Request {
    name: Arc<str>,
    /// The random name of the candidate.
    holder: Arc<str>,
    action: Action,
    within: Duration,
    reply: oneshot::Sender<Result<Outcome, Error>>,
}

impl Request {
    /// Whether the request is to be sent: a lease that nobody waits for is not taken.
    fn is_wanted(&self) -> bool {
        !self.reply.is_closed() || matches!(self.action, Action::Release)
    }
}

/// A row, as observers see it.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) leader: Option<Leader>,
    pub(super) holder: String,
    /// The time until the lease ends.
    pub(super) left: Duration,
}

/// The statements, with the name of the table in them.
///
/// Locks of rows are never waited for (`SKIP LOCKED`): a row that another session keeps locked does not delay the other
/// elections. Only the insertion of a new row may wait for another session that inserts the same one.
struct Statements {
    acquire: String,
    acquire_one: String,
    renew: String,
    release: String,
    release_one: String,
    observe: String,
}

impl Statements {
    fn new(settings: &Settings) -> Statements {
        let (table, channel) = (&settings.table, &settings.channel);
        // The token also follows the clock, in milliseconds: it grows even if the row is lost, by hand or by a fail-over.
        let fresh = "(extract(epoch FROM clock_timestamp()) * 1000)::int8";
        let take_over = "ON CONFLICT (name) DO UPDATE SET
                    holder = excluded.holder, identity = excluded.identity, expires = excluded.expires,
                    token = CASE WHEN e.holder = excluded.holder AND e.expires > clock_timestamp() THEN e.token
                        ELSE greatest(e.token + 1, excluded.token) END
                WHERE e.expires <= clock_timestamp() OR e.holder = excluded.holder";
        let acquire = format!(
            "WITH wish AS MATERIALIZED (
                SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::int8[]) AS w (name, holder, identity, ttl)
            ), free AS MATERIALIZED (
                SELECT e.name FROM {table} e JOIN wish w ON w.name = e.name
                WHERE e.expires <= clock_timestamp() OR e.holder = w.holder
                ORDER BY e.name FOR UPDATE OF e SKIP LOCKED
            ), granted AS (
                INSERT INTO {table} AS e (name, holder, identity, token, expires)
                SELECT w.name, w.holder, w.identity, {fresh}, clock_timestamp() + w.ttl * interval '1 microsecond'
                FROM wish w
                WHERE w.name IN (SELECT name FROM free) OR NOT EXISTS (SELECT FROM {table} k WHERE k.name = w.name)
                ORDER BY w.name
                {take_over}
                RETURNING e.name, e.token
            )
            SELECT w.name, g.token, coalesce(extract(epoch FROM e.expires - clock_timestamp()), 0)::float8,
                CASE WHEN g.name IS NOT NULL THEN pg_notify('{channel}', 'acquired ' || g.name) END
            FROM wish w LEFT JOIN granted g ON g.name = w.name LEFT JOIN {table} e ON e.name = w.name"
        );
        let acquire_one = format!(
            "WITH free AS MATERIALIZED (
                SELECT FROM {table} WHERE name = $1 AND (expires <= clock_timestamp() OR holder = $2)
                FOR UPDATE SKIP LOCKED
            ), granted AS (
                INSERT INTO {table} AS e (name, holder, identity, token, expires)
                SELECT $1, $2, $3, {fresh}, clock_timestamp() + $4 * interval '1 microsecond'
                WHERE EXISTS (SELECT FROM free) OR NOT EXISTS (SELECT FROM {table} WHERE name = $1)
                {take_over}
                RETURNING e.token, pg_notify('{channel}', 'acquired ' || e.name)
            )
            SELECT $1, token, 0::float8 FROM granted
            UNION ALL SELECT $1, NULL,
                coalesce((SELECT extract(epoch FROM expires - clock_timestamp()) FROM {table} WHERE name = $1), 0)::float8
            WHERE NOT EXISTS (SELECT FROM granted)"
        );
        let mine = format!(
            "mine AS MATERIALIZED (
                SELECT e.name FROM {table} e JOIN wish w ON w.name = e.name AND w.holder = e.holder
                ORDER BY e.name FOR UPDATE OF e SKIP LOCKED
            )"
        );
        let renew = format!(
            "WITH wish AS MATERIALIZED (
                SELECT * FROM unnest($1::text[], $2::text[], $3::int8[]) AS w (name, holder, ttl)
            ), {mine}, renewed AS (
                UPDATE {table} e SET expires = clock_timestamp() + w.ttl * interval '1 microsecond'
                FROM wish w JOIN mine m ON m.name = w.name
                WHERE e.name = w.name AND e.holder = w.holder AND e.expires > clock_timestamp()
                RETURNING e.name, e.token
            )
            SELECT w.name, r.token, coalesce(e.holder = w.holder AND e.expires > clock_timestamp(), false)
            FROM wish w LEFT JOIN renewed r ON r.name = w.name LEFT JOIN {table} e ON e.name = w.name"
        );
        let release = format!(
            "WITH wish AS MATERIALIZED (
                SELECT * FROM unnest($1::text[], $2::text[]) AS w (name, holder)
            ), {mine}, released AS (
                UPDATE {table} e SET expires = 'epoch', holder = ''
                FROM wish w JOIN mine m ON m.name = w.name
                WHERE e.name = w.name AND e.holder = w.holder
                RETURNING e.name
            )
            SELECT w.name, CASE WHEN r.name IS NOT NULL THEN pg_notify('{channel}', 'released ' || r.name) END,
                coalesce(r.name IS NULL AND e.holder = w.holder, false)
            FROM wish w LEFT JOIN released r ON r.name = w.name LEFT JOIN {table} e ON e.name = w.name"
        );
        let release_one = format!(
            "WITH mine AS MATERIALIZED (
                SELECT FROM {table} WHERE name = $1 AND holder = $2 FOR UPDATE SKIP LOCKED
            ), released AS (
                UPDATE {table} e SET expires = 'epoch', holder = ''
                WHERE e.name = $1 AND e.holder = $2 AND EXISTS (SELECT FROM mine)
                RETURNING pg_notify('{channel}', 'released ' || e.name)
            )
            SELECT $1, NULL, NOT EXISTS (SELECT FROM released)
                AND EXISTS (SELECT FROM {table} WHERE name = $1 AND holder = $2)"
        );
        let observe = format!(
            "SELECT identity, token, holder, extract(epoch FROM expires - clock_timestamp())::float8
            FROM {table} WHERE name = $1"
        );
        Statements { acquire, acquire_one, renew, release, release_one, observe }
    }
}

/// The requests that wait for the next statement.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Request>,
    /// Whether a task sends them.
    running: bool,
}

/// The rows of all elections of an engine.
pub(super) struct Rows {
    pub(super) link: Link,
    statements: Statements,
    queue: Mutex<Queue>,
}

/// The task that sends requests. If its runtime is shut down, the next request starts another.
struct Sender {
    rows: Arc<Rows>,
    finished: bool,
}

impl Drop for Sender {
    fn drop(&mut self) {
        if !self.finished {
            let mut queue = self.rows.queue();
            queue.running = false;
            // Dropped requests are errors for those who wait.
            queue.waiting.clear();
        }
    }
}

impl Sender {
    /// Sends requests until none waits. The requests of one election are sent in their order, one after the other.
    async fn run(mut self) {
        loop {
            let batch = self.rows.next_batch();
            if batch.is_empty() {
                let mut queue = self.rows.queue();
                if queue.waiting.is_empty() {
                    // Under the lock: nobody relies on this task any more.
                    (queue.running, self.finished) = (false, true);
                    return;
                }
                continue;
            }
            self.rows.serve(batch).await;
        }
    }
}

fn micros(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX)
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

fn token(row: &Row, column: usize) -> Option<u64> {
    row.get::<_, Option<i64>>(column).and_then(|token| u64::try_from(token).ok())
}

impl Rows {
    pub(super) fn new(servers: Arc<Servers>) -> Rows {
        let statements = Statements::new(&servers.settings);
        Rows { link: Link::new(servers), statements, queue: Mutex::default() }
    }

    fn settings(&self) -> &Settings {
        &self.link.servers.settings
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request, and waits for its outcome within this time.
    pub(super) async fn request(
        self: &Arc<Self>,
        name: &Arc<str>,
        holder: &Arc<str>,
        action: Action,
        within: Duration,
    ) -> Result<Outcome, Error> {
        let (reply, outcome) = oneshot::channel();
        let request = Request { name: Arc::clone(name), holder: Arc::clone(holder), action, within, reply };
        self.enqueue(request);
        match timeout(within, outcome).await {
            Ok(outcome) => outcome.unwrap_or_else(|_| Err(unavailable("the request was given up"))),
            Err(_) => Err(unavailable(format!("no answer within {within:?}"))),
        }
    }

    fn enqueue(self: &Arc<Self>, request: Request) {
        let mut queue = self.queue();
        queue.waiting.push_back(request);
        if !std::mem::replace(&mut queue.running, true) {
            crate::tasks::spawn(Sender { rows: Arc::clone(self), finished: false }.run());
        }
    }

    /// The next requests, at most one of each election. Acquisitions that nobody waits for any more are left out.
    fn next_batch(&self) -> Vec<Request> {
        let mut queue = self.queue();
        let (mut batch, mut later, mut names) = (Vec::new(), VecDeque::new(), BTreeSet::new());
        for request in queue.waiting.drain(..) {
            if !request.is_wanted() {
                continue;
            }
            if names.insert(Arc::clone(&request.name)) {
                batch.push(request);
            } else {
                later.push_back(request);
            }
        }
        queue.waiting = later;
        batch
    }

    async fn serve(&self, mut batch: Vec<Request>) {
        let within = batch.iter().map(|request| request.within).min().unwrap_or_default();
        let result = match timeout(within, self.link.session(within)).await {
            Ok(Ok(session)) => {
                // The session may have come too late.
                batch.retain(Request::is_wanted);
                // Not all of the time: another session can be tried while the lease is valid.
                let result = self.execute(&session, &batch, within * 3 / 4).await;
                if result.is_err() {
                    // The error may be of a server that has become a standby, or does not answer.
                    self.link.discard(&session).await;
                }
                result
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(unavailable(format!("no session within {within:?}"))),
        };
        for request in batch {
            let outcome = match &result {
                Ok(outcomes) => outcomes
                    .get(&request.name)
                    .cloned()
                    .unwrap_or_else(|| Err(unavailable("the reply lacks the election"))),
                Err(error) => Err(error.clone()),
            };
            // An error: nobody waits any more.
            _ = request.reply.send(outcome);
        }
    }

    /// Executes a batch by up to three statements, which travel together.
    async fn execute(
        &self,
        session: &Session,
        batch: &[Request],
        within: Duration,
    ) -> Result<BTreeMap<Arc<str>, Result<Outcome, Error>>, Error> {
        let mut columns: [Columns<'_>; 3] = Default::default();
        for request in batch {
            let (group, identity, ttl) = match &request.action {
                Action::Acquire { identity, ttl } => (0, identity.as_ref(), *ttl),
                Action::Renew { ttl } => (1, "", *ttl),
                Action::Release => (2, "", Duration::ZERO),
            };
            columns[group].push(&request.name, &request.holder, identity, micros(ttl));
        }
        let [acquire, renew, release] = &columns;
        let statements = &self.statements;
        let (acquire_statement, acquire_parameters): (_, [Parameter<'_>; 4]) = match acquire.only() {
            Some((name, holder, identity, ttl)) => (
                &statements.acquire_one,
                [(name, Type::TEXT), (holder, Type::TEXT), (identity, Type::TEXT), (ttl, Type::INT8)],
            ),
            None => (
                &statements.acquire,
                [
                    (&acquire.names, Type::TEXT_ARRAY),
                    (&acquire.holders, Type::TEXT_ARRAY),
                    (&acquire.identities, Type::TEXT_ARRAY),
                    (&acquire.ttls, Type::INT8_ARRAY),
                ],
            ),
        };
        let renew_parameters: [Parameter<'_>; 3] = [
            (&renew.names, Type::TEXT_ARRAY),
            (&renew.holders, Type::TEXT_ARRAY),
            (&renew.ttls, Type::INT8_ARRAY),
        ];
        let (release_statement, release_parameters): (_, [Parameter<'_>; 2]) = match release.only() {
            Some((name, holder, ..)) => (&statements.release_one, [(name, Type::TEXT), (holder, Type::TEXT)]),
            None => (
                &statements.release,
                [(&release.names, Type::TEXT_ARRAY), (&release.holders, Type::TEXT_ARRAY)],
            ),
        };
        let (acquired, renewed, released) = tokio::try_join!(
            self.query(session, acquire_statement, &acquire_parameters, acquire, within),
            self.query(session, &statements.renew, &renew_parameters, renew, within),
            self.query(session, release_statement, &release_parameters, release, within),
        )?;
        let locked = || unavailable("another session has locked the row of the election");
        let acquired = acquired.iter().map(|row| {
            let outcome = match token(row, 1) {
                Some(token) => Outcome::Granted(token),
                None => Outcome::Held(seconds(row.get(2))),
            };
            (row.get(0), Ok(outcome))
        });
        let renewed = renewed.iter().map(|row| {
            let outcome = match (token(row, 1), row.get(2)) {
                (Some(token), _) => Ok(Outcome::Granted(token)),
                (None, true) => Err(locked()),
                (None, false) => Err(ended("somebody has ended the lease in the row of the election")),
            };
            (row.get(0), outcome)
        });
        let released = released.iter().map(|row| {
            let outcome = if row.get(2) { Err(locked()) } else { Ok(Outcome::Released) };
            (row.get(0), outcome)
        });
        let all = acquired.chain(renewed).chain(released);
        Ok(all.map(|(name, outcome): (&str, _)| (Arc::from(name), outcome)).collect())
    }

    async fn query(
        &self,
        session: &Session,
        sql: &str,
        parameters: &[Parameter<'_>],
        columns: &Columns<'_>,
        within: Duration,
    ) -> Result<Vec<Row>, Error> {
        if columns.names.is_empty() {
            return Ok(Vec::new());
        }
        session.query_prepared(sql, parameters, within, self.settings()).await
    }

    /// Queries the session of the rows.
    pub(super) async fn ask(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        within: Duration,
    ) -> Result<Vec<Row>, Error> {
        let session = self.link.session(within).await?;
        let rows = session.query(sql, parameters, within, self.settings()).await;
        if rows.is_err() {
            self.link.discard(&session).await;
        }
        rows
    }

    /// Reads the row of an election.
    pub(super) async fn observe(&self, name: &str, within: Duration) -> Result<Observed, Error> {
        let rows = self.ask(&self.statements.observe, &[(&name, Type::TEXT)], within).await?;
        let Some(row) = rows.first() else {
            return Ok(Observed { leader: None, holder: String::new(), left: Duration::ZERO });
        };
        let left = seconds(row.get(3));
        let leader = Leader { identity: row.get(0), token: token(row, 1).unwrap_or(0) };
        Ok(Observed { leader: (!left.is_zero()).then_some(leader), holder: row.get(2), left })
    }
}

/// The parameters of one statement, one value per election.
#[derive(Default)]
struct Columns<'a> {
    names: Vec<&'a str>,
    holders: Vec<&'a str>,
    identities: Vec<&'a str>,
    ttls: Vec<i64>,
}

impl<'a> Columns<'a> {
    fn push(&mut self, name: &'a str, holder: &'a str, identity: &'a str, ttl: i64) {
        self.names.push(name);
        self.holders.push(holder);
        self.identities.push(identity);
        self.ttls.push(ttl);
    }

    /// The name, holder, identity and ttl of the only election.
    fn only(&self) -> Option<(&&'a str, &&'a str, &&'a str, &i64)> {
        match (&self.names[..], &self.holders[..], &self.identities[..], &self.ttls[..]) {
            ([name], [holder], [identity], [ttl]) => Some((name, holder, identity, ttl)),
            _ => None,
        }
    }
}
