//! The behaviours that every client has.
//!
//! No behaviour measures time: it waits for events, and compares moments of the machine's clock that the drivers print.

mod examples;
mod faults;
mod local;
mod remote;
mod values;

use crate::driver::DriverProgram;

/// A behaviour.
pub(crate) struct Behaviour {
    pub(crate) name: &'static str,
    /// Panics if the client behaves otherwise.
    pub(crate) run: fn(&DriverProgram),
    /// Whether it loads the machine: not more than two such behaviours run at a time.
    pub(crate) is_heavy: bool,
    /// The example that it runs. It is a behaviour of clients that have this example.
    pub(crate) example: Option<&'static str>,
}

impl Behaviour {
    /// Whether clients with this driver have this behaviour.
    pub(crate) fn is_of(&self, driver: &DriverProgram) -> bool {
        self.example.is_none_or(|example| driver.example(example).is_some())
    }
}

const fn light(name: &'static str, run: fn(&DriverProgram)) -> Behaviour {
    Behaviour { name, run, is_heavy: false, example: None }
}

const fn heavy(name: &'static str, run: fn(&DriverProgram)) -> Behaviour {
    Behaviour { name, run, is_heavy: true, example: None }
}

const fn example(name: &'static str, run: fn(&DriverProgram)) -> Behaviour {
    Behaviour { name, run, is_heavy: false, example: Some(name) }
}

/// A lease that neither ends nor is renewed while a behaviour waits: the next leader got the lease by a hand-over.
pub(crate) const LONG_MS: u64 = 180_000;
/// A lease that ends while a behaviour waits.
pub(crate) const SHORT_MS: u64 = 1_500;

/// All behaviours. The longest are the first.
pub(crate) const ALL: &[Behaviour] = &[
    heavy("thousand_elections", remote::thousand_elections),
    heavy("local_thousand_elections", local::thousand_elections),
    light("silent_endpoint", faults::silent_endpoint),
    light("no_majority", faults::no_majority),
    light("node_killed_under_the_leader", faults::node_killed_under_the_leader),
    light("node_killed_under_a_waiter", faults::node_killed_under_a_waiter),
    light("answers_held_back", faults::answers_held_back),
    light("first_answer_held_back", faults::first_answer_held_back),
    light("client_killed", faults::client_killed),
    light("client_suspended", faults::client_suspended),
    light("local_node_killed", local::node_killed),
    light("local_client_suspended", local::client_suspended),
    light("lead_and_resign", remote::lead_and_resign),
    light("hand_over_to_the_next", remote::hand_over_to_the_next),
    light("cancelled_while_waiting", remote::cancelled_while_waiting),
    light("one_leadership_at_a_time", remote::one_leadership_at_a_time),
    light("operator_resigns", remote::operator_resigns),
    light("token_and_tls", remote::token_and_tls),
    light("refused_for_good", remote::refused_for_good),
    light("local_lead_and_resign", local::lead_and_resign),
    light("local_client_killed", local::client_killed),
    light("local_operator_resigns", local::operator_resigns),
    light("fence", remote::fence),
    light("values", values::remote),
    light("local_values", values::local),
    example("fenced_postgres", examples::fenced_postgres),
    example("fenced_s3", examples::fenced_s3),
    example("fenced_file", examples::fenced_file),
];
