//! The probabilistic election for large groups (Gupta, van Renesse and Birman 2000).
//!
//! Model: crashes, lost unicasts and multicasts, views that contain each other member only with some probability;
//! all with known probabilities. Members know the approximate size of the group, and share a choice function, which
//! is their rank. Time-outs assume a bound on delays. A failure detector triggers elections, and excludes suspected
//! members from the preferred leaders.
//!
//! ```text
//!   I ══Initiate══▶ all             Filter: a member that hashes below K / N relays
//!   3 ──Preference──▶ N             Relay: to known members that also pass the filter;
//!   N ──Preference──▶ 3               better choices are relayed, worse ones are answered
//!   3, N ══FinalChoice══▶ all       at the end of the Relay phase
//!   4 ══Initiate══▶ all             Detection: received none or several of them, so another round,
//!                                     with a greater K, up to the last
//! ```
//!
//! Cost: about K^2 unicasts times the probability of being in a view, and K + 1 multicasts a round, whatever the
//! size of the group; K is 7, 14, 28, 56 in the first rounds. In the last round all members relay, which costs on
//! the order of N^2.
//!
//! Promise, with a probability that does not depend on the size of the group: exactly one live leader, which all
//! live members know. Not promised with certainty: a component of the relay graph can split the election if other
//! members do not notice. Members that miss every final choice of the last round know no leader. A leader that dies
//! once all agree on it is left to the failure detector. Nor is it promised that the best member is elected, since
//! it need not be in any relay member's view.
//!
//! Interpretations (the numbers are those of the project's list of algorithms, section 5):
//! 1. `N_i` is the size of the group: `--n-estimate`. Members added to the view during the election do not count.
//! 2. A round is identified by (election, round), not by its initiating message: simultaneous initiators initiate
//!    the same round. The name of the group also enters the hash.
//! 3. A member without any final choice re-initiates after a random delay: `--on-silence`.
//! 4. A member with several final choices re-initiates if a hash of the first passes the filter: `--on-conflict`.
//! 5. An equal preference is not answered, and a better one is not sent back: `--relay-back`.
//! 6. The preferred leader is the best of the whole view and the member itself, without suspected members. Members
//!    added during the election are left out too, since no detector monitors them: they get messages, but are not
//!    preferred. Choices of others are compared by rank alone: otherwise two members with different suspicions
//!    would answer each other for ever.
//! 7. A member counts its own final choice and its own re-initiation.
//! 8. A member follows an initiating message or a final choice of a later round. A preference of a later round
//!    waits for the initiating message.
//! 9. A later round supersedes an earlier result. After the last round, no member re-initiates.
//! 10. The leader learns that it leads from the final choices.
//! 11. A member that misses all messages of an election is idle: `--all-know`.
//!
//! Time-outs are those of 3.2, plus a multicast's worst time (`--multicast-timeout`, Time_Out_3) where members that
//! receive a round at different times wait for each other; see [`Options`].
//!
//! Additions to the paper:
//! - A member that suspects its leader initiates the next election after a random delay, unless another member does.
//!   It also does so if the group elects a leader that it suspects.
//! - "New processes can join the group by multicasting a message to it, and receiving a reply": `Join` and
//!   `Welcome`, which are not counted. About the first K members reply, by the hash. They send the same reply to a
//!   member that initiates an election that is over, and to a peer whose suspicion ends. A member that learns of a
//!   later round accepts it. A member that learns of another leader of the same round calls the next election.

mod figures;
mod filter;
mod joining;
mod message;
mod options;
mod rare_state;

use std::sync::Arc;

pub use figures::{Ending, RunSummary};
pub use message::{Message, Round, Timer};
pub use options::{Estimate, LastK, OnConflict, OnSilence, Options};

use filter::{HashPurpose, hash};
use rare_state::{RareState, exclude, include};
use suffrage_core::{
    Algorithm, Announcement, Choice, Command, Context, Contract, Cost, Detection, Electorate, Figure,
    Formula, Member, NodeId, Parameter, Process, Safety, Start, Synchrony, Term, Topology, View,
};

/// The phase of a member in the latest round that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The member knows no round.
    Idle,
    /// The member has restarted, and has asked for the current state.
    Joining,
    /// The member knows that the round is due, and has not received its initiating message.
    Due,
    /// The member has not passed the filter, and awaits the choices of those that have.
    Filter,
    /// The member exchanges preferences.
    Relay,
    /// The member awaits the final choices of others.
    Detection,
    /// The member knows one choice, and waits for objections.
    Confirmation,
    /// The member knows no choice, or several, and will re-initiate unless another member does.
    Reinitiation,
    /// The member knows no choice, or several, and leaves the re-initiation to others.
    Undecided,
    /// The member knows the leader.
    Elected,
    /// The member suspects the leader, and will initiate an election unless another member does.
    Suspicion,
}

/// A received final choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FinalChoice {
    /// The sender of the choice.
    pub from: NodeId,
    /// The chosen leader.
    pub leader: NodeId,
}

/// A member of the probabilistic election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gupta {
    options: Arc<Options>,
    round: Round,
    phase: Phase,
    /// True if a final choice differed from the first.
    conflict: bool,
    /// The first final choice of this round.
    first: Option<FinalChoice>,
    rare: Option<Box<RareState>>,
}

impl Algorithm for Gupta {
    const CONTRACT: Contract = Contract {
        name: "gupta",
        summary: "A few members chosen by a hash agree on a leader and announce it to the large group.",
        source: "Gupta, van Renesse, Birman 2000",
        topology: Topology::Multicast,
        synchrony: Synchrony::Synchronous,
        knowledge: "the approximate number of members; some members and their ranks",
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

    /// The options, shared so that a million idle members need little memory.
    type Options = Arc<Options>;

    const PARAMETERS: &'static [Parameter<Arc<Options>>] = options::PARAMETERS;

    fn new(_: NodeId, options: &Arc<Options>) -> Gupta {
        Gupta {
            options: Arc::clone(options),
            round: Round::default(),
            phase: Phase::Idle,
            conflict: false,
            first: None,
            rare: None,
        }
    }

    fn figures(options: &Arc<Options>, members: &mut dyn Iterator<Item = Member<'_, Gupta>>) -> Vec<Figure> {
        RunSummary::of(members).figures(options)
    }
}

/// K in the first round, unless set otherwise.
const FIRST_K: u64 = 7;

fn bit(round: u8) -> u32 {
    1u32.checked_shl(u32::from(round).wrapping_sub(1)).unwrap_or(0)
}

impl Gupta {
    fn rare(&mut self) -> &mut RareState {
        self.rare.get_or_insert_default()
    }

    fn is_suspected(&self, member: NodeId) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.is_suspected(member))
    }

    /// K in this round.
    fn k(&self, view: View<'_>) -> u64 {
        self.options.k(self.round.number, view.group_len())
    }

    fn passes_filter(&self, view: View<'_>, about: HashPurpose, k: u64) -> bool {
        self.options.passes_filter(view, hash(view, self.round, about)(view.me()), k)
    }

    fn enter_phase(&mut self, cx: &mut Context<'_, Self>, phase: Phase, timer: Timer, delays: u64) {
        self.phase = phase;
        cx.set_timer(timer, cx.delay_bound() * delays);
    }

    /// Waits for a random time, and then initiates an election or a round unless another member does.
    fn await_turn(&mut self, cx: &mut Context<'_, Self>, phase: Phase) {
        let (bound, members) = (cx.delay_bound(), cx.view().group_len());
        let delay = self.options.delay(bound, members, cx.rng());
        self.phase = phase;
        cx.set_timer(Timer::Turn, delay);
    }

    fn announce_leader_lost(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(leader) = self.leader() {
            let led = leader == cx.me();
            cx.announce(if led { Announcement::SteppedDown } else { Announcement::Undecided });
        }
    }

    fn become_elected(&mut self, cx: &mut Context<'_, Self>, leader: NodeId) {
        self.phase = Phase::Elected;
        cx.cancel_timer(Timer::Objection);
        cx.announce(Announcement::Elected { leader, term: Term(self.round.election.into()) });
        let restored = self.rare.as_mut().map(|rare| std::mem::take(&mut rare.restored));
        restored.unwrap_or_default().into_iter().for_each(|peer| self.send_welcome(cx, peer));
        if self.is_suspected(leader) {
            self.drop_leader(cx);
        }
    }

    /// Drops the leader, which seems to have failed or contradicts another: an election is needed.
    fn drop_leader(&mut self, cx: &mut Context<'_, Self>) {
        self.announce_leader_lost(cx);
        self.await_turn(cx, Phase::Suspicion);
    }

    fn initiate(&mut self, cx: &mut Context<'_, Self>, round: Round) {
        cx.multicast(Message::Initiate(round));
        self.enter_round(cx, round);
    }

    /// Figure 3, step 1: the round begins.
    fn enter_round(&mut self, cx: &mut Context<'_, Self>, round: Round) {
        let former = self.jump_to(cx, round);
        let k = self.k(cx.view());
        if self.passes_filter(cx.view(), HashPurpose::Initiation, k) {
            self.become_relay_member(cx, k, former);
        } else {
            let timeout = self.options.time_out_1(k);
            self.enter_phase(cx, Phase::Filter, Timer::RelayAndChoices, timeout);
        }
    }

    /// Moves to a later round, and returns the former leader.
    fn jump_to(&mut self, cx: &mut Context<'_, Self>, round: Round) -> Option<NodeId> {
        let former = self.leader();
        self.announce_leader_lost(cx);
        if let Some(rare) = &mut self.rare {
            if round.election != self.round.election {
                (rare.relayed, rare.sent_choice) = (0, 0);
            }
            rare.best = None;
            rare.relays = Vec::new();
            rare.early.retain(|(early, ..)| *early >= round);
        }
        (self.round, self.first, self.conflict) = (round, None, false);
        former
    }

    /// Step 2: sends the preferred leader to the other relay members.
    fn become_relay_member(&mut self, cx: &mut Context<'_, Self>, k: u64, former: Option<NodeId>) {
        let (view, round) = (cx.view(), self.round);
        let members = self.options.members(view);
        let timeout = self.options.time_out_2(k);
        let rare = self.rare();
        rare.relayed |= bit(round.number);
        // "declare received choice as elected leader and include it in Mi's view"
        former.into_iter().for_each(|leader| rare.add_to_view(view, leader));
        let hash = hash(view, round, HashPurpose::Initiation);
        let relays = rare.filtered(view, |member| hash(member) * members < k as f64);
        let best = rare.preferred(view);
        relays.iter().for_each(|&relay| cx.send(relay, Message::Preference { round, leader: best }));
        (rare.relays, rare.best) = (relays, Some(best));
        let early = std::mem::take(&mut rare.early);
        self.enter_phase(cx, Phase::Relay, Timer::Relay, timeout);
        for (of, from, leader) in early {
            self.on_preference(cx, from, of, leader);
        }
    }

    fn on_preference(&mut self, cx: &mut Context<'_, Self>, from: NodeId, round: Round, leader: NodeId) {
        let view = cx.view();
        if round > self.round || (round == self.round && self.phase == Phase::Due) {
            let early = &mut self.rare().early;
            early.retain(|(_, other, _)| *other != from);
            return early.push((round, from, leader));
        }
        if round != self.round || self.phase != Phase::Relay || !view.is_member(leader) {
            return;
        }
        let relay_back = self.options.relay_back;
        let rare = self.rare();
        rare.add_to_view(view, from);
        include(&mut rare.relays, from);
        let Some(best) = rare.best else { return };
        if view.member_rank(leader) > view.member_rank(best) {
            rare.best = Some(leader);
            let others = rare.relays.iter().filter(|&&relay| relay_back || relay != from);
            others.for_each(|&relay| cx.send(relay, Message::Preference { round, leader }));
        } else if leader != best {
            cx.send(from, Message::Preference { round, leader: best });
        }
    }

    /// Ends the Relay phase: multicasts the final choice.
    fn multicast_choice(&mut self, cx: &mut Context<'_, Self>) {
        let (round, me) = (self.round, cx.me());
        let rare = self.rare();
        let Some(leader) = rare.best else { return };
        rare.sent_choice |= bit(round.number);
        cx.multicast(Message::FinalChoice { round, leader });
        self.record_choice(FinalChoice { from: me, leader });
        self.await_choices(cx);
    }

    /// Awaits the final choices of members that received the round later.
    fn await_choices(&mut self, cx: &mut Context<'_, Self>) {
        let timeout = 2 * self.options.time_out_3();
        self.enter_phase(cx, Phase::Detection, Timer::Choices, timeout);
    }

    fn record_choice(&mut self, choice: FinalChoice) {
        let first = *self.first.get_or_insert(choice);
        self.conflict |= first.leader != choice.leader;
    }

    fn on_final_choice(&mut self, cx: &mut Context<'_, Self>, round: Round, choice: FinalChoice) {
        if round < self.round || !self.is_valid_round(round) || !cx.view().is_member(choice.leader) {
            return;
        }
        if round > self.round || self.phase == Phase::Due {
            self.jump_to(cx, round);
            self.record_choice(choice);
            return self.await_choices(cx);
        }
        let had_none = self.first.is_none();
        match self.phase {
            Phase::Filter | Phase::Relay | Phase::Detection => self.record_choice(choice),
            Phase::Confirmation => {
                self.record_choice(choice);
                if self.conflict {
                    self.conclude(cx);
                }
            }
            // A late choice still counts.
            Phase::Reinitiation | Phase::Undecided if had_none => {
                self.record_choice(choice);
                self.conclude(cx);
            }
            _ => {}
        }
    }

    /// Step 3: checks whether there is exactly one choice.
    fn conclude(&mut self, cx: &mut Context<'_, Self>) {
        match self.first {
            Some(_) if !self.conflict => {
                let timeout = self.options.objection_timeout();
                self.enter_phase(cx, Phase::Confirmation, Timer::Objection, timeout);
            }
            _ if self.round.number >= self.options.max_rounds => self.leave_undecided(cx),
            Some(choice) => match self.options.on_conflict {
                OnConflict::Hash => self.reinitiate_if_chosen(cx, HashPurpose::Choice(choice.from)),
                OnConflict::Delay => self.await_turn(cx, Phase::Reinitiation),
            },
            None => match self.options.on_silence {
                OnSilence::Delay => self.await_turn(cx, Phase::Reinitiation),
                OnSilence::Always => self.initiate(cx, self.round.next()),
                OnSilence::Hash => self.reinitiate_if_chosen(cx, HashPurpose::Silence),
                OnSilence::Never => self.leave_undecided(cx),
            },
        }
    }

    fn reinitiate_if_chosen(&mut self, cx: &mut Context<'_, Self>, about: HashPurpose) {
        if self.passes_filter(cx.view(), about, self.k(cx.view())) {
            self.initiate(cx, self.round.next());
        } else {
            self.leave_undecided(cx);
        }
    }

    fn leave_undecided(&mut self, cx: &mut Context<'_, Self>) {
        self.phase = Phase::Undecided;
        cx.cancel_timer(Timer::Objection);
    }

    /// Returns whether the round is valid.
    fn is_valid_round(&self, round: Round) -> bool {
        round.election > 0 && (1..=self.options.max_rounds).contains(&round.number)
    }

    fn on_initiate(&mut self, cx: &mut Context<'_, Self>, from: NodeId, round: Round) {
        if !self.is_valid_round(round) {
            return;
        }
        if round > self.round || (round == self.round && self.phase == Phase::Due) {
            self.enter_round(cx, round);
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
                self.enter_phase(cx, Phase::Due, Timer::Initiation, timeout);
            }
            Start::Fresh => {}
            Start::Recovered(_) => {
                cx.multicast(Message::Join);
                let timeout = 2 * self.options.time_out_3();
                self.enter_phase(cx, Phase::Joining, Timer::Welcome, timeout);
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
            Timer::Relay => self.multicast_choice(cx),
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
        include(&mut self.rare().suspects, peer);
        if self.leader() == Some(peer) {
            self.drop_leader(cx);
        }
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        exclude(&mut self.rare().suspects, peer);
        self.welcome(cx, peer);
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        // To resign, an application lowers the rank and calls an election.
        if command != Command::Campaign {
            return;
        }
        match self.phase {
            Phase::Due => self.initiate(cx, self.round),
            Phase::Idle | Phase::Joining | Phase::Undecided | Phase::Elected | Phase::Suspicion => {
                self.initiate(cx, self.round.next_election());
            }
            // An election is in progress.
            Phase::Filter | Phase::Relay | Phase::Detection | Phase::Confirmation | Phase::Reinitiation => {}
        }
    }
}

#[cfg(test)]
mod tests;
