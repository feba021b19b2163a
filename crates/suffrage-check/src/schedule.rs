//! Schedules as text: one step a line, with its effects.

use std::fmt::Debug;

use suffrage_core::{Algorithm, Announcement, Effect, Message as _, NodeId};

use crate::{Claim, Clocks, ElectionModel, ModelState, Step};

/// Describes a step, and the effects of the process that takes part in it.
pub(crate) fn line<A: Algorithm>(model: &ElectionModel<A>, state: &ModelState<A>, step: Step) -> String {
    let cause = cause(model, state, step);
    let effects = model.apply(state, step).map_or_else(Vec::new, |(_, effects)| effects);
    let actor = match step {
        Step::Deliver(index) | Step::Duplicate(index) => state.envelope(index).to,
        Step::Timeout(slot, _) | Step::Campaign(slot) | Step::Restart(slot) | Step::Wipe(slot) => slot,
        Step::Resign(slot) | Step::Transfer(slot, _) => slot,
        Step::Command(index) => model.command_at(index).0,
        Step::Lose(_) | Step::Tick => return cause,
    };
    let actions = describe_effects(model.roster().id(actor), &effects);
    if actions.is_empty() { cause } else { format!("{cause}; it {}", actions.join(", ")) }
}

fn cause<A: Algorithm>(model: &ElectionModel<A>, state: &ModelState<A>, step: Step) -> String {
    let id = |slot| model.roster().id(slot);
    let envelope = |index: usize| {
        let envelope = state.envelope(index);
        (kind::<A>(&envelope.message), id(envelope.from), id(envelope.to))
    };
    match step {
        Step::Deliver(index) => {
            let (kind, from, to) = envelope(index);
            format!("{kind} from {from} reaches {to}")
        }
        Step::Duplicate(index) => {
            let (kind, from, to) = envelope(index);
            format!("{kind} from {from} reaches {to}, and a copy of it stays in flight")
        }
        Step::Lose(index) => {
            let (kind, from, to) = envelope(index);
            format!("{kind} from {from} to {to} is lost")
        }
        Step::Timeout(slot, index) => {
            let timer = state.nodes[slot].timers[index].map(|(timer, _)| name(&timer)).unwrap_or_default();
            format!("the timer {timer} of {} fires", id(slot))
        }
        Step::Campaign(slot) => format!("{} is told to call an election", id(slot)),
        Step::Resign(slot) => format!("{} is told to resign", id(slot)),
        Step::Transfer(slot, to) => format!("{} is told to hand over to {}", id(slot), id(to)),
        Step::Command(index) => {
            let (slot, command) = model.command_at(index);
            format!("{} gets the command `{command}`", id(*slot))
        }
        Step::Restart(slot) => format!("{} crashes and restarts with its disk", id(slot)),
        Step::Wipe(slot) => format!("{} crashes and restarts without its disk", id(slot)),
        Step::Tick => match model.bounds().clocks {
            Clocks::True { tick, .. } => {
                let now = tick * (u64::from(state.tick) + 1);
                format!("time advances to {}", now.as_units())
            }
            Clocks::Still | Clocks::Own => String::new(),
        },
    }
}

fn kind<A: Algorithm>(message: &A::Message) -> &'static str {
    A::Message::KINDS[message.kind()].name
}

/// The name of an enum variant, without its fields.
fn name(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    text.split([' ', '(', '{']).next().unwrap_or_default().to_string()
}

fn describe_effects<A: Algorithm>(me: NodeId, effects: &[Effect<A>]) -> Vec<String> {
    let mut actions: Vec<String> = Vec::new();
    let mut sending = None;
    for effect in effects {
        let sent = match effect {
            Effect::Send { message, .. } => Some(kind::<A>(message)),
            _ => None,
        };
        let action = match effect {
            Effect::Send { to, .. } if sending == sent => {
                let last = actions.last_mut().expect("the last action is a send");
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
        if let Some(action) = action {
            actions.push(action);
            sending = sent;
        }
    }
    actions
}

/// Explains why this state violates the claim.
pub(crate) fn explain<A: Algorithm>(model: &ElectionModel<A>, state: &ModelState<A>, claim: Claim) -> String {
    let list = |ids: Vec<String>| ids.join(" and ");
    match claim {
        Claim::AtMostOneLeader => {
            let leaders = model.leaders(state).map(|id| id.to_string()).collect();
            format!("{} believe at the same time that they lead", list(leaders))
        }
        Claim::TokensIncrease => {
            "the latest leader has a token that is not greater than all before".to_string()
        }
        Claim::TokenIsKept => "a leader got another token while its lease was valid".to_string(),
        Claim::OneLeaderPerTerm => "two processes have led in the same term".to_string(),
        Claim::QuietMeansAgreed => {
            let belief = |id: NodeId, leader: Option<NodeId>| match leader {
                Some(leader) => format!("{id} believes in {leader}"),
                None => format!("{id} believes in nobody"),
            };
            let beliefs = model.roster().iter().zip(state.nodes());
            list(beliefs.map(|(id, node)| belief(id, node.belief.leader())).collect())
        }
        Claim::SomebodyLeads | Claim::LeaderChanges | Claim::LedAfterCommands | Claim::FallsQuiet => {
            claim.name().to_string()
        }
    }
}
