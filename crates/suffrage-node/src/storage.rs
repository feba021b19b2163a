//! What a node must not forget: a folder with small files that are replaced as a whole.
//!
//! ```text
//!   folder                 locked while the node runs
//!   folder/node            whose folder it is
//!   folder/boot.state      when the last run began (see `seal`)
//!   folder/NAME.started    that something of this name has started before
//!   folder/NAME.state      what it has saved last
//!
//!   a .state file:   "suffrage" 8 │ format 4 │ node 8 │ length 8 │ state, in postcard │ xxh3 of all that 8
//! ```
//!
//! To save is to write another file, have it on the disk, and put it in the old one's place, which is done
//! or not done, also if the power fails. When it fails before that, because the disk is full, say, the old state
//! stands and nothing is left behind. The caller must then not do what it was to do after saving.
//!
//! A file that is not as it was written is an error that says what to do; it is never taken for "nothing".
//! And nothing is not nothing: something new ([`Start::Fresh`]) has no `.started`; something whose state is gone
//! ([`Start::Recovered`] with none) has. The mark is made after the first state is saved and before the first
//! word is sent, so that one who crashes while it begins just begins again. If the whole folder is gone, no
//! mark is left either: that is why [`DataFolder::open`] does not create it, and why an operator who creates
//! it again for a node that has voted before must know what that means.

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
const FORMAT: u32 = 1;
const MAGIC: &[u8; 8] = b"suffrage";
const HEADER: usize = 8 + 4 + 8 + 8;
const CHECKSUM: usize = 8;

/// Keeps what outlives a crash of one process.
pub trait Storage<S>: Send + 'static {
    /// How the process comes to exist.
    fn start(&mut self) -> Result<Start<S>, Error>;

    /// Replaces what is kept, durably. If it fails, the old state stands, or the new one if only the last step
    /// failed; and the process must stop before it does anything else.
    fn save(&mut self, state: &S) -> Result<(), Error>;

    /// From now on the process has existed. Called before anybody can know of it, as often as one likes.
    fn mark_started(&mut self) -> Result<(), Error>;
}

/// The folder of a node, locked while this value exists.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    node: NodeId,
    /// Holds the lock.
    _lock: File,
}

impl DataFolder {
    /// Makes the folder of a new node. It must not be one already.
    pub fn create(path: &Path, node: NodeId) -> Result<DataFolder, Error> {
        fs::create_dir_all(path).map_err(Error::file("create", path))?;
        let folder = DataFolder::lock(path, node)?;
        let marker = path.join("node");
        if marker.try_exists().map_err(Error::file("read", &marker))? {
            return Err(Error::NodeExists { path: path.to_path_buf() });
        }
        replace(path, "node", format!("{node}\n").as_bytes())?;
        // That the folder is there must be durable, too. One without a parent to be asked always is.
        if let Some(parent) = path.canonicalize().ok().as_deref().and_then(Path::parent) {
            flush(parent)?;
        }
        Ok(folder)
    }

    /// Opens the folder of a node that has been here before.
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
            _ => Err(Error::Damaged { path: marker, reason: "it names no node".to_string() }),
        }
    }

    /// Keeps other processes out, until this value or the process is gone.
    fn lock(path: &Path, node: NodeId) -> Result<DataFolder, Error> {
        let lock = File::open(path).map_err(Error::file("open", path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(DataFolder { path: path.to_path_buf(), node, _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::FolderInUse { path: path.to_path_buf() }),
            Err(error) => Err(Error::file("lock", path)(error.into())),
        }
    }

    /// Opens the folder, or makes it. For nodes that keep no promises of old: one that votes, and whose folder
    /// has vanished, must not just begin anew.
    pub fn open_or_create(path: &Path, node: NodeId) -> Result<DataFolder, Error> {
        match DataFolder::open(path, node) {
            Err(Error::NoNode { .. }) => DataFolder::create(path, node),
            opened => opened,
        }
    }

    /// The present run of the node: later than the one before, whatever the clock says. To be asked for once.
    pub fn boot(&self) -> Result<Boot, Error> {
        let mut file = self.file::<u64>("boot");
        let boot = Boot::after(file.load()?.unwrap_or(0))?;
        file.save(&boot.began())?;
        Ok(boot)
    }

    /// What something of this name keeps here.
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
            state: PhantomData,
        }
    }
}

/// Puts a file into the folder, whole or not at all, and durably.
fn replace(folder: &Path, name: &str, content: &[u8]) -> Result<(), Error> {
    let (target, temporary) = (folder.join(name), folder.join(format!("{name}.new")));
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, &target)
    };
    if let Err(source) = write() {
        // What is left of it is overwritten next time, if it cannot be removed now.
        _ = fs::remove_file(&temporary);
        return Err(Error::File { doing: "write", path: target, source });
    }
    flush(folder)
}

/// Makes durable which files a folder has.
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
    /// The mark has been made, or was found.
    started: bool,
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
    /// What was saved last; none if there is no file.
    pub fn load(&self) -> Result<Option<S>, Error> {
        let path = self.path();
        let content = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(Error::file("read", &path))?,
        };
        self.decode(&content).map(Some)
    }

    /// Replaces what was saved, durably.
    pub fn save(&mut self, state: &S) -> Result<(), Error> {
        replace(&self.folder, &format!("{}.state", self.name), &self.encode(state))
    }

    fn encode(&self, state: &S) -> Vec<u8> {
        let state = postcard::to_extend(state, Vec::new()).expect("what is saved is plain data");
        let mut content = Vec::with_capacity(HEADER + state.len() + CHECKSUM);
        content.extend(MAGIC);
        content.extend(FORMAT.to_be_bytes());
        content.extend(self.node.0.to_be_bytes());
        content.extend((state.len() as u64).to_be_bytes());
        content.extend(state);
        content.extend(xxh3_64(&content).to_be_bytes());
        content
    }

    fn decode(&self, content: &[u8]) -> Result<S, Error> {
        let path = self.path();
        let damaged = |reason: &str| Error::Damaged { path: path.clone(), reason: reason.to_string() };
        if content.len() < HEADER + CHECKSUM {
            return Err(damaged(&format!("it has {} bytes, fewer than any", content.len())));
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
            return Err(damaged("it is another kind of file"));
        }
        if number(8, 12) != u64::from(FORMAT) {
            return Err(Error::Format { path, found: number(8, 12) as u32, known: FORMAT });
        }
        if number(12, 20) != self.node.0 {
            return Err(Error::AnotherNode { path, found: NodeId(number(12, 20)), expected: self.node });
        }
        if number(20, 28) != state.len() as u64 {
            return Err(damaged("it has another length than it says"));
        }
        match postcard::take_from_bytes(state) {
            Ok((state, [])) => Ok(state),
            _ => Err(damaged("it holds another kind of state")),
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
}

/// Keeps the state of a process in memory, as if on a disk: for processes that need none, and for tests of
/// crashes. Clones are the same disk.
#[derive(Debug)]
pub struct MemoryDisk<S> {
    kept: Arc<Mutex<Kept<S>>>,
}

#[derive(Debug)]
struct Kept<S> {
    state: Option<S>,
    started: bool,
}

impl<S> Default for MemoryDisk<S> {
    fn default() -> Self {
        MemoryDisk { kept: Arc::new(Mutex::new(Kept { state: None, started: false })) }
    }
}

impl<S> Clone for MemoryDisk<S> {
    fn clone(&self) -> Self {
        MemoryDisk { kept: Arc::clone(&self.kept) }
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
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).state = Some(state.clone());
        Ok(())
    }

    fn mark_started(&mut self) -> Result<(), Error> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).started = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
