//! A job that leads through the node of its machine: no keys, ports or voters in the program.
//!
//! Start a node (`suffrage node --socket /tmp/suffrage.sock …`), and this program twice or more:
//! `cargo run -p suffrage --example local_node -- unix:/tmp/suffrage.sock`
//!
//! Kill the one that leads: the next one leads in the same millisecond.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an application")]

use std::time::Duration;

use suffrage::{Cluster, Error};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or("unix:/run/suffrage/suffrage.sock".to_string());
    let cluster = Cluster::connect(&url).await?;
    let election = cluster.election("ticker").join().await?;
    loop {
        let leadership = election.lead().await?;
        println!("process {} leads with token {}", std::process::id(), leadership.token());
        let work = async {
            while leadership.is_valid() {
                println!("tick, with token {}", leadership.token());
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            () = work => {}
            // The node is to hand over, or cannot renew its lease: the work has been dropped, and ends here.
            () = leadership.lost() => {}
        }
    }
}
