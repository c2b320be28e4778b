//! Limits of DISTINCT that come in the order of the groups: without the hint.
//!
//! The rule for `SELECT DISTINCT … LIMIT n` tells the aggregation that `n` groups are enough. One whose rows come in an
//! order of its groups, as behind a window, takes that for a limit of sorted groups, misses its direction, and fails as
//! it begins. So the hint is taken away there; the limit itself stays above.

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, aggregates::AggregateExec},
};
use std::sync::Arc;

/// Takes hints away that an aggregation cannot follow.
#[derive(Debug)]
pub struct DistinctLimits;

impl PhysicalOptimizerRule for DistinctLimits {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
            let is_hint = aggregate.limit_options().is_some_and(|limit| limit.descending.is_none());
            if !is_hint || aggregate.is_unordered_unfiltered_group_by_distinct() {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(Arc::new(aggregate.with_new_limit_options(None)) as Arc<dyn ExecutionPlan>))
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &str {
        "limits_of_distinct"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
