//! Any algorithm of the catalog as a member of a real cluster, by its name.
//!
//! ```text
//!   Algorithm ── name, settings ──▶ dyn Runner ── start: socket, folder ──▶ dyn Member
//! ```
//!
//! A driver for each algorithm, behind its layers, is much to compile. It is compiled here, once for all programs
//! that go by names, and not at all for those that embed one algorithm (feature `catalog`).
//!
//! On a network messages are lost, so that an algorithm is set as its contract says for that; one whose contract
//! wants a failure detector gets heartbeats, and one that lives by multicasts gets those that gossip repairs.

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

/// How often a heart beats, and how long it may be silent, in delay bounds: four heartbeats are lost on end, or
/// the process stands still for that long, before anybody is wrongly suspected.
const PERIOD: u64 = 3;
const TIMEOUT: u64 = 15;
/// With a few members, five rounds of gossip to two each leave nobody out.
const GOSSIP: bimodal::Options = bimodal::Options { fanout: 2, rounds: 5 };

/// What takes a while.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An algorithm with its options, to be run as members of a cluster.
pub trait Runner: Send + Sync {
    /// What it assumes, promises and costs.
    fn contract(&self) -> &'static Contract;

    /// Whether it fits the group, with its options.
    fn check(&self, roster: &Roster) -> Result<(), BadParameter>;

    /// Whether those of a group that are `present`, by slot, are enough to elect a leader, and may be elected.
    fn suffices(&self, roster: &Roster, present: &[bool]) -> bool;

    /// Starts the member that the transport belongs to, with what it has kept in its folder. Needs a tokio runtime.
    fn start(&self, transport: Arc<Udp>, folder: DataFolder, group: Group) -> Result<Box<dyn Member>, Error>;
}

/// What every member must be told, and all the same.
#[derive(Clone, Debug)]
pub struct Group {
    /// Who they are, in the order of the ring.
    pub roster: Roster,
    /// The longest a message takes, as a rule.
    pub delay_bound: Span,
}

/// A member that runs. Dropped, it stops, as if it had crashed.
pub trait Member: Send + Sync {
    /// Who it is.
    fn me(&self) -> NodeId;

    /// See [`Handle::beliefs`].
    fn beliefs(&self) -> watch::Receiver<Belief>;

    /// See [`Handle::events`].
    fn events(&self) -> broadcast::Receiver<Event>;

    /// See [`Handle::command`].
    fn command(&self, command: Command) -> Pending<'_, Result<(), Error>>;

    /// Stops it, without a word to anybody; or tells why it had stopped before.
    fn stop(self: Box<Self>) -> Pending<'static, Result<(), Error>>;
}

/// The algorithm of that name, with its parameters set to these values; none if there is no such algorithm. The
/// error names a parameter that it does not have, or whose value does not fit.
pub fn runner(name: &str, settings: &[(String, String)]) -> Option<Result<Box<dyn Runner>, String>> {
    catalog::visit(name, Make(settings))
}

struct Make<'a>(&'a [(String, String)]);

impl Visitor for Make<'_> {
    type Output = Result<Box<dyn Runner>, String>;

    fn visit<A: Algorithm>(self) -> Self::Output {
        let mut options = A::Options::default();
        for (name, value) in A::CONTRACT.under_loss {
            A::set(&mut options, name, value).expect("what a contract says can be set");
        }
        for (name, value) in self.0 {
            if !A::PARAMETERS.iter().any(|parameter| parameter.name == name) {
                let known: Vec<&str> = A::PARAMETERS.iter().map(|parameter| parameter.name).collect();
                let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
                return Err(format!("{} has no parameter `{name}`; it has {known}", A::CONTRACT.name));
            }
            A::set(&mut options, name, value).map_err(|bad| format!("{}: {}", bad.name, bad.reason))?;
        }
        Ok(Box::new(Contestant::<A>(options)))
    }
}

struct Contestant<A: Algorithm>(A::Options);

impl<A: Algorithm> Runner for Contestant<A> {
    fn contract(&self) -> &'static Contract {
        &A::CONTRACT
    }

    fn check(&self, roster: &Roster) -> Result<(), BadParameter> {
        A::check(&self.0, roster)
    }

    fn suffices(&self, roster: &Roster, present: &[bool]) -> bool {
        let may_lead =
            |slot: usize| A::slot_may_lead(&self.0, slot) && A::new(roster.id(slot), &self.0).may_lead();
        let mut here = (0..present.len()).filter(|&slot| present[slot]);
        A::electorate(&self.0).is_quorum(present) && here.any(may_lead)
    }

    fn start(&self, transport: Arc<Udp>, folder: DataFolder, group: Group) -> Result<Box<dyn Member>, Error> {
        let name = A::CONTRACT.name;
        let Group { roster, delay_bound } = group;
        let beats = heartbeat::Options { period: delay_bound * PERIOD, timeout: delay_bound * TIMEOUT };
        let detector = (A::CONTRACT.detection == Detection::Detector).then_some(beats);
        let options = layers::Options {
            detector: detector.map(detectors::Options::Heartbeat),
            multicast: (A::CONTRACT.topology == Topology::Multicast).then_some(GOSSIP),
            algorithm: self.0.clone(),
        };
        let process = <Stack<A> as Algorithm>::new(transport.local(), &options);
        let settings = Settings { roster, delay_bound, protocol: Protocol::named(name), seed: None };
        let disk = InFolder { file: folder.file(name), _folder: folder };
        let handle = driver::spawn(process, transport, BootClock, disk, settings)?;
        Ok(Box::new(Running(handle)))
    }
}

struct Running<A: Algorithm>(Handle<Stack<A>>);

impl<A: Algorithm> Member for Running<A> {
    fn me(&self) -> NodeId {
        self.0.me()
    }

    fn beliefs(&self) -> watch::Receiver<Belief> {
        self.0.beliefs()
    }

    fn events(&self) -> broadcast::Receiver<Event> {
        self.0.events()
    }

    fn command(&self, command: Command) -> Pending<'_, Result<(), Error>> {
        Box::pin(self.0.command(command))
    }

    fn stop(self: Box<Self>) -> Pending<'static, Result<(), Error>> {
        Box::pin(async move { self.0.stop().await.map(drop) })
    }
}

/// What a member keeps, in a folder that stays locked as long as it runs.
struct InFolder<S> {
    file: StateFile<S>,
    _folder: DataFolder,
}

impl<S> Storage<S> for InFolder<S>
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

    fn set(name: &str, settings: &[(&str, &str)]) -> Option<Result<Box<dyn Runner>, String>> {
        let settings: Vec<(String, String)> =
            settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        runner(name, &settings)
    }

    #[test]
    fn every_algorithm_can_be_run_by_a_few() {
        for contract in CONTRACTS {
            let runner = set(contract.name, &[]).unwrap().unwrap();
            assert_eq!(runner.contract().name, contract.name);
            let five = Roster::numbered(5);
            runner.check(&five).unwrap();
            assert!(runner.suffices(&five, &[true; 5]), "{}", contract.name);
            assert!(!runner.suffices(&five, &[false; 5]), "{}", contract.name);
        }
    }

    #[test]
    fn what_cannot_be_set_is_said() {
        assert!(set("dictatorship", &[]).is_none());
        let error = set("bully", &[("reafirm", "5")]).unwrap().err().unwrap();
        assert!(error.contains("no parameter `reafirm`") && error.contains("reaffirm"), "{error}");
        let error = set("bully", &[("reaffirm", "often")]).unwrap().err().unwrap();
        assert!(error.contains("reaffirm: ") && error.contains("often"), "{error}");
    }

    #[test]
    fn those_who_are_left_are_enough_or_not() {
        let suffices = |name: &str, settings: &[(&str, &str)], present: &[bool]| {
            set(name, settings).unwrap().unwrap().suffices(&Roster::numbered(present.len()), present)
        };
        assert!(!suffices("raft", &[], &[true, false]));
        assert!(suffices("bully", &[], &[true, false]));
        let first = [("candidates", "1")];
        assert!(suffices("candidate-ordinary", &first, &[true, false, false]));
        assert!(!suffices("candidate-ordinary", &first, &[false, true, true]), "nobody may lead");
    }
}
