//! The trials that all algorithms are put to, so that they can be compared.
//!
//! A trial is data: what happens, and from when on time counts. A run of it is decided by the number of
//! processes and a seed, and not by the algorithm, but for whom a crash of the leader hits. So that
//! algorithms have a leader before it is taken from them, trouble comes only after a while.

use suffrage_core::{Contract, Detection, NodeId, Rng, Roster, Span, Time};

use crate::{AgreementPeriod, Cut, Detector, Fault, Latency, Outcome, Plan, Scenario, Traffic};

/// A trial that all algorithms are put to.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Its name on the command line.
    pub name: &'static str,
    /// What happens.
    pub description: &'static str,
    /// From when the time to a new leader counts, as the end of "Time counts from …".
    pub clock_start: &'static str,
    /// The share of messages that is lost, all the time. Where it is not zero, algorithms are set as
    /// their contracts say for that.
    pub loss: f64,
    /// What goes wrong. The first moment is when trouble begins, the second when the clock starts.
    faults: fn(&mut TrialDraw) -> (Time, Time, Plan),
}

/// One run of a trial: its scenario, and when its clock starts.
#[derive(Clone, Debug)]
pub struct TrialRun {
    /// The scenario. Its window opens when trouble begins.
    pub scenario: Scenario,
    /// When the time to a new leader begins to count.
    pub clock_start: Time,
}

/// All trials, in the order people are shown them.
pub const TRIALS: &[Trial] = &[
    Trial {
        name: "leader-crash",
        description: "The leader crashes and stays dead.",
        clock_start: "the crash",
        loss: 0.0,
        faults: leader_crash,
    },
    Trial {
        name: "cold-start",
        description: "All start at time 0, and every one of them calls an election.",
        clock_start: "the start",
        loss: 0.0,
        faults: |_| (Time::ZERO, Time::ZERO, Plan::new()),
    },
    Trial {
        name: "partition-heal",
        description: "The network is cut in two, 40% of the processes on one side, and healed later.",
        clock_start: "the healing; everything else from the cut",
        loss: 0.0,
        faults: partition_heal,
    },
    Trial {
        name: "flapping-leader",
        description: "Five times, whoever leads crashes, and comes back a while later with its disk.",
        clock_start: "the last return; everything else from the first crash",
        loss: 0.0,
        faults: flapping_leader,
    },
    Trial {
        name: "lossy",
        description: "One message in five is lost, all the time; the leader crashes and stays dead.",
        clock_start: "the crash",
        loss: 0.2,
        faults: leader_crash,
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
        let mut draw = TrialDraw { rng: Rng::new(suffrage_core::Hash::new(seed).word(4)), nodes };
        let roster = draw.roster();
        let (faults, clock_start, plan) = (self.faults)(&mut draw);
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
            until: Some(clock_start + draw.settling_time()),
            count_bytes: true,
            window: Some(faults),
            ..Scenario::new(roster)
        };
        TrialRun { scenario, clock_start }
    }
}

impl TrialRun {
    /// The time from the start of the clock until all had settled on the leader that they agree on at
    /// the end; none if they do not agree.
    pub fn time_to_leader(&self, outcome: &Outcome) -> Option<f64> {
        let last = outcome.agreements.last().filter(|agreement| agreement.to.is_none())?;
        Some(last.from.since(self.clock_start).as_units())
    }

    /// The time from the start of the clock until all agreed on a live leader for the first time, be it
    /// not for long, and what was sent from the first trouble to then; none if they never did.
    pub fn first_agreement(&self, outcome: &Outcome) -> Option<(f64, Traffic)> {
        let lasts = |agreement: &&AgreementPeriod| agreement.to.is_none_or(|to| to > self.clock_start);
        let first = outcome.agreements.iter().find(lasts)?;
        // Those who agreed already, and went on, needed neither time nor messages.
        let wait = first.from.since(self.clock_start).as_units();
        let before = outcome.window.map_or(Traffic::default(), |window| window.before);
        Some((wait, if first.from < self.clock_start { Traffic::default() } else { first.sent - before }))
    }
}

/// What the seed decides about a run.
struct TrialDraw {
    rng: Rng,
    nodes: usize,
}

impl TrialDraw {
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
    fn warm_up_end(&mut self) -> Time {
        Time::ZERO + self.units(100, 10) + (Span::UNIT * 20).scale(self.rng.unit())
    }

    /// Long enough for any algorithm to find a leader, if it ever does.
    fn settling_time(&self) -> Span {
        self.units(500, 20)
    }

    /// From half of the span to all of it.
    fn half_to_all_of(&mut self, span: Span) -> Span {
        span.scale(0.5 + 0.5 * self.rng.unit())
    }
}

fn leader_crash(draw: &mut TrialDraw) -> (Time, Time, Plan) {
    let crash = draw.warm_up_end();
    (crash, crash, vec![(crash, Fault::CrashLeader)])
}

fn partition_heal(draw: &mut TrialDraw) -> (Time, Time, Plan) {
    let cut = draw.warm_up_end();
    // Long enough for a leader on each side.
    let span = draw.units(50, 10);
    let healed = cut + draw.half_to_all_of(span);
    let mut slots: Vec<usize> = (0..draw.nodes).collect();
    draw.rng.shuffle(&mut slots);
    let fewer = (2 * draw.nodes / 5).max(1);
    let sides = [slots[..fewer].to_vec(), slots[fewer..].to_vec()];
    let plan = vec![(cut, Fault::Cut(0, Cut::new(draw.nodes, &sides, false))), (healed, Fault::Heal(0))];
    (cut, healed, plan)
}

fn flapping_leader(draw: &mut TrialDraw) -> (Time, Time, Plan) {
    let begin = draw.warm_up_end();
    let mut plan = Plan::new();
    let mut now = begin;
    for _ in 0..5 {
        plan.push((now, Fault::CrashLeader));
        // Long enough to be missed and replaced.
        let span = draw.units(100, 4);
        let back = now + draw.half_to_all_of(span);
        plan.push((back, Fault::RecoverLeader { disk: true }));
        now = back + draw.half_to_all_of(span);
    }
    let last = plan.last().expect("it comes back").0;
    (begin, last, plan)
}
