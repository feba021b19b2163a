//! The credentials of the HTTP server: the bearer token and the certificate. Both are files, which SIGHUP reloads.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::certificate::Certificate;
use suffrage_node::Error;
use suffrage_node::config::Config;

/// The greatest number of bytes that is read of a file.
const LONGEST_FILE: u64 = 64 * 1024;

/// The credentials in use.
#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) token: Option<Arc<Token>>,
    pub(super) certificate: Option<Arc<Certificate>>,
}

impl Credentials {
    /// Reads the files that the configuration names.
    pub(super) fn load(config: &Config) -> Result<Credentials, Error> {
        let (token, certificate) = (Self::load_token(config)?, Self::load_certificate(config)?);
        Ok(Credentials { token, certificate })
    }

    /// Reads the file of the token, if one is configured.
    pub(super) fn load_token(config: &Config) -> Result<Option<Arc<Token>>, Error> {
        let token = config.http_token.as_deref().map(Token::load).transpose();
        Ok(token.map_err(config.at("http-token"))?.map(Arc::new))
    }

    /// Reads the files of the certificate and its key, if they are configured.
    pub(super) fn load_certificate(config: &Config) -> Result<Option<Arc<Certificate>>, Error> {
        let (Some(certificate), Some(key)) = (&config.http_cert, &config.http_key) else { return Ok(None) };
        let about_key = |error: &Error| match error {
            Error::Credential { path, .. } | Error::File { path, .. } => path == key,
            _ => false,
        };
        let loaded = Certificate::load(certificate, key).map_err(|error| match about_key(&error) {
            true => config.at("http-key")(error),
            false => config.at("http-cert")(error),
        });
        Ok(Some(Arc::new(loaded?)))
    }

    /// Checks that the certificate is valid now, by the wall clock.
    pub(super) fn check(&self, config: &Config) -> Result<(), Error> {
        let checked = self.certificate.as_ref().map_or(Ok(()), |it| it.check(SystemTime::now()));
        checked.map_err(config.at("http-cert"))
    }
}

/// Reads a file that only its owner may read.
pub(super) fn read_secret(path: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    let mut file = File::open(path).map_err(Error::file("read", path))?;
    // The mode of the open file: the path may name another file by now.
    let mode = file.metadata().map_err(Error::file("read", path))?.mode() & 0o777;
    if mode & 0o077 != 0 {
        let reason = format!("is accessible to other users (mode {mode:03o}): run `chmod 600` on it");
        return Err(Error::Credential { path: path.to_path_buf(), reason });
    }
    // Allocated once: a vector that grows leaves copies of the secret behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST_FILE as usize + 1));
    (&mut file).take(LONGEST_FILE).read_to_end(&mut bytes).map_err(Error::file("read", path))?;
    Ok(bytes)
}

/// The bearer token of requests. It is never shown.
pub(super) struct Token(Zeroizing<Vec<u8>>);

impl Token {
    /// Reads the file of a token.
    pub(super) fn load(path: &Path) -> Result<Token, Error> {
        let bytes = read_secret(path)?;
        let token = bytes.trim_ascii();
        if token.len() < 16 || !token.iter().all(u8::is_ascii_graphic) {
            let reason =
                "contains no token: write one line of at least 16 letters, digits or signs".to_string();
            return Err(Error::Credential { path: path.to_path_buf(), reason });
        }
        Ok(Token(Zeroizing::new(token.to_vec())))
    }

    /// Compares a presented token in constant time.
    pub(super) fn is(&self, presented: &[u8]) -> bool {
        presented.ct_eq(&self.0).into()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use suffrage_testbed::Folder;

    #[test]
    fn a_token_is_kept_secret() {
        let folder = Folder::new().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "correct-horse-battery\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = Token::load(&path).err().unwrap().to_string();
        assert!(refused.contains("mode 644") && refused.contains("chmod 600"), "{refused}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let token = Token::load(&path).unwrap();
        assert!(token.is(b"correct-horse-battery"));
        for wrong in ["correct-horse-batterx", "correct", ""] {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
        fs::write(&path, "short").unwrap();
        let refused = Token::load(&path).err().unwrap().to_string();
        assert!(refused.contains("at least 16") && !refused.contains("short"), "{refused}");
        fs::write(&path, "two words that are long").unwrap();
        assert!(Token::load(&path).is_err());
    }
}
