//! An optimizer rule that looks at each node of a plan by itself, the innermost first.

use datafusion::{
    common::{Result, tree_node::Transformed},
    logical_expr::LogicalPlan,
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};
use std::sync::Arc;

/// The rule: its name in EXPLAIN, and what it does to a node.
#[derive(Debug)]
struct EachNode {
    name: &'static str,
    rewrite: fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
}

/// The rule of this name.
pub(super) fn each_node(
    name: &'static str,
    rewrite: fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
) -> Arc<dyn OptimizerRule + Send + Sync> {
    Arc::new(EachNode { name, rewrite })
}

impl OptimizerRule for EachNode {
    fn name(&self) -> &str {
        self.name
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        (self.rewrite)(plan)
    }
}
