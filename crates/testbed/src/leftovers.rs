//! Names that say whose something is, so that what a killed test has left can be told from what is in use.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

const MARK: &str = "suffrage-testbed";

/// A name that nothing else has.
pub(crate) fn name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{MARK}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Whether something of this name has outlived the process that made it. One whose number another process has by
/// now is taken for alive, and is cleared away later.
pub(crate) fn is_left_over(name: &str) -> bool {
    let owner = name.strip_prefix(MARK).and_then(|rest| rest.strip_prefix('-')?.split('-').next());
    owner
        .and_then(|owner| owner.parse::<u32>().ok())
        .is_some_and(|owner| !Path::new("/proc").join(owner.to_string()).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_and_outlived_its_process_is_left_over() {
        assert_ne!(name(), name());
        assert!(!is_left_over(&name()));
        // No process has a number beyond the greatest that the kernel gives (2^22).
        assert!(is_left_over("suffrage-testbed-99999999-3-1"));
        for other in ["suffrage-testbed", "suffrage-testbed-x-1", "suffrage-testbed99999999", "docker0", ""] {
            assert!(!is_left_over(other), "{other}");
        }
    }
}
