//! A node's part in very many elections, without I/O.
#![deny(clippy::disallowed_types, clippy::disallowed_methods, reason = "time and mail are inputs")]

mod office;
mod report;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use suffrage_core::{Attribute, NodeId, Rng, Span, Start, Time};
use suffrage_lease::{Ask, Body, Candidate, Message, Name, Reply, Saved, Stage, Voter, VoterEffects};

use self::office::{Lead, Office};
use super::agenda::Agenda;
use super::outbox;
use super::output::{Event, Output};
use super::seat::{Candidacy, Seat};
use super::settings::{Settings, Terms, Unfit};
use super::status::{History, Record, Tally};
use suffrage_net::Dropped;

/// How many candidates are looked at in one turn: some datagrams full of renewals, after which it is time to
/// see who has answered.
const TURN: usize = 512;
/// One that has handed over lets others go first for so many rounds of questions and answers, as they have
/// taken lately: to be woken takes half of one, to be granted a lease one and a half.
const COURTESY: u64 = 4;
/// But for this long at least: who is woken has to come round to it.
const LEAST_COURTESY: Span = Span::from_nanos(200_000);
/// After a death, who is not the first lets the first go first for this long at least: timers of the system wake
/// a millisecond late, and on a busy machine two.
const GRAIN: Span = Span::from_nanos(3_000_000);
/// The most elections a node takes part in.
const MOST_SEATS: usize = 10_000_000;

/// Why a node does not take part in an election.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It would not work.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// It does already.
    #[error("this node takes part in that election already")]
    Taken,
    /// Or in another whose name has the same hash.
    #[error("this node takes part in {MOST_SEATS} elections, and no more")]
    TooMany,
}

/// A node's part in very many elections: a [`Voter`] if it is one, and a [`Candidate`] for each name.
///
/// Inputs are the methods that take `now`, a moment on the node's own clock that never goes back, and an
/// [`Output`] for what is to be done about it. [`on_due`](Host::on_due) is to be called when the moment of
/// [`next_due`](Host::next_due) has come, again and again until it is in the future. What the candidates say to
/// the voter of the same node is no message: it happens within the same call.
#[derive(Debug)]
pub struct Host {
    me: NodeId,
    settings: Settings,
    voters: Arc<[NodeId]>,
    voter: Option<Voter>,
    names: BTreeMap<Name, Seat>,
    seats: Vec<Option<Box<Candidacy>>>,
    vacant: Vec<Seat>,
    /// Seats about which there may still be something to be told.
    vacated: Vec<Seat>,
    agenda: Agenda,
    /// What was said to oneself, in order.
    own: VecDeque<Message>,
    rng: Rng,
    /// When each voter last answered.
    heard: Vec<Option<Time>>,
    /// How long voters lately took to answer.
    round_trip: Span,
    history: History,
    tally: Tally,
}

impl Host {
    /// A node begins to exist, or exists again: as a voter with what it had saved.
    pub fn start(
        me: NodeId,
        settings: Settings,
        start: Start<Saved>,
        seed: u64,
        now: Time,
        out: &mut Output,
    ) -> Result<Host, Unfit> {
        settings.check()?;
        let mut host = Host {
            me,
            voters: settings.voters.as_slice().into(),
            voter: None,
            names: BTreeMap::new(),
            seats: Vec::new(),
            vacant: Vec::new(),
            vacated: Vec::new(),
            agenda: Agenda::default(),
            own: VecDeque::new(),
            rng: Rng::new(seed),
            heard: vec![None; settings.voters.len()],
            round_trip: Span::ZERO,
            history: History::new(settings.history),
            tally: Tally::default(),
            settings,
        };
        if host.settings.voters.contains(&me) {
            let timings = host.settings.voter_timings();
            host.voter = Some(Voter::start(timings, &mut Saving(out), now, start));
        }
        Ok(host)
    }

    /// Who this is.
    pub fn me(&self) -> NodeId {
        self.me
    }

    /// What is set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    // What the application wishes.

    /// Takes part in an election: as an observer, until it is told to [`stand`](Host::stand).
    pub fn join(&mut self, now: Time, text: &str, terms: Terms, out: &mut Output) -> Result<Seat, Refused> {
        if text.is_empty() || text.len() > 255 {
            return Err(Unfit::Name.into());
        }
        terms.check(&self.settings)?;
        let name = Name::of(text);
        if self.names.contains_key(&name) {
            return Err(Refused::Taken);
        }
        if self.names.len() >= MOST_SEATS {
            return Err(Refused::TooMany);
        }
        self.reclaim(out);
        let seat = self.vacant.pop().unwrap_or_else(|| {
            self.seats.push(None);
            Seat(self.seats.len() as u32 - 1)
        });
        let (me, voters) = (self.me, Arc::clone(&self.voters));
        let timings = terms.timings(&self.settings);
        let mut office = Office::new(self.me, name, now, &mut self.own, &mut self.rng, out);
        let mut candidate = Candidate::new(me, voters, timings, terms.attribute, &mut office, now);
        if terms.outlived {
            candidate = candidate.outlived();
        }
        candidate.set_healthy(&mut office, now, false);
        candidate.look_by(now);
        let candidacy = Candidacy::new(text, candidate, &terms, now);
        self.seats[seat.index()] = Some(Box::new(candidacy));
        self.names.insert(name, seat);
        self.arm(seat);
        Ok(seat)
    }

    /// What is still to be told about a seat must not be taken for news of the next who has it: they are free once
    /// all is told.
    fn reclaim(&mut self, out: &Output) {
        if out.events.is_empty() {
            self.vacant.append(&mut self.vacated);
        }
    }

    /// Takes part no longer. If it led, it has handed over.
    pub fn leave(&mut self, now: Time, seat: Seat, out: &mut Output) {
        self.reclaim(out);
        self.withdraw(now, seat, out);
        if let Some(candidacy) = self.seats.get_mut(seat.index()).and_then(Option::take) {
            self.names.remove(&candidacy.name);
            self.vacated.push(seat);
        }
    }

    /// Asks to lead, from now on and again whenever it has lost: until it withdraws.
    pub fn stand(&mut self, now: Time, seat: Seat, out: &mut Output) {
        self.set_wish(now, seat, out, |candidacy| (candidacy.standing, candidacy.once) = (true, false));
    }

    /// Asks to lead, until it has led and does not any more: whoever led may not be ready to again.
    pub fn campaign(&mut self, now: Time, seat: Seat, out: &mut Output) {
        self.set_wish(now, seat, out, |candidacy| (candidacy.standing, candidacy.once) = (true, true));
    }

    /// Asks to lead no longer. If it led, it hands over.
    pub fn withdraw(&mut self, now: Time, seat: Seat, out: &mut Output) {
        self.set_wish(now, seat, out, |candidacy| candidacy.standing = false);
    }

    /// Says whether whoever would lead is well: one that is not hands over, and does not stand.
    pub fn set_healthy(&mut self, now: Time, seat: Seat, healthy: bool, out: &mut Output) {
        self.set_wish(now, seat, out, |candidacy| candidacy.healthy = healthy);
    }

    /// Hands over, and stands again after everybody else who waits.
    pub fn yield_turn(&mut self, now: Time, seat: Seat, out: &mut Output) {
        if self.candidacy(seat).is_some_and(|candidacy| candidacy.standing) {
            self.withdraw(now, seat, out);
            self.stand(now, seat, out);
        }
    }

    /// Hands over, and lets others go first for the length of a lease.
    pub fn resign(&mut self, now: Time, seat: Seat, out: &mut Output) {
        self.act(now, seat, out, |candidacy, office| {
            candidacy.stand_back(now);
            candidacy.candidate.release(office, now);
        });
    }

    /// Hands over to another; if that one does not take over, to whoever is next.
    pub fn transfer(&mut self, now: Time, seat: Seat, to: NodeId, out: &mut Output) {
        self.act(now, seat, out, |candidacy, office| {
            if to != office.me() {
                candidacy.stand_back(now);
            }
            candidacy.candidate.transfer(office, now, to);
        });
    }

    /// Says how good a leader this node would be.
    pub fn set_attribute(&mut self, now: Time, seat: Seat, attribute: Attribute, out: &mut Output) {
        self.act(now, seat, out, |candidacy, _| candidacy.candidate.set_attribute(now, attribute));
    }

    /// Changes what decides whether the candidate stands, and lets it know if it does not do as it did.
    fn set_wish(&mut self, now: Time, seat: Seat, out: &mut Output, change: impl FnOnce(&mut Candidacy)) {
        let mut courtesy = self.courtesy();
        if let (Some(voter), Some(candidacy)) = (&self.voter, self.candidacy(seat))
            && voter.waiters(candidacy.name).next().is_none()
        {
            // Who waits asks every voter it can reach, and this node's own would know.
            courtesy = Span::ZERO;
        }
        self.act(now, seat, out, |candidacy, office| {
            let stands = |candidacy: &Candidacy| candidacy.standing && candidacy.healthy;
            let before = stands(candidacy);
            change(candidacy);
            match (before, stands(candidacy)) {
                (false, true) => {
                    candidacy.candidate.set_healthy(office, now, true);
                    // One that has just handed over to others must not be there before them.
                    if now < candidacy.courteous_until {
                        candidacy.contend_at = Some(candidacy.courteous_until);
                    } else {
                        candidacy.candidate.contend(office, now);
                    }
                }
                (true, false) => {
                    if candidacy.candidate.lease().is_some() {
                        candidacy.courteous_until = candidacy.courteous_until.max(now + courtesy);
                    }
                    (candidacy.contend_at, candidacy.bereft) = (None, None);
                    candidacy.candidate.set_healthy(office, now, false);
                }
                _ => {}
            }
        });
    }

    /// For how long one who has handed over lets others go first, if nobody says otherwise.
    fn courtesy(&self) -> Span {
        (self.round_trip * COURTESY).max(LEAST_COURTESY).min(self.settings.delay * COURTESY)
    }

    fn candidacy(&self, seat: Seat) -> Option<&Candidacy> {
        self.seats.get(seat.index())?.as_deref()
    }

    // What reaches it.

    /// A datagram has come from a peer. Tells why, if it cannot be read.
    pub fn on_datagram(
        &mut self,
        now: Time,
        from: NodeId,
        datagram: &[u8],
        out: &mut Output,
    ) -> Result<(), Dropped> {
        let messages = outbox::decode(datagram)?;
        self.on_messages(now, from, messages, out);
        Ok(())
    }

    /// Messages have come from a peer.
    pub fn on_messages(
        &mut self,
        now: Time,
        from: NodeId,
        messages: impl IntoIterator<Item = Message>,
        out: &mut Output,
    ) {
        if from == self.me {
            return;
        }
        self.reclaim(out);
        let place = self.settings.voters.iter().position(|&voter| voter == from);
        for message in messages {
            // One that asks is there, but may be silent, or have lost its vote: only answers tell that it votes.
            if let (Some(place), Body::Reply(_)) = (place, &message.body) {
                self.heard[place] = Some(now);
            }
            self.tally.messages += 1;
            self.hear(now, from, message, out);
            self.hear_oneself(now, out);
        }
    }

    /// When [`on_due`](Host::on_due) is to be called next. It may turn out that nothing was due.
    pub fn next_due(&self) -> Option<Time> {
        let voter = self.voter.as_ref().and_then(Voter::next_due);
        [self.agenda.next(), voter].into_iter().flatten().min()
    }

    /// Does some of what is due.
    pub fn on_due(&mut self, now: Time, out: &mut Output) {
        self.reclaim(out);
        if let Some(voter) = &mut self.voter
            && voter.next_due().is_some_and(|due| due <= now)
        {
            // The name is that of no election: a voter names the one it speaks of itself.
            let name = Name::of("");
            voter.on_due(&mut Office::new(self.me, name, now, &mut self.own, &mut self.rng, out), now);
            self.hear_oneself(now, out);
        }
        for _ in 0..TURN {
            let Some((when, place)) = self.agenda.take(now) else { return };
            let seat = Seat(place);
            let Some(candidacy) = self.seats[seat.index()].as_mut() else { continue };
            if candidacy.armed != Some(when) {
                continue;
            }
            candidacy.armed = None;
            if candidacy.due() > now {
                self.arm(seat);
                continue;
            }
            let held = candidacy.retries > 0
                && self.voter.as_ref().is_some_and(|voter| voter.grant(now, candidacy.name).is_some());
            self.act(now, seat, out, |candidacy, office| {
                // One that tries again need not, if its own voter knows who leads by now.
                if candidacy.contend_at.take_if(|when| *when <= now).is_some() && !held {
                    candidacy.candidate.contend(office, now);
                }
                candidacy.candidate.on_due(office, now);
            });
        }
    }

    /// Hands one input to the candidate, and to the node itself what the candidate has to say to it.
    fn act(
        &mut self,
        now: Time,
        seat: Seat,
        out: &mut Output,
        input: impl FnOnce(&mut Candidacy, &mut Office<'_>),
    ) {
        self.put(now, seat, out, input);
        self.hear_oneself(now, out);
    }

    /// Hands one input to the candidate, takes note of what it tells the world, and of when it is due.
    fn put(
        &mut self,
        now: Time,
        seat: Seat,
        out: &mut Output,
        input: impl FnOnce(&mut Candidacy, &mut Office<'_>),
    ) {
        let (me, courtesy) = (self.me, self.courtesy());
        let Some(candidacy) = self.seats.get_mut(seat.index()).and_then(Option::as_mut) else { return };
        let mut office = Office::new(self.me, candidacy.name, now, &mut self.own, &mut self.rng, out);
        let contended = candidacy.contends();
        input(candidacy, &mut office);
        if contended && !candidacy.contends() {
            let ahead = self.voter.as_ref().is_some_and(|voter| candidacy.comes_first(me, voter));
            candidacy.try_again(now, ahead, courtesy);
        }
        if candidacy.once && candidacy.standing && office.has_lost() {
            (candidacy.standing, candidacy.contend_at, candidacy.bereft) = (false, None, None);
            candidacy.candidate.set_healthy(&mut office, now, false);
        }
        if office.asked {
            candidacy.asked = now;
        }
        let (announced, lead) = office.news(candidacy.asked);
        let renewed = lead.filter(|_| announced.is_empty());
        let renewed = renewed.map(|Lead { valid_until, took }| Event::Renewed { valid_until, took });
        let news = announced.into_iter().map(|announced| office::event(me, announced, lead));
        for event in news.chain(renewed) {
            self.note(now, seat, event);
            out.events.push((seat, event));
        }
        self.arm(seat);
    }

    /// Takes note of what a candidate has told the world.
    fn note(&mut self, now: Time, seat: Seat, event: Event) {
        let leader = match event {
            Event::Led { token, .. } => {
                self.tally.led += 1;
                Some((self.me, token))
            }
            Event::Renewed { took, .. } => {
                self.tally.renewed += 1;
                return self.tally.renewals.add(took);
            }
            Event::Follows { leader, token } => {
                self.tally.followed += 1;
                Some((leader, token))
            }
            Event::Lost => {
                self.tally.lost += 1;
                None
            }
            Event::Nobody => None,
        };
        let Some(candidacy) = self.seats[seat.index()].as_mut() else { return };
        candidacy.since = now;
        if leader.is_some() {
            candidacy.retries = 0;
        }
        if leader.is_none() {
            // Where nobody asks to lead, nobody has to.
            if candidacy.standing {
                candidacy.bereft.get_or_insert(now);
            }
        } else if let Some(lost) = candidacy.bereft.take() {
            self.tally.failovers.add(now.since(lost));
        }
        self.history.add(Record { name: candidacy.name, at: now, leader });
    }

    /// An eighth of what it took this time, seven of what it took before: as TCP does.
    fn time_answer(&mut self, now: Time, from: NodeId, seat: Seat) {
        let Some(candidacy) = self.candidacy(seat).filter(|_| from != self.me) else { return };
        let took = now.since(candidacy.asked).as_nanos();
        let smoothed = match self.round_trip.as_nanos() {
            0 => took,
            before => before - before / 8 + took / 8,
        };
        self.round_trip = Span::from_nanos(smoothed);
    }

    fn hear_oneself(&mut self, now: Time, out: &mut Output) {
        while let Some(message) = self.own.pop_front() {
            self.hear(now, self.me, message, out);
        }
    }

    fn hear(&mut self, now: Time, from: NodeId, Message { name, body }: Message, out: &mut Output) {
        match body {
            Body::Ask(ask) => {
                let Some(voter) = &mut self.voter else { return };
                let mut office = Office::new(self.me, name, now, &mut self.own, &mut self.rng, out);
                voter.on_ask(&mut office, now, from, name, ask);
                let changes = matches!(ask, Ask::Propose { renewal: false, .. } | Ask::Release { .. });
                if changes && from != self.me {
                    self.look(now, name, matches!(ask, Ask::Release { .. }));
                }
                if let Ask::Prepare { attribute, .. } = ask
                    && from != self.me
                {
                    self.give_way(now, name, from, attribute);
                }
            }
            Body::Reply(reply) => {
                let Some(&seat) = self.names.get(&name) else { return };
                let votes =
                    self.voter.as_ref().is_some_and(|voter| voter.votes() && now >= voter.silent_until());
                if let Some(candidacy) = self.seats[seat.index()].as_mut() {
                    candidacy.heed(&reply, votes);
                }
                match reply {
                    Reply::Vacant { .. } if self.bides_its_time(now, seat) => return,
                    Reply::Vacant { .. } => {}
                    _ => self.time_answer(now, from, seat),
                }
                self.put(now, seat, out, |it, office| it.candidate.on_reply(office, now, from, reply));
            }
            Body::Claim { attribute } => {
                let Some(&seat) = self.names.get(&name) else { return };
                self.put(now, seat, out, |it, office| it.candidate.on_claim(office, now, from, attribute));
            }
        }
    }

    /// A lease has run out, and this candidate is woken. When a leader dies with its voter, the votes of all
    /// others may be needed, and each of them may have woken another candidate, and not at the same moment. So
    /// it waits until its own voter's grant has run out, too, and a round trip more for the others'; and if
    /// another waits that goes first, for some more. All who vote know who waits, and come to the same order:
    /// by rank, and among equals by a hash that is another for every name.
    ///
    /// After a release nobody has died, most voters wake the same one, and it is not kept waiting.
    fn bides_its_time(&mut self, now: Time, seat: Seat) -> bool {
        let (me, courtesy, round_trip) = (self.me, self.courtesy(), self.round_trip);
        let Some(voter) = &self.voter else { return false };
        let Some(candidacy) = self.seats[seat.index()].as_mut() else { return false };
        let released = candidacy.released.is_some_and(|when| now.since(when) <= self.settings.delay * 2);
        let waits = matches!(candidacy.candidate.stage(), Stage::Waiting | Stage::Enquiring);
        if released || !waits || !candidacy.standing || !candidacy.healthy {
            return false;
        }
        let expires = voter.grant(now, candidacy.name).map_or(now, |(_, expires)| expires);
        if expires > now + self.settings.delay * 2 {
            // Its own voter has granted it anew: whoever leads lives.
            return false;
        }
        let first = candidacy.comes_first(me, voter);
        let patience = if first { round_trip } else { round_trip + courtesy.max(GRAIN) };
        candidacy.contend_at.get_or_insert(expires + patience.min(self.settings.delay * COURTESY));
        self.arm(seat);
        true
    }

    /// The node's voter has promised the election to another, which contends already: this one lets it finish, or it
    /// would spoil it for both. If it is at it already, the better one goes first from now on.
    fn give_way(&mut self, now: Time, name: Name, rival: NodeId, attribute: Attribute) {
        let Some(&seat) = self.names.get(&name) else { return };
        if let Some(candidacy) = self.seats[seat.index()].as_mut() {
            candidacy.meet(self.me, rival, attribute);
        }
        if self.voter.as_ref().is_none_or(|voter| voter.grant(now, name).is_some()) {
            // It has promised nothing.
            return;
        }
        let patience = self.settings.delay * COURTESY;
        let Some(candidacy) = self.seats[seat.index()].as_mut() else { return };
        let patience = patience.min(candidacy.moment());
        if let Some(when) = &mut candidacy.contend_at {
            *when = (*when).max(now + patience);
        }
    }

    /// The node's voter has heard that the leader changes: its candidate asks who it is, once that is settled.
    fn look(&mut self, now: Time, name: Name, released: bool) {
        let settled = now + self.courtesy();
        let Some(&seat) = self.names.get(&name) else { return };
        let Some(candidacy) = self.seats[seat.index()].as_mut() else { return };
        candidacy.candidate.look_by(settled);
        if released {
            candidacy.released = Some(now);
        }
        self.arm(seat);
    }

    fn arm(&mut self, seat: Seat) {
        let Some(candidacy) = self.seats[seat.index()].as_mut() else { return };
        let due = candidacy.due();
        if candidacy.armed.is_none_or(|armed| due < armed) {
            self.agenda.add(due, seat.0);
            candidacy.armed = Some(due);
        }
    }
}

/// What a voter that starts may do.
struct Saving<'o>(&'o mut Output);

impl VoterEffects for Saving<'_> {
    fn save(&mut self, saved: Saved) {
        self.0.save = Some(saved);
    }
    fn reply(&mut self, _: NodeId, _: Name, _: Reply) {
        unreachable!("nobody has asked it anything");
    }
}

#[cfg(test)]
mod tests;
