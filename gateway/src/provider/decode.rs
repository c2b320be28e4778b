//! Rows to Arrow batches, column by column.
//!
//! A [`Layout`] describes the batches of a scan. It starts a [`BatchBuilder`] for each batch, which takes rows of the
//! store one by one. The builder of a table's rows ([`RowBuilder`]) walks the cells of a row once, since cells and
//! columns have the same order. For rows in memtables it takes only the values.

use super::open_family::MapColumn;
use crate::pg::{
    error::{Result, SqlError, SqlState},
    types,
};
use arrow::{
    array::{
        ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, FixedSizeBinaryBuilder,
        Float32Builder, Float64Builder, Int16Builder, Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder,
        LargeBinaryBuilder, LargeStringBuilder, RecordBatch, RecordBatchOptions, StringViewBuilder,
        Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
    },
    datatypes::{IntervalMonthDayNano, SchemaRef},
    error::ArrowError,
};
use bytes::Bytes;
use keyspan_catalog::{
    CheckedKeys, Encoding, KeySchema, SqlType, Value, ValueRef,
    layouts::kind_accepts,
    mapping,
    open_map::MapWriter,
    table::{OnBadKey, OnBadValue},
    value::{clock::is_time, interval::Interval},
};
use keyspan_storage::{Aggregate, Cell, FamilyName, Row, aggregate};
use std::{fmt, sync::Arc};

mod arrays;
mod maps;

use arrays::Arrays;
use maps::NewestValue;

/// Rows of a batch up to which its columns have as much room as they need.
pub(super) const FEW_ROWS: usize = 128;
/// The room for a text in a batch of few rows; longer ones take another block.
const TEXT_BYTES: u32 = 64;
/// The least block of texts.
const TEXT_BLOCK_BYTES_MIN: u32 = 256;

/// Describes the batches of a scan.
pub trait Layout: fmt::Debug + Send + Sync {
    /// The columns of a batch.
    fn schema(&self) -> &SchemaRef;
    /// Starts a batch of at most `rows` rows, for which room is made; 0 if that is not known.
    fn start(&self, rows: usize) -> Box<dyn BatchBuilder>;
    /// The layout, if it is of a table's rows.
    fn of_rows(&self) -> Option<&Arc<RowLayout>> {
        None
    }
}

/// The size of a batch that is being built.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchSize {
    /// Its rows.
    pub rows: usize,
    /// An estimate of the bytes of its values.
    pub bytes: usize,
}

/// Builds a batch of rows of the store.
pub trait BatchBuilder: Send {
    /// Appends a row of the store, as no, one or several rows of the batch.
    ///
    /// # Errors
    /// 22P02 for a key or a value that does not decode, if the table does not skip it or read it as NULL.
    fn push(&mut self, row: &Row) -> Result<()>;
    /// The size so far.
    fn size(&self) -> BatchSize;
    /// The batch.
    ///
    /// # Errors
    /// XX000: the columns do not fit the schema.
    fn finish(self: Box<Self>) -> Result<RecordBatch>;
}

/// A batch of `rows` rows of columns, which may be none.
///
/// # Errors
/// XX000: the columns do not fit the schema.
pub(super) fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let batch = record_batch(schema, columns, rows);
    batch.map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))
}

/// [`batch`] with Arrow's error.
pub(super) fn record_batch(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> std::result::Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// A column of cells.
#[derive(Clone, Debug)]
pub struct CellColumn {
    /// The column's name in SQL.
    pub name: String,
    /// The family.
    pub family: FamilyName,
    /// The qualifier.
    pub qualifier: Bytes,
    /// The type.
    pub kind: SqlType,
    /// How its values are encoded in cells.
    pub encoding: Encoding,
    /// The aggregate of the family, if it has one.
    pub aggregate: Option<Aggregate>,
    /// What of its newest cell the column shows.
    pub shows: Shows,
}

/// What of a cell a column shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// The value.
    Value,
    /// The timestamp.
    Timestamp,
}

/// The layout of a table's rows.
#[derive(Debug)]
pub struct RowLayout {
    /// The columns of a batch.
    pub schema: SchemaRef,
    /// How keys are encoded; for the operator, with the tenant before the parts.
    pub keys: KeySchema,
    /// Columns that are key parts: the index of the part, and of the column in the batch.
    pub parts: Vec<(usize, usize)>,
    /// Columns of cells, sorted by family and qualifier, and the index of each in the batch.
    pub cells: Vec<(CellColumn, usize)>,
    /// Columns of open families, and the index of each in the batch.
    pub maps: Vec<(MapColumn, usize)>,
    /// The type of each column of the batch.
    pub kinds: Vec<SqlType>,
    /// What to do with values that do not decode.
    pub on_bad_value: OnBadValue,
    /// What to do with keys that do not conform.
    pub on_bad_key: OnBadKey,
}

impl Layout for Arc<RowLayout> {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn start(&self, rows: usize) -> Box<dyn BatchBuilder> {
        Box::new(RowBuilder::new(self, rows))
    }

    fn of_rows(&self) -> Option<&Arc<RowLayout>> {
        // Whoever asks has values only, no timestamps.
        self.cells.iter().all(|(cell, _)| cell.shows == Shows::Value).then_some(self)
    }
}

impl RowLayout {
    /// The parts of a key, if the batch has some of them; none of a key whose parts read as NULL. `None` if the row
    /// must be skipped since its key does not conform.
    pub(super) fn parts_of<'a>(&self, checked: &mut CheckedKeys, key: &'a [u8]) -> Result<Option<Vec<ValueRef<'a>>>> {
        let mut parts = Vec::new();
        let decoded = if self.parts.is_empty() {
            checked.next(&self.keys, key)
        } else {
            parts.reserve_exact(self.keys.column_count());
            self.keys.decode_refs(key, &mut parts)
        };
        match (decoded, self.on_bad_key) {
            (Ok(()), _) => {}
            (Err(_), OnBadKey::Skip) => return Ok(None),
            (Err(_), OnBadKey::Null) => parts.clear(),
            (Err(error), OnBadKey::Error) => return Err(bad_key(key, &error)),
        }
        Ok(Some(parts))
    }

    /// The newest cell of each column of cells, in their order.
    pub(super) fn newest<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = Option<&'a Cell>> {
        let mut cells = row.cells.as_slice();
        self.cells.iter().map(move |(column, _)| {
            let goal = (&column.family, &column.qualifier);
            // The first cell of a column is its newest.
            while cells.first().is_some_and(|cell| (&cell.family, &cell.qualifier) < goal) {
                cells = &cells[1..];
            }
            cells.first().filter(|cell| (&cell.family, &cell.qualifier) == goal)
        })
    }
}

/// Builds a batch of a table's rows.
pub(super) struct RowBuilder {
    layout: Arc<RowLayout>,
    columns: Vec<ColumnBuilder>,
    /// Checks keys if the batch has no key part.
    checked: CheckedKeys,
    /// Makes the maps of open families, one after the other.
    map: MapWriter,
    /// What the values of a row from memory are, if there are maps.
    newest: Vec<NewestValue>,
    size: BatchSize,
}

impl RowBuilder {
    /// A builder with room for `rows` rows.
    pub(super) fn new(layout: &Arc<RowLayout>, rows: usize) -> Self {
        let columns = layout.kinds.iter().map(|kind| ColumnBuilder::with_capacity(*kind, rows)).collect();
        let (checked, map, size) = (CheckedKeys::default(), MapWriter::default(), BatchSize::default());
        Self { layout: Arc::clone(layout), columns, checked, map, newest: Vec::new(), size }
    }

    /// Appends a row, given the newest values of the layout's columns of cells and of the single qualifiers of its
    /// maps, in the order of families and qualifiers.
    ///
    /// # Errors
    /// As [`push`](BatchBuilder::push).
    pub(super) fn push_newest(&mut self, key: &[u8], values: &[Option<&[u8]>]) -> Result<()> {
        if !self.push_key(key)? {
            return Ok(());
        }
        if self.layout.maps.is_empty() {
            for (cell, value) in values.iter().enumerate() {
                self.push_value_of(cell, key, *value)?;
            }
        } else {
            self.push_newest_with_maps(key, values)?;
        }
        self.size.rows += 1;
        Ok(())
    }

    /// Appends the parts of a key; returns false if the row must be skipped since its key does not conform.
    fn push_key(&mut self, key: &[u8]) -> Result<bool> {
        let Some(parts) = self.layout.parts_of(&mut self.checked, key)? else { return Ok(false) };
        for (part, column) in &self.layout.parts {
            match parts.get(*part) {
                Some(part) => self.size.bytes += self.columns[*column].push(part)?,
                None => self.columns[*column].push_null(),
            }
        }
        Ok(true)
    }

    /// Appends the value of a column of cells, by its index in the layout.
    fn push_value_of(&mut self, cell: usize, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let (cell, column) = &self.layout.cells[cell];
        let column = &mut self.columns[*column];
        match value.map(|value| column.push_cell(cell, value)) {
            None => column.push_null(),
            Some(Ok(bytes)) => self.size.bytes += bytes,
            Some(Err(_)) if self.layout.on_bad_value == OnBadValue::Null => column.push_null(),
            Some(Err(error)) => return Err(bad_value(cell, Some(key), &error)),
        }
        Ok(())
    }

    /// Appends the timestamp of the newest cell of a column, by its index in the layout.
    fn push_timestamp_of(&mut self, cell: usize, timestamp: Option<i64>) -> Result<()> {
        let (_, column) = self.layout.cells[cell];
        match timestamp {
            Some(timestamp) => self.size.bytes += self.columns[column].push(&ValueRef::Timestamp(timestamp))?,
            None => self.columns[column].push_null(),
        }
        Ok(())
    }
}

impl BatchBuilder for RowBuilder {
    fn push(&mut self, row: &Row) -> Result<()> {
        if !self.push_key(&row.key)? {
            return Ok(());
        }
        let layout = Arc::clone(&self.layout);
        for (at, newest) in layout.newest(row).enumerate() {
            match layout.cells[at].0.shows {
                Shows::Value => self.push_value_of(at, &row.key, newest.map(|cell| &cell.value[..]))?,
                Shows::Timestamp => self.push_timestamp_of(at, newest.map(|cell| cell.timestamp))?,
            }
        }
        for at in 0..self.layout.maps.len() {
            self.push_map(at, row)?;
        }
        self.size.rows += 1;
        Ok(())
    }

    fn size(&self) -> BatchSize {
        self.size
    }

    fn finish(self: Box<Self>) -> Result<RecordBatch> {
        let columns = self.columns.into_iter().map(ColumnBuilder::finish).collect();
        batch(&self.layout.schema, columns, self.size.rows)
    }
}

fn bad_key(key: &[u8], error: &keyspan_catalog::Error) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "a row key does not conform to the table's key")
        .with_detail(format!("Key \"{}\": {error}.", key.escape_ascii()))
        .with_hint("raw() shows such rows with their _key; the table option on_bad_key = skip hides them.")
}

/// The error of a value that does not decode, with the key of its row if that is known.
pub(super) fn bad_value(column: &CellColumn, key: Option<&[u8]>, error: &SqlError) -> SqlError {
    bad_cell((&column.name, &column.family, &column.qualifier), key, &error.message)
}

/// The error of a cell that does not decode.
pub(super) fn bad_cell(
    (name, family, qualifier): (&str, &FamilyName, &[u8]),
    key: Option<&[u8]>,
    message: &str,
) -> SqlError {
    let row = key.map(|key| format!("Row \"{}\", cell", key.escape_ascii()));
    let row = row.as_deref().unwrap_or("Cell");
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("invalid stored value in column \"{name}\""))
        .with_detail(format!("{row} {family}:{}: {}.", qualifier.escape_ascii(), message))
        .with_hint("raw() shows the stored bytes; the table option on_bad_value = null reads them as NULL.")
}

/// Builds one column. Each value is dispatched on the type once.
#[derive(Debug)]
pub(super) enum ColumnBuilder {
    Bool(BooleanBuilder),
    Int2(Int16Builder),
    Int4(Int32Builder),
    Int8(Int64Builder),
    Float4(Float32Builder),
    Float8(Float64Builder),
    Numeric(Decimal128Builder, u8),
    Exact(LargeBinaryBuilder),
    Text(StringViewBuilder),
    Bits(LargeStringBuilder),
    Bytea(BinaryBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Interval(IntervalMonthDayNanoBuilder),
    Uuid(FixedSizeBinaryBuilder),
    Array(Box<Arrays>),
}

impl ColumnBuilder {
    /// A column of the Arrow type that [`types::data_type`] gives.
    pub(super) fn new(kind: SqlType) -> Self {
        Self::with_capacity(kind, 0)
    }

    /// A column with room for `rows` rows.
    pub(super) fn with_capacity(kind: SqlType, rows: usize) -> Self {
        match kind {
            SqlType::Bool => Self::Bool(BooleanBuilder::with_capacity(rows)),
            SqlType::Int2 => Self::Int2(Int16Builder::with_capacity(rows)),
            SqlType::Int4 => Self::Int4(Int32Builder::with_capacity(rows)),
            SqlType::Int8 => Self::Int8(Int64Builder::with_capacity(rows)),
            SqlType::Float4 => Self::Float4(Float32Builder::with_capacity(rows)),
            SqlType::Float8 => Self::Float8(Float64Builder::with_capacity(rows)),
            SqlType::Numeric { scale, .. } => {
                let numbers = Decimal128Builder::with_capacity(rows);
                Self::Numeric(numbers.with_data_type(types::data_type(kind)), scale)
            }
            SqlType::Exact(_) => Self::Exact(LargeBinaryBuilder::with_capacity(rows, 0)),
            SqlType::Text | SqlType::Name | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Json | SqlType::Jsonb => {
                Self::Text(texts(rows))
            }
            SqlType::Bit(_) | SqlType::Varbit(_) => Self::Bits(LargeStringBuilder::with_capacity(rows, 0)),
            SqlType::Bytea => Self::Bytea(BinaryBuilder::with_capacity(rows, 0)),
            SqlType::Date => Self::Date(Date32Builder::with_capacity(rows)),
            SqlType::Timestamp(_) | SqlType::Timestamptz(_) => {
                let times = TimestampMicrosecondBuilder::with_capacity(rows);
                Self::Timestamp(times.with_data_type(types::data_type(kind)))
            }
            SqlType::Time(_) => Self::Time(Time64MicrosecondBuilder::with_capacity(rows)),
            SqlType::Interval(_) => Self::Interval(IntervalMonthDayNanoBuilder::with_capacity(rows)),
            SqlType::Uuid => Self::Uuid(FixedSizeBinaryBuilder::with_capacity(rows, 16)),
            SqlType::Array(item) => Self::Array(Box::new(Arrays::new(item.kind(), rows))),
        }
    }

    pub(super) fn push_null(&mut self) {
        match self {
            Self::Bool(builder) => builder.append_null(),
            Self::Int2(builder) => builder.append_null(),
            Self::Int4(builder) => builder.append_null(),
            Self::Int8(builder) => builder.append_null(),
            Self::Float4(builder) => builder.append_null(),
            Self::Float8(builder) => builder.append_null(),
            Self::Numeric(builder, _) => builder.append_null(),
            Self::Exact(builder) => builder.append_null(),
            Self::Text(builder) => builder.append_null(),
            Self::Bits(builder) => builder.append_null(),
            Self::Bytea(builder) => builder.append_null(),
            Self::Date(builder) => builder.append_null(),
            Self::Timestamp(builder) => builder.append_null(),
            Self::Time(builder) => builder.append_null(),
            Self::Interval(builder) => builder.append_null(),
            Self::Uuid(builder) => builder.append_null(),
            Self::Array(arrays) => arrays.end(false),
        }
    }

    /// Appends a value; returns its size in bytes.
    pub(super) fn push(&mut self, value: &ValueRef<'_>) -> Result<usize> {
        match (self, value) {
            (Self::Bool(builder), ValueRef::Bool(value)) => builder.append_value(*value),
            (Self::Int2(builder), ValueRef::Int(value)) => builder.append_value(narrow(*value)?),
            (Self::Int4(builder), ValueRef::Int(value)) => builder.append_value(narrow(*value)?),
            (Self::Int8(builder), ValueRef::Int(value)) => builder.append_value(*value),
            #[expect(clippy::cast_possible_truncation, reason = "a real is what was stored")]
            (Self::Float4(builder), ValueRef::Float(value)) => builder.append_value(*value as f32),
            (Self::Float8(builder), ValueRef::Float(value)) => builder.append_value(*value),
            (Self::Numeric(builder, scale), ValueRef::Numeric { unscaled, scale: from }) => {
                let factor = 10_i128.checked_pow(u32::from(scale.checked_sub(*from).ok_or_else(unfit)?));
                builder.append_value(factor.and_then(|factor| unscaled.checked_mul(factor)).ok_or_else(unfit)?);
            }
            (Self::Exact(builder), ValueRef::Exact(exact)) => {
                builder.append_value(exact.as_bytes());
                return Ok(exact.as_bytes().len());
            }
            (Self::Text(builder), ValueRef::Text(text)) => {
                builder.try_append_value(text).map_err(|_| unfit())?;
                return Ok(text.len());
            }
            (Self::Bits(builder), ValueRef::Text(bits)) => {
                builder.append_value(bits);
                return Ok(bits.len());
            }
            (Self::Bytea(builder), ValueRef::Bytes(bytes)) => {
                builder.append_value(bytes);
                return Ok(bytes.len());
            }
            (Self::Date(builder), ValueRef::Date(days)) => builder.append_value(*days),
            (Self::Timestamp(builder), ValueRef::Timestamp(micros)) => builder.append_value(*micros),
            (Self::Time(builder), ValueRef::Time(micros)) => builder.append_value(*micros),
            (Self::Interval(builder), ValueRef::Interval(span)) => builder.append_value(span_of(*span)?),
            (Self::Uuid(builder), ValueRef::Uuid(bytes)) => builder.append_value(bytes).map_err(|_| unfit())?,
            (Self::Array(arrays), ValueRef::Array(items)) => return arrays.push(items),
            _ => return Err(unfit()),
        }
        Ok(size_of::<i64>())
    }

    /// [`push`](Self::push) of a value that may be NULL.
    pub(super) fn push_value(&mut self, value: &Value) -> Result<usize> {
        match value.borrowed() {
            Some(value) => self.push(&value),
            None => {
                self.push_null();
                Ok(1)
            }
        }
    }

    /// Appends the value of a cell; returns its size in bytes. Appends nothing on an error.
    pub(super) fn push_cell(&mut self, column: &CellColumn, bytes: &[u8]) -> Result<usize> {
        if let Some(merged) = column.aggregate {
            return self.push(&ValueRef::Int(aggregate::value(merged, bytes)?));
        }
        if column.encoding == Encoding::Binary && self.push_binary(column.kind, bytes).is_some() {
            return Ok(bytes.len());
        }
        if column.encoding == Encoding::Binary
            && matches!(column.kind, SqlType::Text | SqlType::Name | SqlType::Varchar(_) | SqlType::Char(_))
        {
            let text = std::str::from_utf8(bytes);
            let text = text.map_err(|error| SqlError::new(SqlState::DATA_EXCEPTION, error.to_string()))?;
            return self.push(&ValueRef::Text(text.into()));
        }
        self.push_value(&mapping::decode(&Bytes::copy_from_slice(bytes), column.kind, &column.encoding)?)
    }

    /// Appends a number or a time as [`mapping::decode`] decodes it, but faster, without a [`Value`] between. `None` if
    /// nothing was appended: the type is another one, or the bytes are not one of its values.
    fn push_binary(&mut self, kind: SqlType, bytes: &[u8]) -> Option<()> {
        match self {
            Self::Int2(builder) => builder.append_value(i16::from_be_bytes(bytes.try_into().ok()?)),
            Self::Int4(builder) => builder.append_value(i32::from_be_bytes(bytes.try_into().ok()?)),
            Self::Int8(builder) => builder.append_value(i64::from_be_bytes(bytes.try_into().ok()?)),
            Self::Float4(builder) => builder.append_value(f32::from_be_bytes(bytes.try_into().ok()?)),
            Self::Float8(builder) => builder.append_value(f64::from_be_bytes(bytes.try_into().ok()?)),
            Self::Timestamp(builder) if accepts(kind, bytes) => {
                builder.append_value(i64::from_be_bytes(bytes.try_into().ok()?));
            }
            Self::Date(builder) if accepts(kind, bytes) => {
                builder.append_value(i32::from_be_bytes(bytes.try_into().ok()?));
            }
            Self::Time(builder) => {
                let micros = i64::from_be_bytes(bytes.try_into().ok()?);
                builder.append_value(Some(micros).filter(|micros| is_time(*micros))?);
            }
            Self::Bool(builder) => builder.append_value(match bytes {
                [0] => false,
                [1] => true,
                _ => return None,
            }),
            Self::Uuid(builder) => builder.append_value(<&[u8; 16]>::try_from(bytes).ok()?).ok()?,
            // A value of another scale, or with too many digits, takes the slow path.
            Self::Numeric(builder, scale) => {
                let SqlType::Numeric { precision, .. } = kind else { return None };
                let (unscaled, _) = mapping::numeric_parts(bytes).filter(|(_, stored)| stored == scale)?;
                let fits = 10_u128.checked_pow(precision.into()).is_some_and(|bound| unscaled.unsigned_abs() < bound);
                builder.append_value(fits.then_some(unscaled)?);
            }
            _ => return None,
        }
        Some(())
    }

    pub(super) fn finish(self) -> ArrayRef {
        match self {
            Self::Bool(mut builder) => Arc::new(builder.finish()),
            Self::Int2(mut builder) => Arc::new(builder.finish()),
            Self::Int4(mut builder) => Arc::new(builder.finish()),
            Self::Int8(mut builder) => Arc::new(builder.finish()),
            Self::Float4(mut builder) => Arc::new(builder.finish()),
            Self::Float8(mut builder) => Arc::new(builder.finish()),
            Self::Numeric(mut builder, _) => Arc::new(builder.finish()),
            Self::Exact(mut builder) => Arc::new(builder.finish()),
            Self::Text(mut builder) => Arc::new(builder.finish()),
            Self::Bits(mut builder) => Arc::new(builder.finish()),
            Self::Bytea(mut builder) => Arc::new(builder.finish()),
            Self::Date(mut builder) => Arc::new(builder.finish()),
            Self::Timestamp(mut builder) => Arc::new(builder.finish()),
            Self::Time(mut builder) => Arc::new(builder.finish()),
            Self::Interval(mut builder) => Arc::new(builder.finish()),
            Self::Uuid(mut builder) => Arc::new(builder.finish()),
            Self::Array(arrays) => arrays.finish(),
        }
    }
}

/// A column of texts with room for `rows` rows. Blocks of texts have 16 KiB at least, unless rows are few: ten columns
/// of one row would touch as many of them.
fn texts(rows: usize) -> StringViewBuilder {
    let texts = StringViewBuilder::with_capacity(rows);
    match rows {
        1..=FEW_ROWS => texts.with_fixed_block_size((rows as u32 * TEXT_BYTES).max(TEXT_BLOCK_BYTES_MIN)),
        _ => texts,
    }
}

fn span_of(Interval { months, days, micros }: Interval) -> Result<IntervalMonthDayNano> {
    Ok(IntervalMonthDayNano::new(months, days, micros.checked_mul(1_000).ok_or_else(unfit)?))
}

/// Whether the bytes are a date or time in the range of the type.
pub(super) fn accepts(kind: SqlType, bytes: &[u8]) -> bool {
    kind_accepts(kind).is_none_or(|accepts| (accepts.holds)(bytes))
}

fn narrow<T: TryFrom<i64>>(value: i64) -> Result<T> {
    T::try_from(value).map_err(|_| unfit())
}

fn unfit() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "the value does not fit the column's type")
}
