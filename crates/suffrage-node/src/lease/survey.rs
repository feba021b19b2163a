//! Reports of voters: whom each of them hears, and how their clocks go.
//!
//! A node that is asked who hears whom asks each voter ([`WireItem::ReportQuery`](super::output::WireItem)), and the voter
//! replies with its own contacts and its clocks. No election depends on a report: reports are for operators. A query has a
//! datagram of its own, because a node that does not know the item drops the whole datagram; such a node has no report.
//!
//! Nothing here reads a clock: times are parameters.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use suffrage_core::{NodeId, Span, Time};
use suffrage_lease::Boot;

use super::report::duration;
use super::status::VoterContact;

/// The greatest number of contacts in a report. A cluster has hardly more than five voters.
const MAX_CONTACTS: usize = 16;
/// The least time between two queries to a voter, and between two reports to a node.
const PACE: Span = Span::from_millis(400);
/// The age from which a report is not shown any more.
const STALE: Span = Span::from_millis(5_000);
/// The greatest number of nodes that get reports in one [`PACE`].
const MAX_ASKERS: usize = 64;
/// The time over which the rates of two clocks are compared at least. Over less, the round trips are too great an error.
const SHORTEST_COMPARISON: Span = Span::from_millis(10_000);
/// The time after which clocks are compared with a later reading: rates change, with the temperature for example.
const LONGEST_COMPARISON: Span = Span::from_millis(600_000);

/// A moment by both clocks of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Moment {
    /// The node's clock, by which leases are measured.
    pub(super) clock: Time,
    /// The machine's clock of the day, in nanoseconds since 1970.
    pub(super) wall: u64,
}

/// A contact of a voter, on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WireContact {
    voter: NodeId,
    hears: Option<bool>,
    round_trip: Option<Span>,
}

/// A report, on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WireReport {
    /// The number of the query.
    query: u64,
    /// The time of the report.
    at: Moment,
    contacts: Vec<WireContact>,
}

impl WireReport {
    /// The report of a voter with these contacts.
    pub(super) fn new(query: u64, at: Moment, me: NodeId, contacts: &[VoterContact]) -> WireReport {
        let others = contacts.iter().filter(|contact| contact.voter != me).take(MAX_CONTACTS);
        let contact = |contact: &VoterContact| WireContact {
            voter: contact.voter,
            hears: hears(contact),
            round_trip: contact.round_trip.map(|time| Span::from_nanos(time.as_nanos() as u64)),
        };
        WireReport { query, at, contacts: others.map(contact).collect() }
    }
}

/// Whether a voter is heard. None if it was not asked, or not often enough to tell.
fn hears(contact: &VoterContact) -> Option<bool> {
    (contact.silent || contact.reply_age.is_some()).then(|| contact.answers())
}

/// A voter's report about itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct VoterReport {
    /// The voter.
    pub voter: NodeId,
    /// The time since the report came.
    pub age: Duration,
    /// The other voters, as this voter hears them.
    pub contacts: Vec<ReportedContact>,
    /// The voter's clocks beside those of this node.
    pub clock: ClockComparison,
}

/// A voter, as another voter hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedContact {
    /// The voter that is heard.
    pub voter: NodeId,
    /// Whether the voter is heard. None if it was not asked, or not often enough to tell.
    pub hears: Option<bool>,
    /// The smoothed time that the voter takes to answer.
    pub round_trip: Option<Duration>,
}

/// The clocks of another machine beside those of this one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockComparison {
    /// The other's clock of the day minus the one of this machine, in seconds. No lease depends on it.
    pub wall_offset: f64,
    /// The greatest error of the offset, in seconds: half of the round trip.
    pub wall_error: f64,
    /// The rate of the clock by which the other measures leases. None before it is known well enough.
    pub rate: Option<ClockRate>,
}

/// The rate of another machine's clock beside the clock of this one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockRate {
    /// The difference of the rates in parts of one: above 0 if the other clock is faster.
    pub difference: f64,
    /// The greatest error of the difference, by the round trips of both readings.
    pub error: f64,
}

/// A reading of another machine's clock.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// The time of this node's clock, half a round trip before the reply came.
    at: Time,
    theirs: Time,
    /// The greatest error of `at`.
    error: Span,
}

impl Reading {
    /// The rate between this reading and a later one.
    fn rate(&self, later: &Reading) -> Option<ClockRate> {
        let own = later.at.since(self.at);
        if own < SHORTEST_COMPARISON {
            return None;
        }
        let (own, theirs) = (own.as_nanos() as f64, later.theirs.since(self.theirs).as_nanos() as f64);
        let error = (self.error.as_nanos() + later.error.as_nanos()) as f64;
        Some(ClockRate { difference: theirs / own - 1.0, error: error / own })
    }
}

/// The reading to compare with, and the one after it, when another reading has come.
fn advance(anchor: Reading, next: Option<Reading>, reading: Reading) -> (Reading, Option<Reading>) {
    let age = reading.at.since(anchor.at);
    // The first readings of a busy machine can be much worse than later ones.
    if age < SHORTEST_COMPARISON * 3 && reading.error * 2 < anchor.error {
        return (reading, None);
    }
    match next {
        Some(next) if age > LONGEST_COMPARISON && reading.at.since(next.at) >= SHORTEST_COMPARISON => {
            (next, None)
        }
        Some(next) if next.error <= reading.error => (anchor, Some(next)),
        _ if age * 2 > LONGEST_COMPARISON => (anchor, Some(reading)),
        next => (anchor, next),
    }
}

/// The report that a voter sent last.
#[derive(Debug)]
struct Received {
    at: Time,
    boot: Boot,
    contacts: Vec<ReportedContact>,
    clock: ClockComparison,
    /// The reading that later ones are compared with.
    anchor: Reading,
    /// The reading that comes after it: the best one while the anchor grows old.
    next: Option<Reading>,
}

/// The reports of voters, and the queries of this node.
#[derive(Debug, Default)]
pub(super) struct Survey {
    number: u64,
    /// The last query to each voter: its number, and when it was sent.
    asked: BTreeMap<NodeId, (u64, Moment)>,
    received: BTreeMap<NodeId, Received>,
    /// The nodes that got a report lately.
    told: BTreeMap<NodeId, Time>,
}

impl Survey {
    /// The number of a query to this voter. None if the last one is too young.
    pub(super) fn query(&mut self, now: Moment, voter: NodeId) -> Option<u64> {
        if self.asked.get(&voter).is_some_and(|(_, at)| now.clock.since(at.clock) < PACE) {
            return None;
        }
        self.number += 1;
        self.asked.insert(voter, (self.number, now));
        Some(self.number)
    }

    /// Whether a node that asks is told now. A node that asks faster gets no report.
    pub(super) fn admits(&mut self, now: Time, from: NodeId) -> bool {
        self.told.retain(|_, at| now.since(*at) * 2 < PACE);
        let admitted = self.told.len() < MAX_ASKERS && !self.told.contains_key(&from);
        if admitted {
            self.told.insert(from, now);
        }
        admitted
    }

    /// Notes the report of a voter that was asked.
    pub(super) fn on_report(&mut self, now: Moment, from: NodeId, boot: Boot, report: WireReport) {
        let Some(&(number, sent)) = self.asked.get(&from) else { return };
        if number != report.query || report.contacts.len() > MAX_CONTACTS {
            return;
        }
        let round_trip = now.clock.since(sent.clock);
        let half = Span::from_nanos(round_trip.as_nanos().div_ceil(2));
        let reading = Reading { at: sent.clock + half, theirs: report.at.clock, error: half };
        let known = self.received.remove(&from).filter(|known| known.boot == boot);
        let (anchor, next) =
            known.map_or((reading, None), |known| advance(known.anchor, known.next, reading));
        // The clock of the day may be set while the query is under way: it is read once.
        let offset = i128::from(report.at.wall) - i128::from(now.wall) + i128::from(half.as_nanos());
        let clock = ClockComparison {
            wall_offset: offset as f64 / 1e9,
            wall_error: half.as_nanos() as f64 / 1e9,
            rate: anchor.rate(&reading),
        };
        let contact = |contact: WireContact| ReportedContact {
            voter: contact.voter,
            hears: contact.hears,
            round_trip: contact.round_trip.map(duration),
        };
        let contacts = report.contacts.into_iter().map(contact).collect();
        self.received.insert(from, Received { at: now.clock, boot, contacts, clock, anchor, next });
    }

    /// The reports that are not too old.
    pub(super) fn reports(&self, now: Time) -> Vec<VoterReport> {
        let young = self.received.iter().filter(|(_, received)| now.since(received.at) < STALE);
        let report = |(&voter, received): (&NodeId, &Received)| VoterReport {
            voter,
            age: duration(now.since(received.at)),
            contacts: received.contacts.clone(),
            clock: received.clock,
        };
        young.map(report).collect()
    }

    /// Forgets the nodes that are no voters any more.
    pub(super) fn set_voters(&mut self, voters: &[NodeId]) {
        self.asked.retain(|voter, _| voters.contains(voter));
        self.received.retain(|voter, _| voters.contains(voter));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOTER: NodeId = NodeId(2);

    fn moment(millis: u64, wall_millis: u64) -> Moment {
        Moment { clock: Time::from_nanos(millis * 1_000_000), wall: wall_millis * 1_000_000 }
    }

    fn contact(voter: u64, reply_age: Option<u64>, silent: bool) -> VoterContact {
        VoterContact {
            voter: NodeId(voter),
            reply_age: reply_age.map(Duration::from_millis),
            silent,
            not_voting: None,
            round_trip: reply_age.map(|_| Duration::from_micros(250)),
        }
    }

    /// A report that was made at this moment of the voter's clocks.
    fn report(query: u64, at: Moment) -> WireReport {
        let contacts =
            [contact(1, Some(3), false), contact(2, Some(0), false), contact(3, Some(9_000), true)];
        WireReport::new(query, at, VOTER, &[&contacts[..], &[contact(4, None, false)]].concat())
    }

    #[test]
    fn a_report_says_who_is_heard_who_is_not_and_who_was_never_asked() {
        let mut survey = Survey::default();
        let query = survey.query(moment(100, 0), VOTER).unwrap();
        assert_eq!(survey.query(moment(200, 0), VOTER), None, "too soon");
        assert_eq!(survey.reports(moment(101, 0).clock), []);
        survey.on_report(moment(102, 0), VOTER, Boot(1), report(query, moment(0, 0)));
        let [reported] = &survey.reports(moment(103, 0).clock)[..] else { panic!() };
        let heard: Vec<_> = reported.contacts.iter().map(|one| (one.voter.0, one.hears)).collect();
        assert_eq!(heard, [(1, Some(true)), (3, Some(false)), (4, None)]);
        assert_eq!(reported.contacts[0].round_trip, Some(Duration::from_micros(250)));
        assert_eq!(reported.age, Duration::from_millis(1));
        assert_eq!(survey.reports(moment(102 + 5_000, 0).clock), [], "it is too old");
    }

    #[test]
    fn only_a_reply_to_the_last_query_of_a_voter_that_was_asked_counts() {
        let mut survey = Survey::default();
        let first = survey.query(moment(0, 0), VOTER).unwrap();
        let second = survey.query(moment(1_000, 0), VOTER).unwrap();
        let now = moment(1_001, 0);
        survey.on_report(now, VOTER, Boot(1), report(first, moment(0, 0)));
        survey.on_report(now, VOTER, Boot(1), report(second + 1, moment(0, 0)));
        survey.on_report(now, NodeId(3), Boot(1), report(second, moment(0, 0)));
        let mut long = report(second, moment(0, 0));
        long.contacts = vec![long.contacts[0]; MAX_CONTACTS + 1];
        survey.on_report(now, VOTER, Boot(1), long);
        assert_eq!(survey.reports(now.clock), []);
        survey.on_report(now, VOTER, Boot(1), report(second, moment(0, 0)));
        assert_eq!(survey.reports(now.clock).len(), 1);
        survey.set_voters(&[NodeId(1)]);
        assert_eq!(survey.reports(now.clock), [], "it is no voter any more");
    }

    #[test]
    fn a_node_gets_a_bounded_number_of_reports() {
        let mut survey = Survey::default();
        assert!(survey.admits(Time::ZERO, VOTER) && !survey.admits(Time::ZERO, VOTER));
        let others = (10..200).filter(|&id| survey.admits(Time::ZERO, NodeId(id))).count();
        assert_eq!(others, MAX_ASKERS - 1);
        assert!(survey.admits(Time::ZERO + PACE, VOTER));
    }

    /// The true offset and the true rate are within the error, however the delays of the two ways differ.
    #[test]
    fn clocks_are_compared_within_the_stated_error() {
        for (there, back) in [(1, 9), (5, 5), (9, 1)] {
            let mut survey = Survey::default();
            // The voter's clock is 100 ppm fast, and its clock of the day is 7 s ahead.
            for second in [0, 1, 5, 20, 60, 1_200, 1_260] {
                let asked = second * 1_000;
                let query = survey.query(moment(asked, asked), VOTER).unwrap();
                let handled = asked + there;
                let theirs = Moment {
                    clock: Time::from_nanos(handled * 1_000_100 + 5),
                    wall: (handled + 7_000) * 1_000_000,
                };
                let came = asked + there + back;
                survey.on_report(moment(came, came), VOTER, Boot(1), report(query, theirs));
                let clock = survey.reports(moment(came, 0).clock)[0].clock;
                assert!((clock.wall_offset - 7.0).abs() <= clock.wall_error + 1e-9, "{clock:?}");
                assert_eq!(clock.wall_error, 0.005);
                assert_eq!(clock.rate.is_some(), second >= 20, "{second}");
                if let Some(rate) = clock.rate {
                    assert!((rate.difference - 100e-6).abs() <= rate.error + 1e-9, "{second}: {rate:?}");
                    assert!(rate.error <= 0.010 / (second as f64).min(60.0) + 1e-9, "{second}: {rate:?}");
                }
            }
            // A better reading replaces a bad first one.
            let mut survey = Survey::default();
            for (second, trip) in [(0, 100), (5, 2), (20, 2)] {
                let query = survey.query(moment(second * 1_000, 0), VOTER).unwrap();
                let handled = second * 1_000 + trip / 2;
                let came = moment(second * 1_000 + trip, 0);
                survey.on_report(came, VOTER, Boot(1), report(query, moment(handled, 0)));
            }
            let rate = survey.reports(moment(20_010, 0).clock)[0].clock.rate.unwrap();
            assert!(rate.error <= 0.002 / 15.0 && rate.difference.abs() <= rate.error, "{rate:?}");
            // Another process of the voter may run on another machine.
            let query = survey.query(moment(2_000_000, 0), VOTER).unwrap();
            survey.on_report(moment(2_000_010, 0), VOTER, Boot(2), report(query, moment(1, 0)));
            assert_eq!(survey.reports(moment(2_000_010, 0).clock)[0].clock.rate, None);
        }
    }
}
