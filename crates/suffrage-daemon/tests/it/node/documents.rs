//! The configurations in documents and in `deploy` are valid.

use std::fs;

use crate::node::folder;
use crate::run;
use suffrage_cli::testing::path;
use suffrage_testbed::{Authority, secret};

/// The code blocks of this language in a document.
fn blocks<'a>(text: &'a str, kind: &str) -> Vec<&'a str> {
    let begin = format!("```{kind}\n");
    text.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn configurations_of_the_documents_pass_the_check() {
    let folder = folder("documents");
    let here = folder.display().to_string();
    let file = |name: &str| folder.join(name);
    assert_eq!(run(&format!("suffrage keygen {here}/cluster.key")).code, 0);
    secret(&file("token"), "correct-horse-battery\n");
    Authority::new("ours").sign(&file("node.pem"), &file("node.key"), 2090);
    let text = |name: &str| fs::read_to_string(path(name)).unwrap();
    let (operations, example) = (text("docs/operations.md"), text("deploy/suffrage.toml"));
    let mut configurations = blocks(&operations, "toml");
    assert!(configurations.len() >= 2, "there are examples");
    configurations.push(&example);
    for configuration in configurations {
        // Only the paths are replaced by those of the test.
        let moved = configuration.replace("/etc/suffrage", &here).replace("/var/lib/suffrage", &here);
        fs::write(file("suffrage.toml"), moved).unwrap();
        let ran = run(&format!("suffrage config check --config {here}/suffrage.toml"));
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{configuration}");
        assert!(ran.out.starts_with("valid: node "), "{}", ran.out);
    }
    fs::remove_dir_all(folder).unwrap();
}

/// The build copies every file that is not ignored, into a layer of the image.
#[test]
fn the_image_contains_no_secrets_and_no_build_output() {
    let build = fs::read_to_string(path("deploy/Containerfile")).unwrap();
    assert!(build.contains("-f deploy/Containerfile .\n") && build.contains("\nCOPY . .\n"), "{build}");
    let ignored = fs::read_to_string(path(".containerignore")).unwrap();
    for pattern in ["target", ".git", "**/*.key", "**/*.pem"] {
        assert!(ignored.lines().any(|line| line == pattern), "{pattern}");
    }
}

#[test]
fn the_unit_starts_a_node_with_the_file_of_the_example() {
    let unit = fs::read_to_string(path("deploy/suffrage.service")).unwrap();
    let set = |key: &str| unit.lines().find_map(|line| line.strip_prefix(&format!("{key}="))).unwrap();
    assert_eq!(set("ExecStart"), "/usr/local/bin/suffrage node --config /etc/suffrage/suffrage.toml");
    assert_eq!(set("Type"), "notify");
    let socket = std::path::Path::new(suffrage_node::config::LocalSocket::USUAL);
    assert_eq!(socket.parent(), Some(std::path::Path::new("/run").join(set("RuntimeDirectory")).as_path()));
    let stop = suffrage_core::Span::parse_duration(set("TimeoutStopSec")).unwrap();
    let longest = suffrage_core::Span::from_millis(60_000);
    assert!(stop > longest, "to stop is to wait for the longest lease that a client may have");
}
