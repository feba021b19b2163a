//! A command that runs only while leading.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::mem::discriminant;
use std::time::Duration;

use suffrage_core::{Span, Time};
use suffrage_node::clock::{BootClock, Clock};
use suffrage_node::lease::{CandidateConfig, Settings, Why};
use suffrage_node::supervise::{Ended, GuardHandle, Limits, Spec};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::builder::span;
use crate::{Election, Error, Leadership, Node};

/// SIGHUP, SIGINT and SIGTERM, which have these numbers everywhere.
const HANGUP: i32 = 1;
const INTERRUPT: i32 = 2;
const TERMINATE: i32 = 15;

/// How long a command that ends by itself is left alone: doubled each time, until one has run for a while.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const A_WHILE: Duration = Duration::from_secs(10);

/// Runs a command only while its node leads an election.
///
/// When the lease could not be renewed, the command is stopped so early that the stop signal, the grace and the
/// kill fit into what is left of it: when another can lead, it is gone, with all that it has started. When the
/// lease is handed over, that is done only after. How that is made sure of, and what it does not cover, is told
/// in [`suffrage_node::supervise`]; a program that uses this hands over to [`suffrage_node::supervise::main`] when its first
/// argument is [`suffrage_node::supervise::ENTRY`].
#[derive(Clone, Debug)]
pub struct Supervisor {
    /// The election.
    pub name: String,
    /// The program and its arguments. It finds SUFFRAGE_TOKEN, SUFFRAGE_NAME and SUFFRAGE_LEADER, which is the
    /// node's id, in its environment, and nothing on its standard input.
    pub command: Vec<OsString>,
    /// How long a lease is.
    pub ttl: Duration,
    /// How good a leader this one would be, while it waits. While it leads it yields to nobody.
    pub rank: i64,
    /// How long the command may take to end after it was told to.
    pub grace: Duration,
    /// How long it takes at most to kill what is left after that.
    pub kill: Duration,
    /// The number of the signal by which it is told to end.
    pub stop_signal: i32,
    /// What a shell does before the command is started; if that fails, it is not.
    pub on_acquire: Option<String>,
    /// What a shell does after the command is gone. It has as long as the grace, and also ends within the lease; if
    /// that is over already, since this program stood still, it is done nevertheless, late. Not if this program is
    /// killed.
    pub on_loss: Option<String>,
    /// Ends when the command has, whatever the reason.
    pub once: bool,
}

/// Something that a supervisor tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It waits to lead.
    Waits,
    /// It still does, and this is why.
    StillWaits(Why),
    /// It leads, with this token.
    Leads(u64),
    /// The lease could not be renewed: the command is stopped.
    Loses,
    /// All of the command is gone.
    Gone(Ended),
    /// It does not stand for so long, since the command has ended by itself.
    Pauses(Duration),
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Waits => f.write_str("waits to lead"),
            Progress::StillWaits(why) => write!(f, "still waits to lead: {why}"),
            Progress::Leads(token) => write!(f, "leads with token {token}"),
            Progress::Loses => f.write_str("cannot renew its lease, and stops the command"),
            Progress::Gone(Ended::Exited(code)) => write!(f, "the command has ended with code {code}"),
            Progress::Gone(Ended::Killed(signal)) => {
                write!(f, "the command was ended by signal {signal}")
            }
            Progress::Pauses(pause) => write!(f, "stands again in {pause:?}"),
        }
    }
}

/// Why the command does not run any more.
enum Reason {
    /// It has ended.
    Itself,
    /// The lease is nearly over.
    Lost,
    /// By a signal that ends the program, too.
    Told,
}

impl Supervisor {
    /// How often the guard is told of a renewal.
    fn tick(&self) -> Duration {
        (self.ttl / 30).max(Duration::from_millis(2))
    }

    /// How long before the end of the lease nothing may be left of the command.
    fn afterwards(&self) -> Duration {
        if self.on_loss.is_some() { self.grace + self.kill } else { Duration::ZERO }
    }

    /// How long before the end of the lease the command is told to end.
    fn margin(&self) -> Duration {
        self.afterwards() + self.grace + self.kill
    }

    /// Whether these timings can work: the rule that they break, if not.
    pub fn check(&self, settings: &Settings) -> Result<(), String> {
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
        let enough = enough.map_or(String::new(), |ttl| format!(", or a ttl of at least {ttl:?}"));
        let (hooks, times) = match self.on_loss {
            Some(_) => (", both twice because of what is done on loss,", 2),
            None => ("", 1),
        };
        let grace = (most / times).saturating_sub(self.kill);
        let grace = match grace.as_millis() {
            0 => "no grace would do".to_string(),
            millis => format!("a grace of at most {millis}ms would do"),
        };
        Err(format!(
            "a grace of {:?} and {:?} to kill{hooks} take {margin:?}, and of a lease of {:?} only {most:?} are left \
             after a renewal has been lost and asked again: the command would outlive the lease; {grace}{enough}",
            self.grace, self.kill, self.ttl
        ))
    }

    /// Runs it until it is told to end by a signal (SIGTERM, SIGINT; SIGHUP while nothing runs), or until the
    /// command has ended, if it is to run once. Returns the exit code: the command's, or 128 and the signal's
    /// number. Hands over before it returns; but the node still runs.
    pub async fn run(
        &self,
        node: &Node,
        mut signals: mpsc::Receiver<i32>,
        tell: &(dyn Fn(Progress) + Sync),
    ) -> Result<u8, Error> {
        let election = node
            .election(&self.name)
            .ttl(self.ttl)
            .rank(self.rank)
            .stop_margin(self.margin())
            // If this program is killed, its guard still gives the command its grace.
            .wait_out_previous_holder()
            .join()
            .await?;
        let mut pause = FIRST_PAUSE;
        loop {
            election.set_rank(self.rank);
            tell(Progress::Waits);
            let leadership = tokio::select! {
                leadership = election.lead() => leadership?,
                never = self.explain(&election, tell) => match never? {},
                signal = ending(&mut signals) => return Ok(Ended::Killed(signal).code()),
            };
            // One that is asked by a better one to hand over would do so at once, and the command would still run.
            election.set_rank(i64::MAX);
            // What the node holds when it answers, it holds having heard the above.
            let held = election.status().await?.lease.map(|lease| lease.token);
            if held != Some(leadership.token()) || !leadership.is_valid() {
                continue;
            }
            tell(Progress::Leads(leadership.token().number()));
            let since = BootClock.now();
            let (ended, reason) = self.serve(node, &leadership, &mut signals, tell).await?;
            tell(Progress::Gone(ended));
            drop(leadership);
            if self.once || matches!(reason, Reason::Told) {
                return Ok(ended.code());
            }
            if let Reason::Itself = reason {
                if BootClock.now().since(since) >= span(A_WHILE) {
                    pause = FIRST_PAUSE;
                }
                tell(Progress::Pauses(pause));
                tokio::select! {
                    () = sleep(pause) => {}
                    signal = ending(&mut signals) => return Ok(Ended::Killed(signal).code()),
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// Tells why it does not lead, once that has taken a while, and whenever it is another reason.
    async fn explain(
        &self,
        election: &Election,
        tell: &(dyn Fn(Progress) + Sync),
    ) -> Result<Infallible, Error> {
        let mut told = None;
        loop {
            sleep(self.ttl * 2).await;
            let why = election.status().await?.why;
            let kind = discriminant(&why);
            if told.replace(kind) != Some(kind) {
                tell(Progress::StillWaits(why));
            }
        }
    }

    /// Leads: from what is done at the start to what is done at the end.
    async fn serve(
        &self,
        node: &Node,
        leadership: &Leadership,
        signals: &mut mpsc::Receiver<i32>,
        tell: &(dyn Fn(Progress) + Sync),
    ) -> Result<(Ended, Reason), Error> {
        let environment = vec![
            ("SUFFRAGE_TOKEN".to_string(), leadership.token().number().to_string()),
            ("SUFFRAGE_NAME".to_string(), self.name.clone()),
            ("SUFFRAGE_LEADER".to_string(), node.id().to_string()),
        ];
        let shell = |line: &String| vec!["/bin/sh".into(), "-c".into(), line.into()];
        let spec = |command| Spec {
            command,
            environment: environment.clone(),
            stop_signal: self.stop_signal,
            grace: span(self.grace),
        };
        let mut done = None;
        if let Some(line) = &self.on_acquire {
            let (ended, reason) = self.attend(&spec(shell(line)), leadership, signals, tell).await?;
            if ended != Ended::Exited(0) || !matches!(reason, Reason::Itself) {
                done = Some((ended, reason));
            }
        }
        let done = match done {
            Some(done) => done,
            None => self.attend(&spec(self.command.clone()), leadership, signals, tell).await?,
        };
        if let Some(line) = &self.on_loss {
            self.conclude(&spec(shell(line)), leadership).await?;
        }
        Ok(done)
    }

    /// Until when the command may run, as things stand. After the leadership has ended, until now.
    fn limits(&self, leadership: &Leadership) -> Limits {
        // In this order: whatever passes between the two makes it end earlier, not later.
        let now = BootClock.now();
        let end = now + span(leadership.valid_for());
        let before = |span: Span| Time::from_nanos(end.as_nanos().saturating_sub(span.as_nanos()));
        Limits { stop_at: before(span(self.margin())), kill_at: before(span(self.afterwards() + self.kill)) }
    }

    /// Runs a command while leading; until all of it is gone.
    async fn attend(
        &self,
        spec: &Spec,
        leadership: &Leadership,
        signals: &mut mpsc::Receiver<i32>,
        tell: &(dyn Fn(Progress) + Sync),
    ) -> Result<(Ended, Reason), Error> {
        let mut guard = GuardHandle::start(spec, self.limits(leadership)).map_err(Error::Command)?;
        let mut tick = interval(self.tick());
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut passed_on = Vec::new();
        let reason = loop {
            tokio::select! {
                // After a pause of this program much is ready at once, and how the command ended goes first.
                biased;
                ended = guard.ended() => {
                    // It died of what was meant for it: so would it have without this program around it.
                    let told = matches!(ended, Ended::Killed(signal) if passed_on.contains(&signal));
                    return Ok((ended, if told { Reason::Told } else { Reason::Itself }));
                }
                () = leadership.lost() => {
                    tell(Progress::Loses);
                    guard.stop(None);
                    break Reason::Lost;
                }
                Some(signal) = signals.recv() => match signal {
                    TERMINATE | INTERRUPT => {
                        guard.stop(Some(signal));
                        break Reason::Told;
                    }
                    other => {
                        passed_on.push(other);
                        guard.signal(other);
                    }
                },
                _ = tick.tick() => guard.extend(self.limits(leadership)),
            }
        };
        let end = (BootClock.now() + span(self.grace)).min(guard.limits().kill_at) + span(self.kill / 2);
        let ended = tokio::select! {
            biased;
            ended = guard.ended() => ended,
            () = BootClock.sleep_until(end) => guard.force(),
        };
        Ok((ended, reason))
    }

    /// What is done after the command is gone, as far as the lease allows; if there is none any more, late is better
    /// than never.
    async fn conclude(&self, spec: &Spec, leadership: &Leadership) -> Result<(), Error> {
        let now = BootClock.now();
        let end = now + span(leadership.valid_for());
        let latest = Time::from_nanos(end.as_nanos().saturating_sub(span(self.kill).as_nanos()));
        let grace = now + span(self.grace);
        let limit = if latest > now { grace.min(latest) } else { grace };
        let limits = Limits { stop_at: limit, kill_at: limit };
        let mut guard = GuardHandle::start(spec, limits).map_err(Error::Command)?;
        tokio::select! {
            biased;
            _ = guard.ended() => {}
            () = BootClock.sleep_until(limit + span(self.kill / 2)) => drop(guard.force()),
        }
        Ok(())
    }
}

/// Waits for a signal that ends a program which runs nothing.
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
        Supervisor {
            name: "name".to_string(),
            command: vec!["true".into()],
            ttl: Duration::from_millis(ttl),
            rank: 0,
            grace: Duration::from_millis(grace),
            kill: Duration::from_millis(100),
            stop_signal: TERMINATE,
            on_acquire: None,
            on_loss: None,
            once: false,
        }
    }

    fn settings() -> Settings {
        Settings::new([NodeId(1), NodeId(2), NodeId(3)])
    }

    #[test]
    fn the_defaults_work() {
        assert_eq!(supervisor(3_000, 500).check(&settings()), Ok(()));
        let hooks = Supervisor { on_loss: Some("true".to_string()), ..supervisor(3_000, 500) };
        assert_eq!(hooks.check(&settings()), Ok(()));
    }

    #[test]
    fn timings_that_cannot_work_are_refused_with_some_that_can() {
        let refused = supervisor(1_000, 800).check(&settings()).unwrap_err();
        assert!(refused.contains("would outlive the lease"), "{refused}");
        let number = |before: &str, unit: &str| -> u64 {
            let text = refused.split(before).nth(1).unwrap_or_else(|| panic!("{refused}"));
            (text.split(unit).next().unwrap().parse::<f64>().unwrap() * 1_000.0) as u64
        };
        let grace = number("a grace of at most ", "ms") / 1_000;
        assert_eq!(supervisor(1_000, grace).check(&settings()), Ok(()), "{refused}");
        assert!(supervisor(1_000, grace + 1).check(&settings()).is_err(), "{refused}");
        let ttl = number("a ttl of at least ", "s");
        assert_eq!(supervisor(ttl, 800).check(&settings()), Ok(()), "{refused}");
        assert!(supervisor(ttl - 10, 800).check(&settings()).is_err(), "{refused}");
    }

    #[test]
    fn what_is_done_on_loss_needs_its_time_too() {
        let settings = settings();
        assert_eq!(supervisor(1_000, 250).check(&settings), Ok(()));
        let hooks = Supervisor { on_loss: Some("true".to_string()), ..supervisor(1_000, 250) };
        assert!(hooks.check(&settings).unwrap_err().contains("both twice"));
        assert!(supervisor(120_000, 500).check(&settings).is_err(), "longer than voters grant");
    }
}
