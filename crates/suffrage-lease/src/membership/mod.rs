//! Changing the voters of a cluster while elections go on.
//!
//! Every message carries the [`Stamp`] of its sender's configuration. The voters of a version choose the next one
//! ([`Acceptor`], [`Coordinator`]). `docs/quorum-lease.md` argues why that is safe.

mod acceptor;
mod configuration;
mod coordinator;
mod message;

pub use self::acceptor::Acceptor;
pub use self::configuration::{
    ClusterId, Configuration, DiskId, InvalidConfiguration, LONGEST_ADDRESS, Stamp, VoterEntry,
};
pub use self::coordinator::{
    Change, ChangeProgress, Coordinator, Effects as CoordinatorEffects, ImpossibleChange,
};
pub use self::message::{Ballot, ChangeRefusal, Identity, MembershipMessage};
