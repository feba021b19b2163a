//! What can go wrong at a node, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use suffrage_core::NodeId;

/// What can go wrong at a node. Each says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The transport or the keyring refused.
    #[error(transparent)]
    Net(#[from] suffrage_net::Error),
    /// The operating system refused.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was to be done.
        doing: String,
        /// Why not.
        source: io::Error,
    },
    /// The operating system has no randomness to give.
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// A file could not be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was to be done.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file by which HTTP is protected is not as it should be: the token, the certificate or its key.
    #[error("{} {reason}", path.display())]
    Credential {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it. Never says what stands there.
        reason: String,
    },
    /// A file or folder that the configuration names is not as it should be: said with where it is named.
    #[error("{0}")]
    Configured(crate::config::Problem),
    /// A voter cannot be reached by what it is called.
    #[error("{0}: correct `voters`, or whatever gives names their addresses")]
    Unresolved(String),
    /// The data folder holds no node's state.
    #[error("{} is not the data folder of a node: is it the right disk? Only if this node has never \
             been started, say --new, once, or --init beforehand (in a program: `new_data`)", path.display())]
    NoNode {
        /// Which folder.
        path: PathBuf,
    },
    /// The data folder holds a node's state already.
    #[error("{} is the data folder of a node already: start without --new or --init (in a program: with \
             `data`)", path.display())]
    NodeExists {
        /// Which folder.
        path: PathBuf,
    },
    /// The data folder is another node's.
    #[error("{} is the data folder of node {found}, and this is node {expected}: correct the id or the folder",
            path.display())]
    AnotherNode {
        /// Which folder.
        path: PathBuf,
        /// Whose it is.
        found: NodeId,
        /// Whose it was to be.
        expected: NodeId,
    },
    /// Another process has the data folder.
    #[error("{} is in use by another process: stop that one first", path.display())]
    FolderInUse {
        /// Which folder.
        path: PathBuf,
    },
    /// A state file is not as it was written.
    #[error("{} is damaged: {reason}. It is left as it is. Restore it if you know it to be the latest; \
             otherwise remove it: the node then knows that it has lost its state, and makes no promises that \
             rest on it", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A state file was written by another version.
    #[error("{} is of format {found}, and this program reads format {known}: run the version that wrote it",
            path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// Which format it has.
        found: u32,
        /// Which one is known.
        known: u32,
    },
    /// The node stands in no place of the group.
    #[error("node {0} is not a member of the group: list it")]
    NotAMember(NodeId),
    /// What is set cannot work.
    #[error(transparent)]
    InvalidConfig(#[from] crate::lease::InvalidConfig),
    /// The node does not take part in an election.
    #[error(transparent)]
    Join(#[from] crate::lease::JoinError),
    /// Clients of a daemon take part in too many elections.
    #[error("{0} elections are in use at this node, and no more fit: use another node")]
    TooManyElections(usize),
    /// The node has stopped by itself.
    #[error("the node has stopped: {0}")]
    Failed(String),
    /// The driver is gone.
    #[error("the node has stopped")]
    Stopped,
}

impl Error {
    /// An error about a file, from what was to be done with it.
    pub fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::File { doing, path, source }
    }
}
