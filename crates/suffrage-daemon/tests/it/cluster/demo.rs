//! The demo as users see it.

use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::cluster::support::{BINARY, Process, alone, until};

/// The number of running nodes of a demo.
fn nodes(demo: &str) -> usize {
    let folder = format!("suffrage-demo-{demo}-");
    let lines = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("cmdline")).ok());
    lines.filter(|line| line.contains("demo-node") && line.contains(&folder)).count()
}

fn folders(demo: &str) -> usize {
    let start = format!("suffrage-demo-{demo}-");
    let entries = std::fs::read_dir(std::env::temp_dir()).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(&start)).count()
}

#[test]
fn the_demo_kills_a_leader_and_another_leads() {
    let _alone = alone();
    let child = Command::new(BINARY).args(["demo", "--once"]).stdout(Stdio::piped()).spawn().unwrap();
    let demo = child.id().to_string();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    println!("{text}");
    assert!(output.status.success(), "{text}");
    let leads: Vec<(u64, u64)> = text
        .lines()
        .filter_map(|line| line.split_once(" leads with token "))
        .map(|(before, after)| {
            let number = |text: &str| text.trim_end_matches(',').parse::<u64>().unwrap();
            (number(before.rsplit(' ').next().unwrap()), number(after.split(' ').next().unwrap()))
        })
        .collect();
    let [.., (killed, before), (next, after)] = leads[..] else { panic!("two lead:\n{text}") };
    assert!(text.contains(&format!("node {killed}, process ")), "{text}");
    assert!(killed != next && before < after, "{text}");
    assert_eq!((nodes(&demo), folders(&demo)), (0, 0), "something is left");
}

#[test]
fn a_demo_that_ends_leaves_nothing_behind() {
    let _alone = alone();
    for (signal, leaves) in [(Signal::TERM, 0), (Signal::INT, 0), (Signal::KILL, 1)] {
        let child =
            Command::new(BINARY).args(["demo", "--nodes", "3"]).stdout(Stdio::null()).spawn().unwrap();
        let mut process = Process(child);
        let demo = process.0.id().to_string();
        until("three nodes run", || (nodes(&demo) == 3).then_some(()));
        process.signal(signal);
        process.code();
        until("no node is left", || (nodes(&demo) == 0).then_some(()));
        assert_eq!(folders(&demo), leaves, "{signal:?}: only one that is killed cannot tidy up");
        for entry in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&format!("suffrage-demo-{demo}-")) {
                std::fs::remove_dir_all(entry.path()).unwrap();
            }
        }
    }
}
