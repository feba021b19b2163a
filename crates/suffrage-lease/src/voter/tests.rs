//! Edge cases of a voter.

mod slow_disk;
mod waiting;

use super::*;

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const C: NodeId = NodeId(3);
/// The length of a lease, in delays.
const TTL: u64 = 30;
const GAP: u64 = 6;
const BOOT: Boot = Boot(7);
const ME: NodeId = NodeId(9);

/// The state of a voter that has promised nothing. The candidates vote, too.
fn blank() -> Saved {
    let voters = [ME, A, B, C].map(|id| (id, String::new()));
    let founding = Configuration::founding(voters, "1%".parse().unwrap()).unwrap();
    Saved::blank(DiskId(1), Arc::new(founding))
}

#[derive(Default)]
struct Record {
    replied: Vec<(NodeId, Reply)>,
    saved: Vec<Saved>,
    /// Whether a reply preceded the last save of the same input.
    replied_before_save: bool,
}

impl Effects for Record {
    fn save(&mut self, saved: &Saved) {
        self.replied_before_save |= !self.replied.is_empty();
        self.saved.push(saved.clone());
    }
    fn reply(&mut self, to: NodeId, _: Name, reply: Reply) {
        self.replied.push((to, reply));
    }
}

/// A voter, and its requests and saved state.
struct Harness {
    voter: Voter,
    now: Time,
    requests: u64,
    saved: Saved,
    saves: usize,
}

fn name() -> Name {
    Name::of("an election")
}

fn token(number: u64) -> Token {
    Token::after(number - 1)
}

fn time(units: u64) -> Time {
    Time::ZERO + Span::from_millis(units)
}

impl Harness {
    fn new() -> Harness {
        Harness::starting(VoterStart::Blank(blank()), time(0))
    }

    fn starting(start: VoterStart, now: Time) -> Harness {
        let record = &mut Record::default();
        let voter = Voter::start(Timings::of_tests(), record, now, start);
        let saved = record.saved.pop().expect("it saves that it exists");
        Harness { voter, now, requests: 0, saved, saves: 1 }
    }

    /// Crashes, and recovers with the disk.
    fn restart(&self) -> Harness {
        Harness::starting(VoterStart::Recovered(self.saved.clone()), self.now)
    }

    fn take_replies(&mut self, record: Record) -> Vec<(NodeId, Reply)> {
        assert!(!record.replied_before_save, "a reply must follow the save that it depends on");
        self.saves += record.saved.len();
        if let Some(saved) = record.saved.last() {
            self.saved = saved.clone();
        }
        record.replied
    }

    fn ask_about(&mut self, name: Name, from: NodeId, ask: Ask) -> Vec<(NodeId, Reply)> {
        let mut record = Record::default();
        self.voter.on_ask(&mut record, self.now, (from, BOOT), name, ask);
        self.take_replies(record)
    }

    /// The single reply, which goes to the sender.
    fn answer(&mut self, name: Name, from: NodeId, ask: Ask) -> Option<Reply> {
        let replied = self.ask_about(name, from, ask);
        assert!(replied.len() <= 1 && replied.iter().all(|(to, _)| *to == from), "{replied:?}");
        replied.first().map(|(_, reply)| *reply)
    }

    fn request(&mut self) -> Request {
        self.requests += 1;
        Request(self.requests)
    }

    fn prepare(&mut self, from: NodeId, number: u64) -> Option<Reply> {
        let request = self.request();
        self.answer(name(), from, Ask::Prepare { request, token: token(number), attribute: 0 })
    }

    fn propose_for(&mut self, from: NodeId, number: u64, ttl: u64) -> Option<Reply> {
        let (request, ttl) = (self.request(), Span::from_millis(ttl));
        let ask = Ask::Propose {
            request,
            token: token(number),
            ttl,
            attribute: 0,
            renewal: false,
            value: crate::ValueVersion::NONE,
        };
        self.answer(name(), from, ask)
    }

    fn propose(&mut self, from: NodeId, number: u64) -> Option<Reply> {
        self.propose_for(from, number, TTL)
    }

    fn release(&mut self, from: NodeId, number: u64, to: Option<NodeId>) -> Vec<NodeId> {
        let replied = self.ask_about(name(), from, Ask::Release { token: token(number), to });
        woken(&replied)
    }

    fn enquire(&mut self, from: NodeId, standing: Option<Attribute>) -> (u64, Option<Grant>) {
        let request = self.request();
        match self.answer(name(), from, Ask::Enquire { request, standing }) {
            Some(Reply::Status { promised, grant, .. }) => (promised, grant),
            other => panic!("{other:?}"),
        }
    }

    /// Advances time and runs what is due. Returns the woken candidates, and when each is woken.
    fn wait(&mut self, units: u64) -> Vec<(u64, NodeId)> {
        let end = self.now + Span::from_millis(units);
        let mut all = Vec::new();
        while let Some(due) = self.voter.next_due().filter(|due| *due <= end) {
            self.now = due;
            let mut record = Record::default();
            self.voter.on_due(&mut record, due);
            let at = due.as_nanos() / Span::UNIT.as_nanos();
            all.extend(woken(&self.take_replies(record)).into_iter().map(|who| (at, who)));
        }
        self.now = end;
        all
    }
}

fn woken(replied: &[(NodeId, Reply)]) -> Vec<NodeId> {
    let vacant = |(to, reply): &(NodeId, Reply)| matches!(reply, Reply::Vacant { .. }).then_some(*to);
    replied.iter().filter_map(vacant).collect()
}

fn promised(reply: Option<Reply>) -> bool {
    matches!(reply, Some(Reply::Promised { .. }))
}

fn accepted(reply: Option<Reply>) -> bool {
    matches!(reply, Some(Reply::Accepted { .. }))
}

fn rejected(reply: Option<Reply>) -> Option<u64> {
    match reply {
        Some(Reply::Rejected { promised, .. }) => Some(promised),
        _ => None,
    }
}

fn holder(reply: Option<Reply>) -> Option<NodeId> {
    match reply {
        Some(Reply::Held { grant, .. }) => Some(grant.holder),
        _ => None,
    }
}

#[test]
fn a_token_is_promised_to_one_candidate_once_and_never_a_smaller_one() {
    let mut harness = Harness::new();
    assert!(promised(harness.prepare(A, 5)));
    assert_eq!(rejected(harness.prepare(B, 5)), Some(5), "equal tokens");
    assert_eq!(rejected(harness.prepare(A, 5)), Some(5), "not even to the same one");
    assert_eq!(rejected(harness.prepare(B, 4)), Some(5));
    assert!(promised(harness.prepare(B, 6)));
    assert_eq!(rejected(harness.propose(A, 5)), Some(6));
    assert!(accepted(harness.propose(B, 6)));
}

/// "Answers Held and changes nothing: a waiting candidate can never disturb a leader."
#[test]
fn while_an_election_is_held_nothing_changes_for_the_holder() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    assert!(accepted(harness.propose(A, 1)));
    harness.wait(10);
    let Some(Reply::Held { grant, remaining, .. }) = harness.prepare(B, 9) else { panic!("it is held") };
    assert_eq!((grant.holder, grant.token, remaining), (A, token(1), Span::from_millis(TTL - 10)));
    assert_eq!(holder(harness.propose(B, 9)), Some(A));
    assert!(accepted(harness.propose(A, 1)), "a renewal with the same token");
    assert_eq!(harness.enquire(C, None).0, 1);
}

#[test]
fn a_grant_expires_by_the_voters_clock_whether_its_timer_has_fired_or_not() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    harness.propose(A, 1);
    harness.now = time(TTL) + Span::ZERO;
    assert!(promised(harness.prepare(B, 2)));
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    harness.propose(A, 1);
    harness.now = Time::from_nanos(time(TTL).as_nanos() - 1);
    assert_eq!(holder(harness.prepare(B, 2)), Some(A));
}

#[test]
fn the_holder_may_prepare_a_greater_token_and_keeps_its_grant() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    harness.propose(A, 1);
    harness.wait(20);
    assert!(promised(harness.prepare(A, 2)));
    assert_eq!(holder(harness.prepare(B, 9)), Some(A), "what it holds is not given up by that");
    harness.wait(9);
    assert_eq!(holder(harness.prepare(B, 9)), Some(A));
    assert_eq!(rejected(harness.propose(A, 1)), Some(2));
    assert!(accepted(harness.propose(A, 2)));
    harness.wait(29);
    assert_eq!(harness.enquire(B, None).1.map(|grant| grant.token), Some(token(2)));
}

/// "A delayed or duplicated Propose after Release, or after expiry": after expiry it delays others by one ttl at worst,
/// and only if nothing greater was promised.
#[test]
fn a_late_proposal_after_expiry_delays_others_by_one_ttl_at_most() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    harness.propose(A, 1);
    harness.wait(TTL);
    assert!(accepted(harness.propose(A, 1)), "the late one");
    assert_eq!(holder(harness.prepare(B, 2)), Some(A));
    harness.wait(TTL);
    assert!(promised(harness.prepare(B, 2)));
    assert_eq!(rejected(harness.propose(A, 1)), Some(2), "and once more, later still");
    assert!(accepted(harness.propose(B, 2)));
    assert_eq!(holder(harness.propose(A, 1)), Some(B));
}

#[test]
fn a_renewal_that_its_release_has_overtaken_is_refused() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    harness.propose(A, 1);
    harness.enquire(B, Some(0));
    assert_eq!(harness.release(A, 1, None), [B]);
    assert_eq!(rejected(harness.propose(A, 1)), Some(1), "the late one");
    assert_eq!(harness.enquire(C, None), (1, None));
    // The next token is not affected, whichever candidate has it.
    assert!(promised(harness.prepare(A, 2)));
    assert!(accepted(harness.propose(A, 2)) && accepted(harness.propose(A, 2)));
    // A greater token that the holder was promised before its release is not affected either.
    assert!(promised(harness.prepare(A, 3)));
    harness.release(A, 2, None);
    assert_eq!(rejected(harness.propose(A, 2)), Some(3));
    assert!(accepted(harness.propose(A, 3)));
}

#[test]
fn a_proposal_that_its_release_has_overtaken_is_refused() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    assert_eq!(harness.release(A, 1, None), []);
    assert_eq!(rejected(harness.propose(A, 1)), Some(1));
    assert!(promised(harness.prepare(B, 2)) && accepted(harness.propose(B, 2)));
    // The release of a token that another candidate holds changes nothing.
    harness.release(A, 2, None);
    assert!(accepted(harness.propose(B, 2)));
}

#[test]
fn a_released_election_that_is_forgotten_leaves_nothing_behind() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    harness.propose(A, 1);
    harness.release(A, 1, None);
    assert_eq!(harness.voter.released.len(), 1);
    harness.wait(GAP);
    assert!(harness.voter.is_empty() && harness.voter.released.is_empty());
}

/// A later grant never shortens an earlier one: the later one may not win a majority.
#[test]
fn a_shorter_lease_does_not_end_the_longer_one() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    harness.propose_for(A, 1, TTL);
    harness.propose_for(A, 1, 1);
    harness.wait(TTL - 1);
    assert_eq!(holder(harness.prepare(B, 2)), Some(A));
}

#[test]
fn a_late_release_does_not_touch_a_later_grant() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    harness.propose(A, 1);
    assert_eq!(harness.release(A, 1, None), []);
    harness.prepare(A, 2);
    harness.propose(A, 2);
    harness.enquire(B, Some(0));
    for (who, number) in [(A, 1), (B, 2), (A, 3)] {
        assert_eq!(harness.release(who, number, None), []);
    }
    assert_eq!(harness.enquire(C, None).1.map(|grant| grant.holder), Some(A));
    assert_eq!(harness.release(A, 2, None), [B]);
}

/// "Silent until the longest ttl it may have granted has passed; tokens above the saved ceiling."
#[test]
fn a_restarted_voter_is_silent_and_promises_only_above_the_ceiling() {
    let mut harness = Harness::new();
    harness.prepare(A, 7);
    harness.propose_for(A, 7, 3);
    harness.propose_for(A, 7, 20);
    harness.propose_for(A, 7, 10);
    harness.wait(5);
    let mut harness = harness.restart();
    assert_eq!(harness.saved, Saved { ceiling: 7 + TOKEN_CHUNK, longest: Span::from_millis(20), ..blank() });
    for units in [0, 19] {
        harness.wait(units);
        assert_eq!(harness.prepare(B, 9_000), None);
        assert_eq!(harness.propose(A, 7), None);
        assert_eq!(harness.ask_about(name(), C, Ask::Enquire { request: Request(0), standing: Some(1) }), []);
    }
    harness.wait(1);
    assert_eq!(rejected(harness.propose(A, 7)), Some(7 + TOKEN_CHUNK));
    assert_eq!(rejected(harness.prepare(B, 7 + TOKEN_CHUNK)), Some(7 + TOKEN_CHUNK));
    assert!(promised(harness.prepare(B, 8 + TOKEN_CHUNK)));
}

#[test]
fn a_voter_saves_in_chunks_and_when_a_lease_is_longer_than_any_before() {
    let mut harness = Harness::new();
    let saves = |harness: &mut Harness, number| {
        let before = harness.saves;
        assert!(promised(harness.prepare(A, number)));
        harness.saves - before
    };
    assert_eq!(saves(&mut harness, 1), 1);
    for number in 2..=1 + TOKEN_CHUNK {
        assert_eq!(saves(&mut harness, number), 0, "{number}");
    }
    assert_eq!(saves(&mut harness, 2 + TOKEN_CHUNK), 1);
    let before = harness.saves;
    for ttl in [10, 10, 5, 20, 20] {
        assert!(accepted(harness.propose_for(A, 2 + TOKEN_CHUNK, ttl)));
    }
    assert_eq!(harness.saves - before, 2, "for 10 and for 20: none on the way of renewals");
}

#[test]
fn a_voter_that_lost_its_disk_never_votes_again() {
    let harness = Harness::starting(VoterStart::Blank(Saved { trusted: false, ..blank() }), time(0));
    assert!(!harness.voter.may_vote(ME));
    assert!(!harness.restart().voter.may_vote(ME), "not after another restart either");
}

#[test]
fn a_lease_of_nothing_or_of_years_is_not_granted() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    assert_eq!(harness.propose_for(A, 1, 0), None);
    for ttl in [TTL + 1, u64::MAX / Span::UNIT.as_nanos()] {
        let reply = harness.propose_for(A, 1, ttl);
        assert!(matches!(reply, Some(Reply::TooLong { longest, .. }) if longest == Span::from_millis(TTL)));
    }
    assert_eq!(harness.saved.longest, Span::ZERO);
}

/// "Names with no live grant are forgotten without ever letting a token go backwards."
#[test]
fn elections_without_a_grant_are_forgotten_and_no_token_goes_backwards() {
    let mut harness = Harness::new();
    harness.prepare(A, 50);
    harness.propose(A, 50);
    let other = Name::of("another election");
    let ask = |number| Ask::Prepare { request: Request(0), token: token(number), attribute: 0 };
    assert!(promised(harness.answer(other, B, ask(3))), "names are independent");
    assert_eq!(harness.voter.len(), 2);
    harness.wait(GAP);
    assert_eq!(harness.voter.len(), 1, "what was promised and never proposed");
    harness.wait(TTL + GAP);
    assert!(harness.voter.is_empty() && harness.voter.next_due().is_none());
    assert_eq!(rejected(harness.prepare(B, 50)), Some(50));
    assert_eq!(rejected(harness.answer(other, B, ask(4))), Some(50), "the greatest counts for all");
    assert!(promised(harness.prepare(B, 51)));
    assert!(promised(harness.answer(other, B, ask(51))));
}

#[test]
fn an_enquiry_of_a_candidate_that_does_not_stand_is_not_recorded() {
    let mut harness = Harness::new();
    assert_eq!(harness.enquire(A, None), (0, None));
    assert!(harness.voter.is_empty());
}

/// "Release … wakes waiters in order": by rank, first come first served within one, a gap apart.
#[test]
fn waiters_are_woken_in_rank_order_one_after_the_other() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    harness.propose(A, 1);
    for (who, attribute) in [(11, 1), (12, 5), (13, 3), (14, 3)] {
        harness.enquire(NodeId(who), Some(attribute));
    }
    assert_eq!(harness.release(A, 1, None), [NodeId(12)]);
    let order = [(GAP, NodeId(13)), (2 * GAP, NodeId(14)), (3 * GAP, NodeId(11))];
    assert_eq!(harness.wait(10 * GAP), order);
}

#[test]
fn on_expiry_only_the_best_candidate_is_woken_if_it_is_elected() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    harness.propose(A, 1);
    harness.enquire(B, Some(2));
    harness.enquire(C, Some(1));
    assert_eq!(harness.wait(TTL), [(TTL, B)]);
    harness.wait(2);
    assert!(promised(harness.prepare(B, 2)));
    assert_eq!(harness.wait(GAP - 1), [], "a promise is time to propose in");
    assert!(accepted(harness.propose(B, 2)));
    assert_eq!(harness.wait(TTL - 1), []);
    assert_eq!(harness.wait(1), [(TTL + 2 + GAP - 1 + TTL, C)]);
}

#[test]
fn a_transfer_wakes_the_named_candidate_and_falls_back_to_the_best() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    harness.propose(A, 1);
    for (who, attribute) in [(B, 9), (C, 1)] {
        harness.enquire(who, Some(attribute));
    }
    assert_eq!(harness.release(A, 1, Some(C)), [C]);
    assert_eq!(harness.wait(GAP), [(GAP, B)]);
    harness.prepare(B, 2);
    harness.propose(B, 2);
    harness.enquire(C, Some(1));
    assert_eq!(harness.release(B, 2, Some(NodeId(77))), [C], "a stranger is not waited for");
}

#[test]
fn without_a_leader_enquiring_candidates_are_woken_in_order_after_a_gap() {
    let mut harness = Harness::new();
    harness.enquire(A, Some(1));
    harness.wait(2);
    harness.enquire(B, Some(2));
    assert_eq!(harness.wait(3 * GAP), [(GAP, B), (2 * GAP, A)]);
    assert!(harness.voter.is_empty());
}

/// With B-tree nodes as empty as they can be.
#[test]
fn a_held_election_takes_less_than_210_bytes() {
    assert_eq!(size_of::<Election>(), 48);
    const { assert!(VOTER_MEMORY < 210) };
    println!("{VOTER_MEMORY} bytes at most");
}

/// One timer serves all elections.
#[test]
fn a_hundred_thousand_elections_share_one_timer() {
    let mut harness = Harness::new();
    let names: Vec<Name> = (0..100_000).map(|number| Name::of(&format!("shard {number}"))).collect();
    for (index, &name) in names.iter().enumerate() {
        harness.now = Time::from_nanos(index as u64);
        let ttl = Span::from_millis(TTL);
        let propose = Ask::Propose {
            request: Request(0),
            token: token(1),
            ttl,
            attribute: 0,
            renewal: false,
            value: crate::ValueVersion::NONE,
        };
        assert!(accepted(harness.answer(name, A, propose)));
    }
    assert_eq!(harness.voter.len(), names.len());
    assert_eq!(harness.voter.next_due(), Some(time(TTL)));
    harness.wait(TTL + 2 * GAP);
    assert!(harness.voter.is_empty());
}

/// A second process with the same id waits until the lease of the first one has expired, or is released.
#[test]
fn a_grant_belongs_to_one_boot_of_its_holder() {
    let mut harness = Harness::new();
    let other = Boot(8);
    harness.prepare(A, 1);
    assert!(accepted(harness.propose(A, 1)));
    let ask = |harness: &mut Harness, boot, ask| {
        let mut record = Record::default();
        harness.voter.on_ask(&mut record, harness.now, (A, boot), name(), ask);
        harness.take_replies(record).first().map(|(_, reply)| *reply)
    };
    let (request, ttl, attribute) = (Request(90), Span::from_millis(TTL), 0);
    let prepare = Ask::Prepare { request, token: token(2), attribute };
    assert!(matches!(ask(&mut harness, other, prepare), Some(Reply::Held { .. })));
    let propose = Ask::Propose {
        request,
        token: token(1),
        ttl,
        attribute,
        renewal: true,
        value: crate::ValueVersion::NONE,
    };
    assert!(matches!(ask(&mut harness, other, propose), Some(Reply::Held { .. })));
    ask(&mut harness, other, Ask::Release { token: token(1), to: None });
    assert!(matches!(ask(&mut harness, other, prepare), Some(Reply::Held { .. })), "nor can it give it back");
    ask(&mut harness, BOOT, Ask::Release { token: token(1), to: None });
    assert!(matches!(ask(&mut harness, other, prepare), Some(Reply::Promised { .. })));
}

#[test]
fn a_long_lease_that_has_expired_does_not_prolong_the_silence_after_a_restart() {
    let timings = Timings { longest_ttl: Span::from_millis(1_000), ..Timings::of_tests() };
    let mut harness = Harness::new();
    harness.voter.timings = timings;
    harness.prepare(A, 1);
    harness.propose_for(A, 1, 500);
    harness.release(A, 1, None);
    let longest = |harness: &Harness| harness.saved.longest.as_nanos() / Span::UNIT.as_nanos();
    for round in 0..49 {
        harness.wait(10);
        harness.prepare(B, 2 + round);
        assert!(accepted(harness.propose_for(B, 2 + round, 20)));
        assert_eq!(longest(&harness), 500, "the holder may rely on it");
        harness.release(B, 2 + round, None);
    }
    harness.wait(550);
    assert_eq!(longest(&harness), 0, "all leases have expired");
    let writes = harness.saves;
    harness.prepare(A, 100);
    for _ in 0..100 {
        harness.wait(10);
        assert!(accepted(harness.propose_for(A, 100, 20)));
    }
    assert_eq!(harness.saves - writes, 1, "renewals of one length write once");
}

#[test]
fn expired_watchers_are_pruned_while_their_election_stays_held() {
    let mut test = Harness::new();
    assert!(promised(test.prepare(A, 1)) && accepted(test.propose(A, 1)));
    let live = test.voter.timings.stale_after.as_nanos().div_ceil(Span::from_millis(TTL / 3).as_nanos());
    for node in 100..1_100 {
        test.wait(TTL / 3);
        assert!(accepted(test.propose(A, 1)), "the holder renews");
        let request = test.request();
        test.ask_about(name(), NodeId(node), Ask::Watch { request });
        assert!(test.voter.watchers.len() as u64 <= live, "{} watchers", test.voter.watchers.len());
    }
    for _ in 0..=live {
        test.wait(TTL / 3);
        assert!(accepted(test.propose(A, 1)), "the holder renews");
    }
    assert!(test.voter.watchers.is_empty(), "renewals prune the last watchers");
    assert_eq!(test.voter.watchers, Watchers::default(), "nothing is left of them");
}

fn ballot(counter: u64) -> Ballot {
    Ballot { counter, coordinator: A, boot: 0 }
}

/// Version 1 of the cluster, with this floor.
fn next(saved: &Saved, floor: u64) -> Arc<Configuration> {
    let mut voters = saved.configuration.voters().to_vec();
    voters.iter_mut().for_each(|voter| voter.disk = Some(saved.disk));
    Arc::new(saved.configuration.successor(voters, floor))
}

impl Harness {
    fn change(&mut self, message: &MembershipMessage) -> Option<MembershipMessage> {
        let mut record = Record::default();
        let reply = self.voter.on_change(&mut record, self.now, A, message);
        self.take_replies(record);
        reply
    }

    fn install(&mut self, configuration: &Arc<Configuration>) {
        let mut record = Record::default();
        self.voter.install(&mut record, self.now, configuration);
        self.take_replies(record);
    }
}

#[test]
fn an_installed_configuration_keeps_grants_and_raises_promises() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    harness.propose(A, 1);
    let next = next(&harness.saved, 5_000);
    harness.install(&next);
    assert_eq!((harness.saved.ceiling, &harness.saved.configuration), (5_000, &next));
    assert!(matches!(harness.prepare(B, 9_000), Some(Reply::Held { .. })));
    let other = Ask::Prepare { request: Request(1), token: token(5_000), attribute: 0 };
    let reply = harness.answer(Name::of("unknown"), B, other);
    assert!(matches!(reply, Some(Reply::Rejected { promised: 5_000, .. })), "every name has the floor");
    assert!(matches!(harness.prepare(A, 4_000), Some(Reply::Rejected { promised: 5_000, .. })));
    // An older one changes nothing, and a restart keeps the newer one.
    let older = Arc::clone(&blank().configuration);
    harness.install(&older);
    assert_eq!(harness.restart().voter.saved().configuration, next);
}

#[test]
fn a_voter_takes_part_in_a_change_only_when_earlier_leases_have_expired() {
    let mut harness = Harness::new();
    let promised =
        |reply: Option<MembershipMessage>| matches!(reply, Some(MembershipMessage::Promised { .. }));
    assert!(promised(harness.change(&MembershipMessage::Prepare(ballot(1)))), "it has granted nothing");
    harness.prepare(A, 1);
    harness.propose(A, 1);
    assert!(
        promised(harness.change(&MembershipMessage::Prepare(ballot(2)))),
        "grants of this version do not matter"
    );
    let next = next(&harness.saved, 0);
    harness.install(&next);
    harness.wait(TTL - 1);
    let left = Span::from_millis(1);
    let refused = MembershipMessage::Refused(ballot(3), ChangeRefusal::NotDrained(left));
    assert_eq!(harness.change(&MembershipMessage::Prepare(ballot(3))), Some(refused));
    harness.wait(1);
    assert!(promised(harness.change(&MembershipMessage::Prepare(ballot(3)))));
    // After a restart, grants from before count, and are unknown.
    harness.propose(A, 1);
    harness.prepare(A, 2_000);
    harness.propose(A, 2_000);
    let mut harness = harness.restart();
    harness.wait(TTL - 1);
    assert!(!promised(harness.change(&MembershipMessage::Prepare(ballot(4)))));
    harness.wait(1);
    assert!(promised(harness.change(&MembershipMessage::Prepare(ballot(4)))));
}

#[test]
fn what_a_voter_promised_and_accepted_survives_a_restart() {
    let mut harness = Harness::new();
    let next = next(&harness.saved, 7);
    harness.change(&MembershipMessage::Prepare(ballot(5)));
    let accepted = harness.change(&MembershipMessage::Accept(ballot(5), Arc::clone(&next)));
    assert_eq!(accepted, Some(MembershipMessage::Accepted(ballot(5))));
    let mut harness = harness.restart();
    let refused = MembershipMessage::Refused(ballot(4), ChangeRefusal::Outbid(ballot(5)));
    assert_eq!(harness.change(&MembershipMessage::Prepare(ballot(4))), Some(refused));
    let reply = harness.change(&MembershipMessage::Prepare(ballot(6)));
    let accepted = Some((ballot(5), Arc::clone(&next)));
    assert_eq!(reply, Some(MembershipMessage::Promised { ballot: ballot(6), accepted, ceiling: 0 }));
    // The next version is chosen anew.
    harness.install(&next);
    assert_eq!(harness.saved.acceptor, Acceptor::default());
    let far = Arc::new(next.successor(Vec::new(), 0));
    let reply = harness.change(&MembershipMessage::Accept(ballot(7), far));
    assert_eq!(reply, Some(MembershipMessage::Refused(ballot(7), ChangeRefusal::NotSuccessor)));
}
