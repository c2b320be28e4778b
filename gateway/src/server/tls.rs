//! TLS from a certificate and its key in PEM files.

use crate::{auth::scram::ChannelBinding, server::StartError};
use pgwire::tokio::{
    TlsAcceptor,
    tokio_rustls::rustls::{ServerConfig, crypto::ring},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The protocol that a client names which begins with TLS at once.
const ALPN: &[u8] = b"postgresql";

/// The files of a server's certificate.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, and those above it, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

/// What a server needs for TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// `None` for a certificate that channel binding does not know.
    pub(crate) binding: Option<ChannelBinding>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("binding", &self.binding.is_some()).finish()
    }
}

impl Tls {
    /// Reads the files.
    pub(crate) fn load(files: &TlsFiles) -> Result<Self, StartError> {
        let faulty = |path: &Path, detail: String| StartError::Tls { path: path.to_owned(), detail };
        let pem = std::fs::read(&files.certificate).map_err(|error| faulty(&files.certificate, error.to_string()))?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .map_err(|error| faulty(&files.certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(faulty(&files.certificate, "it holds no certificate".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| faulty(&files.key, error.to_string()))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| faulty(&files.certificate, error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| faulty(&files.key, error.to_string()))?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        let binding = ChannelBinding::of_certificate(&pem);
        if binding.is_none() {
            tracing::warn!(certificate = %files.certificate.display(), "no channel binding for this kind of signature");
        }
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), binding })
    }
}
