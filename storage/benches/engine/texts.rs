//! Rows of ten texts of 100 bytes each, as in key-value benchmarks.

use bytes::Bytes;
use futures::{TryStreamExt, future::try_join_all};
use keyspan_storage::{
    ColumnKind, Family, FamilyName, KeyRange, Layout, LayoutColumn, Layouts, Mutation, RowKey, RowMutation, Scan,
    Store, TableName, TableSchema,
    engine::{Engine, EngineOptions},
};
use rand::{Rng, SeedableRng, distr::Alphanumeric, rngs::StdRng};
use std::{path::Path, sync::Arc};

/// Texts of a row.
pub(crate) const COLUMNS: usize = 10;
/// Bytes of each.
const TEXT_BYTES: usize = 100;
/// Rows of a load request.
const LOAD_ROWS: u64 = 1_000;
/// Rows read at a time to fill the page cache: few enough to go through it.
const WARM_ROWS: u64 = 1_000;

#[derive(Debug)]
struct Texts;

impl Layouts for Texts {
    fn layout(&self, _: &TableName, _: &[&[u8]], _: Option<&[u8]>) -> Option<Arc<Layout>> {
        let column = |qualifier| LayoutColumn { family: family(), qualifier, kind: ColumnKind::Utf8, accepts: None };
        Some(Arc::new(Layout { columns: qualifiers().map(column).collect(), ..Layout::default() }))
    }
}

fn table() -> TableName {
    TableName::new("usertable").expect("a name")
}

fn family() -> FamilyName {
    FamilyName::new("f").expect("a name")
}

fn qualifiers() -> impl Iterator<Item = Bytes> {
    (0..COLUMNS).map(|column| format!("field{column}").into())
}

fn key(row: u64) -> RowKey {
    RowKey::new(format!("user{row:012}")).expect("a key")
}

fn mutations(row: u64) -> Vec<Mutation> {
    let mut random = StdRng::seed_from_u64(row);
    let cell = |qualifier| {
        let value: Vec<u8> = (&mut random).sample_iter(Alphanumeric).take(TEXT_BYTES).collect();
        Mutation::SetCell { family: family(), qualifier, timestamp: None, value: value.into() }
    };
    qualifiers().map(cell).collect()
}

/// Opens the store in a folder with `rows` rows in segments, and fills the page cache as far as the memory goes.
pub(crate) async fn open(folder: &Path, memory_bytes: u64, rows: u64) -> Arc<Engine> {
    let options = EngineOptions { memory_bytes, ..EngineOptions::new(folder) };
    let engine = Engine::open(options).await.expect("a store");
    engine.set_layouts(Arc::new(Texts));
    if engine.tables().await.expect("tables").is_empty() {
        let schema = TableSchema::of([(family(), Family::default())]);
        engine.create_table(&table(), schema).await.expect("a new table");
        let requests = (0..rows).step_by(LOAD_ROWS as usize).map(|first| {
            let rows = first..rows.min(first + LOAD_ROWS);
            let rows = rows.map(|row| RowMutation { key: key(row), mutations: mutations(row) });
            let rows = rows.collect();
            async { engine.mutate_rows(&table(), rows).await }
        });
        let answers = try_join_all(requests).await.expect("rows are written");
        answers.into_iter().flatten().for_each(|answer| answer.expect("a row is written"));
        engine.compact(None).await.expect("a compaction");
    }
    for first in (0..rows).step_by(WARM_ROWS as usize) {
        read(&engine, first, WARM_ROWS).await;
    }
    engine
}

/// Reads `rows` rows starting at `first`; returns the number of their cells.
pub(crate) async fn read(engine: &Engine, first: u64, rows: u64) -> usize {
    let range = match rows {
        1 => KeyRange::point(&key(first)),
        _ => KeyRange::new(key(first).to_vec(), None),
    };
    let scan = Scan { rows_max: Some(rows), versions_max: Some(1), ..Scan::of(range) };
    let mut batches = engine.scan(&table(), scan);
    let mut cells = 0;
    while let Some(batch) = batches.try_next().await.expect("rows are read") {
        cells += batch.iter().map(|row| row.cells.len()).sum::<usize>();
    }
    cells
}
