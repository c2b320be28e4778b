//! Short forms in which the suite writes operations and expected results: columns are `family:qualifier`, a row is
//! `key: family:qualifier@timestamp=value …`.

use crate::{
    Aggregate, Commit, Error, Family, FamilyName, GcRule, KeyRange, Mutation, Pin, Row, RowKey, RowMutation, Scan,
    Store, StoreExt, TableName, TableSchema, TimestampRange, Validation, Write, clock::ManualClock,
    store::delete_column,
};
use bytes::Bytes;
use std::{any::Any, collections::BTreeMap, fmt, sync::Arc};

/// The name of the one table of most cases.
pub const TABLE: &str = "t";
/// The time, in microseconds, at which a case begins.
pub(super) const START_MICROS: i64 = 1_000_000;

/// A new store under test, and its clock.
pub struct Subject {
    /// The store; it has no tables.
    pub store: Arc<dyn Store>,
    /// Its clock, at any time up to a second after 1970.
    pub clock: Arc<ManualClock>,
    /// Must live as long as the store: a folder, a simulated disk.
    pub guard: Box<dyn Any + Send + Sync>,
    /// Whether so much happened since a pin that the store no longer knows which rows changed: it may report false
    /// conflicts.
    pub forgets: Box<dyn Fn(&Pin) -> bool + Send + Sync>,
    /// Releases held tasks, before an operation that would wait for them.
    pub release: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("store", &self.store).field("clock", &self.clock).finish()
    }
}

impl Subject {
    /// A store without a guard.
    pub fn new(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        Self { store, clock, guard: Box::new(()), forgets: Box::new(|_| false), release: Box::new(|| {}) }
    }

    /// Creates the table.
    pub(super) async fn create(&self, families: &[(&str, GcRule)]) {
        self.store.create_table(&table(), schema(families)).await.unwrap();
    }

    /// Creates the table with families `a` and `b` that keep everything.
    pub(super) async fn create_plain(&self) {
        self.create(&[("a", GcRule::KeepAll), ("b", GcRule::KeepAll)]).await;
    }

    /// Writes a row.
    pub(super) async fn write(&self, row: &str, mutations: Vec<Mutation>) {
        self.store.mutate_row(&table(), key(row), mutations).await.unwrap();
    }

    /// Writes a row that must be refused.
    pub(super) async fn refuse(&self, row: &str, mutations: Vec<Mutation>) -> Error {
        self.store.mutate_row(&table(), key(row), mutations).await.unwrap_err()
    }

    /// The result of a scan.
    pub(super) async fn read(&self, scan: Scan) -> Vec<String> {
        self.store.read_rows(&table(), scan).await.unwrap().iter().map(render).collect()
    }

    /// Checks the result of a scan.
    pub(super) async fn check_scan(&self, what: impl fmt::Debug, scan: Scan, want: &[&str]) {
        assert_eq!(self.read(scan).await, want, "{what:?}");
    }

    /// Checks the whole content of the table.
    pub(super) async fn check(&self, what: &str, want: &[&str]) {
        self.check_scan(what, Scan::all(), want).await;
    }

    /// A commit of one row that relied on rows read at a pin.
    pub(super) async fn commit_after(
        &self,
        pin: &crate::Pin,
        relied_on: &[&str],
        row: &str,
        mutations: Vec<Mutation>,
    ) -> crate::Result<i64> {
        let rows = relied_on.iter().map(|row| (table(), key(row))).collect();
        let commit =
            Commit { writes: vec![write(row, mutations)], validation: Some(Validation { pin: pin.clone(), rows }) };
        self.store.commit(commit).await
    }
}

pub(super) fn table() -> TableName {
    TableName::new(TABLE).unwrap()
}

pub(super) fn family(name: &str) -> FamilyName {
    FamilyName::new(name).unwrap()
}

pub(super) fn key(key: &str) -> RowKey {
    RowKey::new(key.as_bytes().to_vec()).unwrap()
}

pub(super) fn schema(families: &[(&str, GcRule)]) -> TableSchema {
    let plain = |(name, gc): &(&str, GcRule)| (family(name), Family { gc: gc.clone(), aggregate: None });
    TableSchema::of(families.iter().map(plain).collect::<BTreeMap<_, _>>())
}

/// Families `plain`, `sum`, `min`, `max` and `hll`.
pub(super) fn aggregates() -> TableSchema {
    let of = |name, aggregate| (family(name), Family { gc: GcRule::KeepAll, aggregate });
    TableSchema::of([
        of("plain", None),
        of("sum", Some(Aggregate::Sum)),
        of("min", Some(Aggregate::Min)),
        of("max", Some(Aggregate::Max)),
        of("hll", Some(Aggregate::Hll)),
    ])
}

fn column(column: &str) -> (FamilyName, Bytes) {
    let (name, qualifier) = column.split_once(':').unwrap();
    (family(name), Bytes::copy_from_slice(qualifier.as_bytes()))
}

/// Sets a cell at a timestamp.
pub(super) fn set(at: &str, timestamp: i64, value: &str) -> Mutation {
    let (family, qualifier) = column(at);
    Mutation::SetCell { family, qualifier, timestamp: Some(timestamp), value: Bytes::copy_from_slice(value.as_bytes()) }
}

/// Sets a cell that the store stamps.
pub(super) fn set_now(at: &str, value: &str) -> Mutation {
    let (family, qualifier) = column(at);
    Mutation::SetCell { family, qualifier, timestamp: None, value: Bytes::copy_from_slice(value.as_bytes()) }
}

/// Adds to an aggregate.
pub(super) fn add(at: &str, timestamp: i64, input: i64) -> Mutation {
    let (family, qualifier) = column(at);
    Mutation::AddToCell { family, qualifier, timestamp: Some(timestamp), input }
}

/// Merges into an aggregate.
pub(super) fn merge(at: &str, timestamp: i64, state: &[u8]) -> Mutation {
    let (family, qualifier) = column(at);
    Mutation::MergeToCell { family, qualifier, timestamp: Some(timestamp), state: Bytes::copy_from_slice(state) }
}

/// Deletes a column.
pub(super) fn delete(at: &str) -> Mutation {
    let (family, qualifier) = column(at);
    delete_column(family, qualifier)
}

/// Deletes the cells of a column from one timestamp, inclusive, to another, exclusive.
pub(super) fn delete_between(at: &str, start: i64, end: Option<i64>) -> Mutation {
    let (family, qualifier) = column(at);
    Mutation::DeleteFromColumn { family, qualifier, timestamps: TimestampRange { start, end } }
}

/// Deletes a family of a row.
pub(super) fn delete_family(name: &str) -> Mutation {
    Mutation::DeleteFromFamily { family: family(name) }
}

/// A row's part of a commit.
pub(super) fn write(row: &str, mutations: Vec<Mutation>) -> Write {
    Write::Row { table: table(), row: RowMutation { key: key(row), mutations } }
}

/// A range's part of a commit.
pub(super) fn delete_range(start: &str, end: &str) -> Write {
    Write::DeleteRange { table: table(), range: range(start, end) }
}

/// The keys from one, inclusive, to another, exclusive.
pub(super) fn range(start: &str, end: &str) -> KeyRange {
    KeyRange::new(start.as_bytes().to_vec(), Some(Bytes::copy_from_slice(end.as_bytes())))
}

/// A row as text. Eight bytes with a small number, as aggregates encode it, are written as that number.
pub(super) fn render(row: &Row) -> String {
    let mut text = format!("{}:", row.key.escape_ascii());
    for cell in &row.cells {
        text += &format!(" {}:{}@{}=", cell.family, cell.qualifier.escape_ascii(), cell.timestamp);
        match <[u8; 8]>::try_from(cell.value.as_ref()).map(i64::from_be_bytes) {
            Ok(number) if number.abs() < 1 << 32 => text += &number.to_string(),
            _ => text += &cell.value.escape_ascii().to_string(),
        }
    }
    text
}
