//! The two formats of values on the wire, and UTF-8 as PostgreSQL checks it.

use crate::error::{Result, SqlError, SqlState};

/// How a value is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// As PostgreSQL prints it.
    #[default]
    Text,
    /// As `typsend` writes it.
    Binary,
}

impl Format {
    /// The format of a code.
    ///
    /// # Errors
    /// 22023 for a code other than 0 and 1.
    #[inline]
    pub fn of_code(code: i16) -> Result<Self> {
        match code {
            0 => Ok(Self::Text),
            1 => Ok(Self::Binary),
            _ => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unsupported format code: {code}"))),
        }
    }

    /// The code of the format.
    #[inline]
    pub fn code(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }

    /// The formats of `count` things from the codes of a message: none for all text, one for all, or one for each.
    ///
    /// # Errors
    /// 08P01 for another number of codes.
    pub fn for_each(codes: &[Self], count: usize, what: &str) -> Result<Vec<Self>> {
        match codes {
            [] => Ok(vec![Self::Text; count]),
            [one] => Ok(vec![*one; count]),
            codes if codes.len() == count => Ok(codes.to_vec()),
            codes => Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!("bind message has {} {what} formats but {count} {what}s", codes.len()),
            )),
        }
    }
}

/// Bytes as text of a value or a statement.
///
/// # Errors
/// 22021 for bytes that are no UTF-8.
#[inline]
pub fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let bad: Vec<_> = bytes[at..].iter().take(4).map(|byte| format!("0x{byte:02x}")).collect();
        let message = format!("invalid byte sequence for encoding \"UTF8\": {}", bad.join(" "));
        SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
    })
}
