//! What can be set about the invitation algorithm.

use suffrage_core::parameters;
use suffrage_core::{BadParameter, Parameter};

/// Whom the leader of a new group invites first; it goes on in ring order from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum First {
    /// A random peer, so that leaders do not follow in each other's steps.
    Anybody,
    /// The next one on the ring.
    Successor,
}

/// The options of the algorithm; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// How often the best-ranked leader looks for others; the worst-ranked, half as often.
    pub look: u64,
    /// How many peers a leader invites when it looks; twice as many each time nobody answers.
    pub fanout: usize,
    /// Whom the leader of a new group invites first.
    pub first: First,
    /// How long to wait for `Ready`: more than a round trip.
    pub ready_timeout: u64,
    /// How often a follower asks whether its leader is there.
    pub ask: u64,
    /// How long one that does not answer, or does not ask, is taken to be there.
    pub silence: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { look: 10, fanout: 1, first: First::Anybody, ready_timeout: 3, ask: 8, silence: 24 }
    }
}

impl Options {
    pub(super) fn check(&self) -> Result<(), BadParameter> {
        let least = self.ask + 3;
        if self.silence >= least {
            return Ok(());
        }
        let reason = format!("a follower would give its leader up before it can answer; at least {least}");
        Err(BadParameter { name: "silence", reason })
    }
}

pub(super) const PARAMETERS: &[Parameter<Options>] = &[
    parameters::delays_parameter!(
        "look",
        look,
        "How often the best-ranked leader looks for others, and the worst-ranked half as often"
    ),
    Parameter {
        name: "fanout",
        value: "PEERS",
        help: "How many peers a leader invites when it looks, twice as many each time nobody answers",
        set: |options, text| match parameters::count(text)? {
            0 => Err("a leader that invites nobody stays alone; it takes at least 1".to_string()),
            fanout => {
                options.fanout = fanout;
                Ok(())
            }
        },
        show: |options| options.fanout.to_string(),
    },
    Parameter {
        name: "first",
        value: "anybody|successor",
        help: "Whom the leader of a new group invites first; it goes on in ring order from there",
        set: |options, text| {
            options.first = match text {
                "anybody" => First::Anybody,
                "successor" => First::Successor,
                _ => return Err(format!("`{text}` is not whom to invite; it is anybody or successor")),
            };
            Ok(())
        },
        show: |options| match options.first {
            First::Anybody => "anybody".to_string(),
            First::Successor => "successor".to_string(),
        },
    },
    parameters::delays_parameter!(
        "ready-timeout",
        ready_timeout,
        "How long one that accepted waits to be let in: more than a round trip"
    ),
    parameters::delays_parameter!("ask", ask, "How often a follower asks whether its leader is there"),
    parameters::delays_parameter!(
        "silence",
        silence,
        "How long one that neither asks nor answers is taken to be there: \
             longer than `ask` and a round trip"
    ),
];
