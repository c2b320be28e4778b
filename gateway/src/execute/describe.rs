//! `SHOW TABLES`, `DESCRIBE` and `SHOW CREATE`: what there is, and the statements that make it again.

use super::show::{text_rows, texts};
use crate::{
    context::StatementContext,
    execute::Outcome,
    lookup,
    pg::{
        error::{Result, SqlError, SqlState},
        names::RelationName,
    },
    pg_catalog::{create, objects},
    sql::ast::Description,
    system_relations,
};
use arrow::datatypes::SchemaRef;
use keyspan_catalog::Relation;

/// The columns of the rows.
pub(crate) fn columns(description: &Description) -> SchemaRef {
    match description {
        Description::Tables => texts(&create::TABLE_COLUMNS),
        Description::Columns(_) => texts(&create::DESCRIBE_COLUMNS),
        Description::Create(..) => texts(&["name", "statement"]),
    }
}

/// The rows.
///
/// # Errors
/// 42P01 for a relation that does not exist, 42809 for one of another kind.
pub(crate) fn rows(statement: &StatementContext, description: &Description) -> Result<Outcome> {
    let rows = match description {
        Description::Tables => create::table_rows(statement),
        Description::Columns(name) => match find(statement, name) {
            Some(relation) => create::column_rows(relation, statement),
            None => create::system_column_rows(of_system(statement, name)?, statement),
        },
        Description::Create(kind, name) => vec![vec![Some(name.to_string()), Some(created(statement, kind, name)?)]],
    };
    text_rows("SHOW", columns(description), &rows)
}

fn find<'a>(statement: &'a StatementContext, name: &RelationName) -> Option<Relation<'a>> {
    lookup::find(&statement.snapshot, statement.tenant.as_ref(), &statement.path, name).map(|(_, found)| found)
}

/// The relation of the system with this name.
fn of_system(statement: &StatementContext, name: &RelationName) -> Result<&'static system_relations::Relation> {
    let oid = objects::oid_of_relation(statement, &name.sql());
    let relation = system_relations::all().find(|relation| Some(relation.oid) == oid);
    let named = name.schema.as_ref().and_then(|schema| system_relations::find(schema.name(), &name.name));
    let found = relation.or(named).filter(|found| system_relations::is_visible(found, statement.operator));
    found.ok_or_else(|| match oid {
        Some(_) => wrong_kind(name, "table or view"),
        None => name.missing("relation"),
    })
}

fn created(statement: &StatementContext, kind: &str, name: &RelationName) -> Result<String> {
    if kind == "sequence" {
        let oid = objects::oid_of_relation(statement, &name.sql());
        let found = oid.and_then(|oid| statement.snapshot.sequence_of(statement.tenant.as_ref(), oid));
        return found.map(|sequence| create::sequence(sequence)).ok_or_else(|| match oid {
            Some(_) => wrong_kind(name, kind),
            None => name.missing("relation"),
        });
    }
    match (kind, find(statement, name)) {
        ("table", Some(Relation::Table(table))) => Ok(create::table(table, statement)),
        ("view", Some(Relation::View(view))) => Ok(create::view(view, statement)),
        (_, None) if objects::oid_of_relation(statement, &name.sql()).is_none() => Err(name.missing("relation")),
        _ => Err(wrong_kind(name, kind)),
    }
}

/// 42809
fn wrong_kind(name: &RelationName, kind: &str) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a {kind}", name.written()))
}
