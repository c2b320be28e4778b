//! `count(*)`, `count(column)`, `min` and `max` of all rows of a span from the statistics of row groups: no page is
//! read of a row group that lies in the span as a whole.
//!
//! ```text
//! AggregateExec: mode=Final              merges states
//!   UnionExec
//!     MetadataExec                       one state for each row group whose statistics suffice
//!     AggregateExec: mode=Partial        all other rows: row groups at the ends of the span, rows of memtables, …
//!       ColumnarExec
//! ```
//!
//! The statistics of a row group suffice if all of its rows are read (none is dead, another tenant's, or beyond the
//! span) and they hold exactly the values that are asked for. They are those of the typed columns that would be read
//! otherwise. Extremes of floats are read from rows, since PostgreSQL's greatest float is NaN, which statistics leave
//! out. Bounds of texts may be truncated, and are marked then.

use super::{super::node, ColumnarExec, FileColumn, Origin, ScanParts, file_groups};
use crate::provider::pushdown::with_commas;
use arrow::{
    array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, new_null_array},
    compute::{cast_with_options, filter},
    datatypes::{DataType, SchemaRef, TimeUnit},
    util::display::FormatOptions,
};
use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{
        EquivalenceProperties, PhysicalExpr,
        aggregate::AggregateFunctionExpr,
        expressions::{Column, Literal},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        aggregates::{AggregateExec, AggregateMode},
        memory::MemoryStream,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet},
        projection::ProjectionExec,
        union::UnionExec,
    },
};
use keyspan_storage::ParquetPart;
use parquet::{
    arrow::arrow_reader::statistics::StatisticsConverter,
    file::metadata::{ParquetMetaData, RowGroupMetaData},
};
use std::{fmt, sync::Arc};

/// Answers aggregations from statistics, as far as they suffice. Must come before all other rules but
/// [`LooseScans`](crate::provider::loose_scan::LooseScans), which reads only a few rows where it applies.
#[derive(Debug)]
pub struct MetadataAggregates;

impl PhysicalOptimizerRule for MetadataAggregates {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| match split_aggregation(&node)? {
            Some(split) => Ok(Transformed::yes(split)),
            None => Ok(Transformed::no(node)),
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &str {
        "known_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// An aggregate over all rows that statistics can answer. Columns by index in the scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Rows,
    Values(usize),
    Min(usize),
    Max(usize),
}

impl Aggregate {
    fn of(aggregate: &AggregateFunctionExpr) -> Option<Self> {
        if aggregate.is_distinct() || !aggregate.order_bys().is_empty() {
            return None;
        }
        let arguments = aggregate.expressions();
        let [argument] = &arguments[..] else { return None };
        let column = argument.downcast_ref::<Column>().map(Column::index);
        match (aggregate.fun().name(), column) {
            ("count", Some(column)) => Some(Self::Values(column)),
            ("count", None) => {
                argument.downcast_ref::<Literal>().filter(|one| !one.value().is_null()).map(|_| Self::Rows)
            }
            ("min", Some(column)) => Some(Self::Min(column)),
            ("max", Some(column)) => Some(Self::Max(column)),
            _ => None,
        }
    }

    /// The same aggregate below a projection; `None` if the projection computes its argument.
    fn below(self, projection: Option<&ProjectionExec>) -> Option<Self> {
        let Some(projection) = projection else { return Some(self) };
        let column = |at: usize| projection.expr()[at].expr.downcast_ref::<Column>().map(Column::index);
        Some(match self {
            Self::Rows => self,
            Self::Values(at) => Self::Values(column(at)?),
            Self::Min(at) => Self::Min(column(at)?),
            Self::Max(at) => Self::Max(column(at)?),
        })
    }

    fn column(self) -> Option<usize> {
        match self {
            Self::Rows => None,
            Self::Values(column) | Self::Min(column) | Self::Max(column) => Some(column),
        }
    }
}

/// Replaces a partial aggregation over all rows of a scan by a union: states from statistics, and the aggregation of
/// the other rows. `None` if no statistics suffice.
fn split_aggregation(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(partial) = node.downcast_ref::<AggregateExec>().filter(|one| is_of_all_rows(one)) else { return Ok(None) };
    // A projection may rename columns, those of a subquery for example.
    let projection = partial.input().downcast_ref::<ProjectionExec>();
    let input = projection.map_or(partial.input(), ProjectionExec::input);
    let Some(scan) = input.downcast_ref::<ColumnarExec>() else { return Ok(None) };
    let aggregates: Option<Vec<Aggregate>> =
        partial.aggr_expr().iter().map(|one| Aggregate::of(one)?.below(projection)).collect();
    let (Some(aggregates), Some(scan_parts)) = (aggregates, scan.whole_parts()) else { return Ok(None) };
    if scan_parts.scan.read().limit.is_some() || !are_typed(scan_parts, &aggregates) {
        return Ok(None);
    }
    let (mut states, mut parts) = (Vec::new(), Vec::new());
    for part in &scan_parts.parts {
        let (part_states, left) = split_part(part, &scan_parts.origins_in(part), &aggregates, &partial.schema())?;
        states.extend(part_states);
        parts.extend(left);
    }
    if states.is_empty() {
        return Ok(None);
    }
    let rows_of = |parts: &[ParquetPart]| parts.iter().map(|part| part.rows).sum::<u64>();
    let rows = rows_of(&scan_parts.parts) - rows_of(&parts);
    let states = MetadataExec::new(states, partial.schema(), (scan_parts.scan.description().name.clone(), rows));
    let left = ScanParts { parts, ..scan_parts.clone() };
    if left.is_empty() {
        return Ok(Some(Arc::new(states)));
    }
    let over = |node: &Arc<dyn ExecutionPlan>, child| {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Arc::clone(node).replace_children(vec![child], options)
    };
    let left: Arc<dyn ExecutionPlan> = Arc::new(left.plan()?);
    let left = if projection.is_some() { over(partial.input(), left)? } else { left };
    UnionExec::try_new(vec![Arc::new(states), over(node, left)?]).map(Some)
}

/// Whether it aggregates all rows into one state, without GROUP BY and FILTER.
fn is_of_all_rows(partial: &AggregateExec) -> bool {
    *partial.mode() == AggregateMode::Partial
        && partial.group_expr().is_true_no_grouping()
        && partial.filter_expr().iter().all(Option::is_none)
        && partial.schema().fields().len() == partial.aggr_expr().len()
}

/// Whether statistics of the columns have the types and the order of SQL.
fn are_typed(parts: &ScanParts, aggregates: &[Aggregate]) -> bool {
    let schema = parts.scan.schema();
    aggregates.iter().all(|one| {
        one.column().is_none_or(|column| {
            let is_typed = matches!(parts.origins[column], Origin::Typed(FileColumn::Cell(_) | FileColumn::Key(_)));
            is_typed && (matches!(one, Aggregate::Values(_)) || is_ordered(schema.field(column).data_type()))
        })
    })
}

/// Whether Parquet's statistics compare values of the type as SQL does.
fn is_ordered(data_type: &DataType) -> bool {
    use DataType::{Date32, Decimal128, Int16, Int32, Int64, Timestamp, Utf8View};
    let is_time = matches!(data_type, Date32 | Timestamp(TimeUnit::Microsecond, _));
    is_time || matches!(data_type, Int16 | Int32 | Int64 | Decimal128(..) | Utf8View)
}

/// The states of the row groups of a part whose statistics suffice, and the part without these.
fn split_part(
    part: &ParquetPart,
    origins: &[Origin],
    aggregates: &[Aggregate],
    schema: &SchemaRef,
) -> Result<(Option<RecordBatch>, Option<ParquetPart>)> {
    let whole: Vec<usize> =
        part.row_groups.iter().filter(|(_, selection)| selection.is_none()).map(|(at, _)| *at).collect();
    // A column of bytes may hold values that SQL does not read.
    let is_typed = |one: &Aggregate| one.column().is_none_or(|column| matches!(origins[column], Origin::Typed(_)));
    if whole.is_empty() || !aggregates.iter().all(is_typed) {
        return Ok((None, Some(part.clone())));
    }
    let groups: Vec<&RowGroupMetaData> = whole.iter().map(|at| part.metadata.row_group(*at)).collect();
    let mut suffice = vec![true; groups.len()];
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(aggregates.len());
    for (one, field) in aggregates.iter().zip(schema.fields()) {
        let name = one.column().map(|column| match origins[column] {
            Origin::Typed(source) => file_groups::name(part, source),
            Origin::Bytes { .. } | Origin::Part(_) | Origin::Map(_) => None,
        });
        let states = match name {
            None => row_counts(&groups),
            // NULL in every row.
            Some(None) if matches!(one, Aggregate::Values(_)) => Arc::new(Int64Array::from(vec![0; groups.len()])),
            Some(None) => new_null_array(field.data_type(), groups.len()),
            Some(Some(name)) => of_column(&part.metadata, &groups, &name, (*one, field), &mut suffice)?,
        };
        columns.push(states);
    }
    let mask = BooleanArray::from(suffice.clone());
    if mask.true_count() == 0 {
        return Ok((None, Some(part.clone())));
    }
    let columns = columns.iter().map(|states| filter(states, &mask)).collect::<Result<Vec<_>, _>>()?;
    let states = RecordBatch::try_new(Arc::clone(schema), columns)?;
    let answered = whole.iter().zip(&suffice).filter(|(_, suffice)| **suffice);
    let answered: Vec<usize> = answered.map(|(at, _)| *at).collect();
    let rows: u64 = answered.iter().map(|at| rows_of(part.metadata.row_group(*at))).sum();
    let mut left = part.clone();
    left.row_groups.retain(|(at, _)| answered.binary_search(at).is_err());
    left.rows -= rows;
    Ok((Some(states), Some(left).filter(|left| !left.row_groups.is_empty())))
}

fn rows_of(group: &RowGroupMetaData) -> u64 {
    u64::try_from(group.num_rows()).unwrap_or_default()
}

fn row_counts(groups: &[&RowGroupMetaData]) -> ArrayRef {
    Arc::new(groups.iter().map(|group| Some(group.num_rows())).collect::<Int64Array>())
}

/// The states of one aggregate from a column's statistics. Clears `suffice` for row groups whose statistics do not
/// answer it.
fn of_column(
    metadata: &ParquetMetaData,
    groups: &[&RowGroupMetaData],
    name: &str,
    (aggregate, state): (Aggregate, &arrow::datatypes::Field),
    suffice: &mut [bool],
) -> Result<ArrayRef> {
    let nothing = |suffice: &mut [bool]| {
        suffice.fill(false);
        Ok(new_null_array(state.data_type(), groups.len()))
    };
    let described = metadata.file_metadata().schema_descr();
    let at = described.columns().iter().position(|column| matches!(column.path().parts(), [only] if only == name));
    let Some(at) = at else { return nothing(suffice) };
    let converter =
        StatisticsConverter::from_column_index(at, state, described)?.with_missing_null_counts_as_zero(false);
    let each = || groups.iter().copied();
    let nulls = converter.row_group_null_counts(each())?;
    for (at, suffice) in suffice.iter_mut().enumerate() {
        *suffice &= nulls.is_valid(at);
    }
    if matches!(aggregate, Aggregate::Values(_)) {
        let values = groups.iter().zip(&nulls).map(|(group, nulls)| {
            Some(group.num_rows() - i64::try_from(nulls.unwrap_or_default()).unwrap_or_default())
        });
        return Ok(Arc::new(values.collect::<Int64Array>()));
    }
    let (extremes, exact) = match aggregate {
        Aggregate::Min(_) => (converter.row_group_mins(each())?, converter.row_group_is_min_value_exact(each())?),
        _ => (converter.row_group_maxes(each())?, converter.row_group_is_max_value_exact(each())?),
    };
    for (at, suffice) in suffice.iter_mut().enumerate() {
        let is_exact = extremes.is_valid(at) && exact.is_valid(at) && exact.value(at);
        let only_nulls = extremes.is_null(at) && nulls.is_valid(at) && nulls.value(at) == rows_of(groups[at]);
        *suffice &= is_exact || only_nulls;
    }
    let options = arrow::compute::CastOptions { safe: false, format_options: FormatOptions::default() };
    Ok(cast_with_options(&extremes, state.data_type(), &options)?)
}

/// Yields states that were made from statistics.
#[derive(Debug)]
struct MetadataExec {
    states: Vec<RecordBatch>,
    schema: SchemaRef,
    /// The table's name and the number of rows that they stand for.
    of: (String, u64),
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl MetadataExec {
    fn new(states: Vec<RecordBatch>, schema: SchemaRef, of: (String, u64)) -> Self {
        let equivalence = EquivalenceProperties::new(Arc::clone(&schema));
        let properties = node::leaf_properties(equivalence, 1);
        Self { states, schema, of, properties, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for MetadataExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, rows) = &self.of;
        let row_groups = self.states.iter().map(RecordBatch::num_rows).sum();
        let rows = with_commas(usize::try_from(*rows).unwrap_or(usize::MAX));
        write!(f, "KeyspanMetadata: {name} row groups={} rows={rows}", with_commas(row_groups))
    }
}

impl ExecutionPlan for MetadataExec {
    node::fields!("KeyspanMetadata");
    node::leaf!();

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        metrics.record_output(self.states.iter().map(RecordBatch::num_rows).sum());
        Ok(Box::pin(MemoryStream::try_new(self.states.clone(), Arc::clone(&self.schema), None)?))
    }
}
