//! The life of candidates on a simulated engine: a server with its own clock, requests and replies that are late or lost.
//! Time is that of a paused tokio runtime: a seed gives one run.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::*;
use crate::recipe::Pending;

const TTL: Duration = Duration::from_secs(3);
/// A large bound, so that a recipe that ignores it is found soon.
const DRIFT: f64 = 0.05;

/// The clock of the machine. All candidates of a test are on one machine, and the server is on another.
struct TestClock(Instant);

impl Clock for TestClock {
    fn now(&self) -> Moment {
        self.0.elapsed()
    }
}

/// Random numbers: splitmix64.
#[derive(Clone)]
struct Random(Arc<Mutex<u64>>);

impl Random {
    fn new(seed: u64) -> Random {
        Random(Arc::new(Mutex::new(seed)))
    }

    fn below(&self, limit: u64) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn one_in(&self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

/// A deliberate bug of a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// The lease counts from the reply.
    CountsFromReply,
    /// The drift of clocks is ignored.
    IgnoresDrift,
}

/// A failure of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Cut {
    #[default]
    Nobody,
    /// The candidates of one machine: ids from this one to 99 more.
    From(u64),
    Everybody,
}

/// A server that grants one lease at a time. Its clock runs faster than the candidates' by the whole drift bound.
#[derive(Default)]
struct Server {
    holder: Option<(u64, Duration)>,
    token: u64,
    /// The candidates whose requests do not arrive.
    cut: Cut,
}

struct World {
    clock: Arc<TestClock>,
    random: Random,
    server: Mutex<Server>,
    bug: Option<Bug>,
    /// Whether requests and replies are late and lost.
    faulty: bool,
    /// Calls of `withdraw`, by candidate.
    withdrawals: Mutex<BTreeMap<u64, u32>>,
}

impl World {
    fn new(seed: u64, bug: Option<Bug>, faulty: bool) -> Arc<World> {
        Arc::new(World {
            clock: Arc::new(TestClock(Instant::now())),
            random: Random::new(seed),
            server: Mutex::default(),
            bug,
            faulty,
            withdrawals: Mutex::default(),
        })
    }

    fn server_now(&self) -> Duration {
        self.clock.now().mul_f64(1.0 / (1.0 - DRIFT))
    }

    /// A request: late, then handled, then the reply is late. Any of it may be lost.
    async fn request<T>(&self, id: u64, handle: impl FnOnce(&mut Server, Duration) -> T) -> Result<T, Error> {
        let unavailable = |reason: &str| Error::Unavailable { engine: "test", reason: reason.to_string() };
        if self.faulty {
            sleep(Duration::from_millis(self.random.below(40))).await;
            if self.random.one_in(10) {
                sleep(TTL / 3).await;
                return Err(unavailable("the request was lost"));
            }
        }
        let now = self.server_now();
        let handled = {
            let mut server = self.server.lock().unwrap();
            if server.cut == Cut::Everybody || server.cut == Cut::From(id / 100 * 100) {
                return Err(unavailable("the network is cut"));
            }
            if server.holder.is_some_and(|(_, until)| until <= now) {
                server.holder = None;
            }
            handle(&mut server, now)
        };
        if self.faulty {
            // A paused process reads the reply much later.
            let late = if self.random.one_in(8) { 3_500 } else { 40 };
            sleep(Duration::from_millis(self.random.below(late))).await;
            if self.random.one_in(10) {
                return Err(unavailable("the reply was lost"));
            }
        }
        Ok(handled)
    }
}

struct TestCandidate {
    /// Whether the engine tells now that the candidate must not lead any more.
    told: Arc<watch::Sender<bool>>,
    id: u64,
    world: Arc<World>,
    wish: Wish,
}

impl TestCandidate {
    async fn ask(&self) -> Result<Option<Grant>, Error> {
        let sent = self.wish.now();
        let id = self.id;
        let token = self.world.request(id, |server, now| {
            match server.holder {
                Some((holder, _)) if holder != id => return None,
                Some(_) => {}
                None => server.token += 1,
            }
            server.holder = Some((id, now + TTL));
            Some(server.token)
        });
        let token = token.await?;
        let valid_until = match self.world.bug {
            None => self.wish.end_of_lease(sent, TTL),
            Some(Bug::CountsFromReply) => self.wish.end_of_lease(self.wish.now(), TTL),
            Some(Bug::IgnoresDrift) => sent + TTL,
        };
        Ok(token.map(|token| Grant { token, valid_until }))
    }
}

impl Candidate for TestCandidate {
    fn campaign(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(async {
            loop {
                match self.ask().await? {
                    Some(grant) => return Ok(grant),
                    None => sleep(Duration::from_millis(20)).await,
                }
            }
        })
    }

    fn renew(&mut self) -> Pending<'_, Result<Grant, Error>> {
        Box::pin(async {
            let gone = Error::Ended { engine: "test", reason: "another leads".to_string() };
            self.ask().await?.ok_or(gone)
        })
    }

    fn ended(&mut self) -> Pending<'_, Error> {
        Box::pin(async {
            _ = self.told.subscribe().wait_for(|told| *told).await;
            Error::Ended { engine: "test", reason: "another is preferred".to_string() }
        })
    }

    fn withdraw(&mut self) -> Pending<'_, Result<(), Error>> {
        Box::pin(async {
            *self.world.withdrawals.lock().unwrap().entry(self.id).or_default() += 1;
            let id = self.id;
            let release = |server: &mut Server, _| {
                server.holder = server.holder.filter(|&(holder, _)| holder != id);
            };
            self.world.request(id, release).await
        })
    }
}

fn start(world: &Arc<World>, id: u64) -> Campaign {
    start_told(world, id, &Arc::default())
}

/// A candidate that the engine tells to give up.
fn start_told(world: &Arc<World>, id: u64, told: &Arc<watch::Sender<bool>>) -> Campaign {
    let clock: Arc<dyn Clock> = Arc::<TestClock>::clone(&world.clock);
    let wish = Wish { name: "x".into(), identity: "me".into(), ttl: TTL, drift: DRIFT, clock };
    let candidate =
        TestCandidate { told: Arc::clone(told), id, world: Arc::clone(world), wish: wish.clone() };
    Campaign::start(Box::new(candidate), wish, &Tasks::new())
}

/// Five candidates lead and resign for a while, each with pauses. Returns the first two that are valid at one moment, or the
/// first token that does not grow.
async fn storm(seed: u64, bug: Option<Bug>) -> Result<u64, String> {
    let world = World::new(seed, bug, true);
    // The valid leaderships, which a monitor compares.
    let valid = Arc::new(Mutex::new(BTreeMap::<u64, (u64, Arc<Lease>)>::new()));
    let mut tasks = JoinSet::new();
    for number in 0..5u64 {
        let (world, valid) = (Arc::clone(&world), Arc::clone(&valid));
        tasks.spawn(async move {
            for round in 0..4 {
                let id = number * 100 + round;
                let campaign = start(&world, id);
                let patience = Duration::from_secs(1 + world.random.below(60));
                let Ok(won) = timeout(patience, campaign.won(TTL / 10)).await else { continue };
                let leadership = won.expect("only transient errors");
                valid.lock().unwrap().insert(id, (leadership.token(), Arc::clone(&leadership.lease)));
                let work = Duration::from_millis(world.random.below(12_000));
                // Some stop when they are told, and others only when the lease is over.
                let obeys = world.random.one_in(2);
                tokio::select! {
                    () = sleep(work) => {}
                    () = leadership.lost(), if obeys => {}
                    () = expired(&leadership.lease) => {}
                }
                if world.random.one_in(2) {
                    leadership.resign().await;
                }
            }
        });
    }
    let outages = {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_millis(world.random.below(20_000))).await;
                let one = Cut::From(world.random.below(5) * 100);
                world.server.lock().unwrap().cut = if world.random.one_in(4) { Cut::Everybody } else { one };
                sleep(Duration::from_millis(world.random.below(6_000))).await;
                world.server.lock().unwrap().cut = Cut::Nobody;
            }
        })
    };
    let monitor = async {
        let mut greatest = (0, 0);
        loop {
            let now: Vec<(u64, u64)> = valid
                .lock()
                .unwrap()
                .iter()
                .filter(|(_, (_, lease))| !lease.left().is_zero())
                .map(|(&id, &(token, _))| (token, id))
                .collect();
            if now.len() > 1 {
                return format!("seed {seed}: {now:?} are valid at one moment");
            }
            if let Some(&(token, id)) = now.first() {
                if token < greatest.0 || token == greatest.0 && id != greatest.1 {
                    return format!("seed {seed}: token {token} of {id} after {greatest:?}");
                }
                greatest = (token, id);
            }
            sleep(Duration::from_millis(4)).await;
        }
    };
    let all = async {
        while let Some(done) = tasks.join_next().await {
            done.expect("no panic");
        }
    };
    let ended = tokio::select! {
        biased;
        violation = monitor => Err(violation),
        () = all => Ok(world.server.lock().unwrap().token),
    };
    outages.abort();
    ended
}

fn run(seed: u64, bug: Option<Bug>) -> Result<u64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(storm(seed, bug))
}

#[test]
fn leaderships_never_overlap_and_tokens_grow() {
    let leaders: u64 =
        (0..100).map(|seed| run(seed, None).unwrap_or_else(|violation| panic!("{violation}"))).sum();
    assert!(leaders > 300, "the storm elects: {leaders}");
    assert_eq!(run(7, None), run(7, None), "a seed gives one run");
}

#[test]
fn the_storm_finds_recipes_that_count_wrongly() {
    for bug in [Bug::CountsFromReply, Bug::IgnoresDrift] {
        assert!((0..100).any(|seed| run(seed, Some(bug)).is_err()), "{bug:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leadership_ends_by_the_clock_and_its_notice_comes_a_margin_before() {
    let world = World::new(1, None, false);
    let leadership = start(&world, 1).won(TTL / 10).await.unwrap();
    sleep(TTL * 3).await;
    assert!(leadership.is_valid(), "it is renewed");
    world.server.lock().unwrap().cut = Cut::Everybody;
    leadership.lost().await;
    let left = leadership.valid_for();
    assert!(left > Duration::ZERO && left <= TTL / 10, "{left:?}");
    assert_eq!(leadership.loss(), None);
    sleep(left).await;
    assert!(!leadership.is_valid());
    assert_eq!(leadership.loss(), Some(Loss::Expired));
    // The engine is back, and the leadership is not.
    world.server.lock().unwrap().cut = Cut::Nobody;
    sleep(TTL).await;
    assert!(!leadership.is_valid());
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_withdraws() {
    let world = World::new(1, None, false);
    let leader = start(&world, 1).won(TTL / 10).await.unwrap();
    let waiting = start(&world, 2);
    assert!(timeout(TTL, waiting.won(TTL / 10)).await.is_err());
    sleep(Duration::from_millis(1)).await;
    assert_eq!(world.withdrawals.lock().unwrap().get(&2), Some(&1), "the future was dropped");
    // The engine does not hear of the resignation at once, and the leadership has ended all the same.
    world.server.lock().unwrap().cut = Cut::Everybody;
    let lease = Arc::clone(&leader.lease);
    drop(leader);
    assert!(lease.left().is_zero());
    sleep(TTL / 2).await;
    world.server.lock().unwrap().cut = Cut::Nobody;
    let next = timeout(TTL / 2, start(&world, 3).won(TTL / 10)).await.expect("it was withdrawn").unwrap();
    assert_eq!(next.token(), 2);
    next.resign().await;
    assert_eq!(world.server.lock().unwrap().holder, None, "`resign` waits for the engine");
}

#[tokio::test(start_paused = true)]
async fn a_late_renewal_does_not_revive() {
    let world = World::new(1, None, false);
    let lease = Lease::new(Arc::<TestClock>::clone(&world.clock), Grant { token: 1, valid_until: TTL });
    sleep(TTL).await;
    assert!(!lease.extend(Grant { token: 1, valid_until: TTL * 2 }));
    assert!(lease.left().is_zero());
    lease.end(Loss::Expired);
    assert!(!lease.extend(Grant { token: 1, valid_until: TTL * 9 }));
}

/// The engine tells a leader to give up, and the entry is still there: nobody else leads while its work stops.
#[tokio::test(start_paused = true)]
async fn an_entry_is_withdrawn_when_the_work_has_stopped() {
    for stops in [true, false] {
        let world = World::new(1, None, false);
        let told = Arc::new(watch::Sender::new(false));
        let leader = start_told(&world, 1, &told).won(TTL / 10).await.unwrap();
        told.send_replace(true);
        leader.lost().await;
        assert!(!leader.is_valid() && matches!(leader.loss(), Some(Loss::Ended(_))));
        sleep(TTL / 4).await;
        assert!(world.server.lock().unwrap().holder.is_some(), "the work may not have stopped");
        let start = Instant::now();
        let kept = if stops {
            drop(leader);
            None
        } else {
            Some(leader)
        };
        while world.withdrawals.lock().unwrap().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        // At once, or when the lease would have ended.
        assert_eq!(start.elapsed() < TTL / 10, stops);
        drop(kept);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_renewal_costs_no_lease_that_is_valid() {
    struct Refused(TestCandidate);
    impl Candidate for Refused {
        fn campaign(&mut self) -> Pending<'_, Result<Grant, Error>> {
            self.0.campaign()
        }
        fn renew(&mut self) -> Pending<'_, Result<Grant, Error>> {
            Box::pin(async { Err(Error::Refused { engine: "test", reason: "no permission".to_string() }) })
        }
        fn ended(&mut self) -> Pending<'_, Error> {
            Box::pin(never())
        }
        fn withdraw(&mut self) -> Pending<'_, Result<(), Error>> {
            self.0.withdraw()
        }
    }
    let world = World::new(1, None, false);
    let clock: Arc<dyn Clock> = Arc::<TestClock>::clone(&world.clock);
    let wish = Wish { name: "x".into(), identity: "me".into(), ttl: TTL, drift: DRIFT, clock };
    let candidate =
        TestCandidate { told: Arc::default(), id: 1, world: Arc::clone(&world), wish: wish.clone() };
    let campaign = Campaign::start(Box::new(Refused(candidate)), wish, &Tasks::new());
    let leader = campaign.won(TTL / 10).await.unwrap();
    sleep(TTL * 4 / 5).await;
    assert!(leader.is_valid(), "{:?}", leader.loss());
    sleep(TTL / 5).await;
    assert_eq!((leader.is_valid(), leader.loss()), (false, Some(Loss::Expired)));
}
