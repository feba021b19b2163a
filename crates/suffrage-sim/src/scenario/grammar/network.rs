//! The network, the clocks, the failure detector and the multicast.

use std::fmt;
use std::str::FromStr;

use suffrage_core::{Span, parameters};

use super::values::{self, set, show};
use super::{Flag, FlagError, Section};
use crate::{Detector, Latency, Multicast, Scenario};

/// The values of the flags of the network, the clocks, the failure detector and the multicast.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkSpec {
    /// The delay of messages.
    pub latency: Latency,
    /// The delay bound that processes assume.
    pub delay_bound: Option<Span>,
    /// The probability that a message is lost.
    pub loss: f64,
    /// The probability that a message to a single process is lost, if it differs.
    pub ucast_loss: Option<f64>,
    /// The probability that an addressee misses a multicast, if it differs.
    pub mcast_loss: Option<f64>,
    /// The probability that a message arrives twice.
    pub duplicate: f64,
    /// The fraction by which clocks run fast or slow.
    pub drift: f64,
    /// The failure detector.
    pub detector: Detector,
    /// The multicast.
    pub multicast: Multicast,
}

impl Default for NetworkSpec {
    fn default() -> NetworkSpec {
        NetworkSpec {
            latency: Latency::Const(Span::UNIT),
            delay_bound: None,
            loss: 0.0,
            ucast_loss: None,
            mcast_loss: None,
            duplicate: 0.0,
            drift: 0.0,
            detector: Detector::None,
            multicast: Multicast::Broadcast,
        }
    }
}

pub(super) const SECTION: Section = Section {
    heading: "Network, clocks, failure detector and multicast",
    flags: &[
        Flag {
            name: "latency",
            value: "LATENCY",
            help: "The delay of messages, in time units: const:1, uniform:0.5,1.5, exp:1 (mean) or \
                   lognormal:1,0.5 (median, spread)",
            parse_value: |spec, text| set(&mut spec.network.latency, text.parse::<Latency>()),
            print_values: |spec| show([&spec.network.latency]),
            ..Flag::NEW
        },
        Flag {
            name: "delay-bound",
            value: "TIME",
            help: "The delay bound that processes assume [default: the bound of --latency, or what 999 of 1000 messages keep to]",
            parse_value: |spec, text| set(&mut spec.network.delay_bound, text.parse::<Span>()),
            print_values: |spec| show(&spec.network.delay_bound),
            ..Flag::NEW
        },
        Flag {
            name: "loss",
            value: "PROBABILITY",
            help: "The probability that a message is lost",
            parse_value: |spec, text| set(&mut spec.network.loss, values::probability(text)),
            print_values: |spec| show([&spec.network.loss]),
            ..Flag::NEW
        },
        Flag {
            name: "ucast-loss",
            value: "PROBABILITY",
            help: "The probability that a message to a single process is lost, if it differs from --loss",
            conflicts: &["loss"],
            parse_value: |spec, text| set(&mut spec.network.ucast_loss, values::probability(text)),
            print_values: |spec| show(&spec.network.ucast_loss),
            ..Flag::NEW
        },
        Flag {
            name: "mcast-loss",
            value: "PROBABILITY",
            help: "The probability that an addressee misses a multicast, if it differs from --loss",
            parse_value: |spec, text| set(&mut spec.network.mcast_loss, values::probability(text)),
            print_values: |spec| show(&spec.network.mcast_loss),
            ..Flag::NEW
        },
        Flag {
            name: "duplicate",
            value: "PROBABILITY",
            help: "The probability that a message arrives twice",
            parse_value: |spec, text| set(&mut spec.network.duplicate, values::probability(text)),
            print_values: |spec| show([&spec.network.duplicate]),
            ..Flag::NEW
        },
        Flag {
            name: "drift",
            value: "DRIFT",
            help: "The greatest deviation of a clock's rate, like 1% or 100ppm",
            parse_value: |spec, text| set(&mut spec.network.drift, values::drift(text)),
            print_values: |spec| vec![parameters::show_drift(spec.network.drift)],
            ..Flag::NEW
        },
        Flag {
            name: "detector",
            value: "DETECTOR",
            help: "The failure detector: none, ideal:DELAY, or parametric:DELAY,RATE with wrong \
                   suspicions at a rate per process and time unit; or a real detector, which sends messages and can make \
                   mistakes: heartbeat:PERIOD,TIMEOUT, phi:THRESHOLD[,PERIOD] (8 is one mistake in 10^8 silences; \
                   without PERIOD there is one heartbeat per delay bound) or gossip:PERIOD,T_FAIL; \
                   `suffrage-lab simulate-detector` measures real detectors",
            parse_value: |spec, text| set(&mut spec.network.detector, text.parse::<Detector>()),
            print_values: |spec| show([&spec.network.detector]),
            ..Flag::NEW
        },
        Flag {
            name: "multicast",
            value: "MULTICAST",
            help: "The multicast service, for algorithms that multicast: broadcast (each addressee misses \
                   a message as often as any message), ideal:PROBABILITY (each addressee is reached with this \
                   probability, whatever --loss is; heartbeats too; `ideal` alone is ideal:1, less --mcast-loss), or \
                   bimodal:FANOUT,ROUNDS (a broadcast repaired by gossip); `suffrage-lab simulate-multicast` \
                   measures them",
            parse_value: |spec, text| set(&mut spec.network.multicast, text.parse::<Multicast>()),
            print_values: |spec| show([&spec.network.multicast]),
            ..Flag::NEW
        },
    ],
};

impl NetworkSpec {
    pub(super) fn apply(&self, scenario: &mut Scenario) -> Result<(), FlagError> {
        if self.delay_bound.unwrap_or(self.latency.bound()).is_zero() {
            let flag = if self.delay_bound.is_some() { "delay-bound" } else { "latency" };
            let reason = "the delay bound is 0, so that no answer is in time; add a --delay-bound above 0";
            return Err(FlagError::new(flag, reason));
        }
        (scenario.multicast, scenario.multicast_loss) = self.multicast()?;
        scenario.latency = self.latency;
        scenario.delay_bound = self.delay_bound;
        scenario.loss = self.ucast_loss.unwrap_or(self.loss);
        scenario.duplicate = self.duplicate;
        scenario.drift = self.drift;
        scenario.detector = self.detector;
        Ok(())
    }

    /// The multicast, and the probability that an addressee misses one if that of other messages differs.
    fn multicast(&self) -> Result<(Multicast, Option<f64>), FlagError> {
        match (self.multicast, self.mcast_loss) {
            (Multicast::Ideal(reached), Some(_)) if reached < 1.0 => {
                let reason = "--multicast ideal:PROBABILITY sets the loss already; give one of the two";
                Err(FlagError::new("mcast-loss", reason))
            }
            (Multicast::Ideal(_), Some(missed)) => Ok((Multicast::Broadcast, Some(missed))),
            // --ucast-loss does not concern multicasts.
            (multicast, None) => Ok((multicast, self.ucast_loss.map(|_| self.loss))),
            (multicast, missed) => Ok((multicast, missed)),
        }
    }

    pub(super) fn of(scenario: &Scenario) -> NetworkSpec {
        let Scenario { latency, delay_bound, loss, duplicate, drift, detector, multicast, .. } = *scenario;
        let mcast_loss = match multicast {
            // For an ideal multicast the simulator uses its probability alone.
            Multicast::Ideal(_) => None,
            Multicast::Broadcast | Multicast::Bimodal(_) => scenario.multicast_loss,
        };
        NetworkSpec {
            latency,
            delay_bound,
            loss,
            ucast_loss: None,
            mcast_loss,
            duplicate,
            drift,
            detector,
            multicast,
        }
    }
}

impl FromStr for Latency {
    type Err = String;

    fn from_str(text: &str) -> Result<Latency, String> {
        let (kind, values) = text.split_once(':').unwrap_or((text, ""));
        let latency = match (kind, values.split_once(',')) {
            ("const", None) if !values.is_empty() => Latency::Const(values.parse()?),
            ("uniform", Some((least, most))) => Latency::Uniform(least.parse()?, most.parse()?),
            ("exp", None) if !values.is_empty() => Latency::Exponential(values.parse()?),
            ("lognormal", Some((median, sigma))) => match sigma.parse() {
                Ok(sigma) if (0.0..=5.0).contains(&sigma) => Latency::LogNormal(median.parse()?, sigma),
                _ => return Err(format!("`{sigma}` is not a spread from 0 to 5")),
            },
            _ => {
                let forms = "const:1, uniform:0.5,1.5, exp:1 or lognormal:1,0.5";
                return Err(format!("`{text}` is not a latency; use the form {forms}"));
            }
        };
        match latency {
            Latency::Uniform(least, most) if least > most => {
                Err(format!("{least} is more than {most}; give the smaller delay first"))
            }
            _ => Ok(latency),
        }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Latency::Const(span) => write!(f, "const:{span}"),
            Latency::Uniform(least, most) => write!(f, "uniform:{least},{most}"),
            Latency::Exponential(mean) => write!(f, "exp:{mean}"),
            Latency::LogNormal(median, sigma) => write!(f, "lognormal:{median},{sigma}"),
        }
    }
}

impl FromStr for Detector {
    type Err = String;

    fn from_str(text: &str) -> Result<Detector, String> {
        let (kind, values) = text.split_once(':').unwrap_or((text, ""));
        match (kind, values.split_once(',')) {
            ("none", None) if values.is_empty() => Ok(Detector::None),
            ("ideal", None) if !values.is_empty() => Ok(Detector::Ideal { delay: values.parse()? }),
            ("parametric", Some((delay, rate))) => match rate.parse() {
                Ok(false_rate) if (0.0..=1.0).contains(&false_rate) => {
                    Ok(Detector::Parametric { delay: delay.parse()?, false_rate })
                }
                _ => Err(format!(
                    "`{rate}` is not a rate of wrong suspicions from 0 to 1 per process and time unit"
                )),
            },
            ("heartbeat" | "phi" | "gossip", _) => text.parse().map(Detector::Real),
            _ => Err(format!(
                "`{text}` is not a detector; use none, ideal:DELAY, parametric:DELAY,RATE, \
                 heartbeat:PERIOD,TIMEOUT, phi:THRESHOLD[,PERIOD] or gossip:PERIOD,T_FAIL"
            )),
        }
    }
}

impl fmt::Display for Detector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Detector::None => f.write_str("none"),
            Detector::Ideal { delay } => write!(f, "ideal:{delay}"),
            Detector::Parametric { delay, false_rate } => write!(f, "parametric:{delay},{false_rate}"),
            Detector::Real(options) => options.fmt(f),
        }
    }
}

impl FromStr for Multicast {
    type Err = String;

    fn from_str(text: &str) -> Result<Multicast, String> {
        match text.split_once(':').unwrap_or((text, "")) {
            ("broadcast", "") => Ok(Multicast::Broadcast),
            ("ideal", "") if !text.contains(':') => Ok(Multicast::Ideal(1.0)),
            ("ideal", value) => match value.parse() {
                Ok(probability) if (0.0..=1.0).contains(&probability) => Ok(Multicast::Ideal(probability)),
                _ => Err(format!("`{value}` is not a probability from 0 to 1 of being reached")),
            },
            ("bimodal", values) => values.parse().map(Multicast::Bimodal),
            _ => Err(format!(
                "`{text}` is not a multicast; use broadcast, ideal:PROBABILITY or bimodal:FANOUT,ROUNDS"
            )),
        }
    }
}

impl fmt::Display for Multicast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Multicast::Broadcast => f.write_str("broadcast"),
            Multicast::Ideal(probability) => write!(f, "ideal:{probability}"),
            Multicast::Bimodal(options) => write!(f, "bimodal:{options}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_parsed_as_they_are_printed() {
        for text in ["const:1", "uniform:0,1.5", "exp:2", "lognormal:1,0.5"] {
            assert_eq!(text.parse::<Latency>().unwrap().to_string(), text);
        }
        for text in ["1", "const:", "uniform:2,1", "uniform:1", "exp:-1", "lognormal:1,x", "normal:1"] {
            assert!(text.parse::<Latency>().is_err(), "{text}");
        }
    }

    #[test]
    fn detectors_are_parsed_as_they_are_printed() {
        for text in ["none", "ideal:2", "parametric:2,0.001", "heartbeat:1,3.5", "phi:8", "gossip:1,9"] {
            assert_eq!(text.parse::<Detector>().unwrap().to_string(), text);
        }
        for text in ["", "ideal", "ideal:x", "parametric:1", "parametric:1,2", "ping:8", "heartbeat:1"] {
            assert!(text.parse::<Detector>().is_err(), "{text}");
        }
    }

    #[test]
    fn multicasts_are_parsed_as_they_are_printed() {
        for text in ["broadcast", "ideal:0.9", "bimodal:2,5"] {
            assert_eq!(text.parse::<Multicast>().unwrap().to_string(), text);
        }
        assert_eq!("ideal".parse(), Ok(Multicast::Ideal(1.0)));
        for text in
            ["", "reliable", "broadcast:1", "ideal:", "ideal:2", "bimodal:2", "bimodal:0,5", "bimodal:1,x"]
        {
            assert!(text.parse::<Multicast>().is_err(), "{text}");
        }
    }
}
