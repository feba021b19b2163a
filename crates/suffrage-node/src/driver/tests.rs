//! Tests of the driver: order of effects, durability, timers, unusable datagrams.

use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use suffrage_core::{Command, Term};

use super::*;
use crate::clock::ManualClock;
use crate::storage::MemoryDisk;
use suffrage_net::codec::Envelope;
use suffrage_net::{SendError, Snapshot};

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Message {
    Say(u64),
    Long(String),
}

suffrage_core::message_kinds!(Message { Say, Long });

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ring(u64);

impl suffrage_core::Timer for Ring {
    const COUNT: usize = 2;

    fn index(self) -> usize {
        (self.0 % 2) as usize
    }
}

/// A process that executes a script and records its inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Probe {
    started: Option<Start<u64>>,
    heard: Vec<(NodeId, u64)>,
    rang: Vec<(Time, u64)>,
    suspects: Vec<NodeId>,
    views: Vec<usize>,
}

impl Process for Probe {
    type Message = Message;
    type Timer = Ring;
    type Saved = u64;
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<u64>) {
        if start == Start::Fresh {
            cx.save(0);
        }
        cx.send(NodeId(2), Message::Say(0));
        self.started = Some(start);
    }

    fn on_message(&mut self, _: &mut Context<'_, Self>, from: NodeId, message: Message) {
        if let Message::Say(number) = message {
            self.heard.push((from, number));
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, Ring(number): Ring) {
        self.rang.push((cx.now(), number));
    }

    fn on_suspect(&mut self, _: &mut Context<'_, Self>, peer: NodeId) {
        self.suspects.push(peer);
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        self.views.push(cx.view().len());
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        match command {
            Command::Campaign => {
                cx.send(NodeId(2), Message::Say(1));
                cx.send(NodeId(2), Message::Say(2));
                cx.save(7);
                cx.multicast(Message::Say(3));
                cx.lead_until(Time::from_nanos(50));
                cx.announce(Announcement::Elected { leader: cx.me(), term: Term(1) });
                cx.send(NodeId(3), Message::Say(4));
                cx.send(cx.me(), Message::Say(5));
                cx.send(NodeId(9), Message::Say(6));
            }
            Command::Resign => {
                cx.send(NodeId(2), Message::Long("x".repeat(5_000)));
                cx.announce(Announcement::SteppedDown);
                cx.suspect(NodeId(3));
            }
            Command::Transfer(NodeId(number)) => {
                cx.set_timer(Ring(0), Span::from_millis(number));
                cx.set_timer(Ring(1), Span::from_millis(2));
                cx.set_timer(Ring(3), Span::from_millis(3));
                if number == 9 {
                    cx.cancel_timer(Ring(1));
                }
            }
        }
    }
}

type Log = Arc<Mutex<Vec<String>>>;

/// A network that records sent datagrams, and delivers the given ones.
struct Tap {
    log: Log,
    incoming: tokio::sync::Mutex<mpsc::UnboundedReceiver<(NodeId, Vec<u8>)>>,
    counters: Arc<Counters>,
}

fn protocol() -> Protocol {
    Protocol::named("probe")
}

impl Transport for Tap {
    fn local(&self) -> NodeId {
        NodeId(1)
    }
    fn max_payload(&self) -> usize {
        200
    }
    fn send(&self, to: NodeId, payload: &[u8]) -> Result<(), SendError> {
        let messages: Vec<Message> = protocol().decode(payload).unwrap();
        self.log.lock().unwrap().push(format!("{to} <- {messages:?}"));
        Ok(())
    }
    async fn receive(&self) -> io::Result<(NodeId, Vec<u8>)> {
        self.incoming.lock().await.recv().await.ok_or_else(|| io::Error::other("unplugged"))
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// A disk that records its calls, and fails on request.
struct Disk {
    log: Log,
    disk: MemoryDisk<u64>,
    full_at: Option<u64>,
}

impl Storage<u64> for Disk {
    fn start(&mut self) -> Result<Start<u64>, Error> {
        self.disk.start()
    }
    fn save(&mut self, state: &u64) -> Result<(), Error> {
        if self.full_at == Some(*state) {
            return Err(Error::file("write", "disk".as_ref())(io::ErrorKind::StorageFull.into()));
        }
        self.log.lock().unwrap().push(format!("saved {state}"));
        self.disk.save(state)
    }
    fn mark_started(&mut self) -> Result<(), Error> {
        self.log.lock().unwrap().push("known".to_string());
        self.disk.mark_started()
    }
}

struct Bench {
    handle: Handle<Probe>,
    clock: ManualClock,
    log: Log,
    say: mpsc::UnboundedSender<(NodeId, Vec<u8>)>,
    counters: Arc<Counters>,
    disk: MemoryDisk<u64>,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(MemoryDisk::default(), None)
    }

    fn with(disk: MemoryDisk<u64>, full_at: Option<u64>) -> Bench {
        let (log, clock, counters) = (Log::default(), ManualClock::new(), Arc::<Counters>::default());
        let (say, incoming) = mpsc::unbounded_channel();
        let tap = Tap { log: log.clone(), incoming: incoming.into(), counters: counters.clone() };
        let storage = Disk { log: log.clone(), disk: disk.clone(), full_at };
        let settings = Settings {
            roster: Roster::numbered(3),
            delay_bound: Span::UNIT,
            protocol: protocol(),
            seed: Some(1),
        };
        let handle = spawn(Probe::default(), tap, clock.clone(), storage, settings).unwrap();
        Bench { handle, clock, log, say, counters, disk }
    }

    /// The process after it has handled all commands.
    async fn probe(&self) -> Probe {
        self.handle.inspect(|probe, _| probe.clone()).await.unwrap()
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    fn counted(&self) -> Snapshot {
        self.counters.snapshot()
    }

    fn says(&self, from: u64, message: &Message) {
        let mut envelope = Envelope::new(protocol(), 200);
        assert!(envelope.push(message).unwrap());
        self.say.send((NodeId(from), envelope.as_bytes().to_vec())).unwrap();
    }
}

#[tokio::test]
async fn effects_happen_in_order_and_a_save_precedes_later_effects() {
    let bench = Bench::new();
    bench.probe().await;
    assert_eq!(
        bench.log(),
        ["saved 0", "known", "2 <- [Say(0)]"],
        "a crash before it is known leaves no trace"
    );
    let mut events = bench.handle.events();
    bench.handle.command(Command::Campaign).await.unwrap();
    let probe = bench.probe().await;
    let expected = ["2 <- [Say(1), Say(2)]", "saved 7", "2 <- [Say(3)]", "3 <- [Say(3)]", "3 <- [Say(4)]"];
    assert_eq!(bench.log(), expected);
    assert_eq!(probe.heard, [(NodeId(1), 5)], "what it says to itself needs no network");
    assert_eq!(bench.counted().dropped(Dropped::UnknownPeer), 1, "a stranger is never reached");
    let announcement = Announcement::Elected { leader: NodeId(1), term: Term(1) };
    assert_eq!(events.recv().await.unwrap(), Event::Announced { at: Time::ZERO, announcement });
    let belief = bench.handle.belief();
    assert_eq!((belief.announcement, belief.lead_until), (announcement, Some(Time::from_nanos(50))));
    assert!(belief.leads(NodeId(1), Time::from_nanos(49)) && !belief.leads(NodeId(1), Time::from_nanos(50)));
    assert!(!belief.leads(NodeId(2), Time::ZERO));
}

#[tokio::test]
async fn a_process_that_cannot_save_stops() {
    let bench = Bench::with(MemoryDisk::default(), Some(7));
    bench.probe().await;
    bench.log();
    bench.handle.command(Command::Campaign).await.unwrap();
    let Bench { handle, log, disk, .. } = bench;
    let beliefs = handle.beliefs();
    let error = handle.ended().await.unwrap_err().to_string();
    assert!(error.contains("cannot write disk"), "{error}");
    assert_eq!(*log.lock().unwrap(), ["2 <- [Say(1), Say(2)]"], "nothing after it was done");
    assert_eq!(beliefs.borrow().leader(), None);
    assert_eq!(disk.clone().start().unwrap(), Start::Recovered(Some(0)));
}

#[tokio::test]
async fn a_process_recovers_its_saved_state() {
    let bench = Bench::new();
    bench.handle.command(Command::Campaign).await.unwrap();
    assert_eq!(bench.probe().await.started, Some(Start::Fresh));
    let Bench { handle, disk, .. } = bench;
    handle.stop().await.unwrap();
    let bench = Bench::with(disk, None);
    assert_eq!(bench.probe().await.started, Some(Start::Recovered(Some(7))));
}

#[tokio::test]
async fn timers_expire_by_the_clock() {
    let bench = Bench::new();
    let millis = |millis| Time::ZERO + Span::from_millis(millis);
    bench.handle.command(Command::Transfer(NodeId(5))).await.unwrap();
    assert_eq!(bench.probe().await.rang, []);
    bench.clock.advance(Span::from_millis(2));
    assert_eq!(bench.probe().await.rang, [], "it was set again, for later");
    bench.clock.advance(Span::from_millis(1));
    let rang = bench.handle.clone_after_waking().await;
    assert_eq!(rang, [(millis(3), 3)]);
    bench.clock.advance(Span::from_millis(10));
    assert_eq!(bench.handle.clone_after_waking().await, [(millis(3), 3), (millis(13), 0)]);
    bench.handle.command(Command::Transfer(NodeId(9))).await.unwrap();
    bench.probe().await;
    bench.clock.advance(Span::from_millis(10));
    let rang = bench.handle.clone_after_waking().await;
    assert_eq!(rang[2..], [(millis(23), 0)], "the other one was cancelled");
}

impl Handle<Probe> {
    /// Commands come before timers: waits until the due timers are handled.
    async fn clone_after_waking(&self) -> Vec<(Time, u64)> {
        for _ in 0..20 {
            task::yield_now().await;
        }
        self.inspect(|probe, _| probe.rang.clone()).await.unwrap()
    }
}

#[tokio::test]
async fn unusable_datagrams_are_dropped_and_counted() {
    let bench = Bench::new();
    bench.says(2, &Message::Say(1));
    bench.says(9, &Message::Say(2));
    bench.says(1, &Message::Say(3));
    bench.say.send((NodeId(2), vec![suffrage_net::codec::VERSION, 2])).unwrap();
    bench.say.send((NodeId(2), Envelope::new(Protocol::named("other"), 9).as_bytes().to_vec())).unwrap();
    bench.say.send((NodeId(2), vec![9; 9])).unwrap();
    bench.says(3, &Message::Say(4));
    while bench.probe().await.heard.len() < 2 {
        task::yield_now().await;
    }
    assert_eq!(bench.probe().await.heard, [(NodeId(2), 1), (NodeId(3), 4)]);
    for (reason, count) in [
        (Dropped::NonMember, 2),
        (Dropped::Malformed, 1),
        (Dropped::WrongProtocol, 1),
        (Dropped::WrongVersion, 1),
        (Dropped::Oversized, 0),
    ] {
        assert_eq!(bench.counted().dropped(reason), count, "{reason:?}");
    }
    let mut events = bench.handle.events();
    bench.handle.command(Command::Resign).await.unwrap();
    bench.probe().await;
    assert_eq!(bench.counted().dropped(Dropped::Oversized), 1);
    assert_eq!(bench.handle.belief().announcement, Announcement::SteppedDown, "it goes on");
    assert!(matches!(events.recv().await, Ok(Event::Announced { .. })));
    assert_eq!(events.recv().await.unwrap(), Event::Suspected { at: Time::ZERO, peer: NodeId(3) });
}

#[tokio::test]
async fn the_group_and_its_ranks_can_change() {
    let bench = Bench::new();
    bench.handle.set_attribute(NodeId(2), 100).await.unwrap();
    bench.handle.set_roster(Roster::numbered(5)).await.unwrap();
    let elsewhere = Roster::listed(vec![NodeId(4), NodeId(5)]).unwrap();
    assert!(matches!(bench.handle.set_roster(elsewhere).await, Err(Error::NotAMember(NodeId(1)))));
    bench.handle.suspect(NodeId(3)).await.unwrap();
    bench.handle.restore(NodeId(3)).await.unwrap();
    let probe = bench.probe().await;
    assert_eq!((probe.views, probe.suspects), (vec![3, 5], vec![NodeId(3)]));
}

#[tokio::test]
async fn a_driver_ends_with_its_handle_or_its_network() {
    let bench = Bench::new();
    bench.probe().await;
    let Bench { handle, say, .. } = bench;
    drop(say);
    let error = handle.ended().await.unwrap_err().to_string();
    assert!(error.contains("cannot receive: unplugged"), "{error}");
    let bench = Bench::new();
    let Bench { handle, say, .. } = bench;
    drop(handle);
    say.closed().await;
}

#[tokio::test]
async fn a_process_outside_the_group_is_not_started() {
    let network = suffrage_net::transport::memory::Network::new(1);
    let settings =
        Settings { roster: Roster::numbered(3), delay_bound: Span::UNIT, protocol: protocol(), seed: None };
    let started =
        spawn(Probe::default(), network.join(NodeId(4)), ManualClock::new(), MemoryDisk::default(), settings);
    assert!(matches!(started, Err(Error::NotAMember(NodeId(4)))));
}
