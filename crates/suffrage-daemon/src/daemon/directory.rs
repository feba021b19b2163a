//! The elections that a node knows, in the order of their names, for pages of a long list.
//!
//! ```text
//!   node ──list, at most every second──▶ Listing (sorted by a blocking thread) ──names of one page──▶ node ──status──▶ client
//! ```
//!
//! A list of 100,000 elections takes the node some milliseconds, and its status much longer. So the names are listed
//! rarely, whatever the number of clients, and only the elections of a page are looked up. The listing is dropped when
//! nobody has asked for a while.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use suffrage_core::NodeId;
use tokio::time::Instant;

use suffrage_node::Error;
use suffrage_node::lease::{KnownElection, ListedElection, Node};

/// The age from which a listing is made anew.
const FRESH: Duration = Duration::from_secs(1);
/// A listing is kept for this multiple of the time that it took: listings take 2% of the time at most.
const COST: u32 = 50;
/// The time without a request after which the listing is dropped.
const LINGER: Duration = Duration::from_secs(30);
/// The most elections of one page.
pub(super) const MOST_OF_PAGE: usize = 500;

/// A part of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PageRequest {
    /// The names that contain this text, in any case of ASCII letters.
    pub(super) search: String,
    /// The elections of this leader, or without a leader.
    pub(super) leader: Option<Option<NodeId>>,
    /// The number of matching elections before the first of the page.
    pub(super) from: usize,
    /// The number of elections of the page.
    pub(super) limit: usize,
}

/// A page of the list.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) elections: Vec<KnownElection>,
    /// The number of elections that match.
    pub(super) matching: usize,
    /// The number of all elections.
    pub(super) total: usize,
    /// The number of elections by leader.
    pub(super) leaders: Arc<BTreeMap<Option<NodeId>, usize>>,
}

/// The elections of a node, by name.
#[derive(Clone)]
pub(super) struct Directory {
    node: Node,
    latest: Arc<Mutex<Option<Arc<Listing>>>>,
    /// One listing is made at a time.
    making: Arc<tokio::sync::Mutex<()>>,
    /// One search runs at a time, also of clients that no longer wait: the node's saves use the same threads.
    searching: Arc<tokio::sync::Semaphore>,
}

struct Listing {
    /// In the order of names. Elections whose name is unknown come last.
    elections: Vec<ListedElection>,
    leaders: Arc<BTreeMap<Option<NodeId>, usize>>,
    /// The time until which the listing is used.
    fresh_until: Instant,
}

impl Directory {
    pub(super) fn new(node: Node) -> Directory {
        let searching = Arc::new(tokio::sync::Semaphore::new(1));
        Directory { node, latest: Arc::default(), making: Arc::default(), searching }
    }

    /// A page of the list.
    pub(super) async fn page(&self, request: PageRequest) -> Result<Page, Error> {
        let listing = self.listing().await?;
        let (total, leaders) = (listing.elections.len(), Arc::clone(&listing.leaders));
        let permit = Arc::clone(&self.searching).acquire_owned().await.map_err(|_| Error::Stopped)?;
        let (names, matching) = blocking(move || {
            let _permit = permit;
            listing.select(&request)
        })
        .await?;
        let elections = self.node.known(names).await?;
        Ok(Page { elections, matching, total, leaders })
    }

    async fn listing(&self) -> Result<Arc<Listing>, Error> {
        if let Some(listing) = self.fresh() {
            return Ok(listing);
        }
        let _making = self.making.lock().await;
        // Another request may have made it meanwhile.
        if let Some(listing) = self.fresh() {
            return Ok(listing);
        }
        let began = Instant::now();
        let elections = self.node.list().await?;
        let took = began.elapsed();
        let listing = blocking(move || Listing::new(elections)).await?;
        let fresh_until = Instant::now() + FRESH.max(took * COST);
        let listing = Arc::new(Listing { fresh_until, ..listing });
        *lock(&self.latest) = Some(Arc::clone(&listing));
        let (latest, made) = (Arc::downgrade(&self.latest), Arc::downgrade(&listing));
        suffrage_node::spawn(async move {
            tokio::time::sleep_until(fresh_until + LINGER).await;
            let Some(latest) = latest.upgrade() else { return };
            let mut latest = lock(&latest);
            if latest.as_ref().is_some_and(|latest| std::ptr::eq(Arc::as_ptr(latest), made.as_ptr())) {
                *latest = None;
            }
        });
        Ok(listing)
    }

    fn fresh(&self) -> Option<Arc<Listing>> {
        lock(&self.latest).as_ref().filter(|listing| Instant::now() < listing.fresh_until).cloned()
    }
}

impl Listing {
    fn new(mut elections: Vec<ListedElection>) -> Listing {
        elections.retain(|election| election.name.as_deref() != Some(super::PROBE_ELECTION));
        elections.sort_unstable_by(|a, b| {
            (a.name.is_none(), &a.name, a.hash).cmp(&(b.name.is_none(), &b.name, b.hash))
        });
        let mut leaders = BTreeMap::new();
        for election in &elections {
            *leaders.entry(election.leader).or_default() += 1;
        }
        Listing { elections, leaders: Arc::new(leaders), fresh_until: Instant::now() }
    }

    /// The names of a page, and the number of elections that match.
    fn select(&self, request: &PageRequest) -> (Vec<suffrage_node::lease::Name>, usize) {
        let limit = request.limit.min(MOST_OF_PAGE);
        if request.search.is_empty() && request.leader.is_none() {
            let page = self.elections.iter().skip(request.from).take(limit);
            return (page.map(|election| election.hash).collect(), self.elections.len());
        }
        let text = request.search.to_ascii_lowercase();
        let matches = |election: &&ListedElection| {
            request.leader.is_none_or(|leader| election.leader == leader)
                && match &election.name {
                    Some(name) => contains(name, &text),
                    None => election.hash.to_string().contains(&text),
                }
        };
        let (mut page, mut matching) = (Vec::new(), 0);
        for election in self.elections.iter().filter(matches) {
            if matching >= request.from && page.len() < limit {
                page.push(election.hash);
            }
            matching += 1;
        }
        (page, matching)
    }
}

/// Whether a text contains a lower-case text, in any case of ASCII letters.
fn contains(text: &str, wanted: &str) -> bool {
    let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
    wanted.is_empty() || text.windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(wanted))
}

/// Runs a function of some milliseconds in another thread: the node runs in this one.
async fn blocking<R: Send + 'static>(run: impl FnOnce() -> R + Send + 'static) -> Result<R, Error> {
    // The runtime drops blocking tasks only when it stops.
    tokio::task::spawn_blocking(run).await.map_err(|_| Error::Stopped)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_lease::Saved;
    use suffrage_net::transport::memory::Network;
    use suffrage_node::clock::TokioClock;
    use suffrage_node::lease::{CandidateConfig, Participation, Settings};
    use suffrage_node::storage::MemoryDisk;

    /// The only voter of a cluster, in virtual time.
    fn node() -> Node {
        let (transport, disk) = (Network::new(1).join(NodeId(1)), MemoryDisk::<Saved>::default());
        Node::start(transport, TokioClock::new(), disk, Settings::new([NodeId(1)])).unwrap()
    }

    async fn lead(node: &Node, name: &str) -> Participation {
        let leader = node.join(name, CandidateConfig::default()).await.unwrap();
        leader.campaign();
        leader.belief().wait_for(|belief| belief.held.is_some()).await.unwrap();
        leader
    }

    fn request(search: &str, from: usize, limit: usize) -> PageRequest {
        PageRequest { search: search.to_string(), leader: None, from, limit }
    }

    fn names(page: &Page) -> Vec<&str> {
        let name = |election: &KnownElection| match election {
            KnownElection::Joined(status) => status.name.clone(),
            KnownElection::Granted(granted) => granted.name.clone().unwrap(),
        };
        let names: Vec<String> = page.elections.iter().map(name).collect();
        names.into_iter().map(|name| &*name.leak()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn pages_are_in_the_order_of_names_and_of_a_bounded_length() {
        let (node, mut held) = (node(), Vec::new());
        for number in (0..600).rev() {
            held.push(node.observe(&format!("jobs/{number:03}")).await.unwrap());
        }
        held.push(lead(&node, "Reports").await);
        held.push(node.observe(super::super::PROBE_ELECTION).await.unwrap());
        let directory = Directory::new(node);
        let page = directory.page(request("", 0, 2)).await.unwrap();
        assert_eq!((names(&page), page.matching, page.total), (vec!["Reports", "jobs/000"], 601, 601));
        assert_eq!(*page.leaders, BTreeMap::from([(None, 600), (Some(NodeId(1)), 1)]));
        let page = directory.page(request("", 599, 10)).await.unwrap();
        assert_eq!(names(&page), ["jobs/598", "jobs/599"]);
        let page = directory.page(request("", 0, usize::MAX)).await.unwrap();
        assert_eq!(page.elections.len(), MOST_OF_PAGE);
        assert_eq!(directory.page(request("", usize::MAX, 10)).await.unwrap().elections, []);
        let page = directory.page(request("JOBS/1", 98, 10)).await.unwrap();
        assert_eq!((names(&page), page.matching), (vec!["jobs/198", "jobs/199"], 100));
        let led = PageRequest { leader: Some(Some(NodeId(1))), ..request("report", 0, 10) };
        assert_eq!(names(&directory.page(led).await.unwrap()), ["Reports"]);
        let leaderless = PageRequest { leader: Some(None), ..request("report", 0, 10) };
        assert_eq!(directory.page(leaderless).await.unwrap().matching, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_listing_is_shared_and_dropped() {
        let node = node();
        let directory = Directory::new(node.clone());
        let _first = node.observe("first").await.unwrap();
        assert_eq!(directory.page(request("", 0, 10)).await.unwrap().total, 1);
        let _second = node.observe("second").await.unwrap();
        assert_eq!(directory.page(request("", 0, 10)).await.unwrap().total, 1, "no second listing at once");
        tokio::time::sleep(FRESH * 2).await;
        assert_eq!(directory.page(request("", 0, 10)).await.unwrap().total, 2);
        tokio::time::sleep(LINGER * 2).await;
        assert!(lock(&directory.latest).is_none(), "nobody asks");
    }
}
