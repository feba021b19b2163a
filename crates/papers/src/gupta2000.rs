//! Gupta, van Renesse, Birman: "A Probabilistically Correct Leader Election Protocol for Large Groups",
//! DISC 2000.

pub mod bounds;
pub mod timeouts;
