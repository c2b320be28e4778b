//! Elements of ROLLUP and CUBE that begin with a bracket and go on behind it, as `ROLLUP ((a)::date, b)`: the parser
//! takes such a bracket for a list of columns. A bracket around all of the element lets it see an expression.

use super::is_word;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Puts brackets around such elements.
pub(super) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let is_set = |token: &TokenWithSpan| ["rollup", "cube"].iter().any(|word| is_word(Some(&token.token), word));
    let mut at = 0;
    while at + 1 < tokens.len() {
        if is_set(&tokens[at]) && tokens[at + 1].token == Token::LParen {
            in_set(tokens, at + 2);
        }
        at += 1;
    }
}

/// `from` is the first token of the first element.
fn in_set(tokens: &mut Vec<TokenWithSpan>, mut from: usize) {
    while let Some((end, bracket)) = element(tokens, from) {
        let behind = if bracket.is_some_and(|bracket| bracket + 1 < end) {
            let open = TokenWithSpan { token: Token::LParen, span: tokens[from].span };
            let close = TokenWithSpan { token: Token::RParen, span: tokens[end - 1].span };
            tokens.insert(end, close);
            tokens.insert(from, open);
            end + 2
        } else {
            end
        };
        if tokens[behind].token != Token::Comma {
            return;
        }
        from = behind + 1;
    }
}

/// The end of an element, and that of the bracket that it begins with; `None` where nothing ends it.
fn element(tokens: &[TokenWithSpan], from: usize) -> Option<(usize, Option<usize>)> {
    let mut depth = 0_usize;
    let mut bracket = None;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.token {
            Token::Comma if depth == 0 => return Some((at, bracket)),
            Token::RParen | Token::RBracket => {
                let Some(outer) = depth.checked_sub(1) else { return Some((at, bracket)) };
                depth = outer;
                let begins = depth == 0 && bracket.is_none() && tokens[from].token == Token::LParen;
                bracket = bracket.or(begins.then_some(at));
            }
            Token::LParen | Token::LBracket => depth += 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::tests::rewritten;
    use expect_test::{Expect, expect};

    fn check(sql: &str, expected: Expect) {
        expected.assert_eq(&rewritten(sql, rewrite));
    }

    #[test]
    fn elements_that_go_on_behind_a_bracket_get_one_around_them() {
        check("ROLLUP ((a)::date, b)", expect!["ROLLUP ( ( ( a ) :: date ) , b )"]);
        check("cube(b, (a + 1) * 2, (c)::text) x", expect!["cube ( b , ( ( a + 1 ) * 2 ) , ( ( c ) :: text ) ) x"]);
        check(
            "ROLLUP ((f(a, b))::int, ROLLUP((c)+1))",
            expect!["ROLLUP ( ( ( f ( a , b ) ) :: int ) , ROLLUP ( ( ( c ) + 1 ) ) )"],
        );
    }

    #[test]
    fn others_stay() {
        check("ROLLUP ((a, b), c, (d))", expect!["ROLLUP ( ( a , b ) , c , ( d ) )"]);
        check("CUBE (f(a)::text, b)", expect!["CUBE ( f ( a ) :: text , b )"]);
        check("SELECT rollup, cube FROM t", expect!["SELECT rollup , cube FROM t"]);
        check("ROLLUP ((a)", expect!["ROLLUP ( ( a )"]);
        check("ROLLUP (", expect!["ROLLUP ("]);
    }
}
