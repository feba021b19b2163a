//! Small worlds of the real algorithms: what must hold does, and every mistake is found.

use suffrage_algorithms::bully::Bully;
use suffrage_algorithms::chang_roberts::ChangRoberts;
use suffrage_algorithms::raft::Raft;
use suffrage_check::{
    Bounds, Claim, Clocks, Extent, LEASE_TICK, Limits, Outcome, Rates, Report, SHORT_LEASES, Universe, check,
};
use suffrage_core::{
    Algorithm, Announcement, Command, Context, Contract, NodeId, Parameter, Process, Span, Start, Term,
};
use suffrage_lease::QuorumLease;

const NOTHING: Bounds = Bounds {
    nodes: 3,
    candidates: 2,
    campaigns: 1,
    resigns: 0,
    transfers: 0,
    elected: false,
    timers: 0,
    duplicates: 0,
    losses: 0,
    restarts: 0,
    wipes: 0,
    clocks: Clocks::Own,
};

const ON_TIME: Clocks =
    Clocks::True { tick: Span::UNIT, ticks: 12, drift: 0, rates: Rates::Opposed, synchronous: true };

fn look<A: Algorithm>(settings: &[(&str, &str)], bounds: Bounds) -> Report {
    let mut options = A::Options::default();
    for (name, value) in settings {
        A::set(&mut options, name, value).expect("it is a value that is taken");
    }
    check(Universe::<A>::new(options, bounds), Limits::default(), &mut |_| {})
}

/// A world of short leases, and of clocks that drift as much as they may or by so much.
fn lease(settings: &[(&str, &str)], ticks: u8, drift: u32, bounds: Bounds) -> Report {
    let clocks = Clocks::True { tick: LEASE_TICK, ticks, drift, rates: Rates::Opposed, synchronous: false };
    look::<QuorumLease>(&[SHORT_LEASES, settings].concat(), Bounds { clocks, ..bounds })
}

/// As much as they may.
const ALLOWED: u32 = 200_000;

fn assert_kept(report: &Report) {
    assert_eq!(report.extent, Extent::Exhausted, "{report:?}");
    for verdict in &report.verdicts {
        assert!(matches!(verdict.outcome, Outcome::Held | Outcome::Seen), "{verdict:?}");
    }
}

fn assert_broken(report: &Report, claim: Claim) {
    assert_eq!(report.outcome(claim), Some(Outcome::Broken), "{report:?}");
    assert_eq!(report.extent, Extent::Stopped);
}

/// Worlds in which the mistakes below are made, one each: the bug, what it breaks, and what it takes.
fn mistakes() -> [(&'static str, Claim, u8, Bounds); 6] {
    let one = Bounds { elected: true, ..NOTHING };
    [
        ("skip-silence", Claim::AtMostOneLeader, 0, Bounds { restarts: 1, ..one.clone() }),
        ("validity-from-reply", Claim::AtMostOneLeader, 2, NOTHING),
        ("equal-tokens", Claim::TokensIncrease, 2, one.clone()),
        ("forget-ceiling", Claim::TokensIncrease, 2, Bounds { restarts: 1, ..one.clone() }),
        ("bump-while-held", Claim::TokenIsKept, 1, Bounds { campaigns: 2, timers: 1, ..one.clone() }),
        ("trust-empty-disk", Claim::AtMostOneLeader, 0, Bounds { wipes: 1, ..one }),
    ]
}

/// One voter is enough for each of them.
#[test]
fn every_mistake_of_quorum_lease_is_found_and_without_it_nothing_is() {
    for (bug, claim, ticks, bounds) in mistakes() {
        let broken = lease(&[("voters", "1"), ("bug", bug)], ticks, ALLOWED, bounds.clone());
        assert_broken(&broken, claim);
        let sound = lease(&[("voters", "1")], ticks, ALLOWED, bounds);
        assert_eq!((sound.broken(), sound.extent), (None, Extent::Exhausted), "{bug}");
    }
}

#[test]
fn clocks_that_drift_more_than_they_may_make_two_leaders() {
    let drifting = |drift| lease(&[("voters", "1")], 2, drift, Bounds { elected: true, ..NOTHING });
    assert_broken(&drifting(300_000), Claim::AtMostOneLeader);
    assert_kept(&drifting(ALLOWED));
}

/// From the very beginning, in one world after another: leases change hands, and never overlap.
#[test]
fn quorum_lease_keeps_its_promises() {
    assert_kept(&lease(&[("voters", "1")], 2, ALLOWED, NOTHING));
    let three = Bounds { elected: true, restarts: 1, duplicates: 1, ..NOTHING };
    assert_kept(&lease(&[("voters", "3")], 2, ALLOWED, three));
}

/// Two voters that both stand: a resignation, a transfer and a restart in any order, and leases that run out.
#[test]
fn quorum_lease_keeps_its_promises_when_leaders_resign_hand_over_and_restart() {
    let bounds = Bounds { nodes: 2, elected: true, resigns: 1, transfers: 1, restarts: 1, ..NOTHING };
    let report = lease(&[("voters", "2")], 2, ALLOWED, bounds.clone());
    assert_kept(&report);
    let without = Bounds { resigns: 0, transfers: 0, ..bounds };
    let fewer = lease(&[("voters", "2")], 2, ALLOWED, without);
    assert!(
        report.states > 2 * fewer.states,
        "{} {}: those are among the steps",
        report.states,
        fewer.states
    );
}

/// A vote that is forgotten is given twice (section 5.2: "persisted").
#[test]
fn raft_has_one_leader_a_term_and_two_if_votes_are_forgotten() {
    let bounds = Bounds { candidates: 0, timers: 2, clocks: Clocks::Still, ..NOTHING };
    let plain = ("pre-vote", "off");
    let sound = look::<Raft>(&[plain, ("check-quorum", "off")], Bounds { restarts: 1, ..bounds.clone() });
    assert_kept(&sound);
    let forgetful = look::<Raft>(&[plain, ("forget-votes", "on")], Bounds { restarts: 1, ..bounds });
    assert_broken(&forgetful, Claim::OneLeaderPerTerm);
    assert_eq!(forgetful.broken().unwrap().schedule.len(), 7);
}

/// The split brain, in three steps: a call, a time-out, and an answer that comes too late.
#[test]
fn bully_has_two_leaders_where_messages_are_late_and_only_there() {
    let late = look::<Bully>(&[], Bounds { timers: 1, ..NOTHING });
    assert_broken(&late, Claim::AtMostOneLeader);
    let verdict = late.broken().unwrap();
    assert!(!verdict.promised);
    assert_eq!(
        verdict.schedule,
        [
            "2 is told to call an election; it sends Election to 3",
            "Election from 2 reaches 3; it sends Answer to 2, LEADS in term 1, sends Coordinator to 1 and 2",
            "the timer Answer of 2 runs out; it LEADS in term 1, sends Coordinator to 1",
        ]
    );
    assert_eq!(verdict.moral.as_deref(), Some("2 and 3 believe at the same time that they lead"));
    assert_kept(&look::<Bully>(&[], Bounds { clocks: ON_TIME, ..NOTHING }));
}

#[test]
fn a_ring_agrees_whatever_the_order() {
    let report = look::<ChangRoberts>(&[], Bounds { candidates: 1, ..NOTHING });
    assert_kept(&report);
    assert_eq!(report.outcome(Claim::QuietMeansAgreed), Some(Outcome::Held));
    let two = look::<ChangRoberts>(&[("hop-timeout", "off")], NOTHING);
    assert_eq!(two.broken(), None, "without acknowledgements");
}

/// Two processes, and the better one calls. It leads at once and tells the other:
/// begun, called, told. With one copy: begun, called; told, with the copy in flight, without a copy, and told
/// twice. With one loss: begun, called, lost, told.
#[test]
fn a_tiny_world_has_as_many_states_as_one_counts_by_hand() {
    let tiny = Bounds { nodes: 2, candidates: 1, ..NOTHING };
    let states = |bounds| {
        let report = look::<Bully>(&[], bounds);
        assert_eq!(report.extent, Extent::Exhausted);
        (report.states, report.depth)
    };
    assert_eq!(states(tiny.clone()), (3, 2));
    assert_eq!(states(Bounds { duplicates: 1, ..tiny.clone() }), (5, 3));
    assert_eq!(states(Bounds { losses: 1, ..tiny.clone() }), (4, 2));
    // The other may crash instead: before the call, after it, after the news (which is lost with its memory);
    // it calls then, for it comes back: too many to count, but more.
    assert!(states(Bounds { restarts: 1, ..tiny }).0 > 4);
}

#[test]
fn what_is_cut_off_is_said_to_be() {
    let universe =
        || Universe::<Bully>::new(Default::default(), Bounds { nodes: 2, candidates: 1, ..NOTHING });
    let look = |depth, states| check(universe(), Limits { depth, states }, &mut |_| {});
    let near = look(Some(1), None);
    assert_eq!((near.extent, near.depth), (Extent::CutByDepth, 1));
    assert_eq!(near.outcome(Claim::FallsQuiet), Some(Outcome::Unseen));
    assert_eq!(look(Some(2), None).extent, Extent::Exhausted);
    assert_eq!(look(None, Some(1)).extent, Extent::CutByStates);
    assert_eq!(look(None, Some(1_000)).extent, Extent::Exhausted);
}

/// Believes in itself, and tells nobody.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Hermit;

impl Process for Hermit {
    type Message = suffrage_algorithms::bully::Message;
    type Timer = std::convert::Infallible;
    type Saved = ();
    type Command = Command;
    fn on_start(&mut self, _: &mut Context<'_, Self>, _: Start<()>) {}
    fn on_message(&mut self, _: &mut Context<'_, Self>, _: NodeId, _: Self::Message) {}
    fn on_timer(&mut self, _: &mut Context<'_, Self>, timer: Self::Timer) {
        match timer {}
    }
    fn on_command(&mut self, cx: &mut Context<'_, Self>, _: Command) {
        cx.announce(Announcement::Elected { leader: cx.me(), term: Term(1) });
    }
}

impl Algorithm for Hermit {
    const CONTRACT: Contract = Contract { name: "hermit", ..Bully::CONTRACT };
    type Options = ();
    const PARAMETERS: &'static [Parameter<()>] = &[];
    fn new(_: NodeId, (): &()) -> Hermit {
        Hermit
    }
}

#[test]
fn quiet_without_agreement_is_found() {
    let report = look::<Hermit>(&[], Bounds { nodes: 2, candidates: 1, ..NOTHING });
    assert_broken(&report, Claim::QuietMeansAgreed);
    let moral = report.broken().unwrap().moral.clone().unwrap();
    assert_eq!(moral, "1 believes in nobody and 2 believes in 2");
}
