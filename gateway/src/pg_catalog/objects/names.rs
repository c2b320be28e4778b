//! Relations by name and names by OID, along the search path.

use super::{index_oid, is_index, key_name, sequences, system_relations, table_of_oid};
use crate::pg::{error::Result, ident::quote_ident};
use crate::{context::StatementContext, pg::names::Schema, pg_catalog::views};
use keyspan_catalog::Table;
use std::sync::Arc;

/// The relation of a name, with a schema or along the search path.
pub fn oid_of_relation(statement: &StatementContext, name: &str) -> Option<u32> {
    let parts: Vec<String> = name.split('.').map(crate::pg::ident::unquoted).collect();
    match parts.as_slice() {
        [name] => statement.path.lookup().find_map(|schema| oid_within(statement, &schema, name)),
        [schema, name] if *schema == statement.temporary_schema() => oid_within(statement, &Schema::Temporary, name),
        [schema, name] => oid_within(statement, &Schema::named(schema), name),
        _ => None,
    }
}

/// The relation of a name as a value, whose schema the statement's role has to be allowed to use.
///
/// # Errors
/// 42501.
pub fn usable_relation(statement: &StatementContext, name: &str) -> Result<Option<u32>> {
    let found = oid_of_relation(statement, name);
    match found {
        Some(oid) => statement.authorize_schema_of(oid).map(|()| found),
        None => Ok(None),
    }
}

/// The relation of a name in a schema: a table, an index, a sequence or a view.
fn oid_within(statement: &StatementContext, schema: &Schema, name: &str) -> Option<u32> {
    if !schema.is_of_users() {
        let mut relations = system_relations(statement).filter(|relation| relation.schema == schema.name());
        return relations.find(|relation| relation.name == name).map(|found| found.oid);
    }
    let is_there = |oid: u32| statement.schema_of(oid) == *schema;
    let tables: Vec<&Arc<Table>> = match schema {
        Schema::Temporary => statement.temporary_tables().collect(),
        _ => statement.permanent_tables().filter(|table| is_there(table.id.0)).collect(),
    };
    let table = tables.iter().find(|table| table.name == name).map(|table| table.id.0);
    let index = || {
        let mut keyed = tables.iter().filter(|table| !table.has_hidden_key());
        keyed.find(|table| key_name(table) == name).map(|table| index_oid(table))
    };
    let mut sequences = sequences(statement).filter(|sequence| is_there(sequence.id));
    let found = table.or_else(index).or_else(|| Some(sequences.find(|sequence| sequence.name == name)?.id));
    let mut views = views::all(statement).filter(|view| is_there(view.id));
    found.or_else(|| Some(views.find(|view| view.name == name)?.id))
}

/// Whether a relation is the one that its name means where it says no schema; `false` for a number that no relation
/// has.
pub fn is_visible(statement: &StatementContext, oid: u32) -> bool {
    schema_and_name(statement, oid).is_some_and(|(schema, name)| is_first(statement, &schema, &name))
}

/// Whether no schema before this one in the path has a relation of the name, and this one is in it.
fn is_first(statement: &StatementContext, schema: &Schema, name: &str) -> bool {
    let mut path = statement.path.lookup();
    path.find(|place| place == schema || oid_within(statement, place, name).is_some()).as_ref() == Some(schema)
}

/// The name of a relation, with its schema where it is not found without.
pub fn name_of_relation(statement: &StatementContext, oid: u32) -> Option<String> {
    let (schema, name) = schema_and_name(statement, oid)?;
    if is_first(statement, &schema, &name) {
        return Some(quote_ident(&name));
    }
    let schema = if schema == Schema::Temporary { statement.temporary_schema() } else { schema.name().to_owned() };
    Some(format!("{}.{}", quote_ident(&schema), quote_ident(&name)))
}

fn schema_and_name(statement: &StatementContext, oid: u32) -> Option<(Schema, String)> {
    let place = |number| statement.schema_of(number);
    if let Some(table) = table_of_oid(statement, oid) {
        let name = if is_index(oid) { key_name(table) } else { table.name.clone() };
        return Some((place(table.id.0), name));
    }
    if let Some(sequence) = sequences(statement).find(|sequence| sequence.id == oid) {
        return Some((place(oid), sequence.name.clone()));
    }
    if let Some(view) = views::all(statement).find(|view| view.id == oid) {
        return Some((place(view.id), view.name.clone()));
    }
    let relation = system_relations(statement).find(|relation| relation.oid == oid)?;
    Some((Schema::of(relation.schema)?, relation.name.to_owned()))
}
