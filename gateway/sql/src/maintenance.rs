//! `TRUNCATE`, `LOCK`, and statements that have no effect here: `VACUUM`, `ANALYZE`, `CREATE SCHEMA` of a schema that
//! exists.

use crate::{
    ast::{Maintenance, Statement},
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_pg::error::{Result, SqlError};

pub(crate) fn parse_truncate(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    tokens.expect_words("truncate")?;
    tokens.words("table");
    let tables = tokens.list(|tokens| {
        tokens.words("only");
        let name = tokens.table_name();
        tokens.token(&Token::Mul);
        name
    })?;
    let restart = tokens.words("restart identity");
    if !restart {
        tokens.words("continue identity");
    }
    // There are no foreign keys: both words mean the same.
    let _ = tokens.words("cascade") || tokens.words("restrict");
    Ok(Statement::Truncate { tables, restart })
}

/// `ALTER SYSTEM CONFIRM CLOCK`; PostgreSQL's other forms are 0A000.
pub(crate) fn parse_alter_system(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    tokens.expect_words("system")?;
    if tokens.words("confirm clock") {
        return Ok(Statement::Maintenance(Maintenance::ConfirmClock));
    }
    Err(SqlError::unsupported("ALTER SYSTEM")
        .with_hint("The server's options are those of its command line; ALTER SYSTEM CONFIRM CLOCK is there."))
}

/// `VACUUM [(options)] [FULL] [FREEZE] [VERBOSE] [ANALYZE] [table [(columns)], …]`; `ANALYZE` has fewer of these words.
pub(crate) fn parse_vacuum(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let vacuum = tokens.head() == "vacuum";
    tokens.advance();
    if tokens.peek() == Some(&Token::LParen) {
        tokens.parenthesised(|tokens| {
            tokens.name()?;
            if !matches!(tokens.peek(), Some(Token::Comma | Token::RParen)) {
                tokens.advance();
            }
            Ok(())
        })?;
    }
    for word in ["full", "freeze", "verbose", "analyze", "analyse"] {
        if vacuum || word == "verbose" {
            tokens.words(word);
        }
    }
    let mut tables = Vec::new();
    if !tokens.at_end() {
        tables = tokens.list(|tokens| {
            let name = tokens.table_name()?;
            if tokens.peek() == Some(&Token::LParen) {
                tokens.parenthesised(TokenReader::name)?;
            }
            Ok(name)
        })?;
    }
    Ok(Statement::Maintenance(if vacuum { Maintenance::Vacuum(tables) } else { Maintenance::Analyze(tables) }))
}

/// `LOCK [TABLE] [ONLY] name, … IN ACCESS SHARE MODE [NOWAIT]`
///
/// # Errors
/// 0A000 for any other mode: each keeps others from something, and nothing does here.
pub(crate) fn parse_lock(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    tokens.expect_words("lock")?;
    tokens.words("table");
    let relations = tokens.list(|tokens| {
        tokens.words("only");
        let name = tokens.table_name();
        tokens.token(&Token::Mul);
        name
    })?;
    if !tokens.words("in access share") {
        return Err(refuse_lock());
    }
    tokens.expect_words("mode")?;
    tokens.words("nowait");
    Ok(Statement::Lock(relations))
}

/// 0A000 for `LOCK`.
pub fn refuse_lock() -> SqlError {
    SqlError::unsupported("LOCK")
        .with_hint("Nothing locks here: a transaction whose rows others have changed fails at COMMIT with 40001.")
}
