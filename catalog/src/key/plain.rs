//! The encoding `plain`: keys that others wrote, with `#` between parts and nothing escaped.
//!
//! ```text
//! text, bytea   as it is; `#` only in the last part
//! integers      decimal, without leading zeros and signs that say nothing: 42, -7
//! the others    as in `delimited`
//! ```
//!
//! Keys are not ordered as their parts are: `a!#` is before `a#`, and 10 before 9. All keys with the same first parts
//! are adjacent all the same.

use super::{
    KeyPart,
    delimited::{self, DELIMITER},
    reversed,
};
use crate::{Error, ErrorKind, Result, SqlType, Value, ValueRef};
use std::borrow::Cow;

/// Whether a key can hold values of the type.
pub(super) fn holds(kind: SqlType) -> bool {
    matches!(
        kind,
        SqlType::Text
            | SqlType::Varchar(_)
            | SqlType::Bytea
            | SqlType::Bool
            | SqlType::Int2
            | SqlType::Int4
            | SqlType::Int8
            | SqlType::Date
            | SqlType::Timestamp(_)
            | SqlType::Timestamptz(_)
            | SqlType::Time(_)
            | SqlType::Uuid
    )
}

/// Appends a value that fits the part's type; without the delimiter.
///
/// # Errors
/// [`BadValue`](ErrorKind::BadValue) for a delimiter in a part that is not the `last`.
pub(super) fn encode(part: &KeyPart, value: &Value, last: bool, out: &mut Vec<u8>) -> Result<()> {
    let labels;
    let bytes: &[u8] = match value {
        Value::Text(domain) if part.is_reversed() => {
            labels = reversed::reversed_labels(domain);
            labels.as_bytes()
        }
        Value::Text(text) => text.as_bytes(),
        Value::Bytes(bytes) => bytes,
        Value::Int(n) => {
            let from = out.len();
            out.extend_from_slice(n.to_string().as_bytes());
            if part.is_reversed() {
                reversed::turn_digits(&mut out[from..]);
            }
            return Ok(());
        }
        other => return delimited::encode(part, other, out),
    };
    if !last && bytes.contains(&DELIMITER) {
        let message = format!("the key's column \"{}\" cannot hold a value with \"#\" in it", part.name);
        return Err(Error::new(ErrorKind::BadValue, message)
            .with_detail("Nothing is escaped in keys of this table, and \"#\" ends each part but the last."));
    }
    out.extend_from_slice(bytes);
    Ok(())
}

/// Decodes a part's bytes; `None` if they are not the encoding of a value.
pub(super) fn decode<'a>(part: &KeyPart, bytes: &'a [u8]) -> Option<ValueRef<'a>> {
    match part.kind {
        SqlType::Text | SqlType::Varchar(_) => {
            let text = std::str::from_utf8(bytes).ok()?;
            let turned = || Cow::Owned(reversed::reversed_labels(text));
            Some(ValueRef::Text(if part.is_reversed() { turned() } else { Cow::Borrowed(text) }))
        }
        SqlType::Bytea => Some(ValueRef::Bytes(Cow::Borrowed(bytes))),
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => {
            let mut bytes = bytes.to_vec();
            if part.is_reversed() {
                reversed::turn_digits(&mut bytes);
            }
            let text = std::str::from_utf8(&bytes).ok()?;
            let n: i64 = text.parse().ok()?;
            let fits = match part.kind {
                SqlType::Int2 => i16::try_from(n).is_ok(),
                SqlType::Int4 => i32::try_from(n).is_ok(),
                _ => true,
            };
            // A value has one form, so that a row is found by its key.
            (fits && n.to_string() == text).then_some(ValueRef::Int(n))
        }
        _ => delimited::decode(part, bytes),
    }
}

#[cfg(test)]
mod tests {
    use crate::{KeyEncoding, KeyPart, KeySchema, PartBounds, PartOrder, SqlType, Value};
    use std::ops::Bound;

    fn schema(kinds: &[SqlType]) -> KeySchema {
        let part = |(at, kind): (usize, &SqlType)| KeyPart {
            name: format!("p{at}"),
            kind: *kind,
            order: PartOrder::Ascending,
        };
        let parts = kinds.iter().enumerate().map(part).collect();
        KeySchema { encoding: KeyEncoding::Plain, parts, salt: 0, with_tenant: false }
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn parts_are_as_they_are() {
        let two = schema(&[SqlType::Text, SqlType::Text]);
        two.check().unwrap();
        for (key, values) in [
            (&b"New York#a b#c"[..], Some([text("New York"), text("a b#c")])),
            (b"#", Some([text(""), text("")])),
            (b"$#\x01", Some([text("$"), text("\u{1}")])),
            (b"no delimiter", None),
            (b"\xff#x", None),
        ] {
            assert_eq!(two.decode(key).ok(), values.clone().map(Vec::from), "{}", key.escape_ascii());
            if let Some(values) = values {
                assert_eq!(&two.encode(&values).unwrap()[..], key);
            }
        }
        assert!(two.encode(&[text("a#b"), text("")]).is_err());
        assert!(schema(&[SqlType::Text]).encode(&[text("")]).is_err(), "no key is empty");
        let numbers = schema(&[SqlType::Int4, SqlType::Int8]);
        assert_eq!(numbers.decode(b"-7#42").unwrap(), [Value::Int(-7), Value::Int(42)]);
        for key in [&b"07#42"[..], b"+7#42", b"-0#1", b"7#", b"3000000000#1", b"7#4 2"] {
            assert!(numbers.decode(key).is_err(), "{}", key.escape_ascii());
        }
    }

    #[test]
    fn ranges_are_of_equal_parts_only() {
        let two = schema(&[SqlType::Text, SqlType::Int8]);
        let (ranges, exact) = two.exact_ranges(&[text("a b")], None);
        assert!(exact && ranges == [keyspan_storage::KeyRange::prefix("a b#")]);
        let from = PartBounds::Between(Bound::Included(Value::Int(9)), Bound::Unbounded);
        assert_eq!(two.exact_ranges(&[text("a b")], Some(&from)), (ranges, false), "10 is before 9");
        let like = PartBounds::TextPrefix("a".into());
        assert_eq!(two.exact_ranges(&[], Some(&like)), (vec![keyspan_storage::KeyRange::all()], false));
        let (point, exact) = two.exact_ranges(&[text("a b"), Value::Int(10)], None);
        assert!(exact && point == [keyspan_storage::KeyRange::point(b"a b#10")]);
        assert_eq!(two.exact_ranges(&[text("a#b")], None), (Vec::new(), true), "no key holds it");
        assert_eq!(schema(&[SqlType::Text]).exact_ranges(&[text("")], None), (Vec::new(), true));
        let operator = two.for_operator();
        let (ranges, exact) = operator.exact_ranges(&[text("alto"), text("x")], None);
        assert!(exact && ranges == [keyspan_storage::KeyRange::prefix("alto#x#")]);
    }

    #[test]
    fn what_has_no_place_in_such_keys() {
        assert!(schema(&[SqlType::Float8]).check().is_err());
        let mut down = schema(&[SqlType::Int8]);
        down.parts[0].order = PartOrder::Descending;
        assert!(down.check().is_err());
        let salted = KeySchema { salt: 4, ..schema(&[SqlType::Text]) };
        assert!(salted.check().is_err());
    }
}
