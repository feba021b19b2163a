//! Writes to the disk, and disks that went back.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use suffrage_core::{NodeId, Process as _};
use suffrage_lease::{Header, Saved};
use suffrage_net::Transport;
use tokio::task::{JoinError as TaskError, JoinHandle};

use super::super::{NOT_SAVING, NodeState};
use super::{Disk, Task};
use crate::Error;
use crate::clock::Clock;
use crate::lease::output::Content;
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

    /// Whether the sender is a voter whose disk went back, so that its messages do not count. Tells it so.
    pub(super) fn is_outdated(
        &mut self,
        from: NodeId,
        Content { header, disk, outdated, .. }: &Content,
    ) -> bool {
        if let (Some(evidence), Some(own)) = (outdated, self.out.disk) {
            self.outdated |= evidence.convicts(own, self.engine().boot());
        }
        if let Some(evidence) = disk.and_then(|stamp| self.witness.note(from, header.boot, stamp)) {
            let (boot, stamp) = (self.engine().boot(), self.engine().configuration().stamp());
            self.out.tell_outdated(Header { boot, stamp }, from, evidence);
        }
        self.witness.is_outdated(from, header.boot)
    }

    /// Sets the state of the voter aside, so that the node does not vote when it is started again. Returns the reason.
    pub(super) async fn set_aside(&mut self) -> io::Error {
        if self.write.is_some()
            && let Ok((disk, _)) = finished(&mut self.write).await
        {
            self.disk = Some(disk);
        }
        let Some(mut disk) = self.disk.take() else { return io::Error::other(Error::OutdatedState) };
        match tokio::task::spawn_blocking(move || disk.set_aside()).await {
            Ok(Err(error)) => io::Error::other(format!("{}, which failed: {error}", Error::OutdatedState)),
            Ok(Ok(())) | Err(_) => io::Error::other(Error::OutdatedState),
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
