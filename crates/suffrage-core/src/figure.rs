//! Metrics of a run that only one algorithm has.

use std::borrow::Cow;

use crate::NodeId;

/// The final state of a process after a run.
#[derive(Debug)]
pub struct Member<'a, A> {
    /// The id of the process.
    pub id: NodeId,
    /// True if the process is alive.
    pub up: bool,
    /// The leader that the process believes in.
    pub leader: Option<NodeId>,
    /// The state of the process; for a crashed process, the last state before the crash.
    pub process: &'a A,
}

/// A metric of a run. The mean over runs leaves out the runs that do not report the metric: a run that counted
/// nothing must report zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The name of the metric, in snake_case.
    pub name: Cow<'static, str>,
    /// The value of the metric.
    pub value: Value,
}

/// The value of a [`Figure`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A yes or no. Many runs are summarised by the share of yes.
    Share(bool),
    /// A number. Many runs are summarised by the mean.
    Amount(f64),
}

impl Figure {
    /// A metric that is yes or no.
    pub fn share(name: impl Into<Cow<'static, str>>, held: bool) -> Figure {
        Figure { name: name.into(), value: Value::Share(held) }
    }

    /// A metric that is a number.
    pub fn amount(name: impl Into<Cow<'static, str>>, amount: f64) -> Figure {
        Figure { name: name.into(), value: Value::Amount(amount) }
    }
}
