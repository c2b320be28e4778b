//! What our nodes of DataFusion's physical plan have in common, beside [`crate::pg::exec::node`]: properties, and
//! methods that forward. The macros are for the inside of `impl ExecutionPlan`.

pub(super) use crate::pg::exec::node::{about_rows, leaf, over_child, over_leaf};

use datafusion::{
    common::Result,
    error::DataFusionError,
    physical_expr::{EquivalenceProperties, Partitioning},
    physical_plan::{
        ExecutionPlan, PlanProperties,
        execution_plan::{Boundedness, EmissionType, SchedulingType},
        filter_pushdown::{ChildPushdownResult, PushedDown},
    },
};
use std::sync::Arc;

/// The properties of a leaf, whose streams are cooperative.
pub(super) fn leaf_properties(equivalence: EquivalenceProperties, partitions: usize) -> Arc<PlanProperties> {
    let partitioning = Partitioning::UnknownPartitioning(partitions);
    let properties = PlanProperties::new(equivalence, partitioning, EmissionType::Incremental, Boundedness::Bounded);
    Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative))
}

/// The properties of a node with the partitions of its child.
pub(super) fn properties_over(
    child: &Arc<dyn ExecutionPlan>,
    equivalence: EquivalenceProperties,
) -> Arc<PlanProperties> {
    let below = child.properties();
    let partitioning = below.partitioning.clone();
    let properties = PlanProperties::new(equivalence, partitioning, EmissionType::Incremental, Boundedness::Bounded);
    Arc::new(properties.with_scheduling_type(below.scheduling_type))
}

/// The name of a node, and its fields `properties` and `metrics`.
macro_rules! fields {
    ($name:literal) => {
        fn name(&self) -> &'static str {
            $name
        }

        fn properties(&self) -> &Arc<datafusion::physical_plan::PlanProperties> {
            &self.properties
        }

        fn metrics(&self) -> Option<datafusion::physical_plan::metrics::MetricsSet> {
            Some(self.metrics.clone_inner())
        }
    };
}

/// Passes filters on to the child.
macro_rules! passes_filters {
    () => {
        fn gather_filters_for_pushdown(
            &self,
            _: FilterPushdownPhase,
            filters: Vec<Arc<dyn PhysicalExpr>>,
            _: &ConfigOptions,
        ) -> Result<FilterDescription> {
            FilterDescription::from_children(filters, &self.children())
        }
    };
}

/// Passes filters on to the child, which may test them against statistics but not against rows: `fault` is the error if
/// it does.
macro_rules! filters_for_statistics {
    ($fault:literal) => {
        node::passes_filters!();

        fn handle_child_pushdown_result(
            &self,
            _: FilterPushdownPhase,
            result: ChildPushdownResult,
            _: &ConfigOptions,
        ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
            node::check_statistics_only(&result, $fault)?;
            Ok(FilterPushdownPropagation::if_all(result))
        }
    };
}

/// Checks that the child tests no filter against rows.
///
/// # Errors
/// `fault`.
pub(super) fn check_statistics_only(result: &ChildPushdownResult, fault: &str) -> Result<()> {
    if result.parent_filters.iter().any(|filter| matches!(filter.any(), PushedDown::Yes)) {
        return Err(DataFusionError::Internal(fault.to_owned()));
    }
    Ok(())
}

pub(super) use {fields, filters_for_statistics, passes_filters};
