//! The strategy, the readings and the time-outs of the probabilistic election.

use std::sync::Arc;

use suffrage_core::parameters;
use suffrage_core::{Parameter, Rng, SWITCH, Span, View};

/// What a member takes for `N_i` in the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Estimate {
    /// The size of the group, which "can be achieved by gossiping this number".
    True,
    /// The size of its view over the probability of being in it.
    Scaled,
    /// The size of its view, as printed.
    View,
}

/// What a member does that has heard no final choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnSilence {
    /// Re-initiates after a random delay, unless somebody else does before.
    Delay,
    /// Re-initiates at once.
    Always,
    /// Re-initiates at once if it passes the filter, and never otherwise.
    Hash,
    /// Nothing.
    Never,
}

/// What a member does that has heard of several final choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnConflict {
    /// Re-initiates at once if it passes the filter, and never otherwise.
    Hash,
    /// Re-initiates after a random delay, unless somebody else does before.
    Delay,
}

/// The `K` of the last round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LastK {
    /// N: everybody relays.
    All,
    /// Grown like the others.
    Growth,
}

/// The options of the algorithm; times in message delays. All members must use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// K in the first round: about how many members relay.
    pub first_k: u32,
    /// What K is multiplied by from one round to the next.
    pub growth: u32,
    /// After how many rounds the election is given up.
    pub max_rounds: u8,
    /// K in the last round, if that is not the first.
    pub last_k: LastK,
    /// What is taken for the size of the group.
    pub n_estimate: Estimate,
    /// What is done about hearing no final choice.
    pub on_silence: OnSilence,
    /// What is done about hearing of several.
    pub on_conflict: OnConflict,
    /// Whether a better choice is sent back to the one it came from, too.
    pub relay_back: bool,
    /// Whether members know that an election is due without having heard of it.
    pub all_know: bool,
    /// How long a choice takes to get round the relay members; if none, 3K/2.
    pub relay_timeout: Option<u64>,
    /// How long a multicast takes: Time_Out_3.
    pub multicast_timeout: u64,
    /// How long a random delay is at most.
    pub window: u64,
}

impl Default for Options {
    /// The strategy of section 5.
    fn default() -> Options {
        Options {
            first_k: super::FIRST_K as u32,
            growth: 2,
            max_rounds: 5,
            last_k: LastK::All,
            n_estimate: Estimate::True,
            on_silence: OnSilence::Delay,
            on_conflict: OnConflict::Hash,
            relay_back: false,
            all_know: false,
            relay_timeout: None,
            multicast_timeout: 2,
            window: 10,
        }
    }
}

impl Options {
    /// K in a round, for a group of `members`: at most all of them.
    pub fn k(&self, round: u8, members: usize) -> u64 {
        let members = members as u64;
        if round > 1 && round >= self.max_rounds && self.last_k == LastK::All {
            return members;
        }
        let growth = u64::from(self.growth).saturating_pow(u32::from(round.saturating_sub(1)));
        u64::from(self.first_k).saturating_mul(growth).min(members)
    }

    /// Time_Out_1, in message delays: the Relay phase of those who hear of the round last, and a multicast.
    pub fn time_out_1(&self, k: u64) -> u64 {
        self.time_out_2(k) + 2 * self.time_out_3()
    }

    /// Time_Out_2, in message delays: "the product of (3K/2) (the maximum length of any path in a relay
    /// graph with 3K/2 members) and the maximum propagation and processing delay", after all have heard
    /// of the round.
    pub fn time_out_2(&self, k: u64) -> u64 {
        self.relay_timeout.unwrap_or((3 * k).div_ceil(2)) + self.time_out_3()
    }

    /// Time_Out_3, in message delays: "the worst case time for delivery of a mcast message".
    pub fn time_out_3(&self) -> u64 {
        self.multicast_timeout
    }

    /// How long a member that has heard of one choice waits for somebody who objects: who may have heard of
    /// the round later, may draw a long delay, and then multicasts.
    pub fn objection(&self) -> u64 {
        let draws = self.on_silence == OnSilence::Delay || self.on_conflict == OnConflict::Delay;
        2 * self.time_out_3() + if draws { self.window } else { 0 }
    }

    /// A random delay for one of possibly all members: exponential towards the end of the window, so that
    /// about the window-th root of their number wake within one message delay of the first, however many
    /// there are (Nonnenmacher and Biersack 1999). Spread evenly, all of a million would speak.
    pub(super) fn delay(&self, delay_bound: Span, members: usize, rng: &mut Rng) -> Span {
        let share = match members {
            0 | 1 => 0.0,
            _ => 1.0 + libm::log(1.0 - rng.unit()) / libm::log(members as f64),
        };
        (delay_bound * self.window).scale(share.max(0.0))
    }

    /// What a member takes for the size of the group.
    pub(super) fn members(&self, view: View<'_>) -> f64 {
        match self.n_estimate {
            Estimate::True => view.group_len() as f64,
            Estimate::Scaled => view.len() as f64 / view.view_probability(),
            Estimate::View => view.len() as f64,
        }
    }

    /// Whether `hash * N_i < k`, a hash being in 0..1. To count a view takes long and every member asks this:
    /// it is counted only as far as it takes to know that it is too large.
    pub(super) fn passes(&self, view: View<'_>, hash: f64, k: u64) -> bool {
        let (k, share) = match self.n_estimate {
            Estimate::True => return hash * (view.group_len() as f64) < k as f64,
            Estimate::Scaled => (k as f64, view.view_probability()),
            Estimate::View => (k as f64, 1.0),
        };
        let too_many = |known: usize| hash * (known as f64 / share) >= k;
        if !too_many(view.group_len()) {
            return true;
        }
        let mut known = 0;
        !view.iter().any(|_| {
            known += 1;
            too_many(known)
        })
    }
}

/// A parameter that is a field of the options, which members share.
macro_rules! parameter {
    ($name:literal, $field:ident, $value:expr, $help:literal, $read:expr, $show:expr) => {
        Parameter {
            name: $name,
            value: $value,
            help: $help,
            set: |options, text| $read(text).map(|it| Arc::make_mut(options).$field = it),
            show: |options| $show(options.$field),
        }
    };
}

/// One that takes one of several words.
macro_rules! choice {
    ($name:literal, $field:ident, $value:literal, $help:literal, $($word:literal => $variant:path),+) => {
        parameter!(
            $name, $field, $value, $help,
            |text| match text {
                $($word => Ok($variant),)+
                _ => Err(format!("`{text}` is not one of {}", $value)),
            },
            |chosen| match chosen {
                $($variant => $word.to_string(),)+
            }
        )
    };
}

/// A whole number from 1 to a bound.
fn positive(text: &str, most: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a whole number from 1 to {most}"))
}

/// More rounds than any strategy has: rounds are remembered by bits of a word.
const MOST_ROUNDS: u32 = 31;

fn shown<T: ToString>(value: T) -> String {
    value.to_string()
}

fn on_or_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_string()
}

fn delays_or_auto(text: &str) -> Result<Option<u64>, String> {
    if text == "auto" { Ok(None) } else { parameters::delays(text).map(Some) }
}

pub(super) const PARAMETERS: &[Parameter<Arc<Options>>] = &[
    parameter!(
        "first-k",
        first_k,
        "K",
        "About how many members relay in the first round",
        |text| positive(text, 1_000_000),
        shown
    ),
    parameter!(
        "growth",
        growth,
        "FACTOR",
        "What K is multiplied by from one round to the next",
        |text| positive(text, 1_000),
        shown
    ),
    parameter!(
        "max-rounds",
        max_rounds,
        "ROUNDS",
        "After how many rounds the election is given up",
        |text| positive(text, MOST_ROUNDS).map(|rounds| rounds as u8),
        shown
    ),
    choice!(
        "last-k", last_k, "all|growth",
        "K in the last round, if that is not the first: the whole group, or grown like the others",
        "all" => LastK::All, "growth" => LastK::Growth
    ),
    choice!(
        "n-estimate", n_estimate, "true|scaled|view",
        "What a member takes for the size of the group: that, the size of its view over the probability of \
         being in it, or the size of its view",
        "true" => Estimate::True, "scaled" => Estimate::Scaled, "view" => Estimate::View
    ),
    choice!(
        "on-silence", on_silence, "delay|always|hash|never",
        "When a member that heard no final choice re-initiates: after a random delay unless another does, \
         at once, at once if it passes the filter, or never",
        "delay" => OnSilence::Delay, "always" => OnSilence::Always, "hash" => OnSilence::Hash,
        "never" => OnSilence::Never
    ),
    choice!(
        "on-conflict", on_conflict, "hash|delay",
        "When a member that heard of several final choices re-initiates: at once if it passes the filter, or \
         after a random delay unless another does",
        "hash" => OnConflict::Hash, "delay" => OnConflict::Delay
    ),
    parameter!(
        "relay-back",
        relay_back,
        SWITCH,
        "Whether a better choice is sent back to the one it came from, too, as printed",
        parameters::switch,
        on_or_off
    ),
    parameter!(
        "all-know",
        all_know,
        SWITCH,
        "Whether members know from the start that an election is due, and miss one they have not heard of",
        parameters::switch,
        on_or_off
    ),
    parameter!(
        "relay-timeout",
        relay_timeout,
        "DELAYS|auto",
        "How long a choice takes to get round the relay members, in message delays (auto: 3K/2)",
        delays_or_auto,
        |delays: Option<u64>| delays.map_or("auto".to_string(), shown)
    ),
    parameter!(
        "multicast-timeout",
        multicast_timeout,
        "DELAYS",
        "How long a multicast takes at most, in message delays: longer than a message, and with \
         --multicast bimodal:F,R at least 4 R",
        parameters::delays,
        shown
    ),
    parameter!(
        "window",
        window,
        "DELAYS",
        "How long the random delay before a re-initiation is at most, in message delays",
        parameters::delays,
        shown
    ),
];
