//! The cells of a row in the memtable: one contiguous byte string, so that a row costs one allocation, and so that values are
//! handed out as slices of it.
//!
//! ```text
//! 8 bytes     timestamp of the first cell, little-endian
//! for each cell, in the order of a row:
//!   varint      family number × 4 + flags: 1 = of the column of the cell before, 2 = timestamp as the first cell
//!   bytes       qualifier, unless of the same column
//!   varint      zigzag of the first cell's timestamp minus this one's, unless the same
//!   bytes       value
//! ```
//!
//! A family stands in it by its stable number, which the table's descriptor maps to its name. This is a form in memory, not a
//! format on disk.

use super::codec::{Cursor, put_bytes, put_i64, put_varint, unzigzag, zigzag};
use crate::{Cell, FamilyName};
use bytes::Bytes;

const SAME_COLUMN: u64 = 1;
const SAME_TIMESTAMP: u64 = 2;

/// Encodes cells, of which there is at least one.
pub(crate) fn encode(cells: &[Cell], number_of: impl Fn(&FamilyName) -> u32) -> Bytes {
    let payload: usize = cells.iter().map(|cell| cell.qualifier.len() + cell.value.len() + 5).sum();
    let mut out = Vec::with_capacity(payload + 8);
    let base = cells.first().map_or(0, |cell| cell.timestamp);
    put_i64(&mut out, base);
    let mut last: Option<(&Cell, u32)> = None;
    for cell in cells {
        let same_column = last.is_some_and(|(last, _)| last.same_column(cell));
        let number = match last {
            Some((last, number)) if last.family == cell.family => number,
            _ => number_of(&cell.family),
        };
        let same_timestamp = cell.timestamp == base;
        let flags = if same_column { SAME_COLUMN } else { 0 } | if same_timestamp { SAME_TIMESTAMP } else { 0 };
        put_varint(&mut out, (u64::from(number) << 2) | flags);
        if !same_column {
            put_bytes(&mut out, &cell.qualifier);
        }
        if !same_timestamp {
            put_varint(&mut out, zigzag(base.wrapping_sub(cell.timestamp)));
        }
        put_bytes(&mut out, &cell.value);
        last = Some((cell, number));
    }
    // Exactly as long as it must be: the estimate above would stay allocated.
    Bytes::from(out.into_boxed_slice())
}

/// A cell where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellRef<'a> {
    /// The family's number.
    pub(crate) family: u32,
    /// Whether the column is another than that of the cell before.
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
    fn take(&mut self) -> Option<CellRef<'a>> {
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
        (!self.cursor.is_empty()).then(|| self.take().expect("the memtable holds what `encode` made"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
