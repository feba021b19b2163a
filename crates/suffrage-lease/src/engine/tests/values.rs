//! Values of leaders: what a voter asks for, shows and forgets, and when a leader renews early.

use super::*;
use crate::value::{MAX_VALUE, VALUE_CHUNK, Value, ValueChunk, ValueVersion, chunks};

const HOLDER: NodeId = NodeId(8);
const TTL: Span = Span::from_millis(3_000);

fn propose(token: u64, renewal: bool, version: u32) -> Body {
    let (request, token, value) = (Request(token), Token::after(token - 1), ValueVersion(version));
    Body::Ask(Ask::Propose { request, token, ttl: TTL, attribute: 0, renewal, value })
}

fn prepare(token: u64) -> Body {
    Body::Ask(Ask::Prepare { request: Request(token), token: Token::after(token - 1), attribute: 0 })
}

fn value_chunks(token: u64, version: u32, text: &str) -> Vec<ValueChunk> {
    let key = (Token::after(token - 1), ValueVersion(version));
    chunks(key, Value::new(text).ok().as_ref(), u32::MAX).collect()
}

impl Harness {
    /// A node sends about the election `x`. Returns the chunks that it is asked for: token, version, chunks.
    fn asked(
        &mut self,
        now: Time,
        from: NodeId,
        bodies: impl IntoIterator<Item = Body>,
    ) -> Vec<(u64, u32, u32)> {
        self.sent();
        self.receive(now, from, bodies.into_iter().map(|body| about(Name::of("x"), body)));
        let query = |(to, message): (NodeId, Message)| match message.body {
            Body::ValueQuery { token, version, missing } => {
                assert_eq!(to, from);
                Some((token.number(), version.0, missing))
            }
            _ => None,
        };
        self.sent().into_iter().filter_map(query).collect()
    }

    fn tell(&mut self, now: Time, chunks: impl IntoIterator<Item = ValueChunk>) {
        let bodies = chunks.into_iter().map(|chunk| Body::ValueChunk(Box::new(chunk)));
        assert_eq!(self.asked(now, HOLDER, bodies), []);
    }

    fn shown(&self, token: u64) -> Option<(u32, String)> {
        let (version, value) = self.engine.value(Name::of("x"), Token::after(token - 1))?;
        Some((version.0, value.to_string()))
    }
}

#[test]
fn a_voter_asks_for_a_value_with_renewals_until_it_has_all_chunks() {
    let mut harness = Harness::new(3);
    let text = "x".repeat(2 * VALUE_CHUNK + 1);
    let [first, second, third] = value_chunks(1, 1, &text).try_into().unwrap();
    let all = (1 << 18) - 1;
    assert_eq!(
        harness.asked(at(0), HOLDER, [prepare(1), propose(1, false, 1)]),
        [],
        "the lease may be short"
    );
    assert_eq!(harness.asked(at(900), HOLDER, [propose(1, true, 1)]), [(1, 1, all)]);
    harness.tell(at(901), [third, first.clone()]);
    assert_eq!(harness.shown(1), None, "a chunk is missing");
    assert_eq!(harness.asked(at(1_000), HOLDER, [propose(1, true, 1)]), [(1, 1, 0b010)]);
    harness.tell(at(1_001), [second]);
    assert_eq!(harness.shown(1), Some((1, text.clone())));
    assert_eq!(harness.asked(at(1_900), HOLDER, [propose(1, true, 1)]), [], "it is known");
    assert_eq!(harness.engine.granted(at(1_900)).next().unwrap().value.unwrap().0, ValueVersion(1));
    // A newer version, which is taken back.
    assert_eq!(harness.asked(at(2_000), HOLDER, [propose(1, true, 2)]), [(1, 2, all)]);
    assert_eq!(harness.shown(1), Some((1, text)), "the newest that is known");
    harness.tell(at(2_001), [first]);
    harness.tell(at(2_001), value_chunks(1, 2, ""));
    assert_eq!(harness.shown(1), None, "the leader has none any more");
    assert_eq!(harness.asked(at(2_100), HOLDER, [propose(1, true, 2)]), []);
    assert_eq!(harness.asked(at(2_200), HOLDER, [propose(1, true, 1)]), [], "a renewal that was overtaken");
}

#[test]
fn a_value_belongs_to_a_holder_and_a_token() {
    let mut harness = Harness::new(3);
    harness.asked(at(0), HOLDER, [prepare(1), propose(1, false, 1), propose(1, true, 1)]);
    let own = value_chunks(1, 1, "a");
    for wrong in [value_chunks(2, 1, "b"), value_chunks(1, 2, "b")] {
        harness.tell(at(1), wrong);
        assert_eq!(harness.shown(1), None);
    }
    let chunk = Body::ValueChunk(Box::new(own[0].clone()));
    harness.asked(at(1), NodeId(9), [chunk]);
    assert_eq!(harness.shown(1), None, "another node sent it");
    harness.tell(at(2), own);
    assert_eq!(harness.shown(1), Some((1, "a".to_string())));
    assert_eq!(harness.shown(2), None);
    harness.asked(at(3), HOLDER, [Body::Ask(Ask::Release { token: Token::after(0), to: None })]);
    assert_eq!(harness.shown(1), None, "nobody holds the lease");
    harness.asked(at(4), NodeId(9), [prepare(2), propose(2, false, 0), propose(2, true, 0)]);
    assert_eq!((harness.shown(1), harness.shown(2)), (None, None));
    assert!(!harness.engine.has_values());
}

#[test]
fn malformed_chunks_change_nothing() {
    let mut harness = Harness::new(3);
    harness.asked(at(0), HOLDER, [prepare(1), propose(1, false, 1), propose(1, true, 1)]);
    let [first, last] = value_chunks(1, 1, &"x".repeat(VALUE_CHUNK + 1)).try_into().unwrap();
    for wrong in [
        ValueChunk { length: MAX_VALUE as u16 + 1, ..first.clone() },
        ValueChunk { length: 7, ..first.clone() },
        ValueChunk { index: 2, ..last.clone() },
        ValueChunk { index: 200, ..last.clone() },
        ValueChunk { index: 0, ..last.clone() },
    ] {
        harness.tell(at(1), [wrong]);
    }
    harness.tell(at(2), [first.clone()]);
    // Another length than the first chunk said.
    harness.tell(at(3), [ValueChunk { length: VALUE_CHUNK as u16, ..first }]);
    assert_eq!(harness.shown(1), None);
    harness.tell(at(4), [last]);
    assert_eq!(harness.shown(1), Some((1, "x".repeat(VALUE_CHUNK + 1))));
}

/// A leader whose value changes renews early, with the new version, and answers for its present token and version only.
#[test]
fn a_leader_renews_early_when_its_value_changes() {
    let mut harness = Harness::new(3);
    harness.leads(at(0), "x");
    let index = harness.index("x").unwrap();
    let token = harness.engine.lease(at(0), index).unwrap().token;
    let set = |harness: &mut Harness, now, text: &str| {
        let value = Value::new(text).ok();
        harness.input(now, |engine, cx| engine.set_value(cx, index, value));
    };
    set(&mut harness, at(1), "a");
    assert_eq!(harness.shown(token.number()), Some((1, "a".to_string())));
    let due = harness.engine.election(index).unwrap().due();
    assert!(due < at(500), "the next renewal would be after a second: {due:?}");
    let version = harness.engine.election(index).unwrap().value_version();
    set(&mut harness, at(2), "a");
    assert_eq!(harness.engine.election(index).unwrap().value_version(), version, "it is the same");
    let mut answers = |token, version| {
        harness.sent();
        let query = Body::ValueQuery { token, version: ValueVersion(version), missing: u32::MAX };
        harness.receive(at(3), NodeId(9), [about(Name::of("x"), query)]);
        harness.sent().len()
    };
    assert_eq!((answers(token, 1), answers(token, 2), answers(Token::after(99), 1)), (1, 0, 0));
}
