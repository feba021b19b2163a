//! Quorum lease: never two leaders at once, and a fencing token that increases from leader to leader.
//!
//! After Chubby's election of a master (Burrows 2006, 2.4 and 2.8), in the log-free form of Paxos leases
//! (Trencseni, Gazso, Reinhardt 2012), with the promise of a token before the lease.
//!
//! Model: messages may be lost, duplicated, delayed and reordered. Processes crash and recover with their disks, or
//! pause for any time. Clocks need not show the same time, but their rates differ from true time by no more than a
//! bound, and they advance while a machine is suspended. Safety depends on disks and clock rates only.
//!
//! There are two roles, and a node may have both: *voters* grant leases, *candidates* ask for them. Elections are named
//! and independent. One [`Voter`] serves very many elections, a [`Candidate`] takes part in one. An [`Engine`] is a
//! node with all its roles: the wire, the simulator and the model checker run that type. The module `quorum_lease` of
//! `suffrage-algorithms` makes the engines of a simulated world.
//!
//! ```text
//!   9 ──Prepare {token 7}──▶ 1, 2, 3      asks for a promise of token 7
//!   9 ◀──Promised──── 1, 2, 3             no live grant, and no token of 7 or greater was promised before
//!   9 notes its clock
//!   9 ──Propose {token 7, ttl}──▶ 1, 2, 3
//!   9 ◀──Accepted──── 1, 2, 3             granted for ttl by the voters' clocks; with a majority 9 leads until
//!                                         noted + ttl (1 - drift) / (1 + drift) by its own clock
//!   9 ──Renew──▶ 1, 2, 3, and so on       the same proposal again, before that time
//!   8 ──Enquire──▶ 1, 2, 3                queues 8, and tells 8 who leads; changes nothing else
//!   9 ──Release──▶ 1, 2, 3                sent after 9 has stepped down
//!   8 ◀──Vacant──── 1, 2, 3               wakes the best candidate in the queue, and after a gap the next
//! ```
//!
//! Cost with V voters (V - 1 in place of V if the candidate votes itself): an election takes `4V` messages and 4
//! delays, a renewal `2V` messages, and a hand-over by release `6V` messages and 6 delays, however many candidates
//! wait. Waiting candidates enquire now and then who leads: `2V` messages each time, counted separately.
//!
//! Promises, as long as the drift bound holds and disks are kept:
//! - No two processes believe to lead the same election at the same moment of true time.
//! - The token of each leader is greater than the tokens of all leaders before it.
//! - A waiting candidate never costs a healthy leader its lease or its token.
//! - After faults end, and with a majority of voters, some candidate leads.
//!
//! Not promised: that the best candidate leads, unless `failback` is set. A clock that jumps forward at a voter, or
//! backward at a leader, breaks the promises like drift beyond the bound.
//!
//! *Why there are never two leaders.* Suppose that A and B lead at the same moment. A majority accepted each of them,
//! so some voter accepted both, one after the other, in [`Voter::on_ask`]. Suppose that it accepted A first. The voter
//! does not accept B while A's grant is live. A's grant ends early only by a release, which A sends after it has
//! stepped down. A restart of the voter does not end the grant, because the voter is silent until all its grants have
//! expired. So A's grant had expired by the voter's clock when the voter accepted B. Then A's lease had expired by A's
//! clock, by [`Drift::validity`], because A noted its clock before it sent the request. B leads only after it was
//! accepted, so B does not lead at the same moment as A.
//!
//! *Why tokens increase.* Suppose that B leads after A with a smaller token. Some voter promised A's token and accepted
//! B's. The voter accepts no smaller token after a promise, so it accepted B's token before it promised A's. At that
//! promise B's grant had expired, so B did not lead after A. Equal tokens do not occur, because each voter promises a
//! token to one candidate only.
//!
//! Interpretations:
//! - A reply quotes its request, and a candidate counts a lease from the moment of that request. An `Accepted` for an
//!   earlier renewal does not count from the moment of a later one, and does not count towards the later one's
//!   majority.
//! - A delayed `Propose` may be granted after the lease has expired, or after a release that the voter has forgotten, if
//!   no greater token was promised meanwhile. No process relies on such a grant. It delays other candidates by one ttl
//!   at most.
//! - A voter may reject a renewal because it restarted, or because it promised another token while the leader had no
//!   grant there. The leader then prepares a greater token while its lease is valid, and continues to lead with it.
//! - A process that only wants to know who leads can enquire ([`Ask::Enquire`]) or subscribe ([`Observer`]).
//! - A voter that started before and finds its disk empty votes no more. The same node may still be a candidate.

mod budget;
mod candidate;
mod engine;
pub mod membership;
mod message;
mod observer;
mod queue;
pub mod sessions;
mod timings;
mod value;
mod voter;
mod watchers;

pub use self::budget::{Budget, Deployment, Load, PACKET_BYTES, RENEWAL_BYTES, Traffic, Violation};
pub use self::candidate::{
    Candidate, Effects as CandidateEffects, HandOver, Lease, MAX_VOTERS, NOTICE_SLACK, Stage,
};
pub use self::engine::{
    Action, CandidateConfig, Command, ELECTION_MEMORY, ElectionIndex, ElectionName, ElectionState, Engine,
    EngineConfig, GRANT_NOTE_MEMORY, GrantChange, GrantedElection, InvalidConfig, JoinError, LONGEST_TTL,
    Mismatch, Refusal, Report, SHORTEST_TTL, Timer, VALUE_MEMORY, VoterChange,
};
pub use self::message::{Ask, Body, Boot, Grant, Header, Message, Name, Reply, Request, Token};
pub use self::observer::{Effects as ObserverEffects, Observer};
pub use self::queue::Queue;
pub use self::timings::{Bug, Drift, Timings};
pub use self::value::{ChunkBytes, InvalidValue, MAX_VALUE, VALUE_CHUNK, Value, ValueChunk, ValueVersion};
pub use self::voter::{
    Durable, Effects as VoterEffects, Saved, TOKEN_CHUNK, VOTER_MEMORY, Voter, VoterStart,
};
pub use self::watchers::Watchers;
