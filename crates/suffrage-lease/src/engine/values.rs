//! The values of leaders, as a node knows them. No promise depends on them.
//!
//! ```text
//!   9 ──Renew {version 1}──▶ 1     the voter of node 1 learns that there is a value
//!   9 ◀──Renewed── 1
//!   9 ◀──ValueQuery── 1            asks for the chunks that are missing, with every renewal until it has all
//!   9 ──ValueChunk──▶ 1            one for each chunk
//! ```
//!
//! Proposals and grants carry the version of the value, so a node learns of a new one from the renewals that its voter
//! gets, or from the replies to its enquiries. A leader whose value changes renews early. A lease that is released before
//! its first renewal costs no message about its value, unless somebody asks who leads.
//!
//! A text is stored with the token and the version that it belongs to, while the node knows that leader. The values of other
//! leaders take at most [`VALUE_MEMORY`] bytes at one node: beyond that, new ones are not asked for.

use std::collections::BTreeMap;

use suffrage_core::{Context, NodeId, Time};

use super::Engine;
use super::effects::NodeEffects;
use super::election::ElectionIndex;
use super::grants::Report;
use crate::message::{Body, Boot, Grant, Name, Token};
use crate::timings::Bug;
use crate::value::{
    MAX_CHUNKS, MAX_VALUE, VALUE_CHUNK, Value, ValueChunk, ValueVersion, chunk_count, chunk_mask, chunks,
};
use crate::voter::per_entry;

/// The greatest number of bytes of values of other leaders at one node, with what it costs to keep them.
pub const VALUE_MEMORY: usize = 64 << 20;
/// The memory of one note besides its text, in bytes: an entry in a B-tree, the allocation of the text, and the version at
/// the voter.
const NOTE_MEMORY: usize =
    per_entry(size_of::<(Name, ValueNote)>()) + 64 + per_entry(size_of::<(Name, ValueVersion)>());

/// A version of a value that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pull {
    version: ValueVersion,
    /// The chunks that have not come.
    missing: u32,
    /// Empty until the first chunk has come.
    bytes: Vec<u8>,
}

/// The value of one leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ValueNote {
    holder: NodeId,
    boot: Boot,
    token: Token,
    /// The newest version whose text is known.
    version: ValueVersion,
    value: Option<Value>,
    pull: Option<Pull>,
}

impl ValueNote {
    fn new(grant: &Grant) -> ValueNote {
        let Grant { holder, boot, token, .. } = *grant;
        ValueNote { holder, boot, token, version: ValueVersion::NONE, value: None, pull: None }
    }

    fn is_of(&self, grant: &Grant) -> bool {
        (self.holder, self.boot, self.token) == (grant.holder, grant.boot, grant.token)
    }

    /// The memory of the note, in bytes.
    fn size(&self) -> usize {
        let value = self.value.as_ref().map_or(0, |value| value.as_str().len());
        NOTE_MEMORY + value + self.pull.as_ref().map_or(0, |pull| pull.bytes.len())
    }

    /// The newest version that the node has heard of.
    fn newest(&self) -> ValueVersion {
        self.pull.as_ref().map_or(self.version, |pull| pull.version)
    }

    /// Adds a chunk. True if the value has changed.
    fn add(&mut self, chunk: &ValueChunk, room: usize) -> bool {
        let Some(pull) = self.pull.as_mut().filter(|pull| pull.version == chunk.version) else {
            return false;
        };
        let (length, index) = (usize::from(chunk.length), usize::from(chunk.index));
        let (count, bytes) = (chunk_count(length), chunk.bytes.as_bytes());
        let from = index * VALUE_CHUNK;
        if length > MAX_VALUE || index >= count || bytes.len() != VALUE_CHUNK.min(length - from.min(length)) {
            return false;
        }
        if pull.bytes.len() != length {
            if !pull.bytes.is_empty() || length > room {
                return false;
            }
            (pull.bytes, pull.missing) = (vec![0; length], chunk_mask(count));
        }
        pull.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        pull.missing &= chunk_mask(count) & !(1 << index);
        if pull.missing != 0 {
            return false;
        }
        // A text that is no text is a malformed message: as good as none.
        let text = std::str::from_utf8(&pull.bytes).ok();
        self.value = text.and_then(|text| Value::new(text).ok());
        self.version = chunk.version;
        self.pull = None;
        true
    }
}

/// The values of other leaders, by election.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Values {
    notes: BTreeMap<Name, ValueNote>,
    /// The bytes of all notes.
    bytes: usize,
}

impl Values {
    fn remove(&mut self, name: Name) -> bool {
        let Some(note) = self.notes.remove(&name) else { return false };
        self.bytes -= note.size();
        note.value.is_some()
    }

    /// The version of this grant's value is known. Returns the chunks to ask for, if any, and whether an earlier value is
    /// no longer shown.
    fn on_version(&mut self, name: Name, grant: &Grant, bug: Option<Bug>) -> (Option<u32>, bool) {
        let stale = self.notes.get(&name).is_some_and(|note| !note.is_of(grant));
        if stale && bug == Some(Bug::StaleValue) {
            let Some(note) = self.notes.get_mut(&name) else { return (None, false) };
            (note.holder, note.boot, note.token) = (grant.holder, grant.boot, grant.token);
        }
        let removed = stale && bug != Some(Bug::StaleValue) && self.remove(name);
        let full = self.bytes + NOTE_MEMORY + MAX_VALUE > VALUE_MEMORY;
        if full && !self.notes.contains_key(&name) {
            return (None, removed);
        }
        let note = self.notes.entry(name).or_insert_with(|| {
            self.bytes += NOTE_MEMORY;
            ValueNote::new(grant)
        });
        let ignored = bug == Some(Bug::IgnoreValueChange) && note.version != ValueVersion::NONE;
        if grant.value > note.newest() && !ignored {
            self.bytes -= note.size();
            let (version, missing) = (grant.value, chunk_mask(MAX_CHUNKS));
            note.pull = Some(Pull { version, missing, bytes: Vec::new() });
            self.bytes += note.size();
        }
        (note.pull.as_ref().filter(|_| !full).map(|pull| pull.missing), removed)
    }

    /// A chunk has come. True if the value of the election has changed.
    fn on_chunk(&mut self, name: Name, from: (NodeId, Boot), chunk: &ValueChunk) -> bool {
        let room = VALUE_MEMORY.saturating_sub(self.bytes);
        let Some(note) = self.notes.get_mut(&name) else { return false };
        if (note.holder, note.boot) != from || note.token != chunk.token {
            return false;
        }
        self.bytes -= note.size();
        let changed = note.add(chunk, room);
        self.bytes += note.size();
        changed
    }
}

impl Engine {
    /// The value of the leader with this token, and its version: the newest that this node knows. It may be out of date,
    /// but it is never of another token.
    pub fn value(&self, name: Name, token: Token) -> Option<(ValueVersion, &Value)> {
        let own = self.index_of(name).and_then(|index| self.election(index));
        if let Some(state) = own.filter(|state| state.candidate.lease().is_some_and(|it| it.token == token)) {
            return state.value().map(|value| (state.candidate.value_version(), value));
        }
        let note = self.values.notes.get(&name).filter(|note| note.token == token)?;
        note.value.as_ref().map(|value| (note.version, value))
    }

    /// Whether this node waits for a newer value of the leader with this token.
    pub fn is_value_pending(&self, name: Name, token: Token) -> bool {
        self.values.notes.get(&name).is_some_and(|note| note.token == token && note.pull.is_some())
    }

    /// The value of another leader that this node shows, with the holder, its boot and its token.
    pub fn noted_value(&self, name: Name) -> Option<(NodeId, Boot, Token, &Value)> {
        let note = self.values.notes.get(&name)?;
        note.value.as_ref().map(|value| (note.holder, note.boot, note.token, value))
    }

    /// The token of the leader whose value this node wants to know.
    pub fn value_token(&self, name: Name) -> Option<Token> {
        self.value_source(Time::ZERO, name).map(|grant| grant.token)
    }

    /// Whether the node knows the value of any other leader.
    pub fn has_values(&self) -> bool {
        !self.values.notes.is_empty()
    }

    /// Sets the value that this node has as the leader of an election, or takes it back. A node that leads tells the voters
    /// at once, or after the renewal that is under way.
    pub fn set_value(&mut self, cx: &mut Context<'_, Self>, index: ElectionIndex, value: Option<Value>) {
        let now = cx.now();
        let Some(state) = self.elections.get_mut(index.index()).and_then(Option::as_mut) else { return };
        if !state.replace_value(value) {
            return;
        }
        if state.candidate.lease().is_some() {
            let election = state.name().clone();
            self.grants.report(Report::ValueChanged(election));
        }
        self.input(cx, index, |state, _| state.candidate.on_value_change(now));
        self.arm(cx);
    }

    /// The leader whose value this node wants to know: the one with the greatest token of which its voter or its candidate
    /// knows, if it is another node.
    fn value_source(&self, now: Time, name: Name) -> Option<Grant> {
        let state = self.index_of(name).and_then(|index| self.election(index));
        if state.is_some_and(|state| state.candidate.lease().is_some()) {
            return None;
        }
        let granted = self.voter().and_then(|voter| voter.grant(now, name)).map(|(grant, _)| grant);
        let followed = state.and_then(|state| state.leader());
        let newest = granted.into_iter().chain(followed).max_by_key(|grant| (grant.token, grant.value));
        newest.filter(|grant| grant.holder != self.me && grant.value != ValueVersion::NONE)
    }

    /// Forgets the value of an earlier leader of this election. If `ask` is set, asks the leader for what is missing of its
    /// value.
    pub(super) fn update_value(&mut self, cx: &mut Context<'_, Self>, name: Name, ask: bool) {
        if !ask && self.values.notes.is_empty() {
            return;
        }
        let changed = match self.value_source(cx.now(), name) {
            None => self.values.remove(name),
            Some(grant) => {
                let (missing, removed) = self.values.on_version(name, &grant, self.config.bug);
                if let Some(missing) = missing.filter(|_| ask) {
                    let (header, token, version) = (self.membership.header(), grant.token, grant.value);
                    let query = Body::ValueQuery { token, version, missing };
                    NodeEffects::of_node(cx, &mut self.loopback, header).deliver(grant.holder, name, query);
                }
                removed
            }
        };
        if changed {
            self.report_value(name);
        }
    }

    /// The node's voter has granted another lease of this election, or the last one has ended.
    pub(super) fn drop_value(&mut self, now: Time, name: Name) {
        if self.has_values() && self.value_source(now, name).is_none() && self.values.remove(name) {
            self.report_value(name);
        }
    }

    /// A node asks for chunks of this version of the value, which this node has as the leader with this token.
    pub(super) fn on_value_query(
        &mut self,
        cx: &mut Context<'_, Self>,
        from: NodeId,
        name: Name,
        (token, version, missing): (Token, ValueVersion, u32),
    ) {
        let header = self.membership.header();
        let Some(state) = self.index_of(name).and_then(|index| self.elections[index.index()].as_ref()) else {
            return;
        };
        let leads = state.candidate.lease().is_some_and(|lease| lease.token == token);
        // A node that asks for an older version learns of the newer one with the next renewal.
        if leads && state.candidate.value_version() == version {
            let mut fx = NodeEffects::of_node(cx, &mut self.loopback, header);
            for chunk in chunks((token, version), state.value(), missing) {
                fx.deliver(from, name, Body::ValueChunk(Box::new(chunk)));
            }
        }
    }

    /// A leader has sent a chunk of its value.
    pub(super) fn on_value_chunk(&mut self, from: (NodeId, Boot), name: Name, chunk: &ValueChunk) {
        if self.values.on_chunk(name, from, chunk) {
            self.report_value(name);
        }
    }

    /// Reports that another value is known in an election that the node has joined. Others are known by grants, and their
    /// values are read when they are asked for.
    fn report_value(&mut self, name: Name) {
        let state = self.index_of(name).and_then(|index| self.elections[index.index()].as_ref());
        if let Some(election) = state.map(|state| state.name().clone()) {
            self.grants.report(Report::ValueChanged(election));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many leaders with short values do not take more memory than few with long ones.
    #[test]
    fn notes_count_against_the_memory_of_values() {
        let mut values = Values::default();
        let grant = |token| Grant {
            token: Token::after(token),
            holder: NodeId(9),
            boot: Boot(1),
            attribute: 0,
            value: ValueVersion(1),
        };
        let names = || (0..300_000).map(|number| Name::of(&number.to_string()));
        for name in names() {
            values.on_version(name, &grant(1), None);
        }
        assert!(values.notes.len() > 100_000 && values.notes.len() * NOTE_MEMORY <= VALUE_MEMORY);
        assert_eq!(values.on_version(Name::of("another"), &grant(1), None), (None, false));
        names().for_each(|name| _ = values.remove(name));
        assert_eq!(values.bytes, 0);
        assert!(values.on_version(Name::of("another"), &grant(1), None).0.is_some());
    }
}
