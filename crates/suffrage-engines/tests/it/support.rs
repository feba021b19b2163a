//! The clock of the tests, and candidates as processes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use suffrage_engines::{Clock, Moment};
use suffrage_servers::{PATIENCE, Server};

/// The clock of the machine, as production uses it.
#[derive(Clone, Copy)]
pub(crate) struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Moment {
        suffrage_servers::now()
    }
}

/// An event of a candidate process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It leads with this token, and has printed so at this moment. The lease ends at the second moment.
    Leads(u64, Moment, Moment),
    /// The lease has a new end.
    Renewed(u64, Moment, Moment),
    /// It does not lead any more.
    Lost(Moment),
}

/// A candidate process: `examples/candidate.rs`.
pub(crate) struct CandidateProcess {
    pub(crate) process: Server,
    input: ChildStdin,
    events: mpsc::Receiver<Event>,
    /// The end of the lease that the process has printed last.
    pub(crate) until: Moment,
    pub(crate) token: u64,
}

impl CandidateProcess {
    pub(crate) fn start(url: &str, name: &str, ttl: Duration, identity: &str) -> CandidateProcess {
        let program = std::env::current_exe().expect("a path");
        let folder = program.parent().and_then(Path::parent).expect("target/debug");
        let mut command = Command::new(folder.join("examples/candidate"));
        command.args([url, name, &ttl.as_millis().to_string(), identity]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child =
            child.unwrap_or_else(|error| panic!("{command:?}: {error}: `cargo build --examples` makes it"));
        let (sender, events) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(parse(&line)).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take().expect("a pipe");
        CandidateProcess { process: Server(child), input, events, until: Duration::ZERO, token: 0 }
    }

    /// The next event, if there is one within this time.
    pub(crate) fn next(&mut self, within: Duration) -> Option<Event> {
        let event = self.events.recv_timeout(within).ok()?;
        if let Event::Leads(token, _, until) | Event::Renewed(token, _, until) = event {
            (self.token, self.until) = (token, until);
        }
        Some(event)
    }

    /// Waits until the process leads. Returns its token and the moment.
    pub(crate) fn leads(&mut self) -> (u64, Moment) {
        loop {
            match self.next(PATIENCE).expect("the process leads in time") {
                Event::Leads(token, now, _) => return (token, now),
                Event::Renewed(..) | Event::Lost(_) => {}
            }
        }
    }

    /// Waits until the process has noticed that it does not lead any more.
    pub(crate) fn lost(&mut self) -> Moment {
        loop {
            if let Event::Lost(now) = self.next(PATIENCE).expect("the process loses in time") {
                return now;
            }
        }
    }

    /// Reads all events that have arrived.
    pub(crate) fn drain(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next(Duration::ZERO)).collect()
    }

    /// Makes the process resign and end. If it stood again, it would often be faster than those who wait.
    pub(crate) fn resign(&mut self) {
        writeln!(self.input).expect("the process runs");
    }
}

fn parse(line: &str) -> Event {
    let mut words = line.split(' ');
    let kind = words.next().unwrap_or_default();
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a number");
    match kind {
        "leads" => Event::Leads(number(), Duration::from_nanos(number()), Duration::from_nanos(number())),
        "renewed" => Event::Renewed(number(), Duration::from_nanos(number()), Duration::from_nanos(number())),
        "lost" => Event::Lost(Duration::from_nanos(number())),
        _ => panic!("a candidate printed `{line}`"),
    }
}
