//! Small models of the real algorithms: promises hold, and every deliberate bug is found.

use suffrage_algorithms::bully::Bully;
use suffrage_algorithms::chang_roberts::ChangRoberts;
use suffrage_algorithms::quorum_lease::QuorumLease;
use suffrage_algorithms::raft::Raft;
use suffrage_check::{
    Bounds, CheckReport, Claim, ClaimOutcome, Clocks, ElectionModel, Extent, LEASE_TICK, Limits, Rates,
    SHORT_LEASES, check,
};
use suffrage_core::{
    Algorithm, Announcement, Command, Context, Contract, NodeId, Parameter, Process, Span, Start, Term,
};

pub(crate) const NOTHING: Bounds = Bounds {
    nodes: 3,
    candidates: 2,
    campaigns: 1,
    resigns: 0,
    transfers: 0,
    elected: false,
    before: Vec::new(),
    commands: Vec::new(),
    timers: 0,
    duplicates: 0,
    losses: 0,
    restarts: 0,
    wipes: 0,
    clocks: Clocks::Own,
};

const ON_TIME: Clocks =
    Clocks::True { tick: Span::UNIT, ticks: 12, drift: 0, rates: Rates::Opposed, synchronous: true };

fn search<A: Algorithm>(settings: &[(&str, &str)], bounds: Bounds) -> CheckReport {
    let mut options = A::Options::default();
    for (name, value) in settings {
        A::set(&mut options, name, value).expect("the setting is valid");
    }
    check(ElectionModel::<A>::new(options, bounds), Limits::default(), &mut |_| {})
}

/// A model with short leases and clocks that drift by `drift` millionths.
fn lease(settings: &[(&str, &str)], ticks: u8, drift: u32, bounds: Bounds) -> CheckReport {
    let clocks = Clocks::True { tick: LEASE_TICK, ticks, drift, rates: Rates::Opposed, synchronous: false };
    search::<QuorumLease>(&[SHORT_LEASES, settings].concat(), Bounds { clocks, ..bounds })
}

/// The drift bound of [`SHORT_LEASES`], in millionths.
pub(crate) const ALLOWED: u32 = 200_000;

pub(crate) fn assert_kept(report: &CheckReport) {
    assert_eq!(report.extent, Extent::Exhausted, "{report:?}");
    for verdict in &report.verdicts {
        assert!(matches!(verdict.outcome, ClaimOutcome::Held | ClaimOutcome::Seen), "{verdict:?}");
    }
}

fn assert_broken(report: &CheckReport, claim: Claim) {
    assert_eq!(report.outcome(claim), Some(ClaimOutcome::Broken), "{report:?}");
    assert_eq!(report.extent, Extent::Stopped);
}

/// The deliberate bugs: the name, the claim that the bug violates, and the ticks and bounds that are enough to find it.
fn bugs() -> [(&'static str, Claim, u8, Bounds); 6] {
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

/// One voter is enough to find each bug.
#[test]
fn every_bug_of_quorum_lease_is_found_and_the_correct_code_passes() {
    for (bug, claim, ticks, bounds) in bugs() {
        let broken = lease(&[("voters", "1"), ("bug", bug)], ticks, ALLOWED, bounds.clone());
        assert_broken(&broken, claim);
        let sound = lease(&[("voters", "1")], ticks, ALLOWED, bounds);
        assert_eq!((sound.broken(), sound.extent), (None, Extent::Exhausted), "{bug}");
    }
}

#[test]
fn drift_beyond_the_bound_makes_two_leaders() {
    let drifting = |drift| lease(&[("voters", "1")], 2, drift, Bounds { elected: true, ..NOTHING });
    assert_broken(&drifting(300_000), Claim::AtMostOneLeader);
    assert_kept(&drifting(ALLOWED));
}

/// From the initial state: leases pass from one process to another, and never overlap.
#[test]
fn quorum_lease_keeps_its_promises() {
    assert_kept(&lease(&[("voters", "1")], 2, ALLOWED, NOTHING));
    let three = Bounds { elected: true, restarts: 1, duplicates: 1, ..NOTHING };
    assert_kept(&lease(&[("voters", "3")], 2, ALLOWED, three));
}

/// Two voters that are both candidates: a resignation, a transfer and a restart in any order, and leases that expire.
#[test]
fn quorum_lease_keeps_its_promises_when_leaders_resign_hand_over_and_restart() {
    let bounds = Bounds { nodes: 2, elected: true, resigns: 1, transfers: 1, restarts: 1, ..NOTHING };
    let report = lease(&[("voters", "2")], 2, ALLOWED, bounds.clone());
    assert_kept(&report);
    let without = Bounds { resigns: 0, transfers: 0, ..bounds };
    let fewer = lease(&[("voters", "2")], 2, ALLOWED, without);
    assert!(
        report.states > 2 * fewer.states,
        "{} {}: resign and transfer must be among the steps",
        report.states,
        fewer.states
    );
}

/// A server that forgets its vote votes twice (section 5.2: "persisted").
#[test]
fn raft_has_one_leader_a_term_and_two_if_votes_are_forgotten() {
    let bounds = Bounds { candidates: 0, timers: 2, clocks: Clocks::Still, ..NOTHING };
    let plain = ("pre-vote", "off");
    let sound = search::<Raft>(&[plain, ("check-quorum", "off")], Bounds { restarts: 1, ..bounds.clone() });
    assert_kept(&sound);
    let forgetful = search::<Raft>(&[plain, ("forget-votes", "on")], Bounds { restarts: 1, ..bounds });
    assert_broken(&forgetful, Claim::OneLeaderPerTerm);
    assert_eq!(forgetful.broken().unwrap().schedule.len(), 7);
}

/// Split brain in three steps: a call, a time-out, and an answer that is late.
#[test]
fn bully_has_two_leaders_where_messages_are_late_and_only_there() {
    let late = search::<Bully>(&[], Bounds { timers: 1, ..NOTHING });
    assert_broken(&late, Claim::AtMostOneLeader);
    let verdict = late.broken().unwrap();
    assert!(!verdict.promised);
    assert_eq!(
        verdict.schedule,
        [
            "2 is told to call an election; it sends Election to 3",
            "Election from 2 reaches 3; it sends Answer to 2, LEADS in term 1, sends Coordinator to 1 and 2",
            "the timer Answer of 2 fires; it LEADS in term 1, sends Coordinator to 1",
        ]
    );
    assert_eq!(verdict.explanation.as_deref(), Some("2 and 3 believe at the same time that they lead"));
    assert_kept(&search::<Bully>(&[], Bounds { clocks: ON_TIME, ..NOTHING }));
}

#[test]
fn a_ring_agrees_in_every_order_of_messages() {
    let report = search::<ChangRoberts>(&[], Bounds { candidates: 1, ..NOTHING });
    assert_kept(&report);
    assert_eq!(report.outcome(Claim::QuietMeansAgreed), Some(ClaimOutcome::Held));
    let two = search::<ChangRoberts>(&[("hop-timeout", "off")], NOTHING);
    assert_eq!(two.broken(), None, "without acknowledgements");
}

/// Two processes, and the better one calls an election. It leads at once and sends one message. The states:
/// initial, called, delivered. With one duplicate: initial, called, delivered with the copy in flight, delivered
/// without a copy, delivered twice. With one loss: initial, called, lost, delivered.
#[test]
fn a_tiny_model_has_as_many_states_as_counted_by_hand() {
    let tiny = Bounds { nodes: 2, candidates: 1, ..NOTHING };
    let states = |bounds| {
        let report = search::<Bully>(&[], bounds);
        assert_eq!(report.extent, Extent::Exhausted);
        (report.states, report.depth)
    };
    assert_eq!(states(tiny.clone()), (3, 2));
    assert_eq!(states(Bounds { duplicates: 1, ..tiny.clone() }), (5, 3));
    assert_eq!(states(Bounds { losses: 1, ..tiny.clone() }), (4, 2));
    // With a restart, the other process may crash before the call, after it, or after the delivery, and calls an
    // election when it restarts: too many states to count by hand.
    assert!(states(Bounds { restarts: 1, ..tiny }).0 > 4);
}

#[test]
fn limits_of_a_search_are_reported() {
    let model =
        || ElectionModel::<Bully>::new(Default::default(), Bounds { nodes: 2, candidates: 1, ..NOTHING });
    let search = |depth, states| check(model(), Limits { depth, states }, &mut |_| {});
    let near = search(Some(1), None);
    assert_eq!((near.extent, near.depth), (Extent::CutByDepth, 1));
    assert_eq!(near.outcome(Claim::FallsQuiet), Some(ClaimOutcome::Unseen));
    assert_eq!(search(Some(2), None).extent, Extent::Exhausted);
    assert_eq!(search(None, Some(1)).extent, Extent::CutByStates);
    assert_eq!(search(None, Some(1_000)).extent, Extent::Exhausted);
}

/// Announces itself as leader on command, and sends nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SelfElected;

impl Process for SelfElected {
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

impl Algorithm for SelfElected {
    const CONTRACT: Contract = Contract { name: "self-elected", ..Bully::CONTRACT };
    type Options = ();
    const PARAMETERS: &'static [Parameter<()>] = &[];
    fn new(_: NodeId, (): &()) -> SelfElected {
        SelfElected
    }
}

#[test]
fn quiet_without_agreement_is_found() {
    let report = search::<SelfElected>(&[], Bounds { nodes: 2, candidates: 1, ..NOTHING });
    assert_broken(&report, Claim::QuietMeansAgreed);
    let explanation = report.broken().unwrap().explanation.clone().unwrap();
    assert_eq!(explanation, "1 believes in nobody and 2 believes in 2");
}
