//! A run described as data: the processes, the faults, and the end of the run.

pub mod grammar;

use suffrage_core::layers::{self, Stack};
use suffrage_core::{
    Algorithm, Attribute, Command, Contract, Electorate, Message as _, NodeId, Rng, Roster, Safety, Span,
    Time,
};

use self::grammar::Links;
use crate::invariants::{LeaseOutlivesCrash, Stability};
use crate::outcome::{self, WindowStart};
use crate::schedule::ScheduledAction;
use crate::state::{ExtraElection, WorldState};
use crate::{
    Contenders, Detector, End, Fault, Invariant, Latency, Ledger, Multicast, Observer, Outcome, Plan, World,
    invariants, sort_plan,
};

/// A run described as data. The algorithm and its options are separate, so that one scenario can run with every
/// algorithm.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The group, in ring order.
    pub roster: Roster,
    /// The overlay that a flag gave to `roster`.
    pub links: Links,
    /// The origin of the attributes by which processes rank.
    pub ranking: Ranking,
    /// The probability that one process knows another.
    pub view_prob: f64,
    /// The seed of every random decision.
    pub seed: u64,
    /// The delay of messages.
    pub latency: Latency,
    /// The probability that a message is lost.
    pub loss: f64,
    /// The probability that an addressee misses a multicast, if it differs.
    pub multicast_loss: Option<f64>,
    /// The probability that a message is duplicated.
    pub duplicate: f64,
    /// The greatest deviation of a clock's rate, as a fraction.
    pub drift: f64,
    /// The delay bound that processes assume; if none, the latency's bound.
    pub delay_bound: Option<Span>,
    /// The failure detector.
    pub detector: Detector,
    /// The multicast service.
    pub multicast: Multicast,
    /// Slots that are dead from the start.
    pub crashed: Vec<usize>,
    /// The probability that each of the other processes crashes by itself.
    pub fail: f64,
    /// The latest time of such a crash; the time is random. Zero means before the start.
    pub fail_within: Span,
    /// Slots that call an election at time zero.
    pub initiators: Vec<usize>,
    /// The number of other processes that do, chosen at random.
    pub contenders: Option<Contenders>,
    /// The faults, with their times.
    pub plan: Plan,
    /// The commands of the application: time, slot, and the text form of the command. The text form lets one scenario
    /// run with every algorithm that knows the commands: [`check_commands`](Scenario::check_commands).
    pub commands: Vec<(Time, usize, String)>,
    /// The end of the run, if the world does not fall quiet before.
    pub until: Option<Time>,
    /// The greatest number of events. More events are a violation.
    pub limit: Option<u64>,
    /// The time for which all processes must have believed in a leader before a replacement of that leader, while it is
    /// healthy, is a violation. None if stability is not checked.
    pub stable: Option<Span>,
    /// True if the bytes of messages are counted.
    pub count_bytes: bool,
    /// The start of the outcome's [`window`](Outcome::window).
    pub window: Option<Time>,
}

/// The origin of attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ranking {
    /// The highest id is the best.
    #[default]
    Id,
    /// The lowest id is the best.
    LowestId,
    /// Attributes are random, by the seed of the run.
    Random,
    /// The highest id is the best until it crashes: fewer crashes come first.
    Quality,
    /// Some processes have these attributes; those of the others are their ids.
    Listed(Vec<(NodeId, Attribute)>),
}

impl Scenario {
    /// A group in a network without faults, with one time unit per message and without initiators.
    pub fn new(roster: Roster) -> Scenario {
        Scenario {
            roster,
            links: Links::Complete,
            ranking: Ranking::Id,
            view_prob: 1.0,
            seed: 0,
            latency: Latency::Const(Span::UNIT),
            loss: 0.0,
            multicast_loss: None,
            duplicate: 0.0,
            drift: 0.0,
            delay_bound: None,
            detector: Detector::None,
            multicast: Multicast::Broadcast,
            crashed: Vec::new(),
            fail: 0.0,
            fail_within: Span::ZERO,
            initiators: Vec::new(),
            contenders: None,
            plan: Vec::new(),
            commands: Vec::new(),
            until: None,
            limit: None,
            stable: None,
            count_bytes: false,
            window: None,
        }
    }

    /// The delay bound that processes assume.
    pub fn bound(&self) -> Span {
        self.delay_bound.unwrap_or(self.latency.bound())
    }

    /// The longest delay that a fault adds to messages or saves.
    pub(crate) fn max_extra_delay(&self, fault: &Fault) -> Span {
        match *fault {
            Fault::Slow(factor) => self.latency.bound().scale((factor - 1.0).max(0.0)),
            Fault::Late { max_delay, .. } => max_delay,
            Fault::SlowDisk(delay) => delay,
            _ => Span::ZERO,
        }
    }

    /// The latest end of the run: as set, or long after the last fault.
    pub fn horizon(&self) -> Time {
        let end = |(at, fault): &(Time, Fault)| match fault {
            Fault::Pause(_, until) => *until,
            fault => *at + self.max_extra_delay(fault),
        };
        let commands = self.commands.iter().map(|(at, ..)| *at);
        let failed = (self.fail > 0.0).then_some(Time::ZERO + self.fail_within);
        let last = self.plan.iter().map(end).chain(commands).chain(failed).max().unwrap_or(Time::ZERO);
        let bound = self.bound();
        let noticed = self.detector.max_detection_time(bound);
        self.until.unwrap_or(last + noticed + bound * (1_000 + 20 * self.roster.len() as u64))
    }

    /// The group with its attributes.
    fn ranked_roster(&self) -> Roster {
        let mut roster = self.roster.clone().with_name(suffrage_core::Hash::new(self.seed).word(6));
        if self.view_prob < 1.0 {
            roster = roster.with_partial_views(suffrage_core::Hash::new(self.seed).word(4), self.view_prob);
        }
        match &self.ranking {
            Ranking::Id | Ranking::Quality => {}
            Ranking::LowestId => roster = roster.lowest_first(),
            Ranking::Random => {
                let mut rng = Rng::new(suffrage_core::Hash::new(self.seed).word(3));
                for slot in 0..roster.len() {
                    roster.set_attribute(roster.id(slot), (rng.bits() >> 1) as Attribute);
                }
            }
            Ranking::Listed(attributes) => {
                attributes.iter().for_each(|&(id, attribute)| roster.set_attribute(id, attribute));
            }
        }
        roster
    }

    /// The options of the layers around the algorithm: a real detector, a bimodal multicast. None if there are none.
    pub fn stack<O: Clone>(&self, options: &O) -> Option<layers::Options<O>> {
        let detector = match self.detector {
            Detector::Real(detector) => Some(detector),
            _ => None,
        };
        let multicast = match self.multicast {
            Multicast::Bimodal(multicast) => Some(multicast),
            _ => None,
        };
        (detector.is_some() || multicast.is_some()).then(|| layers::Options {
            detector,
            multicast,
            algorithm: options.clone(),
        })
    }

    /// Refuses commands that the algorithm does not know. The error names the command.
    pub fn check_commands<A: Algorithm>(&self) -> Result<(), String> {
        self.commands.iter().try_for_each(|(_, _, command)| command.parse::<A::Command>().map(drop))
    }

    /// The world of this scenario before the first event, with the contract's promises as invariants. The processes run
    /// the bare algorithm. With layers of [`stack`](Scenario::stack), use the world of a [`Stack`].
    ///
    /// # Panics
    /// If the algorithm does not know one of the commands: [`check_commands`](Scenario::check_commands).
    pub fn world<A: Algorithm + 'static>(&self, options: &A::Options) -> World<A> {
        self.check_commands::<A>().unwrap_or_else(|reason| panic!("{}: {reason}", A::CONTRACT.name));
        let shared = options.clone();
        let mut world =
            World::new(self.ranked_roster(), self.seed, self.latency, move |id| A::new(id, &shared));
        world.set_limit(self.limit.unwrap_or(u64::MAX));
        let (contract, electorate) = (&A::CONTRACT, A::electorate(options));
        let elections = (0..A::elections(options)).map(|election| A::lease_outlives_crash(options, election));
        let outlive: Vec<bool> = elections.collect();
        self.set_up(&mut world.environment.state, contract, electorate, &outlive);
        if self.ranking == Ranking::Quality {
            world.count_failures();
        }
        world.set_detector(self.detector);
        let Timeline { dead, actions } = self.timeline();
        dead.into_iter().for_each(|slot| world.kill(slot));
        actions.into_iter().for_each(|(at, action)| world.schedule(at, action));
        let members = 0..self.roster.len();
        let may_lead = |slot: usize| world.process(slot).may_lead() && A::slot_may_lead(options, slot);
        world.set_ineligible(members.filter(|&slot| !may_lead(slot)).collect());
        world
    }

    /// Sets everything that does not depend on the algorithm's messages. `outlive` says for each election whether
    /// leases outlive a crash.
    fn set_up(&self, state: &mut WorldState, contract: &Contract, electorate: Electorate, outlive: &[bool]) {
        let invariants_of_election = |election: usize| {
            let mut invariants_of_election = self.invariants_of_election(contract, electorate);
            if outlive.get(election) == Some(&true) {
                invariants_of_election.push(Box::new(LeaseOutlivesCrash::default()));
            }
            invariants_of_election
        };
        for election in 1..outlive.len() {
            let ledger = Ledger::of(self.roster.len(), 0);
            state
                .extra_elections
                .push(ExtraElection { ledger, invariants: invariants_of_election(election) });
        }
        state.invariants = invariants_of_election(0);
        state.network.loss = self.loss;
        state.network.duplicate = self.duplicate;
        state.network.multicast_loss = match self.multicast {
            Multicast::Ideal(reached) => Some(1.0 - reached),
            _ => self.multicast_loss,
        };
        state.clocks.drift = self.drift;
        state.delay_bound = self.bound();
        state.counts_bytes = self.count_bytes;
        state.inspects_sends = self.count_bytes;
    }

    /// The invariants of one election.
    fn invariants_of_election(&self, contract: &Contract, electorate: Electorate) -> Vec<Box<dyn Invariant>> {
        let mut invariants_of_election = invariants::of_contract(contract, electorate);
        if let Some(settling) = self.stable {
            // Where a term is a fencing token, the term must stay as well.
            let tokens = contract.safety == Safety::AtMostOne;
            let of = if tokens { Stability::of_terms_after } else { Stability::after };
            invariants_of_election.push(Box::new(of(settling)));
        }
        invariants_of_election
    }

    /// Everything that is scheduled, with all random decisions made.
    fn timeline(&self) -> Timeline {
        let (failed, failures) = self.failures();
        let dead: Vec<usize> = self.crashed.iter().copied().chain(failed).collect();
        let contenders = self.contenders.map_or(Vec::new(), |contenders| {
            let mut idle = vec![true; self.roster.len()];
            dead.iter().chain(&self.initiators).for_each(|&slot| idle[slot] = false);
            contenders.draw(self.seed, (0..self.roster.len()).filter(|&slot| idle[slot]).collect())
        });
        let callers = self.initiators.iter().chain(&contenders);
        let callers = callers.map(|&slot| (Time::ZERO, slot, Command::Campaign.to_string())).collect();
        let (mut plan, mut commands) = (self.plan.clone(), self.commands.clone());
        sort_plan(&mut plan);
        commands.sort();
        let mut actions = Vec::new();
        for (faults, commands) in [(failures, callers), (plan, commands)] {
            actions.extend(faults.into_iter().map(|(at, fault)| (at, ScheduledAction::Fault(fault))));
            let commands: Vec<(Time, usize, String)> = commands;
            let command = |(at, slot, command): (Time, usize, String)| {
                (at, ScheduledAction::Command(slot, command.into_boxed_str()))
            };
            actions.extend(commands.into_iter().map(command));
        }
        Timeline { dead, actions }
    }

    /// Draws the processes that crash by themselves, before the start and after it.
    fn failures(&self) -> (Vec<usize>, Plan) {
        let (mut dead, mut faults) = (Vec::new(), Plan::new());
        if self.fail == 0.0 {
            return (dead, faults);
        }
        let mut rng = Rng::new(suffrage_core::Hash::new(self.seed).word(5));
        let mut spared = self.crashed.clone();
        spared.sort_unstable();
        for slot in 0..self.roster.len() {
            if spared.binary_search(&slot).is_ok() || !rng.chance(self.fail) {
                continue;
            }
            match self.fail_within.as_nanos() {
                0 => dead.push(slot),
                within => faults.push((Time::from_nanos(1 + rng.below(within)), Fault::Crash(slot))),
            }
        }
        (dead, faults)
    }

    /// Runs the scenario: the bare algorithm, or the algorithm with the scenario's detector and multicast.
    pub fn run<A: Algorithm + 'static>(&self, options: &A::Options) -> Outcome {
        self.run_stack::<A>(options, None)
    }

    /// Runs the scenario with an observer.
    pub fn run_observed<A: Algorithm + 'static>(
        &self,
        options: &A::Options,
        observer: Box<dyn Observer>,
    ) -> Outcome {
        self.run_stack::<A>(options, Some(observer))
    }

    fn run_stack<A: Algorithm>(&self, options: &A::Options, observer: Option<Box<dyn Observer>>) -> Outcome {
        match self.stack(options) {
            None => self.run_world(self.world::<A>(options), options, observer),
            Some(options) => self.run_world(self.world::<Stack<A>>(&options), &options, observer),
        }
    }

    fn run_world<A: Algorithm>(
        &self,
        mut world: World<A>,
        options: &A::Options,
        observer: Option<Box<dyn Observer>>,
    ) -> Outcome {
        observer.into_iter().for_each(|observer| world.set_observer(observer));
        let horizon = self.horizon();
        let before = self.window.map(|from| {
            if let Some(last) = from.as_nanos().checked_sub(1) {
                world.run(Time::from_nanos(last));
            }
            WindowStart::of(world.ledger(), from)
        });
        let end = world.run(horizon);
        match self.limit {
            Some(limit) if end == End::Runaway => {
                let left = world.environment.queue.len();
                let detail = format!("more than {limit} events by then, and {left} still in the queue");
                world.record_violation("bounded-work", detail);
            }
            _ => {
                world.finish();
                if let Some(detail) = outcome::broken_promise(&world, options) {
                    world.record_violation("own-promise", detail);
                }
            }
        }
        Outcome {
            seed: self.seed,
            quiet: end == End::Quiet,
            window: before.map(|before| before.window(world.ledger(), horizon)),
            figures: outcome::figures(&world, options),
            ..Outcome::of(A::CONTRACT.name, A::Message::KINDS, &world.facts(), world.counts_bytes(), horizon)
        }
    }
}

/// Everything that a scenario schedules.
struct Timeline {
    /// Slots that are dead from the start.
    dead: Vec<usize>,
    /// Faults and commands. Actions of equal times happen in this order.
    actions: Vec<(Time, ScheduledAction)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_long_after_the_last_fault() {
        let mut scenario = Scenario::new(Roster::numbered(10));
        assert_eq!(scenario.horizon(), "1200".parse().unwrap());
        scenario.plan = vec![(Time::ZERO, Fault::Pause(1, "50".parse().unwrap()))];
        assert_eq!(scenario.horizon(), "1250".parse().unwrap());
        for (detector, horizon) in [("ideal:9", "1259"), ("heartbeat:10,30", "1281"), ("gossip:5,50", "1350")]
        {
            scenario.detector = detector.parse().unwrap();
            assert_eq!(
                scenario.horizon(),
                horizon.parse().unwrap(),
                "the horizon includes the detection time of {detector}"
            );
        }
        scenario.until = Some("7".parse().unwrap());
        assert_eq!(scenario.horizon(), "7".parse().unwrap());
    }
}
