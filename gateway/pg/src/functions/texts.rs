//! Functions of text that DataFusion lacks or has otherwise.

use super::bounded::ResultBytes;
use super::scalar_function::{
    self, Call, RowFunction, external, nullable, returns_boolean, returns_integer, returns_text, returns_texts, strict,
    text_list, text_output, variadic,
};
use crate::{
    codec::parse,
    error::{SqlError, SqlState},
    ident::quote_ident,
    regexp::{Match, Pattern},
};
use arrow::{
    array::{Array, Scalar, StringArray},
    compute::kernels::comparison::{ilike, like, nilike, nlike},
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{error::Result, logical_expr::ScalarUDF, scalar::ScalarValue};
use std::sync::Arc;

/// `text LIKE ANY (array)`: the text, the array, and the sign of the operator.
pub(crate) const LIKE_ANY: &str = "like_any";
/// `text LIKE ALL (array)`, likewise.
pub(crate) const LIKE_ALL: &str = "like_all";
/// `substring(text SIMILAR pattern ESCAPE '#')`: the text, the pattern, the escape character.
pub const SUBSTRING_SIMILAR: &str = "substring_similar";

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
        let mut left = chars.next_if_eq(&'-').is_some();
        if width.is_none() {
            width = number(&mut chars)?;
        }
        // A width that is an argument, the next one or `*2$`.
        if width.is_none() && chars.next_if_eq(&'*').is_some() {
            let at = match number(&mut chars)? {
                Some(0) => return Err(invalid("format specifies argument 0, but arguments are numbered from 1")),
                Some(at) if chars.next_if_eq(&'$').is_some() => at,
                Some(_) => return Err(invalid("width argument position must be ended by \"$\"")),
                None => next,
            };
            next = at + 1;
            let Some(value) = call.values.get(at) else { return Err(invalid("too few arguments for format()")) };
            let signed = super::values::int_of(value).unwrap_or(0);
            left |= signed < 0;
            width = usize::try_from(signed.unsigned_abs()).ok();
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
    format!("^(?:{})$", similar_body(pattern, escape))
}

/// A pattern of `SIMILAR TO`, or a part of one, as a part of a regular expression.
fn similar_body(pattern: &str, escape: Option<char>) -> String {
    let mut out = String::new();
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
    out
}

/// A pattern of `SIMILAR` with the part that is wanted between two `#"`, as a regular expression: the part before it
/// takes as little as it can.
fn similar_parts(pattern: &str, escape: Option<char>) -> Result<String> {
    let (mut parts, mut current, mut chars) = (Vec::new(), String::new(), pattern.chars());
    while let Some(c) = chars.next() {
        match (Some(c) == escape).then(|| chars.next()) {
            None => current.push(c),
            Some(Some('"')) => parts.push(std::mem::take(&mut current)),
            Some(next) => current.extend(std::iter::once(c).chain(next)),
        }
    }
    parts.push(current);
    let part = |part: &str| similar_body(part, escape);
    match parts.as_slice() {
        [all] => Ok(format!("^({})$", part(all))),
        // Without a second mark the part ends with the text.
        [before, wanted] => Ok(format!("^(?:{})({})$", reluctant(&part(before)), part(wanted))),
        [before, wanted, behind] => {
            Ok(format!("^(?:{})({})(?:{})$", reluctant(&part(before)), part(wanted), part(behind)))
        }
        _ => {
            let message = "SQL regular expression may not contain more than two escape-double-quote separators";
            Err(external(SqlError::new(SqlState::INVALID_USE_OF_ESCAPE_CHARACTER, message)))
        }
    }
}

/// A regular expression whose repetitions take as little as they can.
fn reluctant(expression: &str) -> String {
    let (mut out, mut chars, mut within) = (String::new(), expression.chars(), false);
    while let Some(c) = chars.next() {
        out.push(c);
        match c {
            '\\' => out.extend(chars.next()),
            '[' | ']' => within = c == '[',
            '*' | '+' | '?' | '}' if !within => out.push('?'),
            _ => {}
        }
    }
    out
}

fn regexes() -> [RowFunction; 6] {
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
            let regex =
                Pattern::of_one_match(&argument(call, 1)?, &flags, "regexp_split_to_array").map_err(external)?;
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
            let start = call.values.get(2).and_then(super::values::int_of).unwrap_or(1);
            let nth = call.values.get(3).and_then(super::values::int_of).unwrap_or(1);
            let group = call.values.get(5).and_then(super::values::int_of).unwrap_or(0);
            let regex =
                Pattern::of_one_match(&argument(call, 1)?, &flags(call, 4)?, "regexp_substr").map_err(external)?;
            let at_least = |name: &str, value: i64, least: i64| {
                usize::try_from(value.saturating_sub(least))
                    .map_err(|_| invalid(format!("invalid value for parameter \"{name}\": {value}")))
            };
            let from = at_least("start", start, 1)?;
            let from = subject.char_indices().nth(from).map_or(subject.len(), |(at, _)| at);
            let nth = at_least("n", nth, 1)?;
            let found = regex.matches(&subject[from..], nth.saturating_add(1)).map_err(external)?;
            let group = at_least("subexpr", group, 0)?;
            let range = found.get(nth).and_then(|found| found.get(group).cloned().flatten());
            Ok(ScalarValue::Utf8View(range.map(|range| subject[from..][range].to_owned())))
        }),
        // What `text SIMILAR TO pattern` is.
        strict("similar_to", 2..=3, returns_boolean, |call| {
            let escape = if call.values.len() > 2 { argument(call, 2)?.chars().next() } else { Some('\\') };
            let regex = pattern(&similar(&argument(call, 1)?, escape), "")?;
            Ok(ScalarValue::Boolean(Some(regex.is_match(&argument(call, 0)?).map_err(external)?)))
        }),
        strict(SUBSTRING_SIMILAR, 3..=3, returns_text, |call| {
            let escape = argument(call, 2)?;
            let mut characters = escape.chars();
            let (escape, None) = (characters.next(), characters.next()) else {
                let error = SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string");
                return Err(external(error.with_hint("Escape string must be empty or one character.")));
            };
            let (subject, written) = (argument(call, 0)?, argument(call, 1)?);
            let regex = pattern(&similar_parts(&written, escape)?, "")?;
            let found = regex.matches(&subject, 1).map_err(external)?;
            let part = found.first().and_then(|found| captured(&subject, found).into_iter().next().flatten());
            Ok(ScalarValue::Utf8View(part))
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

fn others() -> [RowFunction; 9] {
    [
        strict(LIKE_ANY, 3..=3, returns_boolean, |call| like_items(call, false)),
        strict(LIKE_ALL, 3..=3, returns_boolean, |call| like_items(call, true)),
        strict("to_hex", 1..=1, returns_text, |call| match &call.values[0] {
            ScalarValue::Int64(Some(int)) => text(format!("{int:x}")),
            other => {
                let int = super::values::int_of(other).and_then(|int| i32::try_from(int).ok());
                text(int.map_or_else(String::new, |int| format!("{int:x}")))
            }
        }),
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
            let number = super::values::int_of(&call.values[0]).unwrap_or(0);
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

/// Whether the operator holds of the text and `all` items of an array, or any: NULL where NULLs leave it open.
fn like_items(call: &Call, all: bool) -> Result<ScalarValue> {
    let items: StringArray = match scalar_function::items(&call.values[1]) {
        Some(items) => items.iter().map(super::values::text_of).collect(),
        None => parse::list(&argument(call, 1)?).map_err(external)?.into_iter().collect(),
    };
    let left = Scalar::new(StringArray::from(vec![argument(call, 0)?]));
    let holds = match argument(call, 2)?.as_str() {
        "~~" => like(&left, &items)?,
        "!~~" => nlike(&left, &items)?,
        "~~*" => ilike(&left, &items)?,
        _ => nilike(&left, &items)?,
    };
    let decides = holds.iter().any(|one| one == Some(!all));
    Ok(ScalarValue::Boolean(if decides { Some(!all) } else { (holds.null_count() == 0).then_some(all) }))
}

fn count(call: &Call, nulls: bool) -> Result<ScalarValue> {
    let count = call.values.iter().filter(|value| value.is_null() == nulls).count();
    Ok(ScalarValue::Int32(i32::try_from(count).ok()))
}

/// The functions.
pub fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    scalar_function::functions(regexes().into_iter().chain(others()))
}
