//! The transaction of a session: what it has read, what it will write.
//!
//! Statements append [`WriteSet`] to it. COMMIT makes one commit of all of it. Every row that a statement relied on was
//! read at that statement's pin ([`ReadSet`]), so that a change by another transaction between two statements is found,
//! and only a change ([`commit`]).

use crate::write_set::COMMIT_BYTES_MAX;
use crate::write_set::ReadSet;
use crate::write_set::WriteSet;
use crate::write_set::check_cells;
use crate::write_set::too_large;
use crate::write_set::written_bytes;
mod commit;
mod locked;
mod remote;

use super::{
    Session,
    pending_ddl::{Definitions, Mark},
    temporary,
};
use crate::{
    advisory_locks, notifications,
    pg::error::{Result, SqlError, SqlState},
    resources::Held,
    settings::Settings,
    shield::shielded,
    sql::ast::session::{Isolation, Modes},
    view::Buffered,
    wire::transaction_status::TransactionStatus,
};
pub(crate) use commit::changed;
use commit::{Announcement, commit_all};
use keyspan_catalog::{Snapshot, Table, TableId, tenant_store::Writes};
use keyspan_storage::{Atomicity, Pin, RowMutation};
#[cfg(test)]
pub(super) use locked::LOCKED_ROWS_MAX;
use locked::UntilEnd;
pub(crate) use locked::{Lock, Locks};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Savepoints of a transaction, at most.
const SAVEPOINTS_MAX: usize = 4_096;

/// The transaction of a session, if there is one.
#[derive(Debug, Default)]
pub(super) struct TransactionState {
    open: Option<Box<OpenTransaction>>,
    failed: bool,
    /// Whether it is that of one statement, which is not to outlive it.
    of_statement: bool,
}

#[derive(Debug)]
struct OpenTransaction {
    /// When it began, in microseconds since 1970.
    began_micros: i64,
    isolation: Isolation,
    read_only: bool,
    deferrable: bool,
    /// Kept from the first statement on, when the isolation asks for it.
    state: Option<(Arc<Snapshot>, Pin)>,
    started: bool,
    tables: BTreeMap<TableId, Arc<Table>>,
    buffered: Arc<Buffered>,
    bytes: usize,
    cells: usize,
    /// What of `bytes` is counted.
    held: Held,
    reads: Vec<ReadSet>,
    /// What it holds by FOR UPDATE and FOR SHARE.
    locks: Arc<Locks>,
    /// Others see them until it is dropped, after COMMIT.
    _held: UntilEnd,
    /// The numbers that it has locked, released likewise.
    advisory_locks: advisory_locks::UntilEnd,
    /// Whether some of what it relies on is there by a lock.
    locked: bool,
    /// What it has changed of the tenant's relations.
    definitions: Definitions,
    /// For ROLLBACK.
    temporary: Arc<temporary::State>,
    /// For ROLLBACK.
    settings: Settings,
    /// Settings that hold until the end only, with their values before.
    local: BTreeMap<String, String>,
    savepoints: Vec<Savepoint>,
}

/// What ROLLBACK TO goes back to.
#[derive(Debug)]
struct Savepoint {
    name: String,
    buffered: Arc<Buffered>,
    bytes: usize,
    cells: usize,
    /// How many times rows had been relied on.
    reads: usize,
    /// The locks until then.
    locks: u64,
    /// The numbers that were locked until then.
    advisory_locks: usize,
    /// The notifications until then.
    pending: notifications::Mark,
    tables: BTreeMap<TableId, Arc<Table>>,
    definitions: Mark,
    read_only: bool,
    temporary: Arc<temporary::State>,
    settings: Settings,
    local: BTreeMap<String, String>,
}

impl TransactionState {
    /// Whether it is open, and that of one statement.
    pub(super) fn is_of_statement(&self) -> bool {
        self.open.is_some() && self.of_statement
    }

    pub(super) fn status(&self) -> TransactionStatus {
        match &self.open {
            None => TransactionStatus::Idle,
            Some(_) if self.failed => TransactionStatus::Failed,
            Some(_) => TransactionStatus::Open,
        }
    }

    pub(super) fn fail(&mut self) {
        self.failed = self.open.is_some();
        let Some(open) = &self.open else { return };
        let last = open.savepoints.last();
        open.advisory_locks.0.rollback_to(last.map_or(0, |savepoint| savepoint.advisory_locks));
        // It can only be forgotten.
        if last.is_none() {
            open.locks.release();
        }
    }

    /// The state to read that earlier statements fixed.
    pub(super) fn state(&self) -> Option<(Arc<Snapshot>, Pin)> {
        self.open.as_ref().and_then(|open| open.state.clone())
    }

    /// Fixes the state to read, when the isolation asks for it.
    pub(super) fn keep_state(&mut self, snapshot: &Arc<Snapshot>, pin: &Pin) {
        if let Some(open) = &mut self.open {
            open.started = true;
            if open.isolation == Isolation::RepeatableRead {
                open.state.get_or_insert_with(|| (snapshot.clone(), pin.clone()));
            }
        }
    }

    pub(super) fn buffered(&self) -> Arc<Buffered> {
        self.open.as_ref().map(|open| open.buffered.clone()).unwrap_or_default()
    }

    /// Whether the transaction has written a row of a table on a server.
    pub(super) fn writes_on_server(&self) -> bool {
        let Some(open) = &self.open else { return false };
        let mut written = open.buffered.iter().filter(|(_, rows)| !rows.is_empty());
        written.any(|(id, _)| open.tables.get(id).is_some_and(|table| table.remote.is_some()))
    }

    /// What the transaction has defined.
    pub(super) fn definitions(&self) -> Option<&Definitions> {
        self.open.as_ref().map(|open| &open.definitions)
    }

    pub(super) fn definitions_mut(&mut self) -> Option<&mut Definitions> {
        self.open.as_mut().map(|open| &mut open.definitions)
    }

    /// Whether a space was given to a table since the last savepoint.
    pub(super) fn has_fresh(&self, space: u32) -> bool {
        self.open.as_ref().is_some_and(|open| {
            let mark = open.savepoints.last().map(|savepoint| savepoint.definitions).unwrap_or_default();
            open.definitions.has_space_since(mark, space)
        })
    }

    /// Forgets what would be written to some tables.
    pub(super) fn forget_rows(&mut self, is: impl Fn(TableId) -> bool) {
        if let Some(open) = &mut self.open {
            Arc::make_mut(&mut open.buffered).retain(|table, _| !is(*table));
        }
    }
}

impl OpenTransaction {
    /// The same without what is written to some tables.
    fn without(mut self: Box<Self>, tables: &BTreeSet<TableId>) -> Box<Self> {
        if !tables.is_empty() {
            Arc::make_mut(&mut self.buffered).retain(|id, _| !tables.contains(id));
            self.reads.iter_mut().for_each(|read_set| read_set.rows.retain(|id, _| !tables.contains(id)));
        }
        self
    }

    /// The place of the newest savepoint of a name.
    fn savepoint(&self, name: &str) -> Result<usize> {
        self.savepoints.iter().rposition(|savepoint| savepoint.name == name).ok_or_else(|| {
            let message = format!("savepoint \"{name}\" does not exist");
            SqlError::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, message)
        })
    }
}

fn outside(what: &str) -> SqlError {
    let message = format!("{what} can only be used in transaction blocks");
    SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message)
}

impl Session {
    /// The isolation of the transaction, or of the next one.
    pub(crate) fn isolation(&self) -> Isolation {
        self.transaction.open.as_ref().map_or_else(|| self.settings.isolation(), |open| open.isolation)
    }

    /// Whether the transaction, or the next one, may not write.
    pub(crate) fn is_read_only(&self) -> bool {
        self.transaction.open.as_ref().map_or_else(|| self.settings.read_only(), |open| open.read_only)
    }

    /// Whether the transaction, or the next one, is DEFERRABLE, which changes nothing.
    pub(crate) fn is_deferrable(&self) -> bool {
        self.transaction.open.as_ref().map_or_else(|| self.settings.deferrable(), |open| open.deferrable)
    }

    /// Whether a transaction block is open.
    pub(crate) fn in_transaction(&self) -> bool {
        self.transaction.open.is_some()
    }

    /// When the transaction began, in microseconds since 1970; `None` when the statement is one by itself.
    pub(crate) fn began_micros(&self) -> Option<i64> {
        let open = self.transaction.open.as_ref().filter(|_| !self.transaction.of_statement);
        open.map(|open| open.began_micros)
    }

    /// What the transaction behind this one is like, for `statement` with AND CHAIN; `None` without.
    ///
    /// # Errors
    /// 25P01 for AND CHAIN outside of a transaction block.
    pub(crate) fn next_of_chain(&self, chain: bool, statement: &str) -> Result<Option<Modes>> {
        match self.transaction_status() {
            _ if !chain => Ok(None),
            TransactionStatus::Idle => Err(outside(statement)),
            _ => Ok(Some(Modes {
                isolation: Some(self.isolation()),
                read_only: Some(self.is_read_only()),
                deferrable: Some(self.is_deferrable()),
            })),
        }
    }

    /// Begins what [`next_of_chain`](Self::next_of_chain) said, once the transaction before it has ended.
    pub(crate) fn begin_chained(&mut self, next: Option<Modes>) {
        if let Some(modes) = next {
            self.begin(modes);
        }
    }

    pub(crate) fn begin(&mut self, modes: Modes) {
        if self.transaction.open.is_some() {
            let state = SqlState::ACTIVE_SQL_TRANSACTION;
            self.notice(SqlError::new(state, "there is already a transaction in progress"));
            return;
        }
        self.transaction.failed = false;
        self.transaction.of_statement = false;
        let locks = self.new_locks();
        self.transaction.open = Some(Box::new(OpenTransaction {
            began_micros: self.instance.clock.now_micros(),
            isolation: modes.isolation.unwrap_or_else(|| self.settings.isolation()),
            read_only: modes.read_only.unwrap_or_else(|| self.settings.read_only()),
            deferrable: modes.deferrable.unwrap_or_else(|| self.settings.deferrable()),
            state: None,
            started: false,
            tables: BTreeMap::new(),
            buffered: Arc::default(),
            bytes: 0,
            cells: 0,
            held: Held::of(Some(Arc::clone(&self.instance.resources.runtime.memory_pool))),
            reads: Vec::new(),
            _held: UntilEnd(locks.clone()),
            advisory_locks: advisory_locks::UntilEnd(self.advisory_locks.0.clone()),
            locks,
            locked: false,
            definitions: Definitions::default(),
            temporary: self.temporary.state(),
            settings: self.settings.clone(),
            local: BTreeMap::new(),
            savepoints: Vec::new(),
        }));
    }

    /// Begins the transaction of one statement: should that be given up, it is forgotten.
    pub(crate) fn begin_statement(&mut self) {
        self.begin(Modes::default());
        self.transaction.of_statement = true;
    }

    /// `SAVEPOINT`
    pub(crate) fn savepoint(&mut self, name: &str) -> Result<()> {
        let (settings, temporary) = (self.settings.clone(), self.temporary.state());
        let Some(open) = &mut self.transaction.open else { return Err(outside("SAVEPOINT")) };
        if open.savepoints.len() >= SAVEPOINTS_MAX {
            let message = format!("a transaction has at most {SAVEPOINTS_MAX} savepoints");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_hint("RELEASE some."));
        }
        open.savepoints.push(Savepoint {
            name: name.to_owned(),
            buffered: open.buffered.clone(),
            bytes: open.bytes,
            cells: open.cells,
            reads: open.reads.len(),
            locks: open.locks.mark(),
            advisory_locks: open.advisory_locks.0.mark(),
            pending: self.notifications.pending().mark(),
            tables: open.tables.clone(),
            definitions: open.definitions.mark(),
            read_only: open.read_only,
            temporary,
            settings,
            local: open.local.clone(),
        });
        Ok(())
    }

    /// `ROLLBACK TO`: forgets what came after the savepoint, a failure included. The savepoint stays.
    pub(crate) fn rollback_to(&mut self, name: &str) -> Result<()> {
        let Some(open) = &mut self.transaction.open else { return Err(outside("ROLLBACK TO SAVEPOINT")) };
        let at = open.savepoint(name)?;
        open.savepoints.truncate(at + 1);
        let to = &open.savepoints[at];
        open.buffered = to.buffered.clone();
        (open.bytes, open.cells, open.read_only) = (to.bytes, to.cells, to.read_only);
        open.held.resize(open.bytes)?;
        open.reads.truncate(to.reads);
        open.locks.rollback_to(to.locks);
        open.advisory_locks.0.rollback_to(to.advisory_locks);
        self.notifications.pending().rollback_to(to.pending);
        open.tables = to.tables.clone();
        open.definitions.rollback_to(to.definitions);
        open.local = to.local.clone();
        self.temporary.restore(to.temporary.clone());
        self.settings.restore(to.settings.clone());
        self.transaction.failed = false;
        self.cursors.rollback_to(at);
        Ok(())
    }

    /// `RELEASE`: forgets the savepoint and those after it.
    pub(crate) fn release(&mut self, name: &str) -> Result<()> {
        let Some(open) = &mut self.transaction.open else { return Err(outside("RELEASE SAVEPOINT")) };
        let at = open.savepoint(name)?;
        open.savepoints.truncate(at);
        self.cursors.release(at);
        Ok(())
    }

    /// How many savepoints there are.
    pub(crate) fn savepoint_depth(&self) -> usize {
        self.transaction.open.as_ref().map_or(0, |open| open.savepoints.len())
    }

    /// `SET TRANSACTION`
    ///
    /// # Errors
    /// 25001 for another isolation, or for READ WRITE, once a statement has read, and for READ WRITE behind a savepoint
    /// of what was read-only.
    pub(crate) fn set_transaction(&mut self, modes: Modes) -> Result<()> {
        let Some(open) = &mut self.transaction.open else {
            let state = SqlState::NO_ACTIVE_SQL_TRANSACTION;
            self.notice(SqlError::new(state, "SET TRANSACTION can only be used in transaction blocks"));
            return Ok(());
        };
        let too_late = |message: &str| Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        if modes.read_only == Some(false) && open.read_only {
            if open.savepoints.last().is_some_and(|savepoint| savepoint.read_only) {
                return too_late("cannot set transaction read-write mode inside a read-only transaction");
            }
            if open.started {
                return too_late("transaction read-write mode must be set before any query");
            }
        }
        if let Some(isolation) = modes.isolation {
            if open.started && isolation != open.isolation {
                return too_late("SET TRANSACTION ISOLATION LEVEL must be called before any query");
            }
            open.isolation = isolation;
        }
        open.read_only = modes.read_only.unwrap_or(open.read_only);
        open.deferrable = modes.deferrable.unwrap_or(open.deferrable);
        Ok(())
    }

    /// Remembers the value that a setting had before `SET LOCAL`; whether there is a transaction.
    pub(crate) fn remember_local(&mut self, name: &str) -> bool {
        let before = self.settings.get(name).unwrap_or_default().to_owned();
        let Some(open) = &mut self.transaction.open else { return false };
        open.local.entry(name.to_owned()).or_insert(before);
        true
    }

    /// Ends the transaction: commits it, or forgets it when it has failed. Gives the command tag.
    pub(crate) async fn commit(&mut self) -> Result<&'static str> {
        let failed = std::mem::take(&mut self.transaction.failed);
        let Some(open) = self.transaction.open.take() else {
            self.notice(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress"));
            return Ok("COMMIT");
        };
        let pending = self.notifications.take();
        if failed {
            self.cursors.rollback();
            self.settings.restore(open.settings);
            self.temporary.restore(open.temporary);
            self.temporary.tidy();
            return Ok("ROLLBACK");
        }
        let (spaces, before) = (self.temporary.spaces(), open.temporary.clone());
        let open = open.with_locks().without(&self.temporary.emptied());
        let rows = open.buffered.values().flatten();
        let (bytes, added) = written_bytes(rows.map(|(key, row)| (key, row.mutations.as_slice())));
        let turn = match bytes {
            0 => Ok(None),
            bytes => self.commit_turn(bytes, added).await.map(Some),
        };
        let _turn = match turn {
            Ok(turn) => turn,
            Err(error) => {
                self.forget(open.settings, before);
                return Err(error);
            }
        };
        for (id, rows) in open.buffered.iter() {
            if let Some(table) = open.tables.get(id) {
                self.count_keys(table, rows.iter().map(|(key, row)| (key, row.mutations.as_slice())));
            }
        }
        let instance = self.instance.clone();
        let written = open.tables.values().filter(|table| table.is_private()).map(|table| table.id);
        let read: Vec<_> = open.definitions.tables_read().collect();
        let held = instance.table_locks.lock(written.collect::<Vec<_>>(), read).await;
        let room = (!pending.is_empty()).then(|| self.room());
        let told = Announcement { room: room.as_deref(), ear: self.ear(), pending };
        let committed =
            shielded(Box::pin(commit_all(&instance, &self.identity.rows, (*open, spaces), &held, told))).await;
        if let Some(room) = room {
            self.notifications.keep(room);
        }
        match committed {
            Ok((local, rows)) => {
                self.share.count_written(rows as u64, bytes);
                self.temporary.committed();
                self.temporary.tidy();
                self.cursors.commit();
                for (name, value) in local {
                    self.settings.set(&name, Some(&value))?;
                }
                self.warn_of_atomicity(rows);
                Ok("COMMIT")
            }
            Err((error, settings)) => {
                self.forget(settings, before);
                Err(error)
            }
        }
    }

    /// Forgets what a transaction that was not committed has left in the session.
    fn forget(&mut self, settings: Settings, temporary: Arc<temporary::State>) {
        self.cursors.rollback();
        self.settings.restore(settings);
        self.temporary.restore(temporary);
        self.temporary.tidy();
    }

    /// Forgets the transaction.
    pub(crate) fn rollback(&mut self) {
        self.transaction.failed = false;
        match self.transaction.open.take() {
            Some(open) => {
                self.cursors.rollback();
                self.settings.restore(open.settings);
                self.temporary.restore(open.temporary);
                self.temporary.tidy();
                self.notifications.forget();
            }
            None => {
                let state = SqlState::NO_ACTIVE_SQL_TRANSACTION;
                self.notice(SqlError::new(state, "there is no transaction in progress"));
            }
        }
    }

    fn new_locks(&self) -> Arc<Locks> {
        Arc::new(Locks::new(&self.instance.row_locks, self.identity.rows.oid()))
    }

    /// The locks of the transaction; outside of one, of a statement.
    pub(crate) fn locks(&self) -> Arc<Locks> {
        self.transaction.open.as_ref().map_or_else(|| self.new_locks(), |open| open.locks.clone())
    }

    /// Whether rows may be locked: `changes` for FOR UPDATE.
    ///
    /// # Errors
    /// 25006.
    pub(crate) fn check_locks(&self, changes: bool) -> Result<()> {
        if self.is_read_only() {
            let what = if changes { "UPDATE" } else { "SHARE" };
            let message = format!("cannot execute SELECT FOR {what} in a read-only transaction");
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        Ok(())
    }

    /// Takes what a statement writes: into the transaction, or as a commit of its own.
    ///
    /// # Errors
    /// 40001 when a row changed since `pin` (a statement of its own is then tried again by its caller), 54000, the
    /// store's.
    pub(crate) async fn write(&mut self, pin: &Pin, written: WriteSet) -> Result<()> {
        let mut written = match self.settings.cell_time() {
            Some(micros) => written.at_timestamp(micros, self.instance.clock.now_micros())?,
            None => written,
        };
        let Some(open) = &mut self.transaction.open else {
            let mut written = written.without(|table| self.temporary.is_emptied(table));
            if written.is_empty() {
                return Ok(());
            }
            if written.is_remote() {
                return shielded(self.remote_commit(pin, written).await?).await;
            }
            let commit = self.own_commit(&mut written, true).await?;
            let instance = self.instance.clone();
            let locked = instance.table_locks.lock(written.private_tables(), []).await;
            let writes = Writes { reserved: self.temporary.spaces(), ..written.into_writes() };
            locked.committed(shielded(self.identity.rows.commit(pin, writes)).await?);
            let rows = commit.rows;
            commit.done();
            self.warn_of_atomicity(rows);
            return Ok(());
        };
        remote::without_other_reads(&mut written);
        remote::check_block(open, &written, self.settings.rows_by_themselves())?;
        open.bytes += written.bytes;
        open.cells += written.cells;
        check_cells(open.cells)?;
        if open.bytes > COMMIT_BYTES_MAX {
            return Err(too_large());
        }
        // What the statement has held is the transaction's now.
        drop(std::mem::take(&mut written.held));
        open.held.resize(open.bytes)?;
        debug_assert!(written.ranges.is_empty(), "a range is no part of a transaction");
        let buffered = Arc::make_mut(&mut open.buffered);
        for (id, (table, rows)) in written.rows {
            open.tables.insert(id, table);
            let into = buffered.entry(id).or_default();
            for (key, mutations) in rows {
                let empty = || RowMutation { key: key.clone(), mutations: Vec::new() };
                into.entry(key.clone()).or_insert_with(empty).mutations.extend(mutations);
            }
        }
        for (table, keys) in written.reads.values() {
            open.locks.written(pin, table, keys);
        }
        if !written.reads.is_empty() {
            open.reads.push(ReadSet { pin: pin.clone(), rows: written.reads });
        }
        Ok(())
    }

    /// Writes rows to a space that the session has reserved and no table has yet: at once, in a transaction too. Nobody
    /// else sees them. Rows that are not `new` take the place of others, which go.
    ///
    /// # Errors
    /// 40001 when the space is no longer reserved; those of quotas; the store's.
    pub(crate) async fn write_apart(&mut self, pin: &Pin, written: WriteSet, (space, new): (u32, bool)) -> Result<()> {
        let mut written = written;
        let commit = self.own_commit(&mut written, new).await?;
        let writes = Writes { reserved: BTreeSet::from([space]), ..written.into_writes() };
        shielded(self.identity.rows.commit(pin, writes)).await?;
        commit.done();
        Ok(())
    }

    fn warn_of_atomicity(&mut self, rows: usize) {
        if rows > 1 && self.instance.catalog.store().promises().atomicity == Atomicity::Row {
            let state = SqlState::WARNING;
            self.notice(
                SqlError::new(state, "this store commits row by row")
                    .with_detail(format!("Others may have seen some of the {rows} rows before the rest.")),
            );
        }
    }
}
