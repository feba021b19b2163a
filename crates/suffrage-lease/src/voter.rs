//! A voter: grants leases of many elections, and stores little of each.
//!
//! A voter must never promise a token twice, or a smaller token after a greater one. It must never grant a lease while
//! another candidate may rely on an earlier grant of this voter. Both rules must survive a crash. A disk write for
//! every promise would be slow, so the voter saves only two values: a *ceiling* of tokens, in chunks, before it
//! promises a token above the ceiling; and the longest lease, before it grants a longer one. After a restart the voter
//! knows no election. It treats every token up to the ceiling as promised, and is silent until the longest lease has
//! expired.
//!
//! A voter does not wait for its disk. A question whose answer needs a save is *deferred* until the disk has the state,
//! and then handled as if it arrived only then. All other questions, such as renewals, are answered meanwhile. So the
//! state in memory, apart from what is being saved, never promises more than the disk.

mod held;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::held::StoredGrant;
use super::membership::{Acceptor, Ballot, ChangeRefusal, Configuration, DiskId, MembershipMessage};
use super::message::{Ask, Boot, Grant, Name, Reply, Request, Token};
use super::queue::Queue;
use super::timings::{Bug, Timings};
use super::value::ValueVersion;
use super::watchers::Watchers;
use suffrage_core::{Attribute, NodeId, Span, Time};

/// By how much the saved ceiling exceeds the token that is to be promised.
pub const TOKEN_CHUNK: u64 = 1_000;
/// The greatest number of questions that wait for the disk. More are dropped, as if the network had lost them.
const MAX_DEFERRED: usize = 1 << 16;

/// The state of a voter that survives a crash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Saved {
    /// The identity of the disk.
    pub disk: DiskId,
    /// The installed configuration.
    pub configuration: Arc<Configuration>,
    /// The state of the choice of the next configuration.
    pub acceptor: Acceptor,
    /// No greater token has been promised, of any election.
    pub ceiling: u64,
    /// No longer lease may be valid.
    pub longest: Span,
    /// False if the voter had lost its disk when it started at version 0, which names no disks.
    pub trusted: bool,
    /// Whether the configuration is that of the node's cluster. If not, it is the list that the node was started with,
    /// which does not name the node as a voter.
    pub certain: bool,
}

impl Saved {
    /// The state of a voter that has promised nothing.
    pub fn blank(disk: DiskId, configuration: Arc<Configuration>) -> Saved {
        let (ceiling, acceptor) = (configuration.floor(), Acceptor::default());
        Saved { disk, configuration, acceptor, ceiling, longest: Span::ZERO, trusted: true, certain: true }
    }
}

/// The state with which a voter starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VoterStart {
    /// The voter has never promised or granted anything with this disk.
    Blank(Saved),
    /// The voter restarts.
    Recovered(Saved),
}

/// The effects of a voter.
pub trait Effects {
    /// Saves the state durably, before any later effect happens.
    fn save(&mut self, saved: &Saved);
    /// Begins to save the state. True if it is durable already. If not, [`Voter::on_saved`] follows, and later effects may
    /// happen before.
    fn begin_save(&mut self, saved: &Saved) -> bool {
        self.save(saved);
        true
    }
    /// Sends to a candidate.
    fn reply(&mut self, to: NodeId, name: Name, reply: Reply);
    /// Reports that another lease of this election is granted from now on, or none. Nothing depends on it.
    fn grant_changed(&mut self, _name: Name, _grant: Option<Grant>) {}
    /// Reports that the voter has forgotten this election, which nobody holds or waits for. Nothing depends on it.
    fn forgotten(&mut self, _name: Name) {}
}

/// What a voter can do because its disk has a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durable {
    /// Whether the configuration of the state is installed from now on.
    pub installed: bool,
    /// Replies to coordinators.
    pub replies: Vec<(NodeId, MembershipMessage)>,
}

/// A question that waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Deferred {
    boot: Boot,
    ask: Ask,
    at: Time,
    /// Questions are handled in the order of their arrival.
    number: u64,
}

/// The state of one election at a voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Election {
    /// The greatest token that the voter has promised or accepted.
    promised: u64,
    grant: Option<StoredGrant>,
    /// When the grant expires. Without a grant: when the next candidate is woken, or the election is forgotten.
    due: Time,
}

/// The greatest memory of one held election at a voter, in bytes, without its queue: the entries in two B-trees, whose
/// nodes have room for eleven entries and hold at least five.
pub const VOTER_MEMORY: usize =
    per_entry(size_of::<(Name, Election)>()) + per_entry(size_of::<(Time, Name)>());

/// The memory of one entry in a B-tree whose nodes are as empty as they can be: for each inner node with five entries
/// and twelve child pointers there are six leaves with five entries each, and every node has a header of two words.
pub(crate) const fn per_entry(size: usize) -> usize {
    let leaf = 11 * size + 16;
    let inner = leaf + 12 * size_of::<usize>();
    (6 * leaf + inner).div_ceil(6 * 5 + 5)
}

/// A voter. Inputs: [`start`](Voter::start) once, then [`on_ask`](Voter::on_ask) and, when the moment of
/// [`next_due`](Voter::next_due) has come, [`on_due`](Voter::on_due).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Voter {
    timings: Timings,
    /// The state on the disk. While a shorter [`longest`](Saved::longest) is being saved, the shorter one.
    saved: Saved,
    /// The newest state that the voter has begun to save; none if the disk has it.
    unsaved: Option<Saved>,
    /// The last question of each candidate about each election that waits for the disk.
    deferred: BTreeMap<(Name, NodeId), Deferred>,
    /// The number of questions that have waited.
    deferrals: u64,
    /// Replies to coordinators that wait for the disk.
    deferred_replies: Vec<(NodeId, MembershipMessage)>,
    /// In an unknown election all tokens up to this one count as promised.
    floor: u64,
    /// The voter sends nothing before this moment.
    silent_until: Time,
    /// The moment at which all leases have expired that were granted before the configuration was installed.
    drained_at: Time,
    /// The longest lease that was granted since [`period_end`](Voter::period_end) was last set.
    recent_longest: Span,
    /// The moment at which all leases have expired that were granted before this period.
    period_end: Time,
    elections: BTreeMap<Name, Election>,
    /// The waiting candidates, of known elections only.
    queues: BTreeMap<Name, Queue>,
    /// The nodes to notify of changes, of known elections only.
    watchers: Watchers,
    /// Elections whose promised token its holder has released: known elections without a grant only. A restart loses
    /// this set, which costs time, never safety.
    released: BTreeSet<Name>,
    /// The versions of the values of the holders that have one.
    values: BTreeMap<Name, ValueVersion>,
    /// When each known election is due, one entry for each. One timer serves them all.
    timers: BTreeSet<(Time, Name)>,
}

impl Voter {
    /// Starts a voter with the state that its disk holds: a [blank](Saved::blank) one, or what it saved before it
    /// restarted.
    pub fn start(timings: Timings, fx: &mut impl Effects, now: Time, start: VoterStart) -> Voter {
        let (saved, floor, silence) = match start {
            // Nothing was promised, and tokens up to the ceiling never will be.
            VoterStart::Blank(saved) => {
                let ceiling = saved.ceiling;
                (saved, ceiling, Span::ZERO)
            }
            VoterStart::Recovered(saved) => {
                let (ceiling, longest) = (saved.ceiling, saved.longest);
                (saved, ceiling, longest)
            }
        };
        let floor = if timings.bug == Some(Bug::ForgetCeiling) { 0 } else { floor };
        let silence = if timings.bug == Some(Bug::SkipSilence) { Span::ZERO } else { silence };
        let silent_until = now + silence;
        let change_while_silent = timings.bug == Some(Bug::ChangeWhileSilent);
        fx.save(&saved);
        Voter {
            timings,
            saved,
            unsaved: None,
            deferred: BTreeMap::new(),
            deferrals: 0,
            deferred_replies: Vec::new(),
            floor,
            silent_until,
            drained_at: if change_while_silent { now } else { silent_until },
            recent_longest: Span::ZERO,
            period_end: silent_until,
            elections: BTreeMap::new(),
            queues: BTreeMap::new(),
            watchers: Watchers::default(),
            released: BTreeSet::new(),
            values: BTreeMap::new(),
            timers: BTreeSet::new(),
        }
    }

    /// When [`on_due`](Voter::on_due) is to be called next.
    pub fn next_due(&self) -> Option<Time> {
        let falls = self.recent_longest < self.saved.longest && self.unsaved.is_none();
        let lower = falls.then_some(self.period_end);
        let election = self.timers.first().map(|&(due, _)| due);
        [election, lower].into_iter().flatten().min()
    }

    /// The number of known elections.
    pub fn len(&self) -> usize {
        self.elections.len()
    }

    /// Whether the voter knows no election.
    pub fn is_empty(&self) -> bool {
        self.elections.is_empty()
    }

    /// Whether the node `me` may vote with this disk. One that has lost its disk may not, nor one that the configuration
    /// does not list.
    pub fn may_vote(&self, me: NodeId) -> bool {
        let Saved { disk, configuration, trusted, .. } = &self.saved;
        let any_disk = self.timings.bug == Some(Bug::TrustEmptyDisk) && configuration.voter(me).is_some();
        (*trusted || configuration.version() > 0) && configuration.lists(me, *disk) || any_disk
    }

    /// The saved state, as the disk has it.
    pub fn saved(&self) -> &Saved {
        &self.saved
    }

    /// The moment at which all leases have expired that were granted before the configuration was installed. The voter
    /// takes part in no change before.
    pub fn drained_at(&self) -> Time {
        self.drained_at
    }

    /// The end of the silence after a restart: until then leaders may rely on grants from before the restart.
    pub fn silent_until(&self) -> Time {
        self.silent_until
    }

    /// The live grant of this election, and when it expires.
    pub fn grant(&self, now: Time, name: Name) -> Option<(Grant, Time)> {
        self.live_grant(now, name).map(|grant| (grant, self.elections[&name].due))
    }

    /// The number of live grants.
    pub fn granted(&self, now: Time) -> usize {
        self.elections.values().filter(|election| election.grant.is_some() && now < election.due).count()
    }

    /// The candidates that wait for this election, with their ranks.
    pub fn waiters(&self, name: Name) -> impl Iterator<Item = (NodeId, Attribute)> {
        self.queues.get(&name).into_iter().flat_map(Queue::iter)
    }

    /// The candidates that wait for this election in order, without those that have been silent for too long.
    pub fn live_waiters(&self, now: Time, name: Name) -> impl Iterator<Item = NodeId> {
        self.queues.get(&name).into_iter().flat_map(move |queue| queue.live(now, self.timings.stale_after))
    }

    /// A message of a candidate or an observer has arrived. The caller has checked that this node may vote, and that the
    /// message is of the installed configuration, unless it is a release.
    pub fn on_ask(&mut self, fx: &mut impl Effects, now: Time, from: (NodeId, Boot), name: Name, ask: Ask) {
        if now < self.silent_until {
            return;
        }
        self.lower_longest(fx, now);
        // The holder of an election asks as long as it renews, so no subscription outlives its end by long.
        self.watchers.prune(now);
        let (sender, boot) = from;
        match ask {
            Ask::Prepare { request, token, attribute } => {
                let reply = match self.awaits_grant(name) {
                    true => None,
                    false => self.on_prepare(fx, now, from, name, (request, token, attribute)),
                };
                self.reply_or_defer(fx, now, from, name, (ask, reply));
            }
            Ask::Propose { ttl, .. } if ttl.is_zero() => {}
            // After a restart the voter would have to be silent for as long.
            Ask::Propose { request, ttl, .. } if ttl > self.timings.longest_ttl => {
                fx.reply(sender, name, Reply::TooLong { request, longest: self.timings.longest_ttl });
            }
            Ask::Propose { request, token, ttl, attribute, renewal, value } => {
                let grant = Grant { token, holder: sender, boot, attribute, value };
                let reply = self.on_propose(fx, now, name, (request, grant, ttl, renewal));
                self.reply_or_defer(fx, now, from, name, (ask, reply));
            }
            Ask::Release { token, to } => self.on_release(fx, now, from, name, (token, to)),
            Ask::Enquire { request, standing } => {
                if let Some(attribute) = standing {
                    self.enqueue(now, name, from, attribute);
                }
                let grant = self.live_grant(now, name);
                let (promised, longest) = (self.promised(name), self.timings.longest_ttl);
                fx.reply(sender, name, Reply::Status { request, promised, grant, longest });
            }
            Ask::Watch { request } => {
                self.election_or_insert(name, now + self.timings.gap);
                let number = self.watchers.subscribe(name, sender, now + self.timings.stale_after);
                let grant = self.live_grant(now, name);
                fx.reply(sender, name, Reply::Watched { request, number, grant });
            }
        }
    }

    /// Notifies the watchers that the holder of the election has changed.
    fn notify_watchers(&mut self, fx: &mut impl Effects, now: Time, name: Name, grant: Option<Grant>) {
        fx.grant_changed(name, grant);
        let (number, watchers) = self.watchers.on_change(name, now);
        for watcher in watchers {
            fx.reply(watcher, name, Reply::Changed { number, grant });
        }
    }

    /// The grant, if it has not expired.
    fn live_grant(&self, now: Time, name: Name) -> Option<Grant> {
        let stored = self.elections.get(&name).filter(|election| now < election.due)?.grant?;
        Some(stored.with(self.values.get(&name).copied().unwrap_or_default()))
    }

    /// The reply to a candidate while another one holds the lease; none if no other one does. Only the queue changes,
    /// so a waiting candidate never costs a leader its lease.
    fn held(
        &mut self,
        now: Time,
        name: Name,
        from: (NodeId, Boot),
        (request, attribute): (Request, Attribute),
    ) -> Option<Reply> {
        let grant = self.live_grant(now, name).filter(|grant| !self.is_held_by(grant, from))?;
        self.enqueue(now, name, from, attribute);
        let remaining = self.elections[&name].due.since(now);
        Some(Reply::Held { request, grant, remaining })
    }

    /// Whether this boot of this node holds the lease.
    fn is_held_by(&self, grant: &Grant, (id, boot): (NodeId, Boot)) -> bool {
        grant.holder == id && (grant.boot == boot || self.timings.bug == Some(Bug::IgnoreBoot))
    }

    /// The greatest token that counts as promised.
    fn promised(&self, name: Name) -> u64 {
        self.elections.get(&name).map_or(self.floor, |election| election.promised)
    }

    fn on_prepare(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        from: (NodeId, Boot),
        name: Name,
        (request, token, attribute): (Request, Token, Attribute),
    ) -> Option<Reply> {
        let promised = self.promised(name);
        if let Some(held) = self.held(now, name, from, (request, attribute)) {
            if self.timings.bug == Some(Bug::BumpWhileHeld) && token.number() > promised {
                self.raise_ceiling(fx, token);
                self.elections.get_mut(&name).expect("a held election is known").promised = token.number();
            }
            return Some(held);
        }
        let equal = self.timings.bug == Some(Bug::EqualTokens) && token.number() == promised;
        if token.number() <= promised && !equal {
            return Some(Reply::Rejected { request, promised });
        }
        if !self.raise_ceiling(fx, token) {
            return None;
        }
        self.released.remove(&name);
        // The candidate's own grant, if it has one, stays as it is.
        let live = self.live_grant(now, name).is_some();
        let soon = now + self.timings.gap;
        let election = self.election_or_insert(name, soon);
        election.promised = token.number();
        if !live {
            let expired = election.grant.take().is_some();
            self.set_due(name, soon);
            if expired {
                self.notify_watchers(fx, now, name, None);
            }
        }
        self.dequeue(name, from.0);
        Some(Reply::Promised { request })
    }

    fn on_propose(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        name: Name,
        (request, grant, ttl, renewal): (Request, Grant, Span, bool),
    ) -> Option<Reply> {
        let from = (grant.holder, grant.boot);
        if let Some(held) = self.held(now, name, from, (request, grant.attribute)) {
            return Some(held);
        }
        let promised = self.promised(name);
        // The release has overtaken this renewal, which must not restore the grant.
        let released = grant.token.number() == promised && self.released.contains(&name);
        if grant.token.number() < promised || released {
            return Some(Reply::Rejected { request, promised });
        }
        // Counts from now on, so that the voter does not shorten what it waits for. Both saves begin at once.
        self.recent_longest = self.recent_longest.max(ttl);
        if !(self.raise_ceiling(fx, grant.token) & self.raise_longest(fx, ttl)) {
            return None;
        }
        self.released.remove(&name);
        // A grant is never shortened: the holder may rely on the earlier one.
        let earlier = self.live_grant(now, name).map(|_| self.elections[&name].due);
        let expires = earlier.unwrap_or(now).max(now + ttl);
        let election = self.election_or_insert(name, expires);
        election.promised = grant.token.number();
        let before = election.grant.replace(grant.into()).map(StoredGrant::lease);
        self.set_due(name, expires);
        match grant.value {
            ValueVersion::NONE => _ = self.values.remove(&name),
            version => _ = self.values.insert(name, version),
        }
        self.dequeue(name, grant.holder);
        if before != Some((grant.holder, grant.boot, grant.token)) {
            self.notify_watchers(fx, now, name, Some(grant));
        }
        Some(Reply::Accepted { request, renewal, contended: self.is_contended(name, grant.holder) })
    }

    /// The holder gives its grant back. A late release of an earlier token changes nothing.
    ///
    /// The release may arrive before the proposal. A candidate releases only tokens that a majority promised to it, so
    /// that no other candidate ever proposes them.
    fn on_release(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        from: (NodeId, Boot),
        name: Name,
        (token, to): (Token, Option<NodeId>),
    ) {
        // A proposal that still waits for the disk must not restore the grant.
        let released = |deferred: &Deferred| {
            deferred.boot == from.1 && matches!(deferred.ask, Ask::Propose { token: it, .. } if it <= token)
        };
        if self.deferred.get(&(name, from.0)).is_some_and(released) {
            self.deferred.remove(&(name, from.0));
        }
        let grant = self.live_grant(now, name);
        let held = grant.is_some_and(|grant| self.is_held_by(&grant, from) && grant.token == token);
        let known = self.elections.get(&name).is_some_and(|election| election.promised == token.number());
        // A released token stays released: a candidate that contends again uses a greater one.
        if known && (held || grant.is_none()) {
            self.released.insert(name);
        }
        if held {
            self.wake_next(fx, now, name, to);
        }
    }

    /// Ends the grant and wakes the next candidate in the queue. If nobody holds the election after a gap, the
    /// following one is woken. Candidates are woken one by one, so there is no thundering herd.
    fn wake_next(&mut self, fx: &mut impl Effects, now: Time, name: Name, preferred: Option<NodeId>) {
        let (gap, stale_after) = (self.timings.gap, self.timings.stale_after);
        let election = self.elections.get_mut(&name).expect("an election that is due is known");
        let held = election.grant.take().is_some();
        let promised = election.promised;
        self.set_due(name, now + gap);
        if held {
            self.notify_watchers(fx, now, name, None);
        }
        let Some(queue) = self.queues.get_mut(&name) else { return };
        if let Some(next) = queue.next(preferred, now, stale_after) {
            fx.reply(next, name, Reply::Vacant { promised });
        }
        if queue.is_empty() {
            self.queues.remove(&name);
        }
    }

    /// Handles every election that is due.
    pub fn on_due(&mut self, fx: &mut impl Effects, now: Time) {
        self.lower_longest(fx, now);
        while let Some(&(due, name)) = self.timers.first()
            && due <= now
        {
            if self.elections[&name].grant.is_some() || self.queues.contains_key(&name) {
                self.wake_next(fx, now, name, None);
            } else if let Some(until) = self.watchers.watched_until(name, now) {
                self.set_due(name, until);
            } else {
                self.forget(name);
                fx.forgotten(name);
            }
        }
    }

    /// Forgets an election without a grant and without waiting candidates. Its tokens must not decrease, so the
    /// greatest token of all forgotten elections becomes the floor.
    fn forget(&mut self, name: Name) {
        let election = self.elections.remove(&name).expect("an election that is due is known");
        self.timers.remove(&(election.due, name));
        self.released.remove(&name);
        self.values.remove(&name);
        self.floor = self.floor.max(election.promised);
    }

    /// The state of an election. An unknown election becomes known, and is due at `due`.
    fn election_or_insert(&mut self, name: Name, due: Time) -> &mut Election {
        let (floor, timers) = (self.floor, &mut self.timers);
        self.elections.entry(name).or_insert_with(|| {
            timers.insert((due, name));
            Election { promised: floor, grant: None, due }
        })
    }

    fn set_due(&mut self, name: Name, due: Time) {
        let election = self.elections.get_mut(&name).expect("an election with a timer is known");
        self.timers.remove(&(election.due, name));
        self.timers.insert((due, name));
        election.due = due;
    }

    /// Forgets leases that have expired: the silence after a restart need not last for them. At the end of a period, all
    /// leases have expired that were granted before it, and only those of the period count. The next period is as long
    /// as the longest of those.
    fn lower_longest(&mut self, fx: &mut impl Effects, now: Time) {
        // A longer lease may be waiting for the disk.
        if now < self.period_end || self.saved.longest.is_zero() || self.unsaved.is_some() {
            return;
        }
        let longest = std::mem::take(&mut self.recent_longest);
        self.period_end = now + longest;
        if longest < self.saved.longest {
            self.begin_save(fx, |saved| saved.longest = longest);
            // The disk has the longer or the shorter one.
            self.saved.longest = longest;
        }
    }

    // The disk.

    /// The newest state, on the disk or not.
    fn newest(&self) -> &Saved {
        self.unsaved.as_ref().unwrap_or(&self.saved)
    }

    /// Begins to save a changed state. True if the disk has it already. No state is saved twice in a row: when the second
    /// save ended, [`on_saved`](Voter::on_saved) would undo what [`lower_longest`](Voter::lower_longest) began meanwhile.
    fn begin_save(&mut self, fx: &mut impl Effects, change: impl FnOnce(&mut Saved)) -> bool {
        let mut state = self.newest().clone();
        change(&mut state);
        if state == *self.newest() {
            return self.unsaved.is_none();
        }
        if fx.begin_save(&state) || self.timings.bug == Some(Bug::ReplyBeforeSave) {
            (self.saved, self.unsaved) = (state, None);
            return true;
        }
        self.unsaved = Some(state);
        false
    }

    /// Saves a greater ceiling if needed, so that this token is not promised again after a restart. True if the disk has
    /// such a ceiling.
    fn raise_ceiling(&mut self, fx: &mut impl Effects, token: Token) -> bool {
        if token.number() > self.newest().ceiling {
            self.begin_save(fx, |saved| saved.ceiling = token.number().saturating_add(TOKEN_CHUNK));
        }
        token.number() <= self.saved.ceiling
    }

    /// Saves that there is a lease of this length, if needed. True if the disk has such a length, and will have.
    fn raise_longest(&mut self, fx: &mut impl Effects, ttl: Span) -> bool {
        if ttl > self.newest().longest {
            self.begin_save(fx, |saved| saved.longest = ttl);
        }
        ttl <= self.saved.longest
    }

    /// Whether a proposal in this election waits for the disk. A rival waits until it is granted: with a promise to the
    /// rival, the leader would need a greater token for its next renewal.
    fn awaits_grant(&self, name: Name) -> bool {
        let of_name = self.deferred.range((name, NodeId(0))..=(name, NodeId(u64::MAX)));
        of_name.into_iter().any(|(_, deferred)| matches!(deferred.ask, Ask::Propose { .. }))
    }

    /// Replies to a candidate. A question without a reply waits for the disk.
    fn reply_or_defer(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        (sender, boot): (NodeId, Boot),
        name: Name,
        (ask, reply): (Ask, Option<Reply>),
    ) {
        // A later question replaces an earlier one.
        self.deferred.remove(&(name, sender));
        match reply {
            Some(reply) => fx.reply(sender, name, reply),
            None if self.deferred.len() < MAX_DEFERRED => {
                self.deferrals += 1;
                self.deferred.insert((name, sender), Deferred { boot, ask, at: now, number: self.deferrals });
            }
            None => {}
        }
    }

    /// The disk has this state, which the voter began to save.
    pub fn on_saved(&mut self, fx: &mut impl Effects, now: Time, state: Saved) -> Durable {
        if self.timings.bug == Some(Bug::ReplyBeforeSave) {
            return Durable::default();
        }
        if self.unsaved.as_ref() == Some(&state) {
            self.unsaved = None;
        }
        let (version, certain) = (self.saved.configuration.version(), self.saved.certain);
        self.saved = state;
        let installed = version != self.saved.configuration.version() || certain != self.saved.certain;
        if installed {
            self.on_installed(now);
            // They are of the configuration before.
            self.deferred.clear();
            self.deferred_replies.clear();
        }
        let mut deferred: Vec<_> = std::mem::take(&mut self.deferred).into_iter().collect();
        deferred.sort_by_key(|(_, deferred)| deferred.number);
        for ((name, sender), Deferred { boot, ask, at, .. }) in deferred {
            // A candidate counts its lease from before the question: the lease would have expired.
            let expired = matches!(ask, Ask::Propose { ttl, .. } if now.since(at) >= ttl);
            if !expired {
                self.on_ask(fx, now, (sender, boot), name, ask);
            }
        }
        let replies = match &self.unsaved {
            None => std::mem::take(&mut self.deferred_replies),
            Some(_) => Vec::new(),
        };
        Durable { installed, replies }
    }

    // The configuration.

    /// Installs a newer configuration of the same cluster, which was chosen. Grants and promises stay: the voters of
    /// the next version may be the only ones that know of them. False if the voter uses the earlier configuration until
    /// the disk has the new one ([`Durable::installed`]).
    pub fn install(&mut self, fx: &mut impl Effects, now: Time, configuration: &Arc<Configuration>) -> bool {
        let newest = self.newest();
        let found = !newest.certain;
        if !found
            && (newest.configuration.cluster() != configuration.cluster()
                || newest.configuration.version() >= configuration.version())
        {
            return !self.installs();
        }
        let durable = self.begin_save(fx, |saved| {
            saved.certain = true;
            // A node that finds its cluster at version 0 is no founder, or has lost its disk.
            saved.trusted &= !found || configuration.version() > 0;
            saved.configuration = Arc::clone(configuration);
            saved.acceptor = Acceptor::default();
            saved.ceiling = saved.ceiling.max(configuration.floor());
        });
        if durable {
            self.on_installed(now);
        }
        durable
    }

    /// The disk has a newer configuration.
    fn on_installed(&mut self, now: Time) {
        if self.timings.bug == Some(Bug::DropGrants) {
            self.elections.values_mut().for_each(|election| election.grant = None);
        }
        let granted = self.elections.values().filter(|election| election.grant.is_some());
        let last = granted.map(|election| election.due).max().unwrap_or(now);
        self.drained_at = match self.timings.bug {
            Some(Bug::SkipDrain) => now,
            _ => last.max(self.silent_until).max(now),
        };
        let floor = self.saved.configuration.floor();
        self.floor = self.floor.max(floor);
        for election in self.elections.values_mut() {
            election.promised = election.promised.max(floor);
        }
    }

    /// Whether a newer configuration is being saved.
    fn installs(&self) -> bool {
        let newest = self.newest();
        (newest.configuration.version(), newest.certain)
            != (self.saved.configuration.version(), self.saved.certain)
    }

    /// Takes part in the choice of the next configuration. The caller has checked that this node may vote, and that the
    /// message is of the installed configuration. Without a reply, the reply waits for the disk.
    pub fn on_change(
        &mut self,
        fx: &mut impl Effects,
        now: Time,
        from: NodeId,
        message: &MembershipMessage,
    ) -> Option<MembershipMessage> {
        let ballot = match message {
            MembershipMessage::Prepare(ballot) | MembershipMessage::Accept(ballot, _) => *ballot,
            _ => return None,
        };
        // The choice is over.
        if self.installs() {
            return None;
        }
        if now < self.drained_at {
            let refusal = ChangeRefusal::NotDrained(self.drained_at.since(now));
            return Some(MembershipMessage::Refused(ballot, refusal));
        }
        let mut state = self.newest().clone();
        match choose(&mut state, message) {
            Ok(reply) => {
                let durable = self.begin_save(fx, |saved| *saved = state);
                if !durable && self.deferred_replies.len() < MAX_DEFERRED {
                    self.deferred_replies.push((from, reply.clone()));
                }
                durable.then_some(reply)
            }
            Err(promised) => Some(MembershipMessage::Refused(ballot, ChangeRefusal::Outbid(promised))),
        }
    }
}

/// Takes part in the choice of the next configuration. An error is a greater ballot that was promised.
fn choose(state: &mut Saved, message: &MembershipMessage) -> Result<MembershipMessage, Ballot> {
    let Saved { acceptor, configuration, ceiling, .. } = state;
    match message {
        MembershipMessage::Prepare(ballot) => {
            acceptor.promise(*ballot)?;
            let accepted = acceptor.accepted().cloned();
            Ok(MembershipMessage::Promised { ballot: *ballot, accepted, ceiling: *ceiling })
        }
        MembershipMessage::Accept(ballot, next) if next.can_follow(configuration) => {
            acceptor.accept(*ballot, Arc::clone(next))?;
            Ok(MembershipMessage::Accepted(*ballot))
        }
        MembershipMessage::Accept(ballot, _) => {
            Ok(MembershipMessage::Refused(*ballot, ChangeRefusal::NotSuccessor))
        }
        _ => unreachable!("only questions of a coordinator reach the acceptor"),
    }
}

#[cfg(test)]
mod tests;
