//! Opening a store: the manifest, the log behind it, and the threads.

use super::{
    Budget, Engine, EngineOptions, LOCK, ROOM_BYTES, ROW_LOCKS, blobs,
    board::Board,
    dead::Dead,
    fetch, load, log,
    maintain::{InForce, Maintenance, MaintenanceOptions},
    manifest::{Manifest, Manifests, SegmentId, TableMeta},
    pins::Pins,
    recover,
    row_cache::RowCache,
    segment::{Caches, Segment},
    state::{State, Table},
    tablet::{Tablet, Tablets},
    writer::{Shared, Thresholds, Writer},
};
use crate::{Error, Result, clock::HybridClock};
use arc_swap::ArcSwap;
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64},
    },
    thread::JoinHandle,
};
use tokio::sync::{Semaphore, mpsc};

/// See [`Engine::open`].
pub(super) fn open(options: EngineOptions) -> Result<Arc<Engine>> {
    let EngineOptions { path, fs, clock, segments, memory_bytes, memtable_bytes, base_codec, granularity, .. } =
        options;
    let wal = path.join(log::FOLDER);
    fs.create_folder(&path).map_err(|source| log::failed("create", &path, source))?;
    let lock = fs.lock(&path.join(LOCK)).map_err(|source| log::failed("lock", &path.join(LOCK), source))?;
    let lock = Arc::new(lock.ok_or_else(|| Error::Locked { path: path.clone() })?);
    fs.create_folder(&wal).map_err(|source| log::failed("create", &wal, source))?;

    let (manifests, manifest) = Manifests::load(Arc::clone(&fs), path.clone())?;
    let given: Option<Arc<dyn blobs::Blobs>> = None;
    #[cfg(test)]
    let given = options.blobs.or(given);
    let is_local = segments.is_none() && given.is_none();
    let blobs = given.map_or_else(|| blobs::at(segments.as_ref(), &path, &fs), Ok)?;
    if !is_local {
        blobs::claim(blobs.as_ref(), fs.as_ref(), &path, clock.now_micros())?;
    }
    let budget = Budget::with_least(memory_bytes, memtable_bytes, granularity.memtable_bytes_min);
    let caches = Arc::new(Caches::new(budget.footer_cache_bytes, budget.page_cache_bytes));
    let mut opened = HashMap::new();
    let mut open = |number: u32, meta: &super::manifest::SegmentMeta| {
        let segment = || Segment::open(Arc::clone(&blobs), number, meta.clone(), Arc::clone(&caches));
        Arc::clone(opened.entry(meta.id).or_insert_with(segment))
    };
    let dead = dead_of(&manifests, &manifest)?;
    let state = state_of(&path, &manifest, &dead, &mut open)?;
    caches.set_replaying(true);
    let recovered = recover::recover(fs.as_ref(), &wal, state, manifest.sequence)?;
    caches.set_replaying(false);
    // Only now that all of it was read: a damaged store stays as it is.
    manifests.clean_segments(&manifest, blobs.as_ref())?;
    let scratch = load::Scratch::clear(Arc::clone(&fs), &path)?;
    let sync_micros = log::measure_sync(fs.as_ref(), &wal)?;
    // Segments are named by stamps too: should the wall clock have been set back, their names are not given again.
    let newest = opened.keys().map(|id| i64::try_from(id.0).unwrap_or(i64::MAX)).max().unwrap_or_default();
    let clock = HybridClock::new(clock, recovered.state.stamp.max(newest));
    let mut log = log::Log::new(fs, wal, options.log_file_bytes.min(budget.log_file_bytes()), recovered.end);
    log.release(manifest.sequence)?;
    log.prepare(clock.now())?;

    let shared = Arc::new(Shared {
        published: ArcSwap::from_pointee(recovered.state),
        clock,
        stopped: OnceLock::new(),
        rows: RowCache::new(budget.row_cache_bytes),
        pins: Pins::default(),
        board: Board::default(),
        is_stamping: AtomicBool::new(false),
        is_often_scanned: AtomicBool::new(false),
        log_bytes: AtomicU64::new(log.bytes()),
    });
    let (queue, requests) = mpsc::channel(options.queue_requests_max.max(1));
    let flushed = manifest.sequence;
    let maintenance = Arc::new(Maintenance::new(
        Arc::clone(&shared),
        (blobs, caches),
        InForce { manifests, manifest, dead },
        MaintenanceOptions {
            base_bytes: options.base_bytes.min(budget.base_bytes()),
            group_bytes: budget.row_group_bytes,
            page_bytes: budget.page_bytes(),
            base_codec,
            compacts: options.compacts,
            granularity,
            pin_age_max_micros: options.pin_age_max_micros,
        },
        scratch,
        queue.downgrade(),
    ));
    opened.values().for_each(|segment| maintenance.files.add(segment));
    if let Some(error) = opened.values().find_map(|segment| segment.refused()) {
        // The log must stay as it is: it knows what was changed in the segment, and a flush would let go of it.
        let reason = format!(
            "{error}, and the log has changes of its rows: the store can only be read until the file is restored and the store \
             started again"
        );
        tracing::error!(%reason, "the store takes no writes");
        let _ = shared.stopped.set(reason);
        shared.board.close();
    }
    let thresholds = Thresholds {
        memtable_bytes: budget.memtable_bytes,
        stall_bytes: budget.memtable_bytes,
        group_bytes: budget.log_group_bytes(),
    };
    let writer = Writer::new(Arc::clone(&shared), log, requests, thresholds, flushed);
    let thread = |name: &str, work: Box<dyn FnOnce() + Send>| -> Result<JoinHandle<()>> {
        let lock = Arc::clone(&lock);
        let held = move || {
            work();
            // The store is free when the last of its threads has ended.
            drop(lock);
        };
        let started = std::thread::Builder::new().name(name.into()).spawn(held);
        started.map_err(|source| log::failed("start a thread of", &path, source))
    };
    let (flushing, compacting) = (Arc::clone(&maintenance), Arc::clone(&maintenance));
    let threads = vec![
        thread("keyspan-log", Box::new(move || writer.run()))?,
        thread("keyspan-flush", Box::new(move || flushing.watched(Maintenance::run_flush)))?,
        thread("keyspan-compact", Box::new(move || compacting.watched(Maintenance::run_compaction)))?,
    ];
    let room_permits = (options.queue_bytes_max / ROOM_BYTES).clamp(1, Semaphore::MAX_PERMITS);
    Ok(Arc::new(Engine {
        is_local,
        path,
        shared,
        maintenance,
        queue: Some(queue),
        room: Arc::new(Semaphore::new(room_permits)),
        room_permits,
        fetching: Arc::new(Semaphore::new(fetch::ROWS_MAX as usize)),
        loading: Arc::new(Semaphore::new(load::loads_max(memory_bytes))),
        row_locks: (0..ROW_LOCKS).map(|_| tokio::sync::Mutex::default()).collect(),
        closed: AtomicBool::new(false),
        threads: Mutex::new(threads),
        lock: Arc::downgrade(&lock),
        sync_micros,
        budget,
        memory_bytes,
        pin_age_max_micros: options.pin_age_max_micros,
    }))
}

/// The dead positions that a manifest names.
fn dead_of(manifests: &Manifests, manifest: &Manifest) -> Result<BTreeMap<SegmentId, Dead>> {
    let read = |(id, meta): (&SegmentId, &super::manifest::DeadMeta)| {
        let bytes = manifests.read_dead(*id, meta)?;
        let dead = Dead::decode(&bytes).filter(|dead| dead.count() == meta.count).ok_or_else(|| Error::Corrupt {
            path: manifests.dead_path(*id, meta.version),
            offset: 0,
            detail: format!("it does not hold {} dead positions", meta.count),
        })?;
        Ok((*id, dead))
    };
    manifest.dead.iter().map(read).collect()
}

/// The tables of a manifest.
fn state_of(
    path: &Path,
    manifest: &Manifest,
    dead: &BTreeMap<SegmentId, Dead>,
    open: &mut dyn FnMut(u32, &super::manifest::SegmentMeta) -> Arc<Segment>,
) -> Result<State> {
    let folder = path.join(super::manifest::MANIFEST_FOLDER);
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
        for meta in table.tablets.iter().flat_map(|tablet| &tablet.segments).map(|segment| segment.meta().id) {
            if let Some(dead) = dead.get(&meta) {
                table.dead.insert(meta, dead.clone());
            }
        }
        state.set_table(name, table);
    }
    state.next_table = state.next_table.max(manifest.next_table);
    Ok(state)
}
