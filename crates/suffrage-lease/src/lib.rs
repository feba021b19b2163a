//! Quorum lease: never two leaders at once, and a token that tells the later of two from the earlier.
//!
//! After Chubby's election of a master (Burrows 2006, 2.4 and 2.8), in the log-free form of Paxos leases
//! (Trencseni, Gazso, Reinhardt 2012), with the promise of a token before the lease.
//!
//! Model: messages may be lost, doubled, late and overtaken, processes crash and come back with their disks
//! or stop for any time; clocks need not agree, but run at rates that differ from true time by no more than
//! a bound, and go on while a machine sleeps (CLOCK_BOOTTIME). Safety rests on disks and rates alone.
//!
//! Two roles, and a process may have both: *voters* (the first few members here) grant leases, *candidates*
//! ask for them. Elections are named and independent; a [`Voter`] holds very many, a [`Candidate`] is one of
//! one. This process is a candidate of each of `names` elections and, if it is among the first, a voter; but
//! if the number of `candidates` is given, voters do not stand, and only ask now and then who leads.
//!
//! ```text
//!   9 ──Prepare {token 7}──▶ 1, 2, 3      "promise me 7"
//!   9 ◀──Promised──── 1, 2, 3             nobody holds it, and they have promised no 7 or greater
//!   9 notes its clock
//!   9 ──Propose {token 7, ttl}──▶ 1, 2, 3
//!   9 ◀──Accepted──── 1, 2, 3             granted for ttl by their clocks; of a majority: 9 leads until
//!                                         noted + ttl (1 - drift) / (1 + drift) by its own clock
//!   9 ──Renew──▶ 1, 2, 3, and so on       the same proposal again, before that time
//!   8 ──Enquire──▶ 1, 2, 3                queues 8, and tells it who leads; changes nothing else
//!   9 ──Release──▶ 1, 2, 3                9 has ceased to believe in itself
//!   8 ◀──Vacant──── 1, 2, 3               the best in the queue is woken, and after a while the next
//! ```
//!
//! Cost, with V voters, and one less for each of these messages if the candidate is one of them: `4V`
//! messages and 4 delays to be elected, `2V` a renewal, `6V` messages and 6 delays from a release to the next
//! leader, however many wait. Those who wait ask who leads now and then, which is counted apart: `2V`.
//!
//! Promises never two at once that may believe to lead, in true time, as long as the bound on drift holds and
//! disks are kept; that each leader's token is greater than all before; that one who waits never costs a
//! healthy leader its lease or its token; and that once faults stop a majority of voters has a leader. Does
//! not promise that the best leads, unless `failback` is set; nor anything about clocks that jump: forward at
//! a voter, or backward at a leader, is as bad as drift beyond the bound.
//!
//! Why that is so. *Two leaders.* Both were accepted by majorities, so some voter accepted both, one after
//! the other, in [`Voter::on_ask`]. It does not accept the later one while the earlier grant is live, unless
//! that was released, which its holder does only after it has stepped down; a restart changes nothing, since
//! the voter is silent for as long. So when the later was accepted, the earlier grant had run out by the
//! voter's clock, and by [`Drift::validity`] the lease by its holder's: the question came after the moment
//! that the holder noted. And the later one leads only after that. *Tokens.* If the later one's token were
//! not the greater, then a voter of the majority that promised the earlier's accepted the later's before it
//! promised (it takes no smaller one after that), and at that promise the later's grant had run out; so it
//! was not later. Equal ones are promised to one candidate only by each voter.
//!
//! Readings:
//! - Answers quote the request, and a candidate takes only those to its present one: an `Accepted` of an
//!   earlier renewal must not count from the later one's moment.
//! - A delayed `Propose` may be granted again after a release or its expiry, if nothing greater was promised
//!   meanwhile. Nobody believes in it; it keeps others waiting for one ttl at most.
//! - A leader whose renewal is rejected by some (they restarted, or promised another when it held nothing
//!   there) prepares a greater token while its lease holds, and leads on with it.
//! - Those who only want to know who leads can ask ([`Ask::Enquire`]), or have themselves told ([`Observer`]).
//! - A voter that finds its disk empty, though it started before, votes no more; it may stand.

mod budget;
mod candidate;
mod message;
mod observer;
mod queue;
mod timings;
mod voter;
mod watchers;

use std::collections::VecDeque;

pub use self::budget::{Budget, Load, PACKET_BYTES, RENEWAL_BYTES, Setting, Traffic, Violation};
pub use self::candidate::{Candidate, Effects as CandidateEffects, Lease, MOST_VOTERS, Stage};
pub use self::message::{Ask, Body, Grant, Message, Name, Reply, Request, Token};
pub use self::observer::{Effects as ObserverEffects, Observer};
pub use self::queue::Queue;
pub use self::timings::{Bug, Drift, Timings};
pub use self::voter::{CHUNK, Effects as VoterEffects, MEMORY, Saved, Voter};
pub use self::watchers::Watchers;
use suffrage_core::parameters;
use suffrage_core::{
    Algorithm, Announcement, Attribute, BadParameter, Choice, Command, Context, Contract, Cost, DRIFT_BOUND,
    Detection, Electorate, Expense, Figure, Formula, Leases, Member, NodeId, Parameter, Process, Rng, Roster,
    Safety, Settings, Span, Start, Synchrony, Time, Topology, Value,
};

/// What a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// As a voter: whatever is due next, of all elections.
    Voter,
    /// As a candidate: whatever it does next.
    Candidate,
}

suffrage_core::timer_indices!(Timer { Voter, Candidate });

/// What can be set about the algorithm; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// How many of the members vote: the first ones, or all if there are fewer.
    pub voters: usize,
    /// How many members stand and do not vote; the voters then do not stand. If none, all stand.
    pub candidates: Option<usize>,
    /// How many elections there are.
    pub names: usize,
    /// How long a lease is.
    pub ttl: u64,
    /// How often it is renewed.
    pub renew: u64,
    /// How much clocks run fast or slow at most.
    pub drift: Drift,
    /// How long a better candidate must have stood before it asks the leader to hand over; none if never.
    pub failback: Option<u64>,
    /// A deliberate mistake.
    pub bug: Option<Bug>,
    /// Times by the clock, in place of all those above.
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
            renew: 10,
            drift,
            failback: None,
            bug: None,
            exact: None,
        }
    }
}

/// The most elections that are simulated at a time.
const MOST_NAMES: usize = 1_000;
/// How many voters there are unless set otherwise: two of five may fail.
const VOTERS: usize = 5;
/// Two messages, and some time for clocks that run fast.
const ROUND: u64 = 3;
/// To be woken takes one message, to be elected four.
const GAP: u64 = 6;

impl Options {
    /// The same by the clock, where a message takes this long at most.
    pub fn timings(&self, delay: Span) -> Timings {
        if let Some(exact) = self.exact {
            return Timings { bug: self.bug, ..exact };
        }
        let ttl = delay * self.ttl;
        Timings {
            ttl,
            longest_ttl: ttl,
            renew: delay * self.renew,
            drift: self.drift,
            round: delay * ROUND,
            gap: delay * GAP,
            poll: ttl,
            patience: ttl * 3,
            failback: self.failback.map(|delays| delay * delays),
            bug: self.bug,
        }
    }
}

/// What a process is once it has started.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Roles {
    voter: Option<Voter>,
    /// For each election.
    candidates: Vec<Candidate>,
    /// For when the timers are set, by its own clock.
    armed: [Option<Time>; 2],
}

/// A candidate of one election or several, which may be a voter too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuorumLease {
    options: Options,
    names: Vec<Name>,
    roles: Option<Box<Roles>>,
}

/// What was said to oneself, in order, and about which election.
type Soliloquy = VecDeque<(usize, Body)>;

/// Carries out what either role does. What a process says to itself needs no message.
struct Office<'o, 'v> {
    cx: &'o mut Context<'v, QuorumLease>,
    names: &'o [Name],
    /// Which of the names the candidate is about that is at work.
    election: usize,
    own: &'o mut Soliloquy,
}

impl Office<'_, '_> {
    /// Which of its elections has this name.
    fn election(&self, name: Name) -> Option<usize> {
        self.names.iter().position(|&own| own == name)
    }

    fn send(&mut self, to: NodeId, name: Name, body: Body) {
        let own = if to == self.cx.me() { self.election(name) } else { None };
        match own {
            Some(election) => self.own.push_back((election, body)),
            None => self.cx.send(to, Message { name, body }),
        }
    }
}

impl VoterEffects for Office<'_, '_> {
    fn save(&mut self, saved: Saved) {
        self.cx.save(saved);
    }
    fn reply(&mut self, to: NodeId, name: Name, reply: Reply) {
        self.send(to, name, Body::Reply(reply));
    }
}

impl CandidateEffects for Office<'_, '_> {
    fn ask(&mut self, voter: NodeId, ask: Ask) {
        self.send(voter, self.names[self.election], Body::Ask(ask));
    }
    fn claim(&mut self, leader: NodeId, attribute: Attribute) {
        self.send(leader, self.names[self.election], Body::Claim { attribute });
    }
    fn announce(&mut self, announcement: Announcement) {
        self.cx.announce_in(self.election, announcement);
    }
    fn lead_until(&mut self, end: Time) {
        self.cx.lead_until_in(self.election, end);
    }
    fn rng(&mut self) -> &mut Rng {
        self.cx.rng()
    }
}

/// How many of so many members vote, unless set otherwise.
const fn voters(members: u64) -> u64 {
    if members < VOTERS as u64 { members } else { VOTERS as u64 }
}

/// Release, Vacant, and four messages of an election, to and from each voter: one less of the first for a leader
/// that votes, and of the others for a successor that does. Who is no voter cannot be both.
const HANDOVER: Cost = Cost {
    best: Formula { text: "6(V - 1)", of: |n| 6 * (voters(n) - 1) },
    worst: Formula {
        text: "6V, and 6V - 1 with one who does not vote, and 6(V - 1) with none",
        of: |n| 6 * voters(n) - [6, 1, 0][(n - voters(n)).min(2) as usize],
    },
};

impl Algorithm for QuorumLease {
    const CONTRACT: Contract = Contract {
        name: "quorum-lease",
        summary: "A majority of voters grants a lease and a token: never two leaders at once.",
        source: "Burrows 2006 (Chubby), 2.4 and 2.8; Trencseni et al. 2012 (PaxosLease)",
        topology: Topology::Complete,
        synchrony: Synchrony::BoundedDrift,
        knowledge: "the voters",
        tolerates: "crash and recovery with the disk kept; pauses; lost messages; partitions; clocks that \
                    drift within a bound; a voter that lost its disk votes no more",
        detection: Detection::Timeout,
        electorate: Electorate::Voters(VOTERS),
        needs_disk: true,
        retries: true,
        under_loss: &[],
        safety: Safety::AtMostOne,
        choice: Choice::Any,
        handover: true,
        messages: Cost {
            best: Formula { text: "4(V - 1), V = min(N, 5)", of: |n| 4 * (n.min(VOTERS as u64) - 1) },
            worst: Formula { text: "4 min(V, N - 1)", of: |n| 4 * (n - 1).min(VOTERS as u64) },
        },
        time: Cost {
            best: Formula { text: "4", of: |n| if n == 1 { 0 } else { 4 } },
            worst: Formula { text: "4", of: |n| if n == 1 { 0 } else { 4 } },
        },
        upkeep: &[
            Expense {
                operation: "a renewal",
                messages: Cost {
                    best: Formula { text: "2(V - 1)", of: |n| 2 * (voters(n) - 1) },
                    worst: Formula { text: "2 min(V, N - 1)", of: |n| 2 * voters(n).min(n - 1) },
                },
            },
            Expense { operation: "a handover by release", messages: HANDOVER },
            Expense { operation: "a handover by transfer", messages: HANDOVER },
            Expense {
                operation: "a handover by expiry",
                messages: Cost {
                    best: Formula { text: "5(V - 1)", of: |n| 5 * (voters(n) - 1) },
                    worst: Formula { text: "5 min(V, N - 1)", of: |n| 5 * voters(n).min(n - 1) },
                },
            },
        ],
    };

    type Options = Options;

    const PARAMETERS: &'static [Parameter<Options>] = &[
        Parameter {
            name: "voters",
            value: "COUNT",
            help: "How many of the members vote: the first so many, or all if there are fewer",
            set: |options, text| match text.parse() {
                Ok(voters @ 1..=MOST_VOTERS) => {
                    options.voters = voters;
                    Ok(())
                }
                _ => Err(format!("`{text}` is not a number of voters (1 to {MOST_VOTERS})")),
            },
            show: |options| options.voters.to_string(),
        },
        Parameter {
            name: "candidates",
            value: "COUNT|all",
            help: "How many members stand besides the voters, who then do not; or all members stand",
            set: |options, text| match (text, text.parse()) {
                ("all", _) => {
                    options.candidates = None;
                    Ok(())
                }
                (_, Ok(count @ 1..)) => {
                    options.candidates = Some(count);
                    Ok(())
                }
                _ => Err(format!("`{text}` is not a number of candidates from 1 on, nor `all`")),
            },
            show: |options| options.candidates.map_or("all".to_string(), |count| count.to_string()),
        },
        Parameter {
            name: "names",
            value: "COUNT",
            help: "How many elections there are at the same time; what is told is about the first, and promises \
                   are checked of each",
            set: |options, text| match text.parse() {
                Ok(names @ 1..=MOST_NAMES) => {
                    options.names = names;
                    Ok(())
                }
                _ => Err(format!("`{text}` is not a number of elections (1 to {MOST_NAMES})")),
            },
            show: |options| options.names.to_string(),
        },
        parameters::delays_parameter!("ttl", ttl, "How long a lease is"),
        parameters::delays_parameter!("renew", renew, "How often the leader renews its lease"),
        Parameter {
            name: "drift-bound",
            value: "PERCENT",
            help: "How much clocks run fast or slow at most: a leader takes its lease for that much shorter",
            set: |options, text| text.parse().map(|drift| options.drift = drift),
            show: |options| options.drift.to_string(),
        },
        Parameter {
            name: "failback",
            value: "DELAYS|off",
            help: "How long a better candidate must have stood before it asks the leader to hand over, in \
                   message delays",
            set: |options, text| parameters::optional_delays(text).map(|it| options.failback = it),
            show: |options| parameters::show_optional(options.failback),
        },
        Parameter {
            name: "bug",
            value: "NAME|none",
            help: "A deliberate mistake, to show that the checker finds it: skip-silence, \
                   validity-from-reply, equal-tokens, forget-ceiling, bump-while-held or trust-empty-disk",
            set: |options, text| {
                let bug = Bug::ALL.iter().find(|(name, _)| *name == text).map(|(_, bug)| *bug);
                match (bug, text) {
                    (None, "none") | (Some(_), _) => options.bug = bug,
                    (None, _) => return Err(format!("`{text}` is no mistake that can be made on purpose")),
                }
                Ok(())
            },
            show: |options| {
                let name = Bug::ALL.iter().find(|(_, bug)| Some(*bug) == options.bug);
                name.map_or("none", |(name, _)| name).to_string()
            },
        },
    ];

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
    ];

    fn new(_: NodeId, options: &Options) -> QuorumLease {
        let others = (2..=options.names).map(|number| Name::of(&format!("simulated {number}")));
        let names = std::iter::once(Name::of("simulated")).chain(others).collect();
        QuorumLease { options: *options, names, roles: None }
    }

    fn slot_may_lead(options: &Options, slot: usize) -> bool {
        options.candidates.is_none() || slot >= options.voters
    }

    fn members(options: &Options) -> Option<usize> {
        options.candidates.map(|candidates| options.voters + candidates)
    }

    fn elections(options: &Options) -> usize {
        options.names
    }

    /// How many elections have a leader, where there are several.
    fn figures(options: &Options, members: &mut dyn Iterator<Item = Member<'_, Self>>) -> Vec<Figure> {
        if options.names == 1 {
            return Vec::new();
        }
        let mut held = vec![false; options.names];
        for roles in members.filter(|member| member.up).filter_map(|member| member.process.roles.as_ref()) {
            for (held, candidate) in held.iter_mut().zip(&roles.candidates) {
                *held |= candidate.lease().is_some();
            }
        }
        let count = held.iter().filter(|&&held| held).count();
        vec![Figure { name: "elections with a leader".into(), value: Value::Amount(count as f64) }]
    }

    fn electorate(options: &Options) -> Electorate {
        Electorate::Voters(options.voters)
    }

    /// A lease and a restart's silence run out at the same time; whoever lost its place in the queue, or has
    /// been defeated, comes back within as long; the dead in the queue each cost a gap, and so do a few duels;
    /// and the others ask within as long who leads.
    fn leases(options: &Options) -> Option<Leases> {
        let drift = options.drift.fraction();
        let delays = 8 * options.ttl + 30 * GAP;
        let healed = (delays as f64 / (1.0 - drift)) as u64;
        Some(Leases { length: options.ttl, drift, recovery: healed, stable: options.failback.is_none() })
    }

    fn check(options: &Options, roster: &Roster) -> Result<(), BadParameter> {
        if let Some(members) = Self::members(options)
            && members != roster.len()
        {
            let reason =
                format!("with {} voters they make {members}, and there are {}", options.voters, roster.len());
            return Err(BadParameter { name: "candidates", reason });
        }
        if options.exact.is_some() {
            // Whoever sets them knows the network that they are for: `Timings::budget`.
            return Ok(());
        }
        let setting = Setting::new(Span::UNIT * 2, options.voters);
        match options.timings(Span::UNIT).violations(&setting).first() {
            None => Ok(()),
            Some(Violation::RenewTooOften { .. }) => {
                let reason = format!("a renewal takes {ROUND} to be answered");
                Err(BadParameter { name: "renew", reason })
            }
            Some(_) => {
                let reason = format!("a leader that renews every {} cannot keep that", options.renew);
                Err(BadParameter { name: "ttl", reason })
            }
        }
    }
}

impl QuorumLease {
    /// What it holds of the first election, if it leads by its own clock at `now`.
    pub fn lease(&self, now: Time) -> Option<Lease> {
        self.lease_of(0, now)
    }

    /// What it holds of an election, if it leads by its own clock at `now`.
    pub fn lease_of(&self, election: usize, now: Time) -> Option<Lease> {
        let lease = self.roles.as_ref()?.candidates.get(election)?.lease()?;
        (now < lease.valid_until).then_some(lease)
    }

    /// Says whether the application that would lead is well.
    pub fn set_healthy(&mut self, cx: &mut Context<'_, Self>, healthy: bool) {
        let now = cx.now();
        self.handle(cx, |roles, office| {
            roles.each(office, |candidate, office| candidate.set_healthy(office, now, healthy));
        });
    }

    /// Handles one input, and what the process has to say to itself about it; then sets the timers.
    fn handle<'v>(
        &mut self,
        cx: &mut Context<'v, Self>,
        input: impl FnOnce(&mut Roles, &mut Office<'_, 'v>),
    ) {
        let Some(roles) = &mut self.roles else { return };
        let (now, me, names) = (cx.now(), cx.me(), &self.names);
        let mut own = Soliloquy::new();
        input(roles, &mut Office { cx, names, election: 0, own: &mut own });
        while let Some((election, body)) = own.pop_front() {
            let office = &mut Office { cx, names, election, own: &mut own };
            roles.hear(office, now, me, names[election], body);
        }
        roles.arm(cx);
    }
}

impl Roles {
    /// Has every candidate do something, each about its own election.
    fn each<'o, 'v>(
        &mut self,
        office: &mut Office<'o, 'v>,
        mut act: impl FnMut(&mut Candidate, &mut Office<'o, 'v>),
    ) {
        for (election, candidate) in self.candidates.iter_mut().enumerate() {
            office.election = election;
            act(candidate, office);
        }
    }

    fn hear(&mut self, office: &mut Office<'_, '_>, now: Time, from: NodeId, name: Name, body: Body) {
        if let (Body::Ask(ask), Some(voter)) = (body, &mut self.voter) {
            return voter.on_ask(office, now, from, name, ask);
        }
        let Some(election) = office.election(name) else { return };
        office.election = election;
        match body {
            Body::Ask(_) => {}
            Body::Reply(reply) => self.candidates[election].on_reply(office, now, from, reply),
            Body::Claim { attribute } => self.candidates[election].on_claim(office, now, from, attribute),
        }
    }

    /// Sets the timers for what is due next, where that has changed.
    fn arm(&mut self, cx: &mut Context<'_, QuorumLease>) {
        let due = [
            self.voter.as_ref().and_then(Voter::next_due),
            self.candidates.iter().map(Candidate::next_due).min(),
        ];
        for (timer, (armed, due)) in
            [Timer::Voter, Timer::Candidate].into_iter().zip(self.armed.iter_mut().zip(due))
        {
            if *armed != due {
                match due {
                    Some(due) => cx.set_timer(timer, due.since(cx.now())),
                    None => cx.cancel_timer(timer),
                }
                *armed = due;
            }
        }
    }
}

impl Process for QuorumLease {
    type Message = Message;
    type Timer = Timer;
    type Saved = Saved;
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<Saved>) {
        let (now, me, view, names) = (cx.now(), cx.me(), cx.view(), &self.names);
        let timings = self.options.timings(cx.delay_bound());
        let count = self.options.voters.min(view.group_len());
        let voters: Vec<NodeId> = (0..count).map(|slot| view.in_slot(slot)).collect();
        let office = &mut Office { cx, names, election: 0, own: &mut Soliloquy::new() };
        let votes = voters.contains(&me);
        let voter = votes.then(|| Voter::start(timings, office, now, start));
        let attribute = view.my_rank().attribute;
        let candidate = |_| {
            let candidate = Candidate::new(me, voters.clone(), timings, attribute, office, now);
            let watches = votes && self.options.candidates.is_some();
            if watches { candidate.only_watching() } else { candidate }
        };
        let candidates = (0..names.len()).map(candidate).collect();
        self.roles = Some(Box::new(Roles { voter, candidates, armed: [None; 2] }));
        self.handle(cx, |_, _| {});
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        let now = cx.now();
        if from != cx.me() {
            self.handle(cx, |roles, office| roles.hear(office, now, from, message.name, message.body));
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        let now = cx.now();
        self.handle(cx, |roles, office| {
            roles.armed[timer as usize] = None;
            match (timer, &mut roles.voter) {
                (Timer::Voter, Some(voter)) => voter.on_due(office, now),
                (Timer::Voter, None) => {}
                (Timer::Candidate, _) => {
                    roles.each(office, |candidate, office| candidate.on_due(office, now))
                }
            }
        });
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        let (now, attribute) = (cx.now(), cx.view().my_rank().attribute);
        self.handle(cx, |roles, office| {
            roles.each(office, |candidate, _| candidate.set_attribute(now, attribute));
        });
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        let now = cx.now();
        self.handle(cx, |roles, office| {
            roles.each(office, |candidate, office| match command {
                Command::Campaign => candidate.contend(office, now),
                Command::Resign => candidate.release(office, now),
                Command::Transfer(to) => candidate.transfer(office, now, to),
            });
        });
    }
}

#[cfg(test)]
mod tests;
