//! `CREATE TABLE … AS`: tables that begin with the rows of a query.

use crate::{
    ast::{
        Statement,
        definition::{CreateTableAs, OnCommit, OptionClause},
    },
    query,
    tokens::TokenReader,
    view,
};
use datafusion::sql::sqlparser::{ast, tokenizer::Token};
use keyspan_pg::{
    error::{Result, SqlError},
    names::RelationName,
};

/// Whether a list of names without types comes next, and behind it what follows the columns of `CREATE TABLE … AS`.
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

/// Parses the rest of the statement, from `AS` on.
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
    let query = Box::new(ast::Statement::Query(query::parse_query(tokens)?));
    let with_data = view::with_data(tokens);
    Ok(Statement::CreateTableAs(CreateTableAs { name, if_not_exists, columns, options, query, with_data, on_commit }))
}
