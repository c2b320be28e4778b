//! Messages that a client sends.
//!
//! A message is cut out of the input by its length ([`Frame::take`]) before it is parsed ([`Frontend::parse`]): no
//! message can read into the next, and a malformed one leaves the stream intact. pgwire's decoders are not used: they
//! panic on truncated messages and replace bytes that are not UTF-8.

use bytes::{Buf, Bytes, BytesMut};
use keyspan_pg::{
    codec::format::{Format, utf8},
    error::{Result, SqlError, SqlState},
};

/// The longest message, in bytes: room for two cells at their hard limit as hexadecimal text.
pub const MESSAGE_BYTES_MAX: usize = 512 << 20;
/// The longest message before a client has logged in, and of the types that hold no more than a name, in bytes: libpq's
/// limit.
pub const SMALL_MESSAGE_BYTES_MAX: usize = 10_000;

/// The version that asks for TLS.
const SSL_REQUEST: u32 = 80_877_103;
/// The version that asks for GSSAPI encryption.
const GSS_REQUEST: u32 = 80_877_104;
/// The version that asks to cancel a statement of another connection.
const CANCEL_REQUEST: u32 = 80_877_102;

/// The first packet of a connection, and again after a refusal of encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Startup {
    /// A request for TLS.
    Tls,
    /// A request for GSSAPI encryption.
    Gss,
    /// A request to cancel the statement of another connection.
    Cancel {
        /// The process ID of the connection, as BackendKeyData had it.
        process_id: i32,
        /// Its secret.
        secret: Bytes,
    },
    /// A login.
    Login {
        /// The minor version of protocol 3.
        minor: u16,
        /// `user`, `database`, `options` and settings, in order.
        parameters: Vec<(String, String)>,
    },
}

impl Startup {
    /// Takes the packet from the input; `None` while it is incomplete.
    ///
    /// # Errors
    /// 08P01 for a malformed packet, 0A000 for another version of the protocol.
    pub fn take(input: &mut BytesMut) -> Result<Option<Self>> {
        let Some(length) = input.get(..4).map(|mut bytes| bytes.get_u32() as usize) else { return Ok(None) };
        if !(8..=SMALL_MESSAGE_BYTES_MAX).contains(&length) {
            return Err(malformed("invalid length of startup packet"));
        }
        if input.len() < length {
            return Ok(None);
        }
        let mut body = Body(input.split_to(length).freeze().slice(4..));
        let version = body.u32()?;
        Ok(Some(match version {
            SSL_REQUEST => Self::Tls,
            GSS_REQUEST => Self::Gss,
            CANCEL_REQUEST => Self::Cancel { process_id: body.i32()?, secret: body.rest() },
            _ if version >> 16 == 3 => {
                Self::Login { minor: (version & 0xffff) as u16, parameters: startup_parameters(&mut body)? }
            }
            _ => {
                let (major, minor) = (version >> 16, version & 0xffff);
                let message = format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
        }))
    }
}

fn startup_parameters(body: &mut Body) -> Result<Vec<(String, String)>> {
    let mut parameters = Vec::new();
    loop {
        let name = body.text()?;
        if name.is_empty() {
            if body.0.is_empty() {
                return Ok(parameters);
            }
            return Err(malformed("invalid startup packet layout: expected terminator as last byte"));
        }
        parameters.push((name, body.text()?));
    }
}

/// A message that is cut out of the input and not parsed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its type.
    pub kind: u8,
    /// The bytes behind its length.
    pub body: Bytes,
}

impl Frame {
    /// Takes a message from the input; `None` while it is incomplete.
    ///
    /// # Errors
    /// 08P01 for an unknown type or a length over `bytes_max` or the type's own limit: the connection cannot go on.
    pub fn take(input: &mut BytesMut, bytes_max: usize) -> Result<Option<Self>> {
        let Some(mut head) = input.get(..5) else { return Ok(None) };
        let (kind, length) = (head.get_u8(), head.get_u32() as usize);
        let kind_max = match kind {
            b'Q' | b'P' | b'B' | b'd' => MESSAGE_BYTES_MAX,
            b'D' | b'E' | b'C' | b'S' | b'H' | b'X' | b'p' | b'c' | b'f' | b'F' => SMALL_MESSAGE_BYTES_MAX,
            _ => return Err(malformed(&format!("invalid frontend message type {kind}"))),
        };
        if length < 4 || length > bytes_max.min(kind_max) {
            return Err(malformed("invalid message length"));
        }
        if input.len() < 1 + length {
            return Ok(None);
        }
        let body = input.split_to(1 + length).freeze().slice(5..);
        Ok(Some(Self { kind, body }))
    }

    /// The length of the message that the input begins with, as its head says; `None` before the head is there.
    pub fn announced(input: &[u8]) -> Option<usize> {
        input.get(1..5).map(|mut length| length.get_u32() as usize)
    }

    /// Whether it belongs to the extended protocol: an error in such a message skips all up to the next Sync.
    pub fn is_extended(&self) -> bool {
        matches!(self.kind, b'P' | b'B' | b'D' | b'E' | b'C' | b'H')
    }
}

/// The object of Describe and Close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A prepared statement.
    Statement(String),
    /// A portal.
    Portal(String),
}

/// Binds values to a prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The portal to create.
    pub portal: String,
    /// The statement.
    pub statement: String,
    /// Formats of the values.
    pub formats: Vec<Format>,
    /// The values; `None` for NULL.
    pub values: Vec<Option<Bytes>>,
    /// Formats of the columns of the result.
    pub results: Vec<Format>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frontend {
    /// Statements, in the simple protocol.
    Query(String),
    /// A statement to prepare.
    Parse {
        /// Its name; empty for the unnamed one.
        name: String,
        /// Its text.
        sql: String,
        /// OIDs of the parameters' types; 0 to infer.
        types: Vec<u32>,
    },
    /// Binds values to a prepared statement.
    Bind(Bind),
    /// Asks for the columns and parameters of a statement, or the columns of a portal.
    Describe(Target),
    /// Runs a portal.
    Execute {
        /// Its name.
        portal: String,
        /// The most rows to send; `None` for all.
        rows_max: Option<u64>,
    },
    /// Drops a statement or a portal.
    Close(Target),
    /// Ends a run of messages of the extended protocol.
    Sync,
    /// Asks the server to send what it has buffered.
    Flush,
    /// Ends the connection.
    Terminate,
    /// A message of the authentication.
    Password(Bytes),
    /// Data of a COPY that has failed before.
    Copy,
    /// A call of a function by its OID.
    FunctionCall,
}

impl Frontend {
    /// Parses a message.
    ///
    /// # Errors
    /// 08P01 for a malformed message, 22021 for text that is not UTF-8.
    pub fn parse(frame: Frame) -> Result<Self> {
        let mut body = Body(frame.body);
        let message = match frame.kind {
            b'Q' => Self::Query(body.text()?),
            b'P' => {
                let (name, sql) = (body.text()?, body.text()?);
                let types = body.counted(|body| body.u32())?;
                Self::Parse { name, sql, types }
            }
            b'B' => Self::Bind(Bind {
                portal: body.text()?,
                statement: body.text()?,
                formats: body.counted(|body| Format::of_code(body.i16()?))?,
                values: body.counted(Body::value)?,
                results: body.counted(|body| Format::of_code(body.i16()?))?,
            }),
            b'D' => Self::Describe(body.target()?),
            b'E' => Self::Execute {
                portal: body.text()?,
                rows_max: u64::try_from(body.i32()?).ok().filter(|rows_max| *rows_max > 0),
            },
            b'C' => Self::Close(body.target()?),
            b'S' => Self::Sync,
            b'H' => Self::Flush,
            b'X' => Self::Terminate,
            b'p' => Self::Password(body.rest()),
            b'F' => {
                body.rest();
                Self::FunctionCall
            }
            _ => {
                body.rest();
                Self::Copy
            }
        };
        if body.0.is_empty() { Ok(message) } else { Err(malformed("invalid message format")) }
    }
}

/// The client's first message of a SASL exchange: the mechanism and its data.
///
/// # Errors
/// 08P01 for a malformed message.
pub fn sasl_initial(body: Bytes) -> Result<(String, Bytes)> {
    let mut body = Body(body);
    let mechanism = body.text()?;
    let data = body.value()?.unwrap_or_default();
    Ok((mechanism, data))
}

/// The rest of a message's body.
struct Body(Bytes);

impl Body {
    fn require(&self, bytes: usize) -> Result<()> {
        if self.0.len() < bytes { Err(malformed("insufficient data left in message")) } else { Ok(()) }
    }

    fn u32(&mut self) -> Result<u32> {
        self.require(4).map(|()| self.0.get_u32())
    }

    fn i32(&mut self) -> Result<i32> {
        self.require(4).map(|()| self.0.get_i32())
    }

    fn i16(&mut self) -> Result<i16> {
        self.require(2).map(|()| self.0.get_i16())
    }

    fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.0)
    }

    /// Text with a zero byte behind it.
    fn text(&mut self) -> Result<String> {
        let Some(length) = self.0.iter().position(|byte| *byte == 0) else {
            return Err(malformed("invalid string in message"));
        };
        let bytes = self.0.split_to(length);
        self.0.advance(1);
        utf8(&bytes).map(str::to_owned)
    }

    /// A value with its length before it; −1 for NULL.
    fn value(&mut self) -> Result<Option<Bytes>> {
        let length = self.i32()?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| malformed("invalid length of a value"))?;
        self.require(length)?;
        Ok(Some(self.0.split_to(length)))
    }

    /// A list with its length before it.
    fn counted<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.require(2)?;
        let count = self.0.get_u16();
        (0..count).map(|_| item(self)).collect()
    }

    fn target(&mut self) -> Result<Target> {
        self.require(1)?;
        match self.0.get_u8() {
            b'S' => Ok(Target::Statement(self.text()?)),
            b'P' => Ok(Target::Portal(self.text()?)),
            kind => Err(malformed(&format!("invalid message subtype {kind}"))),
        }
    }
}

fn malformed(message: &str) -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(kind: u8, body: &[u8]) -> Frame {
        Frame { kind, body: Bytes::copy_from_slice(body) }
    }

    #[test]
    fn a_message_is_taken_when_it_is_complete() {
        let bytes = b"Q\0\0\0\x0dSELECT 1\0S\0\0\0\x04";
        let mut input = BytesMut::new();
        for (at, byte) in bytes.iter().enumerate() {
            assert_eq!(Frame::take(&mut input, MESSAGE_BYTES_MAX).unwrap().is_some(), at == 14, "at {at}");
            input.extend_from_slice(&[*byte]);
        }
        assert_eq!(Frame::take(&mut input, MESSAGE_BYTES_MAX).unwrap(), Some(frame(b'S', b"")));
        assert_eq!(Frontend::parse(frame(b'Q', b"SELECT 1\0")).unwrap(), Frontend::Query("SELECT 1".into()));
    }

    #[test]
    fn messages_over_their_limit_and_of_unknown_type_end_the_connection() {
        for bytes in [b"Q\x7f\xff\xff\xff".as_slice(), b"S\0\0\x40\0", b"Q\0\0\0\x03", b"G\0\0\0\x04"] {
            let error = Frame::take(&mut BytesMut::from(bytes), MESSAGE_BYTES_MAX).unwrap_err();
            assert_eq!(error.state, SqlState::PROTOCOL_VIOLATION, "{bytes:?}");
        }
        assert!(Frame::take(&mut BytesMut::from(b"Q\0\0\x40\0".as_slice()), SMALL_MESSAGE_BYTES_MAX).is_err());
    }

    #[test]
    fn bind_is_parsed() {
        let body = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x01\0\0";
        let expected = Bind {
            portal: "p".into(),
            statement: "s".into(),
            formats: vec![Format::Binary],
            values: vec![Some(Bytes::from_static(b"ab")), None],
            results: vec![Format::Text],
        };
        assert_eq!(Frontend::parse(frame(b'B', body)).unwrap(), Frontend::Bind(expected));
    }

    #[test]
    fn an_error_names_the_bytes_that_are_not_utf8() {
        let error = Frontend::parse(frame(b'Q', b"SELECT '\xff\xfe'\0")).unwrap_err();
        assert_eq!(error.state, SqlState::CHARACTER_NOT_IN_REPERTOIRE);
        assert_eq!(error.message, "invalid byte sequence for encoding \"UTF8\": 0xff 0xfe 0x27");
    }

    #[test]
    fn startup_packets_have_their_kinds() {
        let take = |bytes: &[u8]| Startup::take(&mut BytesMut::from(bytes));
        assert_eq!(take(b"\0\0\0\x08\x04\xd2\x16\x2f").unwrap(), Some(Startup::Tls));
        assert_eq!(take(b"\0\0\0\x08\x04\xd2\x16").unwrap(), None);
        assert_eq!(take(b"\0\0\0\x08\x04\xd2\x16\x30").unwrap(), Some(Startup::Gss));
        let cancel = Startup::Cancel { process_id: 7, secret: Bytes::from_static(b"abcd") };
        assert_eq!(take(b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07abcd").unwrap(), Some(cancel));
        let login = Startup::Login { minor: 0, parameters: vec![("user".into(), "ana".into())] };
        assert_eq!(take(b"\0\0\0\x12\0\x03\0\0user\0ana\0\0").unwrap(), Some(login));
        assert_eq!(take(b"\0\0\0\x09\0\x02\0\0\0").unwrap_err().state, SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(take(b"GET / HTTP/1.1\r\n").unwrap_err().state, SqlState::PROTOCOL_VIOLATION);
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(kind: u8, body: Vec<u8>) {
            let _ = Frontend::parse(frame(kind, &body));
            let _ = sasl_initial(Bytes::from(body.clone()));
            let mut packet = BytesMut::from(&(body.len() as u32 + 8).to_be_bytes()[..]);
            packet.extend_from_slice(&196_608u32.to_be_bytes());
            packet.extend_from_slice(&body);
            let _ = Startup::take(&mut packet);
            let _ = Frame::take(&mut BytesMut::from(&body[..]), MESSAGE_BYTES_MAX);
        }
    }
}
