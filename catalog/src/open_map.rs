//! Maps of open families: the cells of a row as one jsonb object, and such an object as cells. Pure.
//!
//! A key of the object stands for a qualifier ([`key_of`], [`qualifier_of`]):
//!
//! ```text
//! a text without the character of number 0 that does not begin with \x    itself
//! every other qualifier                                                   \x and its bytes in hexadecimal, as \xff00
//! ```
//!
//! So each qualifier has exactly one key, and no two share one. A value stands for the bytes of a cell by the family's
//! [`Encoding`]:
//!
//! ```text
//! json     the bytes are the value's JSON
//! text     the value is a string of the bytes, which are UTF-8; numbers, booleans, arrays and objects are written as
//!          their text, and read as strings; null has no form
//! binary   the value is a string of the bytes in hexadecimal, as bytea prints them; nothing else has a form
//! ```

use crate::{
    Encoding, Error, ErrorKind, Result, SqlType, Value,
    value::jsonb::{self, Member, is_itself, key_order, quote},
};
use bytes::Bytes;
use keyspan_storage::model::limits::{CELL_BYTES_MAX, QUALIFIER_BYTES_MAX};
use std::borrow::Cow;

/// How an escaped qualifier begins.
pub const ESCAPE: &str = "\\x";

/// The object without members: what a row without cells in the family shows.
pub const EMPTY: &str = "{}";

/// The key that stands for a qualifier.
pub fn key_of(qualifier: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(qualifier) {
        Ok(text) if !text.starts_with(ESCAPE) && !text.contains('\0') => Cow::Borrowed(text),
        _ => Cow::Owned(hexadecimal(qualifier)),
    }
}

/// The qualifier that a key stands for; `None` for a key that stands for none.
pub fn qualifier_of(key: &str) -> Option<Bytes> {
    let Some(digits) = key.strip_prefix(ESCAPE) else {
        return (!key.contains('\0')).then(|| Bytes::copy_from_slice(key.as_bytes()));
    };
    let bytes = bytes_of(digits)?;
    (key_of(&bytes) == key).then(|| bytes.into())
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(ESCAPE.len() + 2 * bytes.len());
    text.push_str(ESCAPE);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::try_from(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?).ok()).collect()
}

/// The qualifier of a key that is written.
///
/// # Errors
/// [`BadKey`](ErrorKind::BadKey) for a key that stands for no qualifier; [`TooMuch`](ErrorKind::TooMuch) for one that
/// is too long.
pub fn written_qualifier(key: &str) -> Result<Bytes> {
    let qualifier = qualifier_of(key).ok_or_else(|| {
        Error::new(ErrorKind::BadKey, format!("\"{}\" is not a qualifier", cut(key)))
            .with_detail("A key that begins with \\x holds the bytes of a qualifier in hexadecimal, in lower case.")
            .with_hint(format!(
                "A qualifier that is text has its own form; this text is \"{}\".",
                cut(&hexadecimal(key.as_bytes()))
            ))
    })?;
    if qualifier.len() > QUALIFIER_BYTES_MAX {
        let message = format!("a qualifier of {} bytes", qualifier.len());
        return Err(Error::new(ErrorKind::TooMuch, message)
            .with_detail(format!(
                "A qualifier has at most {QUALIFIER_BYTES_MAX} bytes; this begins with \"{}\".",
                cut(key)
            ))
            .with_hint("What is long belongs into the value."));
    }
    Ok(qualifier)
}

/// The members of an object, as it is written to an open family: keys and values.
///
/// # Errors
/// [`BadValue`](ErrorKind::BadValue) for a text that is no JSON; [`BadKey`](ErrorKind::BadKey) for what is no object.
pub fn members(map: &str) -> Result<serde_json::Map<String, serde_json::Value>> {
    match serde_json::from_str(map) {
        Ok(serde_json::Value::Object(members)) => Ok(members),
        Ok(other) => Err(Error::new(ErrorKind::BadKey, format!("{} is not a map of columns", kind_of(&other)))
            .with_hint("An open family takes a JSON object: qualifiers and their values.")),
        Err(error) => {
            Err(Error::new(ErrorKind::BadValue, "invalid input syntax for type json").with_detail(format!("{error}.")))
        }
    }
}

/// The cells of an object that is written to an open family, within the object's text.
#[derive(Debug)]
pub struct PlainCells<'a> {
    text: Cow<'a, str>,
    /// Their qualifiers and values.
    cells: Vec<Member>,
}

/// The cells of an object that is written to an open family, read in one pass: qualifiers, and values in the encoding.
/// `None` for an object with escapes, and for what is too long or has no form: [`members`], [`written_qualifier`] and
/// [`encode`] tell.
pub fn plain_cells<'a>(map: &'a str, encoding: &Encoding) -> Option<PlainCells<'a>> {
    if !matches!(encoding, Encoding::Json | Encoding::Text) {
        return None;
    }
    let (text, mut cells) = jsonb::plain_members(map)?;
    for Member { key, value } in &mut cells {
        // Without an escape a key is neither an escaped qualifier, nor has it the character of number 0.
        if *encoding == Encoding::Text {
            match text.as_bytes()[value.start] {
                b'"' => *value = value.start + 1..value.end - 1,
                b'n' => return None,
                _ => {}
            }
        }
        if key.len() > QUALIFIER_BYTES_MAX || value.len() > CELL_BYTES_MAX {
            return None;
        }
    }
    Some(PlainCells { text, cells })
}

impl PlainCells<'_> {
    /// Qualifiers and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let text = self.text.as_bytes();
        self.cells.iter().map(|Member { key, value }| (&text[key.clone()], &text[value.clone()]))
    }

    /// Puts them in the order of qualifiers: an object has shorter ones first.
    pub fn sort(&mut self) {
        let text = self.text.as_bytes();
        self.cells.sort_unstable_by(|a, b| text[a.key.clone()].cmp(&text[b.key.clone()]));
    }

    /// Each by itself; all share the text.
    pub fn shared(self) -> Vec<(Bytes, Bytes)> {
        let text = Bytes::from(self.text.into_owned());
        self.cells.into_iter().map(|Member { key, value }| (text.slice(key), text.slice(value))).collect()
    }
}

/// The bytes of a cell for a value of an object.
///
/// # Errors
/// [`BadKey`](ErrorKind::BadKey) for a value that has no form in the encoding; [`TooMuch`](ErrorKind::TooMuch) for one
/// that is too long.
pub fn encode(key: &str, value: &serde_json::Value, encoding: &Encoding) -> Result<Bytes> {
    use serde_json::Value as Json;
    let none = |hint: &str| {
        let message = format!("{} has no form in the encoding of \"{}\"", kind_of(value), cut(key));
        Err(Error::new(ErrorKind::BadKey, message).with_hint(hint))
    };
    let bytes: Bytes = match (encoding, value) {
        (Encoding::Json, value) => json_text(value)?.into(),
        (Encoding::Text, Json::String(text)) => text.clone().into(),
        (Encoding::Text, Json::Null) => {
            return none("Leave the key out, or remove it with the operator -: a column without a value is no cell.");
        }
        (Encoding::Text, value) => json_text(value)?.into(),
        (Encoding::Binary, Json::String(text)) => match Value::parse(text, SqlType::Bytea)? {
            Value::Bytes(bytes) => bytes,
            _ => Bytes::new(),
        },
        (Encoding::Binary | Encoding::Protobuf(_), _) => {
            return none("Its values are strings of bytes as bytea has them: '\\x0102'.");
        }
    };
    if bytes.len() > CELL_BYTES_MAX {
        let message = format!("a value of {} bytes in column \"{}\"", bytes.len(), cut(key));
        return Err(Error::new(ErrorKind::TooMuch, message)
            .with_detail(format!("A value has at most {} MiB.", CELL_BYTES_MAX >> 20))
            .with_hint("Divide it over several columns or rows."));
    }
    Ok(bytes)
}

/// The JSON, in the form of jsonb, of a cell's bytes.
///
/// # Errors
/// [`BadValue`](ErrorKind::BadValue) for bytes that encode no value.
pub fn decode(bytes: &[u8], encoding: &Encoding) -> Result<String> {
    let mut json = String::with_capacity(bytes.len());
    decode_into(bytes, encoding, &mut json).map(|()| json)
}

/// Appends what [`decode`] gives; nothing where it fails.
fn decode_into(bytes: &[u8], encoding: &Encoding, out: &mut String) -> Result<()> {
    let text = || std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let decoded = match encoding {
        Encoding::Json => text().and_then(|text| write_json(text, out)),
        Encoding::Text => text().map(|text| quote(text, out)),
        Encoding::Binary | Encoding::Protobuf(_) => {
            quote(&hexadecimal(bytes), out);
            Some(())
        }
    };
    decoded.ok_or_else(|| {
        let message = if *encoding == Encoding::Json { "stored value is no JSON" } else { "stored value is no text" };
        Error::new(ErrorKind::BadValue, message)
    })
}

/// Writes the JSON of a text that is JSON in the form of jsonb; `None` for others. The scalars that are most frequent
/// are not parsed.
fn write_json(text: &str, out: &mut String) -> Option<()> {
    let inner = || text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    if jsonb::is_plain_number(text)
        || matches!(text, "true" | "false" | "null")
        || inner().is_some_and(|inner| inner.bytes().all(is_itself))
    {
        out.push_str(text);
        return Some(());
    }
    let Ok(Value::Text(text)) = Value::parse(text, SqlType::Jsonb) else { return None };
    out.push_str(&text);
    Some(())
}

/// The text of a JSON value, in the form of jsonb.
fn json_text(value: &serde_json::Value) -> Result<String> {
    use serde_json::Value as Json;
    match value {
        Json::Null | Json::Bool(_) | Json::String(_) => Ok(value.to_string()),
        Json::Number(_) | Json::Array(_) | Json::Object(_) => match Value::parse(&value.to_string(), SqlType::Jsonb)? {
            Value::Text(text) => Ok(text),
            _ => Ok(String::new()),
        },
    }
}

fn kind_of(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Null => "JSON null",
        serde_json::Value::Bool(_) => "a JSON boolean",
        serde_json::Value::Number(_) => "a JSON number",
        serde_json::Value::String(_) => "a JSON string",
        serde_json::Value::Array(_) => "a JSON array",
        serde_json::Value::Object(_) => "a JSON object",
    }
}

/// Characters of a key that an error shows.
const SHOWN_CHARS_MAX: usize = 64;

fn cut(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// Writes an object member by member, in the form of jsonb: keys by length, then by their bytes. Its memory is used
/// again for the next one.
#[derive(Debug, Default)]
pub struct MapWriter {
    /// Keys and values as they came, one behind the other.
    given: String,
    /// Where the key and the value of each member begin and end in it.
    members: Vec<[usize; 3]>,
    /// The object.
    written: String,
}

impl MapWriter {
    /// Adds the member of a cell.
    ///
    /// # Errors
    /// [`BadValue`](ErrorKind::BadValue) for bytes that encode no value; nothing is added.
    pub fn push(&mut self, qualifier: &[u8], value: &[u8], encoding: &Encoding) -> Result<()> {
        self.member(qualifier, |out| decode_into(value, encoding, out))
    }

    /// Adds a member whose value is null.
    pub fn push_null(&mut self, qualifier: &[u8]) {
        let _ = self.member(qualifier, |out| {
            out.push_str("null");
            Ok(())
        });
    }

    fn member(&mut self, qualifier: &[u8], value: impl FnOnce(&mut String) -> Result<()>) -> Result<()> {
        let start = self.given.len();
        self.given.push_str(&key_of(qualifier));
        let middle = self.given.len();
        if let Err(error) = value(&mut self.given) {
            self.given.truncate(start);
            return Err(error);
        }
        self.members.push([start, middle, self.given.len()]);
        Ok(())
    }

    /// The object, until the next one is written.
    pub fn take(&mut self) -> &str {
        let Self { given, members, written } = self;
        if members.is_empty() {
            return EMPTY;
        }
        members.sort_by(|[a, a_end, _], [b, b_end, _]| key_order(&given[*a..*a_end], &given[*b..*b_end]));
        written.clear();
        for (at, [start, middle, end]) in members.drain(..).enumerate() {
            written.push_str(if at > 0 { ", " } else { "{" });
            quote(&given[start..middle], written);
            written.push_str(": ");
            written.push_str(&given[middle..end]);
        }
        written.push('}');
        given.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_qualifier_has_one_key(qualifier in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..6),
            "(\\\\x)?[a-f0-9\\\\x\u{0}é]{0,6}".prop_map(String::into_bytes),
        ]) {
            let key = key_of(&qualifier).into_owned();
            prop_assert_eq!(qualifier_of(&key), Some(Bytes::from(qualifier)));
        }

        #[test]
        fn cells_of_one_pass_are_those_of_members(
            members in prop::collection::vec(("[ab\\\\é]{0,3}", prop_oneof![
                Just("null".to_owned()),
                Just("[1,{\"a\":2}]".to_owned()),
                "-?[1-9][0-9]?(\\.[0-9])?",
                "\"[a\\\\n\"é]{0,2}\"",
            ]), 0..4),
            is_text in any::<bool>(),
        ) {
            let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            let map = format!("{{{}}}", members.join(","));
            let encoding = if is_text { Encoding::Text } else { Encoding::Json };
            if let Some(mut cells) = plain_cells(&map, &encoding) {
                cells.sort();
                prop_assert!(cells.iter().is_sorted());
                let cells = cells.shared();
                let one = |(key, value): (&String, &serde_json::Value)| {
                    (written_qualifier(key).unwrap(), encode(key, value, &encoding).unwrap())
                };
                let mut expected: Vec<_> = super::members(&map).unwrap().iter().map(one).collect();
                expected.sort();
                prop_assert_eq!(cells, expected);
            }
        }

        #[test]
        fn a_key_stands_for_one_qualifier_or_none(key in "(\\\\x)?[a-fA-F0-9\\\\xg]{0,6}") {
            if let Some(qualifier) = qualifier_of(&key) {
                prop_assert_eq!(key_of(&qualifier), key);
            }
        }
    }

    fn check(value: &str, encoding: Encoding, stored: &[u8], read: &str) {
        let value = serde_json::from_str(value).unwrap();
        let bytes = encode("k", &value, &encoding).unwrap();
        assert_eq!(bytes, stored);
        assert_eq!(decode(&bytes, &encoding).unwrap(), read);
    }

    #[test]
    fn values_by_encoding() {
        check("7", Encoding::Json, b"7", "7");
        check("\"7\"", Encoding::Json, b"\"7\"", "\"7\"");
        check("15.00", Encoding::Json, b"15.00", "15.00");
        check(
            "{\"b\": [1,true], \"a\":null}",
            Encoding::Json,
            b"{\"a\": null, \"b\": [1, true]}",
            "{\"a\": null, \"b\": [1, true]}",
        );
        check("null", Encoding::Json, b"null", "null");
        check("7", Encoding::Text, b"7", "\"7\"");
        check("\"a\\nb\"", Encoding::Text, b"a\nb", "\"a\\nb\"");
        check("true", Encoding::Text, b"true", "\"true\"");
        check("\"\\\\x00ff\"", Encoding::Binary, &[0, 255], "\"\\\\x00ff\"");
        let refused = |value: &str, encoding| {
            let value = serde_json::from_str(value).unwrap();
            assert_eq!(encode("k", &value, &encoding).unwrap_err().kind(), ErrorKind::BadKey, "{value}");
        };
        refused("null", Encoding::Text);
        refused("7", Encoding::Binary);
    }

    #[test]
    fn cells_of_one_pass() {
        let cells = |map: &str, encoding| {
            let cells = plain_cells(map, &encoding)?.shared();
            Some(
                cells
                    .iter()
                    .map(|of| [&of.0, &of.1].map(|of| String::from_utf8(of.to_vec()).unwrap()))
                    .collect::<Vec<_>>(),
            )
        };
        let some = |all: &[[&str; 2]]| Some(all.iter().map(|of| of.map(str::to_owned)).collect());
        let map = r#"{"rpm":7,"a":"x","b":{"d":1,"c":[]}}"#;
        let object = r#"{"c": [], "d": 1}"#;
        assert_eq!(cells(map, Encoding::Json), some(&[["a", "\"x\""], ["b", object], ["rpm", "7"]]));
        assert_eq!(cells(map, Encoding::Text), some(&[["a", "x"], ["b", object], ["rpm", "7"]]));
        assert_eq!(cells(map, Encoding::Binary), None);
        assert_eq!(cells(r#"{"a":null}"#, Encoding::Json), some(&[["a", "null"]]));
        assert_eq!(cells(r#"{"a":null}"#, Encoding::Text), None, "it has no form");
        assert_eq!(cells(r#"{"a":"\\n"}"#, Encoding::Json), None, "an escape");
        assert_eq!(cells("[]", Encoding::Json), None);
    }

    #[test]
    fn bytes_that_others_wrote() {
        assert_eq!(decode(b" [1,2]", &Encoding::Json).unwrap(), "[1, 2]");
        assert_eq!(decode(b"007", &Encoding::Json).unwrap_err().kind(), ErrorKind::BadValue);
        assert_eq!(decode(b"7 8", &Encoding::Json).unwrap_err().kind(), ErrorKind::BadValue);
        assert_eq!(decode(b"\xff", &Encoding::Text).unwrap_err().kind(), ErrorKind::BadValue);
        assert_eq!(decode(b"\xff", &Encoding::Binary).unwrap(), "\"\\\\xff\"");
    }

    #[test]
    fn members_are_in_the_order_of_jsonb() {
        let mut writer = MapWriter::default();
        for (qualifier, value) in [(&b"bb"[..], "1"), (b"c", "2"), (b"\"", "3"), (b"\xff", "4")] {
            writer.push(qualifier, value.as_bytes(), &Encoding::Json).unwrap();
        }
        writer.push(b"d", b"{", &Encoding::Json).unwrap_err();
        let written = writer.take().to_owned();
        assert_eq!(written, r#"{"\"": 3, "c": 2, "bb": 1, "\\xff": 4}"#);
        assert_eq!(Value::parse(&written, SqlType::Jsonb).unwrap(), Value::Text(written));
        assert_eq!(writer.take(), EMPTY);
        writer.push_null(b"a");
        assert_eq!(writer.take(), "{\"a\": null}");
    }
}
