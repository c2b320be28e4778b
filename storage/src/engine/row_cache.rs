//! Rows of segments, whole and decoded, that were read lately.
//!
//! The cache is bounded in bytes. A row of a segment never changes, so nothing in it is ever out of date; whether the row still lives
//! at its position is the caller's question, asked of the dead positions of a state.

use super::{deletion_vector::Position, manifest::SegmentId, state::Location};
use crate::Result;
use bytes::Bytes;
use quick_cache::{Weighter, sync::Cache};

/// Bytes that a row takes in the cache beside its own.
const ROW_OVERHEAD_BYTES: u64 = 96;
/// Bytes of a row that is expected when the cache is laid out.
const ROW_BYTES_EXPECTED: u64 = 512;
/// The share of the cache above which a row is not kept, so that one row does not drive out all others.
const ROW_SHARE_MAX: u64 = 64;

/// The cache of rows.
#[derive(Debug)]
pub(crate) struct RowCache {
    cache: Cache<(SegmentId, Position), Bytes, RowWeight>,
    row_bytes_max: usize,
}

#[derive(Clone, Debug)]
struct RowWeight;

impl Weighter<(SegmentId, Position), Bytes> for RowWeight {
    fn weight(&self, _: &(SegmentId, Position), row: &Bytes) -> u64 {
        row.len() as u64 + ROW_OVERHEAD_BYTES
    }
}

impl RowCache {
    /// A cache of so many bytes.
    pub(crate) fn new(bytes_max: u64) -> Self {
        let rows = usize::try_from(bytes_max / ROW_BYTES_EXPECTED).unwrap_or(usize::MAX);
        let row_bytes_max = usize::try_from(bytes_max / ROW_SHARE_MAX).unwrap_or(usize::MAX);
        Self { cache: Cache::with_weighter(rows, bytes_max, RowWeight), row_bytes_max }
    }

    /// The row at a place, encoded.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn read(&self, location: &Location) -> Result<Bytes> {
        let at = (location.segment.meta().id, location.position);
        if let Some(row) = self.cache.get(&at) {
            return Ok(row);
        }
        let row = location.segment.row(location.position)?;
        if row.len() <= self.row_bytes_max {
            self.cache.insert(at, row.clone());
        }
        Ok(row)
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        self.cache.clear();
    }

    /// Bytes in the cache.
    pub(crate) fn bytes(&self) -> u64 {
        self.cache.weight()
    }
}
