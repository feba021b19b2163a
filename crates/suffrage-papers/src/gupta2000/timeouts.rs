//! The time-outs of section 3.2, from the maximum delays of the network.

use serde::Serialize;
use suffrage_core::Span;

/// The maximum delays of a network, processing included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// The delay of a unicast: "the maximum propagation and processing delay for a ucast packet".
    pub ucast: Span,
    /// The delay of a multicast: "in the Bimodal multicast protocol, this would be the maximum time a message is
    /// buffered anywhere in the group".
    pub mcast: Span,
    /// The time to compute the set {Mj} of a member: one hash for each member of its view.
    pub compute: Span,
}

/// The time-outs of a round, in time units (milliseconds).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimeOuts {
    /// The time that members outside the relay phase wait for its final multicasts.
    pub time_out_1: f64,
    /// The duration of the relay phase.
    pub time_out_2: f64,
    /// The maximum duration of a multicast.
    pub time_out_3: f64,
    /// The time from the arrival of the initiating multicast to the election: the relay phase, its final multicasts,
    /// and "another Time_Out_3" in which a re-initiation may arrive.
    pub round: f64,
}

impl Delays {
    /// The time-outs of a round with this K.
    pub fn time_outs(&self, k: f64) -> TimeOuts {
        // "… the product of (3K/2) (the maximum length of any path in a relay graph with 3K/2 members) and
        // the maximum propagation and processing delay for a ucast packet".
        let time_out_2 = 1.5 * k * self.ucast.as_units();
        let time_out_3 = self.mcast.as_units();
        // "… the sum of the maximum time needed at member Mi to calculate the set {Mj}, and the values of
        // Time_Out_2 and Time_Out_3".
        let time_out_1 = self.compute.as_units() + time_out_2 + time_out_3;
        TimeOuts { time_out_1, time_out_2, time_out_3, round: time_out_1 + time_out_3 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_3_2_by_hand() {
        let delays = Delays {
            ucast: Span::from_millis(2),
            mcast: Span::from_millis(50),
            compute: Span::from_millis(3),
        };
        let time_outs = delays.time_outs(28.0);
        assert_eq!(
            time_outs,
            TimeOuts { time_out_1: 137.0, time_out_2: 84.0, time_out_3: 50.0, round: 187.0 }
        );
    }
}
