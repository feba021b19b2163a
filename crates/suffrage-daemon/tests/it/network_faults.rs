//! Real processes on hosts of their own, and real faults: of networks, disks and paused processes, and key rotation. Needs
//! root, `ip` and `bash`, which `cargo xtask test` installs.

mod bad_network;
mod disks;
mod history;
mod keys;
mod partitions;
mod pauses;
mod register;
mod storm;
mod support;
mod voters;
