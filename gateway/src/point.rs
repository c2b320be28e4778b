//! The fast path: short statements by key, around the optimizer.
//!
//! ```text
//! shape      which statements these are, by their syntax tree alone: a positive list
//! names      tables, columns and parameters of the tree in the catalog
//! read       SELECT of plain columns by the whole key, or of the rows of a range of keys: the first, or all of a few
//! write      INSERT of values (with defaults), upserts, UPDATE and DELETE by the whole key; RETURNING of columns
//! change     what is read of a row that is there, and what it becomes
//! sums       what is added to a column
//! ```
//!
//! A statement is compiled when it is prepared ([`compile`]), which gives the types of its parameters and its columns
//! too, so that nothing of DataFusion is asked. What it was compiled to is kept with it ([`CompiledPlan`]) for one
//! version of the catalog, and compiled anew for another; should it then have other parameters or columns than the
//! client was told, it goes the general way, which says so.
//!
//! Nothing is decided here that the general path decides by other code. A predicate becomes keys by
//! [`exact_rows`](crate::provider::exact_rows), of the same parts as pushdown; rows are read by a [`View`], and their
//! keys and cells become columns by the same layouts, whether as batches or one by one; values are assigned, rows
//! checked and mutations made by [`dml`](crate::dml). Whatever is not on the list, at compile time or with the values
//! of one execution, goes the general way, and so does everything with `keyspan.pushdown` or `keyspan.point` off.

mod change;
mod names;
mod read;
mod shape;
mod sums;
#[cfg(test)]
mod tests;
mod write;

use crate::lock::Mutex;
use crate::{
    context::StatementContext,
    dml::needs::on_target,
    pg::{error::Result, names::SearchPath, types::ParameterType},
    provider::batches::FoundRows,
    rights::Needs,
    sql::ast::Statement,
    view::View,
    write_set::WriteSet,
};
use arrow::datatypes::SchemaRef;
use datafusion::{execution::SendableRecordBatchStream, scalar::ScalarValue, sql::sqlparser::ast};
use keyspan_catalog::Table;
use std::sync::Arc;
use write::Write;

/// What a statement was compiled to.
#[derive(Debug)]
enum Plan {
    Read(Box<read::Read>),
    Write(Box<Write>),
}

impl Plan {
    /// The table that it reads or writes.
    fn table(&self) -> &Table {
        match self {
            Self::Read(read) => read.table(),
            Self::Write(write) => write.table(),
        }
    }
}

/// What a statement was compiled to, and the rights that it needs.
#[derive(Debug)]
struct Planned {
    plan: Plan,
    needs: Arc<Needs>,
}

/// A statement that goes around the optimizer.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// The types of `$1`, `$2`, ….
    pub(crate) parameters: Vec<ParameterType>,
    /// The columns of its rows; `None` for a write without RETURNING.
    pub(crate) columns: Option<SchemaRef>,
    plan: Arc<Planned>,
}

/// A statement as the client knows it: what it was compiled to anew has to have the same parameters and columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Analysed<'a> {
    /// The statement.
    pub(crate) statement: &'a Statement,
    /// The types of `$1`, `$2`, ….
    pub(crate) parameters: &'a [ParameterType],
    /// The columns of its rows; `None` for a command without rows.
    pub(crate) columns: Option<&'a SchemaRef>,
}

/// What a statement writes.
pub(crate) struct Written {
    pub(crate) writes: WriteSet,
    /// How many rows.
    pub(crate) count: u64,
    /// Those of its RETURNING.
    pub(crate) rows: Option<SendableRecordBatchStream>,
    pub(crate) needs: Arc<Needs>,
}

/// What a prepared statement keeps of its compiled form, for one version of the catalog and one path of names.
#[derive(Debug, Default)]
pub(crate) struct CompiledPlan(Mutex<Option<(Seen, Option<Arc<Planned>>)>>);

/// What it was compiled for.
type Seen = (u64, Arc<SearchPath>);

/// Compiles a statement with the types of parameters that the client declared. `None` for one that goes the general
/// way.
pub(crate) fn compile(statement: &Statement, hints: &[Option<ParameterType>], view: &View) -> Option<Compiled> {
    if !view.pushdown || view.as_of.is_some() {
        return None;
    }
    let mut parameters = names::Parameters::declared(hints);
    let (plan, columns) = match statement {
        Statement::Query(query) => {
            let ast::Statement::Query(query) = query.as_ref() else { return None };
            let read = read::Read::of(query, &mut parameters, view)?;
            let columns = read.columns().clone();
            (Plan::Read(Box::new(read)), Some(columns))
        }
        Statement::Insert(insert) => of_write(Write::insert(insert, &mut parameters, view)?),
        Statement::Update(update) => of_write(Write::update(update, &mut parameters, view)?),
        Statement::Delete(delete) => of_write(Write::delete(delete, &mut parameters, view)?),
        _ => return None,
    };
    let needs = Arc::<Needs>::default();
    needs.add(&view.snapshot, plan.table().id.0, on_target(statement), None);
    Some(Compiled { parameters: parameters.types()?, columns, plan: Arc::new(Planned { plan, needs }) })
}

fn of_write(write: Write) -> (Plan, Option<SchemaRef>) {
    let columns = write.columns().cloned();
    (Plan::Write(Box::new(write)), columns)
}

impl CompiledPlan {
    /// What the statement was compiled to when it was prepared.
    pub(crate) fn of(compiled: Option<&Compiled>, view: &View) -> Self {
        let seen = (view.snapshot.version, view.path.clone());
        Self(Mutex::new(Some((seen, compiled.map(|compiled| compiled.plan.clone())))))
    }

    /// Whether the statement goes around the optimizer, for the catalog that was seen last.
    pub(crate) fn is_compiled(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|(_, plan)| plan.is_some())
    }

    /// What the statement is compiled to for the view's catalog.
    fn plan(&self, statement: &Analysed<'_>, view: &View) -> Option<Arc<Planned>> {
        let mut kept = self.0.lock();
        let seen = (view.snapshot.version, view.path.clone());
        if let Some((known, plan)) = &*kept
            && *known == seen
        {
            return plan.clone();
        }
        let hints: Vec<_> = statement.parameters.iter().cloned().map(Some).collect();
        let compiled = compile(statement.statement, &hints, view);
        let compiled =
            compiled.filter(|now| now.parameters == statement.parameters && now.columns.as_ref() == statement.columns);
        let plan = compiled.map(|compiled| compiled.plan);
        *kept = Some((seen, plan.clone()));
        plan
    }

    /// The rows of a query that goes around the optimizer, and the rights that it needs; `None` for one that does not.
    ///
    /// # Errors
    /// Those of `authorize`, which checks these rights.
    pub(crate) fn read(
        &self,
        statement: &Analysed<'_>,
        values: &[ScalarValue],
        view: &View,
        authorize: impl FnOnce(&Needs) -> Result<()>,
    ) -> Result<Option<(FoundRows, Arc<Needs>)>> {
        let Some(planned) = self.plan(statement, view) else { return Ok(None) };
        match &planned.plan {
            Plan::Read(read) if view.pushdown => {
                authorize(&planned.needs)?;
                Ok(read.rows(view, values).map(|rows| (rows, planned.needs.clone())))
            }
            _ => Ok(None),
        }
    }

    /// What a statement writes that goes around the optimizer; `None` for one that does not. `context` makes what it
    /// knows, if it has to know something.
    ///
    /// # Errors
    /// Those of the general way, and of `authorize`.
    pub(crate) async fn write(
        &self,
        statement: &Analysed<'_>,
        values: &[ScalarValue],
        view: &View,
        authorize: impl FnOnce(&Needs) -> Result<()>,
        context: impl FnOnce() -> StatementContext,
    ) -> Result<Option<Written>> {
        let Some(planned) = self.plan(statement, view) else { return Ok(None) };
        match &planned.plan {
            Plan::Write(write) if view.pushdown => {
                authorize(&planned.needs)?;
                let context = write.asks_context().then(|| Arc::new(context()));
                let done = write.run(view, values, context).await?;
                Ok(done.map(|(writes, count, rows)| Written { writes, count, rows, needs: planned.needs.clone() }))
            }
            _ => Ok(None),
        }
    }
}
