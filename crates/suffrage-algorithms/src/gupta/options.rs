//! The strategy, the interpretations and the time-outs of the probabilistic election.

use std::sync::Arc;

use suffrage_core::parameters;
use suffrage_core::{Parameter, Rng, SWITCH, Span, View};

/// The value of `N_i` in the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Estimate {
    /// The size of the group, which "can be achieved by gossiping this number".
    True,
    /// The size of the member's view divided by the probability of being in it.
    Scaled,
    /// The size of the member's view, as published.
    View,
}

/// The reaction of a member without a final choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnSilence {
    /// Re-initiates after a random delay, unless another member does before.
    Delay,
    /// Re-initiates at once.
    Always,
    /// Re-initiates at once if it passes the filter, and never otherwise.
    Hash,
    /// Does not re-initiate.
    Never,
}

/// The reaction of a member with several final choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnConflict {
    /// Re-initiates at once if it passes the filter, and never otherwise.
    Hash,
    /// Re-initiates after a random delay, unless another member does before.
    Delay,
}

/// The `K` of the last round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LastK {
    /// N: all members relay.
    All,
    /// The value from the growth factor, as in the other rounds.
    Growth,
}

/// The options of the algorithm; times in message delays. All members must use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// K in the first round: the approximate number of relay members.
    pub first_k: u32,
    /// The growth factor of K from one round to the next.
    pub growth: u32,
    /// The number of rounds after which the election is aborted.
    pub max_rounds: u8,
    /// K in the last round, if that is not the first.
    pub last_k: LastK,
    /// The estimate of the size of the group.
    pub n_estimate: Estimate,
    /// The reaction to a missing final choice.
    pub on_silence: OnSilence,
    /// The reaction to several final choices.
    pub on_conflict: OnConflict,
    /// True if a better choice is also sent back to its sender.
    pub relay_back: bool,
    /// True if members know that an election is due without any message.
    pub all_know: bool,
    /// The time in which a choice reaches all relay members; 3K/2 if `None`.
    pub relay_timeout: Option<u64>,
    /// The maximum time of a multicast: Time_Out_3.
    pub multicast_timeout: u64,
    /// The maximum of random delays.
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

    /// Time_Out_1, in message delays: the Relay phase of the members that receive the round last, and a multicast.
    pub fn time_out_1(&self, k: u64) -> u64 {
        self.time_out_2(k) + 2 * self.time_out_3()
    }

    /// Time_Out_2, in message delays: "the product of (3K/2) (the maximum length of any path in a relay graph with
    /// 3K/2 members) and the maximum propagation and processing delay", after all members have received the round.
    pub fn time_out_2(&self, k: u64) -> u64 {
        self.relay_timeout.unwrap_or((3 * k).div_ceil(2)) + self.time_out_3()
    }

    /// Time_Out_3, in message delays: "the worst case time for delivery of a mcast message".
    pub fn time_out_3(&self) -> u64 {
        self.multicast_timeout
    }

    /// The time that a member with one choice waits for objections. A member that objects may have received the
    /// round later, may draw a long delay, and then multicasts.
    pub fn objection_timeout(&self) -> u64 {
        let draws = self.on_silence == OnSilence::Delay || self.on_conflict == OnConflict::Delay;
        2 * self.time_out_3() + if draws { self.window } else { 0 }
    }

    /// A random delay for one of possibly all members. The distribution is exponential towards the end of the
    /// window: about the window-th root of the number of members wake within one message delay of the first, however
    /// many there are (Nonnenmacher and Biersack 1999). With a uniform distribution, far too many of a million
    /// members would multicast.
    pub(super) fn delay(&self, delay_bound: Span, members: usize, rng: &mut Rng) -> Span {
        let share = match members {
            0 | 1 => 0.0,
            _ => 1.0 + libm::log(1.0 - rng.unit()) / libm::log(members as f64),
        };
        (delay_bound * self.window).scale(share.max(0.0))
    }

    /// The estimate of the size of the group.
    pub(super) fn members(&self, view: View<'_>) -> f64 {
        match self.n_estimate {
            Estimate::True => view.group_len() as f64,
            Estimate::Scaled => view.len() as f64 / view.view_probability(),
            Estimate::View => view.len() as f64,
        }
    }

    /// Returns whether `hash * N_i < k`, with a hash in 0..1. Counting a view is slow and every member calls this
    /// function: the count stops as soon as the view is known to be too large.
    pub(super) fn passes_filter(&self, view: View<'_>, hash: f64, k: u64) -> bool {
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

/// A parameter that is a field of the shared options.
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

/// A parameter with one of several words as its value.
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

/// Parses a whole number from 1 to `most`.
fn positive(text: &str, most: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a whole number from 1 to {most}"))
}

/// The maximum number of rounds: rounds are stored as bits of a word.
const MAX_ROUNDS: u32 = 31;

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
        "Approximate number of relay members in the first round",
        |text| positive(text, 1_000_000),
        shown
    ),
    parameter!(
        "growth",
        growth,
        "FACTOR",
        "Growth factor of K from one round to the next",
        |text| positive(text, 1_000),
        shown
    ),
    parameter!(
        "max-rounds",
        max_rounds,
        "ROUNDS",
        "Number of rounds after which the election is aborted",
        |text| positive(text, MAX_ROUNDS).map(|rounds| rounds as u8),
        shown
    ),
    choice!(
        "last-k", last_k, "all|growth",
        "K in the last round, if that is not the first: the size of the group, or from the growth factor",
        "all" => LastK::All, "growth" => LastK::Growth
    ),
    choice!(
        "n-estimate", n_estimate, "true|scaled|view",
        "Estimate of the size of the group: the true size, the size of the view divided by the probability of \
         being in it, or the size of the view",
        "true" => Estimate::True, "scaled" => Estimate::Scaled, "view" => Estimate::View
    ),
    choice!(
        "on-silence", on_silence, "delay|always|hash|never",
        "Re-initiation by a member without a final choice: after a random delay unless another does, \
         at once, at once if it passes the filter, or never",
        "delay" => OnSilence::Delay, "always" => OnSilence::Always, "hash" => OnSilence::Hash,
        "never" => OnSilence::Never
    ),
    choice!(
        "on-conflict", on_conflict, "hash|delay",
        "Re-initiation by a member with several final choices: at once if it passes the filter, or \
         after a random delay unless another does",
        "hash" => OnConflict::Hash, "delay" => OnConflict::Delay
    ),
    parameter!(
        "relay-back",
        relay_back,
        SWITCH,
        "Send a better choice back to its sender, too, as published",
        parameters::switch,
        on_or_off
    ),
    parameter!(
        "all-know",
        all_know,
        SWITCH,
        "Members know from the start that an election is due, and notice if they miss it",
        parameters::switch,
        on_or_off
    ),
    parameter!(
        "relay-timeout",
        relay_timeout,
        "DELAYS|auto",
        "Time in which a choice reaches all relay members, in message delays (auto: 3K/2)",
        delays_or_auto,
        |delays: Option<u64>| delays.map_or("auto".to_string(), shown)
    ),
    parameter!(
        "multicast-timeout",
        multicast_timeout,
        "DELAYS",
        "Maximum time of a multicast, in message delays: more than a message, and with \
         --multicast bimodal:F,R at least 4 R",
        parameters::delays,
        shown
    ),
    parameter!(
        "window",
        window,
        "DELAYS",
        "Maximum of the random delay before a re-initiation, in message delays",
        parameters::delays,
        shown
    ),
];
