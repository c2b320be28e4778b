//! Converts values to the type of their column's kind, and back. Pure.
//!
//! [`Values`] collects the values of a column for some rows; [`Slices`] returns the bytes of each value of a column
//! that was read. A value that [`fits`] round-trips byte for byte.

mod decimal;

use crate::ColumnKind;
use arrow::{
    array::{
        Array, ArrayBuilder, ArrayRef, ArrowPrimitiveType, AsArray, BinaryBuilder, BooleanBuilder, Date32Builder,
        Decimal128Builder, FixedSizeBinaryBuilder, Float32Builder, Float64Builder, Int16Builder, Int32Builder,
        Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
    },
    buffer::{Buffer, NullBuffer, OffsetBuffer},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimeUnit,
        TimestampMicrosecondType,
    },
};
use bytes::Bytes;
use std::borrow::Cow;

/// The type of the column.
pub(super) fn data_type(kind: ColumnKind) -> DataType {
    match kind {
        ColumnKind::Binary => DataType::Binary,
        ColumnKind::Utf8 => DataType::Utf8,
        ColumnKind::Bool => DataType::Boolean,
        ColumnKind::Int16 => DataType::Int16,
        ColumnKind::Int32 => DataType::Int32,
        ColumnKind::Int64 => DataType::Int64,
        ColumnKind::Float32 => DataType::Float32,
        ColumnKind::Float64 => DataType::Float64,
        ColumnKind::Date32 => DataType::Date32,
        ColumnKind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        ColumnKind::TimestampUtc => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ColumnKind::Uuid => DataType::FixedSizeBinary(16),
        ColumnKind::Decimal { precision, scale } => decimal::data_type(precision, scale),
    }
}

/// Whether there is a NaN, which statistics ignore: they bound numbers only.
pub(super) fn has_nan(array: &dyn Array) -> bool {
    match array.data_type() {
        DataType::Float32 => array.as_primitive::<Float32Type>().iter().flatten().any(f32::is_nan),
        DataType::Float64 => array.as_primitive::<Float64Type>().iter().flatten().any(f64::is_nan),
        _ => false,
    }
}

/// The permanent name of the kind in footers.
pub(super) fn name(kind: ColumnKind) -> Cow<'static, str> {
    let fixed = match kind {
        ColumnKind::Decimal { precision, scale } => return decimal::name(precision, scale).into(),
        ColumnKind::Binary => "binary",
        ColumnKind::Utf8 => "utf8",
        ColumnKind::Bool => "bool",
        ColumnKind::Int16 => "int16",
        ColumnKind::Int32 => "int32",
        ColumnKind::Int64 => "int64",
        ColumnKind::Float32 => "float32",
        ColumnKind::Float64 => "float64",
        ColumnKind::Date32 => "date32",
        ColumnKind::Timestamp => "timestamp",
        ColumnKind::TimestampUtc => "timestamp_utc",
        ColumnKind::Uuid => "uuid",
    };
    fixed.into()
}

/// The kind with a [`name`].
pub(super) fn of_name(text: &str) -> Option<ColumnKind> {
    KINDS.into_iter().find(|kind| name(*kind) == text).or_else(|| decimal::of_name(text))
}

/// All kinds without parameters.
const KINDS: [ColumnKind; 12] = [
    ColumnKind::Binary,
    ColumnKind::Utf8,
    ColumnKind::Bool,
    ColumnKind::Int16,
    ColumnKind::Int32,
    ColumnKind::Int64,
    ColumnKind::Float32,
    ColumnKind::Float64,
    ColumnKind::Date32,
    ColumnKind::Timestamp,
    ColumnKind::TimestampUtc,
    ColumnKind::Uuid,
];

/// Whether a column of the kind can hold the value.
pub(super) fn fits(kind: ColumnKind, value: &[u8]) -> bool {
    match kind {
        ColumnKind::Binary => true,
        ColumnKind::Utf8 => std::str::from_utf8(value).is_ok(),
        ColumnKind::Bool => matches!(value, [0 | 1]),
        ColumnKind::Int16 => value.len() == 2,
        ColumnKind::Int32 | ColumnKind::Float32 | ColumnKind::Date32 => value.len() == 4,
        ColumnKind::Int64 | ColumnKind::Float64 | ColumnKind::Timestamp | ColumnKind::TimestampUtc => value.len() == 8,
        ColumnKind::Uuid => value.len() == 16,
        ColumnKind::Decimal { precision, scale } => decimal::decode(value, precision, scale).is_some(),
    }
}

/// The values of a column, for the rows of a batch.
#[derive(Debug)]
pub(super) enum Values {
    Binary(BinaryBuilder),
    Utf8(StringBuilder),
    Bool(BooleanBuilder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Date32(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Uuid(FixedSizeBinaryBuilder),
    Decimal(Decimal128Builder, (u8, u8)),
}

macro_rules! each {
    ($values:expr, $builder:ident => $what:expr) => {
        match $values {
            Values::Binary($builder) => $what,
            Values::Utf8($builder) => $what,
            Values::Bool($builder) => $what,
            Values::Int16($builder) => $what,
            Values::Int32($builder) => $what,
            Values::Int64($builder) => $what,
            Values::Float32($builder) => $what,
            Values::Float64($builder) => $what,
            Values::Date32($builder) => $what,
            Values::Timestamp($builder) => $what,
            Values::Uuid($builder) => $what,
            Values::Decimal($builder, _) => $what,
        }
    };
}

impl Values {
    /// Values of a kind, with room for so many rows and bytes of values of no fixed length.
    pub(super) fn with_room(kind: ColumnKind, rows: usize, bytes: usize) -> Self {
        match kind {
            ColumnKind::Binary => Self::Binary(BinaryBuilder::with_capacity(rows, bytes)),
            ColumnKind::Utf8 => Self::Utf8(StringBuilder::with_capacity(rows, bytes)),
            ColumnKind::Bool => Self::Bool(BooleanBuilder::with_capacity(rows)),
            ColumnKind::Int16 => Self::Int16(Int16Builder::with_capacity(rows)),
            ColumnKind::Int32 => Self::Int32(Int32Builder::with_capacity(rows)),
            ColumnKind::Int64 => Self::Int64(Int64Builder::with_capacity(rows)),
            ColumnKind::Float32 => Self::Float32(Float32Builder::with_capacity(rows)),
            ColumnKind::Float64 => Self::Float64(Float64Builder::with_capacity(rows)),
            ColumnKind::Date32 => Self::Date32(Date32Builder::with_capacity(rows)),
            ColumnKind::Timestamp | ColumnKind::TimestampUtc => {
                Self::Timestamp(TimestampMicrosecondBuilder::with_capacity(rows).with_data_type(data_type(kind)))
            }
            ColumnKind::Uuid => Self::Uuid(FixedSizeBinaryBuilder::with_capacity(rows, 16)),
            ColumnKind::Decimal { precision, scale } => {
                let builder = Decimal128Builder::with_capacity(rows).with_data_type(data_type(kind));
                Self::Decimal(builder, (precision, scale))
            }
        }
    }

    /// Appends NULLs for unset rows below `row`.
    fn pad(&mut self, row: usize) {
        each!(self, builder => {
            let missing = row - builder.len();
            if missing > 0 {
                builder.append_nulls(missing);
            }
        });
    }

    /// Sets the value of row `row`, after the rows set before. Returns `false`, and sets NULL, if it does not
    /// [fit](fits).
    pub(super) fn set(&mut self, row: usize, value: &[u8]) -> bool {
        self.pad(row);
        self.append(value).is_some()
    }

    fn append(&mut self, value: &[u8]) -> Option<()> {
        match self {
            Self::Binary(builder) => builder.append_value(value),
            Self::Utf8(builder) => builder.append_value(std::str::from_utf8(value).ok()?),
            Self::Bool(builder) => match value {
                [flag @ (0 | 1)] => builder.append_value(*flag == 1),
                _ => return None,
            },
            Self::Int16(builder) => builder.append_value(i16::from_be_bytes(value.try_into().ok()?)),
            Self::Int32(builder) => builder.append_value(i32::from_be_bytes(value.try_into().ok()?)),
            Self::Int64(builder) => builder.append_value(i64::from_be_bytes(value.try_into().ok()?)),
            Self::Float32(builder) => builder.append_value(f32::from_be_bytes(value.try_into().ok()?)),
            Self::Float64(builder) => builder.append_value(f64::from_be_bytes(value.try_into().ok()?)),
            Self::Date32(builder) => builder.append_value(i32::from_be_bytes(value.try_into().ok()?)),
            Self::Timestamp(builder) => builder.append_value(i64::from_be_bytes(value.try_into().ok()?)),
            Self::Uuid(builder) => builder.append_value(value).ok()?,
            Self::Decimal(builder, (precision, scale)) => {
                builder.append_value(decimal::decode(value, *precision, *scale)?);
            }
        }
        Some(())
    }

    /// The column of `rows` rows.
    pub(super) fn finish(mut self, rows: usize) -> ArrayRef {
        self.pad(rows);
        each!(&mut self, builder => ArrayBuilder::finish(builder))
    }
}

/// The bytes of the values of a column.
#[derive(Debug)]
pub(super) struct Slices {
    bytes: Bytes,
    offsets: Offsets,
    nulls: Option<NullBuffer>,
}

#[derive(Debug)]
enum Offsets {
    /// All of the same width in bytes.
    Wide(usize),
    Between(OffsetBuffer<i32>),
}

/// Memory of Arrow, owned by [`Bytes`].
struct OwnedBuffer(Buffer);

impl AsRef<[u8]> for OwnedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Slices {
    /// The values of a column; `None` for an unsupported type.
    pub(super) fn new(array: &dyn Array) -> Option<Self> {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        let (bytes, offsets) = match array.data_type() {
            DataType::Binary => {
                let array = array.as_binary::<i32>();
                (owned(array.values()), Offsets::Between(array.offsets().clone()))
            }
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                (owned(array.values()), Offsets::Between(array.offsets().clone()))
            }
            DataType::Boolean => {
                let flags: Vec<u8> = array.as_boolean().values().iter().map(u8::from).collect();
                (flags.into(), Offsets::Wide(1))
            }
            DataType::Int16 => wide::<Int16Type, 2>(array, i16::to_be_bytes),
            DataType::Int32 => wide::<Int32Type, 4>(array, i32::to_be_bytes),
            DataType::Int64 => wide::<Int64Type, 8>(array, i64::to_be_bytes),
            DataType::Float32 => wide::<Float32Type, 4>(array, f32::to_be_bytes),
            DataType::Float64 => wide::<Float64Type, 8>(array, f64::to_be_bytes),
            DataType::Date32 => wide::<Date32Type, 4>(array, i32::to_be_bytes),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                wide::<TimestampMicrosecondType, 8>(array, i64::to_be_bytes)
            }
            DataType::FixedSizeBinary(16) => {
                // The array may be a slice: only its own part counts.
                let array = array.as_fixed_size_binary();
                (Bytes::copy_from_slice(array.value_data()), Offsets::Wide(16))
            }
            DataType::Decimal128(_, scale) => {
                let (bytes, offsets) = decimal::encode_all(array.as_primitive::<Decimal128Type>(), *scale)?;
                (bytes, Offsets::Between(offsets))
            }
            _ => return None,
        };
        Some(Self { bytes, offsets, nulls })
    }

    /// How many of the rows have a value.
    pub(super) fn count(&self, rows: usize) -> usize {
        rows - self.nulls.as_ref().map_or(0, NullBuffer::null_count)
    }

    /// Calls a function with each of the rows that has a value, in order.
    pub(super) fn each_row(&self, rows: usize, call: impl FnMut(usize)) {
        match &self.nulls {
            Some(nulls) => nulls.valid_indices().for_each(call),
            None => (0..rows).for_each(call),
        }
    }

    /// The bytes of the row's value, and the memory that they lie in; `None` for NULL.
    pub(super) fn get(&self, row: usize) -> Option<(&Bytes, &[u8])> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let range = match &self.offsets {
            Offsets::Wide(width) => row * width..(row + 1) * width,
            Offsets::Between(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
        };
        Some((&self.bytes, &self.bytes[range]))
    }
}

fn owned(buffer: &Buffer) -> Bytes {
    Bytes::from_owner(OwnedBuffer(buffer.clone()))
}

fn wide<T: ArrowPrimitiveType, const N: usize>(
    array: &dyn Array,
    encode: impl Fn(T::Native) -> [u8; N],
) -> (Bytes, Offsets) {
    let values = array.as_primitive::<T>().values();
    let mut bytes = Vec::with_capacity(values.len() * N);
    for &value in values {
        bytes.extend_from_slice(&encode(value));
    }
    (bytes.into(), Offsets::Wide(N))
}
