//! Searches of small models, and their agreement with the simulator.

mod changes;
mod models;
mod simulator;
