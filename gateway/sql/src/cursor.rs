//! Cursors: `DECLARE`, `FETCH`, `MOVE`, `CLOSE`.

use crate::{
    ast::{
        SelectQuery, Statement,
        session::{CursorStatement, Declare, Direction, Fetch},
    },
    query::parse_locking,
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_pg::error::{Result, SqlError};

pub(crate) fn parse_declare(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let text = tokens.text();
    tokens.expect_words("declare")?;
    let name = tokens.name()?;
    let (mut scroll, mut no_scroll) = (false, false);
    loop {
        if tokens.words("binary") {
            return Err(SqlError::unsupported("a binary cursor")
                .with_hint("A driver asks for binary in the extended protocol."));
        } else if tokens.words("no scroll") {
            no_scroll = true;
        } else if tokens.words("scroll") {
            scroll = true;
        } else if !tokens.words("insensitive") && !tokens.words("asensitive") {
            break;
        }
    }
    if scroll && no_scroll {
        return Err(SqlError::syntax("cannot specify both SCROLL and NO SCROLL"));
    }
    tokens.expect_words("cursor")?;
    let hold = tokens.words("with hold");
    if !hold {
        tokens.words("without hold");
    }
    tokens.expect_words("for")?;
    if !matches!(tokens.head().as_str(), "" | "select" | "values" | "with" | "table") {
        return Err(tokens.syntax_error());
    }
    let query = SelectQuery::from(parse_locking(tokens)?);
    if matches!(query, SelectQuery::Locking(_)) && (hold || scroll) {
        let what =
            if hold { "DECLARE CURSOR WITH HOLD ... FOR UPDATE" } else { "DECLARE SCROLL CURSOR ... FOR UPDATE" };
        return Err(SqlError::unsupported(what));
    }
    Ok(Statement::Cursor(CursorStatement::Declare(Declare { name, scroll, hold, query, text })))
}

pub(crate) fn parse_fetch(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let moves = tokens.head() == "move";
    tokens.advance();
    let direction = direction(tokens)?;
    if !tokens.words("from") {
        tokens.words("in");
    }
    let fetch = Fetch { name: tokens.name()?, direction };
    Ok(Statement::Cursor(if moves { CursorStatement::Move(fetch) } else { CursorStatement::Fetch(fetch) }))
}

pub(crate) fn parse_close(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    tokens.expect_words("close")?;
    let name = if tokens.words("all") { None } else { Some(tokens.name()?) };
    Ok(Statement::Cursor(CursorStatement::Close(name)))
}

fn direction(tokens: &mut TokenReader<'_>) -> Result<Direction> {
    // The words are also names of cursors: `FETCH next` reads one row of a cursor `next`.
    let alone = tokens.peek_nth(1).is_none();
    let one = [
        ("next", Direction::Forward(1)),
        ("prior", Direction::Backward(1)),
        ("first", Direction::Absolute(1)),
        ("last", Direction::Absolute(-1)),
        ("all", Direction::Forward(u64::MAX)),
    ];
    if alone {
        return Ok(Direction::Forward(1));
    }
    if let Some((_, direction)) = one.into_iter().find(|(word, _)| tokens.words(word)) {
        return Ok(direction);
    }
    if tokens.words("absolute") {
        return Ok(Direction::Absolute(number(tokens)?.ok_or_else(|| tokens.syntax_error())?));
    }
    if tokens.words("relative") {
        return Ok(Direction::Relative(number(tokens)?.ok_or_else(|| tokens.syntax_error())?));
    }
    let back = tokens.words("backward");
    if back || tokens.words("forward") {
        if tokens.words("all") {
            return Ok(if back { Direction::Backward(u64::MAX) } else { Direction::Forward(u64::MAX) });
        }
        return Ok(counted(number(tokens)?.unwrap_or(1), back));
    }
    Ok(number(tokens)?.map_or(Direction::Forward(1), |count| counted(count, false)))
}

/// The direction for a count of rows forward or back: a negative count reverses it, and 0 is the current row.
fn counted(count: i64, back: bool) -> Direction {
    match (count, back == (count < 0)) {
        (0, _) => Direction::Relative(0),
        (count, true) => Direction::Forward(count.unsigned_abs()),
        (count, false) => Direction::Backward(count.unsigned_abs()),
    }
}

/// An integer with its sign, if one comes next.
fn number(tokens: &mut TokenReader<'_>) -> Result<Option<i64>> {
    let sign = if tokens.token(&Token::Minus) {
        Some("-")
    } else if tokens.token(&Token::Plus) {
        Some("")
    } else {
        None
    };
    let Some(Token::Number(digits, _)) = tokens.peek() else {
        return if sign.is_some() { Err(tokens.syntax_error()) } else { Ok(None) };
    };
    let number = format!("{}{digits}", sign.unwrap_or_default()).parse().map_err(|_| tokens.syntax_error())?;
    tokens.advance();
    Ok(Some(number))
}
