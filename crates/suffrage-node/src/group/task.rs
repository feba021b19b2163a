//! The task of a member: socket, timers and requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use suffrage_core::{
    Announcement, Context, Effects, NodeId, Process as _, Rng, Roster, Span, Start, Time, Timer as _,
};
use suffrage_group::{Group, GroupCommand, Message, Record, Timer};
use suffrage_net::group_seal::{GroupSeal, Replays};
use suffrage_net::{Counters, Dropped, Keyring};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::{FIRST_SEED, GroupLeader, GroupPeer, GroupStatus, decode, peer};
use crate::Error;

/// The longest datagram that is received: longer ones are cut off, and do not open.
const MAX_DATAGRAM: usize = 1_500;
/// The most datagrams that are handled before timers and requests are looked at.
const BATCH: usize = 32;
/// The senders beyond the known members whose counters are kept.
const MAX_STRANGERS: usize = 1_024;
/// The period in which the names of seeds are looked up, and while one has no address.
const LOOK_UP: Duration = Duration::from_secs(30);
const LOOK_UP_MISSING: Duration = Duration::from_secs(2);
/// The delay bound, which a group does not use.
const DELAY_BOUND: Span = Span::from_millis(100);

/// A request to the task.
#[derive(Debug)]
pub(super) enum Request {
    Command(GroupCommand),
    Members(oneshot::Sender<Vec<GroupPeer>>),
    Status(oneshot::Sender<GroupStatus>),
    Rekey(Keyring),
    /// The addresses of the seeds.
    Seeds(Vec<Option<SocketAddr>>),
}

pub(super) struct Task {
    group: Group,
    effects: TaskEffects,
    roster: Roster,
    socket: UdpSocket,
    seal: GroupSeal,
    replays: Replays,
    seeds: Arc<Vec<String>>,
    seed_addresses: Vec<Option<SocketAddr>>,
    next_look_up: Instant,
    leader: watch::Sender<Option<GroupLeader>>,
    counters: Arc<Counters>,
}

/// The effects of the present input.
struct TaskEffects {
    rng: Rng,
    start: Instant,
    timers: [Option<Instant>; Timer::COUNT],
    outgoing: Vec<(NodeId, Message)>,
}

const TIMERS: [Timer; Timer::COUNT] =
    [Timer::Probe, Timer::Answer, Timer::Gossip, Timer::Suspicion, Timer::Ask, Timer::Watch, Timer::Election];

impl TaskEffects {
    fn now(&self) -> Time {
        Time::from_nanos(self.start.elapsed().as_nanos() as u64)
    }
}

impl Effects<Group> for TaskEffects {
    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    fn send(&mut self, to: NodeId, message: Message) {
        self.outgoing.push((to, message));
    }

    /// A group sends to single members only.
    fn multicast(&mut self, _: Message) {}

    fn set_timer(&mut self, timer: Timer, after: Span) {
        self.timers[timer.index()] = Some(Instant::now() + Duration::from_nanos(after.as_nanos()));
    }

    fn cancel_timer(&mut self, timer: Timer) {
        self.timers[timer.index()] = None;
    }

    fn save(&mut self, (): ()) {}
    // The task reads the leader after each input.
    fn announce(&mut self, _: Announcement) {}
    fn lead_until(&mut self, _: Time) {}
    fn suspect(&mut self, _: NodeId) {}
    fn restore(&mut self, _: NodeId) {}
}

impl Task {
    pub(super) fn new(
        group: Group,
        socket: UdpSocket,
        seal: GroupSeal,
        seeds: Vec<String>,
        leader: watch::Sender<Option<GroupLeader>>,
        counters: Arc<Counters>,
    ) -> Result<Task, Error> {
        let start = Instant::now();
        let effects = TaskEffects {
            rng: Rng::new(getrandom::u64()?),
            start,
            timers: [None; Timer::COUNT],
            outgoing: Vec::new(),
        };
        Ok(Task {
            group,
            effects,
            roster: Roster::numbered(1),
            socket,
            seal,
            replays: Replays::default(),
            seed_addresses: seeds.iter().map(|seed| seed.parse().ok()).collect(),
            seeds: Arc::new(seeds),
            next_look_up: start,
            leader,
            counters,
        })
    }

    /// Gives the group an input, and sends what it wants to send. `from` is where the input came from.
    fn input(
        &mut self,
        from: Option<(NodeId, SocketAddr)>,
        input: impl FnOnce(&mut Group, &mut Context<'_, Group>),
    ) {
        let now = self.effects.now();
        let mut cx = Context::new(now, self.roster.view(0), DELAY_BOUND, &mut self.effects);
        input(&mut self.group, &mut cx);
        for (to, message) in std::mem::take(&mut self.effects.outgoing) {
            self.send(from, to, &message);
        }
        let address = |id| self.group.address(id).map(decode);
        let leader = self
            .group
            .leader()
            .and_then(|(id, term)| Some(GroupLeader { id, term: term.0, address: address(id)? }));
        self.leader.send_if_modified(|known| std::mem::replace(known, leader) != leader);
    }

    fn send(&mut self, from: Option<(NodeId, SocketAddr)>, to: NodeId, message: &Message) {
        let seed = to.0.checked_sub(FIRST_SEED);
        let address = match (seed, from) {
            (Some(seed), _) => self.seed_addresses.get(seed as usize).copied().flatten(),
            // An answer goes where the question came from: its sender may be unknown.
            (None, Some((id, source))) if id == to => Some(source),
            (None, _) => self.group.address(to).map(decode),
        };
        let Some(address) = address else { return self.counters.count_drop(Dropped::UnknownPeer) };
        let payload = postcard::to_extend(message, Vec::new()).expect("messages can be encoded");
        let Ok(datagram) = self.seal.seal(seed.is_none().then_some(to), &payload) else {
            return self.counters.count_drop(Dropped::Refused);
        };
        // A full buffer of the system is a lost datagram, as anywhere else in the network.
        match self.socket.try_send_to(&datagram, address) {
            Ok(_) => self.counters.send(datagram.len()),
            Err(_) => self.counters.count_drop(Dropped::Refused),
        }
    }

    fn receive(&mut self, datagram: &[u8], source: SocketAddr) -> Result<(), Dropped> {
        let opened = self.seal.open(datagram)?;
        self.replays.admit(&opened)?;
        let (message, rest) =
            postcard::take_from_bytes::<Message>(&opened.payload).map_err(|_| Dropped::Malformed)?;
        if !rest.is_empty() {
            return Err(Dropped::Malformed);
        }
        self.counters.receive(datagram.len());
        self.input(Some((opened.from, source)), |group, cx| group.on_message(cx, opened.from, message));
        if self.replays.len() > 2 * self.group.members().len() + MAX_STRANGERS {
            let group = &self.group;
            self.replays.retain(|id| group.address(id).is_some());
        }
        Ok(())
    }

    /// Handles the datagrams that have arrived.
    fn receive_batch(&mut self, buffer: &mut [u8]) {
        for _ in 0..BATCH {
            // An error belongs to an earlier datagram that could not be delivered.
            match self.socket.try_recv_from(buffer) {
                Ok((length, source)) => {
                    if let Err(reason) = self.receive(&buffer[..length], source) {
                        self.counters.count_drop(reason);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => {}
            }
        }
    }

    fn fire_timers(&mut self) {
        let now = Instant::now();
        for timer in TIMERS {
            if self.effects.timers[timer.index()].is_some_and(|due| due <= now) {
                self.effects.timers[timer.index()] = None;
                self.input(None, |group, cx| group.on_timer(cx, timer));
            }
        }
    }

    fn handle(&mut self, request: Request) {
        match request {
            Request::Command(command) => self.input(None, |group, cx| group.on_command(cx, command)),
            Request::Members(answer) => {
                let members = self.group.members().iter().map(|record| peer(&self.group, record)).collect();
                // Whoever asked may have given up.
                let _ = answer.send(members);
            }
            Request::Status(answer) => {
                let Record { rank, stands, .. } = self.group.record();
                let _ = answer.send(GroupStatus {
                    rank,
                    stands,
                    members: self.group.members().len(),
                    suspected: self.group.suspected(),
                    dead: self.group.remembered().0,
                    digest: self.group.digest().hash,
                    counters: *self.group.counters(),
                    traffic: self.counters.snapshot(),
                });
            }
            Request::Rekey(keyring) => self.seal.rekey(&keyring),
            Request::Seeds(addresses) => {
                for (known, found) in self.seed_addresses.iter_mut().zip(addresses) {
                    *known = found.or(*known);
                }
            }
        }
    }

    /// Looks up the names of the seeds, without waiting.
    fn look_up(&mut self, requests: &mpsc::WeakSender<Request>) {
        let missing = self.seed_addresses.iter().any(Option::is_none);
        self.next_look_up = Instant::now() + if missing { LOOK_UP_MISSING } else { LOOK_UP };
        if self.seeds.iter().all(|seed| seed.parse::<SocketAddr>().is_ok()) {
            self.next_look_up = Instant::now() + Duration::from_secs(86_400);
            return;
        }
        let (seeds, requests) = (self.seeds.clone(), requests.clone());
        tokio::spawn(async move {
            let mut addresses = Vec::new();
            for seed in seeds.iter() {
                let found = tokio::net::lookup_host(seed).await.ok();
                addresses.push(found.and_then(|mut found| found.next()));
            }
            if let Some(requests) = requests.upgrade() {
                let _ = requests.send(Request::Seeds(addresses)).await;
            }
        });
    }

    pub(super) async fn run(
        mut self,
        mut requests: mpsc::Receiver<Request>,
        own_requests: mpsc::WeakSender<Request>,
    ) {
        self.input(None, |group, cx| group.on_start(cx, Start::Fresh));
        let mut buffer = [0; MAX_DATAGRAM];
        let timer = sleep_until(Instant::now());
        tokio::pin!(timer);
        while !self.group.has_left() {
            let due = self.effects.timers.iter().flatten().min().copied();
            timer.as_mut().reset(due.map_or(self.next_look_up, |due| due.min(self.next_look_up)));
            tokio::select! {
                _ = self.socket.readable() => self.receive_batch(&mut buffer),
                () = &mut timer => {}
                request = requests.recv() => match request {
                    Some(request) => self.handle(request),
                    None => self.handle(Request::Command(GroupCommand::Leave)),
                },
            }
            self.fire_timers();
            if Instant::now() >= self.next_look_up {
                self.look_up(&own_requests);
            }
        }
    }
}
