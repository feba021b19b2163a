//! `suffrage-lab check`: explores every schedule of a small world.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde::Serialize;
use suffrage_check::{
    Bounds, CheckReport, ClaimOutcome, Clocks, ElectionModel, Extent, Limits, NodeCommand, Rates,
    SHORT_LEASES, Verdict, check,
};
use suffrage_core::Visitor;
use suffrage_core::{Algorithm, Electorate, Parameter, Roster, Span, Synchrony, parameters};

use crate::parallel::Stopwatch;
use crate::player::{self, Encoder};
use crate::{args, options, output_file};
use suffrage_cli::Error;
use suffrage_cli::{Console, text};

const ABOUT: &str = "Explores every schedule of a small world, and checks the promises of the algorithm in each.

The simulator runs one schedule per seed; the model checker runs all of them: in each state, every possible next \
step is taken. The processes are the same state machines as in the simulator. The world must be small: flags bound \
the number of processes and of steps of each kind. The report says whether the exploration was complete. A broken \
promise is shown as the shortest schedule that breaks it.

Messages arrive in any order, arbitrarily late, or never; this is always included. Pauses are included because a \
timer may be late. Random backoffs always have their shortest value; a late timer stands for longer backoffs.";

const EXAMPLES: &str = "Examples:
  suffrage-lab check lease
      two voters that are both candidates, drifting clocks, leases that expire, a resignation, a transfer, a
      restart: never two leaders, and tokens increase
  suffrage-lab check lease --voters 3 --resigns 0 --transfers 0 --duplicates 1
      three voters of which two are candidates, a restart, a message that arrives twice
  suffrage-lab check lease --nodes 3 --voters 1 --resigns 0 --transfers 0 --ticks 1 --bug skip-silence --expect-violation
      finds a deliberate bug: a voter votes at once after a restart
  suffrage-lab check quorum-lease --start-state initial --restarts 0 --resigns 0 --transfers 0
      from the initial state
  suffrage-lab check quorum-lease --voters 3 --timers 1 --restarts 0 --resigns 0 --transfers 0
      with a renewal, or a second attempt
  suffrage-lab check lease --nodes 2 --voters 1 --start-state initial --resigns 0 --transfers 0 --candidates 1 \
    --ticks 4 --before '1:voters adopt' --before '1:campaign' --before '1:voters add 2' \
    --command '1:voters remove 1'
      the voters change from {1} to {1, 2} before the search, and to {2} at any moment of it
  suffrage-lab check raft --restarts 1 --pre-vote off --check-quorum off
      never two leaders in one term, although a process crashes
  suffrage-lab check bully --expect-violation
      the split brain of the bully algorithm, as a schedule
  suffrage-lab check bully --expect-violation --html split-brain.html
      the same as a page to play
  suffrage-lab check bully --synchronous
      no split brain if every message arrives in time
  suffrage-lab check ring
      Chang and Roberts: in every order, all processes agree in the end

Exit codes: 0 all promises held, or with --expect-violation one was broken; 1 otherwise; 2 the command line
is wrong.";

/// The algorithms whose worlds are small enough. A search is compiled for each of them.
mod checked {
    use suffrage_algorithms::{
        announce, bully, candidate_ordinary, chang_roberts, collecting_ring, invitation, maximum_ring,
        modified_bully, next_in_line, probabilistic_quorum, raft, randomized, stable_leader, suppress,
    };

    suffrage_core::catalog! {
        bully::Bully,
        modified_bully::ModifiedBully,
        next_in_line::NextInLine,
        candidate_ordinary::CandidateOrdinary,
        invitation::Invitation,
        chang_roberts::ChangRoberts,
        collecting_ring::CollectingRing,
        maximum_ring::MaximumRing,
        stable_leader::StableLeader,
        announce::Announce,
        suppress::Suppress,
        raft::Raft,
        suffrage_algorithms::quorum_lease::QuorumLease,
        randomized::Randomized,
        probabilistic_quorum::ProbabilisticQuorum,
    }
}

/// The most processes: more have too many schedules to explore.
const MAX_NODES: usize = 9;
/// The default limit of visited states: some gigabytes of memory.
const MAX_VISITS: usize = 50_000_000;

/// The flags that bound the number of steps of each kind, with their help texts.
const STEP_BOUNDS: &[(&str, &str)] = &[
    ("campaigns", "How often each candidate calls an election"),
    ("resigns", "How often a leader is told to resign, in total"),
    ("transfers", "How often a leader is told to transfer to another candidate, in total"),
    ("timers", "How often a timer expires, in total"),
    ("duplicates", "How often a message arrives twice"),
    (
        "losses",
        "How often a message is lost; messages that never arrive are always included and need no such step",
    ),
    ("restarts", "How often a process crashes and restarts with its disk"),
    ("wipes", "How often a process restarts with an empty disk"),
];

/// One subcommand for each algorithm, because each has its own options.
pub(crate) fn command() -> Command {
    let of = |name| checked::visit(name, MakeSubcommand).expect("a contract's name is in its catalog");
    Command::new("check")
        .about("Explores every schedule of a small world, and checks the promises")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .subcommand_value_name("ALGORITHM")
        .subcommand_help_heading("Algorithms")
        .disable_help_subcommand(true)
        .subcommands(checked::CONTRACTS.iter().map(|contract| of(contract.name)))
}

struct MakeSubcommand;

impl Visitor for MakeSubcommand {
    type Output = Command;

    fn visit<A: Algorithm>(self) -> Command {
        let mut command = Command::new(A::CONTRACT.name).about(A::CONTRACT.summary).after_help(EXAMPLES);
        match A::CONTRACT.name {
            "chang-roberts" => command = command.visible_alias("ring"),
            "quorum-lease" => command = command.visible_alias("lease"),
            _ => {}
        }
        let usual = Bounds::usual(&A::CONTRACT, None);
        let own: Vec<Arg> = flags(&usual);
        let taken = |flag: &Arg| own.iter().any(|other| other.get_id() == flag.get_id());
        let algorithm_flags: Vec<Arg> = options::flags::<A>().filter(|flag| !taken(flag)).collect();
        command.args(own).args(algorithm_flags)
    }
}

fn flags(usual: &Bounds) -> Vec<Arg> {
    let flag = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    let size = |text: &str| args::number(text, "processes", 1, MAX_NODES);
    let some = |text: &str| args::number(text, "processes", 0, MAX_NODES);
    let mut flags = vec![
        flag("nodes", "N")
            .value_parser(size)
            .help("The number of processes; their ids are 1 to N [default: 3, or 2 for leases, or the number of voters if that is greater]"),
        flag("candidates", "C")
            .value_parser(some)
            .help(format!("The number of candidates, which call elections: the last C processes [default: {}]", usual.candidates)),
    ];
    let state = if usual.elected { "elected" } else { "initial" };
    flags.push(flag("start-state", "initial|elected").value_parser(start_state).help(format!(
        "The initial state, or the state after the last process has called an election and all its messages have arrived [default: {state}]"
    )));
    let commands = |name, help| {
        let parser = |text: &str| text.parse::<NodeCommand>();
        flag(name, "ID:COMMAND").action(ArgAction::Append).value_parser(parser).help(help)
    };
    flags.extend([
        commands(
            "before",
            "A process gets a command of its algorithm before the search, like '1:voters adopt', and all messages arrive; repeatable, in this order",
        ),
        commands(
            "command",
            "A process gets a command of its algorithm, like '1:voters remove 1', at any moment of the search or never; repeatable, in any order",
        ),
    ]);
    for (name, help) in STEP_BOUNDS {
        let help = format!("{help} [default: {}]", count_of(&mut usual.clone(), name));
        flags.push(
            flag(name, "COUNT").value_parser(|text: &str| args::number(text, "times", 0, u8::MAX)).help(help),
        );
    }
    let switch = |name, help| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    flags.extend([
        switch("synchronous", "Every message arrives within one time unit, and timers are on time"),
        flag("ticks", "COUNT")
            .value_parser(|text: &str| args::number(text, "ticks", 0_u8, 200))
            .help("The number of ticks of true time [default: 2, or 12 with --synchronous]"),
        flag("tick", "TIME")
            .value_parser(|text: &str| text.parse::<Span>())
            .help("The length of a tick in time units; the delay bound is one time unit [default: 5, or 1 with --synchronous]"),
        flag("drift", "DRIFT")
            .value_parser(args::drift)
            .help("The real drift of clocks, like 1% or 100ppm [default: the drift bound of the algorithm]"),
        flag("rates", "opposed|all")
            .value_parser(rates)
            .help("Which clocks run fast and which slow: the clock of the last process against all others, in both directions, or every combination [default: opposed]"),
        flag("depth", "STEPS")
            .value_parser(|text: &str| args::number(text, "steps", 0_usize, 10_000))
            .help("The greatest number of steps from the start [default: no limit]"),
        flag("states", "COUNT")
            .value_parser(|text: &str| args::number(text, "states", 1, usize::MAX))
            .help(format!("Stops after about this many visits of states, new or known [default: {MAX_VISITS}]")),
        switch("expect-violation", "Exits with 0 if a promise is broken, and with 1 if none is"),
        switch("json", "Prints the result as JSON"),
        flag("html", "FILE").value_parser(value_parser!(PathBuf)).help(
            "Writes the schedules of broken promises as a page to play, the shortest first; no page if none is broken",
        ),
    ]);
    flags
}

/// Parses a start state. True means that a leader is elected.
fn start_state(text: &str) -> Result<bool, String> {
    match text {
        "initial" => Ok(false),
        "elected" => Ok(true),
        _ => Err(format!("`{text}` is neither initial nor elected")),
    }
}

fn rates(text: &str) -> Result<Rates, String> {
    match text {
        "opposed" => Ok(Rates::Opposed),
        "all" => Ok(Rates::All),
        _ => Err(format!("`{text}` is neither opposed nor all")),
    }
}

fn count_of<'b>(bounds: &'b mut Bounds, name: &str) -> &'b mut u8 {
    match name {
        "campaigns" => &mut bounds.campaigns,
        "resigns" => &mut bounds.resigns,
        "transfers" => &mut bounds.transfers,
        "timers" => &mut bounds.timers,
        "duplicates" => &mut bounds.duplicates,
        "losses" => &mut bounds.losses,
        "restarts" => &mut bounds.restarts,
        "wipes" => &mut bounds.wipes,
        _ => unreachable!("`{name}` is not among the counts"),
    }
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    let (name, matches) = matches.subcommand().expect("clap demands an algorithm");
    let show_progress = console.err_is_terminal;
    let result = checked::visit(name, Search { matches, show_progress }).expect("clap knows the names")?;
    let text = if matches.get_flag("json") {
        serde_json::to_string_pretty(&result).expect("reports are plain data") + "\n"
    } else {
        result.text()
    };
    console.out.write_all(text.as_bytes())?;
    if let Some(file) = matches.get_one::<PathBuf>("html") {
        write_page(file, &result.report)?;
    }
    Ok(u8::from(result.report.broken().is_some() != matches.get_flag("expect-violation")))
}

/// The shortest schedule that breaks a promise, as a run of the player: of `suffrage-lab check` with these words.
pub(crate) fn counterexample(words: &str) -> Result<Option<Encoder>, Error> {
    let line = std::iter::once("check").chain(words.split_whitespace());
    let matches = command().try_get_matches_from(line)?;
    let (name, matches) = matches.subcommand().expect("clap demands an algorithm");
    let search = Search { matches, show_progress: false };
    let SearchResult { report, .. } = checked::visit(name, search).expect("clap knows the names")?;
    let broken = report.verdicts.iter().filter(|verdict| verdict.outcome == ClaimOutcome::Broken);
    let shortest = broken.min_by_key(|verdict| verdict.schedule.len());
    let command = format!("suffrage-lab check {words}");
    Ok(shortest
        .map(|verdict| player::encode_schedule(report.algorithm, report.bounds.nodes, verdict, &command)))
}

/// Writes the schedules of broken claims as a page, the shortest first.
fn write_page(file: &Path, report: &CheckReport) -> Result<(), Error> {
    let mut broken: Vec<&Verdict> =
        report.verdicts.iter().filter(|verdict| verdict.outcome == ClaimOutcome::Broken).collect();
    if broken.is_empty() {
        return Ok(());
    }
    broken.sort_by_key(|verdict| verdict.schedule.len());
    let algorithm = report.algorithm;
    let runs: Vec<(String, Encoder)> = broken
        .iter()
        .map(|verdict| {
            let name = format!("{} ({} steps)", verdict.name, verdict.schedule.len());
            (name, player::encode_schedule(algorithm, report.bounds.nodes, verdict, ""))
        })
        .collect();
    output_file::write(file, &player::page(&format!("{algorithm}: counterexamples"), &runs))
}

/// A report and the time that the search took.
#[derive(Serialize)]
struct SearchResult {
    #[serde(flatten)]
    report: CheckReport,
    seconds: f64,
}

struct Search<'a> {
    matches: &'a ArgMatches,
    show_progress: bool,
}

impl Visitor for Search<'_> {
    type Output = Result<SearchResult, Error>;

    fn visit<A: Algorithm>(self) -> Result<SearchResult, Error> {
        let options = self.options::<A>()?;
        let bounds = self.bounds::<A>(&options)?;
        A::check(&options, &Roster::numbered(bounds.nodes))?;
        A::check_delay_bound(&options, Span::UNIT)?;
        let states = self.matches.get_one::<usize>("states").copied().unwrap_or(MAX_VISITS);
        let limits = Limits { depth: self.matches.get_one("depth").copied(), states: Some(states) };
        let mut stopwatch = Stopwatch::start(self.show_progress);
        let report = check(ElectionModel::<A>::new(options, bounds), limits, &mut |progress| {
            stopwatch.update(|| format!("{} states, {} steps away", progress.states, progress.depth));
        });
        Ok(SearchResult { report, seconds: stopwatch.seconds() })
    }
}

impl Search<'_> {
    /// The options from the flags. Algorithms with leases get short leases.
    fn options<A: Algorithm>(&self) -> Result<A::Options, Error> {
        let mut settings: Vec<(&str, String)> = Vec::new();
        if A::CONTRACT.synchrony == Synchrony::BoundedDrift {
            settings.extend(SHORT_LEASES.iter().map(|&(name, value)| (name, value.to_string())));
        }
        // `--candidates` bounds the world, and is not the parameter of the same name.
        let own = flags(&Bounds::usual(&A::CONTRACT, None));
        let is_own =
            |parameter: &&Parameter<A::Options>| own.iter().any(|flag| flag.get_id() == parameter.name);
        settings.extend(A::PARAMETERS.iter().filter(|parameter| !is_own(parameter)).filter_map(
            |parameter| {
                let text = self.matches.get_raw(parameter.name)?.next()?;
                Some((parameter.name, text.to_str()?.to_string()))
            },
        ));
        let mut options = A::Options::default();
        for (name, value) in settings {
            A::set(&mut options, name, &value)?;
        }
        Ok(options)
    }

    fn bounds<A: Algorithm>(&self, options: &A::Options) -> Result<Bounds, Error> {
        let voters = match A::electorate(options) {
            Electorate::Voters(voters) => Some(voters),
            Electorate::Anybody | Electorate::Majority | Electorate::Grid => None,
        };
        let mut bounds = Bounds::usual(&A::CONTRACT, voters);
        bounds.nodes = self.matches.get_one("nodes").copied().unwrap_or(bounds.nodes);
        let candidates = self.matches.get_one::<usize>("candidates").copied();
        bounds.candidates = candidates.unwrap_or(bounds.candidates.min(bounds.nodes));
        bounds.elected = self.matches.get_one("start-state").copied().unwrap_or(bounds.elected);
        if bounds.candidates > bounds.nodes {
            let reason = format!("there are only {} processes; raise --nodes", bounds.nodes);
            return Err(Error::flag("candidates", reason));
        }
        if bounds.nodes > MAX_NODES {
            return Err(Error::flag(
                "nodes",
                format!("{} processes are too many; at most {MAX_NODES}", bounds.nodes),
            ));
        }
        for (name, _) in STEP_BOUNDS {
            if let Some(&count) = self.matches.get_one::<u8>(name) {
                *count_of(&mut bounds, name) = count;
            }
        }
        bounds.before = self.commands::<A>("before", bounds.nodes)?;
        bounds.commands = self.commands::<A>("command", bounds.nodes)?;
        if bounds.commands.len() > Bounds::MAX_COMMANDS {
            let (count, most) = (bounds.commands.len(), Bounds::MAX_COMMANDS);
            return Err(Error::flag("command", format!("{count} commands are too many; at most {most}")));
        }
        self.set_clocks::<A>(options, &mut bounds)?;
        Ok(bounds)
    }

    /// The commands of a flag, if the processes exist and know them.
    fn commands<A: Algorithm>(&self, flag: &str, nodes: usize) -> Result<Vec<NodeCommand>, Error> {
        let given = self.matches.get_many::<NodeCommand>(flag).into_iter().flatten();
        let check = |command: &NodeCommand| match command.parse::<A>(&Roster::numbered(nodes)) {
            Ok(_) => Ok(command.clone()),
            Err(reason) => Err(Error::flag(flag, reason)),
        };
        given.map(check).collect()
    }

    /// Sets the model of time: the one that the algorithm needs, or the one that the flags name.
    fn set_clocks<A: Algorithm>(&self, options: &A::Options, bounds: &mut Bounds) -> Result<(), Error> {
        if self.matches.get_flag("synchronous") {
            let (drift, rates) = (0, Rates::Opposed);
            bounds.clocks = Clocks::True { tick: Span::UNIT, ticks: 12, drift, rates, synchronous: true };
        }
        let Clocks::True { tick, ticks, drift, rates, synchronous } = &mut bounds.clocks else {
            let given =
                ["tick", "ticks", "drift", "rates"].into_iter().find(|flag| self.matches.contains_id(flag));
            return given.map_or(Ok(()), |flag| {
                Err(Error::flag(flag, "applies only with true time; add --synchronous"))
            });
        };
        let allowed = A::PARAMETERS.iter().find(|parameter| parameter.name == "drift-bound");
        let allowed = allowed.and_then(|parameter| parameters::drift(&(parameter.show)(options)).ok());
        let real = self.matches.get_one::<f64>("drift").copied();
        if *synchronous && real.is_some_and(|drift| drift > 0.0) {
            return Err(Error::flag("drift", "clocks do not drift with --synchronous; leave it out"));
        }
        if !*synchronous {
            *drift = (real.or(allowed).unwrap_or(0.0) * 1e6).round() as u32;
        }
        *tick = self.matches.get_one("tick").copied().unwrap_or(*tick);
        *ticks = self.matches.get_one("ticks").copied().unwrap_or(*ticks);
        *rates = self.matches.get_one("rates").copied().unwrap_or(*rates);
        if tick.is_zero() {
            return Err(Error::flag("tick", "must be above 0"));
        }
        Ok(())
    }
}

impl SearchResult {
    fn text(&self) -> String {
        let CheckReport { algorithm, states, visits, depth, extent, verdicts, bounds } = &self.report;
        let mut text = format!("{algorithm}: {}\n\n", describe_bounds(bounds));
        for verdict in verdicts {
            let _ = writeln!(text, "  {:<8} {}{}", outcome(verdict.outcome), verdict.name, remark(verdict));
        }
        let (extent, seconds) = (describe_extent(*extent), text::number(self.seconds));
        let _ = writeln!(
            text,
            "\n  {states} states ({visits} visits), up to {depth} steps from the start, in {seconds} s\n  {extent}"
        );
        for verdict in verdicts.iter().filter(|verdict| verdict.outcome == ClaimOutcome::Broken) {
            let _ = writeln!(text, "\n  BROKEN: {}. The shortest schedule:\n", verdict.name);
            for (number, line) in verdict.schedule.iter().enumerate() {
                let _ = writeln!(text, "  {:>3}. {}", number + 1, text::wrap(line, 92, 7));
            }
            let explanation = verdict.explanation.as_deref().unwrap_or_default();
            let _ = writeln!(text, "\n       So {}.", text::wrap(explanation, 88, 7));
        }
        text
    }
}

fn outcome(outcome: ClaimOutcome) -> &'static str {
    match outcome {
        ClaimOutcome::Held => "held",
        ClaimOutcome::Broken => "BROKEN",
        ClaimOutcome::Seen => "seen",
        ClaimOutcome::Unseen => "not seen",
    }
}

fn remark(verdict: &Verdict) -> String {
    match verdict.outcome {
        ClaimOutcome::Broken if !verdict.promised => {
            " (promised only with bounded delays: see --synchronous)".to_string()
        }
        ClaimOutcome::Broken | ClaimOutcome::Held => String::new(),
        ClaimOutcome::Seen => format!(", after {}", text::count(verdict.schedule.len(), "step", "steps")),
        ClaimOutcome::Unseen => " (this world is too small, or was not explored far enough)".to_string(),
    }
}

fn describe_extent(extent: Extent) -> &'static str {
    match extent {
        Extent::Exhausted => "Complete: every schedule within these bounds was explored.",
        Extent::CutByDepth => "INCOMPLETE: there are longer schedules; raise --depth.",
        Extent::CutByStates => "INCOMPLETE: there are more states; raise --states.",
        Extent::Stopped => {
            "The search stopped at the first broken promise; all states fewer steps away were explored."
        }
    }
}

/// The bounds in one sentence.
fn describe_bounds(bounds: &Bounds) -> String {
    let mut bounds = bounds.clone();
    let mut parts = vec![text::count(bounds.nodes, "process", "processes")];
    if bounds.candidates > 0 {
        let times = text::count(bounds.campaigns.into(), "time", "times");
        parts.push(format!("the last {} of which call an election up to {times}", bounds.candidates));
    }
    for (name, one) in [
        ("resigns", "resignation"),
        ("transfers", "transfer"),
        ("timers", "timer"),
        ("duplicates", "duplicate"),
        ("losses", "loss"),
        ("restarts", "restart"),
        ("wipes", "lost disk"),
    ] {
        let count = usize::from(*count_of(&mut bounds, name));
        let many = match name {
            "wipes" => "lost disks",
            "resigns" => "resignations",
            name => name,
        };
        if count > 0 && !(name == "timers" && bounds.clocks.is_synchronous()) {
            parts.push(format!("up to {}", text::count(count, one, many)));
        }
    }
    if bounds.elected {
        parts.push(format!("from the state in which {} is elected", bounds.nodes));
    }
    for (commands, when) in [(&bounds.before, "after"), (&bounds.commands, "with")] {
        if !commands.is_empty() {
            let list: Vec<String> = commands.iter().map(|command| format!("`{command}`")).collect();
            parts.push(format!("{when} the commands {}", list.join(", ")));
        }
    }
    parts.push(match bounds.clocks {
        Clocks::Still => "timers at any time".to_string(),
        Clocks::Own => "independent clocks".to_string(),
        Clocks::True { ticks, tick, synchronous: true, .. } => {
            format!("messages and timers on time, for {ticks} ticks of {}", text::number(tick.as_units()))
        }
        Clocks::True { ticks, tick, drift, .. } => format!(
            "{ticks} ticks of {}, clocks that drift by {}%",
            text::number(tick.as_units()),
            text::number(f64::from(drift) / 1e4)
        ),
    });
    parts.join(", ")
}
