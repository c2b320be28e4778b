//! `CREATE SEQUENCE`, `ALTER SEQUENCE`, `DROP SEQUENCE`, and the options of identity columns.

use crate::{
    ast::{
        definition::{AlterSequence, CreateSequence, Definition, DropTables},
        grant::Owned,
        schema::Moved,
    },
    grant,
    schema::set_schema,
    tokens::TokenReader,
    type_name::sql_type,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_catalog::SequenceOptions;
use keyspan_pg::error::{Result, SqlError, SqlState};

pub(crate) fn parse_create_sequence(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("sequence")?;
    let if_not_exists = tokens.words("if not exists");
    let name = tokens.table_name()?;
    let options = parse_options(tokens)?;
    Ok(Definition::CreateSequence(CreateSequence { name, if_not_exists, options }))
}

/// `ALTER SEQUENCE … OWNER TO role`, `… OWNED BY column`
pub(crate) fn parse_alter_sequence(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("sequence")?;
    let if_exists = tokens.words("if exists");
    let name = tokens.table_name()?;
    if let Some(change) = grant::owner_to(tokens, || Owned::Sequence(name.clone(), if_exists))? {
        return Ok(change);
    }
    if let Some(moved) = set_schema(tokens, Moved::Sequence, (&name, if_exists))? {
        return Ok(moved);
    }
    if !tokens.words("owned by") {
        return Err(SqlError::unsupported(format!("ALTER SEQUENCE … {}", tokens.head().to_uppercase())));
    }
    let owner = if tokens.words("none") {
        None
    } else {
        let mut parts = tokens.path()?;
        match parts.pop() {
            Some(column) if !parts.is_empty() => Some((tokens.relation(&parts)?, column)),
            _ => {
                return Err(SqlError::syntax("invalid OWNED BY option")
                    .with_hint("Specify OWNED BY table.column or OWNED BY NONE."));
            }
        }
    };
    Ok(Definition::AlterSequence(AlterSequence { name, if_exists, owner }))
}

pub(crate) fn parse_drop_sequence(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("sequence")?;
    let if_exists = tokens.words("if exists");
    let names = tokens.list(TokenReader::table_name)?;
    if tokens.words("cascade") {
        return Err(SqlError::unsupported("DROP SEQUENCE … CASCADE"));
    }
    tokens.words("restrict");
    Ok(Definition::DropSequences(DropTables { names, if_exists, cascade: false }))
}

/// The options, in any order.
pub(crate) fn parse_options(tokens: &mut TokenReader<'_>) -> Result<SequenceOptions> {
    let mut options = SequenceOptions::default();
    loop {
        if tokens.words("as") {
            let kind = tokens.parse_with(|parser| parser.parse_data_type())?;
            options.kind = Some(sql_type(&kind)?);
        } else if tokens.words("increment") {
            tokens.words("by");
            options.increment = Some(number(tokens)?);
        } else if tokens.words("no minvalue") {
            options.min = Some(None);
        } else if tokens.words("minvalue") {
            options.min = Some(Some(number(tokens)?));
        } else if tokens.words("no maxvalue") {
            options.max = Some(None);
        } else if tokens.words("maxvalue") {
            options.max = Some(Some(number(tokens)?));
        } else if tokens.words("start") {
            tokens.words("with");
            options.start = Some(number(tokens)?);
        } else if tokens.words("cache") {
            // The gateway reserves blocks of values whose size it chooses itself.
            if number(tokens)? < 1 {
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "CACHE must be greater than zero"));
            }
        } else if tokens.words("no cycle") {
            options.cycle = false;
        } else if tokens.words("cycle") {
            options.cycle = true;
        } else if tokens.words("owned by none") {
        } else if tokens.words("owned by") {
            return Err(SqlError::unsupported("OWNED BY of a sequence"));
        } else {
            return Ok(options);
        }
    }
}

fn number(tokens: &mut TokenReader<'_>) -> Result<i64> {
    let sign = if tokens.token(&Token::Minus) { "-" } else { "" };
    let Some(Token::Number(digits, _)) = tokens.peek() else { return Err(tokens.syntax_error()) };
    let number = format!("{sign}{digits}").parse().map_err(|_| tokens.syntax_error())?;
    tokens.advance();
    Ok(number)
}
