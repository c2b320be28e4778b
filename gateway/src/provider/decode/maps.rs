//! The maps of open families, made of the cells of a row.

use super::{RowBuilder, RowLayout};
use crate::pg::error::Result;
use bytes::Bytes;
use keyspan_catalog::ValueRef;
use keyspan_storage::{FamilyName, Row};
use std::sync::Arc;

/// A value that [`RowBuilder::push_newest`] takes.
#[derive(Clone, Debug)]
pub(super) enum NewestValue {
    /// Of the column of cells of this index.
    Cell(usize),
    /// A member of the map of this index, with its qualifier.
    Member(usize, Bytes),
}

/// What the values of a row from memory are, in the order of families and qualifiers.
fn newest_values(layout: &RowLayout) -> Vec<NewestValue> {
    let cells = layout.cells.iter().enumerate();
    let mut all: Vec<(FamilyName, Bytes, NewestValue)> =
        cells.map(|(at, (cell, _))| (cell.family.clone(), cell.qualifier.clone(), NewestValue::Cell(at))).collect();
    for (map, (column, _)) in layout.maps.iter().enumerate() {
        let qualifiers = column.single_qualifiers(usize::MAX).unwrap_or_default().into_iter();
        all.extend(qualifiers.map(|one| (column.family.clone(), one.clone(), NewestValue::Member(map, one))));
    }
    all.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    all.into_iter().map(|(.., value)| value).collect()
}

impl RowBuilder {
    /// Appends the map of an open family, by its index in the layout.
    pub(super) fn push_map(&mut self, map: usize, row: &Row) -> Result<()> {
        let (map, column) = &self.layout.maps[map];
        let from = row.cells.partition_point(|cell| cell.family < map.family);
        let cells = row.cells[from..].iter().take_while(|cell| cell.family == map.family);
        let mut before: Option<&Bytes> = None;
        for cell in cells {
            // The first cell of a column is its newest.
            let repeated = before.replace(&cell.qualifier) == Some(&cell.qualifier);
            if repeated || map.hidden.binary_search(&cell.qualifier).is_ok() || !map.wanted.has(&cell.qualifier) {
                continue;
            }
            map.push(&cell.qualifier, &cell.value, (Some(&row.key), self.layout.on_bad_value), &mut self.map)?;
        }
        self.size.bytes += self.columns[*column].push(&ValueRef::Text(self.map.take().into()))?;
        Ok(())
    }

    /// [`push_newest`](Self::push_newest) of a layout with maps.
    pub(super) fn push_newest_with_maps(&mut self, key: &[u8], values: &[Option<&[u8]>]) -> Result<()> {
        let layout = Arc::clone(&self.layout);
        if self.newest.is_empty() {
            self.newest = newest_values(&layout);
        }
        for (at, value) in values.iter().enumerate() {
            if let Some(NewestValue::Cell(cell)) = self.newest.get(at) {
                self.push_value_of(*cell, key, *value)?;
            }
        }
        for (index, (map, column)) in layout.maps.iter().enumerate() {
            for (of, value) in self.newest.iter().zip(values) {
                if let (NewestValue::Member(map_of, qualifier), Some(value)) = (of, value)
                    && *map_of == index
                {
                    map.push(qualifier, value, (Some(key), layout.on_bad_value), &mut self.map)?;
                }
            }
            self.size.bytes += self.columns[*column].push(&ValueRef::Text(self.map.take().into()))?;
        }
        Ok(())
    }
}
