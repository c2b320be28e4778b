//! Views as what DataFusion reads: the plan of their query.
//!
//! A view is planned where a statement names it, with names as they are now ([`view_binding`]), and DataFusion puts the
//! plan in the name's place: predicates go through it as through any subquery. Views may read views, [`DEPTH_MAX`]
//! deep, and a statement opens [`OPENED_MAX`] of them at most, so that a few that each read another twice do not grow
//! without end. A view that keeps rows is read as a table; its query is planned only to fill it.

use super::{nested_context, plan, planning, schemas::Rows};
use crate::{
    context::StatementContext,
    pg::error::{Result, SqlError, SqlState},
    pg_catalog, provider, view_binding,
};
use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider, view::ViewTable},
    common::Column,
    error::DataFusionError,
    logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType, cast},
    physical_plan::ExecutionPlan,
    sql::sqlparser::ast,
};
use keyspan_catalog::{SqlView, Table, ViewColumn};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// How deep views may read views.
pub const DEPTH_MAX: usize = 32;
/// Views that one statement opens, those that they read included.
pub const OPENED_MAX: usize = 512;

/// How many views a statement has opened, and how deep in them it is.
#[derive(Clone, Debug, Default)]
pub struct Nesting {
    depth: usize,
    opened: Arc<AtomicUsize>,
    /// The owner of the innermost view; `None` outside of views, and in those of the session itself.
    reader: Option<u32>,
}

impl Nesting {
    /// With whose rights relations are read: those of the view's owner, or of the session.
    pub(super) fn reader(&self) -> Option<u32> {
        self.reader
    }

    /// One deeper, in a view of an owner.
    fn enter(&self, reader: Option<u32>) -> Result<Self> {
        let opened = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
        let what = if self.depth >= DEPTH_MAX {
            format!("views read views more than {DEPTH_MAX} deep")
        } else if opened > OPENED_MAX {
            format!("a statement reads more than {OPENED_MAX} views, those that they read included")
        } else {
            return Ok(Self { depth: self.depth + 1, opened: self.opened.clone(), reader });
        };
        Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what).with_hint("CREATE TABLE AS keeps what a view shows."))
    }
}

/// A view as a statement reads it.
///
/// # Errors
/// 54000 beyond the bounds; a fault of ours.
pub async fn open(
    view: &SqlView,
    statement: &Arc<StatementContext>,
    rows: &Rows,
    nesting: &Nesting,
) -> Result<Arc<dyn TableProvider>> {
    let temporary = statement.is_temporary(view.id);
    let owner = statement.snapshot.owner_of(statement.tenant.as_ref(), view.id);
    // A temporary view is the session's own; inside of another's view there is none.
    let nested = nesting.enter((!temporary).then_some(owner))?;
    let query = view_binding::opened(view, |number| statement.numbered(number));
    let query = query.map_err(|error| if temporary { outlived(view) } else { error })?;
    let context = nested_context(statement.clone(), rows.clone(), nested);
    let planned = planning::with_stack(plan(&context, ast::Statement::Query(query))).await?;
    if temporary && !has_types(&planned, view).await {
        return Err(outlived(view));
    }
    Ok(Arc::new(ViewTable::new(named(planned, view.columns.iter().map(|column| column.name.as_str()))?, None)))
}

/// A materialized view that was never filled, or emptied: it can be named, for example by another view, and not be
/// read.
#[derive(Debug)]
pub struct Unpopulated {
    name: String,
    schema: SchemaRef,
}

impl Unpopulated {
    /// Of the table of its rows.
    pub fn of(table: Table) -> Self {
        Self { schema: provider::schema_of(&table, false), name: table.name }
    }
}

#[async_trait]
impl TableProvider for Unpopulated {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let message = format!("materialized view \"{}\" has not been populated", self.name);
        let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
            .with_hint("Use the REFRESH MATERIALIZED VIEW command.");
        Err(DataFusionError::External(Box::new(error)))
    }
}

/// Other sessions do not know of a temporary view, and are not kept from changing what it reads.
fn outlived(view: &SqlView) -> SqlError {
    let message = format!("temporary view \"{}\" reads what another session has dropped or changed", view.name);
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).with_hint("DROP the view, and make it again.")
}

/// Whether the columns of a view's query are of the types that they had when it was made.
async fn has_types(plan: &LogicalPlan, view: &SqlView) -> bool {
    let shown = super::Query::columns(plan).await;
    let types = shown.fields().iter().map(|field| pg_catalog::views::type_of(field));
    types.eq(view.columns.iter().map(|column| (column.type_oid, column.modifier)))
}

/// The plan with names for its columns, and types where a column has none: text.
///
/// # Errors
/// A fault of ours: another number of columns.
fn named<'a>(plan: LogicalPlan, names: impl ExactSizeIterator<Item = &'a str>) -> Result<LogicalPlan> {
    if names.len() != plan.schema().fields().len() {
        return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a view has other columns than its query"));
    }
    let schema = plan.schema().clone();
    let items = names.enumerate().map(|(at, name)| {
        let (_, field) = schema.qualified_field(at);
        let column = Expr::Column(Column::from(schema.qualified_field(at)));
        let typed = if field.data_type().is_null() { cast(column, DataType::Utf8View) } else { column };
        typed.alias(name)
    });
    Ok(LogicalPlanBuilder::from(plan).project(items.collect::<Vec<_>>())?.build()?)
}

/// The columns that a view of this plan has. `given` are names for the first of them.
///
/// # Errors
/// 42601 for more names than columns, 42701 for a name twice, 42P02 for a parameter.
pub async fn columns(plan: &LogicalPlan, given: &[String]) -> Result<Vec<ViewColumn>> {
    if let Some(name) = plan.get_parameter_names()?.into_iter().next() {
        return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}")));
    }
    let shown = super::Query::columns(plan).await;
    if given.len() > shown.fields().len() {
        return Err(SqlError::syntax("CREATE VIEW specifies more column names than columns"));
    }
    let mut columns: Vec<ViewColumn> = Vec::with_capacity(shown.fields().len());
    for ((field, number), at) in shown.fields().iter().zip(1_u16..).zip(0..) {
        let name = given.get(at).unwrap_or(field.name()).clone();
        if columns.iter().any(|column| column.name == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        let (type_oid, modifier) = pg_catalog::views::type_of(field);
        columns.push(ViewColumn { number, name, type_oid, modifier });
    }
    Ok(columns)
}
