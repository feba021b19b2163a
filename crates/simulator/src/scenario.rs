//! A run described as data: who takes part, which faults happen, and when it is over.

pub mod grammar;

use election::layers::{self, Stack};
use election::{Algorithm, Attribute, Command, NodeId, Rng, Roster, Safety, Span, Time};

use self::grammar::Links;
use crate::invariants::Stability;
use crate::outcome::Before;
use crate::{
    Contenders, Detector, End, Fault, Invariant, Latency, Multicast, Observer, Outcome, Plan, World,
    invariants, order,
};

/// A run described as data. The algorithm and its options come separately, so that the same scenario
/// can be put to all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The group, in ring order.
    pub roster: Roster,
    /// The network in which its members find each other, as far as a flag gave it to `roster`.
    pub links: Links,
    /// How good a leader each would be.
    pub ranking: Ranking,
    /// How likely one process knows another.
    pub view_prob: f64,
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// How long messages take.
    pub latency: Latency,
    /// How likely a message is lost.
    pub loss: f64,
    /// How likely an addressee misses a multicast, if that differs.
    pub multicast_loss: Option<f64>,
    /// How likely a message is doubled.
    pub duplicate: f64,
    /// How much clocks run fast or slow, as a fraction.
    pub drift: f64,
    /// What processes take to be the longest delay; otherwise, the latency's bound.
    pub delay_bound: Option<Span>,
    /// How processes learn of failures.
    pub detector: Detector,
    /// How multicasts reach them.
    pub multicast: Multicast,
    /// Slots that are dead from the start.
    pub crashed: Vec<usize>,
    /// How likely each of the others dies by itself.
    pub fail: f64,
    /// By when it does, at a moment left to chance; if that is zero, before the start.
    pub fail_within: Span,
    /// Slots that call an election at time zero.
    pub initiators: Vec<usize>,
    /// How many others do, whom chance chooses.
    pub contenders: Option<Contenders>,
    /// What goes wrong, and when.
    pub plan: Plan,
    /// What the application asks of whom, by slot, and when.
    pub commands: Vec<(Time, usize, Command)>,
    /// When the run is over, if it does not fall quiet before.
    pub until: Option<Time>,
    /// How many events are put up with; more of them are a broken promise.
    pub limit: Option<u64>,
    /// For how long all must have believed in a leader before it must not be replaced while it is well; none
    /// if nobody looks at that.
    pub stable: Option<Span>,
    /// Whether the bytes of messages are counted.
    pub weigh: bool,
    /// From when on the outcome's [`window`](Outcome::window) is measured.
    pub window: Option<Time>,
}

/// Where attributes come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ranking {
    /// The highest id is the best.
    #[default]
    Id,
    /// The lowest id is the best.
    LowestId,
    /// Chance decides, by the seed of the run.
    Random,
    /// The highest id is the best until it crashes: fewer crashes come first.
    Quality,
    /// Some are given attributes; those of the others are their ids.
    Listed(Vec<(NodeId, Attribute)>),
}

impl Scenario {
    /// A group in a flawless network with one time unit per message, nobody calling yet.
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
            weigh: false,
            window: None,
        }
    }

    /// When the run is over at the latest: as set, or long after the last fault.
    pub fn horizon(&self) -> Time {
        let end = |(at, fault): &(Time, Fault)| match fault {
            Fault::Pause(_, until) => *until,
            _ => *at,
        };
        let commands = self.commands.iter().map(|(at, ..)| *at);
        let failed = (self.fail > 0.0).then_some(Time::ZERO + self.fail_within);
        let last = self.plan.iter().map(end).chain(commands).chain(failed).max().unwrap_or(Time::ZERO);
        let bound = self.delay_bound.unwrap_or(self.latency.bound());
        let noticed = self.detector.patience(bound);
        self.until.unwrap_or(last + noticed + bound * (1_000 + 20 * self.roster.len() as u64))
    }

    /// The group with its attributes.
    fn ranked(&self) -> Roster {
        let mut roster = self.roster.clone().named(election::Hash::new(self.seed).word(6));
        if self.view_prob < 1.0 {
            roster = roster.acquainted(election::Hash::new(self.seed).word(4), self.view_prob);
        }
        match &self.ranking {
            Ranking::Id | Ranking::Quality => {}
            Ranking::LowestId => roster = roster.lowest_first(),
            Ranking::Random => {
                let mut rng = Rng::new(election::Hash::new(self.seed).word(3));
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

    /// What stands in front of the algorithm in this scenario; none if nothing does.
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

    /// The world of this scenario, before anything has happened, with the algorithm's promises as
    /// invariants. The processes are the algorithm's: for what [`stack`](Scenario::stack) puts in front
    /// of it, make the world of a [`Stack`].
    pub fn world<A: Algorithm + 'static>(&self, options: &A::Options) -> World<A> {
        let shared = options.clone();
        let mut world = World::new(self.ranked(), self.seed, self.latency, move |id| A::new(id, &shared));
        (1..A::elections(options)).for_each(|_| world.add_election(self.promises::<A>(options)));
        world.set_limit(self.limit.unwrap_or(u64::MAX));
        world.set_loss(self.loss);
        world.set_duplicate(self.duplicate);
        world.set_drift(self.drift);
        if let Some(bound) = self.delay_bound {
            world.set_delay_bound(bound);
        }
        if self.weigh {
            world.weigh();
        }
        if self.ranking == Ranking::Quality {
            world.count_failures();
        }
        world.set_detector(self.detector);
        match (self.multicast, self.multicast_loss) {
            (Multicast::Ideal(reached), _) => world.set_multicast_loss(1.0 - reached),
            (_, Some(loss)) => world.set_multicast_loss(loss),
            _ => {}
        }
        self.crashed.iter().for_each(|&slot| world.kill(slot));
        self.fail(&mut world);
        let contenders = self.contenders.map_or(Vec::new(), |contenders| {
            let live = |slot: &usize| world.facts().is_up(*slot) && !self.initiators.contains(slot);
            contenders.draw(self.seed, (0..self.roster.len()).filter(live).collect())
        });
        let callers = self.initiators.iter().chain(&contenders);
        callers.for_each(|&slot| world.command(Time::ZERO, slot, Command::Campaign));
        let (mut plan, mut commands) = (self.plan.clone(), self.commands.clone());
        order(&mut plan);
        commands.sort();
        plan.into_iter().for_each(|(at, fault)| world.schedule_fault(at, fault));
        commands.into_iter().for_each(|(at, slot, command)| world.command(at, slot, command));
        let members = 0..self.roster.len();
        let may_lead = |slot: usize| world.process(slot).may_lead() && A::may_stand(options, slot);
        world.set_ineligible(members.filter(|&slot| !may_lead(slot)).collect());
        for invariant in self.promises::<A>(options) {
            world.check(invariant);
        }
        world
    }

    /// What must hold in each election.
    fn promises<A: Algorithm>(&self, options: &A::Options) -> Vec<Box<dyn Invariant>> {
        let mut promises = invariants::of_contract(&A::CONTRACT, A::electorate(options));
        if let Some(settling) = self.stable {
            // Where a term is a token, it is to stay as well.
            let tokens = A::CONTRACT.safety == Safety::AtMostOne;
            let of = if tokens { Stability::of_terms_after } else { Stability::after };
            promises.push(Box::new(of(settling)));
        }
        promises
    }

    /// Has chance decide who dies by itself, and when.
    fn fail<A: Algorithm>(&self, world: &mut World<A>) {
        if self.fail == 0.0 {
            return;
        }
        let mut rng = Rng::new(election::Hash::new(self.seed).word(5));
        let mut spared = self.crashed.clone();
        spared.sort_unstable();
        for slot in 0..self.roster.len() {
            if spared.binary_search(&slot).is_ok() || !rng.chance(self.fail) {
                continue;
            }
            match self.fail_within.as_nanos() {
                0 => world.kill(slot),
                within => world.schedule_fault(Time::from_nanos(1 + rng.below(within)), Fault::Crash(slot)),
            }
        }
    }

    /// Runs the scenario: the algorithm by itself, or behind the detector and the multicast it asks for.
    pub fn run<A: Algorithm + 'static>(&self, options: &A::Options) -> Outcome {
        match self.stack(options) {
            None => self.conclude(self.world::<A>(options), options),
            Some(options) => self.conclude(self.world::<Stack<A>>(&options), &options),
        }
    }

    /// Runs the scenario while somebody watches.
    pub fn run_observed<A: Algorithm + 'static>(
        &self,
        options: &A::Options,
        observer: Box<dyn Observer>,
    ) -> Outcome {
        match self.stack(options) {
            None => self.conclude_observed(self.world::<A>(options), options, observer),
            Some(options) => self.conclude_observed(self.world::<Stack<A>>(&options), &options, observer),
        }
    }

    fn conclude_observed<A: Algorithm>(
        &self,
        mut world: World<A>,
        options: &A::Options,
        observer: Box<dyn Observer>,
    ) -> Outcome {
        world.set_observer(observer);
        self.conclude(world, options)
    }

    fn conclude<A: Algorithm + 'static>(&self, mut world: World<A>, options: &A::Options) -> Outcome {
        let horizon = self.horizon();
        let before = self.window.map(|from| Before::of(&mut world, from));
        let end = world.run(horizon);
        match self.limit {
            Some(limit) if end == End::Runaway => world.record_violation(
                "bounded-work",
                format!(
                    "more than {limit} events by then, and {} still to come",
                    world.environment.queue.len()
                ),
            ),
            _ => world.finish(),
        }
        Outcome::of(&world, options, self.seed, end, horizon, before)
    }
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
            assert_eq!(scenario.horizon(), horizon.parse().unwrap(), "it waits for {detector}");
        }
        scenario.until = Some("7".parse().unwrap());
        assert_eq!(scenario.horizon(), "7".parse().unwrap());
    }
}
