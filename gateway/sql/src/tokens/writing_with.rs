//! `WITH` whose queries write: `WITH gone AS (DELETE … RETURNING *) INSERT INTO archive SELECT * FROM gone`.
//!
//! Such a statement is cut into its parts: each query that writes, each that several others read (it has one outcome,
//! whatever functions it calls), and the statement behind WITH. A part keeps the queries of WITH before it; in the place
//! of one that is a part stands a call of a function that gives its rows ([`WITH_ROWS`]). Tokens keep their places, so
//! that errors do.

use super::{TokenReader, is_word};
use datafusion::sql::sqlparser::{
    dialect::PostgreSqlDialect,
    tokenizer::{Span, Token, TokenWithSpan, Tokenizer},
};
use keyspan_pg::error::{Result, SqlError, SqlState};

/// What functions that give the rows of a query of WITH that wrote are called, with its number behind it.
pub const WITH_ROWS: &str = "keyspan_with_rows";

/// A part of a statement.
pub(crate) struct Part<'a> {
    /// Its tokens, as a statement of its own.
    pub(crate) tokens: TokenReader<'a>,
    /// The parameters that it has, by number from 1.
    pub(crate) parameters: Vec<usize>,
}

/// A query of WITH.
struct Cte {
    /// Its name, and the names of its columns, up to the parenthesis.
    head: Vec<TokenWithSpan>,
    body: Vec<TokenWithSpan>,
    /// The parenthesis behind it.
    end: TokenWithSpan,
    writes: bool,
    /// Whether it is a part.
    apart: bool,
}

impl<'a> TokenReader<'a> {
    /// Whether it is a statement of which queries in WITH write.
    pub(crate) fn writes_within_with(&self) -> bool {
        self.ctes().is_some_and(|(_, ctes, _)| ctes.iter().any(|cte| cte.writes))
    }

    /// Whether WITH is recursive, its queries, and what stands behind them.
    fn ctes(&self) -> Option<(bool, Vec<Cte>, &[TokenWithSpan])> {
        let rest = &self.tokens[self.index..];
        let recursive = is_word(rest.get(1).map(|token| &token.token), "recursive");
        let (ctes, main) = read(rest.get(1 + usize::from(recursive)..)?)?;
        Some((recursive, ctes, main))
    }

    /// The parts of such a statement in the order in which they run, the statement behind WITH last. All tokens are
    /// read then.
    ///
    /// # Errors
    /// 0A000 for RECURSIVE; 42712 for a name twice.
    pub(crate) fn parts_of_with(&mut self) -> Result<Vec<Part<'a>>> {
        let Some((recursive, mut ctes, main)) = self.ctes() else { return Err(self.syntax_error()) };
        if recursive {
            return Err(SqlError::unsupported("WITH RECURSIVE beside a statement that writes inside of WITH"));
        }
        for (at, cte) in ctes.iter().enumerate() {
            if ctes[..at].iter().any(|other| name(other) == name(cte)) {
                let message = format!("WITH query name \"{}\" specified more than once", name(cte));
                return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
            }
        }
        for at in 0..ctes.len() {
            let name = name(&ctes[at]);
            let reads = |body: &[TokenWithSpan]| body.iter().any(|token| word(&token.token).as_ref() == Some(&name));
            let readers = ctes[at + 1..].iter().filter(|cte| reads(&cte.body)).count() + usize::from(reads(main));
            ctes[at].apart = ctes[at].writes || readers > 1;
        }
        let with = self.tokens[self.index].clone();
        let part = |until: usize, body: &[TokenWithSpan], end| {
            let mut tokens = Vec::new();
            let mut number = 0;
            for cte in &ctes[..until] {
                if cte.writes && !returns(&cte.body) {
                    number += 1;
                    continue;
                }
                tokens.push(if tokens.is_empty() {
                    with.clone()
                } else {
                    TokenWithSpan::new(Token::Comma, cte.end.span)
                });
                tokens.extend(cte.head.iter().cloned());
                if cte.apart {
                    tokens.extend(rows(number, cte.end.span));
                    number += 1;
                } else {
                    tokens.extend(cte.body.iter().cloned());
                }
                tokens.push(cte.end.clone());
            }
            tokens.extend(body.iter().cloned());
            let parameters = parameters(&tokens);
            let reader = TokenReader {
                tokens,
                longest_chain: self.longest_chain,
                end,
                ..TokenReader::empty(self.sql, self.database)
            };
            Part { tokens: reader, parameters }
        };
        let mut parts = Vec::new();
        for (at, cte) in ctes.iter().enumerate().filter(|(_, cte)| cte.apart) {
            parts.push(part(at, &cte.body, Some(cte.end.span.start)));
        }
        parts.push(part(ctes.len(), main, self.end));
        self.index = self.tokens.len();
        Ok(parts)
    }
}

/// The queries of WITH, and what stands behind them; `None` where it is not written so.
fn read(mut tokens: &[TokenWithSpan]) -> Option<(Vec<Cte>, &[TokenWithSpan])> {
    let mut ctes = Vec::new();
    loop {
        // Up to AS: a name, and names of columns in parentheses.
        let mut at = tokens.iter().position(|token| is_word(Some(&token.token), "as"))? + 1;
        for word in ["not", "materialized"] {
            at += usize::from(is_word(tokens.get(at).map(|token| &token.token), word));
        }
        if tokens.get(at)?.token != Token::LParen {
            return None;
        }
        let (start, mut depth) = (at + 1, 0_usize);
        let close = tokens[at..].iter().position(|token| {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            depth == 0
        })? + at;
        let body = &tokens[start..close];
        let first = body.iter().map(|token| &token.token).find(|token| **token != Token::LParen);
        let writes = ["insert", "update", "delete", "merge"].iter().any(|word| is_word(first, word));
        ctes.push(Cte {
            head: tokens[..start].to_vec(),
            body: body.to_vec(),
            end: tokens[close].clone(),
            writes,
            apart: writes,
        });
        tokens = &tokens[close + 1..];
        if tokens.first().map(|token| &token.token) != Some(&Token::Comma) {
            return Some((ctes, tokens));
        }
        tokens = &tokens[1..];
    }
}

fn name(cte: &Cte) -> String {
    cte.head.first().and_then(|token| word(&token.token)).unwrap_or_default()
}

/// A name as it is written, folded.
fn word(token: &Token) -> Option<String> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
        Token::Word(word) => Some(word.value.clone()),
        _ => None,
    }
}

/// Whether a write has RETURNING.
fn returns(body: &[TokenWithSpan]) -> bool {
    let mut depth = 0_usize;
    body.iter().any(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && is_word(Some(&token.token), "returning")
    })
}

/// `SELECT * FROM keyspan_with_rows_0() AS rows`
fn rows(number: usize, span: Span) -> impl Iterator<Item = TokenWithSpan> {
    let text = format!("SELECT * FROM {WITH_ROWS}_{number}() AS rows");
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, &text).tokenize().unwrap_or_default();
    let tokens: Vec<Token> = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    tokens.into_iter().map(move |token| TokenWithSpan::new(token, span))
}

fn parameters(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let number = |token: &TokenWithSpan| match &token.token {
        Token::Placeholder(name) => name.strip_prefix('$')?.parse().ok(),
        _ => None,
    };
    let mut all: Vec<usize> = tokens.iter().filter_map(number).collect();
    all.sort_unstable();
    all.dedup();
    all
}
