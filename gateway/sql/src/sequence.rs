//! `CREATE SEQUENCE`, `DROP SEQUENCE`, and the options of identity columns.

use super::{
    clause::{CreateSequence, DropTables},
    statement::Definition,
    tokens::Cursor,
    type_name::sql_type,
};
use crate::pg::error::{Result, SqlError, SqlState};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_catalog::SequenceOptions;

pub(crate) fn parse_create_sequence(cursor: &mut Cursor<'_>) -> Result<Definition> {
    cursor.expect_words("sequence")?;
    let if_not_exists = cursor.words("if not exists");
    let name = cursor.table_name()?;
    let options = parse_options(cursor)?;
    Ok(Definition::CreateSequence(CreateSequence { name, if_not_exists, options }))
}

pub(crate) fn parse_drop_sequence(cursor: &mut Cursor<'_>) -> Result<Definition> {
    cursor.expect_words("sequence")?;
    let if_exists = cursor.words("if exists");
    let names = cursor.list(Cursor::table_name)?;
    if cursor.words("cascade") {
        return Err(SqlError::unsupported("DROP SEQUENCE … CASCADE"));
    }
    cursor.words("restrict");
    Ok(Definition::DropSequences(DropTables { names, if_exists, cascade: false }))
}

/// The options, in any order.
pub(crate) fn parse_options(cursor: &mut Cursor<'_>) -> Result<SequenceOptions> {
    let mut options = SequenceOptions::default();
    loop {
        if cursor.words("as") {
            let kind = cursor.parse_with(|parser| parser.parse_data_type())?;
            options.kind = Some(sql_type(&kind)?);
        } else if cursor.words("increment") {
            cursor.words("by");
            options.increment = Some(number(cursor)?);
        } else if cursor.words("no minvalue") {
            options.min = Some(None);
        } else if cursor.words("minvalue") {
            options.min = Some(Some(number(cursor)?));
        } else if cursor.words("no maxvalue") {
            options.max = Some(None);
        } else if cursor.words("maxvalue") {
            options.max = Some(Some(number(cursor)?));
        } else if cursor.words("start") {
            cursor.words("with");
            options.start = Some(number(cursor)?);
        } else if cursor.words("cache") {
            // The gateway keeps blocks of its own.
            if number(cursor)? < 1 {
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "CACHE must be greater than zero"));
            }
        } else if cursor.words("no cycle") {
            options.cycle = false;
        } else if cursor.words("cycle") {
            options.cycle = true;
        } else if cursor.words("owned by none") {
        } else if cursor.words("owned by") {
            return Err(SqlError::unsupported("OWNED BY of a sequence"));
        } else {
            return Ok(options);
        }
    }
}

fn number(cursor: &mut Cursor<'_>) -> Result<i64> {
    let sign = if cursor.token(&Token::Minus) { "-" } else { "" };
    let Some(Token::Number(digits, _)) = cursor.peek() else { return Err(cursor.syntax_error()) };
    let number = format!("{sign}{digits}").parse().map_err(|_| cursor.syntax_error())?;
    cursor.advance();
    Ok(number)
}
