//! The TLS certificate of the HTTP server, and its key.
//!
//! An error names the file and the reason. An expired certificate fails `suffrage config check`, and does not replace a
//! certificate in use. A voter that starts with an expired certificate logs an error and votes: elections need the voter
//! more than its HTTP clients do.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, RootCertStore, ServerConfig};

use super::credentials::read_secret;
use suffrage_node::Error;

/// The second after the last time of a certificate (RFC 5280, 4.1.2.5: 99991231235959Z).
const END_OF_TIME: u64 = 253_402_300_800;
const DAY: u64 = 86_400;

/// A certificate for a server, and its TLS configuration.
pub(super) struct Certificate {
    path: PathBuf,
    server: Arc<ServerConfig>,
    /// The begin and the end of its validity, in seconds since 1970.
    valid: (u64, u64),
}

impl Certificate {
    /// Reads both files. Only the owner may have access to the key.
    pub(super) fn load(path: &Path, key: &Path) -> Result<Certificate, Error> {
        let wrong = |path: &Path, reason: String| Error::Credential { path: path.to_path_buf(), reason };
        let text = fs::read(path).map_err(Error::file("read", path))?;
        let chain: Result<Vec<CertificateDer<'static>>, pem::Error> =
            CertificateDer::pem_slice_iter(&text).collect();
        let chain = chain.map_err(|error| wrong(path, format!("is not PEM: {error}")))?;
        if chain.is_empty() {
            let reason = "contains no certificate: write the certificate of the node in PEM, then its chain";
            return Err(wrong(path, reason.to_string()));
        }
        // The error does not show the content of the file.
        let secret = read_secret(key)?;
        let no_key = |_| wrong(key, "contains no readable private key in PEM".to_string());
        let secret = PrivateKeyDer::from_pem_slice(&secret).map_err(no_key)?;
        let provider = Arc::new(ring::default_provider());
        let unknown =
            |_| wrong(key, "contains a key of an unsupported type: use ECDSA P-256, for example".to_string());
        provider.key_provider.load_private_key(secret.clone_key()).map_err(unknown)?;
        let valid = validity(&chain[0], &provider).map_err(|reason| wrong(path, reason))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_no_client_auth()
            .with_single_cert(chain, secret);
        let mut server = server.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => wrong(key, format!("is not the key of {}", path.display())),
            other => wrong(path, format!("cannot be used by a server: {other}")),
        })?;
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Certificate { path: path.to_path_buf(), server: Arc::new(server), valid })
    }

    /// The TLS configuration of connections.
    pub(super) fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.server)
    }

    /// The end of its validity, in seconds since 1970.
    pub(super) fn end(&self) -> u64 {
        self.valid.1
    }

    /// Checks that the certificate is valid at this time.
    pub(super) fn check(&self, now: SystemTime) -> Result<(), Error> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        let (begin, end) = self.valid;
        let reason = if now < begin {
            format!("becomes valid in {}: check the clock of the machine", distance(begin - now))
        } else if now > end {
            format!("expired {} ago: issue a new one", distance(now - end))
        } else {
            return Ok(());
        };
        Err(Error::Credential { path: self.path.clone(), reason })
    }
}

/// The begin and the end of a certificate's validity, or the reason why no client accepts it at any time.
///
/// rustls has no function for these times, but its errors `NotValidYet` and `Expired` contain them. The trust store is
/// empty here: `UnknownIssuer` means that everything else is correct.
fn validity(certificate: &CertificateDer<'_>, provider: &CryptoProvider) -> Result<(u64, u64), String> {
    let unread = |error| format!("contains a certificate that cannot be read: {error}");
    let parsed = ParsedCertificate::try_from(certificate).map_err(unread)?;
    let ask = |seconds| {
        let (time, no_roots) =
            (UnixTime::since_unix_epoch(Duration::from_secs(seconds)), RootCertStore::empty());
        let known = provider.signature_verification_algorithms.all;
        match verify_server_cert_signed_by_trust_anchor(&parsed, &no_roots, &[], time, known) {
            Err(rustls::Error::InvalidCertificate(reason)) => Err(reason),
            _ => Ok(()),
        }
    };
    let begin = match ask(0) {
        Err(CertificateError::NotValidYetContext { not_before, .. }) => not_before.as_secs(),
        _ => 0,
    };
    let end = match ask(END_OF_TIME) {
        Err(CertificateError::ExpiredContext { not_after, .. }) => not_after.as_secs(),
        _ => END_OF_TIME,
    };
    match ask(begin) {
        Ok(()) | Err(CertificateError::UnknownIssuer) => Ok((begin, end)),
        Err(reason) => Err(format!("is not a certificate for a server: {reason}")),
    }
}

fn distance(seconds: u64) -> String {
    match seconds {
        0..2 => "a second".to_string(),
        2..120 => format!("{seconds} seconds"),
        120..7_200 => format!("{} minutes", seconds / 60),
        7_200..172_800 => format!("{} hours", seconds / 3_600),
        _ => format!("{} days", seconds / DAY),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, PKCS_ED25519, date_time_ymd};

    use super::*;
    use suffrage_testbed::Folder;

    struct Files(Folder);

    impl Files {
        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path
        }

        /// A self-signed certificate for these years.
        fn pair(&self, name: &str, years: (i32, i32), ca: bool) -> (PathBuf, PathBuf) {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec!["localhost".to_string()]).unwrap();
            params.not_before = date_time_ymd(years.0, 1, 1);
            params.not_after = date_time_ymd(years.1, 1, 1);
            if ca {
                params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            }
            let certificate = params.self_signed(&key).unwrap();
            let path = self.write(&format!("{name}.pem"), &certificate.pem());
            (path, self.write(&format!("{name}.key"), &key.serialize_pem()))
        }
    }

    fn refuses(path: &Path, key: &Path) -> String {
        match Certificate::load(path, key) {
            Ok(_) => panic!("it is accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_error_names_the_file_and_the_reason() {
        let files = Files(Folder::new().unwrap());
        let (path, key) = files.pair("good", (2020, 2090), false);
        Certificate::load(&path, &key).unwrap();
        let (other, _) = files.pair("other", (2020, 2090), false);
        let text = refuses(&other, &key);
        assert_eq!(text, format!("{} is not the key of {}", key.display(), other.display()));
        let (ca, ca_key) = files.pair("ca", (2020, 2090), true);
        let text = refuses(&ca, &ca_key);
        assert!(text.contains("ca.pem is not a certificate for a server: "), "{text}");
        let rubbish = files.write("rubbish.pem", "rubbish");
        assert!(refuses(&rubbish, &key).contains("rubbish.pem contains no certificate"));
        let text = refuses(&path, &rubbish);
        assert!(text.contains("rubbish.pem contains no readable private key"), "{text}");
        let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let empty = files.write("empty.pem", pem);
        assert!(refuses(&empty, &key).contains("empty.pem contains a certificate that cannot be read"));
        let torn = files.write("torn.pem", &pem[..40]);
        assert!(refuses(&torn, &key).contains("torn.pem is not PEM"), "{}", refuses(&torn, &key));
        assert!(refuses(Path::new("/nowhere/at/all"), &key).contains("cannot read /nowhere/at/all"));
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
        let text = refuses(&path, &key);
        assert!(text.contains("good.key is accessible to other users (mode 640)"), "{text}");
    }

    #[test]
    fn a_certificate_is_valid_from_its_first_second_to_its_last() {
        let files = Files(Folder::new().unwrap());
        let (path, key) = files.pair("short", (2001, 2002), false);
        let certificate = Certificate::load(&path, &key).unwrap();
        // `date -u -d 2001-01-01 +%s`, and of 2002.
        let (begin, end) = (978_307_200, 1_009_843_200);
        assert_eq!((certificate.valid.0, certificate.end()), (begin, end));
        let at = |seconds| certificate.check(UNIX_EPOCH + Duration::from_secs(seconds));
        assert!(at(begin).is_ok() && at(end).is_ok());
        let early = at(begin - 3 * DAY).unwrap_err().to_string();
        assert!(early.contains("short.pem becomes valid in 3 days"), "{early}");
        let late = at(end + 90 * 60).unwrap_err().to_string();
        assert!(late.contains("short.pem expired 90 minutes ago"), "{late}");
        let (for_ever, key) = files.pair("for-ever", (1970, 9999), false);
        assert!(Certificate::load(&for_ever, &key).unwrap().check(SystemTime::now()).is_ok());
    }

    #[test]
    fn keys_of_other_types_are_supported() {
        let files = Files(Folder::new().unwrap());
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let params = CertificateParams::new(vec!["localhost".to_string()]).unwrap();
        let path = files.write("ed25519.pem", &params.self_signed(&key).unwrap().pem());
        Certificate::load(&path, &files.write("ed25519.key", &key.serialize_pem())).unwrap();
    }
}
