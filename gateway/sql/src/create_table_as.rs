//! `CREATE TABLE … AS`, `SELECT … INTO`: tables that begin with the rows of a query.

use super::{
    clause::{CreateTableAs, OnCommit, OptionClause},
    query,
    statement::Statement,
    tokens::TokenReader,
};
use crate::pg::{
    error::{Result, SqlError},
    names::RelationName,
};
use datafusion::sql::sqlparser::{
    ast::{self, Select, SetExpr},
    tokenizer::Token,
};

/// Whether a list of names without types comes next, and what follows it makes it the columns of `CREATE TABLE … AS`.
pub(crate) fn names_follow(tokens: &TokenReader<'_>) -> bool {
    if tokens.peek() != Some(&Token::LParen) {
        return false;
    }
    let mut at = 1;
    while matches!(tokens.peek_nth(at), Some(Token::Word(_))) && tokens.peek_nth(at + 1) == Some(&Token::Comma) {
        at += 2;
    }
    let ends = matches!(tokens.peek_nth(at), Some(Token::Word(_))) && tokens.peek_nth(at + 1) == Some(&Token::RParen);
    ends && ["as", "with", "using", "on", "tablespace"].contains(&tokens.head_nth(at + 2).as_str())
}

/// The rest from `AS` on.
pub(crate) fn parse_as(
    tokens: &mut TokenReader<'_>,
    (name, if_not_exists): (RelationName, bool),
    columns: Vec<String>,
    (options, on_commit): (Vec<OptionClause>, Option<OnCommit>),
) -> Result<Statement> {
    tokens.expect_words("as")?;
    if tokens.head() == "execute" {
        return Err(SqlError::unsupported("CREATE TABLE … AS EXECUTE"));
    }
    if !matches!(tokens.head().as_str(), "" | "select" | "values" | "with" | "table") {
        return Err(tokens.syntax_error());
    }
    let Statement::Query(query) = query::parse_query(tokens)? else { return Err(tokens.syntax_error()) };
    let with_data = !tokens.words("with no data");
    if with_data {
        tokens.words("with data");
    }
    Ok(Statement::CreateTableAs(CreateTableAs { name, if_not_exists, columns, options, query, with_data, on_commit }))
}

/// `SELECT … INTO name …`: a new table with what is left of the query.
pub(crate) fn made_of(name: RelationName, query: Box<ast::Statement>) -> Statement {
    let (columns, options) = (Vec::new(), Vec::new());
    Statement::CreateTableAs(CreateTableAs {
        name,
        if_not_exists: false,
        columns,
        options,
        query,
        with_data: true,
        on_commit: None,
    })
}

/// Takes `INTO` out of a query: the name of the table.
///
/// # Errors
/// 3F000, 42501 for a schema that has none; 42P16.
pub(crate) fn take_into(query: &mut ast::Query, database: &str) -> Result<Option<RelationName>> {
    let Some(mut into) = first_select(&mut query.body).and_then(|select| select.into.take()) else { return Ok(None) };
    let first = into.name.0.first().and_then(|part| part.as_ident()).map(crate::pg::ident::fold);
    if into.name.0.len() > 2 && first.as_deref() == Some(database) {
        into.name.0.remove(0);
    }
    let name = super::query::table_name(&into.name)?;
    if into.temporary { super::definition::as_temporary(name).map(Some) } else { Ok(Some(name)) }
}

fn first_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(left),
        SetExpr::Query(query) => first_select(&mut query.body),
        _ => None,
    }
}
