//! A write whose table and SELECT are resolved, once: its parameters are typed, EXPLAIN shows its plan, and it runs.

use super::{
    beside::Beside,
    insert::{self, NewRows},
    merge, messages, moved,
    needs::on_target,
    range,
    returning::{self, Returned},
    set::Assignment,
    target::{FAILING_ROW, Target},
    update_delete, upsert,
};
use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        types::ParameterType,
    },
    query::Query,
    sql::{
        ast::{Statement, merge::Merge},
        write::{OnConflict, on_conflict},
    },
    write_set::WriteSet,
};
use arrow::datatypes::SchemaRef;
use datafusion::{
    execution::SendableRecordBatchStream,
    logical_expr::LogicalPlan,
    scalar::ScalarValue,
    sql::sqlparser::ast::{self, Ident, SelectItem},
};
use keyspan_catalog::Table;
use keyspan_storage::KeyRange;
use std::sync::Arc;

/// The types of a statement's parameters, as far as they are known.
type Hints = Vec<Option<ParameterType>>;

/// An INSERT, UPDATE, DELETE or MERGE with its table, and the SELECT beneath it.
pub(crate) struct BoundWrite<'a> {
    target: Target,
    /// The name by which the statement calls its table.
    called: Ident,
    /// Keys and new values of the rows that are written.
    select: ast::Statement,
    /// The types of the parameters, with those that are assigned to columns as they are.
    hints: Hints,
    returning: Option<&'a [SelectItem]>,
    /// What RETURNING may name beside the table.
    beside: Option<Beside>,
    kind: Kind<'a>,
}

enum Kind<'a> {
    /// With the positions of the columns that are named.
    Insert(&'a ast::Insert, Vec<usize>),
    /// With the columns that are set.
    Update(Vec<Assignment>),
    Delete,
    Merge(merge::Actions),
}

impl<'a> BoundWrite<'a> {
    /// Resolves the table of a write, and makes its SELECT. Subqueries of the statement lock no rows.
    ///
    /// # Errors
    /// 42P01, 42809 for the table; 42703, 42701, 428C9, 0A000 for its columns; of MERGE, those of its source's plan.
    pub(crate) async fn new(query: &Query, statement: &'a Statement, hints: &[Option<ParameterType>]) -> Result<Self> {
        let view = &query.view;
        let returning = returning::items(statement);
        let bound = match statement {
            Statement::Insert(insert) => {
                let (target, named) = insert::resolve(view, insert)?;
                let called = insert::called(insert, &target);
                let (select, hints) = insert::source((&target, &named), insert, hints)?;
                Self { target, called, select, hints, returning, beside: None, kind: Kind::Insert(insert, named) }
            }
            Statement::Update(update) => {
                let (target, called) = update_delete::resolve(view, &update.table)?;
                let beside = beside(query, returning, update_delete::tables_beside(update)).await?;
                let update_delete::UpdateSelect { select, hints, set } =
                    update_delete::update_select((&target, &called), update, beside.as_ref(), hints)?;
                Self { target, called, select, hints, returning, beside, kind: Kind::Update(set) }
            }
            Statement::Delete(delete) | Statement::Erase(delete) => {
                let (target, called) = update_delete::resolve(view, update_delete::deleted_table(delete))?;
                let beside = beside(query, returning, delete.using.as_deref().unwrap_or_default()).await?;
                let select = update_delete::delete_select((&target, &called), delete, beside.as_ref())?;
                Self { target, called, select, hints: hints.to_vec(), returning, beside, kind: Kind::Delete }
            }
            Statement::Merge(merge) => Self::of_merge(query, merge, hints).await?,
            _ => return Err(not_a_write()),
        };
        // Before its SELECT is planned, which leaves what is read of the target to this.
        query.view.relied.set_target(bound.target.table.id);
        query.needs(&bound.target.table, on_target(statement));
        Ok(bound)
    }

    async fn of_merge(query: &Query, merge: &Merge, hints: &[Option<ParameterType>]) -> Result<Self> {
        let (target, called) = update_delete::resolve(&query.view, &merge.target)?;
        let merge::MergeSelect { select, hints, actions } =
            merge::merge_select(query, (&target, &called), merge, hints).await?;
        Ok(Self { target, called, select, hints, returning: None, beside: None, kind: Kind::Merge(actions) })
    }

    /// The types of the parameters, and the columns that RETURNING gives, if there is one.
    ///
    /// # Errors
    /// Those of planning; 42P18 for a parameter without a type.
    pub(crate) async fn parameters(self, query: &Query) -> Result<(Vec<ParameterType>, Option<SchemaRef>)> {
        let plan = query.plan(&self.select).await?;
        let mut hints = self.hints;
        if let Kind::Insert(insert, _) = &self.kind {
            // Parameters in ON CONFLICT are planned with the rows that conflict: their types are those of the columns
            // that are set.
            upsert::hint_parameters(&self.target, insert, &mut hints)?;
        }
        let columns = match self.returning {
            Some(items) => {
                let beside = self.beside.as_ref().map(|beside| (beside, &plan));
                Some(returning::columns(query, (&self.target, &self.called), items, beside, &mut hints).await?)
            }
            None => None,
        };
        Ok((query.parameters(&self.select, &plan, &hints).await?, columns))
    }

    /// The error as the role may see it: without the row that failed, which may hold values of others, if it may not
    /// read the table.
    pub(crate) fn without_row(&self, query: &Query, error: SqlError) -> SqlError {
        let shows_row = error.detail.as_ref().is_some_and(|detail| detail.starts_with(FAILING_ROW));
        if !shows_row || query.statement_context().may_read(self.target.table.id.0) {
            return error;
        }
        SqlError { detail: None, ..error }
    }

    /// The plan of the SELECT: for EXPLAIN.
    ///
    /// # Errors
    /// Those of planning.
    pub(crate) async fn plan(&self, query: &Query) -> Result<LogicalPlan> {
        query.plan(&self.select).await
    }

    /// The ranges of a DELETE of whole key prefixes, and its table.
    ///
    /// # Errors
    /// 0A000 for another condition; those of the plan.
    pub(crate) async fn whole_prefixes(
        &self,
        query: &Query,
        parameters: &[ScalarValue],
    ) -> Result<(Arc<Table>, Vec<KeyRange>)> {
        query.statement_context().authorize()?;
        let plan = query.plan(&self.select).await?;
        let plan = if parameters.is_empty() { plan } else { plan.with_param_values(parameters.to_vec())? };
        let ranges = range::whole_prefixes(query, &plan).await?;
        Ok((self.target.table.clone(), ranges))
    }

    /// The table that is written.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The rows of an INSERT of new rows that returns nothing; `None` for any other write.
    ///
    /// # Errors
    /// 42501; those of the plan; 42601, 428C9.
    pub(crate) async fn new_rows(&self, query: &Query, parameters: &[ScalarValue]) -> Result<Option<NewRows>> {
        let Kind::Insert(insert, named) = &self.kind else { return Ok(None) };
        if self.returning.is_some() || on_conflict(insert)? != OnConflict::Fail {
            return Ok(None);
        }
        query.statement_context().authorize()?;
        NewRows::read(query, (&self.target, named, &self.select), insert, parameters).await.map(Some)
    }

    /// The mutations of the write, the number of rows, and the rows of RETURNING. With `ranges` a DELETE may give one
    /// range.
    ///
    /// # Errors
    /// Those of the plan and of its rows; of assignment (22001, 22003, 23502, …), checks (23514) and keys (23505);
    /// 54000.
    pub(crate) async fn run(
        &self,
        query: &Query,
        parameters: &[ScalarValue],
        ranges: bool,
    ) -> Result<(WriteSet, u64, Option<SendableRecordBatchStream>)> {
        // Conflicts and ranges are looked up around the plan.
        let (target, select) = (&self.target, &self.select);
        query.statement_context().authorize()?;
        let mut returned = Returned::new(self.returning);
        let (mut writes, count) = match &self.kind {
            Kind::Insert(insert, named) => {
                insert::run(query, (target, named, select), insert, parameters, &mut returned).await?
            }
            Kind::Update(set) => {
                let returned = (&mut returned, self.beside.as_ref());
                update_delete::update(query, (target, set, select), parameters, returned).await?
            }
            Kind::Delete => {
                let returned = (&mut returned, self.beside.as_ref());
                update_delete::delete(query, (target, select), parameters, ranges, returned).await?
            }
            Kind::Merge(actions) => merge::run(query, (target, actions, select), parameters).await?,
        };
        moved::settle(&query.view, target, &mut writes).await?;
        messages::keep_unknown(&query.view, target, &mut writes).await?;
        let answer = returned.answer(query, target, &self.called, parameters).await?;
        Ok((writes, count, answer.map(returning::Answer::into_stream)))
    }
}

/// What a RETURNING may name of the tables beside the one that is written.
async fn beside(
    query: &Query,
    returning: Option<&[SelectItem]>,
    tables: &[ast::TableWithJoins],
) -> Result<Option<Beside>> {
    match returning {
        Some(_) => Beside::of(query, tables).await,
        None => Ok(None),
    }
}

/// The word of a write's command tag.
pub(crate) fn command_tag(statement: &Statement) -> Result<&'static str> {
    match statement {
        Statement::Insert(_) => Ok("INSERT 0"),
        Statement::Update(_) => Ok("UPDATE"),
        Statement::Delete(_) | Statement::Erase(_) => Ok("DELETE"),
        Statement::Merge(_) => Ok("MERGE"),
        _ => Err(not_a_write()),
    }
}

pub(crate) fn not_a_write() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a statement that writes was expected")
}
