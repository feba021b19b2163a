//! Errors of the crate.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use suffrage_core::NodeId;
use suffrage_lease::{InvalidConfig, JoinError};
use suffrage_node::config::{Origin, Problem, Problems};

/// An error of a node or an election. Every message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting of the node or of the election is out of range, or settings contradict each other.
    #[error("{0}")]
    InvalidConfig(String),
    /// The configuration file cannot be read or contains errors.
    #[error(transparent)]
    ConfigFile(ConfigFileError),
    /// The node has joined this election already. A node joins each election at most once.
    #[error("this node has already joined the election {0:?}: clone that `Election` instead")]
    AlreadyJoined(String),
    /// The node takes part in the greatest number of elections.
    #[error("this node takes part in the greatest number of elections: leave one first")]
    TooManyElections,
    /// The node has stopped, on request or because its socket failed.
    #[error("the node has stopped: start another one")]
    Stopped,
    /// The node votes but has no storage.
    #[error("node {0} is a voter without storage: set `data`, or `in_memory` in tests")]
    NoStorage(NodeId),
    /// The node has no key.
    #[error("the node has no key: set `key` to the key of the cluster")]
    NoKey,
    /// A key or a key file is not usable.
    #[error(transparent)]
    Keys(Box<dyn StdError + Send + Sync>),
    /// No candidate waits at the node to which an election was to be handed over, or this node does not vote and so does
    /// not know that. Nothing has changed.
    #[error(transparent)]
    CannotTransfer(Box<dyn StdError + Send + Sync>),
    /// The command of a supervisor cannot be run.
    #[error("cannot run the command: {0}")]
    Command(io::Error),
    /// The data folder cannot be used.
    #[error(transparent)]
    Storage(Box<dyn StdError + Send + Sync>),
    /// The network cannot be used.
    #[error(transparent)]
    Network(Box<dyn StdError + Send + Sync>),
    /// The node of this machine cannot be reached: see [`Cluster`](crate::Cluster).
    #[error(transparent)]
    Unreachable(Box<dyn StdError + Send + Sync>),
    /// The node of this machine has refused what this program asks for.
    #[error(transparent)]
    Refused(Box<dyn StdError + Send + Sync>),
    /// An engine cannot be used.
    #[error(transparent)]
    Engine(#[from] crate::engines::Error),
}

impl Error {
    pub(crate) fn invalid(invalid: &InvalidConfig) -> Error {
        Error::InvalidConfig(invalid.to_string())
    }

    pub(crate) fn keys(error: suffrage_net::Error) -> Error {
        Error::Keys(Box::new(error))
    }

    pub(crate) fn network(error: impl StdError + Send + Sync + 'static) -> Error {
        Error::Network(Box::new(error))
    }

    pub(crate) fn from_node(error: suffrage_node::Error) -> Error {
        use suffrage_node::Error as NodeError;
        match error {
            NodeError::InvalidConfig(invalid) | NodeError::Join(JoinError::Invalid(invalid)) => {
                Error::invalid(&invalid)
            }
            NodeError::Join(JoinError::TooMany) => Error::TooManyElections,
            NodeError::Stopped => Error::Stopped,
            transfer @ (NodeError::NotWaiting { .. } | NodeError::UnknownQueue { .. }) => {
                Error::CannotTransfer(Box::new(transfer))
            }
            NodeError::Configured(problem) => {
                Error::ConfigFile(ConfigFileError::new(Problems(vec![problem])))
            }
            unreachable @ NodeError::Unreachable { .. } => Error::Unreachable(Box::new(unreachable)),
            refused @ NodeError::RefusedByNode { .. } => Error::Refused(Box::new(refused)),
            network @ (NodeError::Net(_) | NodeError::Unresolved(_)) => Error::Network(Box::new(network)),
            other => Error::Storage(Box::new(other)),
        }
    }
}

/// The errors of a configuration file, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFileError {
    problems: Vec<ConfigProblem>,
}

impl ConfigFileError {
    /// The errors, in the order of the file.
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

/// One error of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigProblem {
    /// The file and the line, as `suffrage.toml:3`. Only `configuration` for a key that is missing.
    pub location: String,
    /// The key. Empty if the file as a whole cannot be read.
    pub key: String,
    /// The error, the value, and what to do.
    pub reason: String,
}

impl ConfigFileError {
    pub(crate) fn new(Problems(problems): Problems) -> ConfigFileError {
        let problem = |Problem { origin, key, reason, .. }: Problem| {
            // A flag names its key itself.
            let key = if matches!(origin, Origin::Flag(_)) { String::new() } else { key };
            ConfigProblem { location: origin.to_string(), key, reason }
        };
        ConfigFileError { problems: problems.into_iter().map(problem).collect() }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigProblem { location, key, reason } = self;
        if key.is_empty() {
            write!(f, "{location}: {reason}")
        } else {
            write!(f, "{location}: {key}: {reason}")
        }
    }
}

impl fmt::Display for ConfigFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.problems.iter().map(ConfigProblem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl StdError for ConfigFileError {}
