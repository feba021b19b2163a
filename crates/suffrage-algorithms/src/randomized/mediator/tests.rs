//! Tests of Tables 6 and 7 row by row, as printed and as repaired.

use super::*;

/// Three contenders, of which C has the greatest number.
const A: Claim = Claim { number: 10, contender: NodeId(1) };
const B: Claim = Claim { number: 20, contender: NodeId(2) };
const C: Claim = Claim { number: 30, contender: NodeId(3) };

/// An input of a mediator.
#[derive(Clone, Copy)]
enum Input {
    Req(Claim),
    Potw(Claim),
    Dec(Claim),
    Expiry,
}
use Input::{Dec, Expiry, Potw, Req};

fn apply(mediator: &mut Mediator, input: Input) -> MediatorOutput {
    match input {
        Req(claim) => mediator.on_request(claim),
        Potw(claim) => mediator.on_potential_winner(claim.contender),
        Dec(claim) => mediator.on_decline(claim.contender),
        Expiry => mediator.on_timer(),
    }
}

/// The mediator after these inputs, without its outputs.
fn after(tables: Tables, inputs: &[Input]) -> Mediator {
    let mut mediator = Mediator::new(tables);
    for &input in inputs {
        apply(&mut mediator, input);
    }
    mediator
}

/// The effect of an input: the answers, in order; the timer in tau, if it changes; and the state with the current
/// contender and the waiting one.
fn effect_of(mediator: &mut Mediator, input: Input) -> String {
    let name = |id: NodeId| ["?", "A", "B", "C"].get(id.0 as usize).copied().unwrap_or("?");
    let output = apply(mediator, input);
    let mut text = String::new();
    for (contender, answer) in output.answers.into_iter().flatten() {
        text += &format!("{answer:?} {}, ", name(contender));
    }
    if let Some(tau) = output.timer {
        text += &format!("timer {tau}, ");
    }
    let claim = |claim: Option<Claim>| claim.map_or("-", |claim| name(claim.contender));
    text + &format!("{:?} {}/{}", mediator.state(), claim(mediator.current()), claim(mediator.waiting()))
}

/// Checks a row: earlier inputs, the input, and the effects by the printed and the repaired tables.
fn row(before: &[Input], input: Input, printed: &str, repaired: &str) {
    assert_eq!(effect_of(&mut after(Tables::Printed, before), input), printed, "printed");
    assert_eq!(effect_of(&mut after(Tables::Repaired, before), input), repaired, "repaired");
}

#[test]
fn row_1_idle_grants_the_first_request() {
    row(&[], Req(A), "Ack A, timer 3, Safe A/-", "Ack A, timer 3, Safe A/-");
    // Letter by letter, `init` only: "it immediately sends a positive response" is only in the text.
    assert_eq!(effect_of(&mut Mediator::new(Tables::Literal), Req(A)), "timer 3, Safe A/-");
}

#[test]
fn row_2_safe_acts_on_requests() {
    row(&[Req(B)], Req(A), "Nak A, Safe B/-", "Nak A, Safe B/-");
    row(&[Req(A)], Req(B), "Safe A/B", "Safe A/B");
    row(&[Req(A), Req(C)], Req(B), "Nak B, Safe A/C", "Nak B, Safe A/C");
    row(&[Req(A), Req(B)], Req(C), "Nak B, Safe A/C", "Nak B, Safe A/C");
    // The last `init` of Table 7 letter by letter: number and contender are swapped, and C is lost.
    let mut literal = after(Tables::Literal, &[Req(A), Req(B)]);
    assert_eq!(effect_of(&mut literal, Req(C)), "Nak B, Safe A/?");
    assert_eq!(literal.waiting(), Some(Claim { number: 3, contender: NodeId(30) }));
}

#[test]
fn row_2_safe_hands_over_on_dec() {
    let handed_over = "Ack B, timer 3, Safe B/-";
    row(&[Req(A), Req(B)], Dec(A), handed_over, handed_over);
    // The printed table does not check the sender of DEC: the waiting contender, or a refused one.
    row(&[Req(A), Req(B)], Dec(B), handed_over, "Safe A/-");
    row(&[Req(A), Req(B)], Dec(C), handed_over, "Safe A/B");
    // No contender waits: no row as printed, and the next request is compared with a contender that dropped out.
    row(&[Req(B)], Dec(B), "Safe B/-", "timer 0, Idle -/-");
    row(&[Req(B), Dec(B)], Req(A), "Nak A, Safe B/-", "Ack A, timer 3, Safe A/-");
}

#[test]
fn row_2_safe_refuses_the_potw_of_others_and_grants_the_waiting_contender_after_3_tau() {
    row(&[Req(A)], Potw(B), "Nak B, Safe A/-", "Nak B, Safe A/-");
    let pre_empted = "Nak A, Ack B, timer 3, Safe B/-";
    row(&[Req(A), Req(B)], Expiry, pre_empted, pre_empted);
}

#[test]
fn row_3_safe_becomes_post_safe() {
    row(&[Req(A)], Expiry, "timer 3, PostSafe A/-", "timer 6, PostSafe A/-");
}

#[test]
fn rows_4_and_5_post_safe_refuses_the_smaller_and_prefers_the_greater() {
    let post_safe = [Req(B), Expiry];
    row(&post_safe, Req(A), "Nak A, PostSafe B/-", "Nak A, PostSafe B/-");
    let pre_empted = "Nak B, Ack C, timer 3, Safe C/-";
    row(&post_safe, Req(C), pre_empted, pre_empted);
    // POTW of a contender that is not current: no row as printed, so that the contender gets no refusal.
    row(&post_safe, Potw(A), "PostSafe B/-", "Nak A, PostSafe B/-");
    // Expiry: no row as printed.
    row(&post_safe, Expiry, "PostSafe B/-", "Idle B/-");
    // From then on the mediator can grant any contender, and its last one as long as no other has asked.
    let idle = [Req(B), Expiry, Expiry];
    row(&idle, Req(A), "Nak A, PostSafe B/-", "Ack A, timer 3, Safe A/-");
    row(&idle, Potw(B), "timer 3, CloseSafe B/-", "PotwAck B, timer 3, CloseSafe B/-");
    row(&idle, Dec(B), "timer 0, Idle -/-", "timer 0, Idle -/-");
    row(&idle, Potw(A), "PostSafe B/-", "Nak A, Idle B/-");
}

#[test]
fn rows_6_and_7_potw_makes_it_close_safe() {
    let (printed, repaired) = ("timer 3, CloseSafe A/-", "PotwAck A, timer 3, CloseSafe A/-");
    row(&[Req(A), Expiry], Potw(A), printed, repaired);
    row(&[Req(A)], Potw(A), printed, repaired);
    // The waiting contender: refused at once as printed, kept as repaired.
    let (printed, repaired) = ("Nak B, timer 3, CloseSafe A/-", "PotwAck A, timer 3, CloseSafe A/B");
    row(&[Req(A), Req(B)], Potw(A), printed, repaired);
    row(&[Req(A), Potw(A)], Potw(B), "CloseSafe A/-", "Nak B, CloseSafe A/-");
    row(&[Req(A), Potw(A)], Potw(A), "CloseSafe A/-", "PotwAck A, CloseSafe A/-");
    row(&[], Potw(A), "Idle -/-", "Nak A, Idle -/-");
}

#[test]
fn row_8_close_safe_acts_on_requests() {
    row(&[Req(B), Potw(B)], Req(A), "Nak A, CloseSafe B/-", "Nak A, CloseSafe B/-");
    row(&[Req(A), Potw(A)], Req(B), "CloseSafe A/B", "CloseSafe A/B");
    row(&[Req(A), Potw(A), Req(B)], Req(C), "Nak B, CloseSafe A/C", "Nak B, CloseSafe A/C");
}

#[test]
fn row_9_close_safe_becomes_final() {
    row(&[Req(A), Potw(A)], Expiry, "Final A/-", "Final A/-");
    // "It sends a negative response to the delayed contenders", says the text; the row does not.
    row(&[Req(A), Potw(A), Req(B)], Expiry, "Final A/B", "Nak B, Final A/-");
    // Later requests: no row as printed.
    row(&[Req(A), Potw(A), Expiry], Req(B), "Final A/-", "Nak B, Final A/-");
    row(&[Req(A), Potw(A), Expiry], Potw(B), "Final A/-", "Nak B, Final A/-");
    // A contender that has lost elsewhere, and whose DEC took longer than tau.
    row(&[Req(A), Potw(A), Expiry], Dec(A), "Final A/-", "timer 0, Idle -/-");
}

#[test]
fn rows_10_to_12_a_potential_winner_declines() {
    let handed_over = "Ack B, timer 3, Safe B/-";
    row(&[Req(A), Potw(A), Req(B)], Dec(A), handed_over, handed_over);
    row(&[Req(A), Potw(A)], Dec(A), "timer 0, Idle -/-", "timer 0, Idle -/-");
    // DEC of another contender: as printed, it removes the potential winner all the same.
    row(&[Req(A), Potw(A), Req(B)], Dec(C), handed_over, "CloseSafe A/B");
    row(&[Req(A), Potw(A)], Dec(C), "timer 0, Idle -/-", "CloseSafe A/-");
    // Row 12 checks the sender of DEC.
    row(&[Req(A), Expiry], Dec(A), "timer 0, Idle -/-", "timer 0, Idle -/-");
    row(&[Req(A), Expiry], Dec(B), "PostSafe A/-", "PostSafe A/-");
}

/// "Messages are not FIFO": a REQ that was overtaken by its sender's DEC. As printed, the mediator grants a
/// contender that has dropped out, and refuses others.
#[test]
fn a_request_after_its_senders_dec_is_dropped() {
    row(&[Dec(B)], Req(B), "Ack B, timer 3, Safe B/-", "Idle -/-");
    row(&[Dec(B), Req(B)], Req(A), "Nak A, Safe B/-", "Ack A, timer 3, Safe A/-");
}

#[test]
fn duplicated_messages_change_nothing_as_repaired() {
    let mut mediator = after(Tables::Repaired, &[Req(A), Req(B)]);
    assert_eq!(effect_of(&mut mediator, Req(A)), "Ack A, Safe A/B");
    assert_eq!(effect_of(&mut mediator, Req(B)), "Safe A/B");
    assert_eq!(effect_of(&mut mediator, Dec(B)), "Safe A/-");
    assert_eq!(effect_of(&mut mediator, Dec(B)), "Safe A/-");
    assert_eq!(effect_of(&mut mediator, Req(B)), "Safe A/-", "B has dropped out");
}

/// "The algorithm fails" where two numbers are equal, says footnote 2; here ids break ties.
#[test]
fn ids_break_ties_of_equal_numbers() {
    let twin = Claim { number: A.number, contender: NodeId(2) };
    row(&[Req(A)], Req(twin), "Safe A/B", "Safe A/B");
    row(&[Req(twin)], Req(A), "Nak A, Safe B/-", "Nak A, Safe B/-");
}
