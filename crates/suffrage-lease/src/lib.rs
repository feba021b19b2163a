//! Quorum lease: never two leaders at once, and a token that tells the later of two from the earlier.
//!
//! After Chubby's election of a master (Burrows 2006, 2.4 and 2.8), in the log-free form of Paxos leases
//! (Trencseni, Gazso, Reinhardt 2012), with the promise of a token before the lease.
//!
//! Model: messages may be lost, doubled, late and overtaken, processes crash and come back with their disks
//! or stop for any time; clocks need not agree, but run at rates that differ from true time by no more than
//! a bound, and go on while a machine sleeps (CLOCK_BOOTTIME). Safety rests on disks and rates alone.
//!
//! Two roles, and a node may have both: *voters* grant leases, *candidates* ask for them. Elections are named and
//! independent; a [`Voter`] holds very many, a [`Candidate`] is one of one. An [`Engine`] is a node with all its
//! roles, and the process that wire, simulator and model checker run; [`QuorumLease`] makes engines for worlds.
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
//! - Answers quote the request, and a candidate counts each from the moment of that request: an `Accepted` of an
//!   earlier renewal must not count from the later one's moment, nor make up a majority with the later one's.
//! - A delayed `Propose` may be granted again after a release or its expiry, if nothing greater was promised
//!   meanwhile. Nobody believes in it; it keeps others waiting for one ttl at most.
//! - A leader whose renewal is rejected by some (they restarted, or promised another when it held nothing
//!   there) prepares a greater token while its lease holds, and leads on with it.
//! - Those who only want to know who leads can ask ([`Ask::Enquire`]), or have themselves told ([`Observer`]).
//! - A voter that finds its disk empty, though it started before, votes no more; it may stand.

mod budget;
mod candidate;
mod engine;
mod message;
mod observer;
mod queue;
pub mod sessions;
mod simulated;
mod timings;
mod voter;
mod watchers;

pub use self::budget::{Budget, Load, PACKET_BYTES, RENEWAL_BYTES, Setting, Traffic, Violation};
pub use self::candidate::{Candidate, Effects as CandidateEffects, Lease, MOST_VOTERS, Stage};
pub use self::engine::{
    Action, CandidateConfig, Command, ELECTION_MEMORY, ElectionIndex, ElectionName, ElectionState, Engine,
    EngineConfig, InvalidConfig, JoinError, Timer,
};
pub use self::message::{Ask, Body, Grant, Message, Name, Reply, Request, Token};
pub use self::observer::{Effects as ObserverEffects, Observer};
pub use self::queue::Queue;
pub use self::simulated::{MemberBody, MemberMessage, Options, QuorumLease, SessionMessage, WaitOut};
pub use self::timings::{Bug, Drift, Timings};
pub use self::voter::{CHUNK, Effects as VoterEffects, MEMORY, Saved, Voter};
pub use self::watchers::Watchers;
