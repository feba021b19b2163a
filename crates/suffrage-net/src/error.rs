//! Errors of the communication between nodes.

use std::io;
use std::path::{Path, PathBuf};

/// An error of the communication between nodes. Each message says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// The failed operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A network operation failed.
    #[error("cannot {doing}: {source}")]
    Network {
        /// The failed operation.
        doing: String,
        /// The cause.
        source: io::Error,
    },
    /// Other users can read the key file.
    #[error("{} can be read by others (mode {mode:03o}): run `chmod 600` on it, and rotate the key if \
             another user may have read it", path.display())]
    KeysExposed {
        /// The file.
        path: PathBuf,
        /// The permissions of the file.
        mode: u32,
    },
    /// A key file is malformed.
    #[error("{} line {line}: {reason}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The reason. It never contains the text of the line.
        reason: &'static str,
    },
    /// The keyring has no key.
    #[error("there is no key: make one with `suffrage keygen`")]
    NoKey,
    /// The keyring has more keys than a rotation needs.
    #[error(
        "{count} keys are too many, the maximum is {most}: remove the keys that no node seals with any more"
    )]
    TooManyKeys {
        /// The number of keys.
        count: usize,
        /// The maximum.
        most: usize,
    },
    /// A datagram size is out of range.
    #[error(
        "a datagram size of {size} bytes is invalid: choose from {least} to {most}; 1200 is safe on every network"
    )]
    DatagramSize {
        /// The requested size in bytes.
        size: usize,
        /// The minimum.
        least: usize,
        /// The maximum.
        most: usize,
    },
    /// The operating system returned no random numbers.
    #[error("the operating system returned no random numbers: {0}")]
    Random(#[from] getrandom::Error),
}

impl Error {
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::File { doing, path, source }
    }
}
