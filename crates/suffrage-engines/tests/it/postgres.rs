//! Elections on a real PostgreSQL.

mod advisory;
mod security;
mod traps;

use suffrage_servers::postgres::{Postgres, TTL};

use crate::conformance::conformance;

/// Starts a server.
async fn start() -> Postgres {
    tokio::task::block_in_place(suffrage_servers::postgres::start)
}

conformance!(start);
