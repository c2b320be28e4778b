//! Counts the rows of border row groups, those in which other tenants have rows too
//! ([`ParquetPart::is_border`](keyspan_storage::ParquetPart::is_border)).
//!
//! The bytes that are read of such a row group depend on the other tenants' values, which are compressed together with
//! the tenant's own. So reads are not counted below this node. It charges the bytes of the values in the rows that it
//! returns instead, to the scan budget and to the metrics of EXPLAIN ANALYZE. It passes no filter on: there are no
//! statistics below.

use super::{super::node, reader::Budget};
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::DataType,
};
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    error::DataFusionError,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, PhysicalExpr, expressions::Column},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        execution_plan::CardinalityEffect,
        metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder},
        projection::ProjectionExec,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::StreamExt;
use std::{fmt, sync::Arc};

/// The metric of the bytes of values.
const VALUE_BYTES: &str = "value_bytes";

/// Counts the values of its child's rows.
#[derive(Clone, Debug)]
pub(crate) struct BorderRowsExec {
    child: Arc<dyn ExecutionPlan>,
    budget: Budget,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl BorderRowsExec {
    /// The rows of `child`, charged to the budget.
    pub(super) fn new(child: Arc<dyn ExecutionPlan>, budget: Budget) -> Self {
        let properties = node::properties_over(&child, EquivalenceProperties::new(child.schema()));
        Self { child, budget, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(child, self.budget.clone())
    }

    /// Bytes of the values that it has returned.
    pub(crate) fn value_bytes(&self) -> usize {
        self.metrics.clone_inner().sum_by_name(VALUE_BYTES).map_or(0, |sum| sum.as_usize())
    }
}

impl DisplayAs for BorderRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyspanBorderRows")
    }
}

impl ExecutionPlan for BorderRowsExec {
    node::fields!("KeyspanBorderRows");
    node::over_child!();

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if !projection.expr().iter().all(|one| one.expr.is::<Column>()) {
            return Ok(None);
        }
        let narrow = ProjectionExec::try_new(projection.expr().to_vec(), Arc::clone(&self.child))?;
        let child = self.child.try_swapping_with_projection(&narrow)?;
        Ok(child.map(|child| Arc::new(self.over(child)) as Arc<dyn ExecutionPlan>))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.child.execute(partition, context)?;
        let (schema, budget) = (self.schema(), self.budget.clone());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let counted: Count = MetricBuilder::new(&self.metrics).counter(VALUE_BYTES, partition);
        let rows = rows.map(move |batch| {
            let batch = batch?;
            let bytes = value_bytes(&batch);
            counted.add(bytes);
            metrics.record_output(batch.num_rows());
            if let Some((budget, hint)) = &budget {
                let charged = budget.charge(0, bytes as u64, hint.as_deref());
                charged.map_err(|error| DataFusionError::External(Box::new(error)))?;
            }
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Bytes of the values of a batch, without what else is in its buffers: these may hold other tenants' values.
fn value_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(column_bytes).sum()
}

fn column_bytes(column: &ArrayRef) -> usize {
    // A NULL has no bytes, whatever its view says.
    let of_views = |lengths: &mut dyn Iterator<Item = Option<usize>>| lengths.flatten().sum();
    match column.data_type() {
        DataType::Utf8View => of_views(&mut column.as_string_view().iter().map(|text| text.map(str::len))),
        DataType::BinaryView => of_views(&mut column.as_binary_view().iter().map(|bytes| bytes.map(<[u8]>::len))),
        DataType::FixedSizeBinary(width) => column.len() * usize::try_from(*width).unwrap_or_default(),
        other => column.len() * other.primitive_width().unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, Int64Array, StringViewArray};

    #[test]
    fn only_the_batchs_own_values_count() {
        let texts =
            StringViewArray::from(vec![Some("another tenant's long text"), None, Some("own text, long enough")]);
        let columns: [(&str, ArrayRef); 3] = [
            ("texts", Arc::new(texts)),
            ("numbers", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
            ("flags", Arc::new(BooleanArray::from(vec![true, false, true]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        assert_eq!(value_bytes(&batch), 26 + 21 + 3 * 8 + 3);
        assert_eq!(value_bytes(&batch.slice(1, 2)), 21 + 2 * 8 + 2);
    }
}
