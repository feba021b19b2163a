//! `suffrage-lab check`: every schedule of a small world.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde::Serialize;
use suffrage_check::{
    Bounds, CheckReport, ClaimOutcome, Clocks, ElectionModel, Extent, Limits, Rates, SHORT_LEASES, Verdict,
    check,
};
use suffrage_core::Visitor;
use suffrage_core::{Algorithm, Electorate, Roster, Span, Synchrony};

use crate::parallel::Stopwatch;
use crate::{args, options};
use suffrage_cli::Error;
use suffrage_cli::{Console, text};

const ABOUT: &str = "Takes every schedule of a small world, and checks what the algorithm promises in all of them.

Where the simulator tries one schedule a seed, this tries them all: from the beginning, whatever can happen \
next happens, and so on from there. The processes are the very ones that run in the simulator. Worlds have to \
be small for that, and what may happen in them is counted out by flags; the report says whether all of it was \
looked at. A broken promise is told as the shortest schedule that breaks it.

Messages arrive in any order, as late as they like, or never: that costs nothing and is always included. So are \
pauses, since a timer may be late. Random back-offs are always short; where a timer may be late, that stands for \
the longer ones too.";

const EXAMPLES: &str = "Examples:
  suffrage-lab check lease
      two voters that both stand, drifting clocks, leases that run out, a resignation, a transfer, a restart:
      never two leaders, and tokens increase
  suffrage-lab check lease --voters 3 --resigns 0 --transfers 0 --duplicates 1
      three voters of which two stand, a restart, a message that arrives twice
  suffrage-lab check quorum-lease --bug skip-silence --expect-violation
      a deliberate mistake is found
  suffrage-lab check quorum-lease --start-state initial --restarts 0 --resigns 0 --transfers 0
      from the very beginning
  suffrage-lab check quorum-lease --voters 3 --timers 1 --restarts 0 --resigns 0 --transfers 0
      with a renewal, or a second attempt
  suffrage-lab check raft --restarts 1 --pre-vote off --check-quorum off
      never two leaders in one term, though somebody crashes
  suffrage-lab check bully --expect-violation
      the split brain of the bully algorithm, as a schedule
  suffrage-lab check bully --synchronous
      no split brain where every message arrives in time
  suffrage-lab check ring
      Chang and Roberts: whatever the order, all agree in the end

Exit codes: 0 what must hold held, or did not and that was expected; 1 the contrary; 2 the command line is
wrong.";

/// The algorithms whose worlds are known to be small enough. For each, a whole search is compiled.
mod checked {
    use suffrage_algorithms::{bully, chang_roberts, modified_bully, raft};

    suffrage_core::catalog! {
        bully::Bully,
        modified_bully::ModifiedBully,
        chang_roberts::ChangRoberts,
        raft::Raft,
        suffrage_lease::QuorumLease,
    }
}

/// More processes have more schedules than anybody has time.
const MOST_NODES: usize = 9;
/// Where nothing else is said, the search ends here: some gigabytes of memory.
const MOST_VISITS: usize = 50_000_000;

/// The counts that a world is bounded by, with their help.
const COUNTS: &[(&str, &str)] = &[
    ("campaigns", "How often each of those calls one"),
    ("resigns", "How often one that leads is told to resign, of all together"),
    ("transfers", "How often one that leads is told to hand over to another of those, of all together"),
    ("timers", "How often a timer runs out, of all together"),
    ("duplicates", "How often a message arrives twice"),
    (
        "losses",
        "How often a message is lost outright; one that never arrives needs no such step, and is always included",
    ),
    ("restarts", "How often a process crashes and comes back with its disk"),
    ("wipes", "How often one comes back without its disk"),
];

/// One subcommand for each algorithm, since each has options of its own.
pub(crate) fn command() -> Command {
    let of = |name| checked::visit(name, MakeSubcommand).expect("a contract's name is in its catalog");
    Command::new("check")
        .about("Takes every schedule of a small world, and checks what is promised")
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
        let theirs: Vec<Arg> = options::flags::<A>().filter(|flag| !taken(flag)).collect();
        command.args(own).args(theirs)
    }
}

fn flags(usual: &Bounds) -> Vec<Arg> {
    let flag = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    let size = |text: &str| args::number(text, "processes", 1, MOST_NODES);
    let some = |text: &str| args::number(text, "processes", 0, MOST_NODES);
    let mut flags = vec![
        flag("nodes", "N")
            .value_parser(size)
            .help("How many processes; their ids are 1 to N [default: 3; 2 for leases; or the voters if those are more]"),
        flag("candidates", "C")
            .value_parser(some)
            .help(format!("How many of them call elections: the last C [default: {}]", usual.candidates)),
    ];
    let state = if usual.elected { "elected" } else { "initial" };
    flags.push(flag("start-state", "initial|elected").value_parser(start_state).help(format!(
        "Begins before anything has happened, or when the last process has called an election and all messages about it have arrived [default: {state}]"
    )));
    for (name, help) in COUNTS {
        let help = format!("{help} [default: {}]", count_of(&mut usual.clone(), name));
        flags.push(
            flag(name, "COUNT").value_parser(|text: &str| args::number(text, "times", 0, u8::MAX)).help(help),
        );
    }
    let switch = |name, help| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    flags.extend([
        switch("synchronous", "Every message arrives within a time unit, and timers are on time"),
        flag("ticks", "COUNT")
            .value_parser(|text: &str| args::number(text, "ticks", 0_u8, 200))
            .help("Where there is a true time: how many ticks of it [default: 2, or 12 if synchronous]"),
        flag("tick", "TIME")
            .value_parser(|text: &str| text.parse::<Span>())
            .help("How long a tick is, of time units of which a message should take one [default: 5, or 1 if synchronous]"),
        flag("drift", "FRACTION")
            .value_parser(args::drift)
            .help("How much clocks really run fast or slow, as a fraction [default: what the algorithm allows for]"),
        flag("rates", "opposed|all")
            .value_parser(rates)
            .help("Which clocks run fast and which slow: the last process's against all others, either way, or in every combination [default: opposed]"),
        flag("depth", "STEPS")
            .value_parser(|text: &str| args::number(text, "steps", 0_usize, 10_000))
            .help("Looks no farther than so many steps from the beginning [default: to the end]"),
        flag("states", "COUNT")
            .value_parser(|text: &str| args::number(text, "states", 1, usize::MAX))
            .help(format!("Stops after coming by about so many states, known or not [default: {MOST_VISITS}]")),
        switch("expect-violation", "Fails if nothing is broken, and succeeds if something is"),
        switch("json", "Prints the result as JSON"),
    ]);
    flags
}

/// Whether somebody is elected when it begins.
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
    let watched = console.err_is_terminal;
    let result = checked::visit(name, Search { matches, watched }).expect("clap knows the names")?;
    let text = if matches.get_flag("json") {
        serde_json::to_string_pretty(&result).expect("reports are plain data") + "\n"
    } else {
        result.text()
    };
    console.out.write_all(text.as_bytes())?;
    Ok(u8::from(result.report.broken().is_some() != matches.get_flag("expect-violation")))
}

/// A report, and how long it took.
#[derive(Serialize)]
struct Found {
    #[serde(flatten)]
    report: CheckReport,
    seconds: f64,
}

struct Search<'a> {
    matches: &'a ArgMatches,
    watched: bool,
}

impl Visitor for Search<'_> {
    type Output = Result<Found, Error>;

    fn visit<A: Algorithm>(self) -> Result<Found, Error> {
        let options = self.options::<A>()?;
        let bounds = self.bounds::<A>(&options)?;
        A::check(&options, &Roster::numbered(bounds.nodes))?;
        let states = self.matches.get_one::<usize>("states").copied().unwrap_or(MOST_VISITS);
        let limits = Limits { depth: self.matches.get_one("depth").copied(), states: Some(states) };
        let mut stopwatch = Stopwatch::start(self.watched);
        let report = check(ElectionModel::<A>::new(options, bounds), limits, &mut |progress| {
            stopwatch.tell(|| format!("{} states, {} steps away", progress.states, progress.depth));
        });
        Ok(Found { report, seconds: stopwatch.seconds() })
    }
}

impl Search<'_> {
    /// What the flags say, and short leases where there are any.
    fn options<A: Algorithm>(&self) -> Result<A::Options, Error> {
        let mut settings: Vec<(&str, String)> = Vec::new();
        if A::CONTRACT.synchrony == Synchrony::BoundedDrift {
            settings.extend(SHORT_LEASES.iter().map(|&(name, value)| (name, value.to_string())));
        }
        settings.extend(A::PARAMETERS.iter().filter_map(|parameter| {
            let text = self.matches.get_raw(parameter.name)?.next()?;
            Some((parameter.name, text.to_str()?.to_string()))
        }));
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
            let reason = format!("there are {} processes; --nodes makes more", bounds.nodes);
            return Err(Error::flag("candidates", reason));
        }
        if bounds.nodes > MOST_NODES {
            return Err(Error::flag(
                "nodes",
                format!("there are {}, and the most is {MOST_NODES}", bounds.nodes),
            ));
        }
        for (name, _) in COUNTS {
            if let Some(&count) = self.matches.get_one::<u8>(name) {
                *count_of(&mut bounds, name) = count;
            }
        }
        self.set_clocks::<A>(options, &mut bounds)?;
        Ok(bounds)
    }

    /// What time is: as the algorithm needs it, or as it is asked for.
    fn set_clocks<A: Algorithm>(&self, options: &A::Options, bounds: &mut Bounds) -> Result<(), Error> {
        if self.matches.get_flag("synchronous") {
            let (drift, rates) = (0, Rates::Opposed);
            bounds.clocks = Clocks::True { tick: Span::UNIT, ticks: 12, drift, rates, synchronous: true };
        }
        let Clocks::True { tick, ticks, drift, rates, synchronous } = &mut bounds.clocks else {
            let given =
                ["tick", "ticks", "drift", "rates"].into_iter().find(|flag| self.matches.contains_id(flag));
            return given.map_or(Ok(()), |flag| {
                Err(Error::flag(flag, "there is no true time here; --synchronous makes one"))
            });
        };
        let allowed = A::PARAMETERS.iter().find(|parameter| parameter.name == "drift-bound");
        let allowed =
            allowed.and_then(|parameter| (parameter.show)(options).strip_suffix('%')?.parse::<f64>().ok());
        let real = self.matches.get_one::<f64>("drift").copied();
        if *synchronous && real.is_some_and(|drift| drift > 0.0) {
            return Err(Error::flag("drift", "clocks do not drift in a synchronous world"));
        }
        if !*synchronous {
            *drift = (real.unwrap_or(allowed.unwrap_or(0.0) / 100.0) * 1e6).round() as u32;
        }
        *tick = self.matches.get_one("tick").copied().unwrap_or(*tick);
        *ticks = self.matches.get_one("ticks").copied().unwrap_or(*ticks);
        *rates = self.matches.get_one("rates").copied().unwrap_or(*rates);
        if tick.is_zero() {
            return Err(Error::flag("tick", "a tick takes some time"));
        }
        Ok(())
    }
}

impl Found {
    fn text(&self) -> String {
        let CheckReport { algorithm, states, visits, depth, extent, verdicts, bounds } = &self.report;
        let mut text = format!("{algorithm}: {}\n\n", world(bounds));
        for verdict in verdicts {
            let _ = writeln!(text, "  {:<8} {}{}", outcome(verdict.outcome), verdict.name, remark(verdict));
        }
        let (extent, seconds) = (extent_in_words(*extent), text::number(self.seconds));
        let _ = writeln!(
            text,
            "\n  {states} states ({visits} visits), up to {depth} steps from the beginning, in {seconds} s\n  {extent}"
        );
        for verdict in verdicts.iter().filter(|verdict| verdict.outcome == ClaimOutcome::Broken) {
            let _ = writeln!(text, "\n  BROKEN: {}. The shortest schedule that does it:\n", verdict.name);
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
            " (which it promises only where delays are bounded: see --synchronous)".to_string()
        }
        ClaimOutcome::Broken | ClaimOutcome::Held => String::new(),
        ClaimOutcome::Seen => format!(", after {}", text::count(verdict.schedule.len(), "step", "steps")),
        ClaimOutcome::Unseen => {
            " (this world is too small for it, or was not looked at far enough)".to_string()
        }
    }
}

fn extent_in_words(extent: Extent) -> &'static str {
    match extent {
        Extent::Exhausted => "That is all: every schedule within these bounds was looked at.",
        Extent::CutByDepth => "That is NOT all: there are longer schedules; --depth allows for more.",
        Extent::CutByStates => "That is NOT all: there are more states; --states allows for more.",
        Extent::Stopped => "The search ended when something was broken; nearer states were all looked at.",
    }
}

/// What may happen, in one sentence.
fn world(bounds: &Bounds) -> String {
    let mut bounds = bounds.clone();
    let mut parts = vec![text::count(bounds.nodes, "process", "processes")];
    if bounds.candidates > 0 {
        let times = text::count(bounds.campaigns.into(), "time", "times");
        parts.push(format!(
            "the last {} of which are told up to {times} to call an election",
            bounds.candidates
        ));
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
        parts.push(format!("beginning when {} was elected", bounds.nodes));
    }
    parts.push(match bounds.clocks {
        Clocks::Still => "timers at any moment".to_string(),
        Clocks::Own => "clocks that have nothing to do with each other".to_string(),
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
