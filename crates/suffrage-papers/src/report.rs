//! Reports: the claims of a paper, our measurements, and the verdict on each claim.
//!
//! A [`Report`] is data. [`page`] renders one or several reports as one self-contained page. [`Report::files`]
//! renders the page, the plots and the tables as files.

mod html;
mod table;

use std::ops::{Bound, RangeBounds};

use serde::Serialize;
use suffrage_sim::Estimate;

use crate::plot::Plot;

pub use html::page;
pub use table::{Table, interval, number};

/// The verdicts on a paper's claims, with the evidence.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The name of its folder and its command, like `gupta2000`.
    pub name: &'static str,
    /// The paper's title.
    pub title: &'static str,
    /// The authors and the publication.
    pub source: &'static str,
    /// The subject of the paper and the method of the reproduction, one paragraph each.
    pub introduction: Vec<String>,
    /// The exhibits, in the paper's order.
    pub exhibits: Vec<Exhibit>,
    /// All measured points, with their seeds and the commands that repeat them.
    pub points: Table,
    /// The provenance of the report.
    pub provenance: Provenance,
}

/// The provenance of a report: enough to make it again.
#[derive(Clone, Debug, Serialize)]
pub struct Provenance {
    /// The command.
    pub command: String,
    /// The number of runs of most points.
    pub runs: u64,
    /// The seed of the first run.
    pub seed: u64,
    /// The version of this program.
    pub version: &'static str,
}

/// A figure, a theorem or a comparison: claims, and the evidence for the verdicts.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Exhibit {
    /// The anchor of links to the exhibit: letters, digits and dashes.
    pub name: String,
    /// The title.
    pub title: String,
    /// The experimental setting, in a sentence.
    pub setting: String,
    /// The claims of the paper, with the measurements.
    pub claims: Vec<Claim>,
    /// The plots of the measurements.
    pub plots: Vec<Plot>,
    /// The tables of the measurements.
    pub tables: Vec<Table>,
    /// Remarks, one paragraph each.
    pub notes: Vec<String>,
}

/// A claim of the paper, with the measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// The section, figure or theorem of the paper that makes the claim.
    pub location: &'static str,
    /// The claim, in a sentence.
    pub statement: String,
    /// The verdict on the claim.
    pub verdict: Verdict,
    /// The measurements, in a sentence.
    pub measured: String,
}

/// The share of runs that counts as "always": no number of runs proves that there are no exceptions. A share of at
/// least this takes 3,688 runs without an exception.
pub const ALWAYS: f64 = 0.999;

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The claim holds for every value in the measured interval.
    Held,
    /// The claim holds for no value in the measured interval.
    DidNotHold,
    /// The measurements do not settle the claim.
    Unclear,
    /// The paper does not make the claim: the question is ours.
    OurQuestion,
}

impl Verdict {
    /// Judges the claim that a measured value lies in a range, by the value's interval. The claim held if the whole
    /// interval lies in the range, did not hold if no part of it does, and is unclear otherwise.
    pub fn judge(value: Estimate, claimed: impl RangeBounds<f64>) -> Verdict {
        let below = match claimed.start_bound() {
            Bound::Included(least) => value.hi < *least,
            Bound::Excluded(least) => value.hi <= *least,
            Bound::Unbounded => false,
        };
        let above = match claimed.end_bound() {
            Bound::Included(most) => value.lo > *most,
            Bound::Excluded(most) => value.lo >= *most,
            Bound::Unbounded => false,
        };
        match claimed.contains(&value.lo) && claimed.contains(&value.hi) {
            true => Verdict::Held,
            false if below || above => Verdict::DidNotHold,
            false => Verdict::Unclear,
        }
    }

    /// Judges the claim that a measured value is at most `most`.
    pub fn at_most(value: Estimate, most: f64) -> Verdict {
        Verdict::judge(value, ..=most)
    }

    /// Judges the claim that a measured value is at least `least`.
    pub fn at_least(value: Estimate, least: f64) -> Verdict {
        Verdict::judge(value, least..)
    }

    /// Judges the claim that a measured value is greater than `less`.
    pub fn above(value: Estimate, less: f64) -> Verdict {
        Verdict::judge(value, (Bound::Excluded(less), Bound::Unbounded))
    }

    /// Judges the claim that an event happens in every run, by the share of runs in which it happened. One exception
    /// refutes the claim. Without exceptions, the lower end of the interval must be at least [`ALWAYS`].
    pub fn always(share: Estimate) -> Verdict {
        if share.mean < 1.0 { Verdict::DidNotHold } else { Verdict::at_least(share, ALWAYS) }
    }

    /// Judges a claim about a computed value, which has no random error.
    pub fn computed(holds: bool) -> Verdict {
        if holds { Verdict::Held } else { Verdict::DidNotHold }
    }

    /// Judges a claim about several values, each with its verdict and its description. The returned text describes
    /// the deciding values: those that refute the claim, or else those that leave it unclear.
    pub fn decide(values: &[(Verdict, String)]) -> (Verdict, String) {
        let verdict = Verdict::all(values.iter().map(|(verdict, _)| *verdict));
        let deciding = values.iter().filter(|(of, _)| *of == verdict).map(|(_, text)| text.as_str());
        (verdict, deciding.collect::<Vec<_>>().join("; "))
    }

    /// Combines the verdicts of conditions that must all hold. The claim did not hold if one condition did not hold.
    /// It is unclear if one condition is unclear, or if there is no condition.
    pub fn all(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
        let verdicts: Vec<Verdict> = verdicts.into_iter().collect();
        let any = |verdict| verdicts.contains(&verdict);
        match (any(Verdict::DidNotHold), any(Verdict::Unclear) || verdicts.is_empty()) {
            (true, _) => Verdict::DidNotHold,
            (_, true) => Verdict::Unclear,
            _ => Verdict::Held,
        }
    }

    /// The verdict as text for readers.
    pub fn label(self) -> &'static str {
        match self {
            Verdict::Held => "held",
            Verdict::DidNotHold => "did not hold",
            Verdict::Unclear => "unclear",
            Verdict::OurQuestion => "our question",
        }
    }
}

impl Claim {
    /// A claim with its verdict and its measurements.
    pub fn new(location: &'static str, statement: &str, verdict: Verdict, measured: String) -> Claim {
        Claim { location, statement: statement.to_string(), verdict, measured }
    }
}

/// A file that the caller writes into a folder of its choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The file name.
    pub name: String,
    /// The content.
    pub text: String,
}

impl Report {
    /// The page, and a file for each plot and each table.
    pub fn files(&self) -> Vec<File> {
        let mut files = vec![File { name: "index.html".to_string(), text: page(&[self]) }];
        for exhibit in &self.exhibits {
            for plot in &exhibit.plots {
                files.push(File { name: format!("{}.svg", plot.name), text: plot.svg() });
                files.push(File { name: format!("{}.csv", plot.name), text: plot.csv() });
            }
            for table in &exhibit.tables {
                files.push(File { name: format!("{}.csv", table.name), text: table.csv() });
            }
        }
        files.push(File { name: format!("{}.csv", self.points.name), text: self.points.csv() });
        files
    }

    /// The number of claims with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        let claims = self.exhibits.iter().flat_map(|exhibit| &exhibit.claims);
        claims.filter(|claim| claim.verdict == verdict).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Series};

    pub(super) fn report() -> Report {
        let plot = Plot {
            name: "figure-1".to_string(),
            title: "Counts".to_string(),
            x: Axis::linear("x"),
            y: Axis::linear("y"),
            series: vec![Series::measured("all", [(1.0, suffrage_sim::proportion(1, 2))])],
        };
        let table = Table::new("counts", "How many", &["n", "messages"]).row(["3", "7 <8>"]);
        Report {
            name: "example2026",
            title: "An Example & More",
            source: "Somebody, somewhere, 2026",
            introduction: vec!["It is <short>.".to_string()],
            exhibits: vec![Exhibit {
                name: "counts".to_string(),
                title: "Figure 1".to_string(),
                setting: "n = 3".to_string(),
                claims: vec![
                    Claim::new("section 1", "It is cheap.", Verdict::Held, "7 messages.".to_string()),
                    Claim::new("section 2", "It is quick.", Verdict::DidNotHold, "It took 9.".to_string()),
                ],
                plots: vec![plot],
                tables: vec![table],
                notes: vec!["That is all.".to_string()],
            }],
            points: Table::new("points", "Every point", &["point"]).row(["first"]),
            provenance: Provenance { command: "suffrage-lab x".to_string(), runs: 2, seed: 0, version: "0" },
        }
    }

    #[test]
    fn every_plot_and_table_has_a_file() {
        let files = report().files();
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["index.html", "figure-1.svg", "figure-1.csv", "counts.csv", "points.csv"]);
        assert_eq!(files[3].text, "n,messages\n3,7 <8>\n");
    }

    #[test]
    fn the_page_is_self_contained_and_shows_verdicts() {
        let page = page(&[&report(), &report()]);
        for text in [
            "An Example &amp; More",
            "It is &lt;short&gt;.",
            "7 &lt;8&gt;",
            "did not hold",
            "<svg ",
            "suffrage-lab x",
        ] {
            assert!(page.contains(text), "{text}");
        }
        for outside in ["<script", "<link", "src=", "@import", "url(http"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("id=\"clip-example2026-figure-1\"") && !page.contains("clip-figure-1"));
    }

    /// All positions of an interval relative to a claim, and claims about several values.
    #[test]
    fn a_claim_is_judged_by_the_whole_interval() {
        use Verdict::{DidNotHold, Held, Unclear};
        let value = Estimate { mean: 0.5, lo: 0.4, hi: 0.6 };
        for (claimed, verdict) in [
            (0.3..=0.7, Held),
            (0.4..=0.6, Held),
            (0.45..=0.7, Unclear),
            (0.3..=0.55, Unclear),
            (0.45..=0.55, Unclear),
            (0.6..=0.7, Unclear),
            (0.1..=0.4, Unclear),
            (0.61..=0.7, DidNotHold),
            (0.1..=0.39, DidNotHold),
        ] {
            assert_eq!(Verdict::judge(value, claimed.clone()), verdict, "{claimed:?}");
        }
        assert_eq!([0.39, 0.4, 0.6].map(|less| Verdict::above(value, less)), [Held, Unclear, DidNotHold]);
        let open = |start, end| Verdict::judge(value, (Bound::Excluded(start), Bound::Excluded(end)));
        assert_eq!([open(0.3, 0.6), open(0.6, 0.7), open(0.1, 0.4)], [Unclear, DidNotHold, DidNotHold]);
        // One run leaves every claim unclear.
        let once = suffrage_sim::mean(&[0.5]);
        assert_eq!([Verdict::judge(once, 0.0..=1.0), Verdict::at_most(once, 0.1)], [Unclear, Unclear]);
        let values = [(Held, "a"), (Unclear, "b"), (DidNotHold, "c"), (Unclear, "d")];
        let values = values.map(|(verdict, text)| (verdict, text.to_string()));
        assert_eq!(Verdict::decide(&values), (DidNotHold, "c".to_string()));
        assert_eq!(Verdict::decide(&values[..2]), (Unclear, "b".to_string()));
        assert_eq!(Verdict::decide(&[]), (Unclear, String::new()));
    }

    #[test]
    fn always_takes_thousands_of_runs_and_no_exception() {
        let always = |yes, of| Verdict::always(suffrage_sim::proportion(yes, of));
        assert_eq!([always(10, 10), always(3687, 3687)], [Verdict::Unclear; 2]);
        assert_eq!([always(3688, 3688), always(999_999, 1_000_000)], [Verdict::Held, Verdict::DidNotHold]);
    }

    #[test]
    fn intervals_decide_verdicts() {
        let value = Estimate { mean: 0.5, lo: 0.4, hi: 0.6 };
        let most = [0.6, 0.5, 0.3].map(|most| Verdict::at_most(value, most));
        assert_eq!(most, [Verdict::Held, Verdict::Unclear, Verdict::DidNotHold]);
        let least = [0.4, 0.5, 0.7].map(|least| Verdict::at_least(value, least));
        assert_eq!(least, most);
        assert_eq!(Verdict::all(most), Verdict::DidNotHold);
        assert_eq!(Verdict::all(most[..2].to_vec()), Verdict::Unclear);
        assert_eq!(Verdict::all([Verdict::Held]), Verdict::Held);
        assert_eq!(Verdict::all([]), Verdict::Unclear);
    }

    #[test]
    fn claims_are_counted() {
        let report = report();
        assert_eq!(
            [Verdict::Held, Verdict::DidNotHold, Verdict::Unclear].map(|v| report.count(v)),
            [1, 1, 0]
        );
    }
}
