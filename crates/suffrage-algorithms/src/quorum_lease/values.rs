//! What a simulated world checks of the values of leaders.
//!
//! Values are [numbered](Value::numbered): each says who has set it. At every input of a node, what the node shows for a
//! token must be whole, and of the holder of that token. At the end of a run, every node that reaches a leader shows the
//! newest value of that leader, unless it is very new.

use suffrage_core::{Member, NodeId, Span, Time};

use super::{QuorumLease, Role, name};
use suffrage_lease::Engine;
use suffrage_lease::{Boot, Token};
use suffrage_lease::{Value, ValueVersion};

/// In how many lengths of a lease after its beginning, or after a change, a leader's value is known everywhere.
const LEASES_UNTIL_KNOWN: u64 = 4;

/// The value of a member that leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct OwnValue {
    token: Token,
    version: ValueVersion,
    since: Time,
}

/// What was seen of the values at one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ValueAudit {
    /// By election, while the node leads with a value.
    own: Vec<Option<OwnValue>>,
    /// By election, the token of the leader whose value the node wants to know, and since when.
    wanted: Vec<Option<(Token, Time)>>,
    /// Whether values are set by other members than the holder of the lease: by clients of nodes.
    by_clients: bool,
    /// The first broken promise.
    broken: Option<String>,
    /// The time of the last input.
    now: Time,
}

impl ValueAudit {
    pub(super) fn new(elections: usize, by_clients: bool) -> ValueAudit {
        let wanted = vec![None; elections];
        ValueAudit { own: vec![None; elections], wanted, by_clients, broken: None, now: Time::ZERO }
    }

    /// The node has handled an input.
    pub(super) fn observe(&mut self, now: Time, engine: &Engine) {
        self.now = now;
        for (election, wanted) in self.wanted.iter_mut().enumerate() {
            let token = engine.value_token(name(election).hash());
            *wanted = token.map(|token| wanted.filter(|(it, _)| *it == token).unwrap_or((token, now)));
        }
        let has_own = engine.elections().any(|(_, state)| state.value_version() != ValueVersion::NONE);
        if !has_own && !engine.has_values() && self.own.iter().all(Option::is_none) {
            return;
        }
        for election in 0..self.own.len() {
            let hash = name(election).hash();
            let state = engine.index_of(hash).and_then(|index| engine.election(index));
            let led = state.and_then(|state| Some((state.lease(now)?.token, state.value_version())));
            let before = self.own[election];
            self.own[election] =
                led.filter(|(_, version)| *version != ValueVersion::NONE).map(|(token, version)| {
                    let same = before.filter(|own| (own.token, own.version) == (token, version));
                    same.unwrap_or(OwnValue { token, version, since: now })
                });
            if let Some((holder, boot, token, value)) = engine.noted_value(hash)
                && self.broken.is_none()
            {
                self.broken = self.check((holder, boot), token, value);
            }
        }
    }

    /// The promise that is broken if this value is shown for the token of this holder.
    fn check(&self, (holder, boot): (NodeId, Boot), token: Token, value: &Value) -> Option<String> {
        let Some((setter, set_in, number)) = value.parse_numbered() else {
            return Some(format!("a value of node {holder}, token {token}, is not as it was set"));
        };
        let right = (self.by_clients || setter == holder) && (set_in == Boot(0) || set_in == boot);
        (!right).then(|| format!("value {number} of {setter} is shown for node {holder}, token {token}"))
    }
}

impl QuorumLease {
    fn audit(&self) -> Option<(&Engine, &ValueAudit)> {
        match &self.role {
            Role::Unstarted | Role::Client(_) => None,
            Role::Node(node) => Some((node.engine.engine(), &node.values)),
            Role::Server(server) => Some((server.engine(), &server.values)),
            Role::Host(host) => Some((host.engine()?, &host.values)),
        }
    }
}

/// The promise about values that the members have broken, if there is one.
pub(super) fn broken_promise(
    (elections, ttl): (usize, Span),
    members: &[Member<'_, QuorumLease>],
    connected: &dyn Fn(NodeId, NodeId) -> bool,
) -> Option<String> {
    let nodes = || members.iter().filter_map(|member| Some((member, member.process.audit()?)));
    if let Some((member, broken)) = nodes().find_map(|(it, (_, audit))| Some((it, audit.broken.as_ref()?))) {
        return Some(format!("at {}: {broken}", member.id));
    }
    for (leader, (engine, audit)) in nodes().filter(|(member, _)| member.up) {
        for election in 0..elections {
            let Some(own) = audit.own[election] else { continue };
            if audit.now < own.since + ttl * LEASES_UNTIL_KNOWN {
                continue;
            }
            let hash = name(election).hash();
            let newest = engine.value(hash, own.token);
            let reaches =
                |it: &Member<'_, QuorumLease>| it.id != leader.id && it.up && connected(leader.id, it.id);
            for (other, (shows, audit)) in nodes().filter(|(member, _)| reaches(member)) {
                // A node that has just joined for a client, or has missed renewals, asks for the value again.
                let knows = audit.wanted[election].is_some_and(|(token, since)| {
                    token == own.token && since + ttl * LEASES_UNTIL_KNOWN <= audit.now
                });
                let shown = shows.value(hash, own.token);
                if knows && shown != newest {
                    let (shown, newest) = (shown.map(|it| it.0), newest.map(|it| it.0));
                    return Some(format!(
                        "{} shows version {shown:?} of the value of {}, token {}, in place of {newest:?}",
                        other.id, leader.id, own.token
                    ));
                }
            }
            if let Some(broken) = wrong_client((election, own.token), newest.map(|it| it.1), members) {
                return Some(broken);
            }
        }
    }
    None
}

/// The broken promise, if a client leads with this token and its node has another value.
fn wrong_client(
    (election, token): (usize, Token),
    value: Option<&Value>,
    members: &[Member<'_, QuorumLease>],
) -> Option<String> {
    let wrong = |member: &&Member<'_, QuorumLease>| match &member.process.role {
        Role::Client(client) => client.confirmed_value(election, token).is_some_and(|own| own != value),
        _ => false,
    };
    let member = members.iter().filter(|member| member.up).find(wrong)?;
    Some(format!(
        "the node of client {}, token {token}, has another value than the client has set",
        member.id
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_another_holder_or_boot_breaks_the_promise() {
        let audit = ValueAudit::new(1, false);
        let (holder, token) = ((NodeId(3), Boot(7)), Token::after(4));
        let value = |setter, boot| Value::numbered(NodeId(setter), Boot(boot), 2).unwrap();
        assert_eq!(audit.check(holder, token, &value(3, 7)), None);
        assert_eq!(audit.check(holder, token, &value(3, 0)), None, "set by a process of the machine");
        assert!(
            audit.check(holder, token, &value(4, 7)).unwrap().contains("value 2 of 4 is shown for node 3")
        );
        assert!(audit.check(holder, token, &value(3, 8)).is_some());
        assert!(audit.check(holder, token, &Value::new("x").unwrap()).unwrap().contains("not as it was set"));
        assert_eq!(ValueAudit::new(1, true).check(holder, token, &value(9, 0)), None, "set by a client");
    }
}
