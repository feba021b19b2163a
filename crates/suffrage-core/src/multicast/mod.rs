//! Multicasts as layers below an algorithm: what it gives to
//! [`Context::multicast`](crate::Context::multicast) is brought to everybody in another way.

pub mod bimodal;
