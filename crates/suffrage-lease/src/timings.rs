//! Timings of voters and candidates, the drift bound, and the validity of a lease.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use suffrage_core::{Span, parameters};

/// Timings, each by the clock of the process that measures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timings {
    /// The length of the leases that a candidate asks for.
    pub ttl: Span,
    /// The longest lease that a voter grants.
    pub longest_ttl: Span,
    /// The interval at which a leader renews its lease.
    pub renew: Span,
    /// The bound on clock drift.
    pub drift: Drift,
    /// How long a candidate waits for replies.
    pub round: Span,
    /// How long a voter waits for a candidate that it has woken before it wakes the next.
    pub gap: Span,
    /// The interval at which a waiting candidate asks who leads.
    pub poll: Span,
    /// How long a voter keeps a silent candidate in its queue and a silent watcher, and an observer a voter's last
    /// reply.
    pub stale_after: Span,
    /// The fail-back delay: how long a candidate must have stood before it asks a leader of lower rank to hand over;
    /// none if it never asks.
    pub failback: Option<Span>,
    /// The time that the work of a leader needs to stop. A leader that hands over waits for as long.
    pub stop_margin: Span,
    /// A deliberate bug.
    pub bug: Option<Bug>,
}

impl Timings {
    /// The longest time that a candidate waits for replies, however slow the network is. Several such rounds fit into
    /// a lease.
    pub fn longest_round(&self) -> Span {
        self.round.max(Span::from_nanos(self.ttl.as_nanos() / 4))
    }

    /// The timings of tests: leases of 30 message delays, and a delay is a unit.
    #[cfg(test)]
    pub(crate) fn of_tests() -> Timings {
        let drift = Drift::millionths((suffrage_core::DRIFT_BOUND * 1e6) as u32).expect("it is small");
        Timings {
            ttl: Span::UNIT * 30,
            longest_ttl: Span::UNIT * 30,
            renew: Span::UNIT * 10,
            drift,
            round: Span::UNIT * 3,
            gap: Span::UNIT * 6,
            poll: Span::UNIT * 30,
            stale_after: Span::UNIT * 90,
            failback: None,
            stop_margin: Span::ZERO,
            bug: None,
        }
    }
}

/// A bound on clock drift, in millionths: in one true second a clock advances by `1 - drift` to `1 + drift` seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Drift(u32);

/// Refuses a drift of one half or more, which a malformed message may contain.
impl<'de> Deserialize<'de> for Drift {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Drift, D::Error> {
        Drift::millionths(u32::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("drift too great"))
    }
}

impl Drift {
    const ONE: u32 = 1_000_000;

    /// A drift in millionths; none if it is 500,000 or more.
    pub fn millionths(count: u32) -> Option<Drift> {
        (count < Self::ONE / 2).then_some(Drift(count))
    }

    /// The drift in millionths.
    pub fn as_millionths(self) -> u32 {
        self.0
    }

    /// The drift as a fraction.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE)
    }

    /// How long the holder of a lease may rely on it, by its own clock, from just before it sent the request.
    ///
    /// The request is sent at the true moment `s`. A voter grants at `s` or later, for `ttl` by its own clock, which
    /// may be fast: the grant lasts until `s + ttl / (1 + drift)` at least. The holder's clock may be slow: a span `v`
    /// by that clock may take `v / (1 - drift)` of true time. So `v <= ttl (1 - drift) / (1 + drift)`, which is 98% of
    /// the ttl for a drift of 1%. Clocks are read in whole nanoseconds, so each of the two clocks costs one nanosecond.
    pub fn validity(self, ttl: Span) -> Span {
        let (slow, fast) = (u128::from(Self::ONE - self.0), u128::from(Self::ONE + self.0));
        let nanos = u128::from(ttl.as_nanos().saturating_sub(1)) * slow / fast;
        Span::from_nanos((nanos as u64).saturating_sub(1))
    }
}

/// Shows the drift in per cent.
impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 10_000.0)
    }
}

/// Parses a drift with its unit, like `1%` or `100ppm`.
impl std::str::FromStr for Drift {
    type Err = String;

    fn from_str(text: &str) -> Result<Drift, String> {
        // Rounded up: a bound that is not zero must not become zero.
        let millionths = parameters::drift_millionths(text)?.ceil();
        Drift::millionths(millionths as u32).ok_or_else(|| format!("`{text}` is not a drift below 50%"))
    }
}

/// Deliberate bugs. Each breaks a promise, which shows that the checkers find such bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// A voter that restarts answers at once, although its grants may not have expired.
    SkipSilence,
    /// A leader counts its lease from the replies, not from before the request.
    ValidityFromReply,
    /// A voter promises a token to a second candidate.
    EqualTokens,
    /// A voter that restarts forgets the ceiling of the tokens that it may have promised.
    ForgetCeiling,
    /// A voter records a greater promised token although the election is held.
    BumpWhileHeld,
    /// A voter that finds its disk empty votes as if it had never voted before.
    TrustEmptyDisk,
    /// A leader hands over to a better candidate although it is pinned.
    IgnorePin,
    /// A leader that has handed over leads again when late replies to its last renewal arrive.
    ReviveLease,
    /// A woken candidate that defers its campaign never campaigns.
    DropWakeUp,
    /// A client counts its lease from the reply, not from before the request.
    SessionValidityFromReply,
    /// A node that is told to hand over releases at once, in spite of its promise to a client.
    RevokeAtOnce,
    /// A node tells a second client that it leads by the lease of the first client.
    SharedLease,
    /// A node revokes a client that has hung up at once, although the client may have read the reply.
    UndoAfterReply,
    /// A node hands over to a better candidate although a client leads.
    SkipPin,
    /// A voter grants a lease to a process while an earlier process with the same id may hold it.
    IgnoreBoot,
    /// A voter takes part in the next change although leases of an older version may be valid.
    SkipDrain,
    /// A voter that restarts takes part in the next change at once, although its grants may not have expired.
    ChangeWhileSilent,
    /// A voter that installs a configuration forgets its grants.
    DropGrants,
    /// A voter grants leases to candidates of an older version.
    OldVersionVotes,
    /// A candidate counts replies of two versions together.
    MixVersions,
    /// A coordinator forgets the tokens that voters have promised.
    ForgetFloor,
    /// A coordinator ignores the configuration that voters have accepted.
    BlindCoordinator,
    /// A voter replies before its disk has the state that the reply depends on.
    ReplyBeforeSave,
    /// A leader that hands over releases at once, although its application needs the stop margin.
    SkipNotice,
    /// Late replies to a renewal lengthen the lease of a leader that hands over.
    LengthenAfterNotice,
    /// A node releases the lease of a client by connection when its own end is gone, although the client may live.
    ReleaseWhenBroken,
    /// A node tells a client by connection a deadline after the end of the node's own lease.
    DeadlineBeyondLease,
    /// A node tells a client by connection a deadline as if no clock were slewed.
    IgnoreSlew,
    /// A node keeps the lease of a client by connection whose process is dead.
    KeepDeadHolder,
    /// A node keeps its lease for a client that it has told its turn, and that never asks again.
    EndlessTurn,
    /// A node shows the value of an earlier leader as that of the present one.
    StaleValue,
    /// A node that knows a value of a leader does not ask for the next one.
    IgnoreValueChange,
}

impl Bug {
    /// All bugs, with their names.
    pub const ALL: [(&'static str, Bug); 32] = [
        ("skip-silence", Bug::SkipSilence),
        ("validity-from-reply", Bug::ValidityFromReply),
        ("equal-tokens", Bug::EqualTokens),
        ("forget-ceiling", Bug::ForgetCeiling),
        ("bump-while-held", Bug::BumpWhileHeld),
        ("trust-empty-disk", Bug::TrustEmptyDisk),
        ("ignore-pin", Bug::IgnorePin),
        ("revive-lease", Bug::ReviveLease),
        ("drop-wake-up", Bug::DropWakeUp),
        ("session-validity-from-reply", Bug::SessionValidityFromReply),
        ("revoke-at-once", Bug::RevokeAtOnce),
        ("shared-lease", Bug::SharedLease),
        ("undo-after-reply", Bug::UndoAfterReply),
        ("skip-pin", Bug::SkipPin),
        ("ignore-boot", Bug::IgnoreBoot),
        ("skip-drain", Bug::SkipDrain),
        ("change-while-silent", Bug::ChangeWhileSilent),
        ("drop-grants", Bug::DropGrants),
        ("old-version-votes", Bug::OldVersionVotes),
        ("mix-versions", Bug::MixVersions),
        ("forget-floor", Bug::ForgetFloor),
        ("blind-coordinator", Bug::BlindCoordinator),
        ("reply-before-save", Bug::ReplyBeforeSave),
        ("skip-notice", Bug::SkipNotice),
        ("lengthen-after-notice", Bug::LengthenAfterNotice),
        ("release-when-broken", Bug::ReleaseWhenBroken),
        ("deadline-beyond-lease", Bug::DeadlineBeyondLease),
        ("ignore-slew", Bug::IgnoreSlew),
        ("keep-dead-holder", Bug::KeepDeadHolder),
        ("endless-turn", Bug::EndlessTurn),
        ("stale-value", Bug::StaleValue),
        ("ignore-value-change", Bug::IgnoreValueChange),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For the slowest holder and the fastest voter within the bound, the lease ends before the grant.
    #[test]
    fn a_lease_ends_for_its_holder_before_it_ends_for_any_voter() {
        for text in ["0%", "0.01%", "1%", "5%", "20%", "49%"] {
            let drift: Drift = text.parse().unwrap();
            for ttl in [1, 2, 999, 30_000_000, 3_000_000_000] {
                let validity = drift.validity(Span::from_nanos(ttl)).as_nanos() as f64;
                let believed = (validity + 1.0) / (1.0 - drift.fraction());
                let granted = (ttl as f64 - 1.0) / (1.0 + drift.fraction());
                assert!(validity == 0.0 || believed <= granted * (1.0 + 1e-15), "{text} {ttl}");
            }
        }
        let second = Span::from_millis(1_000);
        assert_eq!("1%".parse::<Drift>().unwrap().validity(second).as_nanos() / 1_000, 980_198);
    }

    #[test]
    fn drifts_parse_as_they_print() {
        for text in ["0%", "1%", "0.05%", "12.5%"] {
            assert_eq!(text.parse::<Drift>().unwrap().to_string(), text);
        }
        for text in ["", "x", "-1%", "50%", "nan"] {
            assert!(text.parse::<Drift>().is_err(), "{text}");
        }
    }
}
