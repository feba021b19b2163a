//! A small group whose steps are decided by the bytes: which message arrives, when, how often, and from which sender.
//!
//! Without forged messages, the safety of the algorithm is checked too: never two leaders at once, and increasing
//! terms, if the contract promises that. All clocks are equal, so a lease ends at the same time for all members.

use std::collections::BTreeMap;
use std::mem;

use suffrage_algorithms::catalog;
use suffrage_core::Visitor;
use suffrage_core::{
    Algorithm, Announcement, Command, Context, Effect, NodeId, Recorder, Roster, Safety, Span, Start, Term,
    Time, Timer as _,
};
use suffrage_net::codec::{Envelope, Protocol};

use crate::Source;

/// The number of members.
const MEMBERS: usize = 3;
/// The most messages in flight. Older messages are lost.
const MAX_IN_FLIGHT: usize = 64;
/// The most effects of one input.
const MAX_EFFECTS: usize = 200;

/// Runs a group of this algorithm whose steps are decided by the bytes.
///
/// # Panics
/// If the algorithm is unknown, or if a process panics or breaks the promise of its contract.
pub fn conversation_of(algorithm: &str, bytes: &[u8]) {
    catalog::visit(algorithm, Converse(bytes)).expect("the name is in the catalog");
}

struct Converse<'a>(&'a [u8]);

impl Visitor for Converse<'_> {
    type Output = ();

    fn visit<A: Algorithm>(self) {
        converse::<A>(&A::Options::default(), self.0);
    }
}

/// Runs a group with these options, and returns the number of leaderships.
///
/// # Panics
/// If a process panics or breaks the promise of its contract.
pub fn converse<A: Algorithm>(options: &A::Options, bytes: &[u8]) -> usize {
    let mut source = Source::new(bytes);
    let mut group = Group::<A>::new(options.clone(), source.byte() % 2 == 1);
    // Many short inputs find more than a long one.
    for _ in 0..2_000 {
        if source.is_empty() {
            break;
        }
        group.step(&mut source);
        group.check();
    }
    group.leaderships
}

struct Member<A: Algorithm> {
    process: A,
    saved: Option<A::Saved>,
    /// The pending timers by index.
    timers: BTreeMap<usize, (Time, A::Timer)>,
    /// The term in which the member leads, if it does.
    leading_term: Option<Term>,
    lead_until: Option<Time>,
}

struct Group<A: Algorithm> {
    options: A::Options,
    roster: Roster,
    now: Time,
    members: Vec<Member<A>>,
    recorder: Recorder<A>,
    /// The messages in flight: sender, addressee, content.
    in_flight: Vec<(usize, usize, A::Message)>,
    /// Whether messages are forged.
    forging: bool,
    leaderships: usize,
    /// The greatest term of a leader.
    greatest_term: Term,
}

impl<A: Algorithm> Group<A> {
    fn new(options: A::Options, forging: bool) -> Group<A> {
        let roster = Roster::numbered(MEMBERS);
        let member = |slot| Member {
            process: A::new(roster.id(slot), &options),
            saved: None,
            timers: BTreeMap::new(),
            leading_term: None,
            lead_until: None,
        };
        let members = (0..MEMBERS).map(member).collect();
        let mut group = Group {
            options,
            roster,
            now: Time::from_nanos(1),
            members,
            recorder: Recorder::new(1),
            in_flight: Vec::new(),
            forging,
            leaderships: 0,
            greatest_term: Term(0),
        };
        for slot in 0..MEMBERS {
            group.input(slot, |process, cx| process.on_start(cx, Start::Fresh));
        }
        group
    }

    /// Takes one step: mostly deliveries and timers, so that elections make progress.
    fn step(&mut self, source: &mut Source<'_>) {
        match source.byte() {
            0..150 if !self.in_flight.is_empty() => self.deliver(source),
            0..190 => self.expire_timer(source),
            190..240 if self.forging => self.forge(source),
            190..215 => self.now = self.now + Span::UNIT.scale(f64::from(source.byte()) / 64.0),
            215..230 => self.command(source),
            230..238 => self.report_suspicion(source),
            238..248 => self.restart(source),
            248..=255 => {
                let slot = source.below(MEMBERS);
                self.roster.set_attribute(self.roster.id(slot), i64::from(source.byte()));
                self.input(slot, |process, cx| process.on_view_change(cx));
            }
        }
    }

    /// Delivers, duplicates or loses a message: the oldest or any other.
    fn deliver(&mut self, source: &mut Source<'_>) {
        let fate = source.byte();
        let index = if fate < 128 { 0 } else { source.below(self.in_flight.len()) };
        let (from, to, message) = match fate % 16 {
            1 => self.in_flight[index].clone(),
            _ => self.in_flight.remove(index),
        };
        if fate % 16 != 2 {
            let from = self.roster.id(from);
            self.input(to, |process, cx| process.on_message(cx, from, message));
        }
    }

    /// Expires the next timer, or any other and advances the time to it.
    fn expire_timer(&mut self, source: &mut Source<'_>) {
        let pending = self.members.iter().enumerate();
        let mut pending: Vec<(Time, usize, usize)> = pending
            .flat_map(|(slot, member)| {
                member.timers.iter().map(move |(&index, &(due, _))| (due, slot, index))
            })
            .collect();
        pending.sort_unstable();
        let index = if source.byte() < 224 { 0 } else { source.below(pending.len()) };
        let Some(&(due, slot, index)) = pending.get(index) else { return };
        let Some((_, timer)) = self.members[slot].timers.remove(&index) else { return };
        self.now = self.now.max(due);
        self.input(slot, |process, cx| process.on_timer(cx, timer));
    }

    fn command(&mut self, source: &mut Source<'_>) {
        let slot = source.below(MEMBERS);
        let command = match source.below(4) {
            0 | 1 => Command::Campaign,
            2 => Command::Resign,
            // The last id is not a member.
            _ => Command::Transfer(NodeId(source.below(MEMBERS + 1) as u64 + 1)),
        };
        self.input(slot, |process, cx| process.on_command(cx, command.into()));
    }

    fn report_suspicion(&mut self, source: &mut Source<'_>) {
        let (slot, peer) = (source.below(MEMBERS), source.below(MEMBERS));
        let (peer, suspected) = (self.roster.id(peer), source.byte() < 128);
        if peer != self.roster.id(slot) {
            self.input(slot, |process, cx| match suspected {
                true => process.on_suspect(cx, peer),
                false => process.on_restore(cx, peer),
            });
        }
    }

    /// Crashes and restarts a process, sometimes with an empty disk. Messages in flight stay.
    fn restart(&mut self, source: &mut Source<'_>) {
        let slot = source.below(MEMBERS);
        let member = &mut self.members[slot];
        member.process = A::new(self.roster.id(slot), &self.options);
        member.timers.clear();
        (member.leading_term, member.lead_until) = (None, None);
        if source.byte() % 8 == 7 {
            member.saved = None;
        }
        let saved = member.saved.clone();
        self.input(slot, |process, cx| process.on_start(cx, Start::Recovered(saved)));
    }

    /// Delivers a well-formed message that no process sent.
    fn forge(&mut self, source: &mut Source<'_>) {
        let (from, to, length) = (source.below(MEMBERS), source.below(MEMBERS), source.below(64));
        let protocol = Protocol::named(A::CONTRACT.name);
        let start = Envelope::new(protocol, 99).as_bytes().to_vec();
        let bytes = source.take(length);
        let forged = protocol.decode::<A::Message>(&[&start, &[bytes.len() as u8][..], bytes].concat());
        if let Ok(messages) = forged
            && from != to
        {
            let from = self.roster.id(from);
            for message in messages {
                self.input(to, |process, cx| process.on_message(cx, from, message));
            }
        }
    }

    fn input(&mut self, slot: usize, input: impl FnOnce(&mut A, &mut Context<'_, A>)) {
        let view = self.roster.view(slot);
        input(&mut self.members[slot].process, &mut self.recorder.context(self.now, view, Span::UNIT));
        let effects = self.recorder.take();
        assert!(
            effects.len() <= MAX_EFFECTS,
            "{} effects of one input; at most {MAX_EFFECTS}",
            effects.len()
        );
        for effect in effects {
            self.apply_effect(slot, effect);
        }
    }

    fn apply_effect(&mut self, slot: usize, effect: Effect<A>) {
        let me = self.roster.id(slot);
        let member = &mut self.members[slot];
        match effect {
            Effect::Send { to, message } => {
                if let Some(to) = self.roster.slot(to) {
                    self.in_flight.push((slot, to, message));
                }
            }
            Effect::Multicast { message } => {
                let others = (0..MEMBERS).filter(|&to| to != slot);
                self.in_flight.extend(others.map(|to| (slot, to, message.clone())));
            }
            Effect::SetTimer { timer, after } => {
                member.timers.insert(timer.index(), (self.now + after, timer));
            }
            Effect::CancelTimer { timer } => {
                member.timers.remove(&timer.index());
            }
            Effect::Save(state) => member.saved = Some(state),
            Effect::Announce(announcement) => {
                let leading_term = match announcement {
                    Announcement::Elected { leader, term } if leader == me => Some(term),
                    _ => None,
                };
                let before = mem::replace(&mut member.leading_term, leading_term);
                if leading_term.is_none() {
                    member.lead_until = None;
                }
                if let Some(term) = leading_term
                    && before != leading_term
                {
                    self.leaderships += 1;
                    assert!(
                        !self.promises_one_leader() || term > self.greatest_term,
                        "term {term} after term {}",
                        self.greatest_term
                    );
                    self.greatest_term = self.greatest_term.max(term);
                }
            }
            Effect::LeadUntil(end) => member.lead_until = Some(end),
            Effect::Suspect(_) | Effect::Restore(_) => {}
        }
        let surplus = self.in_flight.len().saturating_sub(MAX_IN_FLIGHT);
        self.in_flight.drain(..surplus);
    }

    /// Whether the algorithm promises at most one leader and increasing terms.
    fn promises_one_leader(&self) -> bool {
        !self.forging && A::CONTRACT.safety == Safety::AtMostOne
    }

    fn check(&self) {
        let leads = |member: &&Member<A>| {
            member.leading_term.is_some() && member.lead_until.is_none_or(|end| self.now < end)
        };
        let leaders = self.members.iter().filter(leads).count();
        assert!(!self.promises_one_leader() || leaders <= 1, "{leaders} leaders at once");
    }
}
