//! RowDescription and DataRow: the columns of a result, and its rows.

use arrow::{
    array::RecordBatch,
    compute::{CastOptions, cast_with_options},
    datatypes::{Field, SchemaRef},
};
use bytes::{BufMut, BytesMut};
use keyspan_pg::{
    codec::{column::Column, format::Format},
    datetime::Style,
    error::{Result, SqlError, SqlState},
    types,
};
use pgwire::api::Type;
use std::sync::Arc;

/// The encoder of a query's rows.
#[derive(Clone, Debug)]
pub struct RowEncoder {
    schema: SchemaRef,
    kinds: Arc<[Type]>,
    formats: Arc<[Format]>,
    style: Arc<Style>,
}

impl RowEncoder {
    /// An encoder for rows of `schema`, in the formats of a Bind message: none (all columns are text), one for all
    /// columns, or one for each. Text is in a session's style.
    ///
    /// # Errors
    /// 08P01 for any other number of formats.
    pub fn new(schema: SchemaRef, formats: &[Format], style: Arc<Style>) -> Result<Self> {
        let kinds = schema.fields().iter().map(|field| types::pg_type(field)).collect();
        Self { schema, kinds, formats: Arc::default(), style }.with_formats(formats)
    }

    /// An encoder of the same columns in other formats.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_formats(&self, formats: &[Format]) -> Result<Self> {
        let formats = Format::for_each(formats, self.kinds.len(), "column")?.into();
        Ok(Self { formats, ..self.clone() })
    }

    /// The same with text in another style.
    #[must_use]
    pub fn with_style(self, style: Arc<Style>) -> Self {
        Self { style, ..self }
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The format of each column.
    pub fn formats(&self) -> &[Format] {
        &self.formats
    }

    /// The style of text.
    pub fn style(&self) -> &Arc<Style> {
        &self.style
    }

    /// Writes the RowDescription message.
    pub fn describe(&self, out: &mut BytesMut) {
        let at = start(b'T', out);
        out.put_u16(self.kinds.len() as u16);
        for ((field, kind), format) in self.schema.fields().iter().zip(&*self.kinds).zip(&*self.formats) {
            put_text(field.name(), out);
            // The table's OID and the column's number; 0 as for an expression, since plans do not know them.
            out.put_u32(0);
            out.put_i16(0);
            out.put_u32(kind.oid());
            out.put_i16(type_length(kind));
            out.put_i32(type_modifier(field));
            out.put_i16(format.code());
        }
        finish(at, out);
    }

    /// Chooses the writers of a batch's columns. A column whose type differs from the schema's is cast to it, since the
    /// client expects the described type.
    ///
    /// # Errors
    /// 0A000 for a type without an equivalent in PostgreSQL; XX000 for a batch that does not fit the schema.
    pub fn batch(&self, batch: &RecordBatch) -> Result<Rows> {
        let faulty = |message: String| SqlError::new(SqlState::INTERNAL_ERROR, message);
        if batch.num_columns() != self.kinds.len() {
            return Err(faulty(format!("{} columns where {} were described", batch.num_columns(), self.kinds.len())));
        }
        let columns = batch.columns().iter().zip(self.schema.fields()).zip(self.kinds.iter().zip(&*self.formats));
        let columns = columns.map(|((array, field), (kind, format))| {
            if array.data_type() == field.data_type()
                || types::pg_type(&Field::new("", array.data_type().clone(), true))
                    == types::pg_type(&Field::new("", field.data_type().clone(), true))
            {
                return Ok(Column::new(array, kind, *format, &self.style)?.padded(field));
            }
            let fraction = match array.data_type() {
                arrow::datatypes::DataType::Decimal128(_, scale) => *scale > 0,
                data => data.is_floating(),
            };
            if fraction && field.data_type().is_integer() {
                return Err(faulty(format!(
                    "a column of {} where {} was described",
                    array.data_type(),
                    field.data_type()
                )));
            }
            // A value that the described type does not hold is an error, never NULL.
            let exact = CastOptions { safe: false, ..CastOptions::default() };
            let array =
                cast_with_options(array, field.data_type(), &exact).map_err(|error| faulty(error.to_string()))?;
            Ok(Column::new(&array, kind, *format, &self.style)?.padded(field))
        });
        Ok(Rows { columns: columns.collect::<Result<_>>()?, count: batch.num_rows() })
    }
}

/// The rows of a batch, ready to be written.
#[derive(Debug)]
pub struct Rows {
    columns: Vec<Column>,
    count: usize,
}

impl Rows {
    /// The number of rows.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The writers of the columns, in order.
    #[inline]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Writes the DataRow message of a row; leaves `out` as it was on an error.
    ///
    /// # Errors
    /// 22003 or 22008 for a value that PostgreSQL's type cannot hold; 54000 for a row of 2 GiB.
    #[inline]
    pub fn write(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        let at = start(b'D', out);
        out.put_u16(self.columns.len() as u16);
        let written = self.columns.iter().try_for_each(|column| column.write_sized(row, out));
        let fits = i32::try_from(out.len() - at).is_ok();
        if written.is_err() || !fits {
            out.truncate(at - 1);
            written?;
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a row is too long to be sent"));
        }
        finish(at, out);
        Ok(())
    }
}

/// Writes the DataRow message of a row whose values are written already.
///
/// # Errors
/// 54000 for a row of 2 GiB.
pub fn write_values<'a>(values: impl ExactSizeIterator<Item = Option<&'a [u8]>>, out: &mut BytesMut) -> Result<()> {
    let at = start(b'D', out);
    out.put_u16(values.len() as u16);
    for value in values {
        match value {
            Some(value) => {
                out.put_u32(value.len() as u32);
                out.put_slice(value);
            }
            None => out.put_i32(-1),
        }
    }
    // A value that is too long makes a row that is.
    if i32::try_from(out.len() - at).is_err() {
        out.truncate(at - 1);
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a row is too long to be sent"));
    }
    finish(at, out);
    Ok(())
}

/// Starts a message; returns the position of its length in `out`, for [`finish`].
#[inline]
pub fn start(kind: u8, out: &mut BytesMut) -> usize {
    out.put_u8(kind);
    out.put_u32(0);
    out.len() - 4
}

/// Ends a message: writes its length at the position that [`start`] returned.
#[inline]
pub fn finish(at: usize, out: &mut BytesMut) {
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Writes text with a zero byte behind it. Zeros within the text would end it early and break the message: they are
/// left out.
pub(crate) fn put_text(text: &str, out: &mut BytesMut) {
    text.bytes().filter(|byte| *byte != 0).for_each(|byte| out.put_u8(byte));
    out.put_u8(0);
}

/// `typlen`: the size of a value in PostgreSQL's memory, in bytes; −1 for a type of variable size.
fn type_length(kind: &Type) -> i16 {
    match *kind {
        Type::BOOL | Type::CHAR => 1,
        Type::INT2 => 2,
        Type::INT4 | Type::FLOAT4 | Type::DATE | Type::OID => 4,
        Type::INT8 | Type::FLOAT8 | Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ => 8,
        Type::INTERVAL | Type::UUID => 16,
        Type::NAME => 64,
        _ => -1,
    }
}

fn type_modifier(field: &Field) -> i32 {
    types::sql_type(field).map_or(-1, types::type_modifier)
}

#[cfg(test)]
mod tests;
