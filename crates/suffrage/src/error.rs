//! What can go wrong.

use suffrage_core::NodeId;
use suffrage_node::lease::{InvalidConfig, JoinError};

/// What can go wrong. Each says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was set cannot work.
    #[error(transparent)]
    InvalidConfig(#[from] InvalidConfig),
    /// The node stands in that election already: it has one part in each.
    #[error("this node has joined the election {0:?} already: share that `Election`")]
    Joined(String),
    /// The node takes part in too many.
    #[error("this node takes part in as many elections as it can: drop some")]
    TooMany,
    /// The node has stopped: it was told to, or its socket failed.
    #[error("the node has stopped: start another")]
    Stopped,
    /// A voter has nowhere to keep what it must not forget.
    #[error("node {0} votes, and needs a disk: give it a data folder, or say that it is to forget all")]
    NoDisk(NodeId),
    /// Nodes would not know each other.
    #[error("there is no key: give every node of the cluster the same")]
    NoKey,
    /// A command could not be run.
    #[error("cannot run the command: {0}")]
    Command(std::io::Error),
    /// The network or the disk.
    #[error(transparent)]
    Runtime(suffrage_node::Error),
}

impl From<suffrage_node::Error> for Error {
    fn from(error: suffrage_node::Error) -> Error {
        match error {
            suffrage_node::Error::InvalidConfig(unfit)
            | suffrage_node::Error::Join(JoinError::Invalid(unfit)) => Error::InvalidConfig(unfit),
            suffrage_node::Error::Join(JoinError::TooMany) => Error::TooMany,
            suffrage_node::Error::Stopped => Error::Stopped,
            other => Error::Runtime(other),
        }
    }
}

impl From<suffrage_net::Error> for Error {
    fn from(error: suffrage_net::Error) -> Error {
        Error::Runtime(error.into())
    }
}
