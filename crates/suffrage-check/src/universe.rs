//! All worlds that can come of one beginning: a model for stateright.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stateright::{Model, Property};
use suffrage_core::{
    Algorithm, Announcement, Command, Context, Effect, NodeId, Recorder, Roster, Safety, Span, Start, Time,
    Timer as _,
};

use crate::world::Budget;
use crate::{Bounds, Claim, Clocks, Letter, Node, World, chance};

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The letter in this place arrives.
    Deliver(usize),
    /// It arrives, and will again.
    Duplicate(usize),
    /// It is lost.
    Lose(usize),
    /// In this slot, the timer of this index runs out.
    RunOut(usize, usize),
    /// The process in this slot calls an election.
    Campaign(usize),
    /// The process in this slot is told to resign.
    Resign(usize),
    /// The process in the first slot is told to hand over to the one in the second.
    Transfer(usize, usize),
    /// The process in this slot crashes and comes back, with its disk.
    Restart(usize),
    /// The same, but the disk is lost.
    Wipe(usize),
    /// Time goes on by a tick.
    Tick,
}

/// All worlds that can come of one beginning, within bounds.
#[derive(Debug)]
pub struct Universe<A: Algorithm> {
    options: A::Options,
    roster: Roster,
    bounds: Bounds,
    /// For what is drawn at a start, by slot and then by the number of restarts.
    seeds: Vec<u64>,
    claims: Vec<Claim>,
    /// Which claims have been decided by some world.
    decided: [AtomicBool; Claim::ALL.len()],
}

impl<A: Algorithm> Universe<A> {
    /// The universe of these bounds.
    pub fn new(options: A::Options, bounds: Bounds) -> Universe<A> {
        let starts = 1 + usize::from(bounds.restarts) + usize::from(bounds.wipes);
        Universe {
            claims: Claim::of(&A::CONTRACT, A::electorate(&options), &bounds),
            roster: Roster::numbered(bounds.nodes),
            seeds: chance::seeds(bounds.nodes * starts),
            decided: Default::default(),
            options,
            bounds,
        }
    }

    /// How large it is.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// What is claimed of it.
    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// The group.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// What the clock of the process in this slot says.
    pub fn clock(&self, world: &World<A>, slot: usize) -> Time {
        let node = &world.nodes[slot];
        match self.bounds.clocks {
            Clocks::Still | Clocks::Own => node.clock,
            Clocks::True { tick, .. } => {
                let nanos = u64::from(world.tick) * tick.as_nanos() * u64::from(node.rate) / 1_000_000;
                Time::from_nanos(nanos)
            }
        }
    }

    /// Whether the process in this slot may believe, at this true moment, that it leads.
    pub fn leads(&self, world: &World<A>, slot: usize) -> bool {
        let node = &world.nodes[slot];
        node.belief.leader() == Some(self.roster.id(slot))
            && node.lead_until.is_none_or(|end| self.clock(world, slot) < end)
    }

    /// Those that may believe that they lead.
    pub fn leaders(&self, world: &World<A>) -> impl Iterator<Item = NodeId> {
        (0..self.bounds.nodes).filter(|&slot| self.leads(world, slot)).map(|slot| self.roster.id(slot))
    }

    /// Whether a claim is decided by this world that no world before it has decided: stateright would keep the
    /// last one of a batch, and the first is the nearest.
    fn decides(&self, claim: Claim, decided: bool) -> bool {
        decided && !self.decided[claim as usize].swap(true, Ordering::Relaxed)
    }

    /// What comes of a step, and what the process that took part in it did. None if nothing does.
    pub fn take(&self, world: &World<A>, step: Step) -> Option<(World<A>, Vec<Effect<A>>)> {
        let mut next = world.clone();
        let effects = match step {
            Step::Deliver(place) => {
                next.take_out(place);
                self.deliver(world, &mut next, place)?
            }
            Step::Duplicate(place) => {
                next.budget.duplicates -= 1;
                self.deliver(world, &mut next, place)?
            }
            Step::Lose(place) => {
                next.budget.losses -= 1;
                next.take_out(place);
                Vec::new()
            }
            Step::RunOut(slot, index) => self.run_out(&mut next, slot, index),
            Step::Campaign(slot) => {
                Arc::make_mut(&mut next.nodes[slot]).campaigns -= 1;
                self.command(&mut next, slot, Command::Campaign)
            }
            Step::Resign(slot) => {
                next.budget.resigns -= 1;
                self.command(&mut next, slot, Command::Resign)
            }
            Step::Transfer(slot, to) => {
                next.budget.transfers -= 1;
                self.command(&mut next, slot, Command::Transfer(self.roster.id(to)))
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

    /// None if it is all the same to whom it is delivered. A world in which that letter is still in flight can
    /// do whatever one can in which it is not: nothing is missed, but where falling quiet matters.
    fn deliver(&self, before: &World<A>, next: &mut World<A>, place: usize) -> Option<Vec<Effect<A>>> {
        let letter = before.letter(place);
        let (from, message) = (self.roster.id(letter.from), letter.message.clone());
        let effects = self.input(next, letter.to, |process, cx| process.on_message(cx, from, message));
        let idle = effects.is_empty() && next.nodes[letter.to].process == before.nodes[letter.to].process;
        (!idle || self.claims.contains(&Claim::QuietMeansAgreed)).then_some(effects)
    }

    /// The last process calls an election, and whatever is sent about it arrives.
    fn elect(&self, mut world: World<A>) -> World<A> {
        let last = self.bounds.nodes - 1;
        let node = Arc::make_mut(&mut world.nodes[last]);
        node.campaigns = node.campaigns.saturating_sub(1);
        self.command(&mut world, last, Command::Campaign);
        while world.letters().len() > 0 {
            let letter = world.take_out(0);
            let from = self.roster.id(letter.from);
            self.input(&mut world, letter.to, |process, cx| {
                process.on_message(cx, from, letter.message.clone())
            });
        }
        world
    }

    fn command(&self, world: &mut World<A>, slot: usize, command: Command) -> Vec<Effect<A>> {
        self.input(world, slot, |process, cx| process.on_command(cx, command.into()))
    }

    fn run_out(&self, world: &mut World<A>, slot: usize, index: usize) -> Vec<Effect<A>> {
        if !self.bounds.clocks.is_synchronous() {
            world.budget.timers -= 1;
        }
        let node = Arc::make_mut(&mut world.nodes[slot]);
        let (timer, at) = node.timers[index].take().expect("only a timer that is set runs out");
        node.clock = node.clock.max(at);
        self.input(world, slot, |process, cx| process.on_timer(cx, timer))
    }

    fn restart(&self, world: &mut World<A>, slot: usize, keeps_disk: bool) -> Vec<Effect<A>> {
        let node = Arc::make_mut(&mut world.nodes[slot]);
        let disk = node.disk.take().filter(|_| keeps_disk);
        *node = Node {
            disk: disk.clone(),
            clock: node.clock,
            restarts: node.restarts + 1,
            ..Node::new(A::new(self.roster.id(slot), &self.options), node.rate, node.campaigns)
        };
        self.start(world, slot, Start::Recovered(disk))
    }

    fn start(&self, world: &mut World<A>, slot: usize, start: Start<A::Saved>) -> Vec<Effect<A>> {
        let restarts = world.nodes[slot].restarts;
        let seed = self.seeds[restarts * self.bounds.nodes + slot];
        self.seeded_input(world, slot, seed, |process, cx| process.on_start(cx, start))
    }

    fn input(
        &self,
        world: &mut World<A>,
        slot: usize,
        handle: impl FnOnce(&mut A, &mut Context<'_, A>),
    ) -> Vec<Effect<A>> {
        self.seeded_input(world, slot, self.seeds[slot], handle)
    }

    /// Hands a process an input, and carries out what it does about it.
    fn seeded_input(
        &self,
        world: &mut World<A>,
        slot: usize,
        seed: u64,
        handle: impl FnOnce(&mut A, &mut Context<'_, A>),
    ) -> Vec<Effect<A>> {
        let now = self.clock(world, slot);
        let mut recorder = Recorder::new(seed);
        let node = Arc::make_mut(&mut world.nodes[slot]);
        handle(&mut node.process, &mut recorder.context(now, self.roster.view(slot), Span::UNIT));
        let effects = recorder.take();
        for effect in &effects {
            self.carry_out(world, slot, now, effect);
        }
        world.seal(slot);
        effects
    }

    fn carry_out(&self, world: &mut World<A>, slot: usize, now: Time, effect: &Effect<A>) {
        match effect {
            Effect::Send { to, message } => self.send(world, slot, *to, message),
            Effect::Multicast { message } => {
                for peer in self.roster.view(slot).peers() {
                    self.send(world, slot, peer, message);
                }
            }
            Effect::SetTimer { timer, after } => {
                let at = if self.bounds.clocks == Clocks::Still { Time::ZERO } else { now + *after };
                Arc::make_mut(&mut world.nodes[slot]).timers[timer.index()] = Some((*timer, at));
            }
            Effect::CancelTimer { timer } => {
                Arc::make_mut(&mut world.nodes[slot]).timers[timer.index()] = None;
            }
            Effect::Save(state) => Arc::make_mut(&mut world.nodes[slot]).disk = Some(state.clone()),
            Effect::Announce(announcement) => self.announce(world, slot, *announcement),
            Effect::LeadUntil(end) => Arc::make_mut(&mut world.nodes[slot]).lead_until = Some(*end),
            // Only of failure detectors, which no algorithm is.
            Effect::Suspect(_) | Effect::Restore(_) => {}
        }
    }

    fn send(&self, world: &mut World<A>, from: usize, to: NodeId, message: &A::Message) {
        let Some(to) = self.roster.slot(to) else { return };
        let due = if self.bounds.clocks.is_synchronous() { world.tick + 1 } else { 0 };
        world.put_in(Letter { from, to, due, message: message.clone() });
    }

    fn announce(&self, world: &mut World<A>, slot: usize, announcement: Announcement) {
        let me = self.roster.id(slot);
        let led = self.leads(world, slot);
        let node = Arc::make_mut(&mut world.nodes[slot]);
        let before = std::mem::replace(&mut node.belief, announcement);
        match announcement {
            Announcement::Elected { leader, term } if leader == me => {
                world.history.note(A::CONTRACT.safety, me, term);
                let swapped = led && before != announcement && A::CONTRACT.safety == Safety::AtMostOne;
                world.history.token_swapped |= swapped;
            }
            _ => node.lead_until = None,
        }
    }

    fn timers(&self, world: &World<A>, slot: usize, steps: &mut Vec<Step>) {
        let node = &world.nodes[slot];
        let prompt = self.bounds.clocks.is_synchronous();
        if world.budget.timers == 0 && !prompt {
            return;
        }
        match self.bounds.clocks {
            Clocks::Still => {
                let set = node.timers.iter().enumerate().filter(|(_, timer)| timer.is_some());
                steps.extend(set.map(|(index, _)| Step::RunOut(slot, index)));
            }
            Clocks::Own => steps.extend(node.next_timers().map(|(index, _)| Step::RunOut(slot, index))),
            Clocks::True { .. } => {
                let now = self.clock(world, slot);
                let due = node.next_timers().filter(|&(_, at)| at <= now);
                steps.extend(due.map(|(index, _)| Step::RunOut(slot, index)));
            }
        }
    }

    /// Whether time may go on.
    fn may_tick(&self, world: &World<A>) -> bool {
        let Clocks::True { ticks, synchronous, .. } = self.bounds.clocks else { return false };
        let overdue = |slot: usize| {
            let now = self.clock(world, slot);
            world.nodes[slot].next_timers().any(|(_, at)| at <= now)
        };
        let waits = synchronous
            && (world.letters().any(|letter| letter.due <= world.tick)
                || (0..self.bounds.nodes).any(overdue));
        world.tick < ticks && !waits
    }
}

impl<A: Algorithm> Model for Universe<A> {
    type State = World<A>;
    type Action = Step;

    fn init_states(&self) -> Vec<World<A>> {
        let Bounds { nodes, candidates, campaigns, elected, .. } = self.bounds;
        let Bounds { timers, duplicates, losses, restarts, wipes, resigns, transfers, .. } = self.bounds;
        let begin = |rates: Vec<u32>| {
            let node = |(slot, rate): (usize, u32)| {
                let campaigns = if slot + candidates >= nodes { campaigns } else { 0 };
                Node::new(A::new(self.roster.id(slot), &self.options), rate, campaigns)
            };
            let processes = rates.into_iter().enumerate().map(node).collect();
            let mut world = World::new(
                processes,
                Budget { timers, duplicates, losses, restarts, wipes, resigns, transfers },
            );
            for slot in 0..nodes {
                self.start(&mut world, slot, Start::Fresh);
            }
            if elected { self.elect(world) } else { world }
        };
        self.bounds.clocks.beginnings(nodes).into_iter().map(begin).collect()
    }

    fn actions(&self, world: &World<A>, steps: &mut Vec<Step>) {
        for place in world.places() {
            steps.push(Step::Deliver(place));
            if world.budget.duplicates > 0 {
                steps.push(Step::Duplicate(place));
            }
            if world.budget.losses > 0 {
                steps.push(Step::Lose(place));
            }
        }
        for (slot, node) in world.nodes().enumerate() {
            self.timers(world, slot, steps);
            if node.campaigns > 0 {
                steps.push(Step::Campaign(slot));
            }
            // To one that does not lead, it is all the same.
            if self.leads(world, slot) {
                if world.budget.resigns > 0 {
                    steps.push(Step::Resign(slot));
                }
                if world.budget.transfers > 0 {
                    let candidates = self.bounds.nodes - self.bounds.candidates..self.bounds.nodes;
                    steps.extend(candidates.filter(|&to| to != slot).map(|to| Step::Transfer(slot, to)));
                }
            }
            if world.budget.restarts > 0 {
                steps.push(Step::Restart(slot));
            }
            if world.budget.wipes > 0 {
                steps.push(Step::Wipe(slot));
            }
        }
        if self.may_tick(world) {
            steps.push(Step::Tick);
        }
    }

    fn next_state(&self, world: &World<A>, step: Step) -> Option<World<A>> {
        self.take(world, step).map(|(next, _)| next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! property {
            ($($claim:ident),*) => {
                |claim: &Claim| match claim {
                    $(Claim::$claim if claim.is_safety() => Property::always(claim.name(), |universe: &Self, world| {
                        !universe.decides(Claim::$claim, !Claim::$claim.holds(universe, world))
                    }),
                    Claim::$claim => Property::sometimes(claim.name(), |universe: &Self, world| {
                        universe.decides(Claim::$claim, Claim::$claim.holds(universe, world))
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
            ChangesHands,
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

    use crate::bounds::TIMELESS;

    /// Takes the same random steps in a world whose clocks stand at zero and in one where they stand elsewhere.
    struct LooksAtNoClock;

    impl Visitor for LooksAtNoClock {
        type Output = usize;

        fn visit<A: Algorithm>(self) -> usize {
            let bounds = Bounds { timers: 60, restarts: 5, ..Bounds::usual(&A::CONTRACT, None) };
            let universe = Universe::<A>::new(A::Options::default(), bounds);
            let mut here = universe.init_states().remove(0);
            let mut there = here.clone();
            for node in &mut there.nodes {
                Arc::make_mut(node).clock = Time::from_nanos(1 << 50);
            }
            let (mut rng, mut taken, mut steps) = (Rng::new(1), 0, Vec::new());
            for _ in 0..500 {
                steps.clear();
                universe.actions(&here, &mut steps);
                let Some(&step) = rng.pick(&steps) else { break };
                if let Some((next, effects)) = universe.take(&here, step) {
                    let (other, others) = universe.take(&there, step).expect("it does here");
                    assert_eq!(effects, others, "{} looks at a clock", A::CONTRACT.name);
                    for (node, other) in next.nodes().zip(other.nodes()) {
                        assert_eq!(node.process, other.process, "{} keeps the time", A::CONTRACT.name);
                    }
                    (here, there) = (next, other);
                    taken += 1;
                }
            }
            taken
        }
    }

    #[test]
    fn where_time_stands_still_nobody_looks_at_a_clock() {
        let still = |contract: &&Contract| Bounds::usual(contract, None).clocks == Clocks::Still;
        let names: Vec<&str> = CONTRACTS.iter().filter(still).map(|contract| contract.name).collect();
        assert_eq!(names.len(), TIMELESS.len());
        for name in names {
            assert!(visit(name, LooksAtNoClock).unwrap() > 100, "{name}");
        }
    }
}
