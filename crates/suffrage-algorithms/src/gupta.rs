//! The probabilistic election for large groups (Gupta, van Renesse and Birman 2000).
//!
//! Model: crashes, lost unicasts and multicasts, views that contain each other member only with some
//! probability; all with known probabilities. Members know about how many they are, and share a choice
//! function, which is their rank. Time-outs suppose a bound on delays. A failure detector tells when to
//! elect, and whom not to prefer.
//!
//! ```text
//!   I ══Initiate══▶ all             Filter: who hashes below K / N relays
//!   3 ──Preference──▶ N             Relay: to those known that pass the filter, too;
//!   N ──Preference──▶ 3               better ones are relayed, worse ones are answered
//!   3, N ══FinalChoice══▶ all       at the end of the Relay phase
//!   4 ══Initiate══▶ all             Detection: heard none or several of them, so another round,
//!                                     with a greater K, up to the last
//! ```
//!
//! Cost: about K^2 unicasts times the probability of being in a view, and K + 1 multicasts a round, whatever
//! the size of the group; K is 7, 14, 28, 56 in the first rounds. The last round has everybody relay, which
//! costs on the order of N^2.
//!
//! Promises, with a probability that does not depend on the size of the group: exactly one live leader,
//! whom all live members know. Does not promise it: a part of the group that relays among itself splits the
//! election if the others do not notice, members that miss every final choice of the last round know of
//! nobody, and a leader that dies once all agree on it is for the failure detector to find. Neither is it
//! promised that the best is elected, who need not be in any relay member's view.
//!
//! Readings (the numbers are those of the project's list of algorithms, section 5):
//! 1. `N_i` is the size of the group: `--n-estimate`. What was met on the way does not count for it.
//! 2. A round is named by (election, round), not by its initiating message: all that initiate it at once
//!    initiate the same. Groups hash by their own names, too.
//! 3. Who has heard no choice re-initiates after a random delay: `--on-silence`.
//! 4. Who has heard several, if a hash of the first of them passes the filter: `--on-conflict`.
//! 5. An equal preference is not answered, and a better one is not sent back: `--relay-back`.
//! 6. The preferred leader is the best of the whole view and the member itself, suspects left out. So are those
//!    met on the way, whom nobody watches: they are told, and not preferred. Choices of others are compared
//!    by rank alone, or two that suspect different ones would answer each other for ever.
//! 7. A member counts its own final choice and its own re-initiation.
//! 8. An initiating message or a final choice of a later round is followed; a preference waits for the
//!    initiating message.
//! 9. A later round supersedes what was elected before. After the last, nobody re-initiates.
//! 10. The leader learns that it leads from the final choices.
//! 11. Who misses all of it is idle: `--all-know`.
//!
//! Time-outs are those of 3.2, and a multicast's worst time (`--multicast-timeout`, Time_Out_3) more where
//! members that hear of a round at different times wait for each other; see [`Options`].
//!
//! What the paper leaves to others:
//! - A member that suspects its leader initiates the next election after a random delay, unless another does.
//!   It does so too if the group elects one that it suspects.
//! - "New processes can join the group by multicasting a message to it, and receiving a reply": `Join` and
//!   `Welcome`, counted apart. About the first K members reply, by the hash. They tell the same to one that
//!   initiates an election that is over, and to one that can be heard again. Who is told of a later round
//!   believes it; who is told of another leader of the same round calls the next election.

mod figures;
mod filter;
mod joining;
mod message;
mod notes;
mod options;

use std::sync::Arc;

pub use figures::{Ending, Tally};
pub use message::{Message, Round, Timer};
pub use options::{Estimate, LastK, OnConflict, OnSilence, Options};

use filter::{About, hash};
use notes::{Notes, exclude, include};
use suffrage_core::{
    Algorithm, Announcement, Choice, Command, Context, Contract, Cost, Detection, Electorate, Figure,
    Formula, Member, NodeId, Parameter, Process, Safety, Start, Synchrony, Term, Topology, View,
};

/// Where a member is in the latest round it knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It has heard of none.
    Idle,
    /// It was away, and has asked how things stand.
    Joining,
    /// It knows that the round is due, and has not heard its initiating message.
    Due,
    /// It has not passed the filter, and waits for those who have.
    Filter,
    /// It exchanges preferences.
    Relay,
    /// It waits for the final choices of others.
    Detection,
    /// It has heard of one choice, and waits for objections.
    Confirmation,
    /// It has heard no choice, or several, and is to re-initiate if nobody else does.
    Reinitiation,
    /// It has heard no choice, or several, and leaves the rest to others.
    Undecided,
    /// It knows the leader.
    Elected,
    /// It suspects the leader, and is to initiate an election if nobody else does.
    Suspicion,
}

/// A final choice that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FinalChoice {
    /// Of whom.
    pub from: NodeId,
    /// For whom.
    pub leader: NodeId,
}

/// A member of the probabilistic election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gupta {
    options: Arc<Options>,
    round: Round,
    phase: Phase,
    /// Whether a final choice differed from the first.
    conflict: bool,
    /// The first final choice heard in this round.
    first: Option<FinalChoice>,
    notes: Option<Box<Notes>>,
}

impl Algorithm for Gupta {
    const CONTRACT: Contract = Contract {
        name: "gupta",
        summary: "A few members chosen by a hash agree on a leader and tell the whole, large group.",
        source: "Gupta, van Renesse, Birman 2000",
        topology: Topology::Multicast,
        synchrony: Synchrony::Synchronous,
        knowledge: "about how many members there are; some of them, and their ranks",
        tolerates: "crash and recovery, lost messages, partial views, each with known probability",
        detection: Detection::Detector,
        electorate: Electorate::Anybody,
        needs_disk: false,
        retries: true,
        under_loss: &[],
        safety: Safety::WithHighProbability,
        choice: Choice::Any,
        handover: false,
        messages: Cost {
            best: Formula {
                text: "N^2 + 1 up to N = K, then 2",
                of: |n| if n <= FIRST_K { n * n + 1 } else { 2 },
            },
            worst: Formula {
                text: "N^2 + 1 a round; for large N about K^2 unicasts and K + 1 multicasts, K = 7",
                of: |n| n * n + 1,
            },
        },
        time: Cost {
            best: Formula { text: "3K/2 + 21", of: |n| (3 * n.min(FIRST_K)).div_ceil(2) + 21 },
            worst: Formula { text: "3K/2 + 21 a round", of: |n| (3 * n.min(FIRST_K)).div_ceil(2) + 21 },
        },
        upkeep: &[],
    };

    /// Shared, so that a million idle members weigh little.
    type Options = Arc<Options>;

    const PARAMETERS: &'static [Parameter<Arc<Options>>] = options::PARAMETERS;

    fn new(_: NodeId, options: &Arc<Options>) -> Gupta {
        Gupta {
            options: Arc::clone(options),
            round: Round::default(),
            phase: Phase::Idle,
            conflict: false,
            first: None,
            notes: None,
        }
    }

    fn figures(options: &Arc<Options>, members: &mut dyn Iterator<Item = Member<'_, Gupta>>) -> Vec<Figure> {
        Tally::of(members).figures(options)
    }
}

/// K in the first round, unless set otherwise.
const FIRST_K: u64 = 7;

fn bit(round: u8) -> u32 {
    1u32.checked_shl(u32::from(round).wrapping_sub(1)).unwrap_or(0)
}

impl Gupta {
    fn notes(&mut self) -> &mut Notes {
        self.notes.get_or_insert_default()
    }

    fn suspects(&self, member: NodeId) -> bool {
        self.notes.as_ref().is_some_and(|notes| notes.suspects(member))
    }

    /// K in this round.
    fn k(&self, view: View<'_>) -> u64 {
        self.options.k(self.round.number, view.group_len())
    }

    fn passes(&self, view: View<'_>, about: About, k: u64) -> bool {
        self.options.passes(view, hash(view, self.round, about)(view.me()), k)
    }

    fn wait(&mut self, cx: &mut Context<'_, Self>, phase: Phase, timer: Timer, delays: u64) {
        self.phase = phase;
        cx.set_timer(timer, cx.delay_bound() * delays);
    }

    /// Waits for a random while, and initiates an election or a round if nobody else does.
    fn await_turn(&mut self, cx: &mut Context<'_, Self>, phase: Phase) {
        let (bound, members) = (cx.delay_bound(), cx.view().group_len());
        let delay = self.options.delay(bound, members, cx.rng());
        self.phase = phase;
        cx.set_timer(Timer::Turn, delay);
    }

    fn forget_leader(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(leader) = self.leader() {
            let led = leader == cx.me();
            cx.announce(if led { Announcement::SteppedDown } else { Announcement::Undecided });
        }
    }

    fn become_elected(&mut self, cx: &mut Context<'_, Self>, leader: NodeId) {
        self.phase = Phase::Elected;
        cx.cancel_timer(Timer::Objection);
        cx.announce(Announcement::Elected { leader, term: Term(self.round.election.into()) });
        let again = self.notes.as_mut().map(|notes| std::mem::take(&mut notes.heard_again));
        again.unwrap_or_default().into_iter().for_each(|peer| self.tell(cx, peer));
        if self.suspects(leader) {
            self.give_up_leader(cx);
        }
    }

    /// The leader seems to have failed, or there is another: an election is needed.
    fn give_up_leader(&mut self, cx: &mut Context<'_, Self>) {
        self.forget_leader(cx);
        self.await_turn(cx, Phase::Suspicion);
    }

    fn initiate(&mut self, cx: &mut Context<'_, Self>, round: Round) {
        cx.multicast(Message::Initiate(round));
        self.enter(cx, round);
    }

    /// Figure 3, step 1: the round begins.
    fn enter(&mut self, cx: &mut Context<'_, Self>, round: Round) {
        let former = self.jump_to(cx, round);
        let k = self.k(cx.view());
        if self.passes(cx.view(), About::Initiation, k) {
            self.become_relay_member(cx, k, former);
        } else {
            let timeout = self.options.time_out_1(k);
            self.wait(cx, Phase::Filter, Timer::RelayAndChoices, timeout);
        }
    }

    /// Leaves whatever it is in for a later round, and returns who led before.
    fn jump_to(&mut self, cx: &mut Context<'_, Self>, round: Round) -> Option<NodeId> {
        let former = self.leader();
        self.forget_leader(cx);
        if let Some(notes) = &mut self.notes {
            if round.election != self.round.election {
                (notes.relayed, notes.spoke) = (0, 0);
            }
            notes.best = None;
            notes.relays = Vec::new();
            notes.early.retain(|(early, ..)| *early >= round);
        }
        (self.round, self.first, self.conflict) = (round, None, false);
        former
    }

    /// Step 2: tells those that relay, too, whom it prefers.
    fn become_relay_member(&mut self, cx: &mut Context<'_, Self>, k: u64, former: Option<NodeId>) {
        let (view, round) = (cx.view(), self.round);
        let members = self.options.members(view);
        let timeout = self.options.time_out_2(k);
        let notes = self.notes();
        notes.relayed |= bit(round.number);
        // "declare received choice as elected leader and include it in Mi's view"
        former.into_iter().for_each(|leader| notes.meet(view, leader));
        let hash = hash(view, round, About::Initiation);
        let relays = notes.filtered(view, |member| hash(member) * members < k as f64);
        let best = notes.preferred(view);
        relays.iter().for_each(|&relay| cx.send(relay, Message::Preference { round, leader: best }));
        (notes.relays, notes.best) = (relays, Some(best));
        let early = std::mem::take(&mut notes.early);
        self.wait(cx, Phase::Relay, Timer::Relay, timeout);
        for (of, from, leader) in early {
            self.on_preference(cx, from, of, leader);
        }
    }

    fn on_preference(&mut self, cx: &mut Context<'_, Self>, from: NodeId, round: Round, leader: NodeId) {
        let view = cx.view();
        if round > self.round || (round == self.round && self.phase == Phase::Due) {
            let early = &mut self.notes().early;
            early.retain(|(_, other, _)| *other != from);
            return early.push((round, from, leader));
        }
        if round != self.round || self.phase != Phase::Relay || !view.is_member(leader) {
            return;
        }
        let relay_back = self.options.relay_back;
        let notes = self.notes();
        notes.meet(view, from);
        include(&mut notes.relays, from);
        let Some(best) = notes.best else { return };
        if view.member_rank(leader) > view.member_rank(best) {
            notes.best = Some(leader);
            let others = notes.relays.iter().filter(|&&relay| relay_back || relay != from);
            others.for_each(|&relay| cx.send(relay, Message::Preference { round, leader }));
        } else if leader != best {
            cx.send(from, Message::Preference { round, leader: best });
        }
    }

    /// The end of the Relay phase.
    fn speak(&mut self, cx: &mut Context<'_, Self>) {
        let (round, me) = (self.round, cx.me());
        let notes = self.notes();
        let Some(leader) = notes.best else { return };
        notes.spoke |= bit(round.number);
        cx.multicast(Message::FinalChoice { round, leader });
        self.note_choice(FinalChoice { from: me, leader });
        self.await_choices(cx);
    }

    /// Waits for the final choices of those who heard of the round later.
    fn await_choices(&mut self, cx: &mut Context<'_, Self>) {
        let timeout = 2 * self.options.time_out_3();
        self.wait(cx, Phase::Detection, Timer::Choices, timeout);
    }

    fn note_choice(&mut self, choice: FinalChoice) {
        let first = *self.first.get_or_insert(choice);
        self.conflict |= first.leader != choice.leader;
    }

    fn on_final_choice(&mut self, cx: &mut Context<'_, Self>, round: Round, choice: FinalChoice) {
        if round < self.round || !self.is_round(round) || !cx.view().is_member(choice.leader) {
            return;
        }
        if round > self.round || self.phase == Phase::Due {
            self.jump_to(cx, round);
            self.note_choice(choice);
            return self.await_choices(cx);
        }
        let had_none = self.first.is_none();
        match self.phase {
            Phase::Filter | Phase::Relay | Phase::Detection => self.note_choice(choice),
            Phase::Confirmation => {
                self.note_choice(choice);
                if self.conflict {
                    self.conclude(cx);
                }
            }
            // Late, but not too late.
            Phase::Reinitiation | Phase::Undecided if had_none => {
                self.note_choice(choice);
                self.conclude(cx);
            }
            _ => {}
        }
    }

    /// Step 3: is there one leader?
    fn conclude(&mut self, cx: &mut Context<'_, Self>) {
        match self.first {
            Some(_) if !self.conflict => {
                let timeout = self.options.objection();
                self.wait(cx, Phase::Confirmation, Timer::Objection, timeout);
            }
            _ if self.round.number >= self.options.max_rounds => self.leave_undecided(cx),
            Some(choice) => match self.options.on_conflict {
                OnConflict::Hash => self.reinitiate_if_chosen(cx, About::Choice(choice.from)),
                OnConflict::Delay => self.await_turn(cx, Phase::Reinitiation),
            },
            None => match self.options.on_silence {
                OnSilence::Delay => self.await_turn(cx, Phase::Reinitiation),
                OnSilence::Always => self.initiate(cx, self.round.next()),
                OnSilence::Hash => self.reinitiate_if_chosen(cx, About::Silence),
                OnSilence::Never => self.leave_undecided(cx),
            },
        }
    }

    fn reinitiate_if_chosen(&mut self, cx: &mut Context<'_, Self>, about: About) {
        if self.passes(cx.view(), about, self.k(cx.view())) {
            self.initiate(cx, self.round.next());
        } else {
            self.leave_undecided(cx);
        }
    }

    fn leave_undecided(&mut self, cx: &mut Context<'_, Self>) {
        self.phase = Phase::Undecided;
        cx.cancel_timer(Timer::Objection);
    }

    /// Whether there can be such a round.
    fn is_round(&self, round: Round) -> bool {
        round.election > 0 && (1..=self.options.max_rounds).contains(&round.number)
    }

    fn on_initiate(&mut self, cx: &mut Context<'_, Self>, from: NodeId, round: Round) {
        if !self.is_round(round) {
            return;
        }
        if round > self.round || (round == self.round && self.phase == Phase::Due) {
            self.enter(cx, round);
        } else if round.election < self.round.election {
            self.welcome(cx, from);
        }
    }
}

impl Process for Gupta {
    type Message = Message;
    type Timer = Timer;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<()>) {
        match start {
            Start::Fresh if self.options.all_know => {
                self.round = self.round.next_election();
                let k = self.k(cx.view());
                let timeout = self.options.time_out_3() + self.options.time_out_1(k);
                self.wait(cx, Phase::Due, Timer::Initiation, timeout);
            }
            Start::Fresh => {}
            Start::Recovered(_) => {
                cx.multicast(Message::Join);
                let timeout = 2 * self.options.time_out_3();
                self.wait(cx, Phase::Joining, Timer::Welcome, timeout);
            }
        }
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        match message {
            Message::Initiate(round) => self.on_initiate(cx, from, round),
            Message::Preference { round, leader } => self.on_preference(cx, from, round, leader),
            Message::FinalChoice { round, leader } => {
                self.on_final_choice(cx, round, FinalChoice { from, leader });
            }
            Message::Join => self.welcome(cx, from),
            Message::Welcome { round, leader } => self.on_welcome(cx, from, round, leader),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Relay => self.speak(cx),
            Timer::Initiation | Timer::RelayAndChoices | Timer::Choices => self.conclude(cx),
            Timer::Objection => {
                if let Some(FinalChoice { leader, .. }) = self.first {
                    self.become_elected(cx, leader);
                }
            }
            Timer::Turn if self.phase == Phase::Reinitiation => self.initiate(cx, self.round.next()),
            Timer::Turn | Timer::Welcome => self.initiate(cx, self.round.next_election()),
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        include(&mut self.notes().suspects, peer);
        if self.leader() == Some(peer) {
            self.give_up_leader(cx);
        }
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        exclude(&mut self.notes().suspects, peer);
        self.welcome(cx, peer);
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        // A leader resigns by lowering its rank, and having an election called.
        if command != Command::Campaign {
            return;
        }
        match self.phase {
            Phase::Due => self.initiate(cx, self.round),
            Phase::Idle | Phase::Joining | Phase::Undecided | Phase::Elected | Phase::Suspicion => {
                self.initiate(cx, self.round.next_election());
            }
            // One is under way.
            Phase::Filter | Phase::Relay | Phase::Detection | Phase::Confirmation | Phase::Reinitiation => {}
        }
    }
}

#[cfg(test)]
mod tests;
