//! The physical plan of a short query, kept too: of a pipeline over one read of a few rows nothing but the read depends on values of parameters,
//! and on the rows that there are, when each of them stands in a condition that the read keeps.
//!
//! ```text
//! AggregateExec                            kept, over a read of nothing
//!   ProjectionExec
//!     KeyspanScan  host = $1, ts >= $2     made anew for each execution
//! ```
//!
//! To plan such a query takes as long as to run it. What is read is planned by the same code each time, and put below the nodes that are
//! kept if it is of the same form: the same columns, the same parts of the key with one value, few rows. Anything else is planned whole.

use super::{has_placeholder, table_of, with_values_in};
use crate::{
    error::Result,
    provider::{KeyspanTable, ScanExec, node::over_leaf},
    query::{Query, short},
};
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    datasource::TableProvider,
    error::Result as PlanResult,
    logical_expr::{LogicalPlan, TableScan},
    physical_plan::ExecutionPlan,
    scalar::ScalarValue,
};
use std::sync::Arc;

/// What is kept of a physical plan.
pub(super) struct Template {
    plan: Arc<dyn ExecutionPlan>,
    /// The read of the optimised plan.
    scan: TableScan,
    /// The read of the physical plan, of nothing.
    form: Arc<ScanExec>,
}

impl Template {
    /// What is to be kept of an optimised plan's physical plan; `None` for what is no pipeline over a short read, or has parameters elsewhere.
    pub(super) fn of(plan: &LogicalPlan, physical: &Arc<dyn ExecutionPlan>) -> PlanResult<Option<Self>> {
        if !short::is_short(physical) || !is_stateless(physical)? {
            return Ok(None);
        }
        let (Some(scan), Some(form)) = (only_read(plan)?, leaf(physical)) else { return Ok(None) };
        let form = Arc::new(form.released()?);
        let plan = over_leaf(physical, Arc::clone(&form) as Arc<dyn ExecutionPlan>)?;
        Ok(Some(Self { plan, scan, form }))
    }

    /// The physical plan with values, over the rows that the query sees; `None` when it has to be another.
    pub(super) async fn rebound(
        &self,
        query: &Query,
        parameters: &[ScalarValue],
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let state = query.context.state();
        let Some((table, filters)) = with_values_in(&self.scan, parameters, &query.view, state.config_options())?
        else {
            return Ok(None);
        };
        let table: &KeyspanTable = &table;
        let read = table.scan(&state, self.scan.projection.as_ref(), &filters, self.scan.fetch).await?;
        let Some(read) = read.downcast_ref::<ScanExec>() else { return Ok(None) };
        let Some(read) = read.in_form_of(&self.form)? else { return Ok(None) };
        let physical = over_leaf(&self.plan, Arc::new(read))?;
        Ok(short::is_short(&physical).then_some(physical))
    }
}

/// The read of a plan that has one, and parameters nowhere but in its conditions.
fn only_read(plan: &LogicalPlan) -> PlanResult<Option<TableScan>> {
    let (mut found, mut serves) = (None, true);
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::TableScan(scan) => {
                serves &= found.is_none() && table_of(scan)?.is_some();
                found = Some(scan.clone());
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
    Ok(found.filter(|_| serves))
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

/// The read at the end of a pipeline.
fn leaf(physical: &Arc<dyn ExecutionPlan>) -> Option<&ScanExec> {
    match physical.children()[..] {
        [] => physical.downcast_ref::<ScanExec>(),
        [child] => leaf(child),
        _ => None,
    }
}
