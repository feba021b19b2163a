//! How those that were away learn how things stand: "New processes can join the group by multicasting a
//! message to it, and receiving a reply/state transfer from at least one member" (2.1).

use super::filter::About;
use super::notes::include;
use super::{FinalChoice, Gupta, Message, Phase, Round, Timer};
use suffrage_core::{Context, NodeId};

impl Gupta {
    /// Tells somebody how things stand, if this is one of the few that are to.
    pub(super) fn welcome(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let view = cx.view();
        let k = self.options.k(1, view.group_len());
        if !self.passes(view, About::Reply(peer), k) {
            return;
        }
        if self.round > Round::default() && self.phase != Phase::Due {
            self.tell(cx, peer);
        }
        if self.leader().is_none() {
            include(&mut self.notes().heard_again, peer);
        }
    }

    pub(super) fn tell(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
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
        if !self.is_round(round) {
            return;
        }
        // Who says this may not know better, and may not have been missed.
        if self.leader().is_none() {
            include(&mut self.notes().heard_again, from);
        } else if round < self.round {
            return self.tell(cx, from);
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
            Some(leader) if self.leader().is_some_and(|mine| mine != leader) => self.give_up_leader(cx),
            // They are still at it: it waits for their choices.
            None if round > self.round => {
                self.jump_to(cx, round);
                let timeout = self.options.time_out_1(self.k(cx.view()));
                self.wait(cx, Phase::Filter, Timer::RelayAndChoices, timeout);
            }
            _ => {}
        }
    }
}
