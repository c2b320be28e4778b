//! The protocol's bytes: messages that come ([`frontend`]), messages that go ([`reply`]), rows ([`encoder`]) and parameters
//! ([`parameter`]).
//!
//! A batch of rows is encoded by column: what a column's type asks for is decided once, when the batch arrives, and a row only
//! calls what was decided. Everything here is pure; sockets are [`server`](crate::server)'s. [`fuzz`] is what fuzzers call.

pub mod encoder;
pub mod frontend;
pub mod fuzz;
pub mod reply;

use crate::pg::error::{Result, SqlError, SqlState};

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
    pub fn of_code(code: i16) -> Result<Self> {
        match code {
            0 => Ok(Self::Text),
            1 => Ok(Self::Binary),
            _ => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unsupported format code: {code}"))),
        }
    }

    /// The code of the format.
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
