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

use serde_json::{Map, Value, json};

use crate::Moment;

/// The annotation that tells a leader of ours.
const MARK: &str = "suffrage-leadership";

/// A Lease as the server has stored it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lease {
    object: Value,
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
    pub(crate) fn new(mut object: Value) -> Result<Lease, String> {
        let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let version = version.and_then(|version| version.parse().ok());
        let version = version.ok_or("the Lease has no resourceVersion that is a number")?;
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            // The server keeps them.
            metadata.remove("managedFields");
        }
        Ok(Lease { object, version })
    }

    /// The resourceVersion.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The holder. Empty if the Lease was released.
    pub(crate) fn holder(&self) -> &str {
        self.text("/spec/holderIdentity")
    }

    pub(crate) fn acquire_time(&self) -> &str {
        self.text("/spec/acquireTime")
    }

    /// The strategy of a coordinated election, by which the control plane names the holder.
    pub(crate) fn strategy(&self) -> &str {
        self.text("/spec/strategy")
    }

    fn preferred_holder(&self) -> &str {
        self.text("/spec/preferredHolder")
    }

    /// How long the record counts, if it says so.
    pub(crate) fn duration(&self) -> Option<Duration> {
        let seconds = self.object.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64);
        seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    fn transitions(&self) -> i64 {
        self.object.pointer("/spec/leaseTransitions").and_then(Value::as_i64).unwrap_or(0)
    }

    /// The mark of the present holder, if that is a leader of ours.
    pub(crate) fn mark(&self) -> Option<Mark> {
        let annotations = self.object.pointer("/metadata/annotations")?;
        let mark: Value = serde_json::from_str(annotations.get(MARK)?.as_str()?).ok()?;
        if self.holder().is_empty() || mark.get("acquired")?.as_str()? != self.acquire_time() {
            return None;
        }
        let token = mark.get("token").and_then(Value::as_u64);
        Some(Mark { candidate: mark.get("candidate")?.as_str()?.to_string(), token })
    }

    /// Whether the record was written by this candidate.
    pub(crate) fn is_of(&self, candidate: &str) -> bool {
        self.mark().is_some_and(|mark| mark.candidate == candidate)
    }

    /// Why its holder should give the Lease up, if the control plane wants so.
    pub(crate) fn reassigned(&self, identity: &str) -> Option<String> {
        let preferred = self.preferred_holder();
        if !preferred.is_empty() && preferred != identity {
            return Some(format!("the Lease has the preferred holder `{preferred}`"));
        }
        let strategy = self.strategy();
        (!strategy.is_empty())
            .then(|| format!("the Lease has the strategy {strategy}: the control plane elects"))
    }

    /// The time since the last renewal by the clocks of the two machines, if it is longer than the duration.
    pub(crate) fn overdue(&self, now: Wall) -> Option<Duration> {
        let renewed = Wall::parse(self.text("/spec/renewTime"))?;
        let age = Duration::from_micros(now.0.checked_sub(renewed.0)?);
        (age > self.duration()?).then_some(age)
    }

    fn with_spec(&self, spec: &[(&str, Value)], mark: Option<Value>) -> Value {
        let mut object = self.object.clone();
        if !object["spec"].is_object() {
            object["spec"] = Value::Object(Map::new());
        }
        for (key, value) in spec {
            object["spec"][*key] = value.clone();
        }
        if !object["metadata"]["annotations"].is_object() {
            object["metadata"]["annotations"] = Value::Object(Map::new());
        }
        match mark {
            Some(mark) => object["metadata"]["annotations"][MARK] = mark.to_string().into(),
            None => {
                object["metadata"]["annotations"].as_object_mut().map(|annotations| annotations.remove(MARK));
            }
        }
        object
    }

    /// The object that acquires the Lease.
    pub(crate) fn acquisition(&self, candidate: &CandidateName<'_>, seconds: u64, now: Wall) -> Value {
        let again = u8::from(!self.is_of(candidate.random));
        let spec = [
            ("holderIdentity", candidate.identity.into()),
            ("leaseDurationSeconds", seconds.into()),
            ("acquireTime", now.to_string().into()),
            ("renewTime", now.to_string().into()),
            ("leaseTransitions", (self.transitions() + i64::from(again)).into()),
        ];
        let mark = json!({ "candidate": candidate.random, "acquired": now.to_string() });
        self.with_spec(&spec, Some(mark))
    }

    /// The object that renews the Lease of its holder.
    pub(crate) fn renewal(&self, candidate: &CandidateName<'_>, token: u64, now: Wall) -> Value {
        let mark = json!({ "candidate": candidate.random, "acquired": self.acquire_time(), "token": token });
        self.with_spec(&[("renewTime", now.to_string().into())], Some(mark))
    }

    /// The object that releases the Lease, as client-go does it.
    pub(crate) fn release(&self, now: Wall) -> Value {
        let now = now.to_string();
        let spec = [
            ("holderIdentity", "".into()),
            ("leaseDurationSeconds", 1.into()),
            ("acquireTime", now.as_str().into()),
            ("renewTime", now.as_str().into()),
        ];
        self.with_spec(&spec, None)
    }
}

/// The names of a candidate.
pub(crate) struct CandidateName<'a> {
    /// For people and for other clients.
    pub(crate) identity: &'a str,
    /// Unique.
    pub(crate) random: &'a str,
}

/// A Lease that does not exist yet, held by a candidate, or by nobody.
pub(crate) fn new_lease(
    namespace: &str,
    name: &str,
    candidate: Option<&CandidateName<'_>>,
    seconds: u64,
    now: Wall,
) -> Value {
    let metadata = json!({ "name": name, "namespace": namespace });
    let object = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata });
    let empty = Lease { object, version: 0 };
    let mut object = match candidate {
        Some(candidate) => empty.acquisition(candidate, seconds, now),
        None => empty.release(now),
    };
    object["spec"]["leaseTransitions"] = 0.into();
    object
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

    /// The time of a text like `2026-01-31T12:34:56.789012Z`.
    fn parse(text: &str) -> Option<Wall> {
        let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
        let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
        let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
        let mut time = time.splitn(3, ':').map(|part| part.parse::<u64>().ok());
        let days = days_from_civil(date.next()??, date.next()??, date.next()??);
        let seconds = time.next()?? * 3600 + time.next()?? * 60 + time.next()??;
        let micros = format!("{fraction:0<6}").get(..6)?.parse::<u64>().ok()?;
        Some(Wall((u64::try_from(days).ok()? * 86_400 + seconds) * 1_000_000 + micros))
    }
}

/// The days since 1970 of a date of the Gregorian calendar. Years begin in March here, so that a leap day ends them.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

impl std::fmt::Display for Wall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (days, rest) = (self.second() / 86_400, self.second() % 86_400);
        let days = i64::try_from(days).unwrap_or(0);
        // A year has at least 365.2425 days on average: the guess is this year or the next.
        let mut year = 1970 + days / 365;
        while days_from_civil(year, 1, 1) > days {
            year -= 1;
        }
        let month = (1..=12).rev().find(|month| days_from_civil(year, *month, 1) <= days).unwrap_or(1);
        let day = days - days_from_civil(year, month, 1) + 1;
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        let micros = self.0 % 1_000_000;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
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

    fn stored(mut object: Value, version: u64) -> Lease {
        object["metadata"]["resourceVersion"] = version.to_string().into();
        Lease::new(object).unwrap()
    }

    fn foreign(duration: Option<u64>) -> Lease {
        let mut object = new_lease("default", "x", None, 1, Wall(0));
        object["spec"]["holderIdentity"] = "client-go".into();
        object["spec"]["leaseDurationSeconds"] = duration.into();
        stored(object, 7)
    }

    fn decide_at(lease: &Lease, now: u64) -> Decision {
        decide(Some(lease), at(100), at(now), "abc", at(5))
    }

    #[test]
    fn an_absent_or_released_lease_is_taken_at_once() {
        assert_eq!(decide(None, at(0), at(0), "abc", at(5)), Decision::Create);
        let released = stored(new_lease("default", "x", None, 1, Wall(0)), 3);
        assert_eq!(decide_at(&released, 100), Decision::Take);
    }

    #[test]
    fn a_held_lease_is_taken_after_its_own_duration_since_it_was_first_seen() {
        let mut other = new_lease("default", "x", Some(&ME), 15, Wall(0));
        other["spec"]["renewTime"] = "1970-01-01T00:00:00.000000Z".into();
        let other = stored(other, 3);
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
        let ours = stored(new_lease("default", "x", Some(&ME), 15, Wall(0)), 3);
        assert_eq!(decide_at(&ours, 100), Decision::Take);
        let twin = decide(Some(&ours), at(100), at(100), "another", at(5));
        assert_eq!(twin, Decision::Wait(at(115)));
    }

    #[test]
    fn a_mark_ends_when_another_client_takes_the_lease_and_keeps_the_annotation() {
        let ours = stored(new_lease("default", "x", Some(&ME), 15, Wall(0)), 3);
        assert_eq!(ours.mark(), Some(Mark { candidate: "abc".to_string(), token: None }));
        let renewed = stored(ours.renewal(&ME, 3, Wall(5_000_000)), 4);
        assert_eq!(renewed.mark(), Some(Mark { candidate: "abc".to_string(), token: Some(3) }));
        assert_eq!(renewed.acquire_time(), ours.acquire_time());
        let mut taken = renewed.object.clone();
        taken["spec"]["holderIdentity"] = "client-go".into();
        taken["spec"]["acquireTime"] = "2026-01-01T00:00:00.000000Z".into();
        let taken = stored(taken, 5);
        assert_eq!(taken.mark(), None);
        assert!(!taken.is_of("abc"));
        assert!(matches!(decide_at(&taken, 100), Decision::Wait(_)));
    }

    #[test]
    fn transitions_count_acquisitions_and_a_release_keeps_them() {
        let ours = stored(new_lease("default", "x", Some(&ME), 15, Wall(0)), 3);
        assert_eq!(ours.transitions(), 0);
        let released = stored(ours.release(Wall(9)), 4);
        assert_eq!((released.holder(), released.transitions(), released.mark()), ("", 0, None));
        assert_eq!(released.duration(), Some(at(1)));
        let next = CandidateName { identity: "next", random: "def" };
        let taken = stored(released.acquisition(&next, 15, Wall(10)), 5);
        assert_eq!((taken.holder(), taken.transitions()), ("next", 1));
        // An acquisition whose reply was lost is no other acquisition.
        assert_eq!(stored(taken.acquisition(&next, 15, Wall(11)), 6).transitions(), 1);
        // Whatever else is in the object stays.
        let mut labelled = taken.object.clone();
        labelled["metadata"]["labels"]["team"] = "a".into();
        labelled["spec"]["future"] = 1.into();
        let renewed = stored(labelled, 7).renewal(&next, 5, Wall(12));
        assert_eq!(
            (&renewed["metadata"]["labels"]["team"], &renewed["spec"]["future"]),
            (&"a".into(), &1.into())
        );
        assert_eq!(renewed["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn a_coordinated_lease_is_left_to_the_control_plane() {
        let mut object = new_lease("default", "x", Some(&ME), 15, Wall(0));
        object["spec"]["strategy"] = "OldestEmulationVersion".into();
        let lease = stored(object.clone(), 3);
        assert!(matches!(decide_at(&lease, 1_000), Decision::Refuse(_)));
        assert!(lease.reassigned("me").unwrap().contains("OldestEmulationVersion"));
        object["spec"]["preferredHolder"] = "other".into();
        assert!(stored(object, 3).reassigned("me").unwrap().contains("`other`"));
        assert_eq!(foreign(Some(1)).reassigned("me"), None);
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

    #[test]
    fn times_are_written_and_read_as_kubernetes_does() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_827_696_789_012, "2000-02-29T12:34:56.789012Z"),
            (1_767_225_599_999_999, "2025-12-31T23:59:59.999999Z"),
            (1_772_323_200_000_000, "2026-03-01T00:00:00.000000Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(Wall(micros).to_string(), text);
            assert_eq!(Wall::parse(text), Some(Wall(micros)));
        }
        assert_eq!(Wall::parse("1970-01-01T00:00:01Z"), Some(Wall(1_000_000)));
        assert_eq!(Wall::parse("yesterday"), None);
        let lease = stored(new_lease("default", "x", Some(&ME), 15, Wall(1_000_000)), 3);
        assert_eq!(lease.overdue(Wall(16_000_000)), None);
        assert_eq!(lease.overdue(Wall(16_000_001)), Some(Duration::from_micros(15_000_001)));
    }
}
