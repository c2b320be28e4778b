//! Flush: the rows of a frozen memtable, written as deltas. It opens no files: the writers come in.
//!
//! Each tablet that the rows touch gets a delta. Neighbours share one until it has [`DELTA_BYTES_MIN`] bytes, lest a few rows for each of
//! many tablets become as many files. A row's position is its rank among the keys of its delta, which are kept until the memtable's later
//! changes are brought to it ([`FlushedSegment::keys`]).

use super::{
    compact::{Output, Outputs},
    manifest::SegmentMeta,
    tablet::{Stored, Tablets},
};
use crate::{Result, RowKey};
use bytes::Bytes;

/// Bytes from which on a delta ends with its tablet.
pub(crate) const DELTA_BYTES_MIN: u64 = 1 << 20;
/// Rows that a delta's writer is shown before the first is written, at most.
const SAMPLE_ROWS: usize = 4_096;

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

/// Writes encoded rows, which come in the order of keys, for a table with these tablets. What was written is added to `written`, in the
/// order of keys.
///
/// # Errors
/// Those of writing. What is in `written` then is to be deleted.
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
        // Of all rows that are left: tables of SQL that share the store's follow each other.
        let every = left.div_ceil(SAMPLE_ROWS).max(1);
        let sample: Vec<&[u8]> = rows.clone().step_by(every).map(|(_, row)| &row[..]).collect();
        let mut writer = outputs.begin(&sample)?;
        let (mut keys, mut end) = (Vec::new(), end_of(tablets, key));
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

/// Where the key's tablet ends.
fn end_of<'a, S: Stored>(tablets: &'a Tablets<S>, key: &[u8]) -> Option<&'a [u8]> {
    tablets.of_key(key)?.range.end.as_deref()
}

#[cfg(test)]
mod tests;
