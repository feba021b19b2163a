//! The papers' mathematics and experiments.
//!
//! A [`study`] says what is to be measured, as a list of points that anybody may run in any order; what
//! was measured becomes [`report`]s: the paper's claim, our figure, and whether the claim held. Nothing
//! here reads a clock, starts a thread or writes a file: reports are strings, and the same seeds give the
//! same strings on every machine, but for the last digits of intervals in CSV files (see
//! [`simulator::statistics`]).
//!
//! To add a paper: a module with a function that makes a
//! [`Reproduction`](reproduction::Reproduction). Each thing to be shown is an
//! [`Exhibitor`](reproduction::Exhibitor), one a file. When it is made it puts its points into the study,
//! usually [`Trial`](trial::Trial)s of an algorithm, and remembers their places; when the runs are made it
//! turns what it finds there into an [`Exhibit`](report::Exhibit) of claims, plots and tables.
//! [`gupta2000`] is the model; [`ramanathan2007`] follows it.

pub mod gupta2000;
pub mod plot;
pub mod ramanathan2007;
pub mod report;
pub mod reproduction;
pub mod study;
pub mod trial;
