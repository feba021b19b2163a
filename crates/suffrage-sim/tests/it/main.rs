//! What the simulator claims, what the algorithms do in it, and what detectors and multicasts are worth.

mod algorithms;
mod measure;
mod world;
