//! Opening a store: the manifest, the log behind it, and the threads.

use super::{
    Budget, Engine, EngineOptions, LOCK, ROOM_BYTES, ROW_LOCKS, blobs,
    coordination::Coordination,
    deletion_vector::DeletionVector,
    fetch, load, log,
    maintain::{InForce, Maintenance, MaintenanceOptions},
    manifest::{DeletionVectorMeta, MANIFEST_FOLDER, Manifest, Manifests, SegmentId, SegmentMeta, TableMeta},
    pins::Pins,
    recover::{self, Recovered},
    row_cache::RowCache,
    segment::{Caches, Segment},
    state::{State, Table},
    tablet::{Tablet, Tablets},
    work::Work,
    writer::{self, Queued, Shared, SharedWriter, Thresholds, Writer},
};
use crate::{Error, Result, clock::HybridClock, fs::Fs};
use arc_swap::ArcSwap;
use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize},
    },
    thread::JoinHandle,
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc};

/// The lock of a store, released when the last clone is dropped.
type StoreLock = Arc<Box<dyn Any + Send + Sync>>;

/// What the manifest in force names.
struct Stored {
    manifests: Manifests,
    manifest: Manifest,
    deletion_vectors: BTreeMap<SegmentId, DeletionVector>,
    blobs: Arc<dyn blobs::Blobs>,
    /// Whether segments are in the store's folder.
    is_local: bool,
}

/// The store after replay of its log.
struct Replayed {
    recovered: Recovered,
    segments: HashMap<SegmentId, Arc<Segment>>,
    caches: Arc<Caches>,
    scratch: load::Scratch,
    sync_micros: Option<u64>,
}

/// See [`Engine::open`].
pub(super) fn open(options: EngineOptions) -> Result<Arc<Engine>> {
    let lock = lock(options.fs.as_ref(), &options.path)?;
    let stored = load_manifest(&options)?;
    let memtable_bytes_min = options.granularity.memtable_bytes_min;
    let budget = Budget::with_least(options.memory_bytes, options.memtable_bytes, memtable_bytes_min);
    let replayed = replay(&options, &stored, &budget)?;
    start(options, budget, &lock, stored, replayed)
}

/// Creates the store's folders where they are missing, and takes its lock.
fn lock(fs: &dyn Fs, path: &Path) -> Result<StoreLock> {
    fs.create_folder(path).map_err(|source| log::failed("create", path, source))?;
    let lock = fs.lock(&path.join(LOCK)).map_err(|source| log::failed("lock", &path.join(LOCK), source))?;
    let lock = lock.ok_or_else(|| Error::Locked { path: path.to_owned() })?;
    let wal = path.join(log::FOLDER);
    fs.create_folder(&wal).map_err(|source| log::failed("create", &wal, source))?;
    Ok(Arc::new(lock))
}

/// Reads the manifest and the deletion vectors that it names, and claims the location of segments for this store.
fn load_manifest(options: &EngineOptions) -> Result<Stored> {
    let EngineOptions { path, fs, segments, .. } = options;
    let (manifests, manifest) = Manifests::load(Arc::clone(fs), path.clone())?;
    let injected: Option<Arc<dyn blobs::Blobs>> = None;
    #[cfg(test)]
    let injected = options.blobs.clone().or(injected);
    let is_local = segments.is_none() && injected.is_none();
    let blobs = injected.map_or_else(|| blobs::at(segments.as_ref(), path, fs), Ok)?;
    if is_local {
        blobs::check_is_local(fs.as_ref(), path)?;
    } else {
        blobs::claim(blobs.as_ref(), fs.as_ref(), (path, segments.as_ref()), options.clock.now_micros())?;
        blobs::check_age(blobs.as_ref(), path, manifest.version)?;
    }
    let deletion_vectors = read_deletion_vectors(&manifests, &manifest)?;
    Ok(Stored { manifests, manifest, deletion_vectors, blobs, is_local })
}

/// Replays the log on top of the manifest, then removes files that the manifest does not name.
fn replay(options: &EngineOptions, stored: &Stored, budget: &Budget) -> Result<Replayed> {
    let EngineOptions { path, fs, granularity, .. } = options;
    let Stored { manifests, manifest, deletion_vectors, blobs, .. } = stored;
    let wal = path.join(log::FOLDER);
    let caches = Arc::new(Caches::new(budget.footer_cache_bytes, budget.page_cache_bytes));
    let mut segments = HashMap::new();
    let mut open = |number: u32, meta: &SegmentMeta| {
        let segment = || Segment::open(Arc::clone(blobs), number, meta.clone(), Arc::clone(&caches));
        Arc::clone(segments.entry(meta.id).or_insert_with(segment))
    };
    let state = state_of(path, manifest, deletion_vectors, &mut open)?;
    caches.set_replaying(true);
    let recovered = recover::recover(fs.as_ref(), &wal, state, manifest.sequence)?;
    caches.set_replaying(false);
    // Only after everything was read, so that a damaged store is left unchanged.
    manifests.clean_segments(manifest, blobs.as_ref())?;
    let scratch = load::Scratch::clear(Arc::clone(fs), path, granularity.load_block_bytes)?;
    let sync_micros = log::measure_sync(fs.as_ref(), &wal)?;
    Ok(Replayed { recovered, segments, caches, scratch, sync_micros })
}

/// Opens the log for appending and starts the engine's threads.
fn start(
    options: EngineOptions,
    budget: Budget,
    lock: &StoreLock,
    stored: Stored,
    replayed: Replayed,
) -> Result<Arc<Engine>> {
    let Stored { manifests, manifest, deletion_vectors, blobs, is_local } = stored;
    let Replayed { recovered, segments, caches, scratch, sync_micros } = replayed;
    let flushed = manifest.sequence;
    // Segments are named by stamps too, so the clock starts after the newest name: a wall clock that was set back must
    // not yield a name twice.
    let newest = segments.keys().map(|id| i64::try_from(id.0).unwrap_or(i64::MAX)).max().unwrap_or_default();
    let clock = HybridClock::new(options.clock, recovered.state.stamp.max(newest));
    let file_bytes = options.log_file_bytes.min(budget.log_file_bytes());
    let mut log = log::Log::new(options.fs, options.path.join(log::FOLDER), file_bytes, recovered.end);
    log.release(flushed)?;
    log.prepare(clock.now())?;

    let shared = Arc::new(Shared {
        published: ArcSwap::from_pointee(recovered.state),
        clock,
        stopped: OnceLock::new(),
        rows: RowCache::new(budget.row_cache_bytes),
        pins: Pins::default(),
        coordination: Coordination::default(),
        is_stamping: AtomicBool::new(false),
        is_often_scanned: AtomicBool::new(false),
        log_bytes: AtomicU64::new(log.bytes()),
        work: Work::default(),
    });
    let (queue, requests) = mpsc::channel(options.queue_requests_max.max(1));
    let elsewhere = (!is_local).then(|| Arc::clone(&blobs));
    let maintenance = Arc::new(Maintenance::new(
        Arc::clone(&shared),
        (blobs, caches),
        InForce { manifests, elsewhere, manifest, deletion_vectors },
        MaintenanceOptions {
            base_bytes: options.base_bytes.min(budget.base_bytes()),
            group_bytes: budget.row_group_bytes,
            page_bytes: budget.page_bytes(),
            base_codec: options.base_codec,
            compacts: options.compacts,
            granularity: options.granularity,
            pin_age_max_micros: options.pin_age_max_micros,
        },
        scratch,
        queue.downgrade(),
    ));
    segments.values().for_each(|segment| maintenance.files.add(segment));
    if let Some(error) = segments.values().find_map(|segment| segment.refused()) {
        refuse_writes(&shared, error);
    }
    let thresholds = Thresholds {
        memtable_bytes: budget.memtable_bytes,
        stall_bytes: budget.memtable_bytes,
        group_bytes: budget.log_group_bytes(),
    };
    let synced_in = sync_micros.map_or(Duration::MAX, Duration::from_micros);
    let writer = Writer::new(Arc::clone(&shared), log, thresholds, flushed, synced_in);
    let writer = Arc::new(Mutex::new(Some(writer)));
    let threads = start_threads(&options.path, lock, (Arc::clone(&writer), requests), &maintenance)?;
    let room_permits = (options.queue_bytes_max / ROOM_BYTES).clamp(1, Semaphore::MAX_PERMITS);
    Ok(Arc::new(Engine {
        is_local,
        path: options.path,
        shared,
        maintenance,
        queue: Some(queue),
        writer,
        alone_sync_max: options.alone_sync_max,
        under_way: AtomicUsize::new(0),
        alone_after: AtomicU32::new(0),
        room: Arc::new(Semaphore::new(room_permits)),
        room_permits,
        fetching: Arc::new(Semaphore::new(fetch::ROWS_MAX as usize)),
        loading: Arc::new(Semaphore::new(load::loads_max(options.memory_bytes))),
        row_locks: (0..ROW_LOCKS).map(|_| tokio::sync::Mutex::default()).collect(),
        closed: AtomicBool::new(false),
        threads: Mutex::new(threads),
        lock: Arc::downgrade(lock),
        sync_micros,
        budget,
        memory_bytes: options.memory_bytes,
        pin_age_max_micros: options.pin_age_max_micros,
    }))
}

/// Makes a store with a damaged segment read-only. The log must stay as it is: it holds changes of the segment's rows,
/// and a flush would release it.
fn refuse_writes(shared: &Shared, error: &Error) {
    let reason = format!(
        "{error}, and the log has changes of its rows: the store can only be read until the file is restored and the store \
         started again"
    );
    tracing::error!(%reason, "the store takes no writes");
    let _ = shared.stopped.set(reason);
    shared.coordination.close();
}

/// Starts the log, flush and compaction threads. Each holds the lock, so that the store is free when the last of them
/// has ended.
fn start_threads(
    path: &Path,
    lock: &StoreLock,
    (writer, queue): (Arc<SharedWriter>, mpsc::Receiver<Queued>),
    maintenance: &Arc<Maintenance>,
) -> Result<Vec<JoinHandle<()>>> {
    let thread = |name: &str, work: Box<dyn FnOnce() + Send>| -> Result<JoinHandle<()>> {
        let lock = Arc::clone(lock);
        let work = move || {
            work();
            drop(lock);
        };
        let started = std::thread::Builder::new().name(name.into()).spawn(work);
        started.map_err(|source| log::failed("start a thread of", path, source))
    };
    let (flushing, compacting) = (Arc::clone(maintenance), Arc::clone(maintenance));
    let shared = Arc::clone(&maintenance.shared);
    Ok(vec![
        thread("keyspan-log", Box::new(move || writer::run(&writer, &shared, queue)))?,
        thread("keyspan-flush", Box::new(move || flushing.watched(Maintenance::run_flush)))?,
        thread(
            "keyspan-compact",
            Box::new(move || {
                give_way();
                compacting.watched(Maintenance::run_compaction);
            }),
        )?,
    ])
}

/// Lowers the priority of the thread, on Linux: whoever waits for an answer comes before compaction. The flush thread
/// keeps its priority, since writers wait for it.
fn give_way() {
    #[cfg(target_os = "linux")]
    {
        const NICENESS: i32 = 10;
        if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
            tracing::debug!(%error, "compaction keeps its priority");
        }
    }
}

/// The dead positions that a manifest names.
pub(super) fn read_deletion_vectors(
    manifests: &Manifests,
    manifest: &Manifest,
) -> Result<BTreeMap<SegmentId, DeletionVector>> {
    let read = |(id, meta): (&SegmentId, &DeletionVectorMeta)| {
        let bytes = manifests.read_deletion_vector(*id, meta)?;
        let vector = DeletionVector::decode(&bytes).filter(|vector| vector.count() == meta.count);
        let vector = vector.ok_or_else(|| Error::Corrupt {
            path: manifests.deletion_vector_path(*id, meta.version),
            offset: 0,
            detail: format!("it does not hold {} dead positions", meta.count),
        })?;
        Ok((*id, vector))
    };
    manifest.deletion_vectors.iter().map(read).collect()
}

/// The tables of a manifest.
pub(super) fn state_of(
    path: &Path,
    manifest: &Manifest,
    deletion_vectors: &BTreeMap<SegmentId, DeletionVector>,
    open: &mut dyn FnMut(u32, &SegmentMeta) -> Arc<Segment>,
) -> Result<State> {
    let folder = path.join(MANIFEST_FOLDER);
    let damaged = |detail: &str| Error::Corrupt { path: folder.clone(), offset: 0, detail: detail.to_owned() };
    let mut state = State::default();
    state.stamp = manifest.stamp;
    for TableMeta { descriptor, past_rules, tablets } in &manifest.tables {
        let descriptor = descriptor.clone().into_descriptor();
        let (name, descriptor) = descriptor.ok_or_else(|| damaged("the families of a table contradict each other"))?;
        let mut table = Table::new(descriptor);
        let number = table.descriptor.number;
        let tablets = tablets.iter().map(|tablet| Tablet {
            range: tablet.range.clone(),
            segments: tablet.segments.iter().map(|meta| open(number, meta)).collect(),
        });
        table.tablets = Tablets::new(tablets.collect()).ok_or_else(|| damaged("the tablets of a table overlap"))?;
        table.past_rules = past_rules.iter().cloned().collect();
        for id in table.tablets.iter().flat_map(|tablet| &tablet.segments).map(|segment| segment.meta().id) {
            if let Some(vector) = deletion_vectors.get(&id) {
                table.deletion_vectors.insert(id, vector.clone());
            }
        }
        state.set_table(name, table);
    }
    state.next_table = state.next_table.max(manifest.next_table);
    Ok(state)
}
