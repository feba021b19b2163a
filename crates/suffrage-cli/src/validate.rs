//! `validate`: the worst cases of the timings of a quorum lease, or the rules that they break.
//!
//! The calculation is the same in both programs. `suffrage-lab` adds a simulation beside it.

use std::str::FromStr as _;

use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use serde::Serialize;
use suffrage_core::Span;
use suffrage_lease::{
    Budget, Deployment, Drift, Load, MAX_VOTERS, PACKET_BYTES, RENEWAL_BYTES, Timings, Traffic, Violation,
};

use crate::{Console, Error, text};

const ABOUT: &str = "Computes the worst cases of the timings of a quorum lease.

The results are the longest time without a leader after a crash or a release, the longest pause of a leader, the \
greatest drift of clocks, the number of renewals that may be lost, the time at which the work must be stopped so that \
it ends before the lease, and the cost in messages and packets. Timings that cannot work are refused, with the rule \
that they break and a remedy.

`suffrage-lab validate --simulate` also simulates the timings.";

const EXAMPLES: &str = "Examples:
  suffrage validate --ttl 3s --renew 1s --rtt 5ms --drift 1% --stop-grace 500ms
      prints the worst cases of these timings
  suffrage validate --ttl 3s --renew 2.9s --rtt 5ms
      refuses the timings, with the numbers and a remedy
  suffrage validate --ttl 10s --renew 3s --rtt 80ms --voters 5 --names 100000 --leaders 20
      many elections between sites: messages and packets per second

Exit codes: 0 the timings work, 1 they break a rule or output could not be written, 2 the command line is wrong.";

/// The timings to validate.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The length of a lease, like 3s, 500ms or 1m
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = time)]
    pub ttl: Span,
    /// The interval in which the leader renews its lease
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    pub renew: Span,
    /// The longest round trip of a message and its reply
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = time)]
    pub rtt: Span,
    /// The greatest drift of clocks, like 1% or 100ppm
    #[arg(long, value_name = "DRIFT", default_value = "1%", value_parser = Drift::from_str)]
    pub drift: Drift,
    /// The time from the stop signal for the leader's work to SIGKILL
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = time)]
    stop_grace: Span,
    /// The time that SIGKILL needs to end the work
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = time)]
    kill: Span,
    /// The number of voters
    #[arg(long, value_name = "V", default_value = "3", value_parser = voters)]
    pub voters: usize,
    /// The number of elections
    #[arg(long, value_name = "M", default_value = "1", value_parser = names)]
    names: u64,
    /// The number of processes that lead them
    #[arg(long, value_name = "L", default_value = "1", value_parser = names)]
    leaders: u64,
    /// The number of waiting candidates of each election
    #[arg(long, value_name = "C", default_value = "2", value_parser = waiting)]
    waiting: u64,
    /// Prints the result as JSON; times in seconds, drifts as fractions
    #[arg(long)]
    json: bool,
}

fn time(text: &str) -> Result<Span, String> {
    const DAY: Span = Span::from_millis(24 * 3_600_000);
    match Span::parse_duration(text)? {
        span if span <= DAY => Ok(span),
        _ => Err(format!("`{text}` is more than a day")),
    }
}

fn voters(text: &str) -> Result<usize, String> {
    text::number_within(text, "voters", 1, MAX_VOTERS)
}

fn names(text: &str) -> Result<u64, String> {
    text::number_within(text, "elections or processes", 1, 1_000_000_000)
}

fn waiting(text: &str) -> Result<u64, String> {
    text::number_within(text, "candidates", 0, 1_000_000)
}

/// The command, without a simulation.
pub fn command() -> Command {
    crate::accept_hyphen_values(Arguments::augment_args(Command::new("validate")))
        .about("Computes the worst cases of the timings of a quorum lease, or the rules that they break")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
}

/// Prints the worst cases of the timings and the result of `simulate`, and returns the exit code.
pub fn execute(
    matches: &ArgMatches,
    console: &mut Console<'_>,
    simulate: impl FnOnce(&Arguments, &Budget) -> Option<Simulated>,
) -> Result<u8, Error> {
    let arguments = Arguments::from_arg_matches(matches)?;
    arguments.check()?;
    let timings = arguments.timings();
    let (text, code) = match timings.budget(&arguments.deployment()) {
        Err(broken) if arguments.json => (text::json(&Refusal::of(&broken)), 1),
        Err(broken) => (arguments.refusal(&broken), 1),
        Ok(budget) => {
            let simulated = simulate(&arguments, &budget);
            let kept = simulated.as_ref().is_none_or(|simulated| simulated.leaderless == 0);
            let report = Report::of(&arguments, &budget, simulated);
            let text = if arguments.json { text::json(&report) } else { arguments.account(&report) };
            (text, u8::from(!kept))
        }
    };
    console.out.write_all(text.as_bytes())?;
    Ok(code)
}

/// The JSON result for timings that do not work.
#[derive(Debug, Serialize)]
struct Refusal {
    works: bool,
    broken: Vec<Broken>,
}

#[derive(Debug, Serialize)]
struct Broken {
    rule: &'static str,
    reason: String,
}

impl Refusal {
    fn of(broken: &[Violation]) -> Refusal {
        let broken = broken.iter().map(|it| Broken { rule: it.rule(), reason: it.to_string() }).collect();
        Refusal { works: false, broken }
    }
}

/// The JSON result for timings that work. Times are in seconds.
#[derive(Debug, Serialize)]
struct Report {
    works: bool,
    ttl: f64,
    renew: f64,
    rtt: f64,
    drift: f64,
    stop_grace: f64,
    kill: f64,
    voters: usize,
    /// The validity of a lease by the leader's clock, from before the request.
    validity: f64,
    failover_after_crash: f64,
    /// The additional time for each time that two candidates defeat each other.
    failover_split_vote: f64,
    failover_after_release: f64,
    lost_renewals: u64,
    lost_renewals_at_work: u64,
    pause: f64,
    pause_at_work: f64,
    /// The time after the request for the lease, by the leader's clock.
    lost_returns_after: f64,
    /// The time before the end of the lease.
    lost_returns_before_end: f64,
    restart_silence: f64,
    max_drift: f64,
    per_second: PerSecond,
    simulated: Option<Simulated>,
    #[serde(skip)]
    budget: Budget,
}

#[derive(Debug, Serialize)]
struct PerSecond {
    names: u64,
    leaders: u64,
    waiting: u64,
    renewal_messages: f64,
    renewal_packets: f64,
    enquiry_messages: f64,
}

/// The result of the simulation.
#[derive(Debug, Serialize)]
pub struct Simulated {
    /// The number of processes.
    pub nodes: usize,
    /// The number of crashes, and of releases.
    pub runs: u64,
    /// The first seed.
    pub seed: u64,
    /// The time without a leader after a crash.
    pub crash: Percentiles,
    /// The time without a leader after a release.
    pub release: Percentiles,
    /// The number of runs that took longer than computed for a single candidate.
    pub beyond: usize,
    /// The number of runs without a leader for twenty leases.
    pub leaderless: usize,
}

/// Percentiles of times in seconds.
#[derive(Debug, Serialize)]
pub struct Percentiles {
    /// The number of measured times.
    pub runs: usize,
    /// The median.
    pub p50: Option<f64>,
    /// The 90th percentile.
    pub p90: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

impl Percentiles {
    fn row(&self, name: &str, computed: Span) -> Vec<String> {
        let say = |time: Option<f64>| time.map_or("-".to_string(), |time| clock(seconds_as_span(time)));
        let [p50, p90, p99, max] = [self.p50, self.p90, self.p99, self.max].map(say);
        vec![name.to_string(), self.runs.to_string(), p50, p90, p99, max, clock(computed)]
    }
}

fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}

fn seconds_as_span(seconds: f64) -> Span {
    Span::from_units(seconds * 1e3)
}

fn clock(span: Span) -> String {
    span.format_duration()
}

impl Report {
    fn of(arguments: &Arguments, budget: &Budget, simulated: Option<Simulated>) -> Report {
        let Traffic { renewals, packets, enquiries } = arguments.timings().traffic(&arguments.load());
        Report {
            works: true,
            ttl: seconds(arguments.ttl),
            renew: seconds(arguments.renew),
            rtt: seconds(arguments.rtt),
            drift: arguments.drift.fraction(),
            stop_grace: seconds(arguments.stop_grace),
            kill: seconds(arguments.kill),
            voters: arguments.voters,
            validity: seconds(budget.validity),
            failover_after_crash: seconds(budget.crash),
            failover_split_vote: seconds(budget.split_vote),
            failover_after_release: seconds(budget.release),
            lost_renewals: budget.lost_renewals,
            lost_renewals_at_work: budget.lost_renewals_at_work,
            pause: seconds(budget.pause),
            pause_at_work: seconds(budget.pause_at_work),
            lost_returns_after: seconds(budget.lost_after),
            lost_returns_before_end: seconds(budget.notice),
            restart_silence: seconds(budget.silence),
            max_drift: budget.max_drift.fraction(),
            per_second: PerSecond {
                names: arguments.names,
                leaders: arguments.load().leaders,
                waiting: arguments.waiting,
                renewal_messages: renewals,
                renewal_packets: packets,
                enquiry_messages: enquiries,
            },
            simulated,
            budget: *budget,
        }
    }
}

impl Arguments {
    fn check(&self) -> Result<(), Error> {
        if self.rtt.is_zero() {
            return Err(Error::flag("rtt", "is zero; set it above zero"));
        }
        Ok(())
    }

    /// The timings of the lease.
    pub fn timings(&self) -> Timings {
        Timings::for_round_trip(self.ttl, self.renew, self.drift, self.rtt)
    }

    fn deployment(&self) -> Deployment {
        let (grace, kill) = (self.stop_grace, self.kill);
        Deployment { grace, kill, ..Deployment::new(self.rtt, self.voters) }
    }

    fn load(&self) -> Load {
        let leaders = self.leaders.min(self.names);
        Load { names: self.names, leaders, waiting: self.waiting, voters: self.voters as u64 }
    }

    /// The timings, in one line.
    fn given(&self) -> String {
        format!(
            "ttl {}, renewed every {}, round trip {}, drift {}, {}; work stops in {} and is killed in {}\n",
            clock(self.ttl),
            clock(self.renew),
            clock(self.rtt),
            self.drift,
            text::count(self.voters, "voter", "voters"),
            clock(self.stop_grace),
            clock(self.kill),
        )
    }

    fn refusal(&self, broken: &[Violation]) -> String {
        let mut text = self.given() + "\nThese timings cannot work:\n";
        for violation in broken {
            text += &format!("  {}: {}\n", violation.rule(), text::wrap(&violation.to_string(), 90, 4));
        }
        text
    }

    fn account(&self, report: &Report) -> String {
        let budget = &report.budget;
        let lost = |count| text::count(count as usize, "renewal", "renewals");
        let facts = [
            ("no leader for", format!("{} at most after a crash of the leader", clock(budget.crash))),
            (
                "",
                format!(
                    "and {} more each time that two candidates defeat each other",
                    clock(budget.split_vote)
                ),
            ),
            ("", format!("{} at most after a release of the lease", clock(budget.release))),
            (
                "lease valid for",
                format!("{} by the leader's clock, from before the request", clock(budget.validity)),
            ),
            (
                "lost() returns",
                format!(
                    "{} after the request, {} before the end",
                    clock(budget.lost_after),
                    clock(budget.notice)
                ),
            ),
            (
                "tolerated losses",
                format!(
                    "{} in a row without a reply, {} before lost() returns",
                    lost(budget.lost_renewals),
                    budget.lost_renewals_at_work
                ),
            ),
            (
                "tolerated pause",
                format!(
                    "{} of the leader at any moment, {} before lost() returns",
                    clock(budget.pause),
                    clock(budget.pause_at_work)
                ),
            ),
            ("tolerated drift", format!("{}, with all else equal", budget.max_drift)),
            ("restarted voters", format!("are silent for {} at most", clock(budget.silence))),
        ];
        let mut text = self.given() + "\n";
        for (name, fact) in facts {
            text += &format!("  {name:<18} {fact}\n");
        }
        text += &self.costs(&report.per_second);
        text +=
            &report.simulated.as_ref().map_or(String::new(), |simulated| self.measured(budget, simulated));
        text
    }

    fn costs(&self, per_second: &PerSecond) -> String {
        let amount = text::number;
        format!(
            "\n  in a second, for {} with {} waiting for each:\n    \
             {} messages of renewals: 2 per voter and election, every {}\n    \
             {} packets with them, per peer and not per election: for each of {}\n      \
             renewals to the same voter share packets, {} renewals in {PACKET_BYTES} bytes\n    \
             {} messages of waiting candidates, on average\n",
            text::count(self.names as usize, "election", "elections"),
            self.waiting,
            amount(per_second.renewal_messages),
            clock(self.renew),
            amount(per_second.renewal_packets),
            text::count(per_second.leaders as usize, "leading process", "leading processes"),
            PACKET_BYTES / RENEWAL_BYTES,
            amount(per_second.enquiry_messages),
        )
    }

    fn measured(&self, budget: &Budget, simulated: &Simulated) -> String {
        let heading = ["no leader after", "runs", "p50", "p90", "p99", "max", "computed"];
        let rows = [
            heading.map(str::to_string).to_vec(),
            simulated.crash.row("a crash", budget.crash),
            simulated.release.row("a release", budget.release),
        ];
        let verdict = match simulated.beyond {
            0 => "no run took longer than computed".to_string(),
            runs => format!(
                "{} took longer than computed for a single candidate",
                text::count(runs, "run", "runs")
            ),
        };
        format!(
            "\nSimulated with {} processes, seeds {} to {}: {verdict}\n\n{}",
            simulated.nodes,
            simulated.seed,
            simulated.seed + (simulated.runs - 1),
            text::columns(&rows)
        )
    }
}
