//! Leaders that operators move: requests to other nodes, and those of other nodes.

use suffrage_core::{NodeId, Time};
use suffrage_lease::{Body, ElectionIndex, ElectionName, Message, Name, Token};
use suffrage_net::Transport;

use super::super::NodeEvent;
use super::{Local, MAX_TOLD, Task};
use crate::Error;
use crate::clock::Clock;
use crate::lease::status::Leader;

impl<T: Transport, C: Clock> Task<T, C> {
    /// Checks whether a candidate waits at this node, if the node leads.
    pub(super) fn check_transfer(&self, now: Time, name: Name, to: NodeId) -> Result<(), Error> {
        let (engine, me) = (self.engine(), self.engine().me());
        if to == me || engine.index_of(name).and_then(|index| engine.lease(now, index)).is_none() {
            return Ok(());
        }
        self.check_queue(now, name, to)
    }

    /// Checks whether a candidate waits at this node.
    fn check_queue(&self, now: Time, name: Name, to: NodeId) -> Result<(), Error> {
        let (engine, me) = (self.engine(), self.engine().me());
        let voter = engine.voter().filter(|_| engine.is_voting(now));
        let voter = voter.ok_or(Error::UnknownQueue { me, to })?;
        let holder = voter.grant(now, name).map_or(me, |(grant, _)| grant.holder);
        let candidates: Vec<NodeId> =
            voter.live_waiters(now, name).filter(|&waiting| waiting != holder).collect();
        match candidates.contains(&to) {
            true => Ok(()),
            false => Err(Error::NotWaiting { to, candidates }),
        }
    }

    /// Asks the leader to hand over, if it has this token.
    pub(super) fn move_leader(
        &mut self,
        now: Time,
        election: ElectionName,
        to: Option<NodeId>,
        token: Option<Token>,
    ) -> Result<Option<Leader>, Error> {
        let name = election.hash();
        let holder = self.engine().holder(now, name);
        if holder.is_none_or(|grant| token.is_some_and(|token| token != grant.token)) {
            return Ok(None);
        }
        if let Some(to) = to {
            self.check_queue(now, name, to)?;
        }
        let asked = self.input(now, |node, cx| node.ask_to_hand_over(cx, name, to));
        let asked = asked.map(Leader::of);
        if let Some(leader) = asked.filter(|leader| leader.node != self.engine().me())
            && self.is_new_request((name, leader.node), (leader.token, to))
        {
            self.tell(NodeEvent::HandOverRequested { election, leader, to });
        }
        Ok(asked)
    }

    /// Tells the operator and the application that another node asks this one to hand over an election that it leads.
    /// Must be called before the engine gets the message.
    pub(super) fn note_hand_over_request(&mut self, now: Time, by: NodeId, message: &Message) {
        let (engine, Body::HandOver { token, to }) = (self.engine(), &message.body) else { return };
        let index = engine.index_of(message.name).filter(|_| message.header.stamp == engine.header().stamp);
        let leads = |index: &ElectionIndex| engine.lease(now, *index).is_some_and(|it| it.token == *token);
        let Some(index) = index.filter(leads) else { return };
        let Some(election) = engine.election(index).map(|state| state.name().clone()) else { return };
        let (token, to) = (*token, *to);
        if let Some(Some(Local { held: Some(held), .. })) = self.locals.get(index.index()) {
            held.ask_to_hand_over(by);
        }
        if self.is_new_request((message.name, by), (token, to)) {
            self.tell(NodeEvent::AskedToHandOver { election, by, to });
        }
    }

    /// Whether the operator does not know of this request to hand over. Requests are repeated, because messages are lost.
    fn is_new_request(&mut self, about: (Name, NodeId), request: (Token, Option<NodeId>)) -> bool {
        if self.told_moves.len() >= MAX_TOLD {
            self.told_moves.clear();
        }
        self.told_moves.insert(about, request) != Some(request)
    }
}
