//! Schedules as events: what happens at each step, for pictures and players.

use suffrage_core::{Algorithm, Announcement, Effect, Message as _, NodeId};

use crate::{Clocks, ElectionModel, ModelState, Step};

/// An event of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleEvent {
    /// The number of the step, from 1; 0 for what happened before the search.
    pub step: usize,
    /// The process: the sender of a message that is sent, the receiver of one that arrives.
    pub node: NodeId,
    /// The kind of the event, with its details.
    pub kind: ScheduleEventKind,
}

/// The kind of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum ScheduleEventKind {
    /// A message was sent. Messages are numbered.
    Sent {
        /// The number of the message.
        message: u64,
        /// The receiver.
        to: NodeId,
        /// The name of its kind.
        kind: &'static str,
        /// False if the source does not count messages of this kind.
        counted: bool,
        /// The message as JSON.
        content: String,
    },
    /// A message arrived.
    Delivered {
        /// The number of the message.
        message: u64,
        /// The sender.
        from: NodeId,
        /// The name of its kind.
        kind: &'static str,
    },
    /// A message was lost.
    Lost {
        /// The number of the message.
        message: u64,
        /// The sender.
        from: NodeId,
        /// The name of its kind.
        kind: &'static str,
    },
    /// A timer fired.
    Expired {
        /// The timer.
        timer: String,
    },
    /// The process announced its belief.
    Announced(Announcement),
    /// The process may lead up to this step, in which its lease ends, or beyond the schedule.
    Leased {
        /// The step.
        until: usize,
    },
    /// The process got a command.
    Commanded {
        /// The command in its text form.
        command: String,
    },
    /// The process crashed.
    Crashed,
    /// The process restarted.
    Recovered,
    /// True time advanced.
    Time {
        /// The true time, in time units.
        now: f64,
    },
}

struct InFlight<M> {
    number: u64,
    from: usize,
    to: usize,
    message: M,
}

struct Tracer<'m, A: Algorithm> {
    model: &'m ElectionModel<A>,
    events: Vec<ScheduleEvent>,
    in_flight: Vec<InFlight<A::Message>>,
    messages: u64,
    step: usize,
    /// For each process that leads by a lease, the index of the event of its lease.
    leases: Vec<Option<usize>>,
}

/// The events of a schedule, given as the states before its steps.
pub(crate) fn events<A: Algorithm>(
    model: &ElectionModel<A>,
    path: &[(ModelState<A>, Option<Step>)],
) -> Vec<ScheduleEvent> {
    let count = model.roster().len();
    let mut tracer = Tracer {
        model,
        events: Vec::new(),
        in_flight: Vec::new(),
        messages: 0,
        step: 0,
        leases: vec![None; count],
    };
    if let Some((state, _)) = path.first() {
        tracer.begin(state, path.len());
    }
    for (state, step) in path {
        let Some(step) = step else { break };
        tracer.step += 1;
        tracer.take(state, *step, path.len());
    }
    tracer.events
}

impl<A: Algorithm> Tracer<'_, A> {
    fn push(&mut self, slot: usize, kind: ScheduleEventKind) {
        self.events.push(ScheduleEvent { step: self.step, node: self.model.roster().id(slot), kind });
    }

    /// The state before the search: beliefs, and messages in flight.
    fn begin(&mut self, state: &ModelState<A>, length: usize) {
        for (slot, node) in state.nodes().enumerate() {
            if node.belief != Announcement::Undecided {
                if node.lead_until.is_some() && self.model.leads(state, slot) {
                    self.lease(slot, length);
                }
                self.push(slot, ScheduleEventKind::Announced(node.belief));
            }
        }
        let envelopes: Vec<_> = state
            .envelopes()
            .map(|envelope| (envelope.from, envelope.to, envelope.message.clone()))
            .collect();
        for (from, to, message) in envelopes {
            self.send(from, to, message);
        }
    }

    fn lease(&mut self, slot: usize, length: usize) {
        if self.leases[slot].is_none() {
            self.leases[slot] = Some(self.events.len());
            self.push(slot, ScheduleEventKind::Leased { until: length });
        }
    }

    fn send(&mut self, from: usize, to: usize, message: A::Message) {
        self.messages += 1;
        let kind = A::Message::KINDS[message.kind()];
        let content = serde_json::to_string(&message).expect("messages are plain data");
        let to_id = self.model.roster().id(to);
        self.push(
            from,
            ScheduleEventKind::Sent {
                message: self.messages,
                to: to_id,
                kind: kind.name,
                counted: kind.counted,
                content,
            },
        );
        self.in_flight.push(InFlight { number: self.messages, from, to, message });
    }

    /// Takes the message at this index of the state out of flight: its number, its ends and its kind.
    fn arrive(&mut self, state: &ModelState<A>, index: usize) -> (u64, usize, usize, &'static str) {
        let envelope = state.envelope(index);
        let kind = A::Message::KINDS[envelope.message.kind()].name;
        let is_same = |other: &InFlight<A::Message>| {
            (other.from, other.to) == (envelope.from, envelope.to) && other.message == envelope.message
        };
        let place = self.in_flight.iter().position(is_same);
        let number = place.map_or(0, |place| self.in_flight.remove(place).number);
        (number, envelope.from, envelope.to, kind)
    }

    fn deliver(&mut self, state: &ModelState<A>, index: usize) -> usize {
        let (message, from, to, kind) = self.arrive(state, index);
        let from = self.model.roster().id(from);
        self.push(to, ScheduleEventKind::Delivered { message, from, kind });
        to
    }

    fn take(&mut self, state: &ModelState<A>, step: Step, length: usize) {
        let Some((next, effects)) = self.model.apply(state, step) else { return };
        let command = |text: String| ScheduleEventKind::Commanded { command: text };
        let actor = match step {
            Step::Deliver(index) => Some(self.deliver(state, index)),
            Step::Duplicate(index) => {
                let envelope = state.envelope(index);
                let (from, to, message) = (envelope.from, envelope.to, envelope.message.clone());
                let actor = self.deliver(state, index);
                self.send(from, to, message);
                Some(actor)
            }
            Step::Lose(index) => {
                let (message, from, to, kind) = self.arrive(state, index);
                let from = self.model.roster().id(from);
                self.push(to, ScheduleEventKind::Lost { message, from, kind });
                None
            }
            Step::Timeout(slot, index) => {
                let timer = state.nodes[slot].timers[index].map(|(timer, _)| format!("{timer:?}"));
                self.push(slot, ScheduleEventKind::Expired { timer: timer.unwrap_or_default() });
                Some(slot)
            }
            Step::Campaign(slot) => {
                self.push(slot, command("campaign".to_string()));
                Some(slot)
            }
            Step::Resign(slot) => {
                self.push(slot, command("resign".to_string()));
                Some(slot)
            }
            Step::Transfer(slot, to) => {
                self.push(slot, command(format!("transfer {}", self.model.roster().id(to))));
                Some(slot)
            }
            Step::Command(index) => {
                let (slot, text) = self.model.command_at(index).clone();
                self.push(slot, command(text.to_string()));
                Some(slot)
            }
            Step::Restart(slot) | Step::Wipe(slot) => {
                self.leases[slot] = None;
                self.push(slot, ScheduleEventKind::Crashed);
                self.push(slot, ScheduleEventKind::Recovered);
                Some(slot)
            }
            Step::Tick => {
                if let Clocks::True { tick, .. } = self.model.bounds().clocks {
                    let now = (tick * (u64::from(state.tick) + 1)).as_units();
                    self.push(0, ScheduleEventKind::Time { now });
                }
                None
            }
        };
        if let Some(actor) = actor {
            effects.into_iter().for_each(|effect| self.effect(actor, effect, length));
        }
        self.end_leases(state, &next);
    }

    fn effect(&mut self, actor: usize, effect: Effect<A>, length: usize) {
        match effect {
            Effect::Send { to, message } => {
                if let Some(to) = self.model.roster().slot(to) {
                    self.send(actor, to, message);
                }
            }
            Effect::Multicast { message } => {
                for peer in self.model.roster().view(actor).peers() {
                    let to = self.model.roster().slot(peer).expect("peers are members");
                    self.send(actor, to, message.clone());
                }
            }
            Effect::Announce(announcement) => {
                if announcement.leader() != Some(self.model.roster().id(actor)) {
                    self.leases[actor] = None;
                }
                self.push(actor, ScheduleEventKind::Announced(announcement));
            }
            Effect::LeadUntil(_) => self.lease(actor, length),
            Effect::SetTimer { .. }
            | Effect::CancelTimer { .. }
            | Effect::Save(_)
            | Effect::Suspect(_)
            | Effect::Restore(_) => {}
        }
    }

    /// Ends the leases that end in this step. Their events came earlier.
    fn end_leases(&mut self, before: &ModelState<A>, after: &ModelState<A>) {
        for slot in 0..self.leases.len() {
            let has_ended = self.model.leads(before, slot) && !self.model.leads(after, slot);
            if let Some(index) = self.leases[slot].filter(|_| has_ended) {
                self.events[index].kind = ScheduleEventKind::Leased { until: self.step };
                self.leases[slot] = None;
            }
        }
    }
}
