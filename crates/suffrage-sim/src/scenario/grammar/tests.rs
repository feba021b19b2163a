//! Round trips of the grammar: printed flags are parsed, and describe the same run.

use std::collections::BTreeSet;

use suffrage_algorithms::catalog::{self, CONTRACTS};
use suffrage_core::Algorithm;
use suffrage_core::Visitor;

use super::*;
use crate::{Detector, TRIALS, TortureTarget, runner, shrink};

fn spec(line: &str) -> Spec {
    line.parse().unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn scenario(line: &str) -> Scenario {
    spec(line).scenario().unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Prints a scenario, and parses the printed flags.
fn round_trip(scenario: &Scenario) -> (String, Scenario) {
    let line = Spec::of(scenario).to_string();
    let parsed = self::scenario(&line);
    (line, parsed)
}

/// The seeds of each algorithm; of every fourth, the run is compared too.
const SEEDS: u64 = 240;

struct RoundTrip;

impl Visitor for RoundTrip {
    type Output = ();

    fn visit<A: Algorithm>(self) {
        let target = TortureTarget::<A>::default();
        for seed in 0..SEEDS {
            let case = target.case(seed);
            let (line, parsed) = round_trip(&case.scenario);
            assert_eq!(parsed, case.scenario, "{line}");
            let few = shrink(&case.scenario, |scenario| scenario.plan.len() + scenario.commands.len() > 3);
            assert_eq!(round_trip(&few).1, few, "{line}");
            if seed % 4 == 0 {
                let runner = runner(A::CONTRACT.name, &crate::borrow_settings(&case.settings))
                    .expect("the case has set them");
                let (before, after) = (runner.run(&case.scenario), runner.run(&parsed));
                assert_eq!(before.trace_hash, after.trace_hash, "{line}");
            }
        }
    }
}

#[test]
fn torture_is_parsed_as_it_is_printed() {
    for contract in CONTRACTS {
        catalog::visit(contract.name, RoundTrip).expect("the catalog has it");
    }
}

#[test]
fn trials_are_parsed_as_they_are_printed() {
    let detector: Detector = "ideal:2".parse().unwrap();
    for (trial, contract) in TRIALS.iter().flat_map(|trial| CONTRACTS.iter().map(move |other| (trial, other)))
    {
        for seed in 0..20 {
            let mut scenario = trial.draw(contract, 2 + seed as usize, seed, detector).scenario;
            (scenario.count_bytes, scenario.window) = (false, None);
            let (line, parsed) = round_trip(&scenario);
            assert_eq!(parsed, scenario, "{line}");
        }
    }
}

/// Flags as a user may write them, and as they are printed: in order, and without defaults.
#[test]
fn flags_are_printed_in_the_shortest_form() {
    for (written, printed) in [
        ("", ""),
        ("--rank id --loss 0 --latency const:1.0 --detector none --topology complete", ""),
        ("--seed 0 --nodes 5", "--nodes 5 --seed 0"),
        ("--crash 1@2 3@4.50 --seed=7 --crash leader@5", "--crash 1@2,3@4.5,leader@5 --seed 7"),
        ("--partition '1|2@0' 3>1@2..4 --one-way", "--partition '1|2' --partition '3>1@2..4' --one-way"),
        ("--ids 3,1 2 --initiator 1,2 --rank 3=-1,2=5", "--ids 3,1,2 --rank 3=-1,2=5 --initiator 1,2"),
        ("--transfer '5>3@10,3>5@20' --contenders 1.0", "--contenders 1.0 --transfer '5>3@10,3>5@20'"),
        ("--multicast ideal --until 1e3", "--multicast ideal:1 --until 1000"),
    ] {
        assert_eq!(spec(written).to_string(), printed);
        assert_eq!(spec(printed), spec(written));
    }
}

/// Flags that torture does not draw.
#[test]
fn every_flag_survives_a_scenario() {
    let lines = [
        "--nodes 7 --view-prob 0.5 --initiator none --topology power-law:0.8 --crashed 3,1 --seed 0",
        "--ids 9,2,5 --rank 2=7 --initiator all --contenders 0.5 --crashed 5 --seed 3",
        "--nodes 4 --contenders 2 --fail 0.25 --fail-within 30 --seed 1",
        "--nodes 4 --initiator 2,1 --fail 0.25 --delay-bound 3 --seed 1",
        "--nodes 3 --initiator 1 --crash 1@1,leader@4 --recover leader@6 --recover-wiped 1@2,leader@5 --pause 2@3..4 --seed 0",
        "--nodes 3 --initiator 1 --jump 2@1+3,1@2-0.5 --rerank 3=-4@9 --seed 0",
        "--nodes 3 --initiator 1 --partition '1|2' --partition '3>1,2@2..6' --partition '1|3@2..4' --seed 0",
        "--nodes 3 --initiator 1 --loss-from 0.5@3,0.1@9 --duplicate-from 0.25@3 --heal-all-at 6,12 --seed 0",
        "--nodes 3 --initiator 1 --crash-midway 2:before-save@1,1:3@4 --late 0.01:36@2 --slow 20@3,1@9 --slow-disk 40@2,0@7 --seed 0",
        "--nodes 3 --initiator 1 --campaign 2@4,1@5 --resign 1@5 --transfer '1>2@5,1>3@5' --seed 0",
        "--nodes 3 --initiator 1 --command '2:health off in 2@4' --command 1:pin@5 --seed 0",
        "--nodes 3 --initiator 1 --latency uniform:0.5,2 --loss 0.5 --mcast-loss 0.1 --duplicate 0.1 --seed 0",
        "--nodes 3 --initiator 1 --drift '1%' --detector phi:8,2 --multicast bimodal:2,5 --seed 0",
        "--nodes 3 --initiator 1 --multicast ideal:0.9 --until 90 --limit 1000 --stable 5 --seed 18446744073709551615",
    ];
    for line in lines {
        assert_eq!(round_trip(&scenario(line)).0, line);
    }
    let used: BTreeSet<&str> =
        lines.iter().flat_map(|line| spec(line).given()).map(|(flag, _)| flag.name).collect();
    let unused: Vec<&str> = flags().map(|flag| flag.name).filter(|name| !used.contains(name)).collect();
    // These flags have an equivalent: the sign >, and --loss with --mcast-loss.
    assert_eq!(unused, ["one-way", "ucast-loss"]);
    assert_eq!(scenario("--ucast-loss 0.3"), scenario("--loss 0.3 --mcast-loss 0"));
    assert_eq!(scenario("--partition 1|2,3@5 --one-way"), scenario("--partition 1>2,3@5"));
}

/// Cuts that come and go under one number, as tests write them by hand.
#[test]
fn a_cut_is_printed_with_its_own_end() {
    use crate::{Cut, Fault};
    use suffrage_core::Roster;
    let at = |units: u64| units.to_string().parse().unwrap();
    let cut = |one, other| Fault::Cut(0, Cut::chained(3, one, other));
    let mut scenario = Scenario::new(Roster::numbered(3));
    scenario.plan =
        vec![(at(9), Fault::Heal(0)), (at(1), cut(0, 1)), (at(5), Fault::Heal(0)), (at(6), cut(1, 2))];
    let (line, parsed) = round_trip(&scenario);
    assert_eq!(line, "--nodes 3 --initiator none --partition '1|2@1..5' --partition '2|3@6..9' --seed 0");
    assert_eq!(round_trip(&parsed).0, line);
}

/// Commands at one moment to one process have a fixed order, whatever the order in the scenario.
#[test]
fn the_order_of_commands_does_not_matter() {
    use suffrage_algorithms::raft::Raft;
    // Process 1 leads by then: a campaign has no effect before the resignation, and has one after it.
    let scenario = scenario("--initiator 1 --campaign 1@40 --resign 1@40 --until 90");
    let mut reversed = scenario.clone();
    reversed.commands.reverse();
    let hash = |scenario: &Scenario| scenario.run::<Raft>(&Default::default()).trace_hash;
    assert_eq!(hash(&reversed), hash(&scenario));
}

#[test]
#[should_panic(expected = "no flag gives this group")]
fn a_group_that_no_flag_gives_is_not_printed() {
    let mut scenario = Scenario::new(suffrage_core::Roster::numbered(3));
    scenario.roster.set_attribute(suffrage_core::NodeId(2), 77);
    Spec::of(&scenario);
}

#[test]
fn a_bad_value_is_quoted() {
    let names: BTreeSet<&str> = flags().map(|flag| flag.name).collect();
    assert_eq!(names.len(), flags().count(), "names are unique");
    for flag in flags().filter(|flag| flag.arity != Arity::Switch) {
        let refusal = flag.check("?!").expect_err(flag.name);
        assert!(refusal.contains("`?!`"), "--{}: {refusal}", flag.name);
        let error = Spec::parse(&[&format!("--{}", flag.name), "?!"]).expect_err(flag.name);
        assert_eq!(error.to_string(), format!("--{}: {refusal}", flag.name));
        assert!(!flag.help.is_empty() && !flag.value.is_empty(), "--{}", flag.name);
    }
}

#[test]
fn flags_that_do_not_fit_are_refused() {
    for (line, sentence) in [
        ("5", "--5: `5` is not a flag; a flag begins with --"),
        ("--colour red", "--colour: there is no such flag"),
        ("--crash", "--crash: a value is missing; give ID@TIME"),
        ("--one-way=yes", "--one-way: takes no value; remove it"),
        ("--seed 1 --seed 2", "--seed: is given twice; give it once"),
        ("--nodes 2 --ids 1,2", "--ids: cannot be combined with --nodes"),
        ("--ucast-loss 0.1 --loss 0.1", "--ucast-loss: cannot be combined with --loss"),
        ("--fail-within 3", "--fail-within: requires --fail"),
        ("--ids 3,32,3", "--ids: process 3 is named twice; name it once"),
        (
            "--ids 9223372036854775808",
            "--ids: 9223372036854775808 is too large an id; the largest is 9223372036854775807",
        ),
        ("--initiator 9", "--initiator: there is no process 9; the group is 1-5"),
        ("--initiator 1,1", "--initiator: process 1 is named twice; name it once"),
        (
            "--initiator 3 --crashed 3",
            "--initiator: process 3 is dead from the start; name a live one or drop --crashed 3",
        ),
        (
            "--crashed 1,2,3,4,5",
            "--crashed: all processes are dead from the start; leave one alive or --recover one",
        ),
        ("--rank 9=1", "--rank: there is no process 9; the group is 1-5"),
        (
            "--crash 5@1,5@2",
            "--crash: process 5 is already dead at 2; remove this crash or --recover it before",
        ),
        (
            "--recover 5@1",
            "--recover: process 5 is not dead at 1; crash it before, with --crashed 5 or --crash 5@TIME",
        ),
        (
            "--recover-wiped leader@1",
            "--recover-wiped: no leader has crashed before 1; add --crash leader@TIME",
        ),
        ("--pause 5@3..4 --crashed 5", "--pause: process 5 is dead at 3; pause a live process"),
        ("--partition 1|2,9", "--partition: there is no process 9; the group is 1-5"),
        ("--one-way", "--one-way: there is no --partition to be one-way; add one"),
        (
            "--heal-all-at 20 --crash 5@30",
            "--heal-all-at: all faults end at 20, but --crash begins at 30; move one of them",
        ),
        (
            "--heal-all-at 20 --loss-from 0.1@30",
            "--heal-all-at: all faults end at 20, but --loss-from begins at 30; move one of them",
        ),
        (
            "--until 20 --rerank 5=1@30",
            "--until: the run ends at 20, but --rerank is at 30; move one of them",
        ),
        (
            "--until 20 --heal-all-at 30",
            "--until: the run ends at 20, but --heal-all-at is at 30; move one of them",
        ),
        (
            "--until 20 --transfer '1>2@30'",
            "--until: the run ends at 20, but --transfer is at 30; move one of them",
        ),
        ("--transfer '1>9@3'", "--transfer: there is no process 9; the group is 1-5"),
        (
            "--delay-bound 0",
            "--delay-bound: the delay bound is 0, so that no answer is in time; add a --delay-bound above 0",
        ),
        (
            "--multicast ideal:0.5 --mcast-loss 0.1",
            "--mcast-loss: --multicast ideal:PROBABILITY sets the loss already; give one of the two",
        ),
    ] {
        let refused = line.parse::<Spec>().and_then(|spec| spec.scenario()).expect_err(line);
        assert_eq!(refused.to_string(), sentence);
    }
    assert_eq!(spec("--heal-all-at 20 --rerank 5=1@30").scenario().err(), None, "a rank is no fault");
}

#[test]
fn words_survive_the_shell() {
    for (word, printed) in [("1,2@3", "1,2@3"), ("1|2", "'1|2'"), ("", "''"), ("a'b c", "'a'\\''b c'")] {
        assert_eq!(quoted(word), printed);
        assert_eq!(unquoted(&format!(" x  {printed} y")), ["x", word, "y"]);
    }
}
