//! Reports of voters: who hears whom.

use std::time::SystemTime;

use suffrage_core::{NodeId, Time};
use suffrage_net::Transport;

use super::Task;
use crate::clock::Clock;
use crate::lease::journal::SILENT_AFTER;
use crate::lease::node::NodeOverview;
use crate::lease::output::{Content, WireItem};
use crate::lease::report;
use crate::lease::survey::{Moment, WireReport};

/// This time of the node's clock, and the machine's clock of the day now.
fn moment(clock: Time) -> Moment {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Moment { clock, wall: wall.as_nanos() as u64 }
}

impl<T: Transport, C: Clock> Task<T, C> {
    /// The state of the node that costs little to tell. Asks the voters for reports if `survey`.
    pub(super) fn overview(&mut self, now: Time, survey: bool) -> NodeOverview {
        if survey {
            self.ask_reports(now);
        }
        NodeOverview {
            counters: self.journal.counters,
            elections: self.engine().len(),
            voters: report::contacts(now, self.engine(), &self.journal, SILENT_AFTER),
            voter: report::voter_status(now, self.engine()),
            round_trip: report::duration(self.engine().round_trip()),
            reports: self.survey.reports(now),
        }
    }

    fn ask_reports(&mut self, now: Time) {
        let (me, header) = (self.engine().me(), self.engine().header());
        for &voter in self.engine().configuration().ids().iter() {
            if voter != me
                && let Some(number) = self.survey.query(moment(now), voter)
            {
                self.out.ask_report(voter, header, number);
            }
        }
    }

    /// Replies to a node that asks whom this voter hears, and notes the report of another voter. No election depends on
    /// either.
    pub(super) fn exchange_reports(&mut self, now: Time, from: NodeId, content: &Content) {
        let header = self.engine().header();
        if content.header.stamp != header.stamp {
            return;
        }
        if let Some(report) = &content.report {
            self.survey.on_report(moment(now), from, content.header.boot, report.clone());
        }
        let me = self.engine().me();
        if let Some(query) = content.query
            && self.engine().configuration().voter(me).is_some()
            && self.survey.admits(now, from)
        {
            let contacts = report::contacts(now, self.engine(), &self.journal, SILENT_AFTER);
            let report = WireReport::new(query, moment(now), me, &contacts);
            // A report that does not fit into a short datagram is not sent: its sender counts as unknown.
            self.out.push(from, header, &WireItem::Report(report));
        }
    }
}
