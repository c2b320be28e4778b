//! `CREATE PROTO DESCRIPTOR`, `DROP PROTO DESCRIPTOR`.

use crate::{
    ast::definition::{CreateProto, Definition},
    tokens::TokenReader,
};
use keyspan_catalog::{SqlType, Value};
use keyspan_pg::error::{Result, SqlError};

/// Parses what follows `CREATE`.
pub(crate) fn parse_create_proto(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    let or_replace = tokens.words("or replace");
    tokens.expect_words("proto descriptor")?;
    if tokens.words("if not exists") {
        return Err(SqlError::unsupported("CREATE PROTO DESCRIPTOR IF NOT EXISTS").with_hint("OR REPLACE does it."));
    }
    let name = tokens.name()?;
    tokens.expect_words("as")?;
    let text = tokens.string()?;
    let files = match Value::parse(&text, SqlType::Bytea)? {
        Value::Bytes(bytes) => bytes.to_vec(),
        _ => return Err(tokens.syntax_error()),
    };
    Ok(Definition::CreateProto(CreateProto { name, or_replace, files }))
}

/// Parses what follows `DROP`.
pub(crate) fn parse_drop_proto(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("proto descriptor")?;
    let if_exists = tokens.words("if exists");
    let names = tokens.list(TokenReader::name)?;
    if tokens.words("cascade") {
        return Err(SqlError::unsupported("DROP PROTO DESCRIPTOR … CASCADE"));
    }
    tokens.words("restrict");
    Ok(Definition::DropProtos { names, if_exists })
}
