//! `LISTEN`, `UNLISTEN`, `NOTIFY`.

use super::{Statement, cursor::Cursor};
use crate::{error::Result, notifications::Listening};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Bytes of a name, at most: as in PostgreSQL, what is longer is cut.
const NAME_BYTES_MAX: usize = 63;

pub(super) fn parse_listen(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let listen = cursor.words("listen");
    if listen {
        return Ok(Statement::Listen(Listening::To(channel(cursor)?)));
    }
    cursor.expect_words("unlisten")?;
    let channel = if cursor.token(&Token::Mul) { None } else { Some(channel(cursor)?) };
    Ok(Statement::Listen(Listening::Not(channel)))
}

pub(super) fn parse_notify(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect_words("notify")?;
    let channel = channel(cursor)?;
    let payload = if cursor.token(&Token::Comma) { cursor.string()? } else { String::new() };
    Ok(Statement::Notify { channel, payload })
}

fn channel(cursor: &mut Cursor<'_>) -> Result<String> {
    let mut name = cursor.name()?;
    name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
    Ok(name)
}
