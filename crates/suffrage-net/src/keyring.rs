//! The keys of a cluster, and the files they are kept in.
//!
//! A key file has a key a line, as 64 hexadecimal digits; lines that begin with `#` are for people. The
//! first key seals what this node sends, and all of them open what it receives. So a key is replaced without
//! a moment in which two nodes do not understand each other:
//!
//! ```text
//!   1. old           at every node
//!   2. old, new      at one node after the other: all can open what is sealed with either
//!   3. new, old      at one node after the other
//!   4. new           at one node after the other: what is sealed with the old one is worth nothing now
//! ```
//!
//! Whoever has a key is any node it likes. Keys are never shown: not by `Debug`, not in errors.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use crate::Error;

/// How many keys there are at most. A rotation needs two, one that overtakes another three.
pub const MOST_KEYS: usize = 8;
/// How long a key is.
const KEY: usize = 32;

/// What a datagram says of the key it is sealed with, so that few need be tried.
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
    /// The key of these bytes, which better be random.
    pub fn new(secret: [u8; KEY]) -> Key {
        let secret = Zeroizing::new(secret);
        let id = id_of(&secret);
        Key { secret, id }
    }

    /// A key that nobody has yet.
    pub fn generate() -> Result<Key, Error> {
        let mut secret = Zeroizing::new([0; KEY]);
        getrandom::fill(&mut *secret)?;
        Ok(Key::new(*secret))
    }

    /// Which key it is. Tells nothing about the secret.
    pub fn id(&self) -> KeyId {
        self.id
    }

    pub(crate) fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.secret).into())
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
                return Err("a key is hexadecimal digits, and nothing else");
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

/// A piece of an authentication tag of nothing. The nonce is one that no datagram has (see
/// [`Boot`](crate::seal::Boot): none is zero), and a tag is all that an onlooker ever sees of a key anyway.
fn id_of(secret: &[u8; KEY]) -> KeyId {
    let tag = XChaCha20Poly1305::new(secret.into())
        .encrypt_inout_detached(&XNonce::default(), b"suffrage key id", (&mut [][..]).into())
        .expect("nothing is not too long to seal");
    KeyId([tag[0], tag[1], tag[2], tag[3]])
}

/// The keys of a cluster: the first seals, all open.
#[derive(Clone, Debug)]
pub struct Keyring {
    keys: Vec<Key>,
}

impl Keyring {
    /// The ring of these keys, of which the first seals.
    pub fn new(keys: Vec<Key>) -> Result<Keyring, Error> {
        match keys.len() {
            0 => Err(Error::NoKey),
            1..=MOST_KEYS => Ok(Keyring { keys }),
            count => Err(Error::TooManyKeys { count, most: MOST_KEYS }),
        }
    }

    /// A ring of one key that nobody has yet.
    pub fn generate() -> Result<Keyring, Error> {
        Ok(Keyring { keys: vec![Key::generate()?] })
    }

    /// The keys, the one that seals first.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Reads a key file. One that others than its owner may read or write is refused.
    pub fn load(path: &Path) -> Result<Keyring, Error> {
        let mut file = fs::File::open(path).map_err(Error::file("read", path))?;
        // Of the open file: its name may be another's by now.
        let mode = file.metadata().map_err(Error::file("read", path))?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(Error::KeysExposed { path: path.to_path_buf(), mode });
        }
        // Long enough at once, since a string that grows leaves copies behind.
        let mut text = Zeroizing::new(String::with_capacity(64 * 1024));
        let most = text.capacity() as u64;
        (&mut file).take(most).read_to_string(&mut text).map_err(Error::file("read", path))?;
        let mut keys = Vec::new();
        for (place, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                let wrong = |reason| Error::KeyFile { path: path.to_path_buf(), line: place + 1, reason };
                keys.push(Key::parse(line).map_err(wrong)?);
            }
        }
        Keyring::new(keys)
    }

    /// With a new key at the end, which opens already, and does not seal yet: the second step of a rotation.
    pub fn with_new_key(mut self) -> Result<Keyring, Error> {
        self.keys.push(Key::generate()?);
        Keyring::new(self.keys)
    }

    /// With the last key first, so that it seals: the third step of a rotation.
    pub fn with_last_first(mut self) -> Keyring {
        self.keys.rotate_right(1);
        self
    }

    /// With the first key alone: the last step of a rotation.
    pub fn with_first_alone(mut self) -> Keyring {
        self.keys.truncate(1);
        self
    }

    /// Writes a key file that only its owner may read. One that exists is left alone, and is the error.
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
            // Half a key file is none. If it cannot even be removed, the first error is the one to tell.
            _ = fs::remove_file(path);
            Error::File { doing: "write", path: path.to_path_buf(), source }
        })
    }

    /// Puts these keys in the place of a key file, which is there before and after, whole.
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
    fn a_file_is_read_as_it_was_written_and_only_by_its_owner() {
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
    fn an_existing_file_is_left_alone() {
        let folder = Folder::new().unwrap();
        let path = folder.path().join("cluster.key");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(ring(&[1]).create(&path), Err(Error::File { doing: "create", .. })));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_rotation_goes_step_by_step() {
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
        Keyring::load(&path).unwrap().with_first_alone().replace(&path).unwrap();
        assert_eq!(ids(&Keyring::load(&path).unwrap()), [second]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
        assert!(matches!(ring(&[1; 8]).with_new_key(), Err(Error::TooManyKeys { count: 9, most: 8 })));
    }

    #[test]
    fn errors_name_the_line_and_never_the_secret() {
        let folder = Folder::new().unwrap();
        let good = "0123456789abcdef".repeat(4);
        let deadbeef = "deadbeef".repeat(8);
        for (place, (text, word)) in [
            (format!("# a comment\n\n{good}\n{}", &deadbeef[1..]), "line 4: a key is 64"),
            (format!("{}g", &deadbeef[1..]), "line 1: a key is hexadecimal"),
            ("é".repeat(32), "line 1: a key is hexadecimal"),
            ("# nothing\n".to_string(), "no key"),
            (format!("{good}\n").repeat(9), "9 keys are too many"),
        ]
        .into_iter()
        .enumerate()
        {
            let path = folder.path().join(place.to_string());
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let error = Keyring::load(&path).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains("dead"), "{error}");
        }
    }

    #[test]
    fn keys_are_not_shown_and_their_ids_differ() {
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
