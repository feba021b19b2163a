//! The quorum lease as an algorithm of the catalog: a wrapper that makes an [`Engine`] for each member of a world.
//!
//! The first members vote. All members stand in each of `names` elections, which are called `1`, `2` and so on. If the
//! number of `candidates` is set, voters do not stand, and only enquire who leads. The wrapper joins those elections
//! when a member starts, and hands all other inputs to the engine.
//!
//! If the number of `clients` is set, the last members are clients of the others, which are nodes: see `clients.rs`.
//! Nodes then stand only for clients.
//!
//! If the number of `connections` is set, all members but the clients are machines: a node each, and so many processes in
//! each election that lead through it by connection: see `host.rs`. Clients wait in the same queues.

mod change_storm;
mod clients;
mod command_storm;
mod contract;
mod host;
mod message;
mod node;
mod parameters;
mod requests;
mod server;
mod values;
mod work;

use suffrage_core::{
    Algorithm, Attribute, BadParameter, CommandStorm, Context, Contract, DRIFT_BOUND, Electorate, Figure,
    Leases, Member, NodeId, Parameter, Process, Roster, Settings, Span, Start, Time, Value,
};

use self::clients::ClientMember;
use self::host::{Blueprint, Host};
pub use self::message::{MemberMessage, SessionMessage};
use self::node::Node;
use self::server::Server;
use suffrage_lease::Lease;
use suffrage_lease::Saved;
use suffrage_lease::sessions::{ClientConfig, LeaseRequest, SessionConfig, SessionEngine};
use suffrage_lease::{
    Action, CandidateConfig, Command, ElectionName, Engine, EngineConfig, InvalidConfig, LONGEST_TTL,
    SHORTEST_TTL, Timer,
};
use suffrage_lease::{Bug, Drift, Timings};
use suffrage_lease::{Deployment, Violation};

/// The options of the algorithm; times are in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The number of voters: the first members, or all if there are fewer.
    pub voters: usize,
    /// The number of members that stand and do not vote; the voters then do not stand. If none, all members stand.
    pub candidates: Option<usize>,
    /// The number of elections.
    pub names: usize,
    /// The length of a lease.
    pub ttl: u64,
    /// The renewal interval; none for timings that follow from the ttl, as on the wire.
    pub renew: Option<u64>,
    /// The bound on clock drift.
    pub drift: Drift,
    /// The fail-back delay of better candidates; none if they never ask the leader to hand over.
    pub failback: Option<u64>,
    /// The stop margin of applications.
    pub stop_margin: u64,
    /// The number of clients: the last members, which are clients of the others.
    pub clients: usize,
    /// The number of processes of each member that lead through it by connection, in each election.
    pub connections: usize,
    /// Whether a torture changes the voters.
    pub changes: bool,
    /// The number of founding voters that a node without a founding vote knows when it starts. If none, it knows all.
    pub known: Option<usize>,
    /// A deliberate bug.
    pub bug: Option<Bug>,
    /// Timings by the clock, which replace all times above.
    pub exact: Option<Timings>,
}

impl Default for Options {
    fn default() -> Options {
        let drift = Drift::millionths((DRIFT_BOUND * 1e6) as u32).expect("it is small");
        Options {
            voters: VOTERS,
            candidates: None,
            names: 1,
            ttl: 30,
            renew: Some(10),
            drift,
            failback: None,
            stop_margin: 0,
            clients: 0,
            connections: 0,
            changes: false,
            known: None,
            bug: None,
            exact: None,
        }
    }
}

/// The greatest number of elections.
const MAX_NAMES: usize = 1_000;
/// The greatest number of processes of a machine in one election.
const MAX_CONNECTIONS: usize = 100;
/// The default number of voters: two of five may fail.
const VOTERS: usize = 5;
/// The delays that a candidate waits for replies: two messages, and some time for fast clocks.
const ROUND: u64 = 3;
/// The delays that a voter waits for a woken candidate: a wake-up takes one message, an election four.
const GAP: u64 = 6;
/// The number of fail-backs in a row that a torture waits for.
const FAILBACKS: u64 = 8;
/// The longest lease that voters grant, in usual leases.
const MAX_GRANTED: u64 = 2;
/// Moments of commands are in tenths of a time unit, so that they are short on a command line.
const TENTH: u64 = Span::UNIT.as_nanos() / 10;
/// The longest lease that nodes without a vote ask for, in usual leases.
const MAX_ASKED: u64 = 8;

impl Options {
    /// The timings by the clock for this bound on message delay. Without `renew` a lease is renewed three times in its
    /// length.
    pub fn timings(&self, delay: Span) -> Timings {
        if let Some(exact) = self.exact {
            return Timings { bug: self.bug, ..exact };
        }
        let ttl = delay * self.ttl;
        Timings {
            ttl,
            longest_ttl: ttl,
            renew: self.renew.map_or(ttl.scale(1.0 / 3.0), |renew| delay * renew),
            drift: self.drift,
            round: delay * ROUND,
            gap: delay * GAP,
            poll: ttl,
            stale_after: ttl * 3,
            failback: self.failback.map(|delays| delay * delays),
            stop_margin: delay * self.stop_margin,
            bug: self.bug,
        }
    }

    /// The configuration of an engine with these voters, for this bound on message delay.
    fn engine_config(&self, delay: Span, voters: Vec<NodeId>, votes: bool) -> EngineConfig {
        let timings = self.timings(delay);
        let exact = self.exact.is_some() || self.renew.is_some();
        // Some applications ask for longer leases than voters grant.
        let times = if votes { MAX_GRANTED } else { MAX_ASKED };
        EngineConfig {
            delay,
            drift: timings.drift,
            longest_ttl: if self.exact.is_some() { timings.longest_ttl } else { timings.ttl * times },
            exact: exact.then_some(timings),
            bug: self.bug,
            can_vote: true,
            ..EngineConfig::new(voters)
        }
    }
}

impl Options {
    /// The number of nodes among this many members.
    fn nodes(&self, members: usize) -> usize {
        members - self.clients.min(members)
    }

    /// The founding voters that a node knows when it starts without a founding vote: others for the next node.
    fn known_voters(&self, founders: &[NodeId], me: NodeId) -> Vec<NodeId> {
        let count = self.known.map_or(founders.len(), |known| known.min(founders.len()));
        let first = (me.0 % founders.len() as u64) as usize;
        founders.iter().cycle().skip(first).take(count).copied().collect()
    }

    /// The configuration of a client of this rank, for this bound on message delay.
    fn client_config(&self, delay: Span, rank: Attribute) -> ClientConfig {
        let lease = LeaseRequest { ttl: self.timings(delay).ttl, rank };
        let nodes = self.voters + self.candidates.unwrap_or(0);
        ClientConfig { lease, wait: Span::ZERO, timeout: delay * ROUND, nodes, bug: self.bug }
    }

    /// The configuration of a node's sessions, for this bound on message delay.
    fn session_config(&self, delay: Span) -> SessionConfig {
        let timings = self.timings(delay);
        SessionConfig {
            drift: timings.drift,
            shortest_retry: delay * GAP,
            failback: timings.failback,
            linger: timings.ttl * 2,
            bug: self.bug,
        }
    }
}

impl Algorithm for QuorumLease {
    const CONTRACT: Contract = contract::CONTRACT;

    type Options = Options;

    const PARAMETERS: &'static [Parameter<Options>] = parameters::PARAMETERS;

    /// Shorter leases than by default, so that many of them fit into a storm; more drift; all numbers of voters
    /// that matter.
    const VARIANTS: &'static [Settings] = &[
        &[],
        &[("voters", "3"), ("ttl", "8"), ("renew", "3")],
        &[("voters", "3"), ("ttl", "12"), ("renew", "4"), ("drift-bound", "10%")],
        &[("voters", "5"), ("ttl", "12"), ("renew", "4"), ("drift-bound", "20%")],
        &[("voters", "4"), ("ttl", "10"), ("renew", "3")],
        &[("voters", "3"), ("ttl", "20"), ("renew", "6"), ("failback", "30")],
        &[("voters", "1"), ("ttl", "8"), ("renew", "3")],
        &[("voters", "3"), ("candidates", "4"), ("ttl", "10"), ("renew", "3")],
        &[("voters", "5"), ("candidates", "2"), ("names", "2"), ("ttl", "12"), ("renew", "4")],
        &[("voters", "3"), ("names", "3"), ("ttl", "8"), ("renew", "3")],
        &[("voters", "3"), ("names", "2"), ("ttl", "24"), ("renew", "auto")],
        &[("voters", "5"), ("ttl", "40"), ("renew", "auto"), ("failback", "60")],
        &[("voters", "3"), ("ttl", "200"), ("renew", "auto")],
        &[("voters", "3"), ("ttl", "20"), ("renew", "6"), ("failback", "30"), ("stop-margin", "6")],
        &[("voters", "5"), ("names", "2"), ("ttl", "40"), ("renew", "auto"), ("stop-margin", "15")],
        &[("voters", "1"), ("clients", "3"), ("ttl", "12"), ("renew", "4")],
        &[("voters", "3"), ("clients", "3"), ("ttl", "16"), ("renew", "4"), ("drift-bound", "10%")],
        &[("voters", "3"), ("candidates", "1"), ("clients", "4"), ("ttl", "24"), ("renew", "auto")],
        &[("voters", "3"), ("clients", "4"), ("names", "2"), ("ttl", "30"), ("failback", "20")],
        &[("voters", "1"), ("connections", "2"), ("ttl", "12"), ("renew", "4")],
        &[("voters", "3"), ("connections", "1"), ("ttl", "16"), ("renew", "4"), ("drift-bound", "10%")],
        &[("voters", "3"), ("connections", "3"), ("names", "2"), ("ttl", "24"), ("renew", "auto")],
        &[("voters", "3"), ("connections", "2"), ("ttl", "20"), ("renew", "6"), ("failback", "30")],
        &[("voters", "1"), ("connections", "1"), ("clients", "2"), ("ttl", "14"), ("renew", "4")],
        &[("voters", "3"), ("connections", "1"), ("clients", "3"), ("ttl", "24"), ("renew", "auto")],
        &[("voters", "1"), ("changes", "on"), ("ttl", "60"), ("renew", "20")],
        &[("voters", "2"), ("changes", "on"), ("ttl", "40"), ("renew", "12"), ("drift-bound", "10%")],
        &[("voters", "3"), ("changes", "on"), ("ttl", "10"), ("renew", "3")],
        &[("voters", "3"), ("names", "2"), ("changes", "on"), ("ttl", "24"), ("renew", "auto")],
        &[("voters", "2"), ("changes", "on"), ("known-voters", "1"), ("ttl", "30"), ("renew", "9")],
        &[("voters", "1"), ("candidates", "4"), ("changes", "on"), ("ttl", "40"), ("renew", "12")],
        &[
            ("voters", "5"),
            ("candidates", "3"),
            ("changes", "on"),
            ("known-voters", "2"),
            ("ttl", "20"),
            ("renew", "6"),
        ],
        &[
            ("voters", "3"),
            ("candidates", "2"),
            ("clients", "3"),
            ("changes", "on"),
            ("ttl", "16"),
            ("renew", "4"),
        ],
    ];

    fn new(_: NodeId, options: &Options) -> QuorumLease {
        QuorumLease { options: *options, role: Role::Unstarted }
    }

    fn slot_may_lead(options: &Options, slot: usize) -> bool {
        match (options.clients, options.candidates) {
            _ if options.connections > 0 => true,
            (0, None) => true,
            (0, Some(_)) => slot >= options.voters,
            (_, candidates) => slot >= options.voters + candidates.unwrap_or(0),
        }
    }

    fn members(options: &Options) -> Option<usize> {
        match (options.clients, options.candidates) {
            (0, None) => None,
            (clients, candidates) => Some(options.voters + candidates.unwrap_or(0) + clients),
        }
    }

    fn elections(options: &Options) -> usize {
        options.names
    }

    /// The number of elections with a leader, if there are several elections.
    fn figures(options: &Options, members: &mut dyn Iterator<Item = Member<'_, Self>>) -> Vec<Figure> {
        if options.names == 1 {
            return Vec::new();
        }
        let mut held = vec![false; options.names];
        for process in members.filter(|member| member.up).map(|member| member.process) {
            for (election, held) in held.iter_mut().enumerate() {
                *held |= match &process.role {
                    Role::Unstarted | Role::Server(_) => false,
                    Role::Host(host) => host.leads(election),
                    Role::Node(node) => node.lease_at(election).is_some(),
                    Role::Client(client) => client.lease(election).is_some(),
                };
            }
        }
        let count = held.iter().filter(|&&held| held).count();
        vec![Figure { name: "elections with a leader".into(), value: Value::Amount(count as f64) }]
    }

    fn broken_promise(
        options: &Options,
        members: &mut dyn Iterator<Item = Member<'_, Self>>,
        delay: Span,
        connected: &dyn Fn(NodeId, NodeId) -> bool,
    ) -> Option<String> {
        let members: Vec<Member<'_, Self>> = members.collect();
        values::broken_promise((options.names, options.timings(delay).ttl), &members, connected)
    }

    fn electorate(options: &Options) -> Electorate {
        Electorate::Voters(options.voters)
    }

    fn lease_outlives_crash(_: &Options, _: usize) -> bool {
        true
    }

    fn draw_commands(options: &Options, storm: &mut CommandStorm<'_>) -> Vec<(Time, usize, Command)> {
        let changes = if options.changes { change_storm::changes(options, storm) } else { Vec::new() };
        // The commands of a plot depend on each other.
        let commands = if storm.alone { Vec::new() } else { command_storm::commands(options, storm) };
        [commands, changes].concat()
    }

    /// A lease and a restart's silence run out at the same time; whoever lost its place in the queue, or has
    /// been defeated, comes back within as long; the dead in the queue each cost a gap, and so do a few duels;
    /// and the others ask within as long who leads.
    ///
    /// Clients take longer: a session that nobody remembers leads for a lease before the next client does, and a
    /// client waits for two before it asks another node. A client that is well loses its lease with its node.
    ///
    /// A machine whose processes lead by connection is disrupted for some leases after its start and after a command.
    ///
    /// Where better candidates take over, one after the other does, each after it has stood for `failback`.
    fn leases(options: &Options) -> Option<Leases> {
        let drift = options.drift.fraction();
        let elected = match options.clients {
            clients if options.connections > 0 => (30 + 24 * clients as u64) * options.ttl + 60 * GAP,
            0 => 8 * options.ttl + 30 * GAP,
            clients => (20 + 4 * clients as u64) * options.ttl + 60 * GAP,
        };
        // A change that was begun in the storm waits for leases and for a while after each attempt.
        let changes = if options.changes { 10 * options.ttl + 40 * GAP } else { 0 };
        let delays = elected + changes + FAILBACKS * options.failback.map_or(0, |delay| delay + GAP);
        let by_slow_clock = |delays: u64| (delays as f64 / (1.0 - drift)) as u64;
        let recovery = by_slow_clock(delays);
        let handover = options.failback.map_or(0, |_| by_slow_clock(elected));
        let changes_voters = options.changes;
        let alone = options.clients == 0 && options.connections == 0;
        let stable = options.failback.is_none() && alone && !changes_voters;
        // The longest round, by a fast clock. A client has a round trip to its node besides.
        let rounds = if options.clients > 0 { 8.0 } else { 4.0 };
        let round_trip = (options.ttl as f64 / rounds / (1.0 + drift)) as u64;
        let pin = (alone && !changes_voters).then_some("pin");
        Some(Leases {
            length: options.ttl,
            drift,
            round_trip,
            recovery,
            handover,
            changes_voters,
            stable,
            pin,
        })
    }

    fn check(options: &Options, roster: &Roster) -> Result<(), BadParameter> {
        if let Some(members) = Self::members(options)
            && members != roster.len()
        {
            let reason =
                format!("with {} voters they make {members}, and there are {}", options.voters, roster.len());
            let name = if options.clients > 0 { "clients" } else { "candidates" };
            return Err(BadParameter { name, reason });
        }
        if options.connections > 0 && (options.candidates.is_some() || options.changes) {
            let reason = "is not for a world with candidates or changes".to_string();
            return Err(BadParameter { name: "connections", reason });
        }
        if options.exact.is_some() {
            // The caller has checked exact timings for their network: `Timings::budget`.
            return Ok(());
        }
        let deployment = Deployment::new(Span::UNIT * 2, options.voters);
        let timings = options.timings(Span::UNIT);
        // A node's renewal takes a round trip, and a client's renewal another. The client's renewal must succeed before
        // the client's lease is over, which counts from before the previous renewal's round trip.
        let margin = options.session_config(Span::UNIT).round_trip_margin(timings.ttl);
        let least = timings.renew + Span::UNIT * 6 + margin;
        if options.clients > 0 && timings.drift.validity(timings.ttl) <= least {
            let reason = format!("is too short for clients: after drift it must be above {least} time units");
            return Err(BadParameter { name: "ttl", reason });
        }
        let config = options.engine_config(Span::UNIT, Vec::new(), true);
        let candidate = CandidateConfig { ttl: timings.ttl, ..CandidateConfig::default() };
        let longest = candidate.longest_margin(&config);
        if timings.stop_margin > longest {
            let reason = format!("leaves no time to renew the lease: it must be at most {longest}");
            return Err(BadParameter { name: "stop-margin", reason });
        }
        match timings.violations(&deployment).first() {
            None => Ok(()),
            Some(Violation::RenewTooOften { .. }) => {
                let reason = format!("must be at least {ROUND}: a leader waits that long for replies");
                Err(BadParameter { name: "renew", reason })
            }
            Some(_) => {
                let renew = options.renew.map_or("third of it".to_string(), |renew| renew.to_string());
                let reason = format!("is too short for a renewal every {renew}: raise it or renew earlier");
                Err(BadParameter { name: "ttl", reason })
            }
        }
    }

    /// Timings by the wire have the limits of the wire: an engine would refuse to start, or to join an election.
    fn check_delay_bound(options: &Options, bound: Span) -> Result<(), BadParameter> {
        let ttl = options.timings(bound).ttl;
        let lease = |limit: &str, advice: String| {
            let reason = format!(
                "makes leases of {}, because a message delay is {}; {limit}: {advice}",
                ttl.format_duration(),
                bound.format_duration()
            );
            BadParameter { name: "ttl", reason }
        };
        for votes in [true, false] {
            let config = options.engine_config(bound, vec![NodeId(1)], votes);
            let candidate = CandidateConfig { ttl, ..CandidateConfig::default() };
            let checked = config.check().and_then(|()| candidate.check(&config));
            checked.map_err(|invalid| match invalid {
                InvalidConfig::TtlTooShort(_) | InvalidConfig::LongestTtl(_) if ttl < SHORTEST_TTL => {
                    let least = SHORTEST_TTL.as_nanos().div_ceil(bound.as_nanos().max(1));
                    let limit =
                        format!("with `--renew auto` the shortest is {}", SHORTEST_TTL.format_duration());
                    lease(&limit, format!("use at least {least} delays, or renew after a number of delays"))
                }
                InvalidConfig::LongestTtl(_) => {
                    let longest = Span::from_nanos(LONGEST_TTL.as_nanos() / MAX_ASKED);
                    let most = longest.as_nanos() / bound.as_nanos().max(1);
                    let limit = format!("with `--renew auto` the longest is {}", longest.format_duration());
                    lease(&limit, format!("use at most {most} delays"))
                }
                InvalidConfig::Delay(_) => BadParameter { name: "delay-bound", reason: invalid.to_string() },
                InvalidConfig::Drift => BadParameter { name: "drift-bound", reason: invalid.to_string() },
                _ => BadParameter { name: "ttl", reason: invalid.to_string() },
            })?;
        }
        Ok(())
    }
}

/// A member of a world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuorumLease {
    options: Options,
    role: Role,
}

/// The role of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Role {
    /// The member has not started.
    Unstarted,
    /// A node with an engine.
    Node(Box<Node>),
    /// A node that leads for clients.
    Server(Box<Server>),
    /// A client of such nodes.
    Client(Box<ClientMember>),
    /// A machine with a node and processes.
    Host(Box<Host>),
}

/// The name of the election with this number, counted from 0.
fn name(election: usize) -> ElectionName {
    ElectionName::new(&(election + 1).to_string()).expect("a number has at most 20 digits")
}

impl QuorumLease {
    fn node(&self) -> Option<&Node> {
        match &self.role {
            Role::Unstarted | Role::Server(_) | Role::Client(_) | Role::Host(_) => None,
            Role::Node(node) => Some(node),
        }
    }

    /// The engine of a node, once it has started.
    pub fn engine(&self) -> Option<&Engine> {
        match &self.role {
            Role::Unstarted | Role::Client(_) => None,
            Role::Node(node) => Some(node.engine.engine()),
            Role::Server(server) => Some(server.engine()),
            Role::Host(host) => host.engine(),
        }
    }

    /// The lease of the first election, if it is valid at `now` by the member's clock.
    pub fn lease(&self, now: Time) -> Option<Lease> {
        self.lease_of(0, now)
    }

    /// The lease of an election, if it is valid at `now` by the member's clock.
    pub fn lease_of(&self, election: usize, now: Time) -> Option<Lease> {
        let node = self.node()?;
        node.engine.engine().lease(now, node.index(election)?)
    }

    /// The default configuration of the member's candidates.
    fn candidate_config(&self, cx: &Context<'_, Self>) -> CandidateConfig {
        let timings = self.options.timings(cx.delay_bound());
        CandidateConfig {
            ttl: timings.ttl,
            attribute: cx.view().my_rank().attribute,
            failback: timings.failback,
            standing: true,
            stop_margin: timings.stop_margin,
        }
    }

    fn input(
        &mut self,
        cx: &mut Context<'_, Self>,
        input: impl FnOnce(&mut SessionEngine, &mut Context<'_, SessionEngine>),
    ) {
        match &mut self.role {
            Role::Unstarted | Role::Client(_) => {}
            Role::Node(node) => node.input(cx, input),
            Role::Server(server) => server.input(cx, input),
            Role::Host(host) => host.input(cx, input),
        }
    }

    fn join(&mut self, cx: &mut Context<'_, Self>, election: usize, config: Option<CandidateConfig>) {
        let config = config.unwrap_or_else(|| self.candidate_config(cx));
        match &mut self.role {
            Role::Unstarted | Role::Server(_) | Role::Client(_) | Role::Host(_) => {}
            Role::Node(node) => node.join(cx, election, config),
        }
    }
}

impl Process for QuorumLease {
    type Message = MemberMessage;
    type Timer = Timer;
    type Saved = Saved;
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<Saved>) {
        let (me, view, delay) = (cx.me(), cx.view(), cx.delay_bound());
        let nodes = self.options.nodes(view.group_len());
        if (nodes..view.group_len()).any(|slot| view.in_slot(slot) == me) {
            let nodes = (0..nodes).map(|slot| view.in_slot(slot)).collect();
            let config = self.options.client_config(delay, view.my_rank().attribute);
            let client = ClientMember::new(cx, nodes, self.options.names, config);
            self.role = Role::Client(Box::new(client));
            return self.on_command(cx, Action::Campaign.in_all());
        }
        let count = self.options.voters.min(nodes);
        let voters: Vec<NodeId> = (0..count).map(|slot| view.in_slot(slot)).collect();
        let votes = voters.contains(&me);
        let voters = if votes { voters } else { self.options.known_voters(&voters, me) };
        let stands = self.options.candidates.is_none() || !votes;
        let config = self.options.engine_config(delay, voters, votes);
        let ttl = self.options.timings(delay).ttl;
        if self.options.connections > 0 {
            let blueprint = Blueprint {
                me,
                engine: config,
                sessions: self.options.session_config(delay),
                lease: LeaseRequest { ttl, rank: view.my_rank().attribute },
                elections: self.options.names,
                processes: self.options.connections,
                clients: self.options.clients > 0,
                delay: Span::from_nanos(delay.as_nanos() / 4),
                bug: self.options.bug,
            };
            self.role = Role::Host(Box::new(Host::start(cx, blueprint, start)));
            return;
        }
        let engine = SessionEngine::new(me, config, self.options.session_config(delay));
        let engine = engine.expect("the options were checked");
        self.role = match self.options.clients {
            0 => Role::Node(Box::new(Node::new(engine, self.options.names, stands))),
            _ => Role::Server(Box::new(Server::new(engine, self.options.names, ttl))),
        };
        self.input(cx, |engine, cx| engine.on_start(cx, start));
        (0..self.options.names).for_each(|election| self.join(cx, election, None));
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: MemberMessage) {
        let (about, session) = match message {
            MemberMessage::Node(message) => {
                return self.input(cx, |engine, cx| engine.on_message(cx, from, message));
            }
            MemberMessage::Session(name, session) => (name, *session),
        };
        let Some(election) = (0..self.options.names).find(|&place| name(place).hash() == about) else {
            return;
        };
        match &mut self.role {
            Role::Unstarted | Role::Node(_) => {}
            Role::Server(server) => server.on_session(cx, from, election, session),
            Role::Client(client) => client.on_message(cx, from, election, session),
            Role::Host(host) => host.on_session(cx, from, election, session),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match &mut self.role {
            Role::Unstarted => {}
            Role::Node(node) => node.on_timer(cx, timer),
            Role::Server(server) => server.on_timer(cx),
            Role::Client(client) => client.on_timer(cx),
            Role::Host(host) => host.on_timer(cx),
        }
    }

    fn on_saved(&mut self, cx: &mut Context<'_, Self>, saved: Saved) {
        if let Role::Host(host) = &mut self.role {
            return host.on_saved(cx, saved);
        }
        self.input(cx, |engine, cx| engine.on_saved(cx, saved));
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        let rank = Action::Rank(cx.view().my_rank().attribute).in_all();
        self.on_command(cx, rank);
    }

    /// A member that may not stand ignores commands to stand.
    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        match &mut self.role {
            Role::Unstarted | Role::Node(_) => {}
            Role::Server(server) => return server.on_command(cx, command),
            Role::Client(client) => return client.on_command(cx, command),
            Role::Host(host) => return host.on_command(cx, command),
        }
        let stands = self.node().is_some_and(|node| node.stands);
        match command.action {
            Action::Join(config) => {
                let named = |election: &usize| {
                    command.election.as_ref().is_none_or(|wanted| *wanted == name(*election))
                };
                (0..self.options.names).filter(named).for_each(|election| self.join(cx, election, config));
            }
            Action::Stand { .. } | Action::Campaign if !stands => {}
            Action::Release(_) => {
                if let Role::Node(node) = &mut self.role {
                    node.end_work(command.election.as_ref());
                }
                self.input(cx, |engine, cx| engine.on_command(cx, command));
            }
            _ => self.input(cx, |engine, cx| engine.on_command(cx, command)),
        }
    }
}

#[cfg(test)]
mod tests;
