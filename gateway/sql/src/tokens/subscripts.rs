//! Cuts subscripts behind the columns of `SET`, which sqlparser does not read, out of the tokens.

use crate::tokens::{TokenReader, is_word};
use datafusion::sql::sqlparser::{
    ast::{AccessExpr, Expr},
    tokenizer::{Span, Token},
};
use keyspan_pg::{error::Result, syntax::dialect::BoundedDialect};

/// The subscripts of a column that is written.
pub(crate) struct Subscripts {
    /// The location of the column's name.
    pub(crate) column: Span,
    /// The subscripts in order.
    pub(crate) all: Vec<AccessExpr>,
}

impl TokenReader<'_> {
    /// Cuts the subscripts out of every list behind `UPDATE SET`, and out of the list behind the first `SET` if the
    /// statement is an UPDATE.
    pub(crate) fn cut_subscripts(&mut self, is_update: bool) -> Result<Vec<Subscripts>> {
        let mut cuts = Vec::new();
        // Columns of a list are at depth 0.
        let (mut depth, mut in_list, mut first) = (0_usize, false, is_update);
        let (mut at, mut behind_update) = (self.index, false);
        while let Some(token) = self.tokens.get(at).map(|token| &token.token) {
            let word = |word: &str| is_word(Some(token), word);
            let begins = match token {
                Token::LParen | Token::LBracket => {
                    depth += 1;
                    false
                }
                Token::RParen | Token::RBracket => {
                    depth = depth.saturating_sub(1);
                    false
                }
                Token::Comma => depth == 0 && in_list,
                _ if depth > 0 => false,
                _ if word("set") && (first || behind_update) => {
                    (first, in_list) = (false, true);
                    true
                }
                _ if ["from", "where", "returning", "when"].into_iter().any(word) => {
                    in_list = false;
                    false
                }
                _ => false,
            };
            behind_update = word("update");
            at += 1;
            if begins && let Some(cut) = self.subscripts_at(at)? {
                cuts.push(cut);
            }
        }
        Ok(cuts)
    }

    /// Cuts out the subscripts behind the name at an index, if `=` follows them.
    fn subscripts_at(&mut self, name: usize) -> Result<Option<Subscripts>> {
        let is = |at: usize, expected: &Token| self.tokens.get(at).is_some_and(|token| token.token == *expected);
        let Some(Token::Word(_)) = self.tokens.get(name).map(|token| &token.token) else { return Ok(None) };
        let mut end = name + 1;
        while is(end, &Token::LBracket) {
            let mut depth = 0_usize;
            loop {
                match self.tokens.get(end).map(|token| &token.token) {
                    Some(Token::LBracket | Token::LParen) => depth += 1,
                    Some(Token::RBracket | Token::RParen) => depth = depth.saturating_sub(1),
                    Some(_) => {}
                    None => return Ok(None),
                }
                end += 1;
                if depth == 0 {
                    break;
                }
            }
        }
        if end == name + 1 || !is(end, &Token::Eq) {
            return Ok(None);
        }
        let tokens = self.tokens[name..end].to_vec();
        let dialect = BoundedDialect::new(tokens.len());
        let mut parser = dialect.parser(tokens);
        let column = self.tokens[name].span;
        match parser.parse_expr() {
            Ok(Expr::CompoundFieldAccess { access_chain, .. }) => {
                self.tokens.drain(name + 1..end);
                Ok(Some(Subscripts { column, all: access_chain }))
            }
            Ok(_) => Ok(None),
            Err(error) => Err(self.parser_error(&error)),
        }
    }
}
