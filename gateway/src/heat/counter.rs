//! Where a statement counts what it reads and writes of a table.

use super::{
    Heat,
    cells::Counts,
    sketch::{Keys, Sketch},
};
use bytes::Bytes;
use keyspan_catalog::{Snapshot, Table, TenantStore, tenant_store::StoredKeys};
use keyspan_storage::{KeyRange, Row, RowKey, RowSet};
use std::{cmp::Ordering, sync::Arc};

/// Counts what one session does to one table.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    heat: Arc<Heat>,
    sketch: Arc<Sketch>,
    keys: StoredKeys,
    /// The tenant whose session it is; `None` for the operator's.
    tenant: Option<u32>,
    snapshot: Arc<Snapshot>,
}

impl Heat {
    /// Where a session counts what it does to a table; `None` where there is no place to count it.
    pub(crate) fn counter(
        self: &Arc<Self>,
        rows: &TenantStore,
        table: &Table,
        snapshot: &Arc<Snapshot>,
    ) -> Option<Counter> {
        let sketch = self.table(table.id.0)?;
        let (keys, tenant, snapshot) = (rows.stored_keys(table), rows.oid(), Arc::clone(snapshot));
        Some(Counter { heat: Arc::clone(self), sketch, keys, tenant, snapshot })
    }
}

impl Counter {
    /// Counts rows that were read, in the order of their keys or backwards, and the bytes read for them.
    pub(crate) fn read(&self, rows: &[Row], bytes_read: u64) {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return };
        let of = Batch { keys: &self.keys, rows, reversed: first.key > last.key };
        self.count(&of, Counts { reads: rows.len() as u64, bytes_read, ..Counts::default() });
    }

    /// Counts bytes that were read for rows which are counted elsewhere.
    pub(crate) fn read_bytes(&self, rows: &[Row], bytes_read: u64) {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return };
        let of = Batch { keys: &self.keys, rows, reversed: first.key > last.key };
        self.count(&of, Counts { bytes_read, ..Counts::default() });
    }

    /// Counts rows that are written, by their ascending keys, and their bytes.
    pub(crate) fn wrote(&self, rows: &[&RowKey], bytes_written: u64) {
        let of = Batch { keys: &self.keys, rows, reversed: false };
        self.count(&of, Counts { writes: rows.len() as u64, bytes_written, ..Counts::default() });
    }

    /// Counts rows that are read somewhere in these ranges: evenly, once the result is dropped. Of `bytes_read` it is
    /// known that they are read.
    pub(crate) fn reading_within(self, rows: &RowSet, bytes_read: u64) -> ReadWithin {
        ReadWithin { ranges: rows.ranges().to_vec(), rows: 0, bytes_read, counter: self }
    }

    fn count(&self, batch: &Batch<'_, impl Keyed>, counts: Counts) {
        if !self.sketch.count_of_tenant(batch, counts) {
            self.cut(batch);
            self.sketch.count(batch, counts);
        }
    }

    /// Gives the span of the first key a range of its own.
    fn cut(&self, batch: &Batch<'_, impl Keyed>) {
        if batch.len() == 0 || self.heat.is_full() || !self.sketch.is_of_nobody(batch) {
            return;
        }
        let Some((id, span)) = self.keys.tenant_of(batch.key(0)) else { return };
        let of_id = || self.snapshot.tenants.get(&id).map(|tenant| tenant.oid);
        if let Some(tenant) = self.tenant.or_else(of_id) {
            self.heat.cut(&self.sketch, &span, tenant);
        }
    }
}

/// Rows of ranges, counted when it is dropped.
#[derive(Debug)]
pub(crate) struct ReadWithin {
    counter: Counter,
    ranges: Vec<KeyRange>,
    rows: u64,
    bytes_read: u64,
}

impl ReadWithin {
    /// Adds rows.
    pub(crate) fn add(&mut self, rows: usize) {
        self.rows += rows as u64;
    }
}

impl Drop for ReadWithin {
    fn drop(&mut self) {
        let Some(first) = self.ranges.first().map(|first| [first.start.clone()]) else { return };
        let counter = &self.counter;
        counter.cut(&Batch { keys: &counter.keys, rows: &first, reversed: false });
        let ranges: Vec<KeyRange> = self.ranges.iter().map(|range| counter.keys.range(range)).collect();
        let counts = Counts { reads: self.rows, bytes_read: self.bytes_read, ..Counts::default() };
        counter.sketch.spread(&ranges, counts);
    }
}

/// The keys of rows.
struct Batch<'a, T> {
    keys: &'a StoredKeys,
    rows: &'a [T],
    /// Whether the rows descend.
    reversed: bool,
}

/// What has a key of the session's.
trait Keyed {
    fn key(&self) -> &[u8];
}

impl Keyed for Row {
    fn key(&self) -> &[u8] {
        &self.key
    }
}

impl Keyed for &RowKey {
    fn key(&self) -> &[u8] {
        self
    }
}

impl Keyed for Bytes {
    fn key(&self) -> &[u8] {
        self
    }
}

impl<T: Keyed> Batch<'_, T> {
    fn key(&self, at: usize) -> &[u8] {
        self.rows[if self.reversed { self.rows.len() - 1 - at } else { at }].key()
    }
}

impl<T: Keyed> Keys for Batch<'_, T> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn compare(&self, at: usize, stored: &[u8]) -> Ordering {
        self.keys.compare(self.key(at), stored)
    }

    fn stored(&self, at: usize) -> Bytes {
        self.keys.stored(self.key(at))
    }
}
