//! The experiments of a paper: the study to run, and the exhibits to make from its results.

use crate::report::{Exhibit, Provenance, Report, Table};
use crate::study::{Results, Study};

/// Makes an exhibit from measurements. An exhibitor adds its points to the study when it is created, and keeps their
/// indices.
pub trait Exhibitor {
    /// The exhibit of these results.
    fn exhibit(&self, study: &Study, results: &Results) -> Exhibit;
}

/// The experiments of a paper.
pub struct Reproduction {
    /// The name of its folder and its command.
    pub name: &'static str,
    /// The paper's title.
    pub title: &'static str,
    /// The authors and the publication.
    pub source: &'static str,
    /// The introduction of the page.
    pub introduction: Vec<String>,
    /// The points to be measured.
    pub study: Study,
    /// The makers of the exhibits, in order of display.
    pub exhibitors: Vec<Box<dyn Exhibitor>>,
}

impl std::fmt::Debug for Reproduction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reproduction")
            .field("name", &self.name)
            .field("study", &self.study)
            .finish_non_exhaustive()
    }
}

impl Reproduction {
    /// A table of all points, with the commands that repeat their first runs.
    fn points(&self) -> Table {
        let title = "All measured points; the runs of a point have consecutive seeds from the first seed on";
        let mut table = Table::new("points", title, &["point", "runs", "first seed", "command"]);
        for point in self.study.points() {
            let command = format!("{} --seed {}", point.replay, point.seed);
            table.push([point.name.clone(), point.runs.to_string(), point.seed.to_string(), command]);
        }
        table
    }

    /// The report of these results.
    pub fn report(&self, results: &Results, provenance: Provenance) -> Report {
        let exhibits = self.exhibitors.iter().map(|exhibitor| exhibitor.exhibit(&self.study, results));
        Report {
            name: self.name,
            title: self.title,
            source: self.source,
            introduction: self.introduction.clone(),
            exhibits: exhibits.collect(),
            points: self.points(),
            provenance,
        }
    }
}
