//! The keys of a cluster, and their files.
//!
//! A key file has one key per line, as 64 hexadecimal digits. Lines that begin with `#` are comments. The first key
//! seals what this node sends, and all keys open what it receives. A key is therefore rotated without a moment in
//! which two nodes cannot communicate:
//!
//! ```text
//!   1. old           at every node
//!   2. old, new      at one node after the other: all can open what is sealed with either
//!   3. new, old      at one node after the other
//!   4. new           at one node after the other: datagrams sealed with the old key are rejected from now on
//! ```
//!
//! A holder of the key can impersonate any node. Keys are never shown: not by `Debug`, not in errors.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use zeroize::Zeroizing;

use crate::Error;
use crate::seal::{Boot, BootKey};

/// The maximum number of keys. A rotation needs two keys, and overlapping rotations need three.
pub const MAX_KEYS: usize = 8;
/// The length of a key, in bytes.
const KEY: usize = 32;

/// The key id in a datagram, which limits the number of keys to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub(crate) [u8; 4]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

/// A secret that the nodes of a cluster share.
#[derive(Clone)]
pub struct Key {
    secret: Zeroizing<[u8; KEY]>,
    id: KeyId,
}

impl Key {
    /// The key of these bytes, which must be random.
    pub fn new(secret: [u8; KEY]) -> Key {
        let secret = Zeroizing::new(secret);
        let id = id_of(&secret);
        Key { secret, id }
    }

    /// A new random key.
    pub fn generate() -> Result<Key, Error> {
        let mut secret = Zeroizing::new([0; KEY]);
        getrandom::fill(&mut *secret)?;
        Ok(Key::new(*secret))
    }

    /// The id of the key, which reveals nothing about the secret.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The key for the datagrams of one boot.
    pub(crate) fn boot_key(&self, boot: Boot) -> BootKey {
        BootKey::new(&self.secret, boot)
    }

    fn parse(line: &str) -> Result<Key, &'static str> {
        let digits = line.as_bytes();
        if digits.len() != 2 * KEY {
            return Err("a key is 64 hexadecimal digits");
        }
        let mut secret = Zeroizing::new([0; KEY]);
        for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |place: usize| char::from(pair[place]).to_digit(16);
            let (Some(high), Some(low)) = (digit(0), digit(1)) else {
                return Err("a key is hexadecimal digits only");
            };
            *byte = (high << 4 | low) as u8;
        }
        Ok(Key::new(*secret))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

/// The id of a key: a part of the authentication tag of an empty message. No datagram uses this nonce (see
/// [`Boot`](crate::seal::Boot): no boot is zero), and observers see tags anyway.
fn id_of(secret: &[u8; KEY]) -> KeyId {
    let tag = BootKey::new(secret, Boot::NONE).encrypt(0, b"suffrage key id", &mut []);
    KeyId([tag[0], tag[1], tag[2], tag[3]])
}

/// The keys of a cluster: the first seals, all open.
#[derive(Clone, Debug)]
pub struct Keyring {
    keys: Vec<Key>,
}

impl Keyring {
    /// The keyring of these keys, of which the first seals.
    pub fn new(keys: Vec<Key>) -> Result<Keyring, Error> {
        match keys.len() {
            0 => Err(Error::NoKey),
            1..=MAX_KEYS => Ok(Keyring { keys }),
            count => Err(Error::TooManyKeys { count, most: MAX_KEYS }),
        }
    }

    /// A keyring with one new random key.
    pub fn generate() -> Result<Keyring, Error> {
        Ok(Keyring { keys: vec![Key::generate()?] })
    }

    /// The keys; the first one seals.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Loads a key file. Fails if other users than its owner may read or write it.
    pub fn load(path: &Path) -> Result<Keyring, Error> {
        let mut file = fs::File::open(path).map_err(Error::file("read", path))?;
        // The mode of the open file: the path may point to another file by now.
        let mode = file.metadata().map_err(Error::file("read", path))?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(Error::KeysExposed { path: path.to_path_buf(), mode });
        }
        // The full capacity at once, since a growing string leaves copies of the keys in memory.
        let mut text = Zeroizing::new(String::with_capacity(64 * 1024));
        let most = text.capacity() as u64;
        (&mut file).take(most).read_to_string(&mut text).map_err(Error::file("read", path))?;
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                let wrong = |reason| Error::KeyFile { path: path.to_path_buf(), line: index + 1, reason };
                keys.push(Key::parse(line).map_err(wrong)?);
            }
        }
        Keyring::new(keys)
    }

    /// Adds a new key at the end, which opens but does not seal yet: the second step of a rotation.
    pub fn with_new_key(mut self) -> Result<Keyring, Error> {
        self.keys.push(Key::generate()?);
        Keyring::new(self.keys)
    }

    /// Moves the last key to the front, so that it seals: the third step of a rotation.
    pub fn with_last_first(mut self) -> Keyring {
        self.keys.rotate_right(1);
        self
    }

    /// Keeps only the first key: the last step of a rotation.
    pub fn with_first_only(mut self) -> Keyring {
        self.keys.truncate(1);
        self
    }

    /// Creates a key file that only its owner may read. Fails if the file exists, and does not change it.
    pub fn create(&self, path: &Path) -> Result<(), Error> {
        let text = self.text();
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(Error::file("create", path))?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|source| {
            // A partial key file is useless. If its removal fails too, the first error is returned.
            _ = fs::remove_file(path);
            Error::File { doing: "write", path: path.to_path_buf(), source }
        })
    }

    /// Replaces a key file atomically.
    pub fn replace(&self, path: &Path) -> Result<(), Error> {
        let mut temporary = path.as_os_str().to_os_string();
        temporary.push(".new");
        let temporary = Path::new(&temporary);
        self.create(temporary)?;
        fs::rename(temporary, path).map_err(|source| {
            _ = fs::remove_file(temporary);
            Error::File { doing: "replace", path: path.to_path_buf(), source }
        })
    }

    fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(256 + self.keys.len() * 80));
        text.push_str("# Keys of a suffrage cluster: the first seals, all open. Keep them secret.\n");
        for key in &self.keys {
            for byte in key.secret.iter() {
                for digit in [byte >> 4, byte & 15] {
                    text.extend(char::from_digit(u32::from(digit), 16));
                }
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use suffrage_testbed::Folder;

    fn ring(seeds: &[u8]) -> Keyring {
        Keyring::new(seeds.iter().map(|&seed| Key::new([seed; KEY])).collect()).unwrap()
    }

    #[test]
    fn a_key_file_round_trips_and_is_rejected_if_others_can_access_it() {
        let folder = Folder::new().unwrap();
        let path = folder.path().join("cluster.key");
        let ring = ring(&[0xa5, 7]);
        ring.create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let read = Keyring::load(&path).unwrap();
        assert!(read.keys.iter().zip(&ring.keys).all(|(a, b)| *a.secret == *b.secret));
        assert_eq!(read.keys.len(), 2);
        for mode in [0o640, 0o604, 0o620, 0o660, 0o644] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = Keyring::load(&path).unwrap_err().to_string();
            assert!(error.contains("chmod 600") && error.contains(&format!("{mode:03o}")), "{error}");
        }
    }

    #[test]
    fn create_does_not_overwrite_an_existing_file() {
        let folder = Folder::new().unwrap();
        let path = folder.path().join("cluster.key");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(ring(&[1]).create(&path), Err(Error::File { doing: "create", .. })));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_rotation_changes_the_key_file_step_by_step() {
        let folder = Folder::new().unwrap();
        let path = folder.path().join("cluster.key");
        let ids = |ring: &Keyring| ring.keys.iter().map(Key::id).collect::<Vec<_>>();
        let old = ring(&[1]);
        old.create(&path).unwrap();
        let both = Keyring::load(&path).unwrap().with_new_key().unwrap();
        both.replace(&path).unwrap();
        let [first, second] = ids(&Keyring::load(&path).unwrap())[..] else { panic!("two keys") };
        assert_eq!(first, old.keys[0].id());
        Keyring::load(&path).unwrap().with_last_first().replace(&path).unwrap();
        assert_eq!(ids(&Keyring::load(&path).unwrap()), [second, first]);
        Keyring::load(&path).unwrap().with_first_only().replace(&path).unwrap();
        assert_eq!(ids(&Keyring::load(&path).unwrap()), [second]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
        assert!(matches!(ring(&[1; 8]).with_new_key(), Err(Error::TooManyKeys { count: 9, most: 8 })));
    }

    #[test]
    fn errors_name_the_line_and_never_the_secret() {
        let folder = Folder::new().unwrap();
        let good = "0123456789abcdef".repeat(4);
        let deadbeef = "deadbeef".repeat(8);
        for (index, (text, word)) in [
            (format!("# a comment\n\n{good}\n{}", &deadbeef[1..]), "line 4: a key is 64"),
            (format!("{}g", &deadbeef[1..]), "line 1: a key is hexadecimal"),
            ("é".repeat(32), "line 1: a key is hexadecimal"),
            ("# nothing\n".to_string(), "no key"),
            (format!("{good}\n").repeat(9), "9 keys are too many"),
        ]
        .into_iter()
        .enumerate()
        {
            let path = folder.path().join(index.to_string());
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let error = Keyring::load(&path).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains("dead"), "{error}");
        }
    }

    #[test]
    fn debug_output_hides_keys_and_key_ids_differ() {
        let ring = ring(&[0x41, 0x42]);
        let shown = format!("{ring:?}");
        assert!(
            !shown.contains("41414141") && !shown.contains("65, 65") && shown.contains("Key("),
            "{shown}"
        );
        assert_ne!(ring.keys[0].id(), ring.keys[1].id());
        assert_ne!(Key::generate().unwrap().id(), Key::generate().unwrap().id());
    }
}
