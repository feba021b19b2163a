//! Sessions by connection: a client on the node's own machine leads for as long as its connection stays open.
//!
//! ```text
//!   client ──Hold──▶ node            the node campaigns, renews, and tells the client each ConnectionState:
//!          ◀─Waiting─┤               its place in the queue,
//!          ◀─Leading─┤               the token and the deadline; again with each renewal of the node's lease,
//!          ◀─Leading─┤ hand_over     a request to stop within the last deadline,
//!          ◀──Ended──┤               the end
//!   kernel ─on_connection_end─▶ node
//! ```
//!
//! The client renews nothing. The session ends when the connection ends, when the client resigns, when the lease is
//! handed over, or with the node's lease.
//!
//! **The contract of a client.** Its leadership ends when its connection closes, when its process exits, or when the
//! deadline passes, whichever is first. The client is the *process that opened the connection*: a child that has
//! inherited the socket is not, and must stop its work with that process.
//!
//! **Two ends of a connection** ([`ConnectionEnd`]).
//!
//! - [`HolderGone`](ConnectionEnd::HolderGone): the kernel says that the process has exited, or that the client has closed
//!   its end in both directions. The client has ceased to lead before, by its own act or by its death. Nobody relies on
//!   the lease, and the node releases it at once. There is no deadline to wait for.
//! - [`Broken`](ConnectionEnd::Broken): the node's end is gone, and the client's may not be: the task of the connection
//!   has failed, or a write. That proves nothing about the client. The client may not have noticed yet, so the node
//!   keeps the lease until the last deadline that the client was told, and promises nothing more.
//!
//! A *half-closed* connection is not an end. A client that calls `shutdown(SHUT_WR)` may only mean that its request is
//! complete, and reads on: it still leads by the contract. Only a connection that is closed in both directions, in which
//! the client cannot read any more, is the client's own act of giving up. A driver that cannot tell the two apart must
//! report `Broken`.
//!
//! A *stopped* process (SIGSTOP, a debugger) is alive: the node goes on to renew. The client's deadline may pass while it
//! is stopped; later deadlines wait in its socket. The node has held the lease all the time, so that the client leads on.
//!
//! If the node dies, the connections close, and clients cease to lead when they notice or at their deadlines. The next
//! leader comes after the lease of the dead node, whose end is not before any deadline. If the node is paused, clients are
//! not told later deadlines: the same.
//!
//! **The deadline.** The node's lease ends when the node's clock shows `until`. The client's deadline must not be later.
//! Client and node are on one machine, so the deadline is a moment of a clock that both can read: see [`deadline_by`].
//! The client needs no rule about the moment before the request.

use serde::{Deserialize, Serialize};
use suffrage_core::{Span, Time};

use super::{ClientLease, SessionId};
use crate::Bug;

/// How a connection has ended, as its driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionEnd {
    /// The process of the client has exited, or has closed the connection in both directions.
    HolderGone,
    /// The node's end of the connection is gone. The client may live, and may rely on its lease.
    Broken,
}

/// The reason why a session by connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LossReason {
    /// The client has resigned.
    Resigned,
    /// The node was asked to hand over, and the client has not stopped in time.
    HandedOver,
    /// The node could not renew its lease in time.
    Expired,
}

/// The state of a session by connection. The client is told every change; a later state replaces an earlier one that the
/// client has not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConnectionState {
    /// The client waits.
    Waiting {
        /// How many clients are served before this one.
        queue_position: usize,
    },
    /// The client leads.
    Leading {
        /// The client's session, with which it can resign.
        session: SessionId,
        /// The fencing token.
        token: u64,
        /// The end of the lease, by the node's clock. It moves with each renewal.
        until: Time,
        /// Whether the client is asked to stop. `until` does not move any more then.
        hand_over: bool,
    },
    /// The client neither leads nor waits. This is the last state.
    Ended(LossReason),
}

/// One part of this many is taken off the time that is left, when it is measured by a clock that time daemons slew.
const SLEW_MARGIN: u64 = 8;

/// The deadline by another clock of the machine, which shows `other_now` now or has shown it just before, for a lease
/// that ends when the node's clock shows `until`.
///
/// A client can read CLOCK_BOOTTIME, which time daemons slew: the kernel lets them change its rate by up to 10%. The node
/// measures leases by a clock that they do not slew. Let `r` be the time that is left by the node's clock. If the other
/// clock is slow by a tenth, it takes `x / 0.9` of the node's clock to advance by `x`, so `x <= 0.9 r` is needed. Seven
/// eighths are less. The next renewal tells a new deadline, so that the difference does not add up.
///
/// `other_now` must be read first: time that passes before `now` is read only shortens the deadline.
pub fn deadline_by(other_now: Time, now: Time, until: Time, bug: Option<Bug>) -> Time {
    let left = until.since(now).as_nanos();
    let margin = if bug == Some(Bug::IgnoreSlew) { 0 } else { left.div_ceil(SLEW_MARGIN) };
    other_now + Span::from_nanos(left - margin)
}

/// The belief of a client by connection. Simulated clients and the library run it.
///
/// Inputs: [`on_leading`](ConnectionClient::on_leading) for every deadline that the node tells, and
/// [`on_end`](ConnectionClient::on_end) when the connection has closed or the node says that the session has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConnectionClient {
    lease: Option<ClientLease>,
}

/// The clock of the node is not the clock of the client: they are on different machines, or in different time namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherClock;

impl ConnectionClient {
    /// The node says that the client leads with this token until this deadline. The node's reading of the client's
    /// clock, `told`, was before `now`. If it is later, the two do not read the same clock, and the client must not lead:
    /// its clock would reach the deadline too late. A clock that is ahead of the node's only shortens the lease.
    ///
    /// Returns the lease; none if the client did not lead and the deadline has passed.
    pub fn on_leading(
        &mut self,
        now: Time,
        told: Time,
        token: u64,
        deadline: Time,
    ) -> Result<Option<ClientLease>, OtherClock> {
        if told > now {
            self.lease = None;
            return Err(OtherClock);
        }
        if self.lease.is_some() || now < deadline {
            let until = self.lease.map_or(deadline, |lease| lease.until.max(deadline));
            self.lease = Some(ClientLease { token, until });
        }
        Ok(self.lease)
    }

    /// The connection has closed, or the session has ended.
    pub fn on_end(&mut self) {
        self.lease = None;
    }

    /// The lease of the client. The caller must compare `until` with the clock.
    pub fn lease(&self) -> Option<ClientLease> {
        self.lease
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// A clock that is slewed by a tenth shows the deadline before the node's clock shows the end of the lease.
    #[test]
    fn a_deadline_by_a_slewed_clock_is_before_the_end_of_the_lease() {
        for slew in [0.9, 0.95, 1.0, 1.05, 1.1] {
            for left in [1, 7, 8, 9, 1_000, 3_000_000_000] {
                let (other_now, now) = (at(5), at(90));
                let until = now + Span::from_nanos(left);
                let deadline = deadline_by(other_now, now, until, None);
                let takes = deadline.since(other_now).as_nanos() as f64 / slew;
                assert!(takes <= left as f64, "slew {slew}, left {left}: {takes}");
            }
        }
        assert_eq!(deadline_by(at(5), at(90), at(170), None), at(75));
        assert_eq!(deadline_by(at(5), at(90), at(90), None), at(5));
        assert_eq!(deadline_by(at(5), at(90), at(80), None), at(5), "the lease is over");
        assert_eq!(deadline_by(at(5), at(90), at(170), Some(Bug::IgnoreSlew)), at(85));
    }

    #[test]
    fn a_client_leads_until_the_latest_deadline_or_the_end_of_the_connection() {
        let mut client = ConnectionClient::default();
        assert_eq!(client.lease(), None);
        client.on_leading(at(10), at(9), 7, at(100)).unwrap();
        assert_eq!(client.lease(), Some(ClientLease { token: 7, until: at(100) }));
        client.on_leading(at(20), at(19), 7, at(90)).unwrap();
        assert_eq!(client.lease().unwrap().until, at(100), "the node keeps its promises");
        client.on_leading(at(120), at(119), 7, at(200)).unwrap();
        assert_eq!(client.lease().unwrap().until, at(200), "the node has held the lease all the time");
        client.on_end();
        assert_eq!(client.lease(), None);
    }

    #[test]
    fn a_client_whose_clock_is_behind_the_nodes_does_not_lead() {
        let mut client = ConnectionClient::default();
        assert_eq!(client.on_leading(at(10), at(11), 7, at(100)), Err(OtherClock));
        assert_eq!(client.lease(), None);
        assert_eq!(client.on_leading(at(11), at(11), 7, at(11)), Ok(None), "the lease is over");
        assert!(client.on_leading(at(11), at(11), 7, at(100)).is_ok());
    }
}
