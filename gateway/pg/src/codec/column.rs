//! A column of a batch, ready to be written value by value.
//!
//! [`Column::new`] looks at the Arrow type, PostgreSQL's type and the format once and makes a function out of them;
//! what is called for each value is that function. Types without a form of their own go through [`json`] or [`list`].

use crate::{
    codec::{float, format::Format, json, list, numeric, record, time},
    datetime::{Style, encode},
    error::{Result, SqlError, SqlState},
    types,
};
use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray},
    buffer::NullBuffer,
    compute::cast,
    datatypes::{
        DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
        DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Field,
        Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType,
        IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, Time32MillisecondType, Time32SecondType,
        Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use bytes::{BufMut, BytesMut};
use keyspan_catalog::value::calendar::MICROS_PER_DAY;
use pgwire::api::Type;

/// Writes the value of a row that is not NULL.
pub type Write = Box<dyn Fn(usize, &mut BytesMut) -> Result<()> + Send + Sync>;

/// A column of a batch.
pub struct Column {
    nulls: Option<NullBuffer>,
    write: Write,
    /// How many characters of text a value has at least: blanks are added.
    characters_min: usize,
}

impl std::fmt::Debug for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Column").field("nulls", &self.nulls.as_ref().map(NullBuffer::null_count)).finish()
    }
}

impl Column {
    /// Decides how the values of an array are written as `kind`.
    ///
    /// # Errors
    /// 0A000 for a type that the protocol has no form for.
    pub fn new(array: &ArrayRef, kind: &Type, format: Format, style: &Style) -> Result<Self> {
        Ok(Self { nulls: array.logical_nulls(), write: writer(array, kind, format, style)?, characters_min: 0 })
    }

    /// The same as a field tells: a `char(n)` is padded with blanks.
    #[must_use]
    pub fn padded(self, field: &Field) -> Self {
        Self { characters_min: types::char_length(field).map_or(0, |length| length as usize), ..self }
    }

    /// Whether the value of a row is NULL.
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Writes the value of a row that is not NULL.
    ///
    /// # Errors
    /// 22003 or 22008 for a value that PostgreSQL's type cannot hold.
    #[inline]
    pub fn write(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        let at = out.len();
        (self.write)(row, out)?;
        if self.characters_min > 0 {
            // Each character has one byte that does not continue another.
            let characters = out[at..].iter().filter(|byte| **byte & 0xC0 != 0x80).count();
            out.put_bytes(b' ', self.characters_min.saturating_sub(characters));
        }
        Ok(())
    }

    /// Writes the value of a row with its length before it: −1 for NULL.
    ///
    /// # Errors
    /// As [`write`](Self::write); 54000 for a value of 2 GiB.
    #[inline]
    pub fn write_sized(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        if self.is_null(row) {
            out.put_i32(-1);
            return Ok(());
        }
        let at = out.len();
        out.put_i32(0);
        self.write(row, out)?;
        let length = i32::try_from(out.len() - at - 4)
            .map_err(|_| SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a value is too long to be sent"))?;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }
}

/// A function that writes the bytes of each value of an array.
macro_rules! bytes {
    ($values:expr, $form:expr) => {{
        let (values, form) = ($values.clone(), $form);
        Box::new(move |row, out: &mut BytesMut| {
            form.write(AsRef::<[u8]>::as_ref(values.value(row)), out);
            Ok(())
        })
    }};
}

fn writer(array: &ArrayRef, kind: &Type, format: Format, style: &Style) -> Result<Write> {
    let binary = format == Format::Binary;
    Ok(match array.data_type() {
        DataType::Null => Box::new(|_, _| Ok(())),
        DataType::Boolean => {
            let values = array.as_boolean().clone();
            let words = if binary { *b"\0\x01" } else { *b"ft" };
            Box::new(move |row, out| {
                out.put_u8(words[usize::from(values.value(row))]);
                Ok(())
            })
        }
        DataType::Int8 => integer::<Int8Type>(array, kind, binary),
        DataType::Int16 => integer::<Int16Type>(array, kind, binary),
        DataType::Int32 => integer::<Int32Type>(array, kind, binary),
        DataType::Int64 => integer::<Int64Type>(array, kind, binary),
        DataType::UInt8 => integer::<UInt8Type>(array, kind, binary),
        DataType::UInt16 => integer::<UInt16Type>(array, kind, binary),
        DataType::UInt32 => integer::<UInt32Type>(array, kind, binary),
        DataType::UInt64 => integer::<UInt64Type>(array, kind, binary),
        DataType::Float16 if binary => each::<Float16Type>(array, |value, out| out.put_f32(value.to_f32())),
        DataType::Float32 if binary => each::<Float32Type>(array, |value, out| out.put_f32(value)),
        DataType::Float64 if binary => each::<Float64Type>(array, |value, out| out.put_f64(value)),
        DataType::Float32 if style.extra_float_digits <= 0 => {
            let digits = float::digits(float::F32_DIGITS, style.extra_float_digits);
            each::<Float32Type>(array, move |value, out| float::write_rounded(f64::from(value), digits, out))
        }
        DataType::Float64 if style.extra_float_digits <= 0 => {
            let digits = float::digits(float::F64_DIGITS, style.extra_float_digits);
            each::<Float64Type>(array, move |value, out| float::write_rounded(value, digits, out))
        }
        DataType::Float16 => each::<Float16Type>(array, |value, out| float::write_f32(value.to_f32(), out)),
        DataType::Float32 => each::<Float32Type>(array, float::write_f32),
        DataType::Float64 => each::<Float64Type>(array, float::write_f64),
        DataType::Decimal32(_, scale) => decimal::<Decimal32Type>(array, *scale, binary),
        DataType::Decimal64(_, scale) => decimal::<Decimal64Type>(array, *scale, binary),
        DataType::Decimal128(_, scale) => decimal::<Decimal128Type>(array, *scale, binary),
        DataType::Decimal256(_, scale) => wide_decimal(array, *scale, binary),
        DataType::Utf8 => bytes!(array.as_string::<i32>(), Bytes::of_text(kind, binary)),
        DataType::LargeUtf8 => bytes!(array.as_string::<i64>(), if binary { Bytes::Bits } else { Bytes::Raw }),
        DataType::Utf8View => bytes!(array.as_string_view(), Bytes::of_text(kind, binary)),
        DataType::Binary => bytes!(array.as_binary::<i32>(), Bytes::of_bytes(kind, binary, style)),
        DataType::LargeBinary => {
            let values = array.as_binary::<i64>().clone();
            let write = if binary { numeric::write_exact_binary } else { numeric::write_exact_text };
            Box::new(move |row, out: &mut BytesMut| {
                write(values.value(row), out);
                Ok(())
            })
        }
        DataType::BinaryView => bytes!(array.as_binary_view(), Bytes::of_bytes(kind, binary, style)),
        DataType::FixedSizeBinary(_) => bytes!(array.as_fixed_size_binary(), Bytes::of_bytes(kind, binary, style)),
        DataType::Dictionary(_, value) => writer(&plain(array, value)?, kind, format, style)?,
        DataType::RunEndEncoded(_, value) => writer(&plain(array, value.data_type())?, kind, format, style)?,
        DataType::Struct(_) if !matches!(*kind, Type::JSON | Type::JSONB) => record::writer(array, format, style)?,
        DataType::Map(..) | DataType::Struct(_) => nested_json(array, kind, binary, style)?,
        DataType::List(..)
        | DataType::LargeList(..)
        | DataType::FixedSizeList(..)
        | DataType::ListView(..)
        | DataType::LargeListView(..) => list::writer(array, kind, format, style)?,
        DataType::Union(..) => return Err(SqlError::unsupported("a column of a union type")),
        _ => temporal(array, kind, (!binary).then_some(style)),
    })
}

/// Dates and times: in text of a style, or in binary.
fn temporal(array: &ArrayRef, kind: &Type, style: Option<&Style>) -> Write {
    match array.data_type() {
        DataType::Date32 => date::<Date32Type>(array, style, Some),
        DataType::Date64 => date::<Date64Type>(array, style, |millis| match millis {
            i64::MIN => Some(i32::MIN),
            i64::MAX => Some(i32::MAX),
            millis => i32::try_from(millis.div_euclid(MICROS_PER_DAY / 1_000)).ok(),
        }),
        DataType::Time32(TimeUnit::Second) => {
            clock::<Time32SecondType>(array, style, |value| i64::from(value) * 1_000_000)
        }
        DataType::Time32(_) => clock::<Time32MillisecondType>(array, style, |value| i64::from(value) * 1_000),
        DataType::Time64(TimeUnit::Nanosecond) => clock::<Time64NanosecondType>(array, style, |value| value / 1_000),
        DataType::Time64(_) => clock::<Time64MicrosecondType>(array, style, |value| value),
        DataType::Timestamp(unit, zone) => {
            let zoned = zone.is_some() || *kind == Type::TIMESTAMPTZ;
            match unit {
                TimeUnit::Second => timestamp::<TimestampSecondType>(array, zoned, style, *unit),
                TimeUnit::Millisecond => timestamp::<TimestampMillisecondType>(array, zoned, style, *unit),
                TimeUnit::Microsecond => timestamp::<TimestampMicrosecondType>(array, zoned, style, *unit),
                TimeUnit::Nanosecond => timestamp::<TimestampNanosecondType>(array, zoned, style, *unit),
            }
        }
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => duration::<DurationSecondType>(array, style, *unit),
            TimeUnit::Millisecond => duration::<DurationMillisecondType>(array, style, *unit),
            TimeUnit::Microsecond => duration::<DurationMicrosecondType>(array, style, *unit),
            TimeUnit::Nanosecond => duration::<DurationNanosecondType>(array, style, *unit),
        },
        DataType::Interval(IntervalUnit::YearMonth) => {
            interval::<IntervalYearMonthType>(array, style, |months| Some((months, 0, 0)))
        }
        DataType::Interval(IntervalUnit::DayTime) => interval::<IntervalDayTimeType>(array, style, |value| {
            Some((0, value.days, i64::from(value.milliseconds) * 1_000))
        }),
        _ => interval::<IntervalMonthDayNanoType>(array, style, |value| {
            Some((value.months, value.days, value.nanoseconds / 1_000))
        }),
    }
}

/// A function of each value that cannot fail.
fn each<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    write: impl Fn(T::Native, &mut BytesMut) + Send + Sync + 'static,
) -> Write {
    fallible::<T>(array, move |value, out| {
        write(value, out);
        Ok(())
    })
}

fn fallible<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    write: impl Fn(T::Native, &mut BytesMut) -> Result<()> + Send + Sync + 'static,
) -> Write {
    let values = array.as_primitive::<T>().clone();
    Box::new(move |row, out| write(values.value(row), out))
}

fn integer<T>(array: &ArrayRef, kind: &Type, binary: bool) -> Write
where
    T: ArrowPrimitiveType,
    T::Native: itoa::Integer + Into<i128>,
{
    if !binary {
        return each::<T>(array, |value, out| out.put_slice(itoa::Buffer::new().format(value).as_bytes()));
    }
    match *kind {
        Type::INT2 => fallible::<T>(array, |value, out| fit(value).map(|value| out.put_i16(value))),
        Type::INT4 => fallible::<T>(array, |value, out| fit(value).map(|value| out.put_i32(value))),
        Type::CHAR => fallible::<T>(array, |value, out| fit(value).map(|value| out.put_u8(value))),
        Type::NUMERIC => each::<T>(array, |value, out| numeric::write_binary(value.into(), 0, out)),
        Type::INT8 => fallible::<T>(array, |value, out| fit(value).map(|value| out.put_i64(value))),
        // OIDs and what is one by another name: regclass, regtype, xid …
        _ => fallible::<T>(array, |value, out| fit(value).map(|value| out.put_u32(value))),
    }
}

fn fit<T: TryFrom<i128>>(value: impl Into<i128>) -> Result<T> {
    T::try_from(value.into()).map_err(|_| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"))
}

fn decimal<T>(array: &ArrayRef, scale: i8, binary: bool) -> Write
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128>,
{
    let write = if binary { numeric::write_binary } else { numeric::write_text };
    each::<T>(array, move |value, out| write(value.into(), scale, out))
}

fn wide_decimal(array: &ArrayRef, scale: i8, binary: bool) -> Write {
    let write = if binary { numeric::write_digits_binary } else { numeric::write_digits_text };
    each::<Decimal256Type>(array, move |value, out| write(&value.to_string(), scale, out))
}

fn date<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    style: Option<&Style>,
    days: impl Fn(T::Native) -> Option<i32> + Send + Sync + 'static,
) -> Write {
    let style = style.cloned();
    fallible::<T>(array, move |value, out| {
        let days = days(value).ok_or_else(|| out_of_range("date"))?;
        match (days, &style) {
            (days, Some(style)) => encode::date(days, style, out),
            (i32::MIN | i32::MAX, None) => out.put_i32(days),
            (days, None) => out.put_i32(days.checked_sub(time::EPOCH_DAYS).ok_or_else(|| out_of_range("date"))?),
        }
        Ok(())
    })
}

fn clock<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    style: Option<&Style>,
    micros: impl Fn(T::Native) -> i64 + Send + Sync + 'static,
) -> Write {
    let binary = style.is_none();
    each::<T>(array, move |value, out| {
        if binary {
            out.put_i64(micros(value));
        } else {
            time::write_time(micros(value), out);
        }
    })
}

/// Microseconds; the least and the greatest number stay, they are the infinities.
fn micros(value: i64, unit: TimeUnit) -> Option<i64> {
    match unit {
        _ if value == i64::MIN || value == i64::MAX => Some(value),
        TimeUnit::Second => value.checked_mul(1_000_000),
        TimeUnit::Millisecond => value.checked_mul(1_000),
        TimeUnit::Microsecond => Some(value),
        TimeUnit::Nanosecond => Some(value.div_euclid(1_000)),
    }
}

fn timestamp<T: ArrowPrimitiveType<Native = i64>>(
    array: &ArrayRef,
    zoned: bool,
    style: Option<&Style>,
    unit: TimeUnit,
) -> Write {
    let style = style.cloned();
    fallible::<T>(array, move |value, out| {
        let micros = micros(value, unit).ok_or_else(|| out_of_range("timestamp"))?;
        match (micros, &style) {
            (micros, Some(style)) => encode::timestamp(micros, zoned, style, out),
            (i64::MIN | i64::MAX, None) => out.put_i64(micros),
            (micros, None) => {
                out.put_i64(micros.checked_sub(time::EPOCH_MICROS).ok_or_else(|| out_of_range("timestamp"))?);
            }
        }
        Ok(())
    })
}

/// A difference of timestamps: whole days apart from the rest, as PostgreSQL subtracts.
fn duration<T: ArrowPrimitiveType<Native = i64>>(array: &ArrayRef, style: Option<&Style>, unit: TimeUnit) -> Write {
    interval::<T>(array, style, move |value| {
        let micros = micros(value, unit)?;
        Some((0, i32::try_from(micros / MICROS_PER_DAY).ok()?, micros % MICROS_PER_DAY))
    })
}

/// `parts` gives months, days and microseconds.
fn interval<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    style: Option<&Style>,
    parts: impl Fn(T::Native) -> Option<(i32, i32, i64)> + Send + Sync + 'static,
) -> Write {
    let style = style.cloned();
    fallible::<T>(array, move |value, out| {
        let (months, days, micros) = parts(value).ok_or_else(|| out_of_range("interval"))?;
        if let Some(style) = &style {
            encode::interval(months, days, micros, style, out);
        } else {
            out.put_i64(micros);
            out.put_i32(days);
            out.put_i32(months);
        }
        Ok(())
    })
}

pub(super) fn out_of_range(what: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

fn nested_json(array: &ArrayRef, kind: &Type, binary: bool, style: &Style) -> Result<Write> {
    let json = json::writer(array, None, style)?;
    let version = binary && *kind == Type::JSONB;
    Ok(Box::new(move |row, out| {
        if version {
            out.put_u8(JSONB_VERSION);
        }
        json(row, out)
    }))
}

/// The array without its dictionary or runs, once for a batch.
fn plain(array: &ArrayRef, value: &DataType) -> Result<ArrayRef> {
    cast(array, value).map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))
}

/// The byte that a binary jsonb starts with.
const JSONB_VERSION: u8 = 1;

/// How bytes are written.
#[derive(Clone, Copy)]
pub(super) enum Bytes {
    Raw,
    /// Texts of `0` and `1` as their number and as bits, the first of a byte being its greatest.
    Bits,
    Jsonb,
    Hex,
    /// Bytes that are no letters as `\\000`.
    Escape,
    Uuid,
}

impl Bytes {
    pub(super) fn of_text(kind: &Type, binary: bool) -> Self {
        if binary && *kind == Type::JSONB { Self::Jsonb } else { Self::Raw }
    }

    pub(super) fn of_bytes(kind: &Type, binary: bool, style: &Style) -> Self {
        match *kind {
            _ if binary => Self::Raw,
            Type::UUID => Self::Uuid,
            _ if style.bytea_escape => Self::Escape,
            _ => Self::Hex,
        }
    }

    pub(super) fn write(self, bytes: &[u8], out: &mut BytesMut) {
        match self {
            Self::Raw => out.put_slice(bytes),
            Self::Bits => {
                out.put_i32(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
                for eight in bytes.chunks(8) {
                    let byte = eight.iter().enumerate();
                    out.put_u8(byte.fold(0, |byte, (at, bit)| byte | u8::from(*bit == b'1') << (7 - at)));
                }
            }
            Self::Jsonb => {
                out.put_u8(JSONB_VERSION);
                out.put_slice(bytes);
            }
            Self::Hex => {
                out.put_slice(b"\\x");
                out.reserve(bytes.len() * 2);
                bytes.iter().for_each(|byte| put_hex(*byte, out));
            }
            Self::Escape => encode::escaped(bytes, out),
            Self::Uuid => {
                for (at, byte) in bytes.iter().enumerate() {
                    if matches!(at, 4 | 6 | 8 | 10) {
                        out.put_u8(b'-');
                    }
                    put_hex(*byte, out);
                }
            }
        }
    }
}

fn put_hex(byte: u8, out: &mut BytesMut) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.put_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}
