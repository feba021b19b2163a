//! Failure detectors: those that the simulator plays itself, because it knows the truth, and real ones.

use std::collections::BTreeSet;

use suffrage_core::{Span, detectors};

/// How processes learn that others have failed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Detector {
    /// They do not.
    None,
    /// Silence (crash, pause or cut) is looked for a delay after it began, and its end likewise: one
    /// that is over by then goes unnoticed, and one that has begun again meanwhile is reported.
    Ideal {
        /// How long after.
        delay: Span,
    },
    /// The same, and now and then a process suspects another wrongly, for as long as the delay.
    Parametric {
        /// How long after.
        delay: Span,
        /// Wrong suspicions a process has per time unit.
        false_rate: f64,
    },
    /// A process of its own in front of the algorithm finds out by messages, and may err.
    Real(detectors::Options),
}

impl Detector {
    /// After how long the simulator itself reports a silence; none if it does not.
    pub(crate) fn delay(self) -> Option<Span> {
        match self {
            Detector::None | Detector::Real(_) => None,
            Detector::Ideal { delay } | Detector::Parametric { delay, .. } => Some(delay),
        }
    }

    /// How long a crash goes unnoticed at most, about, where nothing else goes wrong.
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

/// Who suspects whom, by slot: the observer first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suspicions(BTreeSet<(u32, u32)>);

impl Suspicions {
    /// Takes note of what the observer is to believe. True if that is news to it.
    pub(crate) fn set(&mut self, observer: usize, subject: usize, suspected: bool) -> bool {
        let pair = (observer as u32, subject as u32);
        if suspected { self.0.insert(pair) } else { self.0.remove(&pair) }
    }

    /// An observer that crashed has forgotten everything.
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
    fn only_news_is_reported() {
        let mut suspicions = Suspicions::default();
        assert!(suspicions.set(1, 2, true) && !suspicions.set(1, 2, true));
        assert!(suspicions.set(1, 2, false) && !suspicions.set(1, 2, false));
        suspicions.set(1, 2, true);
        suspicions.forget(1);
        assert!(!suspicions.set(1, 2, false));
    }
}
