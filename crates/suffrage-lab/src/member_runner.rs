//! Any algorithm of the catalog as a member of a real cluster, selected by name.
//!
//! ```text
//!   Algorithm ── name, settings ──▶ dyn Runner ── start: socket, folder ──▶ dyn Member
//! ```
//!
//! The drivers of all algorithms take long to compile. They are compiled here, once.
//!
//! A real network loses messages, so an algorithm gets the settings of its contract for that case. An algorithm that
//! needs a failure detector gets heartbeats, and one that multicasts gets a multicast that gossip repairs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use suffrage_algorithms::catalog;
use suffrage_core::Visitor;
use suffrage_core::detectors::{self, heartbeat};
use suffrage_core::layers::{self, Stack};
use suffrage_core::multicast::bimodal;
use suffrage_core::{
    Algorithm, BadParameter, Command, Contract, Detection, NodeId, Roster, Span, Start, Topology,
};
use tokio::sync::{broadcast, watch};

use suffrage_net::codec::Protocol;
use suffrage_net::transport::Transport as _;
use suffrage_net::transport::udp::Udp;
use suffrage_node::Error;
use suffrage_node::clock::BootClock;
use suffrage_node::driver::{self, Belief, Event, Handle, Settings};
use suffrage_node::storage::{DataFolder, StateFile, Storage};

/// The period of heartbeats, in delay bounds.
const HEARTBEAT_PERIOD: u64 = 3;
/// The time-out of heartbeats, in delay bounds. A wrong suspicion takes four lost heartbeats in a row, or a pause of
/// the process of that length.
const HEARTBEAT_TIMEOUT: u64 = 15;
/// With a few members, five rounds of gossip to two members each reach all.
const GOSSIP: bimodal::Options = bimodal::Options { fanout: 2, rounds: 5 };

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An algorithm with its options, which starts members of a cluster.
pub trait Runner: Send + Sync {
    /// The contract of the algorithm.
    fn contract(&self) -> &'static Contract;

    /// Checks that the algorithm with its options supports the group.
    fn check(&self, group: &Group) -> Result<(), BadParameter>;

    /// Whether the processes that are `present`, by slot, are a quorum and at least one of them may lead.
    fn can_elect(&self, roster: &Roster, present: &[bool]) -> bool;

    /// Starts the member of this transport, with the state in its data folder. Must be called within a Tokio runtime.
    fn start(&self, transport: Arc<Udp>, folder: DataFolder, group: Group) -> Result<Box<dyn Member>, Error>;
}

/// The configuration of a group, equal at all members.
#[derive(Clone, Debug)]
pub struct Group {
    /// The members, in the order of the ring.
    pub roster: Roster,
    /// The delay bound of messages.
    pub delay_bound: Span,
}

/// A running member. Dropping it stops the member like a crash.
pub trait Member: Send + Sync {
    /// The id of the member.
    fn me(&self) -> NodeId;

    /// See [`Handle::beliefs`].
    fn beliefs(&self) -> watch::Receiver<Belief>;

    /// See [`Handle::events`].
    fn events(&self) -> broadcast::Receiver<Event>;

    /// See [`Handle::command`].
    fn command(&self, command: Command) -> BoxFuture<'_, Result<(), Error>>;

    /// Stops the member without a message to its peers. Returns the error if the member had failed before.
    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;
}

/// The algorithm of that name with these settings of its parameters. None if the algorithm is unknown. The error names
/// an unknown parameter or an invalid value.
pub fn runner(name: &str, settings: &[(String, String)]) -> Option<Result<Box<dyn Runner>, String>> {
    catalog::visit(name, Make(settings))
}

struct Make<'a>(&'a [(String, String)]);

impl Visitor for Make<'_> {
    type Output = Result<Box<dyn Runner>, String>;

    fn visit<A: Algorithm>(self) -> Self::Output {
        let mut options = A::Options::default();
        for (name, value) in A::CONTRACT.under_loss {
            A::set(&mut options, name, value).expect("a contract names valid values");
        }
        for (name, value) in self.0 {
            if !A::PARAMETERS.iter().any(|parameter| parameter.name == name) {
                let known: Vec<&str> = A::PARAMETERS.iter().map(|parameter| parameter.name).collect();
                let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
                return Err(format!("{} has no parameter `{name}`; it has {known}", A::CONTRACT.name));
            }
            A::set(&mut options, name, value).map_err(|bad| format!("{}: {}", bad.name, bad.reason))?;
        }
        Ok(Box::new(AlgorithmRunner::<A>(options)))
    }
}

struct AlgorithmRunner<A: Algorithm>(A::Options);

impl<A: Algorithm> Runner for AlgorithmRunner<A> {
    fn contract(&self) -> &'static Contract {
        &A::CONTRACT
    }

    fn check(&self, group: &Group) -> Result<(), BadParameter> {
        A::check(&self.0, &group.roster)?;
        A::check_delay_bound(&self.0, group.delay_bound)
    }

    fn can_elect(&self, roster: &Roster, present: &[bool]) -> bool {
        let may_lead =
            |slot: usize| A::slot_may_lead(&self.0, slot) && A::new(roster.id(slot), &self.0).may_lead();
        let mut present_slots = (0..present.len()).filter(|&slot| present[slot]);
        A::electorate(&self.0).is_quorum(present) && present_slots.any(may_lead)
    }

    fn start(&self, transport: Arc<Udp>, folder: DataFolder, group: Group) -> Result<Box<dyn Member>, Error> {
        let name = A::CONTRACT.name;
        let Group { roster, delay_bound } = group;
        let heartbeats = heartbeat::Options {
            period: delay_bound * HEARTBEAT_PERIOD,
            timeout: delay_bound * HEARTBEAT_TIMEOUT,
        };
        let detector = (A::CONTRACT.detection == Detection::Detector).then_some(heartbeats);
        let options = layers::Options {
            detector: detector.map(detectors::Options::Heartbeat),
            multicast: (A::CONTRACT.topology == Topology::Multicast).then_some(GOSSIP),
            algorithm: self.0.clone(),
        };
        let process = <Stack<A> as Algorithm>::new(transport.local(), &options);
        let settings = Settings { roster, delay_bound, protocol: Protocol::named(name), seed: None };
        let disk = LockedStorage { file: folder.file(name), _folder: folder };
        let handle = driver::spawn(process, transport, BootClock, disk, settings)?;
        Ok(Box::new(RunningMember(handle)))
    }
}

struct RunningMember<A: Algorithm>(Handle<Stack<A>>);

impl<A: Algorithm> Member for RunningMember<A> {
    fn me(&self) -> NodeId {
        self.0.me()
    }

    fn beliefs(&self) -> watch::Receiver<Belief> {
        self.0.beliefs()
    }

    fn events(&self) -> broadcast::Receiver<Event> {
        self.0.events()
    }

    fn command(&self, command: Command) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.0.command(command))
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move { self.0.stop().await.map(drop) })
    }
}

/// The state file of a member, with the lock of its data folder.
struct LockedStorage<S> {
    file: StateFile<S>,
    _folder: DataFolder,
}

impl<S> Storage<S> for LockedStorage<S>
where
    StateFile<S>: Storage<S>,
    S: 'static,
{
    fn start(&mut self) -> Result<Start<S>, Error> {
        self.file.start()
    }
    fn save(&mut self, state: &S) -> Result<(), Error> {
        Storage::save(&mut self.file, state)
    }
    fn mark_started(&mut self) -> Result<(), Error> {
        self.file.mark_started()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_algorithms::catalog::CONTRACTS;

    fn runner_with(name: &str, settings: &[(&str, &str)]) -> Option<Result<Box<dyn Runner>, String>> {
        let settings: Vec<(String, String)> =
            settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        runner(name, &settings)
    }

    #[test]
    fn every_algorithm_supports_five_members() {
        for contract in CONTRACTS {
            let runner = runner_with(contract.name, &[]).unwrap().unwrap();
            assert_eq!(runner.contract().name, contract.name);
            let five = Roster::numbered(5);
            let group = Group { roster: five.clone(), delay_bound: Span::from_millis(10) };
            runner.check(&group).unwrap();
            assert!(runner.can_elect(&five, &[true; 5]), "{}", contract.name);
            assert!(!runner.can_elect(&five, &[false; 5]), "{}", contract.name);
        }
    }

    #[test]
    fn invalid_settings_are_named() {
        assert!(runner_with("dictatorship", &[]).is_none());
        let error = runner_with("bully", &[("reafirm", "5")]).unwrap().err().unwrap();
        assert!(error.contains("no parameter `reafirm`") && error.contains("reaffirm"), "{error}");
        let error = runner_with("bully", &[("reaffirm", "often")]).unwrap().err().unwrap();
        assert!(error.contains("reaffirm: ") && error.contains("often"), "{error}");
    }

    #[test]
    fn a_quorum_with_a_candidate_can_elect() {
        let can_elect = |name: &str, settings: &[(&str, &str)], present: &[bool]| {
            runner_with(name, settings).unwrap().unwrap().can_elect(&Roster::numbered(present.len()), present)
        };
        assert!(!can_elect("raft", &[], &[true, false]));
        assert!(can_elect("bully", &[], &[true, false]));
        let first = [("candidates", "1")];
        assert!(can_elect("candidate-ordinary", &first, &[true, false, false]));
        assert!(
            !can_elect("candidate-ordinary", &first, &[false, true, true]),
            "no present process may lead"
        );
    }
}
