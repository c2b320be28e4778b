//! Functions of text and bytes that DataFusion lacks or has otherwise.

use super::bounded::ResultBytes;
use super::scalar_function::{
    self, Call, RowFunction, external, nullable, returns_boolean, returns_integer, returns_text, returns_texts, strict,
    text_list, text_output, variadic,
};
use crate::{
    error::{SqlError, SqlState},
    ident::quote_ident,
    regexp::{Match, Pattern},
};
use arrow::datatypes::{DataType, Field, FieldRef};
use base64::Engine as _;
use datafusion::{error::Result, logical_expr::ScalarUDF, scalar::ScalarValue};
use std::sync::Arc;

fn text(value: impl Into<String>) -> Result<ScalarValue> {
    Ok(ScalarValue::Utf8View(Some(value.into())))
}

fn argument(call: &Call, at: usize) -> Result<String> {
    Ok(text_output(&call.values[at], &call.fields[at], call.options)?.unwrap_or_default())
}

fn invalid(message: impl Into<String>) -> datafusion::error::DataFusionError {
    external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

/// A text as a literal of SQL.
pub fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

/// `format('%s is %I', …)`
fn format(call: &Call) -> Result<ScalarValue> {
    let Some(template) = text_output(&call.values[0], &call.fields[0], call.options)? else {
        return Ok(ScalarValue::Utf8View(None));
    };
    let (mut out, mut chars, mut next) = (String::new(), template.chars().peekable(), 1_usize);
    let unterminated = || invalid("unterminated format() type specifier");
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.peek() == Some(&'%') {
            chars.next();
            out.push('%');
            continue;
        }
        let mut digits = String::new();
        let mut number = |chars: &mut std::iter::Peekable<std::str::Chars>| {
            digits.clear();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            match digits.parse::<i32>() {
                Ok(number) => Ok(usize::try_from(number).ok()),
                Err(_) if digits.is_empty() => Ok(None),
                Err(_) => {
                    let message = "number is out of range";
                    Err(external(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)))
                }
            }
        };
        let mut width = number(&mut chars)?;
        let mut place = None;
        if width.is_some() && chars.next_if_eq(&'$').is_some() {
            (place, width) = (width, None);
        }
        let left = chars.next_if_eq(&'-').is_some();
        if width.is_none() {
            width = number(&mut chars)?;
        }
        if chars.peek() == Some(&'*') {
            return Err(external(SqlError::unsupported("a width as an argument of format()")));
        }
        let Some(kind) = chars.next() else { return Err(unterminated()) };
        if place == Some(0) {
            return Err(invalid("format specifies argument 0, but arguments are numbered from 1"));
        }
        if !matches!(kind, 's' | 'I' | 'L') {
            return Err(invalid(format!("unrecognized format() type specifier \"{kind}\"")));
        }
        let at = place.unwrap_or(next);
        next = at + 1;
        let Some(value) = call.values.get(at) else { return Err(invalid("too few arguments for format()")) };
        let value = text_output(value, &call.fields[at], call.options)?;
        let written = match (kind, value) {
            ('s', value) => value.unwrap_or_default(),
            ('L', value) => value.map_or("NULL".to_owned(), |value| literal(&value)),
            (_, Some(value)) => quote_ident(&value),
            (_, None) => {
                let message = "null values cannot be formatted as an SQL identifier";
                return Err(external(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message)));
            }
        };
        let bytes = out.len().saturating_add(written.len()).saturating_add(width.unwrap_or(0));
        ResultBytes::within(call.options).check("format", bytes as u64)?;
        let blanks = " ".repeat(width.unwrap_or(0).saturating_sub(written.chars().count()));
        out.push_str(&if left { format!("{written}{blanks}") } else { format!("{blanks}{written}") });
    }
    text(out)
}

/// A compiled pattern.
fn pattern(pattern: &str, flags: &str) -> Result<Pattern> {
    Pattern::new(pattern, flags).map_err(external)
}

fn flags(call: &Call, at: usize) -> Result<String> {
    if at < call.values.len() { argument(call, at) } else { Ok(String::new()) }
}

/// What a match captured: its groups, or all of it.
fn captured(text: &str, found: &Match) -> Vec<Option<String>> {
    let groups = found.iter().skip(usize::from(found.len() > 1));
    groups.map(|group| group.clone().map(|group| text[group].to_owned())).collect()
}

fn list_of_lists(_: &[FieldRef]) -> Result<FieldRef> {
    let inner = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true)));
    nullable(DataType::List(Arc::new(Field::new_list_field(inner, true))))
}

/// A pattern of `SIMILAR TO` as a regular expression.
fn similar(pattern: &str, escape: Option<char>) -> String {
    let mut out = String::from("^(?:");
    let (mut chars, mut within) = (pattern.chars(), false);
    while let Some(c) = chars.next() {
        match c {
            c if Some(c) == escape => out.push_str(&regex::escape(&chars.next().map_or(String::new(), String::from))),
            '[' | ']' => {
                within = c == '[';
                out.push(c);
            }
            c if within => out.push(c),
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '.' | '^' | '$' | '\\' => out.push_str(&regex::escape(&c.to_string())),
            c => out.push(c),
        }
    }
    out.push_str(")$");
    out
}

fn regexes() -> [RowFunction; 5] {
    [
        strict("regexp_matches_list", 2..=3, list_of_lists, |call| {
            let (subject, flags) = (argument(call, 0)?, flags(call, 2)?);
            let regex = pattern(&argument(call, 1)?, &flags)?;
            let most = if flags.contains('g') { usize::MAX } else { 1 };
            let found = regex.matches(&subject, most).map_err(external)?;
            let found: Vec<_> = found.iter().map(|found| text_list(captured(&subject, found))).collect();
            let DataType::List(item) = call.returns.data_type() else { return Ok(ScalarValue::Null) };
            Ok(ScalarValue::List(ScalarValue::new_list_nullable(&found, item.data_type())))
        }),
        strict("regexp_split_to_array", 2..=3, returns_texts, |call| {
            let (subject, flags) = (argument(call, 0)?, flags(call, 2)?);
            let regex = pattern(&argument(call, 1)?, &flags)?;
            // A match of nothing splits between characters, not before the first or after the last.
            let (mut parts, mut from) = (Vec::new(), 0);
            for found in regex.matches(&subject, usize::MAX).map_err(external)? {
                let Some(found) = found.into_iter().next().flatten() else { continue };
                if found.is_empty() && (found.start == 0 || found.start == subject.len() || found.start == from) {
                    continue;
                }
                parts.push(Some(subject[from..found.start].to_owned()));
                from = found.end;
            }
            parts.push(Some(subject[from..].to_owned()));
            Ok(text_list(parts))
        }),
        strict("regexp_substr", 2..=6, returns_text, |call| {
            let subject = argument(call, 0)?;
            let start = call.values.get(2).and_then(super::int_of).unwrap_or(1);
            let nth = call.values.get(3).and_then(super::int_of).unwrap_or(1);
            let group = call.values.get(5).and_then(super::int_of).unwrap_or(0);
            let regex = pattern(&argument(call, 1)?, &flags(call, 4)?)?;
            let positive = |value: i64| usize::try_from(value - 1).map_err(|_| invalid("invalid value for parameter"));
            let from = subject.char_indices().nth(positive(start)?).map_or(subject.len(), |(at, _)| at);
            let nth = positive(nth)?;
            let found = regex.matches(&subject[from..], nth.saturating_add(1)).map_err(external)?;
            let group = usize::try_from(group).unwrap_or(0);
            let range = found.get(nth).and_then(|found| found.get(group).cloned().flatten());
            Ok(ScalarValue::Utf8View(range.map(|range| subject[from..][range].to_owned())))
        }),
        // What `text SIMILAR TO pattern` is.
        strict("similar_to", 2..=3, returns_boolean, |call| {
            let escape = if call.values.len() > 2 { argument(call, 2)?.chars().next() } else { Some('\\') };
            let regex = pattern(&similar(&argument(call, 1)?, escape), "")?;
            Ok(ScalarValue::Boolean(Some(regex.is_match(&argument(call, 0)?).map_err(external)?)))
        }),
        // What `substring(text FROM pattern)` is.
        strict("substring_of_pattern", 2..=2, returns_text, |call| {
            let subject = argument(call, 0)?;
            let regex = pattern(&argument(call, 1)?, "")?;
            let found = regex.matches(&subject, 1).map_err(external)?;
            let part = found.first().and_then(|found| captured(&subject, found).into_iter().next().flatten());
            Ok(ScalarValue::Utf8View(part))
        }),
    ]
}

fn bytes_of(value: &ScalarValue) -> Vec<u8> {
    match value {
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => bytes.clone(),
        other => super::text_of(other).unwrap_or_default().into_bytes(),
    }
}

fn a_bytea(_: &[FieldRef]) -> Result<FieldRef> {
    nullable(DataType::Binary)
}

fn encoding(name: &str) -> datafusion::error::DataFusionError {
    invalid(format!("unrecognized encoding: \"{name}\""))
}

fn bytes() -> [RowFunction; 7] {
    [
        strict("encode", 2..=2, returns_text, |call| {
            let (bytes, name) = (bytes_of(&call.values[0]), argument(call, 1)?.to_lowercase());
            match name.as_str() {
                "hex" => text(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
                "base64" => {
                    let plain = base64::engine::general_purpose::STANDARD.encode(&bytes);
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
            let bytes = match name.as_str() {
                "hex" => crate::codec::parse::bytea(&format!("\\x{written}")).map_err(external)?,
                "escape" => crate::codec::parse::bytea(&written).map_err(external)?,
                "base64" => {
                    let bare: String = written.chars().filter(|c| !c.is_whitespace()).collect();
                    let decoded = base64::engine::general_purpose::STANDARD.decode(bare);
                    decoded.map_err(|_| invalid("invalid base64 end sequence"))?
                }
                other => return Err(encoding(other)),
            };
            Ok(ScalarValue::Binary(Some(bytes)))
        }),
        strict("convert_to", 2..=2, a_bytea, |call| {
            utf8(&argument(call, 1)?)?;
            Ok(ScalarValue::Binary(Some(argument(call, 0)?.into_bytes())))
        }),
        strict("convert_from", 2..=2, returns_text, |call| {
            utf8(&argument(call, 1)?)?;
            match String::from_utf8(bytes_of(&call.values[0])) {
                Ok(read) => text(read),
                Err(_) => Err(external(SqlError::new(
                    SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                    "invalid byte sequence for encoding \"UTF8\"",
                ))),
            }
        }),
        strict("get_byte", 2..=2, returns_integer, |call| {
            let bytes = bytes_of(&call.values[0]);
            let at = index(&call.values[1], bytes.len())?;
            Ok(ScalarValue::Int32(Some(i32::from(bytes[at]))))
        }),
        strict("set_byte", 3..=3, a_bytea, |call| {
            let mut bytes = bytes_of(&call.values[0]);
            let at = index(&call.values[1], bytes.len())?;
            bytes[at] = (super::int_of(&call.values[2]).unwrap_or(0) & 0xFF).to_le_bytes()[0];
            Ok(ScalarValue::Binary(Some(bytes)))
        }),
        strict("to_hex", 1..=1, returns_text, |call| match &call.values[0] {
            ScalarValue::Int64(Some(int)) => text(format!("{int:x}")),
            other => {
                let int = super::int_of(other).and_then(|int| i32::try_from(int).ok());
                text(int.map_or_else(String::new, |int| format!("{int:x}")))
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

fn index(value: &ScalarValue, length: usize) -> Result<usize> {
    let at = super::int_of(value).unwrap_or(-1);
    usize::try_from(at).ok().filter(|at| *at < length).ok_or_else(|| {
        let last = i64::try_from(length).unwrap_or(i64::MAX) - 1;
        external(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, format!("index {at} out of valid range, 0..{last}")))
    })
}

fn others() -> [RowFunction; 6] {
    [
        variadic("format", 1, returns_text, format),
        strict("quote_literal", 1..=1, returns_text, |call| text(literal(&argument(call, 0)?))),
        strict("quote_nullable", 1..=1, returns_text, |call| {
            text(
                text_output(&call.values[0], &call.fields[0], call.options)?
                    .map_or("NULL".to_owned(), |value| literal(&value)),
            )
        })
        .with_nulls(),
        variadic("num_nulls", 1, returns_integer, |call| count(call, true)),
        variadic("num_nonnulls", 1, returns_integer, |call| count(call, false)),
        strict("chr", 1..=1, returns_text, |call| {
            let number = super::int_of(&call.values[0]).unwrap_or(0);
            let known = u32::try_from(number).ok().and_then(char::from_u32);
            match known {
                Some('\0') => {
                    Err(external(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "null character not permitted")))
                }
                Some(character) => text(character.to_string()),
                None => {
                    let message = format!("requested character not valid for encoding: {number}");
                    Err(external(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)))
                }
            }
        }),
    ]
}

fn count(call: &Call, nulls: bool) -> Result<ScalarValue> {
    let count = call.values.iter().filter(|value| value.is_null() == nulls).count();
    Ok(ScalarValue::Int32(i32::try_from(count).ok()))
}

/// The functions.
pub fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    scalar_function::functions(regexes().into_iter().chain(bytes()).chain(others()))
}
