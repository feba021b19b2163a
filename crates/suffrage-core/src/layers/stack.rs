//! An algorithm behind whichever detector and multicast are wanted.

use super::Watched;
use crate::detectors::{self, Any};
use crate::multicast::bimodal::{self, Bimodal};
use crate::{
    Algorithm, BadParameter, Contract, Electorate, Figure, Leases, Member, NodeId, Parameter, Roster,
};

/// An algorithm behind whichever detector and multicast are wanted: one type for all of them.
pub type Stack<A> = Watched<Any, Bimodal<A>>;

/// What stands in front of an algorithm, and the algorithm's own options.
#[derive(Clone, Debug, Default)]
pub struct Options<O> {
    /// The detector, if one is wanted.
    pub detector: Option<detectors::Options>,
    /// The multicast, if not the world's own.
    pub multicast: Option<bimodal::Options>,
    /// The algorithm's.
    pub algorithm: O,
}

/// The contract is the algorithm's: layers are what it assumes, or does better with.
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

    fn may_stand(options: &Self::Options, slot: usize) -> bool {
        A::may_stand(&options.algorithm, slot)
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
        let inner = |Member { id, up, leader, process }| {
            let stack: &Self = process;
            Member { id, up, leader, process: stack.algorithm().algorithm() }
        };
        A::figures(&options.algorithm, &mut members.map(inner))
    }

    fn check(options: &Self::Options, roster: &Roster) -> Result<(), BadParameter> {
        A::check(&options.algorithm, roster)
    }
}
