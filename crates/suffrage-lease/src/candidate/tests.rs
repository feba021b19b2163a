//! Edge cases of a candidate: node 9, with voters 1 to 5.

mod hand_over;

use super::*;
use suffrage_core::Announcement::{Elected, SteppedDown, Undecided};
use suffrage_core::{Span, Term};

const ME: NodeId = NodeId(9);
const BOOT: Boot = Boot(7);
const TTL: u64 = 30;
const LONGEST: Span = Span::from_millis(TTL);

#[derive(Debug, PartialEq)]
enum Effect {
    Asked(u64, Ask),
    Claimed(u64, Attribute),
    Announced(Announcement),
    LeadsUntil(Time),
}

struct Record {
    done: Vec<Effect>,
    rng: Rng,
}

impl Effects for Record {
    fn ask(&mut self, voter: NodeId, ask: Ask) {
        self.done.push(Effect::Asked(voter.0, ask));
    }
    fn claim(&mut self, leader: NodeId, attribute: Attribute) {
        self.done.push(Effect::Claimed(leader.0, attribute));
    }
    fn announce(&mut self, announcement: Announcement) {
        self.done.push(Effect::Announced(announcement));
    }
    fn lead_until(&mut self, end: Time) {
        self.done.push(Effect::LeadsUntil(end));
    }
    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}

struct Harness {
    candidate: Candidate,
    now: Time,
    record: Record,
}

impl Harness {
    fn new() -> Harness {
        Harness::with(Timings::of_tests(), 7)
    }

    fn with(timings: Timings, seed: u64) -> Harness {
        let mut record = Record { done: Vec::new(), rng: Rng::new(seed) };
        let voters: Vec<NodeId> = (1..=5).map(NodeId).collect();
        let candidate = Candidate::new((ME, BOOT), voters, timings, 50, &mut record, Time::ZERO);
        Harness { candidate, now: Time::ZERO, record }
    }

    /// A candidate that leads with token 1 since time 2, and noted its clock at 1.
    fn leading() -> Harness {
        let mut harness = Harness::new();
        harness.input(|candidate, fx, now| candidate.contend(fx, now));
        harness.wait(1);
        harness.replies(1..=3, |request| Reply::Promised { request });
        harness.wait(1);
        harness.replies(1..=3, accepted);
        assert_eq!(harness.candidate.lease().map(|lease| lease.token), Some(token(1)));
        harness
    }

    fn input(&mut self, input: impl FnOnce(&mut Candidate, &mut Record, Time)) -> Vec<Effect> {
        input(&mut self.candidate, &mut self.record, self.now);
        std::mem::take(&mut self.record.done)
    }

    fn receive(&mut self, from: u64, reply: Reply) -> Vec<Effect> {
        self.input(|candidate, fx, now| candidate.on_reply(fx, now, NodeId(from), reply))
    }

    /// These voters reply to the current request.
    fn replies(&mut self, from: impl IntoIterator<Item = u64>, reply: fn(Request) -> Reply) -> Vec<Effect> {
        let reply = reply(self.candidate.request);
        from.into_iter().flat_map(|voter| self.receive(voter, reply)).collect()
    }

    fn wait(&mut self, units: u64) {
        self.now = self.now + Span::from_millis(units);
    }

    /// Advances time to the next due moment.
    fn due(&mut self) -> Vec<Effect> {
        self.now = self.now.max(self.candidate.next_due());
        self.input(|candidate, fx, now| candidate.on_due(fx, now))
    }

    /// Enquires, and these voters reply that `leader` leads with token 5 and attribute 10.
    fn enquire_and_learn(&mut self, voters: std::ops::RangeInclusive<u64>, leader: u64) -> Vec<Effect> {
        while !matches!(self.candidate.round, Round::Enquiry { .. }) {
            self.due();
        }
        let (request, promised) = (self.candidate.request, 5);
        let grant = Some(Grant {
            token: token(5),
            holder: NodeId(leader),
            boot: BOOT,
            attribute: 10,
            value: crate::ValueVersion::NONE,
        });
        voters
            .flat_map(|voter| {
                self.receive(voter, Reply::Status { request, promised, grant, longest: LONGEST })
            })
            .collect()
    }
}

fn token(number: u64) -> Token {
    Token::after(number - 1)
}

fn accepted(request: Request) -> Reply {
    Reply::Accepted { request, renewal: false, contended: false }
}

fn rejected(request: Request) -> Reply {
    Reply::Rejected { request, promised: 40 }
}

fn held(request: Request) -> Reply {
    let grant = Grant {
        token: token(5),
        holder: NodeId(3),
        boot: BOOT,
        attribute: 10,
        value: crate::ValueVersion::NONE,
    };
    Reply::Held { request, grant, remaining: Span::UNIT }
}

/// The numbers of the tokens that the candidate prepares, and of those that it proposes.
fn asked(done: &[Effect]) -> (Vec<u64>, Vec<u64>) {
    let (mut prepared, mut proposed) = (Vec::new(), Vec::new());
    for act in done {
        match act {
            Effect::Asked(5, Ask::Prepare { token, .. }) => prepared.push(token.number()),
            Effect::Asked(5, Ask::Propose { token, .. }) => proposed.push(token.number()),
            _ => {}
        }
    }
    (prepared, proposed)
}

fn announced(done: &[Effect]) -> Vec<Announcement> {
    let announcement = |act: &Effect| match act {
        Effect::Announced(announcement) => Some(*announcement),
        _ => None,
    };
    done.iter().filter_map(announcement).collect()
}

fn elected(leader: u64, term: u64) -> Announcement {
    Elected { leader: NodeId(leader), term: Term(term) }
}

fn released(done: &[Effect]) -> Option<(u64, Option<NodeId>)> {
    done.iter().find_map(|act| match act {
        Effect::Asked(5, Ask::Release { token, to }) => Some((token.number(), *to)),
        _ => None,
    })
}

#[test]
fn a_majority_of_promises_then_of_acceptances_makes_a_leader() {
    let mut harness = Harness::new();
    let done = harness.input(|candidate, fx, now| candidate.contend(fx, now));
    assert_eq!(asked(&done), (vec![1], vec![]));
    assert_eq!(asked(&harness.replies([1, 1, 2], |request| Reply::Promised { request })), (vec![], vec![]));
    harness.wait(1);
    let done = harness.replies([3], |request| Reply::Promised { request });
    assert_eq!(asked(&done), (vec![], vec![1]));
    harness.wait(1);
    assert_eq!(harness.replies([4, 4, 5], accepted), [], "the same voter twice is one");
    let done = harness.replies([1], accepted);
    // Noted at 1; 30 delays at a drift of 1% are worth 29.4, less the roundings.
    let until = Time::from_nanos(1_000_000 + (30_000_000 - 1) * 99 / 101 - 1);
    assert_eq!(done, [Effect::LeadsUntil(until), Effect::Announced(elected(9, 1))]);
    assert_eq!(harness.candidate.lease(), Some(Lease { token: token(1), valid_until: until }));
}

/// "The leader's validity counts from before the first send of the renewal that won the majority."
#[test]
fn each_answer_to_a_renewal_counts_from_the_moment_of_its_own_request() {
    let mut harness = Harness::leading();
    let before = harness.candidate.lease();
    harness.due();
    let (first, noted) = (harness.candidate.request, harness.now);
    harness.receive(1, accepted(first));
    // The round is over; the next one starts from a later moment.
    harness.due();
    let second = harness.candidate.request;
    assert_ne!(second, first);
    assert_eq!(harness.receive(2, accepted(second)), []);
    assert_eq!(harness.receive(4, accepted(second)), []);
    assert_eq!(harness.receive(2, accepted(first)), []);
    assert_eq!(harness.receive(5, Reply::Promised { request: first }), []);
    assert_eq!(harness.candidate.lease(), before, "two for each do not make a majority of five");
    let validity = Timings::of_tests().drift.validity(Span::from_millis(30));
    assert_eq!(harness.receive(3, accepted(first)), [Effect::LeadsUntil(noted + validity)]);
    assert_eq!(harness.receive(5, accepted(second)), [], "the round is over");
}

/// A leader whose replies take longer than a round renews again and again, and continues to lead.
#[test]
fn a_renewal_that_is_answered_after_many_rounds_still_counts() {
    let mut harness = Harness::leading();
    let until = harness.candidate.lease().unwrap().valid_until;
    harness.due();
    let (first, noted) = (harness.candidate.request, harness.now);
    while harness.candidate.next_due() < until {
        harness.due();
    }
    assert_ne!(harness.candidate.request, first);
    harness.receive(1, accepted(first));
    harness.receive(2, accepted(first));
    let validity = Timings::of_tests().drift.validity(Span::from_millis(30));
    assert_eq!(harness.receive(3, accepted(first)), [Effect::LeadsUntil(noted + validity)]);
}

/// The longest round is a quarter of the lease, and the shortest is the configured one.
#[test]
fn rounds_grow_with_late_replies_and_shrink_with_early_ones() {
    let mut harness = Harness::new();
    let round = |harness: &Harness| harness.candidate.next_due().since(harness.now);
    let contend = |harness: &mut Harness| {
        harness.input(|candidate, fx, now| candidate.contend(fx, now));
        round(harness)
    };
    assert_eq!(contend(&mut harness), Span::from_millis(3));
    let request = harness.candidate.request;
    harness.due();
    harness.wait(2);
    for voter in 1..=3 {
        harness.receive(voter, Reply::Promised { request });
    }
    assert_eq!(contend(&mut harness), Span::from_nanos(7_500_000), "the answer took 5");
    harness.due();
    assert_eq!(
        contend(&mut harness),
        Span::from_nanos(7_500_000),
        "no answer is no reason to wait for longer"
    );
    harness.wait(1);
    harness.replies([1, 2, 3], |request| Reply::Promised { request });
    assert_eq!(
        round(&harness),
        Span::from_nanos(7_062_500),
        "a majority took 1: an eighth of the way from 7.5 to 4"
    );
}

/// A reply that takes longer than the longest round means that the candidate itself was paused.
#[test]
fn a_pause_of_the_candidate_does_not_make_rounds_longer() {
    let mut harness = Harness::new();
    harness.input(|candidate, fx, now| candidate.contend(fx, now));
    let request = harness.candidate.request;
    harness.wait(TTL / 4 + 1);
    for voter in 1..=3 {
        harness.receive(voter, Reply::Promised { request });
    }
    assert_eq!(harness.candidate.reply_timeout, Span::from_millis(3));
}

#[test]
fn a_restarted_candidate_ignores_replies_to_requests_before_the_restart() {
    let mut before = Harness::new();
    before.input(|candidate, fx, now| candidate.contend(fx, now));
    let mut after = Harness::with(Timings::of_tests(), 8);
    after.input(|candidate, fx, now| candidate.contend(fx, now));
    let old = before.candidate.request;
    for voter in 1..=5 {
        assert_eq!(after.receive(voter, Reply::Promised { request: old }), []);
    }
}

#[test]
fn acceptances_that_come_too_late_make_no_leader() {
    let mut harness = Harness::new();
    harness.input(|candidate, fx, now| candidate.contend(fx, now));
    harness.replies(1..=3, |request| Reply::Promised { request });
    harness.wait(TTL);
    let done = harness.replies(1..=3, accepted);
    assert_eq!((announced(&done), released(&done)), (vec![], Some((1, None))));
    assert_eq!(harness.candidate.lease(), None);
}

#[test]
fn a_leader_whose_lease_is_over_steps_down_at_any_input() {
    let inputs: [fn(&mut Harness) -> Vec<Effect>; 5] = [
        |harness| harness.receive(1, Reply::Vacant { promised: 1 }),
        |harness| harness.due(),
        |harness| harness.input(|candidate, fx, now| candidate.hand_over(fx, now, None)),
        |harness| harness.input(|candidate, fx, now| candidate.on_claim(fx, now, NodeId(7), 99)),
        |harness| harness.replies([1], accepted),
    ];
    for input in inputs {
        let mut harness = Harness::leading();
        harness.wait(TTL);
        let done = input(&mut harness);
        assert_eq!(done.first(), Some(&Effect::Announced(SteppedDown)), "{done:?}");
        assert_eq!((harness.candidate.lease(), released(&done)), (None, None));
    }
}

#[test]
fn a_leader_renews_with_the_same_token_and_again_if_no_reply_comes() {
    let mut harness = Harness::leading();
    assert_eq!(asked(&harness.due()), (vec![], vec![1]));
    assert_eq!(harness.now, Time::ZERO + Span::from_millis(11), "ten after it noted its clock");
    assert_eq!(asked(&harness.due()), (vec![], vec![1]));
    assert_eq!(harness.now, Time::ZERO + Span::from_millis(14), "a round later");
    assert_eq!(announced(&harness.replies(1..=3, accepted)), []);
    let lease = harness.candidate.lease().unwrap();
    assert_eq!(
        lease.valid_until,
        harness.now + harness.candidate.timings.drift.validity(Span::from_millis(TTL))
    );
}

/// Without replies a leader steps down at the very end of its lease.
#[test]
fn a_leader_without_replies_steps_down_in_time() {
    let mut harness = Harness::leading();
    let end = harness.candidate.lease().unwrap().valid_until;
    while harness.candidate.lease().is_some() {
        let done = harness.due();
        assert!(harness.now <= end);
        assert_eq!(announced(&done).is_empty(), harness.now < end);
    }
    assert_eq!(harness.now, end);
}

/// "Re-prepares with a higher token while its lease still holds, keeps leading, and its token grows."
#[test]
fn a_leader_whose_renewal_is_rejected_by_some_prepares_a_greater_token_and_keeps_leading() {
    for late in [false, true] {
        let mut harness = Harness::leading();
        harness.due();
        let mut done = Vec::new();
        if late {
            let request = harness.candidate.request;
            done.extend(harness.replies(1..=3, accepted));
            assert_eq!(asked(&done), (vec![], vec![]));
            done.extend(harness.receive(4, rejected(request)));
        } else {
            done.extend(harness.replies([4], rejected));
            done.extend(harness.replies(1..=3, accepted));
        }
        assert_eq!((asked(&done), announced(&done)), ((vec![41], vec![]), vec![]));
        assert_eq!(harness.candidate.lease().unwrap().token, token(1));
        let done = harness.replies(1..=3, |request| Reply::Promised { request });
        assert_eq!(asked(&done), (vec![], vec![41]));
        assert_eq!(announced(&harness.replies(1..=3, accepted)), [elected(9, 41)]);
    }
}

#[test]
fn a_leader_whose_renewal_a_majority_rejects_does_not_wait_for_the_others() {
    let mut harness = Harness::leading();
    harness.due();
    assert_eq!(asked(&harness.replies(1..=3, rejected)), (vec![41], vec![]));
    assert!(harness.candidate.lease().is_some());
}

#[test]
fn a_candidate_whose_token_is_too_small_tries_a_greater_one_at_once_and_then_backs_off() {
    let mut harness = Harness::new();
    harness.input(|candidate, fx, now| candidate.contend(fx, now));
    assert_eq!(asked(&harness.replies(1..=3, rejected)), (vec![41], vec![]));
    let done = harness.replies(1..=3, rejected);
    assert_eq!(asked(&done), (vec![], vec![]));
    assert!(harness.candidate.next_due() > harness.now + Span::from_millis(2));
}

#[test]
fn a_defeated_candidate_releases_the_grants_of_a_minority() {
    let mut harness = Harness::new();
    harness.input(|candidate, fx, now| candidate.contend(fx, now));
    harness.replies(1..=3, |request| Reply::Promised { request });
    harness.replies([1, 2], accepted);
    assert_eq!(released(&harness.replies(3..=5, held)), Some((1, None)));
}

/// The leader steps down before it sends the release, and then yields for a ttl.
#[test]
fn a_release_is_sent_after_the_leader_has_stepped_down() {
    let mut harness = Harness::leading();
    let done = harness.input(|candidate, fx, now| candidate.hand_over(fx, now, None));
    assert_eq!((done.first(), released(&done)), (Some(&Effect::Announced(SteppedDown)), Some((1, None))));
    assert_eq!(harness.receive(1, Reply::Vacant { promised: 1 }), [], "it stands back");
    let done = harness.due();
    assert!(done.iter().all(|act| matches!(act, Effect::Asked(_, Ask::Enquire { standing: None, .. }))));
    harness.wait(TTL);
    harness.due();
    let done = harness.due();
    assert!(done.iter().any(|act| matches!(act, Effect::Asked(_, Ask::Enquire { standing: Some(50), .. }))));
    let done = harness.receive(1, Reply::Vacant { promised: 7 });
    assert_eq!(asked(&done), (vec![8], vec![]), "it contends again");
}

/// Voters may have granted the greater token already, and would then ignore a release of the smaller one.
#[test]
fn a_greater_token_that_was_being_proposed_is_released_too() {
    let mut harness = Harness::leading();
    harness.due();
    harness.replies(1..=3, rejected);
    assert_eq!(asked(&harness.replies(1..=3, |request| Reply::Promised { request })), (vec![], vec![41]));
    let done = harness.input(|candidate, fx, now| candidate.hand_over(fx, now, None));
    let tokens = done.iter().filter_map(|act| match act {
        Effect::Asked(5, Ask::Release { token, .. }) => Some(token.number()),
        _ => None,
    });
    assert_eq!(tokens.collect::<Vec<_>>(), [1, 41]);
}

/// With a monotone clock a later request means a later end. A clock that is set back and then corrected must not make a
/// leader release the grants that its lease rests on.
#[test]
fn a_clock_that_was_set_back_does_not_make_a_leader_release_its_grants() {
    let mut harness = Harness::leading();
    harness.wait(10);
    harness.due();
    harness.replies(1..=3, accepted);
    let lease = harness.candidate.lease().unwrap();
    harness.now = Time::ZERO;
    // A late rejection makes the leader prepare a greater token, and propose it by the wrong clock.
    assert_eq!(asked(&harness.receive(4, rejected(harness.candidate.won.unwrap()))).0, [41]);
    assert_eq!(asked(&harness.replies(1..=3, |request| Reply::Promised { request })).1, [41]);
    harness.now = Time::ZERO + Span::from_millis(TTL);
    assert!(harness.now < lease.valid_until);
    let done = harness.replies(1..=3, accepted);
    // The leader prepares the next token at once, and leads on.
    assert_eq!((released(&done), asked(&done)), (None, (vec![42], Vec::new())));
    assert_eq!(harness.candidate.lease(), Some(lease));
}

#[test]
fn a_transfer_names_the_successor_and_not_itself() {
    let mut harness = Harness::leading();
    assert_eq!(harness.input(|candidate, fx, now| candidate.hand_over(fx, now, Some(ME))), []);
    let done = harness.input(|candidate, fx, now| candidate.hand_over(fx, now, Some(NodeId(7))));
    assert_eq!(released(&done), Some((1, Some(NodeId(7)))));
    assert_eq!(harness.input(|candidate, fx, now| candidate.hand_over(fx, now, Some(NodeId(7)))), []);
}

/// "An unhealthy leader steps down, an unhealthy candidate does not run."
#[test]
fn an_unhealthy_candidate_neither_leads_nor_stands() {
    let mut harness = Harness::leading();
    let done = harness.input(|candidate, fx, now| candidate.set_healthy(fx, now, false));
    assert_eq!((announced(&done), released(&done)), (vec![SteppedDown], Some((1, None))));
    harness.wait(10 * TTL);
    assert_eq!(harness.input(|candidate, fx, now| candidate.contend(fx, now)), []);
    assert_eq!(harness.receive(1, Reply::Vacant { promised: 1 }), []);
    assert_eq!(
        announced(&harness.enquire_and_learn(1..=3, 4)),
        [elected(4, 5)],
        "it knows who leads all the same"
    );
    harness.input(|candidate, fx, now| candidate.set_healthy(fx, now, true));
    assert_eq!(asked(&harness.receive(1, Reply::Vacant { promised: 5 })), (vec![6], vec![]));
    let done = harness.input(|candidate, fx, now| candidate.set_healthy(fx, now, false));
    assert_eq!(done, [], "what was only prepared needs no release");
    assert_eq!(asked(&harness.replies(1..=3, |request| Reply::Promised { request })), (vec![], vec![]));
}

/// "A majority read answers who leads as of now."
#[test]
fn a_candidate_follows_the_leader_that_a_majority_of_voters_names() {
    let mut harness = Harness::new();
    assert_eq!(announced(&harness.enquire_and_learn(1..=2, 4)), []);
    let request = harness.candidate.request;
    assert_eq!(harness.receive(3, Reply::Status { request, promised: 5, grant: None, longest: LONGEST }), []);
    assert_eq!(announced(&harness.due()), [], "two of five are no majority");
    assert_eq!(announced(&harness.enquire_and_learn(1..=3, 4)), [elected(4, 5)]);
    assert_eq!(announced(&harness.enquire_and_learn(2..=4, 4)), []);
    assert_eq!(announced(&harness.enquire_and_learn(2..=4, 6)), [elected(6, 5)]);
    harness.due();
    assert_eq!(announced(&harness.due()), [], "nobody answers: it asks again");
    assert_eq!(announced(&harness.due()), [Undecided], "nobody answers");
}

/// Replies can be late. If they leave open who leads, the candidate enquires once more, at once. If they rule the
/// leader out, the candidate forgets it.
#[test]
fn missing_replies_cause_a_second_enquiry_and_a_majority_without_the_leader_ends_the_belief() {
    let vacant = |request| Reply::Status { request, promised: 5, grant: None, longest: LONGEST };
    let follower = || {
        let mut harness = Harness::new();
        assert_eq!(announced(&harness.enquire_and_learn(1..=3, 4)), [elected(4, 5)]);
        assert_eq!(harness.enquire_and_learn(1..=1, 4), [], "one of five so far");
        harness
    };
    let mut harness = follower();
    harness.replies(2..=3, vacant);
    let again = harness.due();
    assert_eq!(
        (announced(&again), harness.candidate.stage()),
        (vec![], Stage::Enquiring),
        "the last two may say 4"
    );
    assert_eq!(announced(&harness.enquire_and_learn(1..=3, 4)), [], "they do: nothing has happened");
    assert_eq!(harness.enquire_and_learn(1..=1, 4), []);
    harness.replies(2..=3, vacant);
    assert_eq!(announced(&harness.due()), [], "it may ask again anew");

    let mut harness = follower();
    harness.replies(2..=4, vacant);
    assert_eq!(announced(&harness.due()), [Undecided], "with the fifth, 4 has two of five at most");
}

/// The candidate crashed while it led. The grants at the voters are its own, so it need not wait until they expire.
#[test]
fn a_candidate_that_voters_name_as_the_holder_contends_at_once() {
    let mut harness = Harness::new();
    assert_eq!(asked(&harness.enquire_and_learn(1..=3, 9)), (vec![6], vec![]));
}

fn claims(done: &[Effect]) -> bool {
    done.contains(&Effect::Claimed(4, 50))
}

/// "A better-ranked candidate takes over only after it has been eligible for a fail-back delay."
#[test]
fn a_better_candidate_claims_the_lease_after_the_fail_back_delay() {
    let mut harness = Harness::with(Timings { failback: Some(Span::UNIT * 100), ..Timings::of_tests() }, 7);
    while harness.now < Time::ZERO + Span::from_millis(95) {
        assert!(!claims(&harness.enquire_and_learn(1..=3, 4)));
    }
    harness.wait(10);
    assert!(claims(&harness.enquire_and_learn(1..=3, 4)));
    // A change of rank or health restarts the delay.
    harness.input(|candidate, _, now| candidate.set_attribute(now, 60));
    harness.input(|candidate, _, now| candidate.set_attribute(now, 50));
    assert!(!claims(&harness.enquire_and_learn(1..=3, 4)));
    harness.wait(110);
    assert!(claims(&harness.enquire_and_learn(1..=3, 4)));
    for healthy in [false, true] {
        harness.input(|candidate, fx, now| candidate.set_healthy(fx, now, healthy));
    }
    assert!(!claims(&harness.enquire_and_learn(1..=3, 4)));
    harness.wait(110);
    harness.input(|candidate, _, now| candidate.set_attribute(now, 10));
    harness.wait(110);
    assert!(!claims(&harness.enquire_and_learn(1..=3, 4)), "an equal candidate does not ask");
    let mut harness = Harness::new();
    harness.wait(1_000);
    assert!(!claims(&harness.enquire_and_learn(1..=3, 4)), "nor where it is off");
}

#[test]
fn failed_claims_double_the_fail_back_delay_up_to_64_times() {
    let mut harness = Harness::with(Timings { failback: Some(Span::UNIT * 100), ..Timings::of_tests() }, 7);
    let mut since = Time::ZERO;
    for delays in [1, 2, 4, 8, 16, 32, 64, 64, 64] {
        while !claims(&harness.enquire_and_learn(1..=3, 4)) {}
        let delay = Span::from_millis(100) * delays;
        let waited = harness.now.since(since);
        assert!(waited >= delay && waited < delay + Span::from_millis(60), "{delays}: {waited:?}");
        // The leader hands over, and no voter answers this candidate.
        harness.input(|candidate, fx, now| candidate.wake_up(fx, now));
        while harness.candidate.is_contending() {
            harness.due();
        }
        since = harness.now;
    }
}

#[test]
fn a_leader_hands_over_to_a_better_candidate_only() {
    let mut harness = Harness::leading();
    for attribute in [49, 50] {
        assert_eq!(harness.input(|candidate, fx, now| candidate.on_claim(fx, now, NodeId(7), attribute)), []);
    }
    let done = harness.input(|candidate, fx, now| candidate.on_claim(fx, now, NodeId(7), 51));
    assert_eq!(released(&done), Some((1, Some(NodeId(7)))));
}

#[test]
fn replies_of_nodes_that_are_no_voters_are_ignored() {
    let mut harness = Harness::new();
    harness.input(|candidate, fx, now| candidate.contend(fx, now));
    assert_eq!(asked(&harness.replies([6, 7, 8], |request| Reply::Promised { request })), (vec![], vec![]));
    assert_eq!(harness.receive(6, Reply::Vacant { promised: 3 }), []);
}

/// After any inputs the candidate is due within a lease and a poll.
#[test]
fn a_candidate_is_always_due_within_a_bound() {
    for seed in 0..200 {
        let mut harness = Harness::new();
        let rng = &mut Rng::new(seed);
        for _ in 0..200 {
            let reply: fn(Request) -> Reply = match rng.below(6) {
                0 => |request| Reply::Promised { request },
                1 => accepted,
                2 => rejected,
                3 => held,
                4 => |request| Reply::Status { request, promised: 3, grant: None, longest: LONGEST },
                _ => |_| Reply::Vacant { promised: 2 },
            };
            let voter = 1 + rng.below(5);
            match rng.below(12) {
                0 => drop(harness.input(|candidate, fx, now| candidate.contend(fx, now))),
                1 => drop(harness.input(|candidate, fx, now| candidate.hand_over(fx, now, None))),
                2 => drop(harness.input(|candidate, fx, now| candidate.set_healthy(fx, now, voter < 3))),
                3 | 4 => drop(harness.due()),
                _ => drop(harness.replies([voter], reply)),
            }
            harness.now = harness.now + Span::from_units(rng.unit() * 3.0);
            assert!(harness.candidate.next_due() <= harness.now + Span::from_millis(2 * TTL), "seed {seed}");
        }
    }
}

/// The kinds of requests to the voters, without repetitions.
fn asks(done: &[Effect]) -> Vec<&'static str> {
    let mut asked: Vec<_> = done
        .iter()
        .filter_map(|done| match done {
            Effect::Asked(_, Ask::Enquire { .. }) => Some("enquire"),
            Effect::Asked(_, Ask::Prepare { .. }) => Some("prepare"),
            Effect::Asked(..) => Some("other"),
            _ => None,
        })
        .collect();
    asked.dedup();
    asked
}

#[test]
fn a_lease_of_an_earlier_process_with_the_same_id_runs_out_first() {
    let mut harness = Harness::new();
    assert_eq!(asks(&harness.enquire_and_learn(1..=3, ME.0)), ["prepare"], "its own: it may have it again");

    let mut harness = Harness::new();
    harness.candidate.boot = Boot(8);
    for _ in 0..5 {
        let done = harness.enquire_and_learn(1..=3, ME.0);
        assert_eq!(asks(&done), [""; 0]);
        assert!(!done.iter().any(|done| matches!(done, Effect::Announced(_))), "it is nobody's to follow");
    }
    harness.input(|candidate, fx, now| candidate.wake_up(fx, now));
    harness.replies(1..=3, |request| Reply::Promised { request });
    harness.replies(1..=3, accepted);
    assert_eq!(harness.candidate.lease().map(|lease| lease.token), Some(token(6)));
}

/// The voters of the next configuration.
fn voters(ids: std::ops::RangeInclusive<u64>) -> Arc<[NodeId]> {
    ids.map(NodeId).collect()
}

#[test]
fn a_leader_keeps_its_lease_when_the_voters_change() {
    let mut harness = Harness::leading();
    let lease = harness.candidate.lease();
    let done = harness.input(|candidate, fx, now| candidate.reconfigure(fx, now, &voters(1..=6)));
    assert_eq!(harness.candidate.lease(), lease);
    assert!(announced(&done).is_empty());
    assert_eq!(asked(&done), (vec![], vec![1]), "it renews at the new voters with the same token");
    harness.replies(1..=3, accepted);
    assert_eq!(harness.candidate.lease(), lease, "three of six are no majority");
    harness.wait(1);
    harness.replies(6..=6, accepted);
    let end = |lease: Option<Lease>| lease.map(|lease| lease.valid_until);
    assert!(end(harness.candidate.lease()) > end(lease));
}

#[test]
fn replies_of_two_configurations_never_count_together() {
    let mut harness = Harness::new();
    harness.input(|candidate, fx, now| candidate.contend(fx, now));
    let request = harness.candidate.request;
    harness.receive(1, Reply::Promised { request });
    harness.receive(2, Reply::Promised { request });
    let done = harness.input(|candidate, fx, now| candidate.reconfigure(fx, now, &voters(1..=3)));
    assert_eq!(asks(&done), ["prepare"], "it prepares anew");
    assert_eq!(asks(&harness.receive(3, Reply::Promised { request })), [""; 0]);
    // A proposal is given back, and prepared anew.
    harness.replies(1..=2, |request| Reply::Promised { request });
    let request = harness.candidate.request;
    harness.receive(1, accepted(request));
    let done = harness.input(|candidate, fx, now| candidate.reconfigure(fx, now, &voters(1..=2)));
    let gives_back = |effect: &Effect| matches!(effect, Effect::Asked(_, Ask::Release { .. }));
    assert!(done.iter().any(gives_back));
    harness.receive(2, accepted(request));
    assert_eq!(harness.candidate.lease(), None);
}

#[test]
fn a_lease_that_voters_do_not_grant_is_neither_won_nor_claimed() {
    let mut harness = Harness::with(Timings { failback: Some(Span::UNIT * 1), ..Timings::of_tests() }, 7);
    harness.input(|candidate, fx, now| candidate.contend(fx, now));
    harness.replies(1..=3, |request| Reply::Promised { request });
    let longest = Span::from_millis(5);
    let request = harness.candidate.request;
    let done: Vec<Effect> =
        (1..=3).flat_map(|voter| harness.receive(voter, Reply::TooLong { request, longest })).collect();
    assert_eq!(released(&done), Some((1, None)), "some voters may have granted it");
    assert_eq!((harness.candidate.lease(), harness.candidate.granted_at_most()), (None, Some(longest)));
    harness.wait(1_000);
    harness.due();
    let request = harness.candidate.request;
    let grant = Some(Grant {
        token: token(5),
        holder: NodeId(4),
        boot: BOOT,
        attribute: 10,
        value: crate::ValueVersion::NONE,
    });
    let status = |longest| Reply::Status { request, promised: 5, grant, longest };
    let done: Vec<Effect> = (1..=3).flat_map(|voter| harness.receive(voter, status(longest))).collect();
    assert_eq!((asks(&done), claims(&done)), (vec![], false), "it would depose the leader in vain");
    harness.input(|candidate, fx, now| candidate.contend(fx, now));
    let woken = harness.receive(1, Reply::Vacant { promised: 5 });
    assert_eq!((asks(&woken), harness.candidate.stage()), (vec![], Stage::Waiting), "or contend in vain");
    // The operator raises the limit of two voters: three of five may grant it now.
    harness.receive(1, status(LONGEST));
    assert_eq!(harness.candidate.granted_at_most(), None, "voters 1, 4 and 5 may grant it");
    harness.receive(2, status(LONGEST));
    harness.input(|candidate, fx, now| candidate.wake_up(fx, now));
    harness.replies(1..=3, |request| Reply::Promised { request });
    harness.replies(1..=3, accepted);
    assert_eq!((harness.candidate.lease().is_some(), harness.candidate.granted_at_most()), (true, None));
}
