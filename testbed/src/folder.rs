//! A folder that is gone with its value.

use std::fs;
use std::io::Result;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};

use crate::leftovers::{self, is_left_over};

/// A new folder among the system's temporary ones. It is gone with the value, whatever is in it.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// An empty one.
    pub fn new() -> Result<Folder> {
        sweep();
        let path = std::env::temp_dir().join(leftovers::name());
        fs::create_dir(&path)?;
        Ok(Folder { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// It may be a disk of its own. Whoever still has a file open there may keep it.
fn remove(path: &Path) {
    _ = unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    _ = fs::remove_dir_all(path);
}

/// Removes what tests that were killed have left.
fn sweep() {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_left_over) {
            remove(&entry.path());
        }
    }
}
