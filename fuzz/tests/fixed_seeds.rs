//! The fuzz targets on random bytes of fixed seeds, so that they are run wherever tests are.

use std::cell::Cell;
use std::panic::catch_unwind;

use suffrage_algorithms::catalog::CONTRACTS;
use suffrage_core::Rng;
use suffrage_lease::{Bug, Options, QuorumLease};

/// Says which case it was, if it fails.
struct Case<'a> {
    target: &'a str,
    seed: u64,
}

impl Drop for Case<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} failed with seed {}", self.target, self.seed);
        }
    }
}

/// Calls the target with bytes of many lengths and kinds: noise, and runs of small numbers, of which
/// messages mostly consist.
fn run(target: &str, seeds: std::ops::Range<u64>, longest: u64, check: impl Fn(&[u8])) {
    for seed in seeds {
        let _case = Case { target, seed };
        let mut rng = Rng::new(seed);
        let length = rng.below(longest + 1);
        let small = rng.below(3);
        let byte = |rng: &mut Rng| match small {
            0 => rng.bits() as u8,
            1 => rng.below(8) as u8,
            _ => (rng.bits() as u8) >> rng.below(8),
        };
        let bytes: Vec<u8> = (0..length).map(|_| byte(&mut rng)).collect();
        check(&bytes);
    }
}

#[test]
fn datagrams() {
    run("datagram", 0..3_000, 300, suffrage_fuzz::datagram);
    run("datagram", 0..20, 60_000, suffrage_fuzz::datagram);
}

#[test]
fn envelopes() {
    run("envelope", 0..30_000, 80, suffrage_fuzz::envelope);
}

#[test]
fn conversations() {
    for contract in CONTRACTS {
        run(contract.name, 0..400, 600, |bytes| suffrage_fuzz::conversation_of(contract.name, bytes));
    }
}

/// Bytes that make a conversation in which nothing is forged.
fn honest(bytes: &[u8]) -> Vec<u8> {
    [&[0], bytes].concat()
}

/// The production default, for longer; and it is not for want of elections that nothing is found.
#[test]
fn conversations_of_quorum_lease() {
    let elected = Cell::new(0);
    run("quorum-lease", 0..4_000, 2_000, |bytes| {
        elected
            .set(elected.get() + suffrage_fuzz::converse::<QuorumLease>(&Options::default(), &honest(bytes)));
    });
    assert!(elected.get() > 4_000, "{}", elected.get());
}

/// With a mistake in it, some of the same conversations end badly. (The other mistakes take longer to show.)
#[test]
fn mistakes_of_quorum_lease_are_found() {
    for bug in [Bug::SkipSilence, Bug::ValidityFromReply, Bug::ForgetCeiling, Bug::TrustEmptyDisk] {
        let options = Options { bug: Some(bug), ..Options::default() };
        let found = Cell::new(0);
        run("quorum-lease", 0..4_000, 2_000, |bytes| {
            let conversation = || suffrage_fuzz::converse::<QuorumLease>(&options, &honest(bytes));
            found.set(found.get() + usize::from(catch_unwind(conversation).is_err()));
        });
        println!("{bug:?} shows in {} of 4,000 conversations", found.get());
        assert!(found.get() > 0, "{bug:?}");
    }
}
