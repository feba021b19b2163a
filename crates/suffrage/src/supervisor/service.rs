//! The command and its hooks during one leadership, on a thread of its own.
//!
//! ```text
//!   Supervisor::run ──ServiceHandle──▶ thread: Leadership, GuardHandle ──▶ guard ──▶ command
//!     signals ──▶
//!     ◀── events, end
//! ```
//!
//! The thread owns the leadership, and releases the lease when the command and its descendants have ended. A task could
//! not promise that: whoever aborts the task, or shuts its runtime down, would drop the leadership while the command has
//! its grace. If the handle is dropped, the thread stops the command.

use std::io;
use std::thread;

use suffrage_core::{Span, Time};
use suffrage_node::clock::{BootClock, Clock};
use suffrage_node::supervise::{CommandExit, GuardHandle, Limits, Spec};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::held::Held;
use super::{INTERRUPT, StopReason, Supervisor, SupervisorEvent, TERMINATE};
use crate::Error;
use crate::builder::span;

type Ended = Result<(CommandExit, StopReason), Error>;

/// A message of the thread.
enum Report {
    Event(SupervisorEvent),
    /// The command has ended, and the lease is released.
    Ended(Ended),
}

/// A handle to the thread. Dropping it stops the command.
pub(super) struct ServiceHandle {
    signals: mpsc::UnboundedSender<i32>,
    reports: mpsc::UnboundedReceiver<Report>,
}

impl ServiceHandle {
    /// Starts the thread.
    pub(super) fn start(
        supervisor: &Supervisor,
        candidate: &str,
        held: Held,
    ) -> Result<ServiceHandle, Error> {
        let (signals, orders) = mpsc::unbounded_channel();
        let (sender, reports) = mpsc::unbounded_channel();
        let environment = vec![
            ("SUFFRAGE_TOKEN".to_string(), held.token().to_string()),
            ("SUFFRAGE_NAME".to_string(), supervisor.name.clone()),
            ("SUFFRAGE_LEADER".to_string(), candidate.to_string()),
        ];
        let supervisor = supervisor.clone();
        let service = Service { held, supervisor, environment, signals: orders, reports: sender };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::Command)?;
        let thread = thread::Builder::new().name("suffrage-run".to_string());
        thread.spawn(move || service.run(&runtime)).map_err(Error::Command)?;
        Ok(ServiceHandle { signals, reports })
    }

    /// Passes signals on and reports events until the command has ended and the lease is released.
    pub(super) async fn follow(
        &mut self,
        signals: &mut mpsc::Receiver<i32>,
        on_event: &(dyn Fn(SupervisorEvent) + Sync),
    ) -> Ended {
        loop {
            tokio::select! {
                biased;
                report = self.reports.recv() => match report {
                    Some(Report::Event(event)) => on_event(event),
                    Some(Report::Ended(ended)) => return ended,
                    None => {
                        let panicked = io::Error::other("the thread of the supervisor has panicked");
                        return Err(Error::Command(panicked));
                    }
                },
                // An error means that the command has ended.
                Some(signal) = signals.recv() => drop(self.signals.send(signal)),
            }
        }
    }
}

/// The state of the thread. The fields are dropped in this order if the thread panics: the lease is released after the
/// guard, which `serve` owns, and before the node may stop.
struct Service {
    held: Held,
    supervisor: Supervisor,
    environment: Vec<(String, String)>,
    /// Closed when the handle is dropped.
    signals: mpsc::UnboundedReceiver<i32>,
    reports: mpsc::UnboundedSender<Report>,
}

impl Service {
    fn run(mut self, runtime: &Runtime) {
        let ended = runtime.block_on(self.serve());
        if let Ok((exit, _)) = &ended {
            self.report(SupervisorEvent::CommandEnded(*exit));
        }
        let Service { held, reports, .. } = self;
        runtime.block_on(held.release());
        // The handle may be dropped.
        _ = reports.send(Report::Ended(ended));
    }

    fn report(&self, event: SupervisorEvent) {
        // The handle may be dropped.
        _ = self.reports.send(Report::Event(event));
    }

    fn spec(&self, command: Vec<std::ffi::OsString>) -> Spec {
        Spec {
            command,
            environment: self.environment.clone(),
            stop_signal: self.supervisor.stop_signal,
            grace: span(self.supervisor.grace),
            adopt_orphans: self.supervisor.adopt_orphans,
        }
    }

    /// Runs the command and its hooks.
    async fn serve(&mut self) -> Ended {
        let shell = |line: &String| vec!["/bin/sh".into(), "-c".into(), line.into()];
        let mut done = None;
        if let Some(line) = &self.supervisor.on_acquire {
            let (ended, reason) = self.attend(self.spec(shell(line))).await?;
            if ended != CommandExit::Exited(0) || !matches!(reason, StopReason::Exited) {
                done = Some((ended, reason));
            }
        }
        let done = match done {
            Some(done) => done,
            None => self.attend(self.spec(self.supervisor.command.clone())).await?,
        };
        if let Some(line) = &self.supervisor.on_loss {
            self.conclude(&self.spec(shell(line))).await?;
        }
        Ok(done)
    }

    /// The deadlines of the command by the present lease. Both have passed if the leadership has ended.
    fn limits(&self) -> Limits {
        // The clock is read first: time that passes before the second read makes the deadlines earlier, not later.
        let now = BootClock.now();
        let end = now + span(self.held.valid_for());
        let before = |span: Span| Time::from_nanos(end.as_nanos().saturating_sub(span.as_nanos()));
        let Supervisor { kill, .. } = self.supervisor;
        Limits {
            stop_at: before(span(self.supervisor.margin())),
            kill_at: before(span(self.supervisor.afterwards() + kill)),
        }
    }

    /// Runs a command until it and its descendants have ended.
    async fn attend(&mut self, spec: Spec) -> Ended {
        let mut guard = GuardHandle::start(&spec, self.limits()).map_err(Error::Command)?;
        let mut tick = interval(self.supervisor.tick());
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut passed_on = Vec::new();
        let reason = loop {
            tokio::select! {
                // After a pause of this process, several branches are ready: the end of the command comes first.
                biased;
                ended = guard.ended() => {
                    // A command that dies of a signal that was passed on ends this program, too.
                    let signalled = matches!(ended, CommandExit::Killed(signal) if passed_on.contains(&signal));
                    return Ok((ended, if signalled { StopReason::Signal } else { StopReason::Exited }));
                }
                () = self.held.lost() => {
                    self.report(match self.held.hands_over() {
                        true => SupervisorEvent::HandingOver(self.held.asked_by()),
                        false => SupervisorEvent::LeaseExpiring,
                    });
                    if self.held.hands_over() || self.held.is_revoked() {
                        // The lease has become shorter, or is over.
                        guard.extend(self.limits());
                    }
                    guard.stop(None);
                    break StopReason::LeaseLost;
                }
                () = self.held.stop_requested() => {
                    guard.stop(None);
                    break StopReason::Stopped;
                }
                signal = self.signals.recv() => match signal {
                    None => {
                        guard.stop(None);
                        break StopReason::Stopped;
                    }
                    Some(signal @ (TERMINATE | INTERRUPT)) => {
                        guard.stop(Some(signal));
                        break StopReason::Signal;
                    }
                    Some(other) => {
                        passed_on.push(other);
                        guard.signal(other);
                    }
                },
                _ = tick.tick() => guard.extend(self.limits()),
            }
        };
        let Supervisor { grace, kill, .. } = self.supervisor;
        let end = (BootClock.now() + span(grace)).min(guard.limits().kill_at) + span(kill / 2);
        Ok((guard.ended_by(end).await, reason))
    }

    /// Runs the command on loss, within the lease if it is still valid.
    async fn conclude(&self, spec: &Spec) -> Result<(), Error> {
        let Supervisor { grace, kill, .. } = self.supervisor;
        let now = BootClock.now();
        let end = now + span(self.held.valid_for());
        let latest = Time::from_nanos(end.as_nanos().saturating_sub(span(kill).as_nanos()));
        let grace = now + span(grace);
        let limit = if latest > now { grace.min(latest) } else { grace };
        let limits = Limits { stop_at: limit, kill_at: limit };
        let mut guard = GuardHandle::start(spec, limits).map_err(Error::Command)?;
        guard.ended_by(limit + span(kill / 2)).await;
        Ok(())
    }
}
