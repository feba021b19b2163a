//! `cargo xtask layout`: places the functions that a node calls side by side in the program.
//!
//! The kernel loads a program in blocks of 64 KB. The functions that a node calls are a fifth of the program, and without
//! this they are in most of its blocks, which then count as memory of every node. A linker script collects them in one
//! section, `.text.node`. GNU ld and lld read it (`crates/suffrage-daemon/build.rs` passes it to them).
//!
//! The task runs three nodes with elections, one of them in an emulator that writes down which functions it calls, and
//! writes the script. The script has patterns in place of the parts of the names that depend on the compiler, so that it
//! outlives a new compiler. A function that is missing in the script costs memory, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};

use crate::build::KEEP_NAMES;
use crate::command::program;
use crate::programs::{Kind, Programs};
use crate::{root, tools};

/// The script, below the root of the workspace.
const SCRIPT: &str = "crates/suffrage-daemon/node.ld";
/// The section with the functions of a node.
const SECTION: &str = ".text.node";
/// The least size of that section in bytes. Less means that most patterns of the script match no function any more.
const LEAST_BYTES: u64 = 1_000_000;
/// The number of elections that clients of each node hold.
const ELECTIONS: usize = 30;
/// How long an election is held: longer than the leases of clients, and than threads of a node wait for work.
const HELD: Duration = Duration::from_secs(15);
/// The longest time for one step of a node in the emulator.
const PATIENCE: Duration = Duration::from_secs(60);

/// Functions that a node calls and that the emulator does not see: those that find the kernel's clock, which the emulator has
/// no need for, and those that wait for another thread.
const UNTRACED: &[&str] = &["*6rustix7backend5param4auxv", "*3std3sys4sync"];

const HEAD: &str = "\
/* The functions that a node calls, side by side: `cargo xtask layout` writes this file and says why. */
SECTIONS {
  .text.node : {
";
const TAIL: &str = "  }\n}\nINSERT BEFORE .text;\n";

/// Traces a node and writes the script.
pub(crate) fn layout() -> Result<(), String> {
    tools::ensure_emulator()?;
    let programs = Programs::build(&[&["build", "--release"], &KEEP_NAMES[..]].concat())?;
    let suffrage = programs.path(Kind::Binary, "suffrage")?;
    let called = trace(suffrage)?;
    let names = with_aliases(suffrage, &called)?;
    let patterns: BTreeSet<String> =
        names.iter().map(|name| pattern(name)).chain(UNTRACED.iter().map(|&name| name.to_string())).collect();
    let lines: String = patterns.iter().map(|name| line(name)).collect();
    let path = root().join(SCRIPT);
    fs::write(&path, [HEAD, &lines, TAIL].concat()).map_err(|error| format!("{SCRIPT}: {error}"))?;
    println!("{SCRIPT}: {} functions", patterns.len());
    Ok(())
}

/// The line of the script about a function. The compiler also puts functions into `.text.unlikely`, and the optimizer appends
/// a hash to their names.
fn line(pattern: &str) -> String {
    format!("    *(.text*.{pattern}*)\n")
}

/// Checks that the functions of a node are side by side in a release build of the program. Only linkers of Linux do that.
pub(crate) fn check(suffrage: &Path) -> Result<(), String> {
    let bytes = section_bytes(suffrage)?;
    match bytes >= LEAST_BYTES || !cfg!(all(target_os = "linux", target_env = "gnu")) {
        true => Ok(()),
        false => Err(format!(
            "{}: {bytes} bytes in {SECTION}; at least {LEAST_BYTES}: run `cargo xtask layout`",
            suffrage.display()
        )),
    }
}

/// The size of the section with the functions of a node.
fn section_bytes(suffrage: &Path) -> Result<u64, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", suffrage.display());
    let bytes = fs::read(suffrage).map_err(|error| failed(&error))?;
    let file = object::File::parse(&*bytes).map_err(|error| failed(&error))?;
    Ok(file.section_by_name(SECTION).map_or(0, |section| section.size()))
}

/// The name of a function without the parts that depend on the compiler: `*` in place of the hashes of crates, and of
/// references to earlier parts of the name, which depend on the lengths of the hashes. The optimizer appends another hash.
fn pattern(name: &str) -> String {
    let name = name.split_once(".llvm.").map_or(name, |(name, _)| name);
    let mut pattern = String::new();
    let mut rest = name;
    while let Some(at) = rest.find(['C', 'B']) {
        let (before, from) = rest.split_at(at);
        pattern.push_str(before);
        let mark = if from.starts_with("Cs") { "Cs" } else { &from[..1] };
        let after = &from[mark.len()..];
        let hash = after.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(after.len());
        pattern.push_str(mark);
        rest = match after[hash..].starts_with('_') && mark != "C" {
            true => {
                pattern.push('*');
                &after[hash..]
            }
            false => after,
        };
    }
    pattern + rest
}

/// Adds the other names of the functions: the optimizer merges equal functions, and the section has any of the names.
fn with_aliases(suffrage: &Path, called: &BTreeSet<String>) -> Result<BTreeSet<String>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", suffrage.display());
    let bytes = fs::read(suffrage).map_err(|error| failed(&error))?;
    let file = object::File::parse(&*bytes).map_err(|error| failed(&error))?;
    let mut by_address: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
    {
        let name = symbol.name().map_err(|error| failed(&error))?;
        by_address.entry(symbol.address()).or_default().push(name.to_string());
    }
    let at_one_address =
        by_address.into_values().filter(|names| names.iter().any(|name| called.contains(name)));
    Ok(at_one_address.flatten().collect())
}

/// A node, ended when dropped.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A folder that is removed when dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// The functions that a node calls from its start to its end.
fn trace(suffrage: &Path) -> Result<BTreeSet<String>, String> {
    let folder = Folder(root().join(format!("target/layout-{}", std::process::id())));
    fs::create_dir_all(&folder.0).map_err(|error| format!("{}: {error}", folder.0.display()))?;
    let (suffrage, log) = (suffrage.to_string_lossy(), folder.0.join("calls"));
    program(&[&suffrage, "keygen", "keys"]).within(&folder.0).output()?;
    let log_name = log.to_string_lossy();
    let emulator = ["qemu-x86_64", "-d", "exec,nochain", "-D", &log_name, &suffrage];
    let mut first = start(&emulator, 1, &folder.0)?;
    let others = [start(&[&*suffrage], 2, &folder.0)?, start(&[&*suffrage], 3, &folder.0)?];
    (1..=3).try_for_each(wait_until_ready)?;
    (1..=3).try_for_each(hold_elections)?;
    // Candidates that are not nodes: the nodes only vote. Meanwhile leases of clients expire, and idle threads end.
    let (cluster, seconds) = (voters(), HELD.as_secs().to_string());
    let run = ["run", "--cluster", &cluster, "--keys", "keys", "--once", "--name"];
    for (name, command) in [("a", &["true"][..]), ("b", &["true"]), ("c", &["sleep", &seconds])] {
        program(&[&[&*suffrage], &run[..], &[name, "--"], command].concat()).within(&folder.0).output()?;
    }
    program(&["kill", "-TERM", &first.0.id().to_string()]).output()?;
    let start = Instant::now();
    while first.0.try_wait().map_err(|error| error.to_string())?.is_none() {
        if start.elapsed() > PATIENCE {
            return Err("the node in the emulator does not stop".to_string());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(others);
    read_calls(&log)
}

/// The names at the ends of the emulator's lines, like `Trace 0: 0x7f… [0…/0…/1…/0…] main`.
fn read_calls(log: &Path) -> Result<BTreeSet<String>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", log.display());
    let mut called = BTreeSet::new();
    for line in BufReader::new(fs::File::open(log).map_err(failed)?).lines() {
        if let Some((_, name)) = line.map_err(failed)?.rsplit_once("] ")
            && !name.is_empty()
            && !called.contains(name)
        {
            called.insert(name.to_string());
        }
    }
    match called.is_empty() {
        true => Err(format!("{}: the emulator has named no function", log.display())),
        false => Ok(called),
    }
}

/// Addresses that nothing else on this machine uses.
fn address(id: usize, port: u16) -> String {
    format!("127.0.77.{id}:{port}")
}

fn voters() -> String {
    [1, 2, 3].map(|id| format!("{id}={}", address(id, 7400))).join(",")
}

fn start(words: &[&str], id: usize, folder: &Path) -> Result<Node, String> {
    let mut command = Command::new(words[0]);
    let (voters, http, data) = (voters(), address(id, 7480), format!("data-{id}"));
    let id = id.to_string();
    let flags = [
        "--id", &id, "--voters", &voters, "--http", &http, "--data", &data, "--keys", "keys", "--log",
        "info", "--new",
    ];
    command.args(&words[1..]).arg("node").args(flags).current_dir(folder);
    let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    child.map(Node).map_err(|error| format!("{}: {error}", words[0]))
}

/// Waits until the node is ready.
fn wait_until_ready(id: usize) -> Result<(), String> {
    let start = Instant::now();
    while !request(id, "GET /readiness", "").is_ok_and(|reply| reply.starts_with("HTTP/1.1 200")) {
        if start.elapsed() > PATIENCE {
            return Err(format!("node {id} does not become ready"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Clients of the node campaign, renew and resign.
fn hold_elections(id: usize) -> Result<(), String> {
    for number in 0..ELECTIONS {
        let post = |action: &str, body: &str| {
            let reply = request(id, &format!("POST /elections/{id}-{number}/{action}"), body)?;
            match reply.starts_with("HTTP/1.1 200") {
                true => Ok(reply),
                false => Err(format!("{action} at node {id}: {reply}")),
            }
        };
        let reply = post("campaign", r#"{"ttl":"5s"}"#)?;
        let session = reply.split("\"session\":\"").nth(1).and_then(|rest| rest.split('"').next());
        let session = session.ok_or_else(|| format!("campaign at node {id}: no session in {reply}"))?;
        let body = format!(r#"{{"session":"{session}"}}"#);
        post("renew", &body)?;
        if number % 2 == 0 {
            post("resign", &body)?;
        }
    }
    request(id, "GET /metrics", "").map(|_| ())
}

/// The reply of a node to a request.
fn request(id: usize, line: &str, body: &str) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{line} at node {id}: {error}");
    let mut stream = TcpStream::connect(address(id, 7480)).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    // In two parts, so that the node waits for the second one.
    write!(stream, "{line} HTTP/1.1\r\nhost: localhost\r\n").map_err(failed)?;
    std::thread::sleep(Duration::from_millis(20));
    let head = "connection: close\r\ncontent-type: application/json";
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).map_err(failed)?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).map_err(failed)?;
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_leave_out_what_depends_on_the_compiler() {
        let name = "_RNvMs4_NtCslNYArtu3iFV_5alloc7raw_vecNtB5_11RawVecInner11finish_growB7_.llvm.1524389613005862818";
        assert_eq!(pattern(name), "_RNvMs4_NtCs*_5alloc7raw_vecNtB*_11RawVecInner11finish_growB*_");
        assert_eq!(pattern("_RNvNtCs1_5tokio3net7Connect"), "_RNvNtCs*_5tokio3net7Connect");
        assert_eq!(pattern("main"), "main");
    }

    #[test]
    fn calls_are_read_from_the_log_of_the_emulator() {
        let log = std::env::temp_dir().join(format!("suffrage-calls-{}", std::process::id()));
        let lines = "Trace 0: 0x7f76 [00/40/10/02] \nTrace 0: 0x7f77 [00/41/10/02] main\nTrace 0: 0x7f78 [00/42/10/02] main\n";
        fs::write(&log, lines).unwrap();
        let called = read_calls(&log);
        fs::write(&log, "nothing\n").unwrap();
        let empty = read_calls(&log);
        fs::remove_file(&log).unwrap();
        assert_eq!(called, Ok(BTreeSet::from(["main".to_string()])));
        assert!(empty.unwrap_err().contains("named no function"));
    }

    #[test]
    fn a_program_without_the_section_is_refused() {
        let tests = std::env::current_exe().unwrap();
        assert_eq!(section_bytes(&tests), Ok(0));
        let refused = check(&tests);
        assert_eq!(refused.is_err(), cfg!(all(target_os = "linux", target_env = "gnu")), "{refused:?}");
    }
}
