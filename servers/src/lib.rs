//! Real servers of the engines on which elections are held, for tests and benchmarks: installs them, starts them on free
//! loopback addresses with their data in a temporary folder, and stops them.
//!
//! - [`Servers`] is what all engines have: addresses, a URL, and faults. Each engine has a module with its servers.
//! - [`programs`] finds and installs programs, and runs clients of others.
//! - [`Proxy`] stands between a client and a server. It loses, delays, or counts requests.
//!
//! Failures panic, as in tests: a benchmark turns a panic into its error message.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "starts servers and reads clocks")]

pub mod consul;
pub mod etcd;
pub mod kubernetes;
pub mod nats;
pub mod postgres;
pub mod programs;
mod proxy;
pub mod redis;
mod requests;
pub mod zookeeper;

use std::net::SocketAddr;
use std::time::Duration;

use suffrage_node::clock::Clock as _;

pub use programs::{Foreign, Server};
pub use proxy::{Mode, Proxy};
pub use requests::{Protocol, RequestCounter};

/// How long a test waits for a condition before it fails.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// The time by the clock of the machine, as production uses it.
pub fn now() -> Duration {
    Duration::from_nanos(suffrage_node::clock::BootClock.now().as_nanos())
}

/// The running servers of an engine.
pub trait Servers: Send {
    /// The addresses of the servers for clients.
    fn addresses(&self) -> Vec<SocketAddr>;
    /// The URL of an engine with servers, or proxies of servers, at these addresses.
    fn url(&self, addresses: &[SocketAddr]) -> String;
    /// The ttl of the tests: the shortest that the servers grant.
    fn ttl(&self) -> Duration;
    /// Kills the leading server. False if there is only one.
    fn kill_leading_server(&mut self) -> bool;
    /// Kills all servers, and starts them again with their data, at the same addresses.
    fn restart_all(&mut self);
    /// The process ids of all servers.
    fn pids(&self) -> Vec<u32>;
    /// Deletes the entry of the leader of an election, by the engine's own tool.
    fn delete_entry(&self, name: &str);
}
