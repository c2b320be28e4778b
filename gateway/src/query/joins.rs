//! Joins that do not fit into memory.
//!
//! A hash join, the fastest, holds one of its sides in memory and writes none of it to files. So a query with hash
//! joins that finds no memory before its first row is begun anew with sort-merge joins, which sort both sides, in files
//! where memory does not suffice. Nobody has seen anything of it by then, and it reads the same pin. Once a row was
//! given, it fails as any other (53200).
//!
//! Sides that are joined by the first parts of their keys are not sorted: scans by rows give them in order, and hold
//! nothing.
//!
//! A join that takes NULL on its right side for "unknown" (`NOT IN`) is not supported by sort-merge joins, and stays a
//! hash join.

use super::{runtime, task_context};
use crate::provider::KeyOrderedScans;
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    error::{DataFusionError, Result},
    execution::SendableRecordBatchStream,
    logical_expr::LogicalPlan,
    physical_plan::{
        ExecutionPlan,
        joins::{HashJoinExec, SortMergeJoinExec},
        sorts::sort::SortExec,
        stream::RecordBatchStreamAdapter,
    },
    prelude::SessionContext,
};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Runs a query, whose physical plan is `physical`; with sort-merge joins if hash joins find no memory.
///
/// # Errors
/// Those of [`runtime::run`].
pub(crate) fn run(
    context: &SessionContext,
    plan: &LogicalPlan,
    physical: Arc<dyn ExecutionPlan>,
) -> Result<SendableRecordBatchStream> {
    let sorts = has_other_join(&physical);
    let mut rows = runtime::run(physical, task_context(context))?;
    if !sorts {
        return Ok(rows);
    }
    let schema = rows.schema();
    let (context, plan) = (context.clone(), plan.clone());
    let begun = async move {
        let first = rows.next().await;
        if let Some(Err(error)) = &first
            && is_out_of_memory(error)
        {
            give_back(rows).await;
            let physical = sorted(&context, &plan).await?;
            return runtime::run(physical, task_context(&context));
        }
        let schema = rows.schema();
        let rows: SendableRecordBatchStream =
            Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(first).chain(rows)));
        Ok(rows)
    };
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, begun.boxed().into_stream().try_flatten())))
}

/// Runs a query for its metrics, and drops its rows. Gives the physical plan that ran to the end.
///
/// # Errors
/// The query's.
pub(crate) async fn run_to_end(
    context: &SessionContext,
    plan: &LogicalPlan,
    physical: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    match drain(context, &physical).await {
        Err(error) if is_out_of_memory(&error) && has_other_join(&physical) => {
            drop(physical);
            let physical = sorted(context, plan).await?;
            drain(context, &physical).await?;
            Ok(physical)
        }
        done => done.map(|()| physical),
    }
}

async fn drain(context: &SessionContext, physical: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let mut rows = runtime::run(Arc::clone(physical), task_context(context))?;
    while let Some(batch) = rows.next().await {
        if let Err(error) = batch {
            give_back(rows).await;
            return Err(error);
        }
    }
    Ok(())
}

/// Whether the join could be a sort-merge join.
pub(crate) fn has_other(join: &HashJoinExec) -> bool {
    !join.null_aware
}

/// Whether there is a hash join that could be another.
fn has_other_join(physical: &Arc<dyn ExecutionPlan>) -> bool {
    let mut found = false;
    let visited = physical.apply(|node| {
        found |= node.downcast_ref::<HashJoinExec>().is_some_and(has_other);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visited.is_ok() && found
}

/// The physical plan with sort-merge joins: over scans in the order of keys where no side has to be sorted then, else
/// over the fastest ones.
pub(crate) async fn sorted(context: &SessionContext, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    let mut state = context.state();
    state.config_mut().options_mut().optimizer.prefer_hash_join = false;
    tracing::debug!("a join does not fit into memory: the query begins anew with sort-merge joins");
    let mut in_order = state.clone();
    in_order.config_mut().set_extension(Arc::new(KeyOrderedScans));
    let physical = in_order.create_physical_plan(plan).await?;
    if sorts_below_a_join(&physical, false) { state.create_physical_plan(plan).await } else { Ok(physical) }
}

/// Whether there is a sort below a sort-merge join, or below `a_join`.
fn sorts_below_a_join(plan: &Arc<dyn ExecutionPlan>, a_join: bool) -> bool {
    let below = a_join || plan.is::<SortMergeJoinExec>();
    a_join && plan.is::<SortExec>() || plan.children().into_iter().any(|child| sorts_below_a_join(child, below))
}

/// Waits until a query that failed has ended: it holds memory until then.
async fn give_back(mut rows: SendableRecordBatchStream) {
    while rows.next().await.is_some() {}
}

fn is_out_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}
