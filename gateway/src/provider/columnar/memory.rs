//! Rows of memtables as batches: values go from where they lie straight into the columns.
//!
//! The store gives rows in memory in pieces ([`MemoryPart`]); each partition has its share of them, and reads one after the other until a
//! batch is full.

use super::{
    super::{
        decode::{BatchBuilder, RowBuilder, RowLayout},
        exec::{BATCH_ROWS_MAX, bytes_of},
    },
    reader::Spent,
};
use crate::pg::{error::SqlError, exec::node};
use arrow::array::RecordBatch;
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    error::DataFusionError,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        coop::make_cooperative,
        execution_plan::{Boundedness, EmissionType, SchedulingType},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        stream::RecordBatchStreamAdapter,
    },
};
use keyspan_storage::MemoryPart;
use std::{collections::VecDeque, fmt, ops::ControlFlow, sync::Arc};

/// See the module.
#[derive(Debug)]
pub(crate) struct MemoryExec {
    partitions: Vec<VecDeque<MemoryPart>>,
    layout: Arc<RowLayout>,
    spent: Spent,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl MemoryExec {
    /// A read of the pieces by so many partitions at most.
    pub(super) fn new(parts: Vec<MemoryPart>, layout: &Arc<RowLayout>, partitions: usize, spent: Spent) -> Self {
        let partitions = dealt(parts, partitions);
        let equivalence = EquivalenceProperties::new(Arc::clone(&layout.schema));
        let partitioning = Partitioning::UnknownPartitioning(partitions.len());
        let properties =
            PlanProperties::new(equivalence, partitioning, EmissionType::Incremental, Boundedness::Bounded)
                .with_scheduling_type(SchedulingType::Cooperative);
        let layout = Arc::clone(layout);
        let metrics = ExecutionPlanMetricsSet::new();
        Self { partitions, layout, spent, properties: Arc::new(properties), metrics }
    }
}

/// Deals pieces out: neighbours stay together, partitions have about as many rows.
fn dealt(parts: Vec<MemoryPart>, partitions: usize) -> Vec<VecDeque<MemoryPart>> {
    let share = parts.iter().map(MemoryPart::rows_estimate).sum::<u64>().div_ceil(partitions.max(1) as u64).max(1);
    let (mut dealt, mut rows): (Vec<VecDeque<MemoryPart>>, u64) = (Vec::new(), 0);
    for part in parts {
        if rows / share >= dealt.len() as u64 {
            dealt.push(VecDeque::new());
        }
        rows += part.rows_estimate();
        if let Some(last) = dealt.last_mut() {
            last.push_back(part);
        }
    }
    dealt
}

impl DisplayAs for MemoryExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyspanMemoryRows")
    }
}

impl ExecutionPlan for MemoryExec {
    fn name(&self) -> &'static str {
        "KeyspanMemoryRows"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    node::leaf!();

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reading = Reading {
            parts: self.partitions.get(partition).cloned().unwrap_or_default(),
            last: None,
            layout: Arc::clone(&self.layout),
            spent: self.spent.clone(),
            batch_rows: context.session_config().batch_size().clamp(1, BATCH_ROWS_MAX),
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = futures::stream::try_unfold((reading, metrics), |(mut reading, metrics)| async move {
            let timer = metrics.elapsed_compute().timer();
            let batch = reading.next().map_err(|error| DataFusionError::External(Box::new(error)))?;
            timer.done();
            Ok(batch.map(|batch| {
                metrics.record_output(batch.num_rows());
                (batch, (reading, metrics))
            }))
        });
        let schema = Arc::clone(&self.layout.schema);
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(schema, batches))))
    }
}

/// A read under way.
struct Reading {
    /// What is left; the first may have been begun.
    parts: VecDeque<MemoryPart>,
    /// The last key taken of the first.
    last: Option<Vec<u8>>,
    layout: Arc<RowLayout>,
    spent: Spent,
    batch_rows: usize,
}

impl Reading {
    /// The next batch.
    fn next(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        let mut batch = RowBuilder::new(&self.layout);
        let bytes_max = bytes_of(self.batch_rows);
        while let Some(part) = self.parts.front() {
            let (mut last, mut failed) = (None, None);
            part.read(self.last.as_deref(), &mut |key, values| {
                if let Err(error) = batch.push_newest(key, values) {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
                if batch.rows() < self.batch_rows && batch.bytes() < bytes_max {
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
        if batch.rows() == 0 {
            return Ok(None);
        }
        if let Some((budget, hint)) = &self.spent {
            budget.take(batch.bytes() as u64, hint.as_deref())?;
        }
        Box::new(batch).finish().map(Some)
    }
}
