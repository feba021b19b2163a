//! A voter whose disk is slow: what waits for it, and what does not.

use super::*;

/// The effects of a voter whose saves end later.
#[derive(Default)]
struct Slow {
    replied: Vec<(NodeId, Reply)>,
    begun: Vec<Saved>,
}

impl Effects for Slow {
    fn save(&mut self, _: &Saved) {
        panic!("only a start waits for the disk");
    }
    fn begin_save(&mut self, saved: &Saved) -> bool {
        self.begun.push(saved.clone());
        false
    }
    fn reply(&mut self, to: NodeId, _: Name, reply: Reply) {
        self.replied.push((to, reply));
    }
}

/// A voter that has granted the election to A with token 1, and then has a slow disk.
struct SlowVoter {
    voter: Voter,
    now: Time,
    fx: Slow,
}

impl SlowVoter {
    fn new() -> SlowVoter {
        let mut harness = Harness::new();
        harness.voter.timings.longest_ttl = Span::from_millis(1_000);
        assert!(promised(harness.prepare(A, 1)) && accepted(harness.propose(A, 1)));
        SlowVoter { voter: harness.voter, now: harness.now, fx: Slow::default() }
    }

    fn ask(&mut self, name: &str, from: NodeId, ask: Ask) -> Option<Reply> {
        self.voter.on_ask(&mut self.fx, self.now, (from, BOOT), Name::of(name), ask);
        self.reply()
    }

    fn reply(&mut self) -> Option<Reply> {
        assert!(self.fx.replied.len() <= 1, "{:?}", self.fx.replied);
        self.fx.replied.pop().map(|(_, reply)| reply)
    }

    fn prepare(&mut self, name: &str, from: NodeId, number: u64) -> Option<Reply> {
        self.ask(name, from, Ask::Prepare { request: Request(1), token: token(number), attribute: 0 })
    }

    fn propose(&mut self, name: &str, from: NodeId, number: u64, ttl: u64) -> Option<Reply> {
        let (token, ttl) = (token(number), Span::from_millis(ttl));
        self.ask(
            name,
            from,
            Ask::Propose {
                request: Request(1),
                token,
                ttl,
                attribute: 0,
                renewal: false,
                value: crate::ValueVersion::NONE,
            },
        )
    }

    fn renew(&mut self) -> Option<Reply> {
        self.propose("an election", A, 1, TTL)
    }

    /// The number of saves that the voter has begun.
    fn begun(&self) -> usize {
        self.fx.begun.len()
    }

    /// Ends the save of this number.
    fn saved(&mut self, number: usize) -> Durable {
        let state = self.fx.begun[number].clone();
        self.voter.on_saved(&mut self.fx, self.now, state)
    }
}

#[test]
fn a_promise_above_the_ceiling_waits_for_the_disk_and_renewals_do_not() {
    let mut slow = SlowVoter::new();
    assert_eq!(slow.prepare("x", B, 5_000), None);
    assert_eq!(slow.begun(), 1);
    assert!(accepted(slow.renew()) && promised(slow.prepare("y", C, 7)), "the disk has their ceiling");
    assert_eq!(slow.prepare("z", C, 5_500), None, "the same save is enough");
    assert_eq!(slow.begun(), 1);
    slow.saved(0);
    let replied: Vec<(NodeId, bool)> =
        slow.fx.replied.drain(..).map(|(to, reply)| (to, promised(Some(reply)))).collect();
    assert_eq!(replied, [(B, true), (C, true)]);
    assert_eq!(rejected(slow.prepare("x", C, 5_000)), Some(5_000));
    slow.saved(0);
    assert_eq!(slow.reply(), None, "each is answered once");
}

#[test]
fn a_longer_lease_waits_for_the_disk_also_while_a_shorter_one_is_being_saved() {
    let mut slow = SlowVoter::new();
    assert!(promised(slow.prepare("x", B, 2)));
    assert_eq!(slow.propose("x", B, 2, 100), None);
    slow.saved(0);
    assert!(accepted(slow.reply()) && slow.begun() == 1);
    // All leases expire, and at the end of the next period the voter begins to save that.
    for _ in 0..2 {
        slow.now = slow.now + Span::from_millis(500);
        slow.voter.on_due(&mut slow.fx, slow.now);
    }
    slow.fx.replied.clear();
    assert!(slow.begun() == 2 && slow.fx.begun[1].longest.is_zero());
    assert_eq!(slow.voter.next_due().filter(|due| *due <= slow.now), None, "it does not try again and again");
    // The disk still has the longer one, but not for long.
    assert!(promised(slow.prepare("x", B, 3)));
    assert_eq!(slow.propose("x", B, 3, 50), None);
    assert!(slow.begun() == 3 && slow.fx.begun[2].longest == Span::from_millis(50));
    slow.saved(1);
    assert_eq!(slow.reply(), None);
    slow.saved(2);
    assert!(accepted(slow.reply()));
}

/// After a restart nothing is granted: the voter would take back at once what it has saved for the first lease.
#[test]
fn the_first_lease_waits_for_one_save() {
    let mut harness = Harness::new();
    assert!(promised(harness.prepare(B, 2)));
    let mut slow = SlowVoter { voter: harness.voter, now: harness.now, fx: Slow::default() };
    assert_eq!(slow.propose("an election", B, 2, TTL), None);
    slow.saved(0);
    assert!(accepted(slow.reply()) && slow.begun() == 1);
}

#[test]
fn a_state_that_is_saved_answers_what_it_covers() {
    let mut slow = SlowVoter::new();
    assert_eq!((slow.prepare("x", B, 2_000), slow.prepare("y", C, 9_000)), (None, None));
    assert_eq!(slow.begun(), 2);
    slow.saved(0);
    assert!(promised(slow.reply()) && slow.voter.saved().ceiling == 2_000 + TOKEN_CHUNK);
    slow.saved(1);
    assert!(promised(slow.reply()));
}

#[test]
fn the_last_question_of_a_candidate_counts_and_a_release_withdraws_it() {
    let mut slow = SlowVoter::new();
    assert_eq!((slow.prepare("x", B, 2_000), slow.prepare("x", B, 2_001)), (None, None));
    assert_eq!(slow.propose("x", B, 2_001, TTL), None);
    slow.ask("x", B, Ask::Release { token: token(2_001), to: None });
    slow.saved(0);
    assert_eq!(slow.reply(), None);
    assert!(slow.voter.grant(slow.now, Name::of("x")).is_none());
}

#[test]
fn a_proposal_that_waits_for_longer_than_its_lease_grants_nothing() {
    let mut slow = SlowVoter::new();
    assert!(promised(slow.prepare("x", B, 2)));
    assert_eq!(slow.propose("x", B, 2, 100), None);
    slow.now = slow.now + Span::from_millis(100);
    slow.saved(0);
    assert_eq!(slow.reply(), None);
    assert!(slow.voter.grant(slow.now, Name::of("x")).is_none());
}

/// Otherwise the leader would be elected without this voter, and would need a greater token for its next renewal.
#[test]
fn a_rival_does_not_overtake_a_proposal_that_waits() {
    let mut slow = SlowVoter::new();
    assert!(promised(slow.prepare("x", C, 2)));
    assert_eq!((slow.propose("x", C, 2, 100), slow.prepare("x", B, 3)), (None, None));
    assert!(promised(slow.prepare("y", B, 3)), "another election does not wait");
    slow.saved(0);
    let mut replied = slow.fx.replied.drain(..);
    assert!(matches!(replied.next(), Some((C, Reply::Accepted { .. }))));
    assert!(matches!(replied.next(), Some((B, Reply::Held { .. }))));
}

#[test]
fn a_reply_to_a_coordinator_waits_for_the_disk() {
    let mut slow = SlowVoter::new();
    let change = |slow: &mut SlowVoter, message| slow.voter.on_change(&mut slow.fx, slow.now, C, &message);
    assert_eq!(change(&mut slow, MembershipMessage::Prepare(ballot(3))), None);
    let refused = MembershipMessage::Refused(ballot(2), ChangeRefusal::Outbid(ballot(3)));
    assert_eq!(change(&mut slow, MembershipMessage::Prepare(ballot(2))), Some(refused));
    let next = next(slow.voter.saved(), 0);
    assert_eq!(change(&mut slow, MembershipMessage::Accept(ballot(3), next)), None);
    assert_eq!(slow.saved(0), Durable::default(), "the second change is not saved");
    let Durable { installed, replies } = slow.saved(1);
    assert!(!installed);
    assert!(
        matches!(
            replies.as_slice(),
            [(C, MembershipMessage::Promised { .. }), (C, MembershipMessage::Accepted(_))]
        ),
        "{replies:?}"
    );
}

#[test]
fn a_configuration_is_used_when_the_disk_has_it() {
    let mut slow = SlowVoter::new();
    let next = next(slow.voter.saved(), 5_000);
    assert!(!slow.voter.install(&mut slow.fx, slow.now, &next));
    assert_eq!(slow.voter.saved().configuration.version(), 0);
    assert!(!slow.voter.install(&mut slow.fx, slow.now, &next) && slow.begun() == 1, "it begins once");
    let prepare = MembershipMessage::Prepare(ballot(1));
    assert_eq!(slow.voter.on_change(&mut slow.fx, slow.now, C, &prepare), None, "the choice is over");
    assert!(accepted(slow.renew()), "it votes under the earlier one");
    assert_eq!(slow.prepare("x", B, 9_000), None);
    assert!(slow.saved(0).installed);
    assert_eq!((slow.voter.saved().configuration.version(), slow.reply()), (1, None));
    assert_eq!(slow.voter.drained_at(), slow.now + Span::from_millis(TTL), "the renewal counts");
    slow.saved(1);
    assert_eq!(slow.reply(), None, "a question of the earlier configuration is void");
    assert_eq!(rejected(slow.prepare("y", B, 5_000)), Some(5_000), "the floor counts");
}

/// A repeated question of a coordinator must not begin a second save of the same state: when that one ended, it would
/// restore a longer `longest` while the disk is about to have the shorter one.
#[test]
fn a_repeated_question_of_a_coordinator_does_not_grant_a_lease_that_the_disk_is_about_to_forget() {
    let mut slow = SlowVoter::new();
    slow.now = slow.now + Span::from_millis(TTL);
    let prepare = MembershipMessage::Prepare(ballot(3));
    for _ in 0..2 {
        assert_eq!(slow.voter.on_change(&mut slow.fx, slow.now, C, &prepare), None);
    }
    let replies = slow.saved(0).replies;
    assert_eq!(replies.len(), 2, "{replies:?}");
    // All leases expire, and the voter begins to save that there is none.
    for _ in 0..2 {
        slow.now = slow.now + Span::from_millis(TTL);
        slow.voter.on_due(&mut slow.fx, slow.now);
    }
    let shorter = slow.begun() - 1;
    assert!(slow.fx.begun[shorter].longest.is_zero());
    // A save of before ends.
    for number in 1..shorter {
        slow.saved(number);
    }
    assert!(promised(slow.prepare("x", B, 2)));
    let reply = slow.propose("x", B, 2, TTL);
    assert_eq!(reply, None, "after a crash, the disk would have {:?}", slow.fx.begun[shorter].longest);
}

/// What the disk has already is answered at once.
#[test]
fn a_question_of_a_coordinator_that_changes_nothing_is_not_saved() {
    let mut slow = SlowVoter::new();
    let prepare = MembershipMessage::Prepare(ballot(3));
    assert_eq!(slow.voter.on_change(&mut slow.fx, slow.now, C, &prepare), None);
    slow.saved(0);
    let reply = slow.voter.on_change(&mut slow.fx, slow.now, C, &prepare);
    assert!(matches!(reply, Some(MembershipMessage::Promised { .. })), "{reply:?}");
    assert_eq!(slow.begun(), 1);
}

/// A newcomer hears of its cluster, which has version 0 like the list that it was started with, and then of another one.
#[test]
fn a_newcomer_uses_the_configuration_of_its_cluster_when_the_disk_has_it() {
    let mut slow = SlowVoter::new();
    slow.voter.saved.certain = false;
    let found = |id| {
        let voters = [(NodeId(id), String::new())];
        Arc::new(Configuration::founding(voters, "1%".parse().unwrap()).unwrap())
    };
    assert!(!slow.voter.install(&mut slow.fx, slow.now, &found(7)));
    assert!(!slow.voter.install(&mut slow.fx, slow.now, &found(7)), "the disk does not have it yet");
    assert!(!slow.voter.install(&mut slow.fx, slow.now, &found(8)), "it is being saved that it has another");
    assert!(slow.begun() == 1 && slow.saved(0).installed);
    assert_eq!(*slow.voter.saved().configuration, *found(7));
}
