//! Which reads are so short that they run inline, on the caller's thread.
//!
//! A read of local files mostly waits for at most a page of the file cache. A read of a few rows takes less time than
//! switching to another thread and back; all others run on threads that may block.

use super::{memtable::bounds, ranges::positions_in, state::Table};
use crate::RowSet;
use bytes::Bytes;
use std::iter;

/// Maximum ranges of an inline read.
pub(crate) const RANGES_MAX: usize = 4;
/// Rows that an inline scan of few rows may examine, before it continues on another thread.
pub(crate) const FEW_ROWS: usize = 128;
/// Rows of a commit that are looked up inline, before it is queued.
pub(crate) const FETCHED_ROWS_MAX: u32 = 4;
/// Maximum segments of an inline read.
const SEGMENTS_MAX: usize = 16;
/// Maximum rows of segments.
const ROWS_MAX: u64 = 1_024;
/// Maximum bytes of these rows in the segments' files, approximately.
const BYTES_MAX: u64 = 256 << 10;

/// How many rows there are at most, in memtables and in local segments, if they are so few that they are read inline as
/// a whole. Reads pages of keys.
pub(crate) fn few_rows(table: &Table, rows: &RowSet) -> Option<u64> {
    // Segments first: that there are many rows is known of them at once.
    let (mut found, mut bytes) = (in_few_segments(table, rows)?, 0);
    for memtable in iter::once(&table.active).chain(table.frozen.as_ref().map(|frozen| &frozen.memtable)) {
        for range in rows.ranges().iter().filter(|range| !range.is_empty()) {
            for (key, slot) in memtable.slots.range::<_, [u8]>(bounds(range)) {
                found += 1;
                bytes += (key.len() + slot.row.as_ref().map_or(0, Bytes::len)) as u64;
                if found > ROWS_MAX || bytes > BYTES_MAX {
                    return None;
                }
            }
        }
    }
    Some(found)
}

/// Whether a read of these rows of local segments runs inline. Reads pages of keys.
pub(crate) fn runs_inline(table: &Table, rows: &RowSet) -> bool {
    in_few_segments(table, rows).is_some()
}

/// How many rows there are in segments at most, dead ones among them, if they are few and in few segments. A row that
/// is named by its key costs nothing to find, and counts as one.
fn in_few_segments(table: &Table, rows: &RowSet) -> Option<u64> {
    let ranges = rows.ranges();
    if ranges.len() > RANGES_MAX {
        return None;
    }
    let (mut segments, mut found, mut bytes) = (0, 0, 0);
    for range in ranges {
        if range.as_point().is_some() {
            found += 1;
            continue;
        }
        for tablet in table.tablets.of_range(range) {
            for segment in &tablet.segments {
                segments += 1;
                if segments > SEGMENTS_MAX {
                    return None;
                }
                // The read itself will report the error.
                let positions = positions_in(segment, &tablet.range, range).ok()?;
                let (meta, count) = (segment.meta(), u64::from(positions.end.saturating_sub(positions.start)));
                found += count;
                bytes += count * ((meta.bytes + meta.side_bytes) / u64::from(meta.rows.max(1)));
                if found > ROWS_MAX || bytes > BYTES_MAX {
                    return None;
                }
            }
        }
    }
    Some(found)
}
