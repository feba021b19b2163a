//! Elections on an engine.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::recipe::{Leader, Recipe, Status, Wish};
use crate::tenure::{Campaign, Leadership, Tasks};
use crate::url::Url;
use crate::{Clock, Error, Facts};

/// The default drift bound.
const DEFAULT_DRIFT: f64 = 0.01;

/// An engine that elections are held on. Clones share its connections.
#[derive(Clone)]
pub struct Engine {
    recipe: Arc<dyn Recipe>,
    clock: Arc<dyn Clock>,
    /// The URL without its secrets.
    shown: Arc<str>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({})", self.shown)
    }
}

/// Shows the URL without its secrets.
impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The number of the process and a random number: in containers many processes have number 1.
fn default_identity() -> String {
    let random = getrandom::u32().unwrap_or_default();
    format!("pid-{}-{random:08x}", std::process::id())
}

/// The recipe for the scheme of a URL.
fn recipe_of(url: Url) -> Result<Arc<dyn Recipe>, Error> {
    match url.scheme().to_string().as_str() {
        #[cfg(feature = "consul")]
        "consul" => Ok(Arc::new(crate::consul::Consul::new(url)?)),
        #[cfg(feature = "etcd")]
        "etcd" => Ok(Arc::new(crate::etcd::Etcd::new(url)?)),
        #[cfg(feature = "kubernetes")]
        "kubernetes" => Ok(Arc::new(crate::kubernetes::Kubernetes::new(url)?)),
        #[cfg(feature = "nats")]
        "nats" | "tls" => Ok(Arc::new(crate::nats::Nats::new(url)?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(crate::postgres::Postgres::new(url)?)),
        #[cfg(feature = "redis")]
        "redis" | "rediss" => Ok(Arc::new(crate::redis::Redis::new(url)?)),
        #[cfg(feature = "zookeeper")]
        "zookeeper" => Ok(Arc::new(crate::zookeeper::ZooKeeper::new(url)?)),
        scheme => {
            let without = |facts: &Facts| {
                format!(
                    "this program was built without {}: build it with `--features {}`",
                    facts.name, facts.scheme
                )
            };
            let schemes: Vec<&str> = crate::FACTS.iter().map(|facts| facts.scheme).collect();
            let unknown = || format!("there is no engine `{scheme}`; engines: {}", schemes.join(", "));
            let known = crate::FACTS.iter().find(|facts| facts.scheme == scheme);
            Err(Error::InvalidUrl(known.map_or_else(unknown, without)))
        }
    }
}

impl Engine {
    /// The engine of a URL. Reads the files and the environment that the URL names, and connects when it is first used.
    pub fn connect(url: &str, clock: impl Clock) -> Result<Engine, Error> {
        let url = Url::parse(url)?;
        let shown = url.to_string().into();
        let recipe = recipe_of(url)?;
        Ok(Engine { recipe, clock: Arc::new(clock), shown })
    }

    /// What the engine promises, and what it cannot do.
    pub fn facts(&self) -> &'static Facts {
        self.recipe.facts()
    }

    /// An election on this engine.
    pub fn election(&self, name: impl Into<String>) -> ElectionBuilder {
        let ttl = self.recipe.default_ttl();
        ElectionBuilder {
            engine: self.clone(),
            name: name.into(),
            identity: default_identity(),
            ttl,
            margin: None,
            drift: DEFAULT_DRIFT,
        }
    }

    /// Who leads, who waits, and what an operator should know. Sees candidates of other clients as well.
    pub async fn status(&self, name: &str) -> Result<Status, Error> {
        self.recipe.check_name(name)?;
        self.recipe.status(name).await
    }

    /// Watches the leader of an election, which may be another client.
    pub fn watch(&self, name: impl Into<String>) -> LeaderWatch {
        LeaderWatch { recipe: Arc::clone(&self.recipe), name: name.into(), known: None }
    }

    /// Removes the leader's entry from the engine, whoever it is, and returns that leader. A leader that is deposed notices
    /// only when its engine tells it: its work may overlap the next leader's. Prefer to stop the leader.
    pub async fn depose(&self, name: &str) -> Result<Option<Leader>, Error> {
        self.recipe.check_name(name)?;
        self.recipe.depose(name).await
    }
}

/// Watches the leader of one election.
pub struct LeaderWatch {
    recipe: Arc<dyn Recipe>,
    name: String,
    known: Option<Leader>,
}

impl LeaderWatch {
    /// Waits until the leader differs from the one that this watch has returned last (none at first), and returns it.
    pub async fn changed(&mut self) -> Result<Option<Leader>, Error> {
        self.recipe.check_name(&self.name)?;
        let leader = self.recipe.changed(&self.name, self.known.clone()).await?;
        self.known.clone_from(&leader);
        Ok(leader)
    }
}

/// An election that is about to be joined.
#[derive(Clone, Debug)]
#[must_use = "the election is joined by `join`"]
pub struct ElectionBuilder {
    engine: Engine,
    name: String,
    identity: String,
    ttl: Duration,
    margin: Option<Duration>,
    drift: f64,
}

impl ElectionBuilder {
    /// The length of a lease. Default: 3 s, or the shortest that the engine grants with its usual settings.
    pub fn ttl(mut self, ttl: Duration) -> ElectionBuilder {
        self.ttl = ttl;
        self
    }

    /// The text that names this candidate at the engine. It must be unique. Default: the number of the process, and a
    /// random number.
    pub fn identity(mut self, identity: impl Into<String>) -> ElectionBuilder {
        self.identity = identity.into();
        self
    }

    /// How long before the end of the lease [`Leadership::lost`] returns. Default: a tenth of the ttl, or of the validity if
    /// that is shorter.
    pub fn stop_margin(mut self, margin: Duration) -> ElectionBuilder {
        self.margin = Some(margin);
        self
    }

    /// The greatest rate by which the clocks of this machine and of the engine differ. Default: 0.01, which is 1%.
    pub fn drift(mut self, drift: f64) -> ElectionBuilder {
        self.drift = drift;
        self
    }

    /// Checks what the engine can do.
    pub fn join(self) -> Result<Election, Error> {
        let facts = self.engine.facts();
        let unsupported = |cannot: String| Error::Unsupported { engine: facts.name, cannot };
        if self.name.is_empty() || self.name.len() > 255 {
            return Err(unsupported(format!("needs a name of 1 to 255 bytes, not of {}", self.name.len())));
        }
        self.engine.recipe.check_name(&self.name)?;
        if self.ttl < facts.shortest_ttl {
            return Err(unsupported(format!(
                "grants no lease of {:?}: the shortest is {:?}",
                self.ttl, facts.shortest_ttl
            )));
        }
        if facts.whole_seconds && self.ttl.subsec_nanos() != 0 {
            return Err(unsupported(format!("grants leases of whole seconds, not of {:?}", self.ttl)));
        }
        if !(0.0..=0.2).contains(&self.drift) {
            return Err(unsupported(format!("needs a drift bound of 0 to 0.2, not {}", self.drift)));
        }
        let validity = self.engine.recipe.longest_validity(self.ttl);
        let margin = self.margin.unwrap_or(validity / 10);
        if margin > validity / 2 {
            return Err(unsupported(format!(
                "has no lease left: a stop margin of {margin:?} is above half of {validity:?}, for which a lease is valid"
            )));
        }
        let wish = Wish {
            name: self.name.into(),
            identity: self.identity.into(),
            ttl: self.ttl,
            drift: self.drift,
            clock: Arc::clone(&self.engine.clock),
        };
        Ok(Election { engine: self.engine, wish, margin, tasks: Tasks::new(), turn: Arc::default() })
    }
}

/// An election on an engine, with this program as a candidate whenever it waits to [`lead`](Election::lead).
#[derive(Clone)]
pub struct Election {
    engine: Engine,
    wish: Wish,
    margin: Duration,
    tasks: Tasks,
    /// Of several waiting tasks of this program, one campaigns, and the others queue.
    turn: Arc<Mutex<()>>,
}

impl std::fmt::Debug for Election {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Election({} on {})", self.wish.name, self.engine)
    }
}

impl Election {
    /// The name of the election.
    pub fn name(&self) -> &str {
        &self.wish.name
    }

    /// The identity of this candidate.
    pub fn identity(&self) -> &str {
        &self.wish.identity
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The length of a lease.
    pub fn ttl(&self) -> Duration {
        self.wish.ttl
    }

    /// Waits until this program leads. Rides out failures of the engine. If the future is dropped, the candidate withdraws.
    pub async fn lead(&self) -> Result<Leadership, Error> {
        let _turn = self.turn.lock().await;
        let candidate = self.engine.recipe.candidate(self.wish.clone());
        Campaign::start(candidate, self.wish.clone(), &self.tasks).won(self.margin).await
    }

    /// Why the last request to the engine has failed, if it has.
    pub fn obstacle(&self) -> Option<Error> {
        self.tasks.obstacle.borrow().clone()
    }

    /// Who leads, who waits, and what an operator should know.
    pub async fn status(&self) -> Result<Status, Error> {
        self.engine.status(&self.wish.name).await
    }

    /// Waits until all candidates of this program that have given up or resigned are removed from the engine. A program
    /// calls this before it ends: an entry that remains at the engine blocks the next leader until its lease is over.
    pub async fn withdrawn(&self) {
        // The sender is a part of this value: the channel is open.
        _ = self.tasks.running.subscribe().wait_for(|running| *running == 0).await;
    }
}
