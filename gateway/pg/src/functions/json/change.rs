//! jsonb as a tree: what tests or changes more than one part of it.

use crate::{
    codec::parse,
    error::{SqlError, SqlState},
    functions::scalar_function::external,
};
use datafusion::error::Result;
use serde_json::Value;

/// Parses a document.
///
/// # Errors
/// 22P02 for what is no JSON.
pub fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| {
        let message = "invalid input syntax for type json";
        external(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(format!("{error}.")))
    })
}

/// A document in jsonb's form.
pub fn written(value: &Value) -> String {
    let mut out = String::new();
    parse::write_json(value, &mut out);
    out
}

/// Whether `whole` contains `part`. An array contains a scalar that is one of its items, but only at the top.
pub fn contains(whole: &Value, part: &Value, top: bool) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, part)| whole.get(key).is_some_and(|whole| contains(whole, part, false)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|part| whole.iter().any(|whole| contains(whole, part, false)))
        }
        (Value::Array(whole), part) if top && !part.is_object() => whole.iter().any(|item| same(item, part)),
        (whole, part) => same(whole, part),
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => digits(&a.to_string()) == digits(&b.to_string()),
        (a, b) => a == b,
    }
}

/// A number's sign, digits without zeroes around them, and exponent: alike for numbers that are equal.
fn digits(text: &str) -> (bool, String, i64) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (negative, mantissa) = mantissa.strip_prefix('-').map_or((false, mantissa), |rest| (true, rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let kept = all.trim_end_matches('0');
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let dropped = i64::try_from(all.len() - kept.len()).unwrap_or(0);
    let digits = kept.trim_start_matches('0').to_owned();
    if digits.is_empty() {
        return (false, digits, 0);
    }
    (negative, digits, exponent - i64::try_from(fraction.len()).unwrap_or(0) + dropped)
}

/// For each key whether it is a member of the object, an item of the array, or the string.
///
/// # Errors
/// 22P02 for what is no JSON.
pub fn exists(text: &str, keys: &[String]) -> Result<Vec<bool>> {
    let document = parsed(text)?;
    let is = |key: &String| match &document {
        Value::Object(members) => members.contains_key(key),
        Value::Array(items) => items.iter().any(|item| item.as_str() == Some(key)),
        Value::String(text) => text == key,
        _ => false,
    };
    Ok(keys.iter().map(is).collect())
}

/// `left || right`
pub fn joined(left: Value, right: Value) -> Value {
    match (left, right) {
        (Value::Object(mut left), Value::Object(right)) => {
            left.extend(right);
            Value::Object(left)
        }
        (left, right) => {
            let list = |value| if let Value::Array(items) = value { items } else { vec![value] };
            let mut items = list(left);
            items.extend(list(right));
            Value::Array(items)
        }
    }
}

fn scalar() -> datafusion::error::DataFusionError {
    external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "cannot delete from scalar"))
}

/// Without the member of a key, or the items that are that string.
///
/// # Errors
/// 22023 for a scalar.
pub fn without_key(value: Value, key: &str) -> Result<Value> {
    match value {
        Value::Object(mut members) => {
            members.remove(key);
            Ok(Value::Object(members))
        }
        Value::Array(items) => Ok(Value::Array(items.into_iter().filter(|item| item.as_str() != Some(key)).collect())),
        _ => Err(scalar()),
    }
}

/// Without the item at a position.
///
/// # Errors
/// 22023 for what is no array.
pub fn without_item(value: Value, place: i64) -> Result<Value> {
    match value {
        Value::Array(mut items) => {
            if let Some(index) = index(&items, place) {
                items.remove(index);
            }
            Ok(Value::Array(items))
        }
        Value::Object(_) => {
            let message = "cannot delete from object using integer index";
            Err(external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)))
        }
        _ => Err(scalar()),
    }
}

fn index(items: &[Value], place: i64) -> Option<usize> {
    let length = i64::try_from(items.len()).ok()?;
    let index = if place < 0 { place + length } else { place };
    usize::try_from(index).ok().filter(|index| *index < items.len())
}

/// The value at a step of a path.
fn step<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    match value {
        Value::Object(members) => members.get_mut(key),
        Value::Array(items) => {
            let index = index(items, key.parse().ok()?)?;
            items.get_mut(index)
        }
        _ => None,
    }
}

fn parent<'a>(value: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, key| step(value, key))
}

/// Removes what is at a path.
pub fn remove_at(value: &mut Value, path: &[String]) {
    let Some((last, before)) = path.split_last() else { return };
    match parent(value, before) {
        Some(Value::Object(members)) => {
            members.remove(last);
        }
        Some(Value::Array(items)) => {
            if let Some(index) = last.parse().ok().and_then(|place| index(items, place)) {
                items.remove(index);
            }
        }
        _ => {}
    }
}

/// Replaces what is at a path; where nothing is, adds it if `create`.
pub fn set_at(value: &mut Value, path: &[String], new: Value, create: bool) {
    let Some((last, before)) = path.split_last() else { return };
    match parent(value, before) {
        Some(Value::Object(members)) if create || members.contains_key(last) => {
            members.insert(last.clone(), new);
        }
        Some(Value::Array(items)) => {
            let Ok(place) = last.parse::<i64>() else { return };
            match index(items, place) {
                Some(index) => items[index] = new,
                None if create && place < 0 => items.insert(0, new),
                None if create => items.push(new),
                None => {}
            }
        }
        _ => {}
    }
}

/// Inserts a value before, or after, the item at a path, or as a new member.
///
/// # Errors
/// 22023 for a member that is there.
pub fn insert_at(value: &mut Value, path: &[String], new: Value, after: bool) -> Result<(), SqlError> {
    let Some((last, before)) = path.split_last() else { return Ok(()) };
    match parent(value, before) {
        Some(Value::Object(members)) => {
            if members.contains_key(last) {
                let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "cannot replace existing key");
                return Err(error.with_hint("Try using the function jsonb_set to replace key value."));
            }
            members.insert(last.clone(), new);
        }
        Some(Value::Array(items)) => {
            let Ok(place) = last.parse::<i64>() else { return Ok(()) };
            match index(items, place) {
                Some(index) => items.insert(index + usize::from(after), new),
                None if place < 0 => items.insert(0, new),
                None => items.push(new),
            }
        }
        _ => {}
    }
    Ok(())
}

/// Removes members that are null, at any depth.
pub fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(strip_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

/// A document over several lines, four blanks to each depth.
pub fn pretty(value: &Value) -> String {
    let mut out = String::new();
    indented(value, 0, &mut out);
    out
}

fn indented(value: &Value, depth: usize, out: &mut String) {
    const STEP: &str = "    ";
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.push_str(&STEP.repeat(depth));
    };
    match value {
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                line(depth + 1, out);
                indented(item, depth + 1, out);
            }
            line(depth, out);
            out.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(key, _)| (key.len(), key.as_bytes()));
            out.push('{');
            for (at, (key, value)) in sorted.into_iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                line(depth + 1, out);
                out.push_str(&Value::String(key.clone()).to_string());
                out.push_str(": ");
                indented(value, depth + 1, out);
            }
            line(depth, out);
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}
