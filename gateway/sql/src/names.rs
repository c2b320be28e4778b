//! Names of relations that a statement creates or writes.

use datafusion::sql::sqlparser::ast::ObjectName;
use keyspan_pg::{
    error::{Result, SqlError, SqlState},
    ident::fold,
    names::{RelationName, Schema},
};

/// A name behind a schema. Statements define and write relations of users' schemas only.
///
/// # Errors
/// 42501 for a schema of the server's.
pub(crate) fn in_schema(schema: &str, name: &str) -> Result<RelationName> {
    let known = Schema::named(schema);
    if known.is_of_users() {
        return Ok(RelationName::within(known, name));
    }
    let message = format!("permission denied for schema {schema}");
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
        .with_detail("Its relations are made by the server, and can only be read."))
}

/// The name of the table that a statement writes.
///
/// # Errors
/// 42501 for a schema of the system, 0A000 for another database.
pub fn table_name(name: &ObjectName) -> Result<RelationName> {
    let parts: Option<Vec<String>> = name.0.iter().map(|part| part.as_ident().map(fold)).collect();
    match parts.as_deref() {
        Some([name]) => Ok(RelationName::bare(name.as_str())),
        Some([schema, name]) => in_schema(schema, name),
        _ => Err(SqlError::unsupported("a name of a table in another database")),
    }
}

/// The name of a temporary table, view or sequence.
///
/// # Errors
/// 42P16 for a name in a schema other than that of temporary tables.
pub(crate) fn as_temporary(name: RelationName) -> Result<RelationName> {
    match name.schema {
        None | Some(Schema::Temporary) => Ok(RelationName::within(Schema::Temporary, name.name)),
        Some(_) => {
            let message = "cannot create temporary relation in non-temporary schema";
            Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
        }
    }
}
