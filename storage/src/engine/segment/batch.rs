//! Rows of a segment by column: collected as they are split, then made Arrow arrays.
//!
//! A wide row has values in a few of hundreds of columns. To append each to its column's builder would touch the memory
//! of all builders in turn, more than the processor's nearest cache holds. So a value is copied to one buffer, its
//! column keeps where it lies, and arrays are made of a full batch, one column after the other.

use super::{
    kind::{self, Values},
    shape::Shape,
};
use arrow::{
    array::{Array, ArrayBuilder, ArrayRef, BinaryBuilder, Int64Builder, new_null_array},
    datatypes::{DataType, Field},
};
use bytes::Bytes;
use std::sync::Arc;

/// Bytes for values that an empty batch keeps, at most: one large row must not take its room for ever.
const ROOM_BYTES_MAX: usize = 2 << 20;

/// Rows by column.
#[derive(Debug)]
pub(super) struct Batch {
    rows: usize,
    bytes: usize,
    keys: BinaryBuilder,
    timestamps: Int64Builder,
    /// The shredded values, one after the other.
    values: Vec<u8>,
    shredded: Vec<Shredded>,
    overflow: Vec<BinaryBuilder>,
    side: BinaryBuilder,
}

/// A shredded column.
#[derive(Debug, Default)]
struct Shredded {
    /// Where its values lie, in the order of rows.
    values: Vec<Place>,
    /// Timestamps other than the row's, with their rows.
    timestamps: Vec<(u32, i64)>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    row: u32,
    start: u32,
    end: u32,
}

/// What a batch became.
pub(super) struct Arrays {
    /// The columns of the file.
    pub(super) columns: Vec<ArrayRef>,
    /// The shredded columns with NaNs.
    pub(super) nan: Vec<usize>,
    /// Whether the key decoder has decoded every key, if it was asked.
    pub(super) keys_decoded: bool,
}

impl Batch {
    pub(super) fn new(shape: &Shape) -> Self {
        Self {
            rows: 0,
            bytes: 0,
            keys: BinaryBuilder::new(),
            timestamps: Int64Builder::new(),
            values: Vec::new(),
            shredded: shape.columns.iter().map(|_| Shredded::default()).collect(),
            overflow: shape.families.iter().map(|_| BinaryBuilder::new()).collect(),
            side: BinaryBuilder::new(),
        }
    }

    /// Rows that are complete.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the keys and encoded rows.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets a shredded value of the current row, which its column accepts.
    pub(super) fn set(&mut self, column: usize, value: &[u8]) {
        let place = |length: usize| u32::try_from(length).expect("a batch is far smaller");
        let start = place(self.values.len());
        self.values.extend_from_slice(value);
        let end = place(self.values.len());
        self.shredded[column].values.push(Place { row: place(self.rows), start, end });
    }

    /// Sets the timestamp of a shredded value of the current row, where it is not the row's.
    pub(super) fn set_timestamp(&mut self, column: usize, timestamp: i64) {
        let row = u32::try_from(self.rows).expect("a batch is far smaller");
        self.shredded[column].timestamps.push((row, timestamp));
    }

    /// Sets the overflow of a family in the current row.
    pub(super) fn set_overflow(&mut self, family: usize, cells: &Bytes) {
        set(&mut self.overflow[family], self.rows, cells);
    }

    /// Sets the pointer to the overflow of the current row in the side file.
    pub(super) fn set_side(&mut self, pointer: &[u8]) {
        set(&mut self.side, self.rows, pointer);
    }

    /// Completes the current row, which took so many bytes.
    pub(super) fn end_row(&mut self, key: &[u8], timestamp: i64, bytes: usize) {
        self.keys.append_value(key);
        self.timestamps.append_value(timestamp);
        self.rows += 1;
        self.bytes += bytes;
    }

    /// The columns of the file; the batch is empty afterwards. Keys are decoded into `key_fields` if they are to be.
    pub(super) fn take(&mut self, shape: &Shape, key_fields: &[Field], decodes_keys: bool) -> Arrays {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let keys = BinaryBuilder::finish(&mut self.keys);
        let parts = shape.key.as_ref().filter(|_| decodes_keys).and_then(|key| key.decode(&keys));
        // A decoder must return the fields that it declared; the file could not store anything else.
        let sound = |parts: &Vec<ArrayRef>| {
            parts.len() == key_fields.len()
                && parts.iter().zip(key_fields).all(|(part, field)| {
                    part.len() == rows && part.data_type() == field.data_type() && part.null_count() == 0
                })
        };
        let parts = parts.filter(sound);
        let keys_decoded = parts.is_some();
        let parts =
            parts.unwrap_or_else(|| key_fields.iter().map(|field| new_null_array(field.data_type(), rows)).collect());
        let mut columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(Int64Builder::finish(&mut self.timestamps))];
        columns.extend(parts);
        let (mut nulls, mut nan) = (Nulls { rows, made: Vec::new() }, Vec::new());
        for (at, (column, of)) in self.shredded.iter_mut().zip(shape.columns.iter()).enumerate() {
            let values = match column.values.is_empty() {
                true => nulls.of(&kind::data_type(of.kind)),
                false => {
                    let bytes = column.values.iter().map(|place| (place.end - place.start) as usize).sum();
                    let mut values = Values::with_room(of.kind, rows, bytes);
                    for Place { row, start, end } in column.values.drain(..) {
                        let fitted = values.set(row as usize, &self.values[start as usize..end as usize]);
                        assert!(fitted, "the shape accepts values that fit");
                    }
                    values.finish(rows)
                }
            };
            if kind::has_nan(&values) {
                nan.push(at);
            }
            columns.push(values);
            columns.push(match column.timestamps.is_empty() {
                true => nulls.of(&DataType::Int64),
                false => {
                    let mut timestamps = Int64Builder::with_capacity(rows);
                    for (row, timestamp) in column.timestamps.drain(..) {
                        timestamps.append_nulls(row as usize - timestamps.len());
                        timestamps.append_value(timestamp);
                    }
                    timestamps.append_nulls(rows - timestamps.len());
                    Arc::new(timestamps.finish())
                }
            });
        }
        self.values.clear();
        self.values.shrink_to(ROOM_BYTES_MAX);
        for column in self.overflow.iter_mut().chain([&mut self.side]) {
            columns.push(match column.is_empty() {
                true => nulls.of(&DataType::Binary),
                false => {
                    column.append_nulls(rows - column.len());
                    ArrayBuilder::finish(column)
                }
            });
        }
        Arrays { columns, nan, keys_decoded }
    }
}

/// Sets the value of a row, after the rows set before.
fn set(column: &mut BinaryBuilder, row: usize, value: &[u8]) {
    column.append_nulls(row - column.len());
    column.append_value(value);
}

/// Columns without values, which share their nulls: most timestamps, and much of what is wide.
struct Nulls {
    rows: usize,
    made: Vec<ArrayRef>,
}

impl Nulls {
    fn of(&mut self, data_type: &DataType) -> ArrayRef {
        if let Some(made) = self.made.iter().find(|made| made.data_type() == data_type) {
            return Arc::clone(made);
        }
        let made = new_null_array(data_type, self.rows);
        self.made.push(Arc::clone(&made));
        made
    }
}
