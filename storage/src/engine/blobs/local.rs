//! Segment files in a folder of a local disk.
//!
//! A file is written under its final name. No manifest names a file that a crash left unfinished, so it is never taken
//! for complete. [`finish`](BlobWriter::finish) syncs the file, then the folder. The local store of `object_store`
//! syncs nothing, hence this one.

use super::{Blob, BlobWriter, Blobs, missing, too_short};
use crate::{
    Error, Result,
    engine::log::failed,
    fs::{File, Fs, is_no_space},
};
use bytes::Bytes;
use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Bytes buffered before they are written to a file.
const WRITE_BYTES: usize = 256 << 10;
/// Bytes after which a file is synced while it is written: syncing a large file at once would delay the log's syncs.
const SYNC_BYTES: u64 = 8 << 20;

/// A folder of segment files.
#[derive(Debug)]
pub(crate) struct LocalBlobs {
    fs: Arc<dyn Fs>,
    folder: PathBuf,
}

impl LocalBlobs {
    /// Opens a folder, and creates it if it is missing.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`].
    pub(crate) fn new(fs: Arc<dyn Fs>, folder: PathBuf) -> Result<Self> {
        fs.create_folder(&folder).map_err(|source| no_space_or("create", &folder, source))?;
        Ok(Self { fs, folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        debug_assert!(Path::new(name).components().count() == 1, "{name:?} is not the name of a file");
        self.folder.join(name)
    }
}

/// The error of a call that needs disk space.
pub(crate) fn no_space_or(action: &'static str, path: &Path, source: io::Error) -> Error {
    match is_no_space(&source) {
        true => Error::NoSpace { path: path.to_owned() },
        false => failed(action, path, source),
    }
}

impl Blobs for LocalBlobs {
    fn create(&self, name: &str) -> Result<Box<dyn BlobWriter>> {
        let path = self.path(name);
        // Not preallocated: the size of a segment is known only when it is written.
        let file = self.fs.create(&path, 0).map_err(|source| no_space_or("create", &path, source))?;
        Ok(Box::new(LocalWriter {
            fs: self.fs.clone(),
            folder: self.folder.clone(),
            path,
            file,
            written: 0,
            synced: 0,
            buffer: Vec::new(),
            finished: false,
        }))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Blob>> {
        let path = self.path(name);
        let file = match self.fs.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing(&path)),
            Err(source) => return Err(failed("open", &path, source)),
        };
        let size = file.size().map_err(|source| failed("read", &path, source))?;
        Ok(Arc::new(LocalBlob { path, file, size }))
    }

    fn delete(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        match self.fs.unlink(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(failed("unlink", &path, source)),
            _ => {}
        }
        // Even if it was missing: a removal before a crash may not be durable yet.
        self.fs.sync_folder(&self.folder).map_err(|source| failed("sync", &self.folder, source))
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        let names = self.fs.list(&self.folder).map_err(|source| failed("list", &self.folder, source))?;
        let sized = names.into_iter().map(|name| {
            let path = self.path(&name);
            let size = self.fs.open(&path).and_then(|file| file.size());
            Ok((name, size.map_err(|source| failed("read", &path, source))?))
        });
        sized.collect()
    }

    fn describe(&self) -> String {
        self.folder.display().to_string()
    }
}

struct LocalWriter {
    fs: Arc<dyn Fs>,
    folder: PathBuf,
    path: PathBuf,
    file: Box<dyn File>,
    /// Bytes in the file, and how many of them are synced.
    written: u64,
    synced: u64,
    /// Bytes to be written after those.
    buffer: Vec<u8>,
    finished: bool,
}

impl LocalWriter {
    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = self.file.write_at(self.written, &self.buffer);
        written.map_err(|source| no_space_or("write", &self.path, source))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        if self.written - self.synced >= SYNC_BYTES {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        // With delayed allocation, only the sync finds that the disk is full.
        self.file.sync().map_err(|source| no_space_or("sync", &self.path, source))?;
        self.synced = self.written;
        Ok(())
    }
}

impl fmt::Debug for LocalWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalWriter").field("path", &self.path).field("written", &self.written).finish_non_exhaustive()
    }
}

impl BlobWriter for LocalWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        for part in bytes.chunks(WRITE_BYTES) {
            if self.buffer.len() + part.len() > WRITE_BYTES {
                self.flush()?;
            }
            self.buffer.extend_from_slice(part);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<u64> {
        self.flush()?;
        self.sync()?;
        self.fs.sync_folder(&self.folder).map_err(|source| no_space_or("sync", &self.folder, source))?;
        self.finished = true;
        Ok(self.written)
    }
}

impl Drop for LocalWriter {
    /// Frees the space of an unfinished file.
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        if let Err(error) = self.fs.unlink(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "an unfinished file was not removed; the next start does it");
        }
    }
}

#[derive(Debug)]
struct LocalBlob {
    path: PathBuf,
    file: Box<dyn File>,
    size: u64,
}

impl Blob for LocalBlob {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, bytes: usize) -> Result<Bytes> {
        let read = self.file.read_at(offset, bytes).map_err(|source| failed("read", &self.path, source))?;
        if read.len() < bytes {
            return Err(too_short(&self.path, offset + read.len() as u64, offset.saturating_add(bytes as u64)));
        }
        Ok(Bytes::from(read))
    }

    fn path(&self) -> PathBuf {
        self.path.clone()
    }
}
