//! Prints the number of messages until a group whose members all start alone has one leader: the invitation algorithm
//! compared with bully.

use suffrage_algorithms::bully::Bully;
use suffrage_algorithms::invitation::Invitation;
use suffrage_core::{Algorithm, Roster, Span, Time};
use suffrage_sim::{Outcome, Ranking, Scenario};

/// Runs a scenario until beliefs have settled.
fn run<A: Algorithm>(scenario: &Scenario) -> Outcome {
    let settled = scenario.run::<A>(&A::Options::default()).decided;
    let until = Some(Time::ZERO + Span::from_units(settled));
    let outcome = Scenario { until, ..scenario.clone() }.run::<A>(&A::Options::default());
    assert_eq!(outcome.violations, [], "{}", A::CONTRACT.name);
    assert!(outcome.agreed, "{}", A::CONTRACT.name);
    outcome
}

fn row(cells: [String; 6]) {
    let [nodes, cells @ ..] = cells;
    println!("{nodes:>4}{}", cells.map(|cell| format!("{cell:>17}")).concat());
}

fn main() {
    let headings = ["N", "invitation", "with questions", "time", "bully: all call", "the best calls"];
    row(headings.map(String::from));
    for nodes in [10, 100, 1_000] {
        let mut scenario = Scenario::new(Roster::numbered(nodes));
        scenario.ranking = Ranking::Random;
        scenario.until = Some(Time::ZERO + Span::from_millis(1_000));
        let invitation = run::<Invitation>(&scenario);
        let questions: u64 = invitation.messages.uncounted.iter().map(|(_, count)| count).sum();
        scenario.initiators = (0..nodes).collect();
        let bully = run::<Bully>(&scenario);
        let best = bully.leader.and_then(|leader| scenario.roster.slot(leader)).expect("they agree");
        scenario.initiators = vec![best];
        let luckiest = run::<Bully>(&scenario);
        row([
            nodes.to_string(),
            invitation.messages.total.to_string(),
            (invitation.messages.total + questions).to_string(),
            format!("{:.1}", invitation.decided),
            bully.messages.total.to_string(),
            luckiest.messages.total.to_string(),
        ]);
    }
}
