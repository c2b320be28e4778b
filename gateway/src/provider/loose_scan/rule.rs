//! Finds the aggregations that need only the edges of groups.
//!
//! They group by leading key parts; parts that have one value in all rows do not matter. Of each group they need
//! nothing (`DISTINCT`), the least or greatest value of the next part (`min`, `max`), or columns of the first or last
//! row in the order of the next parts (`first_value` and `last_value`, which DataFusion makes of `DISTINCT ON`).
//! Filters above the scan, on rows or on aggregates, need more.

use super::{Edges, GROUP_ROWS_MIN, LooseScanExec, RANGES_MAX, REQUESTS_MIN, scan_of};
use crate::provider::{columnar::ColumnarExec, exec::ScanExec};
use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    physical_expr::{PhysicalExpr, PhysicalSortExpr, aggregate::AggregateFunctionExpr, expressions::Column},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions,
        aggregates::{AggregateExec, AggregateMode},
        projection::ProjectionExec,
    },
};
use keyspan_catalog::table::OnBadKey;
use std::sync::Arc;

/// Puts a [`LooseScanExec`] below aggregations that need only edges. Must come before all other rules, while filters
/// are nodes of their own.
#[derive(Debug)]
pub struct LooseScans {
    /// The least average size of groups that are sought rather than scanned by row groups.
    pub group_rows_min: u64,
    /// The requests after which the rest is scanned, also of tables in this process; `None` for what a plan of streams
    /// says.
    pub requests_max: Option<u64>,
}

impl Default for LooseScans {
    fn default() -> Self {
        Self { group_rows_min: GROUP_ROWS_MIN, requests_max: None }
    }
}

impl PhysicalOptimizerRule for LooseScans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            match aggregate.and_then(|aggregate| loose_input(self, aggregate)) {
                Some(input) => Ok(Transformed::yes(over(node, input?)?)),
                None => Ok(Transformed::no(node)),
            }
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &str {
        "loose_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The input of an aggregation with a loose scan in it; `None` if the aggregation needs more than edges.
fn loose_input(rule: &LooseScans, aggregate: &AggregateExec) -> Option<Result<Arc<dyn ExecutionPlan>>> {
    let reads_rows =
        matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned);
    let (group, filters) = (aggregate.group_expr(), aggregate.filter_expr());
    if !reads_rows || group.has_grouping_set() || filters.iter().any(Option::is_some) {
        return None;
    }
    let input = aggregate.input();
    let projection = input.downcast_ref::<ProjectionExec>();
    let child = projection.map_or(input, ProjectionExec::input);
    let scan = scan_of(child)?;
    let requests_max = match rule.requests_max {
        None if scan.view_and_table().1.remote.is_some() => Some(requests_worth(child)?),
        set => set,
    };
    let input_key = ProjectedKey { key: Key::of(scan)?, projection };
    let grouped: Option<Vec<usize>> = group.expr().iter().map(|(expr, _)| input_key.part(expr)).collect();
    let grouped = grouped?;
    let is_fixed = |part: usize| grouped.contains(&part) || input_key.key.is_constant(part);
    let parts = (0..input_key.key.parts.len()).take_while(|part| is_fixed(*part)).count();
    if parts == input_key.key.parts.len() || grouped.iter().any(|part| *part >= parts) {
        return None;
    }
    // A group of all rows has rows in every bucket of salted keys, each in its own order. Other groups are sought in
    // each bucket by itself.
    let in_bucket = input_key.key.salt == 0 || parts > usize::from(scan.view_and_table().0.rows.tenant().is_none());
    if !in_bucket && !aggregate.aggr_expr().is_empty() {
        return None;
    }
    let edges = aggregate.aggr_expr().iter().map(|function| input_key.edge(function, parts, &is_fixed));
    let edges: Option<Vec<Option<Edges>>> = edges.collect();
    let edges = edges?.into_iter().flatten().reduce(Edges::and).unwrap_or(Edges::First);
    let varying = (0..parts).filter(|part| !input_key.key.is_constant(*part));
    let names = varying.map(|part| input_key.key.parts[part].name.clone()).collect();
    let loose =
        LooseScanExec::over_scan(Arc::clone(child), (parts, names), edges, (rule.group_rows_min, requests_max))?;
    let loose: Arc<dyn ExecutionPlan> = Arc::new(loose);
    Some(match projection {
        Some(_) => over(Arc::clone(input), loose),
        None => Ok(loose),
    })
}

/// Of a scan of a table on a server, the requests that may be sent for edges of groups: together they take half of the
/// time in which its streams bring all rows. `None` if these are too few to begin with.
fn requests_worth(child: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let scan = child.downcast_ref::<ColumnarExec>()?;
    let requests = scan.stats().bytes / scan.streams()?.seek_bytes? / 2;
    (requests >= REQUESTS_MIN).then_some(requests)
}

/// The node over another input.
fn over(node: Arc<dyn ExecutionPlan>, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    node.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// A key part in the batches of a scan.
struct Part {
    name: String,
    /// The index of its column, if the batches have it.
    column: Option<usize>,
    descending: bool,
    /// Whether it has one value in all rows.
    is_constant: bool,
    /// Whether `min` and `max` follow the order of keys.
    is_ordered: bool,
    /// Whether keys are in the order of its values.
    follows: bool,
}

/// The key of a scan's rows.
struct Key {
    parts: Vec<Part>,
    /// The number of buckets of salted keys; 0 for other keys.
    salt: u16,
}

impl Key {
    /// The key; `None` for scans that cannot be made loose.
    fn of(scan: &ScanExec) -> Option<Self> {
        let (read, layout) = (scan.read(), scan.row_layout()?);
        let ranges = read.rows.ranges();
        let points = ranges.iter().all(|range| range.as_point().is_some());
        let whole = read.limit.is_none() && !read.reversed && scan.is_whole() && scan.view_and_table().0.pushdown;
        if !whole || points || ranges.len() > RANGES_MAX || layout.on_bad_key == OnBadKey::Null {
            return None;
        }
        let column = |part: usize| layout.parts.iter().find(|(index, _)| *index == part).map(|(_, column)| *column);
        let parts = layout.keys.columns().into_iter().enumerate().map(|(index, part)| Part {
            column: column(index),
            descending: part.descends(),
            name: part.name,
            is_constant: scan.description().constant_parts().any(|part| part == index),
            is_ordered: layout.keys.is_ordered(index)
                && column(index).is_some_and(|at| !layout.schema.field(at).data_type().is_floating()),
            follows: layout.keys.is_ordered(index),
        });
        Some(Self { parts: parts.collect(), salt: layout.keys.salt })
    }

    fn is_constant(&self, part: usize) -> bool {
        self.parts[part].is_constant
    }
}

/// The key, as the aggregation sees it through a projection above the scan.
struct ProjectedKey<'a> {
    key: Key,
    projection: Option<&'a ProjectionExec>,
}

impl ProjectedKey<'_> {
    /// The index of the key part that an expression is.
    fn part(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        let mut at = expr.downcast_ref::<Column>()?.index();
        if let Some(projection) = self.projection {
            at = projection.expr().get(at)?.expr.downcast_ref::<Column>()?.index();
        }
        self.key.parts.iter().position(|part| part.column == Some(at))
    }

    /// The edge of a group by the first `parts` parts that a function takes its value from. Inner `None` if both edges
    /// have it; `None` if neither needs to.
    fn edge(
        &self,
        function: &AggregateFunctionExpr,
        parts: usize,
        is_fixed: &dyn Fn(usize) -> bool,
    ) -> Option<Option<Edges>> {
        let edge_if = |first: bool| if first { Edges::First } else { Edges::Last };
        match function.fun().name() {
            name @ ("min" | "max") => {
                let [argument] = &function.expressions()[..] else { return None };
                let part = self.part(argument)?;
                let key_part = &self.key.parts[part];
                if is_fixed(part) {
                    return key_part.is_ordered.then_some(None);
                }
                let next = (parts..self.key.parts.len()).find(|part| !is_fixed(*part))?;
                (part == next && key_part.is_ordered).then(|| Some(edge_if((name == "min") != key_part.descending)))
            }
            name @ ("first_value" | "last_value") if !function.ignore_nulls() && !function.is_distinct() => {
                let first = self.direction(function.order_bys(), parts, is_fixed)?;
                Some(first.map(|first| edge_if(first == (name == "first_value"))))
            }
            _ => None,
        }
    }

    /// Compares an ORDER BY with key order within a group: true if they agree, false for the reverse. Inner `None` if
    /// it orders by parts that are equal within a group only; `None` for any other order.
    fn direction(
        &self,
        order: &[PhysicalSortExpr],
        parts: usize,
        is_fixed: &dyn Fn(usize) -> bool,
    ) -> Option<Option<bool>> {
        let mut within = (parts..self.key.parts.len()).filter(|part| !is_fixed(*part));
        let mut direction = None;
        for by in order {
            let part = self.part(&by.expr)?;
            if is_fixed(part) {
                continue;
            }
            if within.next() != Some(part) || !self.key.parts[part].follows {
                return None;
            }
            let along = by.options.descending == self.key.parts[part].descending;
            if direction.is_some_and(|direction| direction != along) {
                return None;
            }
            direction = Some(along);
        }
        Some(direction)
    }
}
