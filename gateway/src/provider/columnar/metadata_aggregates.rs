//! Counts and extremes that row groups' metadata know: `count(*)`, `count(column)`, `min` and `max` of all rows of a span read no page of a
//! row group that lies in it whole.
//!
//! ```text
//! AggregateExec: mode=Final              merges states, however many
//!   UnionExec
//!     KnownExec                          a state for each row group that is known
//!     AggregateExec: mode=Partial        all other rows: row groups at the ends of the span, rows of memtables, …
//!       ColumnarExec
//! ```
//!
//! A row group is known when all of its rows are wanted (none is dead, of another tenant, or beyond the span) and its statistics say what is asked
//! for exactly. These are made of the typed columns that would be read otherwise. Not of floats: PostgreSQL's greatest is NaN, which statistics
//! leave out. A text's bounds may be cut short, and are marked then.

use super::{ColumnarExec, Found, From, Source, file_groups};
use crate::{pg::exec::node, provider::pushdown::grouped};
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
        EquivalenceProperties, Partitioning, PhysicalExpr,
        aggregate::AggregateFunctionExpr,
        expressions::{Column, Literal},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        aggregates::{AggregateExec, AggregateMode},
        execution_plan::{Boundedness, EmissionType, SchedulingType},
        memory::MemoryStream,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
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

/// Takes what is known out of scans below aggregations. To be applied to plans that no other rule has changed but for
/// [`LooseScans`](crate::provider::loose_scan::LooseScans), which reads a few rows where it applies.
#[derive(Debug)]
pub struct KnownAggregates;

impl PhysicalOptimizerRule for KnownAggregates {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| match split(&node)? {
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

/// What is asked of all rows. Columns by their places in the scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Rows,
    Values(usize),
    Min(usize),
    Max(usize),
}

impl Asked {
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

    /// The same of what is below a projection; `None` when it computes what is asked for.
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

/// The states of an aggregation of all rows of a scan: those that are known, and those of the other rows. `None` when none are known.
fn split(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(partial) = node.downcast_ref::<AggregateExec>().filter(|one| is_of_all_rows(one)) else { return Ok(None) };
    // Columns of a subquery may have names of their own.
    let renamed = partial.input().downcast_ref::<ProjectionExec>();
    let input = renamed.map_or(partial.input(), ProjectionExec::input);
    let Some(scan) = input.downcast_ref::<ColumnarExec>() else { return Ok(None) };
    let asked: Option<Vec<Asked>> = partial.aggr_expr().iter().map(|one| Asked::of(one)?.below(renamed)).collect();
    let (Some(asked), Some(found)) = (asked, scan.found()) else { return Ok(None) };
    if found.scan.read().limit.is_some() || !are_typed(found, &asked) {
        return Ok(None);
    }
    let (mut known, mut parts) = (Vec::new(), Vec::new());
    for part in &found.parts {
        let (states, left) = taken(part, &found.from, &asked, &partial.schema())?;
        known.extend(states);
        parts.extend(left);
    }
    if known.is_empty() {
        return Ok(None);
    }
    let rows = found.parts.iter().map(|part| part.rows).sum::<u64>() - parts.iter().map(|part| part.rows).sum::<u64>();
    let known = KnownExec::new(known, partial.schema(), (found.scan.about().name.clone(), rows));
    let left = Found { parts, ..found.clone() };
    if left.is_empty() {
        return Ok(Some(Arc::new(known)));
    }
    let over = |node: &Arc<dyn ExecutionPlan>, child| {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Arc::clone(node).replace_children(vec![child], options)
    };
    let left: Arc<dyn ExecutionPlan> = Arc::new(left.plan()?);
    let left = if renamed.is_some() { over(partial.input(), left)? } else { left };
    UnionExec::try_new(vec![Arc::new(known), over(node, left)?]).map(Some)
}

/// Whether it gives the states of one group, which is all rows.
fn is_of_all_rows(partial: &AggregateExec) -> bool {
    *partial.mode() == AggregateMode::Partial
        && partial.group_expr().is_true_no_grouping()
        && partial.filter_expr().iter().all(Option::is_none)
        && partial.schema().fields().len() == partial.aggr_expr().len()
}

/// Whether statistics of what is asked for say what SQL wants to know.
fn are_typed(found: &Found, asked: &[Asked]) -> bool {
    let schema = found.scan.schema();
    asked.iter().all(|one| {
        one.column().is_none_or(|column| {
            let is_typed = matches!(found.from[column], From::Typed(Source::Cell(_) | Source::Key(_)));
            is_typed && (matches!(one, Asked::Values(_)) || is_ordered(schema.field(column).data_type()))
        })
    })
}

/// Whether values are compared as Parquet's statistics compare them.
fn is_ordered(data_type: &DataType) -> bool {
    use DataType::{Date32, Int16, Int32, Int64, Timestamp, Utf8View};
    matches!(data_type, Int16 | Int32 | Int64 | Date32 | Timestamp(TimeUnit::Microsecond, _) | Utf8View)
}

/// The states of the row groups of a part that are known, and the part without these.
fn taken(
    part: &ParquetPart,
    from: &[From],
    asked: &[Asked],
    schema: &SchemaRef,
) -> Result<(Option<RecordBatch>, Option<ParquetPart>)> {
    let whole: Vec<usize> =
        part.row_groups.iter().filter(|(_, selection)| selection.is_none()).map(|(at, _)| *at).collect();
    if whole.is_empty() {
        return Ok((None, Some(part.clone())));
    }
    let groups: Vec<&RowGroupMetaData> = whole.iter().map(|at| part.metadata.row_group(*at)).collect();
    let mut are_known = vec![true; groups.len()];
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(asked.len());
    for (one, field) in asked.iter().zip(schema.fields()) {
        let name = one.column().map(|column| match from[column] {
            From::Typed(source) => file_groups::name(part, source),
            From::Bytes(_) | From::Part(_) => None,
        });
        let states = match name {
            None => rows(&groups),
            // NULL in every row.
            Some(None) if matches!(one, Asked::Values(_)) => Arc::new(Int64Array::from(vec![0; groups.len()])),
            Some(None) => new_null_array(field.data_type(), groups.len()),
            Some(Some(name)) => of_column(&part.metadata, &groups, &name, (*one, field), &mut are_known)?,
        };
        columns.push(states);
    }
    let mask = BooleanArray::from(are_known.clone());
    if mask.true_count() == 0 {
        return Ok((None, Some(part.clone())));
    }
    let columns = columns.iter().map(|states| filter(states, &mask)).collect::<Result<Vec<_>, _>>()?;
    let states = RecordBatch::try_new(Arc::clone(schema), columns)?;
    let known: Vec<usize> = whole.iter().zip(&are_known).filter(|(_, known)| **known).map(|(at, _)| *at).collect();
    let rows: u64 = known.iter().map(|at| rows_of(part.metadata.row_group(*at))).sum();
    let mut left = part.clone();
    left.row_groups.retain(|(at, _)| known.binary_search(at).is_err());
    left.rows -= rows;
    Ok((Some(states), Some(left).filter(|left| !left.row_groups.is_empty())))
}

fn rows_of(group: &RowGroupMetaData) -> u64 {
    u64::try_from(group.num_rows()).unwrap_or_default()
}

fn rows(groups: &[&RowGroupMetaData]) -> ArrayRef {
    Arc::new(groups.iter().map(|group| Some(group.num_rows())).collect::<Int64Array>())
}

/// What statistics of a column of a file say of each row group. Those that are not `known` are marked.
fn of_column(
    metadata: &ParquetMetaData,
    groups: &[&RowGroupMetaData],
    name: &str,
    (asked, state): (Asked, &arrow::datatypes::Field),
    known: &mut [bool],
) -> Result<ArrayRef> {
    let nothing = |known: &mut [bool]| {
        known.fill(false);
        Ok(new_null_array(state.data_type(), groups.len()))
    };
    let described = metadata.file_metadata().schema_descr();
    let at = described.columns().iter().position(|column| matches!(column.path().parts(), [only] if only == name));
    let Some(at) = at else { return nothing(known) };
    let converter =
        StatisticsConverter::from_column_index(at, state, described)?.with_missing_null_counts_as_zero(false);
    let each = || groups.iter().copied();
    let nulls = converter.row_group_null_counts(each())?;
    for (at, known) in known.iter_mut().enumerate() {
        *known &= nulls.is_valid(at);
    }
    if matches!(asked, Asked::Values(_)) {
        let values = groups.iter().zip(&nulls).map(|(group, nulls)| {
            Some(group.num_rows() - i64::try_from(nulls.unwrap_or_default()).unwrap_or_default())
        });
        return Ok(Arc::new(values.collect::<Int64Array>()));
    }
    let (extremes, exact) = match asked {
        Asked::Min(_) => (converter.row_group_mins(each())?, converter.row_group_is_min_value_exact(each())?),
        _ => (converter.row_group_maxes(each())?, converter.row_group_is_max_value_exact(each())?),
    };
    for (at, known) in known.iter_mut().enumerate() {
        let is_exact = extremes.is_valid(at) && exact.is_valid(at) && exact.value(at);
        let only_nulls = extremes.is_null(at) && nulls.is_valid(at) && nulls.value(at) == rows_of(groups[at]);
        *known &= is_exact || only_nulls;
    }
    let options = arrow::compute::CastOptions { safe: false, format_options: FormatOptions::default() };
    Ok(cast_with_options(&extremes, state.data_type(), &options)?)
}

/// States that are known.
#[derive(Debug)]
struct KnownExec {
    states: Vec<RecordBatch>,
    schema: SchemaRef,
    /// Of which table, and of how many rows.
    of: (String, u64),
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl KnownExec {
    fn new(states: Vec<RecordBatch>, schema: SchemaRef, of: (String, u64)) -> Self {
        let equivalence = EquivalenceProperties::new(Arc::clone(&schema));
        let partitioning = Partitioning::UnknownPartitioning(1);
        let properties =
            PlanProperties::new(equivalence, partitioning, EmissionType::Incremental, Boundedness::Bounded)
                .with_scheduling_type(SchedulingType::Cooperative);
        Self { states, schema, of, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for KnownExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, rows) = &self.of;
        let row_groups = self.states.iter().map(RecordBatch::num_rows).sum();
        let rows = grouped(usize::try_from(*rows).unwrap_or(usize::MAX));
        write!(f, "KeyspanMetadata: {name} row groups={} rows={rows}", grouped(row_groups))
    }
}

impl ExecutionPlan for KnownExec {
    fn name(&self) -> &'static str {
        "KeyspanMetadata"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    node::leaf!();

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        metrics.record_output(self.states.iter().map(RecordBatch::num_rows).sum());
        Ok(Box::pin(MemoryStream::try_new(self.states.clone(), Arc::clone(&self.schema), None)?))
    }
}
