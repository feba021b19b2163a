//! Measures parts by themselves: detectors, multicasts, and the fail-over of a lease.

mod delivery;
mod detection;
mod failover;

pub use delivery::{Delivery, DeliveryTrial};
pub use detection::{Detection, DetectionTime, DetectionTrial};
pub use failover::{Failover, FailoverCause, FailoverTrial};
