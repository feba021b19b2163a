//! The claims of the simulator, one a test. All measurements and checks elsewhere rest on them.

mod agreements;
mod bytes;
mod crashes;
mod crashes_midway;
mod cuts;
mod detectors;
mod determinism;
mod ledger;
mod messages;
mod multicast;
mod pauses;
mod probe;
mod probes;
mod randomness;
mod ranks;
mod scale;
mod scenario;
mod timers;
mod trials;
