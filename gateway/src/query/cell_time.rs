//! `cell_time(v)`: when the newest cell of a column was written.
//!
//! The planner takes it for a function of the column's value. [`CellTimes`] makes a column of it, before DataFusion's
//! own rules see the plan: the scan of the table gives timestamps beside its columns
//! ([`with_timestamps`](KeyspanTable::with_timestamps)), and all nodes between the two hand them on. What the nodes
//! above see keeps its columns.

use super::plan_cache::table_of;
use crate::{
    pg::error::{SqlError, SqlState},
    provider::{KeyspanTable, timestamp_column},
};
use arrow::datatypes::DataType;
use datafusion::{
    common::{
        Column, DFSchema,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    config::ConfigOptions,
    datasource::provider_as_source,
    error::{DataFusionError, Result},
    logical_expr::{
        ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, Projection, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
        Signature, SubqueryAlias, TableScan, TableScanBuilder, TypeSignature, Volatility, expr_rewriter::NamePreserver,
    },
    optimizer::AnalyzerRule,
};
use keyspan_catalog::{SqlType, table::ColumnPlace};
use std::sync::Arc;

const NAME: &str = "cell_time";

/// The function, which no plan has once the rule has seen it.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::from(CellTime { signature: Signature::new(TypeSignature::Any(1), Volatility::Stable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CellTime {
    signature: Signature,
}

impl ScalarUDFImpl for CellTime {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(crate::pg::types::data_type(SqlType::Timestamptz(None)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(no_column())
    }
}

fn no_column() -> DataFusionError {
    let error = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, "cell_time() takes a column of a table")
        .with_detail("A value that is computed has no cell, and neither has a row that is being written.")
        .with_hint("Call it with a column by its name, in a query whose FROM has the table.");
    DataFusionError::External(Box::new(error))
}

fn no_cell(column: &str) -> DataFusionError {
    let message = format!("column \"{column}\" is part of the key and has no cell");
    let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
    DataFusionError::External(Box::new(error.with_hint("cell_time() takes a column that is not part of the key.")))
}

fn many_cells(column: &str) -> DataFusionError {
    let message = format!("column \"{column}\" shows an open family and has many cells");
    let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
    DataFusionError::External(Box::new(
        error.with_hint("cells() has the timestamps of all; a declared column has one."),
    ))
}

/// The rule.
#[derive(Debug)]
pub(super) struct CellTimes;

impl AnalyzerRule for CellTimes {
    fn name(&self) -> &str {
        "cell_times"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(with_times)?.data)
    }
}

/// A node whose calls are columns.
fn with_times(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut asked = Vec::new();
    node.apply_expressions(|expr| {
        expr.apply(|expr| {
            asked.extend(argument(expr).transpose()?);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if asked.is_empty() {
        return Ok(Transformed::no(node));
    }
    let before = Arc::clone(node.schema());
    let mut inputs: Vec<LogicalPlan> = node.inputs().into_iter().cloned().collect();
    for column in &asked {
        let of = inputs.iter_mut().find(|input| input.schema().has_column(column)).ok_or_else(no_column)?;
        *of = with_time(of, column)?;
    }
    let names = NamePreserver::new(&node);
    let exprs = node.expressions().into_iter().map(|expr| {
        let name = names.save(&expr);
        let timed = expr.transform_up(|expr| match argument(&expr).transpose()? {
            Some(column) => Ok(Transformed::yes(Expr::Column(time_of(&column)))),
            None => Ok(Transformed::no(expr)),
        })?;
        Ok(name.restore(timed.data))
    });
    let timed = node.with_new_exprs(exprs.collect::<Result<_>>()?, inputs)?;
    shown_as(timed, &before).map(Transformed::yes)
}

/// The column whose time an expression asks for, if it is a call.
fn argument(expr: &Expr) -> Option<Result<Column>> {
    let Expr::ScalarFunction(call) = expr else { return None };
    if call.func.name() != NAME {
        return None;
    }
    match call.args.as_slice() {
        [Expr::Column(column)] => Some(Ok(column.clone())),
        _ => Some(Err(no_column())),
    }
}

fn time_of(column: &Column) -> Column {
    Column::new(column.relation.clone(), timestamp_column(&column.name))
}

/// The plan with the columns that its schema had, if it has more now.
fn shown_as(plan: LogicalPlan, before: &DFSchema) -> Result<LogicalPlan> {
    if plan.schema().fields().len() == before.fields().len() {
        return Ok(plan);
    }
    let columns: Vec<Expr> = before.columns().into_iter().map(Expr::Column).collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// The plan with the timestamps of a column as a column more, under the name that [`time_of`] gives.
fn with_time(plan: &LogicalPlan, column: &Column) -> Result<LogicalPlan> {
    if plan.schema().has_column(&time_of(column)) {
        return Ok(plan.clone());
    }
    match plan {
        LogicalPlan::TableScan(scan) => of_scan(scan, column),
        LogicalPlan::SubqueryAlias(alias) => {
            let at = plan.schema().index_of_column(column)?;
            let (relation, field) = alias.input.schema().qualified_field(at);
            let inner = Column::new(relation.cloned(), field.name());
            let input = with_time(&alias.input, &inner)?;
            Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?))
        }
        LogicalPlan::Projection(projection) => of_projection(projection, column),
        LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_) | LogicalPlan::Join(_) => {
            let mut inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
            let of = inputs.iter_mut().find(|input| input.schema().has_column(column)).ok_or_else(no_column)?;
            *of = with_time(of, column)?;
            plan.with_new_exprs(plan.expressions(), inputs)
        }
        _ => Err(no_column()),
    }
}

fn of_scan(scan: &TableScan, column: &Column) -> Result<LogicalPlan> {
    let table: Option<Arc<KeyspanTable>> = table_of(scan)?;
    let table = table.ok_or_else(no_column)?;
    let timed = table.with_timestamps().ok_or_else(no_column)?;
    match table.column(&column.name).map(|found| &found.place) {
        Some(ColumnPlace::Cell { .. }) => {}
        Some(ColumnPlace::Open { .. }) => return Err(many_cells(&column.name)),
        Some(ColumnPlace::Key(_)) | None => return Err(no_cell(&column.name)),
    }
    let schema = datafusion::catalog::TableProvider::schema(&timed);
    let time = schema.index_of(&timestamp_column(&column.name))?;
    let projection = scan.projection.as_ref().map(|columns| columns.iter().copied().chain([time]).collect());
    let source = provider_as_source(Arc::new(timed));
    let timed = TableScanBuilder::new(scan.table_name.clone(), source)
        .with_projection(projection)
        .with_filters(scan.filters.clone())
        .with_fetch(scan.fetch)
        .build()?;
    Ok(LogicalPlan::TableScan(timed))
}

fn of_projection(projection: &Projection, column: &Column) -> Result<LogicalPlan> {
    let at = projection.schema.index_of_column(column)?;
    let Expr::Column(inner) = unaliased(&projection.expr[at]) else { return Err(no_column()) };
    let input = with_time(&projection.input, inner)?;
    let time = Expr::Column(time_of(inner)).alias_qualified(column.relation.clone(), timestamp_column(&column.name));
    let exprs = projection.expr.iter().cloned().chain([time]).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}
