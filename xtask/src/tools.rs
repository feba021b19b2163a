//! Programs that the tests need.

use std::path::Path;

use crate::command::program;

/// A program, a command that succeeds if it is installed, and its Debian package.
pub(crate) struct Tool {
    name: &'static str,
    check: &'static [&'static str],
    package: &'static str,
}

/// The programs for the tests of real network faults (`testbed`, `crates/suffrage-daemon/tests/it/network_faults`) and of
/// `suffrage run` on an etcd (`crates/suffrage-daemon/tests/it/engines.rs`).
pub(crate) const TESTS: &[Tool] = &[
    Tool { name: "ip", check: &["ip", "-V"], package: "iproute2" },
    Tool { name: "etcd", check: &["etcd", "--version"], package: "etcd-server" },
    Tool { name: "bash", check: &["bash", "--version"], package: "bash" },
    Tool { name: "flock", check: &["flock", "--version"], package: "util-linux" },
];

/// The program for `cargo xtask prove`.
const SOLVER: &[Tool] = &[Tool { name: "z3", check: &["z3", "--version"], package: "z3" }];

/// The program for `cargo xtask layout`.
const EMULATOR: &[Tool] =
    &[Tool { name: "qemu-x86_64", check: &["qemu-x86_64", "--version"], package: "qemu-user" }];

/// The programs for the clients of other languages (`clients`).
const CLIENTS: &[(&str, &[Tool])] = &[
    ("go", &[Tool { name: "go", check: &["go", "version"], package: "golang-go" }]),
    ("java", &[Tool { name: "javac", check: &["javac", "--version"], package: "openjdk-17-jdk-headless" }]),
    (
        "python",
        &[
            Tool { name: "python3", check: &["python3", "--version"], package: "python3" },
            Tool { name: "venv", check: &["python3", "-c", "import ensurepip"], package: "python3-venv" },
        ],
    ),
    (
        "typescript",
        &[
            Tool { name: "node", check: &["node", "--version"], package: "nodejs" },
            Tool { name: "npm", check: &["npm", "--version"], package: "npm" },
        ],
    ),
];

/// The programs for the tests of the pages (`browser`).
const BROWSER: &[Tool] = &[
    Tool { name: "chromium", check: &["chromium", "--version"], package: "chromium" },
    Tool { name: "node", check: &["node", "--version"], package: "nodejs" },
    Tool { name: "npm", check: &["npm", "--version"], package: "npm" },
    Tool { name: "openssl", check: &["openssl", "version"], package: "openssl" },
    Tool { name: "rsvg-convert", check: &["rsvg-convert", "--version"], package: "librsvg2-bin" },
    Tool { name: "xmllint", check: &["xmllint", "--version"], package: "libxml2-utils" },
];

/// Installs the browser and its tools if they are missing.
pub(crate) fn ensure_browser() -> Result<(), String> {
    ensure_installed(BROWSER)
}

/// Installs the programs for a client if they are missing.
pub(crate) fn ensure_for_client(client: &str) -> Result<(), String> {
    let found = CLIENTS.iter().find(|(name, _)| *name == client);
    found.map_or(Ok(()), |(_, tools)| ensure_installed(tools))
}

/// Installs the emulator if it is missing.
pub(crate) fn ensure_emulator() -> Result<(), String> {
    ensure_installed(EMULATOR)
}

/// Installs the solver if it is missing.
pub(crate) fn ensure_solver() -> Result<(), String> {
    ensure_installed(SOLVER)
}

/// Installs missing programs, and checks that tests of network faults can run: no test is skipped.
pub(crate) fn ensure(tools: &[Tool]) -> Result<(), String> {
    ensure_installed(tools)?;
    for (path, what) in [("/dev/net/tun", "TAP devices"), ("/proc/self/ns/net", "network namespaces")] {
        if !Path::new(path).exists() {
            return Err(format!("{path} does not exist: the tests of network faults need {what}"));
        }
    }
    let whoami = program(&["id", "-u"]).output()?;
    match whoami.trim() {
        "0" => Ok(()),
        _ => Err("the tests of network faults create network namespaces; run as root".to_string()),
    }
}

/// Installs missing programs. A program that is still missing is an error.
fn ensure_installed(tools: &[Tool]) -> Result<(), String> {
    let missing = missing(tools);
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    install(&packages).map_err(|reason| format!("install {} by hand: {reason}", packages.join(" and ")))?;
    match self::missing(tools).first() {
        Some(tool) => Err(format!("`{}` is missing although {} is installed", tool.name, tool.package)),
        None => Ok(()),
    }
}

fn missing(tools: &[Tool]) -> Vec<&Tool> {
    tools.iter().filter(|tool| !program(tool.check).works()).collect()
}

fn install(packages: &[&str]) -> Result<(), String> {
    let line = ["apt-get", "install", "--yes", "--no-install-recommends"];
    let install = || program(&[&line, packages].concat()).env("DEBIAN_FRONTEND", "noninteractive").run();
    // The package lists may be old or missing.
    install().or_else(|_| program(&["apt-get", "update"]).run().and_then(|()| install()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_found() {
        let there = Tool { name: "cargo", check: &["cargo", "--version"], package: "cargo" };
        let gone = Tool { name: "gone", check: &["suffrage-no-such-program"], package: "gone" };
        let fails = Tool { name: "broken", check: &["false"], package: "broken" };
        let names: Vec<&str> = missing(&[there, gone, fails]).iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["gone", "broken"]);
    }
}
