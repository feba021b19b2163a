//! An algorithm: a process with a contract and options.

use std::fmt;

use crate::{Contract, Electorate, Figure, Member, NodeId, Process, Rng, Roster, Span, Time};

/// A [`Process`] that elects a leader, with its contract and its options. An algorithm is plain data: a driver may
/// run it on any thread.
pub trait Algorithm:
    Process<Message: Send + Sync, Timer: Send + Sync, Saved: Send + Sync> + Send + Sync + 'static
{
    /// The assumptions, promises and costs.
    const CONTRACT: Contract;

    /// The settings of the algorithm.
    type Options: Clone + Default + fmt::Debug + Send + Sync + 'static;

    /// One entry per option, for command lines, configuration files and help texts.
    const PARAMETERS: &'static [Parameter<Self::Options>];

    /// Settings that exercise more of the algorithm than the defaults do. Torture draws one of them for each run.
    const VARIANTS: &'static [Settings] = &[];

    /// Sets the parameter called `name`. The error says what is wrong with the value.
    ///
    /// # Panics
    /// If the algorithm has no parameter of that name.
    fn set(options: &mut Self::Options, name: &str, value: &str) -> Result<(), BadParameter> {
        let parameter = Self::PARAMETERS.iter().find(|parameter| parameter.name == name);
        let parameter =
            parameter.unwrap_or_else(|| panic!("{} has no parameter {name}", Self::CONTRACT.name));
        (parameter.set)(options, value).map_err(|reason| BadParameter { name: parameter.name, reason })
    }

    /// The process of member `me`.
    fn new(me: NodeId, options: &Self::Options) -> Self;

    /// Returns whether this process is eligible for leadership.
    fn may_lead(&self) -> bool {
        true
    }

    /// Returns whether the member in this slot is eligible for leadership, with these options.
    fn slot_may_lead(options: &Self::Options, slot: usize) -> bool {
        let _ = (options, slot);
        true
    }

    /// The number of members that these options require. `None` means any number.
    fn members(options: &Self::Options) -> Option<usize> {
        let _ = options;
        None
    }

    /// The number of independent elections that every process takes part in, with these options.
    fn elections(options: &Self::Options) -> usize {
        let _ = options;
        1
    }

    /// The members that must be alive and connected for an election to succeed, with these options.
    fn electorate(options: &Self::Options) -> Electorate {
        let _ = options;
        Self::CONTRACT.electorate
    }

    /// The assumptions of an algorithm that leads by leases, with these options. `None` for an algorithm without
    /// leases.
    fn leases(options: &Self::Options) -> Option<Leases> {
        let _ = options;
        None
    }

    /// True if clients of a leader may rely on its lease after the leader has crashed, in this election. Then no
    /// process, not even the same one after a restart, leads before that lease is over.
    fn lease_outlives_crash(options: &Self::Options, election: usize) -> bool {
        let _ = (options, election);
        false
    }

    /// Draws commands of this algorithm for a torture: time, slot, command. When the faults end, no drawn command keeps
    /// a process from leading any more.
    fn draw_commands(
        options: &Self::Options,
        storm: &mut CommandStorm<'_>,
    ) -> Vec<(Time, usize, Self::Command)> {
        let _ = (options, storm);
        Vec::new()
    }

    /// The metrics of one run that only this algorithm has, computed from the final state of its processes. The
    /// metrics that all algorithms share are measured elsewhere.
    fn figures(options: &Self::Options, members: &mut dyn Iterator<Item = Member<'_, Self>>) -> Vec<Figure> {
        let _ = (options, members);
        Vec::new()
    }

    /// The promise that only this algorithm makes and that its processes have broken, if there is one, at the end of a run
    /// with this bound on message delay. Two members are connected if messages between them pass in both directions.
    fn broken_promise(
        options: &Self::Options,
        members: &mut dyn Iterator<Item = Member<'_, Self>>,
        delay: Span,
        connected: &dyn Fn(NodeId, NodeId) -> bool,
    ) -> Option<String> {
        let _ = (options, members, delay, connected);
        None
    }

    /// Rejects options that do not fit the group.
    fn check(options: &Self::Options, roster: &Roster) -> Result<(), BadParameter> {
        let _ = (options, roster);
        Ok(())
    }

    /// Rejects options that do not fit this bound on the message delay.
    fn check_delay_bound(options: &Self::Options, bound: Span) -> Result<(), BadParameter> {
        let _ = (options, bound);
        Ok(())
    }
}

/// Parameters of an algorithm, each with its value.
pub type Settings = &'static [(&'static str, &'static str)];

/// Assumptions of an algorithm that leads by leases. Its safety rests on clocks that run at about the same rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leases {
    /// The length of a lease, in message delays.
    pub length: u64,
    /// The bound on clock drift, as a fraction: no clock runs faster or slower by more.
    pub drift: f64,
    /// The longest round trip with which a leader is still elected and kept, in message delays. The delay bound may be
    /// too small by that much.
    pub round_trip: u64,
    /// The time after the last fault within which every process knows a leader, in message delays.
    pub recovery: u64,
    /// The longest duration of a hand-over to a better-ranked candidate, in message delays. Zero if no leader hands
    /// over on its own.
    pub handover: u64,
    /// True if a torture changes the voters: then every process is up at the end and has its disk, and no clock jumps.
    pub changes_voters: bool,
    /// True if a healthy leader keeps its leadership, even if a better-ranked candidate appears.
    pub stable: bool,
    /// The command, as text, that makes a leader keep its leadership even if `stable` is false.
    pub pin: Option<&'static str>,
}

/// The part of a torture for which an algorithm draws commands.
#[derive(Debug)]
pub struct CommandStorm<'o> {
    /// The random numbers to draw from.
    pub rng: &'o mut Rng,
    /// The group.
    pub roster: &'o Roster,
    /// The delay bound that processes are told.
    pub delay: Span,
    /// The time at which all faults end.
    pub end: Time,
    /// The median delay of a message, as long as no fault slows messages.
    pub latency: Span,
    /// Faults that the algorithm adds at certain moments of its commands.
    pub disruptions: Vec<(Time, Disruption)>,
    /// Set by the algorithm if the run has no other faults and no other commands: its own depend on each other.
    pub alone: bool,
}

/// A fault that an algorithm draws together with its commands. Processes are named by slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disruption {
    /// A process is paused.
    Pause {
        /// The process.
        slot: usize,
        /// The end of the pause.
        until: Time,
    },
    /// A process crashes and recovers.
    Restart {
        /// The process.
        slot: usize,
        /// The time of the recovery.
        back: Time,
        /// True if its disk survives.
        disk: bool,
    },
    /// A process crashes in the middle of an input, and recovers.
    CrashMidway {
        /// The process.
        slot: usize,
        /// The number of effects before the crash.
        effects: u32,
        /// The time of the recovery.
        back: Time,
    },
    /// Processes are separated from all others.
    Separate {
        /// The processes.
        slots: Vec<usize>,
        /// The end of the separation.
        until: Time,
        /// True if only messages of the others are lost.
        one_way: bool,
    },
}

/// One option of an algorithm: its name, its values, and the functions that parse and print it.
pub struct Parameter<O: 'static> {
    /// The name on the command line, without dashes.
    pub name: &'static str,
    /// The placeholder of the value in help texts.
    pub value: &'static str,
    /// The effect of the option, for help texts.
    pub help: &'static str,
    /// Parses a value into the options. The error says what is wrong with the value.
    pub set: fn(&mut O, &str) -> Result<(), String>,
    /// Prints the current value.
    pub show: fn(&O) -> String,
}

/// The placeholder of a [`Parameter`] that is `on` or `off`. The parameter without a value means `on`.
pub const SWITCH: &str = "on|off";

/// An invalid value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadParameter {
    /// The parameter's name.
    pub name: &'static str,
    /// The reason, as the end of a sentence that begins with the name.
    pub reason: String,
}

/// An operation on an algorithm whose type is selected by name at run time.
pub trait Visitor {
    /// The result of the operation.
    type Output;

    /// Runs the operation on the algorithm `A`.
    fn visit<A: Algorithm>(self) -> Self::Output;
}

/// Defines a catalog of algorithms: their contracts, and a dispatch by name. Programs that compile a lot of code per
/// algorithm define a catalog of only the algorithms they need.
#[macro_export]
macro_rules! catalog {
    ($($algorithm:ty),* $(,)?) => {
        /// The contracts of all algorithms of this catalog, in display order.
        pub const CONTRACTS: &[$crate::Contract] = &[$(<$algorithm as $crate::Algorithm>::CONTRACT),*];

        /// Runs the visitor on the algorithm called `name`. Returns `None` if the catalog has no such algorithm.
        pub fn visit<V: $crate::Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(if name == <$algorithm as $crate::Algorithm>::CONTRACT.name {
                return Some(visitor.visit::<$algorithm>());
            })*
            None
        }
    };
}
