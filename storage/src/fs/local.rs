//! The machine's own file system. What is made is for the user of the process alone, whatever the umask: rows of
//! tenants and secrets of roles are in it.

use super::{File, Fs};
use rustix::{
    fs::{FallocateFlags, FlockOperation, fallocate, fdatasync, flock},
    io::Errno,
};
use std::{
    any::Any,
    fs, io,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::Path,
};

/// The mode of folders that are made.
const FOLDER_MODE: u32 = 0o700;
/// The mode of files that are made.
const FILE_MODE: u32 = 0o600;
/// Zeroes written at once where the file system cannot allocate.
const ZEROES_BYTES: usize = 1 << 20;

/// The machine's own file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalFs;

#[derive(Debug)]
struct LocalFile(fs::File);

impl Fs for LocalFs {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        let above = match path.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            _ => Path::new("."),
        };
        self.create_folder(above)?;
        match fs::DirBuilder::new().mode(FOLDER_MODE).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.sync_folder(above)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn File>> {
        let mut options = fs::File::options();
        let options = options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
        let file = options.open(path)?;
        let file = LocalFile(file);
        file.allocate(bytes)?;
        Ok(Box::new(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(LocalFile(fs::File::options().read(true).write(true).open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let mut options = fs::File::options();
        let options = options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = options.open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(Locked(file)))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A file that is locked until this is dropped.
///
/// Closing it would not be enough: a child process has the descriptor too from `fork` to `exec`, and a lock lasts as
/// long as any of them (flock(2)).
struct Locked(fs::File);

impl Drop for Locked {
    fn drop(&mut self) {
        // It ends with the last descriptor at the latest.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl File for LocalFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        let mut filled = 0;
        while filled < bytes {
            match self.0.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buffer.truncate(filled);
        Ok(buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let size = self.size()?;
        if bytes <= size {
            return Ok(());
        }
        loop {
            match fallocate(&self.0, FallocateFlags::empty(), 0, bytes) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let zeroes = vec![0; ZEROES_BYTES];
        let mut at = size;
        while at < bytes {
            let part = usize::try_from(bytes - at).map_or(ZEROES_BYTES, |left| left.min(ZEROES_BYTES));
            self.write_at(at, &zeroes[..part])?;
            at += part as u64;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        loop {
            match fdatasync(&self.0) {
                Err(Errno::INTR) => {}
                done => return Ok(done?),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_allocated_written_and_read() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        LocalFs.create_folder(&inner).unwrap();
        LocalFs.create_folder(&inner).unwrap();
        let path = inner.join("x");
        let file = LocalFs.create(&path, 10).unwrap();
        file.write_at(3, b"abc").unwrap();
        file.sync().unwrap();
        LocalFs.sync_folder(&inner).unwrap();
        assert_eq!(LocalFs.open(&path).unwrap().read_at(0, 20).unwrap(), b"\0\0\0abc\0\0\0\0");
        file.allocate(12).unwrap();
        assert_eq!(file.size().unwrap(), 12);
        LocalFs.rename(&path, &inner.join("y")).unwrap();
        assert_eq!(LocalFs.list(&inner).unwrap(), ["y"]);
        LocalFs.unlink(&inner.join("y")).unwrap();
        assert_eq!(LocalFs.open(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_lock_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("LOCK");
        let held = LocalFs.lock(&path).unwrap();
        assert!(held.is_some() && LocalFs.lock(&path).unwrap().is_none());
        drop(held);
        assert!(LocalFs.lock(&path).unwrap().is_some());
    }

    /// Found by a store that was opened again while another thread started a process.
    #[test]
    fn a_lock_ends_though_a_child_process_has_its_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("LOCK");
        let held = LocalFs.lock(&path).unwrap().unwrap();
        // What a child has between fork and exec: the same open file.
        let inherited = held.downcast_ref::<Locked>().unwrap().0.try_clone().unwrap();
        assert!(LocalFs.lock(&path).unwrap().is_none());
        drop(held);
        assert!(LocalFs.lock(&path).unwrap().is_some());
        drop(inherited);
    }
}
