//! A disk that is soon full.

use std::fs::{self, File};
use std::io::{Error, Result, Write};
use std::path::Path;

use rustix::mount::{MountFlags, mount};

use crate::Folder;

/// A folder of its own with room for few bytes. It is gone with the value.
#[derive(Debug)]
pub struct SmallDisk {
    folder: Folder,
}

impl SmallDisk {
    /// A disk for so many KiB, which is a whole number of pages of memory.
    pub fn new(kib: u32) -> Result<SmallDisk> {
        let folder = Folder::new()?;
        let size = std::ffi::CString::new(format!("size={kib}k,mode=700")).expect("there is no zero in it");
        mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), size.as_c_str()).map_err(|error| {
            let hint = if rustix::process::geteuid().is_root() { "" } else { "; only root can do this" };
            Error::other(format!("mount a tmpfs on {}: {error}{hint}", folder.path().display()))
        })?;
        Ok(SmallDisk { folder })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Fills it up with a file, to the last byte.
    pub fn fill(&self) -> Result<()> {
        let mut file = File::create(self.path().join("filling"))?;
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
        fs::remove_file(self.path().join("filling"))
    }
}
