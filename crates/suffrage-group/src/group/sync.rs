//! Comparison of lists, and questions to seeds and dead members.

use suffrage_core::{Context, NodeId, Span, Time};

use super::{FRESH, Group, HEADER, Timer, about};
use crate::message::{Digest, MAX_MESSAGE, Message};
use crate::record::Rumour;
use crate::settings::Bug;
use crate::table::{MAX_PARTS, Table};

/// The least time between two comparisons, and between comparisons with a list that differs much.
const GAP: Span = Span::from_millis(1_000);
const SHORT_GAP: Span = Span::from_millis(250);
/// The time without changes after which a difference is no longer news that is under way.
const QUIET: Span = Span::from_millis(600);
/// The time after which lists are compared although they still change.
const PATIENCE: Span = Span::from_millis(2_500);
/// The most datagrams with which a comparison is answered.
const MAX_RECORDS: usize = 12;
/// The period of questions while this member knows nobody.
const ASK_ALONE: Span = Span::from_millis(500);
/// The period of questions to dead members after one of them came back, and how long it holds: most likely a partition
/// has healed.
const ASK_REJOIN: Span = Span::from_millis(250);
const REJOIN: Span = Span::from_millis(10_000);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sync {
    /// The time of the last change of the list.
    pub(super) changed: Time,
    compared: Option<Time>,
    /// The time since which digests have differed.
    differs_since: Option<Time>,
    /// The member behind each seed, once known.
    seeds: Vec<Option<NodeId>>,
    /// The probe of the last question to a seed, and the seed.
    asked: Option<(u32, usize)>,
    rejoins_until: Time,
}

impl Sync {
    pub(super) fn new(seeds: usize) -> Sync {
        Sync {
            changed: Time::ZERO,
            compared: None,
            differs_since: None,
            seeds: vec![None; seeds],
            asked: None,
            rejoins_until: Time::ZERO,
        }
    }
}

impl Group {
    /// Compares lists with this member if the digests have differed for long enough, or differ much.
    pub(super) fn compare_digest(&mut self, cx: &mut Context<'_, Self>, with: NodeId, theirs: Digest) {
        let (mine, now) = (self.table.digest(), cx.now());
        if mine == theirs {
            self.sync.differs_since = None;
            return;
        }
        let since = *self.sync.differs_since.get_or_insert(now);
        let is_known = self.table.get(with).is_some();
        // The member with the shorter list asks. If it does not, the other does.
        let patient = now.since(since) > PATIENCE;
        if self.has_bug(Bug::NeverCompare) || (mine.count > theirs.count && is_known && !patient) {
            return;
        }
        let differs_much = mine.count.abs_diff(theirs.count) > mine.count.min(theirs.count) / 10;
        let gap = if differs_much { SHORT_GAP } else { GAP };
        let waits = self.sync.compared.is_some_and(|compared| now.since(compared) < gap);
        let is_due = differs_much || !is_known || patient || now.since(self.sync.changed) > QUIET;
        if is_due && !waits {
            self.sync.compared = Some(now);
            self.counters.compares += 1;
            let salt = cx.rng().bits() as u16;
            let parts = self.table.parts(self.table.part_count(), salt);
            cx.send(with, Message::Compare { parts, salt, answer: true });
        }
    }

    pub(super) fn on_compare(
        &mut self,
        cx: &mut Context<'_, Self>,
        from: NodeId,
        theirs: &[[u8; 2]],
        salt: u16,
        answer: bool,
    ) {
        let count = theirs.len();
        if count == 0 || count > MAX_PARTS {
            return;
        }
        let mine = self.table.parts(count, salt);
        let differs: Vec<bool> = mine.iter().zip(theirs).map(|(mine, theirs)| mine != theirs).collect();
        self.send_records(cx, from, |id| differs[Table::part(id, count)]);
        // A member in a part that differs may be a ghost, which others have forgotten.
        let in_question = |id: &NodeId| *id != self.me && differs[Table::part(*id, count)];
        let in_question: Vec<NodeId> =
            self.table.live().iter().map(|record| record.id).filter(in_question).collect();
        self.probe_next(cx.rng().pick(&in_question).copied());
        if answer && mine != theirs {
            cx.send(from, Message::Compare { parts: mine, salt, answer: false });
        }
    }

    /// Sends what this member knows about the members in some parts: recent deaths, the living, and old deaths.
    fn send_records(&mut self, cx: &mut Context<'_, Self>, to: NodeId, includes: impl Fn(NodeId) -> bool) {
        let now = cx.now();
        let (live, dead) = (self.table.live(), self.table.dead());
        let is_fresh = |since: Time| now.since(since) < FRESH;
        let fresh = dead.iter().filter(|(_, tombstone)| is_fresh(tombstone.since)).map(|(&id, _)| id);
        let old = dead.iter().filter(|(_, tombstone)| !is_fresh(tombstone.since)).map(|(&id, _)| id);
        // Not all may fit. From a random place on, several answers complete each other.
        let (before, after) = live.split_at(cx.rng().below(live.len() as u64) as usize);
        let living = after.iter().chain(before).map(|record| record.id);
        let mut messages: Vec<Vec<Rumour>> = vec![Vec::new()];
        let mut room = MAX_MESSAGE - HEADER;
        for id in fresh.chain(living).chain(old).filter(|&id| includes(id)) {
            let said = match self.table.get(id) {
                Some(record) => Some(Rumour::Alive(*record)),
                None => about(&self.table, &self.suspicions, now, id),
            };
            let Some(rumour) = said else { continue };
            if rumour.size() > room {
                if messages.len() == MAX_RECORDS {
                    break;
                }
                messages.push(Vec::new());
                room = MAX_MESSAGE - HEADER;
            }
            room -= rumour.size();
            messages.last_mut().expect("there is a message").push(rumour);
        }
        for rumours in messages.into_iter().filter(|rumours| !rumours.is_empty()) {
            cx.send(to, Message::Records { rumours });
        }
    }

    pub(super) fn start_asking(&mut self, cx: &mut Context<'_, Self>) {
        // Restarted members do not ask at the same moment.
        let first = Span::from_nanos(cx.rng().below(ASK_ALONE.as_nanos() / 5));
        cx.set_timer(Timer::Ask, first);
    }

    /// Asks a seed or a dead member, for ever: partitions heal, and machines come back.
    pub(super) fn ask(&mut self, cx: &mut Context<'_, Self>) {
        let alone = self.table.live().len() == 1;
        let period = if alone {
            ASK_ALONE
        } else if cx.now() < self.sync.rejoins_until {
            ASK_REJOIN
        } else {
            self.settings.ask
        };
        cx.set_timer(Timer::Ask, period);
        if self.has_bug(Bug::NeverAsk) && !alone {
            return;
        }
        let is_missing = |seed: &Option<NodeId>| seed.is_none_or(|id| self.table.get(id).is_none());
        let missing = self.sync.seeds.iter().enumerate().filter(|(_, seed)| is_missing(seed));
        let missing: Vec<usize> = missing.map(|(index, _)| index).collect();
        let dead = self.table.dead().values().filter(|tombstone| !tombstone.left).count();
        let seed = cx.rng().pick(&missing).copied().filter(|_| dead == 0 || cx.rng().chance(0.3));
        if let Some(index) = seed {
            let probe = self.ping(cx, self.settings.seeds[index], true);
            self.sync.asked = Some((probe, index));
        } else if dead > 0 {
            let chosen = cx.rng().below(dead as u64) as usize;
            let id = self.table.dead().iter().filter(|(_, tombstone)| !tombstone.left).nth(chosen);
            if let Some(id) = id.map(|(&id, _)| id) {
                self.ping(cx, id, true);
            }
        }
    }

    pub(super) fn on_seed_answer(&mut self, from: NodeId, probe: u32) {
        if let Some((asked, index)) = self.sync.asked
            && asked == probe
        {
            self.sync.seeds[index] = Some(from);
        }
    }

    /// A dead member came back, and perhaps others with it: asks them faster for a while.
    pub(super) fn begin_rejoin(&mut self, cx: &mut Context<'_, Self>) {
        if cx.now() >= self.sync.rejoins_until {
            cx.set_timer(Timer::Ask, ASK_REJOIN);
        }
        self.sync.rejoins_until = cx.now() + REJOIN;
    }
}
