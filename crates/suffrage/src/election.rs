//! Elections, by name.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use suffrage_core::{NodeId, Span};
use suffrage_lease::Token;
use suffrage_node::lease::{Belief, CandidateConfig, InvalidConfig, JoinError, Participation, Status};
use tokio::sync::{Mutex, watch};

use crate::builder::span;
use crate::leadership::{Campaign, Office};
use crate::{Error, Leadership, Node};

/// The config on which a node takes part in an election: [`Node::election`].
#[derive(Clone, Debug)]
#[must_use = "nothing is joined yet"]
pub struct ElectionBuilder {
    node: Node,
    name: String,
    config: CandidateConfig,
    margin: Option<Duration>,
}

impl ElectionBuilder {
    /// How long a lease is: 3 seconds if not set. A leader that dies is replaced after that, and some messages.
    /// A shorter one is renewed more often, and endures less.
    pub fn ttl(mut self, ttl: Duration) -> ElectionBuilder {
        self.config.ttl = span(ttl);
        self
    }

    /// How good a leader this one would be; greater is better, zero if not set. Of those who wait, the best
    /// is next.
    pub fn rank(mut self, rank: i64) -> ElectionBuilder {
        self.config.attribute = rank;
        self
    }

    /// Asks a leader of lesser rank to hand over, once this one has stood for so long without a break. If not
    /// set, never.
    pub fn failback(mut self, after: Duration) -> ElectionBuilder {
        self.config.failback = Some(span(after));
        self
    }

    /// How long before the end of a lease that could not be renewed [`Leadership::lost`] fires: the time one
    /// needs to stop what only a leader may do. A sixth of the ttl if not set.
    pub fn stop_margin(mut self, margin: Duration) -> ElectionBuilder {
        self.margin = Some(margin);
        self
    }

    /// Use when something that may outlive this program, for as long as the lease at most, acts as the leader.
    pub(crate) fn wait_out_previous_holder(mut self) -> ElectionBuilder {
        self.config.wait_out_previous_holder = true;
        self
    }

    /// Joins the election.
    pub async fn join(self) -> Result<Election, Error> {
        let node = &self.node;
        let engine = node.lease.settings().engine();
        self.config.check(&engine)?;
        let margin = self.margin.map_or(Span::from_nanos(self.config.ttl.as_nanos() / 6), span);
        let longest = self.config.longest_margin(&engine);
        if margin > longest {
            return Err(InvalidConfig::MarginTooLong(longest).into());
        }
        let part = node.lease.join(&self.name, self.config).await.map_err(|error| match error {
            suffrage_node::Error::Join(JoinError::AlreadyJoined) => Error::Joined(self.name.clone()),
            other => other.into(),
        })?;
        let (part, turn, office) = (Arc::new(part), Arc::default(), Office::default());
        Ok(Election { name: self.name.into(), part, turn, office, margin })
    }
}

/// A part in an election. Clones are the same part; the node takes part until all are dropped, and what was
/// got from them.
#[derive(Clone, Debug)]
pub struct Election {
    name: Arc<str>,
    part: Arc<Participation>,
    /// Of those in this program that wait, one stands, and the others are next in their order.
    turn: Arc<Mutex<()>>,
    office: Office,
    margin: Span,
}

impl Node {
    /// An election by its name, which is any text of up to 255 bytes. All who join the same name at nodes of one
    /// cluster are in the same election.
    pub fn election(&self, name: impl Into<String>) -> ElectionBuilder {
        ElectionBuilder {
            node: self.clone(),
            name: name.into(),
            config: CandidateConfig::default(),
            margin: None,
        }
    }
}

impl Election {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits to lead. Until it does, or is given up, this one stands: it asks again whenever that may help, and
    /// there is nothing to be done about lost messages, restarts or partitions but to wait.
    ///
    /// Of several that wait in one program, one after the other leads, each once the one before has dropped its
    /// [`Leadership`] or lost it.
    pub async fn lead(&self) -> Result<Leadership, Error> {
        let _turn = self.turn.lock().await;
        let (mut belief, clock) = (self.part.belief(), self.part.node().clock());
        let mut campaign = None;
        loop {
            let held = belief.borrow_and_update().held.clone();
            if let Some(until) = self.office.held_until(clock.now(), &self.part) {
                tokio::select! {
                    changed = belief.changed() => changed.map_err(|_| Error::Stopped)?,
                    () = clock.sleep_until(until) => {}
                }
                continue;
            }
            // Whoever has led must ask again; and may have led without being noticed to.
            let standing = campaign.get_or_insert_with(|| Campaign::new(Arc::clone(&self.part)));
            standing.ask();
            if let Some(held) = held
                && clock.now() < held.valid_until()
                && let Some(campaign) = campaign.take()
            {
                return Ok(campaign.win(&self.office, held, belief, self.margin));
            }
            belief.changed().await.map_err(|_| Error::Stopped)?;
        }
    }

    /// Does this whenever it leads, and gives it up as soon as the leadership is about to be lost; until the
    /// work says that it is done.
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
    ///         // Whatever is awaited here is dropped when the leadership is lost.
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

    /// Who leads, now and whenever that changes.
    pub fn watch(&self) -> Watch {
        Watch::new(Arc::clone(&self.part))
    }

    /// Who leads, as far as this node knows.
    pub fn leader(&self) -> Option<Leader> {
        self.watch().leader()
    }

    /// What the node knows of it: who leads, since when, and why it does not itself.
    pub async fn status(&self) -> Result<Status, Error> {
        self.part.node().status(&self.name).await?.ok_or(Error::Stopped)
    }

    /// Says whether whoever would lead here is well: one that is not hands over, and does not stand.
    pub fn set_healthy(&self, healthy: bool) {
        self.part.set_healthy(healthy);
    }

    /// Changes how good a leader this one would be.
    pub fn set_rank(&self, rank: i64) {
        self.part.set_attribute(rank);
    }
}

/// Who leads an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Which node.
    pub node: NodeId,
    /// Its fencing token.
    pub token: Token,
}

/// Who leads an election, as far as one node knows. It may be behind: only a [`Leadership`] is never wrong.
#[derive(Clone, Debug)]
pub struct Watch {
    belief: watch::Receiver<Belief>,
    /// Takes part as long as somebody watches.
    _part: Arc<Participation>,
}

impl Watch {
    pub(crate) fn new(part: Arc<Participation>) -> Watch {
        Watch { belief: part.belief(), _part: part }
    }

    /// Who leads now.
    pub fn leader(&self) -> Option<Leader> {
        self.belief.borrow().leader.map(|(node, token)| Leader { node, token })
    }

    /// Waits until that changes, and tells to what. Changes that come quickly are seen as one.
    pub async fn changed(&mut self) -> Result<Option<Leader>, Error> {
        self.belief.changed().await.map_err(|_| Error::Stopped)?;
        let leader = self.belief.borrow_and_update().leader;
        Ok(leader.map(|(node, token)| Leader { node, token }))
    }

    /// Waits until somebody leads.
    pub async fn led(&mut self) -> Result<Leader, Error> {
        let belief = self.belief.wait_for(|belief| belief.leader.is_some()).await;
        let leader = belief.map_err(|_| Error::Stopped)?.leader;
        leader.map(|(node, token)| Leader { node, token }).ok_or(Error::Stopped)
    }
}
