//! A `SELECT` as a statement of its own, which may create a table: `SELECT … INTO`.

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

/// Parses a query that is a statement of its own: it may have `INTO`, and may lock rows.
pub(crate) fn parse_select(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let locks = Locks::cut(tokens)?;
    let (mut query, as_of) = read(tokens)?;
    let into = take_into(&mut query, tokens.database())?;
    as_of.put(&mut query)?;
    without_database(&mut query, tokens.database());
    adapt(&mut query)?;
    if into.is_some() {
        locks.refuse()?;
    } else {
        locks.put(&mut query)?;
    }
    Ok(match into {
        Some(name) => create_table_as(name, Box::new(ast::Statement::Query(query))),
        None => SelectQuery::from(query).into(),
    })
}

/// The `CREATE TABLE … AS` of a `SELECT … INTO name`, whose query has no `INTO` any more.
fn create_table_as(name: RelationName, query: Box<ast::Statement>) -> Statement {
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

/// Removes `INTO` from a query; returns the name of the table.
///
/// # Errors
/// Those of [`table_name`] and [`as_temporary`].
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
