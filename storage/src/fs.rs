//! The file operations that durability depends on, as a trait.
//!
//! The trait is deliberately small: the engine's promise (acknowledged means synced) is only as good as the calls that
//! it makes. [`LocalFs`] makes them on the machine. The simulated file system of the tests models a crash between them:
//! a file's bytes are durable only after [`File::sync`], and a folder's entry (a creation, a rename or an unlink) only
//! after [`Fs::sync_folder`].
//!
//! Every call blocks. The engine makes them on threads of its own, never on those of tokio.

mod local;
mod read_only;

pub use local::LocalFs;
pub use read_only::ReadOnlyFs;

use std::{any::Any, fmt, io, path::Path};

/// A file system. Errors are those of the operating system; no space left is [`io::ErrorKind::StorageFull`] or
/// [`io::ErrorKind::QuotaExceeded`].
pub trait Fs: Send + Sync + fmt::Debug + 'static {
    /// Creates a folder and its missing parents, synced; does nothing if it exists.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// The names in a folder, sorted.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Creates a file of `bytes` zeroes with allocated disk space, replacing an existing one.
    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn File>>;

    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Renames a file, replacing one with the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, renames and unlinks in the folder durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    /// Creates the file and locks it until the guard is dropped. `None` if it is locked already.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>>;
}

/// An open file.
pub trait File: Send + Sync + fmt::Debug + 'static {
    /// Its length in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Reads `bytes` bytes starting at `offset`; fewer only at the end of the file.
    fn read_at(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>>;

    /// Writes all of the bytes starting at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Extends the file to at least this length, with zeroes and allocated disk space.
    fn allocate(&self, bytes: u64) -> io::Result<()>;

    /// Makes written bytes and the length durable.
    fn sync(&self) -> io::Result<()>;
}

/// Whether the error says that the disk, or the user's quota, is full.
pub fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
