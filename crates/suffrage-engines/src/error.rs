//! Errors of engines.

/// The reason why an engine cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL is not that of an engine.
    #[error("{0}")]
    InvalidUrl(String),
    /// The engine cannot do what was asked for. `suffrage engines` shows what it can do.
    #[error("{engine} {cannot}")]
    Unsupported {
        /// The name of the engine.
        engine: &'static str,
        /// What it cannot do: "cannot rank candidates".
        cannot: String,
    },
    /// The engine has refused, and would refuse again: wrong credentials, a missing permission, an entry of another
    /// recipe.
    #[error("{engine}: {reason}")]
    Refused {
        /// The name of the engine.
        engine: &'static str,
        /// What the engine says, and what to do.
        reason: String,
    },
    /// The engine does not answer, or cannot answer now. The same request may succeed later.
    #[error("{engine} cannot be reached: {reason}")]
    Unavailable {
        /// The name of the engine.
        engine: &'static str,
        /// What has failed.
        reason: String,
    },
    /// The entry of a candidate at the engine has ended: it was deleted, or its session has expired.
    #[error("{engine}: {reason}")]
    Ended {
        /// The name of the engine.
        engine: &'static str,
        /// How it ended: "the session has expired".
        reason: String,
    },
}

impl Error {
    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Error::Unavailable { .. } | Error::Ended { .. })
    }
}
