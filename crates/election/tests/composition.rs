//! Processes compose: one can stand in front of another, with messages and timers of its own, without
//! either knowing more than the vocabulary. Failure detectors and multicasts are to be built so.

use election::algorithms::bully::Bully;
use election::{
    Algorithm, Announcement, Command, Context, Effects, Kind, NodeId, Process, Rng, Roster, Span, Start, Time,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use simulator::{Fault, Latency, World};

/// The plainest heartbeat detector, in front of an algorithm: a peer that is silent for three beats is
/// suspected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Watched<A> {
    algorithm: A,
    /// Everybody else, when it was last heard, and whether it is suspected.
    peers: Vec<(NodeId, Time, bool)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "M: Serialize + DeserializeOwned")]
enum Layered<M> {
    Beat,
    Inner(M),
}

impl<M: election::Message> election::Message for Layered<M> {
    const KINDS: &'static [Kind] =
        &[Kind::apart("Beat"), Kind::new("Election"), Kind::new("Answer"), Kind::new("Coordinator")];

    fn kind(&self) -> usize {
        match self {
            Layered::Beat => 0,
            Layered::Inner(message) => 1 + message.kind(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Either<T> {
    Beat,
    Inner(T),
}

impl<T: election::Timer> election::Timer for Either<T> {
    const COUNT: usize = 1 + T::COUNT;

    fn index(self) -> usize {
        match self {
            Either::Beat => 0,
            Either::Inner(timer) => 1 + timer.index(),
        }
    }
}

/// What the inner process does becomes what the outer one does.
struct Lifted<'a, E>(&'a mut E);

impl<A: Process, E: Effects<Watched<A>>> Effects<A> for Lifted<'_, E> {
    fn rng(&mut self) -> &mut Rng {
        self.0.rng()
    }
    fn send(&mut self, to: NodeId, message: A::Message) {
        self.0.send(to, Layered::Inner(message));
    }
    fn multicast(&mut self, message: A::Message) {
        self.0.multicast(Layered::Inner(message));
    }
    fn set_timer(&mut self, timer: A::Timer, after: Span) {
        self.0.set_timer(Either::Inner(timer), after);
    }
    fn cancel_timer(&mut self, timer: A::Timer) {
        self.0.cancel_timer(Either::Inner(timer));
    }
    fn save(&mut self, state: A::Saved) {
        self.0.save(state);
    }
    fn announce(&mut self, announcement: Announcement) {
        self.0.announce(announcement);
    }
    fn suspect(&mut self, peer: NodeId) {
        self.0.suspect(peer);
    }
    fn restore(&mut self, peer: NodeId) {
        self.0.restore(peer);
    }
}

fn lift<'a, 'v, A: Process, E: Effects<Watched<A>>>(
    cx: &'a mut Context<'v, E>,
) -> Context<'v, Lifted<'a, E>> {
    let (now, view, bound) = (cx.now(), cx.view(), cx.delay_bound());
    Context::new(now, view, bound, Lifted(cx.effects()))
}

impl<A: Process> Process for Watched<A> {
    type Message = Layered<A::Message>;
    type Timer = Either<A::Timer>;
    type Saved = A::Saved;

    fn on_start(&mut self, cx: &mut Context<'_, impl Effects<Self>>, start: Start<A::Saved>) {
        self.peers = cx.view().peers().map(|peer| (peer, cx.now(), false)).collect();
        cx.set_timer(Either::Beat, Span::UNIT);
        self.algorithm.on_start(&mut lift(cx), start);
    }

    fn on_message(&mut self, cx: &mut Context<'_, impl Effects<Self>>, from: NodeId, message: Self::Message) {
        let now = cx.now();
        if let Some((_, heard, suspected)) = self.peers.iter_mut().find(|(peer, ..)| *peer == from) {
            *heard = now;
            if std::mem::take(suspected) {
                self.algorithm.on_restore(&mut lift(cx), from);
            }
        }
        if let Layered::Inner(message) = message {
            self.algorithm.on_message(&mut lift(cx), from, message);
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, impl Effects<Self>>, timer: Self::Timer) {
        let Either::Inner(timer) = timer else {
            cx.set_timer(Either::Beat, Span::UNIT);
            for (peer, heard, suspected) in &mut self.peers {
                cx.send(*peer, Layered::Beat);
                if !*suspected && cx.now().since(*heard) > Span::UNIT * 3 + cx.delay_bound() {
                    *suspected = true;
                    self.algorithm.on_suspect(&mut lift(cx), *peer);
                }
            }
            return;
        };
        self.algorithm.on_timer(&mut lift(cx), timer);
    }

    fn on_command(&mut self, cx: &mut Context<'_, impl Effects<Self>>, command: Command) {
        self.algorithm.on_command(&mut lift(cx), command);
    }
}

#[test]
fn bully_behind_a_heartbeat_detector_replaces_a_dead_leader_and_takes_it_back() {
    let roster = Roster::numbered(5);
    let make = |id| Watched { algorithm: Bully::new(id, &Default::default()), peers: Vec::new() };
    let mut world = World::new(roster, 1, Latency::Uniform(Span::ZERO, Span::UNIT), make);
    let leaders = |world: &World<Watched<Bully>>| -> Vec<Option<u64>> {
        (0..5).map(|slot| world.ledger().belief(slot).map(|belief| belief.leader.0)).collect()
    };
    world.command(Time::ZERO, 0, Command::Campaign);
    world.run("20".parse().unwrap());
    assert_eq!(leaders(&world), [Some(5); 5]);

    world.befall(world.now(), Fault::Crash(4));
    world.run("50".parse().unwrap());
    assert_eq!(leaders(&world), [Some(4), Some(4), Some(4), Some(4), None]);

    world.befall(world.now(), Fault::Recover { slot: 4, disk: false });
    world.run("90".parse().unwrap());
    assert_eq!(leaders(&world), [Some(5); 5]);
}
