//! Where the files of segments are: a folder of the local disk ([`LocalBlobs`]), or an object store ([`RemoteBlobs`]); [`at`] chooses, and [`claim`] sees that it is
//! no other store's.
//!
//! A segment's file is written once, from front to back, and never changed: [`Blobs::create`], [`BlobWriter::write`] as often as
//! need be, [`BlobWriter::finish`]. What `finish` has said is there lasts, name and bytes, and only then may a manifest name it.
//! A writer that is dropped without `finish` leaves nothing, or a file that no manifest names. Reads take any part of a file.
//!
//! A finish that fails says nothing: the file may be there all the same. Its name is not used again; start-up removes what no
//! manifest names.
//!
//! Every call blocks. Callers are on threads of their own or on tokio's blocking ones.

mod local;
mod owner;
mod remote;

pub(crate) use local::{LocalBlobs, no_space_or};
pub(crate) use owner::claim;
pub(crate) use remote::RemoteBlobs;

use crate::{Error, Result, fs::Fs};
use bytes::Bytes;
use std::{
    fmt::Debug,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};
use url::Url;

/// The folder of local segments in the store's.
pub(crate) const FOLDER: &str = "seg";

/// A place for files.
pub(crate) trait Blobs: Send + Sync + Debug + 'static {
    /// Begins a file, in place of one that is there. The name has no folder in it.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`].
    fn create(&self, name: &str) -> Result<Box<dyn BlobWriter>>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is not there, since whoever asks has read in a manifest that it is; [`Error::Io`].
    fn open(&self, name: &str) -> Result<Arc<dyn Blob>>;

    /// Removes a file for good; nothing if it is not there. One that is open for reading may become unreadable.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn delete(&self, name: &str) -> Result<()>;

    /// The finished files, and perhaps unfinished ones: names, ascending, and bytes.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn list(&self) -> Result<Vec<(String, u64)>>;

    /// Where this is, for people.
    fn describe(&self) -> String;
}

/// A file being written.
pub(crate) trait BlobWriter: Send {
    /// Appends bytes. Writers gather them: pieces may be small.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`]: the file is not going to be.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Makes the file last. Gives its bytes.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`]: the file is there or not.
    fn finish(self: Box<Self>) -> Result<u64>;
}

/// A file that is read.
pub(crate) trait Blob: Send + Sync + Debug {
    /// Its bytes.
    fn size(&self) -> u64;

    /// Reads exactly `bytes` bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the file ends before, [`Error::Io`].
    fn read_at(&self, offset: u64, bytes: usize) -> Result<Bytes>;

    /// Reads several parts, given as ascending and disjoint ranges; all at once where each read [takes long](Self::is_remote).
    ///
    /// # Errors
    /// Those of [`read_at`](Self::read_at).
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().map(|range| self.read_at(range.start, (range.end - range.start) as usize)).collect()
    }

    /// Whether a read takes so long, be it of a few bytes, that many parts should be read at once.
    fn is_remote(&self) -> bool {
        false
    }

    /// Where it is, for errors.
    fn path(&self) -> PathBuf;
}

/// The place that a store's options name: a URL, or without one a folder in the store's own.
///
/// # Errors
/// [`Error::Invalid`] for a URL of no place that is known, [`Error::NoSpace`], [`Error::Io`].
pub(crate) fn at(segments: Option<&Url>, store: &Path, fs: &Arc<dyn Fs>) -> Result<Arc<dyn Blobs>> {
    let folder = match segments {
        None => store.join(FOLDER),
        // Not the object store's own file store, which syncs nothing.
        Some(url) if url.scheme() == "file" => {
            url.to_file_path().map_err(|()| Error::Invalid(format!("{url} names no folder of this machine")))?
        }
        Some(url) => return Ok(Arc::new(RemoteBlobs::connect(url)?)),
    };
    Ok(Arc::new(LocalBlobs::new(fs.clone(), folder)?))
}

/// The error of a file that ought to be there.
pub(crate) fn missing(path: &Path) -> Error {
    Error::Corrupt { path: path.to_owned(), offset: 0, detail: "the file is missing".into() }
}

/// The error of a file that is shorter than it ought to be.
pub(crate) fn too_short(path: &Path, size: u64, wanted: u64) -> Error {
    let detail = format!("the file ends here, {wanted} bytes were expected");
    Error::Corrupt { path: path.to_owned(), offset: size, detail }
}

#[cfg(test)]
mod tests;
