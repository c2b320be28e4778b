//! Throughput and latency of the engine: point reads, scans, reads of few rows with and without cached pages, start-up,
//! durable writes, flush, compaction.
//!
//! ```sh
//! cargo bench -p keyspan-storage                                           # everything, on 200,000 rows
//! KEYSPAN_BENCH_ROWS=10000000 cargo bench -p keyspan-storage -- start-up   # benches with this in their name
//! ```
//!
//! `KEYSPAN_BENCH_ROWS` is the number of rows of the store that is read. `KEYSPAN_BENCH_FOLDER` is a folder on the disk
//! to measure; the default is the folder of temporary files. The store is created when the first bench needs it, and
//! removed at the end. Besides criterion's means, the benches print percentiles of single point reads.

mod texts;
mod workload;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use futures::{StreamExt, future::join_all};
use keyspan_storage::{
    Columns, RowKey, Scan, Store,
    engine::{Engine, MEMORY_BYTES},
    scan::FamilyColumns,
};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use std::{
    cell::{Cell, RefCell},
    env,
    hint::black_box,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use workload::{absent_key, commit, family, key, load, open, read, table};

/// Default number of rows of the store that is read.
const ROWS: u64 = 200_000;
/// Rows when criterion only checks that everything works.
const ROWS_TRIED: u64 = 2_000;
/// Rows that one flush writes, at most.
const FLUSHED_ROWS: u64 = 50_000;
/// Rows of text values: their pages fit into the cache.
const TEXTS_ROWS: u64 = 50_000;
/// Memory with which the pages of the texts do not fit into the cache.
const TEXTS_MEMORY_BYTES_MIN: u64 = 16 << 20;
/// Rows that are read repeatedly, so that they are cached.
const CACHED_ROWS: usize = 1_000;
/// Writers of durable rows.
const WRITERS: [u64; 2] = [1, 64];

struct Bench {
    runtime: Runtime,
    /// Removed at the end.
    folder: TempDir,
    rows: u64,
    /// The store that is read, and whether its rows were loaded.
    engine: RefCell<Option<Arc<Engine>>>,
    is_loaded: Cell<bool>,
}

impl Bench {
    fn new() -> Self {
        // Criterion's own test: `cargo bench` passes `--bench`.
        let given = |name: &str| env::args().any(|argument| argument == name);
        let is_tried = !given("--bench") || given("--test");
        let rows =
            env::var("KEYSPAN_BENCH_ROWS").ok().map(|rows| rows.parse().expect("KEYSPAN_BENCH_ROWS is a number"));
        let parent = env::var_os("KEYSPAN_BENCH_FOLDER").map_or_else(env::temp_dir, PathBuf::from);
        Self {
            runtime: Runtime::new().expect("threads"),
            folder: tempfile::tempdir_in(parent).expect("a folder"),
            rows: rows.unwrap_or(if is_tried { ROWS_TRIED } else { ROWS }),
            engine: RefCell::new(None),
            is_loaded: Cell::new(false),
        }
    }

    /// The store that is read: compacted, with empty memtables.
    fn engine(&self) -> Arc<Engine> {
        let opened = || {
            self.runtime.block_on(async {
                let engine = open(&self.folder.path().join("read"), |_| {}).await;
                if !self.is_loaded.replace(true) {
                    load(&engine, 0..self.rows).await;
                    engine.compact(None).await.expect("a compaction");
                }
                engine
            })
        };
        Arc::clone(self.engine.borrow_mut().get_or_insert_with(opened))
    }

    fn close(&self) {
        if let Some(engine) = self.engine.take() {
            self.runtime.block_on(engine.close()).expect("what was written is there");
        }
    }

    /// An empty store in its own folder, which compacts only on request.
    fn new_engine(&self) -> (TempDir, Arc<Engine>) {
        let folder = tempfile::tempdir_in(self.folder.path()).expect("a folder");
        let engine = self.runtime.block_on(open(folder.path(), |options| {
            options.compacts = false;
            options.memory_bytes = 2 << 30;
            options.memtable_bytes = Some(512 << 20);
        }));
        (folder, engine)
    }
}

/// Which rows are read one by one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Points {
    /// Few rows, read before.
    Cached,
    /// All rows, each once.
    Segments,
    /// Absent rows: their position is looked up, and nothing is read.
    Absent,
}

/// One row at a time.
fn points(criterion: &mut Criterion, bench: &Bench) {
    let mut order: Vec<u64> = (0..bench.rows).collect();
    order.shuffle(&mut StdRng::seed_from_u64(1));
    let mut group = criterion.benchmark_group("points");
    for (name, points) in [("cached", Points::Cached), ("segments", Points::Segments), ("absent", Points::Absent)] {
        let rows = if points == Points::Cached { &order[..order.len().min(CACHED_ROWS)] } else { &order[..] };
        let key: fn(u64) -> RowKey = if points == Points::Absent { absent_key } else { key };
        let (mut next, mut times) = (0, Vec::new());
        group.bench_function(name, |bencher| {
            if points == Points::Cached {
                let engine = bench.engine();
                bench.runtime.block_on(join_all(rows.iter().map(async |&row| read(&engine, &key(row)).await)));
            }
            bencher.iter_custom(|iterations| {
                let mut took = Duration::ZERO;
                for _ in 0..iterations {
                    if points == Points::Segments && next % rows.len() == 0 {
                        // The row cache of a newly opened store is empty.
                        bench.close();
                    }
                    let (engine, key) = (bench.engine(), key(rows[next % rows.len()]));
                    next += 1;
                    let begun = Instant::now();
                    let found = bench.runtime.block_on(read(&engine, &key));
                    times.push(begun.elapsed());
                    took += times[times.len() - 1];
                    assert_eq!(black_box(found).is_some(), points != Points::Absent, "{key:?}");
                }
                took
            });
        });
        print_percentiles(&format!("points/{name}"), &mut times);
    }
    group.finish();
}

#[expect(clippy::print_stderr, reason = "criterion prints there too")]
fn print_percentiles(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    if let Some(last) = times.len().checked_sub(1) {
        let at = |percent: usize| times[(times.len() * percent / 100).min(last)];
        eprintln!("{name}: p50 {:?}, p99 {:?} of {}", at(50), at(99), times.len());
    }
}

/// Two columns of all rows, row by row.
fn scan(criterion: &mut Criterion, bench: &Bench) {
    let mut group = criterion.benchmark_group("scan");
    group.sampling_mode(SamplingMode::Flat).sample_size(10).throughput(Throughput::Elements(bench.rows));
    group.bench_function("two columns", |bencher| {
        let engine = bench.engine();
        bencher.iter(|| {
            let qualifiers = Some(vec!["battery".into(), "temperature".into()]);
            let columns = Columns::Of(vec![FamilyColumns { family: family(), qualifiers }]);
            let mut batches = engine.scan(&table(), Scan { columns, versions_max: Some(1), ..Scan::all() });
            let rows = bench.runtime.block_on(async {
                let mut rows = 0;
                while let Some(batch) = batches.next().await {
                    rows += black_box(batch.expect("rows are read")).len() as u64;
                }
                rows
            });
            assert_eq!(rows, bench.rows);
        });
    });
    group.finish();
}

/// Few rows of ten texts each, none of them in the row cache. With enough memory all of their pages are cached, else
/// hardly any.
fn few(criterion: &mut Criterion, bench: &Bench, (name, memory_bytes): (&str, u64)) {
    let rows = bench.rows.min(TEXTS_ROWS);
    let folder = bench.folder.path().join("texts");
    let engine = RefCell::new(None);
    let opened = || {
        let open = || bench.runtime.block_on(texts::open(&folder, memory_bytes, rows));
        Arc::clone(engine.borrow_mut().get_or_insert_with(open))
    };
    let mut order: Vec<u64> = (0..rows).collect();
    order.shuffle(&mut StdRng::seed_from_u64(1));
    let mut group = criterion.benchmark_group(name);
    let of_group = name;
    for (name, rows_read) in [("row of ten texts", 1), ("scan of 50 rows", 50)] {
        let (mut next, mut times) = (0, Vec::new());
        group.throughput(Throughput::Elements(rows_read));
        group.bench_function(name, |bencher| {
            opened();
            bencher.iter_custom(|iterations| {
                let mut took = Duration::ZERO;
                for _ in 0..iterations {
                    if next > 0
                        && next % order.len() == 0
                        && let Some(engine) = engine.take()
                    {
                        // Reopening empties the row cache and reads the pages again.
                        bench.runtime.block_on(Engine::close(&engine)).expect("what was written is there");
                    }
                    let (engine, first) = (opened(), order[next % order.len()].min(rows - rows_read.min(rows)));
                    next += 1;
                    let begun = Instant::now();
                    let found = bench.runtime.block_on(texts::read(&engine, first, rows_read));
                    times.push(begun.elapsed());
                    took += times[times.len() - 1];
                    assert_eq!(black_box(found) as u64, rows_read * texts::COLUMNS as u64, "{first}");
                }
                took
            });
        });
        print_percentiles(&format!("{of_group}/{name}"), &mut times);
    }
    group.finish();
    if let Some(engine) = engine.take() {
        bench.runtime.block_on(engine.close()).expect("what was written is there");
    }
}

/// From a closed store to the first row.
fn start_up(criterion: &mut Criterion, bench: &Bench) {
    let mut group = criterion.benchmark_group("start-up");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group.bench_function(BenchmarkId::from_parameter(bench.rows), |bencher| {
        bench.engine();
        bencher.iter_custom(|iterations| {
            let mut took = Duration::ZERO;
            for _ in 0..iterations {
                bench.close();
                let begun = Instant::now();
                let engine = bench.engine();
                assert!(bench.runtime.block_on(read(&engine, &key(bench.rows / 2))).is_some());
                took += begun.elapsed();
            }
            took
        });
    });
    group.finish();
}

/// Commits of one row each, synced before the next one of the same writer.
fn writes(criterion: &mut Criterion, bench: &Bench) {
    let mut group = criterion.benchmark_group("durable writes");
    group.throughput(Throughput::Elements(1));
    for writers in WRITERS {
        group.bench_function(BenchmarkId::new("writers", writers), |bencher| {
            let (_folder, engine) = bench.new_engine();
            let next = Arc::new(AtomicU64::new(0));
            bencher.iter_custom(|iterations| {
                let end = next.load(Ordering::Relaxed) + iterations;
                let begun = Instant::now();
                let writing = (0..writers).map(|_| {
                    let (engine, next) = (Arc::clone(&engine), Arc::clone(&next));
                    bench.runtime.spawn(async move {
                        let take = |next: u64| (next < end).then_some(next + 1);
                        while let Ok(row) = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
                            engine.commit(commit(row)).await.expect("a row is written");
                        }
                    })
                });
                let writing: Vec<_> = writing.collect();
                for ended in bench.runtime.block_on(join_all(writing)) {
                    ended.expect("no writer fails");
                }
                begun.elapsed()
            });
        });
    }
    group.finish();
}

/// Memtables to deltas, and deltas to bases.
fn segments(criterion: &mut Criterion, bench: &Bench) {
    let rows = bench.rows.min(FLUSHED_ROWS);
    let mut group = criterion.benchmark_group("segments");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    for compacts in [false, true] {
        // Two deltas, each with every other row.
        let (name, parts) = if compacts { ("compaction", 2) } else { ("flush", 1) };
        group.throughput(Throughput::Elements(rows * parts));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let mut took = Duration::ZERO;
                for _ in 0..iterations {
                    let (_folder, engine) = bench.new_engine();
                    bench.runtime.block_on(async {
                        for part in 0..parts {
                            load(&engine, (0..rows).map(|row| row * parts + part)).await;
                            let begun = Instant::now();
                            engine.flush().await.expect("a flush");
                            took += if compacts { Duration::ZERO } else { begun.elapsed() };
                        }
                        if compacts {
                            let begun = Instant::now();
                            engine.compact(None).await.expect("a compaction");
                            took += begun.elapsed();
                        }
                        engine.close().await.expect("what was written is there");
                    });
                }
                took
            });
        });
    }
    group.finish();
}

fn main() {
    let bench = Bench::new();
    let mut criterion = Criterion::default().configure_from_args();
    points(&mut criterion, &bench);
    scan(&mut criterion, &bench);
    few(&mut criterion, &bench, ("pages cached", MEMORY_BYTES));
    few(&mut criterion, &bench, ("pages not cached", TEXTS_MEMORY_BYTES_MIN));
    start_up(&mut criterion, &bench);
    writes(&mut criterion, &bench);
    segments(&mut criterion, &bench);
    bench.close();
    criterion.final_summary();
}
