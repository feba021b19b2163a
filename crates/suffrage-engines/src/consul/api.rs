//! The requests to the agents of Consul, and the blocking queries of its keys.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::ENGINE;
use crate::Error;
use crate::follow::{Feed, Scope, Source};
use crate::http::{Client, Reply, Request, encode};
use crate::recipe::Pending;
use crate::transport::tls_config;
use crate::url::{Secret, Url};

/// The flags of keys that are locks: `consul lock` refuses keys with others.
const LOCK_FLAGS: u64 = 0x2ddc_cbc0_58a5_0c18;
/// The time-out of requests that no lease depends on.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How long a blocking query waits for a change; Consul adds up to a sixteenth. Renewals trust the query while it is
/// answered: a connection that is silently dead is found within the shortest ttl.
const QUERY_WAIT: Duration = Duration::from_secs(7);
const QUERY_PATIENCE: Duration = Duration::from_secs(9);
/// A query of many keys is repeated at most this often: its reply has all of them.
const QUERY_PAUSE: Duration = Duration::from_millis(50);
/// A session that does not exist.
const NO_SESSION: &str = "00000000-0000-0000-0000-000000000000";
/// The parameters of the URL.
const PARAMETERS: [&str; 9] = [
    "token-file",
    "password-file",
    "password-env",
    "tls",
    "ca-file",
    "client-cert",
    "client-key",
    "tls-server-name",
    "datacenter",
];

/// The key of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) value: String,
    flags: u64,
    /// The session that has locked the key, or nothing.
    pub(super) session: String,
    pub(super) modify_index: u64,
}

impl Entry {
    fn new(object: &Value) -> Entry {
        let value =
            object["Value"].as_str().and_then(|value| STANDARD.decode(value).ok()).unwrap_or_default();
        Entry {
            value: String::from_utf8_lossy(&value).into_owned(),
            flags: object["Flags"].as_u64().unwrap_or(0),
            session: object["Session"].as_str().unwrap_or_default().to_string(),
            modify_index: object["ModifyIndex"].as_u64().unwrap_or(0),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        !self.session.is_empty()
    }

    /// Why the key cannot be locked, if it is none for a lock.
    pub(super) fn conflict(&self) -> Option<String> {
        (self.flags != LOCK_FLAGS).then(|| {
            "the key is used for something else than `consul lock` with one holder: use another name or prefix".to_string()
        })
    }
}

/// What became of an attempt to lock a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Locked {
    /// The key is locked, with this ModifyIndex.
    Done(u64),
    /// Another session has locked it.
    Held,
    /// Nobody can lock it until the lock-delay is over.
    Delayed,
    /// The session does not exist any more.
    NoSession,
}

/// The agents of Consul.
pub(super) struct Api {
    client: Client,
    prefix: String,
    datacenter: Option<String>,
    token: Option<Secret>,
}

fn invalid(reason: impl Into<String>) -> Error {
    Error::InvalidUrl(reason.into())
}

impl Api {
    pub(super) fn new(mut url: Url) -> Result<Api, Error> {
        let token = match url.take("token-file") {
            Some(path) => {
                let text = std::fs::read_to_string(&path);
                let text = text.map_err(|error| invalid(format!("token-file: {path}: {error}")))?;
                Some(Secret::new(text.trim()))
            }
            None => url.take_password("CONSUL_HTTP_TOKEN")?,
        };
        let files = ["ca-file", "client-cert", "client-key"].map(|key| url.take(key));
        let [authority, certificate, key] = files.each_ref().map(|file| file.as_deref().map(Path::new));
        let secure = match url.take("tls").as_deref() {
            None => authority.is_some() || certificate.is_some(),
            Some("" | "true" | "1") => true,
            Some("false" | "0") => false,
            Some(other) => return Err(invalid(format!("tls: `{other}` is neither true nor false"))),
        };
        let server_name = url.take("tls-server-name");
        let datacenter = url.take("datacenter");
        url.finish(&PARAMETERS)?;
        if url.user().is_some() {
            return Err(invalid(
                "Consul has no users: write the token as a password, consul://:TOKEN@host, or in a file",
            ));
        }
        let certificate = match (certificate, key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => return Err(invalid("client-cert and client-key need each other")),
        };
        let tls = if secure { Some(tls_config(authority, certificate)?) } else { None };
        let hosts = url.hosts("localhost", if secure { 8501 } else { 8500 });
        let prefix = match url.path().trim_matches('/') {
            "" => "suffrage".to_string(),
            prefix => prefix.to_string(),
        };
        Ok(Api { client: Client::new(ENGINE, hosts, tls, server_name), prefix, datacenter, token })
    }

    fn key(&self, name: &str) -> String {
        format!("{}/{name}/.lock", self.prefix)
    }

    fn request(&self, method: Method, path: &str, query: &str) -> Request {
        let mut target = format!("/v1/{path}?{query}");
        if let Some(datacenter) = &self.datacenter {
            target = format!("{target}&dc={}", encode(datacenter));
        }
        let mut request = Request::new(method, target);
        request.authorization = self.token.clone().map(|token| ("x-consul-token", token));
        request
    }

    async fn send(&self, request: Request, within: Duration) -> Result<Reply, Error> {
        self.check(self.client.send(&request, within).await?)
    }

    /// Turns replies that are failures of the request into errors.
    fn check(&self, reply: Reply) -> Result<Reply, Error> {
        match reply.status {
            200 | 404 | 409 => Ok(reply),
            401 | 403 => Err(Error::Refused {
                engine: ENGINE,
                reason: format!(
                    "{}; the token needs `key_prefix \"{}/\" {{ policy = \"write\" }}` and `session_prefix \"\" {{ policy = \
                     \"write\" }}`",
                    reply.text(),
                    self.prefix
                ),
            }),
            400 | 413 => Err(Error::Refused { engine: ENGINE, reason: reply.text() }),
            code => {
                // "No cluster leader", or an agent that has lost its servers: another agent may do better.
                self.client.try_next_server();
                Err(self.client.unavailable(format!("the agent answers {code}: {}", reply.text())))
            }
        }
    }

    fn json(&self, reply: &Reply) -> Result<Value, Error> {
        let value = serde_json::from_slice(&reply.body);
        value.map_err(|error| self.client.unavailable(format!("the reply is no JSON: {error}")))
    }

    fn key_path(&self, name: &str) -> String {
        let key = self.key(name);
        let parts: Vec<String> = key.split('/').map(encode).collect();
        format!("kv/{}", parts.join("/"))
    }

    /// Reads the key, as of now.
    pub(super) async fn get(&self, name: &str, within: Duration) -> Result<Option<Entry>, Error> {
        let reply = self.send(self.request(Method::GET, &self.key_path(name), "consistent"), within).await?;
        if reply.status == 404 {
            return Ok(None);
        }
        Ok(self.json(&reply)?.get(0).map(Entry::new))
    }

    /// Creates a session that ends when it is not renewed, and for no other reason.
    pub(super) async fn create_session(
        &self,
        name: &str,
        ttl: Duration,
        lock_delay: Duration,
        within: Duration,
    ) -> Result<String, Error> {
        let body = json!({
            "Name": name,
            "TTL": format!("{}s", ttl.as_secs()),
            "LockDelay": format!("{}s", lock_delay.as_secs()),
            "Behavior": "release",
            "Checks": [],
            "NodeChecks": [],
        });
        let request = self.request(Method::PUT, "session/create", "").body(body.to_string());
        let reply = self.json(&self.send(request, within).await?)?;
        let id = reply["ID"].as_str().map(str::to_string);
        id.ok_or_else(|| self.client.unavailable("the new session has no ID"))
    }

    /// Renews a session. False if it does not exist any more.
    pub(super) async fn renew(&self, session: &str, within: Duration) -> Result<bool, Error> {
        let request = self.request(Method::PUT, &format!("session/renew/{session}"), "");
        Ok(self.send(request, within).await?.status == 200)
    }

    /// Destroys a session, if it exists.
    pub(super) async fn destroy(&self, session: &str, within: Duration) -> Result<(), Error> {
        let request = self.request(Method::PUT, &format!("session/destroy/{}", encode(session)), "");
        self.send(request, within).await.map(drop)
    }

    /// The name of a session, if it exists.
    pub(super) async fn session_name(&self, session: &str) -> Result<Option<String>, Error> {
        let request = self.request(Method::GET, &format!("session/info/{}", encode(session)), "");
        let reply = self.json(&self.send(request, PATIENCE).await?)?;
        Ok(reply.get(0).and_then(|session| session["Name"].as_str()).map(str::to_string))
    }

    /// Locks the key by a session. The same as `PUT ?acquire`, with the index and the reason in the reply.
    pub(super) async fn lock(
        &self,
        name: &str,
        value: &str,
        session: &str,
        within: Duration,
    ) -> Result<Locked, Error> {
        let operation = json!([{ "KV": {
            "Verb": "lock",
            "Key": self.key(name),
            "Value": STANDARD.encode(value),
            "Flags": LOCK_FLAGS,
            "Session": session,
        }}]);
        let request = self.request(Method::PUT, "txn", "").body(operation.to_string());
        let reply = self.send(request, within).await?;
        let result = self.json(&reply)?;
        if reply.status == 200 {
            let index = result.pointer("/Results/0/KV/ModifyIndex").and_then(Value::as_u64);
            let index = index.ok_or_else(|| self.client.unavailable("the reply has no ModifyIndex"))?;
            return Ok(Locked::Done(index));
        }
        let reason = result.pointer("/Errors/0/What").and_then(Value::as_str).unwrap_or_default();
        if reason.contains("lock delay") || reason.contains("lock-delay") {
            Ok(Locked::Delayed)
        } else if reason.contains("already held") {
            Ok(Locked::Held)
        } else if reason.contains("session") {
            Ok(Locked::NoSession)
        } else {
            Err(self.client.unavailable(format!("the key was not locked: {reason}{}", reply.text())))
        }
    }

    /// Whether a lock-delay keeps the key from being locked: found by an attempt that cannot succeed.
    pub(super) async fn is_delayed(&self, name: &str) -> bool {
        self.lock(name, "", NO_SESSION, PATIENCE).await == Ok(Locked::Delayed)
    }

    /// Releases the key, if this session has locked it.
    pub(super) async fn release(&self, name: &str, session: &str, within: Duration) -> Result<(), Error> {
        let query = format!("release={session}&flags={LOCK_FLAGS}");
        let request = self.request(Method::PUT, &self.key_path(name), &query);
        self.send(request, within).await.map(drop)
    }

    async fn query(&self, scope: &Scope, feed: &Feed<Arc<Entry>>) -> Result<(), Error> {
        let mut index = 0;
        loop {
            let start = Instant::now();
            let wait = QUERY_WAIT.as_secs();
            let (path, query) = match scope {
                Scope::One(name) => (self.key_path(name), format!("index={index}&wait={wait}s")),
                Scope::All => {
                    let parts: Vec<String> = self.prefix.split('/').map(encode).collect();
                    (format!("kv/{}/", parts.join("/")), format!("recurse&index={index}&wait={wait}s"))
                }
            };
            let reply =
                self.client.send_and_wait(&self.request(Method::GET, &path, &query), QUERY_PATIENCE).await?;
            let reply = self.check(reply)?;
            let known = reply.headers.get("x-consul-index").and_then(|value| value.to_str().ok());
            let known: u64 = known
                .and_then(|value| value.parse().ok())
                .ok_or_else(|| self.client.unavailable("the reply has no X-Consul-Index"))?;
            let mut entries = BTreeMap::new();
            if reply.status == 200 {
                for object in self.json(&reply)?.as_array().map(Vec::as_slice).unwrap_or_default() {
                    let name = object["Key"].as_str().and_then(|key| self.name_of(key));
                    if let Some(name) = name {
                        entries.insert(name, Arc::new(Entry::new(object)));
                    }
                }
            }
            let many = entries.len() > 20;
            feed.replace(scope, entries, known);
            // As the documents of Consul say: an index that goes back starts again.
            index = if known < index { 0 } else { known.max(1) };
            if many {
                sleep(QUERY_PAUSE.saturating_sub(start.elapsed())).await;
            }
        }
    }

    fn name_of(&self, key: &str) -> Option<Arc<str>> {
        let name = key.strip_prefix(self.prefix.as_str())?.strip_prefix('/')?.strip_suffix("/.lock")?;
        Some(name.into())
    }
}

impl Source for Api {
    type Entry = Arc<Entry>;

    fn follow<'a>(&'a self, scope: &'a Scope, feed: &'a Feed<Arc<Entry>>) -> Pending<'a, Error> {
        Box::pin(async move {
            match self.query(scope, feed).await {
                Err(error) => error,
                Ok(()) => self.client.unavailable("the query has ended"),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(url: &str) -> Result<Api, Error> {
        Api::new(Url::parse(url).unwrap())
    }

    #[test]
    fn the_key_is_that_of_consul_lock() {
        let api = api("consul://a,b:1/service/team/").unwrap();
        assert_eq!(api.key("reports"), "service/team/reports/.lock");
        assert_eq!(api.key_path("two words/x"), "kv/service/team/two%20words/x/.lock");
        assert_eq!(api.name_of("service/team/two words/x/.lock").as_deref(), Some("two words/x"));
        assert_eq!(api.name_of("service/team/x/other"), None);
        assert_eq!(api.name_of("service/teams/x/.lock"), None);
        assert_eq!(super::tests::api("consul://").unwrap().key("x"), "suffrage/x/.lock");
    }

    #[test]
    fn a_token_is_a_header_and_a_secret() {
        let api = api("consul://:secret-word@a/p?datacenter=dc1").unwrap();
        let request = api.request(Method::GET, "kv/x", "");
        assert_eq!(request.target, "/v1/kv/x?&dc=dc1");
        assert_eq!(request.authorization.as_ref().unwrap().1.reveal(), "secret-word");
        assert!(!format!("{request:?}").contains("secret-word"));
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for (url, reason) in [
            ("consul://me:x@a", "no users"),
            ("consul://a?tls=maybe", "`maybe`"),
            ("consul://a?client-cert=/x", "need each other"),
            ("consul://a?token-file=/no/such/file", "/no/such/file"),
            ("consul://a?typo=1", "`typo`"),
        ] {
            let error = api(url).err().expect(reason).to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn keys_of_others_are_conflicts() {
        let entry = |flags: u64| Entry::new(&json!({ "Flags": flags, "Value": null, "ModifyIndex": 7 }));
        assert_eq!(entry(LOCK_FLAGS).conflict(), None);
        // A semaphore: `consul lock -n=2`.
        assert!(entry(0xe0f6_9a2b_aa41_4de0).conflict().is_some());
        assert!(entry(0).conflict().is_some());
    }
}
