//! Randomized leader election (Ramanathan et al. 2007) and PQ, section by section.

mod asynchronous;
mod exhaustive;
mod failures;
mod flaws;
mod sampling;
mod schedules;
mod stage;
mod synchronous;
