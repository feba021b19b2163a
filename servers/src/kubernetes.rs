//! A kube-apiserver with its etcd.
//!
//! No registry has the program: `SUFFRAGE_KUBE_APISERVER` names it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};
use suffrage_testbed::Folder;

use crate::programs::{Server, program};
use crate::{PATIENCE, Servers};

/// The media type of objects: Protocol Buffers.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The body of a request.
pub enum Body<'a> {
    /// A body in JSON.
    Json(&'a Value),
    /// A sealed message.
    Object(&'a [u8]),
}

/// The program that an environment variable names.
pub fn given(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable).map(PathBuf::from).unwrap_or_else(|| {
        panic!("{variable} is not set: run these tests by `cargo xtask conformance kubernetes`")
    });
    assert!(path.exists(), "{variable}: there is no {}", path.display());
    path
}

/// An API server with its etcd.
pub struct Cluster {
    folder: Folder,
    /// The address of the API server.
    pub address: SocketAddr,
    etcd_address: SocketAddr,
    /// The API server and its etcd.
    processes: Mutex<Option<[Server; 2]>>,
    files: AtomicUsize,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Before the folder is removed.
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Cluster {
    /// Starts the servers, and waits until they serve.
    pub fn start() -> Cluster {
        let folder = Folder::new().unwrap();
        let (address, etcd_address) = (suffrage_testbed::address(), suffrage_testbed::address());
        let path = folder.path();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(path.join("ca.crt"), authority.pem()).unwrap();
        let server =
            CertificateParams::new(vec!["kubernetes".to_string(), address.ip().to_string()]).unwrap();
        let mut client = CertificateParams::new(Vec::new()).unwrap();
        client.distinguished_name.push(DnType::CommonName, "certified");
        client.distinguished_name.push(DnType::OrganizationName, "system:masters");
        for (name, params) in [("server", server), ("client", client)] {
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &authority).unwrap();
            std::fs::write(path.join(format!("{name}.crt")), certificate.pem()).unwrap();
            std::fs::write(path.join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        let tokens = "admin-token,admin,1,system:masters\nlimited-token,limited,2\nnobody-token,nobody,3\n";
        std::fs::write(path.join("tokens.csv"), tokens).unwrap();
        let key = KeyPair::generate().unwrap();
        std::fs::write(path.join("accounts.key"), key.serialize_pem()).unwrap();
        std::fs::write(path.join("accounts.pub"), key.public_key_pem()).unwrap();
        let files = AtomicUsize::new(0);
        let cluster = Cluster { folder, address, etcd_address, processes: Mutex::default(), files };
        cluster.start_processes();
        cluster
    }

    /// A path in the folder of the servers.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start_processes(&self) {
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.take();
        let (client, peer) = (format!("http://{}", self.etcd_address), "http://127.0.0.1:0");
        let mut etcd = Command::new(program("etcd", "etcd-server", &[]));
        etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        etcd.args(["--listen-peer-urls", peer]).arg("--data-dir").arg(self.path("etcd"));
        let etcd = Server::start(&mut etcd, &self.path("etcd.log"));
        let mut command = Command::new(given("SUFFRAGE_KUBE_APISERVER"));
        let files = [
            ("--tls-cert-file", "server.crt"),
            ("--tls-private-key-file", "server.key"),
            ("--client-ca-file", "ca.crt"),
            ("--token-auth-file", "tokens.csv"),
            ("--service-account-key-file", "accounts.pub"),
            ("--service-account-signing-key-file", "accounts.key"),
            ("--cert-dir", "certificates"),
        ];
        for (option, file) in files {
            command.arg(option).arg(self.path(file));
        }
        command.args([
            format!("--etcd-servers={client}"),
            format!("--bind-address={}", self.address.ip()),
            format!("--secure-port={}", self.address.port()),
            // Not a loopback address, which an API server does not announce. Nobody connects to it.
            "--advertise-address=10.0.0.1".to_string(),
            "--service-account-issuer=https://kubernetes.default".to_string(),
            "--service-cluster-ip-range=10.0.0.0/24".to_string(),
            "--authorization-mode=RBAC".to_string(),
        ]);
        let api_server = Server::start(&mut command, &self.path("apiserver.log"));
        *processes = Some([etcd, api_server]);
        drop(processes);
        let start = std::time::Instant::now();
        while self.curl("GET", "/readyz", None).0 != 200 {
            let log = std::fs::read_to_string(self.path("apiserver.log")).unwrap_or_default();
            assert!(start.elapsed() < PATIENCE, "the API server is not ready: {log}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A request by curl, as the administrator. Returns the status, zero without a server, and the reply.
    ///
    /// The reply is never JSON: an API server that was built from Debian's sources with its Go writes no maps as JSON.
    pub fn curl(&self, method: &str, path: &str, body: Option<Body<'_>>) -> (u16, Vec<u8>) {
        let mut command = Command::new(program("curl", "curl", &[]));
        command.args(["-s", "-X", method, "-w", "\n%{http_code}", "-H", "Authorization: Bearer admin-token"]);
        command.arg("--cacert").arg(self.path("ca.crt")).arg("-H").arg(format!("Accept: {MEDIA_TYPE}"));
        match body {
            None => {}
            Some(Body::Json(value)) => {
                command.args(["-H", "Content-Type: application/json", "-d", &value.to_string()]);
            }
            Some(Body::Object(bytes)) => {
                let file = self.path(&format!("body-{}", self.files.fetch_add(1, Ordering::Relaxed)));
                std::fs::write(&file, bytes).unwrap();
                command.arg("-H").arg(format!("Content-Type: {MEDIA_TYPE}"));
                command.arg("--data-binary").arg(format!("@{}", file.display()));
            }
        }
        command.arg(format!("https://{}{path}", self.address));
        let mut reply = command.stdin(Stdio::null()).output().expect("curl").stdout;
        let end = reply.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        let status = String::from_utf8_lossy(&reply[end..]).trim().parse().unwrap_or(0);
        reply.truncate(end);
        (status, reply)
    }

    /// Creates an object.
    pub fn create(&self, path: &str, object: &Value) {
        let (status, reply) =
            tokio::task::block_in_place(|| self.curl("POST", path, Some(Body::Json(object))));
        assert_eq!(status, 201, "{path}: {}", String::from_utf8_lossy(&reply));
    }

    /// A kubeconfig of these servers, of a user that is JSON.
    pub fn kubeconfig(&self, address: SocketAddr, user: &Value) -> PathBuf {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let path = self.path(&format!("kubeconfig-{number}"));
        let authority = self.path("ca.crt");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\nclusters:\n- name: test\n  cluster:\n    \
             server: https://{address}\n    certificate-authority: {}\n    tls-server-name: kubernetes\ncontexts:\n- \
             name: test\n  context:\n    cluster: test\n    user: me\nusers:\n- name: me\n  user: {user}\n",
            authority.display()
        );
        std::fs::write(&path, text).unwrap();
        path
    }
}

/// A namespace of a cluster. Tests share a cluster, unless they stop it.
pub struct Kubernetes {
    /// The servers.
    pub cluster: Arc<Cluster>,
    /// The namespace.
    pub namespace: String,
}

impl Kubernetes {
    /// Creates a namespace.
    pub fn new(cluster: Arc<Cluster>) -> Kubernetes {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let namespace = format!("test-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        cluster.create("/api/v1/namespaces", &json!({ "metadata": { "name": namespace } }));
        Kubernetes { cluster, namespace }
    }

    /// The path of the Leases.
    pub fn path(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    /// The URL of an engine with this kubeconfig.
    pub fn url_of(&self, kubeconfig: &Path) -> String {
        format!("kubernetes://{}?kubeconfig={}", self.namespace, kubeconfig.display())
    }

    /// The URL of an engine with this user, which is JSON.
    pub fn url_of_user(&self, user: &Value) -> String {
        self.url_of(&self.cluster.kubeconfig(self.cluster.address, user))
    }
}

impl Servers for Kubernetes {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.cluster.address]
    }

    fn url(&self, addresses: &[SocketAddr]) -> String {
        self.url_of(&self.cluster.kubeconfig(addresses[0], &json!({ "token": "admin-token" })))
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(6)
    }

    fn pids(&self) -> Vec<u32> {
        let processes = self.cluster.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.iter().flatten().map(Server::id).collect()
    }

    /// The API server stores nothing itself: its etcd is what clusters, and the tests of etcd kill that.
    fn kill_leading_server(&mut self) -> bool {
        false
    }

    fn restart_all(&mut self) {
        tokio::task::block_in_place(|| self.cluster.start_processes());
    }

    fn delete_entry(&self, name: &str) {
        let path = format!("{}/{name}", self.path());
        let (status, reply) = tokio::task::block_in_place(|| self.cluster.curl("DELETE", &path, None));
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&reply));
    }
}
