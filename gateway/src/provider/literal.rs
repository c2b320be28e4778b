//! The position of a literal among the values of a key part. Pure.
//!
//! DataFusion compares a part with a literal in a type that holds both, so the part may be inside a widening cast.
//! [`Edge`] converts the literal back to the part's own type, exactly: for an integer part compared with 1.5 no value
//! is equal, and 1 is the greatest value below.

use super::interval::{Interval, Slot, opposite};
use crate::pg::types::UTC;
use arrow::datatypes::{DataType, TimeUnit};
use bytes::Bytes;
use datafusion::scalar::ScalarValue;
use keyspan_catalog::{
    SqlType, Value,
    value::{
        calendar::MICROS_PER_DAY,
        exact::{Exact, Parts},
    },
};
use std::ops::Bound;

/// Integers of up to this absolute value are exact in a 64-bit float.
const FLOAT_WHOLE_MAX: f64 = (1_i64 << 52) as f64;

/// The position of a literal among the values of a type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Edge {
    /// Below all values.
    Under,
    /// Above all values.
    Over,
    /// Between two values, or equal to one or several.
    At {
        /// The upper bound of the values that are less.
        below: Bound<Value>,
        /// The lower bound of the values that are greater.
        above: Bound<Value>,
    },
}

impl Edge {
    fn on(value: Value) -> Self {
        Self::At { below: Bound::Excluded(value.clone()), above: Bound::Excluded(value) }
    }

    /// Equal to the value, or between it and the next.
    fn floor(value: Value, exactly: bool) -> Self {
        if exactly {
            return Self::on(value);
        }
        Self::At { below: Bound::Included(value.clone()), above: Bound::Excluded(value) }
    }

    /// The values less than the literal.
    pub(super) fn less(&self) -> Slot {
        match self {
            Self::Under => Slot::none(),
            Self::Over => Slot::none().complement(),
            Self::At { below, .. } => Slot::new(vec![Interval::new(Bound::Unbounded, below.clone())]),
        }
    }

    /// The values greater than the literal.
    pub(super) fn greater(&self) -> Slot {
        match self {
            Self::Under => Slot::none().complement(),
            Self::Over => Slot::none(),
            Self::At { above, .. } => Slot::new(vec![Interval::new(above.clone(), Bound::Unbounded)]),
        }
    }

    /// The values equal to the literal.
    pub(super) fn equal(&self) -> Slot {
        match self {
            Self::Under | Self::Over => Slot::none(),
            Self::At { below, above } => Slot::new(vec![Interval::new(opposite(below), opposite(above))]),
        }
    }

    /// The position of `literal`, which is not NULL, among the values of `kind`, if values are compared after a cast to
    /// the type `cast`, or without a cast. `None` if the comparison does not follow the order of the part's values, or
    /// may not.
    pub(super) fn of(kind: SqlType, cast: Option<&DataType>, literal: &ScalarValue) -> Option<Self> {
        // A numeric that a number is compared with in its exact form, whatever its cast.
        if let ScalarValue::LargeBinary(Some(bytes)) = literal
            && cast.is_none_or(crate::pg::numeric::is_exact)
        {
            return exact_edge(kind, &Exact::trusted(bytes));
        }
        match kind {
            SqlType::Bool => match (cast, literal) {
                (None, ScalarValue::Boolean(Some(value))) => Some(Self::on(Value::Bool(*value))),
                _ => None,
            },
            SqlType::Int2 => integer_edge(i16::MIN.into(), i16::MAX.into(), cast, literal),
            SqlType::Int4 => integer_edge(i32::MIN.into(), i32::MAX.into(), cast, literal),
            SqlType::Int8 => integer_edge(i64::MIN, i64::MAX, cast, literal),
            SqlType::Float4 | SqlType::Float8 => float_edge(kind, cast, literal),
            SqlType::Numeric { scale, .. } => numeric_edge(scale, cast, literal),
            // Literals beside it are of its form.
            SqlType::Exact(_) => None,
            SqlType::Text | SqlType::Name | SqlType::Varchar(_) | SqlType::Char(_) => {
                let keeps = cast.is_none_or(crate::pg::types::is_text);
                text(literal).filter(|_| keeps).map(|text| Self::on(Value::Text(text.to_owned())))
            }
            SqlType::Bit(_) | SqlType::Varbit(_) => match (cast, literal) {
                (None, ScalarValue::LargeUtf8(Some(bits))) => Some(Self::on(Value::Text(bits.clone()))),
                _ => None,
            },
            SqlType::Bytea => {
                let binary =
                    |to: &DataType| matches!(to, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
                let (ScalarValue::Binary(Some(bytes))
                | ScalarValue::LargeBinary(Some(bytes))
                | ScalarValue::BinaryView(Some(bytes))) = literal
                else {
                    return None;
                };
                cast.is_none_or(binary).then(|| Self::on(Value::Bytes(Bytes::copy_from_slice(bytes))))
            }
            SqlType::Date => date_edge(cast, literal),
            SqlType::Timestamp(_) | SqlType::Timestamptz(_) => timestamp_edge(kind, cast, literal),
            SqlType::Uuid => match (cast, literal) {
                (None, ScalarValue::FixedSizeBinary(16, Some(bytes))) => {
                    Some(Self::on(Value::Uuid(bytes.as_slice().try_into().ok()?)))
                }
                _ => None,
            },
            SqlType::Time(_) => match (cast, literal) {
                (
                    None | Some(DataType::Time64(TimeUnit::Microsecond)),
                    ScalarValue::Time64Microsecond(Some(micros)),
                ) => Some(Self::on(Value::Time(*micros))),
                _ => None,
            },
            SqlType::Json | SqlType::Jsonb | SqlType::Interval(_) | SqlType::Array(_) => None,
        }
    }
}

/// The text of a literal of any of Arrow's string types.
pub(super) fn text(literal: &ScalarValue) -> Option<&str> {
    match literal {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => text.as_deref(),
        _ => None,
    }
}

fn integer(literal: &ScalarValue) -> Option<i128> {
    match literal {
        ScalarValue::Int8(value) => value.map(i128::from),
        ScalarValue::Int16(value) => value.map(i128::from),
        ScalarValue::Int32(value) => value.map(i128::from),
        ScalarValue::Int64(value) => value.map(i128::from),
        ScalarValue::UInt8(value) => value.map(i128::from),
        ScalarValue::UInt16(value) => value.map(i128::from),
        ScalarValue::UInt32(value) => value.map(i128::from),
        ScalarValue::UInt64(value) => value.map(i128::from),
        _ => None,
    }
}

/// A decimal at another scale, rounded down, and whether that is exact.
fn scaled(unscaled: i128, from: i8, to: i8) -> Option<(i128, bool)> {
    let shift = i16::from(to) - i16::from(from);
    let factor = 10_i128.checked_pow(u32::from(shift.unsigned_abs()))?;
    if shift >= 0 {
        return Some((unscaled.checked_mul(factor)?, true));
    }
    Some((unscaled.div_euclid(factor), unscaled.rem_euclid(factor) == 0))
}

fn integer_edge(min: i64, max: i64, cast: Option<&DataType>, literal: &ScalarValue) -> Option<Edge> {
    let keeps = match cast {
        None | Some(DataType::Int64 | DataType::Decimal128(..) | DataType::Float64) => true,
        Some(DataType::Int32) => max <= i32::MAX.into(),
        Some(DataType::Int16) => max <= i16::MAX.into(),
        Some(_) => false,
    };
    let (floor, exactly) = match literal {
        ScalarValue::Decimal128(Some(unscaled), _, scale) => scaled(*unscaled, *scale, 0)?,
        // Beyond it, several integers equal one float.
        #[expect(clippy::cast_possible_truncation, reason = "bounded")]
        ScalarValue::Float64(Some(float)) if float.abs() < FLOAT_WHOLE_MAX => {
            (float.floor() as i128, float.floor() == *float)
        }
        other => (integer(other)?, true),
    };
    if !keeps {
        return None;
    }
    match i64::try_from(floor) {
        Ok(value) if value < min => Some(Edge::Under),
        Ok(value) if value > max => Some(Edge::Over),
        Ok(value) => Some(Edge::floor(Value::Int(value), exactly)),
        Err(_) if floor < 0 => Some(Edge::Under),
        Err(_) => Some(Edge::Over),
    }
}

fn float_edge(kind: SqlType, cast: Option<&DataType>, literal: &ScalarValue) -> Option<Edge> {
    if cast.is_some_and(|to| *to != DataType::Float64) {
        return None;
    }
    let value = match literal {
        ScalarValue::Float64(Some(value)) => *value,
        ScalarValue::Float32(Some(value)) if cast.is_none() => f64::from(*value),
        #[expect(clippy::cast_precision_loss, reason = "bounded")]
        other => integer(other).map(|whole| whole as f64).filter(|whole| whole.abs() < FLOAT_WHOLE_MAX)?,
    };
    // DataFusion orders −0 before 0 and a negative NaN first; keys do not.
    if value.is_sign_negative() && (value == 0.0 || value.is_nan()) {
        return None;
    }
    if kind == SqlType::Float8 || value.is_nan() || value.is_infinite() {
        return Some(Edge::on(Value::Float(value)));
    }
    #[expect(clippy::cast_possible_truncation, reason = "rounded down below")]
    let nearest = value as f32;
    let floor = if f64::from(nearest) > value { nearest.next_down() } else { nearest };
    (floor.is_finite()).then(|| Edge::floor(Value::Float(f64::from(floor)), f64::from(floor) == value))
}

fn numeric_edge(scale: u8, cast: Option<&DataType>, literal: &ScalarValue) -> Option<Edge> {
    let own = i8::try_from(scale).ok()?;
    let keeps = match cast {
        None => true,
        Some(DataType::Decimal128(_, to)) => *to >= own,
        Some(_) => false,
    };
    let (unscaled, exactly) = match literal {
        ScalarValue::Decimal128(Some(unscaled), _, from) => scaled(*unscaled, *from, own)?,
        other => scaled(integer(other)?, 0, own)?,
    };
    keeps.then(|| Edge::floor(Value::Numeric { unscaled, scale }, exactly))
}

/// The position of a numeric among the values of another type of numbers that are no floats.
fn exact_edge(kind: SqlType, exact: &Exact) -> Option<Edge> {
    let (scale, min, max) = match kind {
        SqlType::Exact(_) => return Some(Edge::on(Value::Exact(exact.clone()))),
        SqlType::Int2 => (0, i128::from(i16::MIN), i128::from(i16::MAX)),
        SqlType::Int4 => (0, i128::from(i32::MIN), i128::from(i32::MAX)),
        SqlType::Int8 => (0, i128::from(i64::MIN), i128::from(i64::MAX)),
        SqlType::Numeric { precision, scale } => {
            let bound = 10_i128.checked_pow(precision.into())? - 1;
            (scale, -bound, bound)
        }
        _ => return None,
    };
    let (unscaled, of) = match exact.parts() {
        Parts::NaN | Parts::Infinity => return Some(Edge::Over),
        Parts::MinusInfinity => return Some(Edge::Under),
        Parts::Finite { .. } => exact.to_i128()?,
    };
    let (unscaled, exactly) = scaled(unscaled, i8::try_from(of).ok()?, i8::try_from(scale).ok()?)?;
    if unscaled < min {
        return Some(Edge::Under);
    }
    if unscaled > max {
        return Some(Edge::Over);
    }
    let value = match kind {
        SqlType::Numeric { .. } => Value::Numeric { unscaled, scale },
        _ => Value::Int(i64::try_from(unscaled).ok()?),
    };
    Some(Edge::floor(value, exactly))
}

/// The microseconds of a literal timestamp, rounded down, and whether that is exact.
fn micros(literal: &ScalarValue) -> Option<(i64, bool)> {
    match literal {
        ScalarValue::TimestampSecond(value, _) => Some(((*value)?.checked_mul(1_000_000)?, true)),
        ScalarValue::TimestampMillisecond(value, _) => Some(((*value)?.checked_mul(1_000)?, true)),
        ScalarValue::TimestampMicrosecond(value, _) => Some(((*value)?, true)),
        ScalarValue::TimestampNanosecond(value, _) => {
            value.map(|nanos| (nanos.div_euclid(1_000), nanos.rem_euclid(1_000) == 0))
        }
        _ => None,
    }
}

/// Whether timestamps with this zone have the same representation as those without.
fn is_utc(zone: Option<&str>) -> bool {
    zone.is_none_or(|zone| zone == UTC || zone == "UTC")
}

fn date_edge(cast: Option<&DataType>, literal: &ScalarValue) -> Option<Edge> {
    match (cast, literal) {
        (None | Some(DataType::Date32), ScalarValue::Date32(Some(days))) => Some(Edge::on(Value::Date(*days))),
        (Some(DataType::Timestamp(_, zone)), literal) if is_utc(zone.as_deref()) => {
            let (micros, exactly) = micros(literal)?;
            let days = i32::try_from(micros.div_euclid(MICROS_PER_DAY)).ok()?;
            Some(Edge::floor(Value::Date(days), exactly && micros.rem_euclid(MICROS_PER_DAY) == 0))
        }
        _ => None,
    }
}

fn timestamp_edge(kind: SqlType, cast: Option<&DataType>, literal: &ScalarValue) -> Option<Edge> {
    let zoned = match literal {
        ScalarValue::TimestampSecond(_, zone)
        | ScalarValue::TimestampMillisecond(_, zone)
        | ScalarValue::TimestampMicrosecond(_, zone)
        | ScalarValue::TimestampNanosecond(_, zone) => zone.is_some(),
        ScalarValue::Date32(_) => false,
        _ => return None,
    };
    match cast {
        // A date equals all timestamps of its day.
        Some(DataType::Date32) => {
            let ScalarValue::Date32(Some(days)) = literal else { return None };
            let day = |days: i32| Value::Timestamp(i64::from(days) * MICROS_PER_DAY);
            Some(Edge::At { below: Bound::Excluded(day(*days)), above: Bound::Included(day(days.checked_add(1)?)) })
        }
        Some(DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, zone)) if is_utc(zone.as_deref()) => {
            micros(literal).map(|(micros, exactly)| Edge::floor(Value::Timestamp(micros), exactly))
        }
        None if zoned == matches!(kind, SqlType::Timestamptz(_)) => {
            micros(literal).map(|(micros, exactly)| Edge::floor(Value::Timestamp(micros), exactly))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(kind: SqlType, cast: Option<DataType>, literal: ScalarValue, expected: Expect) {
        let edge = match Edge::of(kind, cast.as_ref(), &literal) {
            Some(Edge::At { below, above }) => format!("below {below:?}, above {above:?}"),
            other => format!("{other:?}"),
        };
        expected.assert_eq(&edge);
    }

    #[test]
    fn whole_numbers_meet_other_numbers() {
        let decimal = DataType::Decimal128(20, 1);
        check(
            SqlType::Int4,
            None,
            ScalarValue::Int64(Some(7)),
            expect!["below Excluded(Int(7)), above Excluded(Int(7))"],
        );
        check(
            SqlType::Int4,
            Some(decimal.clone()),
            ScalarValue::Decimal128(Some(-15), 20, 1),
            expect!["below Included(Int(-2)), above Excluded(Int(-2))"],
        );
        check(
            SqlType::Int8,
            Some(DataType::Float64),
            ScalarValue::Float64(Some(1.0)),
            expect!["below Excluded(Int(1)), above Excluded(Int(1))"],
        );
        check(SqlType::Int8, Some(DataType::Float64), ScalarValue::Float64(Some(9e15)), expect!["None"]);
        check(SqlType::Int4, Some(DataType::Int64), ScalarValue::Int64(Some(1 << 40)), expect!["Some(Over)"]);
        check(SqlType::Int2, Some(DataType::Int64), ScalarValue::Int64(Some(-40_000)), expect!["Some(Under)"]);
        check(SqlType::Int8, Some(DataType::Int32), ScalarValue::Int32(Some(1)), expect!["None"]);
        check(SqlType::Int8, Some(DataType::Utf8), ScalarValue::Utf8(Some("1".into())), expect!["None"]);
    }

    #[test]
    fn floats_and_numerics_round_down() {
        check(
            SqlType::Float4,
            Some(DataType::Float64),
            ScalarValue::Float64(Some(0.1)),
            expect!["below Included(Float(0.09999999403953552)), above Excluded(Float(0.09999999403953552))"],
        );
        check(SqlType::Float8, None, ScalarValue::Float64(Some(-0.0)), expect!["None"]);
        check(
            SqlType::Numeric { precision: 10, scale: 2 },
            Some(DataType::Decimal128(12, 3)),
            ScalarValue::Decimal128(Some(1_005), 12, 3),
            expect![
                "below Included(Numeric { unscaled: 100, scale: 2 }), above Excluded(Numeric { unscaled: 100, scale: 2 })"
            ],
        );
    }

    #[test]
    fn points_in_time_meet_dates() {
        let tz = |unit| DataType::Timestamp(unit, Some(UTC.into()));
        check(
            SqlType::Timestamptz(None),
            Some(DataType::Date32),
            ScalarValue::Date32(Some(1)),
            expect!["below Excluded(Timestamp(86400000000)), above Included(Timestamp(172800000000))"],
        );
        check(
            SqlType::Timestamptz(None),
            Some(tz(TimeUnit::Nanosecond)),
            ScalarValue::TimestampNanosecond(Some(-1), Some(UTC.into())),
            expect!["below Included(Timestamp(-1)), above Excluded(Timestamp(-1))"],
        );
        check(
            SqlType::Date,
            Some(tz(TimeUnit::Microsecond)),
            ScalarValue::TimestampMicrosecond(Some(1), Some(UTC.into())),
            expect!["below Included(Date(0)), above Excluded(Date(0))"],
        );
        let berlin = DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into()));
        check(
            SqlType::Timestamp(None),
            Some(berlin),
            ScalarValue::TimestampMicrosecond(Some(1), Some("Europe/Berlin".into())),
            expect!["None"],
        );
    }
}
