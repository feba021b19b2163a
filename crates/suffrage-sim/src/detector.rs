//! Failure detectors: simulated ones, which know the true state, and real ones.

use std::collections::BTreeSet;

use suffrage_core::{Span, detectors};

/// The failure detector of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Detector {
    /// No detector.
    None,
    /// Checks for silence (crash, pause or cut) a fixed delay after its beginning, and again after its end. A silence
    /// that is over by then is not reported; one that has begun again is.
    Ideal {
        /// The delay.
        delay: Span,
    },
    /// The ideal detector with random mistakes: a process suspects another wrongly, for as long as the delay.
    Parametric {
        /// The delay.
        delay: Span,
        /// Wrong suspicions per process and time unit.
        false_rate: f64,
    },
    /// A real detector: a layer of the process that uses messages, and can make mistakes.
    Real(detectors::Options),
}

impl Detector {
    /// The delay of a simulated detector; none for the others.
    pub(crate) fn delay(self) -> Option<Span> {
        match self {
            Detector::None | Detector::Real(_) => None,
            Detector::Ideal { delay } | Detector::Parametric { delay, .. } => Some(delay),
        }
    }

    /// About the longest detection time of a crash, without other faults.
    pub(crate) fn max_detection_time(self, delay_bound: Span) -> Span {
        match self {
            Detector::Real(options) => options.max_detection_time(delay_bound),
            _ => self.delay().unwrap_or(Span::ZERO),
        }
    }

    pub(crate) fn false_rate(self) -> f64 {
        match self {
            Detector::Parametric { false_rate, .. } => false_rate,
            _ => 0.0,
        }
    }

    pub(crate) fn without_mistakes(self) -> Detector {
        match self {
            Detector::Parametric { delay, .. } => Detector::Ideal { delay },
            _ => self,
        }
    }
}

/// The pairs of observer and suspected process, by slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suspicions(BTreeSet<(u32, u32)>);

impl Suspicions {
    /// Sets whether the observer suspects the subject. True if this is a change.
    pub(crate) fn set(&mut self, observer: usize, subject: usize, suspected: bool) -> bool {
        let pair = (observer as u32, subject as u32);
        if suspected { self.0.insert(pair) } else { self.0.remove(&pair) }
    }

    /// Removes the suspicions of an observer that crashed.
    pub(crate) fn forget(&mut self, observer: usize) {
        let observer = observer as u32;
        let pairs: Vec<_> = self.0.range((observer, 0)..=(observer, u32::MAX)).copied().collect();
        for pair in pairs {
            self.0.remove(&pair);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heal_all_ends_the_wrong_suspicions_of_the_simulator() {
        for (before, after) in
            [("none", "none"), ("ideal:2", "ideal:2"), ("parametric:2,0.1", "ideal:2"), ("phi:8", "phi:8")]
        {
            assert_eq!(before.parse::<Detector>().unwrap().without_mistakes().to_string(), after);
        }
    }

    #[test]
    fn only_changes_are_reported() {
        let mut suspicions = Suspicions::default();
        assert!(suspicions.set(1, 2, true) && !suspicions.set(1, 2, true));
        assert!(suspicions.set(1, 2, false) && !suspicions.set(1, 2, false));
        suspicions.set(1, 2, true);
        suspicions.forget(1);
        assert!(!suspicions.set(1, 2, false));
    }
}
