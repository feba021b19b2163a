//! Elections on a real Redis.

mod redlock;
mod security;
mod traps;

use suffrage_servers::redis::{Redis, TTL};

use crate::conformance::conformance;

/// Starts a server that keeps every write.
async fn start() -> Redis {
    tokio::task::block_in_place(suffrage_servers::redis::start)
}

conformance!(start);
