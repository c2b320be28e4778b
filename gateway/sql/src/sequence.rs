//! `CREATE [TEMPORARY] SEQUENCE`, `ALTER SEQUENCE`, `DROP SEQUENCE`, and the options of identity columns.

use crate::{
    ast::{
        definition::{AlterSequence, CreateSequence, Definition, DropTables, OwnSequence},
        grant::Owned,
        schema::Moved,
    },
    grant,
    names::as_temporary,
    schema::set_schema,
    tokens::TokenReader,
    type_name::sql_type,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_catalog::{SequenceOptions, table::Identity};
use keyspan_pg::{
    error::{Result, SqlError, SqlState},
    names::RelationName,
};

pub(crate) fn parse_create_sequence(tokens: &mut TokenReader<'_>, temporary: bool) -> Result<Definition> {
    tokens.expect_words("sequence")?;
    let if_not_exists = tokens.words("if not exists");
    let name = tokens.table_name()?;
    let name = if temporary { as_temporary(name)? } else { name };
    let options = parse_options(tokens)?;
    Ok(Definition::CreateSequence(CreateSequence { name, if_not_exists, options }))
}

/// `ALTER SEQUENCE …`, also `… OWNER TO role` and `… OWNED BY column`
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
    let (mut options, mut owner, mut is_any) = (SequenceOptions::default(), None, false);
    if tokens.words("rename to") {
        let rename = Some(tokens.name()?);
        return Ok(Definition::AlterSequence(AlterSequence { name, if_exists, options, owner, rename }));
    }
    loop {
        if tokens.words("owned by") {
            owner = Some(owned_by(tokens)?);
        } else if !parse_option(tokens, &mut options, true)? {
            break;
        }
        is_any = true;
    }
    if !is_any {
        return Err(tokens.syntax_error());
    }
    Ok(Definition::AlterSequence(AlterSequence { name, if_exists, options, owner, rename: None }))
}

/// What stands behind `OWNED BY`.
fn owned_by(tokens: &mut TokenReader<'_>) -> Result<Option<(RelationName, String)>> {
    if tokens.words("none") {
        return Ok(None);
    }
    let mut parts = tokens.path()?;
    match parts.pop() {
        Some(column) if !parts.is_empty() => Ok(Some((tokens.relation(&parts)?, column))),
        _ => {
            Err(SqlError::syntax("invalid OWNED BY option")
                .with_hint("Specify OWNED BY table.column or OWNED BY NONE."))
        }
    }
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
        if tokens.words("owned by none") {
        } else if tokens.words("owned by") {
            return Err(SqlError::unsupported("OWNED BY of a sequence"));
        } else if !parse_option(tokens, &mut options, false)? {
            return Ok(options);
        }
    }
}

/// An option of a sequence, of one that is there if `restarts`; whether there was one.
pub(crate) fn parse_option(
    tokens: &mut TokenReader<'_>,
    options: &mut SequenceOptions,
    restarts: bool,
) -> Result<bool> {
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
        options.cycle = Some(false);
    } else if tokens.words("cycle") {
        options.cycle = Some(true);
    } else if restarts && tokens.words("restart") {
        let is_number = matches!(tokens.peek(), Some(Token::Number(..) | Token::Minus));
        let with = tokens.words("with") || is_number;
        options.restart = Some(if with { Some(number(tokens)?) } else { None });
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// The first words of options of a sequence.
const OF_SEQUENCES: [&str; 7] = ["increment", "minvalue", "maxvalue", "no", "start", "cache", "cycle"];

fn identity_options(tokens: &mut TokenReader<'_>) -> Result<OwnSequence> {
    if !tokens.token(&Token::LParen) {
        return Ok(OwnSequence::default());
    }
    let name = if tokens.words("sequence name") { Some(tokens.table_name()?) } else { None };
    let options = parse_options(tokens)?;
    tokens.expect_token(&Token::RParen)?;
    Ok(OwnSequence { name, options })
}

/// `GENERATED … AS IDENTITY (…)`, if that comes next.
pub(crate) fn identity(tokens: &mut TokenReader<'_>) -> Result<Option<(Identity, OwnSequence)>> {
    let identity = if tokens.words("generated always as identity") {
        Identity::Always
    } else if tokens.words("generated by default as identity") {
        Identity::ByDefault
    } else {
        return Ok(None);
    };
    Ok(Some((identity, identity_options(tokens)?)))
}

/// Changes of an identity column: `SET GENERATED ALWAYS`, `SET` and an option of its sequence, `RESTART`.
pub(crate) fn identity_changes(tokens: &mut TokenReader<'_>) -> Result<Option<(Option<Identity>, SequenceOptions)>> {
    let (mut identity, mut options, mut is_any) = (None, SequenceOptions::default(), false);
    loop {
        if tokens.words("set generated always") {
            identity = Some(Identity::Always);
        } else if tokens.words("set generated by default") {
            identity = Some(Identity::ByDefault);
        } else if tokens.head() == "restart" {
            parse_option(tokens, &mut options, true)?;
        } else if tokens.head() == "set" && OF_SEQUENCES.contains(&tokens.head_nth(1).as_str()) {
            tokens.advance();
            if !parse_option(tokens, &mut options, false)? {
                return Err(tokens.syntax_error());
            }
        } else {
            return Ok(is_any.then_some((identity, options)));
        }
        is_any = true;
    }
}

fn number(tokens: &mut TokenReader<'_>) -> Result<i64> {
    let sign = if tokens.token(&Token::Minus) { "-" } else { "" };
    let Some(Token::Number(digits, _)) = tokens.peek() else { return Err(tokens.syntax_error()) };
    let number = format!("{sign}{digits}").parse().map_err(|_| tokens.syntax_error())?;
    tokens.advance();
    Ok(number)
}
