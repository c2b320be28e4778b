//! Builds a column of arrays.

use super::{ColumnBuilder, unfit};
use crate::pg::{error::Result, types};
use arrow::{
    array::{ArrayRef, ListArray, NullBufferBuilder},
    buffer::{OffsetBuffer, ScalarBuffer},
    datatypes::Field,
};
use keyspan_catalog::{SqlType, Value};
use std::sync::Arc;

/// A column of arrays of one item type.
#[derive(Debug)]
pub(crate) struct Arrays {
    kind: SqlType,
    items: ColumnBuilder,
    /// Items so far; [`push`](Self::push) refuses more than fit into 32 bits.
    count: i32,
    /// Arrow's offsets: the start of each array, and the end of the last.
    offsets: Vec<i32>,
    valid: NullBufferBuilder,
}

impl Arrays {
    pub(super) fn new(kind: SqlType, rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { kind, items: ColumnBuilder::new(kind), count: 0, offsets, valid: NullBufferBuilder::new(rows) }
    }

    /// Appends an array; returns its size in bytes. After an error some of its items may stay, which then belong to the
    /// NULL that follows.
    pub(super) fn push(&mut self, items: &[Value]) -> Result<usize> {
        let mut bytes = size_of::<i32>();
        for item in items {
            let next = self.count.checked_add(1).ok_or_else(unfit)?;
            bytes += self.items.push_value(item)?;
            self.count = next;
        }
        self.end(true);
        Ok(bytes)
    }

    /// Ends an array: the items that were appended since the last end, or NULL.
    pub(super) fn end(&mut self, valid: bool) {
        self.offsets.push(self.count);
        self.valid.append(valid);
    }

    pub(super) fn finish(mut self) -> ArrayRef {
        let field = Arc::new(Field::new_list_field(types::data_type(self.kind), true));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let list = ListArray::try_new(field, offsets, self.items.finish(), self.valid.finish());
        Arc::new(list.expect("offsets rise to the number of items at most, and items are of the field's type"))
    }
}
