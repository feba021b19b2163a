//! Errors of a node.

use std::io;
use std::path::{Path, PathBuf};

use suffrage_core::NodeId;

/// An error of a node. Every message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data folder belongs to a voter of another list of voters.
    #[error(
        "the data folder is that of a voter of a cluster with the voters {stored}, and the configuration has {given}: \
         correct `voters`"
    )]
    OtherVoters {
        /// The stored voters.
        stored: String,
        /// The configured voters.
        given: String,
    },
    /// The node has not heard of any voter of its cluster.
    #[error("this node has not heard of any voter of its cluster yet: ask another node")]
    UnknownCluster,
    /// The data folder belongs to a cluster with another bound on drift.
    #[error("the cluster has a drift of {stored}, and the configuration has {given}: correct `drift`")]
    OtherDrift {
        /// The stored bound.
        stored: suffrage_lease::Drift,
        /// The configured bound.
        given: suffrage_lease::Drift,
    },
    /// The transport or the keyring failed.
    #[error(transparent)]
    Net(#[from] suffrage_net::Error),
    /// A system call failed.
    #[error("cannot {doing}: {source}")]
    System {
        /// The attempted action.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The operating system has no source of random numbers.
    #[error("the system has no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// A file could not be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// The attempted action.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A credential file of HTTP is not usable: the token, the certificate or its key.
    #[error("{} {reason}", path.display())]
    Credential {
        /// The file.
        path: PathBuf,
        /// The problem. Never contains the content of the file.
        reason: String,
    },
    /// A file or folder that the configuration names is not usable.
    #[error("{0}")]
    Configured(crate::config::Problem),
    /// The address of a voter is malformed, or the own address of this node cannot be resolved.
    #[error("cannot resolve {0}: correct `voters` or the name service, or set the address to listen on")]
    Unresolved(String),
    /// The data folder contains no state of a node.
    #[error("{} is not the data folder of a node: check the path and the mounts. Only for a node that has never been \
             started: use --new once, or --init before (in a program: `new_data`)", path.display())]
    NoNode {
        /// The folder.
        path: PathBuf,
    },
    /// The data folder contains the state of a node already.
    #[error("{} is the data folder of a node already: start without --new or --init (in a program: use `data`)",
            path.display())]
    NodeExists {
        /// The folder.
        path: PathBuf,
    },
    /// The data folder belongs to another node.
    #[error("{} is the data folder of node {found}, but this is node {expected}: correct the id or the folder",
            path.display())]
    AnotherNode {
        /// The folder.
        path: PathBuf,
        /// The node of the folder.
        found: NodeId,
        /// The node that was to be started.
        expected: NodeId,
    },
    /// Another process uses the data folder.
    #[error("{} is in use by another process: stop that process first", path.display())]
    FolderInUse {
        /// The folder.
        path: PathBuf,
    },
    /// A state file is damaged.
    #[error("{} is damaged: {reason}. The file is unchanged. Restore it if you have its latest version; otherwise remove \
             it: the node then knows that it has lost its state, and does not vote", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        reason: String,
    },
    /// A state file was written by another version.
    #[error("{} has format {found}, but this program reads format {known}: run the version that wrote the file",
            path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
        /// The format that this program reads.
        known: u32,
    },
    /// The state of the node's voter is older than one that other nodes have seen.
    #[error(
        "the state of this voter is older than the state that other nodes have seen of it: the data folder was restored \
         from a backup or a snapshot. The voter has forgotten promises, and must not vote with this state. The state was \
         set aside. Start the node again: it takes part without a vote. Then replace the voter: `suffrage voters --help`"
    )]
    OutdatedState,
    /// The node is not a member of the group.
    #[error("node {0} is not a member of the group: add it to the group")]
    NotAMember(NodeId),
    /// The configuration is not valid.
    #[error(transparent)]
    InvalidConfig(#[from] crate::lease::InvalidConfig),
    /// The node cannot join an election.
    #[error(transparent)]
    Join(#[from] crate::lease::JoinError),
    /// The clients of a daemon use the greatest number of elections.
    #[error("the clients of this node use {0} elections, the greatest number: use another node")]
    TooManyElections(usize),
    /// No candidate waits at the node to which an election was to be handed over.
    #[error(
        "no candidate waits at node {to}; {}. Start a candidate there, or resign, and the next one leads",
        waiting(candidates)
    )]
    NotWaiting {
        /// The node.
        to: NodeId,
        /// The nodes with candidates that wait, in the order in which they lead.
        candidates: Vec<NodeId>,
    },
    /// The node does not know whether a candidate waits at the node to which an election was to be handed over.
    #[error(
        "node {me} does not vote now, so it does not know whether a candidate waits at node {to}: resign instead, \
             and the next candidate leads"
    )]
    UnknownQueue {
        /// This node.
        me: NodeId,
        /// The node to which the election was to be handed over.
        to: NodeId,
    },
    /// The node of this machine cannot be reached over its socket, or cannot answer now.
    #[error("cannot reach a node at the socket {}: {source}: start the node (`socket` in its configuration), or correct \
             the path", path.display())]
    Unreachable {
        /// The path of the socket.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The node of this machine has refused a request of this program, and would refuse it again.
    #[error("the node at the socket {} has refused: {reason}", path.display())]
    RefusedByNode {
        /// The path of the socket.
        path: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
    /// The node has failed.
    #[error("the node has stopped: {0}")]
    Failed(String),
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}

fn waiting(candidates: &[NodeId]) -> String {
    if candidates.is_empty() {
        return "no candidate is waiting at any node".to_string();
    }
    let ids: Vec<String> = candidates.iter().map(NodeId::to_string).collect();
    format!("candidates are waiting: {}", ids.join(", "))
}

impl Error {
    /// Whether a file could not be written because the disk, or the quota of the user, is full.
    pub fn is_disk_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Error::File { source, .. } if matches!(source.kind(), QuotaExceeded | StorageFull))
    }

    /// An error about a file, for an attempted action.
    pub fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::File { doing, path, source }
    }
}
