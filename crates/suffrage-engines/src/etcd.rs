//! Elections on etcd, by the recipe of its own clients (`concurrency.Election` of the Go client, `etcdctl elect`).
//!
//! Each candidate has a lease and the key `PREFIX/NAME/` + the id of its lease in hexadecimal, bound to that lease, with
//! its identity as value. The key with the lowest create revision leads. Each candidate waits for the deletion of the key
//! ahead of its own, so that one candidate is woken when a leader ends. The create revision is the token. `etcdctl lock`
//! has the same layout.
//!
//! ```text
//!   Etcd ─ Shared ─┬─ client.rs     one connection for all elections: calls, the next server, authentication
//!                  ├─ renewals.rs   one LeaseKeepAlive stream for all leases
//!                  ├─ checks.rs     reads of own keys after renewals, up to 100 in a request
//!                  ├─ watches.rs    one Watch stream for all watches, which goes on after a failure
//!                  └─ leases.rs     leases that the next candidate can use
//!   candidate.rs: one lease, one key                    api.rs: the messages
//! ```
//!
//! `etcd://[user[:password]@]host:port,…/prefix?cacert=…&cert=…&key=…&tls=true&password-file=…&password-env=…`. Variables
//! of etcdctl stand in for what the URL leaves out: `ETCDCTL_USER`, `ETCDCTL_PASSWORD`, `ETCDCTL_CACERT`, `ETCDCTL_CERT`,
//! `ETCDCTL_KEY`.

mod api;
mod candidate;
mod checks;
mod client;
mod leases;
mod renewals;
#[cfg(test)]
mod tests;
mod watches;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use self::api::{Entry, Target};
use self::candidate::EtcdCandidate;
use self::checks::Checks;
use self::client::{Client, Settings};
use self::leases::Leases;
use self::renewals::Renewals;
use self::watches::Watches;
use crate::recipe::{Candidate, Leader, Pending, Recipe, Status, Wish};
use crate::transport::tls_config;
use crate::url::{Secret, Url};
use crate::{Error, Facts};

/// The time for a request of an observer.
const PATIENCE: Duration = Duration::from_secs(5);
const PARAMETERS: [&str; 6] = ["cacert", "cert", "key", "tls", "password-file", "password-env"];

/// What all elections of an engine share.
struct Shared {
    client: Arc<Client>,
    renewals: Renewals,
    checks: Checks,
    watches: Watches,
    leases: Leases,
    /// The path of the URL, before the names of elections.
    prefix: String,
}

impl Shared {
    /// The prefix of the keys of an election's candidates.
    fn prefix_of(&self, name: &str) -> Vec<u8> {
        match self.prefix.as_str() {
            "" => format!("{name}/").into_bytes(),
            prefix => format!("{prefix}/{name}/").into_bytes(),
        }
    }

    /// The first key of an election, and the revision at which it was read.
    async fn first(&self, prefix: &[u8]) -> Result<(Option<Entry>, i64), Error> {
        let answer = self.client.call(api::RANGE, &api::get_first(prefix), PATIENCE).await?;
        Ok((api::entries(&answer).next(), api::header(&answer).revision))
    }
}

/// The key of a candidate.
fn key_of(prefix: &[u8], lease: i64) -> Vec<u8> {
    let mut key = prefix.to_vec();
    key.extend_from_slice(format!("{lease:x}").as_bytes());
    key
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn leader_of(entry: &Entry) -> Leader {
    Leader { identity: text(&entry.value), token: entry.create_revision.try_into().unwrap_or(0) }
}

/// The engine.
pub(crate) struct Etcd {
    shared: Arc<Shared>,
}

impl Etcd {
    pub(crate) fn new(mut url: Url) -> Result<Etcd, Error> {
        let settings = Settings {
            hosts: url.hosts("localhost", 2379),
            tls: tls(&mut url)?,
            credentials: credentials(&mut url)?,
            probe_key: Vec::new(),
        };
        url.finish(&PARAMETERS)?;
        let prefix = url.path().trim_end_matches('/').to_string();
        // A user with a role for the prefix may read this key.
        let probe_key = if prefix.is_empty() { b"/".to_vec() } else { format!("{prefix}/").into_bytes() };
        let client = Arc::new(Client::new(Settings { probe_key, ..settings }));
        let shared = Shared {
            renewals: Renewals::new(Arc::clone(&client)),
            checks: Checks::new(Arc::clone(&client)),
            watches: Watches::new(Arc::clone(&client)),
            leases: Leases::default(),
            client,
            prefix,
        };
        Ok(Etcd { shared: Arc::new(shared) })
    }
}

/// A parameter of the URL, or the variable of etcdctl.
fn parameter(url: &mut Url, name: &str, variable: &str) -> Option<String> {
    url.take(name).or_else(|| std::env::var(variable).ok()).filter(|value| !value.is_empty())
}

fn tls(url: &mut Url) -> Result<Option<Arc<ClientConfig>>, Error> {
    let invalid = |reason: &str| Error::InvalidUrl(reason.to_string());
    let wanted = match url.take("tls").as_deref() {
        None => None,
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(_) => return Err(invalid("etcd: `tls` must be true or false")),
    };
    let authorities = parameter(url, "cacert", "ETCDCTL_CACERT");
    let certificate = parameter(url, "cert", "ETCDCTL_CERT");
    let key = parameter(url, "key", "ETCDCTL_KEY");
    if !wanted.unwrap_or(authorities.is_some() || certificate.is_some() || key.is_some()) {
        return Ok(None);
    }
    let certificate = match (&certificate, &key) {
        (Some(certificate), Some(key)) => Some((Path::new(certificate), Path::new(key))),
        (None, None) => None,
        _ => return Err(invalid("etcd: `cert` and `key` need each other")),
    };
    let mut config = tls_config(authorities.as_deref().map(Path::new), certificate)?;
    Arc::make_mut(&mut config).alpn_protocols = vec![b"h2".to_vec()];
    Ok(Some(config))
}

fn credentials(url: &mut Url) -> Result<Option<(String, Secret)>, Error> {
    let given = url.user().map(str::to_string);
    let password = url.take_password("ETCDCTL_PASSWORD")?;
    // As etcdctl: `user` or `user:password`.
    let usual = std::env::var("ETCDCTL_USER").ok().filter(|user| !user.is_empty());
    let (user, password) = match (given, usual) {
        (Some(user), _) => (user, password),
        (None, Some(usual)) => match usual.split_once(':') {
            Some((user, usual)) => (user.to_string(), password.or_else(|| Some(Secret::new(usual)))),
            None => (usual, password),
        },
        (None, None) => return Ok(None),
    };
    let missing = || Error::InvalidUrl(format!("etcd: user `{user}` has no password: add `password-file`"));
    let password = password.ok_or_else(missing)?;
    Ok(Some((user, password)))
}

impl Recipe for Etcd {
    fn facts(&self) -> &'static Facts {
        &crate::facts::ETCD
    }

    fn candidate(&self, wish: Wish) -> Box<dyn Candidate> {
        Box::new(EtcdCandidate::new(Arc::clone(&self.shared), wish))
    }

    fn status<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Status, Error>> {
        Box::pin(async move {
            let prefix = self.shared.prefix_of(name);
            let answer = self.shared.client.call(api::RANGE, &api::get_all(&prefix), PATIENCE).await?;
            let entries: Vec<Entry> = api::entries(&answer).collect();
            let mut remarks: Vec<String> =
                entries.iter().filter_map(|entry| remark_on_key(&prefix, entry)).collect();
            // The version is only a remark: a user may lack the permission to ask for it.
            let version = self.shared.client.call(api::STATUS, &crate::grpc::Message::new(), PATIENCE).await;
            remarks.extend(version.ok().and_then(|answer| remark_on_version(&api::text(&answer))));
            Ok(Status {
                leader: entries.first().map(leader_of),
                waiting: entries.iter().skip(1).map(|entry| text(&entry.value)).collect(),
                remarks,
            })
        })
    }

    fn changed<'a>(
        &'a self,
        name: &'a str,
        known: Option<Leader>,
    ) -> Pending<'a, Result<Option<Leader>, Error>> {
        Box::pin(async move {
            let prefix = self.shared.prefix_of(name);
            loop {
                let (first, revision) = self.shared.first(&prefix).await?;
                let leader = first.as_ref().map(leader_of);
                if leader != known {
                    return Ok(leader);
                }
                let target = match first {
                    Some(first) => Target::Change(first.key),
                    None => Target::PutBelow(prefix.clone()),
                };
                self.shared.watches.watch(target, revision + 1).woken().await?;
            }
        })
    }

    fn depose<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Option<Leader>, Error>> {
        Box::pin(async move {
            let (Some(first), _) = self.shared.first(&self.shared.prefix_of(name)).await? else {
                return Ok(None);
            };
            let delete = api::delete(&first.key, first.create_revision);
            let answer = self.shared.client.call(api::TXN, &delete, PATIENCE).await?;
            Ok(api::succeeded(&answer).then(|| leader_of(&first)))
        })
    }
}

/// What an operator should know of a key.
fn remark_on_key(prefix: &[u8], entry: &Entry) -> Option<String> {
    let key = text(&entry.key);
    let end = text(entry.key.strip_prefix(prefix)?);
    if end.contains('/') {
        let start = text(prefix);
        Some(format!(
            "key {key} is of an election whose name starts with {start}: it counts as a candidate here"
        ))
    } else if entry.lease == 0 {
        Some(format!("key {key} is bound to no lease: it stays until somebody deletes it"))
    } else if end != format!("{:x}", entry.lease) {
        Some(format!("key {key} is of an unknown recipe: it counts as a candidate"))
    } else {
        None
    }
}

/// Servers before 3.4.31 and 3.5.13 can revoke leases that were renewed (etcd issue 15247).
fn remark_on_version(version: &str) -> Option<String> {
    let mut numbers = version.split(['.', '-', '+']).map_while(|number| number.parse::<u32>().ok());
    let (major, minor, patch) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let mended = match (major, minor) {
        (..=2, _) | (3, ..=3) => false,
        (3, 4) => patch >= 31,
        (3, 5) => patch >= 13,
        _ => true,
    };
    let remark = || {
        format!(
            "etcd {version} revokes renewed leases if its leading server was paused for longer than the ttl \
             (issue 15247): another candidate then leads too early; 3.4.31 and 3.5.13 mend it"
        )
    };
    (!mended).then(remark)
}
