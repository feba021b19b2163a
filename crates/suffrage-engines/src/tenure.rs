//! The life of a candidate, the same on every engine: it campaigns, leads, renews, loses or resigns.
//!
//! ```text
//!   campaign ──Grant──▶ lead ──renew──▶ lead … ──┬─ dropped: the lease ends here, then the entry is withdrawn
//!      ▲  │ transient                            ├─ ended: the engine tells that the entry is gone, or must go: it is
//!      │  │                                      │  withdrawn when the work has stopped
//!      └──┘ error: again, later                  └─ expired: the clock has passed the end
//! ```

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::recipe::{Candidate, Grant, Wish};
use crate::{Clock, Error, Moment};

/// The first pause after a failed request. It doubles up to a third of the ttl.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Timers stop while the machine is suspended, and the clock does not: it is read again at least this often.
const RECHECK: Duration = Duration::from_millis(500);

/// Why a leadership has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// This program has resigned.
    Resigned,
    /// The lease was not renewed in time.
    Expired,
    /// The engine has ended it.
    Ended(Error),
}

/// The lease of a leadership, which the task renews and the program reads.
struct Lease {
    clock: Arc<dyn Clock>,
    token: AtomicU64,
    /// The end, in nanoseconds. Zero if the leadership has ended: that never changes again.
    until: AtomicU64,
    loss: watch::Sender<Option<Loss>>,
}

fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX)
}

impl Lease {
    fn new(clock: Arc<dyn Clock>, grant: Grant) -> Lease {
        Lease {
            clock,
            token: AtomicU64::new(grant.token),
            until: AtomicU64::new(nanos(grant.valid_until)),
            loss: watch::Sender::new(None),
        }
    }

    fn until(&self) -> Moment {
        Duration::from_nanos(self.until.load(Ordering::SeqCst))
    }

    fn left(&self) -> Duration {
        self.until().saturating_sub(self.clock.now())
    }

    /// Moves the end forward. False if the leadership has ended before: a late reply does not revive it.
    fn extend(&self, grant: Grant) -> bool {
        let mut known = self.until.load(Ordering::SeqCst);
        loop {
            if known <= nanos(self.clock.now()) {
                return false;
            }
            let next = known.max(nanos(grant.valid_until));
            match self.until.compare_exchange(known, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => break,
                Err(changed) => known = changed,
            }
        }
        self.token.fetch_max(grant.token, Ordering::SeqCst);
        true
    }

    fn end(&self, loss: Loss) {
        self.until.store(0, Ordering::SeqCst);
        self.loss.send_if_modified(|known| known.is_none() && known.replace(loss).is_none());
    }
}

/// A leadership of this program. Dropping it ends it at once and withdraws the candidate: stop the work before.
#[must_use = "dropping a leadership resigns"]
pub struct Leadership {
    lease: Arc<Lease>,
    margin: Duration,
    /// Dropped with this value: the task withdraws.
    _stay: oneshot::Sender<()>,
    withdrawn: watch::Receiver<bool>,
}

impl std::fmt::Debug for Leadership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Leadership(token {}, valid for {:?})", self.token(), self.valid_for())
    }
}

impl Leadership {
    /// The fencing token, greater than the tokens of all leaders before. Send it with every write.
    pub fn token(&self) -> u64 {
        self.lease.token.load(Ordering::SeqCst)
    }

    /// The time until the lease ends unless it is renewed. Zero if the leadership has ended.
    pub fn valid_for(&self) -> Duration {
        self.lease.left()
    }

    /// Whether the leadership is valid, by the clock. The answer is right also right after a pause of the process.
    pub fn is_valid(&self) -> bool {
        !self.valid_for().is_zero()
    }

    /// Why the leadership has ended, if it has.
    pub fn loss(&self) -> Option<Loss> {
        let loss = self.lease.loss.borrow().clone();
        loss.or_else(|| (!self.is_valid()).then_some(Loss::Expired))
    }

    /// Waits until the leadership has ended, or will end within the stop margin. The program must stop its work then, and
    /// drop the leadership.
    pub async fn lost(&self) {
        let mut loss = self.lease.loss.subscribe();
        loop {
            let left = self.lease.left().saturating_sub(self.margin);
            if left.is_zero() {
                return;
            }
            tokio::select! {
                _ = loss.wait_for(Option::is_some) => return,
                () = sleep(left.min(RECHECK)) => {}
            }
        }
    }

    /// Ends the leadership, and waits until the engine has removed the candidate, or until the lease is over.
    pub async fn resign(self) {
        let left = self.valid_for();
        let mut withdrawn = self.withdrawn.clone();
        drop(self);
        _ = timeout(left, withdrawn.wait_for(|withdrawn| *withdrawn)).await;
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        // The leadership turns invalid here before the engine hears of it.
        self.lease.end(Loss::Resigned);
    }
}

/// The tasks of one election in this program.
#[derive(Clone)]
pub(crate) struct Tasks {
    /// Why the last request to the engine has failed, if it has.
    pub(crate) obstacle: Arc<watch::Sender<Option<Error>>>,
    /// The number of tasks whose candidates are not withdrawn yet.
    pub(crate) running: Arc<watch::Sender<usize>>,
}

impl Tasks {
    pub(crate) fn new() -> Tasks {
        Tasks { obstacle: Arc::new(watch::Sender::new(None)), running: Arc::new(watch::Sender::new(0)) }
    }
}

/// Counts a task until it ends, also if it is aborted.
struct Running(Arc<watch::Sender<usize>>);

impl Running {
    fn new(running: &Arc<watch::Sender<usize>>) -> Running {
        running.send_modify(|running| *running += 1);
        Running(Arc::clone(running))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

/// The end of a campaign: a lease, and what the leadership drops when it ends.
type Outcome = Result<(Arc<Lease>, oneshot::Sender<()>), Error>;

/// A candidate that waits to lead. Dropping it withdraws the candidate.
pub(crate) struct Campaign {
    won: oneshot::Receiver<Outcome>,
    _stay: oneshot::Sender<()>,
    withdrawn: watch::Receiver<bool>,
}

impl Campaign {
    /// Starts the task of a candidate.
    pub(crate) fn start(candidate: Box<dyn Candidate>, wish: Wish, tasks: &Tasks) -> Campaign {
        let (sender, won) = oneshot::channel();
        let (stay, left) = oneshot::channel();
        let (gone, withdrawn) = watch::channel(false);
        let mut task = Task { candidate, wish, obstacle: Arc::clone(&tasks.obstacle) };
        let running = Running::new(&tasks.running);
        crate::tasks::spawn(async move {
            task.run(sender, left).await;
            task.withdraw().await;
            _ = gone.send(true);
            drop(running);
        });
        Campaign { won, _stay: stay, withdrawn }
    }

    /// Waits until the candidate leads.
    pub(crate) async fn won(mut self, margin: Duration) -> Result<Leadership, Error> {
        let stopped = || Error::Unavailable { engine: "the runtime", reason: "it was shut down".to_string() };
        let (lease, stay) = (&mut self.won).await.map_err(|_| stopped())??;
        Ok(Leadership { lease, margin, _stay: stay, withdrawn: self.withdrawn })
    }
}

struct Task {
    candidate: Box<dyn Candidate>,
    wish: Wish,
    obstacle: Arc<watch::Sender<Option<Error>>>,
}

impl Task {
    /// Runs until the candidate has given up, failed, or lost its leadership.
    async fn run(&mut self, won: oneshot::Sender<Outcome>, mut left: oneshot::Receiver<()>) {
        let grant = tokio::select! {
            biased;
            _ = &mut left => return,
            grant = self.campaign() => grant,
        };
        let grant = match grant {
            Ok(grant) => grant,
            Err(error) => return drop(won.send(Err(error))),
        };
        let lease = Arc::new(Lease::new(Arc::clone(&self.wish.clock), grant));
        let (stay, mut left) = oneshot::channel();
        if won.send(Ok((Arc::clone(&lease), stay))).is_err() {
            return lease.end(Loss::Resigned);
        }
        let loss = tokio::select! {
            biased;
            // An error: the leadership was dropped.
            _ = &mut left => return,
            loss = self.lead(&lease) => loss,
        };
        let until = lease.until();
        lease.end(loss);
        // The program has work to stop. If the entry is still there, nobody else leads before it is withdrawn.
        tokio::select! {
            _ = left => {}
            () = wait_until(&*self.wish.clock, until) => {}
        }
    }

    /// Campaigns until it leads. Transient errors are retried.
    async fn campaign(&mut self) -> Result<Grant, Error> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.candidate.campaign().await {
                // After a pause of this process, the lease may be over already.
                Ok(grant) if self.wish.now() < grant.valid_until => {
                    self.obstacle.send_replace(None);
                    return Ok(grant);
                }
                Ok(_) => sleep(pause).await,
                Err(error) if error.is_transient() => {
                    self.obstacle.send_replace(Some(error));
                    sleep(pause).await;
                    pause = (pause * 2).min(self.wish.ttl / 3);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Renews until the leadership has ended.
    async fn lead(&mut self, lease: &Lease) -> Loss {
        let interval = self.candidate.renewal_interval(self.wish.ttl);
        // A candidate may lead by a lease that it has renewed while it waited.
        let renewed = lease.until().saturating_sub(self.wish.ttl);
        let mut due = self.wish.now().min(renewed) + interval;
        let mut pause = FIRST_PAUSE;
        loop {
            let left = lease.left();
            if left.is_zero() {
                return Loss::Expired;
            }
            let wait = due.saturating_sub(self.wish.now()).min(left).min(RECHECK);
            tokio::select! {
                biased;
                error = self.candidate.ended() => return Loss::Ended(error),
                () = sleep(wait) => {}
            }
            if self.wish.now() < due {
                continue;
            }
            let sent = self.wish.now();
            let renewed = tokio::select! {
                renewed = self.candidate.renew() => renewed,
                () = expired(lease) => return Loss::Expired,
            };
            match renewed {
                Ok(grant) => {
                    if !lease.extend(grant) {
                        return Loss::Expired;
                    }
                    (due, pause) = (sent + interval, FIRST_PAUSE);
                    self.obstacle.send_replace(None);
                }
                Err(error @ Error::Ended { .. }) => return Loss::Ended(error),
                // A refusal may be temporary as well: the lease is valid until its end, whatever the engine says now.
                Err(error) => {
                    self.obstacle.send_replace(Some(error));
                    due = self.wish.now() + pause;
                    pause = (pause * 2).min(interval / 2);
                }
            }
        }
    }

    /// Withdraws the candidate. The engine may be unreachable: the entry then ends with its lease.
    async fn withdraw(&mut self) {
        let start = self.wish.now();
        let mut pause = FIRST_PAUSE;
        while let Err(error) = self.candidate.withdraw().await {
            if !error.is_transient() || self.wish.now() > start + self.wish.ttl * 2 {
                return;
            }
            sleep(pause).await;
            pause = (pause * 2).min(self.wish.ttl / 3);
        }
    }
}

/// Waits until this moment by the clock.
async fn wait_until(clock: &dyn Clock, moment: Moment) {
    loop {
        match moment.saturating_sub(clock.now()) {
            Duration::ZERO => return,
            left => sleep(left.min(RECHECK)).await,
        }
    }
}

/// Waits until the lease is over by the clock.
async fn expired(lease: &Lease) {
    loop {
        match lease.left() {
            Duration::ZERO => return,
            left => sleep(left.min(RECHECK)).await,
        }
    }
}

/// Never: an engine that does not tell when a leadership ends.
#[allow(dead_code, reason = "the modules of some engines do not need it")]
pub(crate) async fn never() -> Error {
    pending().await
}

#[cfg(test)]
mod tests;
