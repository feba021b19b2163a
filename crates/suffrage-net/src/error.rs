//! What can go wrong between nodes, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// What can go wrong between nodes. Each says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
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
    /// The network refused.
    #[error("cannot {doing}: {source}")]
    Network {
        /// What was to be done.
        doing: String,
        /// Why not.
        source: io::Error,
    },
    /// Others can read the keys.
    #[error("{} can be read by others (mode {mode:03o}): run `chmod 600` on it, and make a new key if \
             somebody may have", path.display())]
    KeysExposed {
        /// Which file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A key file does not read as one.
    #[error("{} line {line}: {reason}", path.display())]
    KeyFile {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong. Never says what stands there.
        reason: &'static str,
    },
    /// No key at all.
    #[error("there is no key: make one with `suffrage keygen`")]
    NoKey,
    /// More keys than any rotation needs.
    #[error("{count} keys are too many: {most} will do, so remove those that no node seals with any more")]
    TooManyKeys {
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// A datagram size that cannot be.
    #[error("datagrams of {size} bytes cannot be: choose from {least} to {most}; 1200 goes anywhere")]
    DatagramSize {
        /// What was asked for.
        size: usize,
        /// The least.
        least: usize,
        /// The most.
        most: usize,
    },
    /// The operating system has no randomness to give.
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
}

impl Error {
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::File { doing, path, source }
    }
}
