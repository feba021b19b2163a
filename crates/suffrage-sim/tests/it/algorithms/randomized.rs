//! Randomized leader election (Ramanathan et al. 2007) and PQ, section by section.

mod asynchronous;
mod exhaustive;
mod failures;
mod group;
mod printed_flaws;
mod sampling;
mod schedules;
mod synchronous;
