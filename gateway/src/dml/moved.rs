//! Rows whose key an UPDATE, an upsert or a MERGE changes: deleted under the old key and written under the new one, in
//! one commit.
//!
//! A row takes all of its cells along, those that no column shows too, with their timestamps: rules by age go on as
//! before. Whether a new key is free is judged when the statement has seen all of its rows, so that `SET id = id + 1`
//! moves each row into the place of the next. PostgreSQL judges row by row there, and succeeds or fails by the order in
//! which it finds them.

use super::{
    insert::{self, LOOKUP_ROWS},
    messages,
    target::Target,
};
use crate::{
    pg::error::Result,
    view::View,
    write_set::{MovedRow, WriteSet},
};
use futures::TryStreamExt;
use keyspan_catalog::{Table, Value};
use keyspan_storage::{Cell, KeyRange, Mutation, Row, RowKey, RowSet, Scan};
use std::collections::{BTreeSet, HashMap};

/// Adds the mutations of a row that is updated. With other parts of its key than it has, the row is to be moved.
///
/// # Errors
/// What keys cannot hold; 54000, 53200.
pub(super) fn write(
    target: &Target,
    written: &mut WriteSet,
    key: RowKey,
    parts: Option<Vec<Value>>,
    mutations: Vec<Mutation>,
) -> Result<()> {
    let to = parts.map(|parts| Ok::<_, crate::pg::error::SqlError>((target.row_key(&parts)?, parts))).transpose()?;
    let Some((to, parts)) = to.filter(|(to, _)| *to != key) else {
        return written.mutate(&target.table, key, mutations);
    };
    let mut messages = Vec::new();
    while let Some((_, place)) = written.messages.pop_if(|(of, _)| *of == key) {
        messages.push(place);
    }
    written.mutate(&target.table, key.clone(), vec![Mutation::DeleteFromRow])?;
    written.move_row(MovedRow { from: key, to, parts, mutations, messages })
}

/// Writes the rows that are moved under their new keys.
///
/// # Errors
/// 23505 for a new key that another row has after the statement; the store's; 54000, 53200.
pub(super) async fn settle(view: &View, target: &Target, written: &mut WriteSet) -> Result<()> {
    let moved = written.take_moved();
    check_keys(view, target, written, &moved).await?;
    let mut moved = moved.into_iter();
    loop {
        let chunk: Vec<MovedRow> = moved.by_ref().take(LOOKUP_ROWS).collect();
        if chunk.is_empty() {
            return Ok(());
        }
        let mut stored = stored(view, target, &chunk).await?;
        for MovedRow { from, to, mutations, messages, .. } in chunk {
            let row = stored.remove(&from);
            let cells = row.iter().flat_map(|row| &row.cells).map(|cell| copy(&target.table, cell));
            let mut all: Vec<Mutation> = cells.chain(mutations).collect();
            if let Some(row) = &row {
                for place in messages {
                    messages::keep_unknown_of(&target.columns[place], row, &mut all)?;
                }
            }
            written.add_read(&target.table, to.clone())?;
            written.mutate(&target.table, to, all)?;
        }
    }
}

/// 23505 for a new key that another row has: one that was moved, one that the statement has written otherwise, or one
/// that is there and stays.
async fn check_keys(view: &View, target: &Target, written: &WriteSet, moved: &[MovedRow]) -> Result<()> {
    let mut keys = BTreeSet::new();
    let mut unknown: Vec<&MovedRow> = Vec::new();
    for row in moved {
        let written = written.mutations(&target.table, &row.to);
        let is_left = written.is_some_and(|mutations| mutations == [Mutation::DeleteFromRow]);
        if !keys.insert(&row.to) || (written.is_some() && !is_left) {
            return Err(target.duplicate(&row.parts));
        }
        if written.is_none() {
            unknown.push(row);
        }
    }
    for chunk in unknown.chunks(LOOKUP_ROWS) {
        let there = insert::existing_keys(view, target, chunk.iter().map(|row| &row.to)).await?;
        if let Some(row) = chunk.iter().find(|row| there.contains(&row.to)) {
            return Err(target.duplicate(&row.parts));
        }
    }
    Ok(())
}

/// The rows under their old keys: of private tables, which keep one version, only that.
async fn stored(view: &View, target: &Target, moved: &[MovedRow]) -> Result<HashMap<RowKey, Row>> {
    let points = RowSet::new(moved.iter().map(|row| KeyRange::point(&row.from)));
    let versions_max = target.table.is_private().then_some(1);
    let found: Vec<Row> = view.scan(&target.table, Scan { versions_max, ..Scan::of(points) }).try_concat().await?;
    Ok(found.into_iter().map(|row| (row.key.clone(), row)).collect())
}

/// The mutation that writes a cell again. Cells of private tables have the timestamp of the last commit that wrote
/// their row.
fn copy(table: &Table, cell: &Cell) -> Mutation {
    let Cell { family, qualifier, timestamp, value } = cell.clone();
    if table.family(family.as_str()).is_some_and(|family| family.aggregate.is_some()) {
        return Mutation::MergeToCell { family, qualifier, timestamp: Some(timestamp), state: value };
    }
    let timestamp = (!table.is_private()).then_some(timestamp);
    Mutation::SetCell { family, qualifier, timestamp, value }
}
