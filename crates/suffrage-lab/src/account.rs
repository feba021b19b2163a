//! The account of one run: the course of events, and what came of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use suffrage_algorithms::catalog::CONTRACTS;
use suffrage_core::{Attribute, Figure, NodeId, Quality, Safety, Time, Value};
use suffrage_sim::{Messages, Observer, Outcome, Ranking, Scenario, TraceEvent};

use crate::belief::{Beliefs, News};
use crate::watch::Cuts;
use suffrage_cli::text;

/// How many lines of a long course of events are shown: its beginning and its end.
const HEAD: usize = 30;
const TAIL: usize = 20;

/// Takes down what matters of a run as it happens.
#[derive(Debug)]
pub(crate) struct Account {
    beliefs: Beliefs,
    cuts: Cuts,
    counts_failures: bool,
    entries: Vec<Entry>,
    /// Which entry of this moment says what, so that others can join it.
    now: BTreeMap<Deed, usize>,
}

/// Something that happened to some processes at once, or to one after the other.
#[derive(Clone, Debug)]
struct Entry {
    from: Time,
    to: Time,
    deed: Deed,
    who: Vec<NodeId>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    Calls,
    /// Something else is asked of it.
    Asked(String),
    Suspects(Vec<NodeId>),
    Hears(Vec<NodeId>),
    Crashes,
    Recovers,
    Pauses,
    GoesOn,
    Jumps(String),
    Ranks(String),
    Cut(String),
    Healed(String),
    HealAll,
    Belief(News),
}

impl Account {
    pub(crate) fn new(scenario: &Scenario, cuts: Cuts) -> Account {
        let counts_failures = scenario.ranking == Ranking::Quality;
        Account {
            beliefs: Beliefs::new(scenario),
            cuts,
            counts_failures,
            entries: Vec::new(),
            now: BTreeMap::new(),
        }
    }

    fn enter(&mut self, at: Time, deed: Deed, who: Option<NodeId>) {
        let spread = matches!(
            deed,
            Deed::Belief(News::Follows(..) | News::KeepsFollowing(..) | News::Forgets)
                | Deed::Suspects(_)
                | Deed::Hears(_)
        );
        let last = self.entries.last().map(|entry| (self.entries.len() - 1, entry));
        if last.is_none_or(|(_, entry)| entry.to != at) {
            self.now.clear();
        }
        let followed = last.filter(|(_, entry)| spread && entry.deed == deed).map(|(place, _)| place);
        match self.now.get(&deed).copied().or(followed) {
            Some(place) => {
                self.entries[place].to = at;
                self.entries[place].who.extend(who);
                self.now.insert(deed, place);
            }
            None => {
                self.now.insert(deed.clone(), self.entries.len());
                self.entries.push(Entry { from: at, to: at, deed, who: who.into_iter().collect() });
            }
        }
    }

    /// What an attribute means to a reader.
    fn rank(&self, attribute: Attribute) -> String {
        match Quality::from_attribute(attribute).failures {
            failures if self.counts_failures && failures > 0 => {
                format!("has {} to its name", text::count(failures as usize, "crash", "crashes"))
            }
            _ => format!("has attribute {attribute} from now on"),
        }
    }

    /// The course of events, a line each.
    pub(crate) fn course(&self) -> String {
        let mut entries: Vec<Entry> = Vec::new();
        for entry in &self.entries {
            if !entries.last_mut().is_some_and(|last| last.absorb(entry)) {
                entries.push(entry.clone());
            }
        }
        let count = entries.len();
        let moments: Vec<String> = entries.iter().map(Entry::moment).collect();
        let width = moments.iter().map(String::len).max().unwrap_or(0).max(6);
        let mut text = String::new();
        for (place, (moment, entry)) in moments.iter().zip(&entries).enumerate() {
            if count > HEAD + TAIL + 1 && (HEAD..count - TAIL).contains(&place) {
                if place == HEAD {
                    let left_out = count - HEAD - TAIL;
                    let _ = writeln!(
                        text,
                        "  {:>width$}  {left_out} more; --diagram or --trace show them",
                        "..."
                    );
                }
                continue;
            }
            let _ = writeln!(text, "  {moment:>width$}  {}", text::wrap(&entry.sentence(), 90, width + 4));
        }
        text
    }

    /// Whom the live processes believe in at the end.
    pub(crate) fn verdict(&self, outcome: &Outcome) -> String {
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
            return "none: nobody is alive".to_string();
        }
        let parts = groups.into_iter().map(|(leader, who)| {
            let many = who.len() > 1;
            let who = text::ids(who);
            match (leader, many) {
                (Some(leader), true) => format!("{who} believe in {leader}"),
                (Some(leader), false) => format!("{who} believes in {leader}"),
                (None, true) => format!("{who} know of none"),
                (None, false) => format!("{who} knows of none"),
            }
        });
        format!("not agreed: {}", parts.collect::<Vec<_>>().join("; "))
    }
}

impl Observer for Account {
    fn observe(&mut self, at: Time, event: TraceEvent<'_>) {
        let (deed, who) = match event {
            TraceEvent::Commanded { who, command: "campaign" } => (Deed::Calls, who),
            TraceEvent::Commanded { who, command } => (Deed::Asked(text::request(command)), who),
            TraceEvent::Suspected { who, peer } => (Deed::Suspects(vec![peer]), who),
            TraceEvent::Restored { who, peer } => (Deed::Hears(vec![peer]), who),
            TraceEvent::Crashed { who } => {
                self.beliefs.crash(who);
                (Deed::Crashes, who)
            }
            TraceEvent::Recovered { who } => {
                self.beliefs.recover(who);
                (Deed::Recovers, who)
            }
            TraceEvent::Paused { who } => (Deed::Pauses, who),
            TraceEvent::Resumed { who } => (Deed::GoesOn, who),
            TraceEvent::Jumped { who, by, back } => {
                let way = if back { "back" } else { "ahead" };
                (Deed::Jumps(format!("{way} by {by}")), who)
            }
            TraceEvent::Ranked { who, attribute } => (Deed::Ranks(self.rank(attribute)), who),
            TraceEvent::Announced { who, announcement } => {
                let Some(news) = self.beliefs.announce(who, announcement) else { return };
                (Deed::Belief(news), who)
            }
            TraceEvent::Cut => {
                let deed = Deed::Cut(self.cuts.cut());
                return self.enter(at, deed, None);
            }
            TraceEvent::Healed => {
                let deed = Deed::Healed(self.cuts.heal());
                return self.enter(at, deed, None);
            }
            TraceEvent::HealedAll => {
                self.cuts.heal_all(at);
                return self.enter(at, Deed::HealAll, None);
            }
            TraceEvent::Sent { .. }
            | TraceEvent::Multicast { .. }
            | TraceEvent::Delivered { .. }
            | TraceEvent::Dropped { .. }
            | TraceEvent::Expired { .. } => return,
        };
        self.enter(at, deed, Some(who));
    }
}

impl Entry {
    /// Takes over what the same processes noticed of others at the same time. False if there is
    /// nothing to take over.
    fn absorb(&mut self, next: &Entry) -> bool {
        if (self.from, self.to, &self.who) != (next.from, next.to, &next.who) {
            return false;
        }
        match (&mut self.deed, &next.deed) {
            (Deed::Suspects(peers), Deed::Suspects(more)) | (Deed::Hears(peers), Deed::Hears(more)) => {
                peers.extend(more);
                true
            }
            _ => false,
        }
    }

    fn moment(&self) -> String {
        match self.from == self.to {
            true => text::time(self.from),
            false => format!("{}..{}", text::time(self.from), text::time(self.to)),
        }
    }

    fn sentence(&self) -> String {
        let list = |ids: &[NodeId]| text::ids(ids.iter().copied());
        let who = list(&self.who);
        let verb = |one: &str, many: &str| {
            let verb = if self.who.len() == 1 { one } else { many };
            format!("{who} {verb}")
        };
        match &self.deed {
            Deed::Calls => verb("calls an election", "call elections"),
            Deed::Asked(request) => format!("{} {request}", verb("is asked", "are asked")),
            Deed::Suspects(peers) => format!("{} {}", verb("suspects", "suspect"), list(peers)),
            Deed::Hears(peers) => format!("{} {} again", verb("hears", "hear"), list(peers)),
            Deed::Crashes => verb("crashes", "crash"),
            Deed::Recovers => verb("recovers", "recover"),
            Deed::Pauses => verb("pauses", "pause"),
            Deed::GoesOn => verb("goes on", "go on"),
            Deed::Jumps(how) => format!("the clock of {who} jumps {how}"),
            Deed::Ranks(rank) => verb(rank, rank),
            Deed::Cut(groups) => format!("the network is cut: {groups}"),
            Deed::Healed(groups) => format!("the cut is healed: {groups}"),
            Deed::HealAll => "from now on nothing goes wrong".to_string(),
            Deed::Belief(News::Leads(term)) => format!("{} (term {term})", verb("leads", "lead")),
            Deed::Belief(News::Follows(leader, term) | News::KeepsFollowing(leader, term)) => {
                format!("{} {leader} (term {term})", verb("follows", "follow"))
            }
            Deed::Belief(News::StepsDown) => verb("steps down", "step down"),
            Deed::Belief(News::Forgets) => verb("has no leader any more", "have no leader any more"),
            Deed::Belief(News::FindsNobody) => verb("finds nobody who may lead", "find nobody who may lead"),
        }
    }
}

/// Who takes part, in one line.
pub(crate) fn opening(algorithm: &str, scenario: &Scenario) -> String {
    let roster = &scenario.roster;
    let order: Vec<NodeId> = roster.iter().take(13).collect();
    let group = match order.is_sorted() || roster.len() > 12 {
        true => text::ids(roster.iter()),
        false => order.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", "),
    };
    let dead = match scenario.crashed.as_slice() {
        [] => String::new(),
        slots => format!("; dead from the start: {}", text::ids(slots.iter().map(|&slot| roster.id(slot)))),
    };
    format!("{algorithm}, {}: {group}{dead}", text::count(roster.len(), "process", "processes"))
}

/// What came of the run, a line each.
pub(crate) fn result(scenario: &Scenario, outcome: &Outcome, verdict: &str, replay: &str) -> String {
    let mut facts = Vec::new();
    if scenario.initiators.is_empty() && scenario.contenders.is_none() && is_idle(outcome) {
        facts.push(("note", "nobody was asked to call an election".to_string()));
    }
    facts.extend([("leader", verdict.to_string()), ("messages", sent(&outcome.messages))]);
    let apart = kinds(&outcome.messages.uncounted);
    if !apart.is_empty() {
        facts.push(("apart", format!("{apart}, which the source does not count")));
    }
    facts.push(("time", times(outcome)));
    facts.push(("leaders", leaderships(outcome)));
    if !outcome.figures.is_empty() {
        facts.push(("figures", figures(&outcome.figures)));
    }
    match outcome.violations.as_slice() {
        [] => facts.push(("promises", kept(outcome).to_string())),
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

/// Whether nobody sent or led.
fn is_idle(outcome: &Outcome) -> bool {
    let Messages { total, uncounted, .. } = &outcome.messages;
    *total == 0 && uncounted.iter().all(|(_, count)| *count == 0) && outcome.leaderships == 0
}

fn kinds(counts: &[(&str, u64)]) -> String {
    let sent = counts.iter().filter(|(_, count)| *count > 0);
    sent.map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(" + ")
}

fn figures(figures: &[Figure]) -> String {
    let tell = |Figure { name, value }: &Figure| match *value {
        Value::Share(held) => format!("{name} {}", if held { "yes" } else { "no" }),
        Value::Amount(amount) => format!("{name} {}", text::number(amount)),
    };
    figures.iter().map(tell).collect::<Vec<_>>().join(", ")
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
        text += &format!("; {} came to nothing", messages.undelivered);
    }
    text
}

/// A promise with a probability is not broken by one run that goes wrong, but that is not to be passed over.
fn kept(outcome: &Outcome) -> &'static str {
    let contract = CONTRACTS.iter().find(|contract| contract.name == outcome.algorithm);
    match contract.map(|contract| contract.safety) {
        Some(Safety::WithHighProbability) if !outcome.agreed => "with high probability, but not here",
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
    let mut text = format!("{}; nobody led for {}", outcome.leaderships, text::number(outcome.leaderless));
    if outcome.split > 0.0 {
        text += &format!(", more than one for {}", text::number(outcome.split));
    }
    if outcome.wrong_suspicions > 0 {
        text += &format!("; {} wrong suspicions", outcome.wrong_suspicions);
    }
    text
}
