//! Checks and copies the files of a store without opening it.
//!
//! [`StoreFiles::check`] reads every written byte and verifies its checksum. [`StoreFiles::copy_to`] copies a store,
//! which may be in use meanwhile: for backup and restore.
//!
//! Both report progress and findings as [`Step`]s.

mod check;
mod copy;
mod frames;
#[cfg(test)]
mod tests;

use super::{
    blobs::{self, Blobs},
    log,
    manifest::{Manifest, SegmentId, SegmentMeta},
    segment::{Caches, Segment},
};
use crate::{
    Error, Result,
    fs::{Fs, LocalFs},
};
use std::{any::Any, collections::BTreeMap, path::PathBuf, sync::Arc};
use url::Url;

/// Cache of segments' tails during a check; each is needed once.
const TAIL_CACHE_BYTES: u64 = 8 << 20;
/// Cache of pages of keys during a check.
const KEY_CACHE_BYTES: u64 = 8 << 20;

/// The location of a store's files.
#[derive(Clone, Debug)]
pub struct StoreFiles {
    /// The store's folder.
    pub path: PathBuf,
    /// The file system.
    pub fs: Arc<dyn Fs>,
    /// The location of segments; `None` for the store's folder. See
    /// [`EngineOptions::segments`](super::EngineOptions::segments).
    pub segments: Option<Url>,
}

/// Progress of a check or a copy.
#[derive(Debug)]
pub enum Step<'a> {
    /// Estimated total bytes.
    Ahead(u64),
    /// A file is being read.
    File(&'a str),
    /// Additional bytes are done.
    Done(u64),
    /// A damage was found. The check continues.
    Found(&'a Error),
}

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Files that were read.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Number of damages found.
    pub found: u64,
    /// Rows in segments, including dead ones.
    pub segment_rows: u64,
    /// Frames of the log.
    pub frames: u64,
    /// Files that no manifest names; the next start removes them.
    pub unnamed: u64,
}

/// The result of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Segments.
    pub segments: u64,
    /// Bytes of their files.
    pub segment_bytes: u64,
    /// Frames of the log.
    pub frames: u64,
    /// Bytes of them.
    pub log_bytes: u64,
}

impl StoreFiles {
    /// A store on the machine's file system.
    pub fn new(path: impl Into<PathBuf>, segments: Option<Url>) -> Self {
        Self { path: path.into(), fs: Arc::new(LocalFs), segments }
    }

    pub(super) fn blobs(&self) -> Result<Arc<dyn Blobs>> {
        if self.segments.is_none() {
            blobs::check_is_local(self.fs.as_ref(), &self.path)?;
        }
        blobs::at(self.segments.as_ref(), &self.path, &self.fs)
    }

    /// Fails for a folder without a store.
    pub(super) fn check_is_store(&self) -> Result<()> {
        let log = frames::log_files(self.fs.as_ref(), &self.wal());
        if log.is_ok_and(|log| !log.is_empty()) || self.load()?.1.version > 0 {
            return Ok(());
        }
        Err(Error::Invalid(format!("there is no store in {}", self.path.display())))
    }

    fn lock(&self) -> Result<Box<dyn Any + Send + Sync>> {
        let path = self.path.join(super::LOCK);
        let lock = self.fs.lock(&path).map_err(|source| log::failed("lock", &path, source))?;
        lock.ok_or_else(|| Error::Locked { path: self.path.clone() })
    }

    pub(super) fn wal(&self) -> PathBuf {
        self.path.join(log::FOLDER)
    }
}

/// Each segment that a manifest names, once, with the number of its table.
pub(super) fn segments(manifest: &Manifest) -> BTreeMap<SegmentId, (u32, &SegmentMeta)> {
    let mut all = BTreeMap::new();
    for table in &manifest.tables {
        let (_, descriptor) =
            table.descriptor.clone().into_descriptor().expect("a manifest that was read or written was checked");
        for segment in table.tablets.iter().flat_map(|tablet| &tablet.segments) {
            all.insert(segment.id, (descriptor.number, segment));
        }
    }
    all
}

/// Reads all of a segment.
fn verify(blobs: &Arc<dyn Blobs>, table: u32, meta: &SegmentMeta) -> Result<()> {
    for (name, bytes) in meta.files() {
        let blob = blobs.open(&name)?;
        if blob.size() != bytes {
            let (path, offset) = (blob.path(), blob.size().min(bytes));
            let detail = format!("the file has {} bytes, {bytes} were written", blob.size());
            return Err(Error::Corrupt { path, offset, detail });
        }
    }
    let caches = Arc::new(Caches::new(TAIL_CACHE_BYTES, KEY_CACHE_BYTES));
    Segment::open(Arc::clone(blobs), table, meta.clone(), caches).verify()
}
