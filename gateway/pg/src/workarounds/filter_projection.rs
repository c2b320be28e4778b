//! Projections that filters hold, as nodes of their own.
//!
//! A filter of DataFusion may hold a projection. When the rule of projections pushes another one below such a filter,
//! 55.2 takes positions of columns above the filter for positions below it
//! (`FilterExec::try_swapping_with_projection`): an internal error where the names differ (`SELECT a, d … WHERE (a, b)
//! \> ('p', 'x') ORDER BY a, b, c LIMIT 3`), and values of other columns where they do not. So this rule takes
//! projections out of filters before that rule, which merges adjacent projections and embeds the rest into filters
//! anyway.

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    physical_expr::{expressions::Column, projection::ProjectionExpr},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        filter::{FilterExec, FilterExecBuilder},
        projection::ProjectionExec,
    },
};
use std::sync::Arc;

/// Takes projections out of filters.
#[derive(Debug)]
pub struct FilterProjection;

impl PhysicalOptimizerRule for FilterProjection {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| match node.downcast_ref::<FilterExec>().and_then(projection_above) {
            Some(node) => Ok(Transformed::yes(node?)),
            None => Ok(Transformed::no(node)),
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &str {
        "projections_taken_out_of_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The filter with its projection above it; `None` without one.
fn projection_above(filter: &FilterExec) -> Option<Result<Arc<dyn ExecutionPlan>>> {
    let places = filter.projection().as_ref()?;
    let schema = filter.input().schema();
    let column = |place: &usize| {
        let name = schema.field(*place).name();
        ProjectionExpr::new(Arc::new(Column::new(name, *place)), name)
    };
    let columns: Vec<ProjectionExpr> = places.iter().map(column).collect();
    let whole = FilterExecBuilder::from(filter).apply_projection(None).and_then(FilterExecBuilder::build);
    Some(
        whole.and_then(|whole| {
            Ok(Arc::new(ProjectionExec::try_new(columns, Arc::new(whole))?) as Arc<dyn ExecutionPlan>)
        }),
    )
}
