//! Storage of segment files: a folder of the local disk ([`LocalBlobs`]), or an object store ([`RemoteBlobs`]). [`at`]
//! chooses, and [`claim`] makes sure that no other store uses the location.
//!
//! A segment's file is written once, from front to back, and never changed: [`Blobs::create`], [`BlobWriter::write`]
//! any number of times, [`BlobWriter::finish`]. After a successful `finish` the name and the bytes are durable; only
//! then may a manifest name the file. A writer that is dropped without `finish` leaves nothing, or a file that no
//! manifest names. Reads take any part of a file.
//!
//! After a failed `finish` the file may or may not exist. Its name is not used again; start-up removes files that no
//! manifest names.
//!
//! Every call blocks. Callers are on threads of their own or on tokio's blocking ones.

mod local;
mod owner;
mod remote;
mod requests;

pub(crate) use local::{LocalBlobs, no_space_or};
pub(crate) use owner::{check_age, check_is_local, claim, note_newest};
pub(crate) use remote::RemoteBlobs;

use crate::{Error, Result, fs::Fs, inspect::RequestInfo};
use bytes::Bytes;
use std::{
    fmt::Debug,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};
use url::Url;

/// The folder of local segments within the store's folder.
pub(crate) const FOLDER: &str = "seg";

/// A location of segment files.
pub(crate) trait Blobs: Send + Sync + Debug + 'static {
    /// Begins a file, replacing one of the same name. The name has no folder in it.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`].
    fn create(&self, name: &str) -> Result<Box<dyn BlobWriter>>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is missing, since a manifest names it; [`Error::Io`].
    fn open(&self, name: &str) -> Result<Arc<dyn Blob>>;

    /// Removes a file durably; does nothing if it is missing. An open file may become unreadable.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn delete(&self, name: &str) -> Result<()>;

    /// The finished files, and perhaps unfinished ones: names, ascending, and bytes.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn list(&self) -> Result<Vec<(String, u64)>>;

    /// The location, for messages.
    fn describe(&self) -> String;

    /// What an object store was asked since this was connected to it; empty for a folder.
    fn requests(&self) -> Vec<RequestInfo> {
        Vec::new()
    }
}

/// A file being written.
pub(crate) trait BlobWriter: Send {
    /// Appends bytes. Writers buffer them, so pieces may be small.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`]: the file will not be finished.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Makes the file durable; returns its size in bytes.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`]: the file may or may not exist.
    fn finish(self: Box<Self>) -> Result<u64>;
}

/// An open file.
pub(crate) trait Blob: Send + Sync + Debug {
    /// Its bytes.
    fn size(&self) -> u64;

    /// Reads exactly `bytes` bytes starting at `offset`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the file ends before, [`Error::Io`].
    fn read_at(&self, offset: u64, bytes: usize) -> Result<Bytes>;

    /// Reads several parts, given as ascending and disjoint ranges; all at once if reads are [remote](Self::is_remote).
    ///
    /// # Errors
    /// Errors of [`read_at`](Self::read_at).
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().map(|range| self.read_at(range.start, (range.end - range.start) as usize)).collect()
    }

    /// Whether even a small read has high latency, so that many parts should be read at once.
    fn is_remote(&self) -> bool {
        false
    }

    /// The file's path, for errors.
    fn path(&self) -> PathBuf;
}

/// The location that a store's options name: a URL, or by default a folder in the store's own.
///
/// # Errors
/// [`Error::Invalid`] for an unknown kind of URL, [`Error::NoSpace`], [`Error::Io`].
pub(crate) fn at(segments: Option<&Url>, store: &Path, fs: &Arc<dyn Fs>) -> Result<Arc<dyn Blobs>> {
    let folder = match segments {
        None => store.join(FOLDER),
        // Not object_store's own file store, which syncs nothing.
        Some(url) if url.scheme() == "file" => {
            url.to_file_path().map_err(|()| Error::Invalid(format!("{url} names no folder of this machine")))?
        }
        Some(url) => return Ok(Arc::new(RemoteBlobs::connect(url)?)),
    };
    Ok(Arc::new(LocalBlobs::new(fs.clone(), folder)?))
}

/// The error for a missing file that a manifest names.
pub(crate) fn missing(path: &Path) -> Error {
    Error::Corrupt { path: path.to_owned(), offset: 0, detail: "the file is missing".into() }
}

/// The error for a file that is shorter than expected.
pub(crate) fn too_short(path: &Path, size: u64, wanted: u64) -> Error {
    let detail = format!("the file ends here, {wanted} bytes were expected");
    Error::Corrupt { path: path.to_owned(), offset: size, detail }
}

#[cfg(test)]
mod tests;
