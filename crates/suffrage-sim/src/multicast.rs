//! How multicasts reach people.

use std::fmt;
use std::str::FromStr;

use suffrage_core::multicast::bimodal;

/// How a multicast reaches its addressees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Multicast {
    /// As messages to each: each is lost as often as any message.
    #[default]
    Broadcast,
    /// Each live addressee that is not cut off is reached with this probability, however many other
    /// messages are lost.
    Ideal(f64),
    /// As messages to each, and what is missed is repaired by gossip.
    Bimodal(bimodal::Options),
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
                "`{text}` is not a multicast; it is broadcast, ideal:PROBABILITY or bimodal:FANOUT,ROUNDS"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multicasts_are_read_as_they_are_shown() {
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
