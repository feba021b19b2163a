//! A node with clients that is the only voter: it elects itself within one input.

use suffrage_core::{Effect, Recorder, Roster};

use super::*;
use crate::sessions::{CampaignRequest, LeaseRequest, SessionError, SessionId, SessionReply};

const TTL: Span = Span::from_millis(3_000);

struct Test {
    node: SessionEngine,
    recorder: Recorder<SessionEngine>,
    roster: Roster,
    now: Time,
    requests: u64,
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn election() -> ElectionName {
    ElectionName::new("x").unwrap()
}

fn config() -> CandidateConfig {
    CandidateConfig { ttl: TTL, ..CandidateConfig::default() }
}

impl Test {
    fn new() -> Test {
        let config = EngineConfig::new([NodeId(1)]);
        let sessions = SessionConfig::new(config.drift);
        let node = SessionEngine::new(NodeId(1), config, sessions).unwrap();
        let (recorder, roster) = (Recorder::new(0), Roster::numbered(1));
        let mut test = Test { node, recorder, roster, now: Time::ZERO, requests: 0 };
        test.input(0, |node, cx| node.on_start(cx, Start::Fresh));
        test
    }

    fn input<R>(
        &mut self,
        millis: u64,
        input: impl FnOnce(&mut SessionEngine, &mut Context<'_, SessionEngine>) -> R,
    ) -> R {
        self.now = at(millis);
        let delay = self.node.engine().config().delay;
        input(&mut self.node, &mut self.recorder.context(self.now, self.roster.view(0), delay))
    }

    /// A request that gets the next number, which is the number of its session, too.
    fn request(&mut self, millis: u64, request: SessionRequest) -> u64 {
        self.requests += 1;
        let number = self.requests;
        let arrival = Arrival {
            request: RequestId(number),
            received: at(millis),
            new_session: SessionId(number.into()),
        };
        self.input(millis, |node, cx| node.on_request(cx, arrival, "x", request));
        number
    }

    fn campaign(&mut self, millis: u64) -> u64 {
        let lease = LeaseRequest { ttl: TTL, rank: 0 };
        let wait = Span::from_millis(20_000);
        self.request(
            millis,
            SessionRequest::Campaign(CampaignRequest { session: None, lease, wait, value: None }),
        )
    }

    /// The replies since the last time: request, and a word with a token if there is one.
    fn replies(&mut self) -> Vec<(u64, String)> {
        let word = |outcome| match outcome {
            Ok(SessionReply::Leading { token, .. }) => format!("leading {token}"),
            Ok(other) => format!("{other:?}"),
            Err(error) => format!("{error:?}"),
        };
        self.node.take_replies().into_iter().map(|(request, outcome)| (request.0, word(outcome))).collect()
    }

    /// The announcements since the last time.
    fn announced(&mut self) -> Vec<Announcement> {
        let effects = self.recorder.take();
        effects
            .into_iter()
            .filter_map(|effect| match effect {
                Effect::Announce(announcement) => Some(announcement),
                _ => None,
            })
            .collect()
    }
}

#[test]
fn clients_of_one_node_lead_one_after_the_other_with_greater_tokens() {
    let mut test = Test::new();
    let first = test.campaign(0);
    assert_eq!(test.replies(), [(first, "leading 1".to_string())]);
    let second = test.campaign(100);
    assert_eq!(test.replies(), []);
    let resigned = test.request(200, SessionRequest::Resign { session: SessionId(1), to: None });
    // Nobody else waits at the node's voter, so that the node need not yield.
    assert_eq!(test.replies(), [(resigned, "Resigned".to_string()), (second, "leading 2".to_string())]);
    assert!(test.node.broker().is_held(election().hash()));
    assert!(test.node.engine().elections().all(|(_, state)| state.is_pinned()));
}

/// A command that would hand the lease over at once has to wait for the client.
#[test]
fn a_command_to_hand_over_keeps_the_promise_to_a_client() {
    for action in
        [Action::Resign, Action::Withdraw, Action::Leave, Action::Health(false), Action::Transfer(NodeId(2))]
    {
        let mut test = Test::new();
        test.campaign(0);
        test.replies();
        test.announced();
        test.input(100, |node, cx| node.on_command(cx, action.in_all()));
        assert_eq!((test.announced(), test.replies()), (vec![], vec![]), "{action}");
        let renewal = test.request(200, SessionRequest::Renew { session: SessionId(1) });
        assert_eq!(test.replies(), [(renewal, "Revoked".to_string())]);
        // The node still renews its own lease, but the promise to the client ends with the lease that it was given.
        let promised = test.node.broker().next_due().unwrap();
        assert!(promised <= at(3_000), "{promised:?}");
        for millis in [1_000, 2_000, promised.as_nanos() / 1_000_000] {
            test.input(millis, |node, cx| node.on_timer(cx, Timer));
            assert!(!test.announced().contains(&Announcement::SteppedDown), "{action} at {millis}");
        }
        test.input(promised.as_nanos() / 1_000_000 + 1, |node, cx| node.on_timer(cx, Timer));
        assert!(test.announced().contains(&Announcement::SteppedDown), "{action}");
    }
}

#[test]
fn observers_keep_the_index_while_clients_come_and_go() {
    let mut test = Test::new();
    let index = test.input(0, |node, cx| node.observe(cx, &election())).unwrap();
    let joined = MembershipChange::Joined { index, name: election().hash() };
    assert_eq!(test.node.take_membership_changes(), [joined]);
    test.campaign(100);
    assert_eq!(test.node.engine().index_of(election().hash()), Some(index));
    assert_eq!(test.node.take_membership_changes(), [joined], "as a candidate");
    test.request(200, SessionRequest::Resign { session: SessionId(1), to: None });
    test.input(60_200, |node, cx| node.on_timer(cx, Timer));
    assert_eq!(test.node.take_membership_changes(), [joined], "as an observer again");
    assert!(test.node.broker().is_empty());
    assert!(test.input(60_300, |node, cx| node.leave(cx, election().hash(), false)));
    assert_eq!(test.node.take_membership_changes(), [MembershipChange::Left { index }]);
}

#[test]
fn an_election_has_one_candidate_at_a_node_a_clients_or_the_applications() {
    let mut test = Test::new();
    test.input(0, |node, cx| node.join(cx, &election(), config())).unwrap();
    let refused = test.campaign(100);
    assert_eq!(test.replies(), [(refused, format!("{:?}", SessionError::CannotJoin))]);
    assert!(test.input(200, |node, cx| node.leave(cx, election().hash(), true)));
    let leads = test.campaign(300);
    assert_eq!(test.replies(), [(leads, "leading 1".to_string())]);
    let taken = test.input(400, |node, cx| node.join(cx, &election(), config()));
    assert_eq!(taken, Err(JoinError::AlreadyJoined));
    // An election that was joined by a command is the application's.
    let other = ElectionName::new("y").unwrap();
    test.input(500, |node, cx| node.on_command(cx, Action::Join(None).in_election(other.clone())));
    let taken = test.input(600, |node, cx| node.join(cx, &other, config()));
    assert_eq!(taken, Err(JoinError::AlreadyJoined));
}

#[test]
fn leave_all_does_not_wait_for_clients() {
    let mut test = Test::new();
    test.campaign(0);
    test.announced();
    test.node.take_membership_changes();
    test.input(100, |node, cx| node.leave_all(cx));
    assert!(test.announced().contains(&Announcement::SteppedDown));
    assert!(matches!(test.node.take_membership_changes()[..], [MembershipChange::Left { .. }]));
    assert!(test.node.engine().is_empty());
}
