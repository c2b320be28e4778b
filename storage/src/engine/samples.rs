//! Keys that split a table into parts of about equal size.
//!
//! Memtables are weighed row by row; in each segment, a few evenly spaced live positions stand for the others. Each cut
//! is then moved to the next existing row.

use super::{Engine, deletion_vector::DeletionVector, ranges::positions_in, state::Table};
use crate::{KeyRange, Result, RowKey, RowSample, RowSet, Scan, Store, TableName};
use futures::TryStreamExt;

/// Approximate number of positions of a table's segments that are examined.
const POSITIONS_MAX: u64 = 400;

/// Keys that split the table into `parts` parts, each with the bytes before it, and the bytes of the whole table.
pub(crate) fn cuts(table: &Table, parts: u64) -> Result<(Vec<RowSample>, u64)> {
    let mut weights: Vec<(RowKey, u64)> = Vec::new();
    let frozen = table.frozen.iter().flat_map(|frozen| {
        frozen.memtable.slots.iter().filter(|(key, _)| !table.active.slots.contains_key::<[u8]>(key))
    });
    for (key, slot) in table.active.slots.iter().chain(frozen) {
        if let Some(row) = &slot.row {
            weights.push((key.clone(), (key.len() + row.len()) as u64));
        }
    }
    let segments =
        || table.tablets.iter().flat_map(|tablet| tablet.segments.iter().map(move |segment| (tablet, segment)));
    let all: u64 = segments().map(|(_, segment)| segment.meta().bytes).sum();
    for (tablet, segment) in segments() {
        let meta = segment.meta();
        let positions = positions_in(segment, &tablet.range, &KeyRange::all())?;
        let dead = table.deletion_vectors.get(&meta.id).cloned().unwrap_or_default();
        let wanted = (POSITIONS_MAX * meta.bytes / all.max(1)).max(1);
        let row_bytes = meta.bytes / u64::from(meta.rows.max(1));
        for (position, rows) in spread(&dead, positions, wanted) {
            weights.push((segment.key_at(position)?, rows * row_bytes));
        }
    }
    weights.sort_unstable();
    let total: u64 = weights.iter().map(|(_, bytes)| bytes).sum();
    let part = total / parts + 1;
    let (mut offset_bytes, mut next, mut cuts) = (0, part, Vec::new());
    for (key, bytes) in weights {
        offset_bytes += bytes;
        if offset_bytes >= next {
            next = offset_bytes + part;
            cuts.push(RowSample { key, offset_bytes });
        }
    }
    Ok((cuts, total))
}

/// About `wanted` live positions, each with the number of rows since the previous one.
fn spread(dead: &DeletionVector, positions: std::ops::Range<u32>, wanted: u64) -> Vec<(u32, u64)> {
    let live: u64 = dead.live_runs(positions.clone()).map(|run| u64::from(run.end - run.start)).sum();
    let step = (live / wanted).max(1);
    let (mut seen, mut spread) = (0, Vec::new());
    for run in dead.live_runs(positions) {
        let length = u64::from(run.end - run.start);
        // The last position of every `step` rows.
        let mut at = step - 1 - seen % step;
        while at < length {
            spread.push((run.start + u32::try_from(at).expect("it is below the run's length"), step));
            at += step;
        }
        seen += length;
    }
    spread
}

/// Moves cuts to existing rows, and adds the last row.
pub(crate) async fn at_live_rows(
    engine: &Engine,
    table: &TableName,
    cuts: (Vec<RowSample>, u64),
) -> Result<Vec<RowSample>> {
    let one = |rows: RowSet, reversed| Scan { rows_max: Some(1), reversed, ..Scan::of(rows) };
    let (cuts, total) = cuts;
    let mut samples: Vec<RowSample> = Vec::new();
    for RowSample { key, offset_bytes } in cuts {
        let from = KeyRange::new(key.into_bytes(), None);
        let Some(row) = engine.scan(table, one(from.into(), false)).try_next().await?.and_then(|mut rows| rows.pop())
        else {
            break;
        };
        if samples.last().is_none_or(|last| last.key < row.key) {
            samples.push(RowSample { key: row.key, offset_bytes });
        }
    }
    let last = engine.scan(table, one(RowSet::all(), true)).try_next().await?.and_then(|mut rows| rows.pop());
    if let Some(row) = last.filter(|row| samples.last().is_none_or(|sample| sample.key != row.key)) {
        samples.push(RowSample { key: row.key, offset_bytes: total });
    }
    Ok(samples)
}
