//! `suffrage demo-node`: a voter that is a candidate, too, for the demo and for tests. It prints its beliefs, one per line,
//! and ends when its standard input is closed.

use std::io::{Read as _, Write as _};

use clap::{Arg, ArgAction, ArgMatches, Command};
use suffrage::Node;
use suffrage_core::Time;
use suffrage_node::clock::{BootClock, Clock};
use tokio::signal::unix::{SignalKind, signal};

use crate::cluster;
use suffrage_cli::{Error, socket};

const KEYS: &[&str] = &["id", "voters", "keys", "data", "ttl", "longest-ttl", "delay"];

pub(crate) fn command() -> Command {
    Command::new("demo-node")
        .hide(true)
        .about("A voter that is a candidate, too, for the demo and for tests")
        .args(cluster::flags(KEYS))
        .arg(Arg::new("new").long("new").action(ArgAction::SetTrue).help("Creates the data folder"))
        .arg(Arg::new("campaign").long("campaign").value_name("NAME").help("The election to campaign in"))
        .arg(
            Arg::new("socket-from-input")
                .long("socket-from-input")
                .action(ArgAction::SetTrue)
                .help("Receives the UDP socket over the standard input"),
        )
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<u8, Error> {
    let config = cluster::read(KEYS, matches, None)?;
    let builder = cluster::builder(&config)?;
    let builder = if matches.get_flag("new") { builder.first_start() } else { builder };
    let builder = match matches.get_flag("socket-from-input") {
        true => builder.socket(socket::receive(std::io::stdin())?),
        false => builder,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let election = matches.get_one::<String>("campaign").cloned();
    let done = runtime.block_on(async {
        let node = builder.start().await?;
        report(BootClock.now(), "ready");
        let work = async {
            match election {
                Some(name) => campaign(&node, &name).await,
                None => std::future::pending().await,
            }
        };
        let mut terminate = signal(SignalKind::terminate()).map_err(suffrage::Error::Command)?;
        let done = tokio::select! {
            done = work => done,
            _ = terminate.recv() => Ok(()),
            _ = input_closed() => Ok(()),
        };
        node.stop().await;
        done
    });
    // The thread that reads the standard input may block forever.
    runtime.shutdown_background();
    done.map(|()| 0).map_err(|error: suffrage::Error| Error::Failed(error.to_string()))
}

fn report(at: Time, what: &str) {
    // If the output is closed, the input is about to be closed.
    _ = writeln!(std::io::stdout(), "{} {what}", at.as_nanos());
}

/// Waits until the standard input is closed.
async fn input_closed() {
    _ = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await;
}

async fn campaign(node: &Node, name: &str) -> Result<(), suffrage::Error> {
    let election = node.election(name).join().await?;
    let mut watch = election.watch();
    let follow = async {
        loop {
            match watch.changed().await? {
                Some(leader) if leader.node == node.id() => {}
                Some(leader) => {
                    report(BootClock.now(), &format!("follows {} {}", leader.node, leader.token.number()))
                }
                None => report(BootClock.now(), "nobody"),
            }
        }
        #[allow(unreachable_code, reason = "declares the type")]
        Ok::<(), suffrage::Error>(())
    };
    let lead = async {
        loop {
            let leadership = election.lead().await?;
            report(BootClock.now(), &format!("leads {}", leadership.token().number()));
            let report_validity = async {
                let mut tick = tokio::time::interval(std::time::Duration::from_millis(100));
                loop {
                    tick.tick().await;
                    let now = BootClock.now();
                    report(now, &format!("valid {}", leadership.valid_for().as_nanos()));
                }
            };
            tokio::select! {
                () = leadership.lost() => {}
                () = report_validity => {}
            }
            report(BootClock.now(), "lost");
        }
        #[allow(unreachable_code, reason = "declares the type")]
        Ok::<(), suffrage::Error>(())
    };
    tokio::select! {
        done = follow => done,
        done = lead => done,
    }
}
