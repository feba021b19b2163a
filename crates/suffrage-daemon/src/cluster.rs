//! The flags and the file that name a cluster.

use suffrage::NodeBuilder;
use suffrage_cli::Error;
pub(crate) use suffrage_cli::cluster::{file, flags, read};
use suffrage_node::config::Config;

/// A node of the configured cluster.
pub(crate) fn builder(config: &Config) -> Result<NodeBuilder, Error> {
    NodeBuilder::from_config(config).map_err(|error| Error::Usage(error.to_string()))
}
