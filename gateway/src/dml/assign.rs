//! Values into columns, as PostgreSQL's assignment casts have it: rounded, checked, or refused.

use super::target::TargetColumn;
use crate::pg::{
    datetime::{Input, Style, values},
    error::{Result, SqlError, SqlState},
    numeric, types,
};
use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{DataType, Field},
};
use datafusion::scalar::ScalarValue;
use keyspan_catalog::{
    ProtoMessage, SqlType, Value,
    value::{
        calendar::MICROS_PER_DAY,
        exact::{Digits, Parts},
        interval::Interval as Span,
    },
};

/// The value of a column's row, cast to the type of the column that it goes to.
///
/// # Errors
/// 42804 for types that PostgreSQL does not cast, 22003, 22P02, 22001 and others for values that do not fit.
pub(super) fn assign(array: &ArrayRef, row: usize, column: &TargetColumn, input: Input<'_>) -> Result<Value> {
    assign_scalar(&ScalarValue::try_from_array(array, row)?, array.data_type(), column, input)
}

/// [`assign`] of a value of a type.
///
/// # Errors
/// As there.
pub(crate) fn assign_scalar(
    scalar: &ScalarValue,
    from: &DataType,
    column: &TargetColumn,
    input: Input<'_>,
) -> Result<Value> {
    let value = types::value_of_scalar(scalar).map_err(|error| match error.state {
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE => error,
        _ => mismatch(column, from),
    })?;
    let mismatch = || mismatch(column, from);
    let Some(message) = column.message() else {
        return column.check_label(cast(value, from, column.kind, (&mismatch, input))?);
    };
    // The bytes of a message, which stay as they are.
    if let Value::Bytes(bytes) = &value {
        message.check(bytes)?;
        return Ok(value);
    }
    as_read(message, cast(value, from, column.kind, (&mismatch, input))?)
}

/// The time of the transaction as a column takes it: without a zone it is that of the session's.
///
/// # Errors
/// 42804 for a column of another type.
pub(crate) fn now(column: &TargetColumn, input: Input<'_>) -> Result<Value> {
    let now = ScalarValue::TimestampMicrosecond(Some(input.now_micros), Some(types::UTC.into()));
    assign_scalar(&now, &now.data_type(), column, input)
}

/// A jsonb for a column of messages as it will be read: with the names that fields have in JSON, for example.
///
/// # Errors
/// For JSON that is no such message.
pub(crate) fn as_read(message: &ProtoMessage, value: Value) -> Result<Value> {
    match value {
        Value::Text(json) => Ok(message.decode(&message.encode(&json)?).unwrap_or(Value::Text(json))),
        other => Ok(other),
    }
}

/// The values of some columns of a row, cast.
pub(crate) fn assign_row(
    batch: &RecordBatch,
    from: usize,
    row: usize,
    columns: &[&TargetColumn],
    input: Input<'_>,
) -> Result<Vec<Value>> {
    columns.iter().enumerate().map(|(at, column)| assign(batch.column(from + at), row, column, input)).collect()
}

/// A value of a type as one of another, by itself or in an array; `mismatch` is the error of the column that it goes
/// to.
fn cast(
    value: Value,
    from: &DataType,
    kind: SqlType,
    (mismatch, input): (&dyn Fn() -> SqlError, Input<'_>),
) -> Result<Value> {
    use SqlType::{
        Array, Bit, Bool, Bytea, Char, Date, Exact, Float4, Float8, Int2, Int4, Int8, Interval, Json, Jsonb, Name,
        Numeric, Text, Time, Timestamp, Timestamptz, Uuid, Varbit, Varchar,
    };
    let out_of_range = || {
        let message = format!("{} out of range", types::type_name(kind));
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
    };
    let value = in_zone(value, from, kind, input.style).ok_or_else(out_of_range)?;
    let converted = match (kind, value) {
        (_, Value::Null) => Value::Null,
        (Text | Name | Varchar(_) | Char(_), Value::Bool(value)) => {
            Value::Text(if value { "true" } else { "false" }.to_owned())
        }
        (Text | Name | Varchar(_) | Char(_) | Json | Jsonb, Value::Text(text)) => Value::Text(text),
        // As it is printed depends on the type of its items, which a value does not tell.
        (Text | Name | Varchar(_) | Char(_), Value::Array(items)) => Value::Text(list_text(items, from, input.style)),
        (Text | Name | Varchar(_) | Char(_), value) => {
            Value::Text(values::text(&value, kind_of(&value, from), input.style))
        }
        // What is no text is none because a value of it is one here.
        (kind, Value::Text(_)) if types::is_bits(from) && !matches!(kind, Bit(_) | Varbit(_)) => return Err(mismatch()),
        (_, Value::Text(text)) => return values::read(&text, kind, input),
        (Int2 | Int4 | Int8, Value::Float(value)) => {
            let rounded = value.round_ties_even();
            // 2^63 is a float, and the first that does not fit.
            if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
                return Err(out_of_range());
            }
            #[expect(clippy::cast_possible_truncation, reason = "checked above")]
            Value::Int(rounded as i64)
        }
        (Int2 | Int4 | Int8, Value::Numeric { unscaled, scale }) => {
            Value::Int(i64::try_from(rounded(unscaled, scale)).map_err(|_| out_of_range())?)
        }
        (Int2 | Int4 | Int8, Value::Exact(exact)) => {
            /// More digits than a bigint has.
            const WHOLE: Digits = Digits { precision: 38, scale: 0 };
            let name = types::type_name(kind);
            let no_integer =
                |what: &str| SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot convert {what} to {name}"));
            match exact.parts() {
                Parts::NaN => return Err(no_integer("NaN")),
                Parts::Infinity | Parts::MinusInfinity => return Err(no_integer("infinity")),
                Parts::Finite { .. } => {}
            }
            let whole = exact.fit(WHOLE).ok().and_then(|whole| whole.to_i128());
            let whole = whole.and_then(|(whole, _)| i64::try_from(whole).ok());
            Value::Int(whole.ok_or_else(out_of_range)?)
        }
        (Float4 | Float8, value @ (Value::Numeric { .. } | Value::Exact(_))) => {
            return Ok(Value::parse(&value.to_text(kind_of(&value, from)), kind)?);
        }
        (Numeric { .. } | Exact(_), Value::Float(value)) => {
            Value::Exact(numeric::of_float(value, *from == DataType::Float32)?)
        }
        (Date, Value::Timestamp(i64::MIN)) => Value::Date(i32::MIN),
        (Date, Value::Timestamp(i64::MAX)) => Value::Date(i32::MAX),
        (Date, Value::Timestamp(micros)) => {
            Value::Date(i32::try_from(micros.div_euclid(MICROS_PER_DAY)).map_err(|_| out_of_range())?)
        }
        (Timestamp(_) | Timestamptz(_), Value::Date(i32::MIN)) => Value::Timestamp(i64::MIN),
        (Timestamp(_) | Timestamptz(_), Value::Date(i32::MAX)) => Value::Timestamp(i64::MAX),
        (Timestamp(_) | Timestamptz(_), Value::Date(days)) => {
            Value::Timestamp(i64::from(days).checked_mul(MICROS_PER_DAY).ok_or_else(out_of_range)?)
        }
        (Time(_), Value::Timestamp(micros)) if !matches!(micros, i64::MIN | i64::MAX) => {
            Value::Time(micros.rem_euclid(MICROS_PER_DAY))
        }
        (Time(_), Value::Timestamp(_)) => Value::Null,
        (Time(_), Value::Interval(span)) => Value::Time(span.micros.rem_euclid(MICROS_PER_DAY)),
        (Interval(_), Value::Time(micros)) => Value::Interval(Span { months: 0, days: 0, micros }),
        (Array(item), Value::Array(items)) => {
            let from = item_of(from);
            let text = |kind| matches!(kind, Text | Varchar(_) | Json | Jsonb);
            let is_text = types::is_text(from);
            let cast = |value| match value {
                // Texts in an array have their type: they are no literals.
                Value::Text(_) if is_text && !text(item.kind()) => Err(mismatch()),
                value => cast(value, from, item.kind(), (mismatch, input)),
            };
            Value::Array(items.into_iter().map(cast).collect::<Result<_>>()?)
        }
        (Bool, value @ Value::Bool(_))
        | (Int2 | Int4 | Int8 | Float4 | Float8 | Numeric { .. } | Exact(_), value @ Value::Int(_))
        | (Float4 | Float8, value @ Value::Float(_))
        | (Numeric { .. } | Exact(_), value @ (Value::Numeric { .. } | Value::Exact(_)))
        | (Bytea, value @ Value::Bytes(_))
        | (Date, value @ Value::Date(_))
        | (Timestamp(_) | Timestamptz(_), value @ Value::Timestamp(_))
        | (Time(_), value @ Value::Time(_))
        | (Interval(_), value @ Value::Interval(_))
        | (Uuid, value @ Value::Uuid(_)) => value,
        _ => return Err(mismatch()),
    };
    Ok(converted.into_fit(kind)?)
}

/// A time that goes from local time to a `timestamptz` or back, by the session's zone. `None` out of range.
fn in_zone(value: Value, from: &DataType, kind: SqlType, style: &Style) -> Option<Value> {
    use SqlType::{Date, Time, Timestamp, Timestamptz};
    let is_zoned = matches!(from, DataType::Timestamp(_, Some(_)));
    Some(match (value, kind) {
        (Value::Timestamp(micros), Timestamp(_) | Date | Time(_)) if is_zoned => {
            Value::Timestamp(style.zone.to_local(micros)?)
        }
        (Value::Timestamp(micros), Timestamptz(_)) if !is_zoned => Value::Timestamp(style.zone.to_utc(micros)?),
        (Value::Date(days), Timestamptz(_)) if !matches!(days, i32::MIN | i32::MAX) => {
            Value::Timestamp(style.zone.to_utc(i64::from(days).checked_mul(MICROS_PER_DAY)?)?)
        }
        (value, _) => value,
    })
}

/// The type by which a value is printed.
fn kind_of(value: &Value, from: &DataType) -> SqlType {
    match value {
        Value::Null | Value::Text(_) => SqlType::Text,
        Value::Bool(_) => SqlType::Bool,
        Value::Int(_) => SqlType::Int8,
        Value::Float(_) if *from == DataType::Float32 => SqlType::Float4,
        Value::Float(_) => SqlType::Float8,
        Value::Numeric { scale, .. } => SqlType::Numeric { precision: types::NUMERIC_PRECISION, scale: *scale },
        Value::Exact(_) => SqlType::Exact(None),
        Value::Bytes(_) => SqlType::Bytea,
        Value::Date(_) => SqlType::Date,
        Value::Timestamp(_) if matches!(from, DataType::Timestamp(_, Some(_))) => SqlType::Timestamptz(None),
        Value::Timestamp(_) => SqlType::Timestamp(None),
        Value::Time(_) => SqlType::Time(None),
        Value::Interval(_) => SqlType::Interval(None),
        Value::Uuid(_) => SqlType::Uuid,
        Value::Array(_) => types::sql_type(&Field::new("", from.clone(), true)).unwrap_or(SqlType::Text),
    }
}

/// The text of an array of a type.
fn list_text(items: Vec<Value>, from: &DataType, style: &Style) -> String {
    let array = Value::Array(items);
    values::text(&array, kind_of(&array, from), style)
}

/// The type of a list's items.
fn item_of(list: &DataType) -> &DataType {
    match list {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => item.data_type(),
        other => other,
    }
}

/// A numeric without its fraction: half away from zero, as PostgreSQL rounds them.
fn rounded(unscaled: i128, scale: u8) -> i128 {
    let unit = 10_i128.checked_pow(u32::from(scale)).unwrap_or(i128::MAX);
    let (whole, rest) = (unscaled / unit, unscaled % unit);
    if rest.unsigned_abs() >= unit.unsigned_abs().div_ceil(2) { whole + unscaled.signum() } else { whole }
}

fn mismatch(column: &TargetColumn, from: &DataType) -> SqlError {
    let found = crate::pg::functions::shown_type(from);
    let wanted = types::type_name(column.kind);
    let message = format!("column \"{}\" is of type {wanted} but expression is of type {found}", column.name);
    SqlError::new(SqlState::DATATYPE_MISMATCH, message).with_hint("You will need to rewrite or cast the expression.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dml::target::Place;
    use expect_test::{Expect, expect};

    fn check(value: ScalarValue, kind: SqlType, expected: Expect) {
        let column = TargetColumn {
            name: "a".into(),
            kind,
            not_null: false,
            place: Place::Key(0),
            default: None,
            identity: None,
            enumerated: None,
            domains: Vec::new(),
        };
        let array = value.to_array().unwrap();
        let shown = match assign(&array, 0, &column, Input::initial()) {
            Ok(value) => format!("{value:?}"),
            Err(error) => format!("{} {error}", error.state.0),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn numbers_are_rounded_and_checked() {
        check(ScalarValue::Float64(Some(2.5)), SqlType::Int4, expect!["Int(2)"]);
        check(ScalarValue::Float64(Some(3.5)), SqlType::Int4, expect!["Int(4)"]);
        check(ScalarValue::Float64(Some(1e30)), SqlType::Int8, expect!["22003 bigint out of range"]);
        check(ScalarValue::Float64(Some(f64::NAN)), SqlType::Int8, expect!["22003 bigint out of range"]);
        check(ScalarValue::Decimal128(Some(-25), 10, 1), SqlType::Int4, expect!["Int(-3)"]);
        check(ScalarValue::Decimal128(Some(24), 10, 1), SqlType::Int4, expect!["Int(2)"]);
        check(ScalarValue::Int64(Some(40_000)), SqlType::Int2, expect!["22003 smallint out of range"]);
        let numeric = SqlType::Numeric { precision: 5, scale: 2 };
        check(ScalarValue::Float64(Some(1.005)), numeric, expect!["Numeric { unscaled: 101, scale: 2 }"]);
        check(ScalarValue::Int64(Some(7)), numeric, expect!["Numeric { unscaled: 700, scale: 2 }"]);
    }

    #[test]
    fn texts_are_read_and_everything_becomes_text() {
        check(
            ScalarValue::from("x1"),
            SqlType::Int4,
            expect![[r#"22P02 invalid input syntax for type integer: "x1""#]],
        );
        check(ScalarValue::from("12"), SqlType::Int4, expect!["Int(12)"]);
        check(ScalarValue::Boolean(Some(true)), SqlType::Text, expect![[r#"Text("true")"#]]);
        check(ScalarValue::Float32(Some(0.1)), SqlType::Text, expect![[r#"Text("0.1")"#]]);
        check(
            ScalarValue::from("abcd"),
            SqlType::Varchar(Some(3)),
            expect!["22001 value too long for type character varying(3)"],
        );
        check(ScalarValue::Date32(Some(1)), SqlType::Timestamp(None), expect!["Timestamp(86400000000)"]);
        check(ScalarValue::TimestampMicrosecond(Some(-1), None), SqlType::Date, expect!["Date(-1)"]);
    }

    #[test]
    fn what_postgres_does_not_cast_is_refused() {
        check(
            ScalarValue::Boolean(Some(true)),
            SqlType::Int4,
            expect![[r#"42804 column "a" is of type integer but expression is of type boolean"#]],
        );
        check(
            ScalarValue::Int32(Some(1)),
            SqlType::Bool,
            expect![[r#"42804 column "a" is of type boolean but expression is of type integer"#]],
        );
    }
}
