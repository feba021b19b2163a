//! A paper's experiments: what is to be measured, and what is to be shown of it.

use crate::report::{Exhibit, Made, Report, Table};
use crate::study::{Results, Study};

/// Shows what was measured. Its points were put into the study when it was made, and it remembers their
/// places.
pub trait Exhibitor {
    /// What there is to show.
    fn exhibit(&self, study: &Study, results: &Results) -> Exhibit;
}

/// A paper's experiments, ready to be run and then to be shown.
pub struct Reproduction {
    /// What its folder and its command are called.
    pub name: &'static str,
    /// The paper's title.
    pub title: &'static str,
    /// Who wrote it, and where it stands.
    pub source: &'static str,
    /// What the page says first.
    pub introduction: Vec<String>,
    /// What is to be measured.
    pub study: Study,
    /// What is to be shown, in this order.
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
    /// Every point, and the command that makes the first of its runs again.
    fn points(&self) -> Table {
        let title = "Every point that was measured: its runs have the seeds from the first on";
        let mut table = Table::new("points", title, &["point", "runs", "first seed", "command"]);
        for point in self.study.points() {
            let command = format!("{} --seed {}", point.replay, point.seed);
            table.push([point.name.clone(), point.runs.to_string(), point.seed.to_string(), command]);
        }
        table
    }

    /// The report of what was measured.
    pub fn report(&self, results: &Results, made: Made) -> Report {
        let exhibits = self.exhibitors.iter().map(|exhibitor| exhibitor.exhibit(&self.study, results));
        Report {
            name: self.name,
            title: self.title,
            source: self.source,
            introduction: self.introduction.clone(),
            exhibits: exhibits.collect(),
            points: self.points(),
            made,
        }
    }
}
