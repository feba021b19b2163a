//! `suffrage demo-node`: a voter that also stands, for the demo and for tests. It tells in lines what it believes,
//! and lives no longer than whoever holds its standard input.

use std::io::{Read as _, Write as _};

use clap::{Arg, ArgAction, ArgMatches, Command};
use suffrage::Node;
use suffrage_core::Time;
use suffrage_node::clock::{BootClock, Clock};
use tokio::signal::unix::{SignalKind, signal};

use crate::cluster;
use suffrage_cli::Error;

const KEYS: &[&str] = &["id", "voters", "keys", "data", "ttl", "longest-ttl", "delay"];

pub(crate) fn command() -> Command {
    Command::new("demo-node")
        .hide(true)
        .about("A voter that also stands, for the demo and for tests")
        .args(cluster::flags(KEYS))
        .arg(Arg::new("new").long("new").action(ArgAction::SetTrue).help("It has never voted before"))
        .arg(Arg::new("stand").long("stand").value_name("NAME").help("The election in which it stands"))
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<u8, Error> {
    let config = cluster::read(KEYS, matches, None)?;
    let builder = cluster::builder(&config)?;
    let builder = match &config.data {
        Some(folder) if matches.get_flag("new") => builder.new_data(folder),
        Some(folder) => builder.data(folder),
        None => builder,
    };
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let ttl = std::time::Duration::from_nanos(config.ttl.as_nanos());
    let stands = matches.get_one::<String>("stand").cloned();
    let done = threads.block_on(async {
        let node = builder.start().await?;
        say(BootClock.now(), "ready");
        let work = async {
            match stands {
                Some(name) => stand(&node, &name, ttl).await,
                None => std::future::pending().await,
            }
        };
        let mut terminate = signal(SignalKind::terminate()).map_err(suffrage::Error::Command)?;
        let done = tokio::select! {
            done = work => done,
            _ = terminate.recv() => Ok(()),
            _ = orphaned() => Ok(()),
        };
        node.stop().await;
        done
    });
    // The thread that waits for the end of the input is not waited for.
    threads.shutdown_background();
    done.map(|()| 0).map_err(|error: suffrage::Error| Error::Failed(error.to_string()))
}

fn say(at: Time, what: &str) {
    // Who does not listen any more is about to end this process.
    _ = writeln!(std::io::stdout(), "{} {what}", at.as_nanos());
}

/// Waits until nobody holds the other end of the input.
async fn orphaned() {
    _ = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await;
}

async fn stand(node: &Node, name: &str, ttl: std::time::Duration) -> Result<(), suffrage::Error> {
    let election = node.election(name).ttl(ttl).join().await?;
    let mut watch = election.watch();
    let follow = async {
        loop {
            match watch.changed().await? {
                Some(leader) if leader.node == node.id() => {}
                Some(leader) => {
                    say(BootClock.now(), &format!("follows {} {}", leader.node, leader.token.number()))
                }
                None => say(BootClock.now(), "nobody"),
            }
        }
        #[allow(unreachable_code, reason = "it tells the type")]
        Ok::<(), suffrage::Error>(())
    };
    let lead = async {
        loop {
            let leadership = election.lead().await?;
            say(BootClock.now(), &format!("leads {}", leadership.token().number()));
            let tell = async {
                let mut tick = tokio::time::interval(std::time::Duration::from_millis(100));
                loop {
                    tick.tick().await;
                    let now = BootClock.now();
                    say(now, &format!("valid {}", leadership.valid_for().as_nanos()));
                }
            };
            tokio::select! {
                () = leadership.lost() => {}
                () = tell => {}
            }
            say(BootClock.now(), "lost");
        }
        #[allow(unreachable_code, reason = "it tells the type")]
        Ok::<(), suffrage::Error>(())
    };
    tokio::select! {
        done = follow => done,
        done = lead => done,
    }
}
