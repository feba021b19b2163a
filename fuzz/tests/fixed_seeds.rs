//! The fuzz targets with random bytes of fixed seeds, as ordinary tests.

use std::cell::Cell;
use std::panic::catch_unwind;

use suffrage_algorithms::catalog::CONTRACTS;
use suffrage_algorithms::quorum_lease::{Options, QuorumLease};
use suffrage_core::Rng;
use suffrage_lease::Bug;

/// Prints the target and the seed if the case fails.
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

/// Calls the target with bytes of many lengths and kinds: uniform bytes, and small numbers, which are frequent in
/// messages.
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

/// Bytes of a conversation without forged messages.
fn without_forgery(bytes: &[u8]) -> Vec<u8> {
    [&[0], bytes].concat()
}

/// Longer conversations of the default options, with a minimum number of leaderships.
#[test]
fn conversations_of_quorum_lease() {
    let leaderships = Cell::new(0);
    run("quorum-lease", 0..4_000, 2_000, |bytes| {
        leaderships.set(
            leaderships.get()
                + suffrage_fuzz::converse::<QuorumLease>(&Options::default(), &without_forgery(bytes)),
        );
    });
    assert!(leaderships.get() > 4_000, "{}", leaderships.get());
}

/// Some of the same conversations find these deliberate bugs. (Other bugs need longer conversations.)
#[test]
fn bugs_of_quorum_lease_are_found() {
    for bug in [Bug::SkipSilence, Bug::ForgetCeiling, Bug::TrustEmptyDisk] {
        let options = Options { bug: Some(bug), ..Options::default() };
        let found = Cell::new(0);
        run("quorum-lease", 0..4_000, 2_000, |bytes| {
            let conversation = || suffrage_fuzz::converse::<QuorumLease>(&options, &without_forgery(bytes));
            found.set(found.get() + usize::from(catch_unwind(conversation).is_err()));
        });
        println!("{bug:?} is found in {} of 4,000 conversations", found.get());
        assert!(found.get() > 0, "{bug:?}");
    }
}
