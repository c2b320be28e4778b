//! The machine's file system, of which nothing is changed: for a backup that is read where it lies, perhaps on a medium
//! that cannot be written.

use super::{File, Fs};
use std::{any::Any, fs, io, os::unix::fs::FileExt, path::Path};

/// The machine's file system, for reading. Every change is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOnlyFs;

#[derive(Debug)]
struct ReadOnlyFile(fs::File);

fn refused<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "it is open for reading only"))
}

impl Fs for ReadOnlyFs {
    /// Does nothing if the folder exists.
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() { Ok(()) } else { refused() }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        super::LocalFs.list(folder)
    }

    fn create(&self, _: &Path, _: u64) -> io::Result<Box<dyn File>> {
        refused()
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(ReadOnlyFile(fs::File::open(path)?)))
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        refused()
    }

    fn unlink(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        refused()
    }
}

impl File for ReadOnlyFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let left = self.size()?.saturating_sub(offset);
        let bytes = bytes.min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut buffer = vec![0; bytes];
        let mut read = 0;
        while read < bytes {
            match self.0.read_at(&mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buffer.truncate(read);
        Ok(buffer)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        refused()
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        refused()
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
