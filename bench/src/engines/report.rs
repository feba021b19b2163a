//! The report: for each engine a table of our figures, those of its own client and those of the quorum lease; verdicts.

use serde_json::{Value, json};

use crate::report::{Unit, Verdict};

/// How much slower a figure may be than the client's: two runs on one machine differ by as much.
const TOLERANCE: f64 = 0.9;

/// One line of the table of an engine.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: &'static str,
    pub(crate) what: String,
    pub(crate) unit: Unit,
    pub(crate) ours: f64,
    pub(crate) theirs: Option<f64>,
    /// The same of a cluster of `suffrage node`.
    pub(crate) quorum: Option<f64>,
    /// Whether ours must not be worse than theirs.
    pub(crate) is_target: bool,
}

impl Row {
    /// How many times better we are than the engine's own client.
    fn ratio(&self) -> Option<f64> {
        self.unit.times_better(self.ours, self.theirs?)
    }

    fn json(&self) -> Value {
        json!({
            "key": self.key, "what": self.what, "unit": self.unit.name(), "suffrage": self.ours,
            "client": self.theirs, "times_better": self.ratio(), "quorum_lease": self.quorum,
        })
    }

    fn text(&self) -> String {
        let show = |figure: Option<f64>| figure.map_or("-".to_string(), |figure| self.unit.show(figure));
        let ratio = self.ratio().map_or("-".to_string(), |ratio| format!("{ratio:.1}x"));
        let (ours, theirs, quorum) = (show(Some(self.ours)), show(self.theirs), show(self.quorum));
        format!("  {:<38} {ours:>16} {theirs:>16} {ratio:>8} {quorum:>16}", self.what)
    }
}

/// The figures of one engine, or why there are none.
#[derive(Clone, Debug)]
pub(crate) struct EngineReport {
    pub(crate) scheme: &'static str,
    /// Its name, its version and the number of servers.
    pub(crate) title: String,
    /// Its own client.
    pub(crate) client: &'static str,
    pub(crate) rows: Vec<Row>,
    pub(crate) notes: Vec<String>,
    /// Why the measurements ended early.
    pub(crate) failure: Option<String>,
}

impl EngineReport {
    fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts: Vec<Verdict> = self
            .rows
            .iter()
            .filter(|row| row.is_target)
            .map(|row| {
                let ratio = row.ratio();
                Verdict {
                    target: format!("{}: {}: not worse than its own client", self.scheme, row.what),
                    measured: ratio
                        .map_or("not measured".to_string(), |ratio| format!("{ratio:.1} times as good")),
                    met: ratio.map(|ratio| ratio >= TOLERANCE),
                }
            })
            .collect();
        if let Some(reason) = &self.failure {
            let target = format!("{}: everything is measured", self.scheme);
            verdicts.push(Verdict { target, measured: reason.clone(), met: Some(false) });
        }
        verdicts
    }

    fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        json!({
            "engine": self.scheme, "title": self.title, "client": self.client, "rows": rows, "notes": self.notes,
            "failure": self.failure,
        })
    }
}

/// The results of the benchmark.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) setting: String,
    pub(crate) engines: Vec<EngineReport>,
    pub(crate) notes: Vec<String>,
}

impl Report {
    fn verdicts(&self) -> Vec<Verdict> {
        self.engines.iter().flat_map(EngineReport::verdicts).collect()
    }

    pub(crate) fn is_met(&self) -> bool {
        self.verdicts().iter().all(|verdict| verdict.met != Some(false))
    }

    pub(crate) fn json(&self) -> Value {
        let verdicts: Vec<Value> = self.verdicts().iter().map(Verdict::json).collect();
        let engines: Vec<Value> = self.engines.iter().map(EngineReport::json).collect();
        json!({ "setting": self.setting, "engines": engines, "targets": verdicts, "notes": self.notes })
    }

    pub(crate) fn text(&self) -> String {
        let mut lines = vec![self.setting.clone()];
        for engine in &self.engines {
            let head = ["suffrage on it", "its own client", "ratio", "quorum lease"];
            lines.push(format!(
                "\n{:<40} {:>16} {:>16} {:>8} {:>16}",
                engine.title, head[0], head[1], head[2], head[3]
            ));
            lines.extend(engine.rows.iter().map(Row::text));
        }
        lines.push("\nratio: how many times better suffrage is than the engine's own client\n".to_string());
        lines.extend(self.verdicts().iter().map(Verdict::text));
        lines.push(String::new());
        for engine in &self.engines {
            lines.push(format!("- {}: its own client is {}", engine.scheme, engine.client));
            lines.extend(engine.notes.iter().map(|note| format!("- {}: {note}", engine.scheme)));
        }
        lines.extend(self.notes.iter().map(|note| format!("- {note}")));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(ours: f64, theirs: Option<f64>, failure: Option<&str>) -> Report {
        let row = |key, unit, is_target| Row {
            key,
            what: key.to_string(),
            unit,
            ours,
            theirs,
            quorum: Some(0.5),
            is_target,
        };
        let rows = vec![row("median", Unit::Millis, true), row("longest", Unit::Millis, false)];
        let engine = EngineReport {
            scheme: "etcd",
            title: "etcd 3, 3 servers".to_string(),
            client: "a client",
            rows,
            notes: Vec::new(),
            failure: failure.map(str::to_string),
        };
        Report { engines: vec![engine], ..Report::default() }
    }

    #[test]
    fn a_figure_may_be_as_much_worse_as_two_runs_differ() {
        assert!(report(10.0, Some(10.0), None).is_met());
        assert!(report(10.0, Some(9.0), None).is_met());
        assert!(!report(10.0, Some(8.9), None).is_met());
        assert!(report(10.0, None, None).is_met(), "not measured is not missed");
        assert!(!report(10.0, Some(20.0), Some("the server does not start")).is_met());
    }

    #[test]
    fn text_and_json_have_the_same_figures() {
        let report = report(10.0, Some(5.0), None);
        let (text, json) = (report.text(), report.json());
        assert!(
            text.contains("MISSED  etcd: median: not worse than its own client: 0.5 times as good"),
            "{text}"
        );
        assert!(text.contains("10.0 ms") && text.contains("0.50 ms"), "{text}");
        assert_eq!(json["engines"][0]["rows"][0]["times_better"], 0.5);
        assert_eq!(
            (&json["targets"][0]["met"], json["targets"].as_array().map(Vec::len)),
            (&json!(false), Some(1))
        );
    }
}
