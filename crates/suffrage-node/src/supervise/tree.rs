//! The tree of processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// An entry of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// Whether the process is a zombie.
    pub(super) dead: bool,
}

/// All processes that are visible to this process.
pub(super) fn processes() -> Vec<Entry> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).collect()
}

/// Parses `/proc/PID/stat`. The name in it may contain spaces and parentheses.
fn parse(stat: &str) -> Option<Entry> {
    let (head, tail) = (stat.split_once(" (")?.0, stat.rsplit_once(") ")?.1);
    let mut words = tail.split(' ');
    let state = words.next()?;
    let mut number = || words.next()?.parse().ok();
    Some(Entry {
        pid: head.parse().ok()?,
        parent: number()?,
        group: number()?,
        session: number()?,
        dead: matches!(state, "Z" | "X"),
    })
}

/// All descendants of a process that have not ended.
pub(super) fn descendants(root: i32) -> Vec<Entry> {
    below(root, &processes())
}

/// All descendants of a process among these that have not ended.
pub(super) fn below(root: i32, all: &[Entry]) -> Vec<Entry> {
    let mut children: BTreeMap<i32, Vec<Entry>> = BTreeMap::new();
    for entry in all {
        children.entry(entry.parent).or_default().push(*entry);
    }
    let (mut found, mut seen, mut open) = (Vec::new(), BTreeSet::from([root]), vec![root]);
    while let Some(parent) = open.pop() {
        for entry in children.get(&parent).into_iter().flatten() {
            if seen.insert(entry.pid) {
                open.push(entry.pid);
                found.push(*entry);
            }
        }
    }
    found.retain(|entry| !entry.dead);
    found
}

/// Sends a signal. A process that has ended is no error.
pub(super) fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pid: i32, parent: i32) -> Entry {
        Entry { pid, parent, group: pid, session: 1, dead: false }
    }

    #[test]
    fn names_with_spaces_and_parentheses_are_parsed() {
        let line = "17 (a) Z 1 (b) S 4 17 3 0 -1 4194304 99 0";
        assert_eq!(parse(line), Some(Entry { pid: 17, parent: 4, group: 17, session: 3, dead: false }));
        assert!(parse("17 (x) Z 4 17 3 0").unwrap().dead);
        assert_eq!(parse("17 (x) S 4"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn descendants_of_zombies_are_found() {
        let dead = Entry { dead: true, ..entry(3, 2) };
        let all = [entry(1, 0), entry(2, 1), dead, entry(4, 3), entry(5, 1), entry(6, 5)];
        let pids = |root| {
            let mut pids: Vec<i32> = below(root, &all).iter().map(|entry| entry.pid).collect();
            pids.sort_unstable();
            pids
        };
        assert_eq!(pids(2), [4]);
        assert_eq!(pids(1), [2, 4, 5, 6]);
        assert!(pids(6).is_empty());
    }

    #[test]
    fn this_process_is_found() {
        let me = std::process::id() as i32;
        let parent = std::os::unix::process::parent_id() as i32;
        assert!(processes().iter().any(|entry| entry.pid == me && entry.parent == parent));
    }
}
