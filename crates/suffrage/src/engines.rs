//! Elections on the engines that people already run: etcd, PostgreSQL, Kubernetes, Consul, ZooKeeper, NATS, Redis.
//!
//! Each engine is a cargo feature of this crate. Clients of other languages that use the engine's own recipe take part in
//! the same elections. docs/engines.md says what each engine promises.
//!
//! ```no_run
//! # async fn example() -> Result<(), suffrage::engines::Error> {
//! let engine = suffrage::engines::connect("postgres://app@db/orders")?;
//! let election = engine.election("reports").join()?;
//! let leadership = election.lead().await?;
//! println!("leads with token {}", leadership.token());
//! leadership.lost().await;
//! # Ok(())
//! # }
//! ```

use suffrage_node::clock::Clock as _;

#[doc(inline)]
pub use suffrage_engines::{
    Clock, Election, ElectionBuilder, Engine, Error, FACTS, Facts, Leader, LeaderWatch, Leadership, Loss,
    Moment, Status,
};

/// The clock that nodes measure leases by.
struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Moment {
        Moment::from_nanos(suffrage_node::clock::BootClock.now().as_nanos())
    }
}

/// The engine of a URL, such as `etcd://10.0.0.1:2379,10.0.0.2:2379/prefix`. Connects when it is first used.
pub fn connect(url: &str) -> Result<Engine, Error> {
    Engine::connect(url, BootClock)
}
