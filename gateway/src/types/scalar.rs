//! Single values: the catalog's [`Value`] as DataFusion's [`ScalarValue`], and back.

use crate::{
    error::{Result, SqlError, SqlState},
    types,
};
use bytes::Bytes;
use datafusion::scalar::ScalarValue;
use keyspan_catalog::{SqlType, Value};

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
        (
            Value::Text(text),
            SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Json | SqlType::Jsonb,
        ) => Some(ScalarValue::Utf8View(Some(text.clone()))),
        (Value::Bytes(bytes), SqlType::Bytea) => Some(ScalarValue::Binary(Some(bytes.to_vec()))),
        (Value::Date(days), SqlType::Date) => Some(ScalarValue::Date32(Some(*days))),
        (Value::Timestamp(micros), SqlType::Timestamp) => Some(ScalarValue::TimestampMicrosecond(Some(*micros), None)),
        (Value::Timestamp(micros), SqlType::Timestamptz) => {
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
/// 0A000 for a value of a type that no column has (lists, maps, intervals).
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
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            Value::Text(text.clone())
        }
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => Value::Bytes(Bytes::copy_from_slice(bytes)),
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
        ScalarValue::Dictionary(_, inner) => value_of_scalar(inner)?,
        other => return Err(SqlError::unsupported(format!("a value of type {} in a column", other.data_type()))),
    })
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
            (Value::Timestamp(i64::MIN), SqlType::Timestamp),
            (Value::Timestamp(i64::MAX), SqlType::Timestamptz),
            (Value::Uuid([7; 16]), SqlType::Uuid),
        ];
        for (value, kind) in values {
            let scalar = scalar_of_value(&value, kind);
            assert_eq!(scalar.data_type(), types::data_type(kind));
            assert_eq!(value_of_scalar(&scalar), Ok(value));
        }
    }

    #[test]
    fn a_list_is_no_value_of_a_column() {
        let list = ScalarValue::List(ScalarValue::new_list_nullable(
            &[ScalarValue::Int32(Some(1))],
            &arrow::datatypes::DataType::Int32,
        ));
        assert_eq!(value_of_scalar(&list).unwrap_err().state, SqlState::FEATURE_NOT_SUPPORTED);
    }
}
