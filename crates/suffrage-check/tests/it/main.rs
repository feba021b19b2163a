//! Searches of small worlds, and their agreement with the simulator.

mod simulator;
mod worlds;
