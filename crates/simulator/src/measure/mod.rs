//! Measuring what stands in front of algorithms: detectors and multicasts, by themselves.

mod delivery;
mod detection;

pub use delivery::{Delivery, DeliveryTrial};
pub use detection::{Detection, DetectionTrial, Noticed};
