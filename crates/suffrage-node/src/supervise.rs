//! Commands that must have ended by a given moment, whatever happens to whoever started them.
//!
//! ```text
//!   the program ──Ward──▶ guard ──▶ command ──▶ its children, and theirs
//!     lease, signal, stop ──▶        a process group of its own
//!     ◀── started, ended
//! ```
//!
//! The program has a [`Ward`]. Behind it a *guard* runs: this very program, called again, in a session of its
//! own. The guard starts the command and knows until when it may run, by the clock that goes on while the
//! machine sleeps. If it is not told of a later moment in time, it stops the command by itself: the stop signal
//! to the group, and after the grace SIGKILL to all that is left.
//!
//! What that covers (on Linux):
//!
//! - The program is killed: the guard sees the end of its connection, and stops the command at once.
//! - The program is stopped (SIGSTOP, Ctrl-Z, a debugger): the guard is in another session, and goes on.
//! - The command leaves children behind, or they make sessions of their own to be daemons: the guard adopts them
//!   (PR_SET_CHILD_SUBREAPER), and has not ended before the last of them is gone.
//! - The guard is killed: the command is, too (PR_SET_PDEATHSIG), and the program kills the rest of its session.
//!   What has left that session before is not found any more.
//! - The guard is stopped: the program kills all below it when the time is over ([`Ward::force`]).
//!
//! What it cannot: if everything is frozen at once and thawed later, the command may run for as long as the
//! guard takes to be scheduled; and what the kernel does not let die (state D) lives on. The fencing token is
//! for that.
//!
//! A program that uses this hands over to [`main`] when its first argument is [`ENTRY`].

mod guard;
mod tree;
mod ward;

pub use self::guard::main;
pub use self::ward::{Ended, Limits, Spec, Ward};

/// The first argument of a program that is called to be a guard, or to become a command.
pub const ENTRY: &str = "run-guard";
