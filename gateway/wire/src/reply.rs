//! Messages that the server sends, except rows ([`encoder`](crate::encoder)).
//!
//! Each function appends one whole message to the output; nothing is sent here.

use crate::{
    encoder::{finish, put_text, start},
    transaction_status::TransactionStatus,
};
use bytes::{BufMut, BytesMut};
use keyspan_pg::error::{SqlError, SqlState};

/// The severity of an ErrorResponse or NoticeResponse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The statement failed.
    Error,
    /// The connection ends.
    Fatal,
    /// Information; the statement goes on.
    Notice,
    /// A likely problem; the statement goes on.
    Warning,
}

impl Severity {
    fn text(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
            Self::Notice => "NOTICE",
            Self::Warning => "WARNING",
        }
    }

    /// The severity of a notice by the class of its SQLSTATE: a notice for `00` and 42622 (a name was cut), else a
    /// warning.
    pub fn of_notice(notice: &SqlError) -> Self {
        let is_notice = notice.state.0.starts_with("00") || notice.state == SqlState::NAME_TOO_LONG;
        if is_notice { Self::Notice } else { Self::Warning }
    }
}

/// ErrorResponse, or NoticeResponse for a notice and a warning.
pub fn problem(error: &SqlError, severity: Severity, out: &mut BytesMut) {
    let is_notice = matches!(severity, Severity::Notice | Severity::Warning);
    let at = start(if is_notice { b'N' } else { b'E' }, out);
    let position = error.position.map(|position| position.to_string());
    let fields = [
        (b'S', Some(severity.text())),
        (b'V', Some(severity.text())),
        (b'C', Some(error.state.0)),
        (b'M', Some(error.message.as_str())),
        (b'D', error.detail.as_deref()),
        (b'H', error.hint.as_deref()),
        (b'P', position.as_deref()),
        (b'W', error.context.as_deref()),
    ];
    for (field, text) in fields.into_iter().filter_map(|(field, text)| Some((field, text?))) {
        out.put_u8(field);
        put_text(text, out);
    }
    out.put_u8(0);
    finish(at, out);
}

/// An Authentication message: its code and the data behind it.
fn authentication(code: u32, data: &[u8], out: &mut BytesMut) {
    let at = start(b'R', out);
    out.put_u32(code);
    out.put_slice(data);
    finish(at, out);
}

/// AuthenticationOk.
pub fn authentication_ok(out: &mut BytesMut) {
    authentication(0, b"", out);
}

/// AuthenticationSASL: the mechanisms that the server offers.
pub fn authentication_sasl(mechanisms: &[String], out: &mut BytesMut) {
    let mut names = BytesMut::new();
    mechanisms.iter().for_each(|name| put_text(name, &mut names));
    names.put_u8(0);
    authentication(10, &names, out);
}

/// AuthenticationSASLContinue.
pub fn authentication_continue(data: &str, out: &mut BytesMut) {
    authentication(11, data.as_bytes(), out);
}

/// AuthenticationSASLFinal.
pub fn authentication_final(data: &str, out: &mut BytesMut) {
    authentication(12, data.as_bytes(), out);
}

/// NegotiateProtocolVersion: the newest minor version of protocol 3 that the server speaks, and the options that it
/// does not know.
pub fn negotiate(minor: u16, unknown: &[String], out: &mut BytesMut) {
    let at = start(b'v', out);
    out.put_u32(3 << 16 | u32::from(minor));
    out.put_u32(unknown.len() as u32);
    unknown.iter().for_each(|name| put_text(name, out));
    finish(at, out);
}

/// BackendKeyData: the process ID and the secret that a cancel request repeats.
pub fn key_data(process_id: i32, secret: &[u8], out: &mut BytesMut) {
    let at = start(b'K', out);
    out.put_i32(process_id);
    out.put_slice(secret);
    finish(at, out);
}

/// ParameterStatus: a setting that the client follows.
pub fn parameter_status(name: &str, value: &str, out: &mut BytesMut) {
    let at = start(b'S', out);
    put_text(name, out);
    put_text(value, out);
    finish(at, out);
}

/// NotificationResponse.
pub fn notification(process_id: i32, channel: &str, payload: &str, out: &mut BytesMut) {
    let at = start(b'A', out);
    out.put_i32(process_id);
    put_text(channel, out);
    put_text(payload, out);
    finish(at, out);
}

/// ReadyForQuery.
pub fn ready(status: TransactionStatus, out: &mut BytesMut) {
    let at = start(b'Z', out);
    out.put_u8(match status {
        TransactionStatus::Idle => b'I',
        TransactionStatus::Open => b'T',
        TransactionStatus::Failed => b'E',
    });
    finish(at, out);
}

/// CommandComplete: the command tag, `SELECT 1` for example.
pub fn complete(tag: &str, out: &mut BytesMut) {
    let at = start(b'C', out);
    put_text(tag, out);
    finish(at, out);
}

/// CopyInResponse or CopyOutResponse: one format for all columns, and their number.
fn copy(kind: u8, binary: bool, columns: usize, out: &mut BytesMut) {
    let at = start(kind, out);
    out.put_u8(u8::from(binary));
    out.put_u16(columns as u16);
    (0..columns).for_each(|_| out.put_u16(u16::from(binary)));
    finish(at, out);
}

/// CopyInResponse: the client sends rows of `columns` as CopyData.
pub fn copy_in(binary: bool, columns: usize, out: &mut BytesMut) {
    copy(b'G', binary, columns, out);
}

/// CopyOutResponse: rows of `columns` follow as CopyData.
pub fn copy_out(binary: bool, columns: usize, out: &mut BytesMut) {
    copy(b'H', binary, columns, out);
}

/// CopyDone.
pub fn copy_done(out: &mut BytesMut) {
    bare(b'c', out);
}

/// ParameterDescription: the OIDs of the parameters' types.
pub fn parameters(oids: impl ExactSizeIterator<Item = u32>, out: &mut BytesMut) {
    let at = start(b't', out);
    out.put_u16(oids.len() as u16);
    oids.for_each(|oid| out.put_u32(oid));
    finish(at, out);
}

/// A message without a body.
fn bare(kind: u8, out: &mut BytesMut) {
    let at = start(kind, out);
    finish(at, out);
}

/// ParseComplete.
pub fn parse_complete(out: &mut BytesMut) {
    bare(b'1', out);
}

/// BindComplete.
pub fn bind_complete(out: &mut BytesMut) {
    bare(b'2', out);
}

/// CloseComplete.
pub fn close_complete(out: &mut BytesMut) {
    bare(b'3', out);
}

/// EmptyQueryResponse.
pub fn empty(out: &mut BytesMut) {
    bare(b'I', out);
}

/// NoData: the statement returns no rows.
pub fn no_data(out: &mut BytesMut) {
    bare(b'n', out);
}

/// PortalSuspended: the portal has more rows.
pub fn suspended(out: &mut BytesMut) {
    bare(b's', out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
        let mut out = BytesMut::new();
        write(&mut out);
        out.to_vec()
    }

    #[test]
    fn messages_have_their_bytes() {
        assert_eq!(written(authentication_ok), b"R\0\0\0\x08\0\0\0\0");
        assert_eq!(written(|out| authentication_sasl(&["A".into()], out)), b"R\0\0\0\x0b\0\0\0\x0aA\0\0");
        assert_eq!(written(|out| negotiate(2, &[], out)), b"v\0\0\0\x0c\0\x03\0\x02\0\0\0\0");
        assert_eq!(written(|out| key_data(7, b"abcd", out)), b"K\0\0\0\x0c\0\0\0\x07abcd");
        assert_eq!(written(|out| parameter_status("a", "b", out)), b"S\0\0\0\x08a\0b\0");
        assert_eq!(written(|out| ready(TransactionStatus::Failed, out)), b"Z\0\0\0\x05E");
        assert_eq!(written(|out| complete("SELECT 1", out)), b"C\0\0\0\x0dSELECT 1\0");
        assert_eq!(written(|out| parameters([25].into_iter(), out)), b"t\0\0\0\x0a\0\x01\0\0\0\x19");
        assert_eq!(written(|out| notification(7, "a", "", out)), b"A\0\0\0\x0b\0\0\0\x07a\0\0");
        assert_eq!(written(suspended), b"s\0\0\0\x04");
        assert_eq!(written(|out| copy_in(false, 1, out)), b"G\0\0\0\x09\0\0\x01\0\0");
        assert_eq!(written(|out| copy_out(true, 1, out)), b"H\0\0\0\x09\x01\0\x01\0\x01");
    }

    #[test]
    fn an_error_has_its_fields_and_no_zero_within() {
        let error = SqlError { position: Some(8), ..SqlError::syntax("a\0b").with_hint("c") };
        let expected = b"E\0\0\0\x24SERROR\0VERROR\0C42601\0Mab\0Hc\0P8\0\0";
        assert_eq!(written(|out| problem(&error, Severity::Error, out)), expected);
        let notice = SqlError::new(SqlState("00000"), "a");
        assert_eq!(Severity::of_notice(&notice), Severity::Notice);
        assert_eq!(written(|out| problem(&notice, Severity::Notice, out))[0], b'N');
    }
}
