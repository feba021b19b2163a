//! Elections on real servers.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "starts servers")]

#[cfg(any(feature = "nats", feature = "zookeeper"))]
mod certificates;
mod conformance;
#[cfg(feature = "consul")]
mod consul;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "kubernetes-server-tests")]
mod kubernetes;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod support;
#[cfg(feature = "zookeeper")]
mod zookeeper;
