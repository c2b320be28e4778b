//! The columns of PostgreSQL's relations, read from `data/relations.txt`, and batches of their rows.
//!
//! A row names the columns that it knows; the others have their type's empty value, or NULL where that means "none".

use crate::pg::{fields, types};
use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::{DataType, Field, IntervalUnit, SchemaRef},
};
use datafusion::{error::Result, scalar::ScalarValue};
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

const RELATIONS: &str = include_str!("data/relations.txt");

/// A relation of the system.
#[derive(Debug)]
pub struct Relation {
    /// Its schema.
    pub schema: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its number, PostgreSQL's own.
    pub oid: u32,
    /// `r` for a table, `v` for a view.
    pub kind: &'static str,
    /// Its columns.
    pub columns: SchemaRef,
}

/// All relations of the system.
pub fn all() -> impl Iterator<Item = &'static Relation> {
    static ALL: LazyLock<Vec<Relation>> = LazyLock::new(|| {
        RELATIONS.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).filter_map(read).collect()
    });
    ALL.iter()
}

fn read(line: &'static str) -> Option<Relation> {
    let mut words = line.split(' ');
    let (schema, name, oid, kind) = (words.next()?, words.next()?, words.next()?.parse().ok()?, words.next()?);
    let columns = words.filter_map(|word| word.split_once(':')).map(|(name, written)| {
        let (data, type_name) = arrow_type(written);
        fields::field(name, data, type_name)
    });
    Some(Relation { schema, name, oid, kind, columns: fields::schema(columns.collect()) })
}

fn arrow_type(written: &str) -> (DataType, Option<&str>) {
    let list = |item| (DataType::List(Arc::new(Field::new_list_field(item, true))), None);
    match written {
        "oid" | "xid" => (DataType::UInt32, Some("oid")),
        "name" | "sql_identifier" => (DataType::Utf8View, Some("name")),
        "\"char\"" => (DataType::Utf8View, Some("\"char\"")),
        "boolean" => (DataType::Boolean, None),
        "smallint" => (DataType::Int16, None),
        "integer" => (DataType::Int32, None),
        "cardinal_number" => (DataType::Int32, Some("cardinal_number")),
        "bigint" => (DataType::Int64, None),
        "real" => (DataType::Float32, None),
        "float8" => (DataType::Float64, None),
        "timestamptz" | "time_stamp" => (types::timestamptz(), None),
        "interval" => (DataType::Interval(IntervalUnit::MonthDayNano), None),
        "bytea" => (DataType::Binary, None),
        "yes_or_no" | "character_data" => (DataType::Utf8View, Some("character varying")),
        "oidvector" => (list(DataType::UInt32).0, Some("oidvector")),
        "int2vector" => (list(DataType::Int16).0, Some("int2vector")),
        "oid[]" => list(DataType::UInt32),
        "smallint[]" => list(DataType::Int16),
        other if other.ends_with("[]") => list(DataType::Utf8View),
        _ => (DataType::Utf8View, None),
    }
}

/// A value of a row.
#[derive(Clone, Debug)]
pub enum Cell {
    /// NULL.
    Null,
    /// A whole number of any width.
    Int(i64),
    /// A boolean.
    Bool(bool),
    /// Text.
    Text(String),
    /// A time, in microseconds.
    Micros(i64),
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
#[macro_export]
#[doc(hidden)]
macro_rules! row {
    ($($name:literal => $value:expr),* $(,)?) => {
        std::collections::BTreeMap::from([$(($name, $crate::pg_catalog::columns::Cell::from($value))),*])
    };
}

/// The rows of a relation.
#[derive(Debug)]
pub struct Rows {
    /// The relation.
    pub relation: &'static Relation,
    rows: Vec<Row>,
}

impl Rows {
    /// No rows yet.
    pub fn new(relation: &'static Relation) -> Self {
        Self { relation, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn push(&mut self, row: Row) {
        debug_assert!(
            row.keys().all(|name| self.relation.columns.column_with_name(name).is_some()),
            "{} lacks a column of {row:?}",
            self.relation.name
        );
        self.rows.push(row);
    }

    /// Adds rows.
    pub fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        rows.into_iter().for_each(|row| self.push(row));
    }

    /// The rows as a batch.
    ///
    /// # Errors
    /// A value that its column's type does not have.
    pub fn finish(self) -> Result<RecordBatch> {
        let schema = self.relation.columns.clone();
        let columns = schema.fields().iter().map(|field| {
            if self.rows.is_empty() {
                return Ok(arrow::array::new_empty_array(field.data_type()));
            }
            let values = self.rows.iter().map(|row| scalar(row.get(field.name().as_str()), field));
            ScalarValue::iter_to_array(values.collect::<Result<Vec<_>>>()?)
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }
}

fn scalar(cell: Option<&Cell>, field: &Field) -> Result<ScalarValue> {
    let data = field.data_type();
    let plain = match cell {
        None => return empty(field),
        Some(Cell::Null) => return ScalarValue::try_from(data),
        Some(Cell::Int(int)) => ScalarValue::Int64(Some(*int)),
        Some(Cell::Bool(is)) => ScalarValue::Boolean(Some(*is)),
        Some(Cell::Text(text)) => ScalarValue::Utf8View(Some(text.clone())),
        Some(Cell::Micros(micros)) => ScalarValue::TimestampMicrosecond(Some(*micros), Some(types::UTC.into())),
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
