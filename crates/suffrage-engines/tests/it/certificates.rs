//! Certificates of an authority of the test, in files.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use suffrage_testbed::Folder;

/// Files in PEM. The server's certificate is for the IP address of all servers of this process.
pub(crate) struct Certificates {
    pub(crate) root: PathBuf,
    pub(crate) server: PathBuf,
    pub(crate) server_key: PathBuf,
    pub(crate) client: PathBuf,
    pub(crate) client_key: PathBuf,
    /// Removes the files when it is dropped.
    _folder: Folder,
}

impl Certificates {
    pub(crate) fn new() -> Certificates {
        let folder = Folder::new().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = file("root.pem", &authority.self_signed(&key).unwrap().pem());
        let issuer = Issuer::new(authority, key);
        let issue = |name: &str, hosts: Vec<String>| {
            let key = KeyPair::generate().unwrap();
            let mut parameters = CertificateParams::new(hosts).unwrap();
            parameters.distinguished_name.push(DnType::CommonName, name);
            let certificate = parameters.signed_by(&key, &issuer).unwrap().pem();
            (
                file(&format!("{name}.pem"), &certificate),
                file(&format!("{name}-key.pem"), &key.serialize_pem()),
            )
        };
        let (server, server_key) = issue("server", vec![suffrage_testbed::address().ip().to_string()]);
        let (client, client_key) = issue("client", Vec::new());
        Certificates { root, server, server_key, client, client_key, _folder: folder }
    }

    /// The parameters of a URL: the authority, and with `own` the certificate of the client.
    pub(crate) fn query(&self, own: bool) -> String {
        let root = self.root.display();
        match own {
            true => format!("cacert={root}&cert={}&key={}", self.client.display(), self.client_key.display()),
            false => format!("cacert={root}"),
        }
    }
}
