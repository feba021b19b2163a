//! The time to encrypt and to decrypt a datagram: `cargo bench -p suffrage-net`.
//!
//! The baseline is a hash of the same bytes, the least that reads them all. `.cargo/config.toml` selects the portable code of
//! poly1305. `RUSTFLAGS=-Csymbol-mangling-version=v0 cargo bench -p suffrage-net` measures without that.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "measures time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use suffrage_core::NodeId;
use suffrage_net::Keyring;
use suffrage_net::seal::{Boot, Seal};

/// Bytes of a payload: one message, some messages, a full datagram.
const PAYLOADS: [usize; 4] = [60, 200, 600, 1_200];
const REPETITIONS: u32 = 20_000;
const ROUNDS: usize = 7;

fn main() -> Result<(), suffrage_net::Error> {
    let keyring = Keyring::generate()?;
    let (from, to) = (NodeId(1), NodeId(2));
    let (sender, receiver) = (Seal::new(from, Boot::now()?, &keyring), Seal::new(to, Boot::now()?, &keyring));
    println!("payload     hash     encrypt  ratio     decrypt  ratio");
    for bytes in PAYLOADS {
        let payload = vec![7; bytes];
        let datagram = sender.seal(to, &payload);
        let hash = shortest(|| _ = black_box(xxhash_rust::xxh3::xxh3_64(black_box(&payload))));
        let encrypt = shortest(|| _ = black_box(sender.seal(to, black_box(&payload))));
        let decrypt = shortest(|| _ = black_box(receiver.open(black_box(&datagram)).is_ok()));
        println!(
            "{bytes:>5} B {hash:>5.0} ns {encrypt:>8.0} ns {:>6.1} {decrypt:>8.0} ns {:>6.1}",
            encrypt / hash,
            decrypt / hash
        );
    }
    Ok(())
}

/// The time of one call in nanoseconds, in the fastest of several rounds.
fn shortest(call: impl Fn()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        (0..REPETITIONS).for_each(|_| call());
        start.elapsed()
    };
    let fastest = (0..ROUNDS).map(round).min().unwrap_or(Duration::ZERO);
    fastest.as_nanos() as f64 / f64::from(REPETITIONS)
}
