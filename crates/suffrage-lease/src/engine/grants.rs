//! What a node tells its operator of elections: the leases that its voter has granted in elections that the node has not
//! joined, and why voters refuse the node's own candidates.
//!
//! ```text
//!   9 ──Propose──▶ 1       the voter of node 1 grants the lease; node 1 knows only the hash of the election's name
//!   9 ◀──Accepted── 1
//!   9 ──Renew────▶ 1
//!   9 ◀──Renewed── 1
//!   9 ◀──NameQuery── 1     the voter asks the holder, with every renewal until it knows the text
//!   9 ──NameText──▶ 1
//! ```
//!
//! A lease that is released before its first renewal costs no message about its name.
//!
//! A text is stored while the voter knows the election: while somebody holds it, waits for it or watches it. Nobody can
//! make a voter store the text of an election that it has not granted. The text of an election that the node has joined
//! is the node's own.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use suffrage_core::{Context, NodeId, Time};

use super::Engine;
use super::command::ElectionName;
use super::effects::NodeEffects;
use crate::message::{Body, Grant, Name, Reply};
use crate::value::{Value, ValueVersion};
use crate::voter::{Voter, per_entry};

/// A value that no later input depends on: two engines that differ only in it are equal, and the model checker explores
/// one of them.
#[derive(Clone, Debug, Default)]
struct Unobserved<T>(T);

impl<T> PartialEq for Unobserved<T> {
    fn eq(&self, _: &Unobserved<T>) -> bool {
        true
    }
}

impl<T> Eq for Unobserved<T> {}

impl<T> Hash for Unobserved<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// A change of the lease that a node's voter has granted, in an election that the node has not joined.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GrantChange {
    /// The election.
    pub election: ElectionName,
    /// The lease that is granted from now on.
    pub grant: Option<Grant>,
}

/// A voter has refused a candidate of this node that does not lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// The election.
    pub election: ElectionName,
    /// The voter.
    pub voter: NodeId,
    /// The reply: [`Held`](Reply::Held), [`Rejected`](Reply::Rejected) or [`TooLong`](Reply::TooLong).
    pub reply: Reply,
}

/// A report of an engine to the operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Report {
    /// The voter has granted another lease.
    Granted(GrantChange),
    /// A voter has refused a candidate.
    Refused(Refusal),
    /// Another [value](crate::Value) of the leader is known, or none, in an election that the node has joined.
    ValueChanged(ElectionName),
}

/// An election that a node has not joined, as its voter knows it: one vote, not a majority.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GrantedElection {
    /// The hash of the name.
    pub name: Name,
    /// The text of the name, if the holder has told it.
    pub text: Option<ElectionName>,
    /// The lease that the voter has granted, and when it expires.
    pub grant: Option<(Grant, Time)>,
    /// The value of the holder, if this node knows it.
    pub value: Option<(ValueVersion, Value)>,
    /// When the voter granted another lease, or the last one ended.
    pub since: Time,
}

/// The voter's knowledge of one election that the node has not joined.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GrantNote {
    text: Option<ElectionName>,
    since: Unobserved<Time>,
}

/// The greatest memory of one held election that a voter's node has not joined, in bytes, with a text of up to 23 bytes
/// and besides [`VOTER_MEMORY`](crate::VOTER_MEMORY).
pub const GRANT_NOTE_MEMORY: usize = per_entry(size_of::<(Name, GrantNote)>());

/// The granted elections that the node has not joined, and the reports of the last input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct GrantNotes {
    /// Elections that the voter knows and has granted since it came to know them.
    pub(super) notes: BTreeMap<Name, GrantNote>,
    reports: Unobserved<Vec<Report>>,
}

impl GrantNotes {
    /// Drops the reports that nobody took: a new input begins.
    pub(super) fn begin_input(&mut self) {
        self.reports.0.clear();
    }

    /// The node has joined an election: from now on it knows more than its voter.
    pub(super) fn on_joined(&mut self, name: Name) {
        self.notes.remove(&name);
    }

    /// The node has left an election that its voter has granted.
    pub(super) fn on_left(&mut self, now: Time, name: Name, text: ElectionName) {
        self.notes.insert(name, GrantNote { text: Some(text), since: Unobserved(now) });
    }

    /// Reports to the operator.
    pub(super) fn report(&mut self, report: Report) {
        self.reports.0.push(report);
    }

    /// A voter has refused a candidate of this node.
    pub(super) fn on_refused(&mut self, refusal: Refusal) {
        self.reports.0.push(Report::Refused(refusal));
    }

    fn on_granted(&mut self, now: Time, name: Name, grant: Option<Grant>) {
        let note = match grant {
            Some(_) => self.notes.entry(name).or_insert(GrantNote { text: None, since: Unobserved(now) }),
            None => match self.notes.get_mut(&name) {
                Some(note) => note,
                None => return,
            },
        };
        note.since = Unobserved(now);
        if let Some(election) = note.text.clone() {
            self.reports.0.push(Report::Granted(GrantChange { election, grant }));
        }
    }

    fn lacks_text(&self, name: Name) -> bool {
        self.notes.get(&name).is_some_and(|note| note.text.is_none())
    }
}

/// The changes that a voter has reported during one input.
#[derive(Debug, Default)]
pub(super) struct VoterReports(pub(super) Vec<(Name, VoterReport)>);

/// A change that a voter has reported.
#[derive(Debug)]
pub(super) enum VoterReport {
    Granted(Option<Grant>),
    Forgotten,
}

impl Engine {
    /// Takes the reports to the operator. Those of an input are dropped when the next one begins.
    pub fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.grants.reports.0)
    }

    /// The elections that this node's voter has granted or that candidates wait for since, and that the node has not
    /// joined.
    pub fn granted(&self, now: Time) -> impl Iterator<Item = GrantedElection> {
        self.grants.notes.iter().filter_map(move |(&name, note)| self.describe(now, name, note))
    }

    /// One of these elections.
    pub fn granted_election(&self, now: Time, name: Name) -> Option<GrantedElection> {
        self.describe(now, name, self.grants.notes.get(&name)?)
    }

    fn describe(&self, now: Time, name: Name, note: &GrantNote) -> Option<GrantedElection> {
        let voter: &Voter = self.voter()?;
        let grant = voter.grant(now, name);
        let listed = grant.is_some() || voter.live_waiters(now, name).next().is_some();
        let (text, since) = (note.text.clone(), note.since.0);
        let value = grant.and_then(|(grant, _)| self.value(name, grant.token));
        let value = value.map(|(version, value)| (version, value.clone()));
        listed.then_some(GrantedElection { name, text, grant, value, since })
    }

    /// The time at which the voter granted another lease of an election that the node has not joined, or at which the last
    /// lease ended, and whether the voter knows the text of the name.
    pub fn granted_since(&self, name: Name) -> Option<(Time, bool)> {
        self.grants.notes.get(&name).map(|note| (note.since.0, note.text.is_some()))
    }

    /// Records what the voter has reported.
    pub(super) fn note_grants(&mut self, now: Time, VoterReports(reports): VoterReports) {
        for (name, report) in reports {
            match report {
                _ if self.names.contains_key(&name) => {}
                VoterReport::Granted(grant) => self.grants.on_granted(now, name, grant),
                VoterReport::Forgotten => _ = self.grants.notes.remove(&name),
            }
            self.drop_value(now, name);
        }
    }

    /// Asks the holder that has renewed its lease for the text of the election's name, if the voter lacks it.
    pub(super) fn query_name(&mut self, cx: &mut Context<'_, Self>, holder: NodeId, name: Name) {
        let holds =
            |voter: &Voter| voter.grant(cx.now(), name).is_some_and(|(grant, _)| grant.holder == holder);
        if self.grants.lacks_text(name) && self.voter().is_some_and(holds) {
            let header = self.membership.header();
            NodeEffects::of_node(cx, &mut self.loopback, header).deliver(holder, name, Body::NameQuery);
        }
    }

    /// A voter asks for the text of the name of an election that this node has joined.
    pub(super) fn on_name_query(&mut self, cx: &mut Context<'_, Self>, from: NodeId, name: Name) {
        let text = self.index_of(name).and_then(|index| self.election(index)).map(|state| state.name());
        if let Some(text) = text.cloned() {
            let header = self.membership.header();
            NodeEffects::of_node(cx, &mut self.loopback, header).deliver(from, name, Body::NameText(text));
        }
    }

    /// The holder of a lease has told the text of the election's name.
    pub(super) fn on_name_text(&mut self, now: Time, name: Name, text: ElectionName) {
        if text.hash() != name {
            return;
        }
        let grant = self.voter().and_then(|voter| voter.grant(now, name)).map(|(grant, _)| grant);
        if let Some(note) = self.grants.notes.get_mut(&name).filter(|note| note.text.is_none()) {
            note.text = Some(text.clone());
            self.grants.reports.0.push(Report::Granted(GrantChange { election: text, grant }));
        }
    }
}
