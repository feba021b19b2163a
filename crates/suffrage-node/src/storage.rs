//! Durable state of a node: a folder with small files that are replaced atomically.
//!
//! ```text
//!   folder                 locked while the node runs
//!   folder/node            the id of the node
//!   folder/boot.state      the boot of the last run (see `seal`)
//!   folder/NAME.started    the mark that the process NAME has started before
//!   folder/NAME.state      the last saved state of the process NAME
//!
//!   folder/NAME.outdated   a state that was older than one that peers have seen
//!
//!   a .state file:   "suffrage" 8 │ format 4 │ node 8 │ saves 8 │ length 8 │ state, in postcard │ xxh3 of all that 8
//! ```
//!
//! A state file counts its saves, over all runs. Peers remember the count, and notice a folder that was restored from an
//! older copy (`lease::witness`).
//!
//! A save writes a new file, calls fsync, and renames the file over the old one, which is atomic also on power loss. If
//! the save fails before the rename, for example because the disk is full, the old state remains. The caller must then
//! not carry out the effects that follow the save.
//!
//! A damaged file is an error with a remedy, never "no state". A process without `.started` is new ([`Start::Fresh`]). A
//! process with `.started` and without state has lost it ([`Start::Recovered`] with none). The mark is written after the
//! first save and before the first message, so that a process that crashes during its first start is new again. If the
//! whole folder is lost, the mark is lost, too: therefore [`DataFolder::open`] does not create a folder, and an operator
//! must not create one for a node that has voted before.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use suffrage_core::{NodeId, Start};
use xxhash_rust::xxh3::xxh3_64;

use crate::Error;
use suffrage_net::seal::Boot;

/// The format of state files.
const FORMAT: u32 = 3;
const MAGIC: &[u8; 8] = b"suffrage";
const HEADER: usize = 8 + 4 + 8 + 8 + 8;
const CHECKSUM: usize = 8;

/// Storage for the state of one process that survives a crash.
pub trait Storage<S>: Send + 'static {
    /// The start of the process: fresh, or recovered with its saved state.
    fn start(&mut self) -> Result<Start<S>, Error>;

    /// Replaces the state durably. On failure, the storage has the old state, or the new one if only the last step
    /// failed, and the process must not continue.
    fn save(&mut self, state: &S) -> Result<(), Error>;

    /// Marks the process as started. Called before the first message is sent. Idempotent.
    fn mark_started(&mut self) -> Result<(), Error>;

    /// The number of saves of the state so far, over all runs. None if the storage does not count them: peers then do not
    /// notice that the storage was restored from an older copy.
    fn saves(&self) -> Option<u64> {
        None
    }

    /// Sets the state aside, because it is older than one that the process had: the process has lost its state from now on.
    fn set_aside(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// The data folder of a node, locked while this value exists.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    node: NodeId,
    /// Holds the lock, together with the state files.
    lock: Arc<File>,
}

impl DataFolder {
    /// Creates the data folder of a new node. The folder must not belong to a node already.
    pub fn create(path: &Path, node: NodeId) -> Result<DataFolder, Error> {
        fs::create_dir_all(path).map_err(Error::file("create", path))?;
        let folder = DataFolder::lock(path, node)?;
        let marker = path.join("node");
        if marker.try_exists().map_err(Error::file("read", &marker))? {
            return Err(Error::NodeExists { path: path.to_path_buf() });
        }
        replace(path, "node", format!("{node}\n").as_bytes())?;
        // The entry of the folder in its parent must be durable, too.
        if let Some(parent) = path.canonicalize().ok().as_deref().and_then(Path::parent) {
            flush(parent)?;
        }
        Ok(folder)
    }

    /// Opens the data folder of a node that has been started before.
    pub fn open(path: &Path, node: NodeId) -> Result<DataFolder, Error> {
        let no_node = || Error::NoNode { path: path.to_path_buf() };
        let folder = match DataFolder::lock(path, node) {
            Err(Error::File { source, .. }) if source.kind() == ErrorKind::NotFound => return Err(no_node()),
            locked => locked?,
        };
        let marker = path.join("node");
        let text = match fs::read_to_string(&marker) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(no_node()),
            read => read.map_err(Error::file("read", &marker))?,
        };
        match text.strip_suffix('\n').map(str::parse) {
            Some(Ok(found)) if found == node => Ok(folder),
            Some(Ok(found)) => Err(Error::AnotherNode { path: path.to_path_buf(), found, expected: node }),
            _ => Err(Error::Damaged { path: marker, reason: "it contains no node id".to_string() }),
        }
    }

    /// Locks the folder until this value is dropped or the process ends.
    fn lock(path: &Path, node: NodeId) -> Result<DataFolder, Error> {
        let lock = File::open(path).map_err(Error::file("open", path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(DataFolder { path: path.to_path_buf(), node, lock: Arc::new(lock) }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::FolderInUse { path: path.to_path_buf() }),
            Err(error) => Err(Error::file("lock", path)(error.into())),
        }
    }

    /// Opens or creates the folder. Only for nodes that do not vote: a voter that has lost its folder must not start as a
    /// new one.
    pub fn open_or_create(path: &Path, node: NodeId) -> Result<DataFolder, Error> {
        match DataFolder::open(path, node) {
            Err(Error::NoNode { .. }) => DataFolder::create(path, node),
            opened => opened,
        }
    }

    /// The boot of this run of the node: greater than the one before, whatever the clock shows. Must be called once per
    /// run.
    pub fn boot(&self) -> Result<Boot, Error> {
        let mut file = self.file::<u64>("boot");
        let boot = Boot::after(file.load()?.unwrap_or(0))?;
        file.save(&boot.began())?;
        Ok(boot)
    }

    /// The state file of the process of this name.
    ///
    /// # Panics
    /// If the name is not one word of letters, digits and dashes.
    pub fn file<S>(&self, name: &str) -> StateFile<S> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        assert!(!name.is_empty() && name.bytes().all(plain), "{name} is no name for a file");
        StateFile {
            folder: self.path.clone(),
            name: name.to_string(),
            node: self.node,
            started: false,
            saves: 0,
            _lock: Arc::clone(&self.lock),
            state: PhantomData,
        }
    }
}

/// Replaces a file of the folder atomically and durably.
fn replace(folder: &Path, name: &str, content: &[u8]) -> Result<(), Error> {
    let (target, temporary) = (folder.join(name), folder.join(format!("{name}.new")));
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, &target)
    };
    if let Err(source) = write() {
        // If the temporary file cannot be removed, the next save overwrites it.
        _ = fs::remove_file(&temporary);
        return Err(Error::File { doing: "write", path: target, source });
    }
    flush(folder)
}

/// Makes the entries of a folder durable.
fn flush(folder: &Path) -> Result<(), Error> {
    let flushed = File::open(folder).and_then(|folder| folder.sync_all());
    flushed.map_err(Error::file("write", folder))
}

/// The state of one process, as a file of a [`DataFolder`].
#[derive(Debug)]
pub struct StateFile<S> {
    folder: PathBuf,
    name: String,
    node: NodeId,
    /// Whether the mark exists.
    started: bool,
    /// The number of saves, of which the file has the last.
    saves: u64,
    /// A save may still be running when the node is aborted: until it has ended, no other process may use the folder.
    _lock: Arc<File>,
    state: PhantomData<fn() -> S>,
}

impl<S> StateFile<S> {
    fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.state", self.name))
    }

    fn mark(&self) -> PathBuf {
        self.folder.join(format!("{}.started", self.name))
    }
}

impl<S: Serialize + DeserializeOwned> StateFile<S> {
    /// The last saved state. None if there is no file.
    pub fn load(&mut self) -> Result<Option<S>, Error> {
        let path = self.path();
        let content = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(Error::file("read", &path))?,
        };
        let (saves, state) = self.decode(&content)?;
        self.saves = saves;
        Ok(Some(state))
    }

    /// Replaces the state durably.
    pub fn save(&mut self, state: &S) -> Result<(), Error> {
        replace(&self.folder, &format!("{}.state", self.name), &self.encode(state))?;
        self.saves += 1;
        Ok(())
    }

    fn encode(&self, state: &S) -> Vec<u8> {
        let state = postcard::to_extend(state, Vec::new()).expect("what is saved is plain data");
        let mut content = Vec::with_capacity(HEADER + state.len() + CHECKSUM);
        content.extend(MAGIC);
        content.extend(FORMAT.to_be_bytes());
        content.extend(self.node.0.to_be_bytes());
        content.extend((self.saves + 1).to_be_bytes());
        content.extend((state.len() as u64).to_be_bytes());
        content.extend(state);
        content.extend(xxh3_64(&content).to_be_bytes());
        content
    }

    /// The number of saves, and the state.
    fn decode(&self, content: &[u8]) -> Result<(u64, S), Error> {
        let path = self.path();
        let damaged = |reason: &str| Error::Damaged { path: path.clone(), reason: reason.to_string() };
        if content.len() < HEADER + CHECKSUM {
            return Err(damaged(&format!("it has {} bytes, fewer than the header", content.len())));
        }
        let (body, checksum) = content.split_at(content.len() - CHECKSUM);
        if xxh3_64(body).to_be_bytes() != checksum {
            return Err(damaged("its checksum is wrong"));
        }
        let (header, state) = body.split_at(HEADER);
        let number = |from: usize, to: usize| {
            header[from..to].iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
        };
        if header[..8] != *MAGIC {
            return Err(damaged("it is not a state file"));
        }
        if number(8, 12) != u64::from(FORMAT) {
            return Err(Error::Format { path, found: number(8, 12) as u32, known: FORMAT });
        }
        if number(12, 20) != self.node.0 {
            return Err(Error::AnotherNode { path, found: NodeId(number(12, 20)), expected: self.node });
        }
        if number(28, 36) != state.len() as u64 {
            return Err(damaged("its length differs from the length in its header"));
        }
        match postcard::take_from_bytes(state) {
            Ok((state, [])) => Ok((number(20, 28), state)),
            _ => Err(damaged("it contains another type of state")),
        }
    }
}

impl<S: Serialize + DeserializeOwned + 'static> Storage<S> for StateFile<S> {
    fn start(&mut self) -> Result<Start<S>, Error> {
        let mark = self.mark();
        self.started = mark.try_exists().map_err(Error::file("read", &mark))?;
        Ok(match (self.load()?, self.started) {
            (None, false) => Start::Fresh,
            (state, _) => Start::Recovered(state),
        })
    }

    fn save(&mut self, state: &S) -> Result<(), Error> {
        StateFile::save(self, state)
    }

    fn mark_started(&mut self) -> Result<(), Error> {
        if !self.started {
            replace(&self.folder, &format!("{}.started", self.name), b"")?;
            self.started = true;
        }
        Ok(())
    }

    fn saves(&self) -> Option<u64> {
        Some(self.saves)
    }

    fn set_aside(&mut self) -> Result<(), Error> {
        let (path, aside) = (self.path(), self.folder.join(format!("{}.outdated", self.name)));
        fs::rename(&path, aside).map_err(Error::file("rename", &path))?;
        flush(&self.folder)
    }
}

/// Storage in memory: for processes without durable state, and for tests of crashes. Clones share the memory.
#[derive(Debug)]
pub struct MemoryDisk<S> {
    kept: Arc<Mutex<Kept<S>>>,
}

#[derive(Debug)]
struct Kept<S> {
    state: Option<S>,
    started: bool,
    saves: u64,
}

impl<S> Default for MemoryDisk<S> {
    fn default() -> Self {
        MemoryDisk { kept: Arc::new(Mutex::new(Kept { state: None, started: false, saves: 0 })) }
    }
}

impl<S> Clone for MemoryDisk<S> {
    fn clone(&self) -> Self {
        MemoryDisk { kept: Arc::clone(&self.kept) }
    }
}

impl<S: Clone> MemoryDisk<S> {
    /// A copy that shares nothing with this disk, like a backup.
    pub fn backup(&self) -> MemoryDisk<S> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = Kept { state: kept.state.clone(), started: kept.started, saves: kept.saves };
        MemoryDisk { kept: Arc::new(Mutex::new(kept)) }
    }
}

impl<S: Clone + Send + 'static> Storage<S> for MemoryDisk<S> {
    fn start(&mut self) -> Result<Start<S>, Error> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match (&kept.state, kept.started) {
            (None, false) => Start::Fresh,
            (state, _) => Start::Recovered(state.clone()),
        })
    }

    fn save(&mut self, state: &S) -> Result<(), Error> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.state, kept.saves) = (Some(state.clone()), kept.saves + 1);
        Ok(())
    }

    fn mark_started(&mut self) -> Result<(), Error> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).started = true;
        Ok(())
    }

    fn saves(&self) -> Option<u64> {
        Some(self.kept.lock().unwrap_or_else(PoisonError::into_inner).saves)
    }

    fn set_aside(&mut self) -> Result<(), Error> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).state = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
