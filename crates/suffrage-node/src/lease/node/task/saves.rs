//! Writes to the disk.

use std::sync::atomic::Ordering;
use std::time::Duration;

use suffrage_core::Process as _;
use suffrage_lease::Saved;
use suffrage_net::Transport;
use tokio::task::{JoinError as TaskError, JoinHandle};

use super::super::{NOT_SAVING, NodeState};
use super::{Disk, Task};
use crate::Error;
use crate::clock::Clock;
use crate::lease::witness::DiskStamp;

/// The time between two attempts to save.
const RETRY: Duration = Duration::from_secs(1);

/// The disk after a write, and the result of the write.
pub(super) type Write = (Disk, Result<(), Error>);

impl<T: Transport, C: Clock> Task<T, C> {
    /// Saves the state that all other effects wait for, and retries until it succeeds. False if the node was stopped.
    pub(super) async fn save(&mut self) -> bool {
        let Some(saved) = self.out.save.take() else { return true };
        self.start_write(saved.clone());
        let written = finished(&mut self.write).await;
        self.repeat_write(&saved, written).await
    }

    /// Starts to write the state that is to be saved off the task, unless a write is under way.
    pub(super) fn start_next_write(&mut self) {
        if let Some(saved) = self.out.saves.writing().filter(|_| self.write.is_none()) {
            let saved = saved.clone();
            self.start_write(saved);
        }
    }

    fn start_write(&mut self, saved: Saved) {
        let Some(mut disk) = self.disk.take() else { return };
        // A repeated write began with the first attempt.
        if self.handles.saving_since.load(Ordering::Relaxed) == NOT_SAVING {
            self.handles.saving_since.store(self.clock.now().as_nanos(), Ordering::Relaxed);
        }
        self.write = Some(tokio::task::spawn_blocking(move || {
            // The mark follows the first saved state and precedes the first datagram.
            let written = disk.save(&saved).and_then(|()| disk.mark_started());
            (disk, written)
        }));
    }

    /// The write of a state that is saved off the task has ended: tells the engine. False if the node was stopped.
    pub(super) async fn on_written(&mut self, written: Result<Write, TaskError>) -> bool {
        let Some(saved) = self.out.saves.writing().cloned() else { return false };
        if !self.repeat_write(&saved, written).await {
            return false;
        }
        if let Some(saved) = self.out.saves.end() {
            let now = self.clock.now();
            self.input(now, |node, cx| node.on_saved(cx, saved));
        }
        true
    }

    /// Repeats the write of a state until it succeeds. While the disk refuses, the node does nothing else. False if the
    /// node was stopped.
    async fn repeat_write(&mut self, saved: &Saved, written: Result<Write, TaskError>) -> bool {
        let mut last = written;
        loop {
            let Ok((disk, written)) = last else { return false };
            // Before its first save a process has no saves of its own: the count is that of the process before.
            if let (Ok(()), Some(last), Some(voter)) =
                (&written, disk.saves(), self.node.engine().voter_state())
            {
                let first = self.out.disk.map_or(last, |stamp| stamp.first);
                self.out.disk = Some(DiskStamp { disk: voter.saved().disk, first, last });
            }
            self.disk = Some(disk);
            let state = match &written {
                Ok(()) => NodeState::Running,
                Err(error) => NodeState::StorageFailing(error.to_string()),
            };
            self.handles.state.send_if_modified(|known| {
                let changed = *known != state;
                *known = state;
                changed
            });
            if written.is_ok() {
                self.handles.saving_since.store(NOT_SAVING, Ordering::Relaxed);
                return true;
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                _ = self.handles.stopped.wait_for(|stop| *stop) => return false,
            }
            self.start_write(saved.clone());
            last = finished(&mut self.write).await;
        }
    }
}

/// The result of the write that is under way. Pending without one. Cancel-safe.
pub(super) async fn finished<W>(write: &mut Option<JoinHandle<W>>) -> Result<W, TaskError> {
    let Some(handle) = write else { return std::future::pending().await };
    let result = handle.await;
    *write = None;
    result
}
