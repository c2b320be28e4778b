//! Queries that make several rows of one know nothing of primary keys.
//!
//! DataFusion 55.2 takes a table's key for one of the rows that `unnest` makes of its rows, too, and leaves out of
//! ORDER BY and GROUP BY what the key is thought to determine. So tables of a query with an
//! [`Unnest`](LogicalPlan::Unnest) anywhere have no key.

use super::plan_cache::table_of;
use datafusion::{
    common::{
        FunctionalDependencies,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    config::ConfigOptions,
    datasource::provider_as_source,
    error::Result,
    logical_expr::{LogicalPlan, TableScan},
    optimizer::AnalyzerRule,
};
use std::sync::Arc;

/// The rule; for after all calls that give several rows have become nodes.
#[derive(Debug)]
pub(super) struct KeylessUnnest;

impl AnalyzerRule for KeylessUnnest {
    fn name(&self) -> &str {
        "keyless_unnest"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !unnests(&plan)? {
            return Ok(plan);
        }
        let unkeyed = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::TableScan(scan) => Ok(Transformed::yes(LogicalPlan::TableScan(without_key(scan)?))),
            other => Ok(Transformed::yes(other.recompute_schema()?)),
        })?;
        Ok(unkeyed.data)
    }
}

fn unnests(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Unnest(_));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn without_key(scan: TableScan) -> Result<TableScan> {
    let Some(table) = table_of(&scan)? else { return Ok(scan) };
    let schema = scan.projected_schema.as_ref().clone();
    let projected_schema = schema.with_functional_dependencies(FunctionalDependencies::empty())?;
    let source = provider_as_source(Arc::new(table.without_key()));
    Ok(TableScan { source, projected_schema: Arc::new(projected_schema), ..scan })
}
