//! The process of a member.

mod leader;
mod probe;
mod sync;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use suffrage_core::{Attribute, Command, Context, NodeId, Process, Span, Start, Term, Time};

use self::leader::Election;
use self::probe::{Prober, Suspicion};
use self::sync::Sync;
use self::watch::Watch;
use crate::message::{Digest, MAX_MESSAGE, Message};
use crate::record::{Address, Record, Rumour};
use crate::rumours::Rumours;
use crate::settings::{Bug, Settings};
use crate::table::Table;

/// The age up to which a death is news.
const FRESH: Span = Span::from_millis(10_000);
/// The bytes of a message without its rumours, at most.
const HEADER: usize = 40;
/// The members to which urgent news is sent at once.
const FLOOD: usize = 4;
/// The most messages of one period of gossip.
const MAX_GOSSIP: usize = 8;
/// The bytes of an average rumour, for the number of messages of one period.
const RUMOURS_PER_MESSAGE: usize = 40;

/// A member of a large group. See the head of this crate for what a group promises, and for what it does not.
///
/// Inputs are the methods of [`Process`]. [`leader`](Group::leader), [`members`](Group::members) and
/// [`counters`](Group::counters) read the state. The process sends to the ids of members, to ids in
/// [`Settings::seeds`], and to the sender of the message that it handles, which it may not know: a driver finds
/// addresses with [`address`](Group::address).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    settings: Settings,
    me: NodeId,
    table: Table,
    rumours: Rumours,
    /// True while the timer of gossip is set.
    gossips: bool,
    suspicions: BTreeMap<NodeId, Suspicion>,
    prober: Prober,
    sync: Sync,
    election: Election,
    watch: Watch,
    /// True if this member left the group.
    left: bool,
    counters: Counters,
}

/// Events of a member since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Counters {
    /// Members that this member suspected, by itself or by a rumour.
    pub suspicions: u64,
    /// Members that this member declared dead by itself.
    pub deaths_declared: u64,
    /// Members that came back from the dead.
    pub revivals: u64,
    /// Refutations of suspicions and deaths of this member.
    pub refutations: u64,
    /// Records of this member's id with another address and no smaller incarnation: another member has the same id.
    pub conflicts: u64,
    /// Comparisons of lists that this member began.
    pub compares: u64,
    /// Changes of the list.
    pub changes: u64,
    /// Changes of the leader.
    pub leader_changes: u64,
    /// Times at which this member found that it had been suspended.
    pub stalls: u64,
}

/// A timer of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The next probe.
    Probe,
    /// The target of the probe has not answered directly.
    Answer,
    /// The next gossip.
    Gossip,
    /// The next suspicion ends.
    Suspicion,
    /// The next question to a seed or a dead member.
    Ask,
    /// The next probe of the leader by its watchers.
    Watch,
    /// The group has no leader.
    Election,
}

suffrage_core::timer_indices!(Timer { Probe, Answer, Gossip, Suspicion, Ask, Watch, Election });

/// A command of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupCommand {
    /// A command that every algorithm has.
    Common(Command),
    /// Changes the rank of this member.
    Rank(Attribute),
    /// Leaves the group.
    Leave,
}

impl From<Command> for GroupCommand {
    fn from(command: Command) -> GroupCommand {
        GroupCommand::Common(command)
    }
}

impl fmt::Display for GroupCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupCommand::Common(command) => command.fmt(f),
            GroupCommand::Rank(rank) => write!(f, "rank {rank}"),
            GroupCommand::Leave => f.write_str("leave"),
        }
    }
}

impl FromStr for GroupCommand {
    type Err = String;

    fn from_str(text: &str) -> Result<GroupCommand, String> {
        if let Some(rank) = text.strip_prefix("rank ") {
            return rank
                .parse()
                .map(GroupCommand::Rank)
                .map_err(|_| format!("`{rank}` is not a whole number"));
        }
        if text == "leave" { Ok(GroupCommand::Leave) } else { text.parse().map(GroupCommand::Common) }
    }
}

impl Group {
    /// A member with this id.
    pub fn new(me: NodeId, settings: Settings) -> Group {
        Group {
            me,
            table: Table::default(),
            rumours: Rumours::default(),
            gossips: false,
            suspicions: BTreeMap::new(),
            prober: Prober::default(),
            sync: Sync::new(settings.seeds.len()),
            election: Election::default(),
            watch: Watch::default(),
            left: false,
            counters: Counters::default(),
            settings,
        }
    }

    /// The leader and its term, as this member believes.
    pub fn leader(&self) -> Option<(NodeId, Term)> {
        self.election.leader.map(|(_, term, _, id)| (id, Term(term.into())))
    }

    /// The members that this member believes alive, itself included, in order of id.
    pub fn members(&self) -> &[Record] {
        self.table.live()
    }

    /// The digest of [`members`](Group::members).
    pub fn digest(&self) -> Digest {
        self.table.digest()
    }

    /// True if this member suspects the member.
    pub fn suspects(&self, id: NodeId) -> bool {
        self.suspicions.contains_key(&id)
    }

    /// The number of members that are suspected.
    pub fn suspected(&self) -> usize {
        self.suspicions.len()
    }

    /// The incarnation of a member that this member knows, dead or alive.
    pub fn incarnation(&self, id: NodeId) -> Option<u32> {
        let dead = || self.table.dead().get(&id).map(|tombstone| tombstone.record.incarnation);
        self.table.get(id).map(|record| record.incarnation).or_else(dead)
    }

    /// The address of a member, dead or alive.
    pub fn address(&self, id: NodeId) -> Option<Address> {
        let dead = || self.table.dead().get(&id).map(|tombstone| tombstone.record.address);
        self.table.get(id).map(|record| record.address).or_else(dead)
    }

    /// The members that are remembered as dead, and those that are remembered as left.
    pub fn remembered(&self) -> (usize, usize) {
        let left = self.table.dead().values().filter(|tombstone| tombstone.left).count();
        (self.table.dead().len() - left, left)
    }

    /// The members about whom there is still news to pass on.
    pub fn pending_news(&self) -> usize {
        self.rumours.len()
    }

    /// True if this member left the group.
    pub fn has_left(&self) -> bool {
        self.left
    }

    /// The events since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn has_bug(&self, bug: Bug) -> bool {
        self.settings.bug == Some(bug)
    }

    /// The record of this member, which must have started.
    pub fn record(&self) -> Record {
        *self.table.get(self.me).expect("a member is in its own list")
    }

    /// Changes this member's record, and spreads the change.
    fn update_record(&mut self, cx: &mut Context<'_, Self>, change: impl FnOnce(&mut Record)) {
        let mut record = self.record();
        record.incarnation = record.incarnation.saturating_add(1);
        change(&mut record);
        self.table.insert(record);
        self.spread(cx, self.me);
    }

    /// Notes a change of the list that others should hear of.
    fn spread(&mut self, cx: &mut Context<'_, Self>, id: NodeId) {
        self.note_change(cx.now());
        self.rumours.push(id, self.settings.transmissions);
        self.start_gossip(cx);
    }

    fn start_gossip(&mut self, cx: &mut Context<'_, Self>) {
        if !self.gossips && self.rumours.len() > 0 {
            self.gossips = true;
            cx.set_timer(Timer::Gossip, self.settings.gossip);
        }
    }

    fn note_change(&mut self, now: Time) {
        self.counters.changes += 1;
        self.sync.changed = now;
    }

    /// The news for one message to this member. What this member says about the addressee comes first, so that the
    /// addressee can refute it.
    fn news(&mut self, now: Time, to: NodeId) -> Vec<Rumour> {
        let Group { rumours, table, suspicions, me, .. } = self;
        let mut news = Vec::new();
        let mut room = MAX_MESSAGE - HEADER;
        if !table.dead().is_empty() || !suspicions.is_empty() {
            news.extend(about(table, suspicions, now, to).filter(|said| !matches!(said, Rumour::Alive(_))));
        }
        room -= news.iter().map(Rumour::size).sum::<usize>();
        rumours.take(|id| {
            let Some(rumour) = about(table, suspicions, now, id) else { return true };
            let size = rumour.size();
            let fits = size <= room;
            if fits && (id != to || to == *me) {
                room -= size;
                news.push(rumour);
            }
            fits
        });
        news
    }

    /// A live member other than this one and `except`.
    fn random_member(&self, cx: &mut Context<'_, Self>, except: NodeId) -> Option<NodeId> {
        let live = self.table.live();
        (0..8).find_map(|_| {
            let id = live[cx.rng().below(live.len() as u64) as usize].id;
            (id != self.me && id != except).then_some(id)
        })
    }

    /// Sends one piece of news to several members at once.
    fn flood(&mut self, cx: &mut Context<'_, Self>, id: NodeId) {
        let Some(rumour) = about(&self.table, &self.suspicions, cx.now(), id) else { return };
        for _ in 0..FLOOD {
            let Some(to) = self.random_member(cx, id) else { return };
            cx.send(to, Message::Gossip { rumours: vec![rumour] });
        }
    }

    fn gossip(&mut self, cx: &mut Context<'_, Self>) {
        let messages = (2 + self.rumours.len() / RUMOURS_PER_MESSAGE).min(MAX_GOSSIP);
        for _ in 0..messages {
            let Some(to) = self.random_member(cx, self.me) else { break };
            let rumours = self.news(cx.now(), to);
            if rumours.is_empty() {
                break;
            }
            cx.send(to, Message::Gossip { rumours });
        }
        // Without other members the news waits for the first one.
        self.gossips = self.rumours.len() > 0 && self.table.live().len() > 1;
        if self.gossips {
            cx.set_timer(Timer::Gossip, self.settings.gossip);
        }
    }

    /// Applies what a member says. News in bulk is not passed on: lists are compared until all have it.
    fn hear(&mut self, cx: &mut Context<'_, Self>, from: NodeId, rumours: Vec<Rumour>, bulk: bool) {
        for rumour in rumours {
            match rumour {
                Rumour::Alive(record) => self.hear_alive(cx, record, bulk),
                Rumour::Suspect { id, incarnation, by } => self.hear_suspect(cx, id, incarnation, by),
                Rumour::Dead { id, incarnation, fresh: true } => {
                    self.hear_end(cx, id, incarnation, false);
                }
                Rumour::Dead { id, incarnation, fresh: false } => {
                    self.hear_suspect(cx, id, incarnation, from);
                }
                Rumour::Left { id, incarnation } => self.hear_end(cx, id, incarnation, true),
            }
        }
    }

    fn hear_alive(&mut self, cx: &mut Context<'_, Self>, record: Record, bulk: bool) {
        if record.id == self.me {
            let mine = self.record();
            if record.incarnation >= mine.incarnation && record != mine {
                self.counters.conflicts += u64::from(record.address != mine.address);
                self.refute(cx, record.incarnation);
            }
            return;
        }
        let accepts_older = self.has_bug(Bug::AcceptOlderRecords) && self.table.get(record.id).is_some();
        if self.incarnation(record.id).is_some_and(|known| record.incarnation <= known) && !accepts_older {
            return;
        }
        let was_dead = self.table.dead().get(&record.id).is_some_and(|tombstone| !tombstone.left);
        let replaced = self.table.get(record.id).copied();
        self.table.insert(record);
        self.suspicions.remove(&record.id);
        if was_dead {
            self.counters.revivals += 1;
            cx.restore(record.id);
            self.begin_rejoin(cx);
        }
        if bulk {
            self.note_change(cx.now());
            self.start_gossip(cx);
        } else {
            self.spread(cx, record.id);
        }
        self.on_record(cx, replaced, record);
    }

    /// A member died or left.
    fn hear_end(&mut self, cx: &mut Context<'_, Self>, id: NodeId, incarnation: u32, left: bool) {
        if id == self.me {
            return self.refute(cx, incarnation);
        }
        if self.table.get(id).is_some_and(|record| incarnation >= record.incarnation) {
            self.bury(cx, id, incarnation, left);
        }
    }

    fn bury(&mut self, cx: &mut Context<'_, Self>, id: NodeId, incarnation: u32, left: bool) {
        self.suspicions.remove(&id);
        if self.has_bug(Bug::KeepDead) {
            return;
        }
        self.table.bury(id, incarnation, cx.now(), left);
        cx.suspect(id);
        self.spread(cx, id);
        self.on_burial(cx, id);
    }

    /// Contradicts a statement about this member.
    fn refute(&mut self, cx: &mut Context<'_, Self>, incarnation: u32) {
        let mine = self.record().incarnation;
        if incarnation < mine || self.left || self.has_bug(Bug::NeverRefute) {
            return;
        }
        self.counters.refutations += 1;
        self.update_record(cx, |record| record.incarnation = incarnation.max(mine).saturating_add(1));
        if self.election.leader.is_some_and(|(.., id)| id == self.me) {
            self.flood(cx, self.me);
        }
    }

    /// If a timer expires late, this process was suspended: silence in that time says nothing about others.
    fn check_stall(&mut self, now: Time, due: Time) -> bool {
        if now.since(due) <= self.settings.answer {
            return false;
        }
        self.counters.stalls += 1;
        for suspicion in self.suspicions.values_mut() {
            suspicion.began = now;
        }
        self.prober.forget_target();
        self.watch.forget_misses();
        true
    }

    fn leave(&mut self, cx: &mut Context<'_, Self>) {
        let incarnation = self.record().incarnation;
        for _ in 0..2 * FLOOD {
            let Some(to) = self.random_member(cx, self.me) else { break };
            cx.send(to, Message::Gossip { rumours: vec![Rumour::Left { id: self.me, incarnation }] });
        }
        for timer in [
            Timer::Probe,
            Timer::Answer,
            Timer::Gossip,
            Timer::Suspicion,
            Timer::Ask,
            Timer::Watch,
            Timer::Election,
        ] {
            cx.cancel_timer(timer);
        }
        self.left = true;
        self.on_leave(cx);
    }
}

/// What this member says about a member.
fn about(table: &Table, suspicions: &BTreeMap<NodeId, Suspicion>, now: Time, id: NodeId) -> Option<Rumour> {
    if let Some(record) = table.get(id) {
        return Some(match suspicions.get(&id) {
            Some(suspicion) => {
                Rumour::Suspect { id, incarnation: record.incarnation, by: suspicion.last_accuser() }
            }
            None => Rumour::Alive(*record),
        });
    }
    let tombstone = table.dead().get(&id)?;
    let incarnation = tombstone.record.incarnation;
    Some(match tombstone.left {
        true => Rumour::Left { id, incarnation },
        false => Rumour::Dead { id, incarnation, fresh: now.since(tombstone.since) < FRESH },
    })
}

impl Process for Group {
    type Message = Message;
    type Timer = Timer;
    type Saved = ();
    type Command = GroupCommand;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, _: Start<()>) {
        let seconds = cx.now().as_nanos() / 1_000_000_000;
        let Settings { address, rank, stands, first_incarnation, .. } = self.settings;
        let incarnation = first_incarnation.saturating_add(seconds as u32).max(1);
        self.table.insert(Record { id: self.me, incarnation, address, rank, stands, term: 0, size: 0 });
        self.rumours.push(self.me, self.settings.transmissions);
        self.start_probes(cx);
        self.start_asking(cx);
        self.start_election(cx);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        if self.left {
            return;
        }
        self.heard_from_leader(from);
        match message {
            Message::Ping { probe, origin, digest, rumours } => {
                self.hear(cx, from, rumours, false);
                let digest_now = self.table.digest();
                let rumours = self.news(cx.now(), from);
                cx.send(from, Message::Ack { probe, origin, digest: digest_now, rumours });
                self.compare_digest(cx, from, digest);
            }
            Message::Ack { probe, origin, digest, rumours } => {
                self.hear(cx, from, rumours, false);
                match origin {
                    Some(origin) if origin != self.me => cx.send(origin, Message::Relayed { probe }),
                    _ => self.on_answer(from, probe),
                }
                self.compare_digest(cx, from, digest);
            }
            Message::PingRequest { probe, target } => {
                cx.send(from, Message::Requested { probe });
                if self.table.get(target).is_some() {
                    let digest = self.table.digest();
                    let rumours = self.news(cx.now(), target);
                    cx.send(target, Message::Ping { probe, origin: Some(from), digest, rumours });
                }
            }
            Message::Requested { probe } => self.on_requested(probe),
            Message::Relayed { probe } => self.on_relayed(probe),
            Message::Gossip { rumours } => self.hear(cx, from, rumours, false),
            Message::Compare { parts, salt, answer } => self.on_compare(cx, from, &parts, salt, answer),
            Message::Records { rumours } => self.hear(cx, from, rumours, true),
            Message::Missing { leader, incarnation } => self.on_missing(cx, from, leader, incarnation),
            Message::TakeOver { term } => self.on_take_over(cx, from, term),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Probe => self.on_probe_timer(cx),
            Timer::Answer => self.ask_relays(cx),
            Timer::Gossip => self.gossip(cx),
            Timer::Suspicion => self.on_suspicion_timer(cx),
            Timer::Ask => self.ask(cx),
            Timer::Watch => self.on_watch_timer(cx),
            Timer::Election => self.on_election_timer(cx),
        }
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: GroupCommand) {
        if self.left {
            return;
        }
        match command {
            GroupCommand::Common(command) => self.on_common_command(cx, command),
            GroupCommand::Rank(rank) => {
                self.settings.rank = rank;
                if self.record().rank != rank {
                    let before = self.record();
                    self.update_record(cx, |record| record.rank = rank);
                    self.on_record(cx, Some(before), self.record());
                }
            }
            GroupCommand::Leave => self.leave(cx),
        }
    }
}
