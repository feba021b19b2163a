//! Drivers and lease nodes over transports, clocks and disks.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of the edge")]

mod cluster;
mod lease_node;
mod lease_storm;
mod restart;
