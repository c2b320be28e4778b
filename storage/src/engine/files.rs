//! A store as files: what checks them, and what copies them, without opening the store.
//!
//! [`StoreFiles::check`] reads every byte that somebody wrote and holds it against its checksum; [`StoreFiles::copy_to`] makes a
//! second store of one, which may be in use meanwhile: a backup, and a backup brought back.
//!
//! Both tell how they get on, and what they find, in [`Step`]s.

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

/// Bytes of segments' tails that a check keeps; each is needed once.
const TAIL_CACHE_BYTES: u64 = 8 << 20;
/// Bytes of pages of keys that a check keeps.
const KEY_CACHE_BYTES: u64 = 8 << 20;

/// Where the files of a store are.
#[derive(Clone, Debug)]
pub struct StoreFiles {
    /// The store's folder.
    pub path: PathBuf,
    /// The file system.
    pub fs: Arc<dyn Fs>,
    /// Where segments are; `None` for the store's folder. See [`EngineOptions::segments`](super::EngineOptions::segments).
    pub segments: Option<Url>,
}

/// How a check or a copy gets on.
#[derive(Debug)]
pub enum Step<'a> {
    /// About so many bytes are ahead, in all.
    Ahead(u64),
    /// A file is looked at.
    File(&'a str),
    /// So many more bytes are done.
    Done(u64),
    /// Something is wrong. The check goes on.
    Found(&'a Error),
}

/// What a check came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Files that were read.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// What was found wrong.
    pub found: u64,
    /// Rows in segments, the dead ones too.
    pub segment_rows: u64,
    /// Frames of the log.
    pub frames: u64,
    /// Files that no manifest names; the next start removes them.
    pub unnamed: u64,
}

/// What a copy came to.
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

    fn blobs(&self) -> Result<Arc<dyn Blobs>> {
        blobs::at(self.segments.as_ref(), &self.path, &self.fs)
    }

    fn lock(&self) -> Result<Box<dyn Any + Send + Sync>> {
        let path = self.path.join(super::LOCK);
        let lock = self.fs.lock(&path).map_err(|source| log::failed("lock", &path, source))?;
        lock.ok_or_else(|| Error::Locked { path: self.path.clone() })
    }

    fn wal(&self) -> PathBuf {
        self.path.join(log::FOLDER)
    }
}

/// Each segment that a manifest names, once, with the number of its table.
fn segments(manifest: &Manifest) -> BTreeMap<SegmentId, (u32, &SegmentMeta)> {
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
