//! Which aggregations ask for edges of groups alone.
//!
//! The groups are told apart by the first parts of the key, but for those that have one value in all rows. Of each group is wanted nothing
//! (`DISTINCT`), the least or greatest of the part behind (`min`, `max`), or what stands in the first or last row in the order of the parts
//! behind (`first_value` and `last_value`, which DataFusion makes of `DISTINCT ON`). Filters that are left to do, on rows or on
//! aggregates, ask for more.

use super::{Edges, LooseScanExec, RANGES_MAX, scan_of};
use crate::provider::exec::ScanExec;
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

/// Puts a [`LooseScanExec`] below aggregations that ask for no more. Comes before all other rules: filters stand apart from scans yet.
#[derive(Debug)]
pub struct LooseScans;

impl PhysicalOptimizerRule for LooseScans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| match node.downcast_ref::<AggregateExec>().and_then(loosened) {
            Some(input) => Ok(Transformed::yes(over(node, input?)?)),
            None => Ok(Transformed::no(node)),
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

/// The input of an aggregation, over a loose scan; `None` when it asks for more.
fn loosened(aggregate: &AggregateExec) -> Option<Result<Arc<dyn ExecutionPlan>>> {
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
    let seen = Seen { key: Key::of(scan)?, projection };
    let grouped: Option<Vec<usize>> = group.expr().iter().map(|(expr, _)| seen.part(expr)).collect();
    let grouped = grouped?;
    let is_given = |part: usize| grouped.contains(&part) || seen.key.is_constant(part);
    let parts = (0..seen.key.parts.len()).take_while(|part| is_given(*part)).count();
    if parts == seen.key.parts.len() || grouped.iter().any(|part| *part >= parts) {
        return None;
    }
    // Such a group has rows in every bucket of salted keys, one order in each; a group of parts is sought in each bucket by itself.
    let in_bucket = seen.key.salt == 0 || parts > usize::from(scan.door().0.rows.tenant().is_none());
    if !in_bucket && !aggregate.aggr_expr().is_empty() {
        return None;
    }
    let wanted = aggregate.aggr_expr().iter().map(|function| seen.edge(function, parts, &is_given));
    let wanted: Option<Vec<Option<Edges>>> = wanted.collect();
    let edges = wanted?.into_iter().flatten().reduce(Edges::and).unwrap_or(Edges::First);
    let varying = (0..parts).filter(|part| !seen.key.is_constant(*part));
    let names = varying.map(|part| seen.key.parts[part].name.clone()).collect();
    let loose: Arc<dyn ExecutionPlan> = Arc::new(LooseScanExec::over_scan(Arc::clone(child), (parts, names), edges)?);
    Some(match projection {
        Some(_) => over(Arc::clone(input), loose),
        None => Ok(loose),
    })
}

/// The node over another input.
fn over(node: Arc<dyn ExecutionPlan>, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    node.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// A part of the key, as a scan shows it.
struct Part {
    name: String,
    /// Its column in the batches, if they have it.
    place: Option<usize>,
    descending: bool,
    constant: bool,
    /// Whether `min` and `max` have the order of keys.
    compared: bool,
}

/// The key of a scan's rows.
struct Key {
    parts: Vec<Part>,
    /// Over how many buckets keys are spread; 0 for none.
    salt: u16,
}

impl Key {
    /// The key; `None` for scans that cannot be made loose.
    fn of(scan: &ScanExec) -> Option<Self> {
        let (read, layout) = (scan.read(), scan.row_layout()?);
        let ranges = read.rows.ranges();
        let points = ranges.iter().all(|range| range.as_point().is_some());
        let whole = read.limit.is_none() && !read.reversed && scan.is_whole() && scan.door().0.pushdown;
        if !whole || points || ranges.len() > RANGES_MAX || layout.on_bad_key == OnBadKey::Null {
            return None;
        }
        let place = |part: usize| layout.parts.iter().find(|(of, _)| *of == part).map(|(_, place)| *place);
        let parts = layout.keys.columns().into_iter().enumerate().map(|(number, part)| Part {
            name: part.name,
            place: place(number),
            descending: part.descending,
            constant: scan.about().constant_parts().any(|part| part == number),
            compared: place(number).is_some_and(|at| !layout.schema.field(at).data_type().is_floating()),
        });
        Some(Self { parts: parts.collect(), salt: layout.keys.salt })
    }

    fn is_constant(&self, part: usize) -> bool {
        self.parts[part].constant
    }
}

/// The key, through the projection that stands above the scan.
struct Seen<'a> {
    key: Key,
    projection: Option<&'a ProjectionExec>,
}

impl Seen<'_> {
    /// The part of the key that an expression is.
    fn part(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        let mut at = expr.downcast_ref::<Column>()?.index();
        if let Some(projection) = self.projection {
            at = projection.expr().get(at)?.expr.downcast_ref::<Column>()?.index();
        }
        self.key.parts.iter().position(|part| part.place == Some(at))
    }

    /// The edge of a group of rows with the first `parts` parts in common at which a function finds its value: inner `None` for
    /// either, `None` for neither.
    fn edge(
        &self,
        function: &AggregateFunctionExpr,
        parts: usize,
        is_given: &dyn Fn(usize) -> bool,
    ) -> Option<Option<Edges>> {
        let turned = |first: bool| if first { Edges::First } else { Edges::Last };
        match function.fun().name() {
            name @ ("min" | "max") => {
                let [argument] = &function.expressions()[..] else { return None };
                let part = self.part(argument)?;
                let of = &self.key.parts[part];
                if is_given(part) {
                    return of.compared.then_some(None);
                }
                let next = (parts..self.key.parts.len()).find(|part| !is_given(*part))?;
                (part == next && of.compared).then(|| Some(turned((name == "min") != of.descending)))
            }
            name @ ("first_value" | "last_value") if !function.ignore_nulls() && !function.is_distinct() => {
                let first = self.direction(function.order_bys(), parts, is_given)?;
                Some(first.map(|first| turned(first == (name == "first_value"))))
            }
            _ => None,
        }
    }

    /// Whether an order is that of the keys within a group (true), or the reverse; inner `None` when it says nothing of them, `None`
    /// when it is another.
    fn direction(
        &self,
        order: &[PhysicalSortExpr],
        parts: usize,
        is_given: &dyn Fn(usize) -> bool,
    ) -> Option<Option<bool>> {
        let mut within = (parts..self.key.parts.len()).filter(|part| !is_given(*part));
        let mut direction = None;
        for by in order {
            let part = self.part(&by.expr)?;
            if is_given(part) {
                continue;
            }
            if within.next() != Some(part) {
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
