//! Types of times with digits or fields, `timestamp(3)` and `interval day to second`, in casts and before texts, and
//! intervals that DataFusion's parser does not read.

use super::build::{call, parsed_expr};
use crate::error::Result;
use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, Interval, TypedString, Value};

fn text(value: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.to_owned()).into())
}

/// `timestamp(2) '…'`, `interval day '…'`
pub(super) fn of_typed_string(typed: &TypedString) -> Option<Expr> {
    let written = text(&typed.value.value.clone().into_string().unwrap_or_default());
    match &typed.data_type {
        DataType::Interval { fields, precision } if fields.is_some() || precision.is_some() => {
            Some(with_fields("interval_of_fields", written, fields.as_ref(), *precision))
        }
        data_type @ (DataType::Timestamp(Some(_), _) | DataType::Time(Some(_), _)) => {
            let (kind, expr) = (CastKind::DoubleColon, Box::new(written));
            let cast = Expr::Cast { kind, expr, data_type: data_type.clone(), array: false, format: None };
            rounded_cast(&cast, data_type)
        }
        _ => None,
    }
}

/// A cast to `timestamp(n)` or `time(n)`: whatever it casts, it rounds to the digits that the type names.
pub(super) fn rounded_cast(expr: &Expr, data_type: &DataType) -> Option<Expr> {
    match data_type {
        DataType::Timestamp(Some(digits), zone) => Some(rounded(expr, DataType::Timestamp(None, *zone), *digits)),
        DataType::Time(Some(digits), zone) => Some(rounded(expr, DataType::Time(None, *zone), *digits)),
        DataType::Interval { fields: None, precision: None } => None,
        DataType::Interval { fields, precision } => {
            let Expr::Cast { expr: of, .. } = expr else { return None };
            if let Expr::Value(value) = of.as_ref()
                && let Value::SingleQuotedString(written) = &value.value
            {
                return Some(with_fields("interval_of_fields", text(written), fields.as_ref(), *precision));
            }
            let mut bare = expr.clone();
            if let Expr::Cast { data_type, .. } = &mut bare {
                *data_type = DataType::Interval { fields: None, precision: None };
            }
            Some(with_fields("interval_limited", bare, fields.as_ref(), *precision))
        }
        _ => None,
    }
}

/// An interval of a type with fields or digits: `INTERVAL DAY TO SECOND(2)`.
fn with_fields(function: &str, of: Expr, fields: Option<&impl ToString>, precision: Option<u64>) -> Expr {
    let words = fields.map_or_else(|| "SECOND".to_owned(), ToString::to_string);
    let (first, last) = words.split_once(" TO ").unwrap_or((&words, &words));
    // Without fields, all are there.
    let first = if fields.is_none() { "YEAR" } else { first };
    let digits = Expr::Value(Value::Number(precision.unwrap_or(6).to_string(), false).into());
    call(function, [of, text(first), text(last), digits])
}

fn rounded(expr: &Expr, bare: DataType, digits: u64) -> Expr {
    let mut cast = expr.clone();
    if let Expr::Cast { data_type, .. } = &mut cast {
        *data_type = bare;
    }
    if digits >= 6 {
        return cast;
    }
    let digits = Expr::Value(Value::Number(digits.to_string(), false).into());
    call("time_rounded", [cast, digits])
}

/// An interval that DataFusion's parser rejects, as a cast, which reads whatever PostgreSQL reads.
pub(super) fn of_interval(interval: &Interval) -> Result<Option<Expr>> {
    let Expr::Value(value) = interval.value.as_ref() else { return Ok(None) };
    let Value::SingleQuotedString(written) = &value.value else { return Ok(None) };
    if let Some(first) = &interval.leading_field {
        let last = interval.last_field.as_ref().unwrap_or(first);
        let digits = interval.fractional_seconds_precision.or(interval.leading_precision).unwrap_or(6);
        let digits = Expr::Value(Value::Number(digits.to_string(), false).into());
        let words = [first, last].map(|field| text(&field.to_string()));
        let [first, last] = words;
        return Ok(Some(call("interval_of_fields", [text(written), first, last, digits])));
    }
    // A sign or a fraction is not read alike in all styles and by both parsers.
    let known = written.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b' ')
        && arrow::compute::kernels::cast_utils::parse_interval_month_day_nano(written).is_ok()
        && written.bytes().any(|byte| byte.is_ascii_alphabetic());
    if known {
        return Ok(None);
    }
    parsed_expr(&format!("CAST({} AS INTERVAL)", text(written))).map(Some)
}
