//! The invariant "compiled once": each function that takes long to compile is in a program once, and the program of
//! operators has no code of the laboratory.
//!
//! A generic function that two crates use with the same types can be compiled in both, and is then in the program
//! twice. Functions that are marked `#[inline]` may be copied, and are not counted.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

use crate::programs::{Kind, Programs};
use crate::symbols::Symbols;

/// Functions of one kind.
struct Family {
    name: &'static str,
    /// Whether a function belongs to this kind, by its name with types.
    matches: fn(&str) -> bool,
    /// The fewest functions of this kind in the laboratory. Fewer mean that their names have changed.
    least: usize,
    /// The most copies of each function.
    most: usize,
}

/// The functions that depend on the types of an algorithm and take long to compile.
const FAMILIES: &[Family] = &[
    Family {
        name: "handlers of algorithms",
        matches: |name| is_handler(name) && !name.starts_with(RING),
        least: 60,
        most: 1,
    },
    // `Ring::on_message` is `#[inline]` because of the benchmark of the simulator: each crate that uses it has a copy.
    Family {
        name: "handlers of rings",
        matches: |name| is_handler(name) && name.starts_with(RING),
        least: 3,
        most: 3,
    },
    Family {
        name: "handlers of the lease",
        matches: |name| name.starts_with("<suffrage_lease::") && name.contains(">::on_"),
        least: 8,
        most: 1,
    },
    Family { name: "worlds", matches: is_world, least: 17, most: 1 },
    Family {
        name: "drivers",
        matches: |name| {
            name.starts_with("<suffrage_node::driver::Driver<") && name.ends_with(">>::on_timers")
        },
        least: 17,
        most: 1,
    },
    Family {
        name: "detectors",
        matches: |name| {
            name.starts_with("<suffrage_core::detectors::peers::Peers<") && name.contains(">>::monitor::<")
        },
        least: 3,
        most: 1,
    },
];

/// The types of the ring algorithms.
const RING: &str = "<suffrage_algorithms::ring::Ring<";

/// The crates of the laboratory, and the dependencies that only it needs.
const LABORATORY: [&str; 6] = [
    "suffrage_algorithms",
    "suffrage_sim",
    "suffrage_check",
    "suffrage_papers",
    "suffrage_lab",
    "stateright",
];

fn is_handler(name: &str) -> bool {
    name.starts_with("<suffrage_algorithms::") && name.contains(" as suffrage_core::process::Process>::on_")
}

fn is_world(name: &str) -> bool {
    name.starts_with("<suffrage_sim::world::World<") && name.ends_with(">>::run")
}

/// The most worlds of one algorithm: alone, and behind layers.
const WORLDS_OF_AN_ALGORITHM: usize = 2;

/// The algorithm of a world: the innermost of its types, like `Election` of `World<Ring<chang_roberts::Election>>`.
fn algorithm(world: &str) -> Option<&str> {
    let types = world.split(['<', '>', ',', ' ', '&', '(', ')']);
    let is_algorithm =
        |name: &&str| name.starts_with("suffrage_algorithms::") || name.starts_with("suffrage_lease::");
    types.rev().find(is_algorithm)
}

/// The counts of one program.
#[derive(Debug)]
pub(crate) struct Counts {
    program: String,
    rows: Vec<Row>,
    /// The violations.
    pub(crate) errors: Vec<String>,
}

/// The counts of one kind of function.
#[derive(Debug)]
struct Row {
    name: &'static str,
    /// The number of different functions.
    functions: usize,
    /// The number of copies of all of them.
    copies: usize,
}

impl Counts {
    pub(crate) fn json(&self) -> Value {
        let rows = self.rows.iter();
        let rows: Vec<Value> = rows
            .map(|row| json!({ "name": row.name, "functions": row.functions, "copies": row.copies }))
            .collect();
        json!({ "program": self.program, "families": rows })
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.program)?;
        for (index, row) in self.rows.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma} {} {} in {} copies", row.functions, row.name, row.copies)?;
        }
        Ok(())
    }
}

/// Checks both programs and all programs of tests.
pub(crate) fn check_all(programs: &Programs) -> Result<(), String> {
    let both = ["suffrage", "suffrage-lab"].map(|name| programs.path(Kind::Binary, name));
    let both = both.into_iter().collect::<Result<Vec<_>, _>>()?;
    // The tests of the suite of clients start programs, and have no functions of the workspace.
    let tests = programs.tests().filter(|tests| tests.name != "command_line");
    check(both.into_iter().chain(tests.map(|tests| tests.path.as_path())))
}

/// Checks these programs.
pub(crate) fn check<'a>(programs: impl Iterator<Item = &'a Path>) -> Result<(), String> {
    let mut errors = Vec::new();
    for program in programs {
        let counts = of_program(program)?;
        println!("{counts}");
        errors.extend(counts.errors);
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

/// Counts the functions of one of the two programs, or of a program of tests, which may have fewer functions.
pub(crate) fn of_program(program: &Path) -> Result<Counts, String> {
    let (name, symbols) = (program.file_name().unwrap_or_default().to_string_lossy(), Symbols::of(program)?);
    Ok(match &*name {
        "suffrage" => count_laboratory(&symbols),
        // The optimizer inlines some functions of a release build wherever they are called.
        "suffrage-lab" => {
            count(&name, &symbols, !program.parent().is_some_and(|folder| folder.ends_with("release")))
        }
        _ => count(&name, &symbols, false),
    })
}

fn count(program: &str, symbols: &Symbols, is_complete: bool) -> Counts {
    let mut counts = Counts { program: program.to_string(), rows: Vec::new(), errors: Vec::new() };
    for family in FAMILIES {
        let found = symbols.matching(family.matches);
        let copies = found.iter().map(|(_, copies)| copies).sum();
        counts.rows.push(Row { name: family.name, functions: found.len(), copies });
        if is_complete && found.len() < family.least {
            counts.errors.push(format!(
                "{program}: {} {}; at least {} are expected: has the name changed?",
                found.len(),
                family.name,
                family.least
            ));
        }
        let many = found.iter().filter(|(_, copies)| *copies > family.most);
        counts.errors.extend(
            many.map(|(name, copies)| {
                format!("{program}: {copies} copies of {name}; at most {}", family.most)
            }),
        );
    }
    let mut worlds: BTreeMap<&str, usize> = BTreeMap::new();
    for algorithm in symbols.matching(is_world).iter().filter_map(|(name, _)| algorithm(name)) {
        *worlds.entry(algorithm).or_default() += 1;
    }
    let many = worlds.iter().filter(|(_, worlds)| **worlds > WORLDS_OF_AN_ALGORITHM);
    counts.errors.extend(many.map(|(algorithm, worlds)| {
        format!("{program}: {worlds} worlds of {algorithm}; at most {WORLDS_OF_AN_ALGORITHM}")
    }));
    counts
}

fn count_laboratory(symbols: &Symbols) -> Counts {
    let program = "suffrage".to_string();
    let mut counts = Counts { program, rows: Vec::new(), errors: Vec::new() };
    for name in LABORATORY {
        let found = symbols.matching(|function| function.contains(&format!("{name}::")));
        let copies = found.iter().map(|(_, copies)| copies).sum();
        counts.rows.push(Row { name, functions: found.len(), copies });
        if let Some((first, _)) = found.first() {
            counts.errors.push(format!("suffrage has {copies} functions of {name}, like {first}"));
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const BULLY: &str = "suffrage_algorithms::bully::Bully";

    fn world(of: &str) -> String {
        format!("<suffrage_sim::world::World<{of}>>::run")
    }

    fn symbols(names: &[&str]) -> Symbols {
        Symbols::named(names.iter().map(|name| name.to_string()))
    }

    #[test]
    fn the_second_copy_of_a_function_is_found() {
        let handler = format!("<{BULLY} as suffrage_core::process::Process>::on_message");
        let layered =
            format!("suffrage_core::layers::watched::Watched<suffrage_core::detectors::phi::Phi, {BULLY}>");
        let (plain, layered) = (world(BULLY), world(&layered));
        let once =
            symbols(&[&handler, &plain, &layered, "<std::vec::Vec<u8>>::push", "<std::vec::Vec<u8>>::push"]);
        assert!(count("x", &once, false).errors.is_empty());
        let twice = symbols(&[&handler, &plain, &layered, &layered]);
        let errors = count("x", &twice, false).errors;
        assert_eq!(errors, [format!("x: 2 copies of {layered}; at most 1")]);
    }

    #[test]
    fn the_third_world_of_an_algorithm_is_found() {
        let layered = |layer: &str| world(&format!("suffrage_core::layers::{layer}<{BULLY}>"));
        let three = symbols(&[&world(BULLY), &layered("A"), &layered("B")]);
        let errors = count("x", &three, false).errors;
        assert_eq!(errors, [format!("x: 3 worlds of {BULLY}; at most 2")]);
        let ring = |kind: &str| {
            world(&format!("suffrage_algorithms::ring::Ring<suffrage_algorithms::{kind}::Election>"))
        };
        let rings = ["chang_roberts", "collecting_ring", "maximum_ring"].map(ring);
        assert!(count("x", &symbols(&rings.each_ref().map(String::as_str)), false).errors.is_empty());
    }

    #[test]
    fn renamed_functions_are_reported() {
        let errors = count("x", &symbols(&[]), true).errors;
        assert_eq!(errors.len(), FAMILIES.len());
    }

    #[test]
    fn code_of_the_laboratory_in_the_program_of_operators_is_found() {
        let fine =
            symbols(&["<suffrage_lease::voter::Voter>::on_ask", "<suffrage_node::lease::Node>::start"]);
        assert!(count_laboratory(&fine).errors.is_empty());
        let world = world("suffrage_algorithms::quorum_lease::QuorumLease");
        let errors = count_laboratory(&symbols(&[&world])).errors;
        let found = ["suffrage_algorithms", "suffrage_sim"];
        assert_eq!(errors, found.map(|part| format!("suffrage has 1 functions of {part}, like {world}")));
    }
}
