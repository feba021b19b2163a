//! What lasts in a run: beliefs, leases, crashes, pauses, suspicions, cuts.

use std::collections::BTreeMap;

use suffrage_core::{NodeId, Term};

use crate::trace::{EventName, Line};

/// A time span of a process. The end is infinite if the run ends before it.
#[derive(Clone, Debug)]
pub(super) struct Interval<T> {
    pub(super) node: NodeId,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) what: T,
}

/// The spans of one kind: at most one a process at a time.
#[derive(Debug)]
pub(super) struct Spans<T> {
    pub(super) all: Vec<Interval<T>>,
    open: BTreeMap<NodeId, (f64, f64, T)>,
}

impl<T> Default for Spans<T> {
    fn default() -> Self {
        Spans { all: Vec::new(), open: BTreeMap::new() }
    }
}

impl<T> Spans<T> {
    fn end(&mut self, node: NodeId, at: f64) {
        if let Some((from, to, what)) = self.open.remove(&node) {
            self.all.push(Interval { node, from, to: to.min(at).max(from), what });
        }
    }

    fn begin(&mut self, node: NodeId, from: f64, to: f64, what: T) {
        self.end(node, from);
        self.open.insert(node, (from, to, what));
    }

    fn close(&mut self) {
        let nodes: Vec<NodeId> = self.open.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.end(node, f64::INFINITY));
    }
}

/// A cut of the network.
#[derive(Debug)]
pub(super) struct CutSpan {
    pub(super) groups: Vec<Vec<NodeId>>,
    pub(super) from: f64,
    pub(super) to: f64,
}

/// All spans of a run.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    pub(super) beliefs: Spans<(NodeId, Term)>,
    pub(super) leases: Spans<()>,
    /// True if the process is down, false if it is paused.
    pub(super) lives: Spans<bool>,
    pub(super) suspicions: Spans<Vec<NodeId>>,
    pub(super) cuts: Vec<CutSpan>,
    pub(super) violations: Vec<f64>,
}

impl Intervals {
    pub(crate) fn new(crashed: &[NodeId]) -> Intervals {
        let mut intervals = Intervals::default();
        crashed.iter().for_each(|&node| intervals.lives.begin(node, 0.0, f64::INFINITY, true));
        intervals
    }

    pub(crate) fn line(&mut self, line: &Line) {
        let at = line.at;
        match (line.event, line.node) {
            (EventName::Cut, _) => {
                let groups = line.groups.clone().unwrap_or_default();
                self.cuts.push(CutSpan { groups, from: at, to: f64::INFINITY });
            }
            (EventName::Healed, _) => {
                let is_this =
                    |cut: &&mut CutSpan| cut.to.is_infinite() && Some(&cut.groups) == line.groups.as_ref();
                if let Some(cut) = self.cuts.iter_mut().find(is_this) {
                    cut.to = at;
                }
            }
            (EventName::HealedAll, _) => {
                self.cuts.iter_mut().filter(|cut| cut.to.is_infinite()).for_each(|cut| cut.to = at);
            }
            (EventName::Violated, _) => self.violations.push(at),
            (_, Some(node)) => self.of_process(line, node, at),
            _ => {}
        }
    }

    fn of_process(&mut self, line: &Line, node: NodeId, at: f64) {
        match line.event {
            EventName::Elected => {
                let belief = (line.leader.unwrap_or(node), line.term.unwrap_or_default());
                if self.beliefs.open.get(&node).is_none_or(|(.., before)| *before != belief) {
                    self.beliefs.begin(node, at, f64::INFINITY, belief);
                }
                if line.leader != Some(node) {
                    self.leases.end(node, at);
                }
            }
            EventName::SteppedDown | EventName::Undecided => {
                self.beliefs.end(node, at);
                self.leases.end(node, at);
            }
            EventName::Leased => {
                let until = line.until.unwrap_or(at);
                match self.leases.open.get_mut(&node) {
                    Some((_, to, ())) if *to >= at => *to = until,
                    _ => self.leases.begin(node, at, until, ()),
                }
            }
            EventName::Crashed => {
                self.beliefs.end(node, at);
                self.leases.end(node, at);
                self.suspicions.end(node, at);
                self.lives.begin(node, at, f64::INFINITY, true);
            }
            EventName::Paused => self.lives.begin(node, at, f64::INFINITY, false),
            EventName::Recovered | EventName::Resumed => self.lives.end(node, at),
            EventName::Suspected | EventName::Restored => {
                let mut peers =
                    self.suspicions.open.get(&node).map_or_else(Vec::new, |(.., peers)| peers.clone());
                peers.retain(|&peer| Some(peer) != line.peer);
                if line.event == EventName::Suspected {
                    peers.extend(line.peer);
                }
                match peers.is_empty() {
                    true => self.suspicions.end(node, at),
                    false => self.suspicions.begin(node, at, f64::INFINITY, peers),
                }
            }
            _ => {}
        }
    }

    pub(crate) fn close(&mut self) {
        self.beliefs.close();
        self.leases.close();
        self.lives.close();
        self.suspicions.close();
    }

    /// The number of leaders by the true clock, from each change on. A leader with a lease leads while it lasts.
    pub(crate) fn leader_counts(&self) -> Vec<(f64, usize)> {
        let mut changes: Vec<(f64, i32)> = Vec::new();
        for belief in self.beliefs.all.iter().filter(|belief| belief.what.0 == belief.node) {
            let is_its = |lease: &&Interval<()>| {
                lease.node == belief.node && lease.from <= belief.from && lease.to >= belief.from
            };
            let to = self.leases.all.iter().find(is_its).map_or(belief.to, |lease| lease.to.min(belief.to));
            changes.extend([(belief.from, 1), (to, -1)]);
        }
        // At equal times an end comes first: then nobody led twice.
        changes.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let mut counts = vec![(0.0, 0)];
        let mut leaders = 0;
        for (at, change) in changes {
            leaders += change;
            match counts.last_mut() {
                Some(last) if last.0 == at => last.1 = leaders as usize,
                _ => counts.push((at, leaders as usize)),
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use suffrage_cli::Console;
    use suffrage_cli::testing::{HOW_TO_BLESS, blessing, difference};

    use super::*;
    use crate::trace::{self, Header, Sink};

    /// The intervals of these runs. `browser/player.test.js` derives them from the pages of the same runs, by
    /// `crates/suffrage-web/player/model.js`, and compares them with the same file.
    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/intervals.json");
    const RUNS: [&str; 4] = [
        "bully --crash 5@10,4@60 --recover 5@40,4@85 --pause 4@12..19 --partition 1,2|3,4,5@50..70 --rerank 3=9@80 --loss 0.1 \
         --duplicate 0.1 --latency uniform:0.5,1.5 --detector ideal:2 --heal-all-at 90 --until 120",
        "quorum-lease --crash 5@30 --recover 5@60 --pause 3@80..120 --partition 1|2,3,4,5@140..170 --until 220",
        "raft --pause 2@10..30 --crash 2@20 --recover 2@40 --until 120",
        "stable-leader --nodes 4 --crashed 4 --partition 1|2@20..40 --partition 1|3@30..60 --detector heartbeat:2,7 \
         --until 90",
    ];

    struct Reader(Intervals);

    impl Sink for Reader {
        fn open(&mut self, header: &Header) -> std::io::Result<()> {
            self.0 = Intervals::new(&header.crashed);
            Ok(())
        }
        fn line(&mut self, line: &Line) -> std::io::Result<()> {
            self.0.line(line);
            Ok(())
        }
        fn close(&mut self) -> std::io::Result<()> {
            self.0.close();
            Ok(())
        }
    }

    /// A time; null for the end of a run.
    fn time(at: f64) -> Value {
        if at.is_finite() { json!(at) } else { Value::Null }
    }

    /// The intervals of a kind as rows, in the order of their processes and times.
    fn rows<T>(spans: &Spans<T>, what: impl Fn(&T) -> Value) -> Vec<Value> {
        let mut sorted: Vec<&Interval<T>> = spans.all.iter().collect();
        sorted.sort_by(|one, other| one.node.cmp(&other.node).then(one.from.total_cmp(&other.from)));
        sorted.iter().map(|one| json!([one.node, one.from, time(one.to), what(&one.what)])).collect()
    }

    fn derived(words: &str) -> Value {
        let line = format!("suffrage-lab simulate {words} --trace -");
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = crate::run(
            line.split_whitespace().map(Into::into).collect(),
            &mut Console::plain(&mut out, &mut err),
        );
        assert_eq!(code, 0, "{words}: {}", String::from_utf8_lossy(&err));
        let mut reader = Reader(Intervals::default());
        trace::read(out.as_slice(), &mut reader).unwrap();
        reader.close().unwrap();
        let intervals = reader.0;
        let cuts = intervals.cuts.iter().map(|cut| json!([cut.groups, cut.from, time(cut.to)]));
        let counts = intervals.leader_counts();
        json!({
            "run": words,
            "beliefs": rows(&intervals.beliefs, |(leader, term)| json!([leader, term.0])),
            "leases": rows(&intervals.leases, |()| Value::Null),
            "down": rows(&intervals.lives, |down| json!(down)),
            "suspicions": rows(&intervals.suspicions, |peers| json!(peers)),
            "cuts": cuts.collect::<Vec<_>>(),
            "leaders": counts.iter().filter(|(at, _)| at.is_finite()).collect::<Vec<_>>(),
        })
    }

    #[test]
    fn the_intervals_of_runs_are_as_committed() {
        let all: Vec<Value> = RUNS.iter().map(|words| derived(words)).collect();
        // A row a line.
        let text =
            serde_json::to_string(&all).unwrap().replace("],[", "],\n[").replace("},{", "},\n{") + "\n";
        if blessing() {
            std::fs::write(GOLDEN, &text).unwrap();
        }
        let golden = std::fs::read_to_string(GOLDEN).unwrap_or_default();
        assert_eq!(text, golden, "{}\n{HOW_TO_BLESS}", difference(&golden, &text));
        for kind in ["beliefs", "leases", "down", "suspicions", "cuts"] {
            assert!(all.iter().any(|run| run[kind].as_array().is_some_and(|rows| rows.len() > 1)), "{kind}");
        }
    }
}
