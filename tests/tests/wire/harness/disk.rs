//! A small disk: the machine's file system, with room for so many bytes.

use keyspan_storage::fs::{File, Fs, LocalFs};
use std::{
    any::Any,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

/// The disk. Clones are the same one. Room is taken by the length of files, and given back when they go.
#[derive(Clone, Debug)]
pub struct SmallDisk {
    left: Arc<AtomicI64>,
}

impl SmallDisk {
    /// A disk with room for so many bytes.
    pub fn new(bytes: i64) -> Self {
        Self { left: Arc::new(AtomicI64::new(bytes)) }
    }

    /// Makes it larger.
    pub fn add(&self, bytes: i64) {
        self.left.fetch_add(bytes, Ordering::SeqCst);
    }

    fn take(&self, bytes: i64) -> io::Result<()> {
        let taken = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            Some(left - bytes).filter(|left| bytes <= 0 || *left >= 0)
        });
        taken.map(drop).map_err(|_| io::ErrorKind::StorageFull.into())
    }

    fn size(path: &Path) -> i64 {
        std::fs::metadata(path).map_or(0, |metadata| metadata.len() as i64)
    }
}

impl Fs for SmallDisk {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        LocalFs.create_folder(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        LocalFs.list(folder)
    }

    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn File>> {
        self.take(bytes as i64 - Self::size(path))?;
        Ok(Box::new(SmallFile { disk: self.clone(), file: LocalFs.create(path, bytes)? }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(SmallFile { disk: self.clone(), file: LocalFs.open(path)? }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let replaced = Self::size(to);
        LocalFs.rename(from, to)?;
        self.take(-replaced)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let gone = Self::size(path);
        LocalFs.unlink(path)?;
        self.take(-gone)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        LocalFs.sync_folder(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        LocalFs.lock(path)
    }
}

#[derive(Debug)]
struct SmallFile {
    disk: SmallDisk,
    file: Box<dyn File>,
}

impl SmallFile {
    fn grow(&self, to: u64) -> io::Result<()> {
        self.disk.take((to as i64 - self.file.size()? as i64).max(0))
    }
}

impl File for SmallFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        self.file.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.grow(offset + bytes.len() as u64)?;
        self.file.write_at(offset, bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.grow(bytes)?;
        self.file.allocate(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}
