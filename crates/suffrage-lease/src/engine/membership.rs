//! The configuration of a node: every message is bound to it, nodes that are behind learn it, and coordinators change it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use suffrage_core::{Context, NodeId, Rng, Span, Start, Time};

use super::effects::NodeEffects;
use super::{ElectionIndex, Engine};
use crate::membership::{
    Change, ChangeProgress, ChangeRefusal, Configuration, Coordinator, CoordinatorEffects, DiskId, Identity,
    MembershipMessage, Stamp,
};
use crate::message::{Ask, Body, Boot, Header, Name};
use crate::timings::{Bug, Drift};
use crate::voter::{Durable, Saved, Voter, VoterStart};

/// The greatest number of other nodes whose stamps and boots are remembered.
const MAX_PEERS: usize = 4_096;

/// Why messages of a node change nothing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mismatch {
    /// The node belongs to another cluster, or was started with another list of voters or another bound on drift.
    OtherCluster(Stamp),
    /// The node belongs to a cluster with another bound on drift.
    OtherDrift {
        /// The bound of that cluster.
        theirs: Drift,
        /// The bound of this node.
        ours: Drift,
    },
    /// The node has another configuration of the same version. Somebody has changed a disk by hand.
    OtherDigest(Stamp),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::OtherCluster(stamp) => write!(
                f,
                "it belongs to another cluster, {}: it has another list of founding voters, or another bound on drift",
                stamp.cluster
            ),
            Mismatch::OtherDrift { theirs, ours } => write!(
                f,
                "its cluster has a bound on drift of {theirs}, and this node one of {ours}: set the same `drift` at all \
                 nodes"
            ),
            Mismatch::OtherDigest(stamp) => {
                write!(
                    f,
                    "it has another configuration of version {}: a data folder was changed",
                    stamp.version
                )
            }
        }
    }
}

/// The configuration of a node, and what it knows of the configurations of others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Membership {
    pub(super) boot: Boot,
    pub(super) configuration: Arc<Configuration>,
    pub(super) stamp: Stamp,
    pub(super) voters: Arc<[NodeId]>,
    /// Whether the configuration is that of the node's cluster. If not, it is the list that the node was started with,
    /// and the node has not heard of any voter yet.
    certain: bool,
    coordinator: Option<Coordinator>,
    mismatches: BTreeMap<NodeId, Mismatch>,
    /// The number of messages that a mismatch made void.
    mismatched_messages: u64,
    /// When each node was last handed the configuration.
    handed: Throttle,
    /// When each node was last asked for its newer configuration.
    asked: Throttle,
}

/// When each of some nodes was last sent a message that not every message of theirs needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Throttle(BTreeMap<NodeId, Time>);

impl Throttle {
    /// Whether the message may be sent to this node: not within `pause` of the last one.
    fn admits(&mut self, now: Time, pause: Span, to: NodeId) -> bool {
        self.0.retain(|_, at| now.since(*at) < pause);
        let admitted = self.0.len() < MAX_PEERS && !self.0.contains_key(&to);
        if admitted {
            self.0.insert(to, now);
        }
        admitted
    }
}

impl Membership {
    pub(super) fn new(founding: Configuration) -> Membership {
        Membership {
            boot: Boot::default(),
            stamp: founding.stamp(),
            voters: founding.ids(),
            configuration: Arc::new(founding),
            certain: false,
            coordinator: None,
            mismatches: BTreeMap::new(),
            mismatched_messages: 0,
            handed: Throttle::default(),
            asked: Throttle::default(),
        }
    }

    pub(super) fn header(&self) -> Header {
        Header { boot: self.boot, stamp: self.stamp }
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.coordinator.as_ref()?.next_due()
    }

    fn set(&mut self, configuration: &Arc<Configuration>) {
        self.stamp = configuration.stamp();
        self.voters = configuration.ids();
        self.configuration = Arc::clone(configuration);
        self.certain = true;
    }

    fn note_mismatch(&mut self, from: NodeId, mismatch: Mismatch) {
        self.mismatched_messages += 1;
        let known = self.mismatches.get(&from);
        // A stamp does not tell that the drift differs.
        let vaguer =
            matches!((known, mismatch), (Some(Mismatch::OtherDrift { .. }), Mismatch::OtherCluster(_)));
        if !vaguer && (self.mismatches.len() < MAX_PEERS || known.is_some()) {
            self.mismatches.insert(from, mismatch);
        }
    }
}

/// The voter of the node `me`, if it may vote. A node that may not has one for the case that it is added.
pub(super) fn voting(voter: &Option<Voter>, me: NodeId) -> Option<&Voter> {
    voter.as_ref().filter(|voter| voter.may_vote(me))
}

impl CoordinatorEffects for NodeEffects<'_, '_> {
    fn send(&mut self, to: NodeId, message: MembershipMessage) {
        self.deliver(to, Name::NONE, Body::Membership(Box::new(message)));
    }
    fn rng(&mut self) -> &mut Rng {
        self.cx.rng()
    }
}

impl Engine {
    /// The configuration of the node's cluster.
    pub fn configuration(&self) -> &Arc<Configuration> {
        &self.membership.configuration
    }

    /// Whether the configuration is that of the node's cluster. If not, it is the list that the node was started with.
    pub fn is_configuration_certain(&self) -> bool {
        self.membership.certain
    }

    /// The state of the node's voter, also if the node may not vote. None if the node can never vote.
    pub fn voter_state(&self) -> Option<&Voter> {
        self.voter.as_ref()
    }

    /// The header of this node's messages.
    pub fn header(&self) -> Header {
        self.membership.header()
    }

    /// The boot of this node.
    pub fn boot(&self) -> Boot {
        self.membership.boot
    }

    /// The number of messages that changed nothing here because of a mismatch.
    pub fn mismatched_messages(&self) -> u64 {
        self.membership.mismatched_messages
    }

    /// The nodes whose messages change nothing here, and why.
    pub fn mismatches(&self) -> impl Iterator<Item = (NodeId, Mismatch)> {
        self.membership.mismatches.iter().map(|(&id, &mismatch)| (id, mismatch))
    }

    /// The change that this node coordinates, and what it waits for.
    pub fn change(&self, now: Time) -> Option<(&Change, ChangeProgress)> {
        let coordinator = self.membership.coordinator.as_ref()?;
        Some((coordinator.change(), coordinator.progress(now)))
    }

    /// Coordinates a change of the configuration, in place of the one that this node coordinates already. False if the node
    /// has not found its cluster: it would count a majority of a list that it guesses.
    pub fn start_change(&mut self, cx: &mut Context<'_, Self>, change: Change) -> bool {
        let now = cx.now();
        if !self.membership.certain {
            return false;
        }
        // Every coordinator has a number of its own: no two use the same ballot.
        let (boot, base) = (cx.rng().bits(), Arc::clone(&self.membership.configuration));
        let (round, bug) = (self.config.delay * 3, self.config.bug);
        let mut fx = NodeEffects::of_node(cx, &mut self.loopback, self.membership.header());
        let coordinator = Coordinator::start((self.me, boot), change, base, (round, bug), &mut fx, now);
        self.membership.coordinator = Some(coordinator);
        self.drain_loopback(cx);
        self.arm(cx);
        true
    }

    /// Stops coordinating. What a majority has accepted is completed by the next coordinator.
    pub fn stop_change(&mut self, cx: &mut Context<'_, Self>) {
        self.membership.coordinator = None;
        self.arm(cx);
    }

    pub(super) fn coordinate_due(&mut self, cx: &mut Context<'_, Self>) {
        let now = cx.now();
        let header = self.membership.header();
        if let Some(coordinator) = &mut self.membership.coordinator
            && coordinator.next_due().is_some_and(|due| due <= now)
        {
            coordinator.on_due(&mut NodeEffects::of_node(cx, &mut self.loopback, header), now);
            self.drain_loopback(cx);
        }
    }

    /// Starts the voter. A node that can never vote has none.
    pub(super) fn start_voter(&mut self, cx: &mut Context<'_, Self>, start: Start<Saved>) {
        self.membership.boot = Boot(cx.rng().bits());
        let listed = self.membership.configuration.voter(self.me).is_some();
        if !listed && !self.config.can_vote {
            return;
        }
        self.membership.certain = listed;
        let disk = DiskId(cx.rng().bits());
        let blank = Saved::blank(disk, Arc::clone(&self.membership.configuration));
        let blank = Saved { ceiling: blank.ceiling.max(self.config.tokens_above), ..blank };
        let start = match start {
            Start::Fresh => VoterStart::Blank(blank),
            Start::Recovered(Some(saved)) => {
                self.membership.certain = saved.certain;
                if saved.certain {
                    self.membership.set(&saved.configuration);
                }
                VoterStart::Recovered(saved)
            }
            // The voter saved its state when it first started, so the disk was lost. Its promises and grants are
            // unknown: it must not vote again, unless it is added as a voter with this disk.
            Start::Recovered(None) => VoterStart::Blank(Saved { trusted: false, ..blank }),
        };
        let start = match start {
            VoterStart::Blank(saved) => VoterStart::Blank(Saved { certain: listed, ..saved }),
            recovered @ VoterStart::Recovered(_) => recovered,
        };
        let timings = self.config.voter_timings();
        let mut fx = NodeEffects::of_node(cx, &mut self.loopback, self.membership.header());
        let now = fx.cx.now();
        self.voter = Some(Voter::start(timings, &mut fx, now, start));
    }

    /// Whether this node may vote under the installed configuration.
    pub(super) fn may_vote(&self) -> bool {
        self.voter().is_some()
    }

    /// Decides whether a message of another configuration is handled all the same. If not, the sender is handed the newer
    /// configuration, or asked for it.
    pub(super) fn admits(
        &mut self,
        cx: &mut Context<'_, Self>,
        from: NodeId,
        header: Header,
        body: &Body,
    ) -> bool {
        let (theirs, ours) = (header.stamp, self.membership.stamp);
        if theirs == ours {
            self.membership.mismatches.remove(&from);
            // A reply of a voter shows that the list is right.
            self.membership.certain |= matches!(body, Body::Reply(_));
            return true;
        }
        let same_cluster = theirs.cluster == ours.cluster;
        let released = matches!(body, Body::Ask(Ask::Release { .. }));
        // This node has asked itself under the configuration before.
        if from == self.me {
            return same_cluster && released;
        }
        let older = theirs.version < ours.version;
        if same_cluster && (released || older && self.config.bug == Some(Bug::OldVersionVotes)) {
            return true;
        }
        if !same_cluster || theirs.version == ours.version {
            let mismatch =
                if same_cluster { Mismatch::OtherDigest(theirs) } else { Mismatch::OtherCluster(theirs) };
            if self.membership.certain {
                self.membership.note_mismatch(from, mismatch);
            }
        }
        // A node that only guesses its configuration begins at version 0.
        if self.membership.certain && (same_cluster && older || !same_cluster && theirs.version == 0) {
            self.hand_configuration(cx, from);
        } else if theirs.version > ours.version
            && (same_cluster || !self.membership.certain)
            && self.membership.asked.admits(cx.now(), self.config.delay, from)
        {
            self.send_membership(cx, from, MembershipMessage::Behind);
        }
        false
    }

    /// Sends the configuration to a node that is behind, but not for each of many messages.
    fn hand_configuration(&mut self, cx: &mut Context<'_, Self>, to: NodeId) {
        if self.membership.handed.admits(cx.now(), self.config.delay, to) {
            let configuration = Arc::clone(&self.membership.configuration);
            self.send_membership(cx, to, MembershipMessage::Newer(configuration));
        }
    }

    fn send_membership(&mut self, cx: &mut Context<'_, Self>, to: NodeId, message: MembershipMessage) {
        let header = self.membership.header();
        CoordinatorEffects::send(&mut NodeEffects::of_node(cx, &mut self.loopback, header), to, message);
    }

    pub(super) fn on_membership(
        &mut self,
        cx: &mut Context<'_, Self>,
        from: NodeId,
        header: Header,
        message: MembershipMessage,
    ) {
        match message {
            MembershipMessage::Newer(configuration) => self.learn(cx, from, &configuration),
            MembershipMessage::Install(configuration) => {
                self.learn(cx, from, &configuration);
                let ours = self.membership.stamp;
                if ours.cluster == configuration.cluster() && ours.version >= configuration.version() {
                    self.send_membership(cx, from, MembershipMessage::Installed);
                }
            }
            MembershipMessage::Hello => {
                let disk = self.voter.as_ref().map(|voter| voter.saved().disk);
                let cluster = self.membership.certain.then_some(self.membership.stamp.cluster);
                let identity = Identity { disk, cluster, votes: self.may_vote(), drift: self.config.drift };
                self.send_membership(cx, from, MembershipMessage::Identity(identity));
            }
            // A node that has not found its cluster guesses version 0 of another one.
            MembershipMessage::Behind => {
                let Stamp { cluster, version, .. } = header.stamp;
                if self.membership.certain && (cluster == self.membership.stamp.cluster || version == 0) {
                    self.hand_configuration(cx, from);
                }
            }
            MembershipMessage::Prepare(ballot) | MembershipMessage::Accept(ballot, _) => {
                let body = Body::Membership(Box::new(message));
                if !self.admits(cx, from, header, &body) {
                    return;
                }
                let Body::Membership(message) = body else { return };
                let reply = if self.may_vote() {
                    let now = cx.now();
                    let Some(voter) = &mut self.voter else { return };
                    let mut fx = NodeEffects::of_node(cx, &mut self.loopback, self.membership.header());
                    voter.on_change(&mut fx, now, from, &message)
                } else {
                    Some(MembershipMessage::Refused(ballot, ChangeRefusal::NotVoter))
                };
                if let Some(reply) = reply {
                    self.send_membership(cx, from, reply);
                }
            }
            MembershipMessage::Identity(_)
            | MembershipMessage::Promised { .. }
            | MembershipMessage::Accepted(_)
            | MembershipMessage::Refused(..)
            | MembershipMessage::Installed => self.coordinate(cx, from, header, &message),
        }
    }

    /// Hands a reply to the coordinator.
    fn coordinate(
        &mut self,
        cx: &mut Context<'_, Self>,
        from: NodeId,
        header: Header,
        message: &MembershipMessage,
    ) {
        let now = cx.now();
        let ours = self.membership.stamp.cluster;
        let (own, identity) = (self.membership.header(), matches!(message, MembershipMessage::Identity(_)));
        if header.stamp.cluster != ours && !identity {
            return;
        }
        let Some(coordinator) = &mut self.membership.coordinator else { return };
        let installed = *message == MembershipMessage::Installed;
        if !identity && !installed && header.stamp != coordinator.base().stamp() {
            return;
        }
        let mut fx = NodeEffects::of_node(cx, &mut self.loopback, own);
        if *message == MembershipMessage::Installed {
            coordinator.on_installed(&mut fx, now, from, header.stamp.version);
        } else if let Some(chosen) = coordinator.on_message(&mut fx, now, (from, header.stamp), message) {
            self.learn(cx, self.me, &chosen);
        }
    }

    /// Learns a configuration that was chosen, or that of the cluster that the node has found.
    fn learn(&mut self, cx: &mut Context<'_, Self>, from: NodeId, configuration: &Arc<Configuration>) {
        let (now, ours) = (cx.now(), self.membership.stamp);
        let theirs = configuration.stamp();
        let found = !self.membership.certain && theirs != ours;
        let newer = theirs.cluster == ours.cluster && theirs.version > ours.version;
        let usable = configuration.check().is_ok() && configuration.drift() == self.config.drift;
        if self.membership.certain && theirs.cluster != ours.cluster || !usable {
            let (theirs, ours) = (configuration.drift(), self.config.drift);
            let mismatch = match theirs == ours {
                true => Mismatch::OtherCluster(configuration.stamp()),
                false => Mismatch::OtherDrift { theirs, ours },
            };
            self.membership.note_mismatch(from, mismatch);
            return;
        }
        if !found && !newer {
            return;
        }
        let header = self.membership.header();
        if let Some(voter) = &mut self.voter {
            let mut fx = NodeEffects::of_node(cx, &mut self.loopback, header);
            // The node goes on under the earlier configuration until the disk has the new one.
            if !voter.install(&mut fx, now, configuration) {
                return;
            }
        }
        self.adopt(cx, configuration);
    }

    /// Some state of the voter is durable, perhaps with a new configuration.
    pub(super) fn on_durable(&mut self, cx: &mut Context<'_, Self>, saved: Saved) {
        let now = cx.now();
        let Some(voter) = &mut self.voter else { return };
        let mut fx = NodeEffects::of_node(cx, &mut self.loopback, self.membership.header());
        let Durable { installed, replies } = voter.on_saved(&mut fx, now, saved);
        let reports = fx.reports;
        let configuration = Arc::clone(&voter.saved().configuration);
        self.note_grants(now, reports);
        for (coordinator, reply) in replies {
            self.send_membership(cx, coordinator, reply);
        }
        if installed {
            self.adopt(cx, &configuration);
        }
    }

    /// Uses a configuration from now on. The disk of a voter has it.
    fn adopt(&mut self, cx: &mut Context<'_, Self>, configuration: &Arc<Configuration>) {
        let now = cx.now();
        self.membership.set(configuration);
        let header = self.membership.header();
        let voters = Arc::clone(&self.membership.voters);
        let indices: Vec<ElectionIndex> = self.names.values().copied().collect();
        for index in indices {
            self.apply(cx, index, |state, fx| state.candidate.reconfigure(fx, now, &voters));
            self.finish_leaving(cx, index);
        }
        if let Some(coordinator) = &mut self.membership.coordinator {
            let mut fx = NodeEffects::of_node(cx, &mut self.loopback, header);
            coordinator.on_configuration(&mut fx, now, configuration);
        }
    }
}
