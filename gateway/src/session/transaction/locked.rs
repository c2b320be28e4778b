//! Rows that a transaction holds by `SELECT … FOR UPDATE` and `FOR SHARE`: what its COMMIT relies on beside what its writes rely on.
//!
//! ```text
//! SELECT … FOR UPDATE ──Lock, one for each table──▶ keys, as the rows are sent
//! COMMIT ──▶ every row is as it was read, else 40001
//!        ──▶ if the transaction writes: rows of FOR UPDATE get a new marker, so that of two that hold a row and write one fails
//! ```
//!
//! Nobody waits: what a lock keeps others from, it finds at COMMIT. Rows are known when they are sent, on the threads of the query, so that a lock
//! is shared with the stream; ROLLBACK TO forgets those of later statements, and what their streams still add is dropped.

use super::{OpenTransaction, ROW_OVERHEAD_BYTES, Reliance};
use crate::{
    dml::target::marker,
    error::{Result, SqlError, SqlState},
};
use keyspan_catalog::{Table, TableId};
use keyspan_storage::{Pin, RowKey, RowMutation};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

/// Rows that a transaction may lock: each may become a mutation of its commit, which has a bound of its own.
pub(crate) const LOCKED_ROWS_MAX: usize = 50_000;
/// Bytes of keys that a transaction may lock.
const LOCKED_BYTES_MAX: usize = 64 << 20;

/// The locks of a transaction, by number.
#[derive(Debug, Default)]
pub(super) struct Locks(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    next: u64,
    rows: usize,
    bytes: usize,
    locks: BTreeMap<u64, Rows>,
}

#[derive(Debug)]
struct Rows {
    pin: Pin,
    table: Arc<Table>,
    changes: bool,
    keys: BTreeSet<RowKey>,
}

/// A lock of the rows of one table that one statement reads.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    locks: Arc<Locks>,
    number: u64,
}

impl Lock {
    /// Adds a row.
    ///
    /// # Errors
    /// 54000 above [`LOCKED_ROWS_MAX`] and [`LOCKED_BYTES_MAX`].
    pub(crate) fn add(&self, key: RowKey) -> Result<()> {
        let mut held = self.locks.held();
        let size = key.len() + ROW_OVERHEAD_BYTES;
        let Some(rows) = held.locks.get_mut(&self.number) else { return Ok(()) };
        if !rows.keys.insert(key) {
            return Ok(());
        }
        held.rows += 1;
        held.bytes += size;
        if held.rows <= LOCKED_ROWS_MAX && held.bytes <= LOCKED_BYTES_MAX {
            return Ok(());
        }
        let bound = if held.rows > LOCKED_ROWS_MAX {
            format!("{LOCKED_ROWS_MAX} rows")
        } else {
            format!("keys of {} MiB", LOCKED_BYTES_MAX >> 20)
        };
        let message = format!("a transaction locks at most {bound} by FOR UPDATE and FOR SHARE");
        Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_hint(
            "Lock fewer rows, or read them in a REPEATABLE READ transaction: what it changes is checked at COMMIT.",
        ))
    }
}

impl Locks {
    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lock of rows that are read at a pin.
    pub(super) fn begin(self: &Arc<Self>, pin: &Pin, table: &Arc<Table>, changes: bool) -> Lock {
        let mut held = self.held();
        let number = held.next;
        held.next += 1;
        let rows = Rows { pin: pin.clone(), table: table.clone(), changes, keys: BTreeSet::new() };
        held.locks.insert(number, rows);
        Lock { locks: self.clone(), number }
    }

    /// What a savepoint remembers.
    pub(super) fn mark(&self) -> u64 {
        self.held().next
    }

    /// Forgets the locks since then.
    pub(super) fn rollback_to(&self, mark: u64) {
        let mut held = self.held();
        let forgotten = held.locks.split_off(&mark);
        for key in forgotten.values().flat_map(|rows| &rows.keys) {
            held.rows -= 1;
            held.bytes -= key.len() + ROW_OVERHEAD_BYTES;
        }
    }
}

impl OpenTransaction {
    /// The same with the rows that are locked among those that it relies on, and with new markers for those that are to be as if they were changed.
    pub(super) fn with_locks(mut self: Box<Self>) -> Box<Self> {
        let locks = std::mem::take(&mut self.locks.held().locks);
        let writes = !self.buffered.is_empty() || !self.definitions.is_empty();
        let own = self.definitions.tables();
        for (_, Rows { pin, table, changes, keys }) in locks {
            if keys.is_empty() {
                continue;
            }
            // What the transaction has altered or emptied itself nobody else writes by now.
            if writes && changes && !own.contains(&table.id) {
                self.touch(&table, &keys);
            }
            self.locked = true;
            self.relied.push(Reliance { pin, rows: BTreeMap::from([(table.id, (table, keys))]) });
        }
        self.relied.sort_by_key(|reliance| reliance.pin.commit_micros);
        self
    }

    /// New markers for rows that the transaction does not write. They are there: their commit is refused when they have changed.
    fn touch(&mut self, table: &Arc<Table>, keys: &BTreeSet<RowKey>) {
        let id: TableId = table.id;
        let rows = Arc::make_mut(&mut self.buffered).entry(id).or_default();
        for key in keys.iter().filter(|key| !rows.contains_key(*key)).cloned().collect::<Vec<_>>() {
            rows.insert(key.clone(), RowMutation { key, mutations: vec![marker()] });
        }
        self.tables.entry(id).or_insert_with(|| table.clone());
    }
}
