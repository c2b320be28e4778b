//! Rows that a transaction holds by `SELECT … FOR UPDATE` and `FOR SHARE`: what its COMMIT relies on beside what its
//! writes rely on.
//!
//! ```text
//! SELECT … FOR UPDATE ──Lock, one for each table──▶ keys, as the rows are sent
//! COMMIT ──▶ every row is as it was read, else 40001
//!        ──▶ if the transaction writes: rows of FOR UPDATE get a new marker, so that of two that hold a row and write one fails
//! ```
//!
//! Nobody waits: what a lock keeps others from, it finds at COMMIT. Rows are known when they are sent, on the threads
//! of the query, so that a lock is shared with the stream; ROLLBACK TO forgets those of later statements, and what
//! their streams still add is dropped. Rows are [held](RowLocks) for all to see until the transaction ends: SKIP LOCKED
//! passes over what others hold, NOWAIT is 55P03. So are rows that a statement of the transaction writes, if they are
//! few.

use super::OpenTransaction;
use crate::lock::{Mutex, MutexGuard};
use crate::{
    dml::target::marker,
    pg::error::{Result, SqlError, SqlState},
    row_locks::{RowLocks, TransactionLocks},
    write_set::{ROW_OVERHEAD_BYTES, ReadSet},
};
use keyspan_catalog::{Table, TableId};
use keyspan_storage::{Pin, RowKey, RowMutation};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Rows that a transaction may lock: each may become a mutation of its commit, which has a bound of its own.
pub(crate) const LOCKED_ROWS_MAX: usize = 50_000;
/// Bytes of keys that a transaction may lock.
const LOCKED_BYTES_MAX: usize = 64 << 20;

/// Rows that a statement writes and others pass over, at most: of more, none is seen by others.
const WRITTEN_ROWS_MAX: usize = 1_024;

/// The locks of a transaction, by number.
#[derive(Debug)]
pub(crate) struct Locks {
    held: Mutex<Held>,
    holder: TransactionLocks,
}

/// Lets rows go at the end of their transaction.
#[derive(Debug)]
pub(super) struct UntilEnd(pub(super) Arc<Locks>);

impl Drop for UntilEnd {
    fn drop(&mut self) {
        self.0.release();
    }
}

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
    /// Whether the transaction writes them, and relies on them by that.
    written: bool,
    keys: BTreeSet<RowKey>,
}

/// A lock of the rows of one table that one statement reads.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    locks: Arc<Locks>,
    number: u64,
}

impl Lock {
    /// Adds a row; with `alone` only if no other transaction excludes that. Whether it did.
    ///
    /// # Errors
    /// 54000 above [`LOCKED_ROWS_MAX`] and [`LOCKED_BYTES_MAX`]; 53200.
    pub(crate) fn add(&self, key: RowKey, alone: bool) -> Result<bool> {
        let mut held = self.locks.held();
        let size = key.len() + ROW_OVERHEAD_BYTES;
        let Some(rows) = held.locks.get_mut(&self.number) else { return Ok(true) };
        if !self.locks.holder.lock(rows.table.id, &key, rows.changes, alone)? {
            return Ok(false);
        }
        if !rows.keys.insert(key) {
            return Ok(true);
        }
        held.rows += 1;
        held.bytes += size;
        if held.rows <= LOCKED_ROWS_MAX && held.bytes <= LOCKED_BYTES_MAX {
            return Ok(true);
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

impl Lock {
    /// Takes a row back that was added.
    pub(crate) fn take_back(&self, key: &RowKey) {
        let mut held = self.locks.held();
        let Some(rows) = held.locks.get_mut(&self.number) else { return };
        let table = rows.table.id;
        if rows.keys.remove(key) {
            held.rows -= 1;
            held.bytes -= key.len() + ROW_OVERHEAD_BYTES;
            self.locks.let_go(&held, table, key);
        }
    }
}

impl Locks {
    /// Of a transaction in a database; `None` is the operator's.
    pub(super) fn new(row_locks: &Arc<RowLocks>, database: Option<u32>) -> Self {
        Self { held: Mutex::default(), holder: row_locks.begin(database) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock()
    }

    /// A lock of rows that are read at a pin.
    pub(crate) fn begin(self: &Arc<Self>, pin: &Pin, table: &Arc<Table>, changes: bool) -> Lock {
        let rows = Rows { pin: pin.clone(), table: table.clone(), changes, written: false, keys: BTreeSet::new() };
        Lock { locks: self.clone(), number: self.held().put(rows) }
    }

    /// Rows that a statement of the transaction writes. Where there is no room for them, others do not see them:
    /// whoever takes one learns so at COMMIT.
    pub(super) fn written(&self, pin: &Pin, table: &Arc<Table>, keys: &BTreeSet<RowKey>) {
        if keys.is_empty() || keys.len() > WRITTEN_ROWS_MAX {
            return;
        }
        let mut held = self.held();
        if held.rows + keys.len() > LOCKED_ROWS_MAX {
            return;
        }
        if keys.iter().any(|key| self.holder.lock(table.id, key, true, false).is_err()) {
            keys.iter().for_each(|key| self.let_go(&held, table.id, key));
            return;
        }
        held.rows += keys.len();
        held.bytes += keys.iter().map(|key| key.len() + ROW_OVERHEAD_BYTES).sum::<usize>();
        held.put(Rows { pin: pin.clone(), table: table.clone(), changes: true, written: true, keys: keys.clone() });
    }

    /// Lets rows go that others wait for: the transaction is over.
    pub(super) fn release(&self) {
        self.holder.release();
    }

    /// What a savepoint remembers.
    pub(super) fn mark(&self) -> u64 {
        self.held().next
    }

    /// Forgets the locks since then.
    pub(super) fn rollback_to(&self, mark: u64) {
        let mut held = self.held();
        let forgotten = held.locks.split_off(&mark);
        for (rows, key) in forgotten.values().flat_map(|rows| rows.keys.iter().map(move |key| (rows, key))) {
            held.rows -= 1;
            held.bytes -= key.len() + ROW_OVERHEAD_BYTES;
            self.let_go(&held, rows.table.id, key);
        }
    }

    /// Lets a row go, but for what other locks of the transaction hold of it.
    fn let_go(&self, held: &Held, table: TableId, key: &RowKey) {
        self.holder.unlock(table, key);
        for rows in held.locks.values().filter(|rows| rows.table.id == table && rows.keys.contains(key)) {
            // There was room for it a moment ago; without, others see it no more.
            let _ = self.holder.lock(table, key, rows.changes, false);
        }
    }
}

impl Held {
    fn put(&mut self, rows: Rows) -> u64 {
        let number = self.next;
        self.next += 1;
        self.locks.insert(number, rows);
        number
    }
}

impl OpenTransaction {
    /// The same with the rows that are locked among those that it relies on, and with new markers for those that are to
    /// be as if they were changed.
    pub(super) fn with_locks(mut self: Box<Self>) -> Box<Self> {
        let locks = std::mem::take(&mut self.locks.held().locks);
        let writes = !self.buffered.is_empty() || !self.definitions.is_empty();
        let own = self.definitions.tables();
        for (_, Rows { pin, table, changes, written, keys }) in locks {
            if keys.is_empty() || written {
                continue;
            }
            // What the transaction has altered or emptied itself nobody else writes by now.
            if writes && changes && !own.contains(&table.id) {
                self.touch(&table, &keys);
            }
            self.locked = true;
            self.reads.push(ReadSet { pin, rows: BTreeMap::from([(table.id, (table, keys))]) });
        }
        self.reads.sort_by_key(|read_set| read_set.pin.commit_micros);
        self
    }

    /// New markers for rows that the transaction does not write. They are there: their commit is refused when they have
    /// changed.
    fn touch(&mut self, table: &Arc<Table>, keys: &BTreeSet<RowKey>) {
        let id: TableId = table.id;
        let rows = Arc::make_mut(&mut self.buffered).entry(id).or_default();
        for key in keys.iter().filter(|key| !rows.contains_key(*key)).cloned().collect::<Vec<_>>() {
            rows.insert(key.clone(), RowMutation { key, mutations: vec![marker()] });
        }
        self.tables.entry(id).or_insert_with(|| table.clone());
    }
}
