//! Rows of system relations, and batches of them.
//!
//! A row names the columns that it knows; the others have their type's empty value, or NULL where that means "none".

use crate::{pg::types, system_relations::Relation};
use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::{DataType, Field, IntervalMonthDayNano},
};
use datafusion::{error::Result, scalar::ScalarValue};
use std::collections::BTreeMap;

/// A value of a row.
#[derive(Clone, Debug)]
pub enum Cell {
    /// NULL.
    Null,
    /// A whole number of any width.
    Int(i64),
    /// A number with a point.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A time, in microseconds.
    Micros(i64),
    /// An interval, in seconds.
    Seconds(i64),
    /// Whole numbers.
    Ints(Vec<i64>),
    /// Texts.
    Texts(Vec<String>),
}

macro_rules! cells {
    ($($from:ty => $make:expr;)*) => {
        $(impl From<$from> for Cell { fn from(value: $from) -> Self { let make: fn($from) -> Cell = $make; make(value) } })*
    };
}

cells! {
    u32 => |int| Cell::Int(i64::from(int));
    i32 => |int| Cell::Int(i64::from(int));
    u16 => |int| Cell::Int(i64::from(int));
    i64 => Cell::Int;
    f64 => Cell::Float;
    bool => Cell::Bool;
    &str => |text| Cell::Text(text.to_owned());
    String => Cell::Text;
    Vec<i64> => Cell::Ints;
    Vec<String> => Cell::Texts;
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A row as the columns that it names.
pub type Row = BTreeMap<&'static str, Cell>;

/// Makes a [`Row`]: `row! { "oid" => 1, "relname" => name }`.
macro_rules! row {
    ($($name:literal => $value:expr),* $(,)?) => {
        std::collections::BTreeMap::from([$(($name, $crate::pg_catalog::columns::Cell::from($value))),*])
    };
}
pub(super) use row;

/// A relation's rows as a batch.
///
/// # Errors
/// A value that its column's type does not have.
pub fn batch(relation: &Relation, rows: &[Row]) -> Result<RecordBatch> {
    debug_assert!(
        rows.iter().flat_map(BTreeMap::keys).all(|name| relation.columns.column_with_name(name).is_some()),
        "a row of {} names a column that there is not",
        relation.name
    );
    let schema = relation.columns.clone();
    let columns = schema.fields().iter().map(|field| {
        if rows.is_empty() {
            return Ok(arrow::array::new_empty_array(field.data_type()));
        }
        let values = rows.iter().map(|row| scalar(row.get(field.name().as_str()), field));
        ScalarValue::iter_to_array(values.collect::<Result<Vec<_>>>()?)
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

fn scalar(cell: Option<&Cell>, field: &Field) -> Result<ScalarValue> {
    let data = field.data_type();
    let plain = match cell {
        None => return empty(field),
        Some(Cell::Null) => return ScalarValue::try_from(data),
        Some(Cell::Int(int)) => ScalarValue::Int64(Some(*int)),
        Some(Cell::Bytes(bytes)) => ScalarValue::Binary(Some(bytes.clone())),
        Some(Cell::Float(float)) => ScalarValue::Float64(Some(*float)),
        Some(Cell::Bool(is)) => ScalarValue::Boolean(Some(*is)),
        Some(Cell::Text(text)) => ScalarValue::Utf8View(Some(text.clone())),
        Some(Cell::Micros(micros)) => ScalarValue::TimestampMicrosecond(Some(*micros), Some(types::UTC.into())),
        Some(Cell::Seconds(seconds)) => {
            let span = IntervalMonthDayNano::new(0, 0, seconds * 1_000_000_000);
            ScalarValue::IntervalMonthDayNano(Some(span))
        }
        Some(Cell::Ints(ints)) => {
            let items: Vec<_> = ints.iter().map(|int| ScalarValue::Int64(Some(*int))).collect();
            ScalarValue::List(ScalarValue::new_list_nullable(&items, &DataType::Int64))
        }
        Some(Cell::Texts(texts)) => {
            let items: Vec<_> = texts.iter().map(|text| ScalarValue::Utf8View(Some(text.clone()))).collect();
            ScalarValue::List(ScalarValue::new_list_nullable(&items, &DataType::Utf8View))
        }
    };
    plain.cast_to(data)
}

/// The value of a column that a row does not name.
fn empty(field: &Field) -> Result<ScalarValue> {
    match field.data_type() {
        DataType::Int32 if !field.metadata().is_empty() => Ok(ScalarValue::Int32(None)),
        DataType::UInt32 | DataType::Int16 | DataType::Int32 | DataType::Float32 => {
            ScalarValue::new_zero(field.data_type())
        }
        DataType::Boolean => Ok(ScalarValue::Boolean(Some(false))),
        DataType::Utf8View if field.metadata().get(types::TYPE_KEY).is_some_and(|name| name == "\"char\"") => {
            Ok(ScalarValue::Utf8View(Some(String::new())))
        }
        other => ScalarValue::try_from(other),
    }
}
