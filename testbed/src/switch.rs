//! The thread that every frame goes through.

use std::io::{ErrorKind, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tappers::Tap;

use crate::fabric::Fabric;

/// Longer than any frame of a device whose MTU is the usual one.
const FRAME: usize = 2048;
/// How many frames of one host are taken in a row, so that others have their turn.
const TURN: usize = 64;

/// A switch that runs until it is dropped. Its ports are the hosts, from 1 on.
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
    let mut buffer = [0; FRAME];
    loop {
        let due = lock(fabric).next_due();
        if !wait(taps, stop, due.map(|due| due.saturating_sub(start.elapsed()))) {
            return;
        }
        for (host, tap) in (1..).zip(taps) {
            for _ in 0..TURN {
                match tap.recv(&mut buffer) {
                    Ok(length) => lock(fabric).on_frame(start.elapsed(), host, &buffer[..length]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // Nothing more, or a device that is gone with its namespace.
                    Err(_) => break,
                }
            }
        }
        let mut fabric = lock(fabric);
        while let Some((to, frame)) = fabric.arrival(start.elapsed()) {
            // A host whose device is not up hears nothing.
            _ = taps[to - 1].send(&frame);
        }
    }
}

/// Waits until a frame comes, or for so long. False if it is to stop.
fn wait(taps: &[Tap], stop: &OwnedFd, span: Option<Duration>) -> bool {
    let span =
        span.map(|span| Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() });
    let mut waited: Vec<PollFd<'_>> = std::iter::once(stop.as_fd())
        .chain(taps.iter().map(AsFd::as_fd))
        .map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN))
        .collect();
    // An error is an interruption: it looks again.
    _ = poll(&mut waited, span.as_ref());
    waited[0].revents().is_empty()
}
