//! Where the API server is, and who we are there: a kubeconfig, or the service account of a pod.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use yaml_rust2::{Yaml, YamlLoader};

use crate::Error;
use crate::transport;
use crate::url::{Secret, Url};

/// The parameters of the URL.
const PARAMETERS: [&str; 4] = ["kubeconfig", "context", "service-account", "shortest-duration"];
/// Where a pod finds its service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How a request is authorized.
#[derive(Clone, Debug)]
pub(super) enum Credentials {
    /// By the certificate of the client, or not at all.
    None,
    Token(Secret),
    /// A file whose token is replaced now and then.
    TokenFile(PathBuf),
}

/// How the API server is reached.
pub(super) struct Config {
    pub(super) host: (String, u16),
    /// What comes before `/apis`.
    pub(super) base_path: String,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) server_name: Option<String>,
    pub(super) credentials: Credentials,
    pub(super) namespace: String,
    /// The shortest lease duration of clients that do not wait for the duration of the record.
    pub(super) shortest_duration: Option<Duration>,
}

fn invalid(reason: impl Into<String>) -> Error {
    Error::InvalidUrl(reason.into())
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|error| invalid(format!("{}: {error}", path.display())))
}

impl Config {
    /// The configuration that a URL names: `kubernetes://namespace?kubeconfig=PATH&context=NAME`.
    pub(super) fn of(mut url: Url) -> Result<Config, Error> {
        let (kubeconfig, context) = (url.take("kubeconfig"), url.take("context"));
        let account = url.take("service-account");
        let shortest_duration =
            url.take("shortest-duration").map(|text| parse_duration(&text)).transpose()?;
        url.finish(&PARAMETERS)?;
        if !url.path().is_empty() || url.user().is_some() {
            return Err(invalid("write the URL like kubernetes://namespace?kubeconfig=PATH"));
        }
        let mut hosts = url.hosts("", 0);
        let (namespace, port) = hosts.remove(0);
        if port != 0 || !hosts.is_empty() {
            return Err(invalid(
                "kubernetes:// is followed by a namespace: the address of the server comes from the kubeconfig",
            ));
        }
        let environment = std::env::var("KUBERNETES_SERVICE_HOST").ok();
        let in_cluster = match (&kubeconfig, &context) {
            (None, None) => environment.filter(|host| !host.is_empty()),
            _ => None,
        };
        let mut config = match in_cluster {
            Some(host) => Config::in_cluster(host, Path::new(account.as_deref().unwrap_or(SERVICE_ACCOUNT)))?,
            None => {
                let path = kubeconfig.map_or_else(default_kubeconfig, |path| Ok(path.into()))?;
                let found = Config::of_kubeconfig(&path, context.as_deref());
                found.map_err(|error| invalid(format!("{}: {error}", path.display())))?
            }
        };
        if !namespace.is_empty() {
            config.namespace = namespace;
        }
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if config.namespace.len() > 63 || !config.namespace.chars().all(letters) {
            return Err(invalid(format!("`{}` is no namespace", config.namespace)));
        }
        config.shortest_duration = shortest_duration;
        Ok(config)
    }

    /// The service account of a pod.
    fn in_cluster(host: String, folder: &Path) -> Result<Config, Error> {
        let port = std::env::var("KUBERNETES_SERVICE_PORT").ok().and_then(|port| port.parse().ok());
        let token_file = folder.join("token");
        read(&token_file)?;
        let namespace = read(&folder.join("namespace")).unwrap_or_default().trim().to_string();
        Ok(Config {
            host: (host, port.unwrap_or(443)),
            base_path: String::new(),
            tls: Some(transport::tls_config(Some(&folder.join("ca.crt")), None)?),
            server_name: None,
            credentials: Credentials::TokenFile(token_file),
            namespace: if namespace.is_empty() { "default".to_string() } else { namespace },
            shortest_duration: None,
        })
    }

    fn of_kubeconfig(path: &Path, context: Option<&str>) -> Result<Config, Error> {
        // JSON is YAML.
        let documents = YamlLoader::load_from_str(&read(path)?);
        let documents = documents.map_err(|error| invalid(format!("no YAML: {error}")))?;
        let document = documents.first().ok_or_else(|| invalid("the file is empty"))?;
        let chosen = context.or_else(|| document["current-context"].as_str()).unwrap_or_default();
        if chosen.is_empty() {
            return Err(invalid("there is no current-context: add context=NAME to the URL"));
        }
        let context = named(document, "contexts", "context", chosen)?;
        let cluster_name = context["cluster"].as_str().unwrap_or_default();
        let cluster = named(document, "clusters", "cluster", cluster_name)?;
        let user = match context["user"].as_str() {
            Some(name) => named(document, "users", "user", name)?,
            None => &Yaml::BadValue,
        };
        let files = Files { folder: path.parent().unwrap_or(Path::new(".")) };
        let (host, base_path, secure) = parse_server(text(cluster, "server").unwrap_or_default())?;
        Ok(Config {
            host,
            base_path,
            tls: if secure { Some(tls(cluster, user, &files)?) } else { None },
            server_name: text(cluster, "tls-server-name").map(str::to_string),
            credentials: credentials(user, &files)?,
            namespace: text(context, "namespace").unwrap_or("default").to_string(),
            shortest_duration: None,
        })
    }
}

/// The files of a kubeconfig: their paths are relative to its folder.
struct Files<'a> {
    folder: &'a Path,
}

impl Files<'_> {
    /// The PEM text of `KEY-data`, or of the file `KEY`.
    fn pem(&self, entry: &Yaml, key: &str) -> Result<Option<Secret>, Error> {
        if let Some(data) = text(entry, &format!("{key}-data")) {
            let compact: String = data.split_whitespace().collect();
            let bytes = base64::engine::general_purpose::STANDARD.decode(compact);
            let bytes = bytes.map_err(|error| invalid(format!("{key}-data: {error}")))?;
            let pem = String::from_utf8(bytes).map_err(|_| invalid(format!("{key}-data: no PEM")))?;
            return Ok(Some(Secret::new(pem)));
        }
        text(entry, key).map(|path| read(&self.folder.join(path)).map(Secret::new)).transpose()
    }
}

fn text<'a>(entry: &'a Yaml, key: &str) -> Option<&'a str> {
    entry[key].as_str().filter(|text| !text.is_empty())
}

/// The entry of a list of named entries.
fn named<'a>(document: &'a Yaml, list: &str, kind: &str, name: &str) -> Result<&'a Yaml, Error> {
    let entries = document[list].as_vec().map(Vec::as_slice).unwrap_or_default();
    let entry = entries.iter().find(|entry| entry["name"].as_str() == Some(name));
    entry.map(|entry| &entry[kind]).ok_or_else(|| invalid(format!("there is no {kind} `{name}` in {list}")))
}

fn certificates(pem: &Secret, what: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = CertificateDer::pem_slice_iter(pem.reveal().as_bytes()).collect::<Result<Vec<_>, _>>();
    found.map_err(|error| invalid(format!("{what}: {error}")))
}

fn tls(cluster: &Yaml, user: &Yaml, files: &Files<'_>) -> Result<Arc<ClientConfig>, Error> {
    if cluster["insecure-skip-tls-verify"].as_bool() == Some(true) {
        return Err(invalid("insecure-skip-tls-verify is not supported: set certificate-authority"));
    }
    if text(cluster, "proxy-url").is_some() {
        return Err(invalid("proxy-url is not supported"));
    }
    let authorities = match files.pem(cluster, "certificate-authority")? {
        Some(pem) => certificates(&pem, "certificate-authority")?,
        None => transport::system_certificates()?,
    };
    let chain = files.pem(user, "client-certificate")?;
    let key = files.pem(user, "client-key")?;
    let certificate = match (chain, key) {
        (Some(chain), Some(key)) => {
            let key = PrivateKeyDer::from_pem_slice(key.reveal().as_bytes());
            // The error must not show the key.
            let key = key.map_err(|_| invalid("client-key: there is no private key"))?;
            Some((certificates(&chain, "client-certificate")?, key))
        }
        (None, None) => None,
        _ => return Err(invalid("client-certificate and client-key need each other")),
    };
    transport::tls_config_of(authorities, certificate)
}

fn credentials(user: &Yaml, files: &Files<'_>) -> Result<Credentials, Error> {
    for (key, instead) in [
        ("exec", "use a token of a service account, in `token` or `tokenFile`"),
        ("auth-provider", "use a token of a service account, in `token` or `tokenFile`"),
        ("username", "API servers know no passwords any more: use a token or a client certificate"),
        ("as", "use the credentials of that user"),
    ] {
        if !user[key].is_badvalue() && !user[key].is_null() {
            return Err(invalid(format!("the user has `{key}`, which is not supported: {instead}")));
        }
    }
    // As kubectl does: the file is preferred.
    if let Some(path) = text(user, "tokenFile") {
        return Ok(Credentials::TokenFile(files.folder.join(path)));
    }
    Ok(text(user, "token").map_or(Credentials::None, |token| Credentials::Token(Secret::new(token))))
}

/// The host, the path and whether TLS is used, of `https://host:port/path`.
fn parse_server(server: &str) -> Result<((String, u16), String, bool), Error> {
    let wrong = || invalid(format!("`{server}` is no address of a server: write it like https://host:6443"));
    let url = Url::parse(server).map_err(|_| wrong())?;
    let secure = match url.scheme() {
        "https" => true,
        "http" => false,
        _ => return Err(wrong()),
    };
    let mut hosts = url.hosts("", if secure { 443 } else { 80 });
    if hosts.len() != 1 || hosts[0].0.is_empty() {
        return Err(wrong());
    }
    let path = url.path().trim_end_matches('/');
    Ok((hosts.remove(0), if path.is_empty() { String::new() } else { format!("/{path}") }, secure))
}

fn default_kubeconfig() -> Result<PathBuf, Error> {
    if let Some(paths) = std::env::var("KUBECONFIG").ok().filter(|paths| !paths.is_empty()) {
        if paths.contains(':') {
            return Err(invalid("KUBECONFIG names several files: name one by kubeconfig=PATH in the URL"));
        }
        return Ok(paths.into());
    }
    let home = std::env::var("HOME").unwrap_or_default();
    let path = Path::new(&home).join(".kube/config");
    if path.exists() {
        return Ok(path);
    }
    Err(invalid(
        "this is no pod (KUBERNETES_SERVICE_HOST is not set), and there is no kubeconfig: name one by kubeconfig=PATH \
         in the URL, or by the variable KUBECONFIG",
    ))
}

/// A duration of whole seconds, like `15s` or `15`.
fn parse_duration(text: &str) -> Result<Duration, Error> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse().ok();
    let seconds = seconds.filter(|seconds| (2..=86_400).contains(seconds));
    let seconds = seconds.ok_or_else(|| {
        invalid(format!("shortest-duration: `{text}` is no number of whole seconds from 2 on, like 15s"))
    })?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = r#"
apiVersion: v1
kind: Config
current-context: first
clusters:
- name: one
  cluster: {server: "https://host:6443", tls-server-name: kubernetes, certificate-authority-data: CA}
- name: path
  cluster:
    server: http://[::1]/k8s/clusters/c-1/
contexts:
- name: first
  context: {cluster: one, user: me}
- name: second
  context: {cluster: path, user: file, namespace: team}
- name: third
  context: {cluster: path, user: plugin}
- name: fourth
  context: {cluster: path}
users:
- {name: me, user: {token: secret}}
- {name: file, user: {tokenFile: token, token: other}}
- name: plugin
  user:
    exec: {command: login}
"#;

    fn kubeconfig(context: &str) -> Result<Config, Error> {
        let folder = suffrage_testbed::Folder::new().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["kubernetes".to_string()]).unwrap();
        let pem = certificate.self_signed(&key).unwrap().pem();
        let data = base64::engine::general_purpose::STANDARD.encode(pem);
        let path = folder.path().join("config");
        std::fs::write(&path, KUBECONFIG.replace("CA}", &format!("{data}}}"))).unwrap();
        Config::of(Url::parse(&format!("kubernetes://?kubeconfig={}{context}", path.display())).unwrap())
    }

    #[test]
    fn a_kubeconfig_names_servers_users_and_namespaces() {
        let config = kubeconfig("").unwrap();
        assert_eq!((config.host, config.namespace.as_str()), (("host".to_string(), 6443), "default"));
        assert_eq!(config.server_name.as_deref(), Some("kubernetes"));
        assert!(config.tls.is_some());
        assert!(matches!(&config.credentials, Credentials::Token(token) if token.reveal() == "secret"));
        assert!(!format!("{:?}", config.credentials).contains("secret"));
        let config = kubeconfig("&context=second&shortest-duration=15s").unwrap();
        assert_eq!((config.host, config.namespace.as_str()), (("::1".to_string(), 80), "team"));
        assert_eq!(config.base_path, "/k8s/clusters/c-1");
        assert!(config.tls.is_none());
        assert!(matches!(&config.credentials, Credentials::TokenFile(path) if path.ends_with("token")));
        assert_eq!(config.shortest_duration, Some(Duration::from_secs(15)));
        assert!(matches!(kubeconfig("&context=fourth").unwrap().credentials, Credentials::None));
    }

    #[test]
    fn what_is_not_supported_is_refused_with_a_reason() {
        for (context, reason) in [
            ("&context=third", "`exec`, which is not supported"),
            ("&context=none", "no context `none`"),
            ("&shortest-duration=1s", "`1s` is no number of whole seconds from 2 on"),
            ("&typo=1", "no parameter `typo`"),
        ] {
            let error = kubeconfig(context).err().expect(reason).to_string();
            assert!(error.contains(reason), "{error}");
        }
        for (url, reason) in [
            ("kubernetes://default:6443?kubeconfig=/x", "followed by a namespace"),
            ("kubernetes://default/path?kubeconfig=/x", "like kubernetes://namespace"),
            ("kubernetes://default?kubeconfig=/no/such/file", "/no/such/file"),
        ] {
            let error = Config::of(Url::parse(url).unwrap()).err().expect(reason).to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
