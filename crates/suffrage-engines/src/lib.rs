//! Leader election on the engines that people already run: etcd, PostgreSQL, Kubernetes, Consul, ZooKeeper, NATS, Redis.
//!
//! ```text
//!   Engine::connect(url) ──▶ Engine ──election(name)──▶ Election ──lead()──▶ Leadership
//!                              │                          │                    token, is_valid, lost
//!                              ├─ facts: what it promises │
//!                              ├─ status, watch, resign   ▼
//!                              ▼                        tenure.rs: one task per candidate: campaigns, renews, notices
//!                           trait Recipe  ◀────────────  the end, withdraws. The same for all engines.
//!                           trait Candidate               
//!                           etcd.rs, postgres.rs, …: one module and one cargo feature per engine
//! ```
//!
//! Each engine is used by its own established recipe, so that clients of other languages take part in the same election.
//! All engines give the same [`Leadership`]: a fencing token that grows with every leader, and a validity that ends by the
//! clock of this machine before the engine elects another leader.
//!
//! - A lease counts from the moment *before* its request was sent, and is shortened by the drift bound.
//! - A leadership that has ended never becomes valid again.
//! - A candidate that gives up removes its entry from the engine.
#![cfg_attr(
    not(all(
        feature = "consul",
        feature = "etcd",
        feature = "kubernetes",
        feature = "nats",
        feature = "postgres",
        feature = "redis",
        feature = "zookeeper"
    )),
    allow(dead_code, reason = "an engine uses what another does not")
)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "talks to servers")]

#[cfg(feature = "consul")]
mod consul;
mod election;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
mod facts;
#[cfg(feature = "http")]
mod follow;
#[cfg(feature = "etcd")]
#[doc(hidden)]
pub mod grpc;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "kubernetes")]
mod kubernetes;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
mod recipe;
#[cfg(feature = "redis")]
mod redis;
mod tasks;
mod tenure;
#[cfg(feature = "transport")]
#[allow(dead_code, reason = "PostgreSQL uses only its certificates")]
mod transport;
mod url;
#[cfg(any(feature = "http", feature = "nats", feature = "postgres", feature = "redis"))]
mod waiting;
#[cfg(feature = "zookeeper")]
mod zookeeper;

pub use self::election::{Election, ElectionBuilder, Engine, LeaderWatch};
pub use self::error::Error;
pub use self::facts::{FACTS, Facts};
pub use self::recipe::{Leader, Status};
pub use self::tenure::{Leadership, Loss};

use std::time::Duration;

/// A moment by the clock of the machine: the time since an arbitrary start.
pub type Moment = Duration;

/// The clock that leases are measured by. It never goes backwards, and goes on while the machine is suspended.
pub trait Clock: Send + Sync + 'static {
    /// The time.
    fn now(&self) -> Moment;
}
