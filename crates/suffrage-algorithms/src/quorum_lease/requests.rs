//! The requests of clients that are members of the world, at one node: replies and hang-ups are messages.

use std::collections::{BTreeMap, VecDeque};

use suffrage_core::{Context, NodeId};

use super::QuorumLease;
use super::message::{MemberMessage, SessionMessage};
use suffrage_lease::Name;
use suffrage_lease::sessions::{RequestId, SessionOutcome};

/// How many answered requests a node remembers, so that hang-ups can arrive after the reply.
const ANSWERED: usize = 16;

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ClientRequest {
    client: NodeId,
    number: u64,
    name: Name,
    /// Whether the node knows that the client is gone.
    gone: bool,
}

/// The requests of clients at one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ClientRequests {
    open: BTreeMap<RequestId, ClientRequest>,
    answered: VecDeque<(RequestId, ClientRequest)>,
}

impl ClientRequests {
    /// A request of a client, with the client's own number, is handed to the node under this id.
    pub(super) fn insert(&mut self, request: RequestId, (client, number): (NodeId, u64), name: Name) {
        self.open.insert(request, ClientRequest { client, number, name, gone: false });
    }

    /// Sends a reply to its client. If the client is known to be gone, returns the election: the node is to be told that
    /// the reply was not delivered.
    pub(super) fn reply(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        request: RequestId,
        outcome: SessionOutcome,
    ) -> Option<Name> {
        let ClientRequest { client, number, name, gone } = self.open.remove(&request)?;
        if gone {
            return Some(name);
        }
        if self.answered.len() == ANSWERED {
            self.answered.pop_front();
        }
        self.answered.push_back((request, ClientRequest { client, number, name, gone }));
        cx.send(client, MemberMessage::session(name, SessionMessage::Reply { number, outcome }));
        None
    }

    /// A client has hung up. Returns the requests whose hang-up the node is to be told: it may notice others only when it is
    /// about to reply.
    pub(super) fn hang_up(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        client: NodeId,
        number: u64,
    ) -> Vec<(RequestId, Name)> {
        let of_client = |it: &ClientRequest| (it.client, it.number) == (client, number);
        let open = self.open.iter().map(|(&request, &it)| (request, it));
        let all: Vec<(RequestId, ClientRequest)> =
            open.chain(self.answered.iter().copied()).filter(|(_, it)| of_client(it)).collect();
        let mut told = Vec::new();
        for (request, ClientRequest { name, .. }) in all {
            match self.open.get_mut(&request).filter(|_| cx.rng().chance(0.5)) {
                Some(unnoticed) => unnoticed.gone = true,
                None => {
                    self.open.remove(&request);
                    told.push((request, name));
                }
            }
        }
        told
    }

    /// The node has died: nobody replies.
    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.answered.clear();
    }
}
