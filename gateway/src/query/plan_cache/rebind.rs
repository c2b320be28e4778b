//! The physical plan of a short query, kept too: of a pipeline over one read of a few rows nothing but the read depends
//! on values of parameters, and on the rows that there are, when each of them stands in a condition that the read
//! keeps.
//!
//! ```text
//! AggregateExec                            kept, over a read of nothing
//!   ProjectionExec
//!     KeyspanScan  host = $1, ts >= $2     made anew for each execution
//! ```
//!
//! To plan such a query takes as long as to run it. What is read is planned by the same code each time, and put below
//! the nodes that are kept if it is of the same form: the same columns, the same parts of the key with one value, few
//! rows. Anything else is planned whole. A query that reads nothing, as the `SELECT 1` by which pools look whether a
//! connection is alive, is kept with its one row.

use super::{table_of, with_values_in};
use crate::{
    pg::{error::Result, exec::node::over_leaf, plan::placeholders::has_placeholder},
    provider::{KeyspanTable, ScanExec},
    query::{Query, inline},
};
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    datasource::TableProvider,
    error::Result as PlanResult,
    logical_expr::{LogicalPlan, TableScan},
    physical_plan::{ExecutionPlan, placeholder_row::PlaceholderRowExec},
    scalar::ScalarValue,
};
use std::sync::Arc;

/// What is kept of a physical plan.
pub(crate) struct Template {
    plan: Arc<dyn ExecutionPlan>,
    leaf: Leaf,
}

/// What is at the end of a pipeline.
enum Leaf {
    Read {
        /// The read of the optimised plan.
        scan: TableScan,
        /// The read of the physical plan, of nothing.
        form: Arc<ScanExec>,
    },
    /// The row of a query without FROM.
    Row(Arc<dyn ExecutionPlan>),
}

impl Template {
    /// What is to be kept of an optimised plan's physical plan; `None` for what is no pipeline over a short read, or
    /// has parameters elsewhere.
    pub(crate) fn of(plan: &LogicalPlan, physical: &Arc<dyn ExecutionPlan>) -> PlanResult<Option<Self>> {
        if !inline::is_short(physical) || !is_stateless(physical)? {
            return Ok(None);
        }
        let Some(mut reads) = reads(plan)? else { return Ok(None) };
        let end = end(physical);
        let leaf = match (reads.pop(), end.downcast_ref::<ScanExec>()) {
            (Some(scan), Some(form)) if reads.is_empty() => Leaf::Read { scan, form: Arc::new(form.released()?) },
            (None, None) if end.is::<PlaceholderRowExec>() => Leaf::Row(Arc::clone(end)),
            _ => return Ok(None),
        };
        let kept = match &leaf {
            Leaf::Read { form, .. } => over_leaf(physical, Arc::clone(form) as Arc<dyn ExecutionPlan>)?,
            Leaf::Row(_) => Arc::clone(physical),
        };
        Ok(Some(Self { plan: kept, leaf }))
    }

    /// The physical plan with values, over the rows that the query sees; `None` when it has to be another.
    pub(crate) async fn rebound(
        &self,
        query: &Query,
        parameters: &[ScalarValue],
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (scan, form) = match &self.leaf {
            Leaf::Read { scan, form } => (scan, form),
            // Nodes of its own: each counts what it has run.
            Leaf::Row(row) => return Ok(Some(over_leaf(&self.plan, Arc::clone(row))?)),
        };
        let state = query.context.state();
        let Some((table, filters)) = with_values_in(scan, parameters, &query.view, state.config_options())? else {
            return Ok(None);
        };
        let table: &KeyspanTable = &table;
        let read = table.scan(&state, scan.projection.as_ref(), &filters, scan.fetch).await?;
        let Some(read) = read.downcast_ref::<ScanExec>() else { return Ok(None) };
        let Some(read) = read.in_form_of(form)? else { return Ok(None) };
        let physical = over_leaf(&self.plan, Arc::new(read))?;
        Ok(inline::is_short(&physical).then_some(physical))
    }
}

/// The reads of a plan; `None` if one is not of a table of rows, or if there are parameters elsewhere than in their
/// conditions.
fn reads(plan: &LogicalPlan) -> PlanResult<Option<Vec<TableScan>>> {
    let (mut found, mut serves) = (Vec::new(), true);
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::TableScan(scan) => {
                serves &= table_of(scan)?.is_some();
                found.push(scan.clone());
            }
            node => {
                node.apply_expressions(|expr| {
                    serves &= !has_placeholder(expr);
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(if serves { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(serves.then_some(found))
}

/// Whether no node remembers anything of a run: the bound of a sort with a limit is.
fn is_stateless(physical: &Arc<dyn ExecutionPlan>) -> PlanResult<bool> {
    let mut stateless = true;
    physical.apply(|node| {
        stateless &= node.dynamic_expressions_produced().is_empty();
        Ok(if stateless { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(stateless)
}

/// The end of a pipeline.
fn end(physical: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    match physical.children()[..] {
        [child] => end(child),
        _ => physical,
    }
}
