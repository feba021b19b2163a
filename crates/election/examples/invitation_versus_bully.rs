//! How many messages it takes until a group whose members start alone, all at once, has one leader: the
//! invitation algorithm beside bully.

use election::algorithms::bully::Bully;
use election::algorithms::invitation::Invitation;
use election::{Algorithm, Roster, Span, Time};
use simulator::{Outcome, Ranking, Scenario};

/// The run until beliefs have settled, not beyond.
fn run<A: Algorithm>(scenario: &Scenario) -> Outcome {
    let settled = scenario.run::<A>(&A::Options::default()).decided;
    let until = Some(Time::ZERO + Span::from_units(settled));
    let outcome = Scenario { until, ..scenario.clone() }.run::<A>(&A::Options::default());
    assert_eq!(outcome.violations, [], "{}", A::CONTRACT.name);
    assert!(outcome.agreed, "{}", A::CONTRACT.name);
    outcome
}

fn main() {
    let heading = ["N", "ranks", "invitation", "apart", "per member", "time", "bully", "time"];
    let row = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>10}")).collect();
        println!("{}", cells.join("  "));
    };
    row(&heading.map(String::from));
    for nodes in [10, 100, 1_000] {
        for ranking in [Ranking::Id, Ranking::Random] {
            let mut scenario = Scenario::new(Roster::numbered(nodes));
            scenario.ranking = ranking.clone();
            scenario.until = Some(Time::ZERO + Span::from_millis(1_000));
            let invitation = run::<Invitation>(&scenario);
            // All wake at once: whoever looks for others calls an election of bully.
            scenario.initiators = (0..nodes).collect();
            let bully = run::<Bully>(&scenario);
            let apart: u64 = invitation.messages.apart.iter().map(|(_, count)| count).sum();
            row(&[
                nodes.to_string(),
                ranking.to_string(),
                invitation.messages.total.to_string(),
                apart.to_string(),
                format!("{:.1}", (invitation.messages.total + apart) as f64 / nodes as f64),
                format!("{:.1}", invitation.decided),
                bully.messages.total.to_string(),
                format!("{:.1}", bully.decided),
            ]);
        }
    }
}
