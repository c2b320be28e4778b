//! The threads that keep segments: one flushes, one compacts.
//!
//! Both change the manifest, under one lock ([`Maintenance::manifest`]), and in this order, so that a crash at any point leaves a
//! store: segment files, synced; files of dead positions, synced; the manifest, and `CURRENT` to name it; then the state in memory
//! ([`install`](super::install), on the log thread); last, what nobody names any more is removed. A flush holds the lock from its
//! beginning, so that no tablet changes under it; a compaction takes it when it is done with reading and writing.
//!
//! A segment's file is removed when the manifest does not name it and no state that anybody holds does ([`Files`]).

mod boundaries;
mod compaction;
mod files;
mod flush;

pub(crate) use compaction::{CompactionRequest, Compactions};
pub(crate) use files::Files;

use super::{
    Codec, Granularity,
    blobs::Blobs,
    compact::Outputs,
    coordination::Install,
    deletion_vector::DeletionVector,
    descriptor::Descriptor,
    install::{Installable, LoadedRows, Standstill},
    load::{Loads, Scratch},
    manifest::{DeletionVectorMeta, Manifest, Manifests, SegmentId, SegmentMeta, TableMeta, TabletMeta},
    segment::{Caches, ColumnFrequency, Compression, Limits, Segment, SegmentOptions, SegmentWriter, Shape},
    state::{State, Table},
    tablet::Tablet,
    writer::{Queued, Request, Shared},
};
use crate::{Error, ErrorKind, Layouts, Result, TableName};
use arc_swap::ArcSwapOption;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, channel},
    },
};
use tokio::sync::mpsc::{Sender, WeakSender};

/// What flush and compaction are made with.
#[derive(Debug)]
pub(crate) struct Maintenance {
    /// What the log thread shares.
    pub(crate) shared: Arc<Shared>,
    /// Where segments are.
    pub(crate) blobs: Arc<dyn Blobs>,
    /// What is kept of segments in memory.
    pub(crate) caches: Arc<Caches>,
    /// The manifest in force.
    manifest: Mutex<InForce>,
    /// Segment files, to know when one can go.
    pub(crate) files: Files,
    /// What the catalog knows of tables' columns.
    pub(crate) layouts: ArcSwapOption<LayoutsOf>,
    /// Past and present compactions.
    pub(crate) compactions: Compactions,
    /// Loads under way.
    pub(crate) loads: Loads,
    /// Where loads put rows that are not in segments yet.
    pub(crate) scratch: Arc<Scratch>,
    /// How compaction goes about it.
    pub(crate) options: MaintenanceOptions,
    /// To wake the log thread.
    queue: WeakSender<Queued>,
}

/// The log thread stands still as long as this is there.
#[derive(Debug)]
pub(crate) struct StandstillGuard {
    loaded: mpsc::Sender<LoadedRows>,
    installed: mpsc::Receiver<()>,
}

impl StandstillGuard {
    /// Ends the standstill with rows that are in the manifest, and waits until they are in the state.
    pub(crate) fn end_with(self, loaded: LoadedRows) {
        // The log thread waits for it. Nothing is ever sent back: the other end is dropped when it is done.
        let _ = self.loaded.send(loaded);
        let _ = self.installed.recv();
    }
}

/// The catalog's layouts, in a form that can be swapped.
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
    /// Whether tablets are compacted without being asked.
    pub(crate) compacts: bool,
    /// How finely segments are divided, and tablets.
    pub(crate) granularity: Granularity,
    /// How old a pin may be, in microseconds.
    pub(crate) pin_age_max_micros: i64,
}

/// The manifest in force, with the dead positions that its files hold.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) manifests: Manifests,
    pub(crate) manifest: Manifest,
    pub(crate) deletion_vectors: BTreeMap<SegmentId, DeletionVector>,
}

impl Maintenance {
    /// Goes on from a manifest.
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

    /// The manifest in force; held while it is changed.
    pub(crate) fn manifest(&self) -> MutexGuard<'_, InForce> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The manifest in force, whose tablets are the published ones as long as it is held. When the store is closed they may not be: what the last
    /// flush has put in force is installed by nobody then, and who goes by the published tablets would leave it out.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the store is closed.
    fn manifest_as_published(&self) -> Result<MutexGuard<'_, InForce>> {
        let manifest = self.manifest();
        match self.shared.coordination.is_closed() {
            true => Err(Error::Unavailable("it was closed".into())),
            false => Ok(manifest),
        }
    }

    /// Hands over to the log thread, and waits until it has installed it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the store is closed.
    fn install(&self, installable: Installable) -> Result<()> {
        let closed = || Error::Unavailable("it was closed".into());
        let (done, installed) = channel();
        if !self.shared.coordination.push(Install { installable, done }) {
            return Err(closed());
        }
        self.wake();
        // Nothing is ever sent: the other end is dropped when it is done.
        let _ = installed.recv();
        if self.shared.coordination.is_closed() { Err(closed()) } else { Ok(()) }
    }

    /// Has the log thread stand still between two groups: nothing is changed until the standstill is over.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the store is closed.
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

    /// Waits until every commit that has a stamp by now is published, or refused.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the store is closed.
    pub(crate) fn settle(&self) -> Result<()> {
        self.install(Installable::Nothing)
    }

    /// The way to the log thread; `None` when the store is closed.
    pub(crate) fn queue(&self) -> Option<Sender<Queued>> {
        self.queue.upgrade()
    }

    /// Has the log thread look at the coordination.
    pub(crate) fn wake(&self) {
        if let Some(queue) = self.queue.upgrade() {
            // A full queue is one that the log thread works on: it looks after each group.
            let _ = queue.try_send(Queued { request: Request::Wake, room: None });
        }
    }

    /// An identity for a new segment.
    fn next_id(&self) -> SegmentId {
        SegmentId(u64::try_from(self.shared.clock.stamp()).expect("stamps are after 1970"))
    }

    /// Opens a segment that was written.
    pub(crate) fn open(&self, table: u32, meta: SegmentMeta) -> Arc<Segment> {
        let segment = Segment::open(Arc::clone(&self.blobs), table, meta, Arc::clone(&self.caches));
        self.files.add(&segment);
        segment
    }

    /// Puts a manifest in force. When nobody knows which one is, the store takes no more writes, and no file is removed.
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

    /// Lets nobody write any more, nor wait for what does not come.
    fn stop(&self, reason: String) {
        tracing::error!(%reason, "the store takes no more writes");
        let _ = self.shared.stopped.set(reason);
        self.shared.coordination.close();
        self.wake();
    }

    /// Does a thread's work. Should it panic the store stops: whoever waits for the thread would wait for ever, or know another state than the
    /// manifest.
    pub(crate) fn watched<T>(&self, work: impl FnOnce(&Self) -> T) -> T {
        let watch = Watch(self);
        let done = work(self);
        drop(watch);
        done
    }

    /// Removes segments that no manifest is going to name.
    pub(crate) fn abandon(&self, segments: impl IntoIterator<Item = SegmentMeta>) {
        for meta in segments {
            if let Err(error) = files::delete(self.blobs.as_ref(), meta.id) {
                tracing::warn!(%error, "a segment that is not used was not removed; the next start does it");
            }
        }
    }

    /// Removes the files of segments that nobody names any more.
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

/// Makes segments of a table.
pub(super) struct Writers<'a> {
    pub(super) maintenance: &'a Maintenance,
    pub(super) name: &'a TableName,
    pub(super) descriptor: &'a Descriptor,
    /// The stamp that the rows are as of.
    pub(super) stamp: i64,
    pub(super) base: bool,
    /// Columns of the segments that the rows come from.
    pub(super) frequencies: Vec<ColumnFrequency>,
}

impl Outputs for Writers<'_> {
    type Writer = SegmentWriter;

    fn begin(&mut self, sample: &[&[u8]]) -> Result<SegmentWriter> {
        self.begin_from(sample.iter().copied())
    }
}

impl Writers<'_> {
    /// Begins a segment whose rows are like these.
    ///
    /// # Errors
    /// Those of writing.
    pub(super) fn begin_from<'s>(&mut self, sample: impl Iterator<Item = &'s [u8]>) -> Result<SegmentWriter> {
        let Self { maintenance, name, descriptor, stamp, base, ref frequencies } = *self;
        let layout = maintenance.layouts.load().as_ref().and_then(|layouts| layouts.0.layout(name));
        let families = descriptor
            .schema
            .families
            .keys()
            .map(|family| (descriptor.number_of(family).expect("a family of the schema has a number"), family));
        let shape = Shape::new(families, layout.as_deref(), frequencies, sample);
        let (id, number) = (maintenance.next_id(), descriptor.number);
        let mut options = match base {
            false => SegmentOptions::delta(id, number, stamp),
            true => SegmentOptions {
                compression: compression(maintenance.options.base_codec),
                ..SegmentOptions::base(id, number, stamp)
            },
        };
        let MaintenanceOptions { group_bytes, page_bytes, granularity, .. } = &maintenance.options;
        options.limits =
            Limits { group_bytes_target: *group_bytes, page_bytes_target: *page_bytes, ..granularity.segments() };
        SegmentWriter::new(Arc::clone(&maintenance.blobs), shape, options)
    }
}

impl InForce {
    /// Puts a manifest in force that names these dead positions, and removes what the old one alone named.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: the old one stays in force; [`Error::Io`].
    fn commit(&mut self, mut manifest: Manifest, dead: BTreeMap<SegmentId, DeletionVector>) -> Result<()> {
        manifest.version = self.manifest.version + 1;
        manifest.deletion_vectors = BTreeMap::new();
        let mut changed = Vec::new();
        for (id, dead) in &dead {
            let count = dead.count();
            // Positions only ever die: as many are the same ones.
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
        // Old manifests hold keys, and so they go at once.
        if let Err(error) = self.manifests.clean(&self.manifest, false) {
            tracing::warn!(%error, "old manifests were not removed; the next start does it");
        }
        Ok(())
    }
}

/// A table as a manifest has it.
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

/// The dead positions of the segments that tables name.
pub(super) fn deletion_vectors_of(state: &State) -> BTreeMap<SegmentId, DeletionVector> {
    let of_table = |table: &Table| -> Vec<(SegmentId, DeletionVector)> {
        let living = table.deletion_vectors.iter().filter(|(_, dead)| dead.count() > 0);
        living.map(|(id, dead)| (*id, dead.clone())).collect()
    };
    state.tables.values().flat_map(of_table).collect()
}

fn compression(codec: Codec) -> Compression {
    match codec {
        Codec::Lz4 => Compression::Fast,
        Codec::Zstd => Compression::Small,
    }
}
