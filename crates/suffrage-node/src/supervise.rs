//! Commands that must have ended by a given moment, whatever happens to the program that started them.
//!
//! ```text
//!   the program ──GuardHandle──▶ guard ──▶ command ──▶ its descendants
//!     lease, signal, stop ──▶        a process group of its own
//!     ◀── started, ended
//! ```
//!
//! The program holds a [`GuardHandle`]. Behind it runs a *guard*: the same executable, started again in a session of
//! its own. The guard starts the command and knows its deadline by [`BootClock`](crate::clock::BootClock), which
//! includes suspend. If the deadline is not extended in time, the guard stops the command: the stop signal to the
//! process group, and after the grace SIGKILL to every process that is left.
//!
//! What that covers (on Linux):
//!
//! - The program is killed: the guard sees the end of its connection, and stops the command at once.
//! - The program is stopped (SIGSTOP, Ctrl-Z, a debugger): the guard is in another session, and continues.
//! - The command leaves children behind, or they make sessions of their own to be daemons: the guard adopts them
//!   (PR_SET_CHILD_SUBREAPER), and has not ended before the last of them is gone.
//! - The guard is killed: the kernel kills the command (PR_SET_PDEATHSIG), and the program kills the rest of the
//!   guard's session. Processes that left that session before are found if the program adopts them
//!   ([`Spec::adopt_orphans`]), as `suffrage run` does.
//! - The guard is stopped: the program kills all its descendants when the deadline has passed
//!   ([`GuardHandle::force`]).
//!
//! Not covered: if program, guard and command are frozen at once and thawed later, the command runs until the guard
//! is scheduled; a process in uninterruptible sleep (state D) cannot be killed; if program and guard are killed at once,
//! or the guard is killed while the program is stopped, only the command itself is killed. Fencing tokens protect against
//! all of these. A service manager that ends a service as a whole (systemd, containers) protects against the last.
//!
//! A program that uses this hands over to [`main`] when its first argument is [`ENTRY`].

mod guard;
mod guard_handle;
mod tree;

pub use self::guard::main;
pub use self::guard_handle::{CommandExit, GuardHandle, Limits, Spec};

/// The first argument of a program that is called to be a guard, or to become a command.
pub const ENTRY: &str = "run-guard";
