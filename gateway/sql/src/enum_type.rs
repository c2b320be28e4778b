//! `CREATE TYPE … AS ENUM`, `ALTER TYPE`, `DROP TYPE`.

use crate::{
    ast::{definition::Definition, enum_type::TypeChange, grant::Owned},
    definition::is_cascade,
    grant::owner_to,
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_catalog::enum_type::LabelPlace;
use keyspan_pg::error::{Result, SqlError};

/// `CREATE TYPE`
///
/// # Errors
/// 0A000 for one that is no enumerated type.
pub(crate) fn parse_create(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("type")?;
    let name = tokens.table_name()?;
    if !tokens.words("as enum") {
        return Err(SqlError::unsupported("CREATE TYPE of what is no enumerated type")
            .with_hint("CREATE TYPE name AS ENUM ('label', …) makes one."));
    }
    let labels = if tokens.peek() == Some(&Token::LParen) && tokens.peek_nth(1) == Some(&Token::RParen) {
        tokens.advance();
        tokens.advance();
        Vec::new()
    } else {
        tokens.parenthesised(TokenReader::string)?
    };
    Ok(Definition::Type(TypeChange::Create { name, labels }))
}

/// `ALTER TYPE`
///
/// # Errors
/// 0A000 for `RENAME VALUE`, since rows hold labels.
pub(crate) fn parse_alter(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("type")?;
    let name = tokens.table_name()?;
    if let Some(change) = owner_to(tokens, || Owned::Type(name.clone()))? {
        return Ok(change);
    }
    if tokens.words("rename value") {
        return Err(SqlError::unsupported("ALTER TYPE … RENAME VALUE")
            .with_hint("Rows hold the label: add the new one, and UPDATE the rows."));
    }
    let change = if tokens.words("rename to") {
        TypeChange::Rename { name, to: tokens.name()? }
    } else if tokens.words("set schema") {
        TypeChange::Move { name, to: tokens.name()? }
    } else if tokens.words("add value") {
        let if_not_exists = tokens.words("if not exists");
        let label = tokens.string()?;
        let place = if tokens.words("before") {
            LabelPlace::Before(tokens.string()?)
        } else if tokens.words("after") {
            LabelPlace::After(tokens.string()?)
        } else {
            LabelPlace::Last
        };
        TypeChange::AddLabel { name, label, place, if_not_exists }
    } else if matches!(tokens.peek(), Some(Token::Word(_))) {
        let what = format!("ALTER TYPE … {} {}", tokens.head(), tokens.head_nth(1)).to_uppercase();
        return Err(SqlError::unsupported(what));
    } else {
        return Err(tokens.syntax_error());
    };
    Ok(Definition::Type(change))
}

/// `DROP TYPE`
pub(crate) fn parse_drop(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("type")?;
    let if_exists = tokens.words("if exists");
    let names = tokens.list(TokenReader::table_name)?;
    let cascade = is_cascade(tokens);
    Ok(Definition::Type(TypeChange::Drop { names, if_exists, cascade }))
}
