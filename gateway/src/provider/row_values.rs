//! Rows of the store to the values of the wire, without arrays between: for rows that are read by their key, or few at
//! a time.
//!
//! What a row's columns are is decided as for batches (the [layout](RowLayout) walks key and cells), and so is what
//! happens to keys and values that do not decode.

use super::decode::{CellColumn, RowLayout, Shows, accepts, bad_value};
use crate::pg::{
    codec::{format::Format, scalar::Scalar},
    datetime::Style,
    error::{Result, SqlState},
};
use bytes::{Bytes, BytesMut};
use keyspan_catalog::{CheckedKeys, Encoding, SqlType, ValueRef, mapping, table::OnBadValue, value::clock::is_time};
use keyspan_storage::{Row, aggregate};
use std::{ops::Range, sync::Arc};

/// The values of one row after the other.
#[derive(Debug)]
pub(crate) struct RowValues {
    layout: Arc<RowLayout>,
    /// How the values of each column are written.
    scalars: Vec<Scalar>,
    style: Arc<Style>,
    checked: CheckedKeys,
    /// The values of the row, in the order in which they were found.
    written: BytesMut,
    /// Where each column's value is in them; `None` for NULL.
    places: Vec<Option<Range<usize>>>,
}

impl RowValues {
    /// Values of a layout's rows, in the format of each column; `None` if some column is written out of arrays only.
    pub(crate) fn of(layout: &Arc<RowLayout>, formats: &[Format], style: &Arc<Style>) -> Option<Self> {
        let is_plain = layout.maps.is_empty() && layout.cells.iter().all(|(cell, _)| cell.shows == Shows::Value);
        if !is_plain || formats.len() != layout.kinds.len() {
            return None;
        }
        let scalars = layout.kinds.iter().zip(formats).map(|(kind, format)| Scalar::of(*kind, *format));
        Some(Self {
            scalars: scalars.collect::<Option<_>>()?,
            layout: Arc::clone(layout),
            style: Arc::clone(style),
            checked: CheckedKeys::default(),
            written: BytesMut::new(),
            places: vec![None; formats.len()],
        })
    }

    /// Takes a row; returns false if it must be skipped, since its key does not conform.
    ///
    /// # Errors
    /// As [`push`](super::decode::BatchBuilder::push); 22008 for a date or time that PostgreSQL's binary form cannot
    /// hold.
    pub(crate) fn take(&mut self, row: &Row) -> Result<bool> {
        let layout = Arc::clone(&self.layout);
        self.written.clear();
        // As text most values are about as long as they are stored.
        self.written.reserve(row.size());
        self.places.fill(None);
        let Some(parts) = layout.parts_of(&mut self.checked, &row.key)? else { return Ok(false) };
        for (part, column) in &layout.parts {
            if let Some(part) = parts.get(*part) {
                self.write(*column, part)?;
            }
        }
        for ((cell, column), newest) in layout.cells.iter().zip(layout.newest(row)) {
            let Some(newest) = newest else { continue };
            let written = self.write_cell(*column, cell, &newest.value);
            match written {
                Err(error) if error.state == SqlState::DATETIME_FIELD_OVERFLOW => return Err(error),
                Err(_) if layout.on_bad_value == OnBadValue::Null => {}
                Err(error) => return Err(bad_value(cell, Some(&row.key), &error)),
                Ok(()) => {}
            }
        }
        Ok(true)
    }

    /// The values of the row that was taken last.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        self.places.iter().map(|place| place.clone().map(|place| &self.written[place]))
    }

    fn write(&mut self, column: usize, value: &ValueRef<'_>) -> Result<()> {
        let from = self.written.len();
        self.scalars[column].write(value, &self.style, &mut self.written)?;
        self.places[column] = Some(from..self.written.len());
        Ok(())
    }

    fn write_cell(&mut self, column: usize, cell: &CellColumn, bytes: &Bytes) -> Result<()> {
        if let Some(merged) = cell.aggregate {
            return self.write(column, &ValueRef::Int(aggregate::value(merged, bytes)?));
        }
        if cell.encoding == Encoding::Binary
            && let Some(value) = plain_value(cell.kind, bytes)
        {
            return self.write(column, &value);
        }
        match mapping::decode(bytes, cell.kind, &cell.encoding)?.borrowed() {
            Some(value) => self.write(column, &value),
            None => Ok(()),
        }
    }
}

/// The value of a binary cell as [`mapping::decode`] decodes it, but without a copy; `None` to let that decide.
fn plain_value(kind: SqlType, bytes: &[u8]) -> Option<ValueRef<'_>> {
    Some(match kind {
        SqlType::Text | SqlType::Name | SqlType::Varchar(_) => ValueRef::Text(std::str::from_utf8(bytes).ok()?.into()),
        SqlType::Int2 => ValueRef::Int(i16::from_be_bytes(bytes.try_into().ok()?).into()),
        SqlType::Int4 => ValueRef::Int(i32::from_be_bytes(bytes.try_into().ok()?).into()),
        SqlType::Int8 => ValueRef::Int(i64::from_be_bytes(bytes.try_into().ok()?)),
        SqlType::Float4 => ValueRef::Float(f32::from_be_bytes(bytes.try_into().ok()?).into()),
        SqlType::Float8 => ValueRef::Float(f64::from_be_bytes(bytes.try_into().ok()?)),
        SqlType::Timestamp(_) | SqlType::Timestamptz(_) if accepts(kind, bytes) => {
            ValueRef::Timestamp(i64::from_be_bytes(bytes.try_into().ok()?))
        }
        SqlType::Time(_) => {
            ValueRef::Time(Some(i64::from_be_bytes(bytes.try_into().ok()?)).filter(|micros| is_time(*micros))?)
        }
        _ => return None,
    })
}
