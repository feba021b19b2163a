//! An application of three nodes that elect one of them, in one process for show: each would be a machine.
//!
//! `cargo run -p suffrage --example embedded`
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an application")]

use std::time::{Duration, Instant};

use suffrage::{Error, Keyring, Node};
use suffrage_net::transport::udp::Socket;

const TTL: Duration = Duration::from_millis(500);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    // In life these are addresses that everybody knows, and the key is in a file.
    let mut sockets = Vec::new();
    for _ in 0..3 {
        sockets.push(Socket::bind(([127, 0, 0, 1], 0).into()).await?);
    }
    let addresses: Vec<_> = sockets.iter().map(Socket::local_address).collect();
    let keyring = Keyring::generate()?;

    let mut nodes = Vec::new();
    for (socket, id) in sockets.into_iter().zip(1..) {
        // `data("/var/lib/app")` in life, so that a voter that restarts knows what it has promised.
        let mut node = Node::builder(id).key(keyring.clone()).in_memory().socket(socket);
        for (address, member) in addresses.iter().zip(1..) {
            node = node.member(member, *address);
        }
        nodes.push(node.start().await?);
    }

    // Every node runs the same code.
    let (log, mut lines) = tokio::sync::mpsc::unbounded_channel();
    for node in nodes.clone() {
        let log = log.clone();
        tokio::spawn(async move {
            let election = node.election("the one that writes").ttl(TTL).join().await?;
            loop {
                let leadership = election.lead().await?;
                _ = log.send((node.id(), leadership.token()));
                leadership.lost().await;
                // The work has to have stopped before the lease is over; then others lead.
            }
            #[allow(unreachable_code)]
            Ok::<(), Error>(())
        });
    }
    drop(log);

    let start = Instant::now();
    let mut died = None;
    while let Some((leader, token)) = lines.recv().await {
        match died.replace(Instant::now()) {
            None => println!("node {leader} leads with token {token} after {:.1?}", start.elapsed()),
            Some(at) => {
                println!("node {leader} leads with token {token}, {:.0?} after the death", at.elapsed())
            }
        }
        if nodes.len() == 2 {
            println!("two of three are a majority; one is not, so this is all there is to see");
            return Ok(());
        }
        tokio::time::sleep(TTL).await;
        nodes.retain(|node| {
            if node.id() == leader {
                println!("node {leader} dies");
                node.abort();
                died = Some(Instant::now());
            }
            node.id() != leader
        });
    }
    Ok(())
}
