//! How long everything takes, and how long a lease may be believed in.

use std::fmt;

use suffrage_core::Span;

/// How long everything takes, by the clock of whoever counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timings {
    /// For how long leases are asked.
    pub ttl: Span,
    /// The longest lease that a voter grants.
    pub longest_ttl: Span,
    /// How often a leader renews its lease.
    pub renew: Span,
    /// How much clocks run fast or slow at most.
    pub drift: Drift,
    /// How long a candidate waits for answers.
    pub round: Span,
    /// How long a voter waits for one that it has woken before it wakes the next.
    pub gap: Span,
    /// How often a candidate that waits asks who leads.
    pub poll: Span,
    /// How long a voter keeps a candidate in the queue that it does not hear from.
    pub patience: Span,
    /// How long a candidate must have stood before it asks a worse leader to hand over; none if it never
    /// does.
    pub failback: Option<Span>,
    /// A deliberate mistake.
    pub bug: Option<Bug>,
}

impl Timings {
    /// The longest that a candidate waits for answers, however slow the network is: several such rounds fit into a
    /// lease.
    pub fn longest_round(&self) -> Span {
        self.round.max(Span::from_nanos(self.ttl.as_nanos() / 4))
    }
}

/// How much a clock runs fast or slow, in millionths: in a true second it counts from `1 - drift` to
/// `1 + drift` seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Drift(u32);

impl Drift {
    const ONE: u32 = 1_000_000;

    /// The drift of so many millionths; none from one half on, where a clock is no clock.
    pub fn millionths(count: u32) -> Option<Drift> {
        (count < Self::ONE / 2).then_some(Drift(count))
    }

    /// As a fraction.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE)
    }

    /// For how long the holder of a lease may believe in it, by its own clock, from just before it asked for
    /// it.
    ///
    /// A voter that is asked at the true moment `s` or later grants for `ttl` by its own clock, which may be
    /// fast: the grant stands until `s + ttl / (1 + drift)` at least. The holder's clock may be slow: `v` by
    /// it may take `v / (1 - drift)`. So `v <= ttl (1 - drift) / (1 + drift)`: with a drift of 1%, 98%.
    /// Clocks are read in whole nanoseconds, which costs either one of them.
    pub fn validity(self, ttl: Span) -> Span {
        let (slow, fast) = (u128::from(Self::ONE - self.0), u128::from(Self::ONE + self.0));
        let nanos = u128::from(ttl.as_nanos().saturating_sub(1)) * slow / fast;
        Span::from_nanos((nanos as u64).saturating_sub(1))
    }
}

/// In per cent.
impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 10_000.0)
    }
}

impl std::str::FromStr for Drift {
    type Err = String;

    fn from_str(text: &str) -> Result<Drift, String> {
        let percent = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
        let drift = percent.ok().filter(|percent| (0.0..50.0).contains(percent));
        let drift = drift.and_then(|percent| Drift::millionths((percent * 10_000.0).round() as u32));
        drift.ok_or_else(|| format!("`{text}` is not a drift in per cent, from 0% to below 50%"))
    }
}

/// Deliberate mistakes, each of which breaks a promise: they show that the checkers find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// A voter that restarts answers at once, whatever it may have granted.
    SkipSilence,
    /// A leader counts its lease from the answers, not from before the question.
    ValidityFromReply,
    /// A voter promises a token to a second candidate.
    EqualTokens,
    /// A voter that restarts does not know what it may have promised.
    ForgetCeiling,
    /// A voter takes note of a greater token although the election is held.
    BumpWhileHeld,
    /// A voter that finds its disk empty votes as if it had never been there.
    TrustEmptyDisk,
    /// A leader hands over to a better candidate although it is pinned.
    IgnorePin,
    /// A leader that has handed over leads again if the answers to its last renewal come late.
    ReviveLease,
    /// A woken candidate that defers its campaign forgets about it.
    DropWakeUp,
    /// A client counts its lease from the reply, not from before the request.
    SessionValidityFromReply,
    /// A node that is told to hand over does so at once, whatever it has promised a client.
    RevokeAtOnce,
    /// A node tells a second client that it leads by the lease that the first one has.
    SharedLease,
    /// A node takes back what it told a client that has hung up, though the client may have read the reply.
    UndoAfterReply,
    /// A node hands over to a better candidate although a client leads.
    SkipPin,
    /// A candidate contends after a restart although a client of the node's previous boot may lead.
    SkipWaitOut,
}

impl Bug {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Bug); 15] = [
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
        ("skip-wait-out", Bug::SkipWaitOut),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair of clocks within the bound: the slowest holder stops before the fastest voter forgets.
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
    fn drifts_are_read_as_they_are_shown() {
        for text in ["0%", "1%", "0.05%", "12.5%"] {
            assert_eq!(text.parse::<Drift>().unwrap().to_string(), text);
        }
        for text in ["", "x", "-1%", "50%", "nan"] {
            assert!(text.parse::<Drift>().is_err(), "{text}");
        }
    }
}
