//! ZooKeeper: three servers of Debian's package.

mod foreign;
mod traps;

use suffrage_servers::zookeeper::{TTL, ZooKeeper};

use crate::conformance::conformance;

async fn start() -> ZooKeeper {
    tokio::task::block_in_place(|| ZooKeeper::new(""))
}

conformance!(start);
