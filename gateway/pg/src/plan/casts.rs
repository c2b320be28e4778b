//! Casts that PostgreSQL does otherwise than Arrow, as functions by which [`checked`](super::checked) replaces them.
//!
//! Text is read by [`parse`](crate::codec::parse) (bytea, times with zones and infinities, uuid, json: 22P02 and its
//! kin for what cannot be read), numbers are rounded where Arrow cuts them, and what becomes text looks as PostgreSQL
//! prints it ([`print`](crate::codec::print)). All other casts stay Arrow's.

use crate::{
    datetime::Input,
    error::{SqlError, SqlState},
    functions::bounded::ResultBytes,
    numeric,
    types::{self, TYPE_KEY, is_bits, is_text, sql_type},
};
use arrow::{
    array::{
        Array, ArrayRef, AsArray, BinaryBuilder, BooleanBuilder, FixedSizeBinaryBuilder, LargeStringArray,
        LargeStringBuilder, ListArray, PrimitiveBuilder, StringViewBuilder,
    },
    datatypes::{
        ArrowPrimitiveType, DataType, Date32Type, Field, FieldRef, Float32Type, Float64Type, Int16Type, Int32Type,
        Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit,
        TimestampMicrosecondType, UInt32Type,
    },
};
use datafusion::{
    common::cast::as_string_view_array,
    error::{DataFusionError, Result},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
        Volatility, expr::ScalarFunction,
    },
    scalar::ScalarValue,
};
use keyspan_catalog::{
    SqlType, Value,
    value::{
        bits::{cut, parse},
        calendar::MICROS_PER_DAY,
        cut_name,
    },
};
use std::sync::Arc;

/// A cast to a type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CastTo {
    target: FieldRef,
    signature: Signature,
}

/// The function for a cast; `None` where Arrow's own cast does.
pub fn function(from: &DataType, target: &FieldRef) -> Option<Arc<ScalarUDF>> {
    let to = target.data_type();
    let named = target.metadata().get(TYPE_KEY).map_or("", String::as_str);
    let ours = match (from, to) {
        (from, to) if is_text(from) && is_text(to) => {
            has_length(named) || named.starts_with("json") || types::enums::is_name(named)
        }
        (from, to) if is_text(from) => is_read(to),
        (from, to) if is_bits(to) => is_bits(from) || is_counted(from),
        (from, to) if is_bits(from) => is_counted(to) || is_text(to),
        // Each item as one by itself.
        (DataType::List(from), DataType::List(_)) => {
            let item = types::item_field(target).map(Arc::new);
            item.is_some_and(|item| function(from.data_type(), &item).is_some())
        }
        (from, to) if numeric::cast::converts(from, to) => true,
        // What does not fit is refused in PostgreSQL's words; what loses digits is no cast that DataFusion knows, which
        // would take it away from before a comparison (`n::numeric(9,1) = 2.5` is true of 2.46).
        (DataType::Decimal128(p, s), DataType::Decimal128(precision, scale)) => {
            scale < s || i32::from(*precision) - i32::from(*scale) < i32::from(*p) - i32::from(*s)
        }
        (DataType::Decimal256(_, s), DataType::Decimal256(_, scale)) => scale < s,
        (DataType::Float32 | DataType::Float64 | DataType::Decimal128(..), to) if to.is_integer() => true,
        (DataType::Interval(_), DataType::Time64(_)) | (DataType::Time64(_), DataType::Interval(_)) => true,
        (
            DataType::Float32
            | DataType::Float64
            | DataType::Timestamp(..)
            | DataType::Date32
            | DataType::Time64(_)
            | DataType::Binary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(16)
            | DataType::Interval(_)
            | DataType::List(_)
            | DataType::Struct(_)
            | DataType::LargeBinary
            | DataType::Decimal128(..)
            | DataType::Decimal256(..),
            to,
        ) => is_text(to),
        (_, to) if is_text(to) => has_length(named) || types::enums::is_name(named),
        _ => false,
    };
    ours.then(|| {
        let signature = Signature::new(TypeSignature::Any(1), Volatility::Immutable);
        Arc::new(ScalarUDF::from(CastTo { target: target.clone(), signature }))
    })
}

/// What a function casts to; `None` for one that is no cast.
pub(super) fn target(function: &ScalarUDF) -> Option<FieldRef> {
    let inner = function.inner().as_ref() as &dyn std::any::Any;
    inner.downcast_ref::<CastTo>().map(|cast| cast.target.clone())
}

/// Whether a call may read a time from a text, which may say `today`: not one from a literal, whose text is known, nor
/// from a parameter, whose value is put in its place before the plan runs.
pub fn reads_time(call: &ScalarFunction) -> bool {
    let target = target(&call.func);
    let target = target.as_ref().map(|field| field.data_type());
    matches!(target, Some(DataType::Date32 | DataType::Time64(_) | DataType::Timestamp(..)))
        && !matches!(call.args.as_slice(), [Expr::Literal(..) | Expr::Placeholder(_)])
}

/// Whether numbers of a type are cast to bit strings, and back.
fn is_counted(data: &DataType) -> bool {
    matches!(data, DataType::Int32 | DataType::Int64)
}

/// What PostgreSQL has no cast for and Arrow would make something of: bit strings of anything but texts and integers.
/// Arrays of several dimensions are refused, too.
///
/// # Errors
/// 42846, 0A000.
pub(super) fn check(from: &Field, to: &Field) -> Result<()> {
    if let (DataType::List(from), DataType::List(to)) = (from.data_type(), to.data_type())
        && loses_dimension(from.data_type(), to.data_type())
    {
        return Err(external(SqlError::unsupported("a cast of an array of more than one dimension")));
    }
    let allowed = |other: &DataType| is_text(other) || is_counted(other) || other.is_null();
    let bits = (is_bits(from.data_type()), is_bits(to.data_type()));
    let refused = match bits {
        (true, false) => !allowed(to.data_type()),
        (false, true) => {
            let varying = is_counted(from.data_type()) && matches!(sql_type(to), Some(SqlType::Varbit(_)));
            !allowed(from.data_type()) || varying
        }
        _ => false,
    };
    if !refused {
        return Ok(());
    }
    let name = |field: &Field| types::pg_type(field).name().to_owned();
    let message = format!("cannot cast type {} to {}", name(from), name(to));
    Err(external(SqlError::new(SqlState::CANNOT_COERCE, message)))
}

/// Whether a cast of arrays would show the rows of an array of more dimensions as texts.
fn loses_dimension(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::List(from), DataType::List(to)) => loses_dimension(from.data_type(), to.data_type()),
        (DataType::List(_), to) => !to.is_null(),
        _ => false,
    }
}

/// Whether a type of texts has a length, to which a cast cuts.
fn has_length(named: &str) -> bool {
    named.starts_with("character varying(") || named.starts_with("character(") || named == "name"
}

/// Types whose texts we read ourselves.
fn is_read(data: &DataType) -> bool {
    matches!(
        data,
        DataType::Boolean
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt32
            | DataType::Float32
            | DataType::Float64
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
            | DataType::LargeBinary
            | DataType::LargeUtf8
            | DataType::Binary
            | DataType::FixedSizeBinary(16)
            | DataType::Date32
            | DataType::Time64(TimeUnit::Microsecond)
            | DataType::Timestamp(TimeUnit::Microsecond, _)
            | DataType::Interval(IntervalUnit::MonthDayNano)
            | DataType::List(_)
    )
}

impl ScalarUDFImpl for CastTo {
    fn name(&self) -> &str {
        "pg_cast"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.target.data_type().clone())
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = arguments.arg_fields[0].is_nullable();
        let metadata = self.target.metadata().clone();
        Ok(Arc::new(Field::new("cast", self.target.data_type().clone(), nullable).with_metadata(metadata)))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let input = Input::within(&arguments.config_options);
        // What is shorter is filled with zeros.
        if let Some(SqlType::Bit(Some(length))) = sql_type(&self.target) {
            let rows = match &arguments.args[0] {
                ColumnarValue::Array(array) => array.len() as u64,
                ColumnarValue::Scalar(_) => 1,
            };
            ResultBytes::within(&arguments.config_options).check("bit", u64::from(length).saturating_mul(rows))?;
        }
        match &arguments.args[0] {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(convert(array, &self.target, input)?)),
            ColumnarValue::Scalar(scalar) => {
                let array = convert(&scalar.to_array()?, &self.target, input)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
        }
    }
}

/// Casts an array as PostgreSQL casts its values.
///
/// # Errors
/// 22P02, 22003, 22007, 22008 for a value that the type does not have.
pub fn convert(array: &ArrayRef, target: &Field, input: Input<'_>) -> Result<ArrayRef> {
    let from = array.data_type();
    if is_text(from) {
        let text = arrow::compute::cast(array, &DataType::Utf8View)?;
        return read(as_string_view_array(&text)?.iter(), array.len(), target, input);
    }
    if let (DataType::List(_), DataType::List(plain), Some(item)) =
        (from, target.data_type(), types::item_field(target))
    {
        let list = array.as_list::<i32>();
        let items = convert(list.values(), &item, input)?;
        let cast = ListArray::try_new(plain.clone(), list.offsets().clone(), items, list.nulls().cloned())?;
        return Ok(Arc::new(cast));
    }
    if is_bits(target.data_type()) && !from.is_null() || is_bits(from) && is_counted(target.data_type()) {
        return bits(array, target);
    }
    if is_text(target.data_type()) {
        let text: ArrayRef = Arc::new(crate::codec::print::texts(array, input.style)?);
        let text = read(as_string_view_array(&text)?.iter(), array.len(), target, input)?;
        return Ok(arrow::compute::cast(&text, target.data_type())?);
    }
    if crate::datetime::casts::crosses(from, target.data_type()) && !input.style.zone.is_utc() {
        return crate::datetime::casts::in_zone(array, target.data_type(), input.style);
    }
    if numeric::cast::converts(from, target.data_type()) {
        return numeric::cast::convert(array, target.data_type(), types::exact_digits(target)).map_err(external);
    }
    match from {
        DataType::Float32 | DataType::Float64 => {
            let floats = arrow::compute::cast(array, &DataType::Float64)?;
            rounded(floats.as_primitive::<Float64Type>(), target.data_type())
        }
        DataType::Interval(_) => {
            let spans = array.as_primitive::<IntervalMonthDayNanoType>();
            // Modulo a day.
            let clock = |span: IntervalMonthDayNano| (span.nanoseconds / 1_000).rem_euclid(MICROS_PER_DAY);
            Ok(Arc::new(spans.unary::<_, Time64MicrosecondType>(clock)))
        }
        DataType::Time64(_) => {
            let times = array.as_primitive::<Time64MicrosecondType>();
            let span = |micros: i64| IntervalMonthDayNano::new(0, 0, micros * 1_000);
            Ok(Arc::new(times.unary::<_, IntervalMonthDayNanoType>(span)))
        }
        DataType::Decimal128(..) if matches!(target.data_type(), DataType::Decimal128(..)) => {
            let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
            match arrow::compute::cast_with_options(array, target.data_type(), &options) {
                Ok(cast) => Ok(cast),
                Err(_) => {
                    numeric::cast::convert(array, target.data_type(), types::exact_digits(target)).map_err(external)
                }
            }
        }
        DataType::Decimal128(_, scale) => {
            // Arrow rounds half away from zero when it lessens the scale, as PostgreSQL does.
            let whole = arrow::compute::cast(array, &DataType::Decimal128(38, 0.min(*scale)))?;
            cast_whole(&whole, target.data_type())
        }
        _ => Ok(arrow::compute::cast(array, target.data_type())?),
    }
}

/// Bit strings of another length, of whole numbers, or as whole numbers.
fn bits(array: &ArrayRef, target: &Field) -> Result<ArrayRef> {
    let kind = sql_type(target).unwrap_or(SqlType::Varbit(None));
    if is_bits(target.data_type()) && is_bits(array.data_type()) {
        let cut = array.as_string::<i64>().iter().map(|value| value.map(|value| cut(value, kind)));
        return Ok(Arc::new(cut.collect::<LargeStringArray>()));
    }
    if is_bits(target.data_type()) {
        let width = if *array.data_type() == DataType::Int32 { 32 } else { 64 };
        let whole = arrow::compute::cast(array, &DataType::Int64)?;
        let whole = whole.as_primitive::<Int64Type>();
        let length = match kind {
            SqlType::Bit(Some(length)) => length,
            _ => width,
        };
        let digits = |number: i64| -> String {
            // The last bits, the sign before the first.
            let bit = |at: u32| if number >> at.min(63) & 1 == 1 { '1' } else { '0' };
            (0..length).rev().map(bit).collect()
        };
        return Ok(Arc::new(whole.iter().map(|number| number.map(digits)).collect::<LargeStringArray>()));
    }
    let width = if *target.data_type() == DataType::Int32 { 32 } else { 64 };
    let mut whole = PrimitiveBuilder::<Int64Type>::with_capacity(array.len());
    for value in array.as_string::<i64>() {
        let Some(value) = value else {
            whole.append_null();
            continue;
        };
        if value.len() > width {
            return Err(external(super::checked_arithmetic::out_of_range(target.data_type())));
        }
        let number = value.bytes().fold(0_u64, |number, bit| number << 1 | u64::from(bit == b'1'));
        let number = number.cast_signed();
        #[expect(clippy::cast_possible_truncation, reason = "32 bits, of which the first is the sign")]
        whole.append_value(if width == 32 { i64::from(number as i32) } else { number });
    }
    cast_whole(&(Arc::new(whole.finish()) as ArrayRef), target.data_type())
}

fn cast_whole(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
    arrow::compute::cast_with_options(array, to, &options)
        .map_err(|_| external(super::checked_arithmetic::out_of_range(to)))
}

fn rounded(floats: &arrow::array::Float64Array, to: &DataType) -> Result<ArrayRef> {
    /// The least float that no bigint reaches.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    let mut whole = PrimitiveBuilder::<Int64Type>::with_capacity(floats.len());
    for float in floats {
        let Some(float) = float else {
            whole.append_null();
            continue;
        };
        let float = float.round_ties_even();
        if !(-BEYOND..BEYOND).contains(&float) {
            return Err(external(super::checked_arithmetic::out_of_range(to)));
        }
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        whole.append_value(float as i64);
    }
    let whole: ArrayRef = Arc::new(whole.finish());
    cast_whole(&whole, to)
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

type Texts<'a> = Box<dyn Iterator<Item = Option<&'a str>> + 'a>;

/// Reads texts as values of a type.
fn read<'a>(
    texts: impl Iterator<Item = Option<&'a str>> + 'a,
    rows: usize,
    target: &Field,
    input: Input<'_>,
) -> Result<ArrayRef> {
    let texts: Texts<'a> = Box::new(texts);
    match target.data_type() {
        DataType::Utf8View | DataType::Utf8 => read_text(texts, rows, target),
        DataType::LargeUtf8 => {
            let kind = sql_type(target).unwrap_or(SqlType::Varbit(None));
            let mut values = LargeStringBuilder::with_capacity(rows, 0);
            for text in texts {
                let read = text.map(parse).transpose().map_err(|error| external(error.into()))?;
                values.append_option(read.as_deref().map(|bits| cut(bits, kind)));
            }
            Ok(Arc::new(values.finish()))
        }
        DataType::Boolean => {
            let mut values = BooleanBuilder::with_capacity(rows);
            for text in texts {
                values.append_option(text.map(crate::codec::parse::boolean).transpose().map_err(external)?);
            }
            Ok(Arc::new(values.finish()))
        }
        DataType::Int16 => primitive::<Int16Type>(texts, rows, |text| crate::codec::parse::integer(text, "smallint")),
        DataType::Int32 => primitive::<Int32Type>(texts, rows, |text| crate::codec::parse::integer(text, "integer")),
        DataType::Int64 => primitive::<Int64Type>(texts, rows, |text| crate::codec::parse::integer(text, "bigint")),
        DataType::UInt32 => primitive::<UInt32Type>(texts, rows, |text| crate::codec::parse::integer(text, "oid")),
        DataType::Float32 => primitive::<Float32Type>(texts, rows, |text| crate::codec::parse::float(text, "real")),
        DataType::Float64 => {
            primitive::<Float64Type>(texts, rows, |text| crate::codec::parse::float(text, "double precision"))
        }
        DataType::Date32 => primitive::<Date32Type>(texts, rows, |text| crate::codec::parse::date(text, input)),
        DataType::Time64(_) => {
            primitive::<Time64MicrosecondType>(texts, rows, |text| crate::codec::parse::time(text, input))
        }
        DataType::Timestamp(_, zone) => {
            let zoned = zone.is_some();
            let read = |text: &str| crate::codec::parse::timestamp(text, zoned, input);
            let stamps = primitive::<TimestampMicrosecondType>(texts, rows, read)?;
            let stamps = stamps.as_primitive::<TimestampMicrosecondType>().clone();
            Ok(Arc::new(stamps.with_timezone_opt(zone.clone())))
        }
        DataType::Interval(_) => {
            primitive::<IntervalMonthDayNanoType>(texts, rows, |text| crate::codec::parse::interval(text, input))
        }
        DataType::Decimal128(precision, scale) => {
            let (precision, scale) = (*precision, *scale);
            let mut values = PrimitiveBuilder::<arrow::datatypes::Decimal128Type>::with_capacity(rows);
            for text in texts {
                values.append_option(
                    text.map(|text| crate::codec::parse::numeric(text, precision, scale))
                        .transpose()
                        .map_err(external)?,
                );
            }
            Ok(Arc::new(values.finish().with_precision_and_scale(precision, scale)?))
        }
        DataType::LargeBinary | DataType::Decimal256(..) => {
            let exact = |text: Option<&str>| text.map(crate::codec::parse::exact).transpose();
            let array = numeric::column::collect(texts.map(exact)).map_err(external)?;
            numeric::cast::convert(&array, target.data_type(), types::exact_digits(target)).map_err(external)
        }
        DataType::Binary => {
            let mut values = BinaryBuilder::with_capacity(rows, 0);
            for text in texts {
                values.append_option(text.map(crate::codec::parse::bytea).transpose().map_err(external)?);
            }
            Ok(Arc::new(values.finish()))
        }
        DataType::FixedSizeBinary(16) => {
            let mut values = FixedSizeBinaryBuilder::with_capacity(rows, 16);
            for text in texts {
                match text {
                    Some(text) => values.append_value(crate::codec::parse::uuid(text).map_err(external)?)?,
                    None => values.append_null(),
                }
            }
            Ok(Arc::new(values.finish()))
        }
        DataType::List(plain) => {
            let item = types::item_field(target).unwrap_or_else(|| plain.as_ref().clone());
            read_list(texts, plain, &item, input)
        }
        other => Err(external(SqlError::unsupported(format!("a cast of text to {other}")))),
    }
}

fn primitive<T: ArrowPrimitiveType>(
    texts: Texts<'_>,
    rows: usize,
    read: impl Fn(&str) -> crate::error::Result<T::Native>,
) -> Result<ArrayRef> {
    let mut values = PrimitiveBuilder::<T>::with_capacity(rows);
    for text in texts {
        values.append_option(text.map(&read).transpose().map_err(external)?);
    }
    Ok(Arc::new(values.finish()))
}

/// Text as a kind of text: json is checked, jsonb put in its one form, an explicit `varchar(n)` or `char(n)` cut.
fn read_text(texts: Texts<'_>, rows: usize, target: &Field) -> Result<ArrayRef> {
    let mut values = StringViewBuilder::with_capacity(rows);
    let kind = sql_type(target);
    let labels = types::enums::of(target);
    for text in texts {
        let Some(text) = text else {
            values.append_null();
            continue;
        };
        if let Some(labels) = &labels {
            labels.check(text).map_err(|error| external(error.into()))?;
        }
        match kind {
            Some(SqlType::Json) => {
                Value::parse(text, SqlType::Json).map_err(|error| external(error.into()))?;
                values.append_value(text);
            }
            Some(SqlType::Jsonb) => values.append_value(crate::codec::parse::jsonb(text).map_err(external)?),
            Some(SqlType::Varchar(Some(length))) => values.append_value(first(text, length)),
            Some(SqlType::Name) => values.append_value(cut_name(text)),
            // Without the blanks at its end, as it is stored.
            Some(SqlType::Char(length)) => values.append_value(first(text, length).trim_end_matches(' ')),
            _ => values.append_value(text),
        }
    }
    Ok(arrow::compute::cast(&values.finish(), target.data_type())?)
}

/// The first characters of a text.
fn first(text: &str, length: u32) -> &str {
    let end = text.char_indices().nth(length as usize).map_or(text.len(), |(index, _)| index);
    &text[..end]
}

/// Arrays of one dimension as PostgreSQL writes them: `{a,"b c",NULL}`.
fn read_list(texts: Texts<'_>, plain: &FieldRef, item: &Field, input: Input<'_>) -> Result<ArrayRef> {
    let (mut items, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for text in texts {
        let list = text.map(crate::codec::parse::list).transpose().map_err(external)?;
        valid.push(list.is_some());
        let list = list.unwrap_or_default();
        lengths.push(list.len());
        items.extend(list);
    }
    let rows = items.len();
    let values = read(items.iter().map(Option::as_deref), rows, item, input)?;
    let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths);
    let nulls = arrow::buffer::NullBuffer::from(valid);
    Ok(Arc::new(ListArray::try_new(plain.clone(), offsets, values, Some(nulls))?))
}
