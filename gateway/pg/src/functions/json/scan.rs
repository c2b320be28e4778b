//! Parts of a JSON text, found without parsing what is in them.
//!
//! The text is taken to be JSON, as json and jsonb are when they were stored; a text that is not is refused (22P02)
//! where that is noticed, and never read beyond its end.

use crate::error::{Result, SqlError, SqlState};
use std::borrow::Cow;

/// A JSON value by its parts' texts.
#[derive(Debug)]
pub enum Part<'a> {
    /// Members, in the text's order.
    Object(Vec<(Cow<'a, str>, &'a str)>),
    /// Items.
    Array(Vec<&'a str>),
    /// A string, a number, a boolean or null.
    Scalar(&'a str),
}

fn malformed() -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
}

/// Splits a value into its parts.
///
/// # Errors
/// 22P02 for what is no JSON.
pub fn parts(text: &str) -> Result<Part<'_>> {
    let text = text.trim_ascii();
    match text.as_bytes().first() {
        Some(b'{') => {
            let mut members = Vec::new();
            each_member(text, |key, value| {
                members.push((string(key)?, value));
                Ok(())
            })?;
            Ok(Part::Object(members))
        }
        Some(b'[') => items(text).map(Part::Array),
        Some(_) if value_end(text, 0)? == text.len() => Ok(Part::Scalar(text)),
        _ => Err(malformed()),
    }
}

/// The items of an array, whose text begins with its bracket.
///
/// # Errors
/// 22P02 for what is no JSON.
pub fn items(text: &str) -> Result<Vec<&str>> {
    let mut items = Vec::new();
    let mut at = blank(text, 1);
    if text.as_bytes().get(at) == Some(&b']') {
        return Ok(items);
    }
    loop {
        let end = value_end(text, at)?;
        items.push(&text[at..end]);
        at = blank(text, end);
        match text.as_bytes().get(at) {
            Some(b',') => at = blank(text, at + 1),
            Some(b']') => return Ok(items),
            _ => return Err(malformed()),
        }
    }
}

/// Calls a function with the key, in its quotes, and the value of each member of an object.
///
/// # Errors
/// 22P02 for what is no JSON; those of the function.
pub fn each_member<'a>(text: &'a str, mut push: impl FnMut(&'a str, &'a str) -> Result<()>) -> Result<()> {
    let mut at = blank(text, 1);
    if text.as_bytes().get(at) == Some(&b'}') {
        return Ok(());
    }
    loop {
        let end = value_end(text, at)?;
        let key = &text[at..end];
        at = blank(text, end);
        expect(text, at, b':')?;
        at = blank(text, at + 1);
        let end = value_end(text, at)?;
        push(key, &text[at..end])?;
        at = blank(text, end);
        match text.as_bytes().get(at) {
            Some(b',') => at = blank(text, at + 1),
            Some(b'}') => return Ok(()),
            _ => return Err(malformed()),
        }
    }
}

fn blank(text: &str, from: usize) -> usize {
    let rest = text.as_bytes().get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

fn expect(text: &str, at: usize, byte: u8) -> Result<()> {
    if text.as_bytes().get(at) == Some(&byte) { Ok(()) } else { Err(malformed()) }
}

/// Where the value that begins at `from` ends.
fn value_end(text: &str, from: usize) -> Result<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (from, 0_usize);
    loop {
        match bytes.get(at) {
            None => return Err(malformed()),
            Some(b'"') => at = string_end(bytes, at)?,
            Some(b'{' | b'[') => {
                depth += 1;
                at += 1;
                continue;
            }
            Some(b'}' | b']') if depth > 0 => {
                depth -= 1;
                at += 1;
            }
            Some(_) if depth > 0 => {
                at += 1;
                continue;
            }
            Some(_) => {
                let word = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
                let length = bytes[at..].iter().take_while(word).count();
                return if length > 0 { Ok(at + length) } else { Err(malformed()) };
            }
        }
        if depth == 0 {
            return Ok(at);
        }
    }
}

fn string_end(bytes: &[u8], from: usize) -> Result<usize> {
    let mut at = from + 1;
    loop {
        match bytes.get(at) {
            None => return Err(malformed()),
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// The content of a string in its quotes.
///
/// # Errors
/// 22P02 for what is none.
pub fn string(text: &str) -> Result<Cow<'_, str>> {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or_else(malformed)?;
    if !inner.contains('\\') {
        return Ok(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(text).map(Cow::Owned).map_err(|_| malformed())
}

/// The member of an object with a key: the last one, if there are several.
///
/// # Errors
/// 22P02 for what is no JSON.
pub fn member<'a>(text: &'a str, key: &str) -> Result<Option<&'a str>> {
    let text = text.trim_ascii();
    if !text.starts_with('{') {
        return parts(text).map(|_| None);
    }
    let mut found = None;
    each_member(text, |name, value| {
        if string(name)? == key {
            found = Some(value);
        }
        Ok(())
    })?;
    Ok(found)
}

/// The item of an array at a position, from its end where that is negative.
///
/// # Errors
/// 22P02 for what is no JSON.
pub fn item(text: &str, place: i64) -> Result<Option<&str>> {
    match parts(text)? {
        Part::Array(items) => {
            let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
            let index = if place < 0 { place.saturating_add(length) } else { place };
            Ok(usize::try_from(index).ok().and_then(|index| items.get(index).copied()))
        }
        _ => Ok(None),
    }
}

/// The value at a path of keys and positions.
///
/// # Errors
/// 22P02 for what is no JSON.
pub fn at<'a>(text: &'a str, path: &[String]) -> Result<Option<&'a str>> {
    let mut here = text;
    for step in path {
        let next = match here.trim_ascii_start().as_bytes().first() {
            Some(b'[') => match step.trim().parse() {
                Ok(place) => item(here, place)?,
                Err(_) => None,
            },
            _ => member(here, step)?,
        };
        match next {
            Some(next) => here = next,
            None => return Ok(None),
        }
    }
    Ok(Some(here))
}

/// A value as `->>` gives it: a string's content, `None` for null, else its text.
///
/// # Errors
/// 22P02 for a malformed string.
pub fn content(text: &str) -> Result<Option<Cow<'_, str>>> {
    let text = text.trim_ascii();
    match text.as_bytes().first() {
        Some(b'"') => Ok(Some(string(text)?)),
        Some(b'n') => Ok(None),
        _ => Ok(Some(Cow::Borrowed(text))),
    }
}

/// A value without the members that are null, at any depth, and without blanks.
///
/// # Errors
/// 22P02
pub fn without_nulls(text: &str) -> Result<String> {
    Ok(match parts(text)? {
        Part::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| kind(value) != "null");
            let kept = kept.map(|(key, value)| Ok(format!("{}:{}", super::make::quoted(&key), without_nulls(value)?)));
            format!("{{{}}}", kept.collect::<Result<Vec<_>>>()?.join(","))
        }
        Part::Array(items) => {
            format!("[{}]", items.into_iter().map(without_nulls).collect::<Result<Vec<_>>>()?.join(","))
        }
        Part::Scalar(text) => text.to_owned(),
    })
}

/// A value's type as `json_typeof` calls it.
pub fn kind(text: &str) -> &'static str {
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}
