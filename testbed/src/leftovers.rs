//! Names that identify the process that created a resource, so that leftovers of killed tests can be removed.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "suffrage-testbed";

/// A unique name. It has the process id, its PID namespace and the start time of the process, because process ids are
/// reused.
pub(crate) fn name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    format!("{PREFIX}-{}-{process}-{}-{count}", pid_namespace(), start_time(process).unwrap_or_default())
}

/// Whether the process that created a resource of this name has ended. Resources of other PID namespaces are not
/// leftovers: their processes cannot be seen.
pub(crate) fn is_left_over(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('-')) else { return false };
    let parts: Vec<u64> = rest.split('-').map_while(|part| part.parse().ok()).collect();
    let &[namespace, process, start, ..] = parts.as_slice() else { return false };
    namespace == pid_namespace() && u32::try_from(process).ok().and_then(start_time) != Some(start)
}

/// The PID namespace of this process.
fn pid_namespace() -> u64 {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy()
        .chars()
        .filter(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .unwrap_or_default()
}

/// The start time of a live process, in clock ticks of the kernel.
fn start_time(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in brackets may contain any character. The start time is the 20th field after it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_resources_of_ended_processes_are_left_over() {
        assert_ne!(name(), name());
        assert!(!is_left_over(&name()));
        let (namespace, me) = (pid_namespace(), std::process::id());
        let start = start_time(me).unwrap();
        let made =
            |namespace: u64, process: u32, start: u64| format!("{PREFIX}-{namespace}-{process}-{start}-3-1");
        assert!(!is_left_over(&made(namespace, me, start)));
        assert!(is_left_over(&made(namespace, me, start - 1)), "an earlier process had this id");
        // The greatest process id of the kernel is 2^22.
        assert!(is_left_over(&made(namespace, 99_999_999, start)));
        assert!(
            !is_left_over(&made(namespace + 1, 99_999_999, start)),
            "the process may run in another container"
        );
        for other in ["suffrage-testbed", "suffrage-testbed-1-x-1", "suffrage-testbed99999999", "docker0", ""]
        {
            assert!(!is_left_over(other), "{other}");
        }
    }
}
