//! `SELECT … FOR UPDATE` in a transaction: the same query with the keys of the rows behind its columns, which are cut
//! off as the rows are sent.
//!
//! Which queries may lock is [`sql::locking`](crate::sql::locking::locked)'s, what a lock means the transaction's
//! ([`Lock`]). Outside of a transaction there is nothing to hold: the query is run as if it had no such clause, unless
//! it says what becomes of rows that others hold. Then ([`skip_locked`]) its rows are looked at one by one until LIMIT
//! has what it wants, as in PostgreSQL: SKIP LOCKED passes over those that others hold, and over those that have
//! changed since the query's pin, by who held them a moment ago.

mod skip_locked;
pub(crate) mod subqueries;

use crate::{
    dml::{
        assign::assign_row,
        select,
        target::{Target, TargetColumn},
    },
    pg::{
        error::{Result, SqlError, SqlState},
        ident::quoted,
    },
    query::{Query, parameter_values::ParameterValues},
    rights::Needs,
    session::{Lock, Session},
    sql::{ast::LockingQuery, locking::locked, names::table_name},
    view::View,
};
use arrow::{array::RecordBatch, datatypes::Schema};
use datafusion::{
    error::DataFusionError,
    execution::SendableRecordBatchStream,
    physical_plan::stream::RecordBatchStreamAdapter,
    sql::sqlparser::ast::{
        self, Ident, JoinConstraint, JoinOperator, NonBlock, Select, SelectItem, SelectItemQualifiedWildcardKind,
        SetExpr, TableFactor, TableWithJoins,
    },
};
use futures::StreamExt;
use keyspan_catalog::{Privileges, Relation, SqlView};
use keyspan_storage::RowKey;
use skip_locked::{Taking, window};
use std::{borrow::Cow, sync::Arc};

/// A table whose rows are locked.
struct Locking {
    target: Target,
    lock: Lock,
    nonblock: Option<NonBlock>,
}

impl Locking {
    /// The key of its row in a row of the batch, in which its columns begin at a place.
    fn key(&self, batch: &RecordBatch, from: usize, row: usize) -> Result<RowKey> {
        self.target.row_key(&assign_row(batch, from, row, &self.target.key_columns(), self.target.input.input())?)
    }
}

/// Runs a query that locks the rows that it gives.
///
/// # Errors
/// What is wrong with the query; 25006; 0A000 for a view and for rows as they were. The stream's: 54000, 53200; 55P03
/// and 40001 for NOWAIT.
pub(super) async fn rows(
    session: &mut Session,
    query: &LockingQuery,
    parameters: ParameterValues,
) -> Result<(SendableRecordBatchStream, Arc<Needs>)> {
    let view = session.view().await?;
    rows_at(session, view, query, parameters).await
}

/// The same of a query that is part of a statement, with what that sees.
async fn rows_at(
    session: &mut Session,
    view: View,
    query: &LockingQuery,
    parameters: ParameterValues,
) -> Result<(SendableRecordBatchStream, Arc<Needs>)> {
    let locking_query = query;
    let LockingQuery { query, unlocked } = query;
    let mut planned_query = Cow::Borrowed(unlocked.as_ref());
    let mut locking = Vec::new();
    let mut bounds = None;
    if session.in_transaction() || query.locks.iter().any(|lock| lock.nonblock.is_some()) {
        let mut query = query.clone();
        if query.locks.iter().any(|lock| lock.nonblock == Some(NonBlock::SkipLocked)) {
            bounds = query.limit_clause.take();
        }
        let locks = session.locks();
        let mut items = Vec::new();
        let mut hidden = Vec::new();
        for table in locked(&mut query) {
            let TableFactor::Table { name, alias, version, .. } = &*table.factor else { continue };
            let what = if table.changes { "FOR UPDATE" } else { "FOR SHARE" };
            if version.is_some() || alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
                let what = format!("{what} of a table as it was, or with other names of columns");
                return Err(SqlError::unsupported(what));
            }
            let name = table_name(name)?;
            if let Some((_, Relation::View(found))) = view.find(&name) {
                check_lockable(found)?;
            }
            let target = Target::of(&view, &name).map_err(|error| of_view(error, what))?;
            let relation = TableWithJoins { relation: table.factor.clone(), joins: Vec::new() };
            *table.factor = select::read(&target, &relation, &table.called).relation;
            let keys = select::key_items(&target, &table.called);
            let place = locking.len();
            items.extend(keys.into_iter().enumerate().map(|(at, expr)| {
                let alias = quoted(&format!("\u{1}lock {place} {at}"));
                SelectItem::ExprWithAlias { expr, alias }
            }));
            if target.hidden_key.is_some() {
                hidden.push((table.called, place));
            }
            session.check_locks(table.changes)?;
            if target.table.remote.is_some() {
                let name = &target.table.name;
                return Err(SqlError::unsupported(format!("{what} of table \"{name}\", whose rows are on a server")));
            }
            let lock = locks.begin(&view.pin, &target.table, table.changes);
            locking.push(Locking { target, lock, nonblock: table.nonblock });
        }
        if let SetExpr::Select(select) = query.body.as_mut() {
            for (called, place) in hidden {
                write_out(select, &locking[place].target, &called)?;
            }
            select.projection.extend(items);
        }
        planned_query = Cow::Owned(ast::Statement::Query(query));
    }
    let (pin, store) = (view.pin.clone(), view.rows.clone());
    let planned = session.query(view)?.with_parameters(&parameters);
    note_locks(&planned, locking_query)?;
    let plan = planned.plan(&planned_query).await?;
    let (skip, wanted) = window(&planned, bounds, &parameters).await?;
    let rows = planned.run(parameters.put(plan)?).await?;
    let rows = match () {
        () if locking.is_empty() => rows,
        () if locking.iter().all(|table| table.nonblock.is_none()) => noted(rows, locking),
        () => Taking { rows, locking, pin, store, skip, wanted, batch: None }.into_stream(),
    };
    Ok((rows, planned.statement_context().needs.clone()))
}

/// Notes the rights that a query needs on the tables whose rows it locks, whether or not there is a transaction to hold
/// them.
pub(super) fn note_locks(planned: &Query, query: &LockingQuery) -> Result<()> {
    let mut query = query.query.clone();
    for locked in locked(&mut query) {
        let TableFactor::Table { name, .. } = &*locked.factor else { continue };
        match planned.view.find(&table_name(name)?) {
            Some((_, Relation::Table(table))) => planned.needs(table, Privileges::SELECT | Privileges::UPDATE),
            Some((_, Relation::View(view))) => check_lockable(view)?,
            None => {}
        }
    }
    Ok(())
}

/// 42809 for a materialized view, as in PostgreSQL.
fn check_lockable(view: &SqlView) -> Result<()> {
    if view.materialized.is_none() {
        return Ok(());
    }
    let message = format!("cannot lock rows in materialized view \"{}\"", view.name);
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
}

/// 0A000 for a view, as for a query.
fn of_view(error: SqlError, what: &str) -> SqlError {
    if error.state != SqlState::FEATURE_NOT_SUPPORTED {
        return error;
    }
    SqlError::unsupported(format!("{what} of a view")).with_hint("Name the tables that it reads.")
}

/// Writes `*` out where it would show the hidden key of a table.
fn write_out(select: &mut Select, target: &Target, called: &Ident) -> Result<()> {
    let alone = matches!(select.from.as_slice(), [from] if from.joins.is_empty());
    let natural = select.from.iter().flat_map(|from| &from.joins).any(|join| {
        use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
        let (Inner(by) | Join(by) | Left(by) | LeftOuter(by) | Right(by) | RightOuter(by) | FullOuter(by)) =
            &join.join_operator
        else {
            return false;
        };
        matches!(by, JoinConstraint::Natural)
    });
    let mut items = Vec::new();
    for item in std::mem::take(&mut select.projection) {
        let all = match &item {
            SelectItem::Wildcard(_) if alone => true,
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                matches!(name.0.as_slice(), [name] if name.as_ident().is_some_and(|name| same(name, called)))
            }
            _ => false,
        };
        if natural || (matches!(item, SelectItem::Wildcard(_)) && !alone) {
            return Err(SqlError::unsupported("FOR UPDATE of a join with a table without a primary key")
                .with_hint("Name the columns in the place of *, and those of a NATURAL JOIN."));
        }
        match all {
            true => items.extend(select::all_items(target, called).into_iter().map(SelectItem::UnnamedExpr)),
            false => items.push(item),
        }
    }
    select.projection = items;
    Ok(())
}

fn same(a: &Ident, b: &Ident) -> bool {
    crate::pg::ident::fold(a) == crate::pg::ident::fold(b)
}

/// The rows without the keys behind them; each key is locked before its row is returned.
fn noted(rows: SendableRecordBatchStream, locking: Vec<Locking>) -> SendableRecordBatchStream {
    let keys: usize = locking.iter().map(|table| table.target.key_columns().len()).sum();
    let shown = rows.schema().fields().len().saturating_sub(keys);
    let schema = Arc::new(Schema::new(rows.schema().fields()[..shown].to_vec()));
    let columns: Vec<usize> = (0..shown).collect();
    let noted = rows.map(move |batch| {
        let batch = batch?;
        let mut from = shown;
        for Locking { target, lock, .. } in &locking {
            let columns = target.key_columns();
            note(&batch, from, (target, &columns), lock).map_err(|error| DataFusionError::External(Box::new(error)))?;
            from += columns.len();
        }
        Ok(batch.project(&columns)?)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, noted))
}

fn note(batch: &RecordBatch, from: usize, (target, columns): (&Target, &[&TargetColumn]), lock: &Lock) -> Result<()> {
    for row in 0..batch.num_rows() {
        lock.add(target.row_key(&assign_row(batch, from, row, columns, target.input.input())?)?, false)?;
    }
    Ok(())
}
