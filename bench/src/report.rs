//! The report: a table, ratios, and the verdicts on the targets.

use serde_json::{Value, json};

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Milliseconds: less is better.
    Millis,
    /// Per second: more is better.
    PerSecond,
    /// Requests per second that something costs: less is better.
    Requests,
    /// Per cent of one CPU: less is better.
    Cpu,
    /// Megabytes: less is better.
    Megabytes,
    /// A count: more is better.
    Count,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Millis => "ms",
            Unit::PerSecond | Unit::Requests => "/s",
            Unit::Cpu => "% of a CPU",
            Unit::Megabytes => "MB",
            Unit::Count => "",
        }
    }

    fn more_is_better(self) -> bool {
        matches!(self, Unit::PerSecond | Unit::Count)
    }

    /// How many times better our figure is than theirs.
    pub(crate) fn times_better(self, ours: f64, theirs: f64) -> Option<f64> {
        let (good, bad) = if self.more_is_better() { (ours, theirs) } else { (theirs, ours) };
        (bad > 0.0).then(|| good / bad)
    }

    /// Formats a figure with at least three digits.
    pub(crate) fn show(self, figure: f64) -> String {
        let digits = match figure.abs() {
            0.0 => 0,
            figure if self == Unit::Count || figure >= 100.0 => 0,
            figure if figure >= 10.0 => 1,
            figure if figure < 0.1 => 4,
            _ => 2,
        };
        format!("{figure:.digits$} {}", self.name()).trim_end().to_string()
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: String,
    pub(crate) what: String,
    pub(crate) unit: Unit,
    pub(crate) suffrage: Option<f64>,
    pub(crate) etcd: Option<f64>,
}

impl Row {
    /// The ratio to etcd: how many times better suffrage is.
    pub(crate) fn ratio(&self) -> Option<f64> {
        self.unit.times_better(self.suffrage?, self.etcd?)
    }

    fn json(&self) -> Value {
        json!({
            "key": self.key, "what": self.what, "unit": self.unit.name(),
            "suffrage": self.suffrage, "etcd": self.etcd, "times_better": self.ratio(),
        })
    }
}

/// A target and whether it is met.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) target: String,
    pub(crate) measured: String,
    /// None if the figure was not measured.
    pub(crate) met: Option<bool>,
}

impl Verdict {
    pub(crate) fn json(&self) -> Value {
        json!({ "target": self.target, "measured": self.measured, "met": self.met })
    }

    pub(crate) fn text(&self) -> String {
        let word = self.met.map_or("-", |met| if met { "met" } else { "MISSED" });
        format!("{word:<7} {}: {}", self.target, self.measured)
    }
}

/// The results of a benchmark.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) setting: Vec<String>,
    pub(crate) rows: Vec<Row>,
    pub(crate) notes: Vec<String>,
}

impl Report {
    pub(crate) fn add(
        &mut self,
        key: impl Into<String>,
        what: impl Into<String>,
        unit: Unit,
        suffrage: Option<f64>,
        etcd: Option<f64>,
    ) {
        self.rows.push(Row { key: key.into(), what: what.into(), unit, suffrage, etcd });
    }

    fn row(&self, key: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.key == key)
    }

    /// The verdict on a figure of suffrage that must stay below a bound.
    fn below(&self, key: &str, bound: f64, target: &str) -> Verdict {
        let row = self.row(key);
        let figure = row.and_then(|row| row.suffrage);
        let measured =
            row.zip(figure).map_or("not measured".to_string(), |(row, figure)| row.unit.show(figure));
        Verdict { target: target.to_string(), measured, met: figure.map(|figure| figure < bound) }
    }

    /// The verdict on a figure that must be at least `times` better than that of etcd.
    fn times_better(&self, key: &str, times: f64, target: &str) -> Verdict {
        let ratio = self.row(key).and_then(Row::ratio);
        let measured = ratio.map_or("not measured".to_string(), |ratio| format!("{ratio:.1} times"));
        Verdict { target: target.to_string(), measured, met: ratio.map(|ratio| ratio >= times) }
    }

    pub(crate) fn verdicts(&self) -> Vec<Verdict> {
        let held = self.row("held-100000-kept").and_then(|row| row.suffrage);
        let million = self.row("million-kept").and_then(|row| row.suffrage);
        vec![
            self.below("failover-200ms-p99", 300.0, "failover at ttl 200 ms under 300 ms, p99"),
            self.below("kill-p99", 10.0, "killed process to next leader under 10 ms, p99"),
            self.times_better(
                "kill-p99",
                100.0,
                "killed process to next leader 100 times faster than etcd, p99",
            ),
            self.below("handover-native-median", 1.0, "resign to next under 1 ms, library, median"),
            self.below("handover-http-median", 1.0, "resign to next under 1 ms, over HTTP, median"),
            self.times_better(
                "acquire-native-64",
                20.0,
                "20 times etcd's acquisitions, 64 names, library and gRPC",
            ),
            self.times_better(
                "acquire-http-64",
                20.0,
                "20 times etcd's acquisitions, 64 names, both over HTTP",
            ),
            self.times_better(
                "acquire-socket-64",
                20.0,
                "20 times etcd's acquisitions, 64 names, Unix socket and gRPC",
            ),
            self.times_better("held-10000-cpu", 10.0, "a tenth of etcd's CPU at 10,000 held elections"),
            self.times_better("held-10000-memory", 10.0, "a tenth of etcd's memory at 10,000 held elections"),
            Verdict {
                target: "100,000 elections held".to_string(),
                measured: held.map_or("not measured".to_string(), |held| format!("{held:.0} held")),
                met: held.map(|held| held >= 100_000.0),
            },
            Verdict {
                target: "a million elections held".to_string(),
                measured: million.map_or("not measured".to_string(), |held| format!("{held:.0} held")),
                met: million.map(|held| held >= 1_000_000.0),
            },
        ]
    }

    pub(crate) fn json(&self) -> Value {
        let verdicts: Vec<Value> = self.verdicts().iter().map(Verdict::json).collect();
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        json!({ "setting": self.setting, "rows": rows, "targets": verdicts, "notes": self.notes })
    }

    pub(crate) fn text(&self) -> String {
        let mut lines = self.setting.clone();
        lines.push(format!("\n{:<54} {:>16} {:>16} {:>8}", "", "suffrage", "etcd", "ratio"));
        for row in &self.rows {
            let show = |figure: Option<f64>| figure.map_or("-".to_string(), |figure| row.unit.show(figure));
            let ratio = row.ratio().map_or("-".to_string(), |ratio| format!("{ratio:.1}x"));
            let (suffrage, etcd) = (show(row.suffrage), show(row.etcd));
            lines.push(format!("{:<54} {suffrage:>16} {etcd:>16} {ratio:>8}", row.what));
        }
        lines.push("\nratio: how many times better suffrage is\n".to_string());
        lines.extend(self.verdicts().iter().map(Verdict::text));
        lines.push(String::new());
        lines.extend(self.notes.iter().map(|note| format!("- {note}")));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(failover: f64, ours: f64, theirs: f64) -> Report {
        let mut report = Report::default();
        report.add("failover-200ms-p99", "failover", Unit::Millis, Some(failover), Some(1_500.0));
        report.add("acquire-native-64", "acquisitions", Unit::PerSecond, Some(ours), Some(theirs));
        report.add("held-10000-cpu", "CPU", Unit::Cpu, Some(2.0), Some(30.0));
        report.add("held-10000-memory", "memory", Unit::Megabytes, Some(40.0), None);
        report
    }

    /// The verdicts on the figures of [`report`]: failover, acquisitions, CPU and memory.
    fn met(report: &Report) -> Vec<Option<bool>> {
        let verdicts = report.verdicts();
        let verdict = |target: &str| verdicts.iter().find(|it| it.target.starts_with(target)).unwrap().met;
        let acquisitions = "20 times etcd's acquisitions, 64 names, library";
        ["failover at ttl", acquisitions, "a tenth of etcd's CPU", "a tenth of etcd's memory"]
            .map(verdict)
            .to_vec()
    }

    #[test]
    fn ratios_are_how_many_times_better() {
        let report = report(250.0, 30_000.0, 1_000.0);
        let ratios: Vec<_> = report.rows.iter().map(Row::ratio).collect();
        assert_eq!(ratios, [Some(6.0), Some(30.0), Some(15.0), None]);
    }

    #[test]
    fn targets_are_met_missed_or_not_measured() {
        let good = met(&report(299.9, 20_000.0, 1_000.0));
        assert_eq!(good, [Some(true), Some(true), Some(true), None]);
        let bad = met(&report(300.0, 19_999.0, 1_000.0));
        assert_eq!(bad, [Some(false), Some(false), Some(true), None]);
        let text = report(300.0, 1.0, 1.0).text();
        assert!(text.contains("MISSED  failover at ttl 200 ms under 300 ms, p99: 300 ms"), "{text}");
        assert!(text.contains("-       a tenth of etcd's memory"), "{text}");
    }

    #[test]
    fn the_json_has_the_same_figures() {
        let json = report(250.0, 30_000.0, 1_000.0).json();
        assert_eq!(json["rows"][1]["times_better"], 30.0);
        assert_eq!((&json["targets"][0]["met"], &json["targets"][1]["met"]), (&json!(true), &Value::Null));
    }

    #[test]
    fn figures_have_three_digits() {
        let shown = [0.123, 12.34, 1_234.5].map(|figure| Unit::Millis.show(figure));
        assert_eq!(shown, ["0.12 ms", "12.3 ms", "1234 ms"]);
        assert_eq!(Unit::Count.show(100_000.0), "100000");
    }
}
