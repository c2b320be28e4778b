//! Forms that PostgreSQL knows and sqlparser does not, as those that it knows: changed as the tokens come by.

use super::is_word;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Simplifies the end of the tokens, before the next one.
pub(super) fn simplify(tokens: &mut Vec<TokenWithSpan>, next: &Token) {
    unqualify_form(tokens, next);
    unqualify_operator(tokens, next);
    without_only(tokens, next);
}

/// Functions with a call syntax of their own in SQL, which sqlparser knows without a schema only.
const FORMS: [&str; 7] = ["substring", "position", "overlay", "trim", "extract", "floor", "ceil"];

/// Removes `pg_catalog.` from the end of the tokens if one of [`FORMS`] follows.
fn unqualify_form(tokens: &mut Vec<TokenWithSpan>, next: &Token) {
    let is = |token: &Token, names: &[&str]| match token {
        Token::Word(word) => names.iter().any(|name| word.value.eq_ignore_ascii_case(name)),
        _ => false,
    };
    if let [.., schema, point] = tokens.as_slice()
        && point.token == Token::Period
        && is(&schema.token, &["pg_catalog"])
        && is(next, &FORMS)
    {
        tokens.truncate(tokens.len() - 2);
    }
}

/// `a OPERATOR(pg_catalog.=) ANY (b)` as `a = ANY (b)`, before the word `ANY`: sqlparser knows signs only there.
fn unqualify_operator(tokens: &mut Vec<TokenWithSpan>, next: &Token) {
    if !["any", "some", "all"].iter().any(|word| is_word(Some(next), word)) {
        return;
    }
    if let [.., operator, open, schema, point, sign, close] = tokens.as_slice()
        && is_word(Some(&operator.token), "operator")
        && open.token == Token::LParen
        && is_word(Some(&schema.token), "pg_catalog")
        && point.token == Token::Period
        && close.token == Token::RParen
    {
        let sign = sign.clone();
        tokens.truncate(tokens.len() - 6);
        tokens.push(sign);
    }
}

/// `FROM ONLY t` as `FROM t`: no table has descendants. `ONLY` is a reserved word, so it names no table.
fn without_only(tokens: &mut Vec<TokenWithSpan>, next: &Token) {
    if let [.., before, only] = tokens.as_slice()
        && matches!(next, Token::Word(_))
        && is_word(Some(&only.token), "only")
        && ["from", "join"].iter().any(|word| is_word(Some(&before.token), word))
    {
        tokens.pop();
    }
}
