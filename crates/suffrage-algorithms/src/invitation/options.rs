//! Options of the invitation algorithm.

use suffrage_core::parameters;
use suffrage_core::{BadParameter, Parameter};

/// The first invited peer of a new group's leader. The leader continues in ring order from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum First {
    /// A random peer, so that leaders do not all invite the same peers.
    Anybody,
    /// The successor on the ring.
    Successor,
}

/// The options of the algorithm; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The period at which the best-ranked leader looks for others; up to twice as long for the worst-ranked.
    pub look: u64,
    /// The number of peers that a leader invites per look. The number doubles each time no peer answers.
    pub fanout: usize,
    /// The first invited peer of a new group's leader.
    pub first: First,
    /// The time to wait for `Ready`: more than a round trip.
    pub ready_timeout: u64,
    /// The period at which a follower asks whether its leader is alive.
    pub ask: u64,
    /// The time without an answer or a question after which a process is taken for failed.
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
        let reason = format!(
            "must be at least {least}: a follower would leave its leader before the leader can answer"
        );
        Err(BadParameter { name: "silence", reason })
    }
}

pub(super) const PARAMETERS: &[Parameter<Options>] = &[
    parameters::delays_parameter!(
        "look",
        look,
        "Period at which the best-ranked leader looks for others; up to twice as long for the worst-ranked"
    ),
    Parameter {
        name: "fanout",
        value: "PEERS",
        help: "Number of peers that a leader invites per look; doubles each time no peer answers",
        set: |options, text| match parameters::count(text)? {
            0 => Err("must be at least 1: a leader that invites no peer stays alone".to_string()),
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
        help: "First peer that the leader of a new group invites; the leader continues in ring order from there",
        set: |options, text| {
            options.first = match text {
                "anybody" => First::Anybody,
                "successor" => First::Successor,
                _ => return Err(format!("`{text}` is neither `anybody` nor `successor`")),
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
        "Time to wait for Ready after an Accept: more than a round trip"
    ),
    parameters::delays_parameter!("ask", ask, "Period at which a follower asks whether its leader is alive"),
    parameters::delays_parameter!(
        "silence",
        silence,
        "Time without a question or an answer after which a process is taken for failed: \
             more than `ask` and a round trip"
    ),
];
