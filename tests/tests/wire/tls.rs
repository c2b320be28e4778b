//! TLS, with a certificate of our own and a client that trusts it.

use super::harness::{Harness, OPERATOR_PASSWORD, Raw, rows};
use anyhow::{Context as _, Result};
use keyspan_gateway::server::TlsFiles;
use pgwire::tokio::tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider, pki_types::ServerName},
};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Socket,
    config::{ChannelBinding as Wanted, SslMode},
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect},
};

/// A client's TLS: what it trusts, and the hash of the server's certificate that it binds its proof to.
#[derive(Clone)]
struct Trust {
    config: Arc<ClientConfig>,
    binding: Vec<u8>,
    domain: Option<ServerName<'static>>,
}

struct Stream {
    inner: TlsStream<Socket>,
    binding: Vec<u8>,
}

impl MakeTlsConnect<Socket> for Trust {
    type Stream = Stream;
    type TlsConnect = Self;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Self> {
        let domain = ServerName::try_from(domain.to_owned()).map_err(io::Error::other)?;
        Ok(Self { domain: Some(domain), ..self.clone() })
    }
}

impl TlsConnect<Socket> for Trust {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let domain = self.domain.ok_or(io::ErrorKind::InvalidInput)?;
            let inner = TlsConnector::from(self.config).connect(domain, socket).await?;
            Ok(Stream { inner, binding: self.binding })
        })
    }
}

impl tokio_postgres::tls::TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::tls_server_end_point(self.binding.clone())
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

/// A server with a fresh certificate, and a client that trusts it.
async fn start() -> Result<(Harness, Trust, TempDir)> {
    let folder = tempfile::tempdir()?;
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    let files = TlsFiles { certificate: folder.path().join("server.crt"), key: folder.path().join("server.key") };
    std::fs::write(&files.certificate, made.cert.pem())?;
    std::fs::write(&files.key, made.signing_key.serialize_pem())?;
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone())?;
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let binding = ring::digest::digest(&ring::digest::SHA256, made.cert.der()).as_ref().to_vec();
    let harness = Harness::start_with(|options| options.tls = Some(files)).await?;
    Ok((harness, Trust { config: Arc::new(config), binding, domain: None }, folder))
}

#[tokio::test]
async fn a_client_logs_in_over_tls_bound_to_the_certificate() -> Result<()> {
    let (harness, trust, _folder) = start().await?;
    let mut config = harness.config("keyspan", OPERATOR_PASSWORD, "keyspan");
    config.ssl_mode(SslMode::Require);
    for binding in [Wanted::Require, Wanted::Disable] {
        let (client, connection) = config.channel_binding(binding).connect(trust.clone()).await?;
        tokio::spawn(connection);
        assert_eq!(rows(&client, "SELECT 1").await?, ["1"], "{binding:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_proof_bound_to_another_certificate_is_refused() -> Result<()> {
    let (harness, trust, _folder) = start().await?;
    let mut config = harness.config("keyspan", OPERATOR_PASSWORD, "keyspan");
    config.ssl_mode(SslMode::Require).channel_binding(Wanted::Require);
    let error = config.connect(Trust { binding: vec![0; 32], ..trust }).await.err().context("an error")?;
    assert_eq!(error.code().map(|code| code.code()), Some("08P01"));
    Ok(())
}

#[tokio::test]
async fn a_server_without_a_certificate_says_no_and_one_with_it_takes_clear_text_too() -> Result<()> {
    let plain = Harness::start().await?;
    let mut raw = Raw::connect(plain.address()).await?;
    raw.send(b"\0\0\0\x08\x04\xd2\x16\x2f").await?;
    assert_eq!(raw.byte().await?, b'N');
    let (harness, _trust, _folder) = start().await?;
    assert_eq!(rows(&harness.operator().await?, "SELECT 1").await?, ["1"]);
    Ok(())
}

#[tokio::test]
async fn bytes_in_the_clear_before_the_handshake_end_the_connection() -> Result<()> {
    let (harness, _trust, _folder) = start().await?;
    let mut raw = Raw::connect(harness.address()).await?;
    raw.send(b"\0\0\0\x08\x04\xd2\x16\x2f\0\0\0\x12\0\x03\0\0user\0ana\0\0").await?;
    assert_eq!(raw.byte().await?, b'S');
    assert_eq!(raw.replies().await?, ".");
    Ok(())
}
