//! House rules that no other tool checks.

use std::fs;
use std::path::{Path, PathBuf};

/// The number of lines from which a file warns (CONTRIBUTING.md, house rules).
const WARN_LINES: usize = 600;
/// The most lines of a file.
const MAX_LINES: usize = 800;

/// Text that source files must not contain, with the reason. The strings are split, so that this file passes.
const BANNED: &[(&str, &str)] = &[
    (concat!("todo", "!("), "no stubs"),
    (concat!("unimplemented", "!("), "no stubs"),
    (concat!("#[", "ignore"), "no ignored tests"),
    (concat!("dbg", "!("), "left over from debugging"),
];

/// The crates without I/O, in which the seed determines a run.
const CORE: &[&str] = &[
    "crates/suffrage-core/src/",
    "crates/suffrage-lease/src/",
    "crates/suffrage-group/src/",
    "crates/suffrage-algorithms/src/",
    "crates/suffrage-sim/src/",
];

/// Text that the crates without I/O must not contain, in addition to the checks of clippy.
const BANNED_IN_CORE: &[&str] =
    &["std::thread", "std::net", "tokio", "Instant", "SystemTime", "HashMap", "HashSet"];

/// The examples of the facade: they use only `suffrage` and external crates.
const FACADE_EXAMPLES: &str = "crates/suffrage/examples/";

/// Checks the house rules.
pub(crate) fn tidy(root: &Path) -> Result<(), String> {
    let mut errors = crate::architecture::document_errors(root);
    let sources = sources(root);
    for path in &sources {
        let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
        let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        errors.extend(errors_in(&name, &text));
        if text.lines().count() > WARN_LINES {
            println!("{name} has {} lines; at most {MAX_LINES}", text.lines().count());
        }
    }
    if errors.is_empty() {
        println!("{} files are tidy", sources.len());
        return Ok(());
    }
    Err(errors.join("\n"))
}

fn errors_in(name: &str, text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        errors.push(format!("{name} has {lines} lines; at most {MAX_LINES}: split it by concern"));
    }
    if !text.starts_with("//!") {
        errors.push(format!("{name} does not start with a module comment (//!)"));
    }
    for (index, line) in text.lines().enumerate() {
        let error = |why: &str| format!("{name}:{}: {why}", index + 1);
        errors.extend(BANNED.iter().filter(|(word, _)| line.contains(word)).map(|(_, why)| error(why)));
        let core = CORE.iter().any(|core| name.starts_with(core));
        let is_banned = |word: &&&str| core && line.contains(**word) && !line.trim_start().starts_with("//");
        errors.extend(
            BANNED_IN_CORE.iter().filter(is_banned).map(|word| error(&format!("{word} in the core"))),
        );
        if name.starts_with(FACADE_EXAMPLES) && line.contains(concat!("suffrage", "_")) {
            errors.push(error("an example of the facade uses an internal crate"));
        }
        if [concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/")]
            .iter()
            .any(|path| line.contains(path))
        {
            errors.push(error("a path of one machine"));
        }
    }
    errors
}

/// Every Rust file of the workspace.
fn sources(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = ["crates", "bench", "clients/suite", "fuzz", "servers", "testbed", "xtask"]
        .map(|name| root.join(name))
        .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The paths in a part of `clippy.toml`.
    fn banned(part: &str) -> impl Iterator<Item = &str> {
        part.split("path = \"").skip(1).filter_map(|rest| rest.split('"').next())
    }

    #[test]
    fn each_rule_finds_its_violation() {
        let core = "crates/suffrage-lease/src/x.rs";
        assert!(errors_in(core, "//! Fine.\n").is_empty());
        for (line, word) in [
            (concat!("todo", "!()"), "stubs"),
            (concat!("#[", "ignore]"), "no ignored tests"),
            ("use std::collections::HashMap;", "HashMap in the core"),
            (concat!("\"/ro", "ot/x\""), "path"),
        ] {
            let errors = errors_in(core, &format!("//! Fine.\n{line}\n"));
            assert!(errors.len() == 1 && errors[0].contains(word), "{line}: {errors:?}");
        }
        assert!(
            errors_in("crates/suffrage-cli/src/x.rs", "//! Fine.\nuse std::collections::HashMap;\n")
                .is_empty()
        );
        for core in CORE {
            assert!(crate::root().join(core).is_dir(), "{core} does not exist");
        }
        let import = concat!("use suffrage", "_net::Key;\n");
        assert_eq!(errors_in("crates/suffrage/examples/x.rs", &format!("//! Fine.\n{import}")).len(), 1);
        assert_eq!(errors_in(core, "fn x() {}\n").len(), 1);
        assert_eq!(errors_in(core, &format!("//! Long.{}", "\n".repeat(900))).len(), 1);
    }

    /// `clippy.toml` makes clocks, threads, system randomness and unordered maps an error.
    #[test]
    fn the_bans_of_clippy_are_errors() {
        let folder = std::env::temp_dir().join(format!("suffrage-bans-{}", std::process::id()));
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::copy(crate::root().join("clippy.toml"), folder.join("clippy.toml")).unwrap();
        let manifest = "[package]\nname = \"bans\"\nedition = \"2024\"\n[workspace]\n[lints.clippy]\n\
                        disallowed_types = \"deny\"\ndisallowed_methods = \"deny\"\n";
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        // The source uses every banned path once: a type as the type of a variable, a method as a value.
        let bans = fs::read_to_string(crate::root().join("clippy.toml")).unwrap();
        let (types, methods) = bans.split_once("disallowed-methods").expect("both kinds are banned");
        let types: Vec<&str> = banned(types).collect();
        let methods: Vec<&str> = banned(methods).filter(|path| !path.contains("thread::s")).collect();
        let generic = |path: &str| match path {
            "std::collections::HashMap" => format!("{path}<u8, u8>"),
            _ if path.contains("HashSet") || path.contains("sync::Mutex") => format!("{path}<u8>"),
            _ if path.contains("RwLock") || path.contains("JoinHandle") => format!("{path}<u8>"),
            _ => path.to_string(),
        };
        let mut source = String::from("fn main() {\n    std::thread::spawn(|| ());\n");
        types.iter().for_each(|path| source += &format!("    let _: Option<{}> = None;\n", generic(path)));
        methods.iter().for_each(|path| {
            let argument = if path.contains("env::var") { "::<&str>" } else { "" };
            source += &format!("    let _ = {path}{argument};\n");
        });
        source += "}\n";
        fs::write(folder.join("src/main.rs"), source).unwrap();
        let output =
            Command::new("cargo").args(["clippy", "--offline", "--quiet"]).current_dir(&folder).output();
        let output = output.expect("cargo runs");
        fs::remove_dir_all(&folder).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        for path in types.iter().chain(&methods).chain(&["std::thread::spawn"]) {
            assert!(errors.contains(&format!("`{path}`")), "{path}: {errors}");
        }
    }
}
