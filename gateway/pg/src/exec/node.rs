//! What nodes of DataFusion's plan have in common: how they are taken apart and put together. The macros are to be used
//! within `impl ExecutionPlan`.

use datafusion::{
    error::Result,
    physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions},
};
use std::sync::Arc;

/// A node without children.
#[macro_export]
macro_rules! leaf {
    () => {
        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            Vec::new()
        }

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
        ) -> Result<TreeNodeRecursion> {
            Ok(TreeNodeRecursion::Continue)
        }

        fn replace_children(
            self: Arc<Self>,
            _: Vec<Arc<dyn ExecutionPlan>>,
            _: ReplaceChildrenOptions,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            Ok(self)
        }

        fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
            Ok(self)
        }
    };
}

/// A node over its field `child`, which takes its partitions as they are; `over` makes the same node over another
/// child. It may hold expressions.
#[macro_export]
macro_rules! over_child {
    () => {
        $crate::over_child!(|_node| std::iter::empty::<&Arc<dyn PhysicalExpr>>());
    };
    (|$node:ident| $expressions:expr) => {
        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            vec![&self.child]
        }

        fn benefits_from_input_partitioning(&self) -> Vec<bool> {
            vec![false]
        }

        fn apply_expressions(
            &self,
            visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
        ) -> Result<TreeNodeRecursion> {
            let $node = self;
            for expression in $expressions {
                if visit(expression)? == TreeNodeRecursion::Stop {
                    return Ok(TreeNodeRecursion::Stop);
                }
            }
            Ok(TreeNodeRecursion::Continue)
        }

        fn replace_children(
            self: Arc<Self>,
            mut children: Vec<Arc<dyn ExecutionPlan>>,
            _: ReplaceChildrenOptions,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            Ok(match children.pop() {
                Some(child) => Arc::new(self.over(child)),
                None => self,
            })
        }

        fn with_new_children(
            self: Arc<Self>,
            mut children: Vec<Arc<dyn ExecutionPlan>>,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            Ok(match children.pop() {
                Some(child) => Arc::new(self.over(child)),
                None => self,
            })
        }
    };
}

/// About how many rows a node gives, for the planner: never exact, so that no answer comes of it.
#[macro_export]
macro_rules! about_rows {
    ($rows:expr) => {
        fn statistics_from_inputs(
            &self,
            _: &[Arc<datafusion::common::Statistics>],
            args: &datafusion::physical_plan::statistics::StatisticsArgs,
        ) -> Result<Arc<datafusion::common::Statistics>> {
            let rows: fn(&Self) -> Option<u64> = $rows;
            let mut statistics = datafusion::common::Statistics::new_unknown(&self.schema());
            let parts = args.partition().map_or(1, |_| self.properties().partitioning.partition_count().max(1));
            if let Some(rows) = rows(self).and_then(|rows| usize::try_from(rows).ok()) {
                statistics.num_rows = datafusion::common::stats::Precision::Inexact(rows.div_ceil(parts));
            }
            Ok(Arc::new(statistics))
        }
    };
}

pub use crate::{about_rows, leaf, over_child};

/// A pipeline over another leaf.
///
/// # Errors
/// What DataFusion says of a node over that.
pub fn over_leaf(pipeline: &Arc<dyn ExecutionPlan>, leaf: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    match pipeline.children()[..] {
        [child] => {
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Arc::clone(pipeline).replace_children(vec![over_leaf(child, leaf)?], options)
        }
        _ => Ok(leaf),
    }
}
