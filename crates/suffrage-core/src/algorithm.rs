//! An algorithm: a process with a contract and options.

use std::fmt;

use crate::{Contract, Electorate, Figure, Member, NodeId, Process, Rng, Roster, Span, Time};

/// A [`Process`] that elects a leader, with its contract and its options. It is plain data, and whoever runs it
/// may do so on any thread.
pub trait Algorithm:
    Process<Message: Send + Sync, Timer: Send + Sync, Saved: Send + Sync> + Send + Sync + 'static
{
    /// What it assumes, promises and costs.
    const CONTRACT: Contract;

    /// What can be set about it.
    type Options: Clone + Default + fmt::Debug + Send + Sync + 'static;

    /// The options one by one, for command lines, configuration files and help texts.
    const PARAMETERS: &'static [Parameter<Self::Options>];

    /// Ways to set it that show more of it than the defaults alone: a torture draws one for each run.
    const VARIANTS: &'static [Settings] = &[];

    /// Sets the parameter of that name; the error says what is wrong with the value.
    ///
    /// # Panics
    /// If there is no such parameter.
    fn set(options: &mut Self::Options, name: &str, value: &str) -> Result<(), BadParameter> {
        let parameter = Self::PARAMETERS.iter().find(|parameter| parameter.name == name);
        let parameter =
            parameter.unwrap_or_else(|| panic!("{} has no parameter {name}", Self::CONTRACT.name));
        (parameter.set)(options, value).map_err(|reason| BadParameter { name: parameter.name, reason })
    }

    /// The process of member `me`.
    fn new(me: NodeId, options: &Self::Options) -> Self;

    /// Whether this process may be elected at all.
    fn may_lead(&self) -> bool {
        true
    }

    /// Whether the member in this slot may be elected at all, with these options.
    fn may_stand(options: &Self::Options, slot: usize) -> bool {
        let _ = (options, slot);
        true
    }

    /// How many members there are with these options; none if there may be any number.
    fn members(options: &Self::Options) -> Option<usize> {
        let _ = options;
        None
    }

    /// How many independent elections every process takes part in, with these options.
    fn elections(options: &Self::Options) -> usize {
        let _ = options;
        1
    }

    /// Who must be there for anybody to be elected, with these options.
    fn electorate(options: &Self::Options) -> Electorate {
        let _ = options;
        Self::CONTRACT.electorate
    }

    /// What it counts on if it leads by leases, with these options; none if it does not.
    fn leases(options: &Self::Options) -> Option<Leases> {
        let _ = options;
        None
    }

    /// Whether clients of a leader may count on its lease though it has crashed, in this election: then nobody, not even
    /// the same member, leads before that lease is over.
    fn outlives(options: &Self::Options, election: usize) -> bool {
        let _ = (options, election);
        false
    }

    /// Draws what applications do to members in a torture, besides what every algorithm knows: when, to whom by slot,
    /// and what. At the end of it nothing of that keeps anybody from leading.
    fn draw_commands(
        options: &Self::Options,
        occasion: &mut Occasion<'_>,
    ) -> Vec<(Time, usize, Self::Command)> {
        let _ = (options, occasion);
        Vec::new()
    }

    /// What a run is measured by besides what every algorithm is, from its processes as they are left.
    fn figures(options: &Self::Options, members: &mut dyn Iterator<Item = Member<'_, Self>>) -> Vec<Figure> {
        let _ = (options, members);
        Vec::new()
    }

    /// Refuses options that do not fit the group.
    fn check(options: &Self::Options, roster: &Roster) -> Result<(), BadParameter> {
        let _ = (options, roster);
        Ok(())
    }
}

/// Parameters of an algorithm and their values.
pub type Settings = &'static [(&'static str, &'static str)];

/// What an algorithm counts on that leads by leases: clocks that run at about the same rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leases {
    /// How long a lease is, in message delays.
    pub length: u64,
    /// How much clocks run fast or slow at most, as a fraction.
    pub drift: f64,
    /// How many message delays a message and its answer may take, and somebody still leads: the delay bound may be that
    /// much too small.
    pub round_trip: u64,
    /// Within how many message delays after the last fault everybody knows a leader.
    pub healed: u64,
    /// Whether a leader stays for as long as it is well, whoever wants its place.
    pub stable: bool,
    /// The command by which a leader stays even if it would not, in the text form.
    pub pin: Option<&'static str>,
}

/// What there is to draw commands for.
#[derive(Debug)]
pub struct Occasion<'o> {
    /// The source of chance.
    pub rng: &'o mut Rng,
    /// The group.
    pub roster: &'o Roster,
    /// What processes take for the longest delay of a message.
    pub delay: Span,
    /// When the storm is over.
    pub end: Time,
}

/// One option of an algorithm: its name, what it takes, and how it is read and shown.
pub struct Parameter<O: 'static> {
    /// As on the command line, without dashes.
    pub name: &'static str,
    /// What its value is called in help texts.
    pub value: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Reads a value; the error says what is wrong with it.
    pub set: fn(&mut O, &str) -> Result<(), String>,
    /// Shows the value.
    pub show: fn(&O) -> String,
}

/// What the value of a [`Parameter`] is called that is `on` or `off`. Named without a value, it is on.
pub const SWITCH: &str = "on|off";

/// An option that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadParameter {
    /// The parameter's name.
    pub name: &'static str,
    /// What is wrong, as the end of a sentence.
    pub reason: String,
}

/// Something to be done with an algorithm whose type is known only by its name.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<A: Algorithm>(self) -> Self::Output;
}

/// Makes a catalog of algorithms: their contracts, and a way to each by its name. For programs that compile
/// something large for every algorithm, and not for all of them.
#[macro_export]
macro_rules! catalog {
    ($($algorithm:ty),* $(,)?) => {
        /// The contracts of all these algorithms, in the order people are shown them.
        pub const CONTRACTS: &[$crate::Contract] = &[$(<$algorithm as $crate::Algorithm>::CONTRACT),*];

        /// Hands the algorithm of that name to the visitor; none if there is no such name.
        pub fn visit<V: $crate::Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(if name == <$algorithm as $crate::Algorithm>::CONTRACT.name {
                return Some(visitor.visit::<$algorithm>());
            })*
            None
        }
    };
}
