//! Fitting a value to its column's type, as PostgreSQL's assignment does: rounding, checking, or refusing it.

use super::{
    NAME_BYTES_MAX, SqlType, Value, array, bits,
    calendar::{is_date, is_timestamp},
    clock::is_time,
    exact::{Digits, Exact},
    interval, jsonb, seconds, text,
};
use crate::{Error, ErrorKind, Result};
use std::borrow::Cow;

/// Maximum precision of a `numeric`.
pub(super) const NUMERIC_DIGITS_MAX: u32 = 38;

impl Value {
    /// [`fit`](Self::fit) of a value that is not needed otherwise: what fits as it is is not copied.
    ///
    /// # Errors
    /// Those of [`fit`](Self::fit).
    pub fn into_fit(self, kind: SqlType) -> Result<Value> {
        let other = match self.fit(kind)? {
            Cow::Borrowed(_) => None,
            Cow::Owned(fitted) => Some(fitted),
        };
        Ok(other.unwrap_or(self))
    }

    /// The value as the type stores it: numbers within range, a `numeric` rounded to its scale, texts within their
    /// length, jsonb normalized. NULL fits every type.
    ///
    /// # Errors
    /// [`OutOfRange`](ErrorKind::OutOfRange) for a number (22003), [`TooLong`](ErrorKind::TooLong) for a text (22001),
    /// [`BadValue`](ErrorKind::BadValue) for a value of another type or invalid json (22P02).
    pub fn fit(&self, kind: SqlType) -> Result<Cow<'_, Value>> {
        let same = Ok(Cow::Borrowed(self));
        match (kind, self) {
            (_, Self::Null)
            | (SqlType::Bool, Self::Bool(_))
            | (SqlType::Int8, Self::Int(_))
            | (SqlType::Float8, Self::Float(_))
            | (SqlType::Text | SqlType::Varchar(None), Self::Text(_))
            | (SqlType::Bytea, Self::Bytes(_))
            | (SqlType::Uuid, Self::Uuid(_)) => same,
            (SqlType::Date, Self::Date(days)) if is_date(*days) => same,
            (SqlType::Timestamp(digits) | SqlType::Timestamptz(digits), Self::Timestamp(micros))
                if is_timestamp(*micros) =>
            {
                match seconds::rounded_timestamp(*micros, digits) {
                    whole if whole == *micros => same,
                    rounded if is_timestamp(rounded) => Ok(Cow::Owned(Self::Timestamp(rounded))),
                    _ => Err(Error::new(ErrorKind::OutOfRange, "timestamp out of range")),
                }
            }
            (SqlType::Time(digits), Self::Time(micros)) if is_time(*micros) => {
                match seconds::rounded(*micros, digits) {
                    whole if whole == *micros => same,
                    rounded => Ok(Cow::Owned(Self::Time(rounded))),
                }
            }
            (SqlType::Time(_), Self::Time(_)) => Err(Error::new(ErrorKind::OutOfRange, "time out of range")),
            (SqlType::Interval(digits), Self::Interval(span))
                if (-interval::MICROS_MAX..=interval::MICROS_MAX).contains(&span.micros) =>
            {
                match seconds::rounded(span.micros, digits) {
                    whole if whole == span.micros => same,
                    micros => Ok(Cow::Owned(Self::Interval(interval::Interval { micros, ..*span }))),
                }
            }
            (SqlType::Interval(_), Self::Interval(_)) => {
                Err(Error::new(ErrorKind::OutOfRange, "interval out of range"))
            }
            (SqlType::Array(item), Self::Array(items)) => {
                Ok(array::fit(items, item)?.map_or(Cow::Borrowed(self), |items| Cow::Owned(Self::Array(items))))
            }
            (SqlType::Date, Self::Date(_)) => Err(Error::new(ErrorKind::OutOfRange, "date out of range")),
            (SqlType::Timestamp(_) | SqlType::Timestamptz(_), Self::Timestamp(_)) => {
                Err(Error::new(ErrorKind::OutOfRange, "timestamp out of range"))
            }
            (SqlType::Int2, Self::Int(n)) if i16::try_from(*n).is_ok() => same,
            (SqlType::Int4, Self::Int(n)) if i32::try_from(*n).is_ok() => same,
            (SqlType::Int2 | SqlType::Int4, Self::Int(_)) => {
                Err(Error::new(ErrorKind::OutOfRange, format!("{kind} out of range")))
            }
            (SqlType::Float4, Self::Float(value)) => fit_float4(*value).map(|value| Cow::Owned(Self::Float(value))),
            (SqlType::Float4 | SqlType::Float8, Self::Int(n)) => Ok(Cow::Owned(Self::Float(*n as f64))),
            (SqlType::Numeric { precision, scale }, Self::Int(n)) => {
                fit_numeric(i128::from(*n), 0, precision, scale).map(Cow::Owned)
            }
            (SqlType::Numeric { precision, scale }, Self::Numeric { unscaled, scale: from }) => {
                fit_numeric(*unscaled, *from, precision, scale).map(Cow::Owned)
            }
            (SqlType::Name, Self::Text(text)) => Ok(match cut_name(text) {
                whole if whole.len() == text.len() => Cow::Borrowed(self),
                cut => Cow::Owned(Self::Text(cut.to_owned())),
            }),
            (SqlType::Numeric { precision, scale }, Self::Exact(exact)) => {
                let digits = Digits { precision: precision.into(), scale: scale.into() };
                // `fit` leaves NaN, which no numeric of 38 digits is.
                let fitted = exact.fit(digits)?.to_i128();
                let (unscaled, scale) = fitted.ok_or_else(|| {
                    Error::new(ErrorKind::OutOfRange, format!("{kind} cannot hold NaN in this server"))
                })?;
                Ok(Cow::Owned(Self::Numeric { unscaled, scale }))
            }
            (SqlType::Exact(None), Self::Exact(_)) => same,
            (SqlType::Exact(digits), Self::Exact(_) | Self::Int(_) | Self::Numeric { .. }) => {
                let exact = match self {
                    Self::Exact(exact) => exact.clone(),
                    Self::Numeric { unscaled, scale } => Exact::of_i128(*unscaled, *scale),
                    Self::Int(n) => Exact::of_i128(i128::from(*n), 0),
                    _ => unreachable!("one of these"),
                };
                Ok(Cow::Owned(Self::Exact(match digits {
                    Some(digits) => exact.fit(digits)?,
                    None => exact,
                })))
            }
            (SqlType::Varchar(Some(length)), Self::Text(text)) => {
                Ok(cut_varchar(text, length as usize)?.map_or(Cow::Borrowed(self), |cut| Cow::Owned(Self::Text(cut))))
            }
            (SqlType::Char(length), Self::Text(text)) => Ok(fit_char(text, length as usize)?
                .map_or(Cow::Borrowed(self), |cut| Cow::Owned(Self::Text(cut.to_owned())))),
            (SqlType::Bit(_) | SqlType::Varbit(_), Self::Text(text)) => {
                bits::check(text, kind).map(|()| Cow::Borrowed(self))
            }
            (SqlType::Json, Self::Text(text)) => text::check_json(text).map(|()| Cow::Borrowed(self)),
            (SqlType::Jsonb, Self::Text(text)) => jsonb::normal(text).map(|text| Cow::Owned(Self::Text(text))),
            _ => Err(Error::new(ErrorKind::BadValue, format!("{self:?} is not a value of type {kind}"))),
        }
    }
}

fn fit_float4(value: f64) -> Result<f64> {
    let fitted = f64::from(value as f32);
    if fitted.is_infinite() && value.is_finite() || fitted == 0.0 && value != 0.0 {
        return Err(Error::new(ErrorKind::OutOfRange, format!("\"{value}\" is out of range for type real")));
    }
    Ok(fitted)
}

/// The characters of a text that a `name` keeps.
pub fn cut_name(text: &str) -> &str {
    &text[..text.floor_char_boundary(NAME_BYTES_MAX)]
}

/// The text without its trailing blanks, or `None` if it has none; refused if it is too long without them.
fn fit_char(text: &str, length: usize) -> Result<Option<&str>> {
    let cut = text.trim_end_matches(' ');
    if cut.chars().nth(length).is_some() {
        let message = format!("value too long for type character({length})");
        return Err(Error::new(ErrorKind::TooLong, message));
    }
    Ok((cut.len() < text.len()).then_some(cut))
}

/// The text cut to the length if only blanks exceed it, as in PostgreSQL, or `None` if it fits; refused if other
/// characters exceed it.
fn cut_varchar(text: &str, length: usize) -> Result<Option<String>> {
    let Some((end, _)) = text.char_indices().nth(length) else { return Ok(None) };
    if text[end..].bytes().all(|byte| byte == b' ') {
        return Ok(Some(text[..end].to_owned()));
    }
    let message = format!("value too long for type character varying({length})");
    Err(Error::new(ErrorKind::TooLong, message))
}

/// Rounds to the scale, half away from zero, and checks the precision.
pub(super) fn fit_numeric(unscaled: i128, from: u8, precision: u8, scale: u8) -> Result<Value> {
    let overflow = || {
        let whole = precision.saturating_sub(scale);
        Error::new(ErrorKind::OutOfRange, "numeric field overflow").with_detail(format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value less than 10^{whole}."
        ))
    };
    let unscaled = if from <= scale {
        let factor = 10i128.checked_pow(u32::from(scale - from));
        if unscaled == 0 { Some(0) } else { factor.and_then(|factor| unscaled.checked_mul(factor)) }
            .ok_or_else(overflow)?
    } else {
        match 10i128.checked_pow(u32::from(from - scale)) {
            Some(divisor) => {
                let (whole, rest) = (unscaled / divisor, unscaled % divisor);
                let up = rest.unsigned_abs() >= divisor.unsigned_abs().div_ceil(2);
                whole + if up { unscaled.signum() } else { 0 }
            }
            None => 0,
        }
    };
    let limit = 10i128.checked_pow(u32::from(precision).min(NUMERIC_DIGITS_MAX)).ok_or_else(overflow)?;
    if unscaled.unsigned_abs() >= limit.unsigned_abs() {
        return Err(overflow());
    }
    Ok(Value::Numeric { unscaled, scale })
}
