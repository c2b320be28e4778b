//! `TRUNCATE`: every row of the tenant in some tables.

use super::ATTEMPTS_MAX;
use crate::{
    error::{Result, SqlError, SqlState},
    names::RelationName,
    session::{Session, Written},
};
use futures::TryStreamExt;
use keyspan_catalog::{Error, ErrorKind, PrivateEdit, Snapshot, Table};
use keyspan_storage::{Columns, KeyRange, Mutation, Scan};
use std::sync::Arc;

/// Deletes all rows of some tables: as ranges, which cost nothing by the row, outside of a transaction. In one, a private table gets a
/// new space; a shared table, and one that keeps history, is emptied row by row, up to the bounds of a commit.
///
/// # Errors
/// 42P01; 0A000 for the operator, whose tables hold the rows of all tenants; 54000, 40001, the store's.
pub async fn truncate(session: &mut Session, tables: &[RelationName]) -> Result<()> {
    if session.identity.rows.tenant().is_none() {
        return Err(SqlError::unsupported("TRUNCATE of every tenant's rows")
            .with_hint("DELETE FROM table WHERE tenant = '…' removes the rows of one."));
    }
    let attempts = if session.in_transaction() { 1 } else { ATTEMPTS_MAX };
    let mut attempt = 1;
    loop {
        match once(session, tables).await {
            Err(error) if error.state == SqlState::SERIALIZATION_FAILURE && attempt < attempts => attempt += 1,
            other => return other,
        }
        tokio::task::yield_now().await;
    }
}

async fn once(session: &mut Session, tables: &[RelationName]) -> Result<()> {
    let view = session.view().await?;
    let session_tenant = session.identity.rows.tenant().cloned();
    let by_rows = session.in_transaction();
    let mut found: Vec<Arc<Table>> = Vec::with_capacity(tables.len());
    for name in tables {
        let table = view.writable(name)?.clone();
        if !found.iter().any(|other| other.id == table.id) {
            found.push(table);
        }
    }
    let mut written = Written::default();
    let apart = |table: &Arc<Table>| by_rows && table.is_private();
    for table in found.iter().filter(|table| apart(table)) {
        let another = |snapshot: &Snapshot| {
            let now = snapshot.table_of(session_tenant.as_ref(), table.id);
            let before =
                now.ok_or_else(|| Error::new(ErrorKind::NoTable, "the table does not exist"))?.as_ref().clone();
            let space = snapshot.next_oid;
            let after = Table { space: Some(space), ..before.clone() };
            Ok(vec![PrivateEdit::Reserve(space), PrivateEdit::AlterTable(Box::new((before, after)))])
        };
        if view.snapshot.temporary.tables.contains_key(&table.id) {
            session.define_temporary(another).await?;
        } else {
            session.define(another).await?;
        }
        session.forget_rows(table.id);
    }
    for table in found.into_iter().filter(|table| !apart(table)) {
        if !by_rows && table.history_micros.is_none() {
            written.ranges.push((table, KeyRange::all()));
            continue;
        }
        let keys = Scan { columns: Columns::Of(Vec::new()), keep_empty: true, ..Scan::all() };
        let mut batches = view.scan(&table, keys);
        while let Some(rows) = batches.try_next().await? {
            for row in rows {
                written.rely(&table, row.key.clone())?;
                written.mutate(&table, row.key, vec![Mutation::DeleteFromRow])?;
            }
        }
    }
    let pin = view.pin.clone();
    drop(view);
    session.write(&pin, written).await
}
