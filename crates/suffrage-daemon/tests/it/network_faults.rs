//! Real processes on hosts of their own, and real faults: of the network between them, of disks, of processes that
//! stand still, and keys that are replaced. Needs root, `ip` and `bash`: `cargo xtask test` sees to that.

mod disks;
mod history;
mod keys;
mod partitions;
mod pauses;
mod register;
mod storm;
mod support;
mod weather;
