//! The flags that `suffrage-lab simulate` takes for every algorithm.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use suffrage_core::{Attribute, NodeId, Span, Time};
use suffrage_sim::{
    Contenders, Detector, Latency, Multicast, Partition, Ranking, Whom, parse_interval, parse_jump,
    parse_moment, parse_rerank, parse_transfer, parse_whom,
};

use suffrage_cli::Error;

/// More processes than this are a typing slip, or want a machine larger than most.
const MOST_NODES: usize = 10_000_000;
/// Where all may send to all, more would take hours.
pub(crate) const MOST_TALKATIVE: usize = 1_000;

/// The flags that every algorithm takes.
#[derive(Args, Debug)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) group: GroupArgs,
    #[command(flatten)]
    pub(crate) faults: FaultArgs,
    #[command(flatten)]
    pub(crate) commands: CommandArgs,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) runs: RunArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Who takes part")]
pub(crate) struct GroupArgs {
    /// How many processes; their ids are 1 to N
    #[arg(long, value_name = "N", default_value = "5", value_parser = nodes)]
    pub(crate) nodes: usize,
    /// The processes by id, in ring order, like 3,32,5,80,6,12
    #[arg(long, value_name = "ID,..", conflicts_with = "nodes", value_parser = id)]
    #[arg(num_args = 1.., value_delimiter = ',')]
    pub(crate) ids: Vec<NodeId>,
    /// Who ranks above whom: id, lowest-id, random, quality (fewer crashes first, then id), or the
    /// attributes of some, like 5=90,6=1
    #[arg(long, value_name = "RANKING", default_value = "id", value_parser = Ranking::from_str)]
    pub(crate) rank: Ranking,
    /// How likely each process knows each other one; 1 is everybody
    #[arg(long, value_name = "PROBABILITY", default_value = "1", value_parser = probability)]
    pub(crate) view_prob: f64,
    /// Changes an attribute during the run, like 5=99@30
    #[arg(long, value_name = "ID=ATTRIBUTE@TIME", value_parser = parse_rerank)]
    #[arg(num_args = 1.., value_delimiter = ',')]
    pub(crate) rerank: Vec<(NodeId, Attribute, Time)>,
    /// Who calls an election at time 0: ids, all, or none [default: the first live process]
    #[arg(long, value_name = "ID,..|all|none", value_parser = Initiators::from_str)]
    pub(crate) initiator: Option<Initiators>,
    /// How many call an election at time 0, whom chance chooses: a share like 0.01 or a number like 500
    #[arg(long, value_name = "SHARE|N", conflicts_with = "initiator", value_parser = Contenders::from_str)]
    pub(crate) contenders: Option<Contenders>,
    /// Who can find whom, for algorithms that look for others at random: complete, or power-law:ALPHA, a
    /// random network in which degree falls with rank as rank^-ALPHA; the same in all runs
    #[arg(long, value_name = "TOPOLOGY", default_value = "complete", value_parser = Links::from_str)]
    pub(crate) topology: Links,
    /// Who is dead from the start
    #[arg(long, value_name = "ID,..", value_parser = id, num_args = 1.., value_delimiter = ',')]
    pub(crate) crashed: Vec<NodeId>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "What befalls them (repeatable)")]
pub(crate) struct FaultArgs {
    /// A process dies, like 80@12; leader@12 is whoever leads then
    #[arg(long, value_name = "ID@TIME", value_parser = parse_whom, num_args = 1.., value_delimiter = ',')]
    pub(crate) crash: Vec<(Whom, Time)>,
    /// How likely each process dies by itself, at some moment up to --fail-within
    #[arg(long, value_name = "PROBABILITY", default_value = "0", value_parser = probability)]
    pub(crate) fail: f64,
    /// By when processes die that die by --fail; 0 is before the start [default: ten longest delays]
    #[arg(long, value_name = "TIME", requires = "fail", value_parser = Span::from_str)]
    pub(crate) fail_within: Option<Span>,
    /// A dead process comes back, like 80@40; leader@40 is whoever --crash leader@TIME hit last
    #[arg(long, value_name = "ID@TIME", value_parser = parse_whom, num_args = 1.., value_delimiter = ',')]
    pub(crate) recover: Vec<(Whom, Time)>,
    /// A dead process comes back without what it had saved, like 80@40
    #[arg(long, value_name = "ID@TIME", value_parser = parse_moment, num_args = 1.., value_delimiter = ',')]
    pub(crate) recover_wiped: Vec<(NodeId, Time)>,
    /// A process stops for a while and goes on as if nothing had happened, like 5@10..20
    #[arg(long, value_name = "ID@FROM..TO", value_parser = parse_interval)]
    #[arg(num_args = 1.., value_delimiter = ',')]
    pub(crate) pause: Vec<(NodeId, Time, Time)>,
    /// A process's clock jumps ahead or back, like 5@10+30 or 5@10-30
    #[arg(long, value_name = "ID@TIME+SPAN", value_parser = parse_jump)]
    #[arg(num_args = 1.., value_delimiter = ',')]
    pub(crate) jump: Vec<(NodeId, Time, Span, bool)>,
    /// The network is cut into groups, like '1,2|3,4,5@10..50'; without ..50 for good; with > for |,
    /// a group is not heard by the groups after it, but hears them
    #[arg(long, value_name = "GROUPS@FROM..TO", value_parser = Partition::from_str, num_args = 1..)]
    pub(crate) partition: Vec<Partition>,
    /// All partitions cut one way only, as if written with >
    #[arg(long)]
    pub(crate) one_way: bool,
    /// From then on nothing goes wrong any more: no loss, doubling, cut or wrong suspicion
    #[arg(long, value_name = "TIME", value_parser = Time::from_str)]
    pub(crate) heal_all_at: Option<Time>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "What the application asks (repeatable)")]
pub(crate) struct CommandArgs {
    /// A process is told to call an election, like 3@10
    #[arg(long, value_name = "ID@TIME", value_parser = parse_moment, num_args = 1.., value_delimiter = ',')]
    pub(crate) campaign: Vec<(NodeId, Time)>,
    /// A process is told to lead no longer, like 5@10
    #[arg(long, value_name = "ID@TIME", value_parser = parse_moment, num_args = 1.., value_delimiter = ',')]
    pub(crate) resign: Vec<(NodeId, Time)>,
    /// A process is told to hand its leadership over to another, like '5>3@10'
    #[arg(long, value_name = "ID>ID@TIME", value_parser = parse_transfer)]
    #[arg(num_args = 1.., value_delimiter = ',')]
    pub(crate) transfer: Vec<(NodeId, NodeId, Time)>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Network, clocks, failure detector and multicast")]
pub(crate) struct NetworkArgs {
    /// How long messages take, in time units: const:1, uniform:0.5,1.5, exp:1 (mean) or
    /// lognormal:1,0.5 (median, spread)
    #[arg(long, value_name = "LATENCY", default_value = "const:1", value_parser = Latency::from_str)]
    pub(crate) latency: Latency,
    /// What processes take to be the longest delay [default: what 999 of 1000 messages keep to]
    #[arg(long, value_name = "TIME", value_parser = Span::from_str)]
    pub(crate) delay_bound: Option<Span>,
    /// How likely a message is lost
    #[arg(long, value_name = "PROBABILITY", default_value = "0", value_parser = probability)]
    pub(crate) loss: f64,
    /// How likely a message to a single process is lost, if not as likely as --loss says
    #[arg(long, value_name = "PROBABILITY", conflicts_with = "loss", value_parser = probability)]
    pub(crate) ucast_loss: Option<f64>,
    /// How likely an addressee misses a multicast, if not as likely as --loss says
    #[arg(long, value_name = "PROBABILITY", value_parser = probability)]
    pub(crate) mcast_loss: Option<f64>,
    /// How likely a message arrives twice
    #[arg(long, value_name = "PROBABILITY", default_value = "0", value_parser = probability)]
    pub(crate) duplicate: f64,
    /// How much clocks run fast or slow, as a fraction
    #[arg(long, value_name = "FRACTION", default_value = "0", value_parser = drift)]
    pub(crate) drift: f64,
    /// How processes learn of failures: none, ideal:DELAY, or parametric:DELAY,RATE with wrong
    /// suspicions at a rate per process and time unit; or by messages of a real detector, which may
    /// err: heartbeat:PERIOD,TIMEOUT, phi:THRESHOLD[,PERIOD] (8 errs in one silence of 10^8;
    /// without PERIOD there is one heartbeat per longest delay) or gossip:PERIOD,T_FAIL; `suffrage-lab simulate-detector`
    /// measures those
    #[arg(long, value_name = "DETECTOR", default_value = "none", value_parser = Detector::from_str)]
    pub(crate) detector: Detector,
    /// How multicasts reach people, of algorithms that multicast: broadcast (each addressee misses
    /// it as often as any message), ideal:PROBABILITY (each is reached so often, whatever --loss is;
    /// heartbeats too; alone, `ideal` is ideal:1, less what --mcast-loss says), or bimodal:FANOUT,ROUNDS (a broadcast repaired by gossip); `suffrage
    /// simulate-multicast` measures them
    #[arg(long, value_name = "MULTICAST", default_value = "broadcast", value_parser = Multicast::from_str)]
    pub(crate) multicast: Multicast,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Runs")]
pub(crate) struct RunArgs {
    /// Decides everything that is left to chance
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = seed)]
    pub(crate) seed: u64,
    /// Makes this many runs, with seeds from SEED on, and prints means with 95% intervals; an
    /// interval needs at least two
    #[arg(long, value_name = "R", value_parser = runs)]
    pub(crate) runs: Option<u64>,
    /// How many runs go on at a time; results do not depend on it [default: one per core]
    #[arg(long, value_name = "J", value_parser = jobs)]
    pub(crate) jobs: Option<usize>,
    /// When a run is over at the latest [default: long after the last fault]
    #[arg(long, value_name = "TIME", value_parser = Time::from_str)]
    pub(crate) until: Option<Time>,
    /// Ends a run that has more events than this, and takes that for a broken promise [default: none]
    #[arg(long, value_name = "EVENTS", value_parser = limit)]
    pub(crate) limit: Option<u64>,
    /// Takes it for a broken promise if a leader that all have believed in for this long, and that is well
    /// and cut from nobody, is replaced or gets another token; for networks that lose nothing [default: nobody
    /// looks]
    #[arg(long, value_name = "TIME", value_parser = Span::from_str)]
    pub(crate) stable: Option<Span>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Prints the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Draws the run as a space-time diagram, for up to 16 processes
    #[arg(long)]
    pub(crate) diagram: bool,
    /// Writes every event of the run to a file, one JSON object a line; - prints them instead of
    /// the account
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Exits with 1 if a promise of the algorithm's contract was broken
    #[arg(long)]
    pub(crate) strict: bool,
}

impl GroupArgs {
    /// How many processes there are.
    pub(crate) fn len(&self) -> usize {
        if self.ids.is_empty() { self.nodes } else { self.ids.len() }
    }
}

/// Who calls an election at time zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Initiators {
    All,
    Nobody,
    Listed(Vec<NodeId>),
}

impl FromStr for Initiators {
    type Err = String;

    fn from_str(text: &str) -> Result<Initiators, String> {
        match text {
            "all" => Ok(Initiators::All),
            "none" => Ok(Initiators::Nobody),
            _ => text.split(',').map(id).collect::<Result<_, _>>().map(Initiators::Listed),
        }
    }
}

/// An id that can also be an attribute.
pub(crate) fn id(text: &str) -> Result<NodeId, String> {
    match text.parse::<NodeId>()? {
        id if Attribute::try_from(id.0).is_ok() => Ok(id),
        id => Err(format!("{id} is too large an id; the largest is {}", Attribute::MAX)),
    }
}

/// Who can find whom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Links {
    Complete,
    PowerLaw(f64),
}

impl FromStr for Links {
    type Err = String;

    fn from_str(text: &str) -> Result<Links, String> {
        match text.split_once(':') {
            None if text == "complete" => Ok(Links::Complete),
            Some(("power-law", alpha)) => match alpha.parse() {
                Ok(alpha) if (0.0..=2.0).contains(&alpha) => Ok(Links::PowerLaw(alpha)),
                _ => Err(format!("`{alpha}` is not an exponent from 0 to 2")),
            },
            _ => Err(format!("`{text}` is neither complete nor power-law:ALPHA")),
        }
    }
}

/// Reads a number within these bounds; `what` is the plural of what is counted.
pub(crate) fn number<T: FromStr + PartialOrd + Display>(
    text: &str,
    what: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    match text.parse() {
        Ok(number) if least <= number && number <= most => Ok(number),
        _ => Err(format!("`{text}` is not a number of {what} from {least} to {most}")),
    }
}

fn nodes(text: &str) -> Result<usize, String> {
    number(text, "processes", 1, MOST_NODES)
}

/// Processes of which one can watch, reach or replace another, and of which all may send to all.
pub(crate) fn several_nodes(text: &str) -> Result<usize, String> {
    number(text, "processes", 2, MOST_TALKATIVE)
}

fn limit(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(events @ 1..) => Ok(events),
        _ => Err(format!("`{text}` is not a number of events from 1 on")),
    }
}

pub(crate) fn probability(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(probability) if (0.0..=1.0).contains(&probability) => Ok(probability),
        _ => Err(format!("`{text}` is not a probability from 0 to 1")),
    }
}

pub(crate) fn drift(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(drift) if (0.0..=0.9).contains(&drift) => Ok(drift),
        _ => Err(format!("`{text}` is not a fraction from 0 to 0.9; 0.01 is one percent")),
    }
}

pub(crate) fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number from 0 to {}", u64::MAX))
}

fn runs(text: &str) -> Result<u64, String> {
    number(text, "runs", 1, 1_000_000_000)
}

/// Runs whose results are all kept, for the sake of medians.
pub(crate) fn kept_runs(text: &str) -> Result<u64, String> {
    number(text, "runs", 1, 1_000_000)
}

pub(crate) fn jobs(text: &str) -> Result<usize, String> {
    number(text, "jobs", 1, 1024)
}

/// Refuses a first seed after which there are not enough others.
pub(crate) fn check_seeds(first: u64, runs: u64) -> Result<(), Error> {
    match first.checked_add(runs) {
        Some(_) => Ok(()),
        None => Err(Error::flag("seed", "there are not that many seeds after it for --runs")),
    }
}
