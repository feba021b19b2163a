//! One watch of an engine for all elections of this program.
//!
//! An engine of HTTP/1.1 needs a connection for every watch. A [`Follower`] opens one: of a single entry while only one
//! election is interested, and of all entries of the folder or namespace as soon as there are two.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::Error;
use crate::recipe::Pending;

/// How long a watch goes on after nobody is interested any more: the next candidate comes soon.
const LINGER: Duration = Duration::from_secs(5);
/// The pauses after a watch has failed.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The entry of one election.
    One(Arc<str>),
    /// The entries of all elections of the folder or namespace.
    All,
}

impl Scope {
    fn covers(&self, name: &Arc<str>) -> bool {
        match self {
            Scope::One(one) => one == name,
            Scope::All => true,
        }
    }
}

/// An engine that can be watched.
pub(crate) trait Source: Send + Sync + 'static {
    /// What the engine stores for an election.
    type Entry: Clone + Send + Sync + 'static;

    /// Publishes the entries of the scope, and then every change, until the watch fails.
    fn follow<'a>(&'a self, scope: &'a Scope, feed: &'a Feed<Self::Entry>) -> Pending<'a, Error>;
}

/// What is known of the entry of an election.
#[derive(Clone, Debug)]
pub(crate) enum State<E> {
    /// Nothing yet.
    Unknown,
    /// The entry, or that there is none, as of this version of the engine.
    Known(Option<E>, u64),
    /// The watch has failed, and is tried again.
    Failed(Error),
}

struct Topic<E> {
    state: watch::Sender<State<E>>,
    subscriptions: usize,
}

struct Book<E> {
    topics: BTreeMap<Arc<str>, Topic<E>>,
    /// All entries of the scope that is watched, as of this version.
    watched: Option<(Scope, BTreeMap<Arc<str>, E>, u64)>,
    runner: Option<JoinHandle<()>>,
}

/// Where a watch publishes to.
pub(crate) struct Feed<E> {
    book: Mutex<Book<E>>,
    /// Counts subscriptions that came and went.
    interest: watch::Sender<u64>,
    /// Counts complaints that the watch may be dead.
    doubts: watch::Sender<u64>,
}

impl<E: Clone> Feed<E> {
    fn book(&self) -> MutexGuard<'_, Book<E>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes all entries of the scope.
    pub(crate) fn replace(&self, scope: &Scope, entries: BTreeMap<Arc<str>, E>, version: u64) {
        let mut book = self.book();
        for (name, topic) in &book.topics {
            if scope.covers(name) {
                topic.state.send_replace(State::Known(entries.get(name).cloned(), version));
            }
        }
        book.watched = Some((scope.clone(), entries, version));
    }

    /// Publishes the change of one entry, or its end.
    pub(crate) fn set(&self, name: &str, entry: Option<E>, version: u64) {
        let mut book = self.book();
        if let Some((_, entries, known)) = &mut book.watched {
            *known = version;
            match entry.clone() {
                Some(entry) => drop(entries.insert(name.into(), entry)),
                None => drop(entries.remove(name)),
            }
        }
        if let Some(topic) = book.topics.get(name) {
            topic.state.send_replace(State::Known(entry, version));
        }
    }

    fn fail(&self, error: &Error) {
        let mut book = self.book();
        book.watched = None;
        for topic in book.topics.values() {
            topic.state.send_replace(State::Failed(error.clone()));
        }
    }

    /// What must be watched. None if nobody is interested: the runner then ends.
    fn wanted(&self) -> Option<Scope> {
        let mut book = self.book();
        let mut names = book.topics.keys();
        match (names.next(), names.next()) {
            (None, _) => {
                (book.runner, book.watched) = (None, None);
                None
            }
            (Some(name), None) => Some(Scope::One(Arc::clone(name))),
            (Some(_), Some(_)) => Some(Scope::All),
        }
    }

    /// Waits until the scope does not suffice any more, or until nobody has been interested for a while.
    async fn outgrown(&self, scope: &Scope) {
        let mut interest = self.interest.subscribe();
        loop {
            if let Scope::One(name) = scope
                && self.book().topics.keys().any(|other| other != name)
            {
                return;
            }
            let changed = timeout(LINGER, interest.changed()).await;
            if changed.is_err() && self.book().topics.is_empty() {
                return;
            }
        }
    }
}

/// Shares one watch among all who are interested. Clones are the same follower.
pub(crate) struct Follower<S: Source> {
    source: Arc<S>,
    feed: Arc<Feed<S::Entry>>,
}

impl<S: Source> Clone for Follower<S> {
    fn clone(&self) -> Self {
        Follower { source: Arc::clone(&self.source), feed: Arc::clone(&self.feed) }
    }
}

impl<S: Source> Follower<S> {
    pub(crate) fn new(source: Arc<S>) -> Follower<S> {
        let book = Book { topics: BTreeMap::new(), watched: None, runner: None };
        let (interest, doubts) = (watch::Sender::new(0), watch::Sender::new(0));
        Follower { source, feed: Arc::new(Feed { book: Mutex::new(book), interest, doubts }) }
    }

    /// Follows the entry of an election, as long as the value lives.
    pub(crate) fn subscribe(&self, name: &Arc<str>) -> Subscription<S::Entry> {
        let mut book = self.feed.book();
        let state = match &book.watched {
            Some((scope, entries, version)) if scope.covers(name) => {
                State::Known(entries.get(name).cloned(), *version)
            }
            _ => State::Unknown,
        };
        let topic = book.topics.entry(Arc::clone(name));
        let topic = topic.or_insert_with(|| Topic { state: watch::Sender::new(state), subscriptions: 0 });
        topic.subscriptions += 1;
        let state = topic.state.subscribe();
        // A runner whose runtime was shut down is replaced.
        if book.runner.as_ref().is_none_or(JoinHandle::is_finished) {
            book.runner = Some(crate::tasks::spawn(run(Arc::clone(&self.source), Arc::clone(&self.feed))));
        }
        drop(book);
        self.feed.interest.send_modify(|count| *count += 1);
        Subscription { state, name: Arc::clone(name), feed: Arc::clone(&self.feed) }
    }

    /// Opens the watch anew: a request has failed, so that the connection of the watch may be dead as well.
    pub(crate) fn doubt(&self) {
        self.feed.doubts.send_modify(|count| *count += 1);
    }
}

async fn run<S: Source>(source: Arc<S>, feed: Arc<Feed<S::Entry>>) {
    let mut pause = FIRST_PAUSE;
    let mut doubts = feed.doubts.subscribe();
    while let Some(scope) = feed.wanted() {
        doubts.mark_unchanged();
        let start = tokio::time::Instant::now();
        let error = tokio::select! {
            error = source.follow(&scope, &feed) => error,
            () = feed.outgrown(&scope) => {
                pause = FIRST_PAUSE;
                continue;
            }
            _ = doubts.changed() => {
                // Many candidates may doubt at once: an overloaded server must not be asked for more and more.
                pause = if start.elapsed() > LINGER { FIRST_PAUSE } else { (pause * 2).min(LAST_PAUSE) };
                sleep(pause).await;
                continue;
            }
        };
        feed.fail(&error);
        if start.elapsed() > LINGER {
            pause = FIRST_PAUSE;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// The entry of one election, as the watch sees it.
pub(crate) struct Subscription<E: Clone> {
    state: watch::Receiver<State<E>>,
    name: Arc<str>,
    feed: Arc<Feed<E>>,
}

impl<E: Clone> Subscription<E> {
    pub(crate) fn state(&mut self) -> State<E> {
        self.state.borrow_and_update().clone()
    }

    /// Waits until the state has changed since it was read last.
    pub(crate) async fn changed(&mut self) {
        // The sender lives as long as the subscription.
        _ = self.state.changed().await;
    }
}

impl<E: Clone> Drop for Subscription<E> {
    fn drop(&mut self) {
        let mut book = self.feed.book();
        if let Some(topic) = book.topics.get_mut(&self.name) {
            topic.subscriptions -= 1;
            if topic.subscriptions == 0 {
                book.topics.remove(&self.name);
            }
        }
        drop(book);
        self.feed.interest.send_modify(|count| *count += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine whose entries are numbers. Records the scopes that were watched.
    #[derive(Default)]
    struct Numbers {
        entries: Mutex<BTreeMap<Arc<str>, u64>>,
        changed: watch::Sender<u64>,
        scopes: Mutex<Vec<Scope>>,
        broken: Mutex<bool>,
    }

    impl Numbers {
        fn put(&self, name: &str, value: u64) {
            self.entries.lock().unwrap().insert(name.into(), value);
            self.changed.send_modify(|version| *version += 1);
        }
    }

    impl Source for Numbers {
        type Entry = u64;

        fn follow<'a>(&'a self, scope: &'a Scope, feed: &'a Feed<u64>) -> Pending<'a, Error> {
            Box::pin(async move {
                self.scopes.lock().unwrap().push(scope.clone());
                let mut changed = self.changed.subscribe();
                loop {
                    if *self.broken.lock().unwrap() {
                        return Error::Unavailable { engine: "test", reason: "broken".to_string() };
                    }
                    let version = *changed.borrow_and_update();
                    let mut entries = self.entries.lock().unwrap().clone();
                    entries.retain(|name, _| scope.covers(name));
                    feed.replace(scope, entries, version);
                    _ = changed.changed().await;
                }
            })
        }
    }

    async fn entry(subscription: &mut Subscription<u64>, expected: Option<u64>) {
        let wait = async {
            while !matches!(subscription.state(), State::Known(entry, _) if entry == expected) {
                subscription.changed().await;
            }
        };
        timeout(Duration::from_secs(600), wait).await.expect("the entry is published");
    }

    #[tokio::test(start_paused = true)]
    async fn one_watch_serves_one_election_and_then_all() {
        let source = Arc::new(Numbers::default());
        let follower = Follower::new(Arc::clone(&source));
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let mut first = follower.subscribe(&a);
        entry(&mut first, None).await;
        source.put("a", 1);
        entry(&mut first, Some(1)).await;
        let mut again = follower.subscribe(&a);
        entry(&mut again, Some(1)).await;
        let mut other = follower.subscribe(&b);
        source.put("b", 2);
        entry(&mut other, Some(2)).await;
        source.put("a", 3);
        entry(&mut first, Some(3)).await;
        assert_eq!(*source.scopes.lock().unwrap(), [Scope::One(Arc::clone(&a)), Scope::All]);
    }

    /// The watch lingers without a subscription: the next one must not wait for a change that has happened meanwhile.
    #[tokio::test(start_paused = true)]
    async fn a_subscription_after_a_pause_knows_what_has_changed_meanwhile() {
        let source = Arc::new(Numbers::default());
        let follower = Follower::new(Arc::clone(&source));
        let name: Arc<str> = "a".into();
        let mut first = follower.subscribe(&name);
        entry(&mut first, None).await;
        drop(first);
        source.put("a", 1);
        sleep(LINGER / 2).await;
        entry(&mut follower.subscribe(&name), Some(1)).await;
        assert_eq!(source.scopes.lock().unwrap().len(), 1, "the watch goes on");
        sleep(LINGER * 3).await;
        assert!(follower.feed.book().runner.is_none(), "the watch has ended");
        source.put("a", 2);
        entry(&mut follower.subscribe(&name), Some(2)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_watch_is_published_and_tried_again() {
        let source = Arc::new(Numbers::default());
        *source.broken.lock().unwrap() = true;
        let follower = Follower::new(Arc::clone(&source));
        let mut subscription = follower.subscribe(&"a".into());
        while !matches!(subscription.state(), State::Failed(_)) {
            subscription.changed().await;
        }
        *source.broken.lock().unwrap() = false;
        source.put("a", 1);
        entry(&mut subscription, Some(1)).await;
        let before = source.scopes.lock().unwrap().len();
        follower.doubt();
        sleep(Duration::from_secs(3)).await;
        assert_eq!(source.scopes.lock().unwrap().len(), before + 1, "a doubt opens the watch anew");
    }
}
