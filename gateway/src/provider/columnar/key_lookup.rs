//! Rows that are looked up for a join: where the other side of a hash join turns out to name a few keys, these are read, not all rows.
//!
//! ```text
//! HashJoinExec            builds its table of the smaller side, and hands what is in it down as a filter
//!   scan of orders        WHERE id = 777
//!   ColumnarExec          customers: whose filter says, when the first row is asked for, id IN (5, 17, 99)
//! ```
//!
//! The filter is a promise of the join that it drops all other rows: DataFusion's Parquet source leaves row groups and pages out by it. Here the same is
//! turned into ranges of keys, by the code that does so for predicates, before a row group is opened. Few keys of many rows are read by rows
//! then, as PostgreSQL reads an index in the inner side of a nested loop. What the filter says may change while it is
//! looked at, or be nothing yet: it only ever leaves out what the join would.

use crate::{
    pg::types,
    provider::{exec::ScanExec, keys::Keys, pushdown::Pushdown, table::is_operator},
    view::View,
};
use datafusion::{
    common::Result,
    error::DataFusionError,
    functions::core::r#struct::StructFunc,
    logical_expr::{BinaryExpr, Expr, Operator, cast, col, lit},
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{self, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, Literal},
    },
    scalar::ScalarValue,
};
use keyspan_catalog::Table;
use keyspan_storage::{ColumnarRequest, MemoryPart, RowSet};
use std::sync::Arc;

/// Ranges that are looked up, at most. A join tells no more than some hundred values.
const RANGES_MAX: usize = 1_024;
/// So many rows are read of row groups in the time in which one range is sought. A seek takes 15 to 400 µs.
const ROWS_OF_SEEK: u64 = 256;
/// And so many in that of a row by rows.
const ROWS_OF_ROW: u64 = 16;

/// A filter that has a value when rows are asked for.
#[derive(Clone, Debug)]
pub(super) struct LateFilter {
    filter: Arc<dyn PhysicalExpr>,
    /// How the scan calls the columns that the filter has by number.
    names: Arc<[String]>,
}

impl LateFilter {
    /// The filter, if it is such a one.
    pub(super) fn of(filter: &Arc<dyn PhysicalExpr>, names: &Arc<[String]>) -> Option<Self> {
        let is_late = filter.is::<DynamicFilterPhysicalExpr>();
        is_late.then(|| Self { filter: Arc::clone(filter), names: Arc::clone(names) })
    }

    /// As DataFusion knows it.
    pub(super) fn filter(&self) -> &Arc<dyn PhysicalExpr> {
        &self.filter
    }
}

/// The rows of a scan that filters leave, if they are so few of `rows_about` that they are sooner read by rows; `None` where row groups are.
///
/// # Errors
/// What the store says.
pub(super) async fn few_rows(scan: &ScanExec, filters: &[LateFilter], rows_about: u64) -> Result<Option<RowSet>> {
    let (view, table) = scan.door();
    let mut said: Vec<Expr> = filters.iter().filter_map(|late| logical(&late.filter, &late.names)).collect();
    if said.is_empty() || !view.pushdown {
        return Ok(None);
    }
    let keys = Keys::of_table(table, is_operator(view));
    // What the query says of the parts before those that are joined.
    said.extend(scan.about().constants.iter().map(|(part, value)| {
        let column = &keys.columns()[*part];
        col(datafusion::common::Column::from_name(&column.name)).eq(lit(types::scalar_of_value(value, column.kind)))
    }));
    let rows = Pushdown::plan(&said, &keys).rows.intersect(&scan.read().rows);
    let ranges = rows.ranges();
    let seeks = ROWS_OF_SEEK.saturating_mul(ranges.len() as u64);
    if ranges.len() > RANGES_MAX || seeks > rows_about {
        return Ok(None);
    }
    let points = ranges.iter().all(|range| range.as_point().is_some());
    let found = if points { ranges.len() as u64 } else { self::rows_about(view, table, rows.clone()).await? };
    Ok((found.saturating_mul(ROWS_OF_ROW).saturating_add(seeks) <= rows_about).then_some(rows))
}

/// About how many rows there are: those in row groups and in memory.
///
/// # Errors
/// What the store says.
pub(crate) async fn rows_about(view: &View, table: &Arc<Table>, rows: RowSet) -> Result<u64> {
    let request = ColumnarRequest { rows, columns: Vec::new(), key: None, pin: Some(view.pin.clone()) };
    let (door, table) = (view.rows.clone(), Arc::clone(table));
    // The store may have to read what its files hold.
    let found = tokio::task::spawn_blocking(move || door.columnar(&table, request)).await;
    let found = found.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
    let found = found.transpose().map_err(|error| DataFusionError::External(Box::new(error)))?;
    Ok(found.map_or(0, |found| {
        let memory: u64 = found.memory.iter().map(MemoryPart::rows_estimate).sum();
        memory + found.parts.iter().map(|part| part.rows).sum::<u64>() + found.rest.rows_estimate()
    }))
}

/// What a filter says, or less, in terms of the scan's columns; `None` where nothing is understood.
fn logical(filter: &Arc<dyn PhysicalExpr>, names: &[String]) -> Option<Expr> {
    if let Some(dynamic) = filter.downcast_ref::<DynamicFilterPhysicalExpr>() {
        return logical(&dynamic.current().ok()?, names);
    }
    if let Some(binary) = filter.downcast_ref::<expressions::BinaryExpr>() {
        let (left, right) = (logical(binary.left(), names), logical(binary.right(), names));
        return match (binary.op(), left, right) {
            // Of two conditions that hold both, one says enough.
            (Operator::And, Some(one), None) | (Operator::And, None, Some(one)) => Some(one),
            (_, Some(left), Some(right)) => {
                Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *binary.op(), Box::new(right))))
            }
            _ => None,
        };
    }
    if let Some(list) = filter.downcast_ref::<InListExpr>().filter(|list| !list.negated()) {
        let values = list.list().iter().map(|value| Some(value.downcast_ref::<Literal>()?.value().clone()));
        let values: Vec<ScalarValue> = values.collect::<Option<_>>()?;
        let several = list.expr().downcast_ref::<ScalarFunctionExpr>();
        return match several.filter(|function| function.fun().inner().is::<StructFunc>()) {
            Some(function) => one_of(function.args(), &values, names),
            None => Some(logical(list.expr(), names)?.in_list(values.into_iter().map(lit).collect(), false)),
        };
    }
    if let Some(column) = filter.downcast_ref::<Column>() {
        return Some(col(datafusion::common::Column::from_name(names.get(column.index())?)));
    }
    if let Some(converted) = filter.downcast_ref::<CastExpr>() {
        return Some(cast(logical(converted.expr(), names)?, converted.cast_type().clone()));
    }
    Some(lit(filter.downcast_ref::<Literal>()?.value().clone()))
}

/// That some expressions together equal one of some rows of values.
fn one_of(columns: &[Arc<dyn PhysicalExpr>], rows: &[ScalarValue], names: &[String]) -> Option<Expr> {
    let columns: Vec<Option<Expr>> = columns.iter().map(|column| logical(column, names)).collect();
    let equal = |row: &ScalarValue| {
        let ScalarValue::Struct(values) = row else { return None };
        let values = values.columns().iter().map(|value| ScalarValue::try_from_array(value, 0).ok());
        let pairs = columns.iter().zip(values.collect::<Option<Vec<_>>>()?);
        // A column of which nothing is known stands for any value.
        let known = pairs.filter_map(|(column, value)| Some(column.clone()?.eq(lit(value))));
        known.reduce(Expr::and)
    };
    rows.iter().map(equal).collect::<Option<Vec<Expr>>>()?.into_iter().reduce(Expr::or)
}
