//! The beginning of a connection: TLS, the first packet, authentication, the session. Who logs in, and who is refused,
//! is logged here.

mod applicant;
mod settings;

use crate::{
    auth::{
        access::Attempt,
        login::identify,
        scram::{ChannelBinding, Exchange, mechanisms, secret_for},
    },
    ddl::stored,
    pg::error::{Result, SqlError, SqlState},
    server::{
        GOODBYE, Hub,
        cancel::Registration,
        interrupt::shutdown_error,
        socket::{Input, Output, Stream, split},
        tls::is_for_us,
    },
    session::Session,
    shares::Share,
    wire::{
        frontend::{Frame, SMALL_MESSAGE_BYTES_MAX, Startup, sasl_initial},
        reply::{self, Severity},
    },
};
use applicant::Applicant;
use bytes::{Bytes, BytesMut};
use settings::settings;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};

/// The newest minor version of protocol 3 that is spoken here.
const MINOR: u16 = 2;

/// A connection that has logged in.
pub(crate) struct Started {
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) session: Session,
    pub(crate) registration: Registration,
}

/// Why a connection does not come to be.
enum Refusal {
    /// The client receives an error.
    Told(SqlError),
    /// The connection broke.
    Lost(io::Error),
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Self {
        Self::Told(error)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

/// Logs a client in; `None` when the connection is over: a cancel request, a refusal, a probe. `place` tells whether
/// there is room for another connection.
pub(crate) async fn start(
    stream: TcpStream,
    peer: SocketAddr,
    hub: &Arc<Hub>,
    place: bool,
) -> io::Result<Option<Started>> {
    let deadline = Instant::now() + hub.login_timeout;
    let mut applicant = Applicant::new(peer);
    let opened = tokio::select! {
        opened = timeout_at(deadline, open(stream, peer, hub)) => opened,
        () = hub.draining.cancelled() => return Ok(None),
    };
    let Ok(opened) = opened else {
        applicant.too_late(&hub.instance);
        return Ok(None);
    };
    let Some(opened) = opened? else { return Ok(None) };
    let is_encrypted = opened.check_encryption(hub);
    let Opened { mut input, mut output, packet, encrypted, binding } = opened;
    let (minor, parameters) = match packet {
        Ok(Startup::Login { minor, parameters }) => (minor, Ok(parameters)),
        Ok(Startup::Cancel { process_id, secret }) => {
            hub.cancels.cancel(process_id, &secret);
            return Ok(None);
        }
        // Asked for encryption a second time.
        Ok(_) => (0, Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, "unsupported startup packet"))),
        Err(error) => (0, Err(error)),
    };
    let logged_in = async {
        let parameters = parameters?;
        if !place {
            hub.log_refused(peer);
            return Err(SqlError::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already").into());
        }
        applicant.name(&parameters)?;
        is_encrypted?;
        check_access(hub, &applicant, encrypted)?;
        log_in(&mut input, &mut output, hub, minor, parameters, binding.as_ref(), &applicant).await
    };
    let logged_in = tokio::select! {
        logged_in = timeout_at(deadline, logged_in) => logged_in,
        () = hub.draining.cancelled() => Ok(Err(Refusal::Told(shutdown_error()))),
    };
    match logged_in {
        Ok(Ok((session, registration))) => {
            applicant.logged_in(&hub.instance, session.process_id);
            Ok(Some(Started { input, output, session, registration }))
        }
        Ok(Err(Refusal::Told(error))) => {
            if place {
                applicant.refused(&hub.instance, &error);
            }
            super::connection::log_internal(&error);
            reply::problem(&error, Severity::Fatal, &mut output.buffer);
            // A client that does not take the error in time does without.
            let _ = timeout(GOODBYE, output.close()).await;
            Ok(None)
        }
        Ok(Err(Refusal::Lost(error))) => Err(error),
        Err(_) => {
            applicant.too_late(&hub.instance);
            Ok(None)
        }
    }
}

/// Fails for a connection that the access rules do not let in.
fn check_access(hub: &Hub, applicant: &Applicant, encrypted: bool) -> Result<()> {
    let Some(rules) = hub.access.lock().clone() else { return Ok(()) };
    let Applicant { peer, role, database } = applicant;
    rules.check(&Attempt { address: peer.ip().to_canonical(), encrypted, database, role })
}

/// A connection whose first packet has come.
struct Opened {
    input: Input,
    output: Output,
    packet: Result<Startup>,
    encrypted: bool,
    binding: Option<ChannelBinding>,
}

impl Opened {
    /// Fails for a connection in the clear, if there are to be none.
    fn check_encryption(&self, hub: &Hub) -> Result<()> {
        if self.encrypted || !hub.tls.as_ref().is_some_and(|tls| tls.required) {
            return Ok(());
        }
        let message = "connection is not encrypted, and this server takes encrypted ones only";
        Err(SqlError::new(SqlState::INVALID_AUTHORIZATION, message).with_hint("Connect with sslmode=verify-full."))
    }
}

/// Reads the first packets up to the one that is no question for encryption, and encrypts.
async fn open(mut stream: TcpStream, peer: SocketAddr, hub: &Hub) -> io::Result<Option<Opened>> {
    let mut buffer = BytesMut::new();
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Ok(None);
    }
    /// The first byte of a TLS handshake: the client asks no question.
    const HANDSHAKE: u8 = 0x16;
    let is_direct = first[0] == HANDSHAKE;
    let mut wants_tls = is_direct;
    while !wants_tls {
        let packet = loop {
            match Startup::take(&mut buffer) {
                Ok(None) => {
                    if stream.read_buf(&mut buffer).await? == 0 {
                        return Ok(None);
                    }
                }
                Ok(Some(packet)) => break Ok(packet),
                Err(error) => break Err(error),
            }
        };
        match packet {
            Ok(Startup::Tls) if hub.tls.is_some() => {
                stream.write_all(b"S").await?;
                wants_tls = true;
            }
            Ok(Startup::Tls | Startup::Gss) => stream.write_all(b"N").await?,
            packet => {
                let (mut input, output) = split(Box::new(stream));
                input.buffer = buffer;
                return Ok(Some(Opened { input, output, packet, encrypted: false, binding: None }));
            }
        }
    }
    // What came in the clear before the handshake must not pass for what was said within.
    let Some(tls) = hub.tls.as_ref().filter(|_| buffer.is_empty()) else { return Ok(None) };
    let stream = tls.acceptor.accept(stream).await;
    let stream = stream.inspect_err(|error| tracing::warn!(%peer, %error, "TLS handshake failed"))?;
    if is_direct && !is_for_us(&stream) {
        tracing::warn!(%peer, "TLS from the first byte, but not for the protocol of PostgreSQL (ALPN): closed");
        return Ok(None);
    }
    let stream: Box<dyn Stream> = Box::new(stream);
    let (mut input, output) = split(stream);
    let packet = loop {
        match Startup::take(&mut input.buffer) {
            Ok(None) if !input.fill().await? => return Ok(None),
            Ok(None) => {}
            Ok(Some(packet)) => break Ok(packet),
            Err(error) => break Err(error),
        }
    };
    Ok(Some(Opened { input, output, packet, encrypted: true, binding: tls.binding.clone() }))
}

async fn log_in(
    input: &mut Input,
    output: &mut Output,
    hub: &Arc<Hub>,
    minor: u16,
    parameters: Vec<(String, String)>,
    binding: Option<&ChannelBinding>,
    applicant: &Applicant,
) -> Result<(Session, Registration), Refusal> {
    let spoken = if minor >= MINOR { MINOR } else { 0 };
    let (options, parameters): (Vec<_>, Vec<_>) =
        parameters.into_iter().partition(|(name, _)| name.starts_with("_pq_."));
    if minor != spoken || !options.is_empty() {
        let unknown: Vec<_> = options.into_iter().map(|(name, _)| name).collect();
        reply::negotiate(spoken, &unknown, &mut output.buffer);
    }
    let replication = parameters.iter().find(|(name, _)| name == "replication");
    if replication.is_some_and(|(_, value)| !matches!(value.as_str(), "false" | "off" | "no" | "0")) {
        return Err(SqlError::unsupported("replication").into());
    }
    authenticate(input, output, hub, applicant, binding).await?;
    let Applicant { role, database, .. } = applicant;
    let identity = identify(&hub.instance, role, database)?;
    let snapshot = hub.instance.catalog.snapshot();
    let known = snapshot.role(role);
    let is_operator = known.is_some_and(|role| role.operator);
    if !is_operator && hub.places.available_permits() < hub.reserved {
        let message = "remaining connection slots are reserved for operators";
        return Err(SqlError::new(SqlState::TOO_MANY_CONNECTIONS, message).into());
    }
    if !is_operator {
        check_part(hub, identity.rows.oid())?;
    }
    let registration = hub.cancels.register(spoken >= 2);
    let mut session = Session::new(hub.instance.clone(), identity, registration.process_id);
    session.controlled_by(registration.controls.clone());
    let limit = known.and_then(|role| role.connection_limit).filter(|_| !is_operator);
    if limit.is_some_and(|limit| session.earlier_of_role() >= limit as usize) {
        let message = format!("too many connections for role \"{role}\"");
        return Err(SqlError::new(SqlState::TOO_MANY_CONNECTIONS, message).into());
    }
    if !is_operator {
        session.connect()?;
    }
    let mut warnings = Vec::new();
    for (name, value) in stored(&snapshot, &session.identity) {
        // What an older server has stored may not be known any more: nobody is locked out by it.
        warnings.extend(session.set_stored(name, value).err());
    }
    for (name, value) in settings(&parameters)? {
        match session.set(&name, &value) {
            Ok(()) => {}
            // A driver sends what its user never chose (the machine's time zone): a notice says so, with the value in
            // force.
            Err(error) if error.state == SqlState::FEATURE_NOT_SUPPORTED => warnings.push(error),
            Err(error) => return Err(error.into()),
        }
    }
    session.started();
    session.answered();
    let out = &mut output.buffer;
    for (name, value) in session.take_parameter_status() {
        reply::parameter_status(&name, &value, out);
    }
    reply::key_data(registration.process_id, &registration.secret, out);
    warnings.iter().for_each(|warning| reply::problem(warning, Severity::Warning, out));
    reply::ready(session.transaction_status(), out);
    output.send().await?;
    Ok((session, registration))
}

/// While few places are left, refuses a tenant that has its part of them: others are to find some.
fn check_part(hub: &Hub, tenant: Option<u32>) -> Result<()> {
    /// Places are few when less than one over this is left.
    const FEW: usize = 8;
    let left = hub.places.available_permits().saturating_sub(hub.reserved);
    if left >= hub.connections_max / FEW || hub.instance.catalog.snapshot().tenants.len() < 2 {
        return Ok(());
    }
    let all = hub.instance.shares.all();
    let connected = |share: &Share| share.connections() as usize;
    let own = all.iter().find(|share| share.tenant() == tenant).map_or(0, |share| connected(share));
    let others = all.iter().filter(|share| share.tenant() != tenant && connected(share) > 0).count();
    // One that is not there yet is to find its part, too.
    let part = hub.connections_max / (others.max(1) + 1);
    if own < part {
        return Ok(());
    }
    let message = "remaining connection slots are kept for other databases";
    Err(SqlError::new(SqlState::TOO_MANY_CONNECTIONS, message)
        .with_detail(format!("This database has {own} connections, and its part is {part}.")))
}

async fn authenticate(
    input: &mut Input,
    output: &mut Output,
    hub: &Hub,
    applicant: &Applicant,
    binding: Option<&ChannelBinding>,
) -> Result<(), Refusal> {
    let (role, peer) = (applicant.role.as_str(), applicant.peer.ip());
    reply::authentication_sasl(&mechanisms(binding), &mut output.buffer);
    output.send().await?;
    let (mechanism, first) = sasl_initial(password(input).await?)?;
    let now_micros = hub.instance.clock.now_micros();
    let secret = secret_for(&hub.instance.catalog.snapshot(), &hub.mock_nonce, role, now_micros);
    let (exchange, server_first) = Exchange::start(role, secret, binding, &mechanism, &first)?;
    reply::authentication_continue(&server_first, &mut output.buffer);
    output.send().await?;
    let verdict = exchange.finish(&password(input).await?);
    let now = std::time::Instant::now();
    let delay = match &verdict {
        Ok(_) => hub.throttle.succeeded(role, peer, now),
        Err(error) if error.state == SqlState::INVALID_PASSWORD => hub.throttle.failed(role, peer, now),
        Err(_) => Duration::ZERO,
    };
    tokio::time::sleep(delay).await;
    let server_final = verdict?;
    reply::authentication_final(&server_final, &mut output.buffer);
    reply::authentication_ok(&mut output.buffer);
    Ok(())
}

/// The body of the next message, which has to be one of the authentication.
async fn password(input: &mut Input) -> Result<Bytes, Refusal> {
    loop {
        match Frame::take(&mut input.buffer, SMALL_MESSAGE_BYTES_MAX)? {
            Some(Frame { kind: b'p', body }) => return Ok(body),
            Some(frame) => {
                let message = format!("expected an authentication response, got message type {}", frame.kind);
                return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message).into());
            }
            None if !input.fill().await? => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            None => {}
        }
    }
}
