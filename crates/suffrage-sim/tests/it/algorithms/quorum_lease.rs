//! Whole groups with quorum leases: never two leaders in true time, tokens that increase, and a leader soon
//! after faults stop; what it costs; and that the checkers find every mistake that is made on purpose.

mod budget;
mod bugs;
mod clients;
mod clocks;
mod connections;
mod costs;
mod forgery;
mod names;
mod notice;
mod partitions;
mod storm_scenarios;
mod storms;
mod yielding;
