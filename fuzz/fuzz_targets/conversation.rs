//! `suffrage_fuzz::conversation` for cargo-fuzz.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| suffrage_fuzz::conversation(bytes));
