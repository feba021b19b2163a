//! State transfer to restarted members: "New processes can join the group by multicasting a message to it, and
//! receiving a reply/state transfer from at least one member" (2.1).

use super::filter::HashPurpose;
use super::rare_state::include;
use super::{FinalChoice, Gupta, Message, Phase, Round, Timer};
use suffrage_core::{Context, NodeId};

impl Gupta {
    /// Replies with the current state, if the hash chooses this member for the reply.
    pub(super) fn welcome(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let view = cx.view();
        let k = self.options.k(1, view.group_len());
        if !self.passes_filter(view, HashPurpose::Reply(peer), k) {
            return;
        }
        if self.round > Round::default() && self.phase != Phase::Due {
            self.send_welcome(cx, peer);
        }
        if self.leader().is_none() {
            include(&mut self.rare().restored, peer);
        }
    }

    pub(super) fn send_welcome(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        cx.send(peer, Message::Welcome { round: self.round, leader: self.leader() });
    }

    pub(super) fn on_welcome(
        &mut self,
        cx: &mut Context<'_, Self>,
        from: NodeId,
        round: Round,
        leader: Option<NodeId>,
    ) {
        let leader = leader.filter(|&leader| cx.view().is_member(leader));
        if !self.is_valid_round(round) {
            return;
        }
        // The sender may know less than this member, and may not have been suspected.
        if self.leader().is_none() {
            include(&mut self.rare().restored, from);
        } else if round < self.round {
            return self.send_welcome(cx, from);
        }
        if round < self.round {
            return;
        }
        let behind = round > self.round || matches!(self.phase, Phase::Due | Phase::Undecided);
        match leader {
            Some(leader) if behind => {
                self.jump_to(cx, round);
                self.first = Some(FinalChoice { from, leader });
                self.become_elected(cx, leader);
            }
            Some(leader) if self.leader().is_some_and(|mine| mine != leader) => self.drop_leader(cx),
            // The election is in progress: this member awaits the choices.
            None if round > self.round => {
                self.jump_to(cx, round);
                let timeout = self.options.time_out_1(self.k(cx.view()));
                self.enter_phase(cx, Phase::Filter, Timer::RelayAndChoices, timeout);
            }
            _ => {}
        }
    }
}
