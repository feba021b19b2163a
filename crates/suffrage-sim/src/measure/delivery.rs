//! Measures the share of processes that a multicast reaches.

use std::convert::Infallible;

use serde::{Deserialize, Serialize};
use suffrage_core::multicast::bimodal::Bimodal;
use suffrage_core::{Command, Context, NodeId, Process, Roster, Span, Start, Time};

use crate::{Fault, Latency, Multicast, World};

/// A world in which one process multicasts once.
#[derive(Clone, Debug)]
pub struct DeliveryTrial {
    /// The multicast service.
    pub multicast: Multicast,
    /// The number of processes.
    pub nodes: usize,
    /// The delay of messages.
    pub latency: Latency,
    /// The probability that a message is lost.
    pub loss: f64,
    /// The probability that the broadcast misses an addressee, if it differs.
    pub broadcast_loss: Option<f64>,
    /// True if the sender crashes after the broadcast.
    pub sender_crashes: bool,
    /// The seed of every random decision.
    pub seed: u64,
}

/// The result of a [`DeliveryTrial`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delivery {
    /// The number of processes that were reached, without the sender.
    pub reached: usize,
    /// The number as a fraction of all processes but the sender.
    pub fraction: f64,
    /// Messages to one addressee each, per process.
    pub messages: f64,
    /// The time of the last delivery, in time units. None if there was none.
    pub last: Option<f64>,
    /// The time of the last event, in time units: after the last round of gossip, even if it delivered nothing.
    pub quiet: f64,
}

impl DeliveryTrial {
    /// A trial in a network without faults.
    pub fn new(multicast: Multicast, nodes: usize) -> DeliveryTrial {
        DeliveryTrial {
            multicast,
            nodes,
            latency: Latency::Const(Span::UNIT),
            loss: 0.0,
            broadcast_loss: None,
            sender_crashes: false,
            seed: 0,
        }
    }

    /// Runs the trial.
    pub fn run(&self) -> Delivery {
        let options = match self.multicast {
            Multicast::Bimodal(options) => Some(options),
            Multicast::Broadcast | Multicast::Ideal(_) => None,
        };
        let make = move |_| Bimodal::new(options, MulticastOnCommand { received_at: None });
        let mut world = World::new(Roster::numbered(self.nodes), self.seed, self.latency, make);
        world.set_loss(self.loss);
        if let Multicast::Ideal(reached) = self.multicast {
            world.set_multicast_loss(1.0 - reached);
        }
        if let Some(loss) = self.broadcast_loss {
            world.set_multicast_loss(loss);
        }
        world.command(Time::ZERO, 0, Command::Campaign);
        if self.sender_crashes {
            world.schedule_fault(Time::ZERO, Fault::Crash(0));
        }
        world.run(Time::MAX);
        let received_at = || (1..self.nodes).filter_map(|slot| world.process(slot).algorithm().received_at);
        let reached = received_at().count();
        Delivery {
            reached,
            fraction: reached as f64 / (self.nodes as f64 - 1.0).max(1.0),
            messages: world.ledger().traffic().messages as f64 / self.nodes as f64,
            last: received_at().max().map(Time::as_units),
            quiet: world.now().as_units(),
        }
    }
}

/// A process that multicasts on command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MulticastOnCommand {
    received_at: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Payload;

suffrage_core::message_kinds!(Payload);

impl Process for MulticastOnCommand {
    type Message = Payload;
    type Timer = Infallible;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, _: &mut Context<'_, Self>, _: Start<()>) {}

    fn on_message(&mut self, cx: &mut Context<'_, Self>, _: NodeId, Payload: Payload) {
        self.received_at.get_or_insert(cx.now());
    }

    fn on_timer(&mut self, _: &mut Context<'_, Self>, timer: Infallible) {
        match timer {}
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, _: Command) {
        cx.multicast(Payload);
    }
}
