//! Composition of an algorithm with a failure detector and a multicast.

use super::Watched;
use crate::detectors::{self, Any};
use crate::multicast::bimodal::{self, Bimodal};
use crate::{
    Algorithm, BadParameter, Contract, Electorate, Figure, Leases, Member, NodeId, Parameter, Roster, Span,
};

/// An algorithm with any detector and any multicast: one type for all combinations.
pub type Stack<A> = Watched<Any, Bimodal<A>>;

/// Options of the detector, the multicast and the algorithm.
#[derive(Clone, Debug, Default)]
pub struct Options<O> {
    /// The failure detector; `None` runs without a detector.
    pub detector: Option<detectors::Options>,
    /// The multicast protocol; `None` uses the multicast of the driver.
    pub multicast: Option<bimodal::Options>,
    /// The options of the algorithm.
    pub algorithm: O,
}

/// The contract of a stack is the contract of its algorithm. The layers provide what the contract assumes, or
/// improve on it.
/// The member without its layers.
fn inner<A: Algorithm>(Member { id, up, leader, process }: Member<'_, Stack<A>>) -> Member<'_, A> {
    Member { id, up, leader, process: process.algorithm().algorithm() }
}

impl<A: Algorithm> Algorithm for Stack<A> {
    const CONTRACT: Contract = A::CONTRACT;

    type Options = Options<A::Options>;

    const PARAMETERS: &'static [Parameter<Self::Options>] = &[];

    fn new(me: NodeId, options: &Self::Options) -> Self {
        let algorithm = Bimodal::new(options.multicast, A::new(me, &options.algorithm));
        Watched::new(Any::new(options.detector), algorithm)
    }

    fn may_lead(&self) -> bool {
        self.algorithm().algorithm().may_lead()
    }

    fn slot_may_lead(options: &Self::Options, slot: usize) -> bool {
        A::slot_may_lead(&options.algorithm, slot)
    }

    fn members(options: &Self::Options) -> Option<usize> {
        A::members(&options.algorithm)
    }

    fn elections(options: &Self::Options) -> usize {
        A::elections(&options.algorithm)
    }

    fn leases(options: &Self::Options) -> Option<Leases> {
        A::leases(&options.algorithm)
    }

    fn electorate(options: &Self::Options) -> Electorate {
        A::electorate(&options.algorithm)
    }

    fn figures(options: &Self::Options, members: &mut dyn Iterator<Item = Member<'_, Self>>) -> Vec<Figure> {
        A::figures(&options.algorithm, &mut members.map(inner))
    }

    fn broken_promise(
        options: &Self::Options,
        members: &mut dyn Iterator<Item = Member<'_, Self>>,
        delay: Span,
        connected: &dyn Fn(NodeId, NodeId) -> bool,
    ) -> Option<String> {
        A::broken_promise(&options.algorithm, &mut members.map(inner), delay, connected)
    }

    fn check(options: &Self::Options, roster: &Roster) -> Result<(), BadParameter> {
        A::check(&options.algorithm, roster)
    }

    fn check_delay_bound(options: &Self::Options, bound: Span) -> Result<(), BadParameter> {
        A::check_delay_bound(&options.algorithm, bound)
    }
}
