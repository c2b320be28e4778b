//! `CREATE SCHEMA`, `ALTER SCHEMA`, `DROP SCHEMA`, `ALTER … SET SCHEMA`.

use crate::{
    ast::{
        Maintenance, Statement,
        definition::Definition,
        grant::Owned,
        schema::{Moved, SchemaChange},
    },
    definition::is_cascade,
    grant::{self, owner_to},
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_pg::{
    error::{Result, SqlError, SqlState},
    names::{RelationName, Schema},
};

/// `CREATE SCHEMA`
///
/// # Errors
/// 42P06 for a schema that every database has, unless `IF NOT EXISTS`; 0A000 for one with elements.
pub(crate) fn parse_create(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    tokens.expect_words("schema")?;
    let if_not_exists = tokens.words("if not exists");
    let named = tokens.head() != "authorization";
    let name = if named { Some(name(tokens)?) } else { None };
    let owner = if tokens.words("authorization") { Some(grant::role(tokens)?) } else { None };
    if matches!(tokens.head().as_str(), "create" | "grant") {
        return Err(SqlError::unsupported("CREATE SCHEMA with elements")
            .with_hint("Create the schema, then what it shall have."));
    }
    if let Some(known) = name.as_deref().and_then(Schema::of).filter(|known| !matches!(known, Schema::Temporary)) {
        let name = known.name();
        if if_not_exists {
            return Ok(Statement::Maintenance(Maintenance::Schema(name.to_owned())));
        }
        return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, format!("schema \"{name}\" already exists")));
    }
    Ok(Definition::Schema(SchemaChange::Create { name, if_not_exists, owner }).into())
}

/// The name of a schema, with or without that of the database.
fn name(tokens: &mut TokenReader<'_>) -> Result<String> {
    let name = tokens.name()?;
    if name == tokens.database() && tokens.token(&Token::Period) {
        return tokens.name();
    }
    Ok(name)
}

/// `DROP SCHEMA`
pub(crate) fn parse_drop(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("schema")?;
    let if_exists = tokens.words("if exists");
    let names = tokens.list(name)?;
    let cascade = is_cascade(tokens);
    Ok(Definition::Schema(SchemaChange::Drop { names, if_exists, cascade }))
}

/// `ALTER SCHEMA`
pub(crate) fn parse_alter(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("schema")?;
    let name = name(tokens)?;
    if let Some(change) = owner_to(tokens, || Owned::Schema(name.clone()))? {
        return Ok(change);
    }
    tokens.expect_words("rename to")?;
    Ok(Definition::Schema(SchemaChange::Rename { name, to: tokens.name()? }))
}

/// `SET SCHEMA name`, if that comes.
pub(crate) fn set_schema(
    tokens: &mut TokenReader<'_>,
    kind: Moved,
    (name, if_exists): (&RelationName, bool),
) -> Result<Option<Definition>> {
    if !tokens.words("set schema") {
        return Ok(None);
    }
    let (name, to) = (name.clone(), tokens.name()?);
    Ok(Some(Definition::Schema(SchemaChange::Move { kind, name, if_exists, to })))
}
