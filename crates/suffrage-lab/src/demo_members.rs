//! The nodes of `suffrage-lab demo`: members that run an algorithm of the catalog.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "processes that run in real time")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use suffrage_cli::demo::{DemoNodes, NodeReport, index_of};
use suffrage_core::{Detection, Roster, Safety, Time};

use crate::algorithms;
use crate::member_runner::{self, Runner};

/// The delay bound: long for loopback, short for a busy machine.
const DELAY: &str = "50ms";

/// Members that run one algorithm.
pub(crate) struct Members(Box<dyn Runner>);

impl Members {
    /// Members that run the algorithm of this name.
    pub(crate) fn of(name: &str) -> Members {
        let runner = member_runner::runner(name, &[]).expect("the name is in the catalog");
        Members(runner.expect("no parameter is set"))
    }
}

impl DemoNodes for Members {
    fn command(&self, node: usize, addresses: &str, folder: &Path, new: bool) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command
            .args([
                "member",
                "--algorithm",
                self.0.contract().name,
                "--delay",
                DELAY,
                "--json",
                "--wait",
                "--input",
                "--socket-from-input",
            ])
            .args(["--id", &(node + 1).to_string(), "--cluster", addresses, "--keys"])
            .arg(folder.join("keys"))
            .arg("--data")
            .arg(folder.join(format!("node-{}", node + 1)))
            .args(new.then_some("--new"));
        command
    }

    fn parse_line(&self, line: &str) -> Option<(Time, NodeReport)> {
        let object: Value = serde_json::from_str(line).ok()?;
        let number = |name: &str| object[name].as_u64();
        let report = match object["event"].as_str()? {
            "ready" => NodeReport::Ready,
            "leads" => NodeReport::Leads(number("term")?),
            "follows" => NodeReport::Follows(index_of(number("leader")?)?, number("term")?),
            "steps-down" => NodeReport::Lost,
            "undecided" => NodeReport::Nobody,
            "suspects" => NodeReport::Suspects(index_of(number("peer")?)?),
            "restores" => NodeReport::Restores(index_of(number("peer")?)?),
            _ => return None,
        };
        Some((Time::from_nanos(number("at")?), report))
    }

    fn introduction(&self) -> Option<String> {
        let contract = self.0.contract();
        let not_promised = algorithms::not_promised(contract);
        Some(format!("{}: {}\nNot promised: {not_promised}.", contract.name, contract.summary))
    }

    fn setting(&self, nodes: usize) -> String {
        let detection = match self.0.contract().detection {
            Detection::Detector => "heartbeats",
            Detection::Timeout => "time-outs of the algorithm",
        };
        format!(
            "{nodes} processes, each with its own socket; delay bound {DELAY}; failures are detected by {detection}"
        )
    }

    fn on_return(&self, id: usize) -> String {
        format!("node {id} is restarted")
    }

    fn has_leases(&self) -> bool {
        false
    }

    fn needs_campaign_command(&self) -> bool {
        self.0.contract().detection == Detection::Detector
    }

    fn never_two(&self) -> bool {
        self.0.contract().safety == Safety::AtMostOne
    }

    fn title(&self) -> (String, String) {
        let contract = self.0.contract();
        (contract.name.to_string(), format!("Not promised: {}.", algorithms::not_promised(contract)))
    }

    fn agree(&self, alive: usize, believers: usize, others: usize) -> bool {
        match self.0.contract().safety {
            // Some nodes may not know the leader.
            Safety::WithHighProbability => believers > alive / 2 && others == 0,
            _ => believers == alive,
        }
    }

    fn suffices(&self, alive: &[bool]) -> bool {
        self.0.can_elect(&Roster::numbered(alive.len()), alive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_members_are_parsed() {
        let at = Time::from_nanos(17);
        let members = Members::of("bully");
        let parse = |line: &str| members.parse_line(line);
        assert_eq!(parse(r#"{"at":17,"node":1,"event":"leads","term":2}"#), Some((at, NodeReport::Leads(2))));
        assert_eq!(
            parse(r#"{"at":17,"node":1,"event":"suspects","peer":3}"#),
            Some((at, NodeReport::Suspects(2)))
        );
        assert_eq!(parse(r#"{"at":17,"event":"dances"}"#), None);
        assert_eq!(parse("17 leads 5"), None);
    }

    #[test]
    fn agreement_needs_all_nodes_or_a_majority_with_high_probability() {
        assert!(!Members::of("bully").agree(4, 3, 0) && Members::of("bully").agree(4, 4, 0));
        assert!(Members::of("gupta").agree(4, 3, 0) && !Members::of("gupta").agree(4, 3, 1));
        assert!(Members::of("bully").suffices(&[true, false]));
    }
}
