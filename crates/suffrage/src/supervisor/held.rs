//! The leadership that a command runs under: of a node, or of an engine.

use std::convert::Infallible;
use std::future::pending;
use std::mem::discriminant;
use std::time::Duration;

use tokio::time::sleep;

use super::SupervisorEvent;
use crate::node::CommandPermit;
use crate::{Election, Error, Leadership, Node, engines};

/// The leadership that a command runs under. The fields are dropped in their order: the lease is released before the node
/// may stop.
pub(super) enum Held {
    Node { leadership: Leadership, permit: CommandPermit },
    Engine(engines::Leadership),
}

impl Held {
    pub(super) fn token(&self) -> u64 {
        match self {
            Held::Node { leadership, .. } => leadership.token().number(),
            Held::Engine(leadership) => leadership.token(),
        }
    }

    pub(super) fn valid_for(&self) -> Duration {
        match self {
            Held::Node { leadership, .. } => leadership.valid_for(),
            Held::Engine(leadership) => leadership.valid_for(),
        }
    }

    /// Whether the leader was told to hand over. An engine cannot tell that.
    pub(super) fn hands_over(&self) -> bool {
        match self {
            Held::Node { leadership, .. } => leadership.hands_over(),
            Held::Engine(_) => false,
        }
    }

    /// The node that asked the leader to hand over, if one did.
    pub(super) fn asked_by(&self) -> Option<u64> {
        match self {
            Held::Node { leadership, .. } => leadership.asked_by(),
            Held::Engine(_) => None,
        }
    }

    /// Whether the engine has ended the lease before its time: another candidate may lead.
    pub(super) fn is_revoked(&self) -> bool {
        match self {
            Held::Node { .. } => false,
            Held::Engine(leadership) => matches!(leadership.loss(), Some(engines::Loss::Ended(_))),
        }
    }

    pub(super) async fn lost(&self) {
        match self {
            Held::Node { leadership, .. } => leadership.lost().await,
            Held::Engine(leadership) => leadership.lost().await,
        }
    }

    /// Waits until the command must be stopped, because its node stops.
    pub(super) async fn stop_requested(&self) {
        match self {
            Held::Node { permit, .. } => permit.stop_requested().await,
            Held::Engine(_) => pending().await,
        }
    }

    /// Releases the lease: the command has ended.
    pub(super) async fn release(self) {
        match self {
            Held::Node { leadership, permit } => {
                drop(leadership);
                drop(permit);
            }
            Held::Engine(leadership) => leadership.resign().await,
        }
    }
}

/// Where a supervisor is a candidate.
pub(super) enum Candidacy {
    Node(Node, Election),
    Engine(engines::Election),
}

impl Candidacy {
    /// The candidate, as its command knows it.
    pub(super) fn candidate(&self) -> String {
        match self {
            Candidacy::Node(node, _) => node.id().to_string(),
            Candidacy::Engine(election) => election.identity().to_string(),
        }
    }

    /// Waits until the candidate leads. None if the leadership has ended already.
    pub(super) async fn lead(&self) -> Result<Option<Held>, Error> {
        let (node, election) = match self {
            Candidacy::Engine(election) => return Ok(Some(Held::Engine(election.lead().await?))),
            Candidacy::Node(node, election) => (node, election),
        };
        let leadership = election.lead().await?;
        // Without the pin, the node would stop the command for a candidate of greater rank. And after a pause of this
        // process, it would release the lease before the guard has stopped the command: the guard has the deadlines
        // of the lease as it was granted.
        let pinned = election.pin().await? == Some(leadership.token());
        if !pinned || !leadership.is_valid() || leadership.hands_over() {
            return Ok(None);
        }
        let permit = node.commands().begin().ok_or(Error::Stopped)?;
        Ok(Some(Held::Node { leadership, permit }))
    }

    /// Reports why the candidate does not lead, in this interval and whenever the reason changes.
    pub(super) async fn explain(
        &self,
        interval: Duration,
        on_event: &(dyn Fn(SupervisorEvent) + Sync),
    ) -> Result<Infallible, Error> {
        let (mut reported, mut told) = (None, String::new());
        loop {
            sleep(interval).await;
            match self {
                Candidacy::Node(_, election) => {
                    let why = election.status().await?.why;
                    let kind = discriminant(&why);
                    if reported.replace(kind) != Some(kind) {
                        on_event(SupervisorEvent::StillWaiting(why));
                    }
                }
                Candidacy::Engine(election) => {
                    let reason = obstacle(election).await;
                    if !reason.is_empty() && reason != told {
                        on_event(SupervisorEvent::StillWaitingAtEngine(reason.clone()));
                        told = reason;
                    }
                }
            }
        }
    }
}

/// Why a candidate at an engine does not lead.
async fn obstacle(election: &engines::Election) -> String {
    if let Some(error) = election.obstacle() {
        return error.to_string();
    }
    match election.status().await {
        Err(error) => error.to_string(),
        Ok(status) => {
            let leader =
                status.leader.map(|leader| format!("{} leads with token {}", leader.identity, leader.token));
            leader.into_iter().chain(status.remarks).collect::<Vec<_>>().join("; ")
        }
    }
}
