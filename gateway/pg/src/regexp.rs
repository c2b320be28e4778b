//! PostgreSQL's regular expressions on two libraries: `regex`, which takes time that grows with the text, and
//! `fancy-regex` for patterns with back references or look-around, which tries one way after another, up to a bound.
//!
//! Differences that are left: of several matches that begin at one place PostgreSQL takes the longest, these libraries
//! the first by the order in the pattern; `\s`, `\w` and classes are Unicode's.

use crate::error::{Result, SqlError, SqlState};
use std::{cell::RefCell, collections::VecDeque, ops::Range};

/// Steps of a match that looks back, at most.
const STEPS_MAX: usize = 1_000_000;

/// A compiled pattern. Clones share it.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// One of regular languages.
    Regular(regex::Regex),
    /// One with back references or look-around.
    Backtracking(std::sync::Arc<fancy_regex::Regex>),
}

/// Where a pattern matched: all of it, then its groups.
pub type Match = Vec<Option<Range<usize>>>;

impl Pattern {
    /// Compiles a pattern with PostgreSQL's flags. Those that a thread has compiled last are kept: a column of texts
    /// has most often one pattern, and compiling it takes up to tens of milliseconds.
    ///
    /// # Errors
    /// 2201B for an invalid pattern, 22023 for an unknown flag.
    pub fn new(pattern: &str, flags: &str) -> Result<Self> {
        /// Patterns that a thread keeps.
        const KEPT: usize = 8;
        thread_local! {
            static NEWEST: RefCell<VecDeque<((String, String), Pattern)>> = const { RefCell::new(VecDeque::new()) };
        }
        NEWEST.with_borrow_mut(|newest| {
            if let Some((_, found)) = newest.iter().find(|((of, with), _)| of == pattern && with == flags) {
                return Ok(found.clone());
            }
            let compiled = compile(pattern, flags)?;
            newest.truncate(KEPT - 1);
            newest.push_front(((pattern.to_owned(), flags.to_owned()), compiled.clone()));
            Ok(compiled)
        })
    }

    /// As [`new`](Self::new), for a function that does not look for all matches.
    ///
    /// # Errors
    /// Those of `new`; 22023 for `g`.
    pub fn of_one_match(pattern: &str, flags: &str, function: &str) -> Result<Self> {
        if flags.contains('g') {
            let message = format!("{function}() does not support the \"global\" option");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        Self::new(pattern, flags)
    }

    /// Whether it occurs in a text.
    ///
    /// # Errors
    /// 54000 where that takes more than [`STEPS_MAX`] steps.
    pub fn is_match(&self, text: &str) -> Result<bool> {
        match self {
            Self::Regular(pattern) => Ok(pattern.is_match(text)),
            Self::Backtracking(pattern) => pattern.is_match(text).map_err(|error| too_complex(&error)),
        }
    }

    /// Its first matches in a text, `most` of them.
    ///
    /// # Errors
    /// As [`is_match`](Self::is_match).
    pub fn matches(&self, text: &str, most: usize) -> Result<Vec<Match>> {
        let mut all = Vec::new();
        self.each_match(text, most, |_, found| {
            all.push(found);
            Ok::<_, SqlError>(())
        })?;
        Ok(all)
    }

    /// Hands on its first matches in a text, `most` of them, each with its number from 0 on.
    ///
    /// # Errors
    /// As [`is_match`](Self::is_match), and those of `take`, which end it.
    pub fn each_match<E: From<SqlError>>(
        &self,
        text: &str,
        most: usize,
        mut take: impl FnMut(usize, Match) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        match self {
            Self::Regular(pattern) => {
                for (number, captures) in pattern.captures_iter(text).take(most).enumerate() {
                    take(number, captures.iter().map(|group| group.map(|group| group.range())).collect())?;
                }
            }
            Self::Backtracking(pattern) => {
                for (number, captures) in pattern.captures_iter(text).take(most).enumerate() {
                    let captures = captures.map_err(|error| too_complex(&error))?;
                    take(number, captures.iter().map(|group| group.map(|group| group.range())).collect())?;
                }
            }
        }
        Ok(())
    }
}

/// The options at the beginning of a pattern, `(?ix)`, and the pattern behind them.
fn own_options(pattern: &str) -> Option<(&str, &str)> {
    let (options, rest) = pattern.strip_prefix("(?")?.split_once(')')?;
    let letters = !options.is_empty() && options.bytes().all(|byte| byte.is_ascii_lowercase());
    letters.then_some((options, rest))
}

/// A pattern that `regex` reads as PostgreSQL does, as it has to be written for it; `None` for others.
pub fn regular(pattern: &str) -> Option<String> {
    let ours = own_options(pattern).is_some()
        || pattern.contains("[[:<:]]")
        || pattern.contains("[[:>:]]")
        || pattern.starts_with("***");
    let mut escaped = false;
    let mut own_escape = |c: char| {
        let is = escaped && matches!(c, 'y' | 'Y' | 'm' | 'M' | 'Z');
        escaped = c == '\\' && !escaped;
        is
    };
    if ours || pattern.chars().any(&mut own_escape) || regex::Regex::new(pattern).is_err() {
        return None;
    }
    // A point is any character.
    Some(if pattern.contains('.') { format!("(?s){pattern}") } else { pattern.to_owned() })
}

fn too_complex(_: &fancy_regex::Error) -> SqlError {
    let message = format!("regular expression failed: it takes more than {STEPS_MAX} steps to match");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

fn compile(pattern: &str, flags: &str) -> Result<Pattern> {
    let mut options = String::from("s");
    let mut is_literal = false;
    for flag in flags.chars() {
        match flag {
            'i' => options.push('i'),
            'c' => options.retain(|option| option != 'i'),
            'n' | 'm' => {
                options.retain(|option| option != 's');
                options.push('m');
            }
            's' => {
                options.retain(|option| option != 'm' && option != 's');
                options.push('s');
            }
            'w' => options.push('m'),
            'p' => options.retain(|option| option != 's'),
            'x' => options.push('x'),
            'q' => is_literal = true,
            'g' | 't' | 'e' | 'b' => {}
            other => {
                let message = format!("invalid regular expression option: \"{other}\"");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        }
    }
    // Options within the pattern are those behind it, at its beginning.
    if let Some((own, rest)) = own_options(pattern) {
        return compile(rest, &format!("{flags}{own}"));
    }
    let literal = pattern.strip_prefix("***=").or(is_literal.then_some(pattern));
    let body = match literal {
        Some(text) => regex::escape(text),
        None => translated(pattern.strip_prefix("***:").unwrap_or(pattern)),
    };
    let whole = if options.is_empty() { body } else { format!("(?{options}){body}") };
    if let Ok(regular) = regex::Regex::new(&whole) {
        return Ok(Pattern::Regular(regular));
    }
    let backtracking = fancy_regex::RegexBuilder::new(&whole).backtrack_limit(STEPS_MAX).build();
    backtracking.map(|pattern| Pattern::Backtracking(pattern.into())).map_err(|error| {
        let message = format!("invalid regular expression: {}", error.to_string().lines().last().unwrap_or_default());
        SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, message)
    })
}

/// PostgreSQL's escapes for the bounds of words and texts as look-around.
fn translated(pattern: &str) -> String {
    const BEGINS: &str = r"\b(?=\w)";
    const ENDS: &str = r"\b(?<=\w)";
    let pattern = pattern.replace("[[:<:]]", BEGINS).replace("[[:>:]]", ENDS);
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('y') => out.push_str(r"\b"),
            Some('Y') => out.push_str(r"\B"),
            Some('m') => out.push_str(BEGINS),
            Some('M') => out.push_str(ENDS),
            Some('Z') => out.push_str(r"\z"),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, text: &str) -> Vec<String> {
        let found = Pattern::new(pattern, "").unwrap().matches(text, usize::MAX).unwrap();
        found.into_iter().map(|groups| text[groups[0].clone().unwrap()].to_owned()).collect()
    }

    #[test]
    fn words_have_bounds_and_references_look_back() {
        assert_eq!(found(r"\mfoo\M", "foo food foo"), ["foo", "foo"]);
        assert_eq!(found(r"(.)\1", "abba aab"), ["bb", "aa"]);
        assert_eq!(found("foo(?=bar)", "foobar foo"), ["foo"]);
        assert_eq!(found("(?<!a)b", "ab b"), ["b"]);
        assert_eq!(found("a.b", "a\nb"), ["a\nb"]);
        assert!(matches!(Pattern::new("a+", "").unwrap(), Pattern::Regular(_)));
    }

    #[test]
    fn a_match_has_an_end() {
        let pattern = Pattern::new(r"(a+)+\1$", "").unwrap();
        let error = pattern.is_match(&format!("{}b", "a".repeat(200))).unwrap_err();
        assert_eq!(error.state, SqlState::PROGRAM_LIMIT_EXCEEDED);
        assert_eq!(Pattern::new("(", "").unwrap_err().state, SqlState::INVALID_REGULAR_EXPRESSION);
        assert_eq!(Pattern::new("a", "?").unwrap_err().state, SqlState::INVALID_PARAMETER_VALUE);
    }

    #[test]
    fn what_both_libraries_read_alike_is_left_to_the_faster() {
        assert_eq!(regular("^(a|b)$").as_deref(), Some("^(a|b)$"));
        assert_eq!(regular("a.c").as_deref(), Some("(?s)a.c"));
        for other in [r"(a)\1", r"\mfoo", "a(?=b)", "[[:<:]]a", "***=a.b", "("] {
            assert_eq!(regular(other), None, "{other}");
        }
    }
}
