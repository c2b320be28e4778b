//! `to_char`, `to_date`, `to_timestamp` and `to_number`: values by PostgreSQL's templates.
//!
//! [`time`] writes and reads dates and times, [`number`] numbers. A template is cut into its patterns by
//! [`time::tokens`] or by the elements of a number's ([`number`]); what is no pattern stands for itself.

pub mod number;
pub mod read;
pub mod time;

use super::scalar_function::{external, nullable, returns_text, strict, text_output};
use crate::{
    datetime::Style,
    error::{SqlError, SqlState},
    numeric, types,
};
use arrow::datatypes::DataType;
use datafusion::{logical_expr::ScalarUDF, scalar::ScalarValue};
use keyspan_catalog::value::calendar::MICROS_PER_DAY;
use std::sync::Arc;

/// The functions.
pub fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let all = [
        strict("to_char", 2..=2, returns_text, |call| {
            let template = text_output(&call.values[1], &call.fields[1], call.options)?.unwrap_or_default();
            if template.is_empty() {
                return Ok(ScalarValue::Utf8View(None));
            }
            let own_zone = &Style::within(call.options).zone;
            let text = match &call.values[0] {
                ScalarValue::TimestampMicrosecond(Some(i64::MAX | i64::MIN), _) => {
                    return Ok(ScalarValue::Utf8View(None));
                }
                ScalarValue::TimestampMicrosecond(Some(micros), zone) => {
                    time::written(*micros, zone.is_some().then_some(own_zone), &template)
                }
                ScalarValue::Date32(Some(i32::MAX | i32::MIN)) => return Ok(ScalarValue::Utf8View(None)),
                ScalarValue::Date32(Some(days)) => {
                    let local = i64::from(*days) * MICROS_PER_DAY;
                    time::written(own_zone.to_utc(local).unwrap_or(local), Some(own_zone), &template)
                }
                ScalarValue::IntervalMonthDayNano(Some(span)) => {
                    time::written_span(span.months, span.days, span.nanoseconds / 1_000, &template)
                }
                ScalarValue::Time64Microsecond(Some(micros)) => time::written_span(0, 0, *micros, &template),
                value if numeric::is_number(&value.data_type()) => {
                    let plain = text_output(value, &call.fields[0], call.options)?.unwrap_or_default();
                    let kind = match value {
                        ScalarValue::Float32(Some(value)) => number::Kind::single(*value),
                        ScalarValue::Float64(Some(value)) => number::Kind::double(*value),
                        _ => number::Kind::Exact,
                    };
                    number::written(&plain, kind, &template).map_err(external)?
                }
                _ => {
                    return Err(external(super::values::undefined(
                        "to_char",
                        &[call.values[0].data_type(), DataType::Utf8View],
                    )));
                }
            };
            Ok(ScalarValue::Utf8View(Some(text)))
        }),
        strict(
            "to_number",
            2..=2,
            |_| nullable(numeric::EXACT),
            |call| {
                let text = text_output(&call.values[0], &call.fields[0], call.options)?.unwrap_or_default();
                let template = text_output(&call.values[1], &call.fields[1], call.options)?.unwrap_or_default();
                if template.is_empty() {
                    return Ok(ScalarValue::LargeBinary(None));
                }
                let read = number::read(&text, &template).map_err(external)?;
                number::check_room(&read).map_err(external)?;
                let exact = crate::codec::parse::exact(&read.plain).map_err(external)?;
                let exact = number::shifted_back(exact, read.shift).map_err(external)?;
                Ok(ScalarValue::LargeBinary(Some(exact.as_bytes().to_vec())))
            },
        ),
        strict(
            "to_date",
            2..=2,
            |_| nullable(DataType::Date32),
            |call| {
                let text = text_output(&call.values[0], &call.fields[0], call.options)?.unwrap_or_default();
                let template = text_output(&call.values[1], &call.fields[1], call.options)?.unwrap_or_default();
                let micros = read::micros(&text, &template).map_err(external)?;
                Ok(ScalarValue::Date32(i32::try_from(micros.div_euclid(MICROS_PER_DAY)).ok()))
            },
        ),
        strict(
            "to_timestamp",
            1..=2,
            |_| nullable(types::timestamptz()),
            |call| {
                let micros = if let Some(template) = call.values.get(1) {
                    let template = text_output(template, &call.fields[1], call.options)?.unwrap_or_default();
                    let text = text_output(&call.values[0], &call.fields[0], call.options)?.unwrap_or_default();
                    let (local, offset) = read::moment(&text, &template).map_err(external)?;
                    match offset {
                        Some(offset) => local.saturating_sub(offset * 1_000_000),
                        None => Style::within(call.options).zone.to_utc(local).unwrap_or(local),
                    }
                } else {
                    let Some(seconds) = crate::numeric::cast::float(&call.values[0])? else {
                        return ScalarValue::try_from(call.returns.data_type());
                    };
                    /// The last second that a timestamp has.
                    const LAST: f64 = 9_224_318_016_000.0;
                    if seconds.is_nan() || (seconds.is_finite() && seconds.abs() > LAST) {
                        let error = SqlError::new(
                            SqlState::DATETIME_FIELD_OVERFLOW,
                            format!("timestamp out of range: \"{seconds}\""),
                        );
                        return Err(external(error));
                    }
                    #[expect(
                        clippy::cast_possible_truncation,
                        reason = "it is in range, and infinities become the ends"
                    )]
                    let micros = (seconds * 1e6).round() as i64;
                    micros
                };
                Ok(ScalarValue::TimestampMicrosecond(Some(micros), Some(types::UTC.into())))
            },
        ),
    ];
    super::scalar_function::functions(all)
}
