//! Vector clocks: which events of which processes may have influenced an event.

use std::collections::BTreeMap;

use suffrage_core::NodeId;

use super::{EventName, Line};

/// A vector clock: for each process, the number of its events that are known.
pub(crate) type VectorClock = BTreeMap<NodeId, u64>;

/// The vector clocks of all processes, and of the messages in flight.
#[derive(Debug, Default)]
pub(super) struct VectorClocks {
    processes: BTreeMap<NodeId, VectorClock>,
    messages: BTreeMap<u64, VectorClock>,
}

impl VectorClocks {
    /// Counts an event. Returns the clock of its process after it; `None` for events of the network.
    pub(super) fn advance(&mut self, line: &Line) -> Option<&VectorClock> {
        let Some(process) = line.process() else {
            // A message that is dropped on its way influences nothing.
            if let (EventName::Dropped, Some(message)) = (line.event, line.message) {
                self.messages.remove(&message);
            }
            return None;
        };
        let clock = self.processes.entry(process).or_default();
        *clock.entry(process).or_default() += 1;
        match (line.event, line.message) {
            (EventName::Sent | EventName::Multicast, Some(message)) => {
                self.messages.insert(message, clock.clone());
            }
            (EventName::Delivered, Some(message)) => {
                // A multicast without copies of its own reaches several processes.
                let known = match line.multicast {
                    Some(multicast) if multicast == message => self.messages.get(&message).cloned(),
                    _ => self.messages.remove(&message),
                };
                for (other, count) in known.unwrap_or_default() {
                    let entry = clock.entry(other).or_default();
                    *entry = count.max(*entry);
                }
            }
            _ => {}
        }
        Some(clock)
    }
}
