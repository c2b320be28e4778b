//! Rows of memtables as batches: values are copied once, from the memtable into the columns.
//!
//! The store divides its rows in memory into [`MemoryPart`]s. Each partition reads its share of them, one after the
//! other, until a batch is full.

use super::{
    super::{
        batches::{BATCH_ROWS_MAX, batch_bytes_max},
        decode::{BatchBuilder, RowBuilder, RowLayout},
        node,
    },
    reader::Budget,
};
use crate::pg::error::SqlError;
use arrow::array::RecordBatch;
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    error::DataFusionError,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        coop::make_cooperative,
        metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder},
        stream::RecordBatchStreamAdapter,
    },
};
use keyspan_storage::MemoryPart;
use std::{collections::VecDeque, fmt, ops::ControlFlow, sync::Arc};

/// The metric of the bytes of values.
const VALUE_BYTES: &str = "value_bytes";

/// Reads rows of memtables.
#[derive(Debug)]
pub(crate) struct MemoryExec {
    partitions: Vec<VecDeque<MemoryPart>>,
    layout: Arc<RowLayout>,
    budget: Budget,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl MemoryExec {
    /// Reads the parts in at most `partitions` partitions.
    pub(super) fn new(parts: Vec<MemoryPart>, layout: &Arc<RowLayout>, partitions: usize, budget: Budget) -> Self {
        let partitions = distribute(parts, partitions);
        let equivalence = EquivalenceProperties::new(Arc::clone(&layout.schema));
        let properties = node::leaf_properties(equivalence, partitions.len());
        let layout = Arc::clone(layout);
        let metrics = ExecutionPlanMetricsSet::new();
        Self { partitions, layout, budget, properties, metrics }
    }

    /// Bytes of the values that it has returned.
    pub(crate) fn value_bytes(&self) -> usize {
        self.metrics.clone_inner().sum_by_name(VALUE_BYTES).map_or(0, |sum| sum.as_usize())
    }
}

/// Distributes the parts over partitions: neighbours stay together, and partitions have about the same number of rows.
fn distribute(parts: Vec<MemoryPart>, partitions: usize) -> Vec<VecDeque<MemoryPart>> {
    let share = parts.iter().map(MemoryPart::rows_estimate).sum::<u64>().div_ceil(partitions.max(1) as u64).max(1);
    let (mut shares, mut rows): (Vec<VecDeque<MemoryPart>>, u64) = (Vec::new(), 0);
    for part in parts {
        if rows / share >= shares.len() as u64 {
            shares.push(VecDeque::new());
        }
        rows += part.rows_estimate();
        if let Some(last) = shares.last_mut() {
            last.push_back(part);
        }
    }
    shares
}

impl DisplayAs for MemoryExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyspanMemoryRows")
    }
}

impl ExecutionPlan for MemoryExec {
    node::fields!("KeyspanMemoryRows");
    node::leaf!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reader = MemoryReader {
            parts: self.partitions.get(partition).cloned().unwrap_or_default(),
            last: None,
            layout: Arc::clone(&self.layout),
            budget: self.budget.clone(),
            bytes: MetricBuilder::new(&self.metrics).counter(VALUE_BYTES, partition),
            batch_rows: context.session_config().batch_size().clamp(1, BATCH_ROWS_MAX),
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = futures::stream::try_unfold((reader, metrics), |(mut reader, metrics)| async move {
            let timer = metrics.elapsed_compute().timer();
            let batch = reader.next().map_err(|error| DataFusionError::External(Box::new(error)))?;
            timer.done();
            Ok(batch.map(|batch| {
                metrics.record_output(batch.num_rows());
                (batch, (reader, metrics))
            }))
        });
        let schema = Arc::clone(&self.layout.schema);
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(schema, batches))))
    }
}

/// Turns the parts of one partition into batches.
struct MemoryReader {
    /// The parts that are left; the first may be read in part.
    parts: VecDeque<MemoryPart>,
    /// The last key read of the first part.
    last: Option<Vec<u8>>,
    layout: Arc<RowLayout>,
    budget: Budget,
    bytes: Count,
    batch_rows: usize,
}

impl MemoryReader {
    /// The next batch; `None` at the end.
    fn next(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        let mut batch = RowBuilder::new(&self.layout, 0);
        let bytes_max = batch_bytes_max(self.batch_rows);
        while let Some(part) = self.parts.front() {
            let (mut last, mut failed) = (None, None);
            part.read(self.last.as_deref(), &mut |key, values| {
                if let Err(error) = batch.push_newest(key, values) {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
                if batch.size().rows < self.batch_rows && batch.size().bytes < bytes_max {
                    return ControlFlow::Continue(());
                }
                last = Some(key.to_vec());
                ControlFlow::Break(())
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
            self.last = last;
            if self.last.is_some() {
                break;
            }
            self.parts.pop_front();
        }
        if batch.size().rows == 0 {
            return Ok(None);
        }
        self.bytes.add(batch.size().bytes);
        if let Some((budget, hint)) = &self.budget {
            budget.charge(0, batch.size().bytes as u64, hint.as_deref())?;
        }
        Box::new(batch).finish().map(Some)
    }
}
