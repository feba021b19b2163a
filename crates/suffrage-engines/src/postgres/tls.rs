//! TLS as libpq does it: encryption may be had without a check of the server.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use super::session::Socket;
use crate::Error;
use crate::transport::{authorities, certificates};

/// What is checked of the certificate of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verify {
    /// Nothing: sslmode=prefer and sslmode=require.
    Nothing,
    /// The authority that has signed it: sslmode=verify-ca.
    Authority,
    /// The authority and the name of the host: sslmode=verify-full.
    Host,
}

/// The settings of TLS.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    pub(super) fn new(
        verify: Verify,
        root: Option<&Path>,
        certificate: Option<(&Path, &Path)>,
    ) -> Result<Tls, Error> {
        let invalid = |error: &dyn std::fmt::Display| Error::InvalidUrl(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let inner = match verify {
            Verify::Nothing => None,
            Verify::Authority | Verify::Host => {
                let roots = Arc::new(authorities(root)?);
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
                Some(verifier.map_err(|error| invalid(&error))?)
            }
        };
        let verifier = Arc::new(Verifier { verify, inner, provider: Arc::clone(&provider) });
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| invalid(&error))?.dangerous();
        let builder = builder.with_custom_certificate_verifier(verifier);
        let config = match certificate {
            None => builder.with_no_client_auth(),
            Some((path, key_path)) => {
                let key = PrivateKeyDer::from_pem_file(key_path);
                let key = key.map_err(|error| invalid(&format!("{}: {error}", key_path.display())))?;
                let config = builder.with_client_auth_cert(certificates(path)?, key);
                config.map_err(|error| invalid(&format!("{}: {error}", path.display())))?
            }
        };
        Ok(Tls(Arc::new(config)))
    }

    /// TLS with this host.
    pub(super) fn to(&self, host: &str) -> Result<Handshake, String> {
        let name = ServerName::try_from(host.to_string()).map_err(|error| format!("{host}: {error}"))?;
        Ok(Handshake { connector: TlsConnector::from(Arc::clone(&self.0)), name })
    }
}

#[derive(Debug)]
struct Verifier {
    verify: Verify,
    inner: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        // The name is compared after the authority was checked.
        match inner.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.verify == Verify::Authority => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The handshake with one server, which follows the request for TLS.
pub(super) struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

/// None if the connection has no TLS. Both are of one type: the protocol is compiled once.
impl TlsConnect<Socket> for Option<Handshake> {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            // The protocol has no handshake in a connection without TLS.
            let Handshake { connector, name } = self.ok_or(io::ErrorKind::Unsupported)?;
            Ok(Encrypted(connector.connect(name, socket).await?))
        })
    }
}

/// A connection with TLS.
pub(super) struct Encrypted(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
