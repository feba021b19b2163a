//! The figures of the papers, at a small size.

mod gupta2000;
mod ramanathan2007;
