//! Periods, time-outs and numbers of a member, and deliberate bugs.

use suffrage_core::{Attribute, NodeId, Span};

use crate::Address;

/// The settings of a member. All members of a group should have the same periods.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Members that are asked to let this member in. A driver may use ids that no member has, for addresses.
    pub seeds: Vec<NodeId>,
    /// The address of this member.
    pub address: Address,
    /// The rank of this member; the member with the highest leads.
    pub rank: Attribute,
    /// False if this member must not be elected.
    pub stands: bool,
    /// Added to the seconds of the clock for the first incarnation. A driver whose clock starts anew with the machine
    /// sets it, so that a restarted member starts with a greater incarnation.
    pub first_incarnation: u32,
    /// The period of probes.
    pub probe: Span,
    /// The time-out of a direct probe. Then others are asked to probe.
    pub answer: Span,
    /// The number of members that are asked to probe.
    pub relays: usize,
    /// The period in which news are sent while there are news.
    pub gossip: Span,
    /// How often a member passes on each piece of news.
    pub transmissions: u8,
    /// The shortest time from a suspicion to a death. Without confirmations by others it takes twice as long.
    pub suspicion: Span,
    /// The period in which a seed or a dead member is asked.
    pub ask: Span,
    /// The period in which watchers probe the leader.
    pub watch: Span,
    /// The number of watchers of the leader.
    pub watchers: usize,
    /// How long a member that starts waits for others before it may lead.
    pub settle: Span,
    /// The deliberate bug, for the torture.
    pub bug: Option<Bug>,
}

impl Settings {
    /// The usual settings of a member with this address and these seeds.
    pub fn new(address: Address, seeds: Vec<NodeId>) -> Settings {
        Settings {
            seeds,
            address,
            rank: 0,
            stands: true,
            first_incarnation: 0,
            probe: Span::from_millis(1_000),
            answer: Span::from_millis(400),
            relays: 3,
            gossip: Span::from_millis(200),
            transmissions: 4,
            suspicion: Span::from_millis(2_500),
            ask: Span::from_millis(5_000),
            watch: Span::from_millis(500),
            watchers: 5,
            settle: Span::from_millis(2_000),
            bug: None,
        }
    }
}

/// Deliberate bugs. Each breaks a promise, which shows that the torture finds such bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// A member that hears of its own death or suspicion does not refute.
    NeverRefute,
    /// A member accepts an older record in place of a newer one.
    AcceptOlderRecords,
    /// A member does not compare digests, so that lost rumours stay lost.
    NeverCompare,
    /// A member asks neither seeds nor dead members.
    NeverAsk,
    /// A leader keeps its claim when it hears of a greater claim.
    KeepClaim,
    /// A leader is not replaced when it dies.
    NeverClaimAgain,
    /// A dead member is kept in the list.
    KeepDead,
    /// Members that left are remembered for ever.
    KeepTombstones,
}

impl Bug {
    /// All deliberate bugs with their names.
    pub const ALL: [(&str, Bug); 8] = [
        ("never-refute", Bug::NeverRefute),
        ("accept-older-records", Bug::AcceptOlderRecords),
        ("never-compare", Bug::NeverCompare),
        ("never-ask", Bug::NeverAsk),
        ("keep-claim", Bug::KeepClaim),
        ("never-claim-again", Bug::NeverClaimAgain),
        ("keep-dead", Bug::KeepDead),
        ("keep-tombstones", Bug::KeepTombstones),
    ];
}
