//! A disk that is soon full.

use std::fs::{self, File};
use std::io::{Error, Result, Write};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::leftovers::{self, is_left_over};

/// A folder of its own with room for few bytes. It is gone with the value.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// A disk for so many KiB, which is a whole number of pages of memory.
    pub fn new(kib: u32) -> Result<SmallDisk> {
        sweep();
        let path = std::env::temp_dir().join(leftovers::name());
        fs::create_dir(&path)?;
        let size = std::ffi::CString::new(format!("size={kib}k,mode=700")).expect("there is no zero in it");
        if let Err(error) = mount("tmpfs", &path, "tmpfs", MountFlags::empty(), size.as_c_str()) {
            _ = fs::remove_dir(&path);
            let hint = if rustix::process::geteuid().is_root() { "" } else { "; only root can do this" };
            return Err(Error::other(format!("mount a tmpfs on {}: {error}{hint}", path.display())));
        }
        Ok(SmallDisk { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills it up with a file, to the last byte.
    pub fn fill(&self) -> Result<()> {
        let mut file = File::create(self.path.join("filling"))?;
        loop {
            match file.write(&[b'x'; 1024]) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes that file.
    pub fn free(&self) -> Result<()> {
        fs::remove_file(self.path.join("filling"))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Whoever still has a file open there may keep it.
fn remove(path: &Path) {
    _ = unmount(path, UnmountFlags::DETACH);
    _ = fs::remove_dir(path);
}

/// Removes what tests that were killed have left.
fn sweep() {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_left_over) {
            remove(&entry.path());
        }
    }
}
