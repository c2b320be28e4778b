//! The encoding of a row's cells as one contiguous byte string, so that a row takes one allocation, and values are
//! slices of it.
//!
//! ```text
//! 8 bytes     timestamp of the first cell, little-endian
//! for each cell, in the order of a row:
//!   varint      family number × 4 + flags: 1 = same column as the previous cell, 2 = same timestamp as the first cell
//!   bytes       qualifier, unless of the same column
//!   varint      zigzag of the first cell's timestamp minus this one's, unless the same
//!   bytes       value
//! ```
//!
//! Families are encoded by their stable number, which the table's descriptor maps to its name. The log and segments
//! store rows in this form too; their format versions cover it.

use super::codec::{Cursor, put_bytes, put_i64, put_varint, unzigzag, zigzag};
use crate::{Cell, FamilyName};
use bytes::Bytes;
use std::ops::Range;

/// Bytes from which on a row counts as large.
const LARGE_BYTES: usize = 1 << 20;

const SAME_COLUMN: u64 = 1;
const SAME_TIMESTAMP: u64 = 2;

/// Encodes one or more cells.
pub(crate) fn encode(cells: &[Cell], number_of: impl Fn(&FamilyName) -> u32) -> Bytes {
    let payload: usize = cells.iter().map(|cell| cell.qualifier.len() + cell.value.len() + 5).sum();
    let mut encoder = Encoder::with_capacity(payload + 8);
    let mut last: Option<(&FamilyName, u32)> = None;
    for cell in cells {
        let number = match last {
            Some((family, number)) if *family == cell.family => number,
            _ => number_of(&cell.family),
        };
        encoder.push(number, &cell.qualifier, cell.timestamp, &cell.value);
        last = Some((&cell.family, number));
    }
    encoder.finish()
}

/// The head of a cell of a column, for [`put_row`]: its family and qualifier.
pub(crate) fn column_head(family: u32, qualifier: &[u8]) -> Vec<u8> {
    let mut head = Vec::with_capacity(qualifier.len() + 4);
    put_column_head(&mut head, family, qualifier);
    head
}

/// Appends a [head](column_head).
pub(crate) fn put_column_head(out: &mut Vec<u8>, family: u32, qualifier: &[u8]) {
    put_varint(out, (u64::from(family) << 2) | SAME_TIMESTAMP);
    put_bytes(out, qualifier);
}

/// Appends a row whose cells have one timestamp, each in its own column: the column's [head](column_head) and the
/// value, in order.
pub(crate) fn put_row<'a>(out: &mut Vec<u8>, timestamp: i64, cells: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
    put_i64(out, timestamp);
    for (head, value) in cells {
        out.extend_from_slice(head);
        put_bytes(out, value);
    }
}

/// Encodes a row cell by cell.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    out: Vec<u8>,
    /// The timestamp of the first cell.
    base: i64,
    /// The previous cell: its family, and the range of its qualifier in `out`.
    last: Option<(u32, Range<usize>)>,
}

impl Encoder {
    /// Begins a row of about `bytes` bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { out: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Adds a cell, the next in the order of a row.
    pub(crate) fn push(&mut self, family: u32, qualifier: &[u8], timestamp: i64, value: &[u8]) {
        if self.out.is_empty() {
            self.base = timestamp;
            put_i64(&mut self.out, timestamp);
        }
        let same_column =
            self.last.as_ref().is_some_and(|(last, at)| *last == family && self.out[at.clone()] == *qualifier);
        let same_timestamp = timestamp == self.base;
        let flags = if same_column { SAME_COLUMN } else { 0 } | if same_timestamp { SAME_TIMESTAMP } else { 0 };
        put_varint(&mut self.out, (u64::from(family) << 2) | flags);
        if !same_column {
            put_bytes(&mut self.out, qualifier);
            self.last = Some((family, self.out.len() - qualifier.len()..self.out.len()));
        }
        if !same_timestamp {
            put_varint(&mut self.out, zigzag(self.base.wrapping_sub(timestamp)));
        }
        put_bytes(&mut self.out, value);
    }

    /// Whether no cell was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// The row, in about as much memory as it needs: unused capacity would stay allocated. A large row that nearly fits
    /// is not copied.
    pub(crate) fn finish(self) -> Bytes {
        let slack = self.out.capacity() - self.out.len();
        match self.out.len() >= LARGE_BYTES && slack <= self.out.len() / 8 {
            true => Bytes::from(self.out),
            false => Bytes::from(self.out.into_boxed_slice()),
        }
    }
}

/// Whether the bytes are an encoded row of at least one cell.
pub(crate) fn is_sound(row: &[u8]) -> bool {
    if row.len() <= size_of::<i64>() {
        return false;
    }
    let mut cells = decode(row);
    // The first cell must begin a column.
    if row[size_of::<i64>()] & SAME_COLUMN as u8 != 0 {
        return false;
    }
    while !cells.cursor.is_empty() {
        if cells.take_cell().is_none() {
            return false;
        }
    }
    true
}

/// A cell of an encoded row, by reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellRef<'a> {
    /// The family's number.
    pub(crate) family: u32,
    /// Whether the column differs from that of the previous cell.
    pub(crate) new_column: bool,
    /// The column.
    pub(crate) qualifier: &'a [u8],
    /// Microseconds.
    pub(crate) timestamp: i64,
    /// The value.
    pub(crate) value: &'a [u8],
}

/// The cells of an encoded row, in order.
pub(crate) fn decode(row: &[u8]) -> Cells<'_> {
    let mut cursor = Cursor::new(row);
    let base = cursor.i64().unwrap_or_default();
    Cells { cursor, base, qualifier: &[] }
}

/// See [`decode`].
#[derive(Clone, Debug)]
pub(crate) struct Cells<'a> {
    cursor: Cursor<'a>,
    base: i64,
    qualifier: &'a [u8],
}

impl<'a> Cells<'a> {
    fn take_cell(&mut self) -> Option<CellRef<'a>> {
        let head = self.cursor.varint()?;
        let new_column = head & SAME_COLUMN == 0;
        if new_column {
            self.qualifier = self.cursor.bytes()?;
        }
        let timestamp = match head & SAME_TIMESTAMP {
            0 => self.base.wrapping_sub(unzigzag(self.cursor.varint()?)),
            _ => self.base,
        };
        let family = u32::try_from(head >> 2).ok()?;
        Some(CellRef { family, new_column, qualifier: self.qualifier, timestamp, value: self.cursor.bytes()? })
    }
}

impl<'a> Iterator for Cells<'a> {
    type Item = CellRef<'a>;

    fn next(&mut self) -> Option<CellRef<'a>> {
        (!self.cursor.is_empty())
            .then(|| self.take_cell().expect("rows are what `encode` made: those of files were checked"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_row_of_one_timestamp_is_encoded_as_any_other() {
        let (mut encoder, mut row) = (Encoder::default(), Vec::new());
        let cells: [(u32, &[u8], &[u8]); 4] = [(700, b"", b"x"), (3, b"p", b""), (3, b"q", &[7; 300]), (1, b"p", b"y")];
        cells.iter().for_each(|(family, qualifier, value)| encoder.push(*family, qualifier, -5, value));
        let heads: Vec<_> = cells.iter().map(|(family, qualifier, _)| column_head(*family, qualifier)).collect();
        put_row(&mut row, -5, heads.iter().zip(&cells).map(|(head, (_, _, value))| (&head[..], *value)));
        assert_eq!(encoder.finish(), row);
    }

    proptest! {
        #[test]
        fn cells_are_read_back(made in prop::collection::vec((0u32..3, 0u8..3, prop::sample::select(vec![i64::MIN, -1, 0, 5, i64::MAX]), prop::collection::vec(any::<u8>(), 0..200)), 1..20)) {
            let family = |number: u32| FamilyName::new(&format!("f{number}")).unwrap();
            let mut cells: Vec<Cell> = made
                .into_iter()
                .map(|(number, qualifier, timestamp, value)| Cell {
                    family: family(number),
                    qualifier: vec![b'q'; qualifier.into()].into(),
                    timestamp,
                    value: value.into(),
                })
                .collect();
            cells.sort_by(Cell::order);
            // Numbers need not be in the order of names.
            let number_of = |name: &FamilyName| 900 - u32::from(name.as_str().as_bytes()[1]);
            let row = encode(&cells, number_of);
            let mut column = None;
            let read: Vec<Cell> = decode(&row)
                .map(|cell| {
                    let here = Some((cell.family, cell.qualifier));
                    assert_eq!(cell.new_column, column != here);
                    column = here;
                    Cell {
                        family: family(900 - cell.family - u32::from(b'0')),
                        qualifier: row.slice_ref(cell.qualifier),
                        timestamp: cell.timestamp,
                        value: row.slice_ref(cell.value),
                    }
                })
                .collect();
            prop_assert_eq!(read, cells);
        }
    }
}
