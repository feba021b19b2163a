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

/// The settings of TLS: the trusted certificates of a file, or those of the system, and a certificate of this client.
pub(crate) fn tls_config(
    authorities: Option<&Path>,
    certificate: Option<(&Path, &Path)>,
) -> Result<Arc<ClientConfig>, Error> {
    let roots = self::authorities(authorities)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| Error::InvalidUrl(error.to_string()))?.with_root_certificates(roots);
    let config = match certificate {
        None => builder.with_no_client_auth(),
        Some((path, key_path)) => {
            let key = PrivateKeyDer::from_pem_file(key_path)
                .map_err(|error| Error::InvalidUrl(format!("{}: {error}", key_path.display())))?;
            let chain = certificates(path)?;
            let config = builder.with_client_auth_cert(chain, key);
            config.map_err(|error| Error::InvalidUrl(format!("{}: {error}", path.display())))?
        }
    };
    Ok(Arc::new(config))
}

/// The trusted certificates of a file, or those of the system.
pub(crate) fn authorities(file: Option<&Path>) -> Result<rustls::RootCertStore, Error> {
    let system = || {
        let set = std::env::var_os("SSL_CERT_FILE").map(Into::into);
        set.or_else(|| SYSTEM_CERTIFICATES.iter().map(Into::into).find(|path: &std::path::PathBuf| path.exists()))
    };
    let authorities = file.map(Into::into).or_else(system);
    let authorities = authorities
        .ok_or_else(|| Error::InvalidUrl("this system has no trusted certificates: name a file".to_string()))?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(certificates(&authorities)?);
    if roots.is_empty() {
        return Err(Error::InvalidUrl(format!("{}: there is no certificate", authorities.display())));
    }
    Ok(roots)
}

/// The certificates of a file.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let failed = |error: rustls::pki_types::pem::Error| Error::InvalidUrl(format!("{}: {error}", path.display()));
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
        let connect = async {
            let stream = TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            let Some(config) = tls else { return Ok(Connection::Plain(stream)) };
            let name = ServerName::try_from(host.to_string()).map_err(io::Error::other)?;
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
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
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
