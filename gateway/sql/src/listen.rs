//! `LISTEN`, `UNLISTEN`, `NOTIFY`.

use crate::{
    ast::{Statement, session::Listening},
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_pg::error::Result;

pub(crate) fn parse_listen(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let listen = tokens.words("listen");
    if listen {
        return Ok(Statement::Listen(Listening::To(tokens.name()?)));
    }
    tokens.expect_words("unlisten")?;
    let channel = if tokens.token(&Token::Mul) { None } else { Some(tokens.name()?) };
    Ok(Statement::Listen(Listening::Not(channel)))
}

pub(crate) fn parse_notify(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    tokens.expect_words("notify")?;
    let channel = tokens.name()?;
    let payload = if tokens.token(&Token::Comma) { tokens.string()? } else { String::new() };
    Ok(Statement::Notify { channel, payload })
}
