//! The data model: names, keys, cells, mutations, and *the* order.
//!
//! Rows are ordered by key, as bytes. The cells of a row are ordered by family name, then qualifier, both as bytes,
//! then timestamp, newest first. Every function of this crate that takes or returns cells keeps that order.

mod key;
pub mod limits;
mod mutation;
mod name;
mod schema;

pub use key::{KeyRange, RowKey, RowSet, prefix_end};
pub use mutation::{Mutation, TimestampRange};
pub use name::{FamilyName, TableName};
pub use schema::{Aggregate, ErasedColumns, Family, History, TableSchema};

use bytes::Bytes;
use std::cmp::Ordering;

/// One timestamped value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The column family.
    pub family: FamilyName,
    /// The column within its family.
    pub qualifier: Bytes,
    /// Microseconds since 1970-01-01 UTC.
    pub timestamp: i64,
    /// The value; in an aggregate family its state, in the form that [`Aggregate`] describes.
    pub value: Bytes,
}

impl Cell {
    /// The order of cells in a row.
    pub fn order(&self, other: &Self) -> Ordering {
        // Cells of a row mostly share their family's name: equal ones are found by their address.
        let families = if self.family == other.family { Ordering::Equal } else { self.family.cmp(&other.family) };
        families.then_with(|| self.qualifier.cmp(&other.qualifier)).then(other.timestamp.cmp(&self.timestamp))
    }

    /// Whether both are cells of one column.
    pub fn same_column(&self, other: &Self) -> bool {
        self.qualifier == other.qualifier && self.family == other.family
    }

    /// Size of the cell, as counted in limits and batches.
    pub fn size(&self) -> usize {
        self.family.as_str().len() + self.qualifier.len() + self.value.len() + size_of::<i64>()
    }
}

/// A row: its key, and cells in [order](Cell::order).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The row key.
    pub key: RowKey,
    /// The cells, in [order](Cell::order); at most one for each column and timestamp.
    pub cells: Vec<Cell>,
}

impl Row {
    /// The newest cell of a column.
    pub fn newest(&self, family: &str, qualifier: &[u8]) -> Option<&Cell> {
        let first =
            self.cells.partition_point(|cell| (cell.family.as_str(), cell.qualifier.as_ref()) < (family, qualifier));
        self.cells.get(first).filter(|cell| cell.family.as_str() == family && cell.qualifier == qualifier)
    }

    /// Size of the row, as counted in limits and batches.
    pub fn size(&self) -> usize {
        self.key.len() + self.cells.iter().map(Cell::size).sum::<usize>()
    }
}
