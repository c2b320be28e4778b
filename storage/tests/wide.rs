//! Wide rows and large cells in a small engine: written data survives flush, compaction and another start, with bounded
//! memory. The allocator of this program counts: each phase has a limit of additional bytes.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "all of it is a test, and says what it measured")]

use futures::TryStreamExt;
use keyspan_storage::{
    ColumnKind, Columns, Commit, ErrorKind, Family, FamilyName, GcRule, KeyRange, Layout, LayoutColumn, Layouts,
    Mutation, Row, RowKey, RowMutation, Scan, Store, TableName, TableSchema, Write,
    engine::{Engine, EngineOptions},
    scan::FamilyColumns,
};
use peak_alloc::PeakAlloc;
use std::{
    path::Path,
    sync::{Arc, LazyLock},
};
use tokio::sync::{Mutex, MutexGuard};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The engine's memory budget.
const MEMORY_BYTES: usize = 12 << 20;
/// Memory in addition to the budget, whatever is written: batches in flight, pages, a group of the log, tails.
const OVERHEAD_BYTES: usize = 20 << 20;
/// Copies of a row while it is read, written, or moved from one segment to another: as in the file, encoded, and split
/// for the next file.
const ROW_COPIES: usize = 3;
/// Bytes of a large cell.
const CELL_BYTES: usize = 10 << 20;

/// One test at a time: all of them count the same memory.
async fn alone() -> MutexGuard<'static, ()> {
    static ONE: LazyLock<Mutex<()>> = LazyLock::new(Mutex::default);
    ONE.lock().await
}

/// Runs a phase, and checks its peak memory.
async fn phase<T>(name: &str, bytes_max: usize, work: impl Future<Output = T>) -> T {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let done = work.await;
    let taken = ALLOCATOR.peak_usage().saturating_sub(before);
    assert!(taken <= bytes_max, "{name}: {} KiB at the peak, {} KiB are the bound", taken >> 10, bytes_max >> 10);
    eprintln!("{name}: {} KiB of {} KiB", taken >> 10, bytes_max >> 10);
    done
}

fn table() -> TableName {
    TableName::new("t").unwrap()
}

fn family() -> FamilyName {
    FamilyName::new("f").unwrap()
}

fn key(number: usize) -> RowKey {
    RowKey::new(format!("row{number:08}")).unwrap()
}

fn set(qualifier: String, value: Vec<u8>) -> Mutation {
    Mutation::SetCell { family: family(), qualifier: qualifier.into(), timestamp: None, value: value.into() }
}

fn options(folder: &Path) -> EngineOptions {
    EngineOptions { memory_bytes: MEMORY_BYTES as u64, compacts: false, ..EngineOptions::new(folder) }
}

async fn made(folder: &Path) -> Arc<Engine> {
    let engine = Engine::open(options(folder)).await.unwrap();
    let family_of = Family { gc: GcRule::MaxVersions(1), aggregate: None };
    engine.create_table(&table(), TableSchema::of([(family(), family_of)])).await.unwrap();
    engine
}

async fn reopened(engine: Arc<Engine>, folder: &Path) -> Arc<Engine> {
    engine.close().await.unwrap();
    drop(engine);
    Engine::open(options(folder)).await.unwrap()
}

/// The rows of a scan one after the other, without keeping them.
async fn each(engine: &Engine, scan: Scan, mut look: impl FnMut(Row)) {
    let mut rows = engine.scan(&table(), scan);
    while let Some(batch) = rows.try_next().await.unwrap() {
        batch.into_iter().for_each(&mut look);
    }
}

async fn count(engine: &Engine) -> usize {
    let mut count = 0;
    let nothing = Scan { columns: Columns::Of(Vec::new()), keep_empty: true, ..Scan::all() };
    each(engine, nothing, |_| count += 1).await;
    count
}

fn one_column(qualifier: &str) -> Scan {
    let qualifiers = Some(vec![qualifier.to_owned().into()]);
    Scan { columns: Columns::Of(vec![FamilyColumns { family: family(), qualifiers }]), ..Scan::all() }
}

/// A row of 100,000 columns among narrow ones.
#[tokio::test]
async fn a_row_of_100_000_qualifiers() {
    const COLUMNS: usize = 100_000;
    const ROWS: usize = 100;
    /// Encoded: qualifier, value, lengths and family.
    const ROW_BYTES: usize = COLUMNS * (10 + 9 + 3);
    /// A row as cells, as returned to a client that reads it whole.
    const CELLS_BYTES: usize = COLUMNS * 160;
    const BOUND: usize = MEMORY_BYTES + OVERHEAD_BYTES + ROW_COPIES * ROW_BYTES + 2 * CELLS_BYTES;
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let engine = made(folder.path()).await;
    let value = |column: usize| format!("value{:04}", column % 10_000).into_bytes();
    phase("100,000 columns written", BOUND, async {
        for row in (0..ROWS).filter(|row| *row != ROWS / 2) {
            let cells = vec![set("name".into(), format!("{row}").into_bytes()), set("size".into(), vec![7])];
            engine.commit(Commit::row(table(), key(row), cells)).await.unwrap();
        }
        for part in 0..10 {
            let columns = part * COLUMNS / 10..(part + 1) * COLUMNS / 10;
            let cells = columns.map(|column| set(format!("c{column:09}"), value(column))).collect();
            engine.commit(Commit::row(table(), key(ROWS / 2), cells)).await.unwrap();
        }
    })
    .await;
    phase("flushed", BOUND, engine.flush()).await.unwrap();
    phase("compacted", BOUND, engine.compact(None)).await.unwrap();
    // Into a segment that has it already.
    engine.commit(Commit::row(table(), key(ROWS / 2), vec![set("late".into(), vec![1])])).await.unwrap();
    phase("compacted again", BOUND, engine.compact(None)).await.unwrap();
    let engine = phase("opened again", BOUND, reopened(engine, folder.path())).await;

    phase("read whole", BOUND, async {
        let mut cells = 0;
        each(&engine, Scan::all(), |row| {
            if row.key == key(ROWS / 2) {
                assert!(row.cells.windows(2).all(|pair| pair[0].qualifier < pair[1].qualifier));
                assert_eq!(row.cells.len(), COLUMNS + 1);
                assert_eq!(row.cells[77_777].qualifier, "c000077777");
                assert_eq!(row.cells[77_777].value, value(77_777));
            }
            cells += row.cells.len();
        })
        .await;
        assert_eq!(cells, COLUMNS + 1 + 2 * (ROWS - 1));
    })
    .await;
    phase("one column read", BOUND, async {
        let mut found = Vec::new();
        each(&engine, one_column("c000012345"), |row| found.push((row.key, row.cells))).await;
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].0, &found[0].1[0].value[..]), (&key(ROWS / 2), &value(12_345)[..]));
        // A column of all other rows has its own column in the file, whatever the wide row has.
        let mut names = 0;
        each(&engine, one_column("name"), |_| names += 1).await;
        assert_eq!(names, ROWS - 1);
    })
    .await;
    phase("counted", BOUND, async { assert_eq!(count(&engine).await, ROWS) }).await;
}

fn large(row: usize, cell: usize) -> Vec<u8> {
    let seed = (row * 31 + cell) as u8;
    let mut value = vec![seed; CELL_BYTES];
    value[CELL_BYTES / 2] = seed.wrapping_add(1);
    value
}

fn large_cells(row: usize, cells: std::ops::Range<usize>) -> Commit {
    let mutations = cells.map(|cell| set(format!("c{cell:02}"), large(row, cell))).collect();
    Commit::row(table(), key(row), mutations)
}

/// Rows with a cell of 10 MiB each, in separate segments, so that a scan and a compaction have all of them next in
/// their merge.
#[tokio::test]
async fn cells_of_10_mib_in_many_segments() {
    const ROWS: usize = 8;
    const BOUND: usize = MEMORY_BYTES + OVERHEAD_BYTES + ROW_COPIES * CELL_BYTES;
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let engine = made(folder.path()).await;
    // The mutation, the resulting row, and the frame of the log.
    phase("cells of 10 MiB written", MEMORY_BYTES + OVERHEAD_BYTES + 5 * CELL_BYTES, async {
        for row in 0..ROWS {
            engine.commit(large_cells(row, 0..1)).await.unwrap();
            engine.flush().await.unwrap();
        }
    })
    .await;
    let segments = engine.inspect().unwrap().segments;
    assert_eq!(segments.len(), ROWS, "a segment for each row");
    assert!(segments.iter().all(|segment| segment.side_bytes > CELL_BYTES as u64));
    let read = async |engine: &Engine| {
        let mut found = 0;
        each(engine, Scan::all(), |row| {
            assert_eq!(row.key, key(found));
            assert!(row.cells[0].value == large(found, 0), "row {found}");
            found += 1;
        })
        .await;
        assert_eq!(found, ROWS);
    };
    // The current row, and the one that the test compares it with.
    phase("read from segments", BOUND, read(&engine)).await;
    phase("compacted", BOUND, engine.compact(None)).await.unwrap();
    assert!(engine.inspect().unwrap().segments.len() <= ROWS / 2);
    let engine = phase("opened again", BOUND, reopened(engine, folder.path())).await;
    phase("read from a base", BOUND, read(&engine)).await;
    phase("counted", MEMORY_BYTES, async { assert_eq!(count(&engine).await, ROWS) }).await;
}

/// A row close to the limit of rows, and one cell too many.
#[tokio::test]
async fn a_row_of_large_cells_up_to_the_limit() {
    const CELLS: usize = 25;
    const ROW_BYTES: usize = CELLS * CELL_BYTES;
    const BOUND: usize = MEMORY_BYTES + OVERHEAD_BYTES + ROW_COPIES * ROW_BYTES;
    /// It is in the request, in both memtables, in the log's frame and on its way to a segment, at the same time.
    const WRITTEN: usize = MEMORY_BYTES + OVERHEAD_BYTES + 6 * ROW_BYTES;
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let engine = made(folder.path()).await;
    phase("250 MiB written", WRITTEN, async {
        engine.commit(large_cells(1, 0..CELLS / 2)).await.unwrap();
        engine.commit(large_cells(1, CELLS / 2..CELLS)).await.unwrap();
    })
    .await;
    let error = engine.commit(large_cells(1, CELLS..CELLS + 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    phase("flushed", BOUND, engine.flush()).await.unwrap();
    let engine = phase("opened again", BOUND, reopened(engine, folder.path())).await;
    phase("read whole", BOUND, async {
        each(&engine, Scan::all(), |row| {
            assert_eq!(row.cells.len(), CELLS);
            for (cell, found) in row.cells.iter().enumerate() {
                assert!(found.value == large(1, cell), "cell {cell}");
            }
        })
        .await;
    })
    .await;
    phase("one cell read", BOUND, async {
        let mut found = 0;
        each(&engine, one_column("c07"), |row| found += row.cells[0].value.len()).await;
        assert_eq!(found, CELL_BYTES);
    })
    .await;
    // The row changes while it is in a segment: it is read, folded and logged as a whole.
    phase("changed", WRITTEN, async {
        let gone = Mutation::DeleteFromFamily { family: family() };
        engine.commit(Commit::row(table(), key(1), vec![gone, set("c".into(), vec![1])])).await.unwrap();
        engine.compact(None).await.unwrap();
    })
    .await;
    assert_eq!(count(&engine).await, 1);
}

/// A million columns, no two rows with a common one, and one that all rows have.
#[tokio::test]
async fn a_table_of_a_million_distinct_qualifiers() {
    const ROWS: usize = 10_000;
    const COLUMNS: usize = 100;
    const BOUND: usize = MEMORY_BYTES + OVERHEAD_BYTES;
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let engine = made(folder.path()).await;
    phase("a million columns written", BOUND, async {
        for first in (0..ROWS).step_by(100) {
            let rows = (first..first + 100).map(|row| {
                let own = (0..COLUMNS).map(|at| set(format!("q{:09}", row * COLUMNS + at), vec![at as u8]));
                let mutations = own.chain([set("all".into(), row.to_string().into_bytes())]).collect();
                Write::Row { table: table(), row: RowMutation { key: key(row), mutations } }
            });
            engine.commit(Commit { writes: rows.collect(), validation: None }).await.unwrap();
        }
    })
    .await;
    phase("flushed", BOUND, engine.flush()).await.unwrap();
    phase("compacted", BOUND, engine.compact(None)).await.unwrap();
    let engine = phase("opened again", BOUND, reopened(engine, folder.path())).await;
    // Tails name few columns, however many there are.
    let footers = async {
        count(&engine).await;
        engine.inspect().unwrap().memory.footer_cache_bytes
    };
    assert!(phase("counted", BOUND, footers).await < MEMORY_BYTES as u64 / 16);
    phase("read whole", BOUND, async {
        let (mut rows, mut cells) = (0, 0);
        each(&engine, Scan::all(), |row| {
            assert_eq!(row.key, key(rows));
            assert_eq!(row.cells[1 + 42].qualifier, format!("q{:09}", rows * COLUMNS + 42));
            rows += 1;
            cells += row.cells.len();
        })
        .await;
        assert_eq!((rows, cells), (ROWS, ROWS * (COLUMNS + 1)));
    })
    .await;
    phase("one column read", BOUND, async {
        let mut all = 0;
        each(&engine, one_column("all"), |row| {
            assert_eq!(row.cells[0].value, all.to_string());
            all += 1;
        })
        .await;
        assert_eq!(all, ROWS);
        let mut rare = Vec::new();
        each(&engine, one_column("q000123456"), |row| rare.push(row.key)).await;
        assert_eq!(rare, [key(1_234)]);
        let one = Scan::of(KeyRange::point(&key(9_999)));
        let mut cells = 0;
        each(&engine, one, |row| cells += row.cells.len()).await;
        assert_eq!(cells, COLUMNS + 1);
    })
    .await;
}

/// A table that declares two hundred columns of whole numbers.
#[derive(Debug)]
struct Numbers;

impl Numbers {
    const COLUMNS: usize = 200;

    fn qualifier(column: usize) -> String {
        format!("n{column:03}")
    }
}

impl Layouts for Numbers {
    fn layout(&self, _: &TableName, _: &[&[u8]], _: Option<&[u8]>) -> Option<Arc<Layout>> {
        let column = |at| LayoutColumn {
            family: family(),
            qualifier: Self::qualifier(at).into(),
            kind: ColumnKind::Int64,
            accepts: None,
        };
        Some(Arc::new(Layout { columns: (0..Self::COLUMNS).map(column).collect(), ..Layout::default() }))
    }
}

/// Two hundred columns of whole numbers that do not repeat: all of Parquet's column writers exist at once.
#[tokio::test]
async fn two_hundred_columns_of_whole_numbers() {
    const ROWS: usize = 2_000;
    /// Pages of a writer, over all columns.
    const WRITERS_BYTES: usize = 2 * Numbers::COLUMNS * (64 << 10);
    const BOUND: usize = MEMORY_BYTES + OVERHEAD_BYTES + WRITERS_BYTES;
    let _alone = alone().await;
    let folder = tempfile::tempdir().unwrap();
    let engine = made(folder.path()).await;
    engine.set_layouts(Arc::new(Numbers));
    let number =
        |row: usize, column: usize| ((row * Numbers::COLUMNS + column) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    phase("numbers written", BOUND, async {
        for row in 0..ROWS {
            let cell = |column| set(Numbers::qualifier(column), number(row, column).to_be_bytes().into());
            let cells = (0..Numbers::COLUMNS).map(cell).collect();
            engine.commit(Commit::row(table(), key(row), cells)).await.unwrap();
        }
    })
    .await;
    phase("flushed", BOUND, engine.flush()).await.unwrap();
    phase("compacted", BOUND, engine.compact(None)).await.unwrap();
    let engine = phase("opened again", BOUND, reopened(engine, folder.path())).await;
    phase("read whole", BOUND, async {
        let mut rows = 0;
        each(&engine, Scan::all(), |row| {
            assert_eq!((&row.key, row.cells.len()), (&key(rows), Numbers::COLUMNS));
            for (column, cell) in row.cells.iter().enumerate() {
                assert_eq!(cell.value, number(rows, column).to_be_bytes().to_vec());
            }
            rows += 1;
        })
        .await;
        assert_eq!(rows, ROWS);
    })
    .await;
}
