//! Small models in which the voters of a quorum lease change: promises hold, and every deliberate bug of changes is found.

use stateright::{Checker as _, Model, Property};
use suffrage_algorithms::quorum_lease::QuorumLease;
use suffrage_check::{
    Bounds, CheckReport, Claim, ClaimOutcome, Clocks, ElectionModel, Extent, LEASE_TICK, Limits, ModelState,
    NodeCommand, Rates, SHORT_LEASES, Step, check,
};
use suffrage_core::{Algorithm as _, NodeId};

use crate::models::{ALLOWED, NOTHING, assert_kept};

/// Leases that a single tick ends, at a slow holder and at fast voters: a world with half as many ticks.
const ONE_TICK_LEASES: &[(&str, &str)] = &[("ttl", "6"), ("renew", "3")];

/// A world whose first process is the founding voter. Processes get these commands before the search, and may get these
/// during it.
fn world(nodes: usize, ticks: u8, before: &[&str], commands: &[&str]) -> Bounds {
    let parse =
        |texts: &[&str]| -> Vec<NodeCommand> { texts.iter().map(|text| text.parse().unwrap()).collect() };
    let clocks =
        Clocks::True { tick: LEASE_TICK, ticks, drift: ALLOWED, rates: Rates::Opposed, synchronous: false };
    Bounds { nodes, candidates: 0, before: parse(before), commands: parse(commands), clocks, ..NOTHING }
}

fn model(settings: &[(&str, &str)], bounds: Bounds) -> ElectionModel<QuorumLease> {
    let mut options = Default::default();
    for (name, value) in [SHORT_LEASES, &[("voters", "1")], settings].concat() {
        QuorumLease::set(&mut options, name, value).expect("the setting is valid");
    }
    ElectionModel::new(options, bounds)
}

fn search(settings: &[(&str, &str)], depth: Option<usize>, bounds: Bounds) -> CheckReport {
    check(model(settings, bounds), Limits { depth, states: None }, &mut |_| {})
}

/// Node 1 leads by {1, 2}. Node 1 is removed, one process restarts, and leases expire.
fn shrinking() -> Bounds {
    let before = ["1:voters adopt", "1:campaign", "1:voters add 2"];
    Bounds { candidates: 1, restarts: 1, ..world(2, 4, &before, &["1:voters remove 1"]) }
}

/// Node 2 leads by {1}. The voters become {1, 2} and then {2}, while node 1 campaigns.
fn growing() -> Bounds {
    let commands = ["1:voters add 2", "1:voters remove 1", "1:campaign"];
    world(2, 1, &["1:voters adopt", "2:campaign"], &commands)
}

#[test]
fn promises_hold_while_the_voters_change_from_1_to_1_and_2_to_2() {
    assert_kept(&search(&[], None, shrinking()));
}

#[test]
fn promises_hold_while_a_voter_is_added_and_the_first_is_removed() {
    assert_kept(&search(ONE_TICK_LEASES, None, growing()));
}

/// Looks for a state in which a process leads and has a configuration of this version.
struct LeadsIn(ElectionModel<QuorumLease>, u64);

impl LeadsIn {
    fn leads(&self, state: &ModelState<QuorumLease>) -> bool {
        let has_version = |id: NodeId| {
            let node = state.nodes().nth(self.0.roster().slot(id).unwrap()).unwrap();
            node.process.engine().is_some_and(|engine| engine.configuration().version() == self.1)
        };
        self.0.leaders(state).any(has_version)
    }
}

impl Model for LeadsIn {
    type State = ModelState<QuorumLease>;
    type Action = Step;

    fn init_states(&self) -> Vec<Self::State> {
        self.0.init_states()
    }
    fn actions(&self, state: &Self::State, steps: &mut Vec<Step>) {
        self.0.actions(state, steps);
    }
    fn next_state(&self, state: &Self::State, step: Step) -> Option<Self::State> {
        self.0.next_state(state, step)
    }
    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::sometimes("a process leads in the version", LeadsIn::leads)]
    }
}

/// The worlds are not vacuous: processes lead in all versions that the commands make, and in no other.
#[test]
fn processes_lead_in_every_version() {
    let is_seen = |settings, bounds, version| {
        let checker = LeadsIn(model(settings, bounds), version).checker().spawn_bfs().join();
        !checker.discoveries().is_empty()
    };
    assert!(is_seen(&[], shrinking(), 2) && is_seen(&[], shrinking(), 3));
    assert!((1..=3).all(|version| is_seen(ONE_TICK_LEASES, growing(), version)));
    assert!(!is_seen(&[], shrinking(), 4));
}

/// A deliberate bug of changes, and a small world in which it violates a claim.
struct BugWorld {
    bug: &'static str,
    /// The claims that the bug violates. The search stops at one of them.
    claims: &'static [Claim],
    settings: &'static [(&'static str, &'static str)],
    bounds: Bounds,
    /// The greatest number of steps, if the world is too large for an exhaustive search without the bug.
    depth: Option<usize>,
}

fn bug_worlds() -> Vec<BugWorld> {
    let (adopt, add) = ("1:voters adopt", "1:voters add 2");
    let world_of = |bug, claims, bounds| BugWorld { bug, claims, settings: &[], bounds, depth: None };
    // Node 3 leads by {1}, and does not hear that the voters are {1, 2}.
    let leads_by_one = world(3, 3, &[adopt, "3:campaign", add], &["2:voters remove 1", "2:campaign"]);
    vec![
        world_of(
            "drop-grants",
            &[Claim::AtMostOneLeader],
            Bounds { elected: true, candidates: 1, ..world(2, 2, &[], &[adopt, "1:campaign"]) },
        ),
        // Node 3 still has version 0 when it is elected.
        world_of(
            "old-version-votes",
            &[Claim::AtMostOneLeader],
            world(3, 3, &[adopt, add, "3:campaign"], &["1:voters remove 1", "2:campaign"]),
        ),
        world_of("skip-drain", &[Claim::AtMostOneLeader], leads_by_one.clone()),
        world_of("change-while-silent", &[Claim::AtMostOneLeader], Bounds { restarts: 1, ..leads_by_one }),
        // Node 1 has led. Node 2 has never voted.
        world_of(
            "forget-floor",
            &[Claim::TokensIncrease],
            world(2, 1, &["1:campaign", "1:resign", adopt, add], &["1:voters remove 1", "2:campaign"]),
        ),
        // Two coordinators with different ballots: {1} and {2} are both chosen.
        world_of(
            "blind-coordinator",
            &[Claim::AtMostOneLeader, Claim::TokensIncrease],
            world(
                2,
                2,
                &[adopt, add, "1:campaign"],
                &["1:voters remove 2", "2:voters remove 1", "2:campaign"],
            ),
        ),
        // Node 1 counts its own promise of version 2 in version 3, in which it does not vote.
        BugWorld {
            settings: ONE_TICK_LEASES,
            depth: Some(12),
            ..world_of(
                "mix-versions",
                &[Claim::TokensIncrease],
                world(2, 1, &[adopt, add], &["2:voters remove 1", "1:campaign", "2:campaign"]),
            )
        },
    ]
}

#[test]
fn every_bug_of_changes_is_found_and_the_correct_code_passes() {
    for BugWorld { bug, claims, settings, bounds, depth } in bug_worlds() {
        let broken = search(&[settings, &[("bug", bug)]].concat(), depth, bounds.clone());
        let violated = broken.broken().map(|verdict| verdict.claim);
        assert!(violated.is_some_and(|claim| claims.contains(&claim)), "{bug}: {broken:?}");
        let sound = search(settings, depth, bounds);
        assert_eq!(sound.broken(), None, "{bug}");
        match depth {
            None => assert_kept(&sound),
            Some(_) => assert_eq!(sound.extent, Extent::CutByDepth, "{bug}"),
        }
        println!("{bug}: found among {} states, {} states without it", broken.states, sound.states);
    }
}

/// Commands before the search take effect, those of the search are steps, and schedules name them.
#[test]
fn commands_are_given_once_at_any_time() {
    let resigns = |commands: &[&str]| search(&[], None, world(1, 0, &["1:campaign"], commands));
    // The process leads, or it has resigned: with a slow clock and with a fast one.
    assert_eq!(resigns(&["1:resign"]).states, 2 * 2);
    // Neither command was given, or either of them, or both.
    assert_eq!(resigns(&["1:resign", "1:pin"]).states, 2 * 4);
    let removed = search(&[("bug", "drop-grants")], None, bug_worlds().remove(0).bounds);
    let schedule = &removed.broken().unwrap().schedule;
    assert!(schedule[0].starts_with("1 gets the command `voters adopt`"), "{schedule:?}");
    let led = |commands: &[&str]| resigns(commands).outcome(Claim::LedAfterCommands);
    assert_eq!(led(&["1:resign"]), Some(ClaimOutcome::Unseen));
    assert_eq!(led(&[]), None);
}

#[test]
#[should_panic(expected = "command 3:resign: there is no process 3")]
fn a_command_to_nobody_is_refused() {
    search(&[], None, world(2, 0, &[], &["3:resign"]));
}
