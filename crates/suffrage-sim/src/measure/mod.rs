//! Measuring parts by themselves: detectors, multicasts, and how soon a lease finds its next holder.

mod delivery;
mod detection;
mod failover;

pub use delivery::{Delivery, DeliveryTrial};
pub use detection::{Detection, DetectionTime, DetectionTrial};
pub use failover::{Failover, FailoverCause, FailoverTrial};
