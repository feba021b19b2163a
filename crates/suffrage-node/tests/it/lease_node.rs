//! The task of a node, on a network in memory and in virtual time.

mod operator;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use suffrage_core::{NodeId, Span, Start, Time};
use suffrage_net::Transport;
use suffrage_net::transport::memory::Network;
use suffrage_net::transport::{Sealed, Wire};
use suffrage_node::Error;
use suffrage_node::clock::{Clock, TokioClock};
use suffrage_node::lease::{
    CandidateConfig, HeldLease, Leader, Node, NodeState, Participation, Saved, Settings, Why,
};
use suffrage_node::storage::{MemoryDisk, Storage};

const TTL: Span = Span::from_millis(1_000);

fn settings() -> Settings {
    let mut settings = Settings::new([1, 2, 3].map(NodeId));
    settings.delay = Span::from_millis(10);
    settings
}

fn single_voter() -> Settings {
    let mut settings = settings();
    settings.voters = vec![NodeId(1)];
    settings
}

fn config() -> CandidateConfig {
    CandidateConfig { ttl: TTL, ..CandidateConfig::default() }
}

fn start(network: &Network, clock: TokioClock) -> Vec<Node> {
    network.set_delay(Duration::from_millis(1)..=Duration::from_millis(3));
    let disk = MemoryDisk::<Saved>::default;
    (1..=3).map(|id| Node::start(network.join(NodeId(id)), clock, disk(), settings()).unwrap()).collect()
}

async fn leads(part: &Participation) -> Arc<HeldLease> {
    part.campaign();
    let mut belief = part.belief();
    let led = belief.wait_for(|belief| belief.held.is_some()).await.unwrap();
    led.held.clone().unwrap()
}

async fn after(span: Span) {
    tokio::time::sleep(Duration::from_nanos(span.as_nanos())).await;
}

#[tokio::test(start_paused = true)]
async fn an_isolated_leader_has_lost_its_lease_when_another_leads() {
    for seed in 0..20 {
        let (network, clock) = (Network::new(seed), TokioClock::new());
        let nodes = start(&network, clock);
        network.set_loss(0.05);
        let first = nodes[0].join("x", config()).await.unwrap();
        let second = nodes[1].join("x", config()).await.unwrap();
        let old = leads(&first).await;
        after(TTL).await;
        assert!(clock.now() < old.valid_until(), "it renews; seed {seed}");
        network.partition(&[&[NodeId(1)], &[NodeId(2), NodeId(3)]]);
        let new = leads(&second).await;
        assert!(clock.now() >= old.valid_until() && new.token() > old.token(), "seed {seed}");
        // After the partition, the old leader follows the new one.
        network.heal();
        let mut belief = first.belief();
        let follows =
            belief.wait_for(|belief| belief.leader == Some(Leader { node: NodeId(2), token: new.token() }));
        tokio::time::timeout(Duration::from_secs(10), follows).await.unwrap().unwrap();
    }
}

/// The nodes have different settings: this candidate asks for longer leases than the voters grant.
#[tokio::test(start_paused = true)]
async fn a_candidate_learns_that_its_ttl_is_too_long() {
    let (network, clock) = (Network::new(9), TokioClock::new());
    let _nodes = start(&network, clock);
    let longest = Span::from_millis(600_000);
    let mut patient = settings();
    patient.longest_ttl = longest;
    let node = Node::start(network.join(NodeId(4)), clock, MemoryDisk::default(), patient).unwrap();
    let part = node.join("x", CandidateConfig { ttl: longest, ..config() }).await.unwrap();
    part.campaign();
    let told = async {
        loop {
            if let Why::TtlTooLong { longest } = node.status("x").await.unwrap().unwrap().why {
                return longest;
            }
            after(Span::from_millis(10)).await;
        }
    };
    let granted = Duration::from_nanos(settings().longest_ttl.as_nanos());
    assert_eq!(tokio::time::timeout(Duration::from_secs(60), told).await, Ok(granted));
    assert!(part.belief().borrow().held.is_none());
}

/// The leader, which is also a voter, crashes. Both remaining voters must agree, and both are candidates.
#[tokio::test(start_paused = true)]
async fn survivors_do_not_defeat_each_other() {
    let mut took = Vec::new();
    for seed in 0..40 {
        let (network, clock) = (Network::new(seed), TokioClock::new());
        let nodes = start(&network, clock);
        let mut parts = Vec::new();
        for node in &nodes {
            parts.push(node.join("x", config()).await.unwrap());
        }
        let old = leads(&parts[0]).await;
        parts[1..].iter().for_each(Participation::campaign);
        after(TTL * 2).await;
        let until = old.valid_until();
        nodes[0].abort();
        let next = tokio::select! {
            held = leads(&parts[1]) => held,
            held = leads(&parts[2]) => held,
        };
        assert!(next.token() > old.token());
        took.push(clock.now().since(until));
    }
    // The lease is valid for 980 of 1,000 ms; messages take up to 3. A defeat costs 30 ms and more.
    took.sort_unstable();
    assert!(took[20] < Span::from_millis(50) && took[39] < Span::from_millis(100), "{took:?}");
}

/// An observer keeps the node's participation. A leader leaves, and another candidate joins in the same turn of the task:
/// the new candidate must not get the ended lease.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_joins_when_a_leader_leaves_gets_a_lease_of_its_own() {
    for ended in [false, true] {
        let (network, clock) = (Network::new(3), TokioClock::new());
        let nodes = start(&network, clock);
        let _observer = nodes[0].observe("x").await.unwrap();
        let first = nodes[0].join("x", config()).await.unwrap();
        let old = leads(&first).await;
        if ended {
            // As the holder does before it hands over.
            old.end();
        }
        drop(first);
        // Without an await in between, the node gets both commands in one turn.
        let second = nodes[0].join("x", config()).await.unwrap();
        assert!(old.valid_until() <= clock.now(), "the old one is over");
        let new = tokio::time::timeout(Duration::from_secs(60), leads(&second)).await.unwrap();
        assert!(new.valid_until() > clock.now(), "the new one is valid");
        assert!(!Arc::ptr_eq(&old, &new) && new.token() > old.token());
        assert!(old.valid_until() <= clock.now(), "and the old one still is not");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_hands_over_first_and_one_without_handles_stops() {
    let (network, clock) = (Network::new(1), TokioClock::new());
    let nodes = start(&network, clock);
    let first = nodes[0].join("x", config()).await.unwrap();
    let second = nodes[1].join("x", config()).await.unwrap();
    let old = leads(&first).await;
    second.campaign();
    after(Span::from_millis(200)).await;
    let stopped = clock.now();
    nodes[0].stop().await;
    assert!(old.valid_until() < clock.now());
    leads(&second).await;
    assert!(clock.now().since(stopped) < Span::from_millis(100), "long before the lease is over");
    assert!(matches!(nodes[0].join("y", config()).await, Err(Error::Stopped)));

    let mut state = nodes[1].state();
    drop((nodes, second, first));
    state.wait_for(|state| *state == NodeState::Stopped { cause: None }).await.unwrap();
}

/// A disk that is full while the flag is set.
#[derive(Clone)]
struct Full {
    full: Arc<AtomicBool>,
    disk: MemoryDisk<Saved>,
}

impl Storage<Saved> for Full {
    fn start(&mut self) -> Result<Start<Saved>, Error> {
        self.disk.start()
    }
    fn save(&mut self, saved: &Saved) -> Result<(), Error> {
        if self.full.load(Ordering::SeqCst) {
            let source = std::io::ErrorKind::StorageFull.into();
            return Err(Error::File { doing: "write", path: "voter.state".into(), source });
        }
        self.disk.save(saved)
    }
    fn mark_started(&mut self) -> Result<(), Error> {
        self.disk.mark_started()
    }
    fn saves(&self) -> Option<u64> {
        self.disk.saves()
    }
    fn set_aside(&mut self) -> Result<(), Error> {
        self.disk.set_aside()
    }
}

/// "A `Save` is durable before anything after it happens": while the save fails, nothing happens.
#[tokio::test(start_paused = true)]
async fn a_voter_with_a_full_disk_sends_nothing_until_it_can_save() {
    let (network, clock) = (Network::new(1), TokioClock::new());
    let disk = Full { full: Arc::default(), disk: MemoryDisk::default() };
    let transport = Arc::new(network.join(NodeId(1)));
    let alone = single_voter();
    let node = Node::start(Arc::clone(&transport), clock, disk.clone(), alone.clone()).unwrap();
    let part = node.join("x", config()).await.unwrap();
    // Another node campaigns, too: it must get no promise that is not saved.
    let line = Arc::new(network.join(NodeId(9)));
    let candidate = Node::start(Arc::clone(&line), clock, MemoryDisk::default(), alone).unwrap();
    let other = candidate.join("y", config()).await.unwrap();
    after(Span::from_millis(500)).await;
    disk.full.store(true, Ordering::SeqCst);
    let heard = line.counters().snapshot().received;
    other.campaign();
    let mut state = node.state();
    state.wait_for(|state| state.storage_failure().is_some()).await.unwrap();
    assert!(state.borrow().storage_failure().is_some_and(|reason| reason.contains("voter.state")));
    part.campaign();
    let sent = transport.counters().snapshot().sent;
    after(Span::from_millis(5_000)).await;
    assert_eq!(transport.counters().snapshot().sent, sent, "it stands still");
    assert_eq!(line.counters().snapshot().received, heard, "and has said nothing before");
    assert!(part.belief().borrow().held.is_none() && other.belief().borrow().held.is_none());
    disk.full.store(false, Ordering::SeqCst);
    state.wait_for(|state| *state == NodeState::Running).await.unwrap();
    leads(&part).await;
    leads(&other).await;
    disk.full.store(true, Ordering::SeqCst);
    // Renewals need no save and continue; a suspended node can be stopped.
    after(TTL * 3).await;
    assert!(part.belief().borrow().held.is_some());
    node.stop().await;
}

/// A disk whose saves stall while the flag is set.
#[derive(Clone, Default)]
struct Stalling {
    stalled: Arc<(Mutex<bool>, Condvar)>,
    /// The number of saves that stall.
    waiting: Arc<AtomicUsize>,
    disk: MemoryDisk<Saved>,
}

impl Stalling {
    fn stall(&self, stalled: bool) {
        *self.stalled.0.lock().unwrap() = stalled;
        self.stalled.1.notify_all();
    }
}

/// Ends the stall, also if the test fails: the runtime waits for its threads.
struct EndOfStall(Stalling);

impl Drop for EndOfStall {
    fn drop(&mut self) {
        self.0.stall(false);
    }
}

impl Storage<Saved> for Stalling {
    fn start(&mut self) -> Result<Start<Saved>, Error> {
        self.disk.start()
    }
    fn save(&mut self, saved: &Saved) -> Result<(), Error> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        drop(self.stalled.1.wait_while(self.stalled.0.lock().unwrap(), |stalled| *stalled).unwrap());
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.disk.save(saved)
    }
    fn mark_started(&mut self) -> Result<(), Error> {
        self.disk.mark_started()
    }
}

/// A longer lease needs a save, and the disks of all voters stall. Renewals of another election need no save: its leader
/// leads on. In the time of the machine: virtual time stands still while a disk is busy.
#[tokio::test]
async fn a_stalled_disk_stops_only_what_needs_it() {
    let (network, clock) = (Network::new(8), TokioClock::new());
    network.set_delay(Duration::from_millis(1)..=Duration::from_millis(3));
    let disk = Stalling::default();
    let of_own = || Stalling { disk: MemoryDisk::default(), ..disk.clone() };
    let nodes: Vec<Node> = (1..=3)
        .map(|id| Node::start(network.join(NodeId(id)), clock, of_own(), settings()).unwrap())
        .collect();
    let renewing = nodes[0].join("renews", config()).await.unwrap();
    let held = leads(&renewing).await;
    disk.stall(true);
    let end_of_stall = EndOfStall(disk.clone());
    let long = CandidateConfig { ttl: TTL * 2, ..config() };
    let campaigning = nodes[0].join("needs a save", long).await.unwrap();
    campaigning.campaign();
    while disk.waiting.load(Ordering::SeqCst) < 3 {
        assert!(clock.now() < held.valid_until(), "the leader renews");
        after(Span::from_millis(10)).await;
    }
    let stalled = clock.now();
    while held.valid_until() < stalled + TTL * 3 {
        assert!(clock.now() < held.valid_until(), "the leader renews");
        after(Span::from_millis(10)).await;
    }
    assert_eq!(disk.waiting.load(Ordering::SeqCst), 3, "one save at each voter");
    assert!(campaigning.belief().borrow().held.is_none(), "a longer lease waits for the disks");
    assert_eq!(nodes[0].metrics().await.unwrap().elections, 2, "commands are answered");
    // The write takes longer than two leases of one second, and of two.
    let why = async |name: &str| nodes[0].status(name).await.unwrap().unwrap().explanation();
    let pending = nodes[0].save_pending().unwrap();
    assert!(pending > Duration::from_nanos(TTL.as_nanos() * 2), "{pending:?}");
    for name in ["renews", "needs a save"] {
        let why = why(name).await;
        assert!(why.starts_with("a write to the disk of this node has not ended for "), "{why}");
    }
    drop(end_of_stall);
    let mut belief = campaigning.belief();
    belief.wait_for(|belief| belief.held.is_some()).await.unwrap();
    let saved = async {
        while nodes[0].save_pending().is_some() {
            after(Span::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), saved).await.expect("the write ends");
    assert!(!why("renews").await.contains("disk"));
    assert!(renewing.belief().borrow().held.as_ref().is_some_and(|now| Arc::ptr_eq(now, &held)));
}

/// The disk of a voter is restored from a backup that lacks a save. Its peers have seen the save: the voter stops, and does
/// not vote when it is started again.
#[tokio::test(start_paused = true)]
async fn a_voter_whose_disk_went_back_votes_no_more() {
    let (network, clock) = (Network::new(10), TokioClock::new());
    let node = |id, disk| Node::start(network.join(NodeId(id)), clock, disk, settings()).unwrap();
    let disk = MemoryDisk::<Saved>::default();
    let (two, _three) = (node(2, MemoryDisk::default()), node(3, MemoryDisk::default()));
    let restart = async |node: &Node| {
        node.abort();
        network.remove(NodeId(1));
        after(TTL).await;
    };
    let mut one = node(1, disk.clone());
    let part = two.join("x", config()).await.unwrap();
    leads(&part).await;
    let latest = async |backup: &MemoryDisk<Saved>| {
        after(TTL).await;
        one.metrics().await.unwrap().voter.is_some_and(|voter| voter.votes) && backup.saves() == disk.saves()
    };
    // The other two have elected the leader: the voter may save after that.
    let mut backup = disk.backup();
    for _ in 0..20 {
        if latest(&backup).await {
            break;
        }
        backup = disk.backup();
    }
    assert!(latest(&backup).await);
    // A restart with the newest state is fine, whoever restored it.
    restart(&one).await;
    let disk = disk.backup();
    one = node(1, disk.clone());
    after(TTL * 3).await;
    assert!(one.metrics().await.unwrap().voter.is_some_and(|voter| voter.votes));
    assert!(!one.state().borrow().is_stopped());
    // This backup lacks the save of the restart.
    restart(&one).await;
    one = node(1, backup.clone());
    let mut state = one.state();
    let stopped = state.wait_for(NodeState::is_stopped);
    let stopped = tokio::time::timeout(Duration::from_secs(60), stopped).await.unwrap().unwrap().clone();
    let NodeState::Stopped { cause: Some(cause) } = stopped else { panic!("{stopped:?}") };
    assert!(cause.contains("older than the state that other nodes have seen"), "{cause}");
    let ignored = two.metrics().await.unwrap().mismatches;
    assert!(ignored.iter().any(|it| it.node == NodeId(1) && it.reason.contains("restored")), "{ignored:?}");
    // Its supervisor starts it again.
    restart(&one).await;
    one = node(1, backup);
    let _observer = one.observe("x").await.unwrap();
    after(TTL * 3).await;
    assert!(one.metrics().await.unwrap().voter.is_some_and(|voter| !voter.votes), "it has lost its state");
    assert!(!one.state().borrow().is_stopped() && two.metrics().await.unwrap().mismatches.is_empty());
    assert!(part.belief().borrow().held.is_some(), "the others are a majority");
}

/// A voter restarts while its disk is full, and counts no save that has failed: its peers must not take it for one whose
/// disk was restored.
#[tokio::test(start_paused = true)]
async fn a_voter_that_restarts_with_a_full_disk_votes_when_it_can_save() {
    let (network, clock) = (Network::new(11), TokioClock::new());
    let (two, _three) = {
        let node =
            |id| Node::start(network.join(NodeId(id)), clock, MemoryDisk::default(), settings()).unwrap();
        (node(2), node(3))
    };
    let disk = Full { full: Arc::default(), disk: MemoryDisk::default() };
    let one = || Node::start(network.join(NodeId(1)), clock, disk.clone(), settings()).unwrap();
    let before = one();
    let part = two.join("x", config()).await.unwrap();
    leads(&part).await;
    after(TTL * 3).await;
    before.abort();
    network.remove(NodeId(1));
    after(TTL).await;
    disk.full.store(true, Ordering::SeqCst);
    let back = one();
    let mut state = back.state();
    state.wait_for(|state| state.storage_failure().is_some()).await.unwrap();
    disk.full.store(false, Ordering::SeqCst);
    state.wait_for(|state| *state == NodeState::Running).await.unwrap();
    after(TTL * 5).await;
    assert_eq!(*back.state().borrow(), NodeState::Running);
    assert!(back.metrics().await.unwrap().voter.is_some_and(|voter| voter.votes));
    let ignored = two.metrics().await.unwrap().mismatches;
    assert!(ignored.is_empty(), "{ignored:?}");
}

/// A clock that jumps after some readings: the process is paused between two of them.
#[derive(Clone)]
struct Pausing {
    clock: TokioClock,
    /// The readings until the pause, the length of the pause, and the sum of the pauses before.
    pause: Arc<Mutex<(u32, Span, Span)>>,
}

impl Pausing {
    fn new() -> Pausing {
        Pausing { clock: TokioClock::new(), pause: Arc::default() }
    }

    fn pause_after(&self, readings: u32, pause: Span) {
        let mut state = self.pause.lock().unwrap();
        (state.0, state.1) = (readings + 1, pause);
    }
}

impl Clock for Pausing {
    fn now(&self) -> Time {
        let mut state = self.pause.lock().unwrap();
        if state.0 > 0 {
            state.0 -= 1;
            if state.0 == 0 {
                state.2 = state.2 + state.1;
            }
        }
        self.clock.now() + state.2
    }
    async fn sleep_until(&self, time: Time) {
        while self.now() < time {
            after(time.since(self.now())).await;
        }
    }
}

/// The process is paused right after a node begins to hand over, before the application learns of it, and a little longer
/// than the stop margin. The lease expires: it is not released before the application has had its margin.
#[tokio::test(start_paused = true)]
async fn a_lease_is_not_released_before_the_application_knows_of_the_hand_over() {
    for readings in 1..10 {
        let (network, clock) = (Network::new(12), Pausing::new());
        let node = Node::start(network.join(NodeId(1)), clock.clone(), MemoryDisk::default(), single_voter());
        let node = node.unwrap();
        let margin = Span::from_millis(200);
        let part = node.join("x", CandidateConfig { stop_margin: margin, ..config() }).await.unwrap();
        let held = leads(&part).await;
        // Between two renewals.
        after(Span::from_millis(20)).await;
        let token = held.token();
        clock.pause_after(readings, margin + Span::from_millis(10));
        assert!(node.resign("x").await.unwrap());
        // The rest of the turn in which the node resigns.
        while held.valid_until() > Time::ZERO {
            after(Span::from_millis(1)).await;
        }
        let holder = node.holder("x").await.unwrap().map(|(leader, _)| leader.token);
        let told = held.hands_over();
        assert!(told || holder == Some(token), "after {readings} readings: released without notice");
        if readings == 1 {
            assert_eq!(holder, Some(token), "the pause is the whole notice");
        }
        node.abort();
    }
}

/// A grant belongs to a node and its boot: a second process with the same id waits until the lease of the first one has
/// ended.
#[tokio::test(start_paused = true)]
async fn a_restarted_node_waits_until_its_old_lease_has_ended() {
    let (network, clock) = (Network::new(4), TokioClock::new());
    let node = |id, disk| Node::start(network.join(NodeId(id)), clock, disk, settings()).unwrap();
    let disk = MemoryDisk::<Saved>::default();
    let (crashes, _two, _three) =
        (node(1, disk.clone()), node(2, MemoryDisk::default()), node(3, MemoryDisk::default()));
    let first = crashes.join("x", config()).await.unwrap();
    let old = leads(&first).await;
    after(Span::from_millis(100)).await;
    let until = old.valid_until();
    crashes.abort();
    network.remove(NodeId(1));
    after(Span::from_millis(10)).await;
    assert!(clock.now() < until && old.valid_until() <= clock.now(), "the leadership ends with its task");
    let back = node(1, disk);
    let second = back.join("x", config()).await.unwrap();
    let new = tokio::time::timeout(Duration::from_secs(10), leads(&second)).await.unwrap();
    assert!(new.token() > old.token());
    assert!(
        until > Time::ZERO && clock.now() >= until,
        "at {:?}, and the first until {until:?}",
        clock.now()
    );
}

/// A node that is suspended because its disk is full, with a candidate, and with a cancelled join of `y`.
async fn given_up(network: &Network) -> (Node, Participation, Full) {
    let disk = Full { full: Arc::default(), disk: MemoryDisk::default() };
    let alone = single_voter();
    let node = Node::start(network.join(NodeId(1)), TokioClock::new(), disk.clone(), alone).unwrap();
    let part = node.join("x", config()).await.unwrap();
    disk.full.store(true, Ordering::SeqCst);
    part.campaign();
    node.state().wait_for(|state| state.storage_failure().is_some()).await.unwrap();
    let given_up = tokio::time::timeout(Duration::from_millis(10), node.join("y", config())).await;
    assert!(given_up.is_err(), "it stands still");
    (node, part, disk)
}

#[tokio::test(start_paused = true)]
async fn a_join_that_is_cancelled_has_no_effect() {
    let network = Network::new(5);
    let (node, _part, disk) = given_up(&network).await;
    disk.full.store(false, Ordering::SeqCst);
    node.state().wait_for(|state| *state == NodeState::Running).await.unwrap();
    after(Span::from_millis(10)).await;
    let again = node.join("y", config()).await.unwrap();
    leads(&again).await;
}

/// A queued command of a cancelled call must not keep the node running.
#[tokio::test(start_paused = true)]
async fn a_node_without_handles_stops_despite_a_cancelled_join() {
    let network = Network::new(6);
    let (node, part, _disk) = given_up(&network).await;
    let mut state = node.state();
    drop((part, node));
    let stopped = state.wait_for(NodeState::is_stopped);
    tokio::time::timeout(Duration::from_secs(60), stopped).await.unwrap().unwrap();
}

/// A leader keeps a pinned lease although a candidate of greater rank claims it, until the lease is unpinned.
#[tokio::test(start_paused = true)]
async fn a_pinned_lease_is_not_handed_over_to_a_greater_rank() {
    let (network, clock) = (Network::new(7), TokioClock::new());
    let nodes = start(&network, clock);
    let first = nodes[0].join("x", config()).await.unwrap();
    let held = leads(&first).await;
    let pinned = first.pin().await.unwrap().expect("it leads");
    assert_eq!(pinned.token, held.token());
    let better = CandidateConfig { attribute: 9, failback: Some(Span::from_millis(1)), ..config() };
    let second = nodes[1].join("x", better).await.unwrap();
    second.campaign();
    after(TTL * 10).await;
    assert!(clock.now() < held.valid_until() && held.token() == pinned.token);
    first.unpin();
    let mut belief = second.belief();
    belief.wait_for(|belief| belief.held.is_some()).await.unwrap();
    assert!(clock.now() >= held.valid_until());
    assert_eq!(first.pin().await.unwrap(), None, "there is nothing to pin");
}

/// A wire on which an invalid datagram is always ready.
#[derive(Debug)]
struct JunkFlood;

impl Wire for JunkFlood {
    type Address = u8;
    fn send_to(&self, _: &[u8], _: u8) -> std::io::Result<()> {
        Ok(())
    }
    async fn receive_from(&self, buffer: &mut [u8]) -> std::io::Result<(usize, u8)> {
        buffer[..100].fill(0x55);
        // As on a socket, each datagram takes a share of the task's budget.
        tokio::task::consume_budget().await;
        Ok((100, 0))
    }
}

/// A leader renews ten times during a flood, and answers commands. In the time of the machine: virtual time stands still
/// while a task is busy.
#[tokio::test]
async fn a_flood_of_invalid_datagrams_starves_neither_timers_nor_commands() {
    let keyring = suffrage_net::Keyring::generate().unwrap();
    let wire = suffrage_net::transport::Config::new(NodeId(1), keyring).unwrap();
    let transport = Arc::new(Sealed::new(JunkFlood, wire).unwrap());
    let disk = MemoryDisk::<Saved>::default();
    let node = Node::start(Arc::clone(&transport), TokioClock::new(), disk, single_voter()).unwrap();
    let part = node.join("x", CandidateConfig { ttl: Span::from_millis(200), ..config() }).await.unwrap();
    leads(&part).await;
    let (mut ends, belief) = (BTreeSet::new(), part.belief());
    while ends.len() < 10 {
        assert_eq!(node.metrics().await.unwrap().elections, 1);
        ends.extend(belief.borrow().held.as_ref().map(|held| held.valid_until()));
    }
    assert!(transport.counters().snapshot().all_dropped() > 0);
}
