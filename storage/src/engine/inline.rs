//! Which reads are so short that they take less than the way to another thread and back.
//!
//! A read of local files waits for a page of the file cache at most, most of the time. One of a few rows is done where it is asked for, and all
//! others on threads that may wait.

use super::{ranges::positions_in, state::Table};
use crate::RowSet;

/// Ranges of a short read.
pub(crate) const RANGES_MAX: usize = 4;
/// Rows of a scan that wants no more, and begins where it is asked for: it goes on elsewhere when it has looked at so many.
pub(crate) const FEW_ROWS: usize = 64;
/// Segments that it looks into.
const SEGMENTS_MAX: usize = 16;
/// Rows of segments that it reads.
const ROWS_MAX: u64 = 1_024;
/// Bytes of the segments' files that these take, about.
const BYTES_MAX: u64 = 256 << 10;

/// Whether a read of these rows of local segments is short. Reads pages of keys.
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
                // Whoever reads it says what is wrong with it.
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
