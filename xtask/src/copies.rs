//! Compiled once: each function that is long to compile is in a program once, and the operator's program has nothing of
//! the laboratory.
//!
//! A generic function that two crates use with the same types can be compiled in both, and then stands in the program
//! twice. Functions that are marked `#[inline]` are meant to be copied, and are not counted here.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

use crate::programs::{Kind, Programs};
use crate::symbols::Symbols;

/// Functions of one kind.
struct Family {
    name: &'static str,
    /// Whether a function, by its name with types, is one of them.
    is_meant: fn(&str) -> bool,
    /// The fewest of them in the laboratory: if there are fewer, they have another name by now.
    least: usize,
    /// The most copies of each.
    most: usize,
}

/// Everything that depends on an algorithm's types and is long to compile.
const FAMILIES: &[Family] = &[
    Family {
        name: "handlers of algorithms",
        is_meant: |name| is_handler(name) && !name.starts_with(RING),
        least: 60,
        most: 1,
    },
    // `Ring::on_message` is `#[inline]`, for the sake of the benchmark of the simulator: in each crate that uses it.
    Family {
        name: "handlers of rings",
        is_meant: |name| is_handler(name) && name.starts_with(RING),
        least: 3,
        most: 3,
    },
    Family {
        name: "handlers of the lease",
        is_meant: |name| name.starts_with("<suffrage_lease::") && name.contains(">::on_"),
        least: 8,
        most: 1,
    },
    Family { name: "worlds", is_meant: is_world, least: 17, most: 1 },
    Family {
        name: "drivers",
        is_meant: |name| {
            name.starts_with("<suffrage_node::driver::Driver<") && name.ends_with(">>::on_timers")
        },
        least: 17,
        most: 1,
    },
    Family {
        name: "detectors",
        is_meant: |name| {
            name.starts_with("<suffrage_core::detectors::peers::Peers<") && name.contains(">>::monitor::<")
        },
        least: 3,
        most: 1,
    },
];

/// The types of the ring algorithms.
const RING: &str = "<suffrage_algorithms::ring::Ring<";

/// Crates of the laboratory, and what only it needs.
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

/// What was counted in one program.
#[derive(Debug)]
pub(crate) struct Counts {
    program: String,
    rows: Vec<Row>,
    /// What is not as it should be.
    pub(crate) complaints: Vec<String>,
}

/// One kind of function.
#[derive(Debug)]
struct Row {
    name: &'static str,
    /// How many different functions there are.
    functions: usize,
    /// How many copies of them there are, all together.
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
        for (place, row) in self.rows.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma} {} {} in {} copies", row.functions, row.name, row.copies)?;
        }
        Ok(())
    }
}

/// Counts in both programs and in all programs of tests; an error if something is not as it should be.
pub(crate) fn check_all(programs: &Programs) -> Result<(), String> {
    let both = ["suffrage", "suffrage-lab"].map(|name| programs.path(Kind::Binary, name));
    let both = both.into_iter().collect::<Result<Vec<_>, _>>()?;
    check(both.into_iter().chain(programs.tests().map(|tests| tests.path.as_path())))
}

/// Counts in these programs; an error if something is not as it should be.
pub(crate) fn check<'a>(programs: impl Iterator<Item = &'a Path>) -> Result<(), String> {
    let mut complaints = Vec::new();
    for program in programs {
        let counts = of_program(program)?;
        println!("{counts}");
        complaints.extend(counts.complaints);
    }
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

/// Counts in one of the two programs, or in a program of tests, which need not have everything.
pub(crate) fn of_program(program: &Path) -> Result<Counts, String> {
    let (name, symbols) = (program.file_name().unwrap_or_default().to_string_lossy(), Symbols::of(program)?);
    Ok(match &*name {
        "suffrage" => count_laboratory(&symbols),
        // The optimizer inlines some functions of a release build wherever they are called.
        "suffrage-lab" => count(&name, &symbols, !program.parent().is_some_and(|it| it.ends_with("release"))),
        _ => count(&name, &symbols, false),
    })
}

fn count(program: &str, symbols: &Symbols, is_complete: bool) -> Counts {
    let mut counts = Counts { program: program.to_string(), rows: Vec::new(), complaints: Vec::new() };
    for family in FAMILIES {
        let found = symbols.matching(family.is_meant);
        let copies = found.iter().map(|(_, copies)| copies).sum();
        counts.rows.push(Row { name: family.name, functions: found.len(), copies });
        if is_complete && found.len() < family.least {
            counts.complaints.push(format!(
                "{program}: {} {}, and {} are expected: has the name changed?",
                found.len(),
                family.name,
                family.least
            ));
        }
        let many = found.iter().filter(|(_, copies)| *copies > family.most);
        counts.complaints.extend(
            many.map(|(name, copies)| {
                format!("{program}: {copies} copies of {name}; {} at most", family.most)
            }),
        );
    }
    let mut worlds: BTreeMap<&str, usize> = BTreeMap::new();
    for algorithm in symbols.matching(is_world).iter().filter_map(|(name, _)| algorithm(name)) {
        *worlds.entry(algorithm).or_default() += 1;
    }
    let many = worlds.iter().filter(|(_, worlds)| **worlds > WORLDS_OF_AN_ALGORITHM);
    counts.complaints.extend(many.map(|(algorithm, worlds)| {
        format!("{program}: {worlds} worlds of {algorithm}; {WORLDS_OF_AN_ALGORITHM} at most")
    }));
    counts
}

fn count_laboratory(symbols: &Symbols) -> Counts {
    let program = "suffrage".to_string();
    let mut counts = Counts { program, rows: Vec::new(), complaints: Vec::new() };
    for name in LABORATORY {
        let found = symbols.matching(|function| function.contains(&format!("{name}::")));
        let copies = found.iter().map(|(_, copies)| copies).sum();
        counts.rows.push(Row { name, functions: found.len(), copies });
        if let Some((first, _)) = found.first() {
            counts.complaints.push(format!("suffrage holds {copies} functions of {name}, like {first}"));
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
        assert!(count("x", &once, false).complaints.is_empty());
        let twice = symbols(&[&handler, &plain, &layered, &layered]);
        let complaints = count("x", &twice, false).complaints;
        assert_eq!(complaints, [format!("x: 2 copies of {layered}; 1 at most")]);
    }

    #[test]
    fn the_third_world_of_an_algorithm_is_found() {
        let layered = |layer: &str| world(&format!("suffrage_core::layers::{layer}<{BULLY}>"));
        let three = symbols(&[&world(BULLY), &layered("A"), &layered("B")]);
        let complaints = count("x", &three, false).complaints;
        assert_eq!(complaints, [format!("x: 3 worlds of {BULLY}; 2 at most")]);
        let ring = |kind: &str| {
            world(&format!("suffrage_algorithms::ring::Ring<suffrage_algorithms::{kind}::Election>"))
        };
        let rings = ["chang_roberts", "collecting_ring", "maximum_ring"].map(ring);
        assert!(count("x", &symbols(&rings.each_ref().map(String::as_str)), false).complaints.is_empty());
    }

    #[test]
    fn functions_that_have_another_name_by_now_are_missed() {
        let complaints = count("x", &symbols(&[]), true).complaints;
        assert_eq!(complaints.len(), FAMILIES.len());
    }

    #[test]
    fn a_part_of_the_laboratory_in_the_operators_program_is_found() {
        let fine =
            symbols(&["<suffrage_lease::voter::Voter>::on_ask", "<suffrage_node::lease::Node>::start"]);
        assert!(count_laboratory(&fine).complaints.is_empty());
        let world = world("suffrage_lease::QuorumLease");
        let complaints = count_laboratory(&symbols(&[&world])).complaints;
        assert_eq!(complaints, [format!("suffrage holds 1 functions of suffrage_sim, like {world}")]);
    }
}
