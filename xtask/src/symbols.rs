//! The functions of a program, with their numbers of copies.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use object::{Object as _, ObjectSymbol as _, SymbolKind};

/// The functions of a program by their names in Rust, with concrete types in place of type parameters. Copies of one
/// function have the same name, and each its own address.
#[derive(Debug, Default)]
pub(crate) struct Symbols(BTreeMap<String, usize>);

impl Symbols {
    /// Reads the symbol table of a program.
    pub(crate) fn of(program: &Path) -> Result<Symbols, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", program.display());
        let bytes = fs::read(program).map_err(|error| failed(&error))?;
        let file = object::File::parse(&*bytes).map_err(|error| failed(&error))?;
        let defined =
            file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
        let symbols = Symbols::from_mangled(defined.filter_map(|symbol| symbol.name().ok()));
        match symbols.0.keys().any(|name| name.contains("suffrage_")) {
            true => Ok(symbols),
            false => Err(failed(
                &"no symbols of this workspace: the program is stripped, or RUSTFLAGS replaces the flags of .cargo/config.toml",
            )),
        }
    }

    /// Counts the functions by their names. `.cargo/config.toml` selects symbol names with types; other names belong to
    /// the standard library or to C.
    fn from_mangled<'a>(mangled: impl Iterator<Item = &'a str>) -> Symbols {
        let mut symbols = BTreeMap::new();
        for name in mangled.filter(|name| name.starts_with("_R")) {
            // Pieces of one function, like `_RNv….cold.1`, are not copies of it.
            let whole = rustc_demangle::demangle(name);
            if name.contains(".cold") {
                continue;
            }
            *symbols.entry(format!("{whole:#}")).or_default() += 1;
        }
        Symbols(symbols)
    }

    /// A program with these functions.
    #[cfg(test)]
    pub(crate) fn named(names: impl Iterator<Item = String>) -> Symbols {
        let mut symbols = BTreeMap::new();
        names.for_each(|name| *symbols.entry(name).or_default() += 1);
        Symbols(symbols)
    }

    /// The functions whose names match, with their numbers of copies.
    pub(crate) fn matching(&self, matches: impl Fn(&str) -> bool) -> Vec<(&str, usize)> {
        let all = self.0.iter().map(|(name, copies)| (name.as_str(), *copies));
        all.filter(|(name, _)| matches(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_counted_by_names_with_types() {
        // The symbol names for `World<Bully>::run`, twice by different crates, and for `World<Raft>::run`.
        let mangled = [
            "_RNvMs_NtCs1_3sim5worldINtB4_5WorldNtNtCs2_10algorithms5bully5BullyE3runCs3_3lab",
            "_RNvMs_NtCs1_3sim5worldINtB4_5WorldNtNtCs2_10algorithms5bully5BullyE3runCs4_6papers",
            "_RNvMs_NtCs1_3sim5worldINtB4_5WorldNtNtCs2_10algorithms4raft4RaftE3runCs3_3lab",
            "_RNvMs_NtCs1_3sim5worldINtB4_5WorldNtNtCs2_10algorithms4raft4RaftE3runCs3_3lab.cold.1",
            "_ZN4core3fmt5write17h0123456789abcdefE",
            "memcpy",
        ];
        let symbols = Symbols::from_mangled(mangled.into_iter());
        let runs = symbols.matching(|name| name.ends_with(">>::run"));
        let expected = [
            ("<sim::world::World<algorithms::bully::Bully>>::run", 2),
            ("<sim::world::World<algorithms::raft::Raft>>::run", 1),
        ];
        assert_eq!(runs, expected);
        assert_eq!(symbols.matching(|_| true).len(), 2);
    }

    #[test]
    fn a_file_that_is_no_program_is_an_error() {
        let error = Symbols::of(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))).unwrap_err();
        assert!(error.contains("Cargo.toml"), "{error}");
    }
}
