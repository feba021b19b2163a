//! The requests to the API server, and the watch of its Leases.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Method;
use tokio::time::{Instant, timeout};

use super::config::{Config, Credentials};
use super::lease::Lease;
use super::wire::{MEDIA_TYPE, Message, WATCH_MEDIA_TYPE, unseal};
use crate::Error;
use crate::follow::{Feed, Scope, Source};
use crate::http::{Client, Reply, Request, bearer, encode};
use crate::recipe::Pending;
use crate::url::Secret;

const ENGINE: &str = "Kubernetes";
/// How long a token of a file is used before the file is read again. Kubernetes replaces tokens long before they expire.
const TOKEN_AGE: Duration = Duration::from_secs(10);
/// The time-out of requests that no lease depends on.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How long the server keeps a watch open.
const WATCH_SECONDS: u64 = 290;
/// A watch without a word for so long is opened anew: the server sends a bookmark about once a minute.
const WATCH_SILENCE: Duration = Duration::from_secs(90);

/// What became of a write.
pub(super) enum Written {
    /// Stored.
    Done(Arc<Lease>),
    /// Refused: the Lease has another version, or exists already.
    Conflict,
    /// Refused: the Lease does not exist.
    Missing,
}

/// The API server.
pub(super) struct Api {
    client: Client,
    base_path: String,
    pub(super) namespace: String,
    credentials: Credentials,
    token: Mutex<Option<(Secret, Instant)>>,
}

fn refused(reason: String) -> Error {
    Error::Refused { engine: ENGINE, reason }
}

impl Api {
    pub(super) fn new(config: Config) -> Api {
        let client = Client::new(ENGINE, vec![config.host], config.tls, config.server_name);
        let Config { base_path, namespace, credentials, .. } = config;
        Api { client, base_path, namespace, credentials, token: Mutex::default() }
    }

    fn request(&self, method: Method, rest: &str) -> Result<Request, Error> {
        let Api { base_path, namespace, .. } = self;
        let target = format!("{base_path}/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases{rest}");
        let mut request = Request::new(method, target).media_type(MEDIA_TYPE);
        request.authorization = match &self.credentials {
            Credentials::None => None,
            Credentials::Token(token) => Some(bearer(token)),
            Credentials::TokenFile(path) => {
                let mut known = self.token.lock().unwrap_or_else(PoisonError::into_inner);
                if known.as_ref().is_none_or(|(_, read)| read.elapsed() >= TOKEN_AGE) {
                    // It may be missing for a moment while it is replaced.
                    let text = std::fs::read_to_string(path).map_err(|error| {
                        self.client.unavailable(format!("the token {}: {error}", path.display()))
                    })?;
                    *known = Some((Secret::new(text.trim()), Instant::now()));
                }
                known.as_ref().map(|(token, _)| bearer(token))
            }
        };
        Ok(request)
    }

    /// Why a request was not done.
    fn failure(&self, reply: &Reply) -> Error {
        // A Status, or whatever stands before the server.
        let message = unseal(&reply.body).map_or_else(|| reply.text(), |status| status.text(3).to_string());
        let namespace = &self.namespace;
        match (reply.status, &self.credentials) {
            (401, Credentials::TokenFile(path)) => {
                *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
                self.client.unavailable(format!("the server does not accept the token in {}", path.display()))
            }
            (401, _) => refused("the server does not accept the credentials of the kubeconfig".to_string()),
            (403, _) => refused(format!(
                "{message}; the role needs get, create, update, list and watch of leases.coordination.k8s.io in the \
                 namespace `{namespace}`"
            )),
            (404, _) => refused(format!("{message}; is there a namespace `{namespace}`?")),
            (400 | 405 | 406 | 413 | 415 | 422, _) => refused(message),
            (code, _) => self.client.unavailable(format!("the server answers {code}: {message}")),
        }
    }

    fn lease(&self, reply: &Reply) -> Result<Arc<Lease>, Error> {
        let lease = Lease::of_reply(&reply.body);
        lease.map(Arc::new).map_err(|reason| self.client.unavailable(reason))
    }

    /// Reads the Lease, as of now.
    pub(super) async fn get(&self, name: &str, within: Duration) -> Result<Option<Arc<Lease>>, Error> {
        let request = self.request(Method::GET, &format!("/{}", encode(name)))?;
        let reply = self.client.send(&request, within).await?;
        match reply.status {
            200 => Ok(Some(self.lease(&reply)?)),
            404 => Ok(None),
            _ => Err(self.failure(&reply)),
        }
    }

    /// Creates the Lease, unless it exists.
    pub(super) async fn create(&self, object: Vec<u8>, within: Duration) -> Result<Written, Error> {
        let request = self.request(Method::POST, "")?.body(object);
        let reply = self.client.send(&request, within).await?;
        match reply.status {
            200..=202 => Ok(Written::Done(self.lease(&reply)?)),
            409 => Ok(Written::Conflict),
            _ => Err(self.failure(&reply)),
        }
    }

    /// Replaces the Lease, unless it has another version than the object.
    pub(super) async fn replace(
        &self,
        name: &str,
        object: Vec<u8>,
        within: Duration,
    ) -> Result<Written, Error> {
        let request = self.request(Method::PUT, &format!("/{}", encode(name)))?.body(object);
        let reply = self.client.send(&request, within).await?;
        match reply.status {
            200 | 201 => Ok(Written::Done(self.lease(&reply)?)),
            409 => Ok(Written::Conflict),
            404 => Ok(Written::Missing),
            _ => Err(self.failure(&reply)),
        }
    }

    /// Lists the Leases, and follows their changes until the watch fails or nothing was heard for long.
    async fn list_and_watch(&self, scope: &Scope, feed: &Feed<Arc<Lease>>) -> Result<(), Error> {
        let selector = match scope {
            Scope::One(name) => format!("fieldSelector={}&", encode(&format!("metadata.name={name}"))),
            Scope::All => String::new(),
        };
        let reply = self.client.send(&self.request(Method::GET, &format!("?{selector}"))?, PATIENCE).await?;
        if reply.status != 200 {
            return Err(self.failure(&reply));
        }
        let broken = |reason: String| self.client.unavailable(reason);
        let list =
            unseal(&reply.body).ok_or_else(|| broken("the list is no object of Kubernetes".to_string()))?;
        let mut version: u64 = (list.message(1).text(2).parse())
            .map_err(|_| broken("the list has no resourceVersion that is a number".to_string()))?;
        let mut entries = BTreeMap::new();
        for item in list.messages(2) {
            let lease = Arc::new(Lease::new(item).map_err(broken)?);
            entries.insert(lease.name().into(), lease);
        }
        feed.replace(scope, entries, version);
        loop {
            let query = format!(
                "?{selector}watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}"
            );
            let start = Instant::now();
            let request = self.request(Method::GET, &query)?.media_type(WATCH_MEDIA_TYPE);
            let frames = self.client.frames(&request, PATIENCE).await?;
            let mut frames = frames.map_err(|reply| self.failure(&reply))?;
            loop {
                let frame = match timeout(WATCH_SILENCE, frames.next()).await {
                    Ok(frame) => frame.map_err(broken)?,
                    Err(_) => return Ok(()),
                };
                let Some(frame) = frame else { break };
                let event =
                    Message::decode(&frame).ok_or_else(|| broken("an event is broken".to_string()))?;
                let object = unseal(event.message(2).bytes(1));
                let object = object.ok_or_else(|| broken("an event has no object".to_string()))?;
                let kind = event.text(1);
                if kind == "ERROR" {
                    // 410: the version is too old. The list is read again.
                    return match object.number(6) {
                        Some(410) => Ok(()),
                        _ => Err(broken(format!("the watch failed: {}", object.text(3)))),
                    };
                }
                let lease = Lease::new(object).map_err(broken)?;
                version = lease.version();
                let name = lease.name().to_string();
                match kind {
                    "ADDED" | "MODIFIED" => feed.set(&name, Some(Arc::new(lease)), version),
                    "DELETED" => feed.set(&name, None, version),
                    _ => {}
                }
            }
            if start.elapsed() < Duration::from_secs(1) {
                return Err(broken("the server closed the watch at once".to_string()));
            }
        }
    }
}

impl Source for Api {
    type Entry = Arc<Lease>;

    fn follow<'a>(&'a self, scope: &'a Scope, feed: &'a Feed<Arc<Lease>>) -> Pending<'a, Error> {
        Box::pin(async move {
            loop {
                if let Err(error) = self.list_and_watch(scope, feed).await {
                    return error;
                }
            }
        })
    }
}
