//! A node that is started on a full disk: it waits for space, and reports that as a running node does.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::{error, info};

use super::credentials::Credentials;
use super::{Http, http, listen, notify};
use suffrage_node::Error;
use suffrage_node::config::Config;

/// The time between two attempts.
const RETRY: Duration = Duration::from_secs(1);

/// The suspension of a node that cannot start yet. Dropping it ends its HTTP server.
pub(super) struct Suspension {
    failure: watch::Sender<String>,
    http: Option<(Http, std::net::TcpListener)>,
}

impl Suspension {
    /// Begins the suspension if it has not begun, reports the failure, and waits until the next attempt.
    pub(super) async fn retry(
        suspension: &mut Option<Suspension>,
        config: &Config,
        credentials: &Credentials,
        failure: String,
    ) -> Result<(), Error> {
        match suspension {
            None => {
                error!("this node is suspended until it can save its state: {failure}");
                *suspension = Some(Suspension::begin(config, credentials, failure.clone()).await?);
            }
            Some(suspension) => _ = suspension.failure.send_replace(failure.clone()),
        }
        // The service manager neither gives the start up nor takes the node for started.
        notify::notify(&format!("EXTEND_TIMEOUT_USEC=30000000\nSTATUS=cannot save: {failure}"));
        tokio::time::sleep(RETRY).await;
        Ok(())
    }

    async fn begin(config: &Config, credentials: &Credentials, failure: String) -> Result<Suspension, Error> {
        let (failure, known) = watch::channel(failure);
        let Some(listener) = listen(config).await? else { return Ok(Suspension { failure, http: None }) };
        let failed = |source| Error::System { doing: "serve HTTP".to_string(), source };
        // Two handles to one socket: no connection is refused when the node starts.
        let kept = listener.into_std().map_err(failed)?;
        let listener = kept.try_clone().and_then(TcpListener::from_std).map_err(failed)?;
        let (credentials, in_use) = watch::channel(Arc::new(credentials.clone()));
        let api = http::Api::suspended(known, in_use);
        let http = Http::start(listener, credentials, api)?;
        Ok(Suspension { failure, http: Some((http, kept)) })
    }

    /// Ends the suspension, and returns the listener of HTTP.
    pub(super) async fn end(self) -> Result<Option<TcpListener>, Error> {
        info!("the state is saved: this node continues");
        notify::notify("STATUS=");
        let Some((http, kept)) = self.http else { return Ok(None) };
        http.stop().await;
        let failed = |source| Error::System { doing: "serve HTTP".to_string(), source };
        TcpListener::from_std(kept).map(Some).map_err(failed)
    }
}
