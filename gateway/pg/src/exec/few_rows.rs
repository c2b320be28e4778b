//! `SELECT f(x) FROM t ORDER BY key LIMIT 3`: the scan is told of the limit.
//!
//! A scan in the order of its keys may stop after three rows. Where something is computed of the rows, DataFusion deals
//! them out to all cores first, which no limit passes: each core then computes a whole batch of rows for three of them.
//! A few rows need one core. So below a limit that a batch holds, the dealing out is taken away where it comes of one
//! stream, and what gives the stream has the limit.

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, ExecutionPlanProperties, Partitioning,
        buffer::BufferExec,
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions},
        limit::{GlobalLimitExec, LocalLimitExec},
        projection::ProjectionExec,
        repartition::RepartitionExec,
        sorts::sort_preserving_merge::SortPreservingMergeExec,
    },
};
use std::sync::Arc;

/// The rule.
#[derive(Debug)]
pub struct FewRows;

impl PhysicalOptimizerRule for FewRows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let few = config.execution.batch_size.get();
        let changed = plan.transform_up(|node| {
            let Some(rows) = limit(node.as_ref()).filter(|rows| *rows <= few) else { return Ok(Transformed::no(node)) };
            let [input] = node.children()[..] else { return Ok(Transformed::no(node)) };
            match narrowed(input, rows)? {
                Some(input) => Ok(Transformed::yes(over(node, input)?)),
                None => Ok(Transformed::no(node)),
            }
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &str {
        "few_rows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn over(node: Arc<dyn ExecutionPlan>, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    node.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// How many rows a node takes of its input at most.
fn limit(node: &dyn ExecutionPlan) -> Option<usize> {
    if let Some(limit) = node.downcast_ref::<GlobalLimitExec>() {
        return limit.skip().checked_add(limit.fetch()?);
    }
    if node.is::<SortPreservingMergeExec>() || node.is::<CoalescePartitionsExec>() {
        return node.fetch();
    }
    None
}

/// What gives the first rows of a node, with one stream below; `None` where nothing is gained.
fn narrowed(node: &Arc<dyn ExecutionPlan>, rows: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let children = node.children();
    let Some(input) = children.first() else {
        let one = node.output_partitioning().partition_count() == 1;
        let is_told = node.fetch().is_some_and(|fetch| fetch <= rows);
        return Ok(if one && !is_told { node.with_fetch(Some(rows)) } else { None });
    };
    if let Some(dealt) = node.downcast_ref::<RepartitionExec>() {
        let one = dealt.input().output_partitioning().partition_count() == 1;
        let in_turn = matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_));
        return if one && in_turn { narrowed(input, rows) } else { Ok(None) };
    }
    let row_by_row = node.is::<ProjectionExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<BufferExec>()
        || node.is::<CooperativeExec>()
        || node.is::<SortPreservingMergeExec>();
    if !row_by_row {
        return Ok(None);
    }
    match narrowed(input, rows)? {
        Some(input) => over(Arc::clone(node), input).map(Some),
        None => Ok(None),
    }
}
