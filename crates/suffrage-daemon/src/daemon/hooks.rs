//! Commands that run when the leader of a group changes.
//!
//! One hook runs at a time. Changes while a hook runs are not queued: when the hook has ended, the hook of the latest
//! state runs, if the state is another one than that of the last hook. A guard process ends a hook with all its processes
//! at its time limit, and if this process is killed (`suffrage_node::supervise`).

use std::time::Duration;

use suffrage_core::{NodeId, Span};
use suffrage_node::clock::{BootClock, Clock as _};
use suffrage_node::group::{GroupLeader, GroupMember};
use suffrage_node::supervise::{CommandExit, GuardHandle, Limits, Spec};
use tokio::sync::watch;
use tracing::{info, warn};

/// The time from SIGTERM to SIGKILL for a hook at its time limit or at the end of this process.
const GRACE: Span = Span::from_millis(1_000);
/// The time that SIGKILL needs.
const KILL: Span = Span::from_millis(500);
const TERMINATE: i32 = 15;

/// The hooks of a member.
#[derive(Clone, Debug)]
pub(crate) struct HookCommands {
    /// Runs when this member begins to lead.
    pub(crate) on_elected: Option<String>,
    /// Runs when this member follows another leader, or no longer leads.
    pub(crate) on_follow: Option<String>,
    /// The longest time of a hook.
    pub(crate) limit: Duration,
}

/// The belief that a hook is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    /// This member neither leads nor follows.
    Nobody,
    Leads(GroupLeader),
    Follows(GroupLeader),
}

impl Belief {
    fn of(me: NodeId, leader: Option<GroupLeader>) -> Belief {
        match leader {
            Some(leader) if leader.id == me => Belief::Leads(leader),
            Some(leader) => Belief::Follows(leader),
            None => Belief::Nobody,
        }
    }

    /// Whether a hook is due after the belief that the last hook was told. A member that waits for the next leader still
    /// follows, but a leader that lost its leadership is told at once.
    fn is_news_after(self, told: Belief) -> bool {
        match self {
            Belief::Nobody => matches!(told, Belief::Leads(_)),
            _ => self != told,
        }
    }
}

/// Runs hooks.
pub(super) struct Hooks {
    commands: HookCommands,
    group: String,
    me: GroupMember,
    told: Belief,
    running: Option<Running>,
}

struct Running {
    name: &'static str,
    guard: GuardHandle,
}

impl Hooks {
    pub(super) fn new(commands: HookCommands, group: &str, me: GroupMember) -> Hooks {
        Hooks { commands, group: group.to_string(), me, told: Belief::Nobody, running: None }
    }

    /// Runs hooks until this future is dropped. A hook that runs then goes on until [`finish`](Hooks::finish).
    pub(super) async fn run(&mut self, mut leader: watch::Receiver<Option<GroupLeader>>) {
        loop {
            self.wait().await;
            let belief = Belief::of(self.me.id(), *leader.borrow_and_update());
            if belief.is_news_after(self.told) {
                self.start(belief);
            } else if leader.changed().await.is_err() {
                // The member has left.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Stops the hook that runs. If the last belief that a hook was told is that this member leads, the hook of
    /// followers runs.
    pub(super) async fn finish(mut self) {
        if let Some(running) = &mut self.running {
            warn!(hook = running.name, "the hook is stopped because this member stops");
            let end = BootClock.now() + GRACE;
            running.guard.extend(Limits { stop_at: end, kill_at: end });
            running.guard.stop(None);
        }
        self.wait().await;
        if Belief::Nobody.is_news_after(self.told) {
            self.start(Belief::Nobody);
            self.wait().await;
        }
    }

    /// Waits for the end of the hook that runs, if one runs. Cancel-safe.
    async fn wait(&mut self) {
        let Some(Running { name, guard }) = &mut self.running else { return };
        let latest = guard.limits().kill_at + KILL;
        let ended = guard.ended_by(latest).await;
        match ended {
            CommandExit::Exited(0) => info!(hook = *name, exit = 0, "the hook has ended"),
            CommandExit::Exited(code) => warn!(hook = *name, exit = code, "the hook has failed"),
            CommandExit::Killed(signal) => warn!(hook = *name, signal, "the hook was killed"),
        }
        self.running = None;
    }

    fn start(&mut self, belief: Belief) {
        self.told = belief;
        let (name, line, leader) = match belief {
            Belief::Leads(leader) => ("on-elected", &self.commands.on_elected, Some(leader)),
            Belief::Follows(leader) => ("on-follow", &self.commands.on_follow, Some(leader)),
            Belief::Nobody => ("on-follow", &self.commands.on_follow, None),
        };
        let Some(line) = line else { return };
        let text = |value: fn(GroupLeader) -> String| leader.map(value).unwrap_or_default();
        let environment = [
            ("SUFFRAGE_GROUP", self.group.clone()),
            ("SUFFRAGE_MEMBER", self.me.id().to_string()),
            ("SUFFRAGE_LEADER", text(|leader| leader.id.to_string())),
            ("SUFFRAGE_LEADER_ADDRESS", text(|leader| leader.address.to_string())),
            ("SUFFRAGE_TERM", text(|leader| leader.term.to_string())),
        ];
        let spec = Spec {
            command: vec!["/bin/sh".into(), "-c".into(), line.into()],
            environment: environment.map(|(name, value)| (name.to_string(), value)).to_vec(),
            stop_signal: TERMINATE,
            grace: GRACE,
            // This process starts hooks and nothing else.
            adopt_orphans: true,
        };
        let stop_at = BootClock.now() + Span::from_nanos(self.commands.limit.as_nanos() as u64);
        match GuardHandle::start(&spec, Limits { stop_at, kill_at: stop_at + GRACE }) {
            Ok(guard) => {
                info!(hook = name, "the hook runs");
                self.running = Some(Running { name, guard });
            }
            Err(error) => warn!(hook = name, "the hook cannot be run: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_due_for_each_leader_and_when_a_leadership_ends() {
        let leader = |id, term| {
            let address = "127.0.0.1:7500".parse().unwrap();
            Belief::of(NodeId(1), Some(GroupLeader { id: NodeId(id), term, address }))
        };
        let nobody = Belief::Nobody;
        assert!(!nobody.is_news_after(nobody) && !nobody.is_news_after(leader(2, 1)));
        assert!(nobody.is_news_after(leader(1, 1)));
        assert!(leader(1, 1).is_news_after(nobody) && leader(2, 1).is_news_after(nobody));
        assert!(leader(2, 2).is_news_after(leader(2, 1)) && leader(3, 1).is_news_after(leader(2, 1)));
        assert!(!leader(2, 1).is_news_after(leader(2, 1)));
    }
}
