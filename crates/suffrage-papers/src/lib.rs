//! Mathematics and experiments of the papers.
//!
//! A [`study`] lists the points to be measured; the points may run in any order. Measurements become [`report`]s: the
//! claim of the paper, the measured value, and whether the claim held. Nothing here reads a clock, starts a thread or
//! writes a file. Reports are strings, and the same seeds give the same strings on every machine.
//!
//! - [`gupta2000`], [`ramanathan2007`]: the papers: bounds, figures, theorems, planners.
//! - [`study`], [`trial`]: points to be measured, and one run of an algorithm as a point.
//! - [`reproduction`], [`report`], [`plot`]: from measurements to claims, tables, SVG plots and a page.
//!
//! To add a paper, write a module with a function that makes a [`Reproduction`](reproduction::Reproduction). Each
//! figure, table or theorem is an [`Exhibitor`](reproduction::Exhibitor) in a file of its own. When it is made, an
//! exhibitor adds its points to the study, usually [`Trial`](trial::Trial)s of an algorithm, and keeps their positions.
//! After the runs, it turns the measurements into an [`Exhibit`](report::Exhibit) of claims, plots and tables.
//! [`gupta2000`] is the model.

pub mod gupta2000;
pub mod plot;
pub mod ramanathan2007;
pub mod report;
pub mod reproduction;
pub mod study;
pub mod trial;
