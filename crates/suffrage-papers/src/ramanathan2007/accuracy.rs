//! Section 7.2: the share of runs with exactly one winner.

use suffrage_sim::Contenders;

use super::{Request, add, add_in_bulk, quorums, randomized, share, synchronous};
use crate::report::{ALWAYS, Claim, Exhibit, Table, Verdict, interval};
use crate::reproduction::Exhibitor;
use crate::study::{Results, Study};
use crate::trial::Trial;

/// "we fix the percentage of contenders to 1%".
const ONE_PERCENT: Contenders = Contenders::Share(0.01);

/// A protocol under test.
struct Case {
    name: &'static str,
    trial: fn(usize) -> Trial,
    /// The divisor of the number of runs.
    part: u64,
    /// True if [`bulk`](super::bulk) computes the runs.
    bulk: bool,
    kind: Kind,
}

/// The origin of the claim that there is always one winner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The paper.
    Claimed,
    /// Our question, which the paper does not ask.
    Asked,
}

const CASES: [Case; 9] = [
    Case {
        name: "RE, printed tables, 1%",
        trial: |nodes| randomized(nodes, ONE_PERCENT).set("tables", "printed"),
        part: 1,
        bulk: false,
        kind: Kind::Claimed,
    },
    Case {
        name: "RE, repaired tables, 1%",
        trial: |nodes| randomized(nodes, ONE_PERCENT),
        part: 1,
        bulk: false,
        kind: Kind::Claimed,
    },
    Case {
        name: "PQ, printed tables, 1%",
        trial: |nodes| quorums(nodes, ONE_PERCENT).set("tables", "printed"),
        part: 50,
        bulk: false,
        kind: Kind::Claimed,
    },
    Case {
        name: "PQ, repaired tables, 1%",
        trial: |nodes| quorums(nodes, ONE_PERCENT),
        part: 1,
        bulk: true,
        kind: Kind::Claimed,
    },
    Case {
        name: "RE, letter by letter, 1%",
        trial: |nodes| randomized(nodes, ONE_PERCENT).set("tables", "literal"),
        part: 100,
        bulk: false,
        kind: Kind::Asked,
    },
    Case {
        name: "RE, synchronous, 1%",
        trial: |nodes| synchronous(randomized(nodes, ONE_PERCENT)),
        part: 5,
        bulk: false,
        kind: Kind::Asked,
    },
    Case {
        name: "RE, log2 n - 1 rounds, synchronous, 1%",
        trial: |nodes| synchronous(randomized(nodes, ONE_PERCENT)).set("rounds", "figure1"),
        part: 10,
        bulk: false,
        kind: Kind::Asked,
    },
    Case {
        name: "RE, two contenders",
        trial: |nodes| randomized(nodes, Contenders::Count(2)),
        part: 10,
        bulk: false,
        kind: Kind::Asked,
    },
    Case {
        name: "RE, two contenders, synchronous",
        trial: |nodes| synchronous(randomized(nodes, Contenders::Count(2))),
        part: 10,
        bulk: false,
        kind: Kind::Asked,
    },
];

pub(super) struct Accuracy {
    nodes: usize,
    points: Vec<(&'static Case, u64, usize)>,
}

impl Accuracy {
    pub(super) fn of(study: &mut Study, request: Request) -> Accuracy {
        let points = CASES.iter().map(|case| {
            let runs = request.part(case.part);
            let name = format!("Section 7.2, {}", case.name);
            let index = match case.bulk {
                true => add_in_bulk(request.nodes, ONE_PERCENT, study, &name, runs),
                false => add((case.trial)(request.nodes), study, &name, runs),
            };
            (case, runs, index)
        });
        Accuracy { nodes: request.nodes, points: points.collect() }
    }

    fn claim(case: &Case, index: usize, results: &Results) -> Option<Claim> {
        let (once, runs) = results.at(index).counts("winners_1")?;
        let exact = results.at(index).share("winners_1")?;
        let none = results.at(index).counts("winners_0").map_or(0, |(none, _)| none);
        let held = match case.kind {
            Kind::Claimed => {
                format!(". The claim holds without an exception and if the interval is above {ALWAYS}")
            }
            Kind::Asked => String::new(),
        };
        let found = format!(
            "One winner in {once} of {runs} runs, none in {none}, several in {}: {}{held}.",
            runs - once - none,
            interval(exact)
        );
        Some(match case.kind {
            Kind::Claimed => {
                let says = format!("Always a unique leader, in ten thousand runs: {}.", case.name);
                Claim::new("section 7.2", &says, Verdict::always(exact), found)
            }
            Kind::Asked => {
                let question = format!("How often is there exactly one winner: {}?", case.name);
                Claim::new("", &question, Verdict::OurQuestion, found)
            }
        })
    }

    fn table(&self, results: &Results) -> Table {
        let head = ["protocol", "runs", "one winner", "no winner", "two or more", "no finalist"];
        let title =
            "Numbers of winners, as shares of all runs, with exact 95% intervals (Clopper and Pearson)";
        let mut table = Table::new("section-7-2", title, &head);
        for &(case, runs, index) in &self.points {
            let at = results.at(index);
            let figures = ["winners_1", "winners_0", "winners_2_or_more", "no_finalist"];
            let cells = [case.name.to_string(), runs.to_string()];
            table.push(cells.into_iter().chain(figures.map(|figure| share(at, figure))));
        }
        table
    }
}

impl Exhibitor for Accuracy {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        let claims = self.points.iter().filter_map(|&(case, _, index)| Accuracy::claim(case, index, results));
        Exhibit {
            name: "section-7-2".to_string(),
            title: "Section 7.2: a unique leader".to_string(),
            setting: format!("n = {}, delays uniform up to tau", self.nodes),
            claims: claims.collect(),
            plots: Vec::new(),
            tables: vec![self.table(results)],
            notes: vec![
                "The printed tables are used without two misprints that the text contradicts: with them, an idle \
                 mediator never accepts. In a share of runs the first phase leaves no finalist, because two \
                 contenders alone can stop each other. The number of rounds is chosen so that this happens in at \
                 most 1% of elections."
                    .to_string(),
            ],
        }
    }
}
