//! Nodes of physical plans through which a rule of DataFusion moves nothing.
//!
//! While the rule runs there is a [`Barrier`] above such nodes; after it there is none.
//!
//! - Filters stay above nodes that have [two columns of one name](has_name_twice), such as joins of a table with itself.
//!   DataFusion 55.2 looks for a filter's columns by their names alone (`FilterRemapper::try_remap`): `a.i OR b.i` became
//!   `a.i OR a.i`, asked of `a`. What can be asked of a relation alone was pushed down by the logical rule before, which
//!   knows the relations of columns.
//! - Projections stay above [merge joins with conditions](merges_on_condition). 55.2 pushes them below, and leaves the
//!   positions of columns in the condition as they were (`SortMergeJoinExec::try_swapping_with_projection`).

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
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, joins::SortMergeJoinExec,
    },
};
use std::{collections::HashSet, fmt, sync::Arc};

/// Whether there is a barrier above a node.
type IsBarred = fn(&dyn ExecutionPlan) -> bool;

/// The names of the rules that run between barriers, and above what these are.
const RULES: [(&str, IsBarred); 3] = [
    ("FilterPushdown", has_name_twice),
    ("FilterPushdown(Post)", has_name_twice),
    ("ProjectionPushdown", merges_on_condition),
];

/// A rule, between barriers where it needs them.
pub fn barred(rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    match RULES.iter().find(|(name, _)| *name == rule.name()) {
        Some((_, is_barred)) => vec![Arc::new(Barriers { is_barred: *is_barred }), rule, Arc::new(NoBarriers)],
        None => vec![rule],
    }
}

/// Whether a node has two columns of one name.
fn has_name_twice(node: &dyn ExecutionPlan) -> bool {
    let schema = node.schema();
    let mut names = HashSet::with_capacity(schema.fields().len());
    !schema.fields().iter().all(|field| names.insert(field.name().as_str()))
}

/// Whether a node is a merge join that has a condition beside its keys.
fn merges_on_condition(node: &dyn ExecutionPlan) -> bool {
    node.downcast_ref::<SortMergeJoinExec>().is_some_and(|join| join.filter().is_some())
}

/// Puts barriers above some nodes.
#[derive(Debug)]
struct Barriers {
    is_barred: IsBarred,
}

/// Takes barriers away.
#[derive(Debug)]
struct NoBarriers;

impl PhysicalOptimizerRule for Barriers {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let barred = plan.transform_up(|node| {
            if !(self.is_barred)(node.as_ref()) {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(Arc::new(Barrier { child: node }) as Arc<dyn ExecutionPlan>))
        });
        Ok(barred?.data)
    }

    fn name(&self) -> &str {
        "barriers"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl PhysicalOptimizerRule for NoBarriers {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let free = plan.transform_up(|node| match node.downcast_ref::<Barrier>() {
            Some(barrier) => Ok(Transformed::yes(barrier.child.clone())),
            None => Ok(Transformed::no(node)),
        });
        Ok(free?.data)
    }

    fn name(&self) -> &str {
        "no_barriers"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Gives its child's rows, and takes no filters or projections.
#[derive(Debug)]
struct Barrier {
    child: Arc<dyn ExecutionPlan>,
}

impl Barrier {
    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Self {
        Self { child }
    }
}

impl DisplayAs for Barrier {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Barrier")
    }
}

impl ExecutionPlan for Barrier {
    fn name(&self) -> &str {
        "Barrier"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.child.properties()
    }

    crate::over_child!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.child.execute(partition, context)
    }
}
