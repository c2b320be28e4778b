//! Flush: writes the rows of a frozen memtable as deltas. It opens no files; the writers are passed in.
//!
//! Each tablet that the rows touch gets a delta. Neighbouring tablets share one until it has [`DELTA_BYTES_MIN`] bytes,
//! so that a few rows in each of many tablets do not become as many files. A row's position is its rank among the keys
//! of its delta. The keys are kept until later changes of the memtable are applied to the delta
//! ([`FlushedSegment::keys`]).

use super::{
    compact::{Output, Outputs},
    manifest::SegmentMeta,
    tablet::{Stored, Tablets},
};
use crate::{Result, RowKey};
use bytes::Bytes;

/// Bytes from which on a delta ends at the end of its tablet.
pub(crate) const DELTA_BYTES_MIN: u64 = 1 << 20;
/// Maximum rows of the sample that a delta's writer gets before the first row.
const SAMPLE_ROWS: usize = 4_096;
/// A tablet with fewer rows is sampled together with the following ones.
const SAMPLE_ROWS_MIN: usize = 1_024;

/// A delta that was written.
#[derive(Debug)]
pub(crate) struct FlushedSegment {
    /// The delta.
    pub(crate) meta: SegmentMeta,
    /// The rows' keys, by position.
    pub(crate) keys: Vec<RowKey>,
}

impl FlushedSegment {
    /// The position of a row.
    #[cfg(test)]
    pub(crate) fn position(&self, key: &[u8]) -> Option<super::deletion_vector::Position> {
        let at = self.keys.binary_search_by(|one| one[..].cmp(key)).ok()?;
        Some(super::deletion_vector::Position::try_from(at).expect("a segment has below 2^32 rows"))
    }
}

/// Writes encoded rows, in the order of keys, for a table with these tablets. Adds the deltas to `written`, in the
/// order of keys.
///
/// # Errors
/// Errors of writing. The caller deletes the segments in `written` then.
pub(crate) fn flush<'a, S: Stored, O: Outputs>(
    rows: impl Iterator<Item = (&'a RowKey, &'a Bytes)> + Clone,
    tablets: &Tablets<S>,
    outputs: &mut O,
    delta_bytes_min: u64,
    written: &mut Vec<FlushedSegment>,
) -> Result<()> {
    let mut left = rows.clone().count();
    let mut rows = rows.peekable();
    while let Some((key, _)) = rows.peek().copied() {
        let (mut keys, mut end) = (Vec::new(), end_of(tablets, key));
        // Sampled from all rows that the delta may have, since SQL tables that share the store's table follow each
        // other: those of its first tablet, and if they are few, all that remain.
        let is_of_first = |key: &RowKey| end.is_none_or(|end| key[..] < *end);
        let of_first = rows.clone().take_while(|(key, _)| is_of_first(key)).count();
        let sampled = if of_first >= SAMPLE_ROWS_MIN { of_first } else { left };
        let every = sampled.div_ceil(SAMPLE_ROWS).max(1);
        let sample: Vec<(&[u8], &[u8])> =
            rows.clone().take(sampled).step_by(every).map(|(key, row)| (&key[..], &row[..])).collect();
        let mut writer = outputs.begin(&sample)?;
        while let Some((key, row)) = rows.peek().copied() {
            if end.is_some_and(|end| key[..] >= *end) {
                if writer.bytes() >= delta_bytes_min {
                    break;
                }
                end = end_of(tablets, key);
            }
            if let Some(position) = writer.push(key, row)? {
                assert_eq!(position as usize, keys.len(), "positions count the rows");
                keys.push(key.clone());
            }
            rows.next();
            left = left.saturating_sub(1);
        }
        if let Some(meta) = writer.finish()? {
            written.push(FlushedSegment { meta, keys });
        }
    }
    Ok(())
}

/// The end of the key's tablet.
fn end_of<'a, S: Stored>(tablets: &'a Tablets<S>, key: &[u8]) -> Option<&'a [u8]> {
    tablets.of_key(key)?.range.end.as_deref()
}

#[cfg(test)]
mod tests;
