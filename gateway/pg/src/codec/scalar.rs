//! Single values, written as a [`Column`](super::column::Column) writes those of an array of the same type.
//!
//! A row that is read by its key has nothing to gain from arrays: making ten of them takes longer than reading the row.
//! The functions that write are the same; which of them a type takes is said here once more, and a test compares both
//! for every type.

use crate::{
    codec::{
        column::{Bytes, out_of_range},
        float,
        format::Format,
        numeric, time,
    },
    datetime::{Style, encode},
    error::{Result, SqlError, SqlState},
    types::pg_type_of,
};
use bytes::{BufMut, BytesMut};
use keyspan_catalog::{SqlType, ValueRef};
use pgwire::api::Type;

/// How the values of a column are written.
#[derive(Clone, Copy, Debug)]
pub struct Scalar {
    kind: SqlType,
    is_binary: bool,
}

impl Scalar {
    /// How values of a type are written in a format; `None` for a type whose values are written out of arrays only.
    pub fn of(kind: SqlType, format: Format) -> Option<Self> {
        let is_binary = format == Format::Binary;
        match kind {
            SqlType::Bool
            | SqlType::Int2
            | SqlType::Int4
            | SqlType::Int8
            | SqlType::Float4
            | SqlType::Float8
            | SqlType::Numeric { .. }
            | SqlType::Exact(_)
            | SqlType::Text
            | SqlType::Name
            | SqlType::Varchar(_)
            | SqlType::Json
            | SqlType::Jsonb
            | SqlType::Bytea
            | SqlType::Date
            | SqlType::Time(_)
            | SqlType::Timestamp(_)
            | SqlType::Timestamptz(_)
            | SqlType::Uuid => Some(Self { kind, is_binary }),
            SqlType::Char(_) | SqlType::Bit(_) | SqlType::Varbit(_) | SqlType::Interval(_) | SqlType::Array(_) => None,
        }
    }

    /// Writes a value.
    ///
    /// # Errors
    /// 22003 or 22008 for a value that PostgreSQL's type cannot hold; 22003 for one that is not of the type.
    pub fn write(self, value: &ValueRef<'_>, style: &Style, out: &mut BytesMut) -> Result<()> {
        match (value, self.is_binary) {
            (ValueRef::Bool(value), true) => out.put_u8(u8::from(*value)),
            (ValueRef::Bool(value), false) => out.put_u8(if *value { b't' } else { b'f' }),
            (ValueRef::Int(value), _) => return self.integer(*value, out),
            (ValueRef::Float(value), _) => self.float(*value, style, out),
            (ValueRef::Numeric { unscaled, scale }, _) => return self.numeric(*unscaled, *scale, out),
            (ValueRef::Exact(exact), true) => numeric::write_exact_binary(exact.as_bytes(), out),
            (ValueRef::Exact(exact), false) => numeric::write_exact_text(exact.as_bytes(), out),
            (ValueRef::Text(text), is_binary) => {
                Bytes::of_text(&pg_type_of(self.kind), is_binary).write(text.as_bytes(), out);
            }
            (ValueRef::Bytes(bytes), is_binary) => Bytes::of_bytes(&Type::BYTEA, is_binary, style).write(bytes, out),
            (ValueRef::Uuid(bytes), is_binary) => Bytes::of_bytes(&Type::UUID, is_binary, style).write(bytes, out),
            (ValueRef::Date(days), false) => encode::date(*days, style, out),
            (ValueRef::Date(days @ (i32::MIN | i32::MAX)), true) => out.put_i32(*days),
            (ValueRef::Date(days), true) => {
                out.put_i32(days.checked_sub(time::EPOCH_DAYS).ok_or_else(|| out_of_range("date"))?);
            }
            (ValueRef::Time(micros), false) => time::write_time(*micros, out),
            (ValueRef::Time(micros), true) => out.put_i64(*micros),
            (ValueRef::Timestamp(micros), false) => {
                encode::timestamp(*micros, matches!(self.kind, SqlType::Timestamptz(_)), style, out);
            }
            (ValueRef::Timestamp(micros @ (i64::MIN | i64::MAX)), true) => out.put_i64(*micros),
            (ValueRef::Timestamp(micros), true) => {
                out.put_i64(micros.checked_sub(time::EPOCH_MICROS).ok_or_else(|| out_of_range("timestamp"))?);
            }
            _ => return Err(unfit()),
        }
        Ok(())
    }

    fn integer(self, value: i64, out: &mut BytesMut) -> Result<()> {
        // Whatever the format, a value beyond the type is refused.
        match (self.kind, self.is_binary) {
            (SqlType::Int2, true) => out.put_i16(i16::try_from(value).map_err(|_| unfit())?),
            (SqlType::Int4, true) => out.put_i32(i32::try_from(value).map_err(|_| unfit())?),
            (SqlType::Int8, true) => out.put_i64(value),
            (SqlType::Int2, false) if i16::try_from(value).is_err() => return Err(unfit()),
            (SqlType::Int4, false) if i32::try_from(value).is_err() => return Err(unfit()),
            (SqlType::Int2 | SqlType::Int4 | SqlType::Int8, false) => {
                out.put_slice(itoa::Buffer::new().format(value).as_bytes());
            }
            _ => return Err(unfit()),
        }
        Ok(())
    }

    fn float(self, value: f64, style: &Style, out: &mut BytesMut) {
        let is_real = self.kind == SqlType::Float4;
        #[expect(clippy::cast_possible_truncation, reason = "a real is what was stored")]
        let real = value as f32;
        let extra = style.extra_float_digits;
        match (is_real, self.is_binary) {
            (true, true) => out.put_f32(real),
            (false, true) => out.put_f64(value),
            (true, false) if extra <= 0 => {
                float::write_rounded(f64::from(real), float::digits(float::F32_DIGITS, extra), out);
            }
            (false, false) if extra <= 0 => float::write_rounded(value, float::digits(float::F64_DIGITS, extra), out),
            (true, false) => float::write_f32(real, out),
            (false, false) => float::write_f64(value, out),
        }
    }

    /// A number with as many digits after its point as the type has.
    fn numeric(self, unscaled: i128, from: u8, out: &mut BytesMut) -> Result<()> {
        let SqlType::Numeric { scale, .. } = self.kind else { return Err(unfit()) };
        let factor = 10_i128.checked_pow(u32::from(scale.checked_sub(from).ok_or_else(unfit)?));
        let unscaled = factor.and_then(|factor| unscaled.checked_mul(factor)).ok_or_else(unfit)?;
        let write = if self.is_binary { numeric::write_binary } else { numeric::write_text };
        write(unscaled, i8::try_from(scale).unwrap_or(i8::MAX), out);
        Ok(())
    }
}

fn unfit() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "the value does not fit the column's type")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{codec::column::Column, datetime::style::DateStyle, types};
    use keyspan_catalog::{Value, value::exact::Digits};
    use proptest::prelude::*;

    fn styles() -> [Style; 3] {
        let plain = Style::default();
        let other = Style { dates: DateStyle::German, bytea_escape: true, extra_float_digits: 0, ..plain.clone() };
        let few = Style { dates: DateStyle::Postgres, extra_float_digits: -3, ..plain.clone() };
        [plain, other, few]
    }

    /// Both ways give the same bytes, or none.
    fn compare(value: &Value, kind: SqlType) {
        let array = types::scalar_of_value(value, kind).to_array().unwrap();
        for style in styles() {
            for format in [Format::Text, Format::Binary] {
                let scalar = Scalar::of(kind, format).unwrap();
                let (mut alone, mut of_array) = (BytesMut::new(), BytesMut::new());
                let written = scalar.write(&value.borrowed().unwrap(), &style, &mut alone);
                let column = Column::new(&array, &pg_type_of(kind), format, &style).unwrap();
                let expected = column.write(0, &mut of_array);
                let state = |error: SqlError| error.state;
                assert_eq!(written.map_err(state), expected.map_err(state), "{value:?} as {kind}, {format:?}");
                assert_eq!(alone, of_array, "{value:?} as {kind}, {format:?}, {style:?}");
            }
        }
    }

    #[test]
    fn a_value_alone_is_written_as_in_an_array() {
        let numeric = SqlType::Numeric { precision: 12, scale: 3 };
        let values: [(SqlType, &[&str]); 19] = [
            (SqlType::Bool, &["true", "false"]),
            (SqlType::Int2, &["0", "-32768", "32767"]),
            (SqlType::Int4, &["0", "-2147483648", "2147483647"]),
            (SqlType::Int8, &["0", "-9223372036854775808", "9223372036854775807"]),
            (SqlType::Float4, &["0", "-0", "1.1", "3.4e38", "1e-40", "NaN", "Infinity", "-Infinity"]),
            (SqlType::Float8, &["0", "-0", "0.1", "1e300", "1e-300", "123456789.123456789", "NaN", "-Infinity"]),
            (numeric, &["0", "1.5", "-0.001", "999999999.999"]),
            (SqlType::Exact(None), &["0", "1.50", "-123456789012345678901234567890.5", "NaN", "Infinity"]),
            (SqlType::Exact(Some(Digits { precision: 40, scale: 2 })), &["1.50", "-7.00"]),
            (SqlType::Text, &["", "a", "longer than what a view holds itself", "üñ"]),
            (SqlType::Name, &["n"]),
            (SqlType::Varchar(Some(9)), &["abc", ""]),
            (SqlType::Json, &["{\"a\": 1}"]),
            (SqlType::Jsonb, &["{\"a\": 1}", "null"]),
            (SqlType::Bytea, &["\\x", "\\x00ff5c41"]),
            (SqlType::Date, &["2026-11-30", "0044-03-15 BC", "infinity", "-infinity"]),
            (SqlType::Time(None), &["00:00:00", "23:59:59.999999", "24:00:00"]),
            (SqlType::Timestamp(None), &["2026-11-30 12:34:56.789", "4713-01-01 00:00:00 BC", "infinity"]),
            (SqlType::Uuid, &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
        ];
        for (kind, texts) in values {
            texts.iter().for_each(|text| compare(&Value::parse(text, kind).unwrap(), kind));
        }
        for text in ["2026-11-30 12:34:56.789+02", "-infinity"] {
            compare(&Value::parse(text, SqlType::Timestamptz(None)).unwrap(), SqlType::Timestamptz(None));
        }
    }

    #[test]
    fn what_is_not_of_the_type_is_refused() {
        let write = |kind, value: ValueRef<'_>| {
            let mut out = BytesMut::new();
            Scalar::of(kind, Format::Text)
                .unwrap()
                .write(&value, Style::initial(), &mut out)
                .map_err(|error| error.state)
        };
        let unfit = Err(SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        assert_eq!(write(SqlType::Int2, ValueRef::Int(40_000)), unfit);
        assert_eq!(write(SqlType::Int4, ValueRef::Int(1 << 40)), unfit);
        let numeric = SqlType::Numeric { precision: 38, scale: 2 };
        assert_eq!(write(numeric, ValueRef::Numeric { unscaled: i128::MAX, scale: 0 }), unfit);
        assert_eq!(write(numeric, ValueRef::Numeric { unscaled: 1, scale: 3 }), unfit);
        assert!(Scalar::of(SqlType::Char(3), Format::Text).is_none(), "its blanks are added elsewhere");
    }

    proptest! {
        #[test]
        fn numbers_and_times_are_written_alike(whole in any::<i64>(), float in any::<f64>(), days in any::<i32>()) {
            compare(&Value::Int(whole), SqlType::Int8);
            compare(&Value::Int(days.into()), SqlType::Int4);
            compare(&Value::Float(float), SqlType::Float8);
            compare(&Value::Date(days), SqlType::Date);
            compare(&Value::Timestamp(whole), SqlType::Timestamp(None));
            compare(&Value::Timestamp(whole), SqlType::Timestamptz(None));
            compare(&Value::Numeric { unscaled: whole.into(), scale: 4 }, SqlType::Numeric { precision: 38, scale: 4 });
        }
    }
}
