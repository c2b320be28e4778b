//! `COMMENT ON` tables, columns, views, types, domains, schemas and databases.

use crate::{
    ast::{
        definition::{Comment, Commented, Definition},
        view::ViewKind,
    },
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_pg::error::{Result, SqlError};

pub(crate) fn parse_comment(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("comment on")?;
    let on = if tokens.words("table") {
        Commented::Table(tokens.table_name()?)
    } else if tokens.words("view") {
        Commented::View(ViewKind::Plain, tokens.table_name()?)
    } else if tokens.words("materialized view") {
        Commented::View(ViewKind::Materialized, tokens.table_name()?)
    } else if tokens.words("database") {
        Commented::Database(tokens.name()?)
    } else if tokens.words("schema") {
        Commented::Schema(tokens.name()?)
    } else if tokens.words("type") {
        Commented::Type(tokens.table_name()?)
    } else if tokens.words("domain") {
        Commented::Domain(tokens.table_name()?)
    } else if tokens.words("column") {
        let mut parts = tokens.path()?;
        let column = parts.pop().unwrap_or_default();
        if parts.is_empty() {
            return Err(SqlError::syntax("column name must be qualified"));
        }
        Commented::Column(tokens.relation(&parts)?, column)
    } else if matches!(tokens.peek(), Some(Token::Word(_))) {
        return Err(SqlError::unsupported(format!("COMMENT ON {}", tokens.head().to_uppercase()))
            .with_hint("Tables, columns, views, types, domains, schemas and databases have comments."));
    } else {
        return Err(tokens.syntax_error());
    };
    tokens.expect_words("is")?;
    let text = if tokens.words("null") { None } else { Some(tokens.string()?) };
    // As in PostgreSQL, an empty comment removes it.
    Ok(Definition::Comment(Comment { on, text: text.filter(|text| !text.is_empty()) }))
}
