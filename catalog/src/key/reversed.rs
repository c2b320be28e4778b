//! Parts that are `REVERSED`: what varies the most comes first in the key.
//!
//! ```text
//! text, varchar          labels of a domain, the last first:    www.example.com → com.example.www
//! integers, delimited    their digits, the last first:          0000000042 → 2400000000, -9999999998 → -8999999999
//! integers, plain        the same without leading zeros:        120 → 021
//! integers, ordered      the bits of the number, the last first
//! ```
//!
//! Each is its own inverse, so that every value has one form, and any text one: of a text without a point, the text.
//! What a counter counts spreads over the key space, and the hosts of a domain lie beside each other. The order of keys
//! is not that of the values: a value is found by its key, a domain's hosts by a prefix, and nothing else.

use crate::{SqlType, Value, ValueRef};
use std::borrow::Cow;

/// Whether values of the type can be reversed.
pub(super) fn holds(kind: SqlType) -> bool {
    is_text(kind) || matches!(kind, SqlType::Int2 | SqlType::Int4 | SqlType::Int8)
}

/// Whether values of the type are domains.
pub fn is_text(kind: SqlType) -> bool {
    matches!(kind, SqlType::Text | SqlType::Varchar(_))
}

/// The labels of a domain, the last first; of what this gives, the domain.
pub fn reversed_labels(domain: &str) -> String {
    let mut reversed = String::with_capacity(domain.len());
    for (at, label) in domain.rsplit('.').enumerate() {
        if at > 0 {
            reversed.push('.');
        }
        reversed.push_str(label);
    }
    reversed
}

/// What the reversed forms of all texts with this end begin with, and whether no other begins so; `None` for an end in
/// the midst of the last label, which says nothing of how they begin.
pub fn suffix_prefix(suffix: &str) -> Option<(String, bool)> {
    let (label, labels) = suffix.split_once('.')?;
    let mut prefix = reversed_labels(labels);
    prefix.push('.');
    Some((prefix, label.is_empty()))
}

/// The value as the encodings of bytes take it: a text's labels, or the bits of a number.
pub(super) fn turned(value: &Value, kind: SqlType) -> Cow<'_, Value> {
    match value {
        Value::Text(domain) => Cow::Owned(Value::Text(reversed_labels(domain))),
        Value::Int(n) => Cow::Owned(Value::Int(turned_bits(*n, kind))),
        other => Cow::Borrowed(other),
    }
}

/// As [`turned`], of a value that was decoded.
pub(super) fn turned_ref(value: ValueRef<'_>, kind: SqlType) -> ValueRef<'_> {
    match value {
        ValueRef::Text(domain) => ValueRef::Text(Cow::Owned(reversed_labels(&domain))),
        ValueRef::Int(n) => ValueRef::Int(turned_bits(n, kind)),
        other => other,
    }
}

/// The bits of a number of the type, the last first.
fn turned_bits(n: i64, kind: SqlType) -> i64 {
    match kind {
        // The number is one of the type.
        SqlType::Int2 => (n as i16).reverse_bits().into(),
        SqlType::Int4 => (n as i32).reverse_bits().into(),
        _ => n.reverse_bits(),
    }
}

/// Turns the digits of a number around, behind its sign.
pub(super) fn turn_digits(bytes: &mut [u8]) {
    let digits = usize::from(bytes.first() == Some(&b'-'));
    bytes[digits..].reverse();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        KeyEncoding, KeyPart, KeySchema, PartBounds, PartOrder,
        key::tests::{schema, text},
    };
    use expect_test::{Expect, expect};
    use keyspan_storage::KeyRange;
    use proptest::prelude::*;
    use std::ops::Bound;

    const KINDS: [SqlType; 5] = [SqlType::Text, SqlType::Varchar(None), SqlType::Int2, SqlType::Int4, SqlType::Int8];

    fn reversed(encoding: KeyEncoding, kinds: &[SqlType]) -> KeySchema {
        let part = |(at, kind): (usize, &SqlType)| KeyPart {
            name: format!("p{at}"),
            kind: *kind,
            order: if at == 0 { PartOrder::Reversed } else { PartOrder::Ascending },
        };
        KeySchema { parts: kinds.iter().enumerate().map(part).collect(), ..schema(encoding, &[]) }
    }

    fn check(encoding: KeyEncoding, kind: SqlType, value: &Value, expected: Expect) {
        let schema = reversed(encoding, &[kind, SqlType::Int2]);
        let key = schema.encode(&[value.clone(), Value::Int(7)]).unwrap();
        assert_eq!(schema.decode(&key).unwrap(), [value.clone(), Value::Int(7)]);
        expected.assert_eq(&key.escape_ascii().to_string());
    }

    #[test]
    fn what_varies_comes_first() {
        use KeyEncoding::{Delimited, Ordered, Plain};
        check(Delimited, SqlType::Text, &text("www.example.com"), expect!["com.example.www#00007"]);
        check(Ordered, SqlType::Text, &text("www.example.com"), expect![[r"com.example.www\x00\x01\x80\x07"]]);
        check(Plain, SqlType::Text, &text("..a"), expect!["a..#7"]);
        check(Delimited, SqlType::Int4, &Value::Int(42), expect!["2400000000#00007"]);
        check(Delimited, SqlType::Int4, &Value::Int(-1), expect!["-8999999999#00007"]);
        check(Plain, SqlType::Int8, &Value::Int(-120), expect!["-021#7"]);
        check(Ordered, SqlType::Int4, &Value::Int(1), expect![[r"\x00\x00\x00\x00\x80\x07"]]);
        check(Ordered, SqlType::Int2, &Value::Int(2), expect![[r"\xc0\x00\x80\x07"]]);
        let plain = reversed(Plain, &[SqlType::Int8]);
        assert!(plain.decode(b"210").is_err() && plain.decode(b"021").is_ok(), "numbers begin with no zero");
    }

    #[test]
    fn suffixes_are_prefixes() {
        assert_eq!(suffix_prefix(".example.com"), Some(("com.example.".into(), true)));
        assert_eq!(suffix_prefix("ample.com"), Some(("com.".into(), false)));
        assert_eq!(suffix_prefix("com"), None);
        assert_eq!(suffix_prefix("."), Some((".".into(), true)), "texts that end with a point");
    }

    #[test]
    fn only_values_make_ranges() {
        for encoding in [KeyEncoding::Delimited, KeyEncoding::Ordered] {
            let schema = reversed(encoding, &[SqlType::Int8, SqlType::Int8]);
            let bounds = PartBounds::Between(Bound::Included(Value::Int(1)), Bound::Unbounded);
            assert_eq!(schema.exact_ranges(&[], Some(&bounds)), (vec![KeyRange::all()], false));
            let (ranges, exact) = schema.exact_ranges(&[Value::Int(5)], Some(&bounds));
            assert!(exact && ranges.len() == 1 && ranges != [KeyRange::all()], "the part behind it is ordered");
        }
    }

    #[test]
    fn what_cannot_be_reversed() {
        for kind in [SqlType::Date, SqlType::Bytea, SqlType::Bool, SqlType::Uuid, SqlType::Char(3), SqlType::Name] {
            let error = reversed(KeyEncoding::Ordered, &[kind]).check().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Unsupported, "{kind:?}");
        }
    }

    proptest! {
        #[test]
        fn values_have_one_key_each(
            encoding in prop::sample::select(vec![KeyEncoding::Delimited, KeyEncoding::Ordered]),
            kind in prop::sample::select(KINDS.to_vec()),
            salt in prop::sample::select(vec![0, 16]),
            texts in prop::collection::vec("[a.$# \u{0}\u{e9}]{0,6}", 2),
            numbers in prop::collection::vec(any::<i64>(), 2),
        ) {
            let schema = KeySchema { salt, ..reversed(encoding, &[kind, SqlType::Text]) };
            let value = |at: usize| match kind {
                SqlType::Int2 => Value::Int(i64::from(numbers[at] as i16)),
                SqlType::Int4 => Value::Int(i64::from(numbers[at] as i32)),
                SqlType::Int8 => Value::Int(numbers[at]),
                _ => text(&texts[at]),
            };
            let keys: Vec<_> = (0..2).map(|at| schema.encode(&[value(at), text("x")]).unwrap()).collect();
            for at in 0..2 {
                prop_assert_eq!(schema.decode(&keys[at]).unwrap(), vec![value(at), text("x")]);
                let holds = |other: usize| {
                    let ranges = schema.ranges(&[value(at)], None);
                    ranges.iter().any(|range| range.contains(&keys[other]))
                };
                prop_assert!(holds(at));
                prop_assert_eq!(holds(1 - at), value(0) == value(1));
            }
        }

        #[test]
        fn a_suffix_is_the_prefix_of_those_that_have_it(domain in "[ab.]{0,6}", suffix in "[ab.]{0,3}") {
            if let Some((prefix, exact)) = suffix_prefix(&suffix) {
                let begins = reversed_labels(&domain).starts_with(&prefix);
                prop_assert!(begins || !domain.ends_with(&suffix));
                prop_assert!(!exact || begins == domain.ends_with(&suffix));
            }
            prop_assert_eq!(reversed_labels(&reversed_labels(&domain)), domain);
        }
    }
}
