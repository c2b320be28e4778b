//! The arrays of one column, while a batch is made.

use super::{ColumnBuilder, unfit};
use crate::pg::{error::Result, types};
use arrow::{
    array::{ArrayRef, ListArray, NullBufferBuilder},
    buffer::{OffsetBuffer, ScalarBuffer},
    datatypes::Field,
};
use keyspan_catalog::{SqlType, Value};
use std::sync::Arc;

/// Arrays of one type of items.
#[derive(Debug)]
pub(crate) struct Arrays {
    kind: SqlType,
    items: ColumnBuilder,
    /// Items so far. They fit into 32 bits: [`push`](Self::push) refuses more.
    count: i32,
    /// Where each array begins, and where the last one ends.
    offsets: Vec<i32>,
    valid: NullBufferBuilder,
}

impl Arrays {
    pub(super) fn new(kind: SqlType, rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { kind, items: ColumnBuilder::new(kind), count: 0, offsets, valid: NullBufferBuilder::new(rows) }
    }

    /// Appends an array and gives its bytes. Of one that is refused some items may stay, which the next row's NULL covers.
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

    /// Ends an array: what was appended since the last one ended, or NULL.
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
