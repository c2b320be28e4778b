//! `LISTEN`, `UNLISTEN`, `NOTIFY`.

use super::{statement::Statement, tokens::Cursor};
use crate::pg::error::Result;
use datafusion::sql::sqlparser::tokenizer::Token;

pub(crate) fn parse_listen(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let listen = cursor.words("listen");
    if listen {
        return Ok(Statement::Listen(Listening::To(cursor.name()?)));
    }
    cursor.expect_words("unlisten")?;
    let channel = if cursor.token(&Token::Mul) { None } else { Some(cursor.name()?) };
    Ok(Statement::Listen(Listening::Not(channel)))
}

pub(crate) fn parse_notify(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect_words("notify")?;
    let channel = cursor.name()?;
    let payload = if cursor.token(&Token::Comma) { cursor.string()? } else { String::new() };
    Ok(Statement::Notify { channel, payload })
}

/// A change of what a session listens to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listening {
    /// `LISTEN`
    To(String),
    /// `UNLISTEN`; `None` for all.
    Not(Option<String>),
}
