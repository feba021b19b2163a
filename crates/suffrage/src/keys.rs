//! Keys of a cluster.

use std::fmt;
use std::path::Path;

use crate::Error;

/// A secret key that all nodes of a cluster share. `Debug` and errors never show the secret.
#[derive(Clone)]
pub struct Key(suffrage_net::Key);

impl Key {
    /// The key of these 32 random bytes.
    pub fn new(secret: [u8; 32]) -> Key {
        Key(suffrage_net::Key::new(secret))
    }

    /// A new random key.
    pub fn generate() -> Result<Key, Error> {
        suffrage_net::Key::generate().map(Key).map_err(Error::keys)
    }

    /// The public identifier of the key, as 8 hexadecimal digits. It reveals nothing about the secret.
    pub fn id(&self) -> String {
        self.0.id().to_string()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id())
    }
}

/// The keys of a cluster. The first key seals datagrams; all keys open them.
///
/// A key file has one key per line, as 64 hexadecimal digits. `suffrage keygen` writes such files.
#[derive(Clone, Debug)]
pub struct Keyring(suffrage_net::Keyring);

impl Keyring {
    /// A keyring of 1 to 8 keys.
    pub fn new(keys: impl IntoIterator<Item = Key>) -> Result<Keyring, Error> {
        let keys = keys.into_iter().map(|key| key.0).collect();
        suffrage_net::Keyring::new(keys).map(Keyring).map_err(Error::keys)
    }

    /// A keyring of one new random key.
    pub fn generate() -> Result<Keyring, Error> {
        suffrage_net::Keyring::generate().map(Keyring).map_err(Error::keys)
    }

    /// Reads a key file. Only the owner of the file may have access to it (mode 600).
    pub fn load(path: impl AsRef<Path>) -> Result<Keyring, Error> {
        suffrage_net::Keyring::load(path.as_ref()).map(Keyring).map_err(Error::keys)
    }

    /// Writes a new key file with mode 600. The file must not exist.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.0.create(path.as_ref()).map_err(Error::keys)
    }

    /// The keys, the sealing key first.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = Key> + '_ {
        self.0.keys().iter().map(|key| Key(key.clone()))
    }

    pub(crate) fn wire(&self) -> &suffrage_net::Keyring {
        &self.0
    }

    pub(crate) fn from_wire(keyring: suffrage_net::Keyring) -> Keyring {
        Keyring(keyring)
    }
}
