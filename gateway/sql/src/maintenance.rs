//! `TRUNCATE`, and statements of upkeep that other databases need: `VACUUM`, `ANALYZE`.

use super::{statement::Statement, tokens::Cursor};
use crate::pg::{
    error::{Result, SqlError, SqlState},
    names::RelationName,
};
use datafusion::sql::sqlparser::tokenizer::Token;

/// A statement that has nothing to do here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// `VACUUM`, of these tables.
    Vacuum(Vec<RelationName>),
    /// `ANALYZE`, of these tables.
    Analyze(Vec<RelationName>),
    /// `CREATE SCHEMA IF NOT EXISTS` of a schema that exists.
    Schema(String),
}

pub(crate) fn parse_truncate(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect_words("truncate")?;
    cursor.words("table");
    let tables = cursor.list(|cursor| {
        cursor.words("only");
        let name = cursor.table_name();
        cursor.token(&Token::Mul);
        name
    })?;
    let restart = cursor.words("restart identity");
    if !restart {
        cursor.words("continue identity");
    }
    // No table refers to another: both mean the same.
    let _ = cursor.words("cascade") || cursor.words("restrict");
    Ok(Statement::Truncate { tables, restart })
}

/// `VACUUM [(options)] [FULL] [FREEZE] [VERBOSE] [ANALYZE] [table [(columns)], …]`, and `ANALYZE` alike.
pub(crate) fn parse_vacuum(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let vacuum = cursor.head() == "vacuum";
    cursor.advance();
    if cursor.peek() == Some(&Token::LParen) {
        cursor.parenthesised(|cursor| {
            cursor.name()?;
            if !matches!(cursor.peek(), Some(Token::Comma | Token::RParen)) {
                cursor.advance();
            }
            Ok(())
        })?;
    }
    for word in ["full", "freeze", "verbose", "analyze", "analyse"] {
        if vacuum || word == "verbose" {
            cursor.words(word);
        }
    }
    let mut tables = Vec::new();
    if !cursor.at_end() {
        tables = cursor.list(|cursor| {
            let name = cursor.table_name()?;
            if cursor.peek() == Some(&Token::LParen) {
                cursor.parenthesised(Cursor::name)?;
            }
            Ok(name)
        })?;
    }
    Ok(Statement::Upkeep(if vacuum { Upkeep::Vacuum(tables) } else { Upkeep::Analyze(tables) }))
}

/// `CREATE SCHEMA`: there are those that there are.
///
/// # Errors
/// 42P06 for one that exists, 0A000 for others.
pub(crate) fn parse_create_schema(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect_words("schema")?;
    let if_not_exists = cursor.words("if not exists");
    let mut name = cursor.name()?;
    if name == cursor.database() && cursor.token(&Token::Period) {
        name = cursor.name()?;
    }
    if cursor.words("authorization") {
        cursor.name()?;
    }
    if !["public", "pg_catalog", "information_schema"].contains(&name.as_str()) {
        return Err(SqlError::unsupported("CREATE SCHEMA")
            .with_hint("A database has one schema for tables: \"public\". Make a database, or give names a prefix."));
    }
    if if_not_exists {
        return Ok(Statement::Upkeep(Upkeep::Schema(name)));
    }
    Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, format!("schema \"{name}\" already exists")))
}

/// What waits for others, where nothing locks: 0A000, with what to do instead.
pub(crate) fn refuse(cursor: &Cursor<'_>) -> SqlError {
    SqlError::unsupported(cursor.head().to_uppercase())
        .with_hint("Nothing locks here: a transaction whose rows others have changed fails at COMMIT with 40001.")
}
