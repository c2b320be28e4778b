//! `jsonb @> jsonb`: the part is prepared, for many documents once, and looked for in their texts.
//!
//! PostgreSQL's rules: an object contains members, an array contains items in any order and number of times, and at the
//! top also a scalar that is one of its items; numbers are equal by value ([`digits`]).

use super::scan;
use crate::error::Result;
use serde_json::Value;

/// What is looked for.
#[derive(Debug)]
pub(super) enum Part {
    Object(Vec<(String, Part)>),
    Array(Vec<Part>),
    String(String),
    /// A number by its text and its value.
    Number(String, (bool, String, i64)),
    /// `true`, `false`, `null`
    Word(&'static str),
}

impl From<Value> for Part {
    fn from(value: Value) -> Self {
        match value {
            Value::Object(members) => {
                Self::Object(members.into_iter().map(|(key, value)| (key, value.into())).collect())
            }
            Value::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Value::String(text) => Self::String(text),
            Value::Number(number) => {
                let text = number.to_string();
                let value = digits(&text);
                Self::Number(text, value)
            }
            Value::Bool(true) => Self::Word("true"),
            Value::Bool(false) => Self::Word("false"),
            Value::Null => Self::Word("null"),
        }
    }
}

impl Part {
    /// Whether a document contains the part.
    ///
    /// # Errors
    /// 22P02 for what is no JSON.
    pub(super) fn is_in(&self, document: &str) -> Result<bool> {
        let document = document.trim_ascii();
        match self {
            Self::String(_) | Self::Number(..) | Self::Word(_) if document.starts_with('[') => {
                Ok(scan::items(document)?.into_iter().any(|item| self.is(item)))
            }
            _ => self.is_within(document),
        }
    }

    fn is_within(&self, value: &str) -> Result<bool> {
        match self {
            Self::Object(members) => {
                if !value.starts_with('{') {
                    return Ok(false);
                }
                for (key, part) in members {
                    match scan::member(value, key)? {
                        Some(member) if part.is_within(member)? => {}
                        _ => return Ok(false),
                    }
                }
                Ok(true)
            }
            Self::Array(parts) => {
                if !value.starts_with('[') {
                    return Ok(false);
                }
                let items = scan::items(value)?;
                for part in parts {
                    let mut found = false;
                    for item in &items {
                        found = found || part.is_within(item)?;
                    }
                    if !found {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            scalar => Ok(scalar.is(value)),
        }
    }

    /// Whether a scalar is this one.
    fn is(&self, value: &str) -> bool {
        match self {
            Self::String(text) => value.starts_with('"') && scan::string(value).is_ok_and(|value| *value == **text),
            Self::Number(text, number) => {
                text == value || value.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && digits(value) == *number
            }
            Self::Word(word) => value == *word,
            Self::Object(_) | Self::Array(_) => false,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::json::change::parsed;
    use proptest::{collection::vec, prelude::*};

    /// The same of trees.
    /// Whether `whole` contains `part`. An array contains a scalar that is one of its items, but only at the top.
    fn contains(whole: &Value, part: &Value, top: bool) -> bool {
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

    fn values() -> impl Strategy<Value = Value> {
        let numbers = prop::sample::select(vec!["1", "1.0", "10", "1e1", "-1", "0", "-0.0", "12.50", "12.5"]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            numbers.prop_map(|text| serde_json::from_str(text).unwrap()),
            prop::sample::select(vec!["a", "b", "", "q\"\\\u{e9}\n", "1"]).prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..3).prop_map(Value::Array),
                vec((prop::sample::select(vec!["a", "b", "c\"", "\u{e9}"]), inner), 0..3)
                    .prop_map(|members| members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
            ]
        })
    }

    proptest! {
        /// As the trees of both say.
        #[test]
        fn texts_contain_what_trees_contain(whole in values(), part in values(), pretty in any::<bool>()) {
            let written = if pretty { serde_json::to_string_pretty } else { serde_json::to_string };
            let text = written(&whole).unwrap();
            let expected = contains(&whole, &part, true);
            prop_assert_eq!(Part::from(part).is_in(&text).unwrap(), expected);
            // Of itself, each value is a part.
            prop_assert!(Part::from(whole).is_in(&text).unwrap());
        }
    }

    fn is_in(part: &str, whole: &str) -> bool {
        Part::from(parsed(part).unwrap()).is_in(whole).unwrap()
    }

    #[test]
    fn numbers_that_are_equal_contain_each_other() {
        assert!(is_in("[1]", "[1.0, 2]"));
        assert!(is_in("1e2", "100"));
        assert!(!is_in("[1]", "[10]"));
        assert!(!is_in("1", "[[1]]"));
    }

    #[test]
    fn a_scalar_is_an_item_only_at_the_top() {
        assert!(is_in("1", "[2, 1.00]"));
        assert!(!is_in("[1]", "[[1], 2]"));
        assert!(!is_in("{\"a\": 1}", "{\"a\": [1]}"));
        assert!(is_in("{\"a\": [1]}", "{\"a\": [3, 1, {}]}"));
        assert!(is_in("[]", "[]") && is_in("{}", "{\"a\": null}") && !is_in("{}", "[]") && !is_in("[]", "{}"));
    }
}
