//! Partial aggregation of rows that stand next to each other: one lookup for each run of a group's rows, not one for
//! each row.
//!
//! ```text
//! AggregateExec: mode=FinalPartitioned       all states of a group become its values
//!   RepartitionExec
//!     RunAggregateExec: mode=Partial    a state for each run of rows of one group
//!       the scan
//! ```
//!
//! Rows of a table come in the order of its key, at least those of one row group, and what they are grouped by is most
//! often made of the key: a device, the hour of a time. Then hundreds of rows of one group stand next to each other,
//! and it is enough to look where the next group begins, by a comparison of each column with itself a row later.
//! DataFusion's aggregation looks each row up in a hash table, unless the whole input is declared to be in order, which
//! it is not where row groups of several segments are read.
//!
//! No order has to be declared here. A group that comes again has another state, and the final aggregation merges
//! states of any number. So the only thing to lose is time, where runs are short: it is looked at all along how long
//! they are, and the rest of the input is left to DataFusion's aggregation as soon as they are not long enough
//! ([`ROWS_OF_RUN_MIN`]).

use crate::aggregates::FIXED_STATE;
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array},
    compute::{concat, partition, take},
    datatypes::{DataType, SchemaRef},
};
use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        internal_err,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_expr::PhysicalExpr,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PlanProperties,
        ReplaceChildrenOptions,
        aggregates::{AggregateExec, AggregateMode, aggregate_expressions, evaluate_group_by, evaluate_many},
        execution_plan::{Boundedness, EmissionType},
        metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet},
        stream::{EmptyRecordBatchStream, RecordBatchStreamAdapter},
        streaming::{PartitionStream, StreamingTableExec},
    },
};
use folds::Fold;
use futures::{StreamExt, stream};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

mod folds;

/// Rows of a run, in the mean of a window, below which DataFusion's hash table is as fast.
const ROWS_OF_RUN_MIN: usize = 4;
/// Bytes of states that are gathered before they are passed on; those of a batch more may be.
const STATE_BYTES_MAX: usize = 1 << 20;

/// When a partition goes on with hashes, and when it passes states on.
#[derive(Clone, Copy, Debug)]
pub struct RunLimits {
    /// Rows of a window, after which the mean length of their runs is judged.
    pub window_rows: usize,
    /// Runs whose states are gathered before they are passed on; a batch may exceed it.
    pub runs_max: usize,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { window_rows: 16_384, runs_max: 4_096 }
    }
}

/// Replaces partial aggregations by [`RunAggregateExec`].
#[derive(Debug, Default)]
pub struct RunAggregates {
    /// The limits of its nodes.
    pub limits: RunLimits,
}

impl PhysicalOptimizerRule for RunAggregates {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| match node.downcast_ref::<AggregateExec>() {
            Some(partial) if has_runs(partial) => {
                Ok(Transformed::yes(Arc::new(RunAggregateExec::new(partial.clone(), self.limits))))
            }
            _ => Ok(Transformed::no(node)),
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &str {
        "adjacent_aggregation"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether an aggregation gives states of groups, in no order, which may be as many as there are runs.
fn has_runs(partial: &AggregateExec) -> bool {
    let groups = partial.group_expr();
    *partial.mode() == AggregateMode::Partial
        && *partial.input_order_mode() == InputOrderMode::Linear
        && groups.is_single()
        && !groups.is_true_no_grouping()
        && partial.limit_options().is_none()
        && partial.dynamic_expressions_produced().is_empty()
        && partial.schema().fields()[..groups.expr().len()].iter().all(|field| !field.data_type().is_nested())
        && partial.aggr_expr().iter().all(|one| {
            FIXED_STATE.contains(&one.fun().name())
                && !one.is_distinct()
                && one.order_bys().is_empty()
                && one.groups_accumulator_supported()
        })
}

/// Nothing of another input is known.
const RECOMPUTED: ReplaceChildrenOptions = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);

/// The same aggregation over another input.
fn over(partial: &AggregateExec, child: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let partial: Arc<dyn ExecutionPlan> = Arc::new(partial.clone());
    partial.replace_children(vec![child], RECOMPUTED)
}

/// A partial aggregation that keeps one state for each run of rows of the same group. EXPLAIN shows it as
/// `AdjacentAggregateExec`.
#[derive(Debug)]
pub struct RunAggregateExec {
    /// DataFusion's aggregation, which does the same.
    partial: AggregateExec,
    child: Arc<dyn ExecutionPlan>,
    limits: RunLimits,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl RunAggregateExec {
    fn new(partial: AggregateExec, limits: RunLimits) -> Self {
        let of = partial.properties();
        let properties = PlanProperties::new(
            of.equivalence_properties().clone(),
            of.partitioning.clone(),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let child = Arc::clone(partial.input());
        let properties = Arc::new(properties.with_scheduling_type(child.properties().scheduling_type));
        Self { partial, child, limits, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let partial = over(&self.partial, child)?;
        // Over an input in order it is another aggregation.
        Ok(match partial.downcast_ref::<AggregateExec>() {
            Some(of) if has_runs(of) => Arc::new(Self::new(of.clone(), self.limits)),
            _ => partial,
        })
    }
}

impl DisplayAs for RunAggregateExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if kind != DisplayFormatType::TreeRender {
            f.write_str("Adjacent")?;
        }
        self.partial.fmt_as(kind, f)
    }
}

impl ExecutionPlan for RunAggregateExec {
    fn name(&self) -> &'static str {
        "AdjacentAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.child]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.partial.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(child) => self.over(child),
            None => Ok(self),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, RECOMPUTED)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, at: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.child.execute(at, Arc::clone(&context))?;
        let runs = Runs::new(&self.partial, self.limits, &context)?;
        let hashed = MetricBuilder::new(&self.metrics).counter("hashed_partitions", at);
        let rest = Rest { partial: self.partial.clone(), context, hashed };
        let metrics = BaselineMetrics::new(&self.metrics, at);
        let states = stream::try_unfold((Step::Adjacent(rows, Box::new(runs)), rest, metrics), next);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), states)))
    }
}

/// Where a stream is.
enum Step {
    /// Rows are looked at for runs.
    Adjacent(SendableRecordBatchStream, Box<Runs>),
    /// Runs are short: states come from DataFusion's aggregation.
    Hashed(SendableRecordBatchStream),
    Done,
}

/// What is needed for the rows that come after runs were short.
struct Rest {
    partial: AggregateExec,
    context: Arc<TaskContext>,
    hashed: Count,
}

impl Rest {
    /// The states of rows.
    fn of(&self, rows: SendableRecordBatchStream) -> Result<SendableRecordBatchStream> {
        self.hashed.add(1);
        let schema = rows.schema();
        let taken = Arc::new(Taken { schema: Arc::clone(&schema), rows: Mutex::new(Some(rows)) });
        let child = StreamingTableExec::try_new(schema, vec![taken], None, None, false, None)?;
        over(&self.partial, Arc::new(child))?.execute(0, Arc::clone(&self.context))
    }
}

type Going = (Step, Rest, BaselineMetrics);

async fn next((mut step, rest, metrics): Going) -> Result<Option<(RecordBatch, Going)>> {
    loop {
        let states = match step {
            Step::Adjacent(mut rows, mut runs) => match rows.next().await.transpose()? {
                Some(batch) => {
                    let timer = metrics.elapsed_compute().timer();
                    runs.add(&batch)?;
                    let are_short = runs.are_short();
                    let states = if are_short || runs.are_many() { runs.take_states()? } else { None };
                    timer.done();
                    step = if are_short { Step::Hashed(rest.of(rows)?) } else { Step::Adjacent(rows, runs) };
                    states
                }
                None => {
                    step = Step::Done;
                    runs.take_states()?
                }
            },
            Step::Hashed(mut states) => match states.next().await.transpose()? {
                Some(batch) => {
                    step = Step::Hashed(states);
                    Some(batch)
                }
                None => return Ok(None),
            },
            Step::Done => return Ok(None),
        };
        if let Some(states) = states {
            metrics.record_output(states.num_rows());
            return Ok(Some((states, (step, rest, metrics))));
        }
    }
}

/// A stream as an input, once.
struct Taken {
    schema: SchemaRef,
    rows: Mutex<Option<SendableRecordBatchStream>>,
}

impl fmt::Debug for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Taken")
    }
}

impl PartitionStream for Taken {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).take();
        debug_assert!(rows.is_some(), "a partition is executed once");
        rows.unwrap_or_else(|| Box::pin(EmptyRecordBatchStream::new(Arc::clone(&self.schema))))
    }
}

/// Runs, and the states of their groups.
struct Runs {
    partial: AggregateExec,
    arguments: Vec<Vec<Arc<dyn PhysicalExpr>>>,
    folds: Vec<Fold>,
    limits: RunLimits,
    /// Group values: for each batch and column one value for each run.
    values: Vec<Vec<ArrayRef>>,
    value_bytes: usize,
    /// How many there are.
    runs: usize,
    /// For each row of a batch the number of its run.
    numbers: Vec<usize>,
    /// Rows and runs of the window at hand.
    window: (usize, usize),
    reservation: MemoryReservation,
}

impl Runs {
    fn new(partial: &AggregateExec, limits: RunLimits, context: &Arc<TaskContext>) -> Result<Self> {
        let aggregates = partial.aggr_expr();
        Ok(Self {
            arguments: aggregate_expressions(aggregates, partial.mode(), 0)?,
            folds: aggregates
                .iter()
                .zip(partial.filter_expr())
                .map(|(one, filter)| Fold::new(one, filter.is_some(), &partial.input_schema()))
                .collect::<Result<_>>()?,
            partial: partial.clone(),
            limits,
            values: Vec::new(),
            value_bytes: 0,
            runs: 0,
            numbers: Vec::new(),
            window: (0, 0),
            reservation: MemoryConsumer::new("AdjacentAggregate").register(context.memory_pool()),
        })
    }

    /// Adds rows. The first of them begin a run, whatever came before.
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let groups = evaluate_group_by(self.partial.group_expr(), batch)?.swap_remove(0);
        let ranges = partition(&groups)?.ranges();
        self.numbers.clear();
        if self.folds.iter().any(|fold| matches!(fold, Fold::Rows(_))) {
            for (number, range) in (self.runs..).zip(&ranges) {
                self.numbers.resize(range.end, number);
            }
        }
        self.runs += ranges.len();
        let filters = self.partial.filter_expr().iter();
        let arguments = evaluate_many(&self.arguments, batch)?;
        for ((fold, arguments), filter) in self.folds.iter_mut().zip(&arguments).zip(filters) {
            match (fold, &arguments[..]) {
                (Fold::Rows(accumulator), arguments) => {
                    let filter = filter.as_ref().map(|filter| filter.evaluate(batch)?.into_array(batch.num_rows()));
                    let filter = filter.transpose()?;
                    let filter = filter.as_ref().map(|filter| filter.as_boolean());
                    accumulator.update_batch(arguments, &self.numbers, filter, self.runs)?;
                }
                (fold, [values, ..]) => fold.add(values, &ranges)?,
                (_, []) => return internal_err!("an aggregate of a run has no argument"),
            }
        }
        let firsts = ranges.iter().map(|range| range.start as u32).collect::<UInt32Array>();
        let values = groups.iter().map(|group| value_of_each(group, &firsts)).collect::<Result<Vec<_>>>()?;
        self.value_bytes += values.iter().map(|values| values.get_array_memory_size()).sum::<usize>();
        self.values.push(values);
        self.window.0 += batch.num_rows();
        self.window.1 += ranges.len();
        Ok(())
    }

    /// Whether those of the last window are so short that a hash table is faster.
    fn are_short(&mut self) -> bool {
        let (rows, runs) = self.window;
        if rows < self.limits.window_rows {
            return false;
        }
        self.window = (0, 0);
        rows < runs * ROWS_OF_RUN_MIN
    }

    /// Whether their states are to be passed on.
    fn are_many(&self) -> bool {
        let bytes = self.value_bytes + self.folds.iter().map(Fold::size).sum::<usize>();
        // Rows for which memory is short are given away, too.
        self.runs >= self.limits.runs_max || bytes >= STATE_BYTES_MAX || self.reservation.try_resize(bytes).is_err()
    }

    /// The states of the runs so far; `None` without runs.
    fn take_states(&mut self) -> Result<Option<RecordBatch>> {
        if self.runs == 0 {
            return Ok(None);
        }
        let batches = std::mem::take(&mut self.values);
        let mut columns = Vec::with_capacity(self.partial.schema().fields().len());
        for at in 0..self.partial.group_expr().expr().len() {
            let parts: Vec<&dyn Array> = batches.iter().map(|values| values[at].as_ref()).collect();
            columns.push(concat(&parts)?);
        }
        for fold in &mut self.folds {
            columns.extend(fold.take()?);
        }
        (self.runs, self.value_bytes) = (0, 0);
        self.reservation.free();
        Ok(Some(RecordBatch::try_new(self.partial.schema(), columns)?))
    }
}

/// The values of some rows, copied, so that they do not hold the memory of the others.
///
/// # Errors
/// Arrow's, for a place that is none.
pub fn value_of_each(values: &ArrayRef, places: &UInt32Array) -> Result<ArrayRef> {
    let taken = take(values, places, None)?;
    Ok(match taken.data_type() {
        DataType::Utf8View => Arc::new(taken.as_string_view().gc()),
        DataType::BinaryView => Arc::new(taken.as_binary_view().gc()),
        _ => taken,
    })
}
