//! Batches that keep no more alive than their rows, for servers whose memory is scarce.
//!
//! The texts of a batch are views into buffers, of which a few hundred rows use a small part: the pages that a scan has
//! decoded, or the mebibyte that DataFusion takes at a time for a batch that it puts together (behind a filter and an
//! exchange). Whoever holds batches counts these buffers for each of them: a sort then has no memory for its first
//! batch, and the query fails; a hash table takes sixteen times what it holds. So the texts of what sorts and joins
//! hold are copied to buffers of their own, which takes less than it took to make them.

use crate::exec::node;
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions},
    datatypes::{BinaryViewType, ByteViewType, DataType, Schema, StringViewType},
};
use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::PhysicalExpr,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, joins::HashJoinExec,
        sorts::sort::SortExec, stream::RecordBatchStreamAdapter,
    },
};
use futures::TryStreamExt;
use std::{fmt, sync::Arc};

/// Times the bytes of its texts that a column may keep alive.
const KEPT_TIMES: usize = 2;

/// The column with buffers of its own, if those that it has are more than [`KEPT_TIMES`] its texts.
pub fn compact(column: ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => of_views::<StringViewType>(column),
        DataType::BinaryView => of_views::<BinaryViewType>(column),
        _ => column,
    }
}

fn of_views<T: ByteViewType>(column: ArrayRef) -> ArrayRef {
    let views = column.as_byte_view::<T>();
    let kept: usize = views.data_buffers().iter().map(|buffer| buffer.capacity()).sum();
    if kept > KEPT_TIMES * views.total_buffer_bytes_used() { Arc::new(views.gc()) } else { column }
}

/// Gives sorts, and the sides that hash joins hold, compact batches.
#[derive(Debug)]
pub struct CompactBatches;

impl PhysicalOptimizerRule for CompactBatches {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            if !node.is::<SortExec>() && !node.is::<HashJoinExec>() {
                return Ok(Transformed::no(node));
            }
            let mut children: Vec<_> = node.children().into_iter().cloned().collect();
            match children.first_mut() {
                Some(held) if has_views(&held.schema()) => *held = Arc::new(CompactExec { child: Arc::clone(held) }),
                _ => return Ok(Transformed::no(node)),
            }
            let options = ReplaceChildrenOptions::new(datafusion::physical_plan::ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(node.replace_children(children, options)?))
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &'static str {
        "compact_batches"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn has_views(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView))
}

/// Makes the batches of its child compact.
#[derive(Debug)]
pub struct CompactExec {
    child: Arc<dyn ExecutionPlan>,
}

impl CompactExec {
    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Self {
        Self { child }
    }
}

impl DisplayAs for CompactExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompactExec")
    }
}

impl ExecutionPlan for CompactExec {
    node::over_child!();

    fn name(&self) -> &'static str {
        "CompactExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.child.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batches = self.child.execute(partition, context)?.and_then(|batch| std::future::ready(own_buffers(batch)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

fn own_buffers(batch: RecordBatch) -> Result<RecordBatch> {
    let (schema, columns, rows) = batch.into_parts();
    let columns = columns.into_iter().map(compact).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BinaryViewArray, Int64Array, StringViewArray};

    #[test]
    fn few_rows_of_a_large_buffer_get_their_own() {
        let texts: StringViewArray =
            (0..1_000).map(|row| Some(format!("a text of more than twelve bytes: {row}"))).collect();
        let bytes: BinaryViewArray = (0..1_000).map(|_| Some([7; 40])).collect();
        for whole in [Arc::new(texts) as ArrayRef, Arc::new(bytes)] {
            let few = whole.slice(100, 3);
            let kept = compact(Arc::clone(&few));
            assert_eq!(&kept, &few, "the values stay");
            assert!(kept.get_array_memory_size() < few.get_array_memory_size() / 10, "only theirs are kept");
            assert!(Arc::ptr_eq(&compact(Arc::clone(&kept)), &kept), "once is enough");
        }
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        assert!(Arc::ptr_eq(&compact(Arc::clone(&numbers)), &numbers));
    }
}
