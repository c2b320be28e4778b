//! Removes the files of unused segments: those that the manifest in force does not name and that nobody uses any more.

use crate::{
    KeyRange, Result,
    engine::{
        blobs::Blobs,
        manifest::{Manifest, SegmentId},
        segment::{Caches, Segment},
        tablet::reaches_into,
    },
};
use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

/// A segment that has files.
#[derive(Debug)]
struct TrackedSegment {
    segment: Weak<Segment>,
    bytes: u64,
}

/// The segments that have files.
#[derive(Debug, Default)]
pub(crate) struct Files {
    files: Mutex<BTreeMap<SegmentId, TrackedSegment>>,
    files_removed: AtomicU64,
    bytes_removed: AtomicU64,
}

impl Files {
    /// Tracks a segment.
    pub(crate) fn add(&self, segment: &Arc<Segment>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = segment.meta().bytes + segment.meta().side_bytes;
        files.insert(segment.meta().id, TrackedSegment { segment: Arc::downgrade(segment), bytes });
    }

    /// Removes the files of segments that are neither named nor in use. Failed removals are retried at the next call.
    pub(super) fn collect(&self, manifest: &Manifest, blobs: &dyn Blobs, caches: &Caches) {
        let named = named(manifest);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|id, tracked| {
            if named.contains(id) || tracked.segment.strong_count() > 0 {
                return true;
            }
            caches.forget(*id);
            match delete(blobs, *id) {
                Ok(()) => {
                    self.files_removed.fetch_add(1, Ordering::Relaxed);
                    self.bytes_removed.fetch_add(tracked.bytes, Ordering::Relaxed);
                    false
                }
                Err(error) => {
                    tracing::warn!(%error, "a segment that is no longer needed was not removed");
                    true
                }
            }
        });
    }

    /// Whether a segment that the manifest does not name reaches into a range, and is still in use or could not be
    /// removed.
    pub(crate) fn are_held(&self, manifest: &Manifest, ranges: &[KeyRange]) -> bool {
        let named = named(manifest);
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let unnamed = files.iter().filter(|(id, _)| !named.contains(id));
        unnamed.into_iter().any(|(_, tracked)| {
            tracked
                .segment
                .upgrade()
                .is_none_or(|segment| ranges.iter().any(|range| reaches_into(segment.meta(), range)))
        })
    }

    /// Whether a segment of before an id that the manifest does not name is still in use, or could not be removed.
    pub(crate) fn has_unnamed_before(&self, manifest: &Manifest, before: SegmentId) -> bool {
        let named = named(manifest);
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.range(..before).any(|(id, _)| !named.contains(id))
    }

    /// Files removed since the store was opened, and their bytes.
    pub(crate) fn removed(&self) -> (u64, u64) {
        (self.files_removed.load(Ordering::Relaxed), self.bytes_removed.load(Ordering::Relaxed))
    }
}

fn named(manifest: &Manifest) -> HashSet<SegmentId> {
    let tablets = manifest.tables.iter().flat_map(|table| &table.tablets);
    tablets.flat_map(|tablet| tablet.segments.iter().map(|meta| meta.id)).collect()
}

/// Removes the files of a segment.
///
/// # Errors
/// Errors of removing files.
pub(super) fn delete(blobs: &dyn Blobs, id: SegmentId) -> Result<()> {
    blobs.delete(&id.parquet_name())?;
    blobs.delete(&id.side_name())
}
