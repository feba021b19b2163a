//! The trials in which all algorithms are compared.
//!
//! A trial is data: the faults, and the start of the clock. The number of processes and a seed decide a run of it. The
//! algorithm decides only which process a crash of the leader hits. Faults begin after a warm-up, in which algorithms
//! elect a leader.

use suffrage_core::{Contract, Detection, NodeId, Rng, Roster, Span, Time};

use crate::{AgreementPeriod, Cut, Detector, Fault, Latency, Outcome, Plan, Scenario, Traffic};

/// A trial that runs with every algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Its name on the command line.
    pub name: &'static str,
    /// The faults, as a sentence.
    pub description: &'static str,
    /// The start of the time to a new leader, as the end of "Time counts from …".
    pub clock_start: &'static str,
    /// The share of messages that is lost, all the time. If it is not zero, algorithms have the settings that their
    /// contracts name for loss.
    pub loss: f64,
    /// Draws the faults. The first time is that of the first fault, the second the start of the clock.
    faults: fn(&mut TrialDraw) -> (Time, Time, Plan),
}

/// One run of a trial: its scenario, and the start of its clock.
#[derive(Clone, Debug)]
pub struct TrialRun {
    /// The scenario. Its window begins with the first fault.
    pub scenario: Scenario,
    /// The start of the time to a new leader.
    pub clock_start: Time,
}

/// All trials, in the order of reports.
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
        description: "All processes start at time 0, and each calls an election.",
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
        description: "Five times, the leader of the moment crashes, and recovers later with its disk.",
        clock_start: "the last recovery; everything else from the first crash",
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

    /// The settings of an algorithm in this trial: parameters and their values.
    pub fn settings(&self, contract: &Contract) -> &'static [(&'static str, &'static str)] {
        if self.loss > 0.0 { contract.under_loss } else { &[] }
    }

    /// Draws the trial's run of this seed. The detector is for algorithms that do not detect the failure of a leader
    /// themselves.
    ///
    /// # Panics
    /// If there are fewer than two processes.
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
    /// The time from the start of the clock to the agreement that lasts to the end of the run; none if the run ends
    /// without agreement.
    pub fn time_to_leader(&self, outcome: &Outcome) -> Option<f64> {
        let last = outcome.agreements.last().filter(|agreement| agreement.to.is_none())?;
        Some(last.from.since(self.clock_start).as_units())
    }

    /// The time from the start of the clock to the first agreement on a live leader, and the traffic from the first
    /// fault to that moment; none if there was no agreement.
    pub fn first_agreement(&self, outcome: &Outcome) -> Option<(f64, Traffic)> {
        let lasts = |agreement: &&AgreementPeriod| agreement.to.is_none_or(|to| to > self.clock_start);
        let first = outcome.agreements.iter().find(lasts)?;
        // An agreement from before the clock start that goes on takes neither time nor messages.
        let wait = first.from.since(self.clock_start).as_units();
        let before = outcome.window.map_or(Traffic::default(), |window| window.before);
        Some((wait, if first.from < self.clock_start { Traffic::default() } else { first.sent - before }))
    }
}

/// The random decisions of a run.
struct TrialDraw {
    rng: Rng,
    nodes: usize,
}

impl TrialDraw {
    /// All processes, in a random ring order.
    fn roster(&mut self) -> Roster {
        let mut ids: Vec<NodeId> = (1..=self.nodes as u64).map(NodeId).collect();
        self.rng.shuffle(&mut ids);
        Roster::listed(ids).expect("numbers do not repeat")
    }

    fn units(&self, fixed: u64, per_process: u64) -> Span {
        Span::UNIT * (fixed + per_process * self.nodes as u64)
    }

    /// The end of the warm-up, in which a token goes around a ring several times even if it is lost now and then. The
    /// end varies by up to 20 time units, so that faults hit periodic behaviour in any phase.
    fn warm_up_end(&mut self) -> Time {
        Time::ZERO + self.units(100, 10) + (Span::UNIT * 20).scale(self.rng.unit())
    }

    /// Long enough for any algorithm to find a leader, if it ever does.
    fn settling_time(&self) -> Span {
        self.units(500, 20)
    }

    /// A random span from half of `span` to all of it.
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
        // Long enough for detection and a new election.
        let span = draw.units(100, 4);
        let back = now + draw.half_to_all_of(span);
        plan.push((back, Fault::RecoverLeader { disk: true }));
        now = back + draw.half_to_all_of(span);
    }
    let last = plan.last().expect("the last fault is a recovery").0;
    (begin, last, plan)
}
