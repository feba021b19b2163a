//! The model that stateright searches: initial states, steps and properties.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stateright::{Model, Property};
use suffrage_core::{
    Algorithm, Announcement, Command, Context, Effect, NodeId, Recorder, Roster, Safety, Span, Start, Time,
    Timer as _,
};

use crate::state::Budget;
use crate::{Bounds, Claim, Clocks, Envelope, ModelState, Node, NodeCommand, seeds};

/// The most messages that are delivered for one command before the search starts.
const MAX_DELIVERIES: usize = 10_000;

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The message at this index arrives.
    Deliver(usize),
    /// The message at this index arrives, and a copy stays in flight.
    Duplicate(usize),
    /// The message at this index is lost.
    Lose(usize),
    /// In this slot, the timer of this index fires.
    Timeout(usize, usize),
    /// The process in this slot calls an election.
    Campaign(usize),
    /// The process in this slot is told to resign.
    Resign(usize),
    /// The process in the first slot is told to hand over to the one in the second.
    Transfer(usize, usize),
    /// The command at this index of [`Bounds::commands`] is given.
    Command(usize),
    /// The process in this slot crashes and restarts with its disk.
    Restart(usize),
    /// The process in this slot crashes and restarts without its disk.
    Wipe(usize),
    /// Time advances by a tick.
    Tick,
}

/// All states that an algorithm can reach within bounds.
#[derive(Debug)]
pub struct ElectionModel<A: Algorithm> {
    options: A::Options,
    roster: Roster,
    bounds: Bounds,
    /// The seeds of the draws at a start, by slot and then by the number of restarts.
    seeds: Vec<u64>,
    /// The commands before the search and during it, each with the slot of its process.
    before: Vec<(usize, A::Command)>,
    commands: Vec<(usize, A::Command)>,
    claims: Vec<Claim>,
    /// The claims that a visited state has decided.
    decided: [AtomicBool; Claim::ALL.len()],
}

impl<A: Algorithm> ElectionModel<A> {
    /// The model of an algorithm within these bounds.
    ///
    /// # Panics
    /// If a command names no process of the model or is no command of the algorithm ([`NodeCommand::parse`]), or if there
    /// are more than [`Bounds::MAX_COMMANDS`].
    pub fn new(options: A::Options, bounds: Bounds) -> ElectionModel<A> {
        let roster = Roster::numbered(bounds.nodes);
        let parse = |command: &NodeCommand| {
            command.parse::<A>(&roster).unwrap_or_else(|reason| panic!("command {command}: {reason}"))
        };
        let (before, commands) =
            (bounds.before.iter().map(parse).collect(), bounds.commands.iter().map(parse).collect());
        assert!(bounds.commands.len() <= Bounds::MAX_COMMANDS, "there are too many commands");
        let starts = 1 + usize::from(bounds.restarts) + usize::from(bounds.wipes);
        ElectionModel {
            claims: Claim::of(&A::CONTRACT, A::electorate(&options), &bounds),
            roster,
            before,
            commands,
            seeds: seeds::short_draw_seeds(bounds.nodes * starts),
            decided: Default::default(),
            options,
            bounds,
        }
    }

    /// The bounds.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The claims that the search checks.
    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// The command at this index of [`Bounds::commands`], with the slot of its process.
    pub(crate) fn command_at(&self, index: usize) -> &(usize, A::Command) {
        &self.commands[index]
    }

    /// The processes.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The reading of the clock in this slot.
    pub fn clock(&self, state: &ModelState<A>, slot: usize) -> Time {
        let node = &state.nodes[slot];
        match self.bounds.clocks {
            Clocks::Still | Clocks::Own => node.clock,
            Clocks::True { tick, .. } => {
                let nanos = u64::from(state.tick) * tick.as_nanos() * u64::from(node.rate) / 1_000_000;
                Time::from_nanos(nanos)
            }
        }
    }

    /// True if the process in this slot may believe, at this true time, that it leads.
    pub fn leads(&self, state: &ModelState<A>, slot: usize) -> bool {
        let node = &state.nodes[slot];
        node.belief.leader() == Some(self.roster.id(slot))
            && node.lead_until.is_none_or(|end| self.clock(state, slot) < end)
    }

    /// The processes that may believe that they lead.
    pub fn leaders(&self, state: &ModelState<A>) -> impl Iterator<Item = NodeId> {
        (0..self.bounds.nodes).filter(|&slot| self.leads(state, slot)).map(|slot| self.roster.id(slot))
    }

    /// True the first time that a state decides this claim. Stateright keeps the last deciding state of a batch, but
    /// only the first one has the shortest schedule.
    fn decides_first(&self, claim: Claim, decided: bool) -> bool {
        decided && !self.decided[claim as usize].swap(true, Ordering::Relaxed)
    }

    /// The state after a step, and the effects of the process that took part in it. None if the step changes nothing.
    pub fn apply(&self, state: &ModelState<A>, step: Step) -> Option<(ModelState<A>, Vec<Effect<A>>)> {
        let mut next = state.clone();
        let effects = match step {
            Step::Deliver(index) => {
                next.remove_envelope(index);
                self.deliver(state, &mut next, index)?
            }
            Step::Duplicate(index) => {
                next.budget.duplicates -= 1;
                self.deliver(state, &mut next, index)?
            }
            Step::Lose(index) => {
                next.budget.losses -= 1;
                next.remove_envelope(index);
                Vec::new()
            }
            Step::Timeout(slot, index) => self.fire_timer(&mut next, slot, index),
            Step::Campaign(slot) => {
                Arc::make_mut(&mut next.nodes[slot]).campaigns -= 1;
                self.command(&mut next, slot, Command::Campaign.into())
            }
            Step::Resign(slot) => {
                next.budget.resigns -= 1;
                self.command(&mut next, slot, Command::Resign.into())
            }
            Step::Transfer(slot, to) => {
                next.budget.transfers -= 1;
                self.command(&mut next, slot, Command::Transfer(self.roster.id(to)).into())
            }
            Step::Command(index) => {
                next.budget.commands &= !(1 << index);
                let (slot, command) = self.commands[index].clone();
                self.command(&mut next, slot, command)
            }
            Step::Restart(slot) => {
                next.budget.restarts -= 1;
                self.restart(&mut next, slot, true)
            }
            Step::Wipe(slot) => {
                next.budget.wipes -= 1;
                self.restart(&mut next, slot, false)
            }
            Step::Tick => {
                next.tick += 1;
                Vec::new()
            }
        };
        Some((next, effects))
    }

    /// Delivers a message. None if the receiver neither changes nor has effects. A state in which such a message is
    /// still in flight has all steps of the state without it, so the search misses nothing. The exception are claims
    /// about quiet states.
    fn deliver(
        &self,
        before: &ModelState<A>,
        next: &mut ModelState<A>,
        index: usize,
    ) -> Option<Vec<Effect<A>>> {
        let envelope = before.envelope(index);
        let (from, message) = (self.roster.id(envelope.from), envelope.message.clone());
        let effects = self.input(next, envelope.to, |process, cx| process.on_message(cx, from, message));
        let idle = effects.is_empty() && next.nodes[envelope.to].process == before.nodes[envelope.to].process;
        (!idle || self.claims.contains(&Claim::QuietMeansAgreed)).then_some(effects)
    }

    /// Has the last process call an election, and delivers all messages.
    fn elect(&self, state: &mut ModelState<A>) {
        let last = self.bounds.nodes - 1;
        let node = Arc::make_mut(&mut state.nodes[last]);
        node.campaigns = node.campaigns.saturating_sub(1);
        self.command(state, last, Command::Campaign.into());
        self.deliver_all(state);
    }

    /// Delivers messages until none is in flight.
    fn deliver_all(&self, state: &mut ModelState<A>) {
        for delivered in 0.. {
            if state.envelopes().len() == 0 {
                return;
            }
            assert!(delivered < MAX_DELIVERIES, "the messages before the search do not end");
            let envelope = state.remove_envelope(0);
            let from = self.roster.id(envelope.from);
            self.input(state, envelope.to, |process, cx| {
                process.on_message(cx, from, envelope.message.clone())
            });
        }
    }

    fn command(&self, state: &mut ModelState<A>, slot: usize, command: A::Command) -> Vec<Effect<A>> {
        self.input(state, slot, |process, cx| process.on_command(cx, command))
    }

    fn fire_timer(&self, state: &mut ModelState<A>, slot: usize, index: usize) -> Vec<Effect<A>> {
        if !self.bounds.clocks.is_synchronous() {
            state.budget.timers -= 1;
        }
        let node = Arc::make_mut(&mut state.nodes[slot]);
        let (timer, at) = node.timers[index].take().expect("only a timer that is set fires");
        node.clock = node.clock.max(at);
        self.input(state, slot, |process, cx| process.on_timer(cx, timer))
    }

    fn restart(&self, state: &mut ModelState<A>, slot: usize, keeps_disk: bool) -> Vec<Effect<A>> {
        let node = Arc::make_mut(&mut state.nodes[slot]);
        let disk = node.disk.take().filter(|_| keeps_disk);
        *node = Node {
            disk: disk.clone(),
            clock: node.clock,
            restarts: node.restarts + 1,
            ..Node::new(A::new(self.roster.id(slot), &self.options), node.rate, node.campaigns)
        };
        self.start(state, slot, Start::Recovered(disk))
    }

    fn start(&self, state: &mut ModelState<A>, slot: usize, start: Start<A::Saved>) -> Vec<Effect<A>> {
        let restarts = state.nodes[slot].restarts;
        let seed = self.seeds[restarts * self.bounds.nodes + slot];
        self.seeded_input(state, slot, seed, |process, cx| process.on_start(cx, start))
    }

    fn input(
        &self,
        state: &mut ModelState<A>,
        slot: usize,
        handle: impl FnOnce(&mut A, &mut Context<'_, A>),
    ) -> Vec<Effect<A>> {
        self.seeded_input(state, slot, self.seeds[slot], handle)
    }

    /// Gives a process an input, and applies its effects.
    fn seeded_input(
        &self,
        state: &mut ModelState<A>,
        slot: usize,
        seed: u64,
        handle: impl FnOnce(&mut A, &mut Context<'_, A>),
    ) -> Vec<Effect<A>> {
        let now = self.clock(state, slot);
        let mut recorder = Recorder::new(seed);
        let node = Arc::make_mut(&mut state.nodes[slot]);
        handle(&mut node.process, &mut recorder.context(now, self.roster.view(slot), Span::UNIT));
        let effects = recorder.take();
        for effect in &effects {
            self.apply_effect(state, slot, now, effect);
        }
        state.update_digest(slot);
        effects
    }

    fn apply_effect(&self, state: &mut ModelState<A>, slot: usize, now: Time, effect: &Effect<A>) {
        match effect {
            Effect::Send { to, message } => self.send(state, slot, *to, message),
            Effect::Multicast { message } => {
                for peer in self.roster.view(slot).peers() {
                    self.send(state, slot, peer, message);
                }
            }
            Effect::SetTimer { timer, after } => {
                let at = if self.bounds.clocks == Clocks::Still { Time::ZERO } else { now + *after };
                Arc::make_mut(&mut state.nodes[slot]).timers[timer.index()] = Some((*timer, at));
            }
            Effect::CancelTimer { timer } => {
                Arc::make_mut(&mut state.nodes[slot]).timers[timer.index()] = None;
            }
            Effect::Save(saved) => Arc::make_mut(&mut state.nodes[slot]).disk = Some(saved.clone()),
            Effect::Announce(announcement) => self.announce(state, slot, *announcement),
            Effect::LeadUntil(end) => Arc::make_mut(&mut state.nodes[slot]).lead_until = Some(*end),
            // Effects of failure detectors, which this model does not run.
            Effect::Suspect(_) | Effect::Restore(_) => {}
        }
    }

    fn send(&self, state: &mut ModelState<A>, from: usize, to: NodeId, message: &A::Message) {
        let Some(to) = self.roster.slot(to) else { return };
        let due = if self.bounds.clocks.is_synchronous() { state.tick + 1 } else { 0 };
        state.insert_envelope(Envelope { from, to, due, message: message.clone() });
    }

    fn announce(&self, state: &mut ModelState<A>, slot: usize, announcement: Announcement) {
        let me = self.roster.id(slot);
        let led = self.leads(state, slot);
        let node = Arc::make_mut(&mut state.nodes[slot]);
        let before = std::mem::replace(&mut node.belief, announcement);
        match announcement {
            Announcement::Elected { leader, term } if leader == me => {
                state.history.record_leader(A::CONTRACT.safety, me, term);
                let commanded = !self.commands.is_empty() && state.budget.commands == 0;
                state.history.led_after_commands |= commanded;
                let swapped = led && before != announcement && A::CONTRACT.safety == Safety::AtMostOne;
                state.history.token_replaced |= swapped;
            }
            _ => node.lead_until = None,
        }
    }

    fn timers(&self, state: &ModelState<A>, slot: usize, steps: &mut Vec<Step>) {
        let node = &state.nodes[slot];
        let on_time = self.bounds.clocks.is_synchronous();
        if state.budget.timers == 0 && !on_time {
            return;
        }
        match self.bounds.clocks {
            Clocks::Still => {
                let set = node.timers.iter().enumerate().filter(|(_, timer)| timer.is_some());
                steps.extend(set.map(|(index, _)| Step::Timeout(slot, index)));
            }
            Clocks::Own => steps.extend(node.next_timers().map(|(index, _)| Step::Timeout(slot, index))),
            Clocks::True { .. } => {
                let now = self.clock(state, slot);
                let due = node.next_timers().filter(|&(_, at)| at <= now);
                steps.extend(due.map(|(index, _)| Step::Timeout(slot, index)));
            }
        }
    }

    /// True if time may advance.
    fn may_tick(&self, state: &ModelState<A>) -> bool {
        let Clocks::True { ticks, synchronous, .. } = self.bounds.clocks else { return false };
        let overdue = |slot: usize| {
            let now = self.clock(state, slot);
            state.nodes[slot].next_timers().any(|(_, at)| at <= now)
        };
        let waits = synchronous
            && (state.envelopes().any(|envelope| envelope.due <= state.tick)
                || (0..self.bounds.nodes).any(overdue));
        state.tick < ticks && !waits
    }
}

impl<A: Algorithm> Model for ElectionModel<A> {
    type State = ModelState<A>;
    type Action = Step;

    fn init_states(&self) -> Vec<ModelState<A>> {
        let Bounds { nodes, candidates, campaigns, elected, .. } = self.bounds;
        let Bounds { timers, duplicates, losses, restarts, wipes, resigns, transfers, .. } = self.bounds;
        let begin = |rates: Vec<u32>| {
            let node = |(slot, rate): (usize, u32)| {
                let campaigns = if slot + candidates >= nodes { campaigns } else { 0 };
                Node::new(A::new(self.roster.id(slot), &self.options), rate, campaigns)
            };
            let processes = rates.into_iter().enumerate().map(node).collect();
            let commands = (0..self.commands.len()).fold(0, |left, index| left | 1 << index);
            let mut state = ModelState::new(
                processes,
                Budget { timers, duplicates, losses, restarts, wipes, resigns, transfers, commands },
            );
            for slot in 0..nodes {
                self.start(&mut state, slot, Start::Fresh);
            }
            if elected {
                self.elect(&mut state);
            }
            for (slot, command) in self.before.iter().cloned() {
                self.command(&mut state, slot, command);
                self.deliver_all(&mut state);
            }
            state
        };
        self.bounds.clocks.initial_rates(nodes).into_iter().map(begin).collect()
    }

    fn actions(&self, state: &ModelState<A>, steps: &mut Vec<Step>) {
        for index in state.distinct_envelopes() {
            steps.push(Step::Deliver(index));
            if state.budget.duplicates > 0 {
                steps.push(Step::Duplicate(index));
            }
            if state.budget.losses > 0 {
                steps.push(Step::Lose(index));
            }
        }
        for (slot, node) in state.nodes().enumerate() {
            self.timers(state, slot, steps);
            if node.campaigns > 0 {
                steps.push(Step::Campaign(slot));
            }
            // A process that does not lead ignores these commands.
            if self.leads(state, slot) {
                if state.budget.resigns > 0 {
                    steps.push(Step::Resign(slot));
                }
                if state.budget.transfers > 0 {
                    let candidates = self.bounds.nodes - self.bounds.candidates..self.bounds.nodes;
                    steps.extend(candidates.filter(|&to| to != slot).map(|to| Step::Transfer(slot, to)));
                }
            }
            if state.budget.restarts > 0 {
                steps.push(Step::Restart(slot));
            }
            if state.budget.wipes > 0 {
                steps.push(Step::Wipe(slot));
            }
        }
        let is_left = |&index: &usize| state.budget.commands >> index & 1 == 1;
        steps.extend((0..self.commands.len()).filter(is_left).map(Step::Command));
        if self.may_tick(state) {
            steps.push(Step::Tick);
        }
    }

    fn next_state(&self, state: &ModelState<A>, step: Step) -> Option<ModelState<A>> {
        self.apply(state, step).map(|(next, _)| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! property {
            ($($claim:ident),*) => {
                |claim: &Claim| match claim {
                    $(Claim::$claim if claim.is_safety() => Property::always(claim.name(), |model: &Self, state| {
                        !model.decides_first(Claim::$claim, !Claim::$claim.holds(model, state))
                    }),
                    Claim::$claim => Property::sometimes(claim.name(), |model: &Self, state| {
                        model.decides_first(Claim::$claim, Claim::$claim.holds(model, state))
                    }),)*
                }
            };
        }
        let property = property!(
            AtMostOneLeader,
            TokensIncrease,
            TokenIsKept,
            OneLeaderPerTerm,
            QuietMeansAgreed,
            SomebodyLeads,
            LeaderChanges,
            LedAfterCommands,
            FallsQuiet
        );
        self.claims.iter().map(property).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_algorithms::catalog::{CONTRACTS, visit};
    use suffrage_core::Visitor;
    use suffrage_core::{Contract, Rng};

    use crate::bounds::CLOCK_FREE;

    /// Takes the same random steps from a state whose clocks are at zero and from one whose clocks are not.
    struct ReadsNoClock;

    impl Visitor for ReadsNoClock {
        type Output = usize;

        fn visit<A: Algorithm>(self) -> usize {
            let bounds = Bounds { timers: 60, restarts: 5, ..Bounds::usual(&A::CONTRACT, None) };
            let model = ElectionModel::<A>::new(A::Options::default(), bounds);
            let mut here = model.init_states().remove(0);
            let mut there = here.clone();
            for node in &mut there.nodes {
                Arc::make_mut(node).clock = Time::from_nanos(1 << 50);
            }
            let (mut rng, mut taken, mut steps) = (Rng::new(1), 0, Vec::new());
            for _ in 0..500 {
                steps.clear();
                model.actions(&here, &mut steps);
                let Some(&step) = rng.pick(&steps) else { break };
                if let Some((next, effects)) = model.apply(&here, step) {
                    let (other, others) = model.apply(&there, step).expect("the step applies to both states");
                    assert_eq!(effects, others, "{} reads a clock", A::CONTRACT.name);
                    for (node, other) in next.nodes().zip(other.nodes()) {
                        assert_eq!(node.process, other.process, "{} stores a time", A::CONTRACT.name);
                    }
                    (here, there) = (next, other);
                    taken += 1;
                }
            }
            taken
        }
    }

    #[test]
    fn algorithms_checked_without_clocks_read_no_clock() {
        let still = |contract: &&Contract| Bounds::usual(contract, None).clocks == Clocks::Still;
        let names: Vec<&str> = CONTRACTS.iter().filter(still).map(|contract| contract.name).collect();
        assert_eq!(names.len(), CLOCK_FREE.len());
        for name in names {
            assert!(visit(name, ReadsNoClock).unwrap() > 100, "{name}");
        }
    }
}
