//! A file system in memory that forgets unsynced changes in a crash.
//!
//! [`SimFs`] separates two views, like disks: what the running program sees, and what remains after a crash. A file's
//! bytes and length become durable at [`File::sync`], the entries of a folder at [`Fs::sync_folder`]. Every call is
//! counted and named. After the call that a test chooses ([`SimFs::stop_after`]) all calls fail, as if the machine had
//! stopped there. [`SimFs::crashed`] then returns the file system that the next start finds: everything durable, and of
//! the rest what a seed picks: none, some or all of the unsynced writes, each whole or cut, in any order; some or none
//! of the unsynced entries.
//!
//! Faults can be injected too: a sync that fails (and forgets what it should have written), an allocation or a write
//! past the end of a file without space, a sync that waits.

use crate::fs::{File, Fs};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// In every other crash, writes are cut at multiples of this number of bytes; in the others they are cut anywhere.
const SECTOR_BYTES: usize = 512;

/// A simulated file system. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct SimFs(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    disk: Mutex<Disk>,
    released: Condvar,
}

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The name of the call.
    pub name: &'static str,
    /// Its path.
    pub path: PathBuf,
}

#[derive(Debug, Default)]
struct Disk {
    /// Files, by their index in this list.
    files: Vec<Contents>,
    /// The program's view: each path's file, or `None` for a folder.
    seen: BTreeMap<PathBuf, Option<usize>>,
    /// The state after a crash.
    lasting: BTreeMap<PathBuf, Option<usize>>,
    locks: BTreeSet<PathBuf>,
    calls: Vec<Call>,
    stop_after: Option<usize>,
    faults: Faults,
}

#[derive(Clone, Debug, Default)]
struct Faults {
    /// How many more syncs succeed; `None` for all.
    syncs_left: Option<usize>,
    /// Whether one has failed.
    sync_has_failed: bool,
    /// How many more times files may grow; `None` for no limit.
    growths_left: Option<usize>,
    /// Syncs of files below it wait.
    sync_waits_in: Option<PathBuf>,
    /// Whether one has waited since.
    sync_has_waited: bool,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    seen: Vec<u8>,
    lasting: Vec<u8>,
    /// Changes since the last sync.
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Length(usize),
    Bytes(usize, Vec<u8>),
}

#[derive(Debug)]
struct SimFile {
    fs: SimFs,
    path: PathBuf,
    file: usize,
}

/// Releases the lock when it is dropped.
#[derive(Debug)]
struct Lock {
    fs: SimFs,
    path: PathBuf,
}

/// Releases syncs when it is dropped.
#[derive(Debug)]
pub struct HeldSyncs(SimFs);

impl SimFs {
    /// An empty file system.
    pub fn new() -> Self {
        Self::default()
    }

    /// The calls so far, including failed ones.
    pub fn calls(&self) -> Vec<Call> {
        self.disk().calls.clone()
    }

    /// How many calls of a name were made.
    pub fn count(&self, name: &str) -> usize {
        self.disk().calls.iter().filter(|call| call.name == name).count()
    }

    /// Lets this number of calls succeed, then none.
    pub fn stop_after(&self, calls: usize) {
        self.disk().stop_after = Some(calls);
    }

    /// Lets no call succeed from now on.
    pub fn stop(&self) {
        let mut disk = self.disk();
        disk.stop_after = Some(disk.calls.len());
    }

    /// Lets calls succeed again: only the program was killed, and its writes are still in the machine's memory.
    pub fn go_on(&self) {
        self.disk().stop_after = None;
    }

    /// Whether the last allowed call was made.
    pub fn is_stopped(&self) -> bool {
        let disk = self.disk();
        disk.stop_after.is_some_and(|calls| disk.calls.len() >= calls)
    }

    /// Makes syncs of files and folders fail, or succeed again.
    pub fn fail_syncs(&self, fail: bool) {
        self.disk().faults.syncs_left = fail.then_some(0);
    }

    /// Lets this number of syncs of files and folders succeed; later ones fail, until a call of
    /// [`fail_syncs`](Self::fail_syncs).
    pub fn fail_syncs_after(&self, syncs: usize) {
        let faults = &mut self.disk().faults;
        (faults.syncs_left, faults.sync_has_failed) = (Some(syncs), false);
    }

    /// Whether a sync has failed.
    pub fn has_failed_syncs(&self) -> bool {
        self.disk().faults.sync_has_failed
    }

    /// Fills the disk for allocations and writes past the end of a file, or frees it.
    pub fn fill_disk(&self, full: bool) {
        self.disk().faults.growths_left = full.then_some(0);
    }

    /// Lets files grow this number of times; after that there is no space, until a call of
    /// [`fill_disk`](Self::fill_disk).
    pub fn fill_disk_after(&self, growths: usize) {
        self.disk().faults.growths_left = Some(growths);
    }

    /// Whether a file that grew now would find no space.
    pub fn is_full(&self) -> bool {
        self.disk().faults.growths_left == Some(0)
    }

    /// Makes the syncs of files wait until the guard is dropped.
    pub fn hold_syncs(&self) -> HeldSyncs {
        self.hold_syncs_in(Path::new(""))
    }

    /// Makes the syncs of files below a folder wait until the guard is dropped. One such hold at a time.
    pub fn hold_syncs_in(&self, folder: &Path) -> HeldSyncs {
        let faults = &mut self.disk().faults;
        (faults.sync_waits_in, faults.sync_has_waited) = (Some(folder.to_owned()), false);
        // Syncs that waited in another folder continue.
        self.0.released.notify_all();
        HeldSyncs(self.clone())
    }

    /// Releases all waiting syncs.
    pub fn release_syncs(&self) {
        self.disk().faults.sync_waits_in = None;
        self.0.released.notify_all();
    }

    /// The file system that the next start finds if the machine stops now.
    pub fn crashed(&self, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let disk = self.disk();
        let files = disk.files.iter().map(|file| Contents::lasting(file.after_crash(&mut random))).collect();
        let mut entries = disk.lasting.clone();
        let keeps_entries = random.random_bool(0.5);
        let paths: BTreeSet<&PathBuf> = disk.seen.keys().chain(disk.lasting.keys()).collect();
        for path in paths {
            if keeps_entries && random.random_bool(0.5) {
                match disk.seen.get(path) {
                    Some(&entry) => entries.insert(path.clone(), entry),
                    None => entries.remove(path),
                };
            }
        }
        // Entries of a folder that is not there are lost.
        let folders: BTreeSet<PathBuf> =
            entries.iter().filter(|(_, entry)| entry.is_none()).map(|(path, _)| path.clone()).collect();
        let is_there = |path: &Path| path.ancestors().skip(1).all(|above| is_root(above) || folders.contains(above));
        entries.retain(|path, _| is_there(path));
        let next = Disk { files, seen: entries.clone(), lasting: entries, ..Disk::default() };
        Self(Arc::new(Shared { disk: Mutex::new(next), released: Condvar::new() }))
    }

    /// The content of a file, synced or not.
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.disk();
        let file = disk.seen.get(path).copied().flatten()?;
        Some(disk.files[file].seen.clone())
    }

    /// Changes a file behind the program's back, durably.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut disk = self.disk();
        let file = disk.seen.get(path).copied().flatten().expect("the file to damage is there");
        let contents = &mut disk.files[file];
        change(&mut contents.seen);
        *contents = Contents::lasting(contents.seen.clone());
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, and fails it if the machine has stopped.
    fn call(&self, name: &'static str, path: &Path) -> io::Result<MutexGuard<'_, Disk>> {
        let mut disk = self.disk();
        if disk.stop_after.is_some_and(|calls| disk.calls.len() >= calls) {
            return Err(io::Error::other("the simulated machine has stopped"));
        }
        disk.calls.push(Call { name, path: path.to_owned() });
        Ok(disk)
    }
}

fn is_root(path: &Path) -> bool {
    path.parent().is_none() || path.as_os_str().is_empty()
}

impl Disk {
    /// Counts the growth of a file.
    fn grow(&mut self) -> io::Result<()> {
        match &mut self.faults.growths_left {
            Some(0) => Err(io::ErrorKind::StorageFull.into()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Counts a sync.
    fn may_sync(&mut self) -> io::Result<()> {
        match &mut self.faults.syncs_left {
            Some(0) => {
                self.faults.sync_has_failed = true;
                Err(io::Error::other("a simulated fault"))
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn file(&self, path: &Path) -> io::Result<usize> {
        self.seen.get(path).copied().flatten().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn check_folder_of(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(above) if !is_root(above) && self.seen.get(above) != Some(&None) => {
                Err(io::ErrorKind::NotFound.into())
            }
            _ => Ok(()),
        }
    }

    /// Makes the entries of one folder durable.
    fn sync_entries(&mut self, folder: &Path) {
        let Self { seen, lasting, .. } = self;
        lasting.retain(|path, _| path.parent() != Some(folder) || seen.contains_key(path));
        for (path, &entry) in seen.iter().filter(|(path, _)| path.parent() == Some(folder)) {
            lasting.insert(path.clone(), entry);
        }
    }
}

impl Contents {
    fn lasting(bytes: Vec<u8>) -> Self {
        Self { seen: bytes.clone(), lasting: bytes, pending: Vec::new() }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.seen);
        self.pending.push(change);
    }

    fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.lasting);
        }
    }

    /// The content after a crash.
    fn after_crash(&self, random: &mut StdRng) -> Vec<u8> {
        let mut bytes = self.lasting.clone();
        let chance = [0.0, 0.3, 0.7, 1.0][random.random_range(0..4)];
        let sectors = random.random_bool(0.5);
        for change in &self.pending {
            match change {
                Change::Bytes(at, written) if random.random_bool(chance) => {
                    let unit = if sectors { SECTOR_BYTES } else { 1 };
                    let whole = random.random_bool(0.3);
                    for (part, sector) in written.chunks(SECTOR_BYTES).enumerate() {
                        if !whole && random.random_bool(0.3) {
                            continue;
                        }
                        let kept = if whole || unit > 1 { sector.len() } else { random.random_range(0..=sector.len()) };
                        Change::Bytes(at + part * SECTOR_BYTES, sector[..kept].to_vec()).apply(&mut bytes);
                    }
                }
                Change::Length(_) if random.random_bool(chance) => change.apply(&mut bytes),
                _ => {}
            }
        }
        bytes
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Length(length) => bytes.resize(*length, 0),
            Self::Bytes(at, written) => {
                let end = at + written.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*at..end].copy_from_slice(written);
            }
        }
    }
}

impl Fs for SimFs {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        if is_root(path) || self.disk().seen.get(path) == Some(&None) {
            return Ok(());
        }
        let above = path.parent().unwrap_or(Path::new(""));
        self.create_folder(above)?;
        self.call("create_folder", path)?.seen.insert(path.to_owned(), None);
        self.sync_folder(above)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let disk = self.call("list", folder)?;
        let inside = disk.seen.keys().filter(|path| path.parent() == Some(folder));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn File>> {
        let mut disk = self.call("create", path)?;
        disk.check_folder_of(path)?;
        let file = disk.files.len();
        disk.files.push(Contents::default());
        disk.seen.insert(path.to_owned(), Some(file));
        disk.grow()?;
        disk.files[file].change(Change::Length(usize::try_from(bytes).expect("simulated files are small")));
        Ok(Box::new(SimFile { fs: self.clone(), path: path.to_owned(), file }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = self.call("open", path)?.file(path)?;
        Ok(Box::new(SimFile { fs: self.clone(), path: path.to_owned(), file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.call("rename", from)?;
        let file = disk.file(from)?;
        disk.check_folder_of(to)?;
        disk.seen.remove(from);
        disk.seen.insert(to.to_owned(), Some(file));
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.call("unlink", path)?;
        disk.file(path)?;
        disk.seen.remove(path);
        Ok(())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.call("sync_folder", path)?;
        disk.may_sync()?;
        disk.sync_entries(path);
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let mut disk = self.call("lock", path)?;
        disk.check_folder_of(path)?;
        if !disk.seen.contains_key(path) {
            disk.files.push(Contents::default());
            let file = disk.files.len() - 1;
            disk.seen.insert(path.to_owned(), Some(file));
        }
        Ok(disk.locks.insert(path.to_owned()).then(|| Box::new(Lock { fs: self.clone(), path: path.to_owned() }) as _))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.fs.disk().locks.remove(&self.path);
    }
}

impl HeldSyncs {
    /// Whether a sync waits, or has waited.
    pub fn has_met(&self) -> bool {
        self.0.disk().faults.sync_has_waited
    }
}

impl Drop for HeldSyncs {
    fn drop(&mut self) {
        self.0.release_syncs();
    }
}

impl File for SimFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.fs.call("size", &self.path)?.files[self.file].seen.len() as u64)
    }

    fn read_at(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let disk = self.fs.call("read", &self.path)?;
        let seen = &disk.files[self.file].seen;
        let start = usize::try_from(offset).expect("simulated files are small").min(seen.len());
        Ok(seen[start..(start + bytes).min(seen.len())].to_vec())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.fs.call("write", &self.path)?;
        let offset = usize::try_from(offset).expect("simulated files are small");
        if offset + bytes.len() > disk.files[self.file].seen.len() {
            disk.grow()?;
        }
        disk.files[self.file].change(Change::Bytes(offset, bytes.to_vec()));
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut disk = self.fs.call("allocate", &self.path)?;
        let bytes = usize::try_from(bytes).expect("simulated files are small");
        if disk.files[self.file].seen.len() < bytes {
            disk.grow()?;
            disk.files[self.file].change(Change::Length(bytes));
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.fs.call("sync", &self.path)?;
        while disk.faults.sync_waits_in.as_ref().is_some_and(|folder| self.path.starts_with(folder)) {
            disk.faults.sync_has_waited = true;
            disk = self.fs.0.released.wait(disk).unwrap_or_else(PoisonError::into_inner);
        }
        if let Err(error) = disk.may_sync() {
            // As on Linux: unwritten changes are forgotten, though still visible, and no later sync writes them.
            disk.files[self.file].pending.clear();
            return Err(error);
        }
        disk.files[self.file].sync();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_synced_lasts_for_certain() {
        let (folder, path) = (Path::new("/a"), Path::new("/a/x"));
        let fs = SimFs::new();
        fs.create_folder(folder).unwrap();
        let file = fs.create(path, 4).unwrap();
        file.write_at(0, b"old").unwrap();
        file.sync().unwrap();
        let found: BTreeSet<_> = (0..64).map(|seed| fs.crashed(seed).read(path)).collect();
        assert_eq!(found, BTreeSet::from([None, Some(b"old\0".to_vec())]), "an entry that was not synced");
        fs.sync_folder(folder).unwrap();
        file.write_at(0, b"new").unwrap();
        let found: BTreeSet<_> = (0..256).map(|seed| fs.crashed(seed).read(path).unwrap()).collect();
        assert!(found.contains(&b"old\0"[..]) && found.contains(&b"new\0"[..]) && found.len() > 2, "{found:?}");
        file.sync().unwrap();
        assert!((0..64).all(|seed| fs.crashed(seed).read(path).unwrap() == b"new\0"));
    }

    #[test]
    fn a_stopped_machine_does_nothing_more() {
        let fs = SimFs::new();
        fs.stop_after(1);
        let file = fs.create(Path::new("/x"), 0).unwrap();
        assert!(file.write_at(0, b"a").is_err() && fs.is_stopped());
        assert_eq!(fs.count("write") + fs.count("create"), 1);
    }

    #[test]
    fn a_full_disk_refuses_what_grows_and_nothing_else() {
        let fs = SimFs::new();
        fs.fill_disk_after(2);
        let file = fs.create(Path::new("/x"), 4).unwrap();
        file.write_at(2, b"abc").unwrap();
        assert!(fs.is_full());
        file.write_at(0, b"12345").unwrap();
        let no_space = |error: io::Error| assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        no_space(file.write_at(1, b"12345").unwrap_err());
        no_space(file.allocate(6).unwrap_err());
        no_space(fs.create(Path::new("/y"), 1).unwrap_err());
        file.sync().unwrap();
        fs.fill_disk(false);
        file.write_at(5, b"6").unwrap();
        assert_eq!(fs.read(Path::new("/x")).unwrap(), b"123456");
    }
}
