//! Programs that tests run, which not every machine has.

use std::path::Path;

use crate::command::program;

/// A program, how it shows that it is there, and the Debian package that has it.
pub(crate) struct Tool {
    name: &'static str,
    trial: &'static [&'static str],
    package: &'static str,
}

/// What the tests of real network faults need (`testbed`, `crates/suffrage-daemon/tests/it/network_faults`).
pub(crate) const TESTS: &[Tool] = &[
    Tool { name: "ip", trial: &["ip", "-V"], package: "iproute2" },
    Tool { name: "bash", trial: &["bash", "--version"], package: "bash" },
    Tool { name: "flock", trial: &["flock", "--version"], package: "util-linux" },
];

/// What `cargo xtask prove` needs.
const SOLVER: &[Tool] = &[Tool { name: "z3", trial: &["z3", "--version"], package: "z3" }];

/// Installs the solver if it is missing.
pub(crate) fn ensure_solver() -> Result<(), String> {
    ensure_installed(SOLVER)
}

/// Installs what is missing. What is missing then is an error: a test that cannot run is never left out.
pub(crate) fn ensure(tools: &[Tool]) -> Result<(), String> {
    ensure_installed(tools)?;
    for (path, what) in [("/dev/net/tun", "TAP devices"), ("/proc/self/ns/net", "network namespaces")] {
        if !Path::new(path).exists() {
            return Err(format!("there is no {path}: the tests of network faults need {what}"));
        }
    }
    let whoami = program(&["id", "-u"]).output()?;
    match whoami.trim() {
        "0" => Ok(()),
        _ => Err("the tests of network faults make network namespaces: only root can".to_string()),
    }
}

fn ensure_installed(tools: &[Tool]) -> Result<(), String> {
    let missing = missing(tools);
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    install(&packages).map_err(|reason| format!("install {} by hand: {reason}", packages.join(" and ")))?;
    match self::missing(tools).first() {
        Some(tool) => Err(format!("there is no `{}`, though {} is installed", tool.name, tool.package)),
        None => Ok(()),
    }
}

fn missing(tools: &[Tool]) -> Vec<&Tool> {
    tools.iter().filter(|tool| !program(tool.trial).works()).collect()
}

fn install(packages: &[&str]) -> Result<(), String> {
    let line = ["apt-get", "install", "--yes", "--no-install-recommends"];
    let install = || program(&[&line, packages].concat()).env("DEBIAN_FRONTEND", "noninteractive").run();
    // The lists of packages may be old, or not be there at all.
    install().or_else(|_| program(&["apt-get", "update"]).run().and_then(|()| install()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_missed() {
        let there = Tool { name: "cargo", trial: &["cargo", "--version"], package: "cargo" };
        let gone = Tool { name: "gone", trial: &["suffrage-no-such-program"], package: "gone" };
        let fails = Tool { name: "broken", trial: &["false"], package: "broken" };
        let names: Vec<&str> = missing(&[there, gone, fails]).iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["gone", "broken"]);
    }
}
