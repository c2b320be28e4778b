//! Calls whose arguments have key words that sqlparser does not read, as calls with commas alone: in one pass over the
//! tokens, once the bounds of a statement are checked.

use super::is_word;
use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Word},
};
use keyspan_pg::functions::{spread::MARK, texts::SUBSTRING_SIMILAR};

/// An open bracket.
#[derive(Default)]
struct Bracket {
    /// The place of `SUBSTRING` before it.
    substring: Option<usize>,
    /// The place of `SIMILAR` in it.
    similar: Option<usize>,
    /// Whether its last argument is marked: a bracket that has no sign of its own ends with it.
    is_marked: bool,
}

/// `f(a, VARIADIC b)` as a call around the last argument, whose function no user can write; `SUBSTRING(a SIMILAR b
/// ESCAPE c)` as a call of a function of three arguments.
pub(super) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let is_any = |word: &str| tokens.iter().any(|token| is_word(Some(&token.token), word));
    if !is_any("variadic") && !is_any("similar") {
        return;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 2);
    let mut open: Vec<Bracket> = Vec::new();
    let mut rest = std::mem::take(tokens).into_iter().peekable();
    while let Some(mut token) = rest.next() {
        let span = token.span;
        let is = |word: &str| is_word(Some(&token.token), word);
        let next = rest.peek().map(|next| &next.token);
        let begins_argument = out.last().is_some_and(|last| matches!(last.token, Token::LParen | Token::Comma));
        let bracket = open.last_mut();
        match &token.token {
            Token::LParen | Token::LBracket => {
                let substring = out.last().filter(|last| is_word(Some(&last.token), "substring"));
                open.push(Bracket { substring: substring.map(|_| out.len() - 1), ..Bracket::default() });
            }
            Token::RParen | Token::RBracket => {
                let closed = open.pop();
                if closed.is_some_and(|bracket| bracket.is_marked) {
                    out.push(TokenWithSpan { token: Token::RParen, span });
                }
            }
            Token::Word(_) => {
                let Some(bracket) = bracket else {
                    out.push(token);
                    continue;
                };
                if is("variadic") && begins_argument && !bracket.is_marked && !matches!(next, Some(Token::Comma)) {
                    bracket.is_marked = true;
                    let mark = Word { value: MARK.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
                    out.push(TokenWithSpan { token: Token::Word(mark), span });
                    token.token = Token::LParen;
                } else if is("similar") && bracket.substring.is_some() && !is_word(next, "to") {
                    bracket.similar.get_or_insert(out.len());
                } else if is("escape")
                    && let (Some(substring), Some(similar)) = (bracket.substring.take(), bracket.similar)
                {
                    let word =
                        Word { value: SUBSTRING_SIMILAR.to_owned(), quote_style: None, keyword: Keyword::NoKeyword };
                    out[substring].token = Token::Word(word);
                    out[similar].token = Token::Comma;
                    token.token = Token::Comma;
                }
            }
            _ => {}
        }
        out.push(token);
    }
    *tokens = out;
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
    fn key_words_within_calls_become_commas_and_calls() {
        check("f(a, VARIADIC b || g(c))", expect![[r#"f ( a , "variadic items" ( b || g ( c ) ) )"#]]);
        check(
            "f(VARIADIC array[g(VARIADIC x), 1]) + 1",
            expect![[r#"f ( "variadic items" ( array [ g ( "variadic items" ( x ) ) , 1 ] ) ) + 1"#]],
        );
        check("substring(a SIMILAR b(c) ESCAPE '#')", expect!["substring_similar ( a , b ( c ) , '#' )"]);
        check(
            "substring(substring(a SIMILAR b ESCAPE c) SIMILAR d ESCAPE e)",
            expect!["substring_similar ( substring_similar ( a , b , c ) , d , e )"],
        );
    }

    #[test]
    fn other_uses_of_the_words_stay() {
        check("a SIMILAR TO b ESCAPE c", expect!["a SIMILAR TO b ESCAPE c"]);
        check("substring(a) LIKE b ESCAPE c", expect!["substring ( a ) LIKE b ESCAPE c"]);
        check("f((a SIMILAR TO b ESCAPE c))", expect!["f ( ( a SIMILAR TO b ESCAPE c ) )"]);
        check("variadic + f(\"variadic\", ) ) substring(", expect!["variadic + f ( \"variadic\" , ) ) substring ("]);
    }
}
