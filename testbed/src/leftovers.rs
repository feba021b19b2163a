//! Names that say whose something is, so that what a killed test has left can be told from what is in use.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

const MARK: &str = "suffrage-testbed";

/// A name that nothing else has: after the process that made it, by its number, by where its number counts, and by
/// when it began, since numbers are used again.
pub(crate) fn name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    format!("{MARK}-{}-{process}-{}-{count}", realm(), began(process).unwrap_or_default())
}

/// Whether something of this name has outlived the process that made it. Of processes in another container nothing is
/// known here, and what is theirs is left alone.
pub(crate) fn is_left_over(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(MARK).and_then(|rest| rest.strip_prefix('-')) else { return false };
    let parts: Vec<u64> = rest.split('-').map_while(|part| part.parse().ok()).collect();
    let &[home, process, birth, ..] = parts.as_slice() else { return false };
    home == realm() && u32::try_from(process).ok().and_then(began) != Some(birth)
}

/// The namespace that the numbers of processes are of.
fn realm() -> u64 {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy()
        .chars()
        .filter(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .unwrap_or_default()
}

/// When a process that lives began, in the kernel's ticks.
fn began(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Its name, in brackets, may hold anything; the beginning is the 20th after that.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_and_outlived_its_process_is_left_over() {
        assert_ne!(name(), name());
        assert!(!is_left_over(&name()));
        let (home, me) = (realm(), std::process::id());
        let birth = began(me).unwrap();
        let made = |home: u64, process: u32, birth: u64| format!("{MARK}-{home}-{process}-{birth}-3-1");
        assert!(!is_left_over(&made(home, me, birth)));
        assert!(is_left_over(&made(home, me, birth - 1)), "another process had its number");
        // No process has a number beyond the greatest that the kernel gives (2^22).
        assert!(is_left_over(&made(home, 99_999_999, birth)));
        assert!(!is_left_over(&made(home + 1, 99_999_999, birth)), "it may live in another container");
        for other in ["suffrage-testbed", "suffrage-testbed-1-x-1", "suffrage-testbed99999999", "docker0", ""]
        {
            assert!(!is_left_over(other), "{other}");
        }
    }
}
