//! What mutations do to a row. Pure, and the one place that says so: every backend folds its rows here.
//!
//! A write goes through [`check`] (does the request fit the data model), [`stamp_for`] and [`resolve`] (which timestamp do cells
//! get that bring none), and [`fold`] (what does the row hold afterwards). A read goes through a [`RowReader`]. In between stand
//! [`holds`] and [`modify`]: the decisions of check-and-mutate and read-modify-write.
//!
//! Each [`RowMutation`](crate::RowMutation) is folded by itself, also when several of one commit name the same row.

mod check;
mod decide;
mod reader;

pub use check::{check, check_count};
pub use decide::{check_decision, holds, modify, written};
pub use reader::RowReader;
pub(crate) use reader::newest;

use crate::{
    Cell, Error, Family, FamilyName, Mutation, Result, TableSchema, TimestampRange, aggregate,
    model::limits::ROW_BYTES_MAX,
};
use bytes::Bytes;
use std::{cmp::Reverse, collections::BTreeMap};

/// Gives the stamp, in microseconds, to every mutation that brings no timestamp.
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

/// The stamp of a row's new cells, in microseconds: the commit's; after a read at least a microsecond more than the newest of
/// the `cells` that the row holds, so that what was written on the strength of them is seen.
pub fn stamp_for(commit_micros: i64, after_read: bool, cells: &[Cell]) -> i64 {
    if !after_read {
        return commit_micros;
    }
    cells.iter().map(|cell| cell.timestamp.saturating_add(1)).fold(commit_micros, i64::max)
}

/// What the row holds after the mutations, in [order](Cell::order); nothing means that it is gone.
///
/// Cells that are condemned at `now_micros` are removed first, so that none returns when newer cells are deleted, and again
/// last. Between the two, mutations see each other in order: a delete takes the cells that are there, whatever their
/// timestamps, and a later write with an older timestamp is there again.
///
/// The mutations were [checked](check) and [resolved](resolve); a timestamp that is still missing counts as `now_micros`.
///
/// # Errors
/// [`TooLarge`](Error::TooLarge) above [`ROW_BYTES_MAX`]; [`Invalid`](Error::Invalid) for an aggregate state that is none.
pub fn fold(schema: &TableSchema, cells: Vec<Cell>, mutations: &[Mutation], now_micros: i64) -> Result<Vec<Cell>> {
    let mut content: Content =
        live(schema, cells, now_micros).into_iter().map(|cell| (Place::of(&cell), cell.value)).collect();
    for mutation in mutations {
        apply(schema, &mut content, mutation, now_micros)?;
    }
    let cells = content.into_iter().map(|(place, value)| place.cell(value)).collect();
    let cells = live(schema, cells, now_micros);
    let size = cells.iter().map(Cell::size).sum::<usize>();
    if size > ROW_BYTES_MAX {
        return Err(Error::TooLarge { what: "a row", size, limit: ROW_BYTES_MAX });
    }
    Ok(cells)
}

/// The cells, given in [order](Cell::order), that no rule has condemned at `now_micros`. Cells of families that the table does
/// not have are left out as well.
pub fn live(schema: &TableSchema, mut cells: Vec<Cell>, now_micros: i64) -> Vec<Cell> {
    // Where the cell before stood: its column, its place among the column's cells, and its family's definition.
    let mut before: Option<(FamilyName, Bytes, usize, Option<&Family>)> = None;
    cells.retain(|cell| {
        let (index, family) = match &before {
            Some((name, qualifier, index, family)) if *name == cell.family => {
                (if *qualifier == cell.qualifier { index + 1 } else { 0 }, *family)
            }
            _ => (0, schema.families.get(&cell.family)),
        };
        before = Some((cell.family.clone(), cell.qualifier.clone(), index, family));
        family.is_some_and(|family| !family.gc.condemns(index, cell.timestamp, now_micros))
    });
    cells
}

/// A row under change.
type Content = BTreeMap<Place, Bytes>;

/// Where a cell stands in its row; ordered like [`Cell::order`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    family: FamilyName,
    qualifier: Bytes,
    timestamp: Reverse<i64>,
}

impl Place {
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
            content.insert(Place::new(family, qualifier, timestamp.unwrap_or(now_micros)), value.clone());
        }
        Mutation::AddToCell { family, qualifier, timestamp, input } => {
            let kind = check::aggregate_of(schema, family)?;
            let place = Place::new(family, qualifier, timestamp.unwrap_or(now_micros));
            let state = aggregate::add(kind, content.get(&place), *input)?;
            content.insert(place, state);
        }
        Mutation::MergeToCell { family, qualifier, timestamp, state } => {
            let kind = check::aggregate_of(schema, family)?;
            let place = Place::new(family, qualifier, timestamp.unwrap_or(now_micros));
            let state = aggregate::merge(kind, content.get(&place), state)?;
            content.insert(place, state);
        }
        Mutation::DeleteFromColumn { family, qualifier, timestamps } => {
            delete_from_column(content, family, qualifier, *timestamps);
        }
        Mutation::DeleteFromFamily { family } => content.retain(|place, _| place.family != *family),
        Mutation::DeleteFromRow => content.clear(),
    }
    Ok(())
}

fn delete_from_column(content: &mut Content, family: &FamilyName, qualifier: &Bytes, timestamps: TimestampRange) {
    // Newest first: the column begins with the greatest timestamp.
    let column = Place::new(family, qualifier, i64::MAX)..=Place::new(family, qualifier, i64::MIN);
    content.extract_if(column, |place, _| timestamps.contains(place.timestamp.0)).for_each(drop);
}

#[cfg(test)]
mod tests;
