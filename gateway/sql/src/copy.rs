//! `COPY`: the Parquet file of `TO 'file'`, and PostgreSQL's formats of `TO STDOUT` and `FROM STDIN`.
//!
//! Options come in parentheses, or as the words of PostgreSQL before 9.0, which psql's `\copy` and dumps still send.
//! Contradictory options are refused with PostgreSQL 15's errors.

mod options;

use crate::{
    adapt::adapt,
    as_of::AsOfClauses,
    ast::{
        Statement,
        copy::{Compression, CopyFrom, CopyOut, CopyTo},
    },
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::{ast, tokenizer::Token};
use keyspan_pg::{
    error::{Result, SqlError},
    syntax::build::select_from,
};
use options::{OptionValue, checked_options, copy_options, invalid};

pub(crate) fn parse_copy(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    tokens.expect_words("copy")?;
    let as_of = AsOfClauses::cut(tokens)?;
    let (mut query, table) = if tokens.token(&Token::LParen) {
        if ["insert", "update", "delete"].contains(&tokens.head().as_str()) {
            return Err(SqlError::unsupported("COPY of a statement that writes"));
        }
        let query = tokens.parse_with(|parser| parser.parse_query())?;
        tokens.expect_token(&Token::RParen)?;
        (query, None)
    } else {
        let name = tokens.table_name()?;
        let columns =
            if tokens.peek() == Some(&Token::LParen) { tokens.parenthesised(TokenReader::name)? } else { Vec::new() };
        (select_from(&name, &columns)?, Some((name, columns)))
    };
    as_of.put(&mut query)?;
    adapt(&mut query)?;
    if tokens.words("from") {
        let Some((table, columns)) = table else { return Err(tokens.syntax_error()) };
        if !tokens.words("stdin") {
            let hint = "COPY … FROM STDIN takes the rows from the client; psql's \\copy reads a file of the client's.";
            return Err(SqlError::unsupported("COPY FROM a file or program of the server").with_hint(hint));
        }
        let options = checked_options(copy_options(tokens)?, true)?;
        if tokens.head() == "where" {
            return Err(SqlError::unsupported("WHERE in COPY"));
        }
        return Ok(Statement::CopyFrom(CopyFrom { table, columns, options }));
    }
    tokens.expect_words("to")?;
    let query = Box::new(ast::Statement::Query(query));
    if tokens.words("stdout") {
        let options = checked_options(copy_options(tokens)?, false)?;
        return Ok(Statement::CopyOut(CopyOut { query, options }));
    }
    if tokens.head() == "program" {
        return Err(SqlError::unsupported("COPY … TO PROGRAM")
            .with_hint("COPY … TO STDOUT gives the rows to the client, which can start one."));
    }
    let path = tokens.string()?;
    let (mut parquet, mut compression) = (false, Compression::default());
    for (name, value) in copy_options(tokens)? {
        match (name.as_str(), value) {
            ("format", OptionValue::Text(format)) if format.eq_ignore_ascii_case("parquet") => parquet = true,
            ("compression", OptionValue::Text(value)) => compression = compression_named(&value.to_lowercase())?,
            ("format", OptionValue::Text(other)) => {
                return Err(SqlError::unsupported(format!("COPY to a file as {other}")));
            }
            _ => return Err(SqlError::unsupported(format!("COPY option {}", name.to_uppercase()))),
        }
    }
    if !parquet {
        return Err(SqlError::unsupported("COPY … TO a file as text").with_hint("Say (FORMAT parquet)."));
    }
    Ok(Statement::CopyTo(CopyTo { query, path, compression }))
}

fn compression_named(name: &str) -> Result<Compression> {
    match name {
        "none" | "uncompressed" => Ok(Compression::None),
        "snappy" => Ok(Compression::Snappy),
        "lz4" | "lz4_raw" => Ok(Compression::Lz4),
        "zstd" => Ok(Compression::Zstd),
        _ => Err(invalid(format!("unknown compression \"{name}\"")).with_hint("There are none, snappy, lz4 and zstd.")),
    }
}
