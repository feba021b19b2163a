//! A node of the cluster that the flags name.

use suffrage::{Keyring, Node, NodeBuilder};
use suffrage_cli::Error;
pub(crate) use suffrage_cli::cluster::{file, flags, read};
use suffrage_node::config::Config;

/// A node of that cluster, with its keys and members.
pub(crate) fn builder(config: &Config) -> Result<NodeBuilder, Error> {
    let keyring = Keyring::load(&config.keys).map_err(|error| Error::flag("keys", error.to_string()))?;
    let span = |span: suffrage_core::Span| std::time::Duration::from_nanos(span.as_nanos());
    let mut builder = Node::builder(config.id)
        .key(keyring)
        .delay(span(config.delay))
        .drift(config.drift.fraction())
        .longest_ttl(span(config.longest_ttl));
    for voter in &config.voters {
        let address = voter.resolve().map_err(|reason| Error::flag("cluster", reason))?;
        builder = builder.member(voter.id, address);
        // A candidate elsewhere is not reached at loopback, and one here only needs that.
        if !config.votes() && config.listen.is_none() {
            let any: std::net::IpAddr = match address.ip() {
                ip if ip.is_loopback() => ip,
                std::net::IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
                std::net::IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
            };
            builder = builder.listen((any, 0).into());
        }
    }
    Ok(match config.listen {
        Some(listen) => builder.listen(listen),
        None => builder,
    })
}
