//! The effects of an engine, gathered over a turn.

use std::collections::BTreeMap;

use suffrage_core::{Announcement, Effects, NodeId, Rng, SaveQueue, Span, Term, Time};
use suffrage_lease::sessions::SessionEngine;
use suffrage_lease::{Ask, Body, Header, Message, Name, Saved, Timer, Token};
use suffrage_net::codec::{Outbox, Protocol};

use serde::{Deserialize, Serialize};

use super::survey::WireReport;
use super::witness::{DiskStamp, Evidence};

/// An event of one election, as this node knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// This node leads, or continues to lead with a greater token, until this time of its clock.
    Led { token: Token, valid_until: Time },
    /// This node renewed its lease with the same token.
    Renewed { valid_until: Time },
    /// This node has lost or released the lease.
    Lost,
    /// Another node leads.
    Follows { leader: NodeId, token: Token },
    /// This node knows no leader.
    Nobody,
}

/// An event and its election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ElectionEvent {
    pub(super) index: usize,
    /// The number of the participation under this index. Indices are reused.
    pub(super) epoch: u64,
    /// The time of the event by the node's clock.
    pub(super) at: Time,
    pub(super) event: Event,
    /// Whether the operator does not know of it yet, as the journal says.
    pub(super) news: bool,
}

/// The effects of an engine, gathered over a turn. They are carried out in the order of the fields.
#[derive(Debug)]
pub(super) struct Output {
    /// The state to save before any other effect. A later state replaces an earlier one.
    pub(super) save: Option<Saved>,
    /// The states to save off the task. No other effect waits for them: the engine is told when one is durable.
    pub(super) saves: SaveQueue<Saved>,
    /// The events to publish, in order. A leader that loses its lease must know before any peer does.
    pub(super) events: Vec<ElectionEvent>,
    /// The messages to send.
    pub(super) mail: Outbox,
    /// The header at the beginning of each datagram from now on.
    header: Option<Header>,
    /// The saves of the node's voter.
    pub(super) disk: Option<DiskStamp>,
    /// When each node was last told of them.
    told: BTreeMap<NodeId, (DiskStamp, Time)>,
    /// The voters that were asked for a reply, and when. The journal takes them.
    pub(super) asked: Vec<(NodeId, Time)>,
    /// The time at which the engine's timer expires.
    pub(super) due: Option<Time>,
    /// The number of ended participations under each index.
    epochs: Vec<u64>,
    rng: Rng,
}

/// The time after which a node is told again of the saves of this node's voter.
const TELL_AGAIN: Span = Span::from_millis(1_000);
/// The greatest number of nodes of which it is remembered when they were told.
const MAX_TOLD: usize = 4_096;

/// The protocol of quorum leases.
pub(super) const PROTOCOL: &str = "quorum-lease";

/// An item of a datagram. The first item is the header of all messages that follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum WireItem {
    Header(Header),
    Message(Name, Body),
    /// The saves of the sender's voter.
    Disk(DiskStamp),
    /// The disk of the receiver's voter went back.
    Outdated(Evidence),
    /// The reply of a voter that does not vote to candidates that ask it. It is for their operators: no election depends
    /// on it.
    NotVoting(Absence),
    /// Asks a voter whom it hears. The number is in the reply. It is for operators, and has a datagram of its own.
    ReportQuery(u64),
    /// The reply to `ReportQuery`.
    Report(WireReport),
}

/// The reason why a voter of the configuration does not vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Absence {
    /// It is silent for this long after its restart.
    Silent(Span),
    /// It has lost its saved state.
    LostState,
}

/// The content of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) header: Header,
    pub(super) messages: Vec<Message>,
    pub(super) disk: Option<DiskStamp>,
    pub(super) outdated: Option<Evidence>,
    /// The last notice that the sender does not vote.
    pub(super) absence: Option<Absence>,
    /// The number of a query for a report.
    pub(super) query: Option<u64>,
    pub(super) report: Option<WireReport>,
}

/// The longest envelope of one message about an election: five bytes of the envelope's own; the header, with one byte of
/// length, a tag and four numbers; and the message. The longest message is the text of a name, with two bytes of length,
/// sixteen of name, two tags, and two bytes of length of the text.
const SHORTEST_DATAGRAM: usize = 5 + (1 + 1 + 4 * 10) + (2 + 16 + 2 + 2 + LONGEST_NAME);
const LONGEST_NAME: usize = 255;

/// The content of a datagram. None if it does not begin with a header, or has another one.
pub(super) fn content(items: Vec<WireItem>) -> Option<Content> {
    let mut items = items.into_iter();
    let Some(WireItem::Header(header)) = items.next() else { return None };
    let mut content = Content {
        header,
        messages: Vec::new(),
        disk: None,
        outdated: None,
        absence: None,
        query: None,
        report: None,
    };
    for item in items {
        match item {
            WireItem::Message(name, body) => content.messages.push(Message { header, name, body }),
            WireItem::Disk(stamp) => content.disk = Some(stamp),
            WireItem::Outdated(evidence) => content.outdated = Some(evidence),
            WireItem::NotVoting(absence) => content.absence = Some(absence),
            WireItem::ReportQuery(number) => content.query = Some(number),
            WireItem::Report(report) => content.report = Some(report),
            WireItem::Header(_) => return None,
        }
    }
    Some(content)
}

impl Output {
    /// An output without effects. Datagrams have at most this many bytes, but at least room for one message.
    pub(super) fn new(datagram: usize, seed: u64) -> Output {
        let mail = Outbox::new(Protocol::named(PROTOCOL), datagram.max(SHORTEST_DATAGRAM));
        Output {
            save: None,
            saves: SaveQueue::default(),
            events: Vec::new(),
            mail,
            header: None,
            disk: None,
            told: BTreeMap::new(),
            asked: Vec::new(),
            due: None,
            epochs: Vec::new(),
            rng: Rng::new(seed),
        }
    }

    /// Whether there are no effects.
    pub(super) fn is_empty(&self) -> bool {
        self.save.is_none() && self.mail.is_empty() && self.events.is_empty()
    }

    /// Sends an item with this header. False if it does not fit.
    pub(super) fn push(&mut self, to: NodeId, header: Header, item: &WireItem) -> bool {
        self.set_header(header);
        self.mail.push(to, item).is_ok()
    }

    /// Asks a voter whom it hears, in a datagram of its own: an older node drops the datagram.
    pub(super) fn ask_report(&mut self, to: NodeId, header: Header, number: u64) {
        self.set_header(header);
        self.mail.push_alone(to, &WireItem::ReportQuery(number)).expect("it is shorter than a message");
    }

    /// Makes this the header of later messages.
    fn set_header(&mut self, header: Header) {
        if self.header != Some(header) {
            self.mail.set_preamble(&WireItem::Header(header)).expect("a header always fits");
            self.header = Some(header);
        }
    }

    /// Tells a node of the saves, before a message to it: when they have changed, and again after a while, because a
    /// datagram may be lost.
    fn tell_saves(&mut self, now: Time, to: NodeId) {
        let Some(stamp) = self.disk else { return };
        if self.told.get(&to).is_some_and(|(told, at)| *told == stamp && now.since(*at) < TELL_AGAIN) {
            return;
        }
        if self.told.len() >= MAX_TOLD {
            self.told.clear();
        }
        self.told.insert(to, (stamp, now));
        self.mail.push(to, &WireItem::Disk(stamp)).expect("it is shorter than a message");
    }

    /// Tells a voter that its disk went back.
    pub(super) fn tell_outdated(&mut self, header: Header, to: NodeId, evidence: Evidence) {
        self.set_header(header);
        self.mail.push(to, &WireItem::Outdated(evidence)).expect("it is shorter than a message");
    }

    /// The number of the current participation under this index.
    pub(super) fn epoch(&self, index: usize) -> u64 {
        self.epochs.get(index).copied().unwrap_or(0)
    }

    /// Ends the participation under this index: its unpublished events become void.
    pub(super) fn end_epoch(&mut self, index: usize) {
        if self.epochs.len() <= index {
            self.epochs.resize(index + 1, 0);
        }
        self.epochs[index] += 1;
    }
}

/// The effects of one input.
pub(super) struct Turn<'o> {
    pub(super) me: NodeId,
    pub(super) now: Time,
    pub(super) out: &'o mut Output,
}

impl Turn<'_> {
    fn push(&mut self, index: usize, event: Event) {
        let epoch = self.out.epoch(index);
        self.out.events.push(ElectionEvent { index, epoch, at: self.now, event, news: true });
    }

    /// Takes back the last event if it is a renewal of this election, and returns the end of the lease.
    fn take_end(&mut self, index: usize) -> Time {
        let last =
            self.out.events.pop_if(|last| last.index == index && matches!(last.event, Event::Renewed { .. }));
        match last.map(|last| last.event) {
            Some(Event::Renewed { valid_until }) => valid_until,
            // An engine calls `lead_until` before it announces that it leads.
            _ => Time::ZERO,
        }
    }
}

/// The term of an announcement is the token.
fn token(term: Term) -> Token {
    Token::after(term.0.saturating_sub(1))
}

impl Effects<SessionEngine> for Turn<'_> {
    fn rng(&mut self) -> &mut Rng {
        &mut self.out.rng
    }
    fn send(&mut self, to: NodeId, Message { header, name, body }: Message) {
        // A voter does not reply to a release.
        if matches!(body, Body::Ask(ask) if !matches!(ask, Ask::Release { .. })) {
            self.out.asked.push((to, self.now));
        }
        self.out.set_header(header);
        self.out.tell_saves(self.now, to);
        let rare = matches!(body, Body::Membership(_));
        let pushed = self.out.push(to, header, &WireItem::Message(name, body));
        // A founding list can be too long. No later one is: `Configuration::fits_datagram`.
        assert!(pushed || rare, "one message about an election always fits");
    }
    fn multicast(&mut self, _: Message) {
        unreachable!("an engine sends to each voter by itself");
    }
    fn set_timer(&mut self, _: Timer, after: Span) {
        self.out.due = Some(self.now + after);
    }
    fn cancel_timer(&mut self, _: Timer) {
        self.out.due = None;
    }
    fn save(&mut self, saved: Saved) {
        self.out.save = Some(saved);
    }
    fn begin_save(&mut self, saved: Saved) -> bool {
        self.out.saves.begin(saved);
        false
    }
    fn announce(&mut self, announcement: Announcement) {
        self.announce_in(0, announcement);
    }
    fn lead_until(&mut self, end: Time) {
        self.lead_until_in(0, end);
    }
    fn announce_in(&mut self, index: usize, announcement: Announcement) {
        let event = match announcement {
            Announcement::Elected { leader, term } if leader == self.me => {
                Event::Led { token: token(term), valid_until: self.take_end(index) }
            }
            Announcement::Elected { leader, term } => Event::Follows { leader, token: token(term) },
            Announcement::SteppedDown => Event::Lost,
            Announcement::Undecided => Event::Nobody,
        };
        self.push(index, event);
    }
    fn lead_until_in(&mut self, index: usize, end: Time) {
        self.push(index, Event::Renewed { valid_until: end });
    }
    fn suspect(&mut self, _: NodeId) {}
    fn restore(&mut self, _: NodeId) {}
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use suffrage_lease::membership::{Ballot, Configuration, DiskId, MembershipMessage, Stamp, VoterEntry};
    use suffrage_lease::{Boot, ElectionName, Grant, Reply, Request, VALUE_CHUNK, ValueChunk, ValueVersion};
    use suffrage_net::transport::MAX_PAYLOAD;

    use super::*;

    #[test]
    fn the_longest_message_about_the_configuration_fits_into_a_datagram() {
        let greatest = u64::MAX;
        let entry = |number: u64, length| VoterEntry {
            id: NodeId(greatest - number),
            disk: Some(DiskId(greatest)),
            address: "a".repeat(length),
        };
        let founding = Configuration::founding([(NodeId(1), String::new())], "1%".parse().unwrap()).unwrap();
        let list = |last| {
            founding.successor((0..4).map(|number| entry(number, 170)).chain([last]).collect(), greatest)
        };
        let longest =
            (0..).map_while(|length| Some(list(entry(4, length))).filter(Configuration::fits_datagram));
        let next = longest.last().expect("five voters fit");
        let ballot = Ballot { counter: greatest, coordinator: NodeId(greatest), boot: greatest };
        let accepted = Some((ballot, Arc::new(next)));
        let message = MembershipMessage::Promised { ballot, accepted, ceiling: greatest };
        let stamp = Stamp { version: greatest, digest: greatest, ..founding.stamp() };
        let header = Header { boot: Boot(greatest), stamp };
        let mut out = Output::new(MAX_PAYLOAD, 1);
        let mut turn = Turn { me: NodeId(1), now: Time::ZERO, out: &mut out };
        turn.send(NodeId(2), Message { header, name: Name::NONE, body: Body::Membership(Box::new(message)) });
        let mut lengths = Vec::new();
        out.mail.flush(|_, datagram| lengths.push(datagram.len()));
        assert!(lengths.len() == 1 && lengths[0] > MAX_PAYLOAD - 100, "{lengths:?} of {MAX_PAYLOAD}");
    }

    /// A node that does not know the query drops its datagram, and no message with it.
    #[test]
    fn a_query_for_a_report_has_a_datagram_of_its_own() {
        let founding = Configuration::founding([(NodeId(1), String::new())], "1%".parse().unwrap()).unwrap();
        let header = Header { boot: Boot(1), stamp: founding.stamp() };
        let message = || Message { header, name: Name::of("x"), body: Body::NameQuery };
        let mut out = Output::new(MAX_PAYLOAD, 1);
        Turn { me: NodeId(1), now: Time::ZERO, out: &mut out }.send(NodeId(2), message());
        out.ask_report(NodeId(2), header, 7);
        Turn { me: NodeId(1), now: Time::ZERO, out: &mut out }.send(NodeId(2), message());
        let mut contents = Vec::new();
        out.mail.flush(|_, datagram| {
            let items = Protocol::named(PROTOCOL).decode::<WireItem>(datagram).unwrap();
            contents.push(content(items).unwrap());
        });
        let shapes: Vec<_> = contents.iter().map(|one| (one.messages.len(), one.query)).collect();
        assert_eq!(shapes, [(1, None), (0, Some(7)), (1, None)]);
    }

    #[test]
    fn the_longest_message_fits_into_the_shortest_datagram() {
        let token = Token::after(u64::MAX - 1);
        let grant = Grant {
            token,
            holder: NodeId(u64::MAX),
            boot: Boot(u64::MAX),
            attribute: i64::MIN,
            value: ValueVersion(u32::MAX),
        };
        let (request, longest) = (Request(u64::MAX), Span::from_nanos(u64::MAX));
        let status = Reply::Status { request, promised: u64::MAX, grant: Some(grant), longest };
        let text = ElectionName::new(&"x".repeat(LONGEST_NAME)).unwrap();
        let founding = Configuration::founding([(NodeId(1), String::new())], "1%".parse().unwrap()).unwrap();
        let stamp = Stamp { version: u64::MAX, digest: u64::MAX, ..founding.stamp() };
        let header = Header { boot: Boot(u64::MAX), stamp };
        let message = |body| Message { header, name: Name::of("x"), body };
        let chunk = ValueChunk {
            token,
            version: ValueVersion(u32::MAX),
            length: u16::MAX,
            index: u8::MAX,
            bytes: postcard::from_bytes(&[&[0xe8, 0x01][..], &[7; VALUE_CHUNK]].concat()).unwrap(),
        };
        let chunk = message(Body::ValueChunk(Box::new(chunk)));
        let (longest, second) = (message(Body::NameText(text)), message(Body::Reply(status)));
        let mut out = Output::new(0, 1);
        let mut turn = Turn { me: NodeId(1), now: Time::ZERO, out: &mut out };
        turn.send(NodeId(2), longest.clone());
        turn.send(NodeId(2), longest.clone());
        turn.send(NodeId(3), second.clone());
        turn.send(NodeId(4), chunk.clone());
        let mut lengths = Vec::new();
        let protocol = Protocol::named(PROTOCOL);
        out.mail.flush(|to, datagram| {
            let items = protocol.decode::<WireItem>(datagram).unwrap();
            let sent = [&longest, &second, &chunk][to.0 as usize - 2];
            assert_eq!(content(items).map(|content| content.messages), Some(vec![sent.clone()]));
            if to == NodeId(2) {
                lengths.push(datagram.len());
            } else {
                assert!(datagram.len() < SHORTEST_DATAGRAM, "all other messages are shorter");
            }
        });
        // The cluster's number may be shorter.
        assert!(lengths.iter().all(|length| (SHORTEST_DATAGRAM - 2..=SHORTEST_DATAGRAM).contains(length)));
        assert_eq!(lengths.len(), 2, "one to a datagram");
    }

    #[test]
    fn a_datagram_has_one_header_and_it_comes_first() {
        let founding = Configuration::founding([(NodeId(1), String::new())], "1%".parse().unwrap()).unwrap();
        let header = WireItem::Header(Header { boot: Boot(1), stamp: founding.stamp() });
        let claim = WireItem::Message(Name::of("x"), Body::Claim { attribute: 1 });
        assert_eq!(
            content(vec![header.clone(), claim.clone(), claim.clone()]).map(|content| content.messages.len()),
            Some(2)
        );
        assert_eq!(content(vec![claim.clone()]), None);
        assert_eq!(content(vec![header.clone(), claim, header]), None);
    }

    #[test]
    fn the_end_of_a_lease_is_an_event_only_without_an_announcement() {
        let mut out = Output::new(1_200, 1);
        let mut turn = Turn { me: NodeId(1), now: Time::ZERO, out: &mut out };
        let end = Time::from_nanos(7);
        turn.lead_until_in(3, end);
        turn.announce_in(3, Announcement::Elected { leader: NodeId(1), term: Term(5) });
        turn.lead_until_in(3, end);
        turn.announce_in(4, Announcement::Elected { leader: NodeId(2), term: Term(6) });
        turn.announce_in(3, Announcement::SteppedDown);
        let events: Vec<(usize, Event)> = out.events.iter().map(|it| (it.index, it.event)).collect();
        let led = Event::Led { token: Token::after(4), valid_until: end };
        let follows = Event::Follows { leader: NodeId(2), token: Token::after(5) };
        assert_eq!(
            events,
            [(3, led), (3, Event::Renewed { valid_until: end }), (4, follows), (3, Event::Lost)]
        );
    }
}
