//! Tests of the simulator, of the algorithms in it, and of detectors and multicasts.

mod algorithms;
mod measure;
mod world;
