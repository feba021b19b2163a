//! What the simulator claims, one sentence a test: everything that is measured or checked elsewhere
//! rests on these.

mod agreements;
mod chance;
mod crashes;
mod cuts;
mod detectors;
mod determinism;
mod ledger;
mod messages;
mod midway;
mod multicast;
mod pauses;
mod probe;
mod ranks;
mod scale;
mod scenario;
mod stage;
mod timers;
mod trials;
mod weight;
