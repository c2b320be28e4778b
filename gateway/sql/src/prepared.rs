//! `PREPARE`, `EXECUTE`, `DEALLOCATE`.

use super::{
    statement::{Statement, parse_one},
    tokens::Cursor,
    type_name,
};
use crate::pg::error::{Result, SqlError};
use datafusion::sql::sqlparser::{
    ast::{self, DataType, Expr},
    tokenizer::Token,
};
use keyspan_catalog::SqlType;

/// `PREPARE name (types) AS statement`
#[derive(Clone, Debug, PartialEq)]
pub struct Prepare {
    /// Its name.
    pub name: String,
    /// The declared types of `$1`, `$2`, …; `None` to infer.
    pub types: Vec<Option<SqlType>>,
    /// A query or a write.
    pub statement: Box<Statement>,
    /// The text of all of it.
    pub text: String,
}

/// `EXECUTE name (values)`
#[derive(Clone, Debug, PartialEq)]
pub struct Execute {
    /// The prepared statement.
    pub name: String,
    /// The values of its parameters.
    pub arguments: Vec<Expr>,
}

pub(crate) fn parse_prepare(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect_words("prepare")?;
    if cursor.words("transaction") {
        return Err(SqlError::unsupported("a prepared transaction"));
    }
    let name = cursor.name()?;
    let types = if cursor.peek() == Some(&Token::LParen) {
        cursor.parenthesised(|cursor| {
            let parsed = cursor.parse_with(|parser| parser.parse_data_type())?;
            match &parsed {
                DataType::Custom(name, _) if name.to_string().eq_ignore_ascii_case("unknown") => Ok(None),
                // A parameter has its own digits.
                DataType::Numeric(ast::ExactNumberInfo::None) | DataType::Decimal(ast::ExactNumberInfo::None) => {
                    Ok(None)
                }
                other => type_name::sql_type(other).map(Some),
            }
        })?
    } else {
        Vec::new()
    };
    cursor.expect_words("as")?;
    let statement = parse_one(cursor)?;
    match statement {
        Statement::Query(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {}
        Statement::Merge(_) => {}
        _ => return Err(SqlError::unsupported("PREPARE of this statement")),
    }
    Ok(Statement::Prepare(Prepare { name, types, statement: Box::new(statement), text: cursor.text() }))
}

pub(crate) fn parse_execute(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect_words("execute")?;
    let name = cursor.name()?;
    let arguments = if cursor.peek() == Some(&Token::LParen) {
        cursor.parenthesised(|cursor| cursor.parse_with(|parser| parser.parse_expr()))?
    } else {
        Vec::new()
    };
    Ok(Statement::Execute(Execute { name, arguments }))
}

pub(crate) fn parse_deallocate(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect_words("deallocate")?;
    cursor.words("prepare");
    if cursor.words("all") {
        return Ok(Statement::Deallocate(None));
    }
    Ok(Statement::Deallocate(Some(cursor.name()?)))
}
