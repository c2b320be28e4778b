//! Rows for grouping sets, whose order is hidden from the planner.
//!
//! DataFusion takes the order of an aggregation's input, and columns that have one value in it, for those of its
//! output, also where ROLLUP, CUBE or GROUPING SETS replace keys by NULL (apache/datafusion#24421, in 55.2). Tables are
//! in the order of their keys, so that an aggregation would emit groups before they are complete, and ORDER BY would
//! not sort. So a node between them declares no order: the optimised logical plan gets one ([`below_grouping_sets`]),
//! which is [planned](UnorderedPlanner) as [`UnorderedExec`].

use crate::exec::node;
use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::{
        DFSchemaRef, Result,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::{
        Aggregate, Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
        physical_planning_context::PhysicalPlanningContext,
    },
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        execution_plan::{Boundedness, EmissionType},
    },
    physical_planner::{ExtensionPlanner, PhysicalPlanner},
};
use std::{fmt, sync::Arc};

/// The rows of its input, without an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
struct Unordered {
    input: LogicalPlan,
}

/// The optimised plan with a node below each aggregation of grouping sets.
///
/// # Errors
/// DataFusion's.
pub(crate) fn below_grouping_sets(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let marked = plan.clone().transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(mut aggregate) if has_grouping_sets(&aggregate) => {
            let input = Unordered { input: aggregate.input.as_ref().clone() };
            let input = Arc::new(LogicalPlan::Extension(Extension { node: Arc::new(input) }));
            aggregate.input = input;
            Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(marked.data)
}

fn has_grouping_sets(aggregate: &Aggregate) -> bool {
    aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)))
}

impl UserDefinedLogicalNodeCore for Unordered {
    fn name(&self) -> &str {
        "Unordered"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unordered")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        Ok(Self { input: inputs.pop().unwrap_or_else(|| self.input.clone()) })
    }
}

/// Plans the node.
pub(crate) struct UnorderedPlanner;

#[async_trait]
impl ExtensionPlanner for UnorderedPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        match inputs {
            [child] if node.as_any().is::<Unordered>() => Ok(Some(Arc::new(UnorderedExec::new(Arc::clone(child))))),
            _ => Ok(None),
        }
    }
}

/// The rows of a child, without properties.
#[derive(Debug)]
struct UnorderedExec {
    child: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    fn new(child: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(child.schema()),
            child.properties().partitioning.clone(),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let properties = Arc::new(properties.with_scheduling_type(child.properties().scheduling_type));
        Self { child, properties }
    }

    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(child)
    }
}

impl DisplayAs for UnorderedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unordered")
    }
}

impl ExecutionPlan for UnorderedExec {
    fn name(&self) -> &'static str {
        "Unordered"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    node::over_child!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.child.execute(partition, context)
    }
}
