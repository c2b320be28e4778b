//! `PREPARE`, `EXECUTE`, `DEALLOCATE`.

use crate::{
    ast::{
        Statement,
        session::{Execute, Prepare},
    },
    tokens::TokenReader,
    type_name,
};
use datafusion::sql::sqlparser::{
    ast::{self, DataType},
    parser::Parser,
    tokenizer::Token,
};
use keyspan_pg::error::{Result, SqlError};

/// Parses `PREPARE`; `parse` reads the statement behind `AS`.
pub(crate) fn parse_prepare(
    tokens: &mut TokenReader<'_>,
    parse: impl FnOnce(&mut TokenReader<'_>) -> Result<Statement>,
) -> Result<Statement> {
    tokens.expect_words("prepare")?;
    if tokens.words("transaction") {
        return Err(SqlError::unsupported("a prepared transaction"));
    }
    let name = tokens.name()?;
    let types = if tokens.peek() == Some(&Token::LParen) {
        tokens.parenthesised(|tokens| {
            let parsed = tokens.parse_with(|parser| parser.parse_data_type())?;
            match &parsed {
                // An OID, which no column of users has, takes its type from where it is used.
                DataType::Custom(name, _) if is_inferred(&name.to_string().to_lowercase()) => Ok(None),
                // A numeric parameter without precision has the digits of its value.
                DataType::Numeric(ast::ExactNumberInfo::None) | DataType::Decimal(ast::ExactNumberInfo::None) => {
                    Ok(None)
                }
                other => type_name::sql_type(other).map(Some),
            }
        })?
    } else {
        Vec::new()
    };
    tokens.expect_words("as")?;
    // These would parse another statement each, without end.
    if matches!(tokens.head().as_str(), "explain" | "prepare") {
        return Err(tokens.syntax_error());
    }
    let statement = parse(tokens)?;
    match statement {
        Statement::Query(_)
        | Statement::LockingQuery(_)
        | Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Erase(_)
        | Statement::WritingWith(_)
        | Statement::Merge(_) => {}
        _ => return Err(SqlError::unsupported("PREPARE of this statement")),
    }
    Ok(Statement::Prepare(Prepare { name, types, statement: Box::new(statement), text: tokens.text() }))
}

/// Whether a parameter of this type is one of an inferred type.
fn is_inferred(name: &str) -> bool {
    matches!(name.strip_prefix("pg_catalog.").unwrap_or(name), "unknown" | "oid")
}

pub(crate) fn parse_execute(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    tokens.expect_words("execute")?;
    let name = tokens.name()?;
    let arguments = if tokens.peek() == Some(&Token::LParen) {
        tokens.expect_token(&Token::LParen)?;
        let all = tokens.parse_with(|parser| parser.parse_comma_separated(Parser::parse_expr))?;
        tokens.expect_token(&Token::RParen)?;
        all
    } else {
        Vec::new()
    };
    Ok(Statement::Execute(Execute { name, arguments }))
}

pub(crate) fn parse_deallocate(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    tokens.expect_words("deallocate")?;
    tokens.words("prepare");
    if tokens.words("all") {
        return Ok(Statement::Deallocate(None));
    }
    Ok(Statement::Deallocate(Some(tokens.name()?)))
}
