//! Forms that PostgreSQL knows and sqlparser does not, as those that it knows: changed as the tokens come by.

use super::{at, is_word};
use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan, Word},
};
use keyspan_pg::{
    error::{Result, SqlError},
    functions::{spread::MARK, texts::SUBSTRING_SIMILAR},
};

/// Adds a token, and simplifies what the last ones are together.
pub(super) fn push(tokens: &mut Vec<TokenWithSpan>, next: TokenWithSpan) {
    unqualify_form(tokens, &next.token);
    unqualify_operator(tokens, &next.token);
    without_only(tokens, &next.token);
    interval_of_frame(tokens, &next.token);
    without_exclude_no_others(tokens, &next.token);
    if typed_name(tokens, &next) {
        return;
    }
    if !(continues_text(tokens, &next) || orders_using(tokens, &next.token) || trims_blanks(tokens, &next.token)) {
        tokens.push(next);
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

/// `f(a, VARIADIC b)` as a call around the last argument, whose function no user can write.
pub(super) fn variadic_as_calls(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 1;
    while at < tokens.len() {
        let begins = is_word(Some(&tokens[at].token), "variadic")
            && matches!(tokens[at - 1].token, Token::LParen | Token::Comma)
            && tokens.get(at + 1).is_some_and(|next| !matches!(next.token, Token::Comma | Token::RParen));
        if begins && let Some(end) = end_of_argument(tokens, at + 1) {
            let word = Word { value: MARK.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
            let (open, close) = (tokens[at + 1].span, tokens[end].span);
            tokens.insert(end, TokenWithSpan { token: Token::RParen, span: close });
            tokens[at].token = Token::Word(word);
            tokens.insert(at + 1, TokenWithSpan { token: Token::LParen, span: open });
        }
        at += 1;
    }
}

/// `SUBSTRING(a SIMILAR b ESCAPE c)` as a call of a function of three arguments.
pub(super) fn substring_similar_as_calls(tokens: &mut [TokenWithSpan]) {
    for start in 0..tokens.len().saturating_sub(1) {
        if !is_word(Some(&tokens[start].token), "substring") || tokens[start + 1].token != Token::LParen {
            continue;
        }
        let (mut depth, mut similar) = (0_usize, None);
        for at in start + 2..tokens.len() {
            match &tokens[at].token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket if depth > 0 => depth -= 1,
                Token::RParen => break,
                _ if depth > 0 => {}
                token if is_word(Some(token), "similar") => {
                    let is_to = is_word(tokens.get(at + 1).map(|next| &next.token), "to");
                    similar = (!is_to).then_some(at);
                }
                token if is_word(Some(token), "escape") => {
                    let Some(similar) = similar else { break };
                    let word =
                        Word { value: SUBSTRING_SIMILAR.to_owned(), quote_style: None, keyword: Keyword::NoKeyword };
                    tokens[start].token = Token::Word(word);
                    (tokens[similar].token, tokens[at].token) = (Token::Comma, Token::Comma);
                    break;
                }
                _ => {}
            }
        }
    }
}

/// Refuses a word that follows a number at once (`123abc`), and digits with underscores or in hexadecimal, which
/// PostgreSQL 15 does not read.
///
/// # Errors
/// 42601
pub(super) fn refuse_junk(sql: &str, before: &mut Option<TokenWithSpan>, token: &TokenWithSpan) -> Result<()> {
    let number = before.take();
    let junk = |start: &TokenWithSpan, text: String| {
        let message = format!("trailing junk after numeric literal at or near \"{text}\"");
        Err(at(sql, start.span.start, SqlError::syntax(message)))
    };
    match (&token.token, &number) {
        (Token::Word(word), Some(number)) if number.span.end == token.span.start && word.quote_style.is_none() => {
            return junk(number, format!("{}{}", number.token, word.value));
        }
        (Token::Number(digits, _), _) => {
            let span = token.span;
            let columns = span.end.column.saturating_sub(span.start.column);
            if digits.contains('_') || usize::try_from(columns).unwrap_or(usize::MAX) != digits.len() {
                return junk(token, token.token.to_string());
            }
            *before = Some(token.clone());
        }
        _ => {}
    }
    Ok(())
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

/// The place of the parenthesis that ends the arguments, the last of which begins at a place.
fn end_of_argument(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen if depth == 0 => return Some(at),
            Token::Comma if depth == 0 => return None,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
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

/// `EXCLUDE NO OTHERS` at the end of a frame, which says nothing.
fn without_exclude_no_others(tokens: &mut Vec<TokenWithSpan>, next: &Token) {
    if *next == Token::RParen
        && let [.., exclude, no, others] = tokens.as_slice()
        && is_word(Some(&exclude.token), "exclude")
        && is_word(Some(&no.token), "no")
        && is_word(Some(&others.token), "others")
    {
        tokens.truncate(tokens.len() - 3);
    }
}

/// Types of numbers that a literal has without a cast as well, as an offset.
const NUMBERS: [&str; 8] = ["int2", "int4", "int8", "smallint", "integer", "int", "bigint", "numeric"];

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
