//! `SHOW TABLES`, `SHOW COLUMNS`, `SHOW CREATE`, `DESCRIBE`: what people who come from MySQL type.

use crate::{
    ast::{Description, Statement},
    tokens::TokenReader,
};
use keyspan_pg::{
    error::Result,
    names::{RelationName, Schema},
};

/// Parses what follows `SHOW` if it is no setting; `None` if it is one.
pub(crate) fn parse_show(tokens: &mut TokenReader<'_>) -> Result<Option<Description>> {
    if tokens.words("create") {
        let kinds = [("table", "table"), ("view", "view"), ("materialized view", "view"), ("sequence", "sequence")];
        let kind = kinds.into_iter().find(|(word, _)| tokens.words(word)).ok_or_else(|| tokens.syntax_error())?.1;
        return Ok(Some(Description::Create(kind, relation(tokens)?)));
    }
    if tokens.words("tables") {
        return Ok(Some(Description::Tables));
    }
    if tokens.words("columns from") || tokens.words("columns in") {
        return Ok(Some(Description::Columns(relation(tokens)?)));
    }
    Ok(None)
}

/// `DESCRIBE name`, `DESC name`
pub(crate) fn parse_describe(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    tokens.advance();
    Ok(Statement::Describe(Description::Columns(relation(tokens)?)))
}

/// The name of a relation, which may be one of the system's.
fn relation(tokens: &mut TokenReader<'_>) -> Result<RelationName> {
    let parts = tokens.path()?;
    let within = |schema: &str, name: &str| Some(RelationName::within(Schema::named(schema), name));
    let known = match parts.as_slice() {
        [schema, name] => within(schema, name),
        [database, schema, name] if database == tokens.database() => within(schema, name),
        _ => None,
    };
    known.map_or_else(|| tokens.relation(&parts), Ok)
}
