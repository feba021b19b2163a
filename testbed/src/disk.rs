//! A small disk, to test a full one.

use std::fs::{self, File};
use std::io::{Error, Result, Write};
use std::path::Path;

use rustix::mount::{MountFlags, mount};

use crate::Folder;

/// A folder with its own small file system. Dropping the value removes it.
#[derive(Debug)]
pub struct SmallDisk {
    folder: Folder,
}

impl SmallDisk {
    /// A disk of this size in KiB, which must be a whole number of memory pages.
    pub fn new(kib: u32) -> Result<SmallDisk> {
        let folder = Folder::new()?;
        let size =
            std::ffi::CString::new(format!("size={kib}k,mode=700")).expect("the options have no zero byte");
        mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), size.as_c_str()).map_err(|error| {
            let hint = if rustix::process::geteuid().is_root() { "" } else { "; run as root" };
            Error::other(format!("mount a tmpfs on {}: {error}{hint}", folder.path().display()))
        })?;
        Ok(SmallDisk { folder })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Fills the disk to the last byte with a file.
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

    /// Removes the file of [`SmallDisk::fill`].
    pub fn free(&self) -> Result<()> {
        fs::remove_file(self.path().join("filling"))
    }
}
