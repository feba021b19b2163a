//! The behaviours that every client has.
//!
//! No behaviour measures time: it waits for events, and compares moments of the machine's clock that the drivers print.

mod faults;
mod local;
mod remote;

use crate::driver::DriverProgram;

/// A behaviour: a function that panics if the client behaves otherwise.
pub(crate) type Behaviour = fn(&DriverProgram);

/// A lease that neither ends nor is renewed while a behaviour waits: the next leader got the lease by a hand-over.
pub(crate) const LONG_MS: u64 = 180_000;
/// A lease that ends while a behaviour waits.
pub(crate) const SHORT_MS: u64 = 1_500;

/// All behaviours. The longest are the first.
pub(crate) const ALL: &[(&str, Behaviour)] = &[
    ("thousand_elections", remote::thousand_elections),
    ("local_thousand_elections", local::thousand_elections),
    ("silent_endpoint", faults::silent_endpoint),
    ("no_majority", faults::no_majority),
    ("node_killed_under_the_leader", faults::node_killed_under_the_leader),
    ("node_killed_under_a_waiter", faults::node_killed_under_a_waiter),
    ("answers_held_back", faults::answers_held_back),
    ("first_answer_held_back", faults::first_answer_held_back),
    ("client_killed", faults::client_killed),
    ("client_suspended", faults::client_suspended),
    ("local_node_killed", local::node_killed),
    ("local_client_suspended", local::client_suspended),
    ("lead_and_resign", remote::lead_and_resign),
    ("hand_over_to_the_next", remote::hand_over_to_the_next),
    ("cancelled_while_waiting", remote::cancelled_while_waiting),
    ("one_leadership_at_a_time", remote::one_leadership_at_a_time),
    ("operator_resigns", remote::operator_resigns),
    ("token_and_tls", remote::token_and_tls),
    ("refused_for_good", remote::refused_for_good),
    ("local_lead_and_resign", local::lead_and_resign),
    ("local_client_killed", local::client_killed),
    ("local_operator_resigns", local::operator_resigns),
    ("fence", remote::fence),
];
