//! Temporary.
use suffrage_lease::{Bug, Options, QuorumLease};
use suffrage_sim::TortureTarget;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let from: u64 = args[1].parse().unwrap();
    let to: u64 = args[2].parse().unwrap();
    let only = args.get(3).map(|s| s.as_str()) == Some("changes");
    let bug = args.get(4).map(|name| Bug::ALL.iter().find(|(n, _)| n == name).unwrap().1);
    let (mut runs, mut bad, mut changes) = (0, 0, 0u64);
    for seed in from..to {
        let case = TortureTarget::<QuorumLease>::default().case(seed);
        if only && !case.options.changes {
            continue;
        }
        runs += 1;
        let options = Options { bug, ..case.options.clone() };
        let outcome = case.run(&case.scenario, |s| s.run::<QuorumLease>(&options));
        changes += outcome.leaderships as u64;
        if !outcome.violations.is_empty() {
            bad += 1;
            if bad <= 5 {
                println!("{seed} {:?} {:?}", case.settings, outcome.violations);
            }
        }
    }
    println!("{runs} runs, {bad} bad, {changes} leaderships");
}
