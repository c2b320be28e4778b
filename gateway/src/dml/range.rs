//! A DELETE of a whole key prefix as one range tombstone.

use super::target::Target;
use crate::{
    pg::error::{Result, SqlError},
    provider::exec::ScanExec,
    query::Query,
};
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

/// The ranges of keys that a DELETE … ERASE deletes: each is one row, or all rows whose keys begin alike.
///
/// # Errors
/// 0A000 if the condition says anything else.
pub(super) async fn whole_prefixes(query: &Query, plan: &LogicalPlan) -> Result<Vec<KeyRange>> {
    let physical = query.context.state().create_physical_plan(plan).await?;
    let whole = |range: &KeyRange| range.as_point().is_some() || is_prefix(range);
    scanned_ranges(&physical).filter(|ranges| ranges.iter().all(whole)).ok_or_else(|| {
        SqlError::unsupported("DELETE … ERASE of rows that are not whole prefixes of the primary key")
            .with_detail("History is kept by key: rows that another condition chooses may have had other values.")
            .with_hint(
                "Compare the first columns of the primary key with =, and nothing else; TRUNCATE erases all rows.",
            )
    })
}

/// The range that a plan reads if that is all that it does: no filter above the scan, no limit, one range.
fn scanned_range(plan: &Arc<dyn ExecutionPlan>) -> Option<KeyRange> {
    match scanned_ranges(plan)?.as_slice() {
        [range] => Some(range.clone()),
        _ => None,
    }
}

/// The ranges that a plan reads if that is all that it does: no filter above the scan, no limit.
fn scanned_ranges(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<KeyRange>> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        let read = scan.read();
        // Else it may leave rows out that have no such cell.
        let all = read.limit.is_none() && read.keep_empty;
        return all.then(|| read.rows.ranges().to_vec());
    }
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    scanned_ranges(projection.input())
}

/// Whether the range holds exactly the keys that start with something.
fn is_prefix(range: &KeyRange) -> bool {
    range.as_point().is_none() && range.end == prefix_end(&range.start)
}
