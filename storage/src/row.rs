//! The effect of mutations on a row. Pure, and the single definition: every backend folds its rows here.
//!
//! A write goes through [`check()`] (does the request fit the data model), [`stamp_for`] and [`resolve`] (which
//! timestamp do cells without one get), and [`fold`] (the resulting row). A read goes through a [`RowReader`].
//! [`holds`] and [`modify`] are the decisions of check-and-mutate and read-modify-write.
//!
//! Each [`RowMutation`](crate::RowMutation) is folded separately, even if several of one commit name the same row.

mod check;
mod decide;
mod reader;

pub use check::{check, check_count, check_load};
pub use decide::{check_decision, holds, modify, written};
pub use reader::RowReader;
pub(crate) use reader::newest;

use crate::{
    Cell, Error, Family, FamilyName, GcRule, Mutation, Result, TableSchema, TimestampRange, aggregate,
    model::limits::{ROW_BYTES_MAX, ROW_BYTES_SOFT},
};
use bytes::Bytes;
use std::{cmp::Reverse, collections::BTreeMap};

/// Sets the stamp, in microseconds, in every mutation without a timestamp.
pub fn resolve(mutations: &mut [Mutation], stamp_micros: i64) {
    for mutation in mutations {
        match mutation {
            Mutation::SetCell { timestamp, .. }
            | Mutation::AddToCell { timestamp, .. }
            | Mutation::MergeToCell { timestamp, .. } => {
                timestamp.get_or_insert(stamp_micros);
            }
            Mutation::DeleteFromColumn { .. } | Mutation::DeleteFromFamily { .. } | Mutation::DeleteFromRow => {}
        }
    }
}

/// The stamp of a row's new cells, in microseconds: the commit's; after a read, at least a microsecond more than the
/// newest of the row's `cells`, so that the result of the read-modify-write is visible.
pub fn stamp_for(commit_micros: i64, after_read: bool, cells: &[Cell]) -> i64 {
    if !after_read {
        return commit_micros;
    }
    cells.iter().map(|cell| cell.timestamp.saturating_add(1)).fold(commit_micros, i64::max)
}

/// The row after the mutations, in [order](Cell::order); empty if it is gone.
///
/// Cells that are condemned at `now_micros` are removed first, so that none reappears when newer cells are deleted, and
/// again last. In between, mutations apply in order: a delete removes the existing cells, whatever their timestamps,
/// and a later write with an older timestamp is visible.
///
/// The mutations were [checked](check()) and [resolved](resolve); a missing timestamp counts as `now_micros`.
///
/// # Errors
/// [`TooLarge`](Error::TooLarge) above [`ROW_BYTES_MAX`]; [`Invalid`](Error::Invalid) for an invalid aggregate state.
pub fn fold(schema: &TableSchema, cells: Vec<Cell>, mutations: &[Mutation], now_micros: i64) -> Result<Vec<Cell>> {
    let cells = live(schema, cells, now_micros);
    let cells = match mutations.iter().map(|mutation| written_cell(mutation, now_micros)).collect() {
        Some(written) => overlay(cells, written),
        None => change(schema, cells, mutations, now_micros)?,
    };
    let cells = live(schema, cells, now_micros);
    let size = cells.iter().map(Cell::size).sum::<usize>();
    if size > ROW_BYTES_MAX {
        return Err(Error::TooLarge { what: "a row", size, limit: ROW_BYTES_MAX });
    }
    if size > ROW_BYTES_SOFT {
        tracing::warn!(bytes = size, advised = ROW_BYTES_SOFT, "a row is larger than is advised");
    }
    Ok(cells)
}

/// The cells, in [order](Cell::order), that no rule has condemned at `now_micros`. Cells of families that the table
/// does not have, and of erased columns, are left out as well.
pub fn live(schema: &TableSchema, mut cells: Vec<Cell>, now_micros: i64) -> Vec<Cell> {
    let mut condemned = Vec::new();
    // The family of the previous cell, what is erased in it, and the cell's index in its column.
    let (mut family, mut erased, mut index): (Option<&Family>, _, usize) = (None, None, 0);
    for (at, cell) in cells.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| &cells[at]).filter(|before| before.family == cell.family);
        if before.is_none() {
            (family, erased) = (schema.families.get(&cell.family), schema.erased_in(&cell.family));
        }
        index = if before.is_some_and(|before| before.qualifier == cell.qualifier) { index + 1 } else { 0 };
        let is_gone = |family: &Family| {
            erased.is_some_and(|erased| erased.contains(&cell.qualifier[..]))
                || family.gc.condemns(index, cell.timestamp, now_micros)
        };
        if family.is_none_or(is_gone) {
            condemned.push(at);
        }
    }
    if condemned.is_empty() {
        return cells;
    }
    let (mut at, mut next) = (0, condemned.into_iter().peekable());
    cells.retain(|_| {
        let living = next.next_if_eq(&at).is_none();
        at += 1;
        living
    });
    cells
}

/// The cells, in [order](Cell::order), without those of one family that a rule condemned at `now_micros`.
pub(crate) fn without_condemned(
    mut cells: Vec<Cell>,
    family: &FamilyName,
    rule: &GcRule,
    now_micros: i64,
) -> Vec<Cell> {
    let mut index = 0;
    let mut column: Option<Bytes> = None;
    cells.retain(|cell| {
        if cell.family != *family {
            return true;
        }
        index = if column.as_ref() == Some(&cell.qualifier) { index + 1 } else { 0 };
        column = Some(cell.qualifier.clone());
        !rule.condemns(index, cell.timestamp, now_micros)
    });
    cells
}

/// The cell that a mutation writes, if it is a plain write.
fn written_cell(mutation: &Mutation, now_micros: i64) -> Option<Cell> {
    match mutation {
        Mutation::SetCell { family, qualifier, timestamp, value } => Some(Cell {
            family: family.clone(),
            qualifier: qualifier.clone(),
            timestamp: timestamp.unwrap_or(now_micros),
            value: value.clone(),
        }),
        _ => None,
    }
}

/// The cells, overlaid with later written ones. Same as [`change`] for a row that is only written to, as most are, but
/// without a tree.
fn overlay(mut cells: Vec<Cell>, written: Vec<Cell>) -> Vec<Cell> {
    cells.extend(written);
    // Stable: among cells with the same key the last written comes last.
    cells.sort_by(Cell::order);
    cells.dedup_by(|later, kept| {
        let same = later.order(kept).is_eq();
        if same {
            std::mem::swap(later, kept);
        }
        same
    });
    cells
}

/// The row after the mutations.
fn change(schema: &TableSchema, cells: Vec<Cell>, mutations: &[Mutation], now_micros: i64) -> Result<Vec<Cell>> {
    let mut content: Content = cells.into_iter().map(|cell| (CellKey::of(&cell), cell.value)).collect();
    for mutation in mutations {
        apply(schema, &mut content, mutation, now_micros)?;
    }
    Ok(content.into_iter().map(|(key, value)| key.cell(value)).collect())
}

/// A row under change.
type Content = BTreeMap<CellKey, Bytes>;

/// Identifies a cell in its row; ordered like [`Cell::order`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CellKey {
    family: FamilyName,
    qualifier: Bytes,
    timestamp: Reverse<i64>,
}

impl CellKey {
    fn of(cell: &Cell) -> Self {
        Self::new(&cell.family, &cell.qualifier, cell.timestamp)
    }

    fn new(family: &FamilyName, qualifier: &Bytes, timestamp: i64) -> Self {
        Self { family: family.clone(), qualifier: qualifier.clone(), timestamp: Reverse(timestamp) }
    }

    fn cell(self, value: Bytes) -> Cell {
        Cell { family: self.family, qualifier: self.qualifier, timestamp: self.timestamp.0, value }
    }
}

fn apply(schema: &TableSchema, content: &mut Content, mutation: &Mutation, now_micros: i64) -> Result<()> {
    match mutation {
        Mutation::SetCell { family, qualifier, timestamp, value } => {
            content.insert(CellKey::new(family, qualifier, timestamp.unwrap_or(now_micros)), value.clone());
        }
        Mutation::AddToCell { family, qualifier, timestamp, input } => {
            let kind = check::aggregate_of(schema, family)?;
            let key = CellKey::new(family, qualifier, timestamp.unwrap_or(now_micros));
            let state = aggregate::add(kind, content.get(&key), *input)?;
            content.insert(key, state);
        }
        Mutation::MergeToCell { family, qualifier, timestamp, state } => {
            let kind = check::aggregate_of(schema, family)?;
            let key = CellKey::new(family, qualifier, timestamp.unwrap_or(now_micros));
            let state = aggregate::merge(kind, content.get(&key), state)?;
            content.insert(key, state);
        }
        Mutation::DeleteFromColumn { family, qualifier, timestamps } => {
            delete_from_column(content, family, qualifier, *timestamps);
        }
        Mutation::DeleteFromFamily { family } => content.retain(|key, _| key.family != *family),
        Mutation::DeleteFromRow => content.clear(),
    }
    Ok(())
}

fn delete_from_column(content: &mut Content, family: &FamilyName, qualifier: &Bytes, timestamps: TimestampRange) {
    // Newest first: the column begins with the greatest timestamp.
    let column = CellKey::new(family, qualifier, i64::MAX)..=CellKey::new(family, qualifier, i64::MIN);
    content.extract_if(column, |key, _| timestamps.contains(key.timestamp.0)).for_each(drop);
}

#[cfg(test)]
mod tests;
