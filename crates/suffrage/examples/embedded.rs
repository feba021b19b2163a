//! Three nodes elect a leader. Each would run on a machine of its own; here they share a process.
//!
//! `cargo run -p suffrage --example embedded`
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an application")]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use suffrage::{Error, Keyring, Node};

const TTL: Duration = Duration::from_millis(500);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // In production, addresses and key file stand in `suffrage.toml`: see `NodeBuilder::from_file`.
    let sockets = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0"));
    let sockets = sockets.into_iter().collect::<Result<Vec<_>, _>>()?;
    let addresses = sockets.iter().map(UdpSocket::local_addr).collect::<Result<Vec<_>, _>>()?;
    let keyring = Keyring::generate()?;

    let mut nodes = Vec::new();
    for (socket, id) in sockets.into_iter().zip(1..) {
        // In production, `data("/var/lib/app")`: a voter that restarts needs its state.
        let mut node = Node::builder(id).key(keyring.clone()).in_memory().socket(socket);
        for (address, member) in addresses.iter().zip(1..) {
            node = node.member(member, *address);
        }
        nodes.push(node.start().await?);
    }

    // Every node runs the same code.
    let (log, mut leaders) = tokio::sync::mpsc::unbounded_channel();
    for node in nodes.clone() {
        let log = log.clone();
        tokio::spawn(async move {
            let election = node.election("writer").ttl(TTL).join().await?;
            loop {
                let leadership = election.lead().await?;
                _ = log.send((node.id(), leadership.token()));
                // The program works here, and stops when the leadership is about to end.
                leadership.lost().await;
            }
            #[allow(unreachable_code)]
            Ok::<(), Error>(())
        });
    }
    drop(log);

    let start = Instant::now();
    let mut died: Option<Instant> = None;
    while let Some((leader, token)) = leaders.recv().await {
        match died {
            None => println!("node {leader} leads with token {token} after {:.1?}", start.elapsed()),
            Some(at) => {
                println!("node {leader} leads with token {token}, {:.0?} after the crash", at.elapsed())
            }
        }
        if nodes.len() == 2 {
            println!("two of three voters are a majority; one voter could not elect a leader");
            return Ok(());
        }
        tokio::time::sleep(TTL).await;
        nodes.retain(|node| {
            if node.id() == leader {
                println!("node {leader} crashes");
                node.abort();
                died = Some(Instant::now());
            }
            node.id() != leader
        });
    }
    Ok(())
}
