//! Certificates for tests.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// An authority of this name.
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Authority { issuer }
    }

    /// The certificate of the authority, which clients trust.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Writes a certificate for this machine and its key to these files, valid until the end of that year.
    pub fn sign(&self, certificate: &Path, key: &Path, until: i32) {
        self.sign_for(&["localhost", "127.0.0.1"], certificate, key, until);
    }

    /// Writes a certificate for these names and addresses.
    pub fn sign_for(&self, names: &[&str], certificate: &Path, key: &Path, until: i32) {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(until, 12, 31);
        let pair = KeyPair::generate().unwrap();
        fs::write(certificate, params.signed_by(&pair, &self.issuer).unwrap().pem()).unwrap();
        secret(key, &pair.serialize_pem());
    }
}

/// Writes a file that only its owner may read.
pub fn secret(path: &Path, text: &str) -> PathBuf {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_path_buf()
}
