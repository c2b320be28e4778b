//! A filter's patterns: regular expressions over bytes that match the whole text.

use crate::{Error, Result};
use regex::bytes::{Regex, RegexBuilder};

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Regex);

impl Pattern {
    /// # Errors
    /// [`Error::Invalid`] for a pattern that does not parse or would take too much memory.
    pub(super) fn new(pattern: &str) -> Result<Self> {
        let compile = |pattern: &str| RegexBuilder::new(pattern).unicode(false).build();
        let any_byte = with_any_byte(pattern);
        // Compiled alone first: `a)(b` must not become valid inside a group.
        let whole = compile(&any_byte).and_then(|_| compile(&format!(r"\A(?:{any_byte})\z")));
        whole.map(Self).map_err(|error| Error::Invalid(format!("the pattern {pattern:?} is not valid: {error}")))
    }

    pub(super) fn matches(&self, bytes: &[u8]) -> bool {
        self.0.is_match(bytes)
    }
}

/// RE2's `\C`, any byte at all, in the syntax of the `regex` crate.
fn with_any_byte(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('C') => out.push_str("(?s-u:.)"),
                Some(escaped) => out.extend(['\\', escaped]),
                None => out.push('\\'),
            },
            _ => out.push(character),
        }
    }
    out
}
