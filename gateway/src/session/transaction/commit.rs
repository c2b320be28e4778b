//! The commit of a transaction: its rows, and what it has defined, with one commit of the store.
//!
//! Every row that a statement relied on was read at that statement's pin. The store checks one pin, the last: rows that
//! were relied on at earlier ones are compared between their pin and that one first ([`reads_at`]). With definitions
//! the pin is that of the catalog's edit ([`commit_defined`]).

use super::{OpenTransaction, remote};
use crate::{
    instance::Instance,
    notifications::{Ear, Pending, Room},
    pg::error::{Result, SqlError, SqlState},
    session::pending_ddl::catalog_error,
    settings::Settings,
    shield::shielded,
    table_locks::TableLockGuard,
    write_set::{ReadSet, WriteSet, conflict},
};
use futures::TryStreamExt;
use keyspan_catalog::{Table, TableId, TenantStore, tenant_store::Writes};
use keyspan_storage::{KeyRange, Pin, Row, RowKey, RowSet, Scan};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Rows that are compared between two pins at a time.
const COMPARED_ROWS: usize = 1_024;

type Local = BTreeMap<String, String>;

/// Commits a transaction, whose temporary tables have these spaces: settings to set back and the number of rows; with
/// an error the settings as they were at BEGIN.
pub(super) async fn commit_all(
    instance: &Instance,
    rows: &TenantStore,
    (mut open, spaces): (OpenTransaction, BTreeSet<u32>),
    held: &TableLockGuard<'_>,
    told: Announcement<'_>,
) -> Result<(Local, usize), (SqlError, Settings)> {
    let result = async {
        let mut inside = match told.room {
            Some(room) => Some(room.enter().await),
            None => None,
        };
        if let Some(inside) = &inside {
            inside.check(&told.pending)?;
        }
        let count = commit_rows(instance, rows, (&mut open, spaces), held).await?;
        if let Some(inside) = &mut inside {
            inside.tell(told.ear, told.pending);
        }
        Ok(count)
    };
    let result: Result<usize> = result.await;
    match result {
        Ok(count) => Ok((open.local, count)),
        Err(error) if error.state == SqlState::SERIALIZATION_FAILURE => {
            Err((SqlError { detail: error.detail, ..conflict() }, open.settings))
        }
        Err(error) => Err((error, open.settings)),
    }
}

/// What the transaction tells others, if anything: when it is committed, and nobody else is about to tell something.
pub(super) struct Announcement<'a> {
    /// The database's.
    pub(super) room: Option<&'a Room>,
    pub(super) ear: &'a Arc<Ear>,
    pub(super) pending: Pending,
}

/// Commits rows and definitions: the number of rows.
async fn commit_rows(
    instance: &Instance,
    rows: &TenantStore,
    (open, spaces): (&mut OpenTransaction, BTreeSet<u32>),
    held: &TableLockGuard<'_>,
) -> Result<usize> {
    if !open.definitions.is_empty() {
        return commit_defined(instance, rows, (open, spaces), held).await;
    }
    if let Some((written, reads)) = remote::of_block(open) {
        return commit_remote(rows, written, reads).await;
    }
    let Some(last) = open.reads.last().map(|read_set| read_set.pin.clone()) else {
        let pin = rows.pin().await?;
        return commit_at(rows, &pin, (open, spaces), BTreeMap::new(), held).await;
    };
    // Who writes nothing commits nothing that would be held against what it locked.
    let last = if open.locked && open.buffered.is_empty() { rows.pin().await? } else { last };
    let reads = reads_at(rows, std::mem::take(&mut open.reads), &last).await?;
    commit_at(rows, &last, (open, spaces), reads, held).await
}

/// Commits rows on a server: each relies on what it was when the transaction first read it.
async fn commit_remote(rows: &TenantStore, mut written: WriteSet, reads: Vec<ReadSet>) -> Result<usize> {
    remote::without_other_reads(&mut written);
    let now = rows.pin().await?;
    let pin = |id, key: &RowKey| remote::first_pin(&reads, id, key).unwrap_or(&now);
    // What is relied on of tables here is compared with how it is now, and held against a single row.
    for read_set in &reads {
        for (table, keys) in read_set.rows.values().filter(|(table, _)| table.remote.is_none()) {
            check_unchanged(rows, table, keys, (&read_set.pin, &now)).await?;
        }
    }
    // That several may be, each statement has checked.
    let way = remote::way(&written, true)?;
    let count = written.row_count();
    shielded(Box::pin(remote::commit(rows, written, way, pin))).await?;
    Ok(count)
}

type Reads = BTreeMap<TableId, (Arc<Table>, BTreeSet<RowKey>)>;

/// The rows that the transaction relied on; none has changed between its pin and the last one.
async fn reads_at(rows: &TenantStore, reads: Vec<ReadSet>, last: &Pin) -> Result<Reads> {
    let mut all = Reads::new();
    for read_set in reads {
        let earlier = read_set.pin.commit_micros != last.commit_micros;
        for (id, (table, keys)) in read_set.rows {
            if earlier {
                check_unchanged(rows, &table, &keys, (&read_set.pin, last)).await?;
            }
            all.entry(id).or_insert_with(|| (table, BTreeSet::new())).1.extend(keys);
        }
    }
    Ok(all)
}

/// Commits rows and definitions together.
async fn commit_defined(
    instance: &Instance,
    rows: &TenantStore,
    (open, reserved): (&mut OpenTransaction, BTreeSet<u32>),
    held: &TableLockGuard<'_>,
) -> Result<usize> {
    let Some((tenant, oid)) = rows.tenant().zip(rows.oid()) else {
        return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a session of one tenant was expected"));
    };
    if open.definitions.is_outdated(instance) {
        return Err(conflict().with_detail("A table that the transaction has altered was written by another."));
    }
    let editing = instance.catalog.begin_edit().await?;
    let edit = open.definitions.edit((tenant, oid));
    let after = editing.snapshot().apply(&edit).map_err(|error| catalog_error(&error))?;
    let reads = reads_at(rows, std::mem::take(&mut open.reads), editing.pin()).await?;
    let mut written = WriteSet { reads, ..WriteSet::default() };
    let own = open.definitions.tables();
    for (id, mutations) in Arc::unwrap_or_clone(std::mem::take(&mut open.buffered)) {
        // What it has not changed itself is to be as its statements knew it.
        let table = match after.kept_by_view(tenant, id) {
            None if own.contains(&id) => after.table_of(Some(tenant), id).cloned(),
            None => open.tables.get(&id).map(|table| open.definitions.with_types(table, tenant, &after)),
            kept => kept.map(Arc::new),
        };
        if let Some(table) = table {
            let by_key = mutations.into_iter().map(|(key, row)| (key, row.mutations)).collect();
            written.rows.insert(id, (table, by_key));
        }
    }
    let count = written.row_count();
    // What was truncated of shared tables goes as a range too, with its history. The transaction's own rows come after.
    for id in open.definitions.truncated() {
        let table = after.tables.get(&id).cloned();
        written.ranges.extend(table.map(|table| (table, KeyRange::all())));
    }
    let writes = Writes { reserved, ..written.into_writes() };
    held.committed(editing.commit(rows, &edit, writes).await?);
    open.definitions.used(tenant, &after);
    if open.definitions.erases() {
        instance.purges.wake();
    }
    Ok(count)
}

async fn commit_at(
    rows: &TenantStore,
    pin: &Pin,
    (open, reserved): (&mut OpenTransaction, BTreeSet<u32>),
    reads: Reads,
    held: &TableLockGuard<'_>,
) -> Result<usize> {
    let buffered = std::mem::take(&mut open.buffered);
    if buffered.is_empty() {
        return Ok(0);
    }
    let mut written = WriteSet { reads, ..WriteSet::default() };
    for (id, mutations) in Arc::unwrap_or_clone(buffered) {
        let Some(table) = open.tables.get(&id) else { continue };
        let by_key = mutations.into_iter().map(|(key, row)| (key, row.mutations)).collect();
        written.rows.insert(id, (table.clone(), by_key));
    }
    let count = written.row_count();
    let writes = Writes { reserved, ..written.into_writes() };
    held.committed(shielded(rows.commit(pin, writes)).await?);
    Ok(count)
}

/// Compares rows between two pins.
///
/// # Errors
/// 40001 when one differs.
async fn check_unchanged(rows: &TenantStore, table: &Table, keys: &BTreeSet<RowKey>, pins: (&Pin, &Pin)) -> Result<()> {
    if changed(rows, table, keys, pins).await?.is_empty() { Ok(()) } else { Err(conflict()) }
}

/// The rows that differ between two pins, among the first [`COMPARED_ROWS`].
///
/// # Errors
/// The store's.
pub(crate) async fn changed(
    rows: &TenantStore,
    table: &Table,
    keys: &BTreeSet<RowKey>,
    (from, to): (&Pin, &Pin),
) -> Result<BTreeSet<RowKey>> {
    let keys: Vec<&RowKey> = keys.iter().collect();
    for chunk in keys.chunks(COMPARED_ROWS) {
        let points = RowSet::new(chunk.iter().map(|key| KeyRange::point(key)));
        let read = |pin: &Pin| {
            let scan = Scan { pin: Some(pin.clone()), ..Scan::of(points.clone()) };
            rows.scan(table, scan).try_concat()
        };
        let (before, after): (Vec<Row>, Vec<Row>) = (read(from).await?, read(to).await?);
        if before != after {
            let by_key =
                |rows: Vec<Row>| rows.into_iter().map(|row| (row.key.clone(), row)).collect::<BTreeMap<_, _>>();
            let (before, after) = (by_key(before), by_key(after));
            let differs = |key: &&&RowKey| before.get(**key) != after.get(**key);
            return Ok(chunk.iter().filter(differs).map(|key| (*key).clone()).collect());
        }
    }
    Ok(BTreeSet::new())
}
