//! The Lease of coordination.k8s.io/v1 as a record of an election: who may take it, and what is written.
//!
//! The rules are those of client-go's `leaderelection`. Three things differ from what it does itself:
//!
//! - client-go compares records with times cut to whole seconds. Two renewals of one second look like one to it, and it
//!   counts from the first: so does [`Stamps`].
//! - client-go cuts fractions of a second off the duration that it writes: [`decide`] waits a second longer for records of
//!   other clients.
//! - client-go keeps the annotations of a Lease that it takes: the [`Mark`] of a leader of ours is bound to the time at
//!   which that leader has acquired the Lease.

use std::time::{Duration, UNIX_EPOCH};

use super::wire::{Message, seal, unseal};
use crate::Moment;

/// The annotation that tells a leader of ours.
const MARK: &str = "suffrage-leadership";

/// The numbers of the fields of a Lease, of its metadata and of its spec.
const METADATA: u64 = 1;
const SPEC: u64 = 2;
const NAME: u64 = 1;
const NAMESPACE: u64 = 3;
const RESOURCE_VERSION: u64 = 6;
const ANNOTATIONS: u64 = 12;
const MANAGED_FIELDS: u64 = 17;
const HOLDER_IDENTITY: u64 = 1;
const LEASE_DURATION_SECONDS: u64 = 2;
const ACQUIRE_TIME: u64 = 3;
const RENEW_TIME: u64 = 4;
const LEASE_TRANSITIONS: u64 = 5;
const STRATEGY: u64 = 6;
const PREFERRED_HOLDER: u64 = 7;

/// A Lease as the server has stored it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    object: Message,
    metadata: Message,
    spec: Message,
    version: u64,
}

/// What only leaders of ours write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The random name of the candidate.
    pub(crate) candidate: String,
    /// The token, from the first renewal on.
    pub(crate) token: Option<u64>,
}

impl Lease {
    /// The Lease of an object. The versions of Kubernetes count the revisions of its etcd.
    pub(crate) fn new(object: Message) -> Result<Lease, String> {
        let (mut metadata, spec) = (object.message(METADATA), object.message(SPEC));
        let version = metadata.text(RESOURCE_VERSION).parse().ok();
        let version = version.ok_or("the object has no resourceVersion that is a number")?;
        // The server keeps them.
        metadata.remove(MANAGED_FIELDS);
        Ok(Lease { object, metadata, spec, version })
    }

    /// The Lease of a reply.
    pub(crate) fn of_reply(reply: &[u8]) -> Result<Lease, String> {
        Lease::new(unseal(reply).ok_or("the reply is no object of Kubernetes")?)
    }

    /// The resourceVersion.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn name(&self) -> &str {
        self.metadata.text(NAME)
    }

    /// The holder. Empty if the Lease was released.
    pub(crate) fn holder(&self) -> &str {
        self.spec.text(HOLDER_IDENTITY)
    }

    pub(crate) fn acquire_time(&self) -> Wall {
        Wall::of(&self.spec.message(ACQUIRE_TIME))
    }

    /// How long the record counts, if it says so.
    pub(crate) fn duration(&self) -> Option<Duration> {
        let seconds = self.spec.number(LEASE_DURATION_SECONDS);
        seconds.filter(|seconds| (1..1 << 31).contains(seconds)).map(Duration::from_secs)
    }

    fn transitions(&self) -> u64 {
        self.spec.number(LEASE_TRANSITIONS).unwrap_or(0)
    }

    /// The mark of the present holder, if that is a leader of ours.
    pub(crate) fn mark(&self) -> Option<Mark> {
        let annotation = self.metadata.messages(ANNOTATIONS).find(|entry| entry.text(1) == MARK)?;
        let mut words = annotation.text(2).splitn(4, ' ');
        let (candidate, acquired) = (words.next()?.to_string(), words.next()?.parse().ok()?);
        let (token, holder) = (words.next()?.parse().ok(), words.next()?);
        // Other clients and operators keep the annotation, and may keep the time as well.
        let ours = !holder.is_empty() && holder == self.holder() && Wall(acquired) == self.acquire_time();
        ours.then_some(Mark { candidate, token })
    }

    /// Whether the record was written by this candidate.
    pub(crate) fn is_of(&self, candidate: &str) -> bool {
        self.mark().is_some_and(|mark| mark.candidate == candidate)
    }

    /// Why its holder should give the Lease up, if the control plane wants so.
    pub(crate) fn reassigned(&self, identity: &str) -> Option<String> {
        let (preferred, strategy) = (self.spec.text(PREFERRED_HOLDER), self.spec.text(STRATEGY));
        if !preferred.is_empty() && preferred != identity {
            return Some(format!("the Lease has the preferred holder `{preferred}`"));
        }
        (!strategy.is_empty())
            .then(|| format!("the Lease has the strategy {strategy}: the control plane elects"))
    }

    /// The time since the last renewal by the clocks of the two machines, if it is longer than the duration.
    pub(crate) fn overdue(&self, now: Wall) -> Option<Duration> {
        let renewed = Wall::of(&self.spec.message(RENEW_TIME));
        let age = Duration::from_micros(now.0.checked_sub(renewed.0)?);
        (age > self.duration()?).then_some(age)
    }

    /// The bytes of the Lease with this spec and this mark.
    fn with(&self, spec: &Message, mark: Option<&str>) -> Vec<u8> {
        let (mut object, mut metadata) = (self.object.clone(), self.metadata.clone());
        metadata.set_entry(ANNOTATIONS, MARK, mark);
        object.set_message(METADATA, &metadata);
        object.set_message(SPEC, spec);
        seal("coordination.k8s.io/v1", "Lease", &object)
    }

    /// Acquires the Lease.
    pub(crate) fn acquisition(&self, candidate: &CandidateName<'_>, seconds: u64, now: Wall) -> Vec<u8> {
        let again = u64::from(!self.is_of(candidate.random) && self.version > 0);
        let mut spec = self.spec.clone();
        spec.set_text(HOLDER_IDENTITY, candidate.identity);
        spec.set_number(LEASE_DURATION_SECONDS, seconds);
        spec.set_message(ACQUIRE_TIME, &now.message());
        spec.set_message(RENEW_TIME, &now.message());
        spec.set_number(LEASE_TRANSITIONS, self.transitions() + again);
        self.with(&spec, Some(&format!("{} {} - {}", candidate.random, now.0, candidate.identity)))
    }

    /// Renews the Lease of its holder.
    pub(crate) fn renewal(&self, candidate: &CandidateName<'_>, token: u64, now: Wall) -> Vec<u8> {
        let mut spec = self.spec.clone();
        spec.set_message(RENEW_TIME, &now.message());
        let mark = format!("{} {} {token} {}", candidate.random, self.acquire_time().0, candidate.identity);
        self.with(&spec, Some(&mark))
    }

    /// Releases the Lease, as client-go does it.
    pub(crate) fn release(&self, now: Wall) -> Vec<u8> {
        let mut spec = self.spec.clone();
        spec.set_text(HOLDER_IDENTITY, "");
        spec.set_number(LEASE_DURATION_SECONDS, 1);
        spec.set_message(ACQUIRE_TIME, &now.message());
        spec.set_message(RENEW_TIME, &now.message());
        spec.set_number(LEASE_TRANSITIONS, self.transitions());
        self.with(&spec, None)
    }

    /// A Lease that does not exist yet.
    pub(crate) fn absent(namespace: &str, name: &str) -> Lease {
        let mut metadata = Message::default();
        metadata.set_text(NAME, name);
        metadata.set_text(NAMESPACE, namespace);
        Lease { object: Message::default(), metadata, spec: Message::default(), version: 0 }
    }
}

/// The names of a candidate.
pub(crate) struct CandidateName<'a> {
    /// For people and for other clients.
    pub(crate) identity: &'a str,
    /// Unique.
    pub(crate) random: &'a str,
}

/// What a candidate does with the Lease that it sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// There is no Lease: create it.
    Create,
    /// Nobody holds it, its holder has not renewed it in time, or this candidate has written it: write.
    Take,
    /// Somebody holds it, at least until then.
    Wait(Moment),
    /// Other clients do not elect by this Lease, but the control plane.
    Refuse(String),
}

/// What a candidate does with the Lease, whose present version it has first seen at `seen`. A record without a duration
/// counts for `unstated`.
pub(crate) fn decide(
    lease: Option<&Lease>,
    seen: Moment,
    now: Moment,
    random: &str,
    unstated: Duration,
) -> Decision {
    let Some(lease) = lease else { return Decision::Create };
    if let Some(reason) = lease.reassigned("") {
        return Decision::Refuse(format!("{reason}; use another name"));
    }
    if lease.holder().is_empty() || lease.is_of(random) {
        return Decision::Take;
    }
    let mut duration = lease.duration().unwrap_or(unstated);
    if lease.mark().is_none() {
        duration += Duration::from_secs(1);
    }
    match seen + duration {
        end if now >= end => Decision::Take,
        end => Decision::Wait(end),
    }
}

/// A time by the wall clock, in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wall(u64);

impl Wall {
    pub(crate) fn now() -> Wall {
        let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Wall(u64::try_from(since.as_micros()).unwrap_or(0))
    }

    fn second(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The time of a message with seconds and nanoseconds. Zero if it has none.
    fn of(message: &Message) -> Wall {
        let (seconds, nanos) = (message.number(1).unwrap_or(0), message.number(2).unwrap_or(0));
        Wall(seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000))
    }

    fn message(self) -> Message {
        let mut message = Message::default();
        message.set_number(1, self.second());
        message.set_number(2, self.0 % 1_000_000 * 1_000);
        message
    }
}

/// The times that a candidate writes. Each is of a later second than the one before, or counts like the first of its
/// second: that is how client-go counts.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    /// The last second that was written, and the moment before it was sent for the first time.
    last: Option<(u64, Moment)>,
}

impl Stamps {
    /// The time to write, and the moment from which on the write counts.
    pub(crate) fn next(&mut self, wall: Wall, sent: Moment) -> (Wall, Moment) {
        let stamp = match self.last {
            Some((second, first)) if wall.second() <= second => {
                if sent < first + Duration::from_secs(1) {
                    let same =
                        if wall.second() == second { wall } else { Wall(second * 1_000_000 + 999_999) };
                    return (same, first);
                }
                // The wall clock was set back.
                Wall((second + 1) * 1_000_000)
            }
            _ => wall,
        };
        self.last = Some((stamp.second(), sent));
        (stamp, sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: CandidateName<'_> = CandidateName { identity: "me", random: "abc" };

    fn at(seconds: u64) -> Moment {
        Duration::from_secs(seconds)
    }

    /// The Lease that the server stores.
    fn stored(bytes: &[u8], version: u64) -> Lease {
        edited(bytes, version, |_, _| {})
    }

    fn edited(bytes: &[u8], version: u64, edit: impl FnOnce(&mut Message, &mut Message)) -> Lease {
        let mut object = unseal(bytes).unwrap();
        let (mut metadata, mut spec) = (object.message(METADATA), object.message(SPEC));
        edit(&mut metadata, &mut spec);
        metadata.set_text(RESOURCE_VERSION, &version.to_string());
        object.set_message(METADATA, &metadata);
        object.set_message(SPEC, &spec);
        Lease::new(object).unwrap()
    }

    fn created(seconds: u64) -> Vec<u8> {
        Lease::absent("default", "x").acquisition(&ME, seconds, Wall(1_000_000))
    }

    fn released() -> Vec<u8> {
        Lease::absent("default", "x").release(Wall(1_000_000))
    }

    fn foreign(duration: Option<u64>) -> Lease {
        edited(&released(), 7, |_, spec| {
            spec.set_text(HOLDER_IDENTITY, "client-go");
            spec.remove(LEASE_DURATION_SECONDS);
            if let Some(duration) = duration {
                spec.set_number(LEASE_DURATION_SECONDS, duration);
            }
        })
    }

    fn decide_at(lease: &Lease, now: u64) -> Decision {
        decide(Some(lease), at(100), at(now), "abc", at(5))
    }

    #[test]
    fn an_absent_or_released_lease_is_taken_at_once() {
        assert_eq!(decide(None, at(0), at(0), "abc", at(5)), Decision::Create);
        assert_eq!(decide_at(&stored(&released(), 3), 100), Decision::Take);
    }

    #[test]
    fn a_held_lease_is_taken_after_its_own_duration_since_it_was_first_seen() {
        let other = stored(&created(15), 3);
        let wait = |now| decide(Some(&other), at(100), at(now), "somebody else", at(5));
        // Neither the wall clock nor the ttl of the candidate counts.
        assert_eq!(wait(100), Decision::Wait(at(115)));
        assert_eq!(wait(114), Decision::Wait(at(115)));
        assert_eq!(wait(115), Decision::Take);
        // Other clients cut fractions off the duration.
        assert_eq!(decide_at(&foreign(Some(60)), 160), Decision::Wait(at(161)));
        assert_eq!(decide_at(&foreign(Some(60)), 161), Decision::Take);
        assert_eq!(decide_at(&foreign(None), 100), Decision::Wait(at(106)));
        assert_eq!(decide_at(&foreign(Some(0)), 100), Decision::Wait(at(106)));
    }

    #[test]
    fn a_lease_of_the_same_identity_is_ours_only_if_we_have_written_it() {
        let ours = stored(&created(15), 3);
        assert_eq!(decide_at(&ours, 100), Decision::Take);
        let twin = decide(Some(&ours), at(100), at(100), "another", at(5));
        assert_eq!(twin, Decision::Wait(at(115)));
    }

    #[test]
    fn a_mark_ends_when_another_client_takes_the_lease_and_keeps_the_annotation() {
        let ours = stored(&created(15), 3);
        assert_eq!(ours.mark(), Some(Mark { candidate: "abc".to_string(), token: None }));
        let bytes = ours.renewal(&ME, 3, Wall(5_000_000));
        let renewed = stored(&bytes, 4);
        assert_eq!(renewed.mark(), Some(Mark { candidate: "abc".to_string(), token: Some(3) }));
        assert_eq!(renewed.acquire_time(), ours.acquire_time());
        let taken = edited(&bytes, 5, |_, spec| {
            spec.set_text(HOLDER_IDENTITY, "client-go");
            spec.set_message(ACQUIRE_TIME, &Wall(9_000_000).message());
        });
        assert_eq!(taken.mark(), None);
        assert!(!taken.is_of("abc"));
        // An operator gives the Lease to a client that finds its own name in it, and keeps all else.
        let given = edited(&bytes, 5, |_, spec| spec.set_text(HOLDER_IDENTITY, "client-go"));
        assert!(given.mark().is_none() && !given.is_of("abc"));
        assert!(matches!(decide_at(&taken, 100), Decision::Wait(_)));
    }

    #[test]
    fn transitions_count_acquisitions_and_a_release_keeps_them() {
        let ours = stored(&created(15), 3);
        assert_eq!((ours.transitions(), ours.holder(), ours.name()), (0, "me", "x"));
        let released = stored(&ours.release(Wall(9)), 4);
        assert_eq!((released.holder(), released.transitions(), released.mark()), ("", 0, None));
        assert_eq!(released.duration(), Some(at(1)));
        let next = CandidateName { identity: "next", random: "def" };
        let bytes = released.acquisition(&next, 15, Wall(10));
        let taken = stored(&bytes, 5);
        assert_eq!((taken.holder(), taken.transitions()), ("next", 1));
        // An acquisition whose reply was lost is no other acquisition.
        assert_eq!(stored(&taken.acquisition(&next, 15, Wall(11)), 6).transitions(), 1);
        // Whatever else is in the object stays.
        let labelled = edited(&bytes, 7, |metadata, spec| {
            metadata.set_entry(11, "team", Some("a"));
            spec.set_number(99, 1);
        });
        let renewed = unseal(&labelled.renewal(&next, 5, Wall(12))).unwrap();
        let (metadata, spec) = (renewed.message(METADATA), renewed.message(SPEC));
        assert_eq!(metadata.messages(11).next().unwrap().text(2), "a");
        assert_eq!((metadata.text(RESOURCE_VERSION), spec.number(99)), ("7", Some(1)));
    }

    #[test]
    fn a_coordinated_lease_is_left_to_the_control_plane() {
        let lease = edited(&created(15), 3, |_, spec| spec.set_text(STRATEGY, "OldestEmulationVersion"));
        assert!(matches!(decide_at(&lease, 1_000), Decision::Refuse(_)));
        assert!(lease.reassigned("me").unwrap().contains("OldestEmulationVersion"));
        let lease = edited(&created(15), 3, |_, spec| spec.set_text(PREFERRED_HOLDER, "other"));
        assert!(lease.reassigned("me").unwrap().contains("`other`"));
        assert_eq!(foreign(Some(1)).reassigned("me"), None);
    }

    #[test]
    fn a_holder_that_does_not_renew_is_overdue() {
        let lease = stored(&created(15), 3);
        assert_eq!(lease.overdue(Wall(16_000_000)), None);
        assert_eq!(lease.overdue(Wall(16_000_001)), Some(Duration::from_micros(15_000_001)));
        assert_eq!(lease.overdue(Wall(0)), None);
    }

    #[test]
    fn two_writes_of_one_second_count_from_the_first() {
        let mut stamps = Stamps::default();
        let wall = |millis: u64| Wall(millis * 1_000);
        let moment = Duration::from_millis;
        assert_eq!(stamps.next(wall(10_100), moment(100)), (wall(10_100), moment(100)));
        assert_eq!(stamps.next(wall(10_900), moment(900)), (wall(10_900), moment(100)));
        assert_eq!(stamps.next(wall(11_000), moment(1_000)), (wall(11_000), moment(1_000)));
        // The wall clock is set back by an hour: first the text stays, then it goes on by seconds.
        assert_eq!(stamps.next(wall(100), moment(1_500)).1, moment(1_000));
        assert_eq!(stamps.next(wall(700), moment(2_100)), (wall(12_000), moment(2_100)));
        assert_eq!(stamps.next(wall(1_700), moment(3_100)), (wall(13_000), moment(3_100)));
    }
}
