//! Forms that PostgreSQL knows and sqlparser does not, as those that it knows: changed as the tokens come by.

use super::{at, is_word, offset};
use datafusion::sql::sqlparser::{
    dialect::PostgreSqlDialect,
    tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer},
};
use keyspan_pg::{
    error::{Result, SqlError},
    syntax::{between::SYMMETRIC, rows_of_sets::ALL},
    windows::excluding::Exclusion,
};

/// Signs that no operator of the standard has.
const SIGNS_OF_OPERATORS: [char; 10] = ['~', '!', '@', '#', '%', '^', '&', '|', '`', '?'];

/// Adds a token, and simplifies what the last ones are together.
pub(super) fn push(tokens: &mut Vec<TokenWithSpan>, mut next: TokenWithSpan) {
    if let Some(apart) = signs_apart(&next) {
        return apart.into_iter().for_each(|next| push(tokens, next));
    }
    all_of_bracket(tokens, &mut next.token);
    unqualify_form(tokens, &next.token);
    unqualify_operator(tokens, &next.token);
    without_only(tokens, &next.token);
    interval_of_frame(tokens, &next.token);
    exclusions(tokens, &next.token);
    if typed_name(tokens, &next) || symmetric(tokens, &next) || called_user(tokens, &next.token) {
        return;
    }
    if !(continues_text(tokens, &next) || orders_using(tokens, &next.token) || trims_blanks(tokens, &next.token)) {
        tokens.push(next);
    }
}

/// `>` and `-` of `a >-1`: an operator ends with `+` or `-` only if it has one of [`SIGNS_OF_OPERATORS`]; sqlparser
/// takes `>-` for one. `None` for other tokens.
/// <https://www.postgresql.org/docs/15/sql-syntax-lexical.html#SQL-SYNTAX-OPERATORS>
fn signs_apart(next: &TokenWithSpan) -> Option<Vec<TokenWithSpan>> {
    let Token::CustomBinaryOperator(text) = &next.token else { return None };
    let mut operator = text.as_str();
    while operator.len() > 1
        && operator.ends_with(['+', '-'])
        && !operator[..operator.len() - 1].contains(SIGNS_OF_OPERATORS)
    {
        operator = &operator[..operator.len() - 1];
    }
    let [token] = <[Token; 1]>::try_from(Tokenizer::new(&PostgreSqlDialect {}, operator).tokenize().ok()?).ok()?;
    let signs = text[operator.len()..].chars();
    if signs.as_str().is_empty() {
        return None;
    }
    let mut start = next.span.start;
    let mut place = |token: Token, columns: usize| {
        let end = Location { line: start.line, column: start.column + columns as u64 };
        TokenWithSpan { token, span: Span::new(std::mem::replace(&mut start, end), end) }
    };
    let operator = place(token, operator.len());
    let signs = signs.map(|sign| place(if sign == '+' { Token::Plus } else { Token::Minus }, 1));
    Some(std::iter::once(operator).chain(signs).collect())
}

/// `(…).*` with a name in the place of the star, which the parser knows behind a name only.
fn all_of_bracket(tokens: &[TokenWithSpan], next: &mut Token) {
    if *next == Token::Mul
        && let [.., bracket, point] = tokens
        && (&bracket.token, &point.token) == (&Token::RParen, &Token::Period)
    {
        *next = Token::make_word(ALL, Some('"'));
    }
}

/// A quoted text on a line behind that of another is the rest of it, as the standard has it. Gives whether it was
/// added.
fn continues_text(tokens: &mut [TokenWithSpan], next: &TokenWithSpan) -> bool {
    if let Some(TokenWithSpan { token: Token::SingleQuotedString(text), span }) = tokens.last_mut()
        && let Token::SingleQuotedString(rest) = &next.token
        && next.span.start.line > span.end.line
    {
        text.push_str(rest);
        span.end = next.span.end;
        return true;
    }
    false
}

/// Refuses a word that follows a number at once (`123abc`), and digits with underscores, which PostgreSQL 15 does not
/// read. `number` is the place of the token before, if that is a number.
///
/// # Errors
/// 42601
pub(super) fn refuse_junk(sql: &str, number: &mut Option<Span>, next: &TokenWithSpan) -> Result<()> {
    let before = number.take();
    let (span, junk) = match &next.token {
        Token::Word(word) => (before, word.quote_style.is_none() && before.is_some_and(|it| it.end == next.span.start)),
        Token::Number(digits, _) => {
            *number = Some(next.span);
            (Some(next.span), digits.contains('_'))
        }
        _ => return Ok(()),
    };
    let (true, Some(span)) = (junk, span) else { return Ok(()) };
    let text = &sql[offset(sql, span.start)..offset(sql, next.span.end)];
    let message = format!("trailing junk after numeric literal at or near \"{text}\"");
    Err(at(sql, span.start, SqlError::syntax(message)))
}

/// `name 'text'` as `'text'::name`, which the parser knows of other types. Gives whether it was one.
fn typed_name(tokens: &mut Vec<TokenWithSpan>, next: &TokenWithSpan) -> bool {
    let is_text = matches!(next.token, Token::SingleQuotedString(_));
    let begins = match tokens.as_slice() {
        [.., before, name] if is_word(Some(&name.token), "name") => {
            matches!(before.token, Token::LParen | Token::Comma | Token::Eq)
                || ["select", "and", "or", "where"].iter().any(|word| is_word(Some(&before.token), word))
        }
        _ => false,
    };
    let Some(name) = tokens.pop_if(|_| is_text && begins) else { return false };
    let cast = TokenWithSpan { token: Token::DoubleColon, span: next.span };
    tokens.extend([next.clone(), cast, name]);
    true
}

/// `BETWEEN SYMMETRIC a` as `BETWEEN mark * a`, which [`between`] takes off again; `ASYMMETRIC` says nothing. Gives
/// whether it was one.
///
/// [`between`]: keyspan_pg::syntax::between
fn symmetric(tokens: &mut Vec<TokenWithSpan>, next: &TokenWithSpan) -> bool {
    if !tokens.last().is_some_and(|last| is_word(Some(&last.token), "between")) {
        return false;
    }
    if is_word(Some(&next.token), "symmetric") {
        let mark = Token::SingleQuotedString(SYMMETRIC.to_owned());
        tokens.extend([mark, Token::Mul].map(|token| TokenWithSpan { token, span: next.span }));
        return true;
    }
    is_word(Some(&next.token), "asymmetric")
}

/// `ORDER BY a USING >` as `ORDER BY a DESC`. Gives whether it was the sign.
fn orders_using(tokens: &mut [TokenWithSpan], next: &Token) -> bool {
    let word = match next {
        Token::Lt => "ASC",
        Token::Gt => "DESC",
        _ => return false,
    };
    match tokens.last_mut() {
        Some(last) if is_word(Some(&last.token), "using") => {
            last.token = Token::make_keyword(word);
            true
        }
        _ => false,
    }
}

/// `trim(BOTH FROM a)` as `trim(BOTH a)`. Gives whether it was that FROM.
fn trims_blanks(tokens: &[TokenWithSpan], next: &Token) -> bool {
    is_word(Some(next), "from")
        && matches!(tokens, [.., trim, open, side]
            if is_word(Some(&trim.token), "trim")
                && open.token == Token::LParen
                && ["both", "leading", "trailing"].iter().any(|word| is_word(Some(&side.token), word)))
}

/// `'1 day'::interval PRECEDING` as `INTERVAL '1 day' PRECEDING`, and `2::bigint PRECEDING` as `2 PRECEDING`: offsets of
/// frames are literals for the planner.
fn interval_of_frame(tokens: &mut Vec<TokenWithSpan>, next: &Token) {
    if ["preceding", "following"].iter().any(|word| is_word(Some(next), word))
        && let [.., text, cast, name] = tokens.as_mut_slice()
        && matches!(text.token, Token::SingleQuotedString(_))
        && cast.token == Token::DoubleColon
        && is_word(Some(&name.token), "interval")
    {
        std::mem::swap(text, name);
        tokens.remove(tokens.len() - 2);
    }
    if ["preceding", "following"].iter().any(|word| is_word(Some(next), word))
        && let [.., number, cast, name] = tokens.as_slice()
        && matches!(number.token, Token::Number(..))
        && cast.token == Token::DoubleColon
        && NUMBERS.iter().any(|kind| is_word(Some(&name.token), kind))
    {
        tokens.truncate(tokens.len() - 2);
    }
}

/// `EXCLUDE …` at the end of a frame, which sqlparser does not know: NO OTHERS says nothing, and the rest becomes an
/// argument of the function before `OVER`, the last, which the planner takes off again ([`excluding`]). What stands in
/// a window of the WINDOW clause stays, and is refused.
///
/// [`excluding`]: keyspan_pg::windows::excluding
fn exclusions(tokens: &mut Vec<TokenWithSpan>, next: &Token) {
    if *next != Token::RParen {
        return;
    }
    let Some(at) = tokens.iter().rev().take(3).position(|token| is_word(Some(&token.token), "exclude")) else { return };
    let at = tokens.len() - 1 - at;
    let words: Vec<String> = tokens[at + 1..].iter().map(|token| token.token.to_string().to_lowercase()).collect();
    let words = words.join(" ");
    if words == "no others" {
        tokens.truncate(at);
        return;
    }
    let Some(exclusion) = Exclusion::of_words(&words) else { return };
    let Some(end) = arguments_end(tokens, at) else { return };
    let span = tokens[end].span;
    let token = |token: Token| TokenWithSpan { token, span };
    tokens.truncate(at);
    let marker = token(Token::SingleQuotedString(exclusion.marker()));
    let has_arguments = end > 0 && tokens[end - 1].token != Token::LParen;
    let added = if has_arguments { vec![token(Token::Comma), marker] } else { vec![marker] };
    tokens.splice(end..end, added);
}

/// Where the arguments end of the function whose window's bracket is still open at a place.
fn arguments_end(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let over = opening(tokens, at)?.checked_sub(1)?;
    if !is_word(Some(&tokens[over].token), "over") {
        return None;
    }
    let end = over.checked_sub(1).filter(|end| tokens[*end].token == Token::RParen)?;
    let before = opening(tokens, end)?.checked_sub(1)?;
    if !is_word(Some(&tokens[before].token), "filter") {
        return Some(end);
    }
    before.checked_sub(1).filter(|end| tokens[*end].token == Token::RParen)
}

/// The bracket that is open at a place.
fn opening(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, token) in tokens[..at].iter().enumerate().rev() {
        match token.token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return Some(place),
            Token::LParen => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Types of numbers that a literal has without a cast as well, as an offset.
const NUMBERS: [&str; 8] = ["int2", "int4", "int8", "smallint", "integer", "int", "bigint", "numeric"];

/// Functions with a call syntax of their own in SQL, which sqlparser knows without a schema only.
const FORMS: [&str; 8] = ["substr", "substring", "position", "overlay", "trim", "extract", "floor", "ceil"];

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

/// `pg_catalog.current_user()`, which PostgreSQL has as a function, too, as `current_user`. Gives whether the bracket
/// is part of it.
fn called_user(tokens: &mut Vec<TokenWithSpan>, next: &Token) -> bool {
    if *next == Token::RParen
        && let [.., schema, point, user, open] = tokens.as_slice()
        && (&point.token, &open.token) == (&Token::Period, &Token::LParen)
        && is_word(Some(&schema.token), "pg_catalog")
        && ["current_user", "session_user"].iter().any(|word| is_word(Some(&user.token), word))
    {
        let user = user.clone();
        tokens.truncate(tokens.len() - 4);
        tokens.push(user);
        return true;
    }
    false
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::tests::rewritten;

    fn pushed(sql: &str) -> String {
        rewritten(sql, |tokens| {
            let all = std::mem::take(tokens);
            all.into_iter().for_each(|next| push(tokens, next));
        })
    }

    #[test]
    fn users_are_called_by_their_schema() {
        assert_eq!(pushed("a, pg_catalog.current_user() = b"), "a , current_user = b");
        assert_eq!(pushed("f(pg_catalog.session_user())"), "f ( session_user )");
        assert_eq!(pushed("pg_catalog.current_user(1)"), "pg_catalog . current_user ( 1 )");
    }

    #[test]
    fn an_operator_ends_before_a_sign() {
        for (sql, expected) in [
            ("a>-1", "a > - 1"),
            ("a>=-1", "a >= - 1"),
            ("a<>-1", "a <> - 1"),
            ("a<>+1", "a <> + 1"),
            ("a>+-1", "a > + - 1"),
            ("a->-1", "a -> - 1"),
            ("a->>-1", "a ->> - 1"),
            // Operators of their own, which PostgreSQL takes for such, too.
            ("a%-1", "a %- 1"),
            ("a<@-1", "a <@- 1"),
            ("a||-1", "a ||- 1"),
        ] {
            assert_eq!(pushed(sql), expected);
        }
        let sql = "SELECT a>-x";
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
        let mut all = Vec::new();
        tokens.into_iter().for_each(|next| push(&mut all, next));
        let places: Vec<_> = all.iter().map(|token| token.span.start.column).collect();
        assert_eq!(places, [1, 7, 8, 9, 10, 11]);
    }
}
