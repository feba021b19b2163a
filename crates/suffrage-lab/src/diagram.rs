//! The space-time diagram: a lifeline for each process, time downwards, an arrow for each message.

use suffrage_core::{NodeId, Time};
use suffrage_sim::{DropReason, Observer, Scenario, TraceEvent, TracedMessage};

use crate::belief::{Beliefs, News};
use crate::diagram::canvas::{Canvas, Life, Shape};
use crate::watch::Cuts;
use suffrage_cli::text;

mod canvas;

/// How many lifelines fit on a screen.
pub(crate) const MOST: usize = 16;

/// Draws a run as it happens.
#[derive(Debug)]
pub(crate) struct Diagram {
    ids: Vec<NodeId>,
    lives: Vec<Life>,
    beliefs: Beliefs,
    cuts: Cuts,
    rows: Vec<Row>,
    /// A timer that has just run out, told only if something comes of it.
    expired: Option<(Time, NodeId, String)>,
}

/// One line of the drawing.
#[derive(Clone, Debug)]
struct Row {
    at: Time,
    lives: Vec<Life>,
    shape: Shape,
    topic: Topic,
    /// What else is said beside it.
    notes: Vec<String>,
}

/// What a row is about. Processes that do the same at the same time share a row.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Topic {
    /// A message arrived there.
    Delivery(NodeId),
    /// A process did something on its own.
    Deed(NodeId),
    Calls(Vec<NodeId>),
    /// Whom they suspect, and who does.
    Suspects(Vec<NodeId>, Vec<NodeId>),
    Hears(Vec<NodeId>, Vec<NodeId>),
    Dead(Vec<NodeId>),
    Other,
}

impl Diagram {
    pub(crate) fn new(scenario: &Scenario, cuts: Cuts) -> Diagram {
        let ids: Vec<NodeId> = scenario.roster.iter().collect();
        let lives = vec![Life::Up; ids.len()];
        let beliefs = Beliefs::new(scenario);
        let mut diagram = Diagram { ids, lives, beliefs, cuts, rows: Vec::new(), expired: None };
        if !scenario.crashed.is_empty() {
            let dead = scenario.crashed.iter().map(|&slot| scenario.roster.id(slot)).collect();
            let marks = scenario.crashed.iter().map(|&slot| (slot, '✗')).collect();
            diagram.row(Time::ZERO, Shape::Marks(marks), Topic::Dead(dead), None);
            scenario.crashed.iter().for_each(|&slot| diagram.lives[slot] = Life::Down);
        }
        diagram
    }

    fn column(&self, id: NodeId) -> usize {
        self.ids.iter().position(|&other| other == id).expect("the simulator names members only")
    }

    fn row(&mut self, at: Time, shape: Shape, topic: Topic, note: Option<String>) {
        let lives = self.lives.clone();
        self.rows.push(Row { at, lives, shape, topic, notes: note.into_iter().collect() });
    }

    fn deed(&mut self, at: Time, who: NodeId, mark: char, note: String) {
        let shape = Shape::Marks(vec![(self.column(who), mark)]);
        self.row(at, shape, Topic::Deed(who), Some(note));
    }

    /// Adds a process to the row of this moment that says the same of others.
    fn together(&mut self, at: Time, who: NodeId, mark: char, topic: Topic) {
        let column = self.column(who);
        let mut now = self.rows.iter_mut().rev().take_while(|row| row.at == at);
        if let Some(row) = now.find(|row| row.topic.same(&topic))
            && let Shape::Marks(marks) = &mut row.shape
        {
            marks.push((column, mark));
            return row.topic.add(who);
        }
        let mut topic = topic;
        topic.add(who);
        self.row(at, Shape::Marks(vec![(column, mark)]), topic, None);
    }

    fn arrow(
        &mut self,
        at: Time,
        from: NodeId,
        to: NodeId,
        message: TracedMessage<'_>,
        why: Option<DropReason>,
    ) {
        let note = match why {
            None => message.kind.to_string(),
            Some(DropReason::Lost) => format!("{}, lost", message.kind),
            Some(DropReason::Cut) => format!("{}, cut off", message.kind),
            Some(DropReason::ReceiverDead) => format!("{}, but {to} is dead", message.kind),
            Some(DropReason::UnknownReceiver) => {
                return self.deed(at, from, '?', format!("{} to a stranger", message.kind));
            }
        };
        let (from, column) = (self.column(from), self.column(to));
        let shape = Shape::Arrow { from, to: column, solid: message.counted, arrives: why.is_none() };
        let topic = if why.is_none() { Topic::Delivery(to) } else { Topic::Other };
        self.row(at, shape, topic, Some(note));
    }

    fn announce(&mut self, at: Time, who: NodeId, news: News) {
        let (mark, note) = match news {
            News::Leads(_) => ('★', format!("{who} leads")),
            News::Follows(leader, _) => ('☆', format!("{who} follows {leader}")),
            News::KeepsFollowing(..) => return,
            News::StepsDown => ('○', format!("{who} steps down")),
            News::Forgets => ('○', format!("{who} has no leader")),
            News::FindsNobody => ('○', format!("{who} finds nobody who may lead")),
        };
        self.tell_expiry(at, who);
        let column = self.column(who);
        // That a suspected leader is a leader no more goes without saying.
        if news == News::Forgets && self.suspects(at, who) {
            return;
        }
        // What somebody concludes from what has just reached it stands beside that.
        match self.rows.last_mut() {
            Some(row) if row.at == at && row.topic.concerns(who) => {
                row.shape.mark(column, mark);
                row.notes.push(note);
            }
            _ => self.deed(at, who, mark, note),
        }
    }

    fn suspects(&self, at: Time, who: NodeId) -> bool {
        let mut now = self.rows.iter().rev().take_while(|row| row.at == at);
        now.any(|row| matches!(&row.topic, Topic::Suspects(_, observers) if observers.contains(&who)))
    }

    fn tell_expiry(&mut self, at: Time, who: NodeId) {
        if let Some((when, whose, timer)) = self.expired.take()
            && (when, whose) == (at, who)
        {
            self.deed(at, who, '◦', format!("{who}: {timer} timed out"));
        }
    }

    fn live(&mut self, at: Time, who: NodeId, mark: char, verb: &str, life: Life) {
        let column = self.column(who);
        self.deed(at, who, mark, format!("{who} {verb}"));
        self.lives[column] = life;
    }

    fn rule(&mut self, at: Time, note: String) {
        self.row(at, Shape::Rule, Topic::Other, Some(note));
    }

    /// The heading, the lines with their times, and the explanation of the marks.
    pub(crate) fn lines(&self) -> (String, Vec<(Time, String)>, String) {
        let mut rows: Vec<Row> = Vec::new();
        for row in &self.rows {
            let last = rows.last_mut().filter(|last| last.at == row.at);
            if !last.is_some_and(|last| last.topic.absorb(&row.topic)) {
                rows.push(row.clone());
            }
        }
        let canvas = Canvas::new(&self.ids, rows.iter().map(|row| text::time(row.at).len()).max());
        let mut lines = Vec::new();
        let mut last = None;
        for row in &rows {
            let time = if last == Some(row.at) { String::new() } else { text::time(row.at) };
            last = Some(row.at);
            lines.push((row.at, canvas.line(&time, &row.lives, &row.shape, &row.note())));
        }
        let legend = canvas.legend(self.rows.iter().map(|row| &row.shape));
        (canvas.heading(), lines, legend)
    }

    /// The whole drawing; nothing if nothing happened.
    pub(crate) fn draw(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let (heading, lines, legend) = self.lines();
        let lines = lines.into_iter().map(|(_, line)| line + "\n");
        format!("{heading}\n{}\n{legend}\n", lines.collect::<String>())
    }
}

impl Observer for Diagram {
    fn observe(&mut self, at: Time, event: TraceEvent<'_>) {
        match event {
            TraceEvent::Sent { from, .. } | TraceEvent::Multicast { from, .. } => self.tell_expiry(at, from),
            TraceEvent::Delivered { from, to, message } => self.arrow(at, from, to, message, None),
            TraceEvent::Dropped { from, to, message, reason: why } => {
                self.tell_expiry(at, from);
                self.arrow(at, from, to, message, Some(why));
            }
            TraceEvent::Expired { who, timer } => self.expired = Some((at, who, format!("{timer:?}"))),
            TraceEvent::Announced { who, announcement } => {
                if let Some(news) = self.beliefs.announce(who, announcement) {
                    self.announce(at, who, news);
                }
            }
            TraceEvent::Commanded { who, command: "campaign" } => {
                self.together(at, who, '●', Topic::Calls(Vec::new()));
            }
            TraceEvent::Commanded { who, command } => {
                self.deed(at, who, '●', format!("{who} is asked {}", text::request(command)));
            }
            TraceEvent::Suspected { who, peer } => {
                self.together(at, who, '?', Topic::Suspects(vec![peer], Vec::new()));
            }
            TraceEvent::Restored { who, peer } => {
                self.together(at, who, '!', Topic::Hears(vec![peer], Vec::new()))
            }
            TraceEvent::Crashed { who } => {
                self.beliefs.crash(who);
                self.live(at, who, '✗', "crashes", Life::Down);
            }
            TraceEvent::Recovered { who } => {
                self.beliefs.recover(who);
                self.live(at, who, '◇', "recovers", Life::Up);
            }
            TraceEvent::Paused { who } => self.live(at, who, '‖', "pauses", Life::Paused),
            TraceEvent::Resumed { who } => self.live(at, who, '◇', "goes on", Life::Up),
            TraceEvent::Jumped { who, by, back } => {
                let way = if back { "back" } else { "ahead" };
                self.deed(at, who, '↷', format!("{who}'s clock jumps {way} by {by}"));
            }
            TraceEvent::Ranked { who, .. } => self.deed(at, who, '±', format!("{who}'s rank changes")),
            TraceEvent::Cut => {
                let groups = self.cuts.cut();
                self.rule(at, format!("cut: {groups}"));
            }
            TraceEvent::Healed => {
                let groups = self.cuts.heal();
                self.rule(at, format!("healed: {groups}"));
            }
            TraceEvent::HealedAll => {
                self.cuts.heal_all(at);
                self.rule(at, "all healed".to_string());
            }
        }
    }
}

impl Topic {
    /// Whether both say the same, if of different processes.
    fn same(&self, other: &Topic) -> bool {
        match (self, other) {
            (Topic::Calls(_), Topic::Calls(_)) => true,
            (Topic::Suspects(peers, _), Topic::Suspects(others, _))
            | (Topic::Hears(peers, _), Topic::Hears(others, _)) => peers == others,
            _ => false,
        }
    }

    /// Takes over what the same processes noticed of others. False if there is nothing to take over.
    fn absorb(&mut self, next: &Topic) -> bool {
        match (self, next) {
            (Topic::Suspects(peers, all), Topic::Suspects(more, same))
            | (Topic::Hears(peers, all), Topic::Hears(more, same))
                if all == same =>
            {
                peers.extend(more);
                true
            }
            _ => false,
        }
    }

    fn add(&mut self, who: NodeId) {
        if let Topic::Calls(all) | Topic::Suspects(_, all) | Topic::Hears(_, all) = self {
            all.push(who);
        }
    }

    /// Whether the row is about this process alone.
    fn concerns(&self, who: NodeId) -> bool {
        match self {
            Topic::Delivery(to) | Topic::Deed(to) => *to == who,
            Topic::Calls(all) => all == &[who],
            _ => false,
        }
    }
}

impl Row {
    fn note(&self) -> String {
        let say = |all: &[NodeId], one: &str, many: &str| {
            let verb = if all.len() == 1 { one } else { many };
            format!("{} {verb}", text::ids(all.iter().copied()))
        };
        let topic = match &self.topic {
            Topic::Calls(all) => Some(say(all, "calls an election", "call elections")),
            Topic::Suspects(peers, all) => {
                let peers = text::ids(peers.iter().copied());
                Some(format!("{} {peers}", say(all, "suspects", "suspect")))
            }
            Topic::Hears(peers, all) => {
                let peers = text::ids(peers.iter().copied());
                Some(format!("{} {peers} again", say(all, "hears", "hear")))
            }
            Topic::Dead(all) => Some(say(all, "is dead from the start", "are dead from the start")),
            Topic::Delivery(_) | Topic::Deed(_) | Topic::Other => None,
        };
        topic.into_iter().chain(self.notes.iter().cloned()).collect::<Vec<_>>().join("; ")
    }
}
