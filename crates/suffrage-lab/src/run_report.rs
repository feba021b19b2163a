//! The report of one run: a timeline of its events, and its result.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use suffrage_algorithms::catalog::CONTRACTS;
use suffrage_core::{Attribute, Figure, NodeId, Quality, Safety, Time, Value};
use suffrage_sim::{Messages, Observer, Outcome, Ranking, Scenario, TraceEvent};

use crate::belief::{BeliefChange, Beliefs};
use crate::observers::CutNames;
use suffrage_cli::text;

/// The number of lines at the start of a long timeline that are shown.
const HEAD: usize = 30;
/// The number of lines at the end of a long timeline that are shown.
const TAIL: usize = 20;

/// Records the events of a run for its timeline.
#[derive(Debug)]
pub(crate) struct RunLog {
    beliefs: Beliefs,
    cuts: CutNames,
    counts_failures: bool,
    entries: Vec<LogEntry>,
    /// The entries of the current time, by event: a second process with the same event joins the entry.
    now: BTreeMap<LogEvent, usize>,
}

/// One line of the timeline: an event of one or more processes, at one time or one after the other.
#[derive(Clone, Debug)]
struct LogEntry {
    from: Time,
    to: Time,
    event: LogEvent,
    nodes: Vec<NodeId>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LogEvent {
    Campaigns,
    /// A command other than `campaign`.
    Commanded(String),
    Suspects(Vec<NodeId>),
    Restores(Vec<NodeId>),
    Crashes,
    Recovers,
    Pauses,
    Resumes,
    Jumps(String),
    Ranks(String),
    Cut(String),
    Healed(String),
    HealAll,
    Belief(BeliefChange),
}

impl RunLog {
    pub(crate) fn new(scenario: &Scenario, cuts: CutNames) -> RunLog {
        let counts_failures = scenario.ranking == Ranking::Quality;
        RunLog {
            beliefs: Beliefs::new(scenario),
            cuts,
            counts_failures,
            entries: Vec::new(),
            now: BTreeMap::new(),
        }
    }

    fn record(&mut self, at: Time, event: LogEvent, node: Option<NodeId>) {
        let may_take_time = matches!(
            event,
            LogEvent::Belief(
                BeliefChange::Follows(..) | BeliefChange::KeepsFollowing(..) | BeliefChange::LosesLeader
            ) | LogEvent::Suspects(_)
                | LogEvent::Restores(_)
        );
        let last = self.entries.last().map(|entry| (self.entries.len() - 1, entry));
        if last.is_none_or(|(_, entry)| entry.to != at) {
            self.now.clear();
        }
        let continued =
            last.filter(|(_, entry)| may_take_time && entry.event == event).map(|(index, _)| index);
        match self.now.get(&event).copied().or(continued) {
            Some(index) => {
                self.entries[index].to = at;
                self.entries[index].nodes.extend(node);
                self.now.insert(event, index);
            }
            None => {
                self.now.insert(event.clone(), self.entries.len());
                self.entries.push(LogEntry { from: at, to: at, event, nodes: node.into_iter().collect() });
            }
        }
    }

    /// Describes the new attribute of a process.
    fn describe_rank(&self, attribute: Attribute) -> String {
        match Quality::from_attribute(attribute).failures {
            failures if self.counts_failures && failures > 0 => {
                format!("has crashed {}", text::count(failures as usize, "time", "times"))
            }
            _ => format!("has attribute {attribute} from now on"),
        }
    }

    /// The timeline, one line per event.
    pub(crate) fn timeline(&self) -> String {
        let mut entries: Vec<LogEntry> = Vec::new();
        for entry in &self.entries {
            if !entries.last_mut().is_some_and(|last| last.merge(entry)) {
                entries.push(entry.clone());
            }
        }
        let count = entries.len();
        let times: Vec<String> = entries.iter().map(LogEntry::time).collect();
        let width = times.iter().map(String::len).max().unwrap_or(0).max(6);
        let mut text = String::new();
        for (index, (time, entry)) in times.iter().zip(&entries).enumerate() {
            if count > HEAD + TAIL + 1 && (HEAD..count - TAIL).contains(&index) {
                if index == HEAD {
                    let left_out = count - HEAD - TAIL;
                    let _ = writeln!(
                        text,
                        "  {:>width$}  {left_out} more; --diagram or --trace show them",
                        "..."
                    );
                }
                continue;
            }
            let _ = writeln!(text, "  {time:>width$}  {}", text::wrap(&entry.sentence(), 90, width + 4));
        }
        text
    }

    /// The leader that the live processes believe in at the end, or their disagreement.
    pub(crate) fn leader_summary(&self, outcome: &Outcome) -> String {
        let live = self.beliefs.live();
        if let Some(leader) = outcome.leader {
            return match live {
                1 => format!("{leader}, the only live process"),
                2 => format!("{leader}, for both live processes"),
                _ => format!("{leader}, for all {live} live processes"),
            };
        }
        let groups = self.beliefs.by_leader();
        if groups.is_empty() {
            return "none: no process is alive".to_string();
        }
        let parts = groups.into_iter().map(|(leader, nodes)| {
            let many = nodes.len() > 1;
            let nodes = text::ids(nodes);
            match (leader, many) {
                (Some(leader), true) => format!("{nodes} believe in {leader}"),
                (Some(leader), false) => format!("{nodes} believes in {leader}"),
                (None, true) => format!("{nodes} know no leader"),
                (None, false) => format!("{nodes} knows no leader"),
            }
        });
        format!("not agreed: {}", parts.collect::<Vec<_>>().join("; "))
    }
}

impl Observer for RunLog {
    fn observe(&mut self, at: Time, event: TraceEvent<'_>) {
        let (event, who) = match event {
            TraceEvent::Commanded { who, command: "campaign" } => (LogEvent::Campaigns, who),
            TraceEvent::Commanded { who, command } => (LogEvent::Commanded(text::request(command)), who),
            TraceEvent::Suspected { who, peer } => (LogEvent::Suspects(vec![peer]), who),
            TraceEvent::Restored { who, peer } => (LogEvent::Restores(vec![peer]), who),
            TraceEvent::Crashed { who } => {
                self.beliefs.crash(who);
                (LogEvent::Crashes, who)
            }
            TraceEvent::Recovered { who } => {
                self.beliefs.recover(who);
                (LogEvent::Recovers, who)
            }
            TraceEvent::Paused { who } => (LogEvent::Pauses, who),
            TraceEvent::Resumed { who } => (LogEvent::Resumes, who),
            TraceEvent::Jumped { who, by, back } => {
                let direction = if back { "back" } else { "ahead" };
                (LogEvent::Jumps(format!("{direction} by {by}")), who)
            }
            TraceEvent::Ranked { who, attribute } => (LogEvent::Ranks(self.describe_rank(attribute)), who),
            TraceEvent::Announced { who, announcement } => {
                let Some(change) = self.beliefs.announce(who, announcement) else { return };
                (LogEvent::Belief(change), who)
            }
            TraceEvent::Cut => {
                let event = LogEvent::Cut(self.cuts.cut().to_string());
                return self.record(at, event, None);
            }
            TraceEvent::Healed => {
                let event = LogEvent::Healed(self.cuts.heal().to_string());
                return self.record(at, event, None);
            }
            TraceEvent::HealedAll => {
                self.cuts.heal_all(at);
                return self.record(at, LogEvent::HealAll, None);
            }
            TraceEvent::Sent { .. }
            | TraceEvent::Multicast { .. }
            | TraceEvent::Delivered { .. }
            | TraceEvent::Dropped { .. }
            | TraceEvent::Expired { .. }
            | TraceEvent::Leased { .. }
            | TraceEvent::Conditions { .. }
            | TraceEvent::Violated { .. } => return,
        };
        self.record(at, event, Some(who));
    }
}

impl LogEntry {
    /// Adds the peers of the next entry if the same processes suspect or restore them at the same time. Returns
    /// whether the entries were merged.
    fn merge(&mut self, next: &LogEntry) -> bool {
        if (self.from, self.to, &self.nodes) != (next.from, next.to, &next.nodes) {
            return false;
        }
        match (&mut self.event, &next.event) {
            (LogEvent::Suspects(peers), LogEvent::Suspects(more))
            | (LogEvent::Restores(peers), LogEvent::Restores(more)) => {
                peers.extend(more);
                true
            }
            _ => false,
        }
    }

    fn time(&self) -> String {
        match self.from == self.to {
            true => text::time(self.from),
            false => format!("{}..{}", text::time(self.from), text::time(self.to)),
        }
    }

    fn sentence(&self) -> String {
        let list = |ids: &[NodeId]| text::ids(ids.iter().copied());
        let nodes = list(&self.nodes);
        let verb = |one: &str, many: &str| {
            let verb = if self.nodes.len() == 1 { one } else { many };
            format!("{nodes} {verb}")
        };
        match &self.event {
            LogEvent::Campaigns => verb("calls an election", "call elections"),
            LogEvent::Commanded(request) => format!("{} {request}", verb("is told", "are told")),
            LogEvent::Suspects(peers) => format!("{} {}", verb("suspects", "suspect"), list(peers)),
            LogEvent::Restores(peers) => {
                format!("{} {}", verb("no longer suspects", "no longer suspect"), list(peers))
            }
            LogEvent::Crashes => verb("crashes", "crash"),
            LogEvent::Recovers => verb("recovers", "recover"),
            LogEvent::Pauses => verb("pauses", "pause"),
            LogEvent::Resumes => verb("resumes", "resume"),
            LogEvent::Jumps(how) => format!("the clock of {nodes} jumps {how}"),
            LogEvent::Ranks(rank) => verb(rank, rank),
            LogEvent::Cut(groups) => format!("the network is cut: {groups}"),
            LogEvent::Healed(groups) => format!("the cut is healed: {groups}"),
            LogEvent::HealAll => "all faults end".to_string(),
            LogEvent::Belief(BeliefChange::Leads(term)) => format!("{} (term {term})", verb("leads", "lead")),
            LogEvent::Belief(
                BeliefChange::Follows(leader, term) | BeliefChange::KeepsFollowing(leader, term),
            ) => {
                format!("{} {leader} (term {term})", verb("follows", "follow"))
            }
            LogEvent::Belief(BeliefChange::StepsDown) => verb("steps down", "step down"),
            LogEvent::Belief(BeliefChange::LosesLeader) => {
                verb("no longer has a leader", "no longer have a leader")
            }
            LogEvent::Belief(BeliefChange::FindsNoLeader) => {
                verb("finds no process that may lead", "find no process that may lead")
            }
        }
    }
}

/// The algorithm and its processes, in one line.
pub(crate) fn heading(algorithm: &str, scenario: &Scenario) -> String {
    let roster = &scenario.roster;
    let order: Vec<NodeId> = roster.iter().take(13).collect();
    let group = match order.is_sorted() || roster.len() > 12 {
        true => text::ids(roster.iter()),
        false => order.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", "),
    };
    let crashed = match scenario.crashed.as_slice() {
        [] => String::new(),
        slots => {
            format!("; crashed from the start: {}", text::ids(slots.iter().map(|&slot| roster.id(slot))))
        }
    };
    format!("{algorithm}, {}: {group}{crashed}", text::count(roster.len(), "process", "processes"))
}

/// The result of the run, one line per fact.
pub(crate) fn result(scenario: &Scenario, outcome: &Outcome, leader: &str, replay: &str) -> String {
    let mut facts = Vec::new();
    if scenario.initiators.is_empty() && scenario.contenders.is_none() && is_idle(outcome) {
        facts.push(("note", "no process was told to call an election".to_string()));
    }
    facts.extend([("leader", leader.to_string()), ("messages", sent(&outcome.messages))]);
    let uncounted = kinds(&outcome.messages.uncounted);
    if !uncounted.is_empty() {
        facts.push(("uncounted", format!("{uncounted}, which the source does not count")));
    }
    facts.push(("time", times(outcome)));
    facts.push(("leaders", leaderships(outcome)));
    if !outcome.figures.is_empty() {
        facts.push(("figures", figures(&outcome.figures)));
    }
    match outcome.violations.as_slice() {
        [] => facts.push(("promises", describe_promises(outcome).to_string())),
        violations => facts.extend(violations.iter().map(|violation| {
            let (invariant, at) = (violation.invariant, text::time(violation.at));
            ("BROKEN", format!("{invariant} at {at}: {}", violation.detail))
        })),
    }
    facts.push(("trace", format!("{:016x}, {} events", outcome.trace_hash, outcome.events)));
    let mut text = String::new();
    for (name, fact) in facts {
        let _ = writeln!(text, "  {name:<9} {}", text::wrap(&fact, 88, 12));
    }
    let _ = writeln!(text, "  {:<9} {replay}", "replay");
    text
}

/// Whether no process sent a message or led.
fn is_idle(outcome: &Outcome) -> bool {
    let Messages { total, uncounted, .. } = &outcome.messages;
    *total == 0 && uncounted.iter().all(|(_, count)| *count == 0) && outcome.leaderships == 0
}

fn kinds(counts: &[(&str, u64)]) -> String {
    let sent = counts.iter().filter(|(_, count)| *count > 0);
    sent.map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(" + ")
}

fn figures(figures: &[Figure]) -> String {
    let describe = |Figure { name, value }: &Figure| match *value {
        Value::Share(held) => format!("{name} {}", if held { "yes" } else { "no" }),
        Value::Amount(amount) => format!("{name} {}", text::number(amount)),
    };
    figures.iter().map(describe).collect::<Vec<_>>().join(", ")
}

fn sent(messages: &Messages) -> String {
    let mut text = messages.total.to_string();
    if messages.total > 0 {
        text += &format!(" = {}", kinds(&messages.by_kind));
    }
    if messages.multicasts > 0 {
        text += &format!("; {} multicasts", messages.multicasts);
    }
    if messages.undelivered > 0 {
        text += &format!("; {} undelivered", messages.undelivered);
    }
    text
}

/// The verdict on a run without violations. A run without agreement does not break a promise that holds with high
/// probability, but the report says so.
fn describe_promises(outcome: &Outcome) -> &'static str {
    let contract = CONTRACTS.iter().find(|contract| contract.name == outcome.algorithm);
    match contract.map(|contract| contract.safety) {
        Some(Safety::WithHighProbability) if !outcome.agreed => "with high probability, but not in this run",
        _ => "kept",
    }
}

fn times(outcome: &Outcome) -> String {
    let end = if outcome.quiet { "then quiet" } else { "not quiet when time was up" };
    let (decided, last) = (text::number(outcome.decided), text::number(outcome.time));
    if decided == last {
        return format!("{decided}, {end}");
    }
    format!("{decided} until beliefs settled, {last} until the last message, {end}")
}

fn leaderships(outcome: &Outcome) -> String {
    let mut text = format!("{}; no leader for {}", outcome.leaderships, text::number(outcome.leaderless));
    if outcome.split > 0.0 {
        text += &format!(", more than one for {}", text::number(outcome.split));
    }
    if outcome.wrong_suspicions > 0 {
        text += &format!("; {} wrong suspicions", outcome.wrong_suspicions);
    }
    text
}
