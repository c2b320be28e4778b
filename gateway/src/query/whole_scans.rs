//! The scans of a plan that has run which read all rows of a table, though conditions asked for some of them.
//!
//! What they compared, and how many rows they read for how many, says which order of a key would have saved them
//! ([`advice`](crate::advice)).

use super::explain::{FilesRead, is_unseen};
use crate::{
    provider::{columnar::ColumnarExec, exec::ScanExec, pushdown::Shape},
    shares::access::WholeScan,
};
use datafusion::{
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, InListExpr},
        split_conjunction,
        utils::collect_columns,
    },
    physical_plan::{
        ExecutionPlan,
        filter::FilterExec,
        projection::{ProjectionExec, all_alias_free_columns},
    },
};
use keyspan_storage::ScanMetrics;
use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

/// Nodes that are looked at.
const NODES_MAX: usize = 256;

/// The columns of the filter above a node, and the rows that it gave.
#[derive(Clone, Default)]
struct Above {
    columns: BTreeSet<String>,
    equal: BTreeSet<String>,
    selected: Option<u64>,
}

impl Above {
    fn take(&mut self, filter: &Arc<dyn PhysicalExpr>) {
        self.columns.extend(collect_columns(filter).into_iter().map(|column| column.name().to_owned()));
        self.equal.extend(split_conjunction(filter).into_iter().filter_map(equal_of));
    }
}

/// The scans, each with the number of its table.
pub(crate) fn whole_scans(plan: &Arc<dyn ExecutionPlan>) -> Vec<(u32, WholeScan)> {
    let (mut found, mut left) = (Vec::new(), NODES_MAX);
    node(plan, Above::default(), &mut found, &mut left);
    found
}

fn node(plan: &Arc<dyn ExecutionPlan>, above: Above, found: &mut Vec<(u32, WholeScan)>, left: &mut usize) {
    if *left == 0 {
        return;
    }
    *left -= 1;
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        let (rows, bytes) = read_by_rows(scan.store_metrics());
        return add(scan, above, (rows, bytes), found);
    }
    if let Some(fast) = plan.downcast_ref::<ColumnarExec>() {
        if fast.looked_up().is_some() {
            return;
        }
        let mut above = above;
        for filter in fast.filters() {
            above.take(filter);
        }
        above.selected = above.selected.or_else(|| rows_of(plan)).filter(|_| !above.columns.is_empty());
        let (rest_rows, rest_bytes) = fast.rest().map_or((0, 0), |rest| read_by_rows(rest.store_metrics()));
        let files = FilesRead::of(fast);
        let rows = fast.stats().rows + files.memory_rows as u64 + rest_rows;
        return add(fast.scan(), above, (rows, (files.bytes + files.memory_bytes) as u64 + rest_bytes), found);
    }
    let hands_on = is_unseen(plan)
        || matches!(plan.name(), "RepartitionExec" | "CoalescePartitionsExec" | "CoalesceBatchesExec" | "BufferExec");
    let narrows = plan.downcast_ref::<ProjectionExec>().is_some_and(|node| all_alias_free_columns(node.expr()));
    let above = match plan.downcast_ref::<FilterExec>() {
        Some(filter) => {
            let mut above = Above { selected: rows_of(plan), ..Above::default() };
            above.take(filter.predicate());
            above
        }
        None if hands_on || narrows => above,
        None => Above::default(),
    };
    plan.children().into_iter().for_each(|child| node(child, above.clone(), found, left));
}

fn add(scan: &ScanExec, above: Above, (rows, bytes): (u64, u64), found: &mut Vec<(u32, WholeScan)>) {
    let Above { columns, equal, selected: Some(selected) } = above else { return };
    let (_, table) = scan.view_and_table();
    let about = scan.description();
    // Those of `cells` and `raw` have columns of their own.
    let is_of_rows = about.name == table.name;
    // Who reads the rows of all tenants compares the tenant, which the key begins with already.
    let is_whole = about.shape == Shape::FullScan && (scan.in_span() || table.is_private());
    if is_of_rows && is_whole && !columns.is_empty() {
        found.push((table.id.0, WholeScan { columns, equal, rows, selected: selected.min(rows), bytes }));
    }
}

/// The column that has to be one of some values.
fn equal_of(condition: &Arc<dyn PhysicalExpr>) -> Option<String> {
    let found = if let Some(list) = condition.downcast_ref::<InListExpr>().filter(|list| !list.negated()) {
        collect_columns(list.expr())
    } else {
        let binary = condition.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::Eq)?;
        // Of two columns neither is known.
        collect_columns(condition).into_iter().filter(|_| binary.left().children().len() < 2).collect()
    };
    let mut names = found.into_iter().map(|column| column.name().to_owned());
    names.next().filter(|_| names.next().is_none())
}

fn rows_of(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    plan.metrics()?.output_rows().map(|rows| rows as u64)
}

fn read_by_rows(metrics: &ScanMetrics) -> (u64, u64) {
    (metrics.rows_seen.load(Ordering::Relaxed), metrics.bytes_seen.load(Ordering::Relaxed))
}
