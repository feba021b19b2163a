//! Unit tests of a contender: Table 5 row by row, and additional transitions.

use super::options::{Mode, OnFailure, Rounds, Tables};
use super::*;
use suffrage_core::testing::{Step, TestProcess, elected, to};

const TERM: u32 = 1;
const ACK: Message = Message::Ack { term: TERM };
const NAK: Message = Message::Nak { term: TERM };
const POTW: Message = Message::Potw { term: TERM };
const POTW_ACK: Message = Message::PotwAck { term: TERM };
const DEC: Message = Message::Dec { term: TERM };

fn second_phase(tables: Tables) -> Options {
    Options { rounds: Rounds::Fixed(0), tables, ..Options::default() }
}

/// Process 1 of 9, which has just started to contend, and its five mediators.
fn contender(options: &Options) -> (TestProcess<Randomized>, [u64; 5]) {
    let mut subject = TestProcess::<Randomized>::new(1, 9, options);
    let asked: Vec<u64> = subject.campaign().sent().into_iter().map(|(mediator, _)| mediator).collect();
    (subject, asked.try_into().expect("sigma_w is five of nine"))
}

/// The same contender after all mediators have granted, and its reaction to the last grant.
fn potential_winner(options: &Options) -> (TestProcess<Randomized>, [u64; 5], Step<Randomized>) {
    let (mut subject, mediators) = contender(options);
    for &mediator in &mediators[..4] {
        assert!(subject.receive(mediator, ACK).is_empty(), "row 2: only the counter changes");
    }
    let step = subject.receive(mediators[4], ACK);
    (subject, mediators, step)
}

fn won(subject: &TestProcess<Randomized>) -> Option<bool> {
    subject.process.member().record().map(|record| record.won)
}

/// A time-out, and the additional expiry at the same time for messages with the maximum delay.
fn time_out(subject: &mut TestProcess<Randomized>) -> Step<Randomized> {
    let step = subject.expire(Timer::Contender);
    assert_eq!((step.timer_delays(Timer::Contender), step.sent()), (Some(0), vec![]));
    subject.expire(Timer::Contender)
}

#[test]
fn row_1_sends_req_to_all_mediators() {
    for (tables, timeout) in [(Tables::Printed, 5), (Tables::Repaired, 8)] {
        let mut subject = TestProcess::<Randomized>::new(1, 9, &second_phase(tables));
        let step = subject.campaign();
        let sent = step.sent();
        assert_eq!(sent.len(), 5);
        assert!(sent.windows(2).all(|pair| pair[0].0 < pair[1].0), "the mediators are distinct");
        let number =
            subject.process.member().contender().map(Contender::number).expect("the process contends");
        assert!(number <= 9u64.pow(4) && sent.iter().all(|(_, it)| *it == Message::Req { term: 1, number }));
        assert_eq!(step.timer_delays(Timer::Contender), Some(timeout));
        assert!(subject.campaign().is_empty(), "the process already contends");
    }
}

#[test]
fn rows_2_and_3_all_acks_make_a_potential_winner() {
    for tables in [Tables::Printed, Tables::Repaired] {
        let (mut subject, mediators, step) = potential_winner(&second_phase(tables));
        assert_eq!(step.sent(), to(mediators, POTW));
        assert_eq!(step.timer_delays(Timer::Contender), Some(2));
        assert!(subject.receive(mediators[4], ACK).is_empty(), "a duplicated ACK counts once");
    }
    let (mut subject, mediators) = contender(&second_phase(Tables::Repaired));
    for _ in 0..9 {
        assert!(subject.receive(mediators[0], ACK).is_empty());
    }
}

#[test]
fn row_4_a_nak_makes_the_contender_drop_out_with_dec() {
    // The table has "to all mediators"; the text has "to the rest".
    for (tables, skipped) in [(Tables::Printed, 0), (Tables::Repaired, 1)] {
        let options = second_phase(tables);
        let (mut subject, mediators) = contender(&options);
        assert_eq!(subject.receive(mediators[0], NAK).sent(), to(mediators[skipped..].to_vec(), DEC));
        assert_eq!(won(&subject), Some(false));
        assert!(
            subject.receive(mediators[1], NAK).is_empty() && subject.receive(mediators[1], ACK).is_empty()
        );

        let (mut subject, mediators, _) = potential_winner(&options);
        assert_eq!(subject.receive(mediators[0], NAK).sent(), to(mediators[skipped..].to_vec(), DEC));
        assert_eq!(won(&subject), Some(false));
    }
}

#[test]
fn row_5_two_tau_without_nak_make_the_winner() {
    let (mut subject, ..) = potential_winner(&second_phase(Tables::Printed));
    let step = time_out(&mut subject);
    assert_eq!((step.announced(), won(&subject)), (vec![elected(1, 1)], Some(true)));
    assert!(matches!(step.multicast()[..], [Message::Elected { term: TERM, .. }]));
}

#[test]
fn as_repaired_all_mediators_must_grant_potw() {
    let (mut subject, mediators, _) = potential_winner(&second_phase(Tables::Repaired));
    for &mediator in &mediators[..4] {
        assert!(subject.receive(mediator, POTW_ACK).is_empty());
    }
    assert!(subject.receive(mediators[0], POTW_ACK).is_empty(), "a duplicate");
    let mut late = subject;
    assert_eq!(late.receive(mediators[4], POTW_ACK).announced(), [elected(1, 1)]);

    // One mediator does not answer: section 5, both approaches.
    for (on_failure, wins) in [(OnFailure::AllPositive, false), (OnFailure::NoNegative, true)] {
        let options = Options { on_failure, ..second_phase(Tables::Repaired) };
        let (mut subject, mediators, _) = potential_winner(&options);
        mediators[..4].iter().for_each(|&mediator| drop(subject.receive(mediator, POTW_ACK)));
        let step = time_out(&mut subject);
        assert_eq!((won(&subject), step.sent().len()), (Some(wins), if wins { 0 } else { 5 }));
    }
}

/// "Every contender in the second phase needs to get a response from sqrt(n ln n) other mediators."
#[test]
fn replacements_are_asked_for_mediators_that_do_not_answer() {
    let (mut subject, mediators) = contender(&second_phase(Tables::Repaired));
    mediators[..3].iter().for_each(|&mediator| drop(subject.receive(mediator, ACK)));
    let step = time_out(&mut subject);
    let others: Vec<u64> = step.sent().iter().map(|(mediator, _)| *mediator).collect();
    assert_eq!(others.len(), 2);
    assert!(others.iter().all(|other| !mediators.contains(other)), "{others:?} {mediators:?}");
    assert!(subject.receive(others[0], ACK).is_empty());
    // Five have granted now: POTW goes to them. A slow mediator grants later, and gets POTW then.
    assert_eq!(subject.receive(others[1], ACK).sent().len(), 5);
    assert_eq!(subject.receive(mediators[3], ACK).sent(), [(mediators[3], POTW)]);
    // The printed Table 5 has no row for this case.
    let (mut subject, _) = contender(&second_phase(Tables::Printed));
    assert!(time_out(&mut subject).sent().is_empty());
}

/// A round of the first phase is over with the last positive answer, or with the first negative one.
#[test]
fn the_first_phase_continues_if_all_answers_are_positive() {
    let options = Options { rounds: Rounds::Fixed(2), ..Options::default() };
    let mut subject = TestProcess::<Randomized>::new(1, 9, &options);
    let asked = subject.campaign().sent();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].1, Message::Request { term: TERM, round: 1 });
    let step = subject.receive(asked[0].0, Message::Positive { term: TERM, round: 1 });
    let second = step.sent();
    assert!(
        second.len() == 2 && second.iter().all(|(_, it)| *it == Message::Request { term: TERM, round: 2 })
    );
    let late = Message::Negative { term: TERM, round: 1 };
    assert!(subject.receive(second[0].0, late).is_empty(), "a negative answer of an earlier round");
    let no = Message::Negative { term: TERM, round: 2 };
    assert_eq!(subject.receive(second[0].0, no).sent(), []);
    assert_eq!(won(&subject), Some(false));
}

/// Synchronous rounds begin at multiples of the common clock, and mediators answer in their middle.
#[test]
fn synchronous_rounds_follow_the_common_clock() {
    let options = Options { mode: Mode::Sync, rounds: Rounds::Fixed(1), ..Options::default() };
    let mut subject = TestProcess::<Randomized>::new(1, 9, &options);
    subject.advance(3);
    let step = subject.campaign();
    assert_eq!((step.sent(), step.timer_delays(Timer::Contender)), (vec![], Some(1)), "a round begins at 4");
    subject.advance(1);
    let step = subject.expire(Timer::Contender);
    assert_eq!((step.sent().len(), step.timer_delays(Timer::Contender)), (1, Some(2)));
    let step = subject.receive(5, Message::Request { term: TERM, round: 1 });
    assert_eq!(
        (step.sent(), step.timer_delays(Timer::Mediator)),
        (vec![], Some(1)),
        "answers are given at 5"
    );
    assert!(subject.receive(6, Message::Request { term: TERM, round: 1 }).is_empty());
    subject.advance(1);
    let no = Message::Negative { term: TERM, round: 1 };
    assert_eq!(subject.expire(Timer::Mediator).sent(), to([5, 6], no));
}

/// Of two winners, processes follow the one with the greater number; a later election supersedes.
#[test]
fn processes_follow_the_greater_of_two_winners() {
    let mut subject = TestProcess::<Randomized>::new(1, 9, &Options::default());
    let elected_message = |number, term| Message::Elected { term, number };
    assert_eq!(subject.receive(5, elected_message(70, 1)).announced(), [elected(5, 1)]);
    assert_eq!(subject.receive(6, elected_message(60, 1)).announced(), []);
    assert_eq!(subject.receive(7, elected_message(80, 1)).announced(), [elected(7, 1)]);
    assert_eq!(subject.receive(6, elected_message(1, 2)).announced(), [elected(6, 2)]);
    // Requests in a decided or earlier election are refused.
    let request = |term| Message::Request { term, round: 1 };
    assert_eq!(subject.receive(4, request(2)).sent(), [(4, Message::Negative { term: 2, round: 1 })]);
    assert_eq!(subject.receive(4, request(1)).sent(), [(4, Message::Negative { term: 2, round: 1 })]);
}

/// A process that suspects its leader contends in the next election.
#[test]
fn a_suspected_leader_triggers_a_new_election() {
    let mut subject = TestProcess::<Randomized>::new(1, 9, &second_phase(Tables::Repaired));
    subject.receive(5, Message::Elected { term: 1, number: 7 });
    assert!(subject.suspect(6).is_empty());
    let step = subject.suspect(5);
    assert_eq!(step.announced(), [suffrage_core::Announcement::Undecided]);
    assert!(step.sent().iter().all(|(_, message)| message.term() == 2) && step.sent().len() == 5);
}
