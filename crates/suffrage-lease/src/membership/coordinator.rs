//! The coordinator of a change of the configuration: asks the voters of one version to choose the next, by single-decree
//! Paxos, until the configuration is as wanted.
//!
//! ```text
//!   identities of disks ──▶ Prepare ──▶ Accept ──▶ chosen: Install ──▶ as wanted, or the next step
//!                             ▲            │
//!                             └── outbid, not drained, or no majority answers: again, after a while
//! ```
//!
//! A coordinator may stop anywhere. What a majority has accepted is completed by the next coordinator, whoever that is.
//! A change names what is wanted, not a step: to repeat one is always right.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use suffrage_core::{NodeId, Rng, Span, Time};

use super::configuration::{Configuration, DiskId, Stamp, VoterEntry};
use super::message::{Ballot, ChangeRefusal, Identity, MembershipMessage};
use crate::candidate::MAX_VOTERS;
use crate::timings::Bug;

/// The longest time that an attempt waits for answers, and the longest time between two attempts, in rounds.
const LONGEST_BACKOFF: u32 = 16;
/// After this many attempts voters that do not answer count as gone: datagrams are lost.
const ATTEMPTS: u32 = 3;

/// What a change is to achieve.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The cluster has a version above 0, which knows the disks of its voters. These voters need not answer: they do not
    /// vote until they are removed and added again.
    Adopt {
        /// The voters that need not answer.
        without: BTreeSet<NodeId>,
    },
    /// This node is a voter.
    Add(NodeId, String),
    /// This node is no voter.
    Remove(NodeId),
}

impl Change {
    /// Whether a configuration is as wanted.
    pub fn is_made(&self, configuration: &Configuration) -> bool {
        configuration.version() > 0
            && match self {
                Change::Adopt { .. } => true,
                Change::Add(id, address) => configuration
                    .voter(*id)
                    .is_some_and(|voter| voter.disk.is_some() && voter.address == *address),
                Change::Remove(id) => configuration.voter(*id).is_none(),
            }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Adopt { .. } => f.write_str("adopt"),
            Change::Add(id, address) if address.is_empty() => write!(f, "add {id}"),
            Change::Add(id, address) => write!(f, "add {id}={address}"),
            Change::Remove(id) => write!(f, "remove {id}"),
        }
    }
}

/// Why a change is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImpossibleChange {
    /// The last voter cannot be removed.
    LastVoter,
    /// There are as many voters as there can be.
    TooMany,
    /// The node to be added has no disk.
    NoDisk(NodeId),
    /// The node to be added belongs to another cluster.
    OtherCluster(NodeId),
    /// The node to be added was started with another bound on drift.
    OtherDrift(NodeId),
    /// The node to be added is a voter, with another address or without a disk.
    Listed(NodeId),
    /// The next configuration does not fit into a datagram.
    TooLong,
    /// Too few voters of the next configuration answer to elect a leader.
    NoMajority {
        /// The number of voters of the next configuration that answer.
        answering: usize,
        /// The number that makes a majority of it.
        majority: usize,
    },
}

impl fmt::Display for ImpossibleChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImpossibleChange::LastVoter => {
                f.write_str("the last voter cannot be removed: add another voter first")
            }
            ImpossibleChange::TooMany => write!(f, "a cluster has at most {MAX_VOTERS} voters"),
            ImpossibleChange::NoDisk(id) => {
                write!(f, "node {id} has no data folder and cannot vote: start it with one")
            }
            ImpossibleChange::OtherCluster(id) => write!(
                f,
                "node {id} belongs to another cluster: start it with an empty data folder and with the voters of this \
                 cluster, without itself"
            ),
            ImpossibleChange::OtherDrift(id) => {
                write!(f, "node {id} has another `drift` than the cluster: correct its configuration")
            }
            ImpossibleChange::Listed(id) => {
                write!(f, "node {id} is a voter with another address, or one without a vote: remove it first")
            }
            ImpossibleChange::TooLong => f.write_str(
                "the list of voters with their disks does not fit into a datagram: use fewer voters or shorter addresses",
            ),
            ImpossibleChange::NoMajority { answering, majority } => write!(
                f,
                "only {answering} of the next voters answer, and {majority} are needed: start more of them, or remove \
                 a voter that does not answer first"
            ),
        }
    }
}

/// What a coordinator waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChangeProgress {
    /// These nodes have not said which disk they have.
    AwaitsIdentity(Vec<NodeId>),
    /// A majority of these voters has to answer; these have not.
    AwaitsVoters(Vec<NodeId>),
    /// Earlier leases have to run out before the next change, which takes this long at most.
    AwaitsLeases(Span),
    /// A majority of the next configuration's voters has to install it; these have not.
    AwaitsInstall(Vec<NodeId>),
    /// The change is impossible.
    Impossible(ImpossibleChange),
    /// The change is made, and a majority has installed it.
    Made,
}

impl ChangeProgress {
    /// A code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            ChangeProgress::AwaitsIdentity(_) => "awaits_identity",
            ChangeProgress::AwaitsVoters(_) => "awaits_voters",
            ChangeProgress::AwaitsLeases(_) => "awaits_leases",
            ChangeProgress::AwaitsInstall(_) => "awaits_install",
            ChangeProgress::Impossible(_) => "impossible",
            ChangeProgress::Made => "made",
        }
    }
}

impl fmt::Display for ChangeProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |ids: &[NodeId]| ids.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ");
        match self {
            ChangeProgress::AwaitsIdentity(ids) => {
                let ids = list(ids);
                write!(
                    f,
                    "waits for an answer of {ids}: a voter needs a data folder and the key of the cluster"
                )
            }
            ChangeProgress::AwaitsVoters(ids) => {
                write!(f, "waits for a majority of the voters; no answer yet of {}", list(ids))
            }
            ChangeProgress::AwaitsLeases(left) => {
                let left = left.format_duration();
                write!(f, "waits until leases from before the last change have expired, for {left} at most")
            }
            ChangeProgress::AwaitsInstall(ids) => {
                write!(
                    f,
                    "is chosen; waits until a majority has installed it; no answer yet of {}",
                    list(ids)
                )
            }
            ChangeProgress::Impossible(reason) => reason.fmt(f),
            ChangeProgress::Made => f.write_str("is made, and a majority of the voters has it"),
        }
    }
}

/// Carries out what a coordinator does.
pub trait Effects {
    /// Sends to a node, which may be this one.
    fn send(&mut self, to: NodeId, message: MembershipMessage);
    /// The source of randomness.
    fn rng(&mut self) -> &mut Rng;
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Asks for the identities of disks.
    Greeting,
    /// Asks voters to promise a ballot: what each of them accepted before, and the greatest ceiling.
    Preparing {
        ballot: Ballot,
        promised: BTreeSet<NodeId>,
        accepted: Option<(Ballot, Arc<Configuration>)>,
        ceiling: u64,
        /// The voters whose earlier leases have not run out, and when the last of these leases has.
        undrained: BTreeSet<NodeId>,
        drained: Option<Time>,
    },
    /// Asks voters to accept a configuration.
    Accepting { ballot: Ballot, next: Arc<Configuration>, accepted: BTreeSet<NodeId> },
    /// A configuration is chosen, and installed by these.
    Installing { next: Arc<Configuration>, installed: BTreeSet<NodeId> },
    /// Waits before the next attempt.
    Waiting { drained: Option<Time> },
    /// Has ended.
    Ended(Option<ImpossibleChange>),
}

/// The coordinator of a change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    me: NodeId,
    boot: u64,
    change: Change,
    base: Arc<Configuration>,
    phase: Phase,
    /// The identities of disks that are known.
    disks: BTreeMap<NodeId, Option<DiskId>>,
    /// The greatest counter of a ballot that this node has heard of.
    counter: u64,
    /// The time that voters have to answer the first attempt.
    round: Span,
    attempts: u32,
    /// Whether a founder that is to be removed has had a round to name its disk.
    excuses_removed: bool,
    due: Time,
    bug: Option<Bug>,
}

impl Coordinator {
    /// A coordinator that begins with this configuration.
    pub fn start(
        (me, boot): (NodeId, u64),
        change: Change,
        base: Arc<Configuration>,
        (round, bug): (Span, Option<Bug>),
        fx: &mut impl Effects,
        now: Time,
    ) -> Coordinator {
        let mut coordinator = Coordinator {
            me,
            boot,
            change,
            base,
            phase: Phase::Greeting,
            disks: BTreeMap::new(),
            counter: 0,
            round,
            attempts: 0,
            excuses_removed: false,
            due: now,
            bug,
        };
        coordinator.begin(fx, now);
        coordinator
    }

    /// The configuration whose successor is chosen.
    pub fn base(&self) -> &Configuration {
        &self.base
    }

    /// What the change is to achieve.
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// When [`on_due`](Coordinator::on_due) is to be called next. None once the coordinator has ended.
    pub fn next_due(&self) -> Option<Time> {
        (!matches!(self.phase, Phase::Ended(_))).then_some(self.due)
    }

    /// What the coordinator waits for.
    pub fn progress(&self, now: Time) -> ChangeProgress {
        let missing = |answered: &BTreeSet<NodeId>, of: &Configuration| {
            of.voters().iter().map(|voter| voter.id).filter(|id| !answered.contains(id)).collect()
        };
        match &self.phase {
            Phase::Greeting => ChangeProgress::AwaitsIdentity(self.strangers()),
            Phase::Preparing { promised, .. } => ChangeProgress::AwaitsVoters(missing(promised, &self.base)),
            Phase::Accepting { accepted, .. } => ChangeProgress::AwaitsVoters(missing(accepted, &self.base)),
            Phase::Waiting { drained: Some(drained) } => ChangeProgress::AwaitsLeases(drained.since(now)),
            Phase::Waiting { drained: None } => {
                ChangeProgress::AwaitsVoters(missing(&BTreeSet::new(), &self.base))
            }
            Phase::Installing { next, installed } => ChangeProgress::AwaitsInstall(missing(installed, next)),
            Phase::Ended(Some(reason)) => ChangeProgress::Impossible(*reason),
            Phase::Ended(None) => ChangeProgress::Made,
        }
    }

    /// The node has installed a configuration that it learned from others: this attempt is void.
    pub fn on_configuration(&mut self, fx: &mut impl Effects, now: Time, configuration: &Arc<Configuration>) {
        let installing = match &self.phase {
            Phase::Ended(_) => return,
            Phase::Installing { next, .. } => next.version(),
            _ => self.base.version(),
        };
        // The node may have found another cluster than the one that it was started with.
        if configuration.version() > installing || configuration.cluster() != self.base.cluster() {
            self.base = Arc::clone(configuration);
            self.begin(fx, now);
        }
    }

    /// The time of [`next_due`](Coordinator::next_due) has come.
    pub fn on_due(&mut self, fx: &mut impl Effects, now: Time) {
        if now < self.due {
            return;
        }
        match &self.phase {
            Phase::Ended(_) => {}
            Phase::Greeting => {
                self.excuses_removed = true;
                self.greet_or_prepare(fx, now);
            }
            Phase::Installing { .. } => self.install(fx, now),
            Phase::Waiting { .. } => self.begin(fx, now),
            // The result could not elect a leader: the voters that have answered are too few.
            Phase::Preparing { promised, drained: None, .. }
                if promised.len() >= self.base.majority() && self.attempts >= ATTEMPTS =>
            {
                let answering = self.answering(promised);
                let majority = self.next_voters().len() / 2 + 1;
                self.phase = Phase::Ended(Some(ImpossibleChange::NoMajority { answering, majority }));
            }
            Phase::Preparing { drained, .. } => {
                let drained = *drained;
                self.back_off(fx, now, drained);
            }
            Phase::Accepting { .. } => self.back_off(fx, now, None),
        }
    }

    /// A node answers. Returns the configuration if this answer has made it chosen.
    pub fn on_message(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        (from, stamp): (NodeId, Stamp),
        message: &MembershipMessage,
    ) -> Option<Arc<Configuration>> {
        match message {
            MembershipMessage::Identity(identity) => self.on_identity(fx, now, (from, stamp), *identity),
            MembershipMessage::Promised { ballot, accepted, ceiling } => {
                self.on_promised(fx, now, from, (*ballot, accepted, *ceiling));
            }
            MembershipMessage::Accepted(ballot) => return self.on_accepted(fx, now, from, *ballot),
            MembershipMessage::Refused(ballot, reason) => self.on_refused(fx, now, from, (*ballot, *reason)),
            _ => {}
        }
        None
    }

    /// A node has installed this version.
    pub fn on_installed(&mut self, fx: &mut impl Effects, now: Time, from: NodeId, version: u64) {
        let Phase::Installing { next, installed } = &mut self.phase else { return };
        if version < next.version() || next.voter(from).is_none() {
            return;
        }
        installed.insert(from);
        if installed.len() >= next.majority() {
            self.base = Arc::clone(next);
            self.attempts = 0;
            self.begin(fx, now);
        }
    }

    /// Makes the next attempt, unless there is nothing left to do.
    fn begin(&mut self, fx: &mut impl Effects, now: Time) {
        if self.change.is_made(&self.base) {
            self.phase = Phase::Ended(None);
            return;
        }
        let voters = self.base.voters().len();
        let impossible = match &self.change {
            Change::Remove(id) if voters == 1 && self.base.voter(*id).is_some() => {
                Some(ImpossibleChange::LastVoter)
            }
            Change::Add(id, _) if self.base.version() > 0 && self.base.voter(*id).is_some() => {
                Some(ImpossibleChange::Listed(*id))
            }
            Change::Add(..) if voters == MAX_VOTERS => Some(ImpossibleChange::TooMany),
            // The first step names the same voters and their disks.
            _ if self.base.version() == 0 && !self.base.fits_datagram() => Some(ImpossibleChange::TooLong),
            _ => None,
        };
        if impossible.is_some() {
            self.phase = Phase::Ended(impossible);
            return;
        }
        self.greet_or_prepare(fx, now);
    }

    fn greet_or_prepare(&mut self, fx: &mut impl Effects, now: Time) {
        if self.strangers().is_empty() {
            self.prepare(fx, now);
        } else {
            self.phase = Phase::Greeting;
            self.greet(fx, now);
        }
    }

    /// The nodes whose disks the next configuration must name and that have not told them. A voter that is to be removed
    /// has a round to answer, so that it votes until it is removed; then it need not.
    fn strangers(&self) -> Vec<NodeId> {
        let founding = self.base.version() == 0;
        let voters = self.base.voters().iter().map(|voter| voter.id).filter(|_| founding);
        let added = match &self.change {
            Change::Add(id, _) => Some(*id),
            Change::Adopt { .. } | Change::Remove(_) => None,
        };
        let unknown = |id: &NodeId| {
            let excused = match &self.change {
                Change::Adopt { without } => without.contains(id),
                Change::Remove(removed) => removed == id && self.excuses_removed,
                Change::Add(..) => false,
            };
            !self.disks.contains_key(id) && !excused
        };
        voters.chain(added).filter(unknown).collect()
    }

    fn greet(&mut self, fx: &mut impl Effects, now: Time) {
        for id in self.strangers() {
            fx.send(id, MembershipMessage::Hello);
        }
        // A voter that is to be removed may answer late: its disk is then known, and it votes until it is removed.
        if let Change::Remove(id) = self.change
            && self.excuses_removed
            && !self.disks.contains_key(&id)
        {
            fx.send(id, MembershipMessage::Hello);
        }
        self.due = now + self.round;
    }

    fn on_identity(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        (from, stamp): (NodeId, Stamp),
        identity: Identity,
    ) {
        let Identity { disk, cluster, votes, drift } = identity;
        if self.phase != Phase::Greeting {
            return;
        }
        // A voter of version 0 whose disk was lost keeps its place, and has no vote: it would be replaced in one step.
        let keeps = self.base.version() > 0 || self.base.voter(from).is_none();
        let known = disk.filter(|_| keeps || votes && stamp == self.base.stamp());
        self.disks.insert(from, known);
        let added = matches!(self.change, Change::Add(id, _) if id == from);
        if added && cluster.is_some_and(|cluster| cluster != self.base.cluster()) {
            self.phase = Phase::Ended(Some(ImpossibleChange::OtherCluster(from)));
        } else if added && drift != self.base.drift() {
            self.phase = Phase::Ended(Some(ImpossibleChange::OtherDrift(from)));
        } else if added && disk.is_none() {
            self.phase = Phase::Ended(Some(ImpossibleChange::NoDisk(from)));
        } else if self.strangers().is_empty() {
            self.prepare(fx, now);
        }
    }

    fn prepare(&mut self, fx: &mut impl Effects, now: Time) {
        self.counter += 1;
        let ballot = Ballot { counter: self.counter, coordinator: self.me, boot: self.boot };
        self.phase = Phase::Preparing {
            ballot,
            promised: BTreeSet::new(),
            accepted: None,
            ceiling: 0,
            undrained: BTreeSet::new(),
            drained: None,
        };
        self.due = now + self.round.scale(self.growth());
        self.ask_voters(fx, &MembershipMessage::Prepare(ballot));
    }

    fn ask_voters(&self, fx: &mut impl Effects, message: &MembershipMessage) {
        for voter in self.base.voters() {
            fx.send(voter.id, message.clone());
        }
    }

    fn on_promised(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        from: NodeId,
        (ballot, last, top): (Ballot, &Option<(Ballot, Arc<Configuration>)>, u64),
    ) {
        if self.base.voter(from).is_none() {
            return;
        }
        let ignores_accepted = self.bug == Some(Bug::BlindCoordinator);
        let Phase::Preparing { ballot: current, promised, accepted, ceiling, .. } = &mut self.phase else {
            return;
        };
        if ballot != *current {
            return;
        }
        promised.insert(from);
        *ceiling = top.max(*ceiling);
        if let Some((of, next)) = last
            && !ignores_accepted
            && accepted.as_ref().is_none_or(|(greatest, _)| of > greatest)
        {
            *accepted = Some((*of, Arc::clone(next)));
        }
        if promised.len() < self.base.majority() {
            return;
        }
        let (promised, accepted, ceiling) = (promised.clone(), accepted.clone(), *ceiling);
        let next = match accepted {
            // A majority may have accepted it: it must not be replaced.
            Some((_, next)) => next,
            None => {
                let voters = self.next_voters();
                if self.answering(&promised) < voters.len() / 2 + 1 {
                    return;
                }
                let floor = if self.bug == Some(Bug::ForgetFloor) { 0 } else { ceiling };
                let next = self.base.successor(voters, floor);
                if !next.fits_datagram() {
                    self.phase = Phase::Ended(Some(ImpossibleChange::TooLong));
                    return;
                }
                Arc::new(next)
            }
        };
        self.phase = Phase::Accepting { ballot, next: Arc::clone(&next), accepted: BTreeSet::new() };
        self.due = now + self.round.scale(self.growth());
        self.ask_voters(fx, &MembershipMessage::Accept(ballot, next));
    }

    /// The voters of the next step: with their disks, if this is the first, or with one added or removed.
    fn next_voters(&self) -> Vec<VoterEntry> {
        let mut voters = self.base.voters().to_vec();
        if self.base.version() == 0 {
            for voter in &mut voters {
                voter.disk = self.disks.get(&voter.id).copied().flatten();
            }
            return voters;
        }
        match &self.change {
            Change::Adopt { .. } => {}
            Change::Add(id, address) => {
                let disk = self.disks.get(id).copied().flatten();
                voters.push(VoterEntry { id: *id, disk, address: address.clone() });
            }
            Change::Remove(id) => voters.retain(|voter| voter.id != *id),
        }
        voters
    }

    /// The number of voters of the next configuration that have answered this coordinator.
    fn answering(&self, promised: &BTreeSet<NodeId>) -> usize {
        let answers = |voter: &&VoterEntry| {
            promised.contains(&voter.id)
                || self.base.voter(voter.id).is_none() && self.disks.contains_key(&voter.id)
        };
        self.next_voters().iter().filter(answers).filter(|voter| voter.disk.is_some()).count()
    }

    fn on_accepted(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        from: NodeId,
        ballot: Ballot,
    ) -> Option<Arc<Configuration>> {
        let majority = self.base.majority();
        self.base.voter(from)?;
        let Phase::Accepting { ballot: current, next, accepted } = &mut self.phase else { return None };
        if ballot != *current {
            return None;
        }
        accepted.insert(from);
        if accepted.len() < majority {
            return None;
        }
        let next = Arc::clone(next);
        self.phase = Phase::Installing { next: Arc::clone(&next), installed: BTreeSet::new() };
        self.install(fx, now);
        Some(next)
    }

    /// Tells the voters of both versions.
    fn install(&mut self, fx: &mut impl Effects, now: Time) {
        let Phase::Installing { next, installed } = &self.phase else { return };
        let both: BTreeSet<NodeId> =
            self.base.voters().iter().chain(next.voters()).map(|voter| voter.id).collect();
        for &id in both.iter().filter(|id| !installed.contains(id)) {
            fx.send(id, MembershipMessage::Install(Arc::clone(next)));
        }
        self.due = now + self.round;
    }

    fn on_refused(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        from: NodeId,
        (refused, reason): (Ballot, ChangeRefusal),
    ) {
        let current = match &self.phase {
            Phase::Preparing { ballot, .. } | Phase::Accepting { ballot, .. } => *ballot,
            _ => return,
        };
        if refused != current || self.base.voter(from).is_none() {
            return;
        }
        match reason {
            ChangeRefusal::Outbid(ballot) => {
                self.counter = self.counter.max(ballot.counter);
                self.back_off(fx, now, None);
            }
            ChangeRefusal::NotDrained(left) => {
                let most = self.base.voters().len() - self.base.majority();
                let Phase::Preparing { undrained, drained, .. } = &mut self.phase else { return };
                undrained.insert(from);
                *drained = (*drained).max(Some(now + left));
                // The others make no majority.
                if undrained.len() > most {
                    let drained = *drained;
                    self.back_off(fx, now, drained);
                }
            }
            ChangeRefusal::NotVoter | ChangeRefusal::NotSuccessor => {}
        }
    }

    /// How many rounds an attempt and the pause after it may take. They grow with the attempts: answers may be late because
    /// the network or the disks of voters are slower than configured.
    fn growth(&self) -> f64 {
        f64::from(1 << self.attempts.min(LONGEST_BACKOFF.ilog2()))
    }

    /// Waits before the next attempt: longer after each, and for a random time, so that of two coordinators one comes
    /// first.
    fn back_off(&mut self, fx: &mut impl Effects, now: Time, drained: Option<Time>) {
        let pause = self.round.scale(self.growth() * (0.5 + fx.rng().unit() / 2.0));
        self.attempts += 1;
        self.due = drained.map_or(now, |drained| drained.max(now)) + pause;
        self.phase = Phase::Waiting { drained };
    }
}
