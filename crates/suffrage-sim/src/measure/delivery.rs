//! How many processes a multicast reaches.

use std::convert::Infallible;

use serde::{Deserialize, Serialize};
use suffrage_core::multicast::bimodal::Bimodal;
use suffrage_core::{Command, Context, NodeId, Process, Roster, Span, Start, Time};

use crate::{Fault, Latency, Multicast, World};

/// A world in which one process multicasts once.
#[derive(Clone, Debug)]
pub struct DeliveryTrial {
    /// How.
    pub multicast: Multicast,
    /// How many processes.
    pub nodes: usize,
    /// How long messages take.
    pub latency: Latency,
    /// How likely a message is lost.
    pub loss: f64,
    /// How likely the broadcast misses an addressee, if that differs.
    pub broadcast_loss: Option<f64>,
    /// Whether the sender dies when it has sent the broadcast.
    pub sender_crashes: bool,
    /// Decides everything that is left to chance.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delivery {
    /// How many were reached, of all but the sender.
    pub reached: usize,
    /// The same as a fraction.
    pub fraction: f64,
    /// Messages to one addressee each, per process.
    pub messages: f64,
    /// When the last of those that were reached was, in time units. None if nobody was.
    pub last: Option<f64>,
    /// When all was quiet, in time units: after the last round of gossip, though nobody may have learnt
    /// anything from it.
    pub quiet: f64,
}

impl DeliveryTrial {
    /// In a flawless network.
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

    /// Runs it.
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

/// Multicasts on command.
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
