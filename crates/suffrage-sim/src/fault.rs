//! What can go wrong, and when.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use suffrage_core::{Attribute, NodeId, Roster, Span, Time};

use crate::Cut;

/// Something that happens to the world rather than in it. Processes are named by slot.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A process dies and forgets all but what it saved.
    Crash(usize),
    /// The leader dies: of the live processes, the one that most live processes believe in at that
    /// moment. Nothing happens if there is none.
    CrashLeader,
    /// A process is to die in the middle of an input, at this point of what it does from now on; a dead process,
    /// of what it does from its return on. The effects before that point happen, those after it do not. The death
    /// of the process, the recovery of a live one, and [`HealAll`](Fault::HealAll) call it off.
    CrashMidway {
        /// Who.
        slot: usize,
        /// Where.
        point: CrashPoint,
    },
    /// A dead process comes back, with or without what it saved.
    Recover {
        /// Who.
        slot: usize,
        /// Whether its disk survived.
        disk: bool,
    },
    /// The one that the last crash of a leader hit comes back, if it is dead.
    RecoverLeader {
        /// Whether its disk survived.
        disk: bool,
    },
    /// A process stops, and goes on at the given time as if nothing had happened.
    Pause(usize, Time),
    /// The network is cut. The number names the cut.
    Cut(usize, Cut),
    /// The cut of that number is healed.
    Heal(usize),
    /// Messages are lost with this probability from now on.
    Loss(f64),
    /// Messages are doubled with this probability from now on.
    Duplicate(f64),
    /// Messages are late with this probability from now on: a late one takes up to so much longer, uniformly.
    Late {
        /// How likely a message is late.
        probability: f64,
        /// How much longer it takes at most.
        most: Span,
    },
    /// Messages take so many times as long as usual from now on; 1 ends it. Processes go on expecting them within
    /// the usual bound.
    Slow(f64),
    /// A process's clock jumps. Its timers, which count the time that passes, do not.
    Jump {
        /// Whose.
        slot: usize,
        /// How far.
        by: Span,
        /// Whether backwards.
        back: bool,
    },
    /// How good a leader a process would be changes.
    Rank(usize, Attribute),
    /// All that is wrong ends: cuts, loss, doubling, late and slow messages, wrong suspicions, crashes that have
    /// not happened yet. The dead stay dead, and messages on their way arrive when they would have.
    HealAll,
}

/// A point in what a process does, at which it dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// After so many more effects of any kind.
    Effects(u32),
    /// When it would save: nothing is saved.
    BeforeSave,
    /// When it has saved: the disk is all that knows of it.
    AfterSave,
}

impl FromStr for CrashPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<CrashPoint, String> {
        match text {
            "before-save" => Ok(CrashPoint::BeforeSave),
            "after-save" => Ok(CrashPoint::AfterSave),
            _ => text.parse().map(CrashPoint::Effects).map_err(|_| {
                format!("`{text}` is not a point; it is before-save, after-save or a number of effects")
            }),
        }
    }
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CrashPoint::BeforeSave => f.write_str("before-save"),
            CrashPoint::AfterSave => f.write_str("after-save"),
            CrashPoint::Effects(count) => count.fmt(f),
        }
    }
}

/// Faults and their times.
pub type Plan = Vec<(Time, Fault)>;

/// Puts a plan in the order in which it happens. At equal times the kinds have an order of their own, so
/// that a plan is the same however it was put together: what ends comes before what begins.
pub fn order(plan: &mut Plan) {
    plan.sort_by_key(|(at, fault)| (*at, fault.precedence()));
}

impl Fault {
    fn precedence(&self) -> (u8, usize) {
        match self {
            Fault::HealAll => (0, 0),
            Fault::Heal(name) => (1, *name),
            Fault::Loss(_) => (2, 0),
            Fault::Duplicate(_) => (3, 0),
            Fault::Slow(_) => (4, 0),
            Fault::Late { .. } => (5, 0),
            Fault::Crash(slot) => (6, *slot),
            Fault::CrashLeader => (6, usize::MAX),
            Fault::Recover { slot, .. } => (7, *slot),
            Fault::RecoverLeader { .. } => (7, usize::MAX),
            Fault::CrashMidway { slot, .. } => (8, *slot),
            Fault::Pause(slot, _) => (9, *slot),
            Fault::Jump { slot, .. } => (10, *slot),
            Fault::Rank(slot, _) => (11, *slot),
            Fault::Cut(name, _) => (12, *name),
        }
    }
}

/// Reads `80@12`: who, and when.
pub fn parse_moment(text: &str) -> Result<(NodeId, Time), String> {
    let (who, when) =
        text.split_once('@').ok_or_else(|| format!("`{text}` lacks a time; it has the form 80@12"))?;
    Ok((who.parse()?, when.parse()?))
}

/// Whom something befalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// This one.
    Member(NodeId),
    /// Whoever leads when it happens; for a recovery, whoever led at the last crash of a leader.
    Leader,
}

/// Reads `80@12` or `leader@12`: whom, and when.
pub fn parse_whom(text: &str) -> Result<(Whom, Time), String> {
    match text.strip_prefix("leader@") {
        Some(when) => Ok((Whom::Leader, when.parse()?)),
        None => parse_moment(text).map(|(who, when)| (Whom::Member(who), when)),
    }
}

/// Reads `5@10..20`: who, and from when to when.
pub fn parse_interval(text: &str) -> Result<(NodeId, Time, Time), String> {
    let form = || format!("`{text}` has not the form 5@10..20");
    let (who, when) = text.split_once('@').ok_or_else(form)?;
    let (from, to) = when.split_once("..").ok_or_else(form)?;
    let (from, to) = parse_times(text, from, to)?;
    Ok((who.parse()?, from, to))
}

/// Groups that are separated from each other for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Who is with whom.
    pub groups: Vec<Vec<NodeId>>,
    /// Whether a group is no longer heard by the groups after it, and still hears them.
    pub one_way: bool,
    /// Since when.
    pub from: Time,
    /// Until when; none if for good.
    pub to: Option<Time>,
}

impl FromStr for Partition {
    type Err = String;

    /// Reads `1,2|3,4,5@10..50`; with `>` for `|`, the cut is one way. Without `..50` the cut stays; without
    /// `@10` it is there from the start.
    fn from_str(text: &str) -> Result<Partition, String> {
        let form = || format!("`{text}` has not the form 1,2|3,4,5@10..50");
        let (groups, when) = text.split_once('@').unwrap_or((text, "0"));
        let (from, to) = match when.split_once("..") {
            Some((from, to)) => parse_times(text, from, to).map(|(from, to)| (from, Some(to)))?,
            None => (when.parse()?, None),
        };
        let group = |text: &str| text.split(',').map(str::parse).collect::<Result<Vec<NodeId>, _>>();
        let one_way = groups.contains('>');
        let groups: Vec<_> =
            groups.split(if one_way { '>' } else { '|' }).map(group).collect::<Result<_, _>>()?;
        if groups.len() < 2 {
            return Err(format!("{}: there is nothing to separate", form()));
        }
        let mut named: Vec<NodeId> = groups.concat();
        named.sort_unstable();
        match named.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("{} stands on two sides", pair[0])),
            None => Ok(Partition { groups, one_way, from, to }),
        }
    }
}

/// Reads `5=99@30`: who, its new attribute, and when.
pub fn parse_rerank(text: &str) -> Result<(NodeId, Attribute, Time), String> {
    let form = || format!("`{text}` has not the form 5=99@30");
    let (rank, when) = text.split_once('@').ok_or_else(form)?;
    let (who, attribute) = rank.split_once('=').ok_or_else(form)?;
    Ok((who.parse()?, attribute.parse().map_err(|_| form())?, when.parse()?))
}

/// Reads `5@10+30` or `5@10-30`: whose clock jumps, when, how far, and whether backwards.
pub fn parse_jump(text: &str) -> Result<(NodeId, Time, Span, bool), String> {
    let form = || format!("`{text}` has not the form 5@10+30 or 5@10-30");
    let sign = text.find(['+', '-']).ok_or_else(form)?;
    let (who, at) = parse_moment(&text[..sign])?;
    Ok((who, at, text[sign + 1..].parse()?, text[sign..].starts_with('-')))
}

/// Reads `5>3@30`: who hands over, to whom, and when.
pub fn parse_transfer(text: &str) -> Result<(NodeId, NodeId, Time), String> {
    let form = || format!("`{text}` has not the form 5>3@30");
    let (who, rest) = text.split_once('>').ok_or_else(form)?;
    let (to, at) = parse_moment(rest)?;
    Ok((who.parse()?, to, at))
}

/// Reads `5:before-save@10`, `5:after-save@10` or `5:3@10`: who dies, at which point, and from when on that counts.
pub fn parse_crash_midway(text: &str) -> Result<(NodeId, CrashPoint, Time), String> {
    let form = || format!("`{text}` has not the form 5:before-save@10, 5:after-save@10 or 5:3@10");
    let (what, at) = text.split_once('@').ok_or_else(form)?;
    let (who, point) = what.split_once(':').ok_or_else(form)?;
    Ok((who.parse()?, point.parse()?, at.parse()?))
}

/// Reads `0.01:36@10`: how likely messages are late, by how much at most, and from when on.
pub fn parse_late(text: &str) -> Result<(f64, Span, Time), String> {
    let form = || format!("`{text}` has not the form 0.01:36@10");
    let (what, at) = text.split_once('@').ok_or_else(form)?;
    let (probability, most) = what.split_once(':').ok_or_else(form)?;
    match probability.parse() {
        Ok(probability) if (0.0..=1.0).contains(&probability) => {
            Ok((probability, most.parse()?, at.parse()?))
        }
        _ => Err(format!("`{probability}` is not a probability from 0 to 1")),
    }
}

/// Reads `20@10`: how many times as long messages take, and from when on.
pub fn parse_slow(text: &str) -> Result<(f64, Time), String> {
    let form = || format!("`{text}` has not the form 20@10");
    let (factor, at) = text.split_once('@').ok_or_else(form)?;
    match factor.parse() {
        Ok(factor) if (0.001..=1000.0).contains(&factor) => Ok((factor, at.parse()?)),
        _ => Err(format!("`{factor}` is not a factor from 0.001 to 1000")),
    }
}

/// Reads the beginning and the end of what `text` describes.
fn parse_times(text: &str, from: &str, to: &str) -> Result<(Time, Time), String> {
    let (from, to): (Time, Time) = (from.parse()?, to.parse()?);
    match from.cmp(&to) {
        Ordering::Less => Ok((from, to)),
        Ordering::Equal => Err(format!("`{text}` ends as it begins")),
        Ordering::Greater => Err(format!("`{text}` ends before it begins")),
    }
}

/// The slot of a member, or a sentence about the stranger.
pub fn slot_of(roster: &Roster, id: NodeId) -> Result<usize, String> {
    roster.slot(id).ok_or_else(|| format!("there is no process {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(units: u64) -> Time {
        units.to_string().parse().unwrap()
    }

    #[test]
    fn faults_are_read() {
        assert_eq!(parse_moment("80@12"), Ok((NodeId(80), time(12))));
        assert_eq!(parse_whom("80@12"), Ok((Whom::Member(NodeId(80)), time(12))));
        assert_eq!(parse_whom("leader@12"), Ok((Whom::Leader, time(12))));
        assert_eq!(parse_interval("5@10..20"), Ok((NodeId(5), time(10), time(20))));
        let Partition { groups, from, to, one_way } = "1,2|3@10..50".parse().unwrap();
        assert_eq!(groups, [vec![NodeId(1), NodeId(2)], vec![NodeId(3)]]);
        assert_eq!((from, to, one_way), (time(10), Some(time(50)), false));
        assert!("1,2>3".parse::<Partition>().unwrap().one_way);
        assert_eq!(parse_jump("5@10+30"), Ok((NodeId(5), time(10), Span::from_millis(30), false)));
        assert_eq!(parse_jump("5@10-3"), Ok((NodeId(5), time(10), Span::from_millis(3), true)));
        assert_eq!(parse_jump("5@10+1e-3"), Ok((NodeId(5), time(10), Span::from_units(0.001), false)));
        assert_eq!(parse_transfer("5>3@30"), Ok((NodeId(5), NodeId(3), time(30))));
        assert_eq!("1|2@7".parse::<Partition>().unwrap().to, None);
        assert_eq!("1|2".parse::<Partition>().unwrap().from, Time::ZERO);
        assert_eq!(parse_rerank("5=-9@3"), Ok((NodeId(5), -9, time(3))));
        for point in ["before-save", "after-save", "3"] {
            let text = format!("5:{point}@10");
            let (who, parsed, at) = parse_crash_midway(&text).unwrap();
            assert_eq!(format!("{who}:{parsed}@{at}"), text);
        }
        assert_eq!(parse_late("0.25:36@10"), Ok((0.25, Span::from_millis(36), time(10))));
        assert_eq!(parse_slow("2.5@10"), Ok((2.5, time(10))));
    }

    #[test]
    fn what_happens_at_the_same_time_has_an_order() {
        let (crash, recover) = (Fault::Crash(1), Fault::Recover { slot: 0, disk: true });
        let mut plan = vec![
            (time(5), Fault::Rank(0, 3)),
            (time(5), recover.clone()),
            (time(5), Fault::Crash(2)),
            (time(5), crash.clone()),
            (time(5), Fault::HealAll),
            (time(1), Fault::Heal(0)),
        ];
        order(&mut plan);
        let faults: Vec<Fault> = plan.into_iter().map(|(_, fault)| fault).collect();
        assert_eq!(
            faults,
            [Fault::Heal(0), Fault::HealAll, crash, Fault::Crash(2), recover, Fault::Rank(0, 3)]
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["80", "80@", "@3", "x@3", "80@-1"] {
            assert!(parse_moment(text).is_err() && parse_whom(text).is_err(), "{text}");
        }
        assert!(parse_whom("leader@").is_err() && parse_whom("leader").is_err());
        for text in ["5@10", "5@20..10", "5@10..10", "5@a..b"] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
        for text in ["1,2@3..4", "1|1", "1|x", "1|2@4..3", "1||2"] {
            assert!(text.parse::<Partition>().is_err(), "{text}");
        }
        for text in ["5@10", "5+3", "5@10+", "x@10+3"] {
            assert!(parse_jump(text).is_err(), "{text}");
        }
        for text in ["5>3", "5@3", ">3@3", "5>@3"] {
            assert!(parse_transfer(text).is_err(), "{text}");
        }
        for text in ["5=9", "5@3", "5=x@3"] {
            assert!(parse_rerank(text).is_err(), "{text}");
        }
        for text in ["5@10", "5:save@10", "5:-1@10", ":3@10", "5:3"] {
            assert!(parse_crash_midway(text).is_err(), "{text}");
        }
        for text in ["0.1@10", "2:3@10", "0.1:3", "0.1:x@10", "NaN:1@10"] {
            assert!(parse_late(text).is_err(), "{text}");
        }
        for text in ["2", "0@10", "x@10", "2@", "inf@10"] {
            assert!(parse_slow(text).is_err(), "{text}");
        }
        let refusal = |text| parse_interval(text).unwrap_err();
        assert_eq!(refusal("5@10..5"), "`5@10..5` ends before it begins");
        assert_eq!(refusal("5@10..10"), "`5@10..10` ends as it begins");
        assert_eq!(refusal("5@10..1e30"), "1e30".parse::<Time>().unwrap_err());
        assert_eq!("1|2@5..2".parse::<Partition>().unwrap_err(), "`1|2@5..2` ends before it begins");
    }
}
