//! Writes of tables on servers, which are atomic by row.
//!
//! A row is exact: it is written if it is as its statement read it. What several rows need is decided before anything
//! is written ([`way`]): those that nobody has read go together, and those of a statement that may be repeated without
//! harm go one by one. UPDATE of several rows and the like is refused, unless `keyspan.transactions` is `row`. When a
//! part was written and the rest could not be, the error says how many rows were (40003); no one repeats the statement.

use super::OpenTransaction;
use crate::{
    pg::error::{Result, SqlError, SqlState},
    session::Session,
    shares::turns::of_share,
    write_set::{ReadSet, WriteSet},
};
use futures::{StreamExt, stream};
use keyspan_catalog::{Error, ErrorKind, Table, TableId, TenantStore, tenant_store::Writes};
use keyspan_storage::{Mutation, Pin, RowKey, RowMutation};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::task::JoinHandle;

/// Rows of one statement that are written at the same time.
const ROWS_ABREAST: usize = 16;

/// How rows on servers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// With one request: they rely on nothing, or are one row.
    Together,
    /// Each with one of its own.
    OneByOne,
}

impl Session {
    /// Whether rows of a table may be written while the session goes on: those on a server, outside of a transaction.
    pub(crate) fn writes_behind(&self, table: &Table) -> bool {
        table.remote.is_some() && !self.in_transaction() && self.settings.cell_time().is_none()
    }

    /// Begins to write rows of a table that [is written so](Self::writes_behind), and returns before they are there.
    ///
    /// # Errors
    /// 0A000; those of quotas. The task has those of [`Session::write`].
    pub(crate) async fn begin_write(&mut self, pin: &Pin, written: WriteSet) -> Result<JoinHandle<Result<()>>> {
        let commit = self.remote_commit(pin, written).await?;
        Ok(tokio::spawn(of_share(self.share.clone(), commit)))
    }

    /// The commit of rows on a server by a statement of its own.
    pub(super) async fn remote_commit(
        &mut self,
        pin: &Pin,
        mut written: WriteSet,
    ) -> Result<impl Future<Output = Result<()>> + Send + use<>> {
        without_other_reads(&mut written);
        let way = way(&written, self.settings.rows_by_themselves())?;
        let begun = self.own_commit(&mut written, true).await?;
        let (store, pin) = (self.identity.rows.clone(), pin.clone());
        Ok(Box::pin(async move {
            commit(&store, written, way, |_, _| &pin).await?;
            begun.done();
            Ok(())
        }))
    }
}

/// Forgets rows on servers that were read and are not written: they are not held against the rows that are.
pub(super) fn without_other_reads(written: &mut WriteSet) {
    let rows = &written.rows;
    for (id, (table, keys)) in &mut written.reads {
        if table.remote.is_some() {
            let own = rows.get(id).map(|(_, own)| own);
            keys.retain(|key| own.is_some_and(|own| own.contains_key(key)));
        }
    }
    written.reads.retain(|_, (table, keys)| table.remote.is_none() || !keys.is_empty());
}

/// How the rows of a write set are written, some of which are on servers. `by_row` is the setting
/// `keyspan.transactions`.
///
/// # Errors
/// 0A000 for rows that would have to be written as one.
pub(super) fn way(written: &WriteSet, by_row: bool) -> Result<Way> {
    if written.moves {
        return Err(moves());
    }
    let tables = written.rows.values().map(|(table, _)| table);
    let tables: Vec<&Arc<Table>> = tables.chain(written.ranges.iter().map(|(table, _)| table)).collect();
    let servers = |table: &Arc<Table>| table.remote.as_ref().map(|remote| remote.server);
    if tables.iter().any(|table| servers(table) != tables.first().and_then(|first| servers(first))) {
        return Err(several_places());
    }
    let relied = |id: TableId, key: &RowKey| written.reads.get(&id).is_some_and(|(_, keys)| keys.contains(key));
    let (mut all, mut read, mut deleted) = (0, 0, 0);
    for (id, (_, rows)) in &written.rows {
        for (key, mutations) in rows {
            all += 1;
            if relied(*id, key) {
                read += 1;
                deleted += usize::from(matches!(mutations.last(), Some(Mutation::DeleteFromRow)));
            }
        }
    }
    if read > 0 && !written.ranges.is_empty() {
        return Err(several_places());
    }
    if all <= 1 || read == 0 {
        return Ok(Way::Together);
    }
    if by_row || deleted == read || written.inserted == read {
        return Ok(Way::OneByOne);
    }
    Err(several_rows(tables.first().map_or("", |table| &table.name)))
}

/// Checks what a statement adds to a transaction that writes rows on servers, with it or before it.
///
/// # Errors
/// 0A000
pub(super) fn check_block(open: &OpenTransaction, written: &WriteSet, by_row: bool) -> Result<()> {
    let empty = Default::default();
    let before = |id: &TableId| open.buffered.get(id).unwrap_or(&empty).len();
    let own = open.buffered.iter().filter(|(_, rows)| !rows.is_empty()).filter_map(|(id, _)| open.tables.get(id));
    let tables: Vec<&Arc<Table>> = own.chain(written.rows.values().map(|(table, _)| table)).collect();
    if tables.iter().all(|table| table.remote.is_none()) {
        return Ok(());
    }
    if written.moves {
        return Err(moves());
    }
    let server = tables[0].remote.as_ref().map(|remote| remote.server);
    let is_elsewhere = |table: &&Arc<Table>| table.remote.as_ref().map(|remote| remote.server) != server;
    if tables.iter().any(is_elsewhere) || !open.definitions.is_empty() {
        return Err(several_places());
    }
    let mut rows: usize = open.buffered.keys().map(before).sum();
    for (id, (_, new)) in &written.rows {
        let known = open.buffered.get(id);
        rows += new.keys().filter(|key| known.is_none_or(|known| !known.contains_key(*key))).count();
    }
    if rows > 1 && !by_row {
        return Err(several_rows(&tables[0].name));
    }
    Ok(())
}

/// What an open transaction writes, if some of it is on servers, with the pin at which each row was first read.
pub(super) fn of_block(open: &mut OpenTransaction) -> Option<(WriteSet, Vec<ReadSet>)> {
    let is_remote = |id: &TableId| open.tables.get(id).is_some_and(|table| table.remote.is_some());
    if !open.buffered.iter().any(|(id, rows)| is_remote(id) && !rows.is_empty()) {
        return None;
    }
    let mut written = WriteSet::default();
    for (id, mutations) in Arc::unwrap_or_clone(std::mem::take(&mut open.buffered)) {
        let Some(table) = open.tables.get(&id) else { continue };
        let by_key = mutations.into_iter().map(|(key, row)| (key, row.mutations)).collect();
        written.rows.insert(id, (table.clone(), by_key));
    }
    let reads = std::mem::take(&mut open.reads);
    for read_set in &reads {
        for (id, (table, keys)) in &read_set.rows {
            written.reads.entry(*id).or_insert_with(|| (table.clone(), Default::default())).1.extend(keys.clone());
        }
    }
    Some((written, reads))
}

/// The pin at which a row was first read.
pub(super) fn first_pin<'a>(reads: &'a [ReadSet], id: TableId, key: &RowKey) -> Option<&'a Pin> {
    let has = |read_set: &&ReadSet| read_set.rows.get(&id).is_some_and(|(_, keys)| keys.contains(key));
    reads.iter().find(has).map(|read_set| &read_set.pin)
}

/// Writes rows on a server. `pin` gives the pin at which a row was read.
///
/// # Errors
/// 40001 when a row changed and nothing was written; 40003 when a part was; the store's.
pub(super) async fn commit<'a>(
    rows: &TenantStore,
    written: WriteSet,
    way: Way,
    pin: impl Fn(TableId, &RowKey) -> &'a Pin,
) -> Result<()> {
    if way == Way::Together {
        let first = written.rows.iter().find_map(|(id, (_, rows))| Some((*id, rows.keys().next()?.clone())));
        let pin = match first {
            Some((id, key)) => pin(id, &key),
            None => pin(TableId(0), &RowKey::new("-")?),
        };
        rows.commit(pin, written.into_writes()).await?;
        return Ok(());
    }
    let WriteSet { rows: tables, reads, .. } = written;
    let stopped = AtomicBool::new(false);
    let one = |table: Arc<Table>, key: RowKey, mutations: Vec<Mutation>| {
        let relied = reads.get(&table.id).is_some_and(|(_, keys)| keys.contains(&key));
        let (pin, stopped) = (pin(table.id, &key), &stopped);
        let validated = if relied { vec![(table.clone(), key.clone())] } else { Vec::new() };
        let writes = Writes { rows: vec![(table, RowMutation { key, mutations })], validated, ..Writes::default() };
        async move {
            if stopped.load(Ordering::Relaxed) {
                return None;
            }
            let done = rows.commit(pin, writes).await.map(drop);
            stopped.fetch_or(done.is_err(), Ordering::Relaxed);
            Some(done)
        }
    };
    let all = tables.into_values().flat_map(|(table, rows)| {
        let of_table = move |(key, mutations)| (table.clone(), key, mutations);
        rows.into_iter().map(of_table)
    });
    let all: Vec<_> = all.map(|(table, key, mutations)| one(table, key, mutations)).collect();
    let (count, mut done) = (all.len(), 0);
    let (mut conflict, mut failure): (Option<Error>, Option<Error>) = (None, None);
    let mut results = stream::iter(all).buffer_unordered(ROWS_ABREAST);
    while let Some(result) = results.next().await {
        match result {
            Some(Ok(())) => done += 1,
            Some(Err(error)) if error.kind() == ErrorKind::Conflict => conflict = conflict.or(Some(error)),
            Some(Err(error)) => failure = failure.or(Some(error)),
            None => {}
        }
    }
    match failure.or(conflict) {
        None => Ok(()),
        Some(error) if done == 0 => Err(error.into()),
        Some(error) => Err(partial(done, count, &SqlError::from(error))),
    }
}

fn partial(done: usize, count: usize, cause: &SqlError) -> SqlError {
    let message = format!("{done} of {count} rows were written, the others were not");
    SqlError::new(SqlState::STATEMENT_COMPLETION_UNKNOWN, message)
        .with_detail(format!("The table's server is atomic by row. What stopped the rest: {}", cause.message))
        .with_hint("Look at what is there before the rest is written.")
}

fn several_rows(table: &str) -> SqlError {
    SqlError::unsupported(format!("changing several rows of table \"{table}\" as one"))
        .with_detail("Its rows are on a server, which is atomic by row.")
        .with_hint("SET keyspan.transactions = 'row' has each row changed by itself.")
}

/// A row that was deleted and could not be written under its new key would be lost.
fn moves() -> SqlError {
    SqlError::unsupported("changing the primary key of a row on a server")
        .with_detail("The server is atomic by row, and the row would become another.")
        .with_hint("INSERT the new row, then DELETE the old one.")
}

fn several_places() -> SqlError {
    SqlError::unsupported("writing here and on a server, or on several, in one transaction")
        .with_detail("A server is atomic by row, and knows nothing of transactions here.")
}

#[cfg(test)]
mod tests;
