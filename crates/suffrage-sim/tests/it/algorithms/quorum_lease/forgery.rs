//! Forged messages: the protocol trusts the transport to authenticate the sender.

use suffrage_algorithms::quorum_lease::Options;
use suffrage_core::{NodeId, Span};
use suffrage_lease::membership::{Configuration, DiskId};
use suffrage_lease::{Ask, Boot, Name, Reply, Request, Saved, Token, Voter, VoterEffects, VoterStart};

use crate::algorithms::quorum_lease::storm_scenarios::time;

const A: NodeId = NodeId(8);
const B: NodeId = NodeId(9);
const BOOT: Boot = Boot(0);

#[derive(Default)]
struct Answers(Vec<Reply>);

impl VoterEffects for Answers {
    fn save(&mut self, _: &Saved) {}
    fn reply(&mut self, _: NodeId, _: Name, reply: Reply) {
        self.0.push(reply);
    }
}

/// The number of three voters that grant B a lease at 5, which A has held since 0, if they get `said` at 4.
fn grants(said: Option<(NodeId, Ask)>) -> usize {
    let timings = Options::default().timings(Span::UNIT);
    let (name, request, ttl, attribute) = (Name::of("x"), Request(0), timings.ttl, 0);
    let propose = |token| Ask::Propose {
        request,
        token,
        ttl,
        attribute,
        renewal: false,
        value: suffrage_lease::ValueVersion::NONE,
    };
    let prepare = |token| Ask::Prepare { request, token, attribute };
    let (first, second) = (Token::after(0), Token::after(1));
    let founding = Configuration::founding([(NodeId(1), String::new())], timings.drift).unwrap();
    let blank = Saved::blank(DiskId(0), founding.into());
    let granted = (0..3).filter(|_| {
        let mut answers = Answers::default();
        let mut voter = Voter::start(timings, &mut answers, time(0), VoterStart::Blank(blank.clone()));
        voter.on_ask(&mut answers, time(0), (A, BOOT), name, propose(first));
        assert!(matches!(answers.0[..], [Reply::Accepted { .. }]));
        if let Some((from, ask)) = said {
            voter.on_ask(&mut answers, time(4), (from, BOOT), name, ask);
        }
        voter.on_ask(&mut answers, time(5), (B, BOOT), name, prepare(second));
        voter.on_ask(&mut answers, time(5), (B, BOOT), name, propose(second));
        matches!(answers.0.last(), Some(Reply::Accepted { .. }))
    });
    assert!(time(5) < time(0) + timings.drift.validity(ttl), "A believes to lead all the while");
    granted.count()
}

/// A release in B's own name is ignored; all voters accept one in A's name.
#[test]
fn a_forged_release_makes_two_leaders() {
    let release = Ask::Release { token: Token::after(0), to: None };
    assert_eq!(grants(None), 0);
    assert_eq!(grants(Some((B, release))), 0);
    assert_eq!(grants(Some((A, release))), 3);
}
