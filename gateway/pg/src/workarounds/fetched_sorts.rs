//! Sorts with a limit above windows, filters and joins: the limit as a node of its own.
//!
//! Where the input of a sort has its order already once streams are merged in order, 55.2 takes the sort out and gives
//! its limit to that merge (`replace_with_order_preserving_variants`), whatever stands between both. So
//! `count(*) OVER ()` beside `ORDER BY id LIMIT 2` counted two rows, over a UNION of two tables that are read by their
//! keys, and a condition on a window found none. Before that rule the limit is put above such sorts, and the rule of
//! limits puts the two together again where the sort stays.

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        Distribution, ExecutionPlan, ExecutionPlanProperties,
        coalesce_partitions::CoalescePartitionsExec,
        execution_plan::CardinalityEffect,
        limit::GlobalLimitExec,
        repartition::RepartitionExec,
        sorts::sort::SortExec,
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
};
use std::sync::Arc;

/// Puts limits above sorts whose input they must not reach.
#[derive(Debug)]
pub struct FetchedSorts;

impl PhysicalOptimizerRule for FetchedSorts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(Transformed::no(node)) };
            let Some(fetch) = sort.fetch().filter(|_| !sort.preserve_partitioning()) else {
                return Ok(Transformed::no(node));
            };
            if !may_reach_a_merge(sort.input(), false) {
                return Ok(Transformed::no(node));
            }
            let mut limit = GlobalLimitExec::new(Arc::new(sort.with_fetch(None)), 0, Some(fetch));
            limit.set_required_ordering(node.output_ordering().cloned());
            Ok(Transformed::yes(Arc::new(limit) as Arc<dyn ExecutionPlan>))
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &str {
        "limits_above_sorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether streams are, or will be, merged below a node that has other rows than its input, or needs all of them; up to
/// where the order of rows is lost.
fn may_reach_a_merge(plan: &Arc<dyn ExecutionPlan>, below_such: bool) -> bool {
    let is_window = plan.is::<WindowAggExec>() || plan.is::<BoundedWindowAggExec>();
    let below_such = below_such || is_window || !matches!(plan.cardinality_effect(), CardinalityEffect::Equal);
    let merges = plan.is::<CoalescePartitionsExec>();
    let ordered = plan.maintains_input_order();
    let wanted = plan.input_distribution_requirements().into_per_child();
    plan.children().into_iter().zip(wanted).zip(ordered).any(|((child, wanted), ordered)| {
        let single = matches!(wanted, Distribution::SinglePartition);
        (below_such && (merges || single))
            || ((ordered || merges || plan.is::<RepartitionExec>()) && may_reach_a_merge(child, below_such))
    })
}
