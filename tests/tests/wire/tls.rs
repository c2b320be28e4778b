//! TLS, with a certificate of our own and a client that trusts it.

use super::{
    command::{Serving, keyspan},
    harness::{Harness, OPERATOR_PASSWORD, Raw, connect, rows, told},
};
use anyhow::{Context as _, Result};
use keyspan_gateway::server::TlsOptions;
use pgwire::tokio::tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, ConfigBuilder, RootCertStore,
        client::WantsClientCert,
        crypto::ring::default_provider,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
    },
};
use std::{
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Socket,
    config::{ChannelBinding as Wanted, SslMode, SslNegotiation},
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect},
};

/// A client's TLS: what it trusts, and the hash of the server's certificate that it binds its proof to.
#[derive(Clone)]
struct Trust {
    config: Arc<ClientConfig>,
    roots: RootCertStore,
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

/// A client's TLS that trusts these, but for the certificate that it may show.
fn trusting(roots: &RootCertStore) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>> {
    Ok(ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots.clone()))
}

/// A server with a fresh certificate, and a client that trusts it.
async fn start() -> Result<(Harness, Trust, TempDir)> {
    start_with(|_| {}).await
}

/// The same, with options of one's own.
async fn start_with(change: impl FnOnce(&mut TlsOptions)) -> Result<(Harness, Trust, TempDir)> {
    let folder = tempfile::tempdir()?;
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    let (certificate, key) = (folder.path().join("server.crt"), folder.path().join("server.key"));
    let mut files = TlsOptions { certificate, key, client_ca: None, required: false };
    std::fs::write(&files.certificate, made.cert.pem())?;
    std::fs::write(&files.key, made.signing_key.serialize_pem())?;
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone())?;
    let config = trusting(&roots)?.with_no_client_auth();
    let binding = ring::digest::digest(&ring::digest::SHA256, made.cert.der()).as_ref().to_vec();
    change(&mut files);
    let harness = Harness::start_with(|options| options.tls = Some(files)).await?;
    Ok((harness, Trust { config: Arc::new(config), roots, binding, domain: None }, folder))
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

/// SQLSTATE and message of a log-in in the clear, which has to fail.
async fn refused_in_the_clear(harness: &Harness) -> Result<String> {
    let config = harness.config("keyspan", OPERATOR_PASSWORD, "keyspan");
    Ok(told(&connect(&config).await.err().context("an error")?.downcast()?))
}

const NOT_ENCRYPTED: &str = "28000 connection is not encrypted, and this server takes encrypted ones only";

#[tokio::test]
async fn a_server_that_demands_tls_refuses_clear_text_before_it_asks_for_a_password() -> Result<()> {
    let (harness, trust, _folder) = start_with(|tls| tls.required = true).await?;
    assert_eq!(refused_in_the_clear(&harness).await?, NOT_ENCRYPTED);
    let mut raw = Raw::connect(harness.address()).await?;
    raw.startup(196_608, b"user\0keyspan\0\0").await?;
    assert_eq!(raw.replies().await?, "[28000].");
    // A cancel request comes in the clear, as libpq's PQcancel sends it: it is taken, and has no answer.
    let mut cancel = Raw::connect(harness.address()).await?;
    cancel.startup(80_877_102, &[0; 8]).await?;
    assert_eq!(cancel.replies().await?, ".");
    let mut config = harness.config("keyspan", OPERATOR_PASSWORD, "keyspan");
    let (client, connection) = config.ssl_mode(SslMode::Require).connect(trust).await?;
    tokio::spawn(connection);
    assert_eq!(rows(&client, "SELECT 1").await?, ["1"]);
    Ok(())
}

/// Logs in with TLS from the first byte, naming protocols of its own.
async fn direct(harness: &Harness, trust: &Trust, protocols: &[&[u8]]) -> Result<bool> {
    let mut client = trust.config.as_ref().clone();
    client.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let mut config = harness.config("keyspan", OPERATOR_PASSWORD, "keyspan");
    config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
    let Ok((client, connection)) = config.connect(Trust { config: Arc::new(client), ..trust.clone() }).await else {
        return Ok(false);
    };
    tokio::spawn(connection);
    assert_eq!(rows(&client, "SELECT 1").await?, ["1"]);
    Ok(true)
}

#[tokio::test]
async fn tls_from_the_first_byte_is_for_clients_that_name_the_protocol() -> Result<()> {
    let (harness, trust, _folder) = start().await?;
    for (protocols, expected) in
        [(&[&b"postgresql"[..]][..], true), (&[b"h2", b"postgresql"], true), (&[], false), (&[b"http/1.1"], false)]
    {
        assert_eq!(direct(&harness, &trust, protocols).await?, expected, "{protocols:?}");
    }
    Ok(())
}

/// Makes an authority whose certificate is in a file, and a certificate and its key that it has signed.
fn authority(file: &Path) -> Result<(rcgen::Certificate, rcgen::KeyPair)> {
    let mut params = rcgen::CertificateParams::new(Vec::new())?;
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate()?)?;
    std::fs::write(file, authority.as_ref().pem())?;
    let key = rcgen::KeyPair::generate()?;
    let made = rcgen::CertificateParams::new(vec!["client".to_owned()])?.signed_by(&key, &authority)?;
    Ok((made, key))
}

#[tokio::test]
async fn a_client_shows_a_certificate_of_the_authority_and_its_password() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (file, other) = (folder.path().join("clients.crt"), folder.path().join("others.crt"));
    let (own, stranger) = (authority(&file)?, authority(&other)?);
    let (harness, trust, _folder) = start_with(|tls| tls.client_ca = Some(file)).await?;
    let log_in = async |shown: Option<&(rcgen::Certificate, rcgen::KeyPair)>, password: &str| {
        let mut trust = trust.clone();
        if let Some((certificate, key)) = shown {
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
            trust.config =
                Arc::new(trusting(&trust.roots)?.with_client_auth_cert(vec![certificate.der().clone()], key)?);
        }
        let mut config = harness.config("keyspan", password, "keyspan");
        let (client, connection) = config.ssl_mode(SslMode::Require).connect(trust).await?;
        tokio::spawn(connection);
        rows(&client, "SELECT 1").await
    };
    assert_eq!(log_in(Some(&own), OPERATOR_PASSWORD).await?, ["1"]);
    let wrong = log_in(Some(&own), "wrong").await.err().context("an error")?.downcast()?;
    assert_eq!(told(&wrong), "28P01 password authentication failed for user \"keyspan\"");
    for shown in [None, Some(&stranger)] {
        let refused: tokio_postgres::Error =
            log_in(shown, OPERATOR_PASSWORD).await.err().context("an error")?.downcast()?;
        assert!(refused.as_db_error().is_none(), "it is the handshake that fails: {refused}");
    }
    assert_eq!(refused_in_the_clear(&harness).await?, NOT_ENCRYPTED);
    Ok(())
}

#[tokio::test]
async fn a_public_address_without_tls_is_warned_of() -> Result<()> {
    for (listen, warned) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        let folder = tempfile::tempdir()?;
        let mut command = keyspan();
        command.args(["serve", "--listen", listen, "--store"]).arg(folder.path());
        let serving = Serving::spawn(command).await?;
        let told = String::from_utf8(serving.signal(rustix::process::Signal::TERM).await?.stderr)?;
        assert_eq!(told.contains("without encryption"), warned, "{listen}: {told}");
    }
    Ok(())
}
