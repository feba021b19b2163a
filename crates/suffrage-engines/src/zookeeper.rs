//! Elections on ZooKeeper, by the recipes of Apache Curator and of kazoo.
//!
//! ```text
//!   FOLDER/NAME                                          created if missing, as a container
//!     _c_<uuid>-latch-0000000007   recipe=latch          Curator LeaderLatch          ◀ leads: the lowest number
//!     _c_<uuid>-lock-0000000008    recipe=selector       Curator LeaderSelector, InterProcessMutex
//!     <32 hex>__lock__0000000009   recipe=kazoo          kazoo Election, Lock
//! ```
//!
//! - Each candidate has one ephemeral, sequential node with its identity as data, and watches the node before its own.
//! - The token is the czxid of the node: it also grows when the folder is removed and made again, unlike the number.
//! - All candidates with one ttl share one [session](session), whose end is known by the clock of this machine.
//! - The node after a lost reply is found by its uuid and its owner.
//! - The data of a node is never set again: a LeaderLatch of Curator that waits takes that for the end of the leader's node,
//!   looks once, and then never leads.
//! - The recipes do not see each other: a LeaderLatch and a kazoo Election on one folder both lead. So a candidate refuses
//!   to lead while there is a child of another recipe.

mod link;
mod observer;
mod session;
mod wire;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;

use self::link::{Link, Watch};
use self::observer::Observer;
use self::session::{Presence, Session};
use self::wire::{Acl, Code, Mode};
use crate::recipe::{Candidate, Grant, Leader, Pending, Recipe, Status, Wish};
use crate::url::{Secret, Url};
use crate::{Error, Facts, Moment};

const NAME: &str = "ZooKeeper";
/// The parameters of the URL.
const PARAMETERS: [&str; 8] =
    ["recipe", "acl", "tls", "cacert", "cert", "key", "password-file", "password-env"];
/// The shortest session of servers with default settings: two ticks of 2 s.
const DEFAULT_TTL: Duration = Duration::from_secs(4);

fn unavailable(reason: impl Into<String>) -> Error {
    Error::Unavailable { engine: NAME, reason: reason.into() }
}

fn ended(reason: impl Into<String>) -> Error {
    Error::Ended { engine: NAME, reason: reason.into() }
}

fn refused(reason: impl Into<String>) -> Error {
    Error::Refused { engine: NAME, reason: reason.into() }
}

/// The error of a reply that nobody expects.
fn unexpected(path: &str, code: Code) -> Error {
    match code {
        Code::NO_AUTH => refused(format!("{path}: {code}: the user needs to read, create and delete there")),
        Code::AUTH_FAILED => refused(format!("{path}: {code}")),
        code => unavailable(format!("{path}: {code}")),
    }
}

/// What the URL says.
struct Config {
    hosts: Vec<(String, u16)>,
    tls: Option<Arc<ClientConfig>>,
    user: Option<(String, Secret)>,
    acl: Acl,
    layout: Layout,
    /// The folder of all elections, with a slash at its start and none at its end. Empty: the root.
    folder: String,
}

/// The names of the nodes of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Latch,
    Selector,
    Kazoo,
}

impl Layout {
    /// The name of a node, up to its number.
    fn prefix(self, uuid: &str) -> String {
        match self {
            Layout::Latch => format!("_c_{uuid}-latch-"),
            Layout::Selector => format!("_c_{uuid}-lock-"),
            Layout::Kazoo => format!("{}__lock__", uuid.replace('-', "")),
        }
    }

    /// The number of a node, or `None` if the node is not of this recipe.
    fn number(self, child: &str) -> Option<u64> {
        let before = match self {
            Layout::Latch => "latch-",
            Layout::Selector => "lock-",
            Layout::Kazoo => "__lock__",
        };
        let (_, digits) = child.rsplit_once(before)?;
        (digits.len() >= 10 && digits.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| digits.parse().ok())?
    }
}

/// The children of a folder: candidates in the order of their numbers, and others.
struct Queue {
    candidates: Vec<String>,
    unknown: Option<String>,
}

impl Queue {
    fn new(layout: Layout, children: Vec<String>) -> Queue {
        let mut numbered: Vec<(u64, String)> = Vec::new();
        let mut unknown = None;
        for child in children {
            match layout.number(&child) {
                Some(number) => numbered.push((number, child)),
                None => unknown = Some(child),
            }
        }
        numbered.sort_unstable();
        Queue { candidates: numbered.into_iter().map(|(_, child)| child).collect(), unknown }
    }

    fn remark(unknown: &str) -> String {
        format!(
            "a child of an unknown recipe is in the folder: {unknown}: its client and those of this recipe do not see each \
             other, so that both lead; give each recipe a folder of its own"
        )
    }
}

/// A random UUID.
fn uuid() -> Result<String, Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| unavailable(format!("no random number: {error}")))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = bytes.map(|byte| format!("{byte:02x}")).concat();
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

/// Checks a path by the rules of ZooKeeper.
fn check_path(path: &str) -> Result<(), String> {
    if let Some(wrong) = path.chars().find(|character| {
        matches!(character, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}')
    }) {
        return Err(format!("cannot store the character {wrong:?} in a path"));
    }
    match path.split('/').skip(1).find(|part| matches!(*part, "" | "." | "..")) {
        Some(part) => Err(format!("cannot store a path with the part `{part}`")),
        None => Ok(()),
    }
}

/// Elections on ZooKeeper.
pub(crate) struct ZooKeeper {
    config: Arc<Config>,
    observer: Arc<Observer>,
    /// The sessions, by ttl and drift bound.
    sessions: Mutex<BTreeMap<(Duration, u64), Arc<Session>>>,
}

impl ZooKeeper {
    pub(crate) fn new(mut url: Url) -> Result<ZooKeeper, Error> {
        let layout = match url.take("recipe").as_deref() {
            None | Some("latch") => Layout::Latch,
            Some("selector") => Layout::Selector,
            Some("kazoo") => Layout::Kazoo,
            Some(other) => {
                return Err(Error::InvalidUrl(format!("recipe: `{other}` is not latch, selector or kazoo")));
            }
        };
        let password = url.take_password("ZOOKEEPER_PASSWORD")?;
        let user = url.user().map(|user| (user.to_string(), password.unwrap_or_default()));
        let acl = match url.take("acl").as_deref() {
            None => {
                if user.is_some() {
                    Acl::Creator
                } else {
                    Acl::Open
                }
            }
            Some("open") => Acl::Open,
            Some("creator") if user.is_some() => Acl::Creator,
            Some(other) => {
                return Err(Error::InvalidUrl(format!("acl: `{other}` is not open, or creator with a user")));
            }
        };
        let (cacert, cert, key) = (url.take("cacert"), url.take("cert"), url.take("key"));
        let certificate = match (&cert, &key) {
            (Some(cert), Some(key)) => Some((Path::new(cert), Path::new(key))),
            (None, None) => None,
            _ => return Err(Error::InvalidUrl("cert and key belong together".to_string())),
        };
        let tls = match url.take("tls").as_deref() {
            Some("true") => {
                Some(crate::transport::tls_config(cacert.as_deref().map(Path::new), certificate)?)
            }
            None | Some("false") if cacert.is_none() && cert.is_none() => None,
            None | Some("false") => {
                return Err(Error::InvalidUrl("cacert, cert and key need tls=true".to_string()));
            }
            Some(other) => return Err(Error::InvalidUrl(format!("tls: `{other}` is not true or false"))),
        };
        url.finish(&PARAMETERS)?;
        let path = url.path().trim_matches('/');
        let folder = if path.is_empty() { String::new() } else { format!("/{path}") };
        check_path(&folder).map_err(|reason| Error::InvalidUrl(format!("ZooKeeper {reason}")))?;
        let port = if tls.is_some() { 2281 } else { 2181 };
        let hosts = url.hosts("localhost", port);
        let config = Arc::new(Config { hosts, tls, user, acl, layout, folder });
        let observer = Arc::new(Observer::new(Arc::clone(&config)));
        Ok(ZooKeeper { config, observer, sessions: Mutex::default() })
    }

    fn folder(&self, name: &str) -> String {
        format!("{}/{name}", self.config.folder)
    }

    /// The candidates of an election, by a server that has caught up.
    async fn queue(&self, link: &Link, folder: &str) -> Result<Option<Queue>, Error> {
        link.sync(folder).await?;
        match link.children(folder, false).await? {
            Ok(children) => Ok(Some(Queue::new(self.config.layout, children))),
            Err(Code::NO_NODE) => Ok(None),
            Err(code) => Err(unexpected(folder, code)),
        }
    }

    async fn read_leader(&self, folder: &str, child: &str) -> Result<Option<(Leader, Watch)>, Error> {
        let found = self.observer.watch_node(&format!("{folder}/{child}")).await?;
        Ok(found.map(|(data, stat, watch)| {
            let identity = String::from_utf8_lossy(&data).into_owned();
            (Leader { identity, token: stat.czxid }, watch)
        }))
    }

    /// The leader, and the watch that fires when that changes.
    async fn leader(&self, folder: &str) -> Result<(Option<Leader>, Watch), Error> {
        loop {
            let link = self.observer.link().await?;
            match self.queue(&link, folder).await?.map(|queue| queue.candidates.into_iter().next()) {
                Some(Some(first)) => {
                    if let Some((leader, watch)) = self.read_leader(folder, &first).await? {
                        return Ok((Some(leader), watch));
                    }
                }
                Some(None) => {
                    let watch = link.expect_change(folder);
                    match link.children(folder, true).await? {
                        Ok(children)
                            if !children.iter().any(|child| self.config.layout.number(child).is_some()) =>
                        {
                            return Ok((None, watch));
                        }
                        Ok(_) | Err(Code::NO_NODE) => {}
                        Err(code) => return Err(unexpected(folder, code)),
                    }
                }
                None => {
                    let watch = link.expect_change(folder);
                    match link.exists(folder, true).await? {
                        Err(Code::NO_NODE) => return Ok((None, watch)),
                        Ok(_) => {}
                        Err(code) => return Err(unexpected(folder, code)),
                    }
                }
            }
        }
    }
}

impl Recipe for ZooKeeper {
    fn facts(&self) -> &'static Facts {
        &crate::facts::ZOOKEEPER
    }

    fn default_ttl(&self) -> Duration {
        DEFAULT_TTL
    }

    fn check_name(&self, name: &str) -> Result<(), Error> {
        let unsupported = |cannot: String| Error::Unsupported { engine: NAME, cannot };
        if name.contains('/') {
            return Err(unsupported("needs a name without a slash: a name is one folder".to_string()));
        }
        if self.config.folder.is_empty() && name == "zookeeper" {
            return Err(unsupported("has a folder `/zookeeper` of its own".to_string()));
        }
        check_path(&self.folder(name)).map_err(unsupported)
    }

    fn candidate(&self, wish: Wish) -> Box<dyn Candidate> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (wish.ttl, wish.drift.to_bits());
        let session =
            sessions.entry(key).or_insert_with(|| Arc::new(Session::new(Arc::clone(&self.config), &wish)));
        let session = Arc::clone(session);
        Box::new(Contender {
            config: Arc::clone(&self.config),
            observer: Arc::clone(&self.observer),
            folder: self.folder(&wish.name),
            wish,
            _presence: session.enter(),
            session,
            attempt: None,
            node: None,
            own: None,
            renewed: Duration::ZERO,
        })
    }

    fn status<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Status, Error>> {
        Box::pin(async move {
            let folder = self.folder(name);
            let link = self.observer.link().await?;
            let mut status = Status::default();
            let Some(queue) = self.queue(&link, &folder).await? else { return Ok(status) };
            status.remarks.extend(queue.unknown.as_deref().map(Queue::remark));
            for child in &queue.candidates {
                // Whoever has gone in the meantime is left out.
                let (identity, token) = match link.data(&format!("{folder}/{child}"), false).await? {
                    Ok((data, stat)) => (String::from_utf8_lossy(&data).into_owned(), stat.czxid),
                    Err(Code::NO_NODE) => continue,
                    Err(code) => return Err(unexpected(child, code)),
                };
                match status.leader {
                    None => status.leader = Some(Leader { identity, token }),
                    Some(_) => status.waiting.push(identity),
                }
            }
            Ok(status)
        })
    }

    fn changed<'a>(
        &'a self,
        name: &'a str,
        known: Option<Leader>,
    ) -> Pending<'a, Result<Option<Leader>, Error>> {
        Box::pin(async move {
            let folder = self.folder(name);
            loop {
                let (leader, watch) = self.leader(&folder).await?;
                if leader != known {
                    return Ok(leader);
                }
                // An error: the connection has ended, and the next one tells.
                _ = watch.await;
            }
        })
    }

    fn depose<'a>(&'a self, name: &'a str) -> Pending<'a, Result<Option<Leader>, Error>> {
        Box::pin(async move {
            let folder = self.folder(name);
            let link = self.observer.link().await?;
            let first =
                self.queue(&link, &folder).await?.and_then(|queue| queue.candidates.into_iter().next());
            let Some(first) = first else { return Ok(None) };
            let Some((leader, _)) = self.read_leader(&folder, &first).await? else { return Ok(None) };
            match link.delete(&format!("{folder}/{first}")).await? {
                Ok(deleted) => Ok(deleted.then_some(leader)),
                Err(code) => Err(unexpected(&first, code)),
            }
        })
    }
}

/// The node of a candidate.
#[derive(Clone)]
struct Node {
    session: i64,
    name: String,
    token: u64,
}

/// A candidate.
struct Contender {
    config: Arc<Config>,
    observer: Arc<Observer>,
    session: Arc<Session>,
    _presence: Presence,
    wish: Wish,
    folder: String,
    /// The session and the uuid of a node that was asked for: it may exist, whether or not there was a reply.
    attempt: Option<(i64, String)>,
    node: Option<Node>,
    /// Fires when the own node changes.
    own: Option<Watch>,
    /// The moment of the round that the last grant is from.
    renewed: Moment,
}

impl Contender {
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// The children, by a server that has caught up. No children if there is no folder.
    async fn queue(&self, session: i64) -> Result<Queue, Error> {
        let folder = &self.folder;
        let children = async |link: &Link| {
            // Both requests travel together: a server serves the requests of a connection in their order.
            let (synced, children) = tokio::join!(biased; link.sync(folder), link.children(folder, false));
            synced.and(children)
        };
        self.queue_of(self.session.with(session, children).await?)
    }

    /// The queue of these children. Empty if there is no folder.
    fn queue_of(&self, children: Result<Vec<String>, Code>) -> Result<Queue, Error> {
        match children {
            Ok(children) => Ok(Queue::new(self.config.layout, children)),
            Err(Code::NO_NODE) => Ok(Queue { candidates: Vec::new(), unknown: None }),
            Err(code) => Err(unexpected(&self.folder, code)),
        }
    }

    /// An error if a child of another recipe is there.
    fn refuse_unknown(&self, queue: &Queue) -> Result<(), Error> {
        match &queue.unknown {
            Some(unknown) => Err(refused(format!("{}: {}", self.folder, Queue::remark(unknown)))),
            None => Ok(()),
        }
    }

    /// The own node: the known one, that of an earlier request without a reply, or a new one. With a new one come the
    /// children, by a server that has created it: none that was created before is missing.
    async fn stand(&mut self, session: i64) -> Result<(Node, Option<Queue>), Error> {
        // Nodes of an earlier session end with it.
        self.node.take_if(|node| node.session != session);
        self.attempt.take_if(|(attempted, _)| *attempted != session);
        if let Some(node) = &self.node {
            return Ok((node.clone(), None));
        }
        self.own = None;
        if let Some(node) = self.find(session).await? {
            return Ok((self.node.insert(node).clone(), None));
        }
        let uuid = uuid()?;
        let path = self.path(&self.config.layout.prefix(&uuid));
        // A list that is a little old will do: the one that comes with the own node is not.
        let children = async |link: &Link| link.children(&self.folder, false).await;
        let children = self.session.with(session, children).await?;
        self.refuse_unknown(&self.queue_of(children)?)?;
        self.attempt = Some((session, uuid));
        let (identity, acl) = (&*self.wish.identity, self.config.acl);
        let create = async |link: &Link| {
            loop {
                // Both requests travel together: a server serves the requests of a connection in their order.
                let (created, children) = tokio::join!(
                    biased;
                    link.create(&path, identity, acl, Mode::EphemeralSequential),
                    link.children(&self.folder, false),
                );
                match created? {
                    Err(Code::NO_NODE) => match create_folder(link, &self.folder, acl, true).await? {
                        Ok(()) => {}
                        Err(code) => return Ok(Err(code)),
                    },
                    Err(code) => return Ok(Err(code)),
                    Ok((path, stat)) => return Ok(Ok((path, stat, children?))),
                }
            }
        };
        match self.session.with(session, create).await? {
            Ok((path, stat, children)) => {
                let name = path.rsplit('/').next().unwrap_or_default().to_string();
                let queue = self.queue_of(children)?;
                Ok((self.node.insert(Node { session, name, token: stat.czxid }).clone(), Some(queue)))
            }
            Err(code) => {
                self.attempt = None;
                Err(unexpected(&self.folder, code))
            }
        }
    }

    /// The node of an earlier request that had no reply. The connection is a new one of the same session: a request of the
    /// old one was either carried out before, or is refused from now on.
    async fn find(&mut self, session: i64) -> Result<Option<Node>, Error> {
        let Some((_, uuid)) = &self.attempt else { return Ok(None) };
        let prefix = self.config.layout.prefix(uuid);
        let found =
            self.queue(session).await?.candidates.into_iter().find(|child| child.starts_with(&prefix));
        let Some(name) = found else {
            self.attempt = None;
            return Ok(None);
        };
        let path = self.path(&name);
        match self.session.with(session, async |link: &Link| link.exists(&path, false).await).await? {
            Ok(stat) if stat.owner == session => Ok(Some(Node { session, name, token: stat.czxid })),
            Ok(_) | Err(Code::NO_NODE) => Ok(None),
            Err(code) => Err(unexpected(&path, code)),
        }
    }

    /// Watches the own node, if it is not watched. False if it does not exist.
    async fn watch_own(&mut self, path: &str) -> Result<bool, Error> {
        if self.own.is_none() {
            self.own = self.observer.watch_node(path).await?.map(|(_, _, watch)| watch);
        }
        Ok(self.own.is_some())
    }

    /// Waits until the node before the own one has gone, or something else may have changed.
    async fn wait(&mut self, node: &Node, before: &str) -> Result<(), Error> {
        let own_path = self.path(&node.name);
        let Some((_, _, watch)) = self.observer.watch_node(&self.path(before)).await? else { return Ok(()) };
        if !self.watch_own(&own_path).await? {
            return Ok(());
        }
        let own = self.own.as_mut().expect("it is watched");
        tokio::select! {
            _ = watch => {}
            _ = own => self.own = None,
            () = self.session.ended(node.session) => return Err(ended("the session has expired")),
        }
        Ok(())
    }

    async fn campaign(&mut self) -> Result<Grant, Error> {
        let session = self.session.ready().await?;
        let (node, mut known) = self.stand(session).await?;
        let path = self.path(&node.name);
        loop {
            let queue = match known.take() {
                Some(queue) => queue,
                None => self.queue(session).await?,
            };
            let Some(place) = queue.candidates.iter().position(|child| *child == node.name) else {
                (self.node, self.own) = (None, None);
                return Err(ended("the node was deleted"));
            };
            self.refuse_unknown(&queue)?;
            let Some(before) = place.checked_sub(1) else { break };
            self.wait(&node, &queue.candidates[before]).await?;
        }
        // No node can come before the own one later, so that even an old list shows that it is the first. The lease is that
        // of the last round, which is recent also after a day of waiting.
        if self.session.ready().await? != session {
            return Err(ended("the session has expired"));
        }
        self.session.hold(&path);
        self.lease(&node)
    }

    fn lease(&mut self, node: &Node) -> Result<Grant, Error> {
        let (sent, grant) = self.session.grant(node.session, node.token, &self.wish)?;
        self.renewed = sent;
        Ok(grant)
    }

    async fn renew(&mut self) -> Result<Grant, Error> {
        let Some(node) = self.node.clone() else { return Err(ended("there is no node")) };
        self.session.newer(node.session, &self.path(&node.name), self.renewed).await?;
        self.lease(&node)
    }

    async fn end(&mut self) -> Error {
        let Some(node) = self.node.clone() else { return ended("there is no node") };
        let (path, session) = (self.path(&node.name), Arc::clone(&self.session));
        let deleted = async {
            loop {
                match self.watch_own(&path).await {
                    Ok(true) => {
                        _ = self.own.as_mut().expect("it is watched").await;
                        self.own = None;
                    }
                    Ok(false) => return,
                    // The rounds check the node as well.
                    Err(_) => tokio::time::sleep(self.wish.ttl / 4).await,
                }
            }
        };
        tokio::select! {
            () = deleted => ended("the node was deleted"),
            () = session.ended(node.session) => ended("the session has expired"),
        }
    }

    async fn withdraw(&mut self) -> Result<(), Error> {
        if let Some(node) = &self.node {
            self.session.release(&self.path(&node.name));
        }
        let Some((session, _)) = self.attempt else { return Ok(()) };
        let deleted = async {
            if self.node.is_none() {
                self.node = self.find(session).await?;
            }
            let Some(node) = &self.node else { return Ok(Ok(true)) };
            let path = self.path(&node.name);
            self.session.with(session, async |link: &Link| link.delete(&path).await).await
        };
        match deleted.await {
            // With the session its nodes end.
            Ok(Ok(_)) | Err(Error::Ended { .. }) => {}
            Ok(Err(code)) => return Err(unexpected(&self.folder, code)),
            Err(error) => return Err(error),
        }
        (self.node, self.own, self.attempt) = (None, None, None);
        Ok(())
    }
}

/// Creates a folder, and those above it that are missing.
async fn create_folder(
    link: &Link,
    path: &str,
    acl: Acl,
    mut container: bool,
) -> Result<Result<(), Code>, Error> {
    loop {
        let mode = if container { Mode::Container } else { Mode::Persistent };
        match link.create(path, "", acl, mode).await? {
            Ok(_) | Err(Code::NODE_EXISTS) => return Ok(Ok(())),
            // Servers before 3.5.
            Err(Code::UNIMPLEMENTED) if container => container = false,
            Err(Code::NO_NODE) => {
                let above = path.rsplit_once('/').map_or("", |(above, _)| above);
                if above.is_empty() {
                    return Ok(Err(Code::NO_NODE));
                }
                if let Err(code) = Box::pin(create_folder(link, above, acl, false)).await? {
                    return Ok(Err(code));
                }
            }
            Err(code) => return Ok(Err(code)),
        }
    }
}

impl Candidate for Contender {
    fn campaign(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(Contender::campaign(self))
    }

    fn renew(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(Contender::renew(self))
    }

    fn ended(&mut self) -> Pending<'_, Error> {
        Box::pin(self.end())
    }

    fn withdraw(&mut self) -> Pending<'_, Result<(), Error>> {
        Box::pin(Contender::withdraw(self))
    }

    /// A renewal sends nothing: it waits for a round of the session. Often, so that little of the round's lease has passed.
    fn renewal_interval(&self, ttl: Duration) -> Duration {
        ttl / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_each_recipe_are_told_apart() {
        let uuid = uuid().unwrap();
        assert_eq!(uuid.len(), 36);
        for layout in [Layout::Latch, Layout::Selector, Layout::Kazoo] {
            let node = format!("{}0000000042", layout.prefix(&uuid));
            for other in [Layout::Latch, Layout::Selector, Layout::Kazoo] {
                assert_eq!(other.number(&node), (layout == other).then_some(42), "{layout:?} {other:?}");
            }
        }
        for unknown in
            ["latch-1", "x", "_c_1-latch-00000000x1", "a__rlock__0000000001", "__READ__0000000001", ""]
        {
            for layout in [Layout::Latch, Layout::Selector, Layout::Kazoo] {
                assert_eq!(layout.number(unknown), None, "{unknown}");
            }
        }
    }

    #[test]
    fn candidates_are_ordered_by_number_and_not_by_name() {
        let children = ["_c_b-latch-0000000002", "_c_z-latch-0000000001", "_c_a-latch-2147483647"];
        let queue = Queue::new(Layout::Latch, children.map(String::from).to_vec());
        assert_eq!(
            queue.candidates,
            ["_c_z-latch-0000000001", "_c_b-latch-0000000002", "_c_a-latch-2147483647"]
        );
        assert_eq!(queue.unknown, None);
    }

    #[test]
    fn urls_are_checked_with_a_reason() {
        let parse = |text: &str| ZooKeeper::new(Url::parse(text).unwrap()).map(|_| ());
        assert_eq!(parse("zookeeper://me:secret@a:1,b/some/folder?recipe=kazoo&acl=open"), Ok(()));
        for (text, reason) in [
            ("zookeeper://a?recipe=x", "recipe: `x`"),
            ("zookeeper://a?acl=creator", "creator with a user"),
            ("zookeeper://a?tls=maybe", "tls: `maybe`"),
            ("zookeeper://a?cacert=x", "need tls=true"),
            ("zookeeper://a?tls=true&cert=x", "belong together"),
            ("zookeeper://a/x//y", "part ``"),
            ("zookeeper://a/x?nonsense=1", "nonsense"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let root = ZooKeeper::new(Url::parse("zookeeper://a").unwrap()).unwrap();
        assert_eq!(root.folder("x"), "/x");
        for name in ["zookeeper", "a/b", "..", "a\nb"] {
            assert!(root.check_name(name).is_err(), "{name:?}");
        }
        assert_eq!(root.check_name("reports"), Ok(()));
    }
}
