//! The secrets of a running daemon, which an operator replaces without a restart.

use std::sync::Arc;

use suffrage_net::Keyring;
use tokio::sync::watch;
use tracing::{error, info};

use suffrage_node::Error;
use suffrage_node::config::Config;

use super::credentials::Credentials;

/// The keys, the HTTP token and the certificate of a node or of a member of a group. Each is read from the file that the configuration names.
#[derive(Clone)]
pub struct Secrets {
    pub(super) config: Config,
    /// Puts new keys into use.
    pub(super) rekey: Arc<dyn Fn(&Keyring) + Send + Sync>,
    pub(super) credentials: Option<watch::Sender<Arc<Credentials>>>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// Reloads the keys. If the key file cannot be read, the old keys stay in use.
    pub fn rekey(&self) -> Result<(), Error> {
        let keyring = Keyring::load(&self.config.keys)?;
        (self.rekey)(&keyring);
        let keys: Vec<String> = keyring.keys().iter().map(|key| key.id().to_string()).collect();
        info!(keys = keys.join(" "), "keys reloaded; the first key seals");
        Ok(())
    }

    /// Reloads the HTTP token. If the file cannot be read, the old token stays in use.
    pub fn reload_token(&self) -> Result<(), Error> {
        let Some(in_use) = self.credentials.as_ref().filter(|_| self.config.http_token.is_some()) else {
            return Ok(());
        };
        let token = Credentials::load_token(&self.config)?;
        in_use.send_modify(|in_use| *in_use = Arc::new(Credentials { token, ..(**in_use).clone() }));
        info!("HTTP token reloaded");
        Ok(())
    }

    /// Reloads the HTTP certificate. If the file cannot be read or the certificate is not valid now, the old certificate
    /// stays in use.
    pub fn reload_certificate(&self) -> Result<(), Error> {
        let Some(in_use) = self.credentials.as_ref().filter(|_| self.config.http_cert.is_some()) else {
            return Ok(());
        };
        let certificate = Credentials::load_certificate(&self.config)?;
        Credentials { token: None, certificate: certificate.clone() }.check(&self.config)?;
        in_use.send_modify(|in_use| *in_use = Arc::new(Credentials { certificate, ..(**in_use).clone() }));
        info!("HTTP certificate reloaded");
        Ok(())
    }

    /// Reloads keys, token and certificate. Each failure is logged and does not affect the others.
    pub(super) fn reload(&self) {
        if let Err(error) = self.rekey() {
            error!("the old keys stay in use: {error}");
        }
        if let Err(error) = self.reload_token() {
            error!("the old HTTP token stays in use: {error}");
        }
        if let Err(error) = self.reload_certificate() {
            error!("the old HTTP certificate stays in use: {error}");
        }
    }
}
