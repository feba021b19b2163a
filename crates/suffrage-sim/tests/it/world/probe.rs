//! A process that executes commands and logs its inputs.

use serde::{Deserialize, Serialize};
use suffrage_core::{
    Algorithm, Announcement, Choice, Command, Context, Contract, Cost, Detection, Electorate, Figure,
    Formula, Member, NodeId, Parameter, Process, Safety, Span, Start, Synchrony, Term, Time, Timer, Topology,
};

/// An action of a probe. Processes are named by id.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// Sends a message.
    Send(u64, u64),
    /// Sends a message that is not counted.
    SendUncounted(u64, u64),
    /// Multicasts a message.
    Multicast(u64),
    /// Sets an alarm, this number of units from now.
    Set(Alarm, f64),
    Cancel(Alarm),
    Save(u64),
    /// Sends a number, saves it, and sends the next number.
    SendSaveSend(u64, u64),
    /// Believes in a leader, in a term.
    Follow(u64, u64),
    StepDown,
    Undecide,
}

const OPERATION: u32 = 60;
const FIRST: u32 = 40;

impl Action {
    /// The action encoded as a command, since a world delivers only commands.
    pub(crate) fn command(self) -> Command {
        let nanos = |units| Span::from_units(units).as_nanos();
        let (operation, first, second): (u64, u64, u64) = match self {
            Action::Send(to, word) => (1, to, word),
            Action::SendUncounted(to, word) => (2, to, word),
            Action::Multicast(word) => (3, 0, word),
            Action::Set(alarm, after) => (4, alarm.0.into(), nanos(after)),
            Action::Cancel(alarm) => (5, alarm.0.into(), 0),
            Action::Save(value) => (6, 0, value),
            Action::Follow(leader, term) => (7, leader, term),
            Action::StepDown => (8, 0, 0),
            Action::Undecide => (9, 0, 0),
            Action::SendSaveSend(to, word) => (10, to, word),
        };
        assert!(first < 1 << (OPERATION - FIRST) && second < 1 << FIRST, "{self:?}");
        Command::Transfer(NodeId(operation << OPERATION | first << FIRST | second))
    }
}

/// Messages of probes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum ProbeMessage {
    TracedMessage(u64),
    Uncounted(u64),
}

suffrage_core::message_kinds!(ProbeMessage { TracedMessage, Uncounted: uncounted });

/// Even alarms share one timer, odd ones the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Alarm(pub(crate) u8);

impl Timer for Alarm {
    const COUNT: usize = 2;

    fn index(self) -> usize {
        usize::from(self.0 % 2)
    }
}

/// A process that executes commands and logs its inputs with the time of its own clock. It asserts that it is started
/// once, before all other inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Probe {
    started: bool,
    pub(crate) log: Vec<String>,
    /// The time of each line, by its own clock.
    pub(crate) times: Vec<Time>,
    pub(crate) delay_bound: Span,
    /// The multicast on a `campaign` command.
    campaign_message: Option<u64>,
}

impl Probe {
    fn write(&mut self, cx: &Context<'_, Self>, line: String) {
        assert!(self.started, "{line}: before the start");
        self.log.push(format!("{} {line}", cx.now()));
        self.times.push(cx.now());
    }
}

impl Process for Probe {
    type Message = ProbeMessage;
    type Timer = Alarm;
    type Saved = u64;
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<u64>) {
        assert!(!std::mem::replace(&mut self.started, true), "started twice");
        self.delay_bound = cx.delay_bound();
        let rank = cx.view().my_rank().attribute;
        match start {
            Start::Fresh => {}
            Start::Recovered(None) => self.write(cx, format!("recovered with nothing, ranks {rank}")),
            Start::Recovered(Some(value)) => self.write(cx, format!("recovered with {value}, ranks {rank}")),
        }
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: ProbeMessage) {
        match message {
            ProbeMessage::TracedMessage(word) => self.write(cx, format!("heard {word} from {from}")),
            ProbeMessage::Uncounted(word) => self.write(cx, format!("overheard {word} from {from}")),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Alarm) {
        self.write(cx, format!("alarm {}", timer.0));
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.write(cx, format!("suspects {peer}"));
    }

    fn on_restore(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        self.write(cx, format!("trusts {peer}"));
    }

    fn on_view_change(&mut self, cx: &mut Context<'_, Self>) {
        let best = cx
            .view()
            .iter()
            .max_by_key(|&id| cx.view().rank(id))
            .expect("a view contains the process itself");
        self.write(cx, format!("sees {best} as the best"));
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        let Command::Transfer(NodeId(action)) = command else {
            self.write(cx, format!("is told {command:?}"));
            if let Some(word) = self.campaign_message {
                cx.multicast(ProbeMessage::TracedMessage(word));
            }
            return;
        };
        let (first, second) =
            (action >> FIRST & ((1 << (OPERATION - FIRST)) - 1), action & ((1 << FIRST) - 1));
        let alarm = Alarm(first as u8);
        match action >> OPERATION {
            1 => cx.send(NodeId(first), ProbeMessage::TracedMessage(second)),
            2 => cx.send(NodeId(first), ProbeMessage::Uncounted(second)),
            3 => cx.multicast(ProbeMessage::TracedMessage(second)),
            4 => cx.set_timer(alarm, Span::from_nanos(second)),
            5 => cx.cancel_timer(alarm),
            6 => cx.save(second),
            7 => cx.announce(Announcement::Elected { leader: NodeId(first), term: Term(second) }),
            8 => cx.announce(Announcement::SteppedDown),
            9 => cx.announce(Announcement::Undecided),
            10 => {
                cx.send(NodeId(first), ProbeMessage::TracedMessage(second));
                cx.save(second);
                cx.send(NodeId(first), ProbeMessage::TracedMessage(second + 1));
            }
            other => panic!("no action has the number {other}"),
        }
    }
}

const FREE: Cost = Cost { best: Formula { text: "0", of: |_| 0 }, worst: Formula { text: "0", of: |_| 0 } };

impl Algorithm for Probe {
    const CONTRACT: Contract = Contract {
        name: "probe",
        summary: "Elects nobody.",
        source: "none",
        topology: Topology::Complete,
        synchrony: Synchrony::Asynchronous,
        knowledge: "nothing",
        tolerates: "everything",
        detection: Detection::Detector,
        electorate: Electorate::Anybody,
        needs_disk: false,
        retries: true,
        under_loss: &[],
        safety: Safety::Eventual,
        choice: Choice::Any,
        handover: false,
        messages: FREE,
        time: FREE,
        upkeep: &[],
    };

    /// The multicast on a `campaign` command.
    type Options = Option<u64>;

    const PARAMETERS: &'static [Parameter<Option<u64>>] = &[];

    fn new(_: NodeId, campaign_message: &Option<u64>) -> Probe {
        Probe { campaign_message: *campaign_message, ..Probe::default() }
    }

    fn figures(
        campaign_message: &Option<u64>,
        members: &mut dyn Iterator<Item = Member<'_, Probe>>,
    ) -> Vec<Figure> {
        let members: Vec<_> = members.collect();
        let lines = members.iter().map(|member| member.process.log.len()).sum::<usize>();
        let dead = members.iter().filter(|member| !member.up).map(|member| member.id.0).sum::<u64>();
        vec![
            Figure::share("campaign_message", campaign_message.is_some()),
            Figure::amount("lines", lines as f64),
            Figure::amount("dead", dead as f64),
        ]
    }
}
