//! Joins that do not fit into memory.
//!
//! A hash join, the fastest, holds one of its sides in memory and writes none of it to files. So a query with hash joins that finds no memory
//! before its first row is begun anew with sort-merge joins, which sort both sides, in files where memory does not suffice. Nobody has
//! seen anything of it by then, and it reads the same pin. Once a row was given, it fails as any other (53200).
//!
//! A join that takes NULL on its right side for "unknown" (`NOT IN`) is none that sort-merge joins know, and stays a hash join.

use super::threads;
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    error::{DataFusionError, Result},
    execution::SendableRecordBatchStream,
    logical_expr::LogicalPlan,
    physical_plan::{ExecutionPlan, joins::HashJoinExec, stream::RecordBatchStreamAdapter},
    prelude::SessionContext,
};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Runs a query, whose physical plan is `physical`; with sort-merge joins if hash joins find no memory.
///
/// # Errors
/// Those of [`threads::run`].
pub(crate) fn run(
    context: &SessionContext,
    plan: &LogicalPlan,
    physical: Arc<dyn ExecutionPlan>,
) -> Result<SendableRecordBatchStream> {
    let sorts = has_other_join(&physical);
    let mut rows = threads::run(physical, context.task_ctx())?;
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
            return threads::run(physical, context.task_ctx());
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
    let mut rows = threads::run(Arc::clone(physical), context.task_ctx())?;
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

/// The physical plan with sort-merge joins.
async fn sorted(context: &SessionContext, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    let mut state = context.state();
    state.config_mut().options_mut().optimizer.prefer_hash_join = false;
    tracing::debug!("a join does not fit into memory: the query begins anew with sort-merge joins");
    state.create_physical_plan(plan).await
}

/// Waits until a query that failed has ended: it holds memory until then.
async fn give_back(mut rows: SendableRecordBatchStream) {
    while rows.next().await.is_some() {}
}

fn is_out_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}
