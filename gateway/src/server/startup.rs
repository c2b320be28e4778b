//! The beginning of a connection: TLS, the first packet, authentication, the session.

use crate::{
    auth::{
        login::identify,
        scram::{ChannelBinding, Exchange, mechanisms, secret_for},
    },
    pg::error::{Result, SqlError, SqlState},
    server::{
        Hub, LOGIN_TIMEOUT,
        cancel::Registration,
        interrupt::shutdown_error,
        socket::{Input, Output, Stream, split},
    },
    session::Session,
    wire::{
        frontend::{Frame, SMALL_MESSAGE_BYTES_MAX, Startup, sasl_initial},
        reply::{self, Severity},
    },
};
use bytes::{Bytes, BytesMut};
use std::{io, sync::Arc};
use tokio::{io::AsyncReadExt, io::AsyncWriteExt, net::TcpStream};

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
pub(crate) async fn start(stream: TcpStream, hub: &Arc<Hub>, place: bool) -> io::Result<Option<Started>> {
    let opened = tokio::select! {
        opened = tokio::time::timeout(LOGIN_TIMEOUT, open(stream, hub)) => opened,
        () = hub.draining.cancelled() => return Ok(None),
    };
    let Ok(opened) = opened else { return Ok(None) };
    let Some((mut input, mut output, packet, binding)) = opened? else { return Ok(None) };
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
            return Err(SqlError::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already").into());
        }
        log_in(&mut input, &mut output, hub, minor, parameters, binding.as_ref()).await
    };
    let logged_in = tokio::select! {
        logged_in = tokio::time::timeout(LOGIN_TIMEOUT, logged_in) => logged_in,
        () = hub.draining.cancelled() => Ok(Err(Refusal::Told(shutdown_error()))),
    };
    match logged_in {
        Ok(Ok((session, registration))) => Ok(Some(Started { input, output, session, registration })),
        Ok(Err(Refusal::Told(error))) => {
            super::connection::log_internal(&error);
            reply::problem(&error, Severity::Fatal, &mut output.buffer);
            // A client that does not take the error in time does without.
            let _ = tokio::time::timeout(LOGIN_TIMEOUT, output.close()).await;
            Ok(None)
        }
        Ok(Err(Refusal::Lost(error))) => Err(error),
        Err(_) => Ok(None),
    }
}

type Opened = (Input, Output, Result<Startup>, Option<ChannelBinding>);

/// Reads the first packets up to the one that is no question for encryption, and encrypts.
async fn open(mut stream: TcpStream, hub: &Hub) -> io::Result<Option<Opened>> {
    let mut buffer = BytesMut::new();
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Ok(None);
    }
    /// The first byte of a TLS handshake: the client asks no question.
    const HANDSHAKE: u8 = 0x16;
    let mut wants_tls = first[0] == HANDSHAKE;
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
                return Ok(Some((input, output, packet, None)));
            }
        }
    }
    // What came in the clear before the handshake must not pass for what was said within.
    let Some(tls) = hub.tls.as_ref().filter(|_| buffer.is_empty()) else { return Ok(None) };
    let stream: Box<dyn Stream> = Box::new(tls.acceptor.accept(stream).await?);
    let (mut input, output) = split(stream);
    loop {
        match Startup::take(&mut input.buffer) {
            Ok(None) if !input.fill().await? => return Ok(None),
            Ok(None) => {}
            Ok(Some(packet)) => return Ok(Some((input, output, Ok(packet), tls.binding.clone()))),
            Err(error) => return Ok(Some((input, output, Err(error), None))),
        }
    }
}

async fn log_in(
    input: &mut Input,
    output: &mut Output,
    hub: &Arc<Hub>,
    minor: u16,
    parameters: Vec<(String, String)>,
    binding: Option<&ChannelBinding>,
) -> Result<(Session, Registration), Refusal> {
    let spoken = if minor >= MINOR { MINOR } else { 0 };
    let (options, parameters): (Vec<_>, Vec<_>) =
        parameters.into_iter().partition(|(name, _)| name.starts_with("_pq_."));
    if minor != spoken || !options.is_empty() {
        let unknown: Vec<_> = options.into_iter().map(|(name, _)| name).collect();
        reply::negotiate(spoken, &unknown, &mut output.buffer);
    }
    let named = |wanted| parameters.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let role = named("user").filter(|role| !role.is_empty()).ok_or_else(|| {
        SqlError::new(SqlState::INVALID_AUTHORIZATION, "no PostgreSQL user name specified in startup packet")
    })?;
    let database = named("database").filter(|database| !database.is_empty()).unwrap_or(role);
    if named("replication").is_some_and(|value| !matches!(value, "false" | "off" | "no" | "0")) {
        return Err(SqlError::unsupported("replication").into());
    }
    authenticate(input, output, hub, role, binding).await?;
    let identity = identify(&hub.instance, role, database)?;
    let registration = hub.cancels.register(spoken >= 2);
    let mut session = Session::new(hub.instance.clone(), identity, registration.process_id);
    let mut warnings = Vec::new();
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

async fn authenticate(
    input: &mut Input,
    output: &mut Output,
    hub: &Hub,
    role: &str,
    binding: Option<&ChannelBinding>,
) -> Result<(), Refusal> {
    reply::authentication_sasl(&mechanisms(binding), &mut output.buffer);
    output.send().await?;
    let (mechanism, first) = sasl_initial(password(input).await?)?;
    let secret = secret_for(&hub.instance.catalog.snapshot(), role);
    let (exchange, server_first) = Exchange::start(role, secret, binding, &mechanism, &first)?;
    reply::authentication_continue(&server_first, &mut output.buffer);
    output.send().await?;
    let server_final = exchange.finish(&password(input).await?)?;
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

/// The settings of a startup packet: those in `options`, then those by name.
fn settings(parameters: &[(String, String)]) -> Result<Vec<(String, String)>> {
    let mut settings = Vec::new();
    for (name, value) in parameters {
        match name.as_str() {
            "user" | "database" | "replication" => {}
            "options" => settings.splice(0..0, options(value)?).for_each(drop),
            _ => settings.push((name.clone(), value.clone())),
        }
    }
    Ok(settings)
}

/// The settings in `options`: `-c name=value`, `-cname=value`, `--name=value`, apart by spaces that no backslash stands
/// before.
fn options(text: &str) -> Result<Vec<(String, String)>> {
    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (char, words.last_mut()) {
            (char, _) if char.is_whitespace() => words.push(String::new()),
            ('\\', Some(word)) => word.extend(chars.next()),
            (char, Some(word)) => word.push(char),
            (_, None) => {}
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            Some("") => words.next(),
            Some(setting) => Some(setting.to_owned()),
            None => None,
        };
        let Some((name, value)) = setting.as_deref().and_then(|setting| setting.split_once('=')) else {
            let message = format!("invalid command-line argument for server process: {word}");
            return Err(SqlError::syntax(message).with_hint("Options are of the form -c name=value."));
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        options(text).unwrap()
    }

    #[test]
    fn options_are_read_in_every_form() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read("-c a=1 -cb=2  --c-d=3"), [pair("a", "1"), pair("b", "2"), pair("c_d", "3")]);
        assert_eq!(read(r"-c a=x\ y\\z"), [pair("a", r"x y\z")]);
        assert_eq!(read(""), []);
        assert_eq!(options("-x").unwrap_err().state, SqlState::SYNTAX_ERROR);
        assert_eq!(options("-c a").unwrap_err().state, SqlState::SYNTAX_ERROR);
    }

    #[test]
    fn settings_by_name_come_after_those_in_options() {
        let parameters = [("user", "u"), ("application_name", "psql"), ("options", "-c application_name=x")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let names = |(_, value): (String, String)| value;
        assert_eq!(settings(&parameters).unwrap().into_iter().map(names).collect::<Vec<_>>(), ["x", "psql"]);
    }
}
