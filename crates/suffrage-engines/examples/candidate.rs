//! A candidate as a process of its own, for tests: `candidate URL NAME TTL_MS IDENTITY`.
//!
//! Prints one line per event, with times in nanoseconds by the clock of the machine: `leads TOKEN NOW UNTIL`,
//! `renewed TOKEN NOW UNTIL` for every new end of the lease, `lost NOW`. A line on standard input makes it resign and end.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a process of a test")]

use std::io::Write as _;
use std::time::Duration;

use suffrage_engines::{Clock, Engine, Moment};
use suffrage_node::clock::Clock as _;

struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Moment {
        Duration::from_nanos(suffrage_node::clock::BootClock.now().as_nanos())
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The test that reads may have ended.
    _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, name, ttl, identity] = arguments.as_slice() else {
        panic!("candidate URL NAME TTL_MS IDENTITY")
    };
    let engine = Engine::connect(url, BootClock).expect("an engine");
    let ttl = Duration::from_millis(ttl.parse().expect("milliseconds"));
    let election = engine.election(name).ttl(ttl).identity(identity).join().expect("an election");
    let (sender, mut resign) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for _ in std::io::stdin().lines() {
            if sender.send(()).is_err() {
                return;
            }
        }
        // The test has ended.
        std::process::exit(0);
    });
    loop {
        let leadership = election.lead().await.expect("a leadership");
        let mut shown = Duration::ZERO;
        loop {
            let (now, left) = (BootClock.now(), leadership.valid_for());
            let until = now + left;
            if left.is_zero() {
                say(&format!("lost {}", BootClock.now().as_nanos()));
                break;
            }
            // `now` was read before: the end that is printed is never later than the true one by more than the reading.
            if until > shown + Duration::from_millis(1) {
                let what = if shown.is_zero() { "leads" } else { "renewed" };
                say(&format!("{what} {} {} {}", leadership.token(), now.as_nanos(), until.as_nanos()));
                shown = until;
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(2)) => {}
                _ = resign.recv() => {
                    leadership.resign().await;
                    return;
                }
            }
        }
    }
}
