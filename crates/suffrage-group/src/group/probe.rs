//! Probes and suspicions: SWIM's failure detector with Lifeguard's local health and confirmations.

use suffrage_core::{Context, Hash, NodeId, Span, Time};

use super::{Group, Timer};
use crate::message::Message;
use crate::record::Rumour;

/// The greatest local health score. A member that gets no answers probes more slowly by this factor, at most.
const MAX_HEALTH: u8 = 4;
/// The confirmations that shorten a suspicion to its minimum.
const CONFIRMATIONS: usize = 3;
/// The share of the longest suspicion beyond the minimum that is left after 0, 1, 2 and 3 confirmations, in percent:
/// `1 - ln(c + 1) / ln(4)`, as in Lifeguard.
const SHARES: [u64; CONFIRMATIONS + 1] = [100, 50, 21, 0];
/// The hash that chooses members to confirm a suspicion by probes of their own, and their expected number. Without them, a
/// death that nobody else happens to probe takes twice as long.
const CONFIRMERS: Hash = Hash::new(0x636f_6e66_6972_6d73);
const EXPECTED_CONFIRMERS: u64 = 8;
/// The suspects that an accuser probes again in each period.
const MAX_REPEATS: usize = 3;
/// How long a member that left is remembered, so that old news does not bring it back.
const REMEMBER_LEFT: Span = Span::from_millis(60_000);
/// The least number of dead members that are remembered, to ask them. In a larger group, as many as it has members.
const MIN_DEAD: usize = 64;

/// The probes of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Prober {
    /// The number of the last probe.
    number: u32,
    target: Option<Target>,
    /// True if the last target was the next member in order of id. Every second probe goes there: so every member is probed
    /// at least every two periods, and not only by chance.
    probes_next: bool,
    /// The position of the last target in the list, and the step to the next. The step changes with every pass, and has
    /// no common divisor with the length: each pass probes each member once.
    position: usize,
    step: usize,
    /// The member to probe next: a suspect, to confirm the suspicion, or a member that others may not know.
    next: Option<NodeId>,
    /// The targets that are left in this pass.
    left: usize,
    /// Lifeguard's local health: 0 is healthy.
    health: u8,
    /// The time at which the timer of the next probe expires.
    due: Time,
    /// The time at which the timer of suspicions expires.
    suspicion_due: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Target {
    id: NodeId,
    probe: u32,
    answered: bool,
    /// True if others were asked to probe, and true if one of them said so.
    asked: bool,
    requested: bool,
}

/// A suspicion of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Suspicion {
    pub(super) began: Time,
    /// The first member that accused, and those that confirmed.
    accusers: Vec<NodeId>,
}

impl Suspicion {
    pub(super) fn last_accuser(&self) -> NodeId {
        *self.accusers.last().expect("a suspicion has an accuser")
    }

    /// The time from the beginning to the death.
    fn length(&self, shortest: Span, members: usize) -> Span {
        // In a small group fewer members can confirm.
        let possible = members.saturating_sub(3).min(CONFIRMATIONS);
        let missing = possible.saturating_sub(self.accusers.len() - 1);
        let share = SHARES[CONFIRMATIONS - missing];
        shortest + Span::from_nanos(shortest.as_nanos() / 100 * share)
    }
}

impl Prober {
    pub(super) fn forget_target(&mut self) {
        self.target = None;
    }

    fn next_number(&mut self) -> u32 {
        self.number = self.number.wrapping_add(1);
        self.number
    }

    fn worsen(&mut self) {
        self.health = (self.health + 1).min(MAX_HEALTH);
    }
}

impl Group {
    pub(super) fn start_probes(&mut self, cx: &mut Context<'_, Self>) {
        let first = Span::from_nanos(cx.rng().below(self.settings.probe.as_nanos().max(1)));
        self.prober.number = cx.rng().bits() as u32 & 0xff_ffff;
        self.set_probe_timer(cx, first);
    }

    fn set_probe_timer(&mut self, cx: &mut Context<'_, Self>, after: Span) {
        self.prober.due = cx.now() + after;
        cx.set_timer(Timer::Probe, after);
    }

    pub(super) fn on_probe_timer(&mut self, cx: &mut Context<'_, Self>) {
        if self.check_stall(cx.now(), self.prober.due) {
            self.prober.worsen();
        }
        self.conclude_probe(cx);
        self.forget_old(cx.now());
        self.review_claim(cx);
        self.review_watch(cx);
        self.probe_suspects(cx);
        if let Some(id) = self.next_target(cx) {
            let probe = self.ping(cx, id, false);
            self.prober.target = Some(Target { id, probe, answered: false, asked: false, requested: false });
            cx.set_timer(Timer::Answer, self.settings.answer * (1 + u64::from(self.prober.health)));
        }
        self.set_probe_timer(cx, self.settings.probe * (1 + u64::from(self.prober.health)));
    }

    /// Sends a ping, with this member's record if the addressee may not know it, and returns its number.
    pub(super) fn ping(&mut self, cx: &mut Context<'_, Self>, to: NodeId, introduce: bool) -> u32 {
        let probe = self.prober.next_number();
        let mut rumours = self.news(cx.now(), to);
        if introduce {
            rumours.retain(|rumour| !matches!(rumour, Rumour::Alive(_)));
            rumours.push(Rumour::Alive(self.record()));
        }
        cx.send(to, Message::Ping { probe, origin: None, digest: self.table.digest(), rumours });
        probe
    }

    fn conclude_probe(&mut self, cx: &mut Context<'_, Self>) {
        let Some(target) = self.prober.target.take() else { return };
        if target.answered {
            self.prober.health = self.prober.health.saturating_sub(1);
            return;
        }
        if target.asked && !target.requested && self.table.live().len() > 3 {
            self.prober.worsen();
        }
        if let Some(record) = self.table.get(target.id).copied() {
            self.hear_suspect(cx, record.id, record.incarnation, self.me);
        }
    }

    /// The accuser probes a suspect again and again: the ping tells the suspect what it must refute.
    fn probe_suspects(&mut self, cx: &mut Context<'_, Self>) {
        let mine =
            |(&id, suspicion): (&NodeId, &Suspicion)| suspicion.accusers.contains(&self.me).then_some(id);
        let suspects: Vec<NodeId> = self.suspicions.iter().filter_map(mine).take(MAX_REPEATS).collect();
        for id in suspects {
            self.ping(cx, id, false);
        }
    }

    fn next_target(&mut self, cx: &mut Context<'_, Self>) -> Option<NodeId> {
        let suspect = self.prober.next.take().filter(|&id| self.table.get(id).is_some());
        let live = self.table.live();
        let count = live.len();
        if suspect.is_some() {
            return suspect;
        }
        if count < 2 {
            return None;
        }
        self.prober.probes_next = !self.prober.probes_next;
        if self.prober.probes_next {
            let mine = live.partition_point(|record| record.id <= self.me);
            return Some(live[mine % count].id);
        }
        for _ in 0..2 {
            if self.prober.left == 0 {
                self.prober.left = count;
                self.prober.position = cx.rng().below(count as u64) as usize;
                let mut step = 1 + cx.rng().below(count as u64 - 1) as usize;
                while gcd(step, count) > 1 {
                    step = step % (count - 1) + 1;
                }
                self.prober.step = step;
            }
            self.prober.left -= 1;
            self.prober.position = (self.prober.position + self.prober.step) % count;
            let id = live[self.prober.position].id;
            if id != self.me {
                return Some(id);
            }
        }
        None
    }

    /// Probes this member next, unless another is waiting.
    pub(super) fn probe_next(&mut self, id: Option<NodeId>) {
        self.prober.next = self.prober.next.or(id);
    }

    pub(super) fn ask_relays(&mut self, cx: &mut Context<'_, Self>) {
        let Some(Target { id, probe, answered: false, .. }) = self.prober.target else { return };
        let mut relays: Vec<NodeId> = Vec::new();
        for _ in 0..self.settings.relays {
            relays.extend(self.random_member(cx, id).filter(|relay| !relays.contains(relay)));
        }
        if let Some(target) = &mut self.prober.target {
            target.asked = !relays.is_empty();
        }
        for relay in relays {
            cx.send(relay, Message::PingRequest { probe, target: id });
        }
    }

    pub(super) fn on_answer(&mut self, from: NodeId, probe: u32) {
        if let Some(target) = &mut self.prober.target
            && target.probe == probe
            && target.id == from
        {
            target.answered = true;
        }
        self.on_seed_answer(from, probe);
    }

    pub(super) fn on_relayed(&mut self, probe: u32) {
        if let Some(target) = &mut self.prober.target
            && target.probe == probe
        {
            target.answered = true;
        }
    }

    pub(super) fn on_requested(&mut self, probe: u32) {
        if let Some(target) = &mut self.prober.target
            && target.probe == probe
        {
            target.requested = true;
        }
    }

    pub(super) fn hear_suspect(
        &mut self,
        cx: &mut Context<'_, Self>,
        id: NodeId,
        incarnation: u32,
        by: NodeId,
    ) {
        if id == self.me {
            if incarnation >= self.record().incarnation {
                self.prober.worsen();
            }
            return self.refute(cx, incarnation);
        }
        if self.table.get(id).is_none_or(|record| record.incarnation != incarnation) {
            return;
        }
        match self.suspicions.get_mut(&id) {
            None => {
                self.counters.suspicions += 1;
                self.suspicions.insert(id, Suspicion { began: cx.now(), accusers: vec![by] });
                let members = self.table.live().len() as u64;
                if by != self.me
                    && CONFIRMERS.pair(id.0, self.me.0) / EXPECTED_CONFIRMERS < u64::MAX / members
                {
                    self.prober.next = Some(id);
                }
            }
            Some(suspicion)
                if suspicion.accusers.len() <= CONFIRMATIONS && !suspicion.accusers.contains(&by) =>
            {
                suspicion.accusers.push(by);
            }
            Some(_) => return,
        }
        self.spread(cx, id);
        self.set_suspicion_timer(cx);
    }

    fn suspicion_end(&self, suspicion: &Suspicion) -> Time {
        suspicion.began + suspicion.length(self.settings.suspicion, self.table.live().len())
    }

    fn set_suspicion_timer(&mut self, cx: &mut Context<'_, Self>) {
        let Some(end) = self.suspicions.values().map(|suspicion| self.suspicion_end(suspicion)).min() else {
            return cx.cancel_timer(Timer::Suspicion);
        };
        self.prober.suspicion_due = end.max(cx.now());
        cx.set_timer(Timer::Suspicion, end.since(cx.now()));
    }

    pub(super) fn on_suspicion_timer(&mut self, cx: &mut Context<'_, Self>) {
        let now = cx.now();
        if !self.check_stall(now, self.prober.suspicion_due) {
            let ended = |suspicion: &Suspicion| self.suspicion_end(suspicion) <= now;
            let dead = self.suspicions.iter().filter(|(_, suspicion)| ended(suspicion)).map(|(&id, _)| id);
            for id in dead.collect::<Vec<_>>() {
                self.declare_dead(cx, id);
            }
        }
        self.set_suspicion_timer(cx);
    }

    pub(super) fn declare_dead(&mut self, cx: &mut Context<'_, Self>, id: NodeId) {
        let Some(incarnation) = self.table.get(id).map(|record| record.incarnation) else { return };
        self.counters.deaths_declared += 1;
        self.bury(cx, id, incarnation, false);
    }

    /// Bounds the memory for the dead.
    fn forget_old(&mut self, now: Time) {
        let dead = self.table.dead();
        if dead.is_empty() || self.has_bug(crate::Bug::KeepTombstones) {
            return;
        }
        let most = self.table.live().len().max(MIN_DEAD);
        let old =
            dead.iter().filter(|(_, tombstone)| tombstone.left && now.since(tombstone.since) > REMEMBER_LEFT);
        let mut forgotten: Vec<NodeId> = old.map(|(&id, _)| id).collect();
        if dead.len() - forgotten.len() > most {
            let mut by_age: Vec<_> = dead.iter().map(|(&id, tombstone)| (tombstone.since, id)).collect();
            by_age.sort_unstable();
            forgotten.extend(by_age[..dead.len() - most].iter().map(|&(_, id)| id));
        }
        for id in forgotten {
            self.table.forget(id);
        }
    }
}

fn gcd(mut one: usize, mut other: usize) -> usize {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}
