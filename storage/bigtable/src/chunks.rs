//! The protocol of ReadRows: chunks of cells are merged into rows. Pure.
//!
//! A row is any number of chunks, over any number of messages. A chunk has a cell, or a part of one: with `value_size`
//! set, more of the value follows. What a chunk leaves out (key, family, column) is that of the chunk before. A row
//! ends with `commit_row`, and begins anew with `reset_row`. A row counts once it is committed; what is left when the
//! stream breaks never was. The rules are those of the comments on `ReadRowsResponse.CellChunk`, and of Google's
//! acceptance tests.

use crate::{
    Error, Result,
    read::{ApiCell, ApiRow},
};
use bytes::{Bytes, BytesMut};
use keyspan_bigtable_api::data::read_rows_response::{CellChunk, cell_chunk::RowStatus};
use keyspan_storage::{
    FamilyName, RowKey,
    model::limits::{FAMILIES_MAX, ROW_BYTES_MAX},
};

/// Merges the chunks of one stream.
#[derive(Debug)]
pub struct Merger {
    reversed: bool,
    /// The last row that was committed or scanned.
    last_key: Option<Bytes>,
    row: Option<PartialRow>,
    /// Names that were checked before.
    families: Vec<FamilyName>,
}

/// A row of which not everything has come.
#[derive(Debug)]
struct PartialRow {
    key: RowKey,
    cells: Vec<ApiCell>,
    bytes: usize,
    /// The column of the last cell.
    column: Option<(FamilyName, Bytes)>,
    /// The cell of which not everything has come; its value so far.
    cell: Option<(ApiCell, BytesMut)>,
}

impl Merger {
    /// Merges the chunks of a new stream.
    pub fn new(reversed: bool) -> Self {
        Self { reversed, last_key: None, row: None, families: Vec::new() }
    }

    /// Takes the next chunk; returns the row that it completes.
    ///
    /// # Errors
    /// [`Error::Protocol`] with the rule that the chunk breaks; the merger is of no use then.
    pub fn push(&mut self, chunk: CellChunk) -> Result<Option<ApiRow>> {
        if chunk.row_status == Some(RowStatus::ResetRow(true)) {
            return self.reset(&chunk).map(|()| None);
        }
        let commits = chunk.row_status == Some(RowStatus::CommitRow(true));
        let mut row = match self.row.take() {
            None => PartialRow::new(self.new_key(&chunk)?),
            Some(row) => row,
        };
        row.push(chunk, &mut self.families)?;
        if !commits {
            self.row = Some(row);
            return Ok(None);
        }
        if row.cell.is_some() {
            return broken("a row is committed within a cell");
        }
        self.last_key = Some(row.key.bytes().clone());
        Ok(Some(ApiRow { key: row.key, cells: row.cells }))
    }

    /// Notes that the server has read up to this key, without finding a row.
    ///
    /// # Errors
    /// [`Error::Protocol`] within a row, and for a key that is out of order.
    pub fn scanned(&mut self, key: Bytes) -> Result<()> {
        if self.row.is_some() {
            return broken("a scanned key comes within a row");
        }
        self.check_order(&key)?;
        self.last_key = Some(key);
        Ok(())
    }

    /// The last row that was committed or scanned: a new stream goes on behind it.
    pub fn last_key(&self) -> Option<&Bytes> {
        self.last_key.as_ref()
    }

    /// Ends a stream that the server ended.
    ///
    /// # Errors
    /// [`Error::Protocol`] if a row is not committed.
    pub fn finish(self) -> Result<()> {
        match self.row {
            None => Ok(()),
            Some(_) => broken("the stream ends within a row"),
        }
    }

    fn reset(&mut self, chunk: &CellChunk) -> Result<()> {
        if self.row.is_none() {
            return broken("a row is reset that has not begun");
        }
        let is_bare = chunk.row_key.is_empty()
            && chunk.family_name.is_none()
            && chunk.qualifier.is_none()
            && chunk.timestamp_micros == 0
            && chunk.labels.is_empty()
            && chunk.value.is_empty()
            && chunk.value_size == 0;
        if !is_bare {
            return broken("a reset has more than the reset");
        }
        self.row = None;
        Ok(())
    }

    fn new_key(&self, chunk: &CellChunk) -> Result<RowKey> {
        if chunk.row_key.is_empty() {
            return broken("a row begins without a key");
        }
        if chunk.family_name.is_none() {
            return broken("a row begins without a family");
        }
        if chunk.qualifier.is_none() {
            return broken("a row begins without a column");
        }
        self.check_order(&chunk.row_key)?;
        RowKey::new(chunk.row_key.clone()).map_err(|_| Error::Protocol("a key is longer than 4 KiB"))
    }

    fn check_order(&self, key: &Bytes) -> Result<()> {
        match &self.last_key {
            Some(last) if !self.reversed && key <= last => broken("keys are not increasing"),
            Some(last) if self.reversed && key >= last => broken("keys are not decreasing"),
            _ => Ok(()),
        }
    }
}

impl PartialRow {
    fn new(key: RowKey) -> Self {
        Self { key, cells: Vec::new(), bytes: 0, column: None, cell: None }
    }

    fn push(&mut self, chunk: CellChunk, families: &mut Vec<FamilyName>) -> Result<()> {
        self.bytes = self.bytes.saturating_add(chunk.value.len());
        if self.bytes > ROW_BYTES_MAX {
            return broken("a row is larger than 256 MiB");
        }
        let continues = chunk.value_size > 0;
        if chunk.value_size < 0 {
            return broken("a value has a negative size");
        }
        let (mut cell, value) = match self.cell.take() {
            Some((cell, mut value)) => {
                let has_column = chunk.family_name.is_some() || chunk.qualifier.is_some();
                if !chunk.row_key.is_empty() || has_column || chunk.timestamp_micros != 0 || !chunk.labels.is_empty() {
                    return broken("a part of a cell has more than the value");
                }
                value.extend_from_slice(&chunk.value);
                (cell, Value::Parts(value))
            }
            None => {
                let (timestamp, labels, value) = (chunk.timestamp_micros, chunk.labels.clone(), chunk.value.clone());
                let (family, qualifier) = self.column(chunk, families)?;
                let cell = ApiCell { family, qualifier, timestamp_micros: timestamp, value: Bytes::new(), labels };
                (cell, if continues { Value::Parts(BytesMut::from(&value[..])) } else { Value::Whole(value) })
            }
        };
        match value {
            Value::Parts(value) if continues => self.cell = Some((cell, value)),
            Value::Parts(value) => {
                cell.value = value.freeze();
                self.cells.push(cell);
            }
            Value::Whole(value) => {
                cell.value = value;
                self.cells.push(cell);
            }
        }
        Ok(())
    }

    /// The column of a cell that begins with this chunk.
    fn column(&mut self, chunk: CellChunk, families: &mut Vec<FamilyName>) -> Result<(FamilyName, Bytes)> {
        if !chunk.row_key.is_empty() && chunk.row_key != *self.key.bytes() {
            return broken("a row has two keys");
        }
        let column = match (chunk.family_name, chunk.qualifier, &self.column) {
            (Some(family), Some(qualifier), _) => (family_of(&family, families)?, Bytes::from(qualifier)),
            (None, Some(qualifier), Some((family, _))) => (family.clone(), Bytes::from(qualifier)),
            (None, None, Some(column)) => column.clone(),
            (Some(_), None, _) => return broken("a family comes without a column"),
            (None, _, None) => return broken("a row begins without a family"),
        };
        self.column = Some(column.clone());
        Ok(column)
    }
}

enum Value {
    /// A slice of its message.
    Whole(Bytes),
    /// A copy, since it came in several chunks.
    Parts(BytesMut),
}

fn family_of(name: &str, families: &mut Vec<FamilyName>) -> Result<FamilyName> {
    if let Some(known) = families.iter().find(|known| known.as_str() == name) {
        return Ok(known.clone());
    }
    let family = FamilyName::new(name).map_err(|_| Error::Protocol("a family has no name of one"))?;
    if families.len() < FAMILIES_MAX {
        families.push(family.clone());
    }
    Ok(family)
}

fn broken<T>(rule: &'static str) -> Result<T> {
    Err(Error::Protocol(rule))
}

#[cfg(test)]
mod tests;
