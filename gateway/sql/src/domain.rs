//! `CREATE DOMAIN`, `ALTER DOMAIN`, `DROP DOMAIN`.

use crate::{
    ast::{
        definition::Definition,
        domain::{CreateDomain, DomainAction, DomainChange},
        grant::Owned,
    },
    definition::{is_cascade, parse_condition, parse_default},
    grant::owner_to,
    tokens::TokenReader,
    type_name::parse_column_type,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_pg::error::{Result, SqlError, SqlState};

/// `CREATE DOMAIN`
///
/// # Errors
/// 42601; 0A000 for a collation.
pub(crate) fn parse_create(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("domain")?;
    let name = tokens.table_name()?;
    tokens.words("as");
    let (kind, over) = parse_column_type(tokens)?;
    let (mut default, mut checks) = (None, Vec::new());
    let (mut not_null, mut null) = (false, false);
    while !matches!(tokens.peek(), None | Some(Token::SemiColon)) {
        let constraint = if tokens.words("constraint") { Some(tokens.name()?) } else { None };
        if tokens.words("default") {
            if default.is_some() {
                return Err(SqlError::syntax("multiple default expressions"));
            }
            default = Some(parse_default(tokens)?);
        } else if tokens.head() == "check" {
            checks.push(parse_condition(tokens, constraint)?);
            if tokens.words("no inherit") {
                let message = "check constraints for domains cannot be marked NO INHERIT";
                return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
            }
        } else if tokens.words("not null") {
            not_null = true;
        } else if tokens.words("null") {
            null = true;
        } else {
            return Err(refused(tokens));
        }
        if null && not_null {
            return Err(SqlError::syntax("conflicting NULL/NOT NULL constraints"));
        }
    }
    Ok(Definition::Domain(DomainChange::Create(Box::new(CreateDomain { name, kind, over, not_null, default, checks }))))
}

/// What is no clause of a domain.
fn refused(tokens: &TokenReader<'_>) -> SqlError {
    let impossible = |what: &str| SqlError::syntax(format!("{what} constraints not possible for domains"));
    match tokens.head().as_str() {
        "unique" => impossible("unique"),
        "primary" => impossible("primary key"),
        "exclude" => impossible("exclusion"),
        "references" | "foreign" => impossible("foreign key"),
        "deferrable" | "initially" => {
            SqlError::unsupported("specifying constraint deferrability not supported for domains")
        }
        "collate" => SqlError::unsupported("COLLATE of a domain"),
        _ => tokens.syntax_error(),
    }
}

/// `ALTER DOMAIN`
///
/// # Errors
/// 42601.
pub(crate) fn parse_alter(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("domain")?;
    let name = tokens.table_name()?;
    if let Some(change) = owner_to(tokens, || Owned::Domain(name.clone()))? {
        return Ok(change);
    }
    let action = if tokens.words("set default") {
        DomainAction::Default(Some(parse_default(tokens)?))
    } else if tokens.words("drop default") {
        DomainAction::Default(None)
    } else if tokens.words("set not null") {
        DomainAction::NotNull(true)
    } else if tokens.words("drop not null") {
        DomainAction::NotNull(false)
    } else if tokens.words("add") {
        let constraint = if tokens.words("constraint") { Some(tokens.name()?) } else { None };
        if tokens.head() != "check" {
            return Err(refused(tokens));
        }
        let check = parse_condition(tokens, constraint)?;
        DomainAction::AddCheck { check, is_valid: !tokens.words("not valid") }
    } else if tokens.words("drop constraint") {
        let if_exists = tokens.words("if exists");
        let name = tokens.name()?;
        is_cascade(tokens);
        DomainAction::DropConstraint { name, if_exists }
    } else if tokens.words("rename constraint") {
        let from = tokens.name()?;
        tokens.expect_words("to")?;
        DomainAction::RenameConstraint { from, to: tokens.name()? }
    } else if tokens.words("validate constraint") {
        DomainAction::Validate(tokens.name()?)
    } else if tokens.words("rename to") {
        DomainAction::Rename(tokens.name()?)
    } else if tokens.words("set schema") {
        DomainAction::Move(tokens.name()?)
    } else {
        return Err(tokens.syntax_error());
    };
    Ok(Definition::Domain(DomainChange::Alter { name, action: Box::new(action) }))
}

/// `DROP DOMAIN`
pub(crate) fn parse_drop(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("domain")?;
    let if_exists = tokens.words("if exists");
    let names = tokens.list(TokenReader::table_name)?;
    let cascade = is_cascade(tokens);
    Ok(Definition::Domain(DomainChange::Drop { names, if_exists, cascade }))
}
