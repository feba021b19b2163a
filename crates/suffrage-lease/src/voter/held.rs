//! The grant of an election, as a voter stores it.

use suffrage_core::{Attribute, NodeId};

use crate::message::{Boot, Grant, Token};
use crate::value::ValueVersion;

/// A grant without the version of the holder's value, which most holders do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StoredGrant {
    token: Token,
    holder: NodeId,
    boot: Boot,
    attribute: Attribute,
}

impl From<Grant> for StoredGrant {
    fn from(Grant { token, holder, boot, attribute, .. }: Grant) -> StoredGrant {
        StoredGrant { token, holder, boot, attribute }
    }
}

impl StoredGrant {
    pub(super) fn with(self, value: ValueVersion) -> Grant {
        let StoredGrant { token, holder, boot, attribute } = self;
        Grant { token, holder, boot, attribute, value }
    }

    /// The holder, and the token of its lease.
    pub(super) fn lease(self) -> (NodeId, Boot, Token) {
        (self.holder, self.boot, self.token)
    }
}
