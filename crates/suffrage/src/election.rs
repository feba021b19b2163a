//! Elections.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use suffrage_core::Span;
use suffrage_lease::{CandidateConfig, ElectionName, JoinError, Token};
use suffrage_node::client::{ClientConfig, ClientParticipation, HoldRequest, LocalNode};
use suffrage_node::lease::{Belief, Leader, LeaderValue, Status, Value};
use tokio::sync::{Mutex, watch};

use crate::builder::span;
use crate::leadership::{Campaign, LeaseSlot};
use crate::participation::Participation;
use crate::{Error, Leadership, Node};

/// Where a program takes part in an election.
#[derive(Clone, Debug)]
enum Place {
    Node(Node),
    /// The node of this machine.
    Local(LocalNode),
}

/// The configuration of an [`Election`]. See [`Node::election`] and [`Cluster::election`](crate::Cluster::election).
#[derive(Clone, Debug)]
#[must_use = "call `join` to join the election"]
pub struct ElectionBuilder {
    place: Place,
    name: String,
    config: CandidateConfig,
    margin: Option<Duration>,
    value: String,
}

impl ElectionBuilder {
    pub(crate) fn new(node: Node, name: String, ttl: Option<Duration>) -> ElectionBuilder {
        let config = CandidateConfig::default();
        let config = CandidateConfig { ttl: ttl.map_or(config.ttl, span), ..config };
        ElectionBuilder::at(Place::Node(node), name, config)
    }

    pub(crate) fn at_cluster(node: LocalNode, name: String) -> ElectionBuilder {
        ElectionBuilder::at(Place::Local(node), name, CandidateConfig::default())
    }

    fn at(place: Place, name: String, config: CandidateConfig) -> ElectionBuilder {
        ElectionBuilder { place, name, config, margin: None, value: String::new() }
    }

    /// Sets the length of a lease. After a crash of the leader, the next one is elected when the lease has ended. A
    /// short lease is renewed more often and tolerates shorter interruptions. Default: the
    /// [`default_ttl`](crate::NodeBuilder::default_ttl) of the node, 3 s.
    pub fn ttl(mut self, ttl: Duration) -> ElectionBuilder {
        self.config.ttl = span(ttl);
        self
    }

    /// Sets the rank of this candidate. A greater rank is better: of the waiting candidates, the best is next.
    /// Default: 0.
    pub fn rank(mut self, rank: i64) -> ElectionBuilder {
        self.config.attribute = rank;
        self
    }

    /// Enables failback: a candidate that has waited this long without interruption asks a leader of lower rank to hand
    /// over. Default: off.
    pub fn failback(mut self, after: Duration) -> ElectionBuilder {
        self.config.failback = Some(span(after));
        self
    }

    /// Sets how long before the end of a lease [`Leadership::lost`] returns: the time that the program needs to stop its
    /// work. A node that is to hand over waits for as long, unless the [`Leadership`] is dropped before. Default: a sixth
    /// of the ttl.
    pub fn stop_margin(mut self, margin: Duration) -> ElectionBuilder {
        self.margin = Some(margin);
        self
    }

    /// Sets the value of this program as the leader: a text of up to 4,096 bytes, such as its address, which other nodes
    /// show ([`Watch::value`], `suffrage leader`). [`Leadership::set_value`] changes it. Default: none.
    pub fn value(mut self, value: impl Into<String>) -> ElectionBuilder {
        self.value = value.into();
        self
    }

    /// Joins the election.
    pub async fn join(self) -> Result<Election, Error> {
        let margin = self.margin.map_or(Span::from_nanos(self.config.ttl.as_nanos() / 6), span);
        let config = CandidateConfig { stop_margin: margin, ..self.config };
        let value = leader_value(&self.value)?;
        let participation = match &self.place {
            Place::Node(node) => {
                config.check(&node.lease.settings().engine()).map_err(|invalid| Error::invalid(&invalid))?;
                let joined = node.lease.join(&self.name, config).await;
                let participation = joined.map_err(|error| match error {
                    suffrage_node::Error::Join(JoinError::AlreadyJoined) => {
                        Error::AlreadyJoined(self.name.clone())
                    }
                    other => Error::from_node(other),
                })?;
                if value.is_some() {
                    participation.set_value(value);
                }
                Participation::Node { name: self.name.clone(), participation }
            }
            Place::Local(node) => Participation::Client(self.join_through(node, config, value)?),
        };
        Ok(Election {
            name: self.name.into(),
            participation: Arc::new(participation),
            turn: Arc::default(),
            slot: LeaseSlot::default(),
            margin,
        })
    }
}

/// The value of a leader. An empty text is none.
pub(crate) fn leader_value(text: &str) -> Result<Option<Value>, Error> {
    match text.is_empty() {
        true => Ok(None),
        false => Value::new(text).map(Some).map_err(|invalid| Error::InvalidConfig(invalid.to_string())),
    }
}

impl ElectionBuilder {
    /// Joins through the node of this machine. The node checks the ttl when the program campaigns.
    fn join_through(
        &self,
        node: &LocalNode,
        config: CandidateConfig,
        value: Option<Value>,
    ) -> Result<ClientParticipation, Error> {
        ElectionName::new(&self.name).map_err(|invalid| Error::invalid(&invalid))?;
        if config.failback.is_some() {
            let error = "failback: a node asks no other node to hand over for a client; use a node of the program's own";
            return Err(Error::InvalidConfig(error.to_string()));
        }
        // The node tells deadlines that are a few parts of the ttl early, and renews after a third of it.
        if config.stop_margin * 2 >= config.ttl {
            let show = |span: Span| span.format_duration();
            let (margin, ttl) = (show(config.stop_margin), show(config.ttl));
            let error =
                format!("stop_margin: {margin} is no less than half of the ttl, {ttl}: set a longer ttl");
            return Err(Error::InvalidConfig(error));
        }
        let (name, ttl, rank) = (self.name.clone(), config.ttl, config.attribute);
        let hold = HoldRequest { name, ttl, rank, value };
        Ok(ClientParticipation::join(node, ClientConfig { hold, stop_margin: config.stop_margin }))
    }
}

/// A participation in an election. Clones share one participation. It ends when all clones, leaderships and watches are
/// dropped. Dropping an election releases no lease: a [`Leadership`] keeps the participation.
#[derive(Clone, Debug)]
pub struct Election {
    name: Arc<str>,
    participation: Arc<Participation>,
    /// Of several waiting tasks of this program, one campaigns, and the others queue.
    turn: Arc<Mutex<()>>,
    slot: LeaseSlot,
    margin: Span,
}

impl Election {
    /// An engine that people already run, by its URL, in place of a node: `Election::on("etcd://…")?.election("reports")`.
    /// See [`engines`](crate::engines).
    pub fn on(url: &str) -> Result<crate::engines::Engine, crate::engines::Error> {
        crate::engines::connect(url)
    }

    /// The name of the election.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until this program leads. The node is a candidate until then, or until the future is dropped. It retries
    /// after lost messages, restarts and partitions.
    ///
    /// Several tasks of one program lead one after the other, each when the one before has dropped or lost its
    /// [`Leadership`].
    pub async fn lead(&self) -> Result<Leadership, Error> {
        let _turn = self.turn.lock().await;
        let (mut belief, clock) = (self.participation.belief(), self.participation.clock());
        // The leadership before has not ended.
        while let Some(until) = self.slot.valid_until(clock.now(), &self.participation) {
            tokio::select! {
                changed = belief.changed() => changed.map_err(|_| self.participation.stopped())?,
                () = clock.sleep_until(until) => {}
            }
        }
        let campaign = Campaign::new(Arc::clone(&self.participation));
        loop {
            let held = campaign.next_lease().await?;
            if clock.now() < held.valid_until() {
                return Ok(campaign.win(&self.slot, held, belief, self.margin));
            }
            campaign.give_back(&held);
        }
    }

    /// Runs `work` whenever this program leads, and drops the future of `work` when the leadership is about to end.
    /// Returns when `work` returns [`ControlFlow::Break`].
    ///
    /// If the future of this function is dropped, the future of `work` is dropped first, and then the lease is released.
    /// Tasks, threads and processes that `work` has spawned are not stopped: `work` must end them when it is dropped.
    ///
    /// ```
    /// # use std::ops::ControlFlow;
    /// # use suffrage::{Keyring, Node};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), suffrage::Error> {
    /// # let node = Node::builder(1).key(Keyring::generate()?).in_memory().start().await?;
    /// let election = node.election("cleaner").join().await?;
    /// let cleaned = election
    ///     .run(async |leadership| {
    ///         // A future that is awaited here is dropped when the leadership is lost.
    ///         println!("cleaning up, with token {}", leadership.token());
    ///         ControlFlow::Break(3)
    ///     })
    ///     .await?;
    /// assert_eq!(cleaned, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T>(&self, mut work: impl AsyncFnMut(&Leadership) -> ControlFlow<T>) -> Result<T, Error> {
        loop {
            let leadership = self.lead().await?;
            tokio::select! {
                biased;
                () = leadership.lost() => {}
                done = work(&leadership) => if let ControlFlow::Break(done) = done {
                    return Ok(done);
                },
            }
        }
    }

    /// Watches the leader of the election.
    pub fn watch(&self) -> Watch {
        Watch::new(Arc::clone(&self.participation))
    }

    /// The leader, as this node knows it.
    pub fn leader(&self) -> Option<Leader> {
        self.watch().leader()
    }

    /// The value of the leader, if it has one and this node knows it.
    pub fn value(&self) -> Option<LeaderValue> {
        self.watch().value()
    }

    /// The status of the election: the leader, since when, and why this node leads or does not.
    pub async fn status(&self) -> Result<Status, Error> {
        self.participation.status().await
    }

    /// Reports the health of the program. While it is unhealthy, the node does not campaign in this election. If it leads,
    /// it hands over: [`Leadership::lost`] returns, and the work has the [stop margin](ElectionBuilder::stop_margin) to
    /// end. The hand-over goes on if the program is healthy again meanwhile.
    pub fn set_healthy(&self, healthy: bool) {
        self.participation.set_healthy(healthy);
    }

    /// Changes the [rank](ElectionBuilder::rank) of this candidate.
    pub fn set_rank(&self, rank: i64) {
        self.participation.set_rank(rank);
    }

    /// Pins the lease: the node does not hand it over to a candidate of greater rank. Returns the token of the pinned
    /// lease.
    pub(crate) async fn pin(&self) -> Result<Option<Token>, Error> {
        self.participation.pin().await
    }
}

/// A watch of the leader of an election, as one node knows it. The belief of a node can be outdated: only
/// [`Leadership::is_valid`] is exact.
#[derive(Clone, Debug)]
pub struct Watch {
    belief: watch::Receiver<Belief>,
    /// Keeps the participation.
    participation: Arc<Participation>,
}

impl Watch {
    pub(crate) fn new(participation: Arc<Participation>) -> Watch {
        Watch { belief: participation.belief(), participation }
    }

    /// The leader, if one is known.
    pub fn leader(&self) -> Option<Leader> {
        self.belief.borrow().leader
    }

    /// The value of the leader, if it has one and this node knows it.
    pub fn value(&self) -> Option<LeaderValue> {
        self.belief.borrow().value.clone()
    }

    /// Waits for a change of the leader or of its [value](Watch::value), and returns the leader. Quick successive changes can
    /// appear as one.
    pub async fn changed(&mut self) -> Result<Option<Leader>, Error> {
        self.belief.changed().await.map_err(|_| self.participation.stopped())?;
        Ok(self.belief.borrow_and_update().leader)
    }

    /// Waits until a leader is known, and returns it.
    pub async fn led(&mut self) -> Result<Leader, Error> {
        let belief = self.belief.wait_for(|belief| belief.leader.is_some()).await;
        match belief {
            Ok(belief) => belief.leader.ok_or(Error::Stopped),
            Err(_) => Err(self.participation.stopped()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keyring;

    /// A call of `lead` is cancelled when the node has just been elected, and the program calls `lead` again. The lease of
    /// the first call is being released: the second call must not return it, because its work would have no notice.
    #[tokio::test]
    async fn a_lease_that_a_cancelled_call_gives_back_is_not_returned_by_the_next_call() {
        let builder = Node::builder(1).key(Keyring::generate().unwrap()).voters([1]).in_memory();
        let node = builder.member(1, suffrage_testbed::address()).start().await.unwrap();
        let election = node.election("x").join().await.unwrap();
        let cancelled = Campaign::new(Arc::clone(&election.participation));
        cancelled.next_lease().await.unwrap();
        drop(cancelled);
        let leadership = election.lead().await.unwrap();
        let (holder, _) = node.lease.holder("x").await.unwrap().expect("the program leads");
        assert_eq!(holder.token, leadership.token());
        assert!(leadership.is_valid());
        node.abort();
    }

    /// A program that waits to lead again finds that its lease has ended by the clock. After a pause it may find that
    /// before the node does, and the work of the earlier leadership may not have ended: only the node decides whether the
    /// lease is released.
    #[tokio::test]
    async fn a_lease_that_has_ended_by_the_clock_is_not_released_by_the_next_that_waits() {
        let builder = Node::builder(1).key(Keyring::generate().unwrap()).voters([1]).in_memory();
        let node = builder.member(1, suffrage_testbed::address()).start().await.unwrap();
        let margin = Duration::from_secs(15);
        let election =
            node.election("x").ttl(Duration::from_secs(50)).stop_margin(margin).join().await.unwrap();
        let leadership = election.lead().await.unwrap();
        leadership.expire();
        let now = election.participation.clock().now();
        assert_eq!(election.slot.valid_until(now, &election.participation), None);
        let (holder, _) = node.lease.holder("x").await.unwrap().expect("the lease is not released");
        assert_eq!(holder.token, leadership.token());
        node.abort();
    }
}
