//! A DELETE of a whole key prefix as one range tombstone.

use super::target::Target;
use crate::{pg::error::Result, provider::exec::ScanExec, query::Query};
use datafusion::{
    logical_expr::LogicalPlan,
    physical_plan::{ExecutionPlan, projection::ProjectionExec},
};
use futures::TryStreamExt;
use keyspan_storage::{Columns, KeyRange, RowSet, Scan, model::prefix_end};
use std::sync::Arc;

/// Rows above which a DELETE of a key prefix deletes the range instead of its rows.
pub(super) const RANGE_ROWS_MIN: u64 = 10_000;

/// The range that a DELETE may delete whole, with the number of its rows; `None` when rows are to be deleted one by
/// one: the predicate is not exactly a key prefix, the rows are few, there are rows that the statement does not see,
/// because their keys do not conform, or the table keeps history, which the deletion of a range would take along.
pub(super) async fn whole_prefix(
    query: &Query,
    plan: &LogicalPlan,
    target: &Target,
) -> Result<Option<(KeyRange, u64)>> {
    if target.table.history_micros.is_some() {
        return Ok(None);
    }
    query.statement_context().authorize()?;
    let physical = query.context.state().create_physical_plan(plan).await?;
    let Some(range) = scanned_range(&physical).filter(is_prefix) else { return Ok(None) };
    let keys_only =
        Scan { columns: Columns::Of(Vec::new()), keep_empty: true, ..Scan::of(RowSet::from(range.clone())) };
    let mut batches = query.view.scan(&target.table, keys_only);
    let mut count = 0;
    while let Some(rows) = batches.try_next().await? {
        if rows.iter().any(|row| target.key.decode(&row.key).is_err()) {
            return Ok(None);
        }
        count += rows.len() as u64;
    }
    Ok((count > RANGE_ROWS_MIN).then_some((range, count)))
}

/// The range that a plan reads if that is all that it does: no filter above the scan, no limit, one range.
fn scanned_range(plan: &Arc<dyn ExecutionPlan>) -> Option<KeyRange> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        let read = scan.read();
        return match read.rows.ranges() {
            [range] if read.limit.is_none() => Some(range.clone()),
            _ => None,
        };
    }
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    scanned_range(projection.input())
}

/// Whether the range holds exactly the keys that start with something.
fn is_prefix(range: &KeyRange) -> bool {
    range.as_point().is_none() && range.end == prefix_end(&range.start)
}
