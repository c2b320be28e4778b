//! TLS from a certificate and its key in PEM files; who has to use it, and with which certificate of one's own.

use crate::{auth::scram::ChannelBinding, server::StartError};
use pgwire::tokio::{
    TlsAcceptor,
    tokio_rustls::{
        rustls::{
            RootCertStore, ServerConfig,
            crypto::{CryptoProvider, ring},
            server::{WebPkiClientVerifier, danger::ClientCertVerifier},
        },
        server::TlsStream,
    },
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The protocol that a client names which begins with TLS at once.
const ALPN: &[u8] = b"postgresql";

/// A server's certificate, and what is asked of clients.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// The certificate, and those above it, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
    /// Certificates in PEM: a client has to show one that one of these has signed, besides its password.
    pub client_ca: Option<PathBuf>,
    /// Whether connections without encryption are refused. With [`client_ca`](Self::client_ca) they always are: in the
    /// clear nobody shows a certificate.
    pub required: bool,
}

/// What a server needs for TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// `None` for a certificate that channel binding does not know.
    pub(crate) binding: Option<ChannelBinding>,
    /// Whether connections without encryption are refused.
    pub(crate) required: bool,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { acceptor: _, binding, required } = self;
        f.debug_struct("Tls").field("binding", &binding.is_some()).field("required", required).finish()
    }
}

impl Tls {
    /// Reads the files.
    pub(crate) fn load(files: &TlsOptions) -> Result<Self, StartError> {
        let pem = std::fs::read(&files.certificate).map_err(|error| faulty(&files.certificate, error.to_string()))?;
        let chain = certificates(&files.certificate, &pem)?;
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| faulty(&files.key, error.to_string()))?;
        let provider = Arc::new(ring::default_provider());
        let clients = match &files.client_ca {
            Some(path) => client_verifier(path, provider.clone())?,
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| faulty(&files.certificate, error.to_string()))?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)
            .map_err(|error| faulty(&files.key, error.to_string()))?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        let binding = ChannelBinding::of_certificate(&pem);
        if binding.is_none() {
            tracing::warn!(certificate = %files.certificate.display(), "no channel binding for this kind of signature");
        }
        let required = files.required || files.client_ca.is_some();
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), binding, required })
    }
}

/// Whether the client has said that it speaks this protocol: one of another, which was led here, has not.
pub(crate) fn is_for_us<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(ALPN)
}

fn faulty(path: &Path, detail: String) -> StartError {
    StartError::Tls { path: path.to_owned(), detail }
}

/// The certificates of a file; one at least.
fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, StartError> {
    let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let read = read.map_err(|error| faulty(path, error.to_string()))?;
    if read.is_empty() {
        return Err(faulty(path, "it holds no certificate".to_owned()));
    }
    Ok(read)
}

/// What checks that a client's certificate is signed by one of a file.
fn client_verifier(path: &Path, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, StartError> {
    let pem = std::fs::read(path).map_err(|error| faulty(path, error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, &pem)? {
        roots.add(certificate).map_err(|error| faulty(path, error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map_err(|error| faulty(path, error.to_string()))
}
