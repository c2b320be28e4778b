//! Which reads are so short that they run inline, on the caller's thread.
//!
//! A read of local files mostly waits for at most a page of the file cache. A read of a few rows takes less time than
//! switching to another thread and back; all others run on threads that may block.

use super::{ranges::positions_in, state::Table};
use crate::RowSet;

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

/// Whether a read of these rows of local segments runs inline. Reads pages of keys.
pub(crate) fn runs_inline(table: &Table, rows: &RowSet) -> bool {
    let ranges = rows.ranges();
    if ranges.len() > RANGES_MAX {
        return false;
    }
    let (mut segments, mut found, mut bytes) = (0, 0, 0);
    for range in ranges.iter().filter(|range| range.as_point().is_none()) {
        for tablet in table.tablets.of_range(range) {
            for segment in &tablet.segments {
                segments += 1;
                if segments > SEGMENTS_MAX {
                    return false;
                }
                // The read itself will report the error.
                let Ok(positions) = positions_in(segment, &tablet.range, range) else { return false };
                let (meta, count) = (segment.meta(), u64::from(positions.end.saturating_sub(positions.start)));
                found += count;
                bytes += count * ((meta.bytes + meta.side_bytes) / u64::from(meta.rows.max(1)));
                if found > ROWS_MAX || bytes > BYTES_MAX {
                    return false;
                }
            }
        }
    }
    true
}
