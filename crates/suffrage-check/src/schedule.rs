//! A schedule as people read it: what happened, one step a line, and what came of each.

use std::fmt::Debug;

use suffrage_core::{Algorithm, Announcement, Effect, Message as _, NodeId};

use crate::{Claim, Clocks, Step, Universe, World};

/// What happens in a step, and what the process that takes part in it does.
pub(crate) fn line<A: Algorithm>(universe: &Universe<A>, world: &World<A>, step: Step) -> String {
    let cause = cause(universe, world, step);
    let effects = universe.take(world, step).map_or_else(Vec::new, |(_, effects)| effects);
    let actor = match step {
        Step::Deliver(place) | Step::Duplicate(place) => world.letter(place).to,
        Step::RunOut(slot, _) | Step::Campaign(slot) | Step::Restart(slot) | Step::Wipe(slot) => slot,
        Step::Resign(slot) | Step::Transfer(slot, _) => slot,
        Step::Lose(_) | Step::Tick => return cause,
    };
    let deeds = deeds(universe.roster().id(actor), &effects);
    if deeds.is_empty() { cause } else { format!("{cause}; it {}", deeds.join(", ")) }
}

fn cause<A: Algorithm>(universe: &Universe<A>, world: &World<A>, step: Step) -> String {
    let id = |slot| universe.roster().id(slot);
    let letter = |place: usize| {
        let letter = world.letter(place);
        (kind::<A>(&letter.message), id(letter.from), id(letter.to))
    };
    match step {
        Step::Deliver(place) => {
            let (kind, from, to) = letter(place);
            format!("{kind} from {from} reaches {to}")
        }
        Step::Duplicate(place) => {
            let (kind, from, to) = letter(place);
            format!("{kind} from {from} reaches {to}, and a copy of it will again")
        }
        Step::Lose(place) => {
            let (kind, from, to) = letter(place);
            format!("{kind} from {from} to {to} is lost")
        }
        Step::RunOut(slot, index) => {
            let timer = world.nodes[slot].timers[index].map(|(timer, _)| name(&timer)).unwrap_or_default();
            format!("the timer {timer} of {} runs out", id(slot))
        }
        Step::Campaign(slot) => format!("{} is told to call an election", id(slot)),
        Step::Resign(slot) => format!("{} is told to resign", id(slot)),
        Step::Transfer(slot, to) => format!("{} is told to hand over to {}", id(slot), id(to)),
        Step::Restart(slot) => format!("{} crashes and comes back with its disk", id(slot)),
        Step::Wipe(slot) => format!("{} crashes and comes back without its disk", id(slot)),
        Step::Tick => match universe.bounds().clocks {
            Clocks::True { tick, .. } => {
                let now = tick * (u64::from(world.tick) + 1);
                format!("time goes on: it is {} now", now.as_units())
            }
            Clocks::Still | Clocks::Own => String::new(),
        },
    }
}

fn kind<A: Algorithm>(message: &A::Message) -> &'static str {
    A::Message::KINDS[message.kind()].name
}

/// What a value is called, without what is in it.
fn name(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    text.split([' ', '(', '{']).next().unwrap_or_default().to_string()
}

fn deeds<A: Algorithm>(me: NodeId, effects: &[Effect<A>]) -> Vec<String> {
    let mut deeds: Vec<String> = Vec::new();
    let mut sending = None;
    for effect in effects {
        let sent = match effect {
            Effect::Send { message, .. } => Some(kind::<A>(message)),
            _ => None,
        };
        let deed = match effect {
            Effect::Send { to, .. } if sending == sent => {
                let last = deeds.last_mut().expect("it has sent something");
                *last += &format!(" and {to}");
                continue;
            }
            Effect::Send { to, message } => Some(format!("sends {} to {to}", kind::<A>(message))),
            Effect::Multicast { message } => Some(format!("multicasts {}", kind::<A>(message))),
            Effect::Announce(Announcement::Elected { leader, term }) if *leader == me => {
                Some(format!("LEADS in term {term}"))
            }
            Effect::Announce(Announcement::Elected { leader, term }) => {
                Some(format!("believes in {leader}, of term {term}"))
            }
            Effect::Announce(Announcement::SteppedDown) => Some("leads no more".to_string()),
            Effect::Announce(Announcement::Undecided) => Some("believes in nobody".to_string()),
            Effect::LeadUntil(end) => Some(format!("may lead until {:.1} by its clock", end.as_units())),
            Effect::SetTimer { .. } | Effect::CancelTimer { .. } | Effect::Save(_) => None,
            Effect::Suspect(_) | Effect::Restore(_) => None,
        };
        if let Some(deed) = deed {
            deeds.push(deed);
            sending = sent;
        }
    }
    deeds
}

/// Why this world breaks the claim.
pub(crate) fn moral<A: Algorithm>(universe: &Universe<A>, world: &World<A>, claim: Claim) -> String {
    let list = |ids: Vec<String>| ids.join(" and ");
    match claim {
        Claim::AtMostOneLeader => {
            let leaders = universe.leaders(world).map(|id| id.to_string()).collect();
            format!("{} believe at the same time that they lead", list(leaders))
        }
        Claim::TokensIncrease => "the last to lead has a token that is not the greatest so far".to_string(),
        Claim::TokenIsKept => "one that led was given another token although its lease held".to_string(),
        Claim::OneLeaderPerTerm => "two have led in the same term".to_string(),
        Claim::QuietMeansAgreed => {
            let belief = |id: NodeId, leader: Option<NodeId>| match leader {
                Some(leader) => format!("{id} believes in {leader}"),
                None => format!("{id} believes in nobody"),
            };
            let beliefs = universe.roster().iter().zip(world.nodes());
            list(beliefs.map(|(id, node)| belief(id, node.belief.leader())).collect())
        }
        Claim::SomebodyLeads | Claim::ChangesHands | Claim::FallsQuiet => claim.name().to_string(),
    }
}
