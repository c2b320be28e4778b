//! Queries: read by sqlparser, then checked for unsupported clauses.

use crate::{
    adapt::{adapt, without_database},
    as_of::AsOfClauses,
    locking::{Locks, nested},
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::ast::Query;
use keyspan_pg::{
    error::{Result, SqlError},
    syntax::build::select_from,
};

/// A query that may not lock rows.
pub(crate) fn parse_query(tokens: &mut TokenReader<'_>) -> Result<Box<Query>> {
    Locks::cut(tokens)?.refuse()?;
    parse_locking(tokens)
}

/// A query that may lock rows.
pub(crate) fn parse_locking(tokens: &mut TokenReader<'_>) -> Result<Box<Query>> {
    let locks = Locks::cut(tokens)?;
    let (mut query, as_of) = read(tokens)?;
    as_of.put(&mut query)?;
    without_database(&mut query, tokens.database());
    adapt(&mut query)?;
    locks.put(&mut query)?;
    Ok(query)
}

/// What sqlparser reads, and the `FOR SYSTEM_TIME` clauses that belong into it.
pub(crate) fn read(tokens: &mut TokenReader<'_>) -> Result<(Box<Query>, AsOfClauses)> {
    let as_of = AsOfClauses::cut(tokens)?;
    // Clauses that lock and were not cut out belong to subqueries; sqlparser would take FOR behind a select list for an
    // alias.
    for lock in [&["for", "update"][..], &["for", "share"], &["for", "no", "key"], &["for", "key", "share"]] {
        if tokens.contains(lock) {
            return Err(nested());
        }
    }
    for frame in [&["exclude", "current", "row"][..], &["exclude", "group"], &["exclude", "ties"]] {
        if tokens.contains(frame) {
            return Err(SqlError::unsupported(format!("{} in the frame of a window", frame.join(" ").to_uppercase())));
        }
    }
    let query = if tokens.words("table") {
        let name = tokens.table_name()?;
        select_from(&name, &[])?
    } else {
        tokens.parse_with(|parser| parser.parse_query())?
    };
    Ok((query, as_of))
}
