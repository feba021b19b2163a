//! Elections on a real PostgreSQL.

mod advisory;
mod security;
mod servers;
mod traps;

use std::net::SocketAddr;
use std::time::Duration;

pub(crate) use self::servers::{Postgres, start};
use crate::conformance::{Servers, conformance};

/// The ttl of the tests. PostgreSQL grants shorter ones, but the machine of the tests may be slow.
pub(crate) const TTL: Duration = Duration::from_secs(3);

impl Servers for Postgres {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address]
    }

    fn url(&self, addresses: &[SocketAddr]) -> String {
        let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        format!("postgres://postgres@{}/postgres", hosts.join(","))
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    /// PostgreSQL has one server that can be written.
    fn kill_leading_server(&mut self) -> bool {
        false
    }

    fn restart_all(&mut self) {
        self.crash();
        self.launch();
    }

    fn delete_entry(&self, name: &str) {
        self.sql(&format!("DELETE FROM suffrage_election WHERE name = '{name}'"));
    }
}

conformance!(start);
