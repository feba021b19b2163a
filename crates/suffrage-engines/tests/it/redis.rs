//! Elections on a real Redis.

mod redlock;
mod security;
mod servers;
mod traps;

use std::net::SocketAddr;
use std::time::Duration;

use self::servers::{Redis, start};
use crate::conformance::{Servers, conformance};

/// The ttl of the tests. Redis grants shorter ones, but the machine of the tests may be slow.
const TTL: Duration = Duration::from_secs(2);

impl Servers for Redis {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address]
    }

    fn url(&self, addresses: &[SocketAddr]) -> String {
        let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        format!("redis://{}/1", hosts.join(","))
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    /// Redis has one server that can be written. `traps.rs` shows what a fail-over to a replica loses.
    fn kill_leading_server(&mut self) -> bool {
        false
    }

    fn restart_all(&mut self) {
        self.crash();
        self.launch();
    }

    fn delete_entry(&self, name: &str) {
        assert_eq!(self.command(&["-n", "1", "DEL", name]), "1");
    }
}

conformance!(start);
