//! Passes `node.ld` to the linker of a release build: the functions that a node calls are side by side in the program,
//! and a node has less memory. `cargo xtask layout` writes the file.
#![allow(clippy::disallowed_methods, reason = "cargo tells a build script its settings by the environment")]

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=node.ld");
    let is = |variable: &str, value: &str| env::var(variable).is_ok_and(|found| found == value);
    let linux = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if linux && is("PROFILE", "release") && linker_reads_scripts() {
        let folder = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
        println!("cargo::rustc-link-arg-bin=suffrage=-Wl,-T,{folder}/node.ld");
    }
}

/// Whether the linker is GNU ld or lld, as far as this can be seen: mold and gold refuse the file.
fn linker_reads_scripts() -> bool {
    let variables =
        ["RUSTC_LINKER", "CARGO_ENCODED_RUSTFLAGS"].map(|name| env::var(name).unwrap_or_default());
    let other = |text: &String| ["mold", "gold", "wild"].iter().any(|name| text.contains(name));
    !variables.iter().any(other) && env::var_os("MOLD_PATH").is_none()
}
