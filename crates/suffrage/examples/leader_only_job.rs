//! A job that only the leader does, and that survives a leader that does not know it is none.
//!
//! `cargo run -p suffrage --example leader_only_job`
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an application")]

use std::ops::ControlFlow;
use std::time::Duration;

use suffrage::{Error, Fenced, Keyring, Node};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let node = Node::builder(1).key(Keyring::generate()?).in_memory().start().await?;
    let election = node
        .election("nightly report")
        .ttl(Duration::from_secs(2))
        .stop_margin(Duration::from_millis(200))
        .join()
        .await?;

    // What only a leader may change. A database would do the same with the SQL of the crate's documentation.
    let report = Fenced::new(Vec::new());

    let pages = election
        .run(async |leadership| {
            loop {
                // Dropped here if the leadership is lost, and done again from the start by the next leader.
                tokio::time::sleep(Duration::from_millis(50)).await;
                let page = format!("page written with token {}", leadership.token());
                match report.update(leadership.token(), |pages| {
                    pages.push(page);
                    pages.len()
                }) {
                    Ok(3) => return ControlFlow::Break(report.read(Clone::clone)),
                    Ok(_) => {}
                    // A later leader has written: this one has been paused, or its lease is over.
                    Err(stale) => {
                        println!("{stale}");
                        return ControlFlow::Continue(());
                    }
                }
            }
        })
        .await?;
    for page in pages {
        println!("{page}");
    }
    Ok(())
}
