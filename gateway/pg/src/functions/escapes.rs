//! Texts with escapes in them: `unistr`, and `parse_ident`, which reads names as SQL does.

use super::scalar_function::{
    self, Call, RowFunction, external, returns_text, returns_texts, strict, text_list, text_output,
};
use crate::error::{SqlError, SqlState};
use datafusion::{error::Result, logical_expr::ScalarUDF, scalar::ScalarValue};
use std::sync::Arc;

/// The functions.
pub(super) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    scalar_function::functions(all())
}

fn all() -> [RowFunction; 2] {
    [
        strict("unistr", 1..=1, returns_text, |call| {
            let text = first(call)?;
            Ok(ScalarValue::Utf8View(Some(unescaped(&text).map_err(external)?)))
        }),
        strict("parse_ident", 1..=2, returns_texts, |call| {
            let strict = call.values.get(1).and_then(super::values::bool_of) != Some(false);
            let parts = parts(&first(call)?, strict).map_err(external)?;
            Ok(text_list(parts.into_iter().map(Some)))
        }),
    ]
}

fn first(call: &Call) -> Result<String> {
    Ok(text_output(&call.values[0], &call.fields[0], call.options)?.unwrap_or_default())
}

/// `\XXXX`, `\+XXXXXX`, `\uXXXX`, `\UXXXXXXXX` as characters, `\\` as one backslash; a pair of surrogates as one
/// character.
fn unescaped(text: &str) -> Result<String, SqlError> {
    let invalid = || {
        SqlError::syntax("invalid Unicode escape")
            .with_hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
    };
    let no_pair = || SqlError::syntax("invalid Unicode surrogate pair");
    let (mut out, mut rest, mut high) = (String::with_capacity(text.len()), text, None);
    while let Some(at) = rest.find('\\') {
        if high.is_some() && at > 0 {
            return Err(no_pair());
        }
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('\\') {
            if high.is_some() {
                return Err(no_pair());
            }
            out.push('\\');
            rest = behind;
            continue;
        }
        let (skip, digits) = match rest.as_bytes().first() {
            Some(b'u') => (1, 4),
            Some(b'U') => (1, 8),
            Some(b'+') => (1, 6),
            _ => (0, 4),
        };
        let written = rest.get(skip..skip + digits).filter(|written| written.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = written.and_then(|written| u32::from_str_radix(written, 16).ok()).ok_or_else(invalid)?;
        rest = &rest[skip + digits..];
        let code = match (high.take(), code) {
            (None, 0xD800..=0xDBFF) => {
                high = Some(code);
                continue;
            }
            (Some(high), 0xDC00..=0xDFFF) => 0x1_0000 + ((high - 0xD800) << 10) + (code - 0xDC00),
            (None, code) if !(0xDC00..=0xDFFF).contains(&code) => code,
            _ => return Err(no_pair()),
        };
        let character = char::from_u32(code).filter(|character| *character != '\0').ok_or_else(|| {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid Unicode code point: {code:04X}"))
        })?;
        out.push(character);
    }
    if high.is_some() {
        return Err(no_pair());
    }
    out.push_str(rest);
    Ok(out)
}

/// The parts of a qualified name: those without quotes in lower case. What stands behind a whole name is refused if
/// `strict`.
fn parts(text: &str, strict: bool) -> Result<Vec<String>, SqlError> {
    let is_first = |c: char| c == '_' || c.is_ascii_alphabetic() || !c.is_ascii();
    let is_next = |c: char| is_first(c) || c.is_ascii_digit() || c == '$';
    let invalid = |detail: Option<&str>| {
        let message = format!("string is not a valid identifier: \"{text}\"");
        let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        match detail {
            Some(detail) => error.with_detail(detail),
            None => error,
        }
    };
    let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
    let (mut found, mut rest, mut behind_dot) = (Vec::new(), text.trim_start_matches(blank), false);
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (mut part, mut inner) = (String::new(), quoted);
            loop {
                let end = inner.find('"').ok_or_else(|| invalid(Some("String has unclosed double quotes.")))?;
                part.push_str(&inner[..end]);
                inner = &inner[end + 1..];
                match inner.strip_prefix('"') {
                    Some(more) => {
                        part.push('"');
                        inner = more;
                    }
                    None => break,
                }
            }
            if part.is_empty() {
                return Err(invalid(Some("Quoted identifier must not be empty.")));
            }
            found.push(part);
            rest = inner;
        } else if rest.starts_with(is_first) {
            let end = rest.find(|c| !is_next(c)).unwrap_or(rest.len());
            found.push(rest[..end].to_ascii_lowercase());
            rest = &rest[end..];
        } else if rest.starts_with('.') {
            return Err(invalid(Some("No valid identifier before \".\".")));
        } else if behind_dot {
            return Err(invalid(Some("No valid identifier after \".\".")));
        } else {
            return Err(invalid(None));
        }
        rest = rest.trim_start_matches(blank);
        match rest.strip_prefix('.') {
            Some(behind) => {
                behind_dot = true;
                rest = behind.trim_start_matches(blank);
            }
            None if rest.is_empty() || !strict => return Ok(found),
            None => return Err(invalid(None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_characters() {
        let of = |text: &str| unescaped(text).unwrap_or_else(|error| error.message);
        assert_eq!(of(r"d\0061t\+000061 \u0061\U00000061 \\ \D83D\DE00"), "data aa \\ 😀");
        assert_eq!(of(r"a\006"), "invalid Unicode escape");
        assert_eq!(of(r"\xyz0"), "invalid Unicode escape");
        assert_eq!(of(r"\D83D a"), "invalid Unicode surrogate pair");
        assert_eq!(of(r"\D83D\0061"), "invalid Unicode surrogate pair");
        assert_eq!(of(r"\DE00"), "invalid Unicode surrogate pair");
        assert_eq!(of(r"a\D83D"), "invalid Unicode surrogate pair");
        assert_eq!(of(r"\+FFFFFF"), "invalid Unicode code point: FFFFFF");
        assert_eq!(of("äöü"), "äöü");
    }

    #[test]
    fn names_have_parts() {
        let of = |text: &str, strict| {
            parts(text, strict).map_or_else(|error| error.detail.unwrap_or(error.message), |parts| parts.join("|"))
        };
        assert_eq!(of(r#" Foo . "Bar "" x".b$1 "#, true), r#"foo|Bar " x|b$1"#);
        assert_eq!(of("foo.boo[]", true), "string is not a valid identifier: \"foo.boo[]\"");
        assert_eq!(of("foo.boo[]", false), "foo|boo");
        assert_eq!(of("Ä.b", true), "Ä|b");
        assert_eq!(of("\"x", true), "String has unclosed double quotes.");
        assert_eq!(of("a.\"\"", true), "Quoted identifier must not be empty.");
        assert_eq!(of(".a", true), "No valid identifier before \".\".");
        assert_eq!(of("a.", true), "No valid identifier after \".\".");
        assert_eq!(of("a.1", true), "No valid identifier after \".\".");
        assert_eq!(of("", true), "string is not a valid identifier: \"\"");
    }
}
