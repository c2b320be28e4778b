//! Key lookups for a join: if the build side of a hash join has a few keys only, these are read by rows, not the whole
//! probe side.
//!
//! ```text
//! HashJoinExec            builds a hash table of the smaller side, and pushes its keys down as a dynamic filter
//!   scan of orders        WHERE id = 777
//!   ColumnarExec          customers: when the first row is asked for, the filter is id IN (5, 17, 99)
//! ```
//!
//! The join drops all rows that the filter excludes, so DataFusion's Parquet source prunes row groups and pages by it.
//! Here the filter becomes ranges of keys, by the code that does so for predicates, before a row group is opened. Few
//! keys out of many rows are then read by rows, as PostgreSQL reads an index in the inner side of a nested loop. The
//! filter may change while it is read, or be still empty; either way it excludes only rows that the join would drop.

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
use keyspan_storage::{ColumnarRequest, KeyRange, MemoryPart, RowSet};
use std::sync::Arc;

/// The most ranges that are looked up. A join pushes down some hundred values at most.
const RANGES_MAX: usize = 1_024;
/// The cost of a seek to one range, in rows of a scan by row groups. A seek takes 15 to 400 µs.
const SEEK_COST_ROWS: u64 = 256;
/// The cost of one row read by rows, in rows of a scan by row groups.
const ROW_COST_ROWS: u64 = 16;

/// A filter whose value is known when rows are asked for.
#[derive(Clone, Debug)]
pub(super) struct DynamicFilter {
    filter: Arc<dyn PhysicalExpr>,
    /// The scan's names of the columns that the filter has by index.
    names: Arc<[String]>,
}

impl DynamicFilter {
    /// The filter, if it is dynamic.
    pub(super) fn of(filter: &Arc<dyn PhysicalExpr>, names: &Arc<[String]>) -> Option<Self> {
        let is_dynamic = filter.is::<DynamicFilterPhysicalExpr>();
        is_dynamic.then(|| Self { filter: Arc::clone(filter), names: Arc::clone(names) })
    }

    /// DataFusion's expression.
    pub(super) fn filter(&self) -> &Arc<dyn PhysicalExpr> {
        &self.filter
    }
}

/// The ranges that the filters leave, if it is faster to read them by rows than all rows by row groups; `None`
/// otherwise. `all_rows` is an estimate of all rows of the scan.
///
/// # Errors
/// The store's.
pub(super) async fn few_rows(scan: &ScanExec, filters: &[DynamicFilter], all_rows: u64) -> Result<Option<RowSet>> {
    let (view, table) = scan.view_and_table();
    let translated = filters.iter().filter_map(|dynamic| logical(&dynamic.filter, &dynamic.names));
    let mut conditions: Vec<Expr> = translated.collect();
    if conditions.is_empty() || !view.pushdown {
        return Ok(None);
    }
    let keys = Keys::of_table(table, is_operator(view));
    // Key parts that the query's own conditions fix: the join may be on later parts.
    conditions.extend(scan.description().constants.iter().map(|(part, value)| {
        let column = &keys.columns()[*part];
        col(datafusion::common::Column::from_name(&column.name)).eq(lit(types::scalar_of_value(value, column.kind)))
    }));
    let rows = Pushdown::plan(&conditions, &keys).rows.intersect(&scan.read().rows);
    let ranges = rows.ranges();
    let seeks = SEEK_COST_ROWS.saturating_mul(ranges.len() as u64);
    if ranges.len() > RANGES_MAX || seeks > all_rows {
        return Ok(None);
    }
    let points = ranges.iter().all(|range| range.as_point().is_some());
    let rows_found = if points { ranges.len() as u64 } else { rows_estimate(view, table, rows.clone()).await? };
    Ok((rows_found.saturating_mul(ROW_COST_ROWS).saturating_add(seeks) <= all_rows).then_some(rows))
}

/// The store's estimate of the rows in some ranges; 0 for a store without row groups.
///
/// # Errors
/// The store's.
pub(crate) async fn rows_estimate(view: &View, table: &Arc<Table>, rows: RowSet) -> Result<u64> {
    let request = ColumnarRequest {
        rows,
        span: KeyRange::all(),
        columns: Vec::new(),
        key: None,
        or_row_key: false,
        pin: Some(view.pin.clone()),
    };
    let (rows, table) = (view.rows.clone(), Arc::clone(table));
    // The store may have to read metadata of its files.
    let found = tokio::task::spawn_blocking(move || rows.columnar(&table, request)).await;
    let found = found.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
    let found = found.transpose().map_err(|error| DataFusionError::External(Box::new(error)))?;
    Ok(found.map_or(0, |found| {
        let memory: u64 = found.memory.iter().map(MemoryPart::rows_estimate).sum();
        memory + found.parts.iter().map(|part| part.rows).sum::<u64>() + found.rest.rows_estimate()
    }))
}

/// Translates a filter to a logical expression over the scan's columns, or to a weaker one; `None` if it cannot be
/// translated.
fn logical(filter: &Arc<dyn PhysicalExpr>, names: &[String]) -> Option<Expr> {
    if let Some(dynamic) = filter.downcast_ref::<DynamicFilterPhysicalExpr>() {
        return logical(&dynamic.current().ok()?, names);
    }
    if let Some(binary) = filter.downcast_ref::<expressions::BinaryExpr>() {
        let (left, right) = (logical(binary.left(), names), logical(binary.right(), names));
        return match (binary.op(), left, right) {
            // One operand of AND is a weaker condition.
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
        let structure = list.expr().downcast_ref::<ScalarFunctionExpr>();
        return match structure.filter(|function| function.fun().inner().is::<StructFunc>()) {
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

/// `(a, b) IN ((1, 2), …)` as a disjunction. Columns that cannot be translated are left out, which makes it weaker.
fn one_of(columns: &[Arc<dyn PhysicalExpr>], rows: &[ScalarValue], names: &[String]) -> Option<Expr> {
    let columns: Vec<Option<Expr>> = columns.iter().map(|column| logical(column, names)).collect();
    let equal = |row: &ScalarValue| {
        let ScalarValue::Struct(values) = row else { return None };
        let values = values.columns().iter().map(|value| ScalarValue::try_from_array(value, 0).ok());
        let pairs = columns.iter().zip(values.collect::<Option<Vec<_>>>()?);
        let comparisons = pairs.filter_map(|(column, value)| Some(column.clone()?.eq(lit(value))));
        comparisons.reduce(Expr::and)
    };
    rows.iter().map(equal).collect::<Option<Vec<Expr>>>()?.into_iter().reduce(Expr::or)
}
