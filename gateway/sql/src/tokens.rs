//! The tokens of one statement and a position among them.
//!
//! Positions in errors are characters of the whole text from 1, as PostgreSQL counts them.

use crate::names::in_schema;
use datafusion::sql::sqlparser::{
    ast::{Expr, VisitMut},
    dialect::PostgreSqlDialect,
    parser::{Parser, ParserError},
    tokenizer::{Location, Token, TokenWithSpan, Tokenizer},
};
use keyspan_pg::{
    error::{Result, SqlError, SqlState},
    names::{RelationName, target_of},
    syntax::{balance::balance, dialect::BoundedDialect},
};

mod calls;
pub(crate) mod complexity;
mod forms;
mod grouping_sets;
pub(crate) mod subscripts;
pub(crate) mod writing_with;

/// Bytes of a text of statements. Values that are sent as parameters are not part of it.
const STATEMENT_BYTES_MAX: usize = 64 << 20;
/// Clauses that a statement may have [cut out](TokenReader::cut_expressions): each is read from a copy of what follows.
const CUTS_MAX: usize = 256;

/// An expression that was cut out of a statement.
pub(crate) struct Cut {
    /// The expression.
    pub(crate) expression: Expr,
    /// The token before the words that introduce it.
    pub(crate) before: Option<TokenWithSpan>,
    /// 42601 at these words.
    pub(crate) misplaced: SqlError,
}

/// The tokens of one statement, without white space and comments.
pub(crate) struct TokenReader<'a> {
    sql: &'a str,
    /// The session's database, which names may begin with.
    database: &'a str,
    tokens: Vec<TokenWithSpan>,
    index: usize,
    /// AND and OR of the longest chain.
    longest_chain: usize,
    /// The location of the sign that ends the statement, a semicolon or a parenthesis, if there is one.
    end: Option<Location>,
}

impl<'a> TokenReader<'a> {
    /// Cuts the text into statements and leaves out empty ones; text without a statement gives one empty statement.
    pub(crate) fn split(sql: &'a str, database: &'a str) -> Result<Vec<Self>> {
        if sql.len() > STATEMENT_BYTES_MAX {
            let message = format!("a statement has more than {} MiB", STATEMENT_BYTES_MAX >> 20);
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_hint("COPY loads many rows."));
        }
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().map_err(|error| {
            let near = text_from(sql, error.location);
            at(sql, error.location, SqlError::syntax(tokenizer_message(&error.message, &near)))
        })?;
        if tokens.len() > complexity::TOKENS_MAX {
            let message = format!("a statement has more than {} words and signs", complexity::TOKENS_MAX);
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_hint("COPY loads many rows."));
        }
        let (mut statements, mut current) = (Vec::new(), Vec::new());
        let mut push = |tokens: &mut Vec<TokenWithSpan>, end: Option<Location>| {
            if !tokens.is_empty() {
                let longest_chain = complexity::check(tokens)?;
                calls::rewrite(tokens);
                grouping_sets::rewrite(tokens);
                statements.push(Self {
                    tokens: std::mem::take(tokens),
                    longest_chain,
                    end,
                    ..Self::empty(sql, database)
                });
            }
            Ok::<_, SqlError>(())
        };
        // A semicolon inside parentheses ends no statement: it stays, and is a syntax error at its own position.
        let (mut depth, mut number_before) = (0_usize, None);
        for token in tokens {
            forms::refuse_junk(sql, &mut number_before, &token)?;
            match &token.token {
                Token::Whitespace(_) | Token::EOF => continue,
                Token::Word(word) if target_of(&word.value).is_some() => {
                    let message = format!("schema \"{}\" does not exist", word.value);
                    let error = SqlError::new(SqlState::INVALID_SCHEMA_NAME, message);
                    return Err(at(sql, token.span.start, error));
                }
                Token::SemiColon if depth == 0 => {
                    push(&mut current, Some(token.span.start))?;
                    continue;
                }
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ => {}
            }
            forms::push(&mut current, token);
        }
        push(&mut current, None)?;
        if statements.is_empty() {
            statements.push(Self::empty(sql, database));
        }
        Ok(statements)
    }

    fn empty(sql: &'a str, database: &'a str) -> Self {
        Self { sql, database, tokens: Vec::new(), index: 0, longest_chain: 0, end: None }
    }

    pub(crate) fn at_end(&self) -> bool {
        self.index >= self.tokens.len()
    }

    pub(crate) fn peek(&self) -> Option<&Token> {
        self.peek_nth(0)
    }

    pub(crate) fn peek_nth(&self, n: usize) -> Option<&Token> {
        self.tokens.get(self.index + n).map(|token| &token.token)
    }

    pub(crate) fn advance(&mut self) {
        self.index += 1;
    }

    /// The next token as [`unquoted_word`].
    pub(crate) fn head(&self) -> String {
        self.head_nth(0)
    }

    pub(crate) fn head_nth(&self, n: usize) -> String {
        unquoted_word(self.peek_nth(n))
    }

    /// Whether the words come next or later.
    pub(crate) fn contains(&self, words: &[&str]) -> bool {
        let count = self.tokens.len().saturating_sub(self.index);
        (0..count).any(|from| words.iter().enumerate().all(|(at, word)| is_word(self.peek_nth(from + at), word)))
    }

    /// Removes an unquoted word at the end of the statement; `false` if it is not there, or a name: behind one of the
    /// words `before`, or behind a sign that no expression ends with.
    pub(crate) fn cut_last_word(&mut self, word: &str, before: &[&str]) -> bool {
        let [.., previous, last] = self.tokens.as_slice() else { return false };
        let ends = match &previous.token {
            Token::Word(found) => {
                found.quote_style.is_some() || !before.iter().any(|word| found.value.eq_ignore_ascii_case(word))
            }
            Token::RParen | Token::RBracket | Token::Number(..) | Token::Placeholder(_) => true,
            Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::DollarQuotedString(_) => true,
            _ => false,
        };
        if !ends || !is_word(Some(&last.token), word) {
            return false;
        }
        self.tokens.pop();
        true
    }

    /// Removes unquoted words outside of brackets, before the first of the words `before`; `false` if they are not
    /// there.
    pub(crate) fn cut_words(&mut self, words: &[&str], before: &[&str]) -> bool {
        let mut depth = 0_usize;
        for at in 0..self.tokens.len().saturating_sub(self.index) {
            match self.peek_nth(at) {
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) => depth = depth.saturating_sub(1),
                next if depth == 0 && before.iter().any(|word| is_word(next, word)) => return false,
                _ if depth == 0 && words.iter().enumerate().all(|(n, word)| is_word(self.peek_nth(at + n), word)) => {
                    let from = self.index + at;
                    self.tokens.drain(from..from + words.len());
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// Consumes the words if all of them come next.
    pub(crate) fn words(&mut self, words: &str) -> bool {
        let mut count = 0;
        for word in words.split(' ') {
            if !is_word(self.peek_nth(count), word) {
                return false;
            }
            count += 1;
        }
        self.index += count;
        true
    }

    /// Cuts out every expression from here on that the words introduce, with the words.
    pub(crate) fn cut_expressions(&mut self, words: &str) -> Result<Vec<Cut>> {
        let (here, mut cuts) = (self.index, Vec::new());
        let mut from = here;
        while from < self.tokens.len() {
            self.index = from;
            if !self.words(words) {
                from += 1;
                continue;
            }
            if cuts.len() >= CUTS_MAX {
                return Err(complexity::too_complex());
            }
            let behind = std::mem::replace(&mut self.index, from);
            let misplaced = self.syntax_error();
            self.index = behind;
            let expression = self.parse_with(|parser| parser.parse_expr())?;
            let before = from.checked_sub(1).filter(|before| *before >= here).map(|at| self.tokens[at].clone());
            self.tokens.drain(from..self.index.min(self.tokens.len()));
            cuts.push(Cut { expression, before, misplaced });
        }
        self.index = here;
        Ok(cuts)
    }

    /// Cuts out every clause from here on that `read` consumes, except within parentheses; `read` returns `None` where
    /// no clause begins.
    pub(crate) fn cut_clauses<T>(&mut self, read: impl Fn(&mut Self) -> Result<Option<T>>) -> Result<Vec<T>> {
        let (here, mut cuts, mut depth) = (self.index, Vec::new(), 0_usize);
        let mut from = here;
        while let Some(token) = self.tokens.get(from) {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => break,
                Token::RParen => depth -= 1,
                _ if depth == 0 => {
                    self.index = from;
                    if let Some(cut) = read(self)? {
                        self.tokens.drain(from..self.index);
                        cuts.push(cut);
                        continue;
                    }
                }
                _ => {}
            }
            from += 1;
        }
        self.index = here;
        Ok(cuts)
    }

    /// Moves clauses that lock rows, within parentheses, behind LIMIT, OFFSET and FETCH: `FOR UPDATE SKIP LOCKED LIMIT
    /// 1` becomes `LIMIT 1 FOR UPDATE SKIP LOCKED`.
    pub(crate) fn locks_last(&mut self) {
        let word = |tokens: &[TokenWithSpan], at: usize| unquoted_word(tokens.get(at).map(|token| &token.token));
        let is = |tokens: &[TokenWithSpan], at: usize, wanted: &str| {
            is_word(tokens.get(at).map(|token| &token.token), wanted)
        };
        let (mut depth, mut at) = (0_usize, self.index);
        while at < self.tokens.len() {
            match self.tokens[at].token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ if depth > 0 && is(&self.tokens, at, "for") => {
                    let tokens = &self.tokens;
                    let mut end = at + 2;
                    if is(tokens, end, "of") {
                        end += 2;
                        while matches!(tokens.get(end).map(|token| &token.token), Some(Token::Comma | Token::Period)) {
                            end += 2;
                        }
                    }
                    end += match (word(tokens, end).as_str(), word(tokens, end + 1).as_str()) {
                        ("nowait", _) => 1,
                        ("skip", "locked") => 2,
                        _ => 0,
                    };
                    let locks = matches!(word(tokens, at + 1).as_str(), "update" | "share");
                    if locks && matches!(word(tokens, end).as_str(), "limit" | "offset" | "fetch") {
                        let close = self.closing(end);
                        self.tokens[at..close].rotate_left(end - at);
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// The index of the parenthesis that closes the group around an index.
    fn closing(&self, from: usize) -> usize {
        let mut depth = 0_usize;
        for (at, token) in self.tokens.iter().enumerate().skip(from) {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => return at,
                Token::RParen => depth -= 1,
                _ => {}
            }
        }
        self.tokens.len()
    }

    /// The first word of the statement behind `WITH` and its queries.
    pub(crate) fn behind_with(&self) -> String {
        let mut depth = 0_usize;
        for at in 1..self.tokens.len().saturating_sub(self.index) {
            match self.peek_nth(at) {
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) => depth = depth.saturating_sub(1),
                _ if depth == 0 && self.peek_nth(at - 1) == Some(&Token::RParen) => {
                    let word = self.head_nth(at);
                    if matches!(word.as_str(), "select" | "values" | "table" | "insert" | "update" | "delete" | "merge")
                    {
                        return word;
                    }
                }
                _ => {}
            }
        }
        String::new()
    }

    /// Removes words wherever they are between two others.
    pub(crate) fn drop_between(&mut self, before: &str, words: &[&str], after: &str) {
        let is = |token: &TokenWithSpan, word: &str| match &token.token {
            Token::Word(found) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
            _ => false,
        };
        let all: Vec<&str> = [before].into_iter().chain(words.iter().copied()).chain([after]).collect();
        let mut at = self.index;
        while at + all.len() <= self.tokens.len() {
            if all.iter().enumerate().all(|(nth, word)| is(&self.tokens[at + nth], word)) {
                self.tokens.drain(at + 1..at + 1 + words.len());
            }
            at += 1;
        }
    }

    pub(crate) fn expect_words(&mut self, words: &str) -> Result<()> {
        if self.words(words) { Ok(()) } else { Err(self.syntax_error()) }
    }

    /// Consumes the token if it comes next.
    pub(crate) fn token(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.index += usize::from(found);
        found
    }

    pub(crate) fn expect_token(&mut self, token: &Token) -> Result<()> {
        if self.token(token) { Ok(()) } else { Err(self.syntax_error()) }
    }

    /// A name, folded to lower case unless quoted.
    pub(crate) fn name(&mut self) -> Result<String> {
        let name = match self.peek() {
            Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_lowercase(),
            Some(Token::Word(word)) if word.quote_style == Some('"') && !word.value.is_empty() => word.value.clone(),
            _ => return Err(self.syntax_error()),
        };
        self.advance();
        Ok(name)
    }

    /// One or more items with commas between them.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut all = vec![item(self)?];
        while self.token(&Token::Comma) {
            all.push(item(self)?);
        }
        Ok(all)
    }

    /// A list in parentheses.
    pub(crate) fn parenthesised<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect_token(&Token::LParen)?;
        let all = self.list(item)?;
        self.expect_token(&Token::RParen)?;
        Ok(all)
    }

    /// The text of a string literal.
    pub(crate) fn string(&mut self) -> Result<String> {
        let text = match self.peek() {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => text.clone(),
            Some(Token::DollarQuotedString(text)) => text.value.clone(),
            _ => return Err(self.syntax_error()),
        };
        self.advance();
        Ok(text)
    }

    /// The session's database.
    pub(crate) fn database(&self) -> &'a str {
        self.database
    }

    /// The name of a relation: `name`, `schema.name` or `database.schema.name`.
    pub(crate) fn table_name(&mut self) -> Result<RelationName> {
        let parts = self.path()?;
        self.relation(&parts)
    }

    /// Names with periods between them.
    pub(crate) fn path(&mut self) -> Result<Vec<String>> {
        let mut parts = vec![self.name()?];
        while self.token(&Token::Period) {
            parts.push(self.name()?);
        }
        Ok(parts)
    }

    /// The relation of names with periods between them.
    pub(crate) fn relation(&self, parts: &[String]) -> Result<RelationName> {
        match parts {
            [name] => Ok(RelationName::bare(name.as_str())),
            [schema, name] => in_schema(schema, name),
            [database, schema, name] if database == self.database => in_schema(schema, name),
            parts => {
                let message = format!("cross-database references are not implemented: \"{}\"", parts.join("."));
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
        }
    }

    /// Lets sqlparser read from here, and continues behind what it has read.
    pub(crate) fn parse_with<T: VisitMut>(
        &mut self,
        parse: impl FnOnce(&mut Parser<'_>) -> std::result::Result<T, ParserError>,
    ) -> Result<T> {
        let rest = self.tokens[self.index.min(self.tokens.len())..].to_vec();
        let parsed = with_stack_for(self.longest_chain, || {
            let dialect = BoundedDialect::new(rest.len());
            let mut parser = dialect.parser(rest);
            let mut parsed = parse(&mut parser)?;
            balance(&mut parsed);
            Ok((parsed, parser.index()))
        });
        match parsed {
            Ok((parsed, read)) => {
                self.index += read;
                Ok(parsed)
            }
            Err(error) => Err(self.parser_error(&error)),
        }
    }

    pub(crate) fn expect_end(&self) -> Result<()> {
        if self.at_end() { Ok(()) } else { Err(self.syntax_error()) }
    }

    /// 42601 at the next token.
    pub(crate) fn syntax_error(&self) -> SqlError {
        match self.tokens.get(self.index) {
            None => self.end_error(),
            Some(token) => {
                let location = token.span.start;
                let near = self.source_of(token);
                at(self.sql, location, SqlError::syntax(format!("syntax error at or near \"{near}\"")))
            }
        }
    }

    /// The error of a statement with an unknown first word: 0A000 if PostgreSQL has the statement, else 42601.
    pub(crate) fn unknown_statement(&mut self) -> SqlError {
        let head = self.head().to_uppercase();
        let here = self.syntax_error();
        if POSTGRES_HEADS.contains(&head.as_str()) { SqlError::unsupported(head) } else { here }
    }

    /// The text of the statement, without its semicolon.
    pub(crate) fn text(&self) -> String {
        let (Some(first), Some(last)) = (self.tokens.first(), self.tokens.last()) else { return String::new() };
        let (start, end) = (offset(self.sql, first.span.start), offset(self.sql, last.span.end));
        self.sql.get(start..end).unwrap_or_default().trim().to_owned()
    }

    /// The text of a token.
    fn source_of(&self, token: &TokenWithSpan) -> String {
        let (start, end) = (offset(self.sql, token.span.start), offset(self.sql, token.span.end));
        let text = self.sql.get(start..end).unwrap_or_default().trim();
        if text.is_empty() { token.token.to_string() } else { text.to_owned() }
    }

    fn end_error(&self) -> SqlError {
        if let Some(end) = self.end {
            let near: String = text_from(self.sql, end).chars().take(1).collect();
            return at(self.sql, end, SqlError::syntax(format!("syntax error at or near \"{near}\"")));
        }
        let mut error = SqlError::syntax("syntax error at end of input");
        error.position = u32::try_from(self.sql.chars().count() + 1).ok();
        error
    }

    /// 42601 for an error of sqlparser, which has the token and its location in its text only.
    fn parser_error(&self, error: &ParserError) -> SqlError {
        let text = match error {
            ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
            ParserError::RecursionLimitExceeded => return complexity::too_complex(),
        };
        let (message, location) = split_location(text);
        let expected = message.strip_prefix("Expected: ").and_then(|rest| rest.split_once(", found: "));
        match (expected, location) {
            (Some((_, "EOF")), _) => self.end_error(),
            (Some((expected, found)), Some(location)) => {
                let token = self.tokens.iter().find(|token| token.span.start == location);
                let near = token.map_or_else(|| found.to_owned(), |token| self.source_of(token));
                let error = SqlError::syntax(format!("syntax error at or near \"{near}\""));
                at(self.sql, location, error.with_detail(format!("Expected: {expected}.")))
            }
            (_, Some(location)) => at(self.sql, location, SqlError::syntax(message.to_owned())),
            _ => SqlError::syntax(message.to_owned()),
        }
    }
}

/// The first words of PostgreSQL's statements that are not supported.
const POSTGRES_HEADS: [&str; 15] = [
    "CALL",
    "CHECKPOINT",
    "CLUSTER",
    "DO",
    "IMPORT",
    "LOAD",
    "MERGE",
    "REASSIGN",
    "REFRESH",
    "REINDEX",
    "SECURITY",
    "IMPORT",
    "ATTACH",
    "DETACH",
    "INSTALL",
];

/// Runs what makes a tree that is as deep as a chain of AND and OR is long, until it is [balanced](balance): on a stack
/// that has room to drop it when the parser fails.
fn with_stack_for<T>(chain: usize, run: impl FnOnce() -> T) -> T {
    const PLAIN: usize = 1_000;
    /// Of the frames that drop one level.
    const LEVEL_BYTES: usize = 1 << 10;
    if chain <= PLAIN { run() } else { stacker::grow((8 << 20) + chain * LEVEL_BYTES, run) }
}

/// Whether a token is an unquoted word, given in lower case.
pub(crate) fn is_word(token: Option<&Token>, word: &str) -> bool {
    match token {
        Some(Token::Word(found)) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
        _ => false,
    }
}

/// An unquoted word in lower case; empty for any other token.
fn unquoted_word(token: Option<&Token>) -> String {
    match token {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_lowercase(),
        _ => String::new(),
    }
}

/// Splits `text at Line: 1, Column: 2` into the text and the location.
fn split_location(text: &str) -> (&str, Option<Location>) {
    let parse = || {
        let (message, location) = text.rsplit_once(" at Line: ")?;
        let (line, column) = location.split_once(", Column: ")?;
        Some((message, Location { line: line.parse().ok()?, column: column.parse().ok()? }))
    };
    parse().map_or((text, None), |(message, location)| (message, Some(location)))
}

fn tokenizer_message(message: &str, near: &str) -> String {
    let lower = message.to_lowercase();
    if lower.starts_with("unterminated") { format!("{lower} at or near \"{near}\"") } else { message.to_owned() }
}

/// The offset of a location in the text, in bytes.
fn offset(sql: &str, location: Location) -> usize {
    let line = usize::try_from(location.line).unwrap_or(usize::MAX).saturating_sub(1);
    let column = usize::try_from(location.column).unwrap_or(usize::MAX).saturating_sub(1);
    let start: usize = sql.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = &sql[start..];
    start + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at)
}

/// The text from a location on, cut to the length that messages quote.
fn text_from(sql: &str, location: Location) -> String {
    const CHARACTERS_MAX: usize = 40;
    sql[offset(sql, location)..].chars().take(CHARACTERS_MAX).collect()
}

fn at(sql: &str, location: Location, mut error: SqlError) -> SqlError {
    error.position = position(sql, location);
    error
}

/// The position of a location in the text, in characters from 1.
pub(crate) fn position(sql: &str, location: Location) -> Option<u32> {
    u32::try_from(sql[..offset(sql, location)].chars().count() + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a pass over the tokens of a text makes of them, with blanks between.
    pub(super) fn rewritten(sql: &str, rewrite: impl Fn(&mut Vec<TokenWithSpan>)) -> String {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().expect("tokens");
        let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
        let mut tokens: Vec<_> = tokens.into_iter().filter(|token| !is_blank(token)).collect();
        rewrite(&mut tokens);
        tokens.iter().map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ")
    }
}
