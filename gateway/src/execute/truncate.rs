//! `TRUNCATE`: every row of the tenant in some tables.

use crate::{
    dml::ATTEMPTS_MAX,
    pg::{
        error::{Result, SqlError, SqlState},
        names::RelationName,
    },
    rights::Needs,
    session::Session,
    sql::ast::session::Modes,
    view::View,
    write_set::WriteSet,
};
use futures::TryStreamExt;
use keyspan_catalog::{
    Erasure, ErasureKind, Error, ErrorKind, Private, PrivateEdit, Privileges, Sequence, Snapshot, Table, TableId,
    erasure::Target, table::DefaultValue,
};
use keyspan_storage::{Columns, KeyRange, Mutation, Scan};
use std::{collections::BTreeSet, sync::Arc};

/// Deletes all rows of some tables, and their history: as ranges outside of a transaction. In one, a private table gets
/// a new space; a shared table is emptied row by row, up to the bounds of a commit, which also deletes the range. Each
/// table that is not temporary has a certificate ([`Erasure`]), for which its rows are counted.
///
/// # Errors
/// 42P01; 0A000 for the operator, whose tables hold the rows of all tenants; 54000, 40001, the store's.
pub(super) async fn truncate(session: &mut Session, tables: &[RelationName], restart: bool) -> Result<()> {
    if session.identity.rows.tenant().is_none() {
        return Err(SqlError::unsupported("TRUNCATE of every tenant's rows")
            .with_hint("DELETE FROM table WHERE tenant = '…' removes the rows of one."));
    }
    let attempts = if session.in_transaction() { 1 } else { ATTEMPTS_MAX };
    // Rows and sequences begin anew together.
    let together = restart && !session.in_transaction() && have_sequences(session, tables).await?;
    let mut attempt = 1;
    loop {
        let done = if together { as_transaction(session, tables).await } else { once(session, tables, restart).await };
        match done {
            Err(error) if error.state == SqlState::SERIALIZATION_FAILURE && attempt < attempts => attempt += 1,
            other => return other,
        }
        tokio::task::yield_now().await;
    }
}

/// Whether a table has a column with a sequence of its own.
async fn have_sequences(session: &mut Session, tables: &[RelationName]) -> Result<bool> {
    let view = session.view().await?;
    for name in tables {
        let table = view.writable(name)?.id;
        let own = [view.snapshot.private_of(view.rows.tenant()), Some(&view.snapshot.temporary)];
        let mut sequences = own.into_iter().flatten().flat_map(|own| own.sequences.values());
        if sequences.any(|sequence| sequence.owner.is_some_and(|(of, _)| of == table)) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn as_transaction(session: &mut Session, tables: &[RelationName]) -> Result<()> {
    session.begin(Modes::default());
    if let Err(error) = once(session, tables, true).await {
        session.rollback();
        return Err(error);
    }
    session.commit().await.map(drop)
}

/// The edits that give the columns of a table new sequences in the place of their own, numbered from `first` on: these
/// begin at their start, and with ROLLBACK the old ones are there still.
fn restarted(own: &Private, table: Table, first: u32) -> (Table, Vec<PrivateEdit>) {
    let (mut table, mut edits) = (table, Vec::new());
    let of_table = own.sequences.values().filter(|sequence| sequence.owner.is_some_and(|(of, _)| of == table.id));
    let renewed: Vec<(u32, Sequence)> =
        of_table.zip(first..).map(|(old, number)| (old.id, Sequence { id: number, ..old.as_ref().clone() })).collect();
    for (old, new) in renewed {
        for default in table.columns.iter_mut().filter_map(|column| column.default.as_mut()) {
            if default.value == DefaultValue::Next(old) {
                default.value = DefaultValue::Next(new.id);
            }
        }
        let id = new.id;
        let moved = PrivateEdit::MoveRights(old, id);
        edits.extend([moved, PrivateEdit::DropSequence(old), PrivateEdit::CreateSequence(new)]);
    }
    (table, edits)
}

/// 0A000 for rows on a server, which does not say when their bytes are gone.
pub(super) fn refuse_remote(table: &Table, what: &str) -> Result<()> {
    if table.remote.is_none() {
        return Ok(());
    }
    Err(SqlError::unsupported(format!("{what} of table \"{}\"", table.name))
        .with_detail("Its rows are on a server, which does not say when their bytes are gone.")
        .with_hint("DELETE removes rows there."))
}

async fn once(session: &mut Session, tables: &[RelationName], restart: bool) -> Result<()> {
    let requested_micros = session.instance.clock.now_micros();
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
    let needs = Needs::default();
    for table in &found {
        refuse_remote(table, "TRUNCATE")?;
        needs.add(&view.snapshot, table.id.0, Privileges::TRUNCATE, None);
        if restart && table.is_private() {
            session.check_owner(table.id.0, false)?;
        }
    }
    session.authorize(&needs)?;
    let mut written = WriteSet::default();
    let mut orders = Vec::with_capacity(found.len());
    for table in found.iter().filter(|table| !view.snapshot.temporary.tables.contains_key(&table.id)) {
        orders.push((table.id, order(session, &view, table, (by_rows, requested_micros)).await?));
    }
    let apart = |table: &Arc<Table>| by_rows && table.is_private();
    for table in found.iter().filter(|table| apart(table)) {
        let another = |snapshot: &Snapshot| {
            let now = snapshot.table_of(session_tenant.as_ref(), table.id);
            let before =
                now.ok_or_else(|| Error::new(ErrorKind::NoTable, "the table does not exist"))?.as_ref().clone();
            let space = snapshot.next_oid;
            let mut after = Table { space: Some(space), ..before.clone() };
            let mut edits = vec![PrivateEdit::Reserve(space)];
            if let Some(own) = snapshot.private_of(session_tenant.as_ref()).filter(|_| restart) {
                let (table, sequences) = restarted(own, after, space + 1);
                after = table;
                edits.extend(sequences);
            }
            edits.push(PrivateEdit::AlterTable(Box::new((before, after))));
            let order = orders.iter().filter(|(of, _)| *of == table.id);
            edits.extend(order.map(|(_, order)| PrivateEdit::Erase(Box::new(order.clone()))));
            Ok(edits)
        };
        if view.snapshot.temporary.tables.contains_key(&table.id) {
            session.define_temporary(another).await?;
        } else {
            session.define(another).await?;
        }
        session.forget_rows(table.id);
    }
    let shared: BTreeSet<TableId> = found.iter().filter(|table| !table.is_private()).map(|table| table.id).collect();
    for table in found.into_iter().filter(|table| !apart(table)) {
        if !by_rows {
            written.ranges.push((table, KeyRange::all()));
            continue;
        }
        let keys = Scan { columns: Columns::Of(Vec::new()), keep_empty: true, ..Scan::all() };
        let mut batches = view.scan(&table, keys);
        while let Some(rows) = batches.try_next().await? {
            for row in rows {
                written.add_read(&table, row.key.clone())?;
                written.mutate(&table, row.key, vec![Mutation::DeleteFromRow])?;
            }
        }
    }
    let pin = view.pin.clone();
    drop(view);
    if by_rows {
        orders.retain(|(id, _)| written.rows.contains_key(id) || shared.contains(id));
        let edits: Vec<_> = orders.into_iter().map(|(_, order)| PrivateEdit::Erase(Box::new(order))).collect();
        if !edits.is_empty() {
            session.define(|_| Ok(edits.clone())).await?;
        }
        return session.write(&pin, written).await;
    }
    let orders: Vec<Erasure> = orders.into_iter().map(|(_, order)| order).collect();
    match session.identity.rows.tenant().cloned().zip(session.identity.rows.oid()) {
        Some((tenant, oid)) if !orders.is_empty() => session.erase((&tenant, oid), written, orders).await,
        _ => session.write(&pin, written).await,
    }
}

/// The order to erase the rows of a table. In a transaction the rows of a private table are those of its space, which
/// the table will leave.
async fn order(
    session: &Session,
    view: &View,
    table: &Table,
    (by_rows, requested_micros): (bool, i64),
) -> Result<Erasure> {
    let size = view.rows.size_with_history(table, &KeyRange::all(), &view.pin).await?;
    let target = match table.space.filter(|_| by_rows) {
        Some(space) => Target::Space(space),
        None => {
            let prefixes = vec![view.rows.range_in_store(table, &KeyRange::all()).start.to_vec()];
            Target::Rows { physical: table.physical.clone(), prefixes }
        }
    };
    Ok(session.erasure((ErasureKind::Truncate, target), table, "", size, requested_micros))
}
