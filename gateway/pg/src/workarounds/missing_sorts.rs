//! Sorts that are missing where a node needs its input in order.
//!
//! Of a UNION whose queries have a constant here and one column twice there, `SELECT a, 5 … UNION ALL SELECT b, b …
//! ORDER BY 1, 2`, DataFusion sorts each query by as much as that one needs, and then does not see that all of it is in
//! order: the check of the plan ends the statement. Before that check runs, an input without the order that it must have
//! is sorted.

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    physical_expr::LexOrdering,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions, sorts::sort::SortExec,
    },
};
use std::sync::Arc;

/// Sorts the inputs that lack an order.
#[derive(Debug)]
pub struct MissingSorts;

impl PhysicalOptimizerRule for MissingSorts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(plan.transform_up(sorted)?.data)
    }

    fn name(&self) -> &str {
        "missing_sorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn sorted(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut inputs: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().cloned().collect();
    let mut any = false;
    for (input, required) in inputs.iter_mut().zip(node.required_input_ordering()) {
        let Some(required) = required.map(|required| required.into_single()) else { continue };
        if input.equivalence_properties().ordering_satisfy_requirement(required.clone())? {
            continue;
        }
        let streams = input.output_partitioning().partition_count();
        let sort = SortExec::new(LexOrdering::from(required), Arc::clone(input));
        *input = Arc::new(sort.with_preserve_partitioning(streams > 1));
        any = true;
    }
    if !any {
        return Ok(Transformed::no(node));
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    node.replace_children(inputs, options).map(Transformed::yes)
}
