//! The version of a candidate's value, which its proposals carry.

use suffrage_core::Time;

use super::{Candidate, Round};
use crate::value::ValueVersion;

impl Candidate {
    /// The version of the candidate's value.
    pub fn value_version(&self) -> ValueVersion {
        self.value
    }

    /// The value of the candidate has changed. A leader renews early, so that voters learn of the new version.
    pub fn on_value_change(&mut self, now: Time) {
        self.value = self.value.next();
        self.renew_for_value(now);
    }

    /// If the last proposal carried an older version, moves the next renewal forward: one round after the last request, so
    /// that frequent changes do not make frequent renewals. While a proposal is under way, nothing changes until it has
    /// ended.
    pub(super) fn renew_for_value(&mut self, now: Time) {
        if self.lease.is_some() && self.told_value != self.value && self.round == Round::None {
            self.next = self.next.min(now.max(self.asked_at + self.timings.round));
        }
    }
}
