//! Functions of `bytea`: encodings, single bytes and bits, parts, and what the binary protocol sends of numbers.
//!
//! `substr`, `overlay` and the trims exist for texts too: a function of DataFusion computes those ([`OfBytes`]).

use super::scalar_function::{
    self, Call, RowFunction, external, nullable, returns_integer, returns_text, row_by_row, strict, text_output,
};
use crate::{
    codec::parse,
    common_type::arguments::taken_by,
    error::{SqlError, SqlState},
    numeric,
    types::is_bytea,
};
use arrow::datatypes::{DataType, FieldRef};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use datafusion::{
    error::{DataFusionError, Result},
    functions::{core, string, unicode},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
    scalar::ScalarValue,
};
use std::sync::{Arc, LazyLock};

fn text(value: impl Into<String>) -> Result<ScalarValue> {
    Ok(ScalarValue::Utf8View(Some(value.into())))
}

fn given(bytes: Vec<u8>) -> Result<ScalarValue> {
    Ok(ScalarValue::Binary(Some(bytes)))
}

fn argument(call: &Call, at: usize) -> Result<String> {
    Ok(text_output(&call.values[at], &call.fields[at], call.options)?.unwrap_or_default())
}

fn invalid(message: impl Into<String>) -> DataFusionError {
    external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

/// The bytes of a value, or those that a quoted text writes.
///
/// # Errors
/// 22P02
fn bytes_of(value: &ScalarValue) -> Result<Vec<u8>> {
    match value {
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => Ok(bytes.clone()),
        other => parse::bytea(&super::values::text_of(other).unwrap_or_default()).map_err(external),
    }
}

fn a_bytea(_: &[FieldRef]) -> Result<FieldRef> {
    nullable(DataType::Binary)
}

fn encoding(name: &str) -> DataFusionError {
    invalid(format!("unrecognized encoding: \"{name}\""))
}

fn encodings() -> [RowFunction; 4] {
    [
        strict("encode", 2..=2, returns_text, |call| {
            let (bytes, name) = (bytes_of(&call.values[0])?, argument(call, 1)?.to_lowercase());
            match name.as_str() {
                "hex" => text(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
                "base64" => {
                    let plain = BASE64.encode(&bytes);
                    // Lines of 76 characters.
                    let lines: Vec<_> = plain.as_bytes().chunks(76).map(String::from_utf8_lossy).collect();
                    text(lines.join("\n"))
                }
                "escape" => text(bytes.iter().fold(String::new(), |mut out, byte| {
                    match byte {
                        b'\\' => out.push_str("\\\\"),
                        1..=127 => out.push(char::from(*byte)),
                        other => out.push_str(&format!("\\{other:03o}")),
                    }
                    out
                })),
                other => Err(encoding(other)),
            }
        }),
        strict("decode", 2..=2, a_bytea, |call| {
            let (written, name) = (argument(call, 0)?, argument(call, 1)?.to_lowercase());
            given(match name.as_str() {
                "hex" => parse::bytea(&format!("\\x{written}")).map_err(external)?,
                "escape" => parse::bytea(&written).map_err(external)?,
                "base64" => {
                    let bare: String = written.chars().filter(|c| !c.is_whitespace()).collect();
                    BASE64.decode(bare).map_err(|_| invalid("invalid base64 end sequence"))?
                }
                other => return Err(encoding(other)),
            })
        }),
        strict("convert_to", 2..=2, a_bytea, |call| {
            utf8(&argument(call, 1)?)?;
            given(argument(call, 0)?.into_bytes())
        }),
        strict("convert_from", 2..=2, returns_text, |call| {
            utf8(&argument(call, 1)?)?;
            match String::from_utf8(bytes_of(&call.values[0])?) {
                Ok(read) => text(read),
                Err(_) => Err(external(SqlError::new(
                    SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                    "invalid byte sequence for encoding \"UTF8\"",
                ))),
            }
        }),
    ]
}

fn utf8(name: &str) -> Result<()> {
    match name.to_uppercase().replace('-', "").as_str() {
        "UTF8" | "UNICODE" => Ok(()),
        _ => Err(external(SqlError::unsupported(format!("the encoding {name}")))),
    }
}

/// A place among `length` bytes, or bits.
fn index(value: &ScalarValue, length: usize) -> Result<usize> {
    let at = super::values::int_of(value).unwrap_or(-1);
    usize::try_from(at).ok().filter(|at| *at < length).ok_or_else(|| {
        let last = i64::try_from(length).unwrap_or(i64::MAX) - 1;
        external(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, format!("index {at} out of valid range, 0..{last}")))
    })
}

fn parts() -> [RowFunction; 5] {
    [
        strict("get_byte", 2..=2, returns_integer, |call| {
            let bytes = bytes_of(&call.values[0])?;
            let at = index(&call.values[1], bytes.len())?;
            Ok(ScalarValue::Int32(Some(i32::from(bytes[at]))))
        }),
        strict("set_byte", 3..=3, a_bytea, |call| {
            let mut bytes = bytes_of(&call.values[0])?;
            let at = index(&call.values[1], bytes.len())?;
            bytes[at] = (super::values::int_of(&call.values[2]).unwrap_or(0) & 0xFF).to_le_bytes()[0];
            given(bytes)
        }),
        // The first bit is a byte's least.
        strict("get_bit", 2..=2, returns_integer, |call| {
            let bytes = bytes_of(&call.values[0])?;
            let at = index(&call.values[1], bytes.len().saturating_mul(8))?;
            Ok(ScalarValue::Int32(Some(i32::from(bytes[at / 8] >> (at % 8) & 1))))
        }),
        strict("set_bit", 3..=3, a_bytea, |call| {
            let mut bytes = bytes_of(&call.values[0])?;
            let at = index(&call.values[1], bytes.len().saturating_mul(8))?;
            let bit = 1_u8 << (at % 8);
            match super::values::int_of(&call.values[2]) {
                Some(0) => bytes[at / 8] &= !bit,
                Some(1) => bytes[at / 8] |= bit,
                _ => return Err(invalid("new bit must be 0 or 1")),
            }
            given(bytes)
        }),
        strict(
            "bit_count",
            1..=1,
            |_| nullable(DataType::Int64),
            |call| {
                let ones = bytes_of(&call.values[0])?.iter().map(|byte| i64::from(byte.count_ones())).sum();
                Ok(ScalarValue::Int64(Some(ones)))
            },
        ),
    ]
}

/// What the binary protocol sends of a number.
fn sent() -> [RowFunction; 5] {
    [
        strict("int2send", 1..=1, a_bytea, |call| given(whole::<i16>("int2send", call)?.to_be_bytes().to_vec())),
        strict("int4send", 1..=1, a_bytea, |call| given(whole::<i32>("int4send", call)?.to_be_bytes().to_vec())),
        strict("int8send", 1..=1, a_bytea, |call| given(whole::<i64>("int8send", call)?.to_be_bytes().to_vec())),
        #[expect(clippy::cast_possible_truncation, reason = "a real")]
        strict("float4send", 1..=1, a_bytea, |call| given((float(call)? as f32).to_be_bytes().to_vec())),
        strict("float8send", 1..=1, a_bytea, |call| given(float(call)?.to_be_bytes().to_vec())),
    ]
}

fn whole<T: TryFrom<i64>>(name: &str, call: &Call) -> Result<T> {
    let whole = super::values::int_of(&call.values[0]).and_then(|whole| T::try_from(whole).ok());
    whole.ok_or_else(|| external(super::values::undefined(name, &[call.fields[0].data_type().clone()])))
}

fn float(call: &Call) -> Result<f64> {
    Ok(numeric::cast::float(&call.values[0])?.unwrap_or(f64::NAN))
}

/// A function of texts that `bytea` has too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Substr,
    Overlay,
    /// Whether it trims the start, and the end.
    Trim(bool, bool),
}

/// A function of DataFusion, and what it is of `bytea`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfBytes {
    kind: Kind,
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl OfBytes {
    fn function(kind: Kind, inner: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::from(Self { kind, inner, signature }))
    }

    /// Whether an argument is `bytea` of this function of it; the others are whole numbers.
    fn is_bytes(&self, at: usize) -> bool {
        at == 0 || at == 1 && self.kind != Kind::Substr
    }

    fn row(&self, values: &[ScalarValue]) -> Result<Vec<u8>> {
        let bytes = bytes_of(&values[0])?;
        let int = |at: usize| values.get(at).and_then(super::values::int_of);
        match self.kind {
            Kind::Substr => Ok(part(&bytes, int(1).unwrap_or(1), int(2))?.to_vec()),
            Kind::Overlay => {
                let (new, from) = (bytes_of(&values[1])?, int(2).unwrap_or(1));
                let count = int(3).unwrap_or_else(|| i64::try_from(new.len()).unwrap_or(i64::MAX));
                overlaid(&bytes, &new, from, count)
            }
            Kind::Trim(start, end) => {
                let set = bytes_of(&values[1])?;
                let keeps = |byte: &u8| !set.contains(byte);
                let first = if start { bytes.iter().position(keeps).unwrap_or(bytes.len()) } else { 0 };
                let last = if end { bytes.iter().rposition(keeps).map_or(0, |at| at + 1) } else { bytes.len() };
                Ok(bytes[first..last.max(first)].to_vec())
            }
        }
    }
}

/// Bytes with others in the place of so many from a place on.
///
/// # Errors
/// As [`part`], for a place before the first.
pub(super) fn overlaid(bytes: &[u8], new: &[u8], from: i64, count: i64) -> Result<Vec<u8>> {
    let (before, behind) = (from.saturating_sub(1), from.saturating_add(count));
    Ok([part(bytes, 1, Some(before))?, new, part(bytes, behind, None)?].concat())
}

/// Bytes from a place on, counted from 1: so many, or all.
///
/// # Errors
/// 22011 for a negative length.
pub(super) fn part(bytes: &[u8], from: i64, length: Option<i64>) -> Result<&[u8]> {
    let length = length.unwrap_or(i64::MAX);
    if length < 0 {
        let message = "negative substring length not allowed";
        return Err(external(SqlError::new(SqlState::SUBSTRING_ERROR, message)));
    }
    let place = |at: i64| usize::try_from(at.saturating_sub(1)).unwrap_or(0).min(bytes.len());
    let (start, end) = (place(from), place(from.saturating_add(length)));
    Ok(&bytes[start..end.max(start)])
}

impl ScalarUDFImpl for OfBytes {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let counts = if self.kind == Kind::Overlay { 3..=4 } else { 2..=3 };
        if !types.first().is_some_and(is_bytea) || !counts.contains(&types.len()) {
            return taken_by(self.inner.as_ref(), types);
        }
        let typed = types.iter().enumerate().map(|(at, data)| match (self.is_bytes(at), data) {
            // A quoted text is read when the function is called.
            (true, data) if is_bytea(data) || matches!(data, DataType::Utf8 | DataType::Null) => Ok(data.clone()),
            (false, data) if data.is_integer() || data.is_null() => Ok(DataType::Int64),
            _ => Err(external(super::values::undefined(self.name(), types))),
        });
        typed.collect()
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if types.first().is_some_and(is_bytea) { Ok(DataType::Binary) } else { self.inner.return_type(types) }
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        if arguments.arg_fields.first().is_some_and(|field| is_bytea(field.data_type())) {
            return nullable(DataType::Binary);
        }
        self.inner.return_field_from_args(arguments)
    }
    fn simplify(&self, arguments: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Original(arguments))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !arguments.args.first().is_some_and(|first| is_bytea(&first.data_type())) {
            return self.inner.invoke_with_args(arguments);
        }
        row_by_row(self.name(), &arguments, false, |values| {
            let is_null = values.iter().any(ScalarValue::is_null);
            Ok(ScalarValue::Binary(if is_null { None } else { Some(self.row(values)?) }))
        })
    }
}

/// `substr`, which `SUBSTRING (a FROM 2)` is too.
pub(crate) fn substr() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| OfBytes::function(Kind::Substr, unicode::substr()));
    Arc::clone(&FUNCTION)
}

/// `overlay`
pub(crate) fn overlay() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| OfBytes::function(Kind::Overlay, core::overlay()));
    Arc::clone(&FUNCTION)
}

/// The functions.
pub(crate) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let trims = [
        OfBytes::function(Kind::Trim(true, true), string::btrim()),
        OfBytes::function(Kind::Trim(true, false), string::ltrim()),
        OfBytes::function(Kind::Trim(false, true), string::rtrim()),
    ];
    let rows = encodings().into_iter().chain(parts()).chain(sent());
    scalar_function::functions(rows).chain([substr(), overlay()]).chain(trims)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: Kind, values: &[ScalarValue]) -> Vec<u8> {
        let function = OfBytes { kind, inner: string::btrim(), signature: Signature::any(1, Volatility::Immutable) };
        function.row(values).expect("a result")
    }

    #[test]
    fn parts_are_postgres() {
        let bytes = |bytes: &[u8]| ScalarValue::Binary(Some(bytes.to_vec()));
        let int = |int: i64| ScalarValue::Int64(Some(int));
        assert_eq!(row(Kind::Substr, &[bytes(b"string"), int(-10), int(13)]), b"st");
        assert_eq!(row(Kind::Substr, &[bytes(b"string"), int(9)]), b"");
        assert_eq!(row(Kind::Overlay, &[bytes(b"Thomas"), bytes(b"om"), int(2), int(0)]), b"Tomhomas");
        assert_eq!(row(Kind::Trim(true, true), &[bytes(b"\0a\0"), bytes(b"\0")]), b"a");
        assert_eq!(row(Kind::Trim(true, true), &[bytes(b"\0\0"), bytes(b"\0")]), b"");
        assert_eq!(row(Kind::Trim(false, true), &[bytes(b"\0a\0"), bytes(b"\0")]), b"\0a");
        assert!(part(b"a", 1, Some(-1)).is_err());
    }
}
