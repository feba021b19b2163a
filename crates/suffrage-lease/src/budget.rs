//! What given timings are worth: how long nobody leads, what a leader can stand, and what it costs; or which
//! rule they break.
//!
//! Everything is derived from what [`Candidate`](super::Candidate) and [`Voter`](super::Voter) do; the terms
//! are named below. `T` is the longest time that a message takes, half of a round trip; `d` the drift. What a
//! process waits by its own clock takes up to `1 / (1 - d)` of it in true time, and a true span is counted as
//! up to `1 + d` of it.

use std::fmt;

use super::timings::{Drift, Timings};
use suffrage_core::Span;

/// Where timings have to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deployment {
    /// The longest that a message and its answer take.
    pub round_trip: Span,
    /// How many vote.
    pub voters: usize,
    /// How long a leader's work is given to end by itself.
    pub grace: Span,
    /// How long it takes to end the work by force after that.
    pub kill: Span,
}

impl Deployment {
    /// Nothing but leases, without work that must have ended before them.
    pub fn new(round_trip: Span, voters: usize) -> Deployment {
        Deployment { round_trip, voters, grace: Span::ZERO, kill: Span::ZERO }
    }

    fn majority(&self) -> u32 {
        self.voters as u32 / 2 + 1
    }

    /// How long before the end of the lease the work must be told to end.
    fn notice(&self) -> Span {
        self.grace + self.kill
    }

    /// The longest that one message takes.
    fn delay(&self) -> Span {
        Span::from_nanos(self.round_trip.as_nanos().div_ceil(2))
    }
}

/// What timings are worth. Spans are in true time, unless they show otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How long a leader believes in a lease, by its clock, from just before it asked for it.
    pub validity: Span,
    /// How long nobody leads at most after a leader has crashed, if those who wait do not get into each other's
    /// way after its lease is over.
    pub crash: Span,
    /// How much longer at most for each time that they do and all are defeated: ever less likely.
    pub split_vote: Span,
    /// The same after it has released its lease.
    pub release: Span,
    /// How many renewals in a row may get no answer, and the leader still leads.
    pub lost_renewals: u64,
    /// The same, and its work goes on.
    pub lost_renewals_at_work: u64,
    /// How long a leader may stand still at any moment and still lead.
    pub pause: Span,
    /// The same, and its work goes on.
    pub pause_at_work: Span,
    /// How long after asking for the lease that it has the work must be told to end, by the leader's clock,
    /// if no later one was granted: `lost()`.
    pub lost_after: Span,
    /// That is so long before the lease is over, by the leader's clock.
    pub notice: Span,
    /// How long a voter says nothing after a restart, at most.
    pub silence: Span,
    /// The greatest bound on drift that breaks no rule, all else being equal.
    pub max_drift: Drift,
}

/// A rule that timings break, with what would mend it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Voters grant no lease that long.
    TtlRefused {
        /// For how long leases are asked.
        ttl: Span,
        /// The longest that is granted.
        longest: Span,
    },
    /// Answers come after the candidate has ceased to wait for them.
    RoundTooShort {
        /// How long it waits.
        round: Span,
        /// How long answers take by a fast clock.
        needed: Span,
    },
    /// A voter wakes the next before the one that it woke can have asked for its promise.
    GapTooShort {
        /// How long it waits.
        gap: Span,
        /// How long that takes by a fast clock.
        needed: Span,
    },
    /// The next renewal is due before this one need have been answered.
    RenewTooOften {
        /// How often.
        renew: Span,
        /// How long an answer is waited for.
        round: Span,
    },
    /// The lease may be over before its renewal is granted.
    LeaseTooShort {
        /// For how long leases are asked.
        ttl: Span,
        /// For how long its holder believes in it.
        validity: Span,
        /// How often it is renewed.
        renew: Span,
        /// How long an answer is waited for.
        round: Span,
        /// The longest time between renewals that would do; none if no time would.
        max_renew: Option<Span>,
        /// The shortest lease that would do.
        min_ttl: Span,
    },
    /// The work would be told to end whenever the lease is renewed.
    NoTimeToStop {
        /// For how long leases are asked.
        ttl: Span,
        /// For how long its holder believes in it.
        validity: Span,
        /// How long the work takes to end.
        notice: Span,
        /// How often the lease is renewed.
        renew: Span,
        /// How long an answer is waited for.
        round: Span,
        /// The longest time between renewals that would do; none if no time would.
        max_renew: Option<Span>,
        /// The longest grace that would do; none if not even none at all would.
        max_grace: Option<Span>,
        /// The shortest lease that would do.
        min_ttl: Span,
    },
}

impl Violation {
    /// A name for programs.
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
                write!(f, "voters grant no lease of {}; {} is the longest", show(ttl), show(longest))
            }
            Violation::RoundTooShort { round, needed } => {
                let (round, needed) = (show(round), show(needed));
                write!(f, "answers are waited for {round}, and take up to {needed} by a fast clock")
            }
            Violation::GapTooShort { gap, needed } => {
                let (gap, needed) = (show(gap), show(needed));
                write!(f, "the next is woken after {gap}, and the one before needs up to {needed} to ask")
            }
            Violation::RenewTooOften { renew, round } => {
                let (renew, round) = (show(renew), show(round));
                write!(f, "a renewal every {renew} comes before the last is answered, which is waited for ")?;
                write!(f, "{round}; a renewal every {round} would do")
            }
            Violation::LeaseTooShort { ttl, validity, renew, round, max_renew, min_ttl } => {
                write!(f, "a lease of {} holds for {} by its holder's clock; ", show(ttl), show(validity))?;
                write!(f, "a renewal every {} leaves ", show(renew))?;
                write!(f, "{} of that for an answer, which is waited for ", rest(validity - renew))?;
                write!(f, "{}; {} would do", show(round), or(min_ttl, max_renew))
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
                write!(f, "a lease of {} holds for {} by its holder's clock, ", show(ttl), show(validity))?;
                write!(f, "the last {} of which the work needs to stop; ", show(notice))?;
                let left = validity - notice - renew;
                write!(f, "a renewal every {} leaves {} for an answer, ", show(renew), rest(left))?;
                write!(f, "which is waited for {}; ", show(round))?;
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
    /// Timings that suit a network in which a message and its answer take no longer than that: a candidate
    /// waits half as long again for answers, and a voter three times as long for one that it has woken, to
    /// which it takes one message to be woken and four to be elected. Those who wait ask once a lease.
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
            bug: None,
        }
    }

    /// How long this takes in true time at most, if a process waits for it by its own clock.
    fn slow(&self, span: Span) -> Span {
        round_up(span, 1.0 / (1.0 - self.drift.fraction()))
    }

    /// How long this takes by a process's own clock at most.
    fn fast(&self, span: Span) -> Span {
        round_up(span, 1.0 + self.drift.fraction())
    }

    /// All rules that these timings break there.
    pub fn violations(&self, deployment: &Deployment) -> Vec<Violation> {
        let Timings { ttl, renew, round, gap, longest_ttl: longest, .. } = *self;
        let validity = self.drift.validity(ttl);
        let needed = self.fast(deployment.round_trip);
        let mut broken = Vec::new();
        if ttl > longest {
            broken.push(Violation::TtlRefused { ttl, longest });
        }
        if round < needed {
            broken.push(Violation::RoundTooShort { round, needed });
        }
        if gap < needed {
            broken.push(Violation::GapTooShort { gap, needed });
        }
        if renew < round {
            broken.push(Violation::RenewTooOften { renew, round });
        }
        let notice = deployment.notice();
        let min_ttl = |notice| self.min_ttl(renew.max(round) + round + notice);
        let max_renew = |notice| longest_below(validity, notice + round).filter(|most| *most >= round);
        if validity <= renew + round {
            let (max_renew, min_ttl) = (max_renew(Span::ZERO), min_ttl(Span::ZERO));
            broken.push(Violation::LeaseTooShort { ttl, validity, renew, round, max_renew, min_ttl });
        } else if validity <= renew + round + notice {
            let max_grace = longest_below(validity, renew + round + deployment.kill);
            let (max_renew, min_ttl) = (max_renew(notice), min_ttl(notice));
            broken.push(Violation::NoTimeToStop {
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
        broken
    }

    /// The shortest lease, to a millisecond, that its holder believes in for longer than this.
    fn min_ttl(&self, believed: Span) -> Span {
        let drift = self.drift.fraction();
        let millis = believed.as_units() * (1.0 + drift) / (1.0 - drift);
        Span::from_millis(millis.floor() as u64 + 1)
    }

    /// What these timings are worth there, or all rules that they break.
    pub fn budget(&self, deployment: &Deployment) -> Result<Budget, Vec<Violation>> {
        let broken = self.violations(deployment);
        if !broken.is_empty() {
            return Err(broken);
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

    /// The longest that a defeated candidate stands aside (`Candidate::lose`).
    fn longest_back_off(&self) -> Span {
        (self.gap * 32).min(self.ttl.max(self.gap))
    }

    /// How long nobody leads at most after a crash.
    ///
    /// The leader dies right after it has sent a renewal. The last voter hears of it `T` later, and its grant
    /// stands for `ttl` by its clock (`Voter::on_propose`): `T + ttl / (1 - d)`. From then on nobody is told
    /// `Held` any more. A single voter wakes one candidate, whose `Vacant`, `Prepare`, `Promised`, `Propose`
    /// and `Accepted` take `5T`.
    ///
    /// Several voters' grants do not end at the same moment. Who was woken by the first may just have been
    /// told `Held` by the others; if a voter died with the leader, it waits for that one's answer for a
    /// `round`. It takes no notice of `Vacant` meanwhile (`Candidate::contend`). Then it stands aside, for the
    /// longest back-off if this has happened to it several times. Then its `Enquire` takes `T`; the voters
    /// wake it after a `gap` at most (`Voter::queue`); and `Vacant` and the election take `5T`.
    ///
    /// So it is for the only one that waits, however often it was defeated before the grants ended. Of several,
    /// while one stands aside others are woken, a `gap` apart, and mostly it takes less. But two may defeat
    /// each other after the grants have ended, too: see [`worst_split_vote`](Timings::worst_split_vote).
    fn worst_crash(&self, deployment: &Deployment) -> Span {
        let granted = deployment.delay() + self.slow(self.ttl);
        match deployment.majority() {
            1 => granted + deployment.delay() * 5,
            _ => granted + self.worst_split_vote(deployment),
        }
    }

    /// How long it takes at most from the moment that a candidate asks in vain until it has asked again, and been
    /// answered: the `round`, the back-off and the `gap` and the `6T` of above. A single voter that has woken a
    /// candidate promises it what it asks; it may have promised another something meanwhile, too.
    fn worst_split_vote(&self, deployment: &Deployment) -> Span {
        let waits = self.slow(self.round) + self.slow(self.longest_back_off()) + self.slow(self.gap);
        waits + deployment.delay() * 6
    }

    /// How long nobody leads at most after a release.
    ///
    /// All voters have heard of it after `T`. A single one wakes one candidate: `5T` more, as after a crash.
    ///
    /// Of several, each of the first may wake a candidate that then asks the others too early and is told
    /// `Held`: once for each voter but the last of a majority, and then it stands aside for
    /// `gap 2^(majority - 2)` at most. The last such answer reaches it after `T`, as all voters live; then
    /// `6T` and a `gap` as after a crash.
    ///
    /// A renewal that comes after the release is refused (`Voter::on_propose`), and costs nothing.
    fn worst_release(&self, deployment: &Deployment) -> Span {
        let delay = deployment.delay();
        let Some(doublings) = deployment.majority().checked_sub(2) else { return delay * 6 };
        let back_off = self.longest_back_off().min(self.gap * (1 << doublings.min(5)));
        delay * 2 + self.slow(back_off) + self.slow(self.gap) + delay * 6
    }

    /// How many renewals in a row may get no answer, if one must have been answered so long after the last
    /// that was.
    ///
    /// The leader renews `renew` after it noted its clock for the last, and if there is no answer again every
    /// `round` (`Candidate::on_due`). After `k` in vain the next is answered by
    /// `renew + k round + (1 + d) 2T` by its clock.
    fn lost_renewals(&self, deployment: &Deployment, limit: Span) -> u64 {
        let left = limit - self.renew - self.fast(deployment.round_trip);
        left.as_nanos().saturating_sub(1) / self.round.as_nanos().max(1)
    }

    /// How long a leader may stand still at any moment, if a renewal must have been answered so long after
    /// the last that was.
    ///
    /// The worst moment is when it has renewed and has not read the answers yet. When it goes on it may look
    /// at its timer first, and then asks again: `renew`, a round trip, the pause and another round trip must
    /// fit, and the pause is counted by a fast clock.
    fn longest_pause(&self, deployment: &Deployment, limit: Span) -> Span {
        let counted = limit - self.renew - self.fast(deployment.round_trip) * 2;
        let pause = counted.as_units() / (1.0 + self.drift.fraction());
        Span::from_nanos(Span::from_units(pause).as_nanos().saturating_sub(2))
    }

    /// The greatest drift that breaks no rule. The rules are the harder to keep the greater it is.
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

/// A span times a factor, and a little more rather than a little less: clocks are read in whole nanoseconds, when
/// a wait begins and when it ends.
fn round_up(span: Span, factor: f64) -> Span {
    span.scale(factor) + Span::from_nanos(2)
}

/// The longest span, to a tenth of a millisecond, that with this one stays below the limit.
fn longest_below(limit: Span, taken: Span) -> Option<Span> {
    const STEP: u64 = 100_000;
    let left = (limit - taken).as_nanos().checked_sub(1)?;
    Some(Span::from_nanos(left / STEP * STEP))
}

/// What elections cost while nothing happens, in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Renewals and their answers.
    pub renewals: f64,
    /// Packets that carry them, if what goes to the same peer at the same time goes together.
    pub packets: f64,
    /// Questions of those who wait, and their answers, on average.
    pub enquiries: f64,
}

/// How many elections there are, and who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// How many elections are held.
    pub names: u64,
    /// Over how many processes their leaders are spread evenly.
    pub leaders: u64,
    /// How many candidates wait for each.
    pub waiting: u64,
    /// How many vote.
    pub voters: u64,
}

/// The most bytes that a renewal takes on the wire: a name of 16, two tags, four numbers of up to ten, a flag.
pub const RENEWAL_BYTES: u64 = 16 + 2 + 4 * 10 + 1;
/// How many bytes of messages go into a packet.
pub const PACKET_BYTES: u64 = 1_200;

impl Timings {
    /// What these elections cost while nothing happens, if no leader and no one who waits votes itself.
    ///
    /// A leader sends a renewal to each voter every `renew`, and each answers. One who waits asks each voter
    /// after `poll / 2` to `poll`, evenly distributed: every `3 poll / 4` on average, a round trip left out.
    /// A process that leads many elections can put the renewals for one voter into a few packets, as many as
    /// their bytes take, and so can the voter with its answers, which are shorter.
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
