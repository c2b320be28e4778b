//! The cache of whole rows of segments.
//!
//! The cache is bounded in bytes. A row of a segment never changes, so an entry is never outdated. Whether the row is
//! still live at its position is the caller's question, which the deletion vectors of a state answer.

use super::{deletion_vector::Position, manifest::SegmentId, state::Location};
use crate::{Result, inspect::CacheUse};
use bytes::Bytes;
use quick_cache::{Weighter, sync::Cache};

/// Bytes of a row's entry besides the row.
const ROW_OVERHEAD_BYTES: u64 = 96;
/// Expected bytes of a row, for the cache's layout.
const ROW_BYTES_EXPECTED: u64 = 512;
/// A row above this fraction of the cache is not cached, so that one row does not evict all others.
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
    /// A cache of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: u64) -> Self {
        let rows = usize::try_from(bytes_max / ROW_BYTES_EXPECTED).unwrap_or(usize::MAX);
        let row_bytes_max = usize::try_from(bytes_max / ROW_SHARE_MAX).unwrap_or(usize::MAX);
        Self { cache: Cache::with_weighter(rows, bytes_max, RowWeight), row_bytes_max }
    }

    /// The row at a location, encoded.
    ///
    /// # Errors
    /// Errors of reading files.
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

    /// Removes all rows.
    pub(crate) fn clear(&self) {
        self.cache.clear();
    }

    /// How often it was asked.
    pub(crate) fn usage(&self) -> CacheUse {
        CacheUse { hits: self.cache.hits(), misses: self.cache.misses() }
    }

    /// Bytes in the cache.
    pub(crate) fn bytes(&self) -> u64 {
        self.cache.weight()
    }
}
