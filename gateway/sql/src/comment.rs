//! `COMMENT ON`: what is said of tables, columns, views and databases.

use super::{statement::Definition, tokens::Cursor};
use crate::pg::{
    error::{Result, SqlError},
    names::RelationName,
};
use datafusion::sql::sqlparser::tokenizer::Token;

/// `COMMENT ON … IS …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// What it is about.
    pub on: Commented,
    /// What it says; `None` takes it away.
    pub text: Option<String>,
}

/// What a comment is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commented {
    /// A table.
    Table(RelationName),
    /// A view.
    View(RelationName),
    /// A column of either.
    Column(RelationName, String),
    /// A database.
    Database(String),
}

pub(crate) fn parse_comment(cursor: &mut Cursor<'_>) -> Result<Definition> {
    cursor.expect_words("comment on")?;
    let on = if cursor.words("table") {
        Commented::Table(cursor.table_name()?)
    } else if cursor.words("view") {
        Commented::View(cursor.table_name()?)
    } else if cursor.words("database") {
        Commented::Database(cursor.name()?)
    } else if cursor.words("column") {
        let mut parts = cursor.path()?;
        let column = parts.pop().unwrap_or_default();
        if parts.is_empty() {
            return Err(SqlError::syntax("column name must be qualified"));
        }
        Commented::Column(cursor.relation(&parts)?, column)
    } else if matches!(cursor.peek(), Some(Token::Word(_))) {
        return Err(SqlError::unsupported(format!("COMMENT ON {}", cursor.head().to_uppercase()))
            .with_hint("Tables, columns, views and databases have comments."));
    } else {
        return Err(cursor.syntax_error());
    };
    cursor.expect_words("is")?;
    let text = if cursor.words("null") { None } else { Some(cursor.string()?) };
    // One that is empty is none.
    Ok(Definition::Comment(Comment { on, text: text.filter(|text| !text.is_empty()) }))
}
