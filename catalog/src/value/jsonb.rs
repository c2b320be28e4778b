//! jsonb as PostgreSQL prints it: a blank after colon and comma, each key once (the last one given), keys by length,
//! then by their bytes.
//!
//! Documents without escapes, exponents and deep nesting, which are nearly all, are read and written in one pass
//! (`Plain`). Whatever that does not know goes through serde_json, which also says what is wrong with a text. Both
//! make the same of what both read: a property test holds them against each other.

use super::{SqlType, text::bad_json};
use crate::{Error, ErrorKind, Result};
use std::{cmp::Ordering, fmt::Write, ops::Range};

/// Arrays and objects within each other that one pass reads.
const PLAIN_DEPTH_MAX: usize = 64;

/// The text in the form of jsonb.
///
/// # Errors
/// [`BadValue`](ErrorKind::BadValue) for what is no JSON; [`Untranslatable`](ErrorKind::Untranslatable) for the
/// character of number 0.
pub(super) fn normal(text: &str) -> Result<String> {
    let mut plain = Plain::new(text);
    if plain.document().is_some() {
        return Ok(plain.out);
    }
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| bad_json(&error, SqlType::Jsonb))?;
    let mut out = String::with_capacity(text.len());
    write(&value, &mut out)?;
    Ok(out)
}

/// A member of an object within its text: the places of the key without its quotes, and of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The key.
    pub key: Range<usize>,
    /// The value.
    pub value: Range<usize>,
}

/// The text of an object in the form of jsonb, and its members in order. No key, and no string that is a value, has an
/// escape. `None` for what is no such object: it may be one with escapes.
pub fn plain_members(text: &str) -> Option<(String, Vec<Member>)> {
    let mut plain = Plain::new(text);
    plain.blanks();
    if plain.peek()? != b'{' {
        return None;
    }
    plain.keeps = true;
    plain.document()?;
    Some((plain.out, plain.members))
}

/// Reads a document and writes it in the same pass.
struct Plain<'a> {
    text: &'a str,
    at: usize,
    out: String,
    depth: usize,
    /// Members of the objects that are being read, the inner ones last. Places are in `out`.
    members: Vec<Member>,
    /// Whether the members of the outermost object are kept.
    keeps: bool,
}

impl<'a> Plain<'a> {
    fn new(text: &'a str) -> Self {
        // Most texts come without the blanks that are put in.
        let out = String::with_capacity(text.len() + text.len() / 4);
        Self { text, at: 0, out, depth: 0, members: Vec::new(), keeps: false }
    }

    fn document(&mut self) -> Option<()> {
        self.value()?;
        self.blanks();
        (self.at == self.text.len()).then_some(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    /// Goes past this byte, if it is the next one that is no blank.
    fn takes(&mut self, byte: u8) -> bool {
        self.blanks();
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn value(&mut self) -> Option<()> {
        self.blanks();
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::array),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number(),
        }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        self.depth += 1;
        if self.depth > PLAIN_DEPTH_MAX {
            return None;
        }
        read(self)?;
        self.depth -= 1;
        Some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            self.out.push_str(word);
        })
    }

    /// A string without escapes; where it is written, without its quotes.
    fn string(&mut self) -> Option<Range<usize>> {
        let rest = &self.text[self.at + 1..];
        let length = rest.bytes().position(|byte| !is_itself(byte))?;
        if rest.as_bytes()[length] != b'"' {
            return None;
        }
        self.out.push('"');
        let start = self.out.len();
        self.out.push_str(&rest[..length]);
        let end = self.out.len();
        self.out.push('"');
        self.at += length + 2;
        Some(start..end)
    }

    /// A number without an exponent.
    fn number(&mut self) -> Option<()> {
        let rest = &self.text[self.at..];
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let sign = usize::from(rest.starts_with('-'));
        let whole = digits(&rest[sign..]);
        let leads = rest[sign..].starts_with('0');
        if whole == 0 || (leads && whole > 1) {
            return None;
        }
        let mut length = sign + whole;
        if rest[length..].starts_with('.') {
            let fraction = digits(&rest[length + 1..]);
            if fraction == 0 {
                return None;
            }
            length += 1 + fraction;
        }
        // What follows a number ends it, or is left to serde_json.
        if !matches!(rest.as_bytes().get(length), None | Some(b',' | b']' | b'}' | b' ' | b'\n' | b'\t' | b'\r')) {
            return None;
        }
        self.out.push_str(&rest[..length]);
        self.at += length;
        Some(())
    }

    fn array(&mut self) -> Option<()> {
        self.out.push('[');
        self.list(b']', Self::value)?;
        self.out.push(']');
        Some(())
    }

    fn object(&mut self) -> Option<()> {
        let (start, first) = (self.out.len(), self.members.len());
        self.out.push('{');
        self.list(b'}', Self::member)?;
        self.out.push('}');
        self.put_in_order(start, first);
        if !self.keeps || self.depth > 1 {
            self.members.truncate(first);
        }
        Some(())
    }

    /// What stands between commas, up to the bracket that ends it.
    fn list(&mut self, end: u8, item: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        if self.takes(end) {
            return Some(());
        }
        loop {
            item(self)?;
            if self.takes(end) {
                return Some(());
            }
            if !self.takes(b',') {
                return None;
            }
            self.out.push_str(", ");
        }
    }

    fn member(&mut self) -> Option<()> {
        self.blanks();
        if self.peek()? != b'"' {
            return None;
        }
        let key = self.string()?;
        if !self.takes(b':') {
            return None;
        }
        self.out.push_str(": ");
        let value = self.out.len();
        self.value()?;
        self.members.push(Member { key, value: value..self.out.len() });
        Some(())
    }

    /// Writes the members of the object that was written from `start` on anew, where they are not in order; `first` is
    /// the place of its first one.
    fn put_in_order(&mut self, start: usize, first: usize) {
        let of = |range: &Range<usize>| &self.out[range.clone()];
        let order = |a: &Member, b: &Member| key_order(of(&a.key), of(&b.key));
        if self.members[first..].is_sorted_by(|a, b| order(a, b).is_lt()) {
            return;
        }
        let mut members = self.members.split_off(first);
        members.sort_by(order);
        // Of several with one key the last.
        members.reverse();
        members.dedup_by(|other, kept| order(other, kept).is_eq());
        members.reverse();
        let given = self.out.split_off(start);
        self.out.push('{');
        for (at, member) in members.iter_mut().enumerate() {
            self.out.push_str(if at > 0 { ", \"" } else { "\"" });
            for (range, behind) in [(&mut member.key, "\": "), (&mut member.value, "")] {
                let from = self.out.len();
                self.out.push_str(&given[range.start - start..range.end - start]);
                *range = from..self.out.len();
                self.out.push_str(behind);
            }
        }
        self.out.push('}');
        self.members.extend(members);
    }
}

fn write(value: &serde_json::Value, out: &mut String) -> Result<()> {
    match value {
        serde_json::Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write(item, out)?;
            }
            out.push(']');
        }
        serde_json::Value::Object(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by(|(a, _), (b, _)| key_order(a, b));
            out.push('{');
            for (index, (key, item)) in entries.into_iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_string(key, out)?;
                out.push_str(": ");
                write(item, out)?;
            }
            out.push('}');
        }
        serde_json::Value::String(text) => write_string(text, out)?,
        scalar => {
            let _ = write!(out, "{scalar}");
        }
    }
    Ok(())
}

fn write_string(text: &str, out: &mut String) -> Result<()> {
    if text.contains('\0') {
        return Err(Error::new(ErrorKind::Untranslatable, "unsupported Unicode escape sequence")
            .with_detail("\\u0000 cannot be converted to text."));
    }
    quote(text, out);
    Ok(())
}

/// The order of the keys of an object.
pub fn key_order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// Writes a text as a string.
pub fn quote(text: &str, out: &mut String) {
    if text.bytes().all(is_itself) {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&serde_json::Value::String(text.to_owned()).to_string());
    }
}

/// Whether the byte stands for itself in a string.
pub fn is_itself(byte: u8) -> bool {
    byte >= b' ' && !matches!(byte, b'"' | b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As serde_json reads it.
    fn read(text: &str) -> Option<String> {
        let value = serde_json::from_str(text).ok()?;
        let mut out = String::new();
        write(&value, &mut out).ok()?;
        Some(out)
    }

    /// Pieces of JSON, in the right order or not.
    fn texts() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            Just("-0".to_owned()),
            Just("1e5".to_owned()),
            Just("1.".to_owned()),
            Just("01".to_owned()),
            Just("nul".to_owned()),
            "-?[0-9]{1,3}(\\.[0-9]{1,3})?",
            "\"[a-c \\\\\"né\u{7f}\u{1}]{0,3}\"",
        ];
        scalar.prop_recursive(4, 24, 4, |inner| {
            let blank = "[ \n]{0,1}";
            let member = (blank, "[ab\\\\é]{0,2}", blank, inner.clone())
                .prop_map(|(before, key, behind, value)| format!("{before}\"{key}\"{behind}:{value}"));
            prop_oneof![
                (prop::collection::vec(inner, 0..4), blank)
                    .prop_map(|(all, blank)| format!("[{blank}{}]", all.join(","))),
                (prop::collection::vec(member, 0..4), blank)
                    .prop_map(|(all, blank)| format!("{{{}{blank}}}", all.join(","))),
            ]
        })
    }

    proptest! {
        #[test]
        fn one_pass_makes_what_serde_makes(text in texts(), more in "[ ,}x]{0,1}") {
            let text = format!("{text}{more}");
            let mut plain = Plain::new(&text);
            if plain.document().is_some() {
                prop_assert_eq!(Some(plain.out), read(&text));
            }
            prop_assert_eq!(normal(&text).ok(), read(&text));
        }

        #[test]
        fn members_are_those_of_the_object(text in texts()) {
            let Some((out, members)) = plain_members(&text) else { return Ok(()) };
            prop_assert_eq!(Some(out.clone()), read(&text));
            let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&out).unwrap();
            prop_assert_eq!(members.len(), object.len());
            for Member { key, value } in members {
                let found = object.get(&out[key]).map(|value| read(&value.to_string()).unwrap());
                prop_assert_eq!(found.as_deref(), Some(&out[value]));
            }
        }
    }

    #[test]
    fn what_one_pass_reads() {
        let check = |text: &str, want: &str| {
            let mut plain = Plain::new(text);
            assert_eq!(plain.document(), Some(()), "{text}");
            assert_eq!(plain.out, want);
            assert!(plain.members.is_empty());
        };
        check(" {\"bb\":1 , \"a\":[1.50,null,{}, []],\"bb\":\"é\"}", "{\"a\": [1.50, null, {}, []], \"bb\": \"é\"}");
        check("{\"b\":{\"d\":1,\"c\":2},\"a\":-0.5}", "{\"a\": -0.5, \"b\": {\"c\": 2, \"d\": 1}}");
        let (out, members) = plain_members("{\"b\":{\"d\":1,\"c\":2},\"a\":\"x\",\"b\":[]}").unwrap();
        assert_eq!(out, "{\"a\": \"x\", \"b\": []}");
        let all: Vec<_> = members.iter().map(|of| (&out[of.key.clone()], &out[of.value.clone()])).collect();
        assert_eq!(all, [("a", "\"x\""), ("b", "[]")]);
        assert_eq!(plain_members("[1]"), None);
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Plain::new(&deep(PLAIN_DEPTH_MAX)).document().is_some());
        assert!(Plain::new(&deep(PLAIN_DEPTH_MAX + 1)).document().is_none());
        assert_eq!(normal(&deep(PLAIN_DEPTH_MAX + 1)).unwrap(), deep(PLAIN_DEPTH_MAX + 1));
    }
}
