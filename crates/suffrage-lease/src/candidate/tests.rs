//! The candidate, corner by corner: number 9 of five voters 1 to 5.

use super::*;
use crate::Options;
use suffrage_core::Announcement::{Elected, SteppedDown, Undecided};
use suffrage_core::{Span, Term};

const ME: NodeId = NodeId(9);
const TTL: u64 = 30;

#[derive(Debug, PartialEq)]
enum Done {
    Asked(u64, Ask),
    Claimed(u64, Attribute),
    Announced(Announcement),
    LeadsUntil(Time),
}

struct Record {
    done: Vec<Done>,
    rng: Rng,
}

impl Effects for Record {
    fn ask(&mut self, voter: NodeId, ask: Ask) {
        self.done.push(Done::Asked(voter.0, ask));
    }
    fn claim(&mut self, leader: NodeId, attribute: Attribute) {
        self.done.push(Done::Claimed(leader.0, attribute));
    }
    fn announce(&mut self, announcement: Announcement) {
        self.done.push(Done::Announced(announcement));
    }
    fn lead_until(&mut self, end: Time) {
        self.done.push(Done::LeadsUntil(end));
    }
    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}

struct Stand {
    candidate: Candidate,
    now: Time,
    record: Record,
}

impl Stand {
    fn new() -> Stand {
        Stand::with(Options::default(), 7)
    }

    fn with(options: Options, seed: u64) -> Stand {
        let mut record = Record { done: Vec::new(), rng: Rng::new(seed) };
        let voters: Vec<NodeId> = (1..=5).map(NodeId).collect();
        let timings = options.timings(Span::UNIT);
        let candidate = Candidate::new(ME, voters, timings, 50, &mut record, Time::ZERO);
        Stand { candidate, now: Time::ZERO, record }
    }

    /// One that leads with token 1 since time 2, having noted its clock at 1.
    fn leading() -> Stand {
        let mut stand = Stand::new();
        stand.does(|candidate, fx, now| candidate.contend(fx, now));
        stand.wait(1);
        stand.replies(1..=3, |request| Reply::Promised { request });
        stand.wait(1);
        stand.replies(1..=3, accepted);
        assert_eq!(stand.candidate.lease().map(|lease| lease.token), Some(token(1)));
        stand
    }

    fn does(&mut self, input: impl FnOnce(&mut Candidate, &mut Record, Time)) -> Vec<Done> {
        input(&mut self.candidate, &mut self.record, self.now);
        std::mem::take(&mut self.record.done)
    }

    fn hears(&mut self, from: u64, reply: Reply) -> Vec<Done> {
        self.does(|candidate, fx, now| candidate.on_reply(fx, now, NodeId(from), reply))
    }

    /// These voters answer the present request.
    fn replies(&mut self, from: impl IntoIterator<Item = u64>, reply: fn(Request) -> Reply) -> Vec<Done> {
        let reply = reply(self.candidate.request);
        from.into_iter().flat_map(|voter| self.hears(voter, reply)).collect()
    }

    fn wait(&mut self, units: u64) {
        self.now = self.now + Span::from_millis(units);
    }

    /// Waits for what is due next.
    fn due(&mut self) -> Vec<Done> {
        self.now = self.now.max(self.candidate.next_due());
        self.does(|candidate, fx, now| candidate.on_due(fx, now))
    }

    /// Asks who leads, and is told by these voters that this one does, with token 5 and attribute 10.
    fn told(&mut self, voters: std::ops::RangeInclusive<u64>, leader: u64) -> Vec<Done> {
        while !matches!(self.candidate.round, Round::Enquiry { .. }) {
            self.due();
        }
        let (request, promised) = (self.candidate.request, 5);
        let grant = Some(Grant { token: token(5), holder: NodeId(leader), attribute: 10 });
        voters.flat_map(|voter| self.hears(voter, Reply::Status { request, promised, grant })).collect()
    }
}

fn token(number: u64) -> Token {
    Token::after(number - 1)
}

fn accepted(request: Request) -> Reply {
    Reply::Accepted { request, renewal: false }
}

fn rejected(request: Request) -> Reply {
    Reply::Rejected { request, promised: 40 }
}

fn held(request: Request) -> Reply {
    let grant = Grant { token: token(5), holder: NodeId(3), attribute: 10 };
    Reply::Held { request, grant, remaining: Span::UNIT }
}

/// The tokens it prepares, and proposes, as numbers; each is asked of all voters.
fn asked(done: &[Done]) -> (Vec<u64>, Vec<u64>) {
    let (mut prepared, mut proposed) = (Vec::new(), Vec::new());
    for act in done {
        match act {
            Done::Asked(5, Ask::Prepare { token, .. }) => prepared.push(token.number()),
            Done::Asked(5, Ask::Propose { token, .. }) => proposed.push(token.number()),
            _ => {}
        }
    }
    (prepared, proposed)
}

fn announced(done: &[Done]) -> Vec<Announcement> {
    let announcement = |act: &Done| match act {
        Done::Announced(announcement) => Some(*announcement),
        _ => None,
    };
    done.iter().filter_map(announcement).collect()
}

fn elected(leader: u64, term: u64) -> Announcement {
    Elected { leader: NodeId(leader), term: Term(term) }
}

fn released(done: &[Done]) -> Option<(u64, Option<NodeId>)> {
    done.iter().find_map(|act| match act {
        Done::Asked(5, Ask::Release { token, to }) => Some((token.number(), *to)),
        _ => None,
    })
}

#[test]
fn a_majority_of_promises_then_of_acceptances_makes_a_leader() {
    let mut stand = Stand::new();
    let done = stand.does(|candidate, fx, now| candidate.contend(fx, now));
    assert_eq!(asked(&done), (vec![1], vec![]));
    assert_eq!(asked(&stand.replies([1, 1, 2], |request| Reply::Promised { request })), (vec![], vec![]));
    stand.wait(1);
    let done = stand.replies([3], |request| Reply::Promised { request });
    assert_eq!(asked(&done), (vec![], vec![1]));
    stand.wait(1);
    assert_eq!(stand.replies([4, 4, 5], accepted), [], "the same voter twice is one");
    let done = stand.replies([1], accepted);
    // Noted at 1; 30 delays at a drift of 1% are worth 29.4, less the roundings.
    let until = Time::from_nanos(1_000_000 + (30_000_000 - 1) * 99 / 101 - 1);
    assert_eq!(done, [Done::LeadsUntil(until), Done::Announced(elected(9, 1))]);
    assert_eq!(stand.candidate.lease(), Some(Lease { token: token(1), valid_until: until }));
}

/// "The leader's validity counts from before the first send of the renewal that won the majority."
#[test]
fn each_answer_to_a_renewal_counts_from_the_moment_of_its_own_request() {
    let mut stand = Stand::leading();
    let before = stand.candidate.lease();
    stand.due();
    let (first, noted) = (stand.candidate.request, stand.now);
    stand.hears(1, accepted(first));
    // The round is over; the next one starts from a later moment.
    stand.due();
    let second = stand.candidate.request;
    assert_ne!(second, first);
    assert_eq!(stand.hears(2, accepted(second)), []);
    assert_eq!(stand.hears(4, accepted(second)), []);
    assert_eq!(stand.hears(2, accepted(first)), []);
    assert_eq!(stand.hears(5, Reply::Promised { request: first }), []);
    assert_eq!(stand.candidate.lease(), before, "two for each do not make a majority of five");
    let validity = Options::default().drift.validity(Span::from_millis(30));
    assert_eq!(stand.hears(3, accepted(first)), [Done::LeadsUntil(noted + validity)]);
    assert_eq!(stand.hears(5, accepted(second)), [], "the round is over");
}

/// Where answers take longer than a round, a leader that renews again and again goes on leading.
#[test]
fn a_renewal_that_is_answered_after_many_rounds_still_counts() {
    let mut stand = Stand::leading();
    let until = stand.candidate.lease().unwrap().valid_until;
    stand.due();
    let (first, noted) = (stand.candidate.request, stand.now);
    while stand.candidate.next_due() < until {
        stand.due();
    }
    assert_ne!(stand.candidate.request, first);
    stand.hears(1, accepted(first));
    stand.hears(2, accepted(first));
    let validity = Options::default().drift.validity(Span::from_millis(30));
    assert_eq!(stand.hears(3, accepted(first)), [Done::LeadsUntil(noted + validity)]);
}

/// The longest round is a quarter of the lease, and the shortest what is configured.
#[test]
fn rounds_grow_where_answers_are_late_and_shrink_where_they_are_not() {
    let mut stand = Stand::new();
    let round = |stand: &Stand| stand.candidate.next_due().since(stand.now);
    let contend = |stand: &mut Stand| {
        stand.does(|candidate, fx, now| candidate.contend(fx, now));
        round(stand)
    };
    assert_eq!(contend(&mut stand), Span::from_millis(3));
    let request = stand.candidate.request;
    stand.due();
    stand.wait(2);
    for voter in 1..=3 {
        stand.hears(voter, Reply::Promised { request });
    }
    assert_eq!(contend(&mut stand), Span::from_nanos(7_500_000), "the answer took 5");
    stand.due();
    assert_eq!(contend(&mut stand), Span::from_nanos(7_500_000), "no answer is no reason to wait for longer");
    stand.wait(1);
    stand.replies([1, 2, 3], |request| Reply::Promised { request });
    assert_eq!(
        round(&stand),
        Span::from_nanos(7_062_500),
        "a majority took 1: an eighth of the way from 7.5 to 4"
    );
}

/// No reply takes longer than the longest round: then the candidate itself stood still, and learns nothing.
#[test]
fn a_pause_of_the_candidate_does_not_make_rounds_longer() {
    let mut stand = Stand::new();
    stand.does(|candidate, fx, now| candidate.contend(fx, now));
    let request = stand.candidate.request;
    stand.wait(TTL / 4 + 1);
    for voter in 1..=3 {
        stand.hears(voter, Reply::Promised { request });
    }
    assert_eq!(stand.candidate.wait, Span::from_millis(3));
}

#[test]
fn one_that_starts_anew_does_not_take_answers_to_what_it_asked_before() {
    let mut before = Stand::new();
    before.does(|candidate, fx, now| candidate.contend(fx, now));
    let mut after = Stand::with(Options::default(), 8);
    after.does(|candidate, fx, now| candidate.contend(fx, now));
    let old = before.candidate.request;
    for voter in 1..=5 {
        assert_eq!(after.hears(voter, Reply::Promised { request: old }), []);
    }
}

#[test]
fn acceptances_that_come_too_late_make_no_leader() {
    let mut stand = Stand::new();
    stand.does(|candidate, fx, now| candidate.contend(fx, now));
    stand.replies(1..=3, |request| Reply::Promised { request });
    stand.wait(TTL);
    let done = stand.replies(1..=3, accepted);
    assert_eq!((announced(&done), released(&done)), (vec![], Some((1, None))));
    assert_eq!(stand.candidate.lease(), None);
}

#[test]
fn whatever_reaches_a_leader_whose_lease_is_over_finds_it_stepped_down() {
    let inputs: [fn(&mut Stand) -> Vec<Done>; 5] = [
        |stand| stand.hears(1, Reply::Vacant { promised: 1 }),
        |stand| stand.due(),
        |stand| stand.does(|candidate, fx, now| candidate.release(fx, now)),
        |stand| stand.does(|candidate, fx, now| candidate.on_claim(fx, now, NodeId(7), 99)),
        |stand| stand.replies([1], accepted),
    ];
    for input in inputs {
        let mut stand = Stand::leading();
        stand.wait(TTL);
        let done = input(&mut stand);
        assert_eq!(done.first(), Some(&Done::Announced(SteppedDown)), "{done:?}");
        assert_eq!((stand.candidate.lease(), released(&done)), (None, None));
    }
}

#[test]
fn a_leader_renews_with_the_same_token_and_asks_again_if_it_is_not_answered() {
    let mut stand = Stand::leading();
    assert_eq!(asked(&stand.due()), (vec![], vec![1]));
    assert_eq!(stand.now, Time::ZERO + Span::from_millis(11), "ten after it noted its clock");
    assert_eq!(asked(&stand.due()), (vec![], vec![1]));
    assert_eq!(stand.now, Time::ZERO + Span::from_millis(14), "a round later");
    assert_eq!(announced(&stand.replies(1..=3, accepted)), []);
    let lease = stand.candidate.lease().unwrap();
    assert_eq!(lease.valid_until, stand.now + stand.candidate.timings.drift.validity(Span::from_millis(TTL)));
}

/// Unanswered to the end: it steps down when its lease is over, not a moment later.
#[test]
fn a_leader_that_nobody_answers_steps_down_in_time() {
    let mut stand = Stand::leading();
    let end = stand.candidate.lease().unwrap().valid_until;
    while stand.candidate.lease().is_some() {
        let done = stand.due();
        assert!(stand.now <= end);
        assert_eq!(announced(&done).is_empty(), stand.now < end);
    }
    assert_eq!(stand.now, end);
}

/// "Re-prepares with a higher token while its lease still holds, keeps leading, and its token grows."
#[test]
fn a_leader_whose_renewal_is_rejected_by_some_prepares_a_greater_token_and_leads_on() {
    for late in [false, true] {
        let mut stand = Stand::leading();
        stand.due();
        let mut done = Vec::new();
        if late {
            let request = stand.candidate.request;
            done.extend(stand.replies(1..=3, accepted));
            assert_eq!(asked(&done), (vec![], vec![]));
            done.extend(stand.hears(4, rejected(request)));
        } else {
            done.extend(stand.replies([4], rejected));
            done.extend(stand.replies(1..=3, accepted));
        }
        assert_eq!((asked(&done), announced(&done)), ((vec![41], vec![]), vec![]));
        assert_eq!(stand.candidate.lease().unwrap().token, token(1));
        let done = stand.replies(1..=3, |request| Reply::Promised { request });
        assert_eq!(asked(&done), (vec![], vec![41]));
        assert_eq!(announced(&stand.replies(1..=3, accepted)), [elected(9, 41)]);
    }
}

#[test]
fn a_leader_whose_renewal_a_majority_rejects_does_not_wait_for_the_others() {
    let mut stand = Stand::leading();
    stand.due();
    assert_eq!(asked(&stand.replies(1..=3, rejected)), (vec![41], vec![]));
    assert!(stand.candidate.lease().is_some());
}

#[test]
fn one_whose_token_was_too_small_tries_a_greater_one_at_once_and_then_waits() {
    let mut stand = Stand::new();
    stand.does(|candidate, fx, now| candidate.contend(fx, now));
    assert_eq!(asked(&stand.replies(1..=3, rejected)), (vec![41], vec![]));
    let done = stand.replies(1..=3, rejected);
    assert_eq!(asked(&done), (vec![], vec![]));
    assert!(stand.candidate.next_due() > stand.now + Span::from_millis(2));
}

#[test]
fn one_that_a_few_granted_a_lease_in_vain_gives_it_back() {
    let mut stand = Stand::new();
    stand.does(|candidate, fx, now| candidate.contend(fx, now));
    stand.replies(1..=3, |request| Reply::Promised { request });
    stand.replies([1, 2], accepted);
    assert_eq!(released(&stand.replies(3..=5, held)), Some((1, None)));
}

/// Steps down before it tells anybody, and lets others go first for a ttl.
#[test]
fn a_release_is_told_after_it_has_stepped_down() {
    let mut stand = Stand::leading();
    let done = stand.does(|candidate, fx, now| candidate.release(fx, now));
    assert_eq!((done.first(), released(&done)), (Some(&Done::Announced(SteppedDown)), Some((1, None))));
    assert_eq!(stand.hears(1, Reply::Vacant { promised: 1 }), [], "it stands back");
    let done = stand.due();
    assert!(done.iter().all(|act| matches!(act, Done::Asked(_, Ask::Enquire { standing: None, .. }))));
    stand.wait(TTL);
    stand.due();
    let done = stand.due();
    assert!(done.iter().any(|act| matches!(act, Done::Asked(_, Ask::Enquire { standing: Some(50), .. }))));
    let done = stand.hears(1, Reply::Vacant { promised: 7 });
    assert_eq!(asked(&done), (vec![8], vec![]), "it contends again");
}

/// Voters may have granted the greater token already: then the release of the lesser one says nothing to them.
#[test]
fn a_release_is_told_of_a_greater_token_too_that_was_being_proposed() {
    let mut stand = Stand::leading();
    stand.due();
    stand.replies(1..=3, rejected);
    assert_eq!(asked(&stand.replies(1..=3, |request| Reply::Promised { request })), (vec![], vec![41]));
    let done = stand.does(|candidate, fx, now| candidate.release(fx, now));
    let tokens = done.iter().filter_map(|act| match act {
        Done::Asked(5, Ask::Release { token, .. }) => Some(token.number()),
        _ => None,
    });
    assert_eq!(tokens.collect::<Vec<_>>(), [1, 41]);
}

/// With a clock that never goes back, what is asked later ends later. A clock that is set back and then right again must
/// not make a leader release the grants that it leads by.
#[test]
fn a_leader_does_not_give_back_what_it_won_too_late_by_a_clock_that_was_set_back() {
    let mut stand = Stand::leading();
    stand.wait(10);
    stand.due();
    stand.replies(1..=3, accepted);
    let lease = stand.candidate.lease().unwrap();
    stand.now = Time::ZERO;
    // A late rejection makes it prepare a greater token, and propose it by the wrong clock.
    assert_eq!(asked(&stand.hears(4, rejected(stand.candidate.won.unwrap()))).0, [41]);
    assert_eq!(asked(&stand.replies(1..=3, |request| Reply::Promised { request })).1, [41]);
    stand.now = Time::ZERO + Span::from_millis(TTL);
    assert!(stand.now < lease.valid_until);
    let done = stand.replies(1..=3, accepted);
    // It asks anew, at once, and leads on.
    assert_eq!((released(&done), asked(&done)), (None, (vec![42], Vec::new())));
    assert_eq!(stand.candidate.lease(), Some(lease));
}

#[test]
fn a_transfer_names_the_successor_and_not_itself() {
    let mut stand = Stand::leading();
    assert_eq!(stand.does(|candidate, fx, now| candidate.transfer(fx, now, ME)), []);
    let done = stand.does(|candidate, fx, now| candidate.transfer(fx, now, NodeId(7)));
    assert_eq!(released(&done), Some((1, Some(NodeId(7)))));
    assert_eq!(stand.does(|candidate, fx, now| candidate.transfer(fx, now, NodeId(7))), []);
}

/// "An unhealthy leader steps down, an unhealthy candidate does not run."
#[test]
fn one_that_is_not_well_neither_leads_nor_stands() {
    let mut stand = Stand::leading();
    let done = stand.does(|candidate, fx, now| candidate.set_healthy(fx, now, false));
    assert_eq!((announced(&done), released(&done)), (vec![SteppedDown], Some((1, None))));
    stand.wait(10 * TTL);
    assert_eq!(stand.does(|candidate, fx, now| candidate.contend(fx, now)), []);
    assert_eq!(stand.hears(1, Reply::Vacant { promised: 1 }), []);
    assert_eq!(announced(&stand.told(1..=3, 4)), [elected(4, 5)], "it knows who leads all the same");
    stand.does(|candidate, fx, now| candidate.set_healthy(fx, now, true));
    assert_eq!(asked(&stand.hears(1, Reply::Vacant { promised: 5 })), (vec![6], vec![]));
    let done = stand.does(|candidate, fx, now| candidate.set_healthy(fx, now, false));
    assert_eq!(done, [], "what was only prepared needs no release");
    assert_eq!(asked(&stand.replies(1..=3, |request| Reply::Promised { request })), (vec![], vec![]));
}

/// "A majority read answers who leads as of now."
#[test]
fn it_follows_whom_a_majority_of_voters_names() {
    let mut stand = Stand::new();
    assert_eq!(announced(&stand.told(1..=2, 4)), []);
    let request = stand.candidate.request;
    assert_eq!(stand.hears(3, Reply::Status { request, promised: 5, grant: None }), []);
    assert_eq!(announced(&stand.due()), [], "two of five are no majority");
    assert_eq!(announced(&stand.told(1..=3, 4)), [elected(4, 5)]);
    assert_eq!(announced(&stand.told(2..=4, 4)), []);
    assert_eq!(announced(&stand.told(2..=4, 6)), [elected(6, 5)]);
    stand.due();
    assert_eq!(announced(&stand.due()), [], "nobody answers: it asks again");
    assert_eq!(announced(&stand.due()), [Undecided], "nobody answers");
}

/// Answers can be late: what they leave open is asked once more, and at once. What they rule out is believed.
#[test]
fn missing_answers_make_it_ask_again_and_a_majority_of_denials_makes_it_forget() {
    let vacant = |request| Reply::Status { request, promised: 5, grant: None };
    let follower = || {
        let mut stand = Stand::new();
        assert_eq!(announced(&stand.told(1..=3, 4)), [elected(4, 5)]);
        assert_eq!(stand.told(1..=1, 4), [], "one of five so far");
        stand
    };
    let mut stand = follower();
    stand.replies(2..=3, vacant);
    let again = stand.due();
    assert_eq!(
        (announced(&again), stand.candidate.stage()),
        (vec![], Stage::Enquiring),
        "the last two may say 4"
    );
    assert_eq!(announced(&stand.told(1..=3, 4)), [], "they do: nothing has happened");
    assert_eq!(stand.told(1..=1, 4), []);
    stand.replies(2..=3, vacant);
    assert_eq!(announced(&stand.due()), [], "it may ask again anew");

    let mut stand = follower();
    stand.replies(2..=4, vacant);
    assert_eq!(announced(&stand.due()), [Undecided], "with the fifth, 4 has two of five at most");
}

/// It crashed while it led: what it holds at the voters is its own, and it need not wait for it to expire.
#[test]
fn one_that_finds_itself_named_contends_at_once() {
    let mut stand = Stand::new();
    assert_eq!(asked(&stand.told(1..=3, 9)), (vec![6], vec![]));
}

fn claims(done: &[Done]) -> bool {
    done.contains(&Done::Claimed(4, 50))
}

/// "A better-ranked candidate takes over only after it has been eligible for a fail-back delay."
#[test]
fn a_better_one_asks_a_worse_leader_to_hand_over_after_the_fail_back_delay() {
    let mut stand = Stand::with(Options { failback: Some(100), ..Options::default() }, 7);
    while stand.now < Time::ZERO + Span::from_millis(95) {
        assert!(!claims(&stand.told(1..=3, 4)));
    }
    stand.wait(10);
    assert!(claims(&stand.told(1..=3, 4)));
    // Its rank changes, or its health: the delay starts anew.
    stand.does(|candidate, _, now| candidate.set_attribute(now, 60));
    stand.does(|candidate, _, now| candidate.set_attribute(now, 50));
    assert!(!claims(&stand.told(1..=3, 4)));
    stand.wait(110);
    assert!(claims(&stand.told(1..=3, 4)));
    for healthy in [false, true] {
        stand.does(|candidate, fx, now| candidate.set_healthy(fx, now, healthy));
    }
    assert!(!claims(&stand.told(1..=3, 4)));
    stand.wait(110);
    stand.does(|candidate, _, now| candidate.set_attribute(now, 10));
    stand.wait(110);
    assert!(!claims(&stand.told(1..=3, 4)), "an equal one does not ask");
    let mut stand = Stand::new();
    stand.wait(1_000);
    assert!(!claims(&stand.told(1..=3, 4)), "nor where it is off");
}

#[test]
fn a_leader_hands_over_to_a_better_one_only() {
    let mut stand = Stand::leading();
    for attribute in [49, 50] {
        assert_eq!(stand.does(|candidate, fx, now| candidate.on_claim(fx, now, NodeId(7), attribute)), []);
    }
    let done = stand.does(|candidate, fx, now| candidate.on_claim(fx, now, NodeId(7), 51));
    assert_eq!(released(&done), Some((1, Some(NodeId(7)))));
}

#[test]
fn strangers_are_not_listened_to() {
    let mut stand = Stand::new();
    stand.does(|candidate, fx, now| candidate.contend(fx, now));
    assert_eq!(asked(&stand.replies([6, 7, 8], |request| Reply::Promised { request })), (vec![], vec![]));
    assert_eq!(stand.hears(6, Reply::Vacant { promised: 3 }), []);
}

/// No zombie: whatever happened, something is due within a lease and a poll.
#[test]
fn there_is_always_something_to_do() {
    for seed in 0..200 {
        let mut stand = Stand::new();
        let rng = &mut Rng::new(seed);
        for _ in 0..200 {
            let reply: fn(Request) -> Reply = match rng.below(6) {
                0 => |request| Reply::Promised { request },
                1 => accepted,
                2 => rejected,
                3 => held,
                4 => |request| Reply::Status { request, promised: 3, grant: None },
                _ => |_| Reply::Vacant { promised: 2 },
            };
            let voter = 1 + rng.below(5);
            match rng.below(12) {
                0 => drop(stand.does(|candidate, fx, now| candidate.contend(fx, now))),
                1 => drop(stand.does(|candidate, fx, now| candidate.release(fx, now))),
                2 => drop(stand.does(|candidate, fx, now| candidate.set_healthy(fx, now, voter < 3))),
                3 | 4 => drop(stand.due()),
                _ => drop(stand.replies([voter], reply)),
            }
            stand.now = stand.now + Span::from_units(rng.unit() * 3.0);
            assert!(stand.candidate.next_due() <= stand.now + Span::from_millis(2 * TTL), "seed {seed}");
        }
    }
}

/// What it asks the voters for, if it is the same of all.
fn asks(done: &[Done]) -> Vec<&'static str> {
    let mut asked: Vec<_> = done
        .iter()
        .filter_map(|done| match done {
            Done::Asked(_, Ask::Enquire { .. }) => Some("enquire"),
            Done::Asked(_, Ask::Prepare { .. }) => Some("prepare"),
            Done::Asked(..) => Some("other"),
            _ => None,
        })
        .collect();
    asked.dedup();
    asked
}

fn nobody(request: Request) -> Reply {
    Reply::Status { request, promised: 5, grant: None }
}

#[test]
fn one_whose_clients_may_have_outlived_it_waits_until_its_own_lease_is_over() {
    // Whoever led by itself can have it again at once.
    let mut alone = Stand::new();
    assert_eq!(asks(&alone.told(1..=3, ME.0)), ["prepare"]);

    let mut stand = Stand::new();
    stand.candidate = stand.candidate.wait_out_previous_holder();
    assert_eq!(asks(&stand.does(|candidate, fx, now| candidate.contend(fx, now))), ["enquire"]);
    for _ in 0..5 {
        let done = stand.told(1..=3, ME.0);
        assert_eq!(asks(&done), [""; 0], "a client may still lead by it");
        assert!(
            !done.iter().any(|done| matches!(done, Done::Announced(_))),
            "and nobody takes it for a leader"
        );
    }
    // Being woken, or told to contend again, does not change that.
    assert_eq!(asks(&stand.hears(4, Reply::Vacant { promised: 5 })), ["enquire"]);
    assert_eq!(asks(&stand.told(1..=3, ME.0)), [""; 0]);
    // A majority that has nothing is enough to know that nobody has one; and then it loses no time.
    while !matches!(stand.candidate.round, Round::Enquiry { .. }) {
        stand.due();
    }
    assert_eq!(asks(&stand.replies(1..=2, nobody)), [""; 0]);
    assert_eq!(asks(&stand.replies(3..=3, nobody)), ["prepare"]);
    // From then on it is as any other.
    stand.replies(1..=3, |request| Reply::Promised { request });
    stand.replies(1..=3, accepted);
    assert_eq!(stand.candidate.lease().map(|lease| lease.token), Some(token(6)));
    stand.wait(TTL);
    stand.due();
    assert_eq!(asks(&stand.told(1..=3, ME.0)), ["prepare"]);
}

#[test]
fn what_silent_voters_may_hold_for_it_counts_as_held() {
    let mut stand = Stand::new();
    stand.candidate = stand.candidate.wait_out_previous_holder();
    stand.does(|candidate, fx, now| candidate.contend(fx, now));
    // Two of five say that they hold it for this one, one that it does not; two say nothing.
    stand.told(1..=2, ME.0);
    assert_eq!(asks(&stand.replies(3..=3, nobody)), [""; 0]);
    assert_eq!(asks(&stand.due()), [""; 0], "the round is over, and all of the silent may");
    stand.told(1..=2, ME.0);
    assert_eq!(asks(&stand.replies(3..=5, nobody)), ["prepare"], "two of five are no majority");
}

#[test]
fn one_whose_clients_may_have_outlived_it_follows_others_and_does_not_stand_unless_it_is_to() {
    let mut stand = Stand::new();
    stand.candidate = stand.candidate.wait_out_previous_holder();
    assert_eq!(asks(&stand.told(1..=3, 3)), [""; 0]);
    assert_eq!(stand.candidate.leader().map(|grant| grant.holder), Some(NodeId(3)));
    // Another's majority is proof that this one has none.
    assert_eq!(asks(&stand.does(|candidate, fx, now| candidate.contend(fx, now))), ["prepare"]);

    let mut stand = Stand::new();
    stand.candidate = stand.candidate.wait_out_previous_holder();
    stand.does(|candidate, fx, now| {
        candidate.contend(fx, now);
        candidate.set_healthy(fx, now, false);
    });
    assert_eq!(asks(&stand.replies(1..=5, nobody)), [""; 0], "it does not stand any more");
}
