//! Single values: the catalog's [`Value`] as DataFusion's [`ScalarValue`], and back.

use crate::{
    error::{Result, SqlError, SqlState},
    numeric, types,
};
use arrow::{
    array::{Array, ArrayRef},
    datatypes::IntervalMonthDayNano,
};
use bytes::Bytes;
use datafusion::scalar::ScalarValue;
use keyspan_catalog::{SqlType, Value, value::exact::Exact, value::interval::Interval};

/// Days of the dates that DataFusion gives in milliseconds.
const DAY_MILLIS: i64 = 86_400_000;

/// A value of a type as DataFusion has it; NULL for a value that is not of the type.
pub fn scalar_of_value(value: &Value, kind: SqlType) -> ScalarValue {
    let narrow = match (value, kind) {
        (Value::Bool(is), SqlType::Bool) => Some(ScalarValue::Boolean(Some(*is))),
        (Value::Int(int), SqlType::Int2) => i16::try_from(*int).ok().map(|int| ScalarValue::Int16(Some(int))),
        (Value::Int(int), SqlType::Int4) => i32::try_from(*int).ok().map(|int| ScalarValue::Int32(Some(int))),
        (Value::Int(int), SqlType::Int8) => Some(ScalarValue::Int64(Some(*int))),
        #[expect(clippy::cast_possible_truncation, reason = "a real is what was stored")]
        (Value::Float(float), SqlType::Float4) => Some(ScalarValue::Float32(Some(*float as f32))),
        (Value::Float(float), SqlType::Float8) => Some(ScalarValue::Float64(Some(*float))),
        (Value::Numeric { unscaled, .. }, SqlType::Numeric { precision, scale }) => {
            i8::try_from(scale).ok().map(|scale| ScalarValue::Decimal128(Some(*unscaled), precision, scale))
        }
        (Value::Exact(exact), SqlType::Exact(_)) => Some(ScalarValue::LargeBinary(Some(exact.as_bytes().to_vec()))),
        (
            Value::Text(text),
            SqlType::Text | SqlType::Name | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Json | SqlType::Jsonb,
        ) => Some(ScalarValue::Utf8View(Some(text.clone()))),
        (Value::Text(bits), SqlType::Bit(_) | SqlType::Varbit(_)) => Some(ScalarValue::LargeUtf8(Some(bits.clone()))),
        (Value::Bytes(bytes), SqlType::Bytea) => Some(ScalarValue::Binary(Some(bytes.to_vec()))),
        (Value::Time(micros), SqlType::Time(_)) => Some(ScalarValue::Time64Microsecond(Some(*micros))),
        (Value::Interval(Interval { months, days, micros }), SqlType::Interval(_)) => micros
            .checked_mul(1_000)
            .map(|nanos| ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(*months, *days, nanos)))),
        (Value::Array(items), SqlType::Array(item)) => {
            let kind = item.kind();
            let items: Vec<ScalarValue> = items.iter().map(|item| scalar_of_value(item, kind)).collect();
            Some(ScalarValue::List(ScalarValue::new_list_nullable(&items, &types::data_type(kind))))
        }
        (Value::Date(days), SqlType::Date) => Some(ScalarValue::Date32(Some(*days))),
        (Value::Timestamp(micros), SqlType::Timestamp(_)) => {
            Some(ScalarValue::TimestampMicrosecond(Some(*micros), None))
        }
        (Value::Timestamp(micros), SqlType::Timestamptz(_)) => {
            Some(ScalarValue::TimestampMicrosecond(Some(*micros), Some(types::UTC.into())))
        }
        (Value::Uuid(bytes), SqlType::Uuid) => Some(ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec()))),
        _ => None,
    };
    narrow.or_else(|| ScalarValue::try_from(&types::data_type(kind)).ok()).unwrap_or(ScalarValue::Null)
}

/// DataFusion's value as the catalog has it. Numbers keep their kind: the catalog checks whether they fit a column.
///
/// # Errors
/// 0A000 for a value of a type that no column has (maps, arrays of several dimensions).
pub fn value_of_scalar(scalar: &ScalarValue) -> Result<Value> {
    if scalar.is_null() {
        return Ok(Value::Null);
    }
    Ok(match scalar {
        ScalarValue::Boolean(Some(is)) => Value::Bool(*is),
        ScalarValue::Int8(Some(int)) => Value::Int(i64::from(*int)),
        ScalarValue::Int16(Some(int)) => Value::Int(i64::from(*int)),
        ScalarValue::Int32(Some(int)) => Value::Int(i64::from(*int)),
        ScalarValue::Int64(Some(int)) => Value::Int(*int),
        ScalarValue::UInt8(Some(int)) => Value::Int(i64::from(*int)),
        ScalarValue::UInt16(Some(int)) => Value::Int(i64::from(*int)),
        ScalarValue::UInt32(Some(int)) => Value::Int(i64::from(*int)),
        ScalarValue::UInt64(Some(int)) => Value::Int(
            i64::try_from(*int)
                .map_err(|_| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range"))?,
        ),
        ScalarValue::Float32(Some(float)) => Value::Float(f64::from(*float)),
        ScalarValue::Float64(Some(float)) => Value::Float(*float),
        ScalarValue::Decimal128(Some(unscaled), _, scale) => decimal(*unscaled, *scale)?,
        ScalarValue::Decimal256(Some(unscaled), _, scale) => {
            let unscaled = numeric::column::integer_of(*unscaled);
            Value::Exact(Exact::of_integer(&unscaled, u32::from(scale.unsigned_abs()))?)
        }
        ScalarValue::LargeBinary(Some(bytes)) => Value::Exact(Exact::trusted(bytes)),
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            Value::Text(text.clone())
        }
        ScalarValue::Binary(Some(bytes)) | ScalarValue::BinaryView(Some(bytes)) => {
            Value::Bytes(Bytes::copy_from_slice(bytes))
        }
        ScalarValue::FixedSizeBinary(_, Some(bytes)) => match <[u8; 16]>::try_from(bytes.as_slice()) {
            Ok(uuid) => Value::Uuid(uuid),
            Err(_) => Value::Bytes(Bytes::copy_from_slice(bytes)),
        },
        ScalarValue::Date32(Some(days)) => Value::Date(*days),
        ScalarValue::Date64(Some(millis)) => {
            Value::Date(i32::try_from(millis.div_euclid(DAY_MILLIS)).unwrap_or(i32::MAX))
        }
        ScalarValue::TimestampSecond(Some(seconds), _) => Value::Timestamp(seconds.saturating_mul(1_000_000)),
        ScalarValue::TimestampMillisecond(Some(millis), _) => Value::Timestamp(millis.saturating_mul(1_000)),
        ScalarValue::TimestampMicrosecond(Some(micros), _) => Value::Timestamp(*micros),
        ScalarValue::TimestampNanosecond(Some(nanos), _) => Value::Timestamp(nanos.div_euclid(1_000)),
        ScalarValue::Time32Second(Some(seconds)) => Value::Time(i64::from(*seconds).saturating_mul(1_000_000)),
        ScalarValue::Time32Millisecond(Some(millis)) => Value::Time(i64::from(*millis).saturating_mul(1_000)),
        ScalarValue::Time64Microsecond(Some(micros)) => Value::Time(*micros),
        ScalarValue::Time64Nanosecond(Some(nanos)) => Value::Time(nanos.div_euclid(1_000)),
        ScalarValue::IntervalMonthDayNano(Some(span)) => {
            let micros = span.nanoseconds.div_euclid(1_000);
            Value::Interval(Interval { months: span.months, days: span.days, micros })
        }
        ScalarValue::IntervalYearMonth(Some(months)) => {
            Value::Interval(Interval { months: *months, days: 0, micros: 0 })
        }
        ScalarValue::IntervalDayTime(Some(span)) => {
            let micros = i64::from(span.milliseconds).saturating_mul(1_000);
            Value::Interval(Interval { months: 0, days: span.days, micros })
        }
        ScalarValue::DurationSecond(Some(seconds)) => time_span(seconds.saturating_mul(1_000_000)),
        ScalarValue::DurationMillisecond(Some(millis)) => time_span(millis.saturating_mul(1_000)),
        ScalarValue::DurationMicrosecond(Some(micros)) => time_span(*micros),
        ScalarValue::DurationNanosecond(Some(nanos)) => time_span(nanos.div_euclid(1_000)),
        ScalarValue::List(list) => items(&list.value(0))?,
        ScalarValue::LargeList(list) => items(&list.value(0))?,
        ScalarValue::FixedSizeList(list) => items(&list.value(0))?,
        ScalarValue::Dictionary(_, inner) => value_of_scalar(inner)?,
        other => return Err(SqlError::unsupported(format!("a value of type {} in a column", other.data_type()))),
    })
}

/// An interval of a time alone.
fn time_span(micros: i64) -> Value {
    Value::Interval(Interval { months: 0, days: 0, micros })
}

/// The items of an array.
fn items(items: &ArrayRef) -> Result<Value> {
    if items.data_type().is_nested() {
        return Err(SqlError::unsupported("an array of more than one dimension in a column"));
    }
    let value = |row| value_of_scalar(&ScalarValue::try_from_array(items, row)?);
    (0..items.len()).map(value).collect::<Result<Vec<_>>>().map(Value::Array)
}

/// A decimal; a negative scale is multiplied out.
fn decimal(unscaled: i128, scale: i8) -> Result<Value> {
    if let Ok(scale) = u8::try_from(scale) {
        return Ok(Value::Numeric { unscaled, scale });
    }
    let factor = 10_i128.checked_pow(u32::from(scale.unsigned_abs()));
    let unscaled = factor.and_then(|factor| unscaled.checked_mul(factor));
    let unscaled =
        unscaled.ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric out of range"))?;
    Ok(Value::Numeric { unscaled, scale: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;
    use keyspan_catalog::value::array::ItemType;

    #[test]
    fn values_come_back() {
        let values = [
            (Value::Null, SqlType::Text),
            (Value::Bool(true), SqlType::Bool),
            (Value::Int(-3), SqlType::Int2),
            (Value::Int(i64::from(i32::MIN)), SqlType::Int4),
            (Value::Int(i64::MAX), SqlType::Int8),
            (Value::Float(1.5), SqlType::Float4),
            (Value::Float(0.1), SqlType::Float8),
            (Value::Numeric { unscaled: -1_234, scale: 2 }, SqlType::Numeric { precision: 10, scale: 2 }),
            (Value::Text("é".into()), SqlType::Jsonb),
            (Value::Bytes(Bytes::from_static(b"\0\xff")), SqlType::Bytea),
            (Value::Date(-1), SqlType::Date),
            (Value::Timestamp(i64::MIN), SqlType::Timestamp(None)),
            (Value::Timestamp(i64::MAX), SqlType::Timestamptz(None)),
            (Value::Uuid([7; 16]), SqlType::Uuid),
            (Value::Time(86_400_000_000), SqlType::Time(None)),
            (Value::Interval(Interval { months: -1, days: 2, micros: -3 }), SqlType::Interval(None)),
            (Value::Array(vec![Value::Int(1), Value::Null]), SqlType::Array(ItemType::Int4)),
            (Value::Array(Vec::new()), SqlType::Array(ItemType::Jsonb)),
        ];
        for (value, kind) in values {
            let scalar = scalar_of_value(&value, kind);
            assert_eq!(scalar.data_type(), types::data_type(kind));
            assert_eq!(value_of_scalar(&scalar), Ok(value));
        }
    }

    #[test]
    fn a_list_of_lists_is_no_value_of_a_column() {
        let list = ScalarValue::new_list_nullable(&[ScalarValue::Int32(Some(1))], &DataType::Int32);
        let inner = list.data_type().clone();
        let list = ScalarValue::List(ScalarValue::new_list_nullable(&[ScalarValue::List(list)], &inner));
        assert_eq!(value_of_scalar(&list).unwrap_err().state, SqlState::FEATURE_NOT_SUPPORTED);
    }
}
