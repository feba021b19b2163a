//! Multicast protocols as layers below an algorithm. A layer delivers the messages of
//! [`Context::multicast`](crate::Context::multicast) to all members by a protocol of its own.

pub mod bimodal;
