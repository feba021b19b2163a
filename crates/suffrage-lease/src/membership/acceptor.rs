//! A voter's part in the choice of the next configuration: the acceptor of single-decree Paxos.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::configuration::Configuration;
use super::message::Ballot;

/// The state of an acceptor. It is on disk before the voter answers, and is cleared when the voter installs the next
/// version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Acceptor {
    promised: Option<Ballot>,
    accepted: Option<(Ballot, Arc<Configuration>)>,
}

impl Acceptor {
    /// The ballot and the configuration that were accepted last.
    pub fn accepted(&self) -> Option<&(Ballot, Arc<Configuration>)> {
        self.accepted.as_ref()
    }

    /// Promises to take part in no smaller ballot; or returns the greater one that was promised.
    pub fn promise(&mut self, ballot: Ballot) -> Result<(), Ballot> {
        match self.promised {
            Some(promised) if promised > ballot => Err(promised),
            _ => {
                self.promised = Some(ballot);
                Ok(())
            }
        }
    }

    /// Accepts a configuration; or returns the greater ballot that was promised.
    pub fn accept(&mut self, ballot: Ballot, next: Arc<Configuration>) -> Result<(), Ballot> {
        self.promise(ballot)?;
        self.accepted = Some((ballot, next));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_core::NodeId;

    fn ballot(counter: u64, coordinator: u64) -> Ballot {
        Ballot { counter, coordinator: NodeId(coordinator), boot: 0 }
    }

    #[test]
    fn a_promise_excludes_smaller_ballots() {
        let founding = Configuration::founding([(NodeId(1), String::new())], "1%".parse().unwrap()).unwrap();
        let next = |floor| Arc::new(founding.successor(founding.voters().to_vec(), floor));
        let mut acceptor = Acceptor::default();
        assert_eq!(acceptor.promise(ballot(2, 1)), Ok(()));
        assert_eq!(acceptor.promise(ballot(2, 1)), Ok(()), "a repeated question has the same answer");
        assert_eq!(acceptor.accept(ballot(1, 9), next(1)), Err(ballot(2, 1)));
        assert_eq!(acceptor.accepted(), None);
        assert_eq!(acceptor.accept(ballot(2, 1), next(2)), Ok(()));
        assert_eq!(
            acceptor.accept(ballot(2, 2), next(3)),
            Ok(()),
            "of equal counters, the greater coordinator"
        );
        assert_eq!(acceptor.promise(ballot(2, 1)), Err(ballot(2, 2)));
        assert_eq!(acceptor.accepted(), Some(&(ballot(2, 2), next(3))));
    }
}
