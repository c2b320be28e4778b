//! Statements without their constants: what `pg_stat_statements` and the log of slow statements show.
//!
//! ```text
//! text ──▶ tokens (a lexer of its own: it has to go through texts that no parser takes) ──▶ one text and one number
//! ```
//!
//! Constants become `$n`, behind the parameters that are there, as PostgreSQL's `pg_stat_statements` does; comments go,
//! white space is one space. Lists of constants are one (`IN ($1 /*, ... */)`, as in PostgreSQL 18), rows of VALUES
//! too: else each length of a list would be another statement. Whatever is not certain to be no constant is one: no
//! value of a row gets out of here.

use std::{
    fmt::Write as _,
    hash::{DefaultHasher, Hash, Hasher},
};

/// Bytes of a text that are looked at; what is behind them is cut, and `…` in the result.
pub const TEXT_BYTES_MAX: usize = 16 << 10;

/// A statement without its constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Normal {
    /// Its text.
    pub text: String,
    /// A number for it: the same for statements that differ in constants, white space and the case of words only.
    pub id: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A keyword or a name without quotes.
    Word,
    /// A name in quotes.
    Quoted,
    Constant,
    /// `$n`
    Parameter,
    /// Any other sign; a sequence of operator signs is one.
    Sign,
    /// What was left out of a list.
    More,
}

#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    /// Whether white space or a comment stood before it.
    apart: bool,
}

impl Token<'_> {
    fn is(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }

    fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    fn is_value(&self) -> bool {
        matches!(self.kind, Kind::Constant | Kind::Parameter)
    }
}

/// The `nth` statement of a text, from 0, without its constants; empty statements do not count. `None` if there are not
/// so many within [`TEXT_BYTES_MAX`].
pub fn statement(text: &str, nth: usize) -> Option<Normal> {
    let cut = text.len() > TEXT_BYTES_MAX;
    let tokens = Lexer { text: &text[..text.floor_char_boundary(TEXT_BYTES_MAX)], at: 0 }.tokens();
    let mut statements = tokens.split(|token| token.is(";")).filter(|tokens| !tokens.is_empty());
    let statement = statements.nth(nth)?;
    let is_last = statements.next().is_none();
    Some(normal(&squashed(statement), cut && is_last))
}

/// Tokens without the rest of lists of constants, and of rows of VALUES.
fn squashed<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let more = Token { kind: Kind::More, text: "/*, ... */", apart: true };
    let mut kept: Vec<Token<'a>> = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let before = kept.last().copied();
        // A sign of a number is the number's, where no value stands before it.
        let is_minus = token.is("-") || token.is("+");
        let after_value = before.is_some_and(|before| {
            before.is_value()
                || before.kind == Kind::Quoted
                || before.kind == Kind::Word
                || before.is(")")
                || before.is("]")
        });
        if is_minus
            && !after_value
            && let Some(next) = tokens.get(at + 1).filter(|next| next.kind == Kind::Constant)
        {
            kept.push(Token { apart: token.apart, ..*next });
            at += 2;
            continue;
        }
        kept.push(*token);
        at += 1;
        if token.is("(") || token.is("[") {
            let end = list_end(tokens, at);
            if end > at + 1 {
                kept.push(Token { apart: false, ..tokens[at] });
                kept.push(more);
                at = end;
            }
        } else if token.is_word("VALUES")
            && let Some(end) = row_end(tokens, at)
        {
            let mut rest = end;
            while tokens.get(rest).is_some_and(|token| token.is(","))
                && let Some(next) = row_end(tokens, rest + 1)
            {
                rest = next;
            }
            if rest > end {
                kept.extend(squashed(&tokens[at..end]));
                kept.push(more);
                at = rest;
            }
        }
    }
    kept
}

/// The end of a list of values from `at` on; `at` if it is none, or of one value.
fn list_end(tokens: &[Token<'_>], at: usize) -> usize {
    let mut end = at;
    loop {
        let mut value = end;
        while tokens.get(value).is_some_and(|token| token.is("-") || token.is("+")) {
            value += 1;
        }
        if !tokens.get(value).is_some_and(Token::is_value) {
            return at;
        }
        match tokens.get(value + 1) {
            Some(token) if token.is(",") => end = value + 2,
            Some(token) if token.is(")") || token.is("]") => return if end == at { at } else { value + 1 },
            // Cut within the list.
            None if end > at => return value + 1,
            _ => return at,
        }
    }
}

/// The end of the row in brackets at `at`; the end of all where the text was cut within it.
fn row_end(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    tokens.get(at).filter(|token| token.is("("))?;
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(at) {
        if token.is("(") {
            depth += 1;
        } else if token.is(")") {
            depth -= 1;
            if depth == 0 {
                return Some(place + 1);
            }
        }
    }
    Some(tokens.len())
}

fn normal(tokens: &[Token<'_>], cut: bool) -> Normal {
    let parameters = tokens.iter().filter(|token| token.kind == Kind::Parameter);
    let mut last = parameters.filter_map(|token| token.text[1..].parse::<u32>().ok()).max().unwrap_or(0);
    let (mut text, mut hasher) = (String::new(), DefaultHasher::new());
    for token in tokens {
        if token.apart && !text.is_empty() {
            text.push(' ');
        }
        match token.kind {
            Kind::Constant => {
                last = last.saturating_add(1);
                // Into a String: it does not fail.
                let _ = write!(text, "${last}");
                '?'.hash(&mut hasher);
            }
            Kind::Parameter => {
                text.push_str(token.text);
                '?'.hash(&mut hasher);
            }
            Kind::Word => {
                text.push_str(token.text);
                token.text.to_lowercase().hash(&mut hasher);
            }
            Kind::Quoted | Kind::Sign | Kind::More => {
                text.push_str(token.text);
                token.text.hash(&mut hasher);
            }
        }
    }
    if cut {
        text.push('…');
    }
    Normal { text, id: hasher.finish().cast_signed() }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn tokens(mut self) -> Vec<Token<'a>> {
        let mut tokens = Vec::new();
        loop {
            let before = self.at;
            self.skip_space();
            let (from, apart) = (self.at, self.at > before);
            let Some(kind) = self.next() else { return tokens };
            tokens.push(Token { kind, text: &self.text[from..self.at], apart });
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Moves over characters for as long as they are of a kind.
    fn skip_while(&mut self, is: impl Fn(char) -> bool) {
        self.at += self.rest().find(|c| !is(c)).unwrap_or(self.rest().len());
    }

    /// Moves behind the next occurrence of a text, or to the end.
    fn skip_behind(&mut self, end: &str) {
        self.at += self.rest().find(end).map_or(self.rest().len(), |found| found + end.len());
    }

    /// White space and comments.
    fn skip_space(&mut self) {
        loop {
            let before = self.at;
            self.skip_while(char::is_whitespace);
            if self.rest().starts_with("--") {
                self.skip_while(|c| c != '\n');
            } else if self.rest().starts_with("/*") {
                self.skip_comment();
            }
            if self.at == before {
                return;
            }
        }
    }

    /// A comment, which may hold others.
    fn skip_comment(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.text.len() {
            let step = match (self.byte(0), self.byte(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    2
                }
                (b'*', b'/') => {
                    depth -= 1;
                    2
                }
                _ => self.rest().chars().next().map_or(1, char::len_utf8),
            };
            self.at = (self.at + step).min(self.text.len());
            if depth == 0 {
                return;
            }
        }
    }

    /// Moves over a text in quotes, whose first is the next character.
    fn skip_quoted(&mut self, escapes: bool) {
        let quote = self.rest().chars().next().unwrap_or('\'');
        self.at += quote.len_utf8();
        let mut escaped = false;
        let mut chars = self.rest().char_indices().peekable();
        while let Some((_, c)) = chars.next() {
            if escaped {
                escaped = false;
            } else if escapes && c == '\\' {
                escaped = true;
            } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
                self.at = chars.peek().map_or(self.text.len(), |(next, _)| self.at + next);
                return;
            }
        }
        self.at = self.text.len();
    }

    fn next(&mut self) -> Option<Kind> {
        let first = self.rest().chars().next()?;
        Some(match first {
            '\'' => {
                self.skip_quoted(false);
                Kind::Constant
            }
            '"' => {
                self.skip_quoted(false);
                Kind::Quoted
            }
            '$' if self.byte(1).is_ascii_digit() => {
                self.at += 1;
                self.skip_while(|c| c.is_ascii_digit());
                Kind::Parameter
            }
            '$' => self.dollar(),
            '0'..='9' => self.number(),
            '.' if self.byte(1).is_ascii_digit() => self.number(),
            c if c == '_' || c.is_alphabetic() => self.word(),
            c if OPERATORS.contains(c) => {
                self.operator();
                Kind::Sign
            }
            c => {
                self.at += c.len_utf8();
                Kind::Sign
            }
        })
    }

    /// Signs of an operator, up to a comment. A sign at its end that could be a number's is one of its own.
    fn operator(&mut self) {
        let from = self.at;
        self.at += 1;
        while OPERATORS.contains(char::from(self.byte(0)))
            && self.byte(0) != 0
            && !self.rest().starts_with("--")
            && !self.rest().starts_with("/*")
        {
            self.at += 1;
        }
        while self.at > from + 1 && matches!(self.text.as_bytes()[self.at - 1], b'-' | b'+') {
            self.at -= 1;
        }
    }

    /// `$tag$ … $tag$`, or a sign.
    fn dollar(&mut self) -> Kind {
        let tag = self.rest()[1..].find(|c: char| c != '_' && !c.is_alphanumeric());
        match tag {
            Some(end) if self.byte(1 + end) == b'$' => {
                let tag = &self.rest()[..end + 2];
                self.at += tag.len();
                self.skip_behind(tag);
                Kind::Constant
            }
            _ => {
                self.at += 1;
                Kind::Sign
            }
        }
    }

    /// Anything that begins like a number: all of its letters and digits, so that `0x1F`, `1_000` and `12abc` are
    /// whole.
    fn number(&mut self) -> Kind {
        let mut last = ' ';
        while let Some(c) = self.rest().chars().next() {
            let exponent = matches!(last, 'e' | 'E') && matches!(c, '+' | '-');
            // `1..2` is a range of numbers.
            let point = c == '.' && self.byte(1) != b'.';
            if !(c == '_' || c.is_alphanumeric() || point || exponent) {
                break;
            }
            last = c;
            self.at += c.len_utf8();
        }
        Kind::Constant
    }

    /// A word, or a constant that begins with a letter: `E'…'`, `B'…'`, `X'…'`, `N'…'`, `U&'…'`.
    fn word(&mut self) -> Kind {
        let from = self.at;
        self.skip_while(|c| c == '_' || c == '$' || c.is_alphanumeric());
        let word = &self.text[from..self.at];
        let is = |letters: &str| word.len() == 1 && letters.contains(word);
        match self.byte(0) {
            b'\'' if is("eEbBxXnN") => {
                self.skip_quoted(is("eE"));
                Kind::Constant
            }
            b'&' if is("uU") && matches!(self.byte(1), b'\'' | b'"') => {
                self.at += 1;
                let kind = if self.byte(0) == b'\'' { Kind::Constant } else { Kind::Quoted };
                self.skip_quoted(false);
                kind
            }
            _ => Kind::Word,
        }
    }
}

/// The characters of operators, as PostgreSQL has them.
const OPERATORS: &str = "+-*/<>=~!@#%^&|`?";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(sql: &str) -> String {
        statement(sql, 0).map_or_else(String::new, |normal| normal.text)
    }

    #[test]
    fn constants_become_parameters() {
        for (sql, expected) in [
            ("SELECT 1", "SELECT $1"),
            (
                "SELECT  a,\n b FROM t -- all\n WHERE a = 'it''s' /* a /* b */ c */ AND b>-1.5e-3",
                "SELECT a, b FROM t WHERE a = $1 AND b>$2",
            ),
            (r"SELECT E'a\'b', B'101', x'ff', U&'d\0061t', $$a 'b' $$, $x$ $$ $x$", "SELECT $1, $2, $3, $4, $5, $6"),
            ("SELECT * FROM t WHERE a = $2 AND b = 5 AND c = $1", "SELECT * FROM t WHERE a = $2 AND b = $3 AND c = $1"),
            ("SELECT * FROM t WHERE a IN (1, 2, 3)", "SELECT * FROM t WHERE a IN ($1 /*, ... */)"),
            ("SELECT * FROM t WHERE a IN ($1, -2, $3)", "SELECT * FROM t WHERE a IN ($1 /*, ... */)"),
            ("SELECT ARRAY[1, 2], f(1), a[1]", "SELECT ARRAY[$1 /*, ... */], f($2), a[$3]"),
            (
                "INSERT INTO t VALUES (1, 'a'), (2, f('b')), (3, NULL)",
                "INSERT INTO t VALUES ($1 /*, ... */) /*, ... */",
            ),
            (
                "INSERT INTO t VALUES (1, f(2)), (2, 3) RETURNING a",
                "INSERT INTO t VALUES ($1, f($2)) /*, ... */ RETURNING a",
            ),
            ("CREATE ROLE r PASSWORD 'secret'", "CREATE ROLE r PASSWORD $1"),
            ("SELECT \"a b\", \"x\"\"1\", t1.c2 FROM t1", "SELECT \"a b\", \"x\"\"1\", t1.c2 FROM t1"),
            ("SELECT a-1, a - -1, (-1)", "SELECT a-$1, a - $2, ($3)"),
            ("SELECT 'unclosed secret", "SELECT $1"),
            ("SELECT $tag$ unclosed secret", "SELECT $1"),
            ("SELECT 0x1F, 1_000, .5, 1., 7e+3", "SELECT $1, $2, $3, $4, $5"),
            ("", ""),
            (" ; ", ""),
        ] {
            assert_eq!(text(sql), expected, "{sql}");
        }
    }

    #[test]
    fn statements_of_a_text_are_counted_without_empty_ones() {
        let of = |nth| statement(";SELECT ';' ;; SELECT 2, 3;", nth).map(|normal| normal.text);
        assert_eq!((of(0).as_deref(), of(1).as_deref()), (Some("SELECT $1"), Some("SELECT $1, $2")));
        assert_eq!(of(2), None);
    }

    #[test]
    fn alike_is_what_differs_in_constants() {
        let id = |sql: &str| statement(sql, 0).map(|normal| normal.id);
        assert_eq!(id("select A from t where a = 1"), id("SELECT a FROM  t WHERE a = 'x' --"));
        assert_eq!(id("SELECT 1 WHERE a IN (1, 2)"), id("SELECT 1 WHERE a IN (1, 2, 3)"));
        assert_eq!(id("SELECT a = -1"), id("SELECT a = 1"));
        assert_ne!(id("SELECT \"A\" FROM t"), id("SELECT \"a\" FROM t"));
        assert_ne!(id("SELECT a FROM t"), id("SELECT b FROM t"));
    }

    #[test]
    fn long_texts_are_cut() {
        let long = format!("INSERT INTO t VALUES {}", vec!["(1, 'secret')"; 10_000].join(", "));
        assert_eq!(text(&long), "INSERT INTO t VALUES ($1 /*, ... */) /*, ... */…");
        let long = format!("SELECT {}", vec!["a"; 10_000].join(", "));
        let normal = text(&long);
        assert!(normal.len() <= TEXT_BYTES_MAX + 3 && normal.ends_with('…'), "{}", normal.len());
    }

    proptest! {
        /// No text of a string or number gets out, whatever is around it, and none panics.
        #[test]
        fn no_value_gets_out(
            around in prop::collection::vec("[a-z]{1,5}|[-+*/=(),.;]| |\"[a-z ]\"|--\n|/\\*x\\*/|E|\\$[a-z]\\$ \\$[a-z]\\$", 0..12),
            at in 0_usize..12,
            secret in "[1-9]{12}|'[1-9 a-z]*[1-9]{12}'|\\$q\\$[1-9]{12}\\$q\\$|E'[1-9]{12}\\\\''",
        ) {
            let at = at.min(around.len());
            let sql = format!("{} {secret} {}", around[..at].join(" "), around[at..].join(" "));
            for nth in 0..4 {
                if let Some(normal) = statement(&sql, nth) {
                    let digits = normal.text.bytes().filter(u8::is_ascii_digit).count();
                    prop_assert!(digits < 12, "{sql}: {}", normal.text);
                }
            }
        }

        #[test]
        fn any_text_is_gone_through(sql in ".{0,60}") {
            let _ = statement(&sql, 0);
        }
    }
}
