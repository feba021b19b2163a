//! A job that only the leader runs, with fencing against a paused leader.
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

    // The resource that only a leader may write. For a database, see the SQL in the documentation of the crate.
    let report = Fenced::new(Vec::new());

    let pages = election
        .run(async |leadership| {
            loop {
                // If the leadership is lost, this future is dropped, and the next leader starts from the beginning.
                tokio::time::sleep(Duration::from_millis(50)).await;
                let page = format!("page written with token {}", leadership.token());
                match report.update(leadership.token(), |pages| {
                    pages.push(page);
                    pages.len()
                }) {
                    Ok(3) => return ControlFlow::Break(report.read(Clone::clone)),
                    Ok(_) => {}
                    // A later leader has written: this leadership has ended.
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
