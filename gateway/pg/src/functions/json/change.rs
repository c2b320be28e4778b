//! jsonb as a tree: what tests or changes more than one part of it.

use crate::{
    error::{SqlError, SqlState},
    functions::scalar_function::external,
};
use datafusion::error::Result;
use keyspan_catalog::value::{array::ARRAY_ITEMS_MAX, jsonb};
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
///
/// # Errors
/// 22P05 for the character of number 0.
pub fn written(value: &Value) -> Result<String> {
    let mut out = String::new();
    jsonb::write(value, &mut out).map_err(|error| external(error.into()))?;
    Ok(out)
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

/// What is done at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `#-`: what is there goes.
    Delete,
    /// `jsonb_set`: another value; where nothing is, it is added if so.
    Set(bool),
    /// `jsonb_insert`: a value before, or after, the item, or as a new member.
    Insert(bool),
    /// `SET column[…] = …`: another value, and on the way to it what is missing.
    Assign,
}

fn refused(state: SqlState, message: impl Into<String>) -> SqlError {
    SqlError::new(state, message.into())
}

/// Changes what is at a path, as PostgreSQL's `setPath` (`jsonfuncs.c`) does. Keys of arrays are places, from the end
/// where they are negative.
///
/// # Errors
/// 22023 for a scalar with a path into it, a member that is there, and a place before the first; 22P02 for a place that
/// is no number, 22004 for one that is NULL; 54000 for a place beyond those of arrays.
pub fn change_at(value: &mut Value, path: &[Option<String>], new: Value, change: Change) -> Result<(), SqlError> {
    if !value.is_array() && !value.is_object() && change != Change::Assign {
        let what = if change == Change::Delete { "cannot delete path in scalar" } else { "cannot set path in scalar" };
        return Err(refused(SqlState::INVALID_PARAMETER_VALUE, what));
    }
    // Nothing is found in what is empty, whatever the path says.
    let is_empty = match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    let finds_nothing = is_empty && matches!(change, Change::Delete | Change::Set(false));
    if path.is_empty() || finds_nothing { Ok(()) } else { change_behind(value, path, 0, new, change) }
}

fn change_behind(
    value: &mut Value,
    path: &[Option<String>],
    level: usize,
    new: Value,
    change: Change,
) -> Result<(), SqlError> {
    let at = level + 1;
    let Some(key) = &path[level] else {
        return Err(refused(SqlState::NULL_VALUE_NOT_ALLOWED, format!("path element at position {at} is null")));
    };
    let is_last = at == path.len();
    match value {
        Value::Object(members) => match members.get_mut(key) {
            Some(member) if !is_last => return change_behind(member, path, at, new, change),
            Some(member) => match change {
                Change::Delete => {
                    members.remove(key);
                }
                Change::Set(_) | Change::Assign => *member = new,
                Change::Insert(_) => {
                    let error = refused(SqlState::INVALID_PARAMETER_VALUE, "cannot replace existing key");
                    return Err(error.with_hint("Try using the function jsonb_set to replace key value."));
                }
            },
            None if change == Change::Assign => {
                members.insert(key.clone(), filled(&path[at..], new)?);
            }
            None if is_last && !matches!(change, Change::Delete | Change::Set(false)) => {
                members.insert(key.clone(), new);
            }
            None => {}
        },
        Value::Array(items) => {
            let Ok(place) = key.parse::<i32>() else {
                let message = format!("path element at position {at} is not an integer: \"{key}\"");
                return Err(refused(SqlState::INVALID_TEXT_REPRESENTATION, message));
            };
            match index(items, place.into()) {
                Some(index) if !is_last => return change_behind(&mut items[index], path, at, new, change),
                Some(index) => match change {
                    Change::Delete => {
                        items.remove(index);
                    }
                    Change::Set(_) | Change::Assign => items[index] = new,
                    Change::Insert(after) => items.insert(index + usize::from(after), new),
                },
                None if change == Change::Assign => {
                    let Ok(place) = usize::try_from(place) else {
                        let message = format!("path element at position {at} is out of range: {place}");
                        return Err(refused(SqlState::INVALID_PARAMETER_VALUE, message));
                    };
                    fill(items, place)?;
                    items.push(filled(&path[at..], new)?);
                }
                None if is_last && !matches!(change, Change::Delete | Change::Set(false)) => {
                    items.insert(if place < 0 { 0 } else { items.len() }, new);
                }
                None => {}
            }
        }
        _ if change == Change::Assign => {
            let detail = "The path assumes key is a composite object, but it is a scalar value.";
            let error = refused(SqlState::INVALID_PARAMETER_VALUE, "cannot replace existing key");
            return Err(error.with_detail(detail));
        }
        _ => {}
    }
    Ok(())
}

/// Adds nulls up to a place.
fn fill(items: &mut Vec<Value>, place: usize) -> Result<(), SqlError> {
    if place >= ARRAY_ITEMS_MAX {
        let message = format!("array size exceeds the maximum allowed ({ARRAY_ITEMS_MAX})");
        return Err(refused(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    items.resize(items.len().max(place), Value::Null);
    Ok(())
}

/// A value with what leads to it: an array for each key that is a number, else an object.
fn filled(path: &[Option<String>], new: Value) -> Result<Value, SqlError> {
    path.iter().rev().try_fold(new, |inner, key| {
        let key = key.as_deref().unwrap_or_default();
        if let Ok(place) = key.parse::<i32>() {
            let mut items = Vec::new();
            fill(&mut items, usize::try_from(place).unwrap_or(0))?;
            items.push(inner);
            return Ok(Value::Array(items));
        }
        Ok(Value::Object([(key.to_owned(), inner)].into_iter().collect()))
    })
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
