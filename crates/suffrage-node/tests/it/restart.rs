//! A restart of a whole cluster: tokens keep increasing, and no node leads before old grants have expired.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, process};

use suffrage_algorithms::quorum_lease::{Options, QuorumLease};
use suffrage_core::{Algorithm, Announcement, Command, NodeId, Roster, Span, Term};
use suffrage_net::codec::Protocol;
use suffrage_net::transport::memory::Network;
use suffrage_node::Error;
use suffrage_node::clock::{Clock, TokioClock};
use suffrage_node::driver::{self, Handle, Settings};
use suffrage_node::storage::DataFolder;
use tokio::time::{Instant, sleep};

const MEMBERS: u64 = 3;
const DELAY_BOUND: Span = Span::from_millis(10);

fn folder(id: u64) -> PathBuf {
    env::temp_dir().join(format!("suffrage-restart-{}", process::id())).join(id.to_string())
}

type Member = (Handle<QuorumLease>, DataFolder);

fn start(network: &Network, clock: TokioClock, id: u64, path: &Path) -> Result<Member, Error> {
    let me = NodeId(id);
    let data = DataFolder::open_or_create(path, me)?;
    let settings = Settings {
        roster: Roster::numbered(MEMBERS as usize),
        delay_bound: DELAY_BOUND,
        protocol: Protocol::named("quorum-lease"),
        seed: Some(id),
    };
    let process = QuorumLease::new(me, &Options::default());
    let handle = driver::spawn(process, network.join(me), clock, data.file("quorum-lease"), settings)?;
    Ok((handle, data))
}

/// Starts all nodes, waits for a leader, and aborts all. Returns the leader's term and the duration of the election.
async fn period(network: &Network, clock: TokioClock) -> (Term, Duration) {
    let began = Instant::now();
    let members: Vec<Member> =
        (1..=MEMBERS).map(|id| start(network, clock, id, &folder(id)).unwrap()).collect();
    for (member, _) in &members {
        member.command(Command::Campaign).await.unwrap();
    }
    let term = loop {
        let leads = |member: &&Member| member.0.belief().leads(member.0.me(), clock.now());
        if let Some((leader, _)) = members.iter().find(leads)
            && let Announcement::Elected { term, .. } = leader.belief().announcement
        {
            break term;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nobody leads");
        sleep(Duration::from_millis(1)).await;
    };
    for (member, _) in members {
        member.stop().await.unwrap();
    }
    (term, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn tokens_increase_over_restarts_and_the_silence_is_kept() {
    let network = Network::new(1);
    let clock = TokioClock::new();
    let (mut last, first_took) = period(&network, clock).await;
    let ttl = Duration::from_nanos((DELAY_BOUND * Options::default().ttl).as_nanos());
    assert!(first_took < ttl, "nothing is to be waited for at first: {first_took:?}");
    for _ in 0..3 {
        let (term, took) = period(&network, clock).await;
        assert!(term > last, "{term} after {last}");
        assert!(took >= ttl, "a lease of {ttl:?} may have been believed in, and one leads after {took:?}");
        last = term;
    }
    // A damaged state is an error, never "no state".
    let state = folder(1).join("quorum-lease.state");
    let content = fs::read(&state).unwrap();
    fs::write(&state, &content[..content.len() - 1]).unwrap();
    let error = start(&network, clock, 1, &folder(1)).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    fs::write(&state, content).unwrap();
    assert!(period(&network, clock).await.0 > last, "restored, it goes on");
    fs::remove_dir_all(folder(1).parent().unwrap()).unwrap();
}
