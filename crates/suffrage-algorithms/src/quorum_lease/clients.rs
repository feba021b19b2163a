//! Members of a world that are clients of nodes.
//!
//! A client campaigns through any node, and switches to another when the node stops or is silent. The *clients*
//! announce that they lead and until when, so that all invariants of leaders are checked of clients. A client that
//! leads tells all members, so that all members know the leader in the end.

use suffrage_core::{Announcement, Context, NodeId, Span, Term, Time};

use super::message::{MemberMessage, SessionMessage};
use super::{QuorumLease, name};
use suffrage_lease::Value;
use suffrage_lease::sessions::{ClientAction, ClientConfig, ClientLease, SessionClient, SessionRequest};
use suffrage_lease::{Action, Command, Timer};
use suffrage_lease::{Boot, Name, Token};

/// After how many lengths of a lease a member forgets a leader that it does not hear of.
const LEASES_UNTIL_FORGOTTEN: u64 = 3;

/// A leader that a member has heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct KnownLeader {
    leader: NodeId,
    token: u64,
    until: Time,
}

/// The leaders that a member has heard of, by election.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct KnownLeaders {
    leaders: Vec<Option<KnownLeader>>,
    ttl: Span,
}

impl KnownLeaders {
    pub(super) fn new(elections: usize, ttl: Span) -> KnownLeaders {
        KnownLeaders { leaders: vec![None; elections], ttl }
    }

    /// A client says that it leads.
    pub(super) fn on_leading(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        election: usize,
        leader: NodeId,
        token: u64,
    ) {
        let until = cx.now() + self.ttl * LEASES_UNTIL_FORGOTTEN;
        let known = self.leaders[election];
        if known.is_some_and(|known| known.token > token) {
            return;
        }
        self.leaders[election] = Some(KnownLeader { leader, token, until });
        if known.map(|known| (known.leader, known.token)) != Some((leader, token)) {
            cx.announce_in(election, Announcement::Elected { leader, term: Term(token) });
        }
    }

    pub(super) fn forget(&mut self, election: usize) {
        self.leaders[election] = None;
    }

    pub(super) fn next_due(&self) -> Time {
        self.leaders.iter().flatten().map(|known| known.until).min().unwrap_or(Time::MAX)
    }

    pub(super) fn on_due(&mut self, cx: &mut Context<'_, QuorumLease>) {
        for election in 0..self.leaders.len() {
            if self.leaders[election].take_if(|known| known.until <= cx.now()).is_some() {
                cx.announce_in(election, Announcement::Undecided);
            }
        }
    }
}

/// A member that is a client of nodes, in every election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClientMember {
    nodes: Vec<NodeId>,
    config: ClientConfig,
    clients: Vec<SessionClient>,
    known_leaders: KnownLeaders,
    armed: Option<Time>,
}

impl ClientMember {
    /// A client of these nodes, in this many elections.
    pub(super) fn new(
        cx: &mut Context<'_, QuorumLease>,
        nodes: Vec<NodeId>,
        elections: usize,
        config: ClientConfig,
    ) -> ClientMember {
        let rng = cx.rng();
        let clients = (0..elections)
            .map(|_| {
                let waits = [Span::ZERO, config.lease.ttl.scale(0.5), config.lease.ttl * 2];
                let wait = waits[rng.below(3) as usize];
                let node = rng.below(nodes.len() as u64) as usize;
                // The numbers differ from those of an earlier boot of this client.
                SessionClient::new(ClientConfig { wait, ..config }, node, rng.bits() >> 1)
            })
            .collect();
        let known_leaders = KnownLeaders::new(elections, config.lease.ttl);
        ClientMember { nodes, config, clients, known_leaders, armed: None }
    }

    /// The lease that the client holds in an election, even if it has expired by the client's clock.
    pub(super) fn lease(&self, election: usize) -> Option<ClientLease> {
        self.clients.get(election)?.lease()
    }

    /// The value that the client with this token has and that its node has confirmed. The outer option is none if the
    /// client does not lead with this token, or if its node has not confirmed the value.
    pub(super) fn confirmed_value(&self, election: usize, token: Token) -> Option<Option<&Value>> {
        let client = self.clients.get(election)?;
        let leads = client.lease().is_some_and(|lease| lease.token == token.number());
        (leads && !client.is_value_unset()).then(|| client.value())
    }

    pub(super) fn on_message(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        from: NodeId,
        election: usize,
        message: SessionMessage,
    ) {
        match message {
            SessionMessage::Reply { number, outcome } => {
                self.input(cx, election, |client, now, actions| {
                    client.on_reply(now, number, outcome, actions)
                });
                // A client may close the connection once it has read the reply.
                if cx.rng().chance(1.0 / 4.0) {
                    let hang_up = SessionMessage::HangUp { number };
                    cx.send(from, MemberMessage::session(name(election).hash(), hang_up));
                }
            }
            SessionMessage::Leading { token } => {
                // A client that was paused must first notice that its own lease is over.
                self.input(cx, election, |client, now, actions| client.on_due(now, actions));
                if self.lease(election).is_none() {
                    self.known_leaders.on_leading(cx, election, from, token);
                }
            }
            SessionMessage::Request { .. } | SessionMessage::HangUp { .. } => {}
        }
        self.arm(cx);
    }

    pub(super) fn on_timer(&mut self, cx: &mut Context<'_, QuorumLease>) {
        self.armed = None;
        // Sometimes a client switches to another node without a reason.
        let switches = cx.rng().chance(1.0 / 64.0);
        self.input_each(cx, None, |client, now, actions| {
            client.on_due(now, actions);
            if switches {
                client.switch_node(now, actions);
            }
        });
        self.known_leaders.on_due(cx);
        self.arm(cx);
    }

    pub(super) fn on_command(&mut self, cx: &mut Context<'_, QuorumLease>, command: Command) {
        let (me, pause) = (cx.me(), self.config.lease.ttl);
        let Command { election, action } = command;
        let to = match action {
            Action::Transfer(to) => Some(to).filter(|to| self.nodes.contains(to)),
            _ => None,
        };
        self.input_each(cx, election.map(|election| election.hash()), |client, now, actions| match action {
            Action::Join(_) | Action::Stand { .. } | Action::Campaign | Action::Health(true) => {
                client.campaign(now, actions);
            }
            Action::Resign
            | Action::Release(_)
            | Action::Transfer(_)
            | Action::Withdraw
            | Action::Leave
            | Action::Health(false) => {
                client.resign(now, to, Some(pause), actions);
            }
            Action::Rank(rank) => client.set_rank(rank),
            Action::Value(number) => client.set_value(now, Value::numbered(me, Boot(0), number), actions),
            Action::Pin(_) => client.switch_node(now, actions),
            Action::ChangeVoters(_) | Action::StopChange | Action::Move(_) => {}
        });
        self.arm(cx);
    }

    /// Hands an input to the client of each election, or of one.
    fn input_each(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        election: Option<Name>,
        input: impl Fn(&mut SessionClient, Time, &mut Vec<ClientAction>),
    ) {
        for number in 0..self.clients.len() {
            if election.is_none_or(|wanted| wanted == name(number).hash()) {
                self.input(cx, number, &input);
            }
        }
        self.arm(cx);
    }

    /// Hands an input to the client of an election, and carries out its actions.
    fn input(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        election: usize,
        input: impl FnOnce(&mut SessionClient, Time, &mut Vec<ClientAction>),
    ) {
        let before = self.lease(election).map(|lease| lease.token);
        let mut leads = before;
        let mut actions = Vec::new();
        input(&mut self.clients[election], cx.now(), &mut actions);
        for action in actions {
            match action {
                ClientAction::Send { node, number, request } => {
                    // Requests with a session are idempotent: sometimes a client sends one twice.
                    let twice = has_session(&request) && cx.rng().chance(1.0 / 8.0);
                    let message = SessionMessage::Request { number, request };
                    let message = MemberMessage::session(name(election).hash(), message);
                    if twice {
                        cx.send(self.nodes[node], message.clone());
                    }
                    cx.send(self.nodes[node], message);
                }
                ClientAction::HangUp { node, number } => {
                    let message = SessionMessage::HangUp { number };
                    cx.send(self.nodes[node], MemberMessage::session(name(election).hash(), message));
                }
                ClientAction::Lead(lease) => {
                    self.known_leaders.forget(election);
                    cx.lead_until_in(election, lease.until);
                    if leads.replace(lease.token) != Some(lease.token) {
                        let (leader, term) = (cx.me(), Term(lease.token));
                        cx.announce_in(election, Announcement::Elected { leader, term });
                    }
                    let leading = SessionMessage::Leading { token: lease.token };
                    cx.multicast(MemberMessage::session(name(election).hash(), leading));
                }
                ClientAction::StepDown => {
                    leads = None;
                    cx.announce_in(election, Announcement::SteppedDown);
                }
            }
        }
    }

    fn arm(&mut self, cx: &mut Context<'_, QuorumLease>) {
        let due =
            self.clients.iter().map(SessionClient::next_due).chain([self.known_leaders.next_due()]).min();
        let due = due.filter(|&due| due < Time::MAX);
        if self.armed != due {
            match due {
                Some(due) => cx.set_timer(Timer, due.since(cx.now())),
                None => cx.cancel_timer(Timer),
            }
            self.armed = due;
        }
    }
}

fn has_session(request: &SessionRequest) -> bool {
    match request {
        SessionRequest::Campaign(campaign) => campaign.session.is_some(),
        SessionRequest::Renew { .. } | SessionRequest::SetValue { .. } | SessionRequest::Resign { .. } => {
            true
        }
        SessionRequest::Hold { .. } | SessionRequest::Revoke { .. } => false,
    }
}
