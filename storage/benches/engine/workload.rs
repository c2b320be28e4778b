//! The rows that are written and read: 14 typed columns of one family and keys of 25 bytes. The same row number gives
//! the same row in every run.

use bytes::Bytes;
use futures::{TryStreamExt, future::try_join_all};
use keyspan_storage::{
    ColumnKind, Commit, Family, FamilyName, KeyRange, Layout, LayoutColumn, Layouts, Mutation, Row, RowKey,
    RowMutation, Scan, Store, TableName, TableSchema,
    engine::{Engine, EngineOptions},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{path::Path, sync::Arc};

/// Rows of a load request.
const LOAD_ROWS: usize = 1_000;
/// Load requests at a time.
const LOAD_REQUESTS: usize = 4;

/// The columns, in the order of their names.
const COLUMNS: [(&str, ColumnKind); 14] = [
    ("active", ColumnKind::Bool),
    ("at", ColumnKind::TimestampUtc),
    ("battery", ColumnKind::Int64),
    ("city", ColumnKind::Utf8),
    ("count", ColumnKind::Int64),
    ("firmware", ColumnKind::Utf8),
    ("humidity", ColumnKind::Float64),
    ("latitude", ColumnKind::Float64),
    ("longitude", ColumnKind::Float64),
    ("model", ColumnKind::Utf8),
    ("pressure", ColumnKind::Int64),
    ("serial", ColumnKind::Utf8),
    ("signal", ColumnKind::Int64),
    ("temperature", ColumnKind::Float64),
];

pub(crate) fn table() -> TableName {
    TableName::new("readings").expect("a name")
}

pub(crate) fn family() -> FamilyName {
    FamilyName::new("f").expect("a name")
}

/// The key of a row; keys of absent rows lie in between.
pub(crate) fn key(row: u64) -> RowKey {
    RowKey::new(format!("alto#{:09}#{:010}", row / 1_000, row % 1_000)).expect("a key")
}

/// The key of no row, just before the key of `row`.
pub(crate) fn absent_key(row: u64) -> RowKey {
    RowKey::new(format!("{}-", String::from_utf8_lossy(&key(row)))).expect("a key")
}

/// The mutations that write a row.
pub(crate) fn mutations(row: u64) -> Vec<Mutation> {
    let mut random = StdRng::seed_from_u64(row);
    let cells = COLUMNS.iter().map(|(name, kind)| {
        let value = match (kind, *name) {
            (ColumnKind::Bool, _) => Bytes::copy_from_slice(&[u8::from(random.random_bool(0.9))]),
            (ColumnKind::TimestampUtc, _) => {
                (1_700_000_000_000_000 + row as i64 * 1_000_003).to_be_bytes().to_vec().into()
            }
            (ColumnKind::Int64, "count") => (row as i64 / 3).to_be_bytes().to_vec().into(),
            (ColumnKind::Int64, _) => random.random_range(0i64..10_000).to_be_bytes().to_vec().into(),
            (ColumnKind::Float64, _) => {
                (random.random_range(0..100_000) as f64 / 1_000.0).to_be_bytes().to_vec().into()
            }
            (_, "serial") => format!("{:016x}", random.random::<u64>()).into(),
            (_, name) => format!("{name} {}", random.random_range(0..60)).into(),
        };
        Mutation::SetCell { family: family(), qualifier: Bytes::from_static(name.as_bytes()), timestamp: None, value }
    });
    cells.collect()
}

/// The write of one row.
pub(crate) fn commit(row: u64) -> Commit {
    Commit::row(table(), key(row), mutations(row))
}

#[derive(Debug)]
struct Typed;

impl Layouts for Typed {
    fn layout(&self, _: &TableName, _: &[&[u8]], _: Option<&[u8]>) -> Option<Arc<Layout>> {
        let columns = COLUMNS.iter().map(|&(name, kind)| LayoutColumn {
            family: family(),
            qualifier: Bytes::from_static(name.as_bytes()),
            kind,
            accepts: None,
        });
        Some(Arc::new(Layout { columns: columns.collect(), ..Layout::default() }))
    }
}

/// Opens the store in a folder; creates the table in a new store.
pub(crate) async fn open(folder: &Path, change: impl FnOnce(&mut EngineOptions)) -> Arc<Engine> {
    let mut options = EngineOptions::new(folder);
    change(&mut options);
    let engine = Engine::open(options).await.expect("a store");
    engine.set_layouts(Arc::new(Typed));
    if engine.tables().await.expect("tables").is_empty() {
        let schema = TableSchema::of([(family(), Family::default())]);
        engine.create_table(&table(), schema).await.expect("a new table");
    }
    engine
}

/// Writes rows, many to a request.
pub(crate) async fn load(engine: &Engine, rows: impl Iterator<Item = u64>) {
    let rows: Vec<u64> = rows.collect();
    for requests in rows.chunks(LOAD_ROWS * LOAD_REQUESTS) {
        let requests = requests.chunks(LOAD_ROWS).map(|rows| {
            let rows = rows.iter().map(|&row| RowMutation { key: key(row), mutations: mutations(row) });
            let rows = rows.collect();
            async move { engine.mutate_rows(&table(), rows).await }
        });
        let answers = try_join_all(requests).await.expect("rows are written");
        answers.into_iter().flatten().for_each(|answer| answer.expect("a row is written"));
    }
}

/// Reads one row.
pub(crate) async fn read(engine: &Engine, key: &RowKey) -> Option<Row> {
    let scan = Scan { rows_max: Some(1), versions_max: Some(1), ..Scan::of(KeyRange::point(key)) };
    let mut batches = engine.scan(&table(), scan);
    batches.try_next().await.expect("a row is read").and_then(|batch| batch.into_iter().next())
}
