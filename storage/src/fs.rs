//! The file calls that durability rests on, behind a trait.
//!
//! What is here is small on purpose: the engine's own promise (acknowledged means synced) is only as good as the calls that it
//! makes, so each of them stands in [`Fs`], [`LocalFs`] makes it on the machine, and the simulated file system of the tests
//! takes it apart: there a file's bytes last only after [`File::sync`], and an entry of a folder (made by a creation, a rename
//! or an unlink) only after [`Fs::sync_folder`].
//!
//! Every call blocks. The engine makes them on threads of its own, never on those of tokio.

mod local;

pub use local::LocalFs;

use std::{any::Any, fmt, io, path::Path};

/// A file system. Errors are those of the operating system; no space left is [`io::ErrorKind::StorageFull`] or
/// [`io::ErrorKind::QuotaExceeded`].
pub trait Fs: Send + Sync + fmt::Debug + 'static {
    /// Makes a folder and those above it, synced; nothing if it is there.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// The names in a folder, sorted.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Makes a file of `bytes` zeroes with its room on the disk allocated, in place of one that is there.
    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn File>>;

    /// Opens a file that is there, for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Gives a file a new name, in place of what bore it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, renames and unlinks in the folder last.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    /// Takes the lock that the file stands for, making the file; held until the guard is dropped. `None` when it is taken.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>>;
}

/// An open file.
pub trait File: Send + Sync + fmt::Debug + 'static {
    /// Its length in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Reads `bytes` bytes from `offset` on; fewer only at the end of the file.
    fn read_at(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>>;

    /// Writes all of the bytes from `offset` on.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file at least this long, the new part zeroes with its room on the disk allocated.
    fn allocate(&self, bytes: u64) -> io::Result<()>;

    /// Makes the bytes written, and the length, last.
    fn sync(&self) -> io::Result<()>;
}

/// Whether the error says that the disk, or what the user may have of it, is full.
pub fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
