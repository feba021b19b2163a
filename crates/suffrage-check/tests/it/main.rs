//! Searches of small models, and their agreement with the simulator.

mod models;
mod simulator;
