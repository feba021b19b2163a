//! The contract of the quorum lease.

use suffrage_core::{
    Choice, Contract, Cost, Detection, Electorate, Expense, Formula, Safety, Synchrony, Topology,
};

use super::VOTERS;

/// The default number of voters among this many members.
const fn voters(members: u64) -> u64 {
    if members < VOTERS as u64 { members } else { VOTERS as u64 }
}

/// Release, Vacant and four messages of an election, to or from each voter. A leader that votes saves one Release, and a
/// successor that votes one message of each other kind. A single member without a vote cannot be both.
const HANDOVER: Cost = Cost {
    best: Formula { text: "6(V - 1)", of: |n| 6 * (voters(n) - 1) },
    worst: Formula {
        text: "6V, and 6V - 1 with one who does not vote, and 6(V - 1) with none",
        of: |n| 6 * voters(n) - [6, 1, 0][(n - voters(n)).min(2) as usize],
    },
};

/// What the quorum lease assumes, promises and costs.
pub(super) const CONTRACT: Contract = Contract {
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
