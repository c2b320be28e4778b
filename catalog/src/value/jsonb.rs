//! jsonb as PostgreSQL prints it: a blank after colon and comma, each key once (the last one given), keys by length,
//! then by their bytes.
//!
//! Documents without escapes, exponents and deep nesting, which are nearly all, are read and written in one pass
//! (`Plain`). Whatever that does not know goes through serde_json, which also says what is wrong with a text. Both
//! make the same of what both read: a property test holds them against each other.

use super::text::bad_json;
use crate::{Error, ErrorKind, Result};
use std::{borrow::Cow, cmp::Ordering, ops::Range};

/// Arrays and objects within each other that one pass reads.
const PLAIN_DEPTH_MAX: usize = 64;

/// The text in the form of jsonb.
///
/// # Errors
/// [`BadValue`](ErrorKind::BadValue) for what is no JSON; [`Untranslatable`](ErrorKind::Untranslatable) for the
/// character of number 0.
pub fn normal(text: &str) -> Result<String> {
    let mut plain = Plain::new(text);
    if plain.document().is_some() {
        return Ok(plain.written().into_owned());
    }
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| bad_json(&error))?;
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
pub fn plain_members(text: &str) -> Option<(Cow<'_, str>, Vec<Member>)> {
    let mut plain = Plain::new(text);
    plain.blanks();
    if plain.peek()? != b'{' {
        return None;
    }
    plain.keeps = true;
    plain.document()?;
    let members = std::mem::take(&mut plain.members);
    Some((plain.written(), members))
}

/// Whether a text is a number in the form of jsonb, without an exponent.
pub fn is_plain_number(text: &str) -> bool {
    let mut plain = Plain::new(text);
    plain.number().is_some() && plain.at == text.len()
}

/// Reads a document and writes it in the same pass. What has the form already is copied in large pieces, and not at all
/// where that is the whole text.
struct Plain<'a> {
    text: &'a str,
    at: usize,
    /// What is written, but for the text from `copied` to `at`, which belongs behind it.
    out: String,
    copied: usize,
    depth: usize,
    /// Members of the objects that are being read, the inner ones last. Places are in what is written.
    members: Vec<Member>,
    /// Whether the members of the outermost object are kept.
    keeps: bool,
}

impl<'a> Plain<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0, out: String::new(), copied: 0, depth: 0, members: Vec::new(), keeps: false }
    }

    fn document(&mut self) -> Option<()> {
        self.value()?;
        self.blanks();
        (self.at == self.text.len()).then_some(())
    }

    /// What was read in the form of jsonb.
    fn written(mut self) -> Cow<'a, str> {
        if self.out.is_empty() {
            return Cow::Borrowed(&self.text[self.copied..self.at]);
        }
        self.copy();
        Cow::Owned(self.out)
    }

    /// Where the next byte that is read will stand in what is written.
    fn place(&self) -> usize {
        self.out.len() + self.at - self.copied
    }

    /// Writes what was read up to here.
    fn copy(&mut self) {
        if self.out.capacity() == 0 {
            // Most texts come without the blanks that are put in.
            self.out.reserve(self.text.len() + self.text.len() / 4);
        }
        self.out.push_str(&self.text[self.copied..self.at]);
        self.copied = self.at;
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Leaves blanks out.
    fn blanks(&mut self) {
        let is_blank = |byte| matches!(byte, Some(b' ' | b'\n' | b'\t' | b'\r'));
        if !is_blank(self.peek()) {
            return;
        }
        if self.copied < self.at {
            self.copy();
        }
        while is_blank(self.peek()) {
            self.at += 1;
        }
        self.copied = self.at;
    }

    /// Goes past this byte, if it is the next one that is no blank.
    fn takes(&mut self, byte: u8) -> bool {
        self.blanks();
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// As [`takes`](Self::takes), for a byte that a blank follows where it is written.
    fn takes_before_blank(&mut self, byte: u8) -> bool {
        if !self.takes(byte) {
            return false;
        }
        if self.peek() == Some(b' ') {
            self.at += 1;
        } else {
            self.copy();
            self.out.push(' ');
        }
        true
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
        self.depth += 1;
        if self.depth > PLAIN_DEPTH_MAX {
            return None;
        }
        read(self)?;
        self.depth -= 1;
        Some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    /// A string without escapes: where it stands in the text, without its quotes.
    fn string(&mut self) -> Option<Range<usize>> {
        let start = self.at + 1;
        let rest = &self.text.as_bytes()[start..];
        let length = rest.iter().position(|byte| !is_itself(*byte))?;
        if rest[length] != b'"' {
            return None;
        }
        self.at = start + length + 1;
        Some(start..start + length)
    }

    /// A number without an exponent, and no zero with a sign.
    fn number(&mut self) -> Option<()> {
        let rest = &self.text.as_bytes()[self.at..];
        let digits = |from: usize| rest[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let sign = usize::from(rest.starts_with(b"-"));
        let whole = digits(sign);
        let leads = rest.get(sign) == Some(&b'0');
        if whole == 0 || (leads && whole > 1) {
            return None;
        }
        let mut length = sign + whole;
        if rest.get(length) == Some(&b'.') {
            let fraction = digits(length + 1);
            if fraction == 0 {
                return None;
            }
            length += 1 + fraction;
        }
        if sign > 0 && !rest[..length].iter().any(|byte| matches!(byte, b'1'..=b'9')) {
            return None;
        }
        // What follows a number ends it, or is left to serde_json.
        if !matches!(rest.get(length), None | Some(b',' | b']' | b'}' | b' ' | b'\n' | b'\t' | b'\r')) {
            return None;
        }
        self.at += length;
        Some(())
    }

    fn array(&mut self) -> Option<()> {
        self.list(b']', Self::value)
    }

    fn object(&mut self) -> Option<()> {
        let (start, first) = (self.place(), self.members.len());
        let (mut last, mut is_sorted) = (None::<&str>, true);
        self.list(b'}', |plain| {
            let key = plain.member()?;
            is_sorted &= last.is_none_or(|last| key_order(last, key).is_lt());
            last = Some(key);
            Some(())
        })?;
        if !is_sorted {
            self.put_in_order(start, first);
        }
        if !self.keeps || self.depth > 1 {
            self.members.truncate(first);
        }
        Some(())
    }

    /// A bracket, what stands between commas, and the bracket that ends it.
    fn list(&mut self, end: u8, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        if self.takes(end) {
            return Some(());
        }
        loop {
            item(self)?;
            if self.takes(end) {
                return Some(());
            }
            if !self.takes_before_blank(b',') {
                return None;
            }
        }
    }

    /// A member of an object; its key.
    fn member(&mut self) -> Option<&'a str> {
        self.blanks();
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.place() + 1;
        let key = self.string()?;
        let place = start..start + key.len();
        if !self.takes_before_blank(b':') {
            return None;
        }
        self.blanks();
        let value = self.place();
        self.value()?;
        self.members.push(Member { key: place, value: value..self.place() });
        Some(&self.text[key])
    }

    /// Writes the members of the object that was written from `start` on anew, in order; `first` is the place of its
    /// first one.
    fn put_in_order(&mut self, start: usize, first: usize) {
        self.copy();
        let of = |range: &Range<usize>| &self.out[range.clone()];
        let order = |a: &Member, b: &Member| key_order(of(&a.key), of(&b.key));
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

/// Writes a value in the form of jsonb.
///
/// # Errors
/// [`Untranslatable`](ErrorKind::Untranslatable) for the character of number 0.
pub fn write(value: &serde_json::Value, out: &mut String) -> Result<()> {
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
        serde_json::Value::Number(number) => write_number(&number.to_string(), out),
        serde_json::Value::Bool(true) => out.push_str("true"),
        serde_json::Value::Bool(false) => out.push_str("false"),
        serde_json::Value::Null => out.push_str("null"),
    }
    Ok(())
}

/// Writes a number as numeric prints it: without exponent, and zero without a sign. One of a thousand digits and more
/// keeps its exponent, so that a short text does not become a long one.
fn write_number(number: &str, out: &mut String) {
    const DIGITS_MAX: i64 = 1_000;
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let sign = if mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9')) { sign } else { "" };
    out.push_str(sign);
    let exponent = match exponent.parse::<i64>() {
        Ok(0) => return out.push_str(mantissa),
        Ok(exponent) if exponent.abs() < DIGITS_MAX => exponent,
        _ => return out.push_str(number.strip_prefix('-').unwrap_or(number)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let point = i64::try_from(whole.len()).unwrap_or(0) + exponent;
    let length = i64::try_from(digits.len()).unwrap_or(0);
    let zeroes = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
    let text = match point {
        point if point <= 0 => format!("0.{}{digits}", zeroes(-point)),
        point if point >= length => format!("{digits}{}", zeroes(point - length)),
        point => {
            let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
            format!("{whole}.{fraction}")
        }
    };
    let bare = text.trim_start_matches('0');
    if bare.is_empty() || bare.starts_with('.') {
        out.push('0');
    }
    out.push_str(bare);
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
                prop_assert_eq!(Some(plain.written().into_owned()), read(&text));
            }
            prop_assert_eq!(normal(&text).ok(), read(&text));
        }

        #[test]
        fn members_are_those_of_the_object(text in texts()) {
            let Some((out, members)) = plain_members(&text) else { return Ok(()) };
            prop_assert_eq!(Some(out.to_string()), read(&text));
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
            assert!(plain.members.is_empty());
            assert_eq!(plain.written(), want);
        };
        check(" {\"bb\":1 , \"a\":[1.50,null,{}, []],\"bb\":\"é\"}", "{\"a\": [1.50, null, {}, []], \"bb\": \"é\"}");
        check("{\"b\":{\"d\":1,\"c\":2},\"a\":-0.5}", "{\"a\": -0.5, \"b\": {\"c\": 2, \"d\": 1}}");
        check(" {\"a\": [1, 2],\t\"b\": {\"c\":  3}, \"d\": 4}\n", "{\"a\": [1, 2], \"b\": {\"c\": 3}, \"d\": 4}");
        for text in ["-0", "[-0.00]", "1e5", "\"\\n\""] {
            assert!(Plain::new(text).document().is_none(), "{text}");
        }
        for text in ["{\"a\": [1, -0.10], \"b\": null}", " true"] {
            let mut plain = Plain::new(text);
            plain.document().unwrap();
            assert!(
                matches!(plain.written(), Cow::Borrowed(same) if same == text.trim()),
                "nothing is copied of {text}"
            );
        }
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
