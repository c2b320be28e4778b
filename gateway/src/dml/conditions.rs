//! The conditions on rows that are written: those of the domains of columns, then those of the table.
//!
//! They are planned once, as a SELECT over the rows; a session keeps what they became, and holds the rows of
//! its next statements against that.

mod kept;

use super::{
    defaults::parsed,
    returning::written_rows,
    target::{Target, TargetColumn},
};
use crate::{
    context::{StatementContext, row_conditions::RowConditions},
    pg::{
        error::{Result, SqlError, SqlState},
        functions::domains::{condition_of, null_refused, violated},
    },
    query::Query,
    view::View,
};
use arrow::array::{Array, ArrayRef, AsArray};
use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem};
use futures::TryStreamExt;
use keyspan_catalog::{Domain, Value, table::Check};
use std::sync::Arc;

/// A condition on a row.
pub(crate) struct Condition<'a> {
    expr: Expr,
    of: Of<'a>,
}

enum Of<'a> {
    Table(&'a Check),
    /// The domain of a column, the domain in its chain that says it, and the name; none for NOT NULL.
    Domain {
        column: &'a TargetColumn,
        says: &'a Domain,
        check: Option<&'a str>,
    },
}

impl Condition<'_> {
    /// Whether it is this condition of a domain; `None` for its NOT NULL.
    pub(crate) fn is_of_domain(&self, id: u32, name: Option<&str>) -> bool {
        matches!(&self.of, Of::Domain { says, check, .. } if says.id == id && *check == name)
    }

    /// The name of its column, if it is of a domain.
    pub(crate) fn column(&self) -> Option<&str> {
        match &self.of {
            Of::Table(_) => None,
            Of::Domain { column, .. } => Some(&column.name),
        }
    }
}

impl Target {
    /// Whether its rows are held against conditions.
    pub(crate) fn has_conditions(&self) -> bool {
        let has = |domain: &Arc<Domain>| domain.not_null || !domain.checks.is_empty();
        !self.table.checks.is_empty() || self.columns.iter().any(|column| column.domains.iter().any(has))
    }

    /// The conditions, in the order in which they are looked at. A domain's value is made before a row is.
    ///
    /// # Errors
    /// For one that cannot be read any more: a fault of ours.
    pub(crate) fn conditions(&self) -> Result<Vec<Condition<'_>>> {
        let mut all = Vec::new();
        for column in &self.columns {
            let name = Ident::with_quote('"', column.name.as_str());
            if let Some(says) = column.domains.iter().find(|domain| domain.not_null) {
                let expr = Expr::IsNotNull(Box::new(Expr::Identifier(name.clone())));
                all.push(Condition { expr, of: Of::Domain { column, says, check: None } });
            }
            for says in &column.domains {
                for check in &says.checks {
                    let of = Of::Domain { column, says, check: Some(&check.name) };
                    all.push(Condition { expr: condition_of(&check.sql, &name)?, of });
                }
            }
        }
        for check in &self.table.checks {
            all.push(Condition { expr: parsed(&check.sql)?, of: Of::Table(check) });
        }
        Ok(all)
    }
}

/// 23514 for the first row that contradicts a condition of the table, with the row's place; 23502 for NULL in a domain
/// without. `altering` are rows that are there.
///
/// # Errors
/// What evaluating a condition finds, for the first row.
pub(crate) async fn check(
    query: &Query,
    target: &Target,
    rows: &[&[Value]],
    altering: bool,
) -> Result<(), (usize, SqlError)> {
    if rows.is_empty() || !target.has_conditions() {
        return Ok(());
    }
    let context = query.statement_context();
    if let Some(kept) = context.kept_conditions(&target.table).filter(|_| !altering) {
        return kept::refusal(&kept, context, target, rows).map_or(Ok(()), Err);
    }
    let conditions = target.conditions().map_err(|error| (0, error))?;
    let (found, kept) = looked_at(query, target, &conditions, rows).await?;
    // Rows that are there are held against conditions that the table is still to get.
    if let Some(kept) = kept.filter(|_| !altering) {
        context.keep_conditions(&target.table, kept);
    }
    let Some((row, condition)) = found else { return Ok(()) };
    Err((row, refused(target, condition, rows[row], altering)))
}

/// [`check`] of rows that go around the optimizer, of all of them.
///
/// # Errors
/// As there.
pub(crate) async fn check_around(
    context: &Arc<StatementContext>,
    view: &View,
    target: &Target,
    rows: &[&[Value]],
) -> Result<()> {
    if !target.has_conditions() {
        return Ok(());
    }
    let checked = match context.kept_conditions(&target.table) {
        Some(kept) => kept::refusal(&kept, context, target, rows).map_or(Ok(()), Err),
        None => check(&Query::new(context.clone(), view.clone())?, target, rows, false).await,
    };
    // Who may not read the table sees no row of it.
    let shown = |error: SqlError| match context.may_read(target.table.id.0) {
        true => error,
        false => SqlError { detail: None, ..error },
    };
    checked.map_err(|(_, error)| shown(error))
}

/// That a row contradicts a condition.
fn refused(target: &Target, condition: &Condition<'_>, row: &[Value], altering: bool) -> SqlError {
    match &condition.of {
        Of::Domain { column, check, .. } => {
            // Of the column's, whichever below it says so: as PostgreSQL has it.
            let domain = column.domains.last().map_or("", |domain| domain.name.as_str());
            check.map_or_else(|| null_refused(domain), |check| violated(domain, check))
        }
        Of::Table(check) if altering => {
            let (check, table) = (&check.name, &target.table.name);
            let message = format!("check constraint \"{check}\" of relation \"{table}\" is violated by some row");
            SqlError::new(SqlState::CHECK_VIOLATION, message)
        }
        Of::Table(check) => {
            let (check, table) = (&check.name, &target.table.name);
            let message = format!("new row for relation \"{table}\" violates check constraint \"{check}\"");
            SqlError::new(SqlState::CHECK_VIOLATION, message).with_detail(target.failing(row))
        }
    }
}

/// The first row that contradicts one of these conditions, and the first that it contradicts.
///
/// # Errors
/// What evaluating a condition finds, for the first row.
pub(crate) async fn first_violated<'a, 'c>(
    query: &Query,
    target: &Target,
    conditions: &'a [Condition<'c>],
    rows: &[&[Value]],
) -> Result<Option<(usize, &'a Condition<'c>)>, (usize, SqlError)> {
    if conditions.is_empty() || rows.is_empty() {
        return Ok(None);
    }
    Ok(looked_at(query, target, conditions, rows).await?.0)
}

/// The first row that contradicts a condition, and what may be kept of how that was found.
async fn looked_at<'a, 'c>(
    query: &Query,
    target: &Target,
    conditions: &'a [Condition<'c>],
    rows: &[&[Value]],
) -> Result<(Option<(usize, &'a Condition<'c>)>, Option<RowConditions>), (usize, SqlError)> {
    let at_first = |error: SqlError| (0, error);
    let quoted = |name: &str| Ident::with_quote('"', name);
    let item = |(at, condition): (usize, &Condition<'_>)| SelectItem::ExprWithAlias {
        expr: condition.expr.clone(),
        alias: quoted(&format!("c{at}")),
    };
    let items: Vec<_> = conditions.iter().enumerate().map(item).collect();
    let name = quoted(&target.table.name);
    let (_, plan) = written_rows(query, target, &name, &items, rows).await.map_err(at_first)?;
    let optimized = query.optimize(&plan).await.map_err(at_first)?;
    let physical = query.physical(&optimized).await.map_err(at_first)?;
    let kept = kept::conditions_of(query, target, &plan, &physical);
    let mut batches = query.run_physical(&optimized, physical).map_err(at_first)?;
    let mut first = 0;
    while let Some(batch) = batches.try_next().await.map_err(|error| at_first(error.into()))? {
        for row in 0..batch.num_rows() {
            if let Some(at) = violated_by(batch.columns(), row) {
                return Ok((Some((first + row, &conditions[at])), kept));
            }
        }
        first += batch.num_rows();
    }
    Ok((None, kept))
}

/// The first of the conditions that a row contradicts: those that are not NULL and do not hold.
fn violated_by(conditions: &[ArrayRef], row: usize) -> Option<usize> {
    let holds = |of: &ArrayRef| of.as_boolean_opt().is_none_or(|holds| holds.is_null(row) || holds.value(row));
    conditions.iter().position(|condition| !holds(condition))
}
