//! Connections to servers, with and without TLS.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Error;

/// The certificates that systems trust, where distributions have them.
const SYSTEM_CERTIFICATES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// A certificate chain of this client, and its key.
pub(crate) type ClientCertificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The settings of TLS: the trusted certificates of a file, or those of the system, and a certificate of this client.
pub(crate) fn tls_config(
    authorities: Option<&Path>,
    certificate: Option<(&Path, &Path)>,
) -> Result<Arc<ClientConfig>, Error> {
    let authorities = trusted_certificates(authorities)?;
    let certificate = match certificate {
        None => None,
        Some((path, key_path)) => {
            let key = PrivateKeyDer::from_pem_file(key_path)
                .map_err(|error| Error::InvalidUrl(format!("{}: {error}", key_path.display())))?;
            Some((certificates(path)?, key))
        }
    };
    tls_config_of(authorities, certificate)
}

/// The settings of TLS, of certificates that were read before.
pub(crate) fn tls_config_of(
    authorities: Vec<CertificateDer<'static>>,
    certificate: Option<ClientCertificate>,
) -> Result<Arc<ClientConfig>, Error> {
    let roots = roots_of(authorities)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder =
        builder.map_err(|error| Error::InvalidUrl(error.to_string()))?.with_root_certificates(roots);
    let config = match certificate {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| Error::InvalidUrl(format!("the certificate of the client: {error}")))?,
    };
    Ok(Arc::new(config))
}

/// The certificates that this system trusts.
pub(crate) fn system_certificates() -> Result<Vec<CertificateDer<'static>>, Error> {
    let set = std::env::var_os("SSL_CERT_FILE").map(Into::into);
    let path = set.or_else(|| {
        SYSTEM_CERTIFICATES.iter().map(Into::into).find(|path: &std::path::PathBuf| path.exists())
    });
    let missing = || Error::InvalidUrl("this system has no trusted certificates: name a file".to_string());
    certificates(&path.ok_or_else(missing)?)
}

/// The trusted certificates of a file, or those of the system.
fn trusted_certificates(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, Error> {
    file.map_or_else(system_certificates, certificates)
}

/// The trusted certificates of a file, or those of the system, for a verifier of its own.
#[cfg(feature = "postgres")]
pub(crate) fn authorities(file: Option<&Path>) -> Result<rustls::RootCertStore, Error> {
    roots_of(trusted_certificates(file)?)
}

fn roots_of(authorities: Vec<CertificateDer<'static>>) -> Result<rustls::RootCertStore, Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(authorities);
    if roots.is_empty() {
        return Err(Error::InvalidUrl(
            "there is no trusted certificate in the file of authorities".to_string(),
        ));
    }
    Ok(roots)
}

/// The certificates of a file.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let failed =
        |error: rustls::pki_types::pem::Error| Error::InvalidUrl(format!("{}: {error}", path.display()));
    CertificateDer::pem_file_iter(path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)
}

/// A connection, with or without TLS.
pub(crate) enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    /// Connects within this time. The error names the host.
    pub(crate) async fn open(
        host: &str,
        port: u16,
        tls: Option<&Arc<ClientConfig>>,
        within: Duration,
    ) -> Result<Connection, String> {
        Connection::open_as(host, port, tls, host, within).await
    }

    /// Connects to a server whose certificate has this name.
    pub(crate) async fn open_as(
        host: &str,
        port: u16,
        tls: Option<&Arc<ClientConfig>>,
        name: &str,
        within: Duration,
    ) -> Result<Connection, String> {
        let connect = async {
            let stream = TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            let Some(config) = tls else { return Ok(Connection::Plain(stream)) };
            let name = ServerName::try_from(name.to_string()).map_err(io::Error::other)?;
            let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
            Ok(Connection::Tls(Box::new(stream)))
        };
        let shown = format!("{host}:{port}");
        match timeout(within, connect).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(format!("{shown}: {}", io::Error::to_string(&error))),
            Err(_) => Err(format!("{shown}: no connection within {within:?}")),
        }
    }
}

macro_rules! delegate {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Connection::Plain($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            Connection::Tls($stream) => {
                let $stream = Pin::new($stream.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        delegate!(self, stream => stream.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => stream.poll_shutdown(cx))
    }
}
