//! Arrays of one dimension: item types, comparison, and text. Pure.
//!
//! The text is PostgreSQL's: `{1,2,NULL}`. An item is quoted if it is empty, reads NULL, or contains a blank or a
//! special character.

use super::{
    SqlType, Value,
    exact::Digits,
    seconds::{self, SecondDigits},
};
use crate::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Maximum number of items in a column's array. The size limit of a cell bounds its bytes as well.
pub const ARRAY_ITEMS_MAX: usize = 1 << 20;

/// The type of an array's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemType {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `real`
    Float4,
    /// `double precision`
    Float8,
    /// `numeric(precision, scale)`
    Numeric {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// `numeric` of any number of digits
    Exact(Option<Digits>),
    /// `text`
    Text,
    /// `varchar(n)`, n in characters; `None` for `varchar`.
    Varchar(Option<u32>),
    /// `bytea`
    Bytea,
    /// `date`
    Date,
    /// `uuid`
    Uuid,
    /// `json`
    Json,
    /// `jsonb`
    Jsonb,
    /// `time(p)`
    #[serde(untagged)]
    Time(#[serde(with = "seconds::time")] SecondDigits),
    /// `timestamp(p)`
    #[serde(untagged)]
    Timestamp(#[serde(with = "seconds::timestamp")] SecondDigits),
    /// `timestamptz(p)`
    #[serde(untagged)]
    Timestamptz(#[serde(with = "seconds::timestamptz")] SecondDigits),
    /// `interval(p)`
    #[serde(untagged)]
    Interval(#[serde(with = "seconds::interval")] SecondDigits),
}

impl ItemType {
    /// The item type as a column type.
    pub fn kind(self) -> SqlType {
        match self {
            Self::Bool => SqlType::Bool,
            Self::Int2 => SqlType::Int2,
            Self::Int4 => SqlType::Int4,
            Self::Int8 => SqlType::Int8,
            Self::Float4 => SqlType::Float4,
            Self::Float8 => SqlType::Float8,
            Self::Numeric { precision, scale } => SqlType::Numeric { precision, scale },
            Self::Exact(digits) => SqlType::Exact(digits),
            Self::Text => SqlType::Text,
            Self::Varchar(length) => SqlType::Varchar(length),
            Self::Bytea => SqlType::Bytea,
            Self::Date => SqlType::Date,
            Self::Time(digits) => SqlType::Time(digits),
            Self::Timestamp(digits) => SqlType::Timestamp(digits),
            Self::Timestamptz(digits) => SqlType::Timestamptz(digits),
            Self::Interval(digits) => SqlType::Interval(digits),
            Self::Uuid => SqlType::Uuid,
            Self::Json => SqlType::Json,
            Self::Jsonb => SqlType::Jsonb,
        }
    }
}

impl SqlType {
    /// The array type with items of this type; `None` for `char(n)`, `name`, and for arrays,
    /// since there is only one dimension.
    pub fn array(self) -> Option<SqlType> {
        Some(SqlType::Array(match self {
            Self::Bool => ItemType::Bool,
            Self::Int2 => ItemType::Int2,
            Self::Int4 => ItemType::Int4,
            Self::Int8 => ItemType::Int8,
            Self::Float4 => ItemType::Float4,
            Self::Float8 => ItemType::Float8,
            Self::Numeric { precision, scale } => ItemType::Numeric { precision, scale },
            Self::Exact(digits) => ItemType::Exact(digits),
            Self::Text => ItemType::Text,
            Self::Varchar(length) => ItemType::Varchar(length),
            Self::Bytea => ItemType::Bytea,
            Self::Date => ItemType::Date,
            Self::Time(digits) => ItemType::Time(digits),
            Self::Timestamp(digits) => ItemType::Timestamp(digits),
            Self::Timestamptz(digits) => ItemType::Timestamptz(digits),
            Self::Interval(digits) => ItemType::Interval(digits),
            Self::Uuid => ItemType::Uuid,
            Self::Json => ItemType::Json,
            Self::Jsonb => ItemType::Jsonb,
            Self::Char(_) | Self::Name | Self::Bit(_) | Self::Varbit(_) | Self::Array(_) => return None,
        }))
    }
}

/// Compares two arrays by the first items that differ, NULL last; if none differ, the shorter array is first. `None`
/// for items without an order.
pub(super) fn compare(a: &[Value], b: &[Value]) -> Option<Ordering> {
    for (a, b) in a.iter().zip(b) {
        let order = match (a, b) {
            (Value::Null, Value::Null) => Ordering::Equal,
            (Value::Null, _) => Ordering::Greater,
            (_, Value::Null) => Ordering::Less,
            (a, b) => a.compare(b)?,
        };
        if order.is_ne() {
            return Some(order);
        }
    }
    Some(a.len().cmp(&b.len()))
}

/// The items fitted to the item type, or `None` if they fit as they are.
pub(super) fn fit(items: &[Value], item: ItemType) -> Result<Option<Vec<Value>>> {
    if items.len() > ARRAY_ITEMS_MAX {
        return Err(too_long());
    }
    let mut changed = None;
    for (at, value) in items.iter().enumerate() {
        if let std::borrow::Cow::Owned(fitted) = value.fit(item.kind())? {
            changed.get_or_insert_with(|| items.to_vec())[at] = fitted;
        }
    }
    Ok(changed)
}

fn too_long() -> Error {
    let message = format!("array size exceeds the maximum allowed ({ARRAY_ITEMS_MAX})");
    Error::new(ErrorKind::TooMuch, message)
}

/// Parses an array's text into values.
pub(super) fn parse(text: &str, item: ItemType) -> Result<Vec<Value>> {
    let items = items(text)?;
    if items.len() > ARRAY_ITEMS_MAX {
        return Err(too_long());
    }
    let value = |item_text: Option<String>| item_text.map_or(Ok(Value::Null), |text| Value::parse(&text, item.kind()));
    items.into_iter().map(value).collect()
}

/// Splits an array's text into the texts of its items; `None` for NULL.
///
/// # Errors
/// [`BadValue`](ErrorKind::BadValue) for malformed text, [`Unsupported`](ErrorKind::Unsupported) for an array of
/// several dimensions or with explicit bounds.
pub fn items(text: &str) -> Result<Vec<Option<String>>> {
    let malformed = |detail: &str| {
        Error::new(ErrorKind::BadValue, format!("malformed array literal: \"{text}\"")).with_detail(detail)
    };
    let trimmed = text.trim_matches(BLANKS);
    if trimmed.starts_with('[') {
        return Err(Error::new(ErrorKind::Unsupported, "an array with bounds of its own is not supported"));
    }
    let Some(inner) = trimmed.strip_prefix('{') else {
        return Err(malformed("Array value must start with \"{\" or dimension information."));
    };
    let ends_early = || malformed("Unexpected end of input.");
    let mut items = Vec::new();
    let mut rest = inner.chars().peekable();
    loop {
        while rest.next_if(|c| BLANKS.contains(c)).is_some() {}
        let (mut item, mut kept, mut quoted) = (String::new(), 0, false);
        let end = loop {
            match rest.next().ok_or_else(ends_early)? {
                '"' if quoted || kept > 0 => return Err(malformed("Unexpected array element.")),
                '"' => {
                    quoted = true;
                    loop {
                        match rest.next().ok_or_else(ends_early)? {
                            '"' => break,
                            '\\' => item.push(rest.next().ok_or_else(ends_early)?),
                            other => item.push(other),
                        }
                    }
                    kept = item.len();
                }
                '{' if items.is_empty() && !quoted && kept == 0 => {
                    let message = "an array of more than one dimension is not supported";
                    return Err(Error::new(ErrorKind::Unsupported, message));
                }
                '{' => return Err(malformed("Unexpected \"{\" character.")),
                end @ (',' | '}') => break end,
                blank if BLANKS.contains(&blank) => item.push(blank),
                _ if quoted => return Err(malformed("Unexpected array element.")),
                '\\' => {
                    item.push(rest.next().ok_or_else(ends_early)?);
                    kept = item.len();
                }
                other => {
                    item.push(other);
                    kept = item.len();
                }
            }
        };
        // Trailing blanks do not belong to the item.
        item.truncate(kept);
        let is_nothing = !quoted && item.is_empty();
        if is_nothing && (end == ',' || !items.is_empty()) {
            return Err(malformed(if end == ',' {
                "Unexpected \",\" character."
            } else {
                "Unexpected \"}\" character."
            }));
        }
        if !is_nothing {
            items.push(if !quoted && item.eq_ignore_ascii_case("null") { None } else { Some(item) });
        }
        if end == '}' {
            break;
        }
    }
    if rest.next().is_some() {
        return Err(malformed("Junk after closing right brace."));
    }
    Ok(items)
}

const BLANKS: [char; 6] = [' ', '\t', '\n', '\r', '\x0b', '\x0c'];

/// The text of an array.
pub(super) fn to_text(items: &[Value], item: ItemType) -> String {
    text_of(items, |value| value.to_text(item.kind()))
}

/// The text of an array whose items, but for NULL, are written by a function.
pub fn text_of(items: &[Value], write: impl Fn(&Value) -> String) -> String {
    let mut out = String::from("{");
    for (at, value) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        if *value == Value::Null {
            out.push_str("NULL");
            continue;
        }
        let text = write(value);
        let special = |c: char| matches!(c, '"' | '\\' | '{' | '}' | ',') || BLANKS.contains(&c);
        if !text.is_empty() && !text.eq_ignore_ascii_case("null") && !text.contains(special) {
            out.push_str(&text);
            continue;
        }
        out.push('"');
        for c in text.chars() {
            if matches!(c, '"' | '\\') {
                out.push('\\');
            }
            out.push(c);
        }
        out.push('"');
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(texts: &[&str], expected: Expect) {
        let line = |text: &&str| match items(text) {
            Ok(items) => format!("{text}: {items:?}"),
            Err(error) => {
                format!("{text}: {:?} {error}. {}", error.kind(), error.detail.as_deref().unwrap_or_default())
            }
        };
        expected.assert_eq(&texts.iter().map(line).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn arrays_are_read_as_postgres_reads_them() {
        check(
            &["{}", " { } ", "{1, 2 ,NULL,\"NULL\",\"\"}", r#"{"a b" , a b ,\"x\\\,}"#, "{null}"],
            expect![[r#"
            {}: []
             { } : []
            {1, 2 ,NULL,"NULL",""}: [Some("1"), Some("2"), None, Some("NULL"), Some("")]
            {"a b" , a b ,\"x\\\,}: [Some("a b"), Some("a b"), Some("\"x\\,")]
            {null}: [None]"#]],
        );
        check(
            &[
                "",
                "1,2",
                "{1,2",
                "{1,}",
                "{,1}",
                "{1}2",
                "{\"a\"b}",
                "{a\"b\"}",
                "{a{b}",
                "{{1},{2}}",
                "[0:1]={1,2}",
                "{\"a}",
            ],
            expect![[r#"
                : BadValue malformed array literal: "". Array value must start with "{" or dimension information.
                1,2: BadValue malformed array literal: "1,2". Array value must start with "{" or dimension information.
                {1,2: BadValue malformed array literal: "{1,2". Unexpected end of input.
                {1,}: BadValue malformed array literal: "{1,}". Unexpected "}" character.
                {,1}: BadValue malformed array literal: "{,1}". Unexpected "," character.
                {1}2: BadValue malformed array literal: "{1}2". Junk after closing right brace.
                {"a"b}: BadValue malformed array literal: "{"a"b}". Unexpected array element.
                {a"b"}: BadValue malformed array literal: "{a"b"}". Unexpected array element.
                {a{b}: BadValue malformed array literal: "{a{b}". Unexpected "{" character.
                {{1},{2}}: Unsupported an array of more than one dimension is not supported. 
                [0:1]={1,2}: Unsupported an array with bounds of its own is not supported. 
                {"a}: BadValue malformed array literal: "{"a}". Unexpected end of input."#]],
        );
    }

    proptest! {
        #[test]
        fn texts_come_back(texts in prop::collection::vec(prop::option::of("[a-z \\\\\"{},\t\u{1f600}nulNUL]{0,5}"), 0..5)) {
            let items: Vec<Value> = texts.iter().map(|text| text.clone().map_or(Value::Null, Value::Text)).collect();
            let text = to_text(&items, ItemType::Text);
            prop_assert_eq!(parse(&text, ItemType::Text).unwrap(), items);
        }
    }
}
