//! One test per sentence on the invitation algorithm: Database Internals, ch. 10, and Garcia-Molina 1982.

use super::*;
use suffrage_core::testing::{Step, TestProcess, elected, to};

const OPTIONS: Options =
    Options { look: 10, fanout: 1, first: First::Successor, ready_timeout: 3, ask: 8, silence: 24 };

fn group(leader: u64, number: u64) -> Group {
    Group { leader: NodeId(leader), number: Term(number), life: 0 }
}

fn invitation(leader: u64, number: u64, size: u64) -> Message {
    let rank = Rank { attribute: leader as i64, id: NodeId(leader) };
    Message::Invitation { group: group(leader, number), size, rank }
}

fn accept(group: Group, followers: &[u64]) -> Message {
    Message::Accept { group, followers: followers.iter().copied().map(NodeId).collect() }
}

fn ready(group: Group) -> Message {
    Message::Ready { group }
}

fn merged(from: Group, into: Group) -> Message {
    Message::Merged { from, into }
}

fn not_here(from: Group, into: Group) -> Message {
    Message::NotHere { from, into }
}

fn leader(group: Group) -> Message {
    Message::Leader { group }
}

fn question(group: Group) -> Message {
    Message::AreYouThere { group }
}

/// A process of six, in its first group.
fn process(me: u64) -> TestProcess<Invitation> {
    TestProcess::new(me, 6, &OPTIONS)
}

/// The leader of its first group, with these followers.
fn leading(me: u64, followers: &[u64]) -> TestProcess<Invitation> {
    let mut subject = process(me);
    for &follower in followers {
        assert_eq!(
            subject.receive(follower, accept(group(me, 1), &[])).sent(),
            to([follower], ready(group(me, 1)))
        );
    }
    subject
}

/// Process 3, which follows 5 in the first group of 5.
fn follower() -> TestProcess<Invitation> {
    let mut subject = process(3);
    subject.receive(5, invitation(5, 1, 1));
    assert_eq!(subject.receive(5, ready(group(5, 1))).announced(), [elected(5, 1)]);
    subject
}

fn expire_silence(subject: &mut TestProcess<Invitation>) -> Step<Invitation> {
    subject.expire(Timer::Silence)
}

/// "Each process starts as a leader of a new group, where the only member is the process itself."
#[test]
fn every_process_starts_as_the_leader_of_a_group_of_one() {
    let step = TestProcess::<Invitation>::unstarted(3, 6, &OPTIONS).start(Start::Fresh);
    assert_eq!((step.announced(), step.sent()), (vec![elected(3, 1)], vec![]));
}

/// "Group leaders contact peers that do not belong to their groups, inviting them to join."
#[test]
fn leaders_invite_peers_outside_their_group_one_after_the_other() {
    let mut subject = leading(3, &[5]);
    for peer in [4, 6, 1, 2, 4] {
        assert_eq!(subject.expire(Timer::Look).sent(), to([peer], invitation(3, 1, 2)));
        subject.receive(5, leader(group(3, 1)));
    }
    subject.receive(2, accept(group(3, 1), &[1, 4, 6]));
    assert_eq!(subject.expire(Timer::Look).sent(), [], "no peer is outside");
}

/// Live peers are found soon, however many are dead.
#[test]
fn a_leader_without_answers_invites_more_peers() {
    let mut subject = process(3);
    assert_eq!(subject.campaign().sent(), to([4], invitation(3, 1, 1)));
    assert_eq!(subject.campaign().sent(), to([5, 6], invitation(3, 1, 1)));
    assert_eq!(subject.campaign().sent(), to([1, 2, 4, 5], invitation(3, 1, 1)));
    for _ in 0..70 {
        assert_eq!(subject.campaign().sent().len(), 5, "all peers");
    }
    subject.receive(6, leader(group(2, 1)));
    assert_eq!(subject.campaign().sent().len(), 1);
    let mut wide = TestProcess::<Invitation>::new(3, 6, &Options { fanout: 3, ..OPTIONS });
    assert_eq!(wide.campaign().sent(), to([4, 5, 6], invitation(3, 1, 1)));
    assert_eq!(wide.campaign().sent(), to([1, 2, 4, 5, 6], invitation(3, 1, 1)));
}

/// ALGORITHMS: "periodically, priority-dependent delay". The best waits 10, the worst up to 20.
#[test]
fn better_ranked_leaders_look_more_often() {
    let delay = |me| process(me).expire(Timer::Look).timer_delays(Timer::Look);
    assert_eq!((1..=6).map(delay).collect::<Vec<_>>(), [18, 16, 15, 13, 11, 10].map(Some));
}

/// "If the peer process is a leader itself, two groups are merged." Until it gets `Ready`, the invited leader still
/// leads.
#[test]
fn an_invited_leader_accepts_and_notifies_its_followers_after_ready() {
    let mut subject = leading(3, &[1, 2]);
    let step = subject.receive(5, invitation(5, 1, 4));
    assert_eq!(step.sent(), to([5], accept(group(5, 1), &[1, 2])));
    assert_eq!((step.timer_delays(Timer::Ready), step.announced()), (Some(3), vec![]));
    let step = subject.receive(5, ready(group(5, 1)));
    assert_eq!(step.sent(), to([1, 2], merged(group(3, 1), group(5, 1))));
    assert_eq!(step.announced(), [elected(5, 1)]);
    assert_eq!((step.timer_delays(Timer::Ask), step.timer_delays(Timer::Silence)), (Some(8), Some(24)));
}

/// "Otherwise, the contacted process responds with a group leader ID, allowing two group leaders to
/// establish contact".
#[test]
fn an_invited_follower_names_its_leader_which_is_then_invited() {
    assert_eq!(follower().receive(2, invitation(2, 1, 9)).sent(), to([2], leader(group(5, 1))));
    assert_eq!(process(2).receive(3, leader(group(5, 1))).sent(), to([5], invitation(2, 1, 1)));
    assert!(follower().receive(2, leader(group(4, 1))).is_empty(), "only leaders invite");
    assert!(leading(2, &[5]).receive(3, leader(group(5, 1))).is_empty(), "5 has joined meanwhile");
}

/// "A leader of a larger group can become a leader for a new group. This way only the processes from the
/// smaller group have to be notified about the change of leader."
#[test]
fn the_leader_of_the_larger_group_stays_and_notifies_no_follower() {
    let mut large = leading(1, &[2, 3]);
    assert_eq!(large.receive(6, invitation(6, 1, 2)).sent(), to([6], invitation(1, 1, 3)));
    let step = large.receive(6, accept(group(1, 1), &[5]));
    assert_eq!((step.sent(), step.announced()), (to([6], ready(group(1, 1))), vec![]));
    assert_eq!(large.expire(Timer::Look).sent(), to([4], invitation(1, 1, 5)));
}

/// ALGORITHMS: "the larger group's leader stays (ties by rank)".
#[test]
fn among_groups_of_equal_size_the_better_ranked_leader_stays() {
    assert_eq!(process(3).receive(5, invitation(5, 1, 1)).sent(), to([5], accept(group(5, 1), &[])));
    assert_eq!(process(5).receive(3, invitation(3, 1, 1)).sent(), to([3], invitation(5, 1, 1)));
    let mut promoted = process(3);
    promoted.set_attribute(3, 99);
    let step = promoted.receive(5, invitation(5, 1, 1));
    let rank = Rank { attribute: 99, id: NodeId(3) };
    assert_eq!(step.sent(), to([5], Message::Invitation { group: group(3, 1), size: 1, rank }));
}

/// A merger in progress: 3 is about to join 5.
#[test]
fn a_leader_that_awaits_ready_accepts_no_group_and_redirects_outsiders() {
    let mut subject = leading(3, &[2]);
    subject.receive(5, invitation(5, 1, 3));
    assert!(subject.receive(5, invitation(5, 1, 3)).is_empty(), "that invitation is accepted already");
    assert_eq!(subject.receive(6, invitation(6, 1, 9)).sent(), to([6], leader(group(5, 1))));
    assert_eq!(subject.receive(1, accept(group(3, 1), &[])).sent(), to([1], leader(group(5, 1))));
    assert_eq!(subject.expire(Timer::Look).sent(), []);
    assert!(subject.receive(4, leader(group(6, 1))).is_empty());
    assert_eq!(
        subject.receive(2, question(group(3, 1))).sent(),
        to([2], Message::Here { group: group(3, 1) }),
        "until then 3 leads its own group"
    );
}

#[test]
fn a_leader_without_ready_continues_to_lead_its_followers() {
    let mut subject = leading(3, &[2]);
    subject.receive(5, invitation(5, 1, 3));
    assert!(subject.expire(Timer::Ready).is_empty());
    assert!(subject.receive(5, ready(group(5, 1))).is_empty(), "the message is too late");
    assert_eq!(subject.expire(Timer::Look).sent(), to([4], invitation(3, 1, 2)));
}

/// Process 5 has joined 6 after its invitation.
#[test]
fn a_process_whose_inviter_has_joined_another_group_invites_the_new_leader() {
    let mut merged_leader = process(5);
    merged_leader.receive(6, invitation(6, 1, 1));
    merged_leader.receive(6, ready(group(6, 1)));
    assert_eq!(merged_leader.receive(3, accept(group(5, 1), &[])).sent(), to([3], leader(group(6, 1))));
    let mut subject = process(3);
    subject.receive(5, invitation(5, 1, 1));
    assert_eq!(subject.receive(5, leader(group(6, 1))).sent(), to([6], invitation(3, 1, 1)));
}

/// Two leaders that have accepted each other's invitations, since sizes have changed meanwhile, both continue to
/// lead.
#[test]
fn two_leaders_that_accept_each_other_both_continue_to_lead() {
    let mut subject = leading(3, &[2]);
    subject.receive(5, invitation(5, 1, 3));
    assert_eq!(subject.receive(5, accept(group(3, 1), &[])).sent(), to([5], leader(group(5, 1))));
    assert_eq!(subject.receive(5, leader(group(3, 1))).announced(), []);
    assert_eq!(subject.receive(2, accept(group(3, 1), &[])).sent(), to([2], ready(group(3, 1))));
}

/// Garcia-Molina's time-out procedure: a member asks, and the coordinator of that group answers.
#[test]
fn followers_ask_and_the_leader_of_the_same_group_answers() {
    let mut subject = follower();
    let step = subject.expire(Timer::Ask);
    assert_eq!((step.sent(), step.timer_delays(Timer::Ask)), (to([5], question(group(5, 1))), Some(8)));
    assert_eq!(
        subject.receive(5, Message::Here { group: group(5, 1) }).timer_delays(Timer::Silence),
        Some(24)
    );
    let mut leader = process(5);
    assert_eq!(
        leader.receive(3, question(group(5, 1))).sent(),
        to([3], Message::Here { group: group(5, 1) })
    );
    let six = to([6], invitation(5, 1, 2));
    assert_eq!(leader.expire(Timer::Look).sent(), six, "the leader has learnt of a follower");
}

/// ALGORITHMS: "A member whose leader is silent forms its own group again." So does a member whose detector suspects
/// the leader.
#[test]
fn a_follower_whose_leader_is_silent_forms_its_own_group() {
    assert_eq!(expire_silence(&mut follower()).announced(), [elected(3, 2)]);
    let mut subject = follower();
    assert!(subject.suspect(4).is_empty());
    assert_eq!(subject.suspect(5).announced(), [elected(3, 2)]);
    assert_eq!(subject.campaign().sent(), to([4], invitation(3, 2, 1)));
}

#[test]
fn followers_that_stop_asking_are_invited_again() {
    let mut subject = leading(3, &[4]);
    for _ in 0..3 {
        subject.expire(Timer::Roll);
        assert_eq!(subject.expire(Timer::Look).sent()[0].1, invitation(3, 1, 2));
    }
    subject.receive(4, question(group(3, 1)));
    for _ in 0..3 {
        subject.expire(Timer::Roll);
    }
    assert_eq!(subject.expire(Timer::Look).sent()[0].1, invitation(3, 1, 2));
    subject.expire(Timer::Roll);
    assert_eq!(subject.expire(Timer::Look).sent()[0].1, invitation(3, 1, 1));
    let mut subject = leading(3, &[4]);
    subject.suspect(4);
    assert_eq!(subject.campaign().sent(), to([4], invitation(3, 1, 1)));
}

/// A follower that missed the notification of a merger learns of it when it asks.
#[test]
fn a_former_leader_redirects_its_former_followers() {
    let mut former = follower();
    let moved = not_here(group(3, 1), group(5, 1));
    assert_eq!(former.receive(2, question(group(3, 1))).sent(), to([2], moved.clone()));
    let mut uninformed = process(2);
    uninformed.receive(3, invitation(3, 1, 1));
    uninformed.receive(3, ready(group(3, 1)));
    assert_eq!(uninformed.receive(3, moved).announced(), [elected(5, 1)]);
    expire_silence(&mut former);
    assert_eq!(former.receive(2, question(group(3, 1))).sent(), to([2], not_here(group(3, 1), group(3, 2))));
    assert_eq!(former.receive(1, leader(group(3, 1))).sent(), to([1], not_here(group(3, 1), group(3, 2))));
    assert_eq!(former.campaign().sent(), to([4], invitation(3, 2, 3)));
}

/// A cycle of redirections.
#[test]
fn a_follower_that_is_redirected_to_itself_forms_its_own_group() {
    let step = follower().receive(5, merged(group(5, 1), group(3, 1)));
    assert_eq!(step.announced(), [elected(3, 2)]);
}

/// ALGORITHMS: "Groups carry identities, so that late messages of an old group are ignored."
#[test]
fn late_messages_of_an_old_group_are_ignored() {
    let mut subject = follower();
    expire_silence(&mut subject);
    for late in [
        ready(group(5, 1)),
        merged(group(5, 1), group(6, 1)),
        not_here(group(5, 1), group(6, 1)),
        Message::Here { group: group(5, 1) },
        Message::Handover { group: group(5, 1) },
    ] {
        assert!(subject.receive(5, late.clone()).is_empty(), "{late:?}");
    }
    // An Accept for its first group adds no follower to its second.
    let step = subject.receive(4, accept(group(3, 1), &[1, 2]));
    assert_eq!(step.sent(), to([4], leader(group(3, 2))));
    assert_eq!(subject.campaign().sent(), to([4], invitation(3, 2, 1)));
}

/// The same holds if the old group's leader leads the new group too: 3 follows 5, which has failed and recovered
/// since.
#[test]
fn late_messages_of_the_same_leaders_old_group_are_ignored() {
    let mut subject = follower();
    subject.receive(5, not_here(group(5, 1), group(5, 2)));
    for late in [
        ready(group(5, 1)),
        merged(group(5, 1), group(6, 1)),
        not_here(group(5, 1), group(6, 1)),
        Message::Here { group: group(5, 1) },
        Message::Handover { group: group(5, 1) },
    ] {
        assert!(subject.receive(5, late.clone()).is_empty(), "{late:?}");
    }
    assert_eq!(subject.receive(5, merged(group(5, 2), group(6, 1))).announced(), [elected(6, 1)]);
}

/// Equal numbers with another random number identify another group.
#[test]
fn a_leader_that_lost_its_disk_does_not_continue_its_old_group() {
    let mut recovered = TestProcess::<Invitation>::unstarted(5, 6, &OPTIONS);
    assert_eq!(recovered.start(Start::Recovered(None)).announced(), [elected(5, 1)]);
    let step = recovered.receive(3, question(group(5, 1)));
    let [(3, Message::NotHere { from, into })] = step.sent()[..] else { panic!("{step:?}") };
    assert_eq!((from, into.leader, into.number), (group(5, 1), NodeId(5), Term(1)));
    assert_ne!(into.life, 0);
    assert!(follower().receive(5, Message::Here { group: into }).is_empty());
}

#[test]
fn a_leader_that_kept_its_disk_continues_its_numbers() {
    let mut subject = TestProcess::<Invitation>::unstarted(5, 6, &OPTIONS);
    let saved = SavedGroup { number: Term(7), life: 3 };
    assert_eq!(subject.start(Start::Recovered(Some(saved))).announced(), [elected(5, 8)]);
    let rank = Rank { attribute: 5, id: NodeId(5) };
    let group = Group { leader: NodeId(5), number: Term(8), life: 3 };
    assert_eq!(subject.campaign().sent(), to([6], Message::Invitation { group, size: 1, rank }));
}

/// The number of a new group is above that of the group that was left.
#[test]
fn group_numbers_increase_from_group_to_group() {
    let mut subject = process(3);
    subject.receive(5, invitation(5, 8, 1));
    subject.receive(5, ready(group(5, 8)));
    assert_eq!(expire_silence(&mut subject).announced(), [elected(3, 9)]);
}

#[test]
fn a_follower_that_invites_is_removed_from_the_followers() {
    let mut subject = leading(3, &[1, 2]);
    let own_invitation = invitation(2, 2, 1);
    assert_eq!(subject.receive(2, own_invitation).sent(), to([2], invitation(3, 1, 2)));
}

#[test]
fn messages_that_forge_a_leader_are_ignored() {
    let mut subject = follower();
    for forged in [
        invitation(5, 1, 9),
        ready(group(5, 1)),
        merged(group(5, 1), group(4, 1)),
        Message::Here { group: group(5, 1) },
        accept(group(5, 1), &[]),
        question(group(5, 1)),
    ] {
        assert!(subject.receive(4, forged.clone()).is_empty(), "{forged:?}");
    }
    let mut leader = process(3);
    leader.receive(4, accept(group(3, 1), &[3, 77]));
    assert_eq!(leader.campaign().sent(), to([5], invitation(3, 1, 2)), "neither itself nor a non-member");
}

#[test]
fn a_campaign_makes_a_follower_ask_its_leader() {
    assert_eq!(follower().campaign().sent(), to([5], question(group(5, 1))));
}

#[test]
fn the_successor_of_a_handover_leaves_and_invites_its_leader() {
    let step = follower().receive(5, Message::Handover { group: group(5, 1) });
    assert_eq!((step.announced(), step.sent()), (vec![elected(3, 2)], to([5], invitation(3, 2, 1))));
}

#[test]
fn a_silence_shorter_than_a_question_and_its_answer_is_rejected() {
    let check = |silence| Invitation::check(&Options { silence, ..OPTIONS }, &Roster::numbered(3));
    assert_eq!(check(11), Ok(()));
    assert!(check(10).unwrap_err().reason.contains("at least 11"));
}

#[test]
fn a_fanout_of_0_and_an_unknown_first_peer_are_rejected() {
    let fanout = Invitation::PARAMETERS.iter().find(|parameter| parameter.name == "fanout").unwrap();
    assert!((fanout.set)(&mut Options::default(), "0").is_err());
    let first = Invitation::PARAMETERS.iter().find(|parameter| parameter.name == "first").unwrap();
    assert!((first.set)(&mut Options::default(), "nobody").unwrap_err().contains("successor"));
}
