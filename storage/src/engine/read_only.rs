//! A store that is only read, where it lies: a backup, or the store of another process ([`ReadOnlyStore`]).
//!
//! 1. Read the manifest in force, and open the files of its segments: an open file stays readable when it is removed.
//! 2. Read the deletion vectors, and replay the log into memtables. Nothing is changed: a frame that was not written
//!    whole at the end of the log is passed over.
//! 3. If another manifest is in force by now, files may have been removed before they were opened: repeat from 1.
//!
//! So the state is that of the store at one time during the last turn. It takes as much memory as the other store's
//! memtables, which are in its log. Segments of an object store are not held: if their owner removes one, reads fail.

use super::{
    apply,
    blobs::{Blob, BlobWriter, Blobs},
    coordination::Coordination,
    files::StoreFiles,
    manifest::{Manifest, Manifests, SegmentMeta},
    open,
    pins::Pins,
    read::{HistoryReader, Parts, Reading},
    recover,
    row_cache::RowCache,
    segment::{Caches, Segment},
    state::State,
    work::Work,
    writer::Shared,
};
use crate::{
    CheckAndMutate, Clock, Commit, Error, FamilyChange, Pin, ReadModifyWrite, Result, Row, RowKey, RowMutation,
    RowSample, RowStream, Scan, Store, TableName, TableSchema, clock::HybridClock, fs::ReadOnlyFs, store::Promises,
    store::failed,
};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64},
    },
};
use url::Url;

/// Maximum number of turns while the store changes.
const TURNS_MAX: usize = 64;
/// Turns in which an error counts as a write in progress, not as damage.
const LOOKS_MAX: usize = 8;
/// Bytes of the caches of segments' tails, and of pages.
const CACHE_BYTES: u64 = 8 << 20;
/// Bytes of the cache of rows.
const ROW_CACHE_BYTES: u64 = 1 << 20;

/// A store that is open for reading, in one state.
#[derive(Debug)]
pub struct ReadOnlyStore {
    shared: Arc<Shared>,
    is_local: bool,
}

impl ReadOnlyStore {
    /// Opens the store in a folder; its segments are there, or at `segments`. Blocks.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a folder without a store; [`Error::Corrupt`] for a damaged one; [`Error::Io`];
    /// [`Error::Unavailable`] if the store changes faster than it can be opened.
    pub fn open(path: impl Into<PathBuf>, segments: Option<Url>, clock: Box<dyn Clock>) -> Result<Arc<Self>> {
        let mut files = StoreFiles::new(path, segments);
        files.fs = Arc::new(ReadOnlyFs);
        files.check_is_store()?;
        let mut looks = 0;
        for _ in 0..TURNS_MAX {
            let (manifests, manifest) = files.load()?;
            let state = state_of(&files, &manifests, &manifest);
            if files.load()?.1.version != manifest.version {
                continue;
            }
            match state {
                Err(Error::Corrupt { .. }) if looks < LOOKS_MAX => looks += 1,
                state => {
                    let is_local = !blobs_of(&files)?.1;
                    return Ok(Arc::new(Self { shared: shared(state?, clock), is_local }));
                }
            }
        }
        Err(Error::Unavailable(format!("{} changes faster than it can be read", files.path.display())))
    }

    fn pin_now(&self) -> Pin {
        let (state, now_micros) = (self.shared.published.load_full(), self.shared.clock.now());
        Pin { commit_micros: state.stamp, now_micros, state: self.shared.pins.hold(state, now_micros, false) }
    }

    fn begin_scan(&self, table: &TableName, scan: Scan) -> Result<RowStream> {
        scan.check()?;
        let pin = scan.pin.clone().unwrap_or_else(|| self.pin_now());
        let held = apply::pinned_state(&pin)?;
        let state = held.state()?;
        let found = state.table(table)?.clone();
        let history = match scan.as_of {
            Some(as_of) if found.descriptor.schema.history.is_some() => {
                let name = table.history_table();
                Some(HistoryReader::new(name.clone(), state.table(&name)?.clone(), as_of)?)
            }
            _ => None,
        };
        let owned = (held, Arc::clone(&self.shared));
        let reading = Reading::new(owned, (found, Parts::All), scan, pin.now_micros, self.is_local)?;
        Ok(reading.with_history(history).stream())
    }
}

/// The location of segments, and whether it is remote.
fn blobs_of(files: &StoreFiles) -> Result<(Arc<dyn Blobs>, bool)> {
    let is_remote = files.segments.as_ref().is_some_and(|url| url.scheme() != "file");
    Ok((files.blobs()?, is_remote))
}

/// The state that a manifest and the log behind it hold.
fn state_of(files: &StoreFiles, manifests: &Manifests, manifest: &Manifest) -> Result<State> {
    let (blobs, is_remote) = blobs_of(files)?;
    let mut held = HeldBlobs { blobs, held: HashMap::new() };
    if !is_remote {
        held.hold(manifest)?;
    }
    let blobs: Arc<dyn Blobs> = Arc::new(held);
    let deletion_vectors = open::read_deletion_vectors(manifests, manifest)?;
    let caches = Arc::new(Caches::new(CACHE_BYTES, CACHE_BYTES));
    let mut segments = HashMap::new();
    let mut open_segment = |number: u32, meta: &SegmentMeta| {
        let segment = || Segment::open(Arc::clone(&blobs), number, meta.clone(), Arc::clone(&caches));
        Arc::clone(segments.entry(meta.id).or_insert_with(segment))
    };
    let state = open::state_of(&files.path, manifest, &deletion_vectors, &mut open_segment)?;
    caches.set_replaying(true);
    let replayed = recover::replay(files.fs.as_ref(), &files.wal(), state, manifest.sequence)?;
    caches.set_replaying(false);
    match segments.values().find_map(|segment| segment.refused()) {
        Some(error) => Err(super::writer::same(error)),
        None => Ok(replayed),
    }
}

fn shared(state: State, clock: Box<dyn Clock>) -> Arc<Shared> {
    let clock = HybridClock::new(clock, state.stamp);
    Arc::new(Shared {
        published: ArcSwap::from_pointee(state),
        clock,
        stopped: OnceLock::new(),
        rows: RowCache::new(ROW_CACHE_BYTES),
        pins: Pins::default(),
        coordination: Coordination::default(),
        is_stamping: AtomicBool::new(false),
        is_often_scanned: AtomicBool::new(false),
        log_bytes: AtomicU64::new(0),
        work: Work::default(),
    })
}

fn refused<T>() -> Result<T> {
    Err(Error::Unsupported("the store is open for reading only".into()))
}

#[async_trait]
impl Store for ReadOnlyStore {
    async fn create_table(&self, _: &TableName, _: TableSchema) -> Result<()> {
        refused()
    }

    async fn drop_table(&self, _: &TableName) -> Result<()> {
        refused()
    }

    async fn tables(&self) -> Result<Vec<(TableName, TableSchema)>> {
        let state = self.shared.published.load_full();
        let tables = state.public_tables().map(|(name, table)| (name.clone(), table.descriptor.schema.clone()));
        Ok(tables.collect())
    }

    async fn modify_families(&self, _: &TableName, _: Vec<FamilyChange>) -> Result<()> {
        refused()
    }

    /// The only state there is. Nothing expires.
    async fn pin(&self) -> Result<Pin> {
        Ok(self.pin_now())
    }

    fn scan(&self, table: &TableName, scan: Scan) -> RowStream {
        self.begin_scan(table, scan).unwrap_or_else(failed)
    }

    async fn sample_row_keys(&self, _: &TableName) -> Result<Vec<RowSample>> {
        refused()
    }

    async fn commit(&self, _: Commit) -> Result<i64> {
        refused()
    }

    async fn mutate_rows(&self, _: &TableName, _: Vec<RowMutation>) -> Result<Vec<Result<()>>> {
        refused()
    }

    async fn check_and_mutate(&self, _: &TableName, _: CheckAndMutate) -> Result<bool> {
        refused()
    }

    async fn read_modify_write(&self, _: &TableName, _: RowKey, _: Vec<ReadModifyWrite>) -> Result<Row> {
        refused()
    }

    async fn drop_row_range(&self, _: &TableName, _: Bytes) -> Result<()> {
        refused()
    }

    fn promises(&self) -> Promises {
        Promises::local()
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// Files of segments, open already.
#[derive(Debug)]
struct HeldBlobs {
    blobs: Arc<dyn Blobs>,
    held: HashMap<String, Arc<dyn Blob>>,
}

impl HeldBlobs {
    /// Opens the files that a manifest names.
    fn hold(&mut self, manifest: &Manifest) -> Result<()> {
        for (_, meta) in super::files::segments(manifest).values() {
            for (name, _) in meta.files() {
                let blob = self.blobs.open(&name)?;
                self.held.insert(name, blob);
            }
        }
        Ok(())
    }
}

impl Blobs for HeldBlobs {
    fn create(&self, _: &str) -> Result<Box<dyn BlobWriter>> {
        refused()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Blob>> {
        self.held.get(name).map_or_else(|| self.blobs.open(name), |blob| Ok(Arc::clone(blob)))
    }

    fn delete(&self, _: &str) -> Result<()> {
        refused()
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        self.blobs.list()
    }

    fn describe(&self) -> String {
        self.blobs.describe()
    }
}
