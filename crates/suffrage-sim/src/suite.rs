//! The trials that all algorithms are put to, so that they can be compared.
//!
//! A trial is data: what happens, and from when on time counts. A run of it is decided by the number of
//! processes and a seed, and not by the algorithm, but for whom a crash of the leader hits. So that
//! algorithms have a leader before it is taken from them, trouble comes only after a while.

use suffrage_core::{Contract, Detection, NodeId, Rng, Roster, Span, Time};

use crate::{Accord, Cut, Detector, Fault, Latency, Outcome, Plan, Scenario, Traffic};

/// A trial that all algorithms are put to.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Its name on the command line.
    pub name: &'static str,
    /// What happens.
    pub story: &'static str,
    /// From when the time to a new leader counts, as the end of "Time counts from …".
    pub clock: &'static str,
    /// The share of messages that is lost, all the time. Where it is not zero, algorithms are set as
    /// their contracts say for that.
    pub loss: f64,
    /// What goes wrong. The first moment is when trouble begins, the second when the clock starts.
    trouble: fn(&mut Chance) -> (Time, Time, Plan),
}

/// One run of a trial: its scenario, and when its clock starts.
#[derive(Clone, Debug)]
pub struct TrialRun {
    /// The scenario. Its window opens when trouble begins.
    pub scenario: Scenario,
    /// When the time to a new leader begins to count.
    pub clock: Time,
}

/// All trials, in the order people are shown them.
pub const TRIALS: &[Trial] = &[
    Trial {
        name: "leader-crash",
        story: "The leader crashes and stays dead.",
        clock: "the crash",
        loss: 0.0,
        trouble: leader_crash,
    },
    Trial {
        name: "cold-start",
        story: "All start at time 0, and every one of them calls an election.",
        clock: "the start",
        loss: 0.0,
        trouble: |_| (Time::ZERO, Time::ZERO, Plan::new()),
    },
    Trial {
        name: "partition-heal",
        story: "The network is cut in two, 40% of the processes on one side, and healed later.",
        clock: "the healing; everything else from the cut",
        loss: 0.0,
        trouble: partition_heal,
    },
    Trial {
        name: "flapping-leader",
        story: "Five times, whoever leads crashes, and comes back a while later with its disk.",
        clock: "the last return; everything else from the first crash",
        loss: 0.0,
        trouble: flapping_leader,
    },
    Trial {
        name: "lossy",
        story: "One message in five is lost, all the time; the leader crashes and stays dead.",
        clock: "the crash",
        loss: 0.2,
        trouble: leader_crash,
    },
];

impl Trial {
    /// The trial of that name.
    pub fn named(name: &str) -> Option<&'static Trial> {
        TRIALS.iter().find(|trial| trial.name == name)
    }

    /// What is to be set about an algorithm in this trial: parameters and their values.
    pub fn settings(&self, contract: &Contract) -> &'static [(&'static str, &'static str)] {
        if self.loss > 0.0 { contract.under_loss } else { &[] }
    }

    /// Draws the trial's run of this seed. The detector is for those algorithms that do
    /// not find out by themselves that the leader has failed.
    ///
    /// # Panics
    /// If there are fewer than two processes: there would be nobody to lead.
    pub fn draw(&self, contract: &Contract, nodes: usize, seed: u64, detector: Detector) -> TrialRun {
        assert!(nodes >= 2, "a trial needs two processes");
        let mut chance = Chance { rng: Rng::new(suffrage_core::Hash::new(seed).word(4)), nodes };
        let roster = chance.roster();
        let (trouble, clock, plan) = (self.trouble)(&mut chance);
        let scenario = Scenario {
            seed,
            latency: Latency::Uniform(Span::from_nanos(Span::UNIT.as_nanos() / 2), Span::UNIT),
            loss: self.loss,
            detector: match contract.detection {
                Detection::Detector => detector,
                Detection::Timeout => Detector::None,
            },
            initiators: (0..nodes).collect(),
            plan,
            until: Some(clock + chance.long()),
            weigh: true,
            window: Some(trouble),
            ..Scenario::new(roster)
        };
        TrialRun { scenario, clock }
    }
}

impl TrialRun {
    /// The time from the start of the clock until all had settled on the leader that they agree on at
    /// the end; none if they do not agree.
    pub fn time_to_leader(&self, outcome: &Outcome) -> Option<f64> {
        let last = outcome.accords.last().filter(|accord| accord.to.is_none())?;
        Some(last.from.since(self.clock).as_units())
    }

    /// The time from the start of the clock until all agreed on a live leader for the first time, be it
    /// not for long, and what was sent from the first trouble to then; none if they never did.
    pub fn first_accord(&self, outcome: &Outcome) -> Option<(f64, Traffic)> {
        let lasts = |accord: &&Accord| accord.to.is_none_or(|to| to > self.clock);
        let first = outcome.accords.iter().find(lasts)?;
        // Those who agreed already, and went on, needed neither time nor messages.
        let wait = first.from.since(self.clock).as_units();
        let before = outcome.window.map_or(Traffic::default(), |window| window.before);
        Some((wait, if first.from < self.clock { Traffic::default() } else { first.sent - before }))
    }
}

/// What the seed decides about a run.
struct Chance {
    rng: Rng,
    nodes: usize,
}

impl Chance {
    /// Everybody, in a random order, which is that of the ring.
    fn roster(&mut self) -> Roster {
        let mut ids: Vec<NodeId> = (1..=self.nodes as u64).map(NodeId).collect();
        self.rng.shuffle(&mut ids);
        Roster::listed(ids).expect("numbers do not repeat")
    }

    fn units(&self, fixed: u64, per_process: u64) -> Span {
        Span::UNIT * (fixed + per_process * self.nodes as u64)
    }

    /// The end of the warm-up, in which a token of a ring goes around several times even if it is lost
    /// now and then. A few units earlier or later, so that what is periodic is met in any phase.
    fn warm(&mut self) -> Time {
        Time::ZERO + self.units(100, 10) + (Span::UNIT * 20).scale(self.rng.unit())
    }

    /// Long enough for any algorithm to find a leader, if it ever does.
    fn long(&self) -> Span {
        self.units(500, 20)
    }

    /// From half of the span to all of it.
    fn some(&mut self, span: Span) -> Span {
        span.scale(0.5 + 0.5 * self.rng.unit())
    }
}

fn leader_crash(chance: &mut Chance) -> (Time, Time, Plan) {
    let crash = chance.warm();
    (crash, crash, vec![(crash, Fault::CrashLeader)])
}

fn partition_heal(chance: &mut Chance) -> (Time, Time, Plan) {
    let cut = chance.warm();
    // Long enough for a leader on each side.
    let span = chance.units(50, 10);
    let healed = cut + chance.some(span);
    let mut slots: Vec<usize> = (0..chance.nodes).collect();
    chance.rng.shuffle(&mut slots);
    let fewer = (2 * chance.nodes / 5).max(1);
    let sides = [slots[..fewer].to_vec(), slots[fewer..].to_vec()];
    let plan = vec![(cut, Fault::Cut(0, Cut::new(chance.nodes, &sides, false))), (healed, Fault::Heal(0))];
    (cut, healed, plan)
}

fn flapping_leader(chance: &mut Chance) -> (Time, Time, Plan) {
    let begin = chance.warm();
    let mut plan = Plan::new();
    let mut now = begin;
    for _ in 0..5 {
        plan.push((now, Fault::CrashLeader));
        // Long enough to be missed and replaced.
        let span = chance.units(100, 4);
        let back = now + chance.some(span);
        plan.push((back, Fault::RecoverLeader { disk: true }));
        now = back + chance.some(span);
    }
    let last = plan.last().expect("it comes back").0;
    (begin, last, plan)
}
