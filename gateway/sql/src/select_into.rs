//! A `SELECT` that stands by itself, which may create a table: `SELECT … INTO`.

use crate::{
    adapt::{adapt, without_database},
    ast::{SelectQuery, Statement, definition::CreateTableAs},
    locking::Locks,
    names::{as_temporary, table_name},
    query::read,
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::ast::{self, Select, SetExpr};
use keyspan_pg::{error::Result, ident::fold, names::RelationName};

/// A query that stands by itself: it may say `INTO`.
pub(crate) fn parse_select(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let locks = Locks::cut(tokens)?;
    let (mut query, past) = read(tokens)?;
    let into = take_into(&mut query, tokens.database())?;
    past.put(&mut query)?;
    without_database(&mut query, tokens.database());
    adapt(&mut query)?;
    if into.is_some() {
        locks.refuse()?;
    } else {
        locks.put(&mut query)?;
    }
    Ok(match into {
        Some(name) => made_of(name, Box::new(ast::Statement::Query(query))),
        None => SelectQuery::from(query).into(),
    })
}

/// `SELECT … INTO name …`: a new table with what is left of the query.
fn made_of(name: RelationName, query: Box<ast::Statement>) -> Statement {
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
fn take_into(query: &mut ast::Query, database: &str) -> Result<Option<RelationName>> {
    let Some(mut into) = first_select(&mut query.body).and_then(|select| select.into.take()) else { return Ok(None) };
    let first = into.name.0.first().and_then(|part| part.as_ident()).map(fold);
    if into.name.0.len() > 2 && first.as_deref() == Some(database) {
        into.name.0.remove(0);
    }
    let name = table_name(&into.name)?;
    if into.temporary { as_temporary(name).map(Some) } else { Ok(Some(name)) }
}

fn first_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(left),
        SetExpr::Query(query) => first_select(&mut query.body),
        _ => None,
    }
}
