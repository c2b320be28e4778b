//! The background threads that maintain segments: one flushes, one compacts.
//!
//! Both change the manifest, under one lock ([`Maintenance::manifest`]), in the following order, so that a crash at any
//! point leaves a valid store: segment files, synced; files of deletion vectors, synced; the manifest, and `CURRENT` to
//! name it; the state in memory ([`install`](super::install), on the log thread); last, removal of unnamed files. A
//! flush holds the lock from its beginning, so that no tablet changes during it; a compaction takes it after reading
//! and writing.
//!
//! A segment's file is removed when neither the manifest nor any state that is still in use names it ([`Files`]).

mod boundaries;
mod compaction;
mod files;
mod flush;

pub(crate) use compaction::{CompactionRequest, Compactions};
pub(crate) use files::Files;

use super::{
    Codec, Granularity,
    blobs::{self, Blobs},
    compact::Outputs,
    coordination::Install,
    deletion_vector::DeletionVector,
    descriptor::Descriptor,
    install::{Installable, LoadedRows, Standstill},
    load::{Loads, Scratch},
    manifest::{DeletionVectorMeta, Manifest, Manifests, SegmentId, SegmentMeta, TableMeta, TabletMeta},
    sections::Sections,
    segment::{Caches, ColumnFrequency, Compression, Limits, Segment, SegmentOptions, SegmentWriter, Shape},
    state::{State, Table},
    tablet::Tablet,
    writer::{Queued, Request, Shared},
};
use crate::{Error, ErrorKind, Layouts, Result, TableName};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, channel},
    },
};
use tokio::sync::mpsc::{Sender, WeakSender};

/// The shared state of flush and compaction.
#[derive(Debug)]
pub(crate) struct Maintenance {
    /// The state shared with the log thread.
    pub(crate) shared: Arc<Shared>,
    /// The location of segments.
    pub(crate) blobs: Arc<dyn Blobs>,
    /// Caches of segments.
    pub(crate) caches: Arc<Caches>,
    /// The manifest in force.
    manifest: Mutex<InForce>,
    /// Segment files, to remove unused ones.
    pub(crate) files: Files,
    /// The catalog's layouts of tables.
    pub(crate) layouts: ArcSwapOption<LayoutsOf>,
    /// Current and past compactions.
    pub(crate) compactions: Compactions,
    /// Loads in progress.
    pub(crate) loads: Loads,
    /// Temporary files of loads.
    pub(crate) scratch: Arc<Scratch>,
    /// Settings.
    pub(crate) options: MaintenanceOptions,
    /// Queue of the log thread, to wake it.
    queue: WeakSender<Queued>,
}

/// Pauses the log thread as long as it lives.
#[derive(Debug)]
pub(crate) struct StandstillGuard {
    loaded: mpsc::Sender<LoadedRows>,
    installed: mpsc::Receiver<()>,
}

impl StandstillGuard {
    /// Ends the pause with rows that are in the manifest, and waits until they are in the state.
    pub(crate) fn end_with(self, loaded: LoadedRows) {
        // The log thread waits for it. Nothing is sent back: the other end is dropped when the rows are installed.
        let _ = self.loaded.send(loaded);
        let _ = self.installed.recv();
    }
}

/// The catalog's layouts, in a swappable form.
#[derive(Debug)]
pub(crate) struct LayoutsOf(pub(crate) Arc<dyn Layouts>);

/// Sizes of segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaintenanceOptions {
    /// Bytes after which a base ends and another begins.
    pub(crate) base_bytes: u64,
    /// Bytes of rows after which a row group ends.
    pub(crate) group_bytes: usize,
    /// Bytes after which a page ends.
    pub(crate) page_bytes: usize,
    /// How bases are compressed.
    pub(crate) base_codec: Codec,
    /// Whether tablets are compacted automatically.
    pub(crate) compacts: bool,
    /// Sizes of pieces of segments and tablets.
    pub(crate) granularity: Granularity,
    /// How old a pin may be, in microseconds.
    pub(crate) pin_age_max_micros: i64,
}

/// The manifest in force, with the deletion vectors that its files hold.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) manifests: Manifests,
    /// The location of segments, if it is not the store's folder: which manifest is in force is noted there.
    pub(crate) elsewhere: Option<Arc<dyn Blobs>>,
    pub(crate) manifest: Manifest,
    pub(crate) deletion_vectors: BTreeMap<SegmentId, DeletionVector>,
}

impl Maintenance {
    /// Starts with the manifest in force.
    pub(crate) fn new(
        shared: Arc<Shared>,
        (blobs, caches): (Arc<dyn Blobs>, Arc<Caches>),
        in_force: InForce,
        options: MaintenanceOptions,
        scratch: Scratch,
        queue: WeakSender<Queued>,
    ) -> Self {
        Self {
            shared,
            blobs,
            caches,
            manifest: Mutex::new(in_force),
            files: Files::default(),
            layouts: ArcSwapOption::empty(),
            compactions: Compactions::default(),
            loads: Loads::default(),
            scratch: Arc::new(scratch),
            options,
            queue,
        }
    }

    /// Locks the manifest in force.
    pub(crate) fn manifest(&self) -> MutexGuard<'_, InForce> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the manifest in force, whose tablets are the published ones as long as the lock is held. Not so when the
    /// store is closed: the last flush may have put a manifest in force that nobody installed, and a caller that goes
    /// by the published tablets would drop its segments.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the store is closed.
    fn manifest_as_published(&self) -> Result<MutexGuard<'_, InForce>> {
        let manifest = self.manifest();
        match self.shared.coordination.is_closed() {
            true => Err(Error::Unavailable("it was closed".into())),
            false => Ok(manifest),
        }
    }

    /// Hands a change to the log thread, and waits until it is installed.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the store is closed.
    fn install(&self, installable: Installable) -> Result<()> {
        let closed = || Error::Unavailable("it was closed".into());
        let (done, installed) = channel();
        if !self.shared.coordination.push(Install { installable, done }) {
            return Err(closed());
        }
        self.wake();
        // Nothing is sent: the other end is dropped after the installation.
        let _ = installed.recv();
        if self.shared.coordination.is_closed() { Err(closed()) } else { Ok(()) }
    }

    /// Pauses the log thread between two groups: nothing changes until the guard is dropped or ended.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the store is closed.
    pub(crate) fn stand_still(&self) -> Result<StandstillGuard> {
        let closed = || Error::Unavailable("it was closed".into());
        let ((reached, is_reached), (loaded, is_loaded)) = (channel(), channel());
        let (done, installed) = channel();
        let installable = Installable::Loading(Standstill { reached, loaded: is_loaded });
        if !self.shared.coordination.push(Install { installable, done }) {
            return Err(closed());
        }
        self.wake();
        is_reached.recv().map_err(|_| closed())?;
        Ok(StandstillGuard { loaded, installed })
    }

    /// Waits until every commit that already has a stamp is published or refused.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the store is closed.
    pub(crate) fn settle(&self) -> Result<()> {
        self.install(Installable::Nothing)
    }

    /// The queue of the log thread; `None` if the store is closed.
    pub(crate) fn queue(&self) -> Option<Sender<Queued>> {
        self.queue.upgrade()
    }

    /// Wakes the log thread.
    pub(crate) fn wake(&self) {
        if let Some(queue) = self.queue.upgrade() {
            // If the queue is full the log thread is running, and checks after each group.
            let _ = queue.try_send(Queued { request: Request::Wake, room: None });
        }
    }

    /// A new segment's id.
    fn next_id(&self) -> SegmentId {
        SegmentId(u64::try_from(self.shared.clock.stamp()).expect("stamps are after 1970"))
    }

    /// Opens a segment that was written.
    pub(crate) fn open(&self, table: u32, meta: SegmentMeta) -> Arc<Segment> {
        let segment = Segment::open(Arc::clone(&self.blobs), table, meta, Arc::clone(&self.caches));
        self.files.add(&segment);
        segment
    }

    /// Puts a manifest in force. If an error leaves it open which manifest is in force, the store takes no more writes,
    /// and no file is removed.
    pub(crate) fn commit(
        &self,
        in_force: &mut InForce,
        manifest: Manifest,
        dead: BTreeMap<SegmentId, DeletionVector>,
    ) -> Result<()> {
        in_force.commit(manifest, dead).inspect_err(|error| {
            if error.kind() != ErrorKind::NoSpace {
                let reason = format!("the manifest could not be replaced: {error}; writing needs a restart");
                self.stop(reason);
            }
        })
    }

    /// Stops writing for good, and wakes everybody who waits.
    fn stop(&self, reason: String) {
        tracing::error!(%reason, "the store takes no more writes");
        let _ = self.shared.stopped.set(reason);
        self.shared.coordination.close();
        self.wake();
    }

    /// Runs a thread's work. A panic stops the store: otherwise others would wait for the thread for ever, or see
    /// another state than the manifest.
    pub(crate) fn watched<T>(&self, work: impl FnOnce(&Self) -> T) -> T {
        let watch = Watch(self);
        let done = work(self);
        drop(watch);
        done
    }

    /// Removes segments that no manifest will name.
    pub(crate) fn abandon(&self, segments: impl IntoIterator<Item = SegmentMeta>) {
        for meta in segments {
            if let Err(error) = files::delete(self.blobs.as_ref(), meta.id) {
                tracing::warn!(%error, "a segment that is not used was not removed; the next start does it");
            }
        }
    }

    /// Removes the files of unused segments.
    pub(crate) fn collect(&self) {
        if self.shared.coordination.is_closed() {
            return;
        }
        let manifest = self.manifest();
        self.files.collect(&manifest.manifest, self.blobs.as_ref(), &self.caches);
    }
}

/// Stops the store when it is dropped by a panic.
struct Watch<'a>(&'a Maintenance);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop("a thread that keeps its segments has panicked; writing needs a restart".into());
        }
    }
}

/// Fewer rows behind a boundary of sections are no sample.
const SAMPLE_ROWS_MIN: usize = 256;

/// Creates segments of a table.
pub(super) struct Writers<'a> {
    pub(super) maintenance: &'a Maintenance,
    pub(super) name: &'a TableName,
    pub(super) descriptor: &'a Descriptor,
    /// The stamp that the rows are as of.
    pub(super) stamp: i64,
    pub(super) base: bool,
    /// Columns of the segments that the rows come from.
    pub(super) frequencies: Vec<ColumnFrequency>,
    /// Keys of these segments.
    pub(super) sections: Sections,
    /// The key before which all rows lie.
    pub(super) end: Option<Bytes>,
    /// See [`SegmentOptions::beside`].
    pub(super) beside: bool,
}

impl Outputs for Writers<'_> {
    type Writer = SegmentWriter;

    fn begin(&mut self, sample: &[(&[u8], &[u8])]) -> Result<SegmentWriter> {
        let Self { maintenance, name, descriptor, stamp, base, ref frequencies, ref sections, ref end, beside } = *self;
        let mut keys: Vec<&[u8]> = sample.iter().map(|(key, _)| *key).collect();
        if let Some(last) = keys.last().copied() {
            keys.extend(sections.keys_after(last));
        }
        let boundary = keys.first().and_then(|first| sections.boundary_after(first));
        let end = boundary.or(end.as_ref()).map(|end| &end[..]);
        let layout = maintenance.layouts.load().as_ref().and_then(|layouts| layouts.0.layout(name, &keys, end));
        let families = descriptor
            .schema
            .families
            .keys()
            .map(|family| (descriptor.number_of(family).expect("a family of the schema has a number"), family));
        // Behind a boundary the first rows may be too few to tell which values repeat: the merged segments do.
        let is_poor = sample.len() < SAMPLE_ROWS_MIN && !sections.boundaries().is_empty();
        let sample = if is_poor { &[] } else { sample };
        let shape = Shape::new(families, layout.as_deref(), frequencies, sample.iter().map(|(_, row)| *row));
        let (id, number) = (maintenance.next_id(), descriptor.number);
        let mut options = match base {
            false => SegmentOptions::delta(id, number, stamp),
            true => SegmentOptions {
                compression: compression(maintenance.options.base_codec),
                ..SegmentOptions::base(id, number, stamp)
            },
        };
        options.beside = beside;
        let MaintenanceOptions { group_bytes, page_bytes, granularity, .. } = &maintenance.options;
        options.limits =
            Limits { group_bytes_target: *group_bytes, page_bytes_target: *page_bytes, ..granularity.segments() };
        SegmentWriter::new(Arc::clone(&maintenance.blobs), shape, options)
    }
}

impl InForce {
    /// Puts a manifest in force with these deletion vectors, and removes files that only the old one named.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: the old one stays in force; [`Error::Io`].
    fn commit(&mut self, mut manifest: Manifest, dead: BTreeMap<SegmentId, DeletionVector>) -> Result<()> {
        manifest.version = self.manifest.version + 1;
        manifest.deletion_vectors = BTreeMap::new();
        let mut changed = Vec::new();
        for (id, dead) in &dead {
            let count = dead.count();
            // Positions never become live again, so the same count means the same positions.
            let unchanged = self.manifest.deletion_vectors.get(id).filter(|meta| meta.count == count).copied();
            let meta = unchanged.unwrap_or_else(|| {
                changed.push((*id, dead.encode()));
                DeletionVectorMeta { version: manifest.version, count }
            });
            manifest.deletion_vectors.insert(*id, meta);
        }
        self.manifests.write_deletion_vectors(manifest.version, changed.iter().map(|(id, bytes)| (*id, &bytes[..])))?;
        self.manifests.commit(&manifest)?;
        (self.manifest, self.deletion_vectors) = (manifest, dead);
        if let Some(elsewhere) = &self.elsewhere
            && let Err(error) = blobs::note_newest(elsewhere.as_ref(), self.manifest.version)
        {
            tracing::warn!(%error, "the version of the manifest was not noted beside the segments");
        }
        // Old manifests hold keys, so they are removed at once.
        if let Err(error) = self.manifests.clean(&self.manifest, false) {
            tracing::warn!(%error, "old manifests were not removed; the next start does it");
        }
        Ok(())
    }
}

/// A table's part of a manifest.
pub(super) fn table_meta(name: &TableName, table: &Table) -> TableMeta {
    TableMeta {
        descriptor: table.descriptor.to_logged(name),
        past_rules: table.past_rules.iter().cloned().collect(),
        tablets: table.tablets.iter().map(tablet_meta).collect(),
    }
}

pub(super) fn tablet_meta(tablet: &Tablet<Segment>) -> TabletMeta {
    let segments = tablet.segments.iter().map(|segment| segment.meta().clone()).collect();
    TabletMeta { range: tablet.range.clone(), segments }
}

/// The deletion vectors of the segments of a state.
pub(super) fn deletion_vectors_of(state: &State) -> BTreeMap<SegmentId, DeletionVector> {
    let of_table = |table: &Table| -> Vec<(SegmentId, DeletionVector)> {
        let live = table.deletion_vectors.iter().filter(|(_, dead)| dead.count() > 0);
        live.map(|(id, dead)| (*id, dead.clone())).collect()
    };
    state.tables.values().flat_map(of_table).collect()
}

fn compression(codec: Codec) -> Compression {
    match codec {
        Codec::Lz4 => Compression::Fast,
        Codec::Zstd => Compression::Small,
    }
}
