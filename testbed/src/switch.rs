//! The switch: a thread that forwards all frames.

use std::io::{ErrorKind, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tappers::Tap;

use crate::fabric::Fabric;

/// The size of the buffer: longer than a frame with the default MTU.
const MAX_FRAME: usize = 2048;
/// The most frames of one host in a row, for fairness.
const BATCH: usize = 64;

/// A switch that runs until it is dropped. Its ports are the hosts, numbered from 1.
#[derive(Debug)]
pub(crate) struct Switch {
    fabric: Arc<Mutex<Fabric>>,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    pub(crate) fn start(taps: Vec<Tap>, seed: u64) -> Result<Switch> {
        let fabric = Arc::new(Mutex::new(Fabric::new(taps.len(), seed)));
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let (shared, stopped) = (Arc::clone(&fabric), stop.try_clone()?);
        let run = move || run(&taps, &shared, &stopped);
        let thread = thread::Builder::new().name("switch".to_string()).spawn(run)?;
        Ok(Switch { fabric, stop, thread: Some(thread) })
    }

    pub(crate) fn fabric(&self) -> MutexGuard<'_, Fabric> {
        lock(&self.fabric)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        _ = self.thread.take().map(JoinHandle::join);
    }
}

fn lock(fabric: &Mutex<Fabric>) -> MutexGuard<'_, Fabric> {
    fabric.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(taps: &[Tap], fabric: &Mutex<Fabric>, stop: &OwnedFd) {
    let start = Instant::now();
    let mut buffer = [0; MAX_FRAME];
    loop {
        let due = lock(fabric).next_due();
        if !wait(taps, stop, due.map(|due| due.saturating_sub(start.elapsed()))) {
            return;
        }
        for (host, tap) in (1..).zip(taps) {
            for _ in 0..BATCH {
                match tap.recv(&mut buffer) {
                    Ok(length) => lock(fabric).on_frame(start.elapsed(), host, &buffer[..length]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // No more frames, or the device was removed with its namespace.
                    Err(_) => break,
                }
            }
        }
        let mut fabric = lock(fabric);
        while let Some((to, frame)) = fabric.arrival(start.elapsed()) {
            // An error means that the device of the host is down: the frame is lost.
            _ = taps[to - 1].send(&frame);
        }
    }
}

/// Waits for a frame, at most for this time. Returns false if the switch must stop.
fn wait(taps: &[Tap], stop: &OwnedFd, span: Option<Duration>) -> bool {
    let span =
        span.map(|span| Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() });
    let mut polled: Vec<PollFd<'_>> = std::iter::once(stop.as_fd())
        .chain(taps.iter().map(AsFd::as_fd))
        .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
        .collect();
    // An error is an interruption: the caller polls again.
    _ = poll(&mut polled, span.as_ref());
    polled[0].revents().is_empty()
}
