//! The space-time diagram: a lifeline for each process, time downwards, an arrow for each message.

use suffrage_core::{NodeId, Time};
use suffrage_sim::{DropReason, Observer, Scenario, TraceEvent, TracedMessage};

use crate::belief::{BeliefChange, Beliefs};
use crate::diagram::canvas::{Canvas, Life, Shape};
use crate::observers::CutNames;
use suffrage_cli::text;

mod canvas;

/// The most lifelines of a diagram: more do not fit on a screen.
pub(crate) const MAX_LIFELINES: usize = 16;

/// Records the events of a run as rows of a diagram.
#[derive(Debug)]
pub(crate) struct Diagram {
    ids: Vec<NodeId>,
    lives: Vec<Life>,
    beliefs: Beliefs,
    cuts: CutNames,
    rows: Vec<Row>,
    /// The timer that has expired last. It is drawn only if the process reacts to it.
    expired: Option<(Time, NodeId, String)>,
}

/// One line of the diagram.
#[derive(Clone, Debug)]
struct Row {
    at: Time,
    lives: Vec<Life>,
    shape: Shape,
    topic: Topic,
    /// The notes to the right of the diagram.
    notes: Vec<String>,
}

/// The subject of a row. Processes with the same event at the same time share a row.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Topic {
    /// A message arrived at this process.
    Delivery(NodeId),
    /// An event of this process alone.
    Local(NodeId),
    /// The processes that call an election.
    Campaigns(Vec<NodeId>),
    /// The suspected peers, and the processes that suspect them.
    Suspects(Vec<NodeId>, Vec<NodeId>),
    /// The peers that are no longer suspected, and the processes that no longer suspect them.
    Restores(Vec<NodeId>, Vec<NodeId>),
    /// The processes that are crashed from the start.
    Crashed(Vec<NodeId>),
    Other,
}

impl Diagram {
    pub(crate) fn new(scenario: &Scenario, cuts: CutNames) -> Diagram {
        let ids: Vec<NodeId> = scenario.roster.iter().collect();
        let lives = vec![Life::Up; ids.len()];
        let beliefs = Beliefs::new(scenario);
        let mut diagram = Diagram { ids, lives, beliefs, cuts, rows: Vec::new(), expired: None };
        if !scenario.crashed.is_empty() {
            let crashed = scenario.crashed.iter().map(|&slot| scenario.roster.id(slot)).collect();
            let marks = scenario.crashed.iter().map(|&slot| (slot, '✗')).collect();
            diagram.row(Time::ZERO, Shape::Marks(marks), Topic::Crashed(crashed), None);
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

    fn local_event(&mut self, at: Time, who: NodeId, mark: char, note: String) {
        let shape = Shape::Marks(vec![(self.column(who), mark)]);
        self.row(at, shape, Topic::Local(who), Some(note));
    }

    /// Adds a process to the row of this time with the same topic, or adds a row.
    fn shared_event(&mut self, at: Time, who: NodeId, mark: char, topic: Topic) {
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
            Some(DropReason::ReceiverDead) => format!("{}, but {to} has crashed", message.kind),
            Some(DropReason::UnknownReceiver) => {
                return self.local_event(at, from, '?', format!("{} to an unknown process", message.kind));
            }
        };
        let (from, column) = (self.column(from), self.column(to));
        let shape = Shape::Arrow { from, to: column, solid: message.counted, arrives: why.is_none() };
        let topic = if why.is_none() { Topic::Delivery(to) } else { Topic::Other };
        self.row(at, shape, topic, Some(note));
    }

    fn on_belief_change(&mut self, at: Time, who: NodeId, change: BeliefChange) {
        let (mark, note) = match change {
            BeliefChange::Leads(_) => ('★', format!("{who} leads")),
            BeliefChange::Follows(leader, _) => ('☆', format!("{who} follows {leader}")),
            BeliefChange::KeepsFollowing(..) => return,
            BeliefChange::StepsDown => ('○', format!("{who} steps down")),
            BeliefChange::LosesLeader => ('○', format!("{who} has no leader")),
            BeliefChange::FindsNoLeader => ('○', format!("{who} finds no process that may lead")),
        };
        self.draw_expired_timer(at, who);
        let column = self.column(who);
        // The row of the suspicion implies that the process has no leader.
        if change == BeliefChange::LosesLeader && self.suspects(at, who) {
            return;
        }
        // A belief that follows from the event of the last row is drawn in that row.
        match self.rows.last_mut() {
            Some(row) if row.at == at && row.topic.concerns(who) => {
                row.shape.mark(column, mark);
                row.notes.push(note);
            }
            _ => self.local_event(at, who, mark, note),
        }
    }

    fn suspects(&self, at: Time, who: NodeId) -> bool {
        let mut now = self.rows.iter().rev().take_while(|row| row.at == at);
        now.any(|row| matches!(&row.topic, Topic::Suspects(_, observers) if observers.contains(&who)))
    }

    fn draw_expired_timer(&mut self, at: Time, who: NodeId) {
        if let Some((expired_at, owner, timer)) = self.expired.take()
            && (expired_at, owner) == (at, who)
        {
            self.local_event(at, who, '◦', format!("{who}: {timer} timed out"));
        }
    }

    fn lifeline_event(&mut self, at: Time, who: NodeId, mark: char, verb: &str, life: Life) {
        let column = self.column(who);
        self.local_event(at, who, mark, format!("{who} {verb}"));
        self.lives[column] = life;
    }

    fn rule(&mut self, at: Time, note: String) {
        self.row(at, Shape::Rule, Topic::Other, Some(note));
    }

    /// The heading, the lines with their times, and the legend of the marks.
    pub(crate) fn lines(&self) -> (String, Vec<(Time, String)>, String) {
        let mut rows: Vec<Row> = Vec::new();
        for row in &self.rows {
            let last = rows.last_mut().filter(|last| last.at == row.at);
            if !last.is_some_and(|last| last.topic.merge(&row.topic)) {
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

    /// The whole diagram. Empty without events.
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
            TraceEvent::Sent { from, .. } | TraceEvent::Multicast { from, .. } => {
                self.draw_expired_timer(at, from)
            }
            TraceEvent::Delivered { from, to, message } => self.arrow(at, from, to, message, None),
            TraceEvent::Dropped { from, to, message, reason: why, .. } => {
                self.draw_expired_timer(at, from);
                self.arrow(at, from, to, message, Some(why));
            }
            TraceEvent::Expired { who, timer } => self.expired = Some((at, who, format!("{timer:?}"))),
            TraceEvent::Announced { who, announcement } => {
                if let Some(change) = self.beliefs.announce(who, announcement) {
                    self.on_belief_change(at, who, change);
                }
            }
            TraceEvent::Commanded { who, command: "campaign" } => {
                self.shared_event(at, who, '●', Topic::Campaigns(Vec::new()));
            }
            TraceEvent::Commanded { who, command } => {
                self.local_event(at, who, '●', format!("{who} is told {}", text::request(command)));
            }
            TraceEvent::Suspected { who, peer } => {
                self.shared_event(at, who, '?', Topic::Suspects(vec![peer], Vec::new()));
            }
            TraceEvent::Restored { who, peer } => {
                self.shared_event(at, who, '!', Topic::Restores(vec![peer], Vec::new()))
            }
            TraceEvent::Crashed { who } => {
                self.beliefs.crash(who);
                self.lifeline_event(at, who, '✗', "crashes", Life::Down);
            }
            TraceEvent::Recovered { who } => {
                self.beliefs.recover(who);
                self.lifeline_event(at, who, '◇', "recovers", Life::Up);
            }
            TraceEvent::Paused { who } => self.lifeline_event(at, who, '‖', "pauses", Life::Paused),
            TraceEvent::Resumed { who } => self.lifeline_event(at, who, '◇', "resumes", Life::Up),
            TraceEvent::Jumped { who, by, back } => {
                let direction = if back { "back" } else { "ahead" };
                self.local_event(at, who, '↷', format!("{who}'s clock jumps {direction} by {by}"));
            }
            TraceEvent::Ranked { who, .. } => self.local_event(at, who, '±', format!("{who}'s rank changes")),
            TraceEvent::Leased { .. } | TraceEvent::Conditions { .. } | TraceEvent::Violated { .. } => {}
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
                self.rule(at, "all faults end".to_string());
            }
        }
    }
}

impl Topic {
    /// Whether both are the same event of different processes.
    fn same(&self, other: &Topic) -> bool {
        match (self, other) {
            (Topic::Campaigns(_), Topic::Campaigns(_)) => true,
            (Topic::Suspects(peers, _), Topic::Suspects(others, _))
            | (Topic::Restores(peers, _), Topic::Restores(others, _)) => peers == others,
            _ => false,
        }
    }

    /// Adds the peers of the next topic if the same processes suspect or restore them. Returns whether the topics
    /// were merged.
    fn merge(&mut self, next: &Topic) -> bool {
        match (self, next) {
            (Topic::Suspects(peers, all), Topic::Suspects(more, same))
            | (Topic::Restores(peers, all), Topic::Restores(more, same))
                if all == same =>
            {
                peers.extend(more);
                true
            }
            _ => false,
        }
    }

    fn add(&mut self, who: NodeId) {
        if let Topic::Campaigns(all) | Topic::Suspects(_, all) | Topic::Restores(_, all) = self {
            all.push(who);
        }
    }

    /// Whether the row is about this process alone.
    fn concerns(&self, who: NodeId) -> bool {
        match self {
            Topic::Delivery(to) | Topic::Local(to) => *to == who,
            Topic::Campaigns(all) => all == &[who],
            _ => false,
        }
    }
}

impl Row {
    fn note(&self) -> String {
        let sentence = |all: &[NodeId], one: &str, many: &str| {
            let verb = if all.len() == 1 { one } else { many };
            format!("{} {verb}", text::ids(all.iter().copied()))
        };
        let topic = match &self.topic {
            Topic::Campaigns(all) => Some(sentence(all, "calls an election", "call elections")),
            Topic::Suspects(peers, all) => {
                let peers = text::ids(peers.iter().copied());
                Some(format!("{} {peers}", sentence(all, "suspects", "suspect")))
            }
            Topic::Restores(peers, all) => {
                let peers = text::ids(peers.iter().copied());
                Some(format!("{} {peers}", sentence(all, "no longer suspects", "no longer suspect")))
            }
            Topic::Crashed(all) => {
                Some(sentence(all, "is crashed from the start", "are crashed from the start"))
            }
            Topic::Delivery(_) | Topic::Local(_) | Topic::Other => None,
        };
        topic.into_iter().chain(self.notes.iter().cloned()).collect::<Vec<_>>().join("; ")
    }
}
