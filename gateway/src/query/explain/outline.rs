//! What a plan does, without any value: for the log of slow statements.

use super::{formats::NODES, is_unseen};
use crate::provider::{columnar::ColumnarExec, exec::ScanExec, pushdown::Shape};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// Nodes of an outline, at most.
const NODES_MAX: usize = 64;

/// The names of a plan's nodes, each child in brackets behind its parent, and the tables of scans.
pub(crate) fn outline(plan: &Arc<dyn ExecutionPlan>) -> String {
    let (mut out, mut left) = (String::new(), NODES_MAX);
    node(plan, &mut out, &mut left);
    out
}

fn node(plan: &Arc<dyn ExecutionPlan>, out: &mut String, left: &mut usize) {
    if is_unseen(plan)
        && let [child] = plan.children().as_slice()
    {
        return node(child, out, left);
    }
    if *left == 0 {
        out.push('…');
        return;
    }
    *left -= 1;
    let scan = plan.downcast_ref::<ScanExec>().or_else(|| plan.downcast_ref::<ColumnarExec>().map(ColumnarExec::scan));
    if let Some(scan) = scan {
        let description = scan.description();
        let way = if matches!(description.shape, Shape::FullScan) { "Seq Scan" } else { "Index Scan" };
        out.push_str(way);
        out.push_str(" on ");
        out.push_str(&description.name);
        return;
    }
    let name = NODES.iter().find(|(ours, _)| *ours == plan.name()).map_or(plan.name(), |(_, name)| name);
    out.push_str(name);
    let children = plan.children();
    if children.is_empty() {
        return;
    }
    out.push_str(" (");
    for (at, child) in children.into_iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        node(child, out, left);
    }
    out.push(')');
}
