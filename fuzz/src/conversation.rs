//! A small group whose every step the bytes decide: what arrives, when, how often, and from whom.
//!
//! As long as nobody forges messages, what an algorithm promises whatever happens must hold, too: never two
//! leaders at once, and each with a greater term than all before, if it promises that. All clocks show the same
//! here, so a lease ends for all at once.

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

/// How many members there are.
const MEMBERS: usize = 3;
/// How many messages are on their way at most; of more, the oldest are lost.
const ON_THE_WAY: usize = 64;
/// How much a process may do about one input: more than any should.
const SHARE: usize = 200;

/// Lets the bytes decide what happens to a group of this algorithm's.
///
/// # Panics
/// If there is no such algorithm; and if one of its processes panics, or breaks its promise.
pub fn conversation_of(algorithm: &str, bytes: &[u8]) {
    catalog::visit(algorithm, Converse(bytes)).expect("it is in the catalog");
}

struct Converse<'a>(&'a [u8]);

impl Visitor for Converse<'_> {
    type Output = ();

    fn visit<A: Algorithm>(self) {
        converse::<A>(&A::Options::default(), self.0);
    }
}

/// The same with other options. Tells how often somebody came to lead.
///
/// # Panics
/// If a process panics, or breaks its promise.
pub fn converse<A: Algorithm>(options: &A::Options, bytes: &[u8]) -> usize {
    let mut source = Source::new(bytes);
    let mut group = Group::<A>::new(options.clone(), source.byte() % 2 == 1);
    // A long input is not worth more than many short ones.
    for _ in 0..2_000 {
        if source.is_empty() {
            break;
        }
        group.step(&mut source);
        group.check();
    }
    group.elected
}

struct Member<A: Algorithm> {
    process: A,
    saved: Option<A::Saved>,
    /// By index.
    timers: BTreeMap<usize, (Time, A::Timer)>,
    /// In which term it leads, if it does.
    reign: Option<Term>,
    lead_until: Option<Time>,
}

struct Group<A: Algorithm> {
    options: A::Options,
    roster: Roster,
    now: Time,
    members: Vec<Member<A>>,
    recorder: Recorder<A>,
    /// From which slot to which.
    on_the_way: Vec<(usize, usize, A::Message)>,
    /// Whether messages are made up.
    forging: bool,
    elected: usize,
    /// The greatest term anybody has led in.
    latest: Term,
}

impl<A: Algorithm> Group<A> {
    fn new(options: A::Options, forging: bool) -> Group<A> {
        let roster = Roster::numbered(MEMBERS);
        let member = |slot| Member {
            process: A::new(roster.id(slot), &options),
            saved: None,
            timers: BTreeMap::new(),
            reign: None,
            lead_until: None,
        };
        let members = (0..MEMBERS).map(member).collect();
        let mut group = Group {
            options,
            roster,
            now: Time::from_nanos(1),
            members,
            recorder: Recorder::new(1),
            on_the_way: Vec::new(),
            forging,
            elected: 0,
            latest: Term(0),
        };
        for slot in 0..MEMBERS {
            group.input(slot, |process, cx| process.on_start(cx, Start::Fresh));
        }
        group
    }

    /// Mostly what happens anyway, so that elections are held; and now and then something else.
    fn step(&mut self, source: &mut Source<'_>) {
        match source.byte() {
            0..150 if !self.on_the_way.is_empty() => self.deliver(source),
            0..190 => self.ring(source),
            190..240 if self.forging => self.forge(source),
            190..215 => self.now = self.now + Span::UNIT.scale(f64::from(source.byte()) / 64.0),
            215..230 => self.command(source),
            230..238 => self.opine(source),
            238..248 => self.restart(source),
            248..=255 => {
                let slot = source.below(MEMBERS);
                self.roster.set_attribute(self.roster.id(slot), i64::from(source.byte()));
                self.input(slot, |process, cx| process.on_view_change(cx));
            }
        }
    }

    /// A message arrives: the first that was sent, or any; perhaps not for the last time; or it is lost.
    fn deliver(&mut self, source: &mut Source<'_>) {
        let fate = source.byte();
        let place = if fate < 128 { 0 } else { source.below(self.on_the_way.len()) };
        let (from, to, message) = match fate % 16 {
            1 => self.on_the_way[place].clone(),
            _ => self.on_the_way.remove(place),
        };
        if fate % 16 != 2 {
            let from = self.roster.id(from);
            self.input(to, |process, cx| process.on_message(cx, from, message));
        }
    }

    /// A timer rings: the first that is due; or any, and time goes on until it is.
    fn ring(&mut self, source: &mut Source<'_>) {
        let pending = self.members.iter().enumerate();
        let mut pending: Vec<(Time, usize, usize)> = pending
            .flat_map(|(slot, member)| {
                member.timers.iter().map(move |(&index, &(due, _))| (due, slot, index))
            })
            .collect();
        pending.sort_unstable();
        let place = if source.byte() < 224 { 0 } else { source.below(pending.len()) };
        let Some(&(due, slot, index)) = pending.get(place) else { return };
        let Some((_, timer)) = self.members[slot].timers.remove(&index) else { return };
        self.now = self.now.max(due);
        self.input(slot, |process, cx| process.on_timer(cx, timer));
    }

    fn command(&mut self, source: &mut Source<'_>) {
        let slot = source.below(MEMBERS);
        let command = match source.below(4) {
            0 | 1 => Command::Campaign,
            2 => Command::Resign,
            // The last of these is nobody.
            _ => Command::Transfer(NodeId(source.below(MEMBERS + 1) as u64 + 1)),
        };
        self.input(slot, |process, cx| process.on_command(cx, command.into()));
    }

    fn opine(&mut self, source: &mut Source<'_>) {
        let (slot, peer) = (source.below(MEMBERS), source.below(MEMBERS));
        let (peer, suspected) = (self.roster.id(peer), source.byte() < 128);
        if peer != self.roster.id(slot) {
            self.input(slot, |process, cx| match suspected {
                true => process.on_suspect(cx, peer),
                false => process.on_restore(cx, peer),
            });
        }
    }

    /// A crash, and its end, perhaps with an empty disk. What was on its way stays on it.
    fn restart(&mut self, source: &mut Source<'_>) {
        let slot = source.below(MEMBERS);
        let member = &mut self.members[slot];
        member.process = A::new(self.roster.id(slot), &self.options);
        member.timers.clear();
        (member.reign, member.lead_until) = (None, None);
        if source.byte() % 8 == 7 {
            member.saved = None;
        }
        let saved = member.saved.clone();
        self.input(slot, |process, cx| process.on_start(cx, Start::Recovered(saved)));
    }

    /// A message of the right form that nobody sent.
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
        assert!(effects.len() <= SHARE, "{} effects of one input", effects.len());
        for effect in effects {
            self.carry_out(slot, effect);
        }
    }

    fn carry_out(&mut self, slot: usize, effect: Effect<A>) {
        let me = self.roster.id(slot);
        let member = &mut self.members[slot];
        match effect {
            Effect::Send { to, message } => {
                if let Some(to) = self.roster.slot(to) {
                    self.on_the_way.push((slot, to, message));
                }
            }
            Effect::Multicast { message } => {
                let others = (0..MEMBERS).filter(|&to| to != slot);
                self.on_the_way.extend(others.map(|to| (slot, to, message.clone())));
            }
            Effect::SetTimer { timer, after } => {
                member.timers.insert(timer.index(), (self.now + after, timer));
            }
            Effect::CancelTimer { timer } => {
                member.timers.remove(&timer.index());
            }
            Effect::Save(state) => member.saved = Some(state),
            Effect::Announce(announcement) => {
                let reign = match announcement {
                    Announcement::Elected { leader, term } if leader == me => Some(term),
                    _ => None,
                };
                let before = mem::replace(&mut member.reign, reign);
                if reign.is_none() {
                    member.lead_until = None;
                }
                if let Some(term) = reign
                    && before != reign
                {
                    self.elected += 1;
                    assert!(!self.promises() || term > self.latest, "{term} leads after {}", self.latest);
                    self.latest = self.latest.max(term);
                }
            }
            Effect::LeadUntil(end) => member.lead_until = Some(end),
            Effect::Suspect(_) | Effect::Restore(_) => {}
        }
        let surplus = self.on_the_way.len().saturating_sub(ON_THE_WAY);
        self.on_the_way.drain(..surplus);
    }

    /// Whether it is promised that no two lead at once, each with a greater term than those before.
    fn promises(&self) -> bool {
        !self.forging && A::CONTRACT.safety == Safety::AtMostOne
    }

    fn check(&self) {
        let leads = |member: &&Member<A>| {
            member.reign.is_some() && member.lead_until.is_none_or(|end| self.now < end)
        };
        let leaders = self.members.iter().filter(leads).count();
        assert!(!self.promises() || leaders <= 1, "{leaders} lead at once");
    }
}
