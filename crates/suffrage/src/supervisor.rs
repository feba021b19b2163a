//! Supervision of a command that runs only while its node leads.

mod held;
mod service;

use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use suffrage_lease::CandidateConfig;
use suffrage_node::clock::{BootClock, Clock};
use suffrage_node::lease::{Settings, Why};
#[doc(inline)]
pub use suffrage_node::supervise::CommandExit;
use suffrage_node::supervise::ENTRY;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use self::held::Candidacy;
use self::service::ServiceHandle;
use crate::builder::span;
use crate::engines::{self, Engine};
use crate::{Error, Node, NodeBuilder};

/// SIGHUP, SIGINT and SIGTERM have these numbers on every system.
const HANGUP: i32 = 1;
const INTERRUPT: i32 = 2;
const TERMINATE: i32 = 15;

/// The backoff after a command that exits by itself. It doubles from the first value to the longest, and starts again
/// after a command that ran for [`BACKOFF_RESET`].
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
const BACKOFF_RESET: Duration = Duration::from_secs(10);

/// A command that runs only while its node leads an election.
///
/// When the lease cannot be renewed, the supervisor stops the command so early that the stop signal, the grace and the
/// kill fit into the rest of the lease. The command and all its descendants have ended when another node can lead. A
/// lease is handed over only after the command has ended: also by [`Node::resign`], [`Node::transfer`] and a request of an
/// operator at another node, which stop the command first.
///
/// A guard process stops the command also if this process is killed or paused. The guard is this executable, started
/// again: the program must call [`Supervisor::guard_main`] first in its `main`. If the guard is killed, the kernel kills
/// the command, and this process kills the rest: see [`adopt_orphans`](Supervisor::adopt_orphans).
///
/// Linux only. A process in uninterruptible sleep cannot be killed, and a machine whose processes are all frozen cannot
/// stop a command in time. If this process and the guard are killed at the same moment, only the command itself is
/// killed, and its descendants run on. Use fencing tokens.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Supervisor {
    /// The name of the election.
    pub name: String,
    /// The program and its arguments. Its environment has SUFFRAGE_TOKEN, SUFFRAGE_NAME and SUFFRAGE_LEADER, the id of
    /// the node. Its standard input is empty.
    pub command: Vec<OsString>,
    /// The length of a lease. Default: 3 s.
    pub ttl: Duration,
    /// The rank of this candidate. A leader whose command runs does not hand over to a greater rank. Default: 0.
    pub rank: i64,
    /// The value of this candidate as the leader: see [`ElectionBuilder::value`](crate::ElectionBuilder::value). Engines have
    /// the identity in its place.
    pub value: String,
    /// The time from the stop signal to SIGKILL. Default: 500 ms.
    pub grace: Duration,
    /// The time that SIGKILL needs to end all processes. Default: 100 ms.
    pub kill: Duration,
    /// The number of the stop signal. Default: 15, SIGTERM.
    pub stop_signal: i32,
    /// A shell command that runs before the command. If it fails, the command is not started.
    pub on_acquire: Option<String>,
    /// A shell command that runs after the command has ended. It is stopped after the grace, within the lease. It also
    /// runs if the lease has ended already because this process was paused, but not if this process was killed.
    pub on_loss: Option<String>,
    /// On an engine, the greatest rate by which the clocks of this machine and of the engine differ. Default: 0.01, which is
    /// 1%. A cluster has a drift bound of its own.
    pub engine_drift: f64,
    /// Whether [`run`](Supervisor::run) returns when the command has ended, for any reason. Default: false.
    pub once: bool,
    /// Whether this process adopts the descendants of the command if the guard is killed (PR_SET_CHILD_SUBREAPER), and
    /// kills them. Only for a program that starts no other child processes: every child process that is not a guard is
    /// killed. Without it, descendants that have made a session of their own run on if the guard is killed. Default:
    /// false.
    pub adopt_orphans: bool,
}

/// An event of a supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SupervisorEvent {
    /// The supervisor waits to lead.
    Waiting,
    /// The supervisor still waits to lead, for this reason.
    StillWaiting(Why),
    /// The supervisor still waits to lead at an engine, for this reason.
    StillWaitingAtEngine(String),
    /// The supervisor leads with this token.
    Leading(u64),
    /// The lease cannot be renewed: the supervisor stops the command.
    LeaseExpiring,
    /// The node is to hand over, because this node has asked it to, or by itself: the supervisor stops the command.
    HandingOver(Option<u64>),
    /// The command and all its descendants have ended.
    CommandEnded(CommandExit),
    /// The command exited by itself: the supervisor waits this long before it campaigns again.
    BackingOff(Duration),
}

impl fmt::Display for SupervisorEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SupervisorEvent::Waiting => f.write_str("waits to lead"),
            SupervisorEvent::StillWaiting(why) => write!(f, "still waits to lead: {why}"),
            SupervisorEvent::StillWaitingAtEngine(reason) => write!(f, "still waits to lead: {reason}"),
            SupervisorEvent::Leading(token) => write!(f, "leads with token {token}"),
            SupervisorEvent::LeaseExpiring => f.write_str("cannot renew the lease, and stops the command"),
            SupervisorEvent::HandingOver(None) => f.write_str("hands over, and stops the command"),
            SupervisorEvent::HandingOver(Some(by)) => {
                write!(f, "hands over, and stops the command: node {by} has asked this one to")
            }
            SupervisorEvent::CommandEnded(CommandExit::Exited(code)) => {
                write!(f, "the command exited with code {code}")
            }
            SupervisorEvent::CommandEnded(CommandExit::Killed(signal)) => {
                write!(f, "the command was killed by signal {signal}")
            }
            SupervisorEvent::BackingOff(backoff) => write!(f, "campaigns again in {backoff:?}"),
        }
    }
}

/// The reason why the command does not run any more.
enum StopReason {
    /// The command exited by itself.
    Exited,
    /// The lease is about to end, or is to be handed over.
    LeaseLost,
    /// A signal that also ends this program.
    Signal,
    /// The node stops, or the future of [`Supervisor::run`] was dropped.
    Stopped,
}

impl Supervisor {
    /// A supervisor of this command, with the default timings.
    pub fn new<W: Into<OsString>>(
        name: impl Into<String>,
        command: impl IntoIterator<Item = W>,
    ) -> Supervisor {
        Supervisor {
            name: name.into(),
            command: command.into_iter().map(Into::into).collect(),
            ttl: Duration::from_secs(3),
            rank: 0,
            value: String::new(),
            grace: Duration::from_millis(500),
            kill: Duration::from_millis(100),
            stop_signal: TERMINATE,
            on_acquire: None,
            on_loss: None,
            engine_drift: 0.01,
            once: false,
            adopt_orphans: false,
        }
    }

    /// Runs the guard of a supervised command if this process was started as one, and returns its exit code. A program
    /// that uses a supervisor calls this first in its `main`, and exits with the code if there is one.
    pub fn guard_main() -> Option<ExitCode> {
        let mut arguments = std::env::args_os().skip(1);
        let is_guard = arguments.next()? == ENTRY;
        let rest: Vec<OsString> = arguments.collect();
        is_guard.then(|| suffrage_node::supervise::main(&rest).into())
    }

    /// The interval in which the guard gets the new end of the lease.
    fn tick(&self) -> Duration {
        (self.ttl / 30).max(Duration::from_millis(2))
    }

    /// The time before the end of the lease at which the command must have ended.
    fn afterwards(&self) -> Duration {
        if self.on_loss.is_some() { self.grace + self.kill } else { Duration::ZERO }
    }

    /// The time before the end of the lease at which the command gets the stop signal.
    fn margin(&self) -> Duration {
        self.afterwards() + self.grace + self.kill
    }

    /// The stop margin of the election. Never zero: without a margin a node releases at once when it is told to hand over,
    /// while the command runs.
    fn stop_margin(&self) -> Duration {
        self.margin().max(self.tick())
    }

    /// Checks that the timings fit into the lease at the node that is configured. The error suggests timings that do.
    pub fn check(&self, node: &NodeBuilder) -> Result<(), Error> {
        self.check_settings(&node.settings()?).map_err(Error::InvalidConfig)
    }

    fn check_settings(&self, settings: &Settings) -> Result<(), String> {
        let config = |ttl: Duration| CandidateConfig { ttl: span(ttl), ..CandidateConfig::default() };
        let engine = settings.engine();
        config(self.ttl).check(&engine).map_err(|invalid| invalid.to_string())?;
        let longest = |ttl: Duration| {
            let longest = config(ttl).longest_margin(&engine);
            Duration::from_nanos(longest.as_nanos()).saturating_sub((ttl / 30).max(Duration::from_millis(2)))
        };
        let (margin, most) = (self.margin(), longest(self.ttl));
        if margin <= most {
            return Ok(());
        }
        let step = Duration::from_millis(10);
        let enough =
            (1..=200_000u32).map(|steps| self.ttl + step * steps).find(|ttl| margin <= longest(*ttl));
        let show = |duration: Duration| span(duration).format_duration();
        let enough = enough.map_or(String::new(), |ttl| format!(", or a ttl of at least {}", show(ttl)));
        let (hooks, times) = match self.on_loss {
            Some(_) => (", each twice because of the command on loss,", 2),
            None => ("", 1),
        };
        let grace = (most / times).saturating_sub(self.kill);
        let grace = match grace.as_millis() {
            0 => "no grace is short enough".to_string(),
            millis => format!("set a grace of at most {millis}ms"),
        };
        Err(format!(
            "a grace of {} and a kill time of {}{hooks} take {}, but after a lost renewal and its retry a lease of {} \
             has only {} left: the command would outlive the lease; {grace}{enough}",
            show(self.grace),
            show(self.kill),
            show(margin),
            show(self.ttl),
            show(most)
        ))
    }

    /// Runs the command while the node leads, until SIGTERM or SIGINT arrives from `signals` (or SIGHUP while no command
    /// runs), or until the command has ended if [`once`](Supervisor::once) is set. Other signals are passed on to the
    /// command. Returns the exit code: the command's, or 128 and the number of the signal. Releases the lease before it
    /// returns. `on_event` receives the events.
    ///
    /// [`Node::stop`] stops the command and then releases the lease. This function then returns [`Error::Stopped`].
    ///
    /// # Dropping the future
    ///
    /// If the future is dropped, or its runtime is shut down, a thread of this supervisor goes on until the command has
    /// ended: it sends the stop signal at once and SIGKILL after the grace, and runs the command on loss. The lease is
    /// released only then, so that no other candidate leads while the command runs. [`Node::stop`] waits for that. Until
    /// then, another `run` at the same node fails with [`Error::AlreadyJoined`]. If the process ends before, the guard
    /// stops the command, and the lease is not released: it expires after the command has ended.
    pub async fn run(
        &self,
        node: &Node,
        signals: mpsc::Receiver<i32>,
        on_event: &(dyn Fn(SupervisorEvent) + Sync),
    ) -> Result<u8, Error> {
        let election = node
            .election(&self.name)
            .ttl(self.ttl)
            .rank(self.rank)
            .value(&self.value)
            .stop_margin(self.stop_margin())
            .join()
            .await?;
        self.supervise(&Candidacy::Node(node.clone(), election), signals, on_event).await
    }

    /// Like [`run`](Supervisor::run), on an engine in place of a node. `identity` names this candidate at the engine.
    ///
    /// While the engine cannot be reached, the command runs on as long as the lease is valid. If the engine ends the lease
    /// early, because an operator has deleted the entry of this candidate, another candidate may lead at once: the command
    /// is killed without a grace.
    pub async fn run_on(
        &self,
        engine: &Engine,
        identity: &str,
        signals: mpsc::Receiver<i32>,
        on_event: &(dyn Fn(SupervisorEvent) + Sync),
    ) -> Result<u8, Error> {
        let election = self.check_engine(engine, identity)?;
        let code = self.supervise(&Candidacy::Engine(election.clone()), signals, on_event).await;
        // An entry that stays at the engine would block the next leader. If the engine is gone, the entry expires.
        _ = timeout(self.ttl, election.withdrawn()).await;
        code
    }

    /// Checks that an engine can do what this supervisor wants, and that the timings fit into the lease.
    pub fn check_engine(&self, engine: &Engine, identity: &str) -> Result<engines::Election, Error> {
        let name = engine.facts().name;
        if self.rank != 0 {
            let cannot = "cannot rank candidates: leave the rank at 0".to_string();
            return Err(engines::Error::Unsupported { engine: name, cannot }.into());
        }
        let election = engine.election(&self.name).ttl(self.ttl).identity(identity).drift(self.engine_drift);
        election.clone().join()?;
        // A renewal is due after a third of the lease, and has another third to fail in.
        let most = (self.ttl * 3 / 10).saturating_sub(self.tick());
        if self.margin() > most {
            let show = |duration: Duration| span(duration).format_duration();
            let enough = (self.margin() + self.tick()) * 10 / 3;
            return Err(Error::InvalidConfig(format!(
                "grace and kill time take {}, but after a lost renewal and its retry a lease of {} has only {} left: the \
                 command would outlive the lease; shorten the grace, or set a ttl of at least {}",
                show(self.margin()),
                show(self.ttl),
                show(most),
                show(Duration::from_secs(enough.as_secs() + 1)),
            )));
        }
        Ok(election.stop_margin(self.stop_margin()).join()?)
    }

    /// Runs the command whenever the candidate leads.
    async fn supervise(
        &self,
        candidacy: &Candidacy,
        mut signals: mpsc::Receiver<i32>,
        on_event: &(dyn Fn(SupervisorEvent) + Sync),
    ) -> Result<u8, Error> {
        let mut backoff = FIRST_BACKOFF;
        loop {
            on_event(SupervisorEvent::Waiting);
            let held = tokio::select! {
                held = candidacy.lead() => held?,
                // After two leases.
                never = candidacy.explain(self.ttl * 2, on_event) => match never? {},
                signal = ending(&mut signals) => return Ok(CommandExit::Killed(signal).code()),
            };
            let Some(held) = held else { continue };
            on_event(SupervisorEvent::Leading(held.token()));
            let since = BootClock.now();
            let mut service = ServiceHandle::start(self, &candidacy.candidate(), held)?;
            let (ended, reason) = service.follow(&mut signals, on_event).await?;
            if self.once || matches!(reason, StopReason::Signal) {
                return Ok(ended.code());
            }
            if let StopReason::Stopped = reason {
                return Err(Error::Stopped);
            }
            // A lease that is over at once, because of settings that do not fit each other, is not taken again and again.
            let short = BootClock.now().since(since) < span(self.ttl / 3);
            if matches!(reason, StopReason::Exited) || matches!(reason, StopReason::LeaseLost) && short {
                if BootClock.now().since(since) >= span(BACKOFF_RESET) {
                    backoff = FIRST_BACKOFF;
                }
                on_event(SupervisorEvent::BackingOff(backoff));
                tokio::select! {
                    () = sleep(backoff) => {}
                    signal = ending(&mut signals) => return Ok(CommandExit::Killed(signal).code()),
                }
                backoff = (backoff * 2).min(LONGEST_BACKOFF);
            }
        }
    }
}

/// Waits for a signal that ends a program without a running command.
async fn ending(signals: &mut mpsc::Receiver<i32>) -> i32 {
    loop {
        match signals.recv().await {
            Some(signal @ (TERMINATE | INTERRUPT | HANGUP)) => return signal,
            Some(_) => {}
            None => std::future::pending::<()>().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_core::NodeId;

    fn supervisor(ttl: u64, grace: u64) -> Supervisor {
        let (ttl, grace) = (Duration::from_millis(ttl), Duration::from_millis(grace));
        Supervisor { ttl, grace, ..Supervisor::new("name", ["true"]) }
    }

    fn settings() -> Settings {
        Settings::new([NodeId(1), NodeId(2), NodeId(3)])
    }

    #[test]
    fn the_default_timings_fit_into_the_lease() {
        assert_eq!(supervisor(3_000, 500).check_settings(&settings()), Ok(()));
        let hooks = Supervisor { on_loss: Some("true".to_string()), ..supervisor(3_000, 500) };
        assert_eq!(hooks.check_settings(&settings()), Ok(()));
    }

    #[test]
    fn an_error_suggests_timings_that_work() {
        let refused = supervisor(1_000, 800).check_settings(&settings()).unwrap_err();
        assert!(refused.contains("would outlive the lease"), "{refused}");
        let number = |before: &str, unit: &str| -> u64 {
            let text = refused.split(before).nth(1).unwrap_or_else(|| panic!("{refused}"));
            (text.split(unit).next().unwrap().parse::<f64>().unwrap() * 1_000.0) as u64
        };
        let grace = number("set a grace of at most ", "ms") / 1_000;
        assert_eq!(supervisor(1_000, grace).check_settings(&settings()), Ok(()), "{refused}");
        assert!(supervisor(1_000, grace + 1).check_settings(&settings()).is_err(), "{refused}");
        let ttl = number("a ttl of at least ", "s");
        assert_eq!(supervisor(ttl, 800).check_settings(&settings()), Ok(()), "{refused}");
        assert!(supervisor(ttl - 10, 800).check_settings(&settings()).is_err(), "{refused}");
    }

    /// A command that needs no time to stop runs until the node is told to hand over.
    #[test]
    fn a_lease_is_never_released_before_the_command_has_ended() {
        let none = Supervisor { kill: Duration::ZERO, ..supervisor(1_000, 0) };
        assert_eq!(none.check_settings(&settings()), Ok(()));
        assert!(none.margin().is_zero() && !none.stop_margin().is_zero());
        let longest = CandidateConfig { ttl: span(none.ttl), ..CandidateConfig::default() };
        assert!(span(none.stop_margin()) <= longest.longest_margin(&settings().engine()));
        assert_eq!(supervisor(3_000, 500).stop_margin(), Duration::from_millis(600));
    }

    #[test]
    fn the_command_on_loss_needs_its_own_time() {
        let settings = settings();
        assert_eq!(supervisor(1_000, 250).check_settings(&settings), Ok(()));
        let hooks = Supervisor { on_loss: Some("true".to_string()), ..supervisor(1_000, 250) };
        assert!(hooks.check_settings(&settings).unwrap_err().contains("each twice"));
        assert!(supervisor(120_000, 500).check_settings(&settings).is_err(), "longer than voters grant");
    }
}
