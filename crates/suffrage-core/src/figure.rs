//! What a run of one algorithm is measured by, besides what every algorithm is.

use std::borrow::Cow;

use crate::NodeId;

/// A process as a run has left it.
#[derive(Debug)]
pub struct Member<'a, A> {
    /// Which one.
    pub id: NodeId,
    /// Whether it lives.
    pub up: bool,
    /// Whom it believes to lead.
    pub leader: Option<NodeId>,
    /// Its state; for a dead one, the last before it died.
    pub process: &'a A,
}

/// Something measured in a run. One that a run does not have is left out of the mean over runs: where
/// nothing was counted, say zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What is measured, in a few words.
    pub name: Cow<'static, str>,
    /// What came out.
    pub value: Value,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Whether it was so: over many runs, a share of them.
    Share(bool),
    /// How much it was: over many runs, a mean.
    Amount(f64),
}

impl Figure {
    /// Whether something was so.
    pub fn share(name: impl Into<Cow<'static, str>>, held: bool) -> Figure {
        Figure { name: name.into(), value: Value::Share(held) }
    }

    /// How much something was.
    pub fn amount(name: impl Into<Cow<'static, str>>, amount: f64) -> Figure {
        Figure { name: name.into(), value: Value::Amount(amount) }
    }
}
