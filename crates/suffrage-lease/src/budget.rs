//! The timing budget: the longest time without a leader, the losses and pauses that a leader tolerates, and the
//! traffic; or the rules that the timings break.
//!
//! Every term is derived from the code of [`Candidate`](super::Candidate) and [`Voter`](super::Voter), as the comments
//! below say. `T` is the longest message delay, half of a round trip, and `d` the drift bound. A process that waits for
//! a span by its own clock waits for up to `1 / (1 - d)` times the span in true time. A true span is up to `1 + d`
//! times as long by a process's clock.

use std::fmt;

use super::timings::{Drift, Timings};
use suffrage_core::Span;

/// The network, the voters and the work for which timings are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deployment {
    /// The longest round trip of a message and its reply.
    pub round_trip: Span,
    /// The number of voters.
    pub voters: usize,
    /// How long a leader's work may take to stop by itself.
    pub grace: Span,
    /// How long it takes to kill the work after that.
    pub kill: Span,
}

impl Deployment {
    /// A deployment without work that must stop before the end of a lease.
    pub fn new(round_trip: Span, voters: usize) -> Deployment {
        Deployment { round_trip, voters, grace: Span::ZERO, kill: Span::ZERO }
    }

    fn majority(&self) -> u32 {
        self.voters as u32 / 2 + 1
    }

    /// How long before the end of the lease the work must be told to stop.
    fn notice(&self) -> Span {
        self.grace + self.kill
    }

    /// The longest message delay.
    fn delay(&self) -> Span {
        Span::from_nanos(self.round_trip.as_nanos().div_ceil(2))
    }
}

/// The properties of given timings. Spans are in true time, unless noted otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How long a lease is valid by its holder's clock, from just before the request.
    pub validity: Span,
    /// The longest time without a leader after a crash of the leader, if the waiting candidates do not split the vote
    /// after its lease is over.
    pub crash: Span,
    /// The longest additional time for each split vote, in which all candidates are defeated. Each further one is less
    /// likely.
    pub split_vote: Span,
    /// The longest time without a leader after a release.
    pub release: Span,
    /// How many renewals in a row may get no reply while the leader keeps its lease.
    pub lost_renewals: u64,
    /// How many renewals in a row may get no reply while the leader's work continues.
    pub lost_renewals_at_work: u64,
    /// The longest pause of a leader, at any moment, after which it still leads.
    pub pause: Span,
    /// The longest pause of a leader, at any moment, after which its work continues.
    pub pause_at_work: Span,
    /// When the work must be told to stop, by the leader's clock, counted from the last request that was granted:
    /// `lost()` returns then.
    pub lost_after: Span,
    /// How long before the end of the lease that is, by the leader's clock.
    pub notice: Span,
    /// The longest silence of a voter after a restart.
    pub silence: Span,
    /// The greatest drift bound that breaks no rule, with all else equal.
    pub max_drift: Drift,
}

/// A rule that timings break, with a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The ttl is above the longest lease that voters grant.
    TtlRefused {
        /// The requested length of a lease.
        ttl: Span,
        /// The longest lease that voters grant.
        longest: Span,
    },
    /// The round is shorter than a round trip: replies come after the candidate has stopped waiting.
    RoundTooShort {
        /// How long a candidate waits for replies.
        round: Span,
        /// The longest round trip by a fast clock.
        needed: Span,
    },
    /// The gap is shorter than a round trip: a voter wakes the next candidate before the first can ask for a promise.
    GapTooShort {
        /// How long a voter waits for a woken candidate.
        gap: Span,
        /// The longest round trip by a fast clock.
        needed: Span,
    },
    /// The renewal interval is shorter than a round: the next renewal is due before replies to this one have to come.
    RenewTooOften {
        /// The renewal interval.
        renew: Span,
        /// How long the leader waits for replies.
        round: Span,
    },
    /// The lease may expire before its renewal is granted.
    LeaseTooShort {
        /// The requested length of a lease.
        ttl: Span,
        /// How long the lease is valid by its holder's clock.
        validity: Span,
        /// The renewal interval.
        renew: Span,
        /// How long the leader waits for replies.
        round: Span,
        /// The longest renewal interval that suffices; none if no interval does.
        max_renew: Option<Span>,
        /// The shortest lease that suffices.
        min_ttl: Span,
    },
    /// The lease leaves no time to stop the work: the work would be told to stop before every renewal.
    NoTimeToStop {
        /// The requested length of a lease.
        ttl: Span,
        /// How long the lease is valid by its holder's clock.
        validity: Span,
        /// How long the work takes to stop.
        notice: Span,
        /// The renewal interval.
        renew: Span,
        /// How long the leader waits for replies.
        round: Span,
        /// The longest renewal interval that suffices; none if no interval does.
        max_renew: Option<Span>,
        /// The longest grace that suffices; none if no grace does, not even zero.
        max_grace: Option<Span>,
        /// The shortest lease that suffices.
        min_ttl: Span,
    },
}

impl Violation {
    /// The rule's name in machine-readable output.
    pub fn rule(&self) -> &'static str {
        match self {
            Violation::TtlRefused { .. } => "ttl-refused",
            Violation::RoundTooShort { .. } => "round-too-short",
            Violation::GapTooShort { .. } => "gap-too-short",
            Violation::RenewTooOften { .. } => "renew-too-often",
            Violation::LeaseTooShort { .. } => "lease-too-short",
            Violation::NoTimeToStop { .. } => "no-time-to-stop",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = Span::format_duration;
        let rest = |left: Span| if left.is_zero() { "nothing".to_string() } else { show(left) };
        let or = |min_ttl: Span, max_renew: Option<Span>| match max_renew {
            Some(renew) => format!("a renewal every {}, or a ttl of {},", show(renew), show(min_ttl)),
            None => format!("a ttl of {}", show(min_ttl)),
        };
        match *self {
            Violation::TtlRefused { ttl, longest } => {
                write!(
                    f,
                    "voters grant no lease of {}: a ttl of at most {} would do",
                    show(ttl),
                    show(longest)
                )
            }
            Violation::RoundTooShort { round, needed } => {
                let (round, needed) = (show(round), show(needed));
                write!(
                    f,
                    "a candidate waits {round} for replies, which take up to {needed} by a fast clock; "
                )?;
                write!(f, "a round of {needed} would do")
            }
            Violation::GapTooShort { gap, needed } => {
                let (gap, needed) = (show(gap), show(needed));
                write!(
                    f,
                    "a voter waits {gap} for a candidate that it has woken, which needs up to {needed} to ask; "
                )?;
                write!(f, "a gap of {needed} would do")
            }
            Violation::RenewTooOften { renew, round } => {
                let (renew, round) = (show(renew), show(round));
                write!(
                    f,
                    "a renewal every {renew} is due before the end of the {round} that the leader waits for replies; "
                )?;
                write!(f, "a renewal every {round} would do")
            }
            Violation::LeaseTooShort { ttl, validity, renew, round, max_renew, min_ttl } => {
                write!(
                    f,
                    "a lease of {} is valid for {} by its holder's clock; ",
                    show(ttl),
                    show(validity)
                )?;
                write!(f, "a renewal every {} leaves ", show(renew))?;
                write!(f, "{} of that for replies, and the leader waits ", rest(validity - renew))?;
                write!(f, "{} for them; {} would do", show(round), or(min_ttl, max_renew))
            }
            Violation::NoTimeToStop {
                ttl,
                validity,
                notice,
                renew,
                round,
                max_renew,
                max_grace,
                min_ttl,
            } => {
                write!(
                    f,
                    "a lease of {} is valid for {} by its holder's clock, ",
                    show(ttl),
                    show(validity)
                )?;
                write!(f, "the last {} of which the work needs to stop; ", show(notice))?;
                let left = validity - notice - renew;
                write!(f, "a renewal every {} leaves {} for replies, ", show(renew), rest(left))?;
                write!(f, "and the leader waits {} for them; ", show(round))?;
                if let Some(grace) = max_grace {
                    write!(f, "a grace of {}, or ", show(grace))?;
                }
                write!(f, "{} would do", or(min_ttl, max_renew))
            }
        }
    }
}

impl std::error::Error for Violation {}

impl Timings {
    /// Timings for a network with this longest round trip. A candidate waits 1.5 round trips for replies. A voter waits
    /// three round trips for a woken candidate, whose wake-up takes one message and whose election takes four. Waiting
    /// candidates enquire once a ttl.
    pub fn for_round_trip(ttl: Span, renew: Span, drift: Drift, round_trip: Span) -> Timings {
        Timings {
            ttl,
            longest_ttl: ttl,
            renew,
            drift,
            round: Span::from_nanos(round_trip.as_nanos().saturating_mul(3).div_ceil(2)),
            gap: round_trip * 3,
            poll: ttl,
            stale_after: ttl * 3,
            failback: None,
            stop_margin: Span::ZERO,
            bug: None,
        }
    }

    /// The longest true time that a process waits for this span by its own clock.
    fn slow(&self, span: Span) -> Span {
        round_up(span, 1.0 / (1.0 - self.drift.fraction()))
    }

    /// The longest time by a process's clock that this true span takes.
    fn fast(&self, span: Span) -> Span {
        round_up(span, 1.0 + self.drift.fraction())
    }

    /// All rules that these timings break in a deployment.
    pub fn violations(&self, deployment: &Deployment) -> Vec<Violation> {
        let Timings { ttl, renew, round, gap, longest_ttl: longest, .. } = *self;
        let validity = self.drift.validity(ttl);
        let needed = self.fast(deployment.round_trip);
        let mut violations = Vec::new();
        if ttl > longest {
            violations.push(Violation::TtlRefused { ttl, longest });
        }
        if round < needed {
            violations.push(Violation::RoundTooShort { round, needed });
        }
        if gap < needed {
            violations.push(Violation::GapTooShort { gap, needed });
        }
        if renew < round {
            violations.push(Violation::RenewTooOften { renew, round });
        }
        let notice = deployment.notice();
        let min_ttl = |notice| self.min_ttl(renew.max(round) + round + notice);
        let max_renew = |notice| longest_below(validity, notice + round).filter(|most| *most >= round);
        if validity <= renew + round {
            let (max_renew, min_ttl) = (max_renew(Span::ZERO), min_ttl(Span::ZERO));
            violations.push(Violation::LeaseTooShort { ttl, validity, renew, round, max_renew, min_ttl });
        } else if validity <= renew + round + notice {
            let max_grace = longest_below(validity, renew + round + deployment.kill);
            let (max_renew, min_ttl) = (max_renew(notice), min_ttl(notice));
            violations.push(Violation::NoTimeToStop {
                ttl,
                validity,
                notice,
                renew,
                round,
                max_renew,
                max_grace,
                min_ttl,
            });
        }
        violations
    }

    /// The shortest lease, in whole milliseconds, whose validity is above this span.
    fn min_ttl(&self, believed: Span) -> Span {
        let drift = self.drift.fraction();
        let millis = believed.as_units() * (1.0 + drift) / (1.0 - drift);
        Span::from_millis(millis.floor() as u64 + 1)
    }

    /// The budget of these timings in a deployment, or all rules that they break.
    pub fn budget(&self, deployment: &Deployment) -> Result<Budget, Vec<Violation>> {
        let violations = self.violations(deployment);
        if !violations.is_empty() {
            return Err(violations);
        }
        let (validity, notice) = (self.drift.validity(self.ttl), deployment.notice());
        Ok(Budget {
            validity,
            crash: self.worst_crash(deployment),
            split_vote: self.worst_split_vote(deployment),
            release: self.worst_release(deployment),
            lost_renewals: self.lost_renewals(deployment, validity),
            lost_renewals_at_work: self.lost_renewals(deployment, validity - notice),
            pause: self.longest_pause(deployment, validity),
            pause_at_work: self.longest_pause(deployment, validity - notice),
            lost_after: validity - notice,
            notice,
            silence: self.slow(self.longest_ttl),
            max_drift: self.max_drift(deployment),
        })
    }

    /// The longest back-off of a defeated candidate (`Candidate::lose`).
    fn longest_back_off(&self) -> Span {
        (self.gap * 32).min(self.ttl.max(self.gap))
    }

    /// The longest time without a leader after a crash.
    ///
    /// In the worst case the leader crashes right after it has sent a renewal. The last voter receives the renewal `T`
    /// later, and its grant lasts for `ttl` by its clock (`Voter::on_propose`): `T + ttl / (1 - d)`. From then on no
    /// voter replies `Held`. A single voter wakes one candidate, whose `Vacant`, `Prepare`, `Promised`, `Propose` and
    /// `Accepted` take `5T`.
    ///
    /// The grants of several voters do not expire at the same moment. A candidate that the first voter woke may just
    /// have got `Held` from the others. If a voter crashed with the leader, the candidate waits for its reply for a
    /// `round`, and ignores `Vacant` meanwhile (`Candidate::contend`). Then the candidate backs off, for the longest
    /// back-off if it was defeated several times. Then its `Enquire` takes `T`, the voters wake it after a `gap` at
    /// most (`Voter::enqueue`), and `Vacant` and the election take `5T`.
    ///
    /// This is the bound for a single waiting candidate, however often it was defeated before the grants expired. Of
    /// several candidates, others are woken, a `gap` apart, while one backs off, so it mostly takes less. But they may
    /// also split the vote after the grants have expired: see [`worst_split_vote`](Timings::worst_split_vote).
    fn worst_crash(&self, deployment: &Deployment) -> Span {
        let granted = deployment.delay() + self.slow(self.ttl);
        match deployment.majority() {
            1 => granted + deployment.delay() * 5,
            _ => granted + self.worst_split_vote(deployment),
        }
    }

    /// The longest time from a defeated campaign of a candidate to the end of its next one: the `round`, the back-off,
    /// the `gap` and the `6T` of [`worst_crash`](Timings::worst_crash). A split vote is possible with a single voter,
    /// too: it may promise a token to another candidate after it has woken the first.
    fn worst_split_vote(&self, deployment: &Deployment) -> Span {
        let waits = self.slow(self.round) + self.slow(self.longest_back_off()) + self.slow(self.gap);
        waits + deployment.delay() * 6
    }

    /// The longest time without a leader after a release.
    ///
    /// All voters have received the release after `T`. A single voter wakes one candidate: `5T` more, as after a crash.
    ///
    /// Of several voters, each of the first may wake a candidate that then asks the others too early and gets `Held`.
    /// This happens once for each voter of a majority but the last. Then the candidate backs off for at most
    /// `gap 2^(majority - 2)`. The last `Held` arrives after `T`, because all voters live. Then follow `6T` and a
    /// `gap`, as after a crash.
    ///
    /// A voter rejects a renewal that arrives after the release (`Voter::on_propose`), so it costs no time.
    fn worst_release(&self, deployment: &Deployment) -> Span {
        let delay = deployment.delay();
        let Some(doublings) = deployment.majority().checked_sub(2) else { return delay * 6 };
        let back_off = self.longest_back_off().min(self.gap * (1 << doublings.min(5)));
        delay * 2 + self.slow(back_off) + self.slow(self.gap) + delay * 6
    }

    /// How many renewals in a row may get no reply, if a renewal must succeed within `limit` after the last successful
    /// one.
    ///
    /// The leader renews `renew` after it noted its clock for the last successful request, and without replies again
    /// every `round` (`Candidate::on_due`). After `k` lost renewals the next one succeeds by
    /// `renew + k round + (1 + d) 2T` by the leader's clock.
    fn lost_renewals(&self, deployment: &Deployment, limit: Span) -> u64 {
        let left = limit - self.renew - self.fast(deployment.round_trip);
        left.as_nanos().saturating_sub(1) / self.round.as_nanos().max(1)
    }

    /// The longest pause of a leader, at any moment, if a renewal must succeed within `limit` after the last successful
    /// one.
    ///
    /// The worst moment is after the leader has sent a renewal and before it has read the replies. When the leader
    /// resumes, its timer may fire first, and it renews again. So `renew`, a round trip, the pause and another round
    /// trip must fit into `limit`, and a fast clock counts the pause longer.
    fn longest_pause(&self, deployment: &Deployment, limit: Span) -> Span {
        let counted = limit - self.renew - self.fast(deployment.round_trip) * 2;
        let pause = counted.as_units() / (1.0 + self.drift.fraction());
        Span::from_nanos(Span::from_units(pause).as_nanos().saturating_sub(2))
    }

    /// The greatest drift that breaks no rule, by bisection: a greater drift never breaks fewer rules.
    fn max_drift(&self, deployment: &Deployment) -> Drift {
        let keeps = |millionths: u32| {
            let drift = Drift::millionths(millionths)?;
            let timings = Timings { drift, ..*self };
            timings.violations(deployment).is_empty().then_some(drift)
        };
        let (mut good, mut bad) = (0, 500_000);
        while bad - good > 1 {
            let middle = (good + bad) / 2;
            *(if keeps(middle).is_some() { &mut good } else { &mut bad }) = middle;
        }
        keeps(good).unwrap_or(self.drift)
    }
}

/// A span times a factor, rounded up by 2 ns: clocks are read in whole nanoseconds when a wait begins and when it ends.
fn round_up(span: Span, factor: f64) -> Span {
    span.scale(factor) + Span::from_nanos(2)
}

/// The longest span, in tenths of a millisecond, whose sum with `taken` is below the limit.
fn longest_below(limit: Span, taken: Span) -> Option<Span> {
    const STEP: u64 = 100_000;
    let left = (limit - taken).as_nanos().checked_sub(1)?;
    Some(Span::from_nanos(left / STEP * STEP))
}

/// The messages and packets in one second while no leader changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Renewals and their replies.
    pub renewals: f64,
    /// Packets for those, if messages to the same peer at the same time share packets.
    pub packets: f64,
    /// Enquiries of waiting candidates and their replies, on average.
    pub enquiries: f64,
}

/// The number of elections and of their participants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The number of elections with a leader.
    pub names: u64,
    /// The number of processes among which the leaderships are divided evenly.
    pub leaders: u64,
    /// The number of waiting candidates of each election.
    pub waiting: u64,
    /// The number of voters.
    pub voters: u64,
}

/// The greatest size of a renewal on the wire, in bytes: a name of 16, two tags, four numbers of up to 10, a flag, and the
/// version of a value, of up to 5.
pub const RENEWAL_BYTES: u64 = 16 + 2 + 4 * 10 + 1 + 5;
/// The number of bytes of messages in a packet.
pub const PACKET_BYTES: u64 = 1_200;

impl Timings {
    /// The traffic while no leader changes, if no leader and no waiting candidate is a voter.
    ///
    /// A leader sends a renewal to each voter every `renew`, and each voter replies. A waiting candidate enquires at
    /// each voter after `poll / 2` to `poll`, uniformly distributed: every `3 poll / 4` on average, without the round
    /// trip. A process that leads many elections puts the renewals to one voter into as few packets as their bytes
    /// need. The voter does so with its replies, which are shorter.
    pub fn traffic(&self, load: &Load) -> Traffic {
        let second = 1e9;
        let per = |span: Span| second / span.as_nanos() as f64;
        let both_ways = (2 * load.voters) as f64;
        let leaders = load.leaders.min(load.names).max(1);
        let packets = (load.names.div_ceil(leaders) * RENEWAL_BYTES).div_ceil(PACKET_BYTES);
        Traffic {
            renewals: load.names as f64 * both_ways * per(self.renew),
            packets: (leaders * packets) as f64 * both_ways * per(self.renew),
            enquiries: (load.names * load.waiting) as f64 * both_ways * per(self.poll) / 0.75,
        }
    }
}

#[cfg(test)]
mod tests;
