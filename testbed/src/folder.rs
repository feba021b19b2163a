//! A temporary folder.

use std::fs;
use std::io::Result;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};

use crate::leftovers::{self, is_left_over};

/// A new folder in the temporary folder of the system, or in memory. Dropping the value removes it with its contents.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Creates an empty folder.
    pub fn new() -> Result<Folder> {
        Folder::within(&std::env::temp_dir())
    }

    /// Creates an empty folder in memory, if the system has such a place: for tests that a slow disk must not disturb.
    pub fn in_memory() -> Result<Folder> {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Folder::within(memory) } else { Folder::new() }
    }

    fn within(parent: &Path) -> Result<Folder> {
        remove_leftovers(parent);
        let path = parent.join(leftovers::name());
        fs::create_dir(&path)?;
        Ok(Folder { path })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Unmounts and removes a folder, which may be a [`crate::SmallDisk`]. Open files stay usable.
fn remove(path: &Path) {
    _ = unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    _ = fs::remove_dir_all(path);
}

/// Removes the folders of killed tests in this folder.
fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_left_over) {
            remove(&entry.path());
        }
    }
}
