//! The parameters of the algorithm, as on a command line.

use suffrage_core::Parameter;
use suffrage_core::parameters;

use super::{MAX_CONNECTIONS, MAX_NAMES, Options};
use suffrage_lease::Bug;
use suffrage_lease::MAX_VOTERS;

/// All parameters.
pub(super) const PARAMETERS: &[Parameter<Options>] = &[
    Parameter {
        name: "voters",
        value: "COUNT",
        help: "How many of the members vote: the first so many, or all if there are fewer",
        set: |options, text| match text.parse() {
            Ok(voters @ 1..=MAX_VOTERS) => {
                options.voters = voters;
                Ok(())
            }
            _ => Err(format!("`{text}` is not a number of voters (1 to {MAX_VOTERS})")),
        },
        show: |options| options.voters.to_string(),
    },
    Parameter {
        name: "candidates",
        value: "COUNT|all",
        help: "How many members stand besides the voters, who then do not; or all members stand",
        set: |options, text| match (text, text.parse()) {
            ("all", _) => {
                options.candidates = None;
                Ok(())
            }
            (_, Ok(count @ 1..)) => {
                options.candidates = Some(count);
                Ok(())
            }
            _ => Err(format!("`{text}` is not a number of candidates from 1 on, nor `all`")),
        },
        show: |options| options.candidates.map_or("all".to_string(), |count| count.to_string()),
    },
    Parameter {
        name: "names",
        value: "COUNT",
        help: "How many elections there are at the same time; what is told is about the first, and promises \
               are checked of each",
        set: |options, text| match text.parse() {
            Ok(names @ 1..=MAX_NAMES) => {
                options.names = names;
                Ok(())
            }
            _ => Err(format!("`{text}` is not a number of elections (1 to {MAX_NAMES})")),
        },
        show: |options| options.names.to_string(),
    },
    Parameter {
        name: "clients",
        value: "COUNT",
        help: "How many members, the last ones, lead through the others by sessions, as HTTP clients do",
        set: |options, text| match text.parse() {
            Ok(clients) => {
                options.clients = clients;
                Ok(())
            }
            Err(_) => Err(format!("`{text}` is not a number of clients")),
        },
        show: |options| options.clients.to_string(),
    },
    Parameter {
        name: "connections",
        value: "COUNT",
        help: "How many processes of each member lead through it by connection, in each election; every member \
               is a machine with a node then",
        set: |options, text| match text.parse() {
            Ok(connections @ 0..=MAX_CONNECTIONS) => {
                options.connections = connections;
                Ok(())
            }
            _ => Err(format!("`{text}` is not a number of connections (0 to {MAX_CONNECTIONS})")),
        },
        show: |options| options.connections.to_string(),
    },
    parameters::delays_parameter!("ttl", ttl, "How long a lease is"),
    Parameter {
        name: "renew",
        value: "DELAYS|auto",
        help: "How often the leader renews its lease, in message delays; or three times a lease, with all other \
               timings as on the wire",
        set: |options, text| match (text, text.parse()) {
            ("auto", _) => {
                options.renew = None;
                Ok(())
            }
            (_, Ok(delays @ 1..)) => {
                options.renew = Some(delays);
                Ok(())
            }
            _ => Err(format!("`{text}` is not a number of message delays from 1 on, nor `auto`")),
        },
        show: |options| options.renew.map_or("auto".to_string(), |renew| renew.to_string()),
    },
    Parameter {
        name: "drift-bound",
        value: "DRIFT",
        help: "How much clocks run fast or slow at most, like 1% or 100ppm: a leader takes its lease for that much shorter",
        set: |options, text| text.parse().map(|drift| options.drift = drift),
        show: |options| options.drift.to_string(),
    },
    Parameter {
        name: "failback",
        value: "DELAYS|off",
        help: "How long a better candidate must have stood before it asks the leader to hand over, in \
               message delays",
        set: |options, text| parameters::optional_delays(text).map(|it| options.failback = it),
        show: |options| parameters::show_optional(options.failback),
    },
    Parameter {
        name: "stop-margin",
        value: "DELAYS",
        help: "How long the work of a leader needs to stop, in message delays: a leader that hands over waits for as \
               long; applications of nodes only, not clients",
        set: |options, text| match text.parse() {
            Ok(delays) => {
                options.stop_margin = delays;
                Ok(())
            }
            Err(_) => Err(format!("`{text}` is not a number of message delays")),
        },
        show: |options| options.stop_margin.to_string(),
    },
    Parameter {
        name: "changes",
        value: "on|off",
        help: "Whether a torture changes the voters: it adds and removes members, also two at a time",
        set: |options, text| match text {
            "on" | "off" => {
                options.changes = text == "on";
                Ok(())
            }
            _ => Err(format!("`{text}` is neither on nor off")),
        },
        show: |options| if options.changes { "on" } else { "off" }.to_string(),
    },
    Parameter {
        name: "known-voters",
        value: "COUNT|all",
        help: "How many of the voters a node knows that is no voter when it starts: it asks them for the others",
        set: |options, text| match (text, text.parse()) {
            ("all", _) => {
                options.known = None;
                Ok(())
            }
            (_, Ok(count @ 1..)) => {
                options.known = Some(count);
                Ok(())
            }
            _ => Err(format!("`{text}` is not a number of voters from 1 on, nor `all`")),
        },
        show: |options| options.known.map_or("all".to_string(), |count| count.to_string()),
    },
    Parameter {
        name: "bug",
        value: "NAME|none",
        help: "A deliberate mistake, to show that the checker finds it: skip-silence, \
               validity-from-reply, equal-tokens, forget-ceiling, bump-while-held, trust-empty-disk, \
               ignore-pin, revive-lease, drop-wake-up, session-validity-from-reply, revoke-at-once, \
               shared-lease, undo-after-reply, skip-pin, ignore-boot, skip-drain, change-while-silent, drop-grants, \
               old-version-votes, mix-versions, forget-floor, blind-coordinator, reply-before-save, \
               skip-notice, lengthen-after-notice, release-when-broken, deadline-beyond-lease, ignore-slew, \
               keep-dead-holder, endless-turn, stale-value or ignore-value-change",
        set: |options, text| {
            let bug = Bug::ALL.iter().find(|(name, _)| *name == text).map(|(_, bug)| *bug);
            match (bug, text) {
                (None, "none") | (Some(_), _) => options.bug = bug,
                (None, _) => return Err(format!("`{text}` is not the name of a bug, nor `none`")),
            }
            Ok(())
        },
        show: |options| {
            let name = Bug::ALL.iter().find(|(_, bug)| Some(*bug) == options.bug);
            name.map_or("none", |(name, _)| name).to_string()
        },
    },
];
