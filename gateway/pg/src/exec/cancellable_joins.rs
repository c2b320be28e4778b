//! Joins that compute for long: they give way between batches of rows, and stop when nobody waits for their
//! rows any more.
//!
//! A join of two large sides computes for minutes between two reads of its sides, and if its condition holds for
//! nothing, without a row. A statement that was cancelled would go on with that, and take a thread from others. So the
//! last rule of a physical plan ([`CancellableJoins`]) puts a node that gives way over each join, and into its
//! condition a look at a [flag](CancelFlag), which is set when the stream of the query's rows is dropped ([`watched`]):
//! the condition then fails, and with it the query.

use crate::cancel_flag::CancelFlag;
use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Schema, SchemaRef},
};
use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    execution::{RecordBatchStream, SendableRecordBatchStream},
    logical_expr::ColumnarValue,
    physical_expr::PhysicalExpr,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        coop::CooperativeExec,
        joins::{
            CrossJoinExec, HashJoinExec, HashJoinExecBuilder, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
            SortMergeJoinExec, utils::JoinFilter,
        },
    },
};
use futures::{Stream, StreamExt};
use std::{
    fmt,
    hash::{Hash, Hasher},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A condition that fails once its query is abandoned.
#[derive(Debug)]
struct CancellableCondition {
    condition: Arc<dyn PhysicalExpr>,
    flag: CancelFlag,
}

impl fmt::Display for CancellableCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PartialEq for CancellableCondition {
    fn eq(&self, other: &Self) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for CancellableCondition {}

impl Hash for CancellableCondition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl PhysicalExpr for CancellableCondition {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.condition.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.condition.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.flag.check()?;
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let condition = children.pop().unwrap_or_else(|| Arc::clone(&self.condition));
        Ok(Arc::new(Self { condition, flag: self.flag.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}

/// Makes joins give way and look.
#[derive(Debug)]
pub struct CancellableJoins;

impl PhysicalOptimizerRule for CancellableJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| match cancellable(&node)? {
            Some(join) => Ok(Transformed::yes(Arc::new(CooperativeExec::new(join)))),
            None => Ok(Transformed::no(node)),
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &str {
        "joins_give_way"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A join whose condition looks, if it has one; `None` for another node.
fn cancellable(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let filter = |filter: &JoinFilter| {
        let looks = CancellableCondition { condition: Arc::clone(filter.expression()), flag: CancelFlag::default() };
        Some(JoinFilter::new(Arc::new(looks), filter.column_indices().to_vec(), Arc::clone(filter.schema())))
    };
    Ok(if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        Some(match join.filter() {
            Some(of) => Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(filter(of)).build()?),
            None => Arc::clone(node),
        })
    } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        Some(match &join.filter {
            Some(of) => HashJoinExecBuilder::from(join).with_filter(filter(of)).build_exec()?,
            None => Arc::clone(node),
        })
    } else if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        Some(match &join.filter {
            Some(of) => Arc::new(SortMergeJoinExec::try_new(
                Arc::clone(&join.left),
                Arc::clone(&join.right),
                join.on.clone(),
                filter(of),
                join.join_type,
                join.sort_options.clone(),
                join.null_equality,
            )?),
            None => Arc::clone(node),
        })
    } else {
        node.is::<CrossJoinExec>().then(|| Arc::clone(node))
    })
}

/// The flags of a plan.
pub fn flags(plan: &Arc<dyn ExecutionPlan>) -> Vec<CancelFlag> {
    let mut found = Vec::new();
    let visited = plan.apply(|node| {
        let filter = if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
            join.filter()
        } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            join.filter.as_ref()
        } else if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
            join.filter.as_ref()
        } else {
            None
        };
        if let Some(looks) = filter.and_then(|filter| filter.expression().downcast_ref::<CancellableCondition>()) {
            found.push(looks.flag.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(visited.is_ok(), "visiting fails for nothing");
    found
}

/// A stream of rows, with which their plan is abandoned when it is dropped before its end. `statement` is the flag that
/// the functions of the plan look at: those of the statement's other plans do, too, and run after this one.
pub fn watched(
    rows: SendableRecordBatchStream,
    flags: Vec<CancelFlag>,
    statement: Option<CancelFlag>,
) -> SendableRecordBatchStream {
    Box::pin(Watched { rows, flags, statement, ended: false })
}

struct Watched {
    rows: SendableRecordBatchStream,
    flags: Vec<CancelFlag>,
    statement: Option<CancelFlag>,
    ended: bool,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.flags.iter().chain(self.statement.iter().filter(|_| !self.ended)).for_each(CancelFlag::set);
    }
}

impl Stream for Watched {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.rows.poll_next_unpin(context);
        self.ended |= matches!(next, Poll::Ready(None | Some(Err(_))));
        next
    }
}

impl RecordBatchStream for Watched {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}
