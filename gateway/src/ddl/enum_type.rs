//! `CREATE TYPE … AS ENUM`, `ALTER TYPE`, `DROP TYPE`: a tenant's enumerated types.

use super::{
    private::{change, schema_oid, tenant},
    skipped,
};
use crate::{
    lookup,
    pg::{
        error::{Result, SqlError, SqlState},
        names::{RelationName, Schema},
    },
    session::Session,
    sql::ast::{definition::ColumnClause, enum_type::TypeChange},
};
use keyspan_catalog::{EnumType, PrivateEdit, Snapshot, enum_type::LabelPlace, snapshot::FIRST_OID};
use std::sync::Arc;

pub(super) async fn execute(session: &mut Session, said: &TypeChange) -> Result<()> {
    if session.identity.operator {
        return Err(SqlError::unsupported(format!("{} in the operator's database", tag(said)))
            .with_hint("A type belongs to a tenant: create it in the tenant's database."));
    }
    match said {
        TypeChange::Create { name, labels } => create(session, name, labels).await,
        TypeChange::AddLabel { name, label, place, if_not_exists } => {
            add_label(session, name, (label, place), *if_not_exists).await
        }
        TypeChange::Rename { name, to } => {
            let found = owned(session, name)?;
            let named = EnumType::define(found.id, found.schema, to, &[])?;
            alter(session, &found, EnumType { name: named.name, ..found.as_ref().clone() }).await
        }
        TypeChange::Move { name, to } => move_to(session, name, &Schema::named(to)).await,
        TypeChange::Drop { names, if_exists, cascade } => drop(session, names, *if_exists, *cascade).await,
    }
}

/// The command tag.
pub(super) fn tag(said: &TypeChange) -> &'static str {
    match said {
        TypeChange::Create { .. } => "CREATE TYPE",
        TypeChange::AddLabel { .. } | TypeChange::Rename { .. } | TypeChange::Move { .. } => "ALTER TYPE",
        TypeChange::Drop { .. } => "DROP TYPE",
    }
}

/// The type of a name, along the session's path.
///
/// # Errors
/// 42704; 3F000 for a schema that does not exist.
pub(super) fn found(session: &Session, name: &RelationName) -> Result<Arc<EnumType>> {
    let snapshot = session.catalog_snapshot();
    let of = lookup::enum_type(&snapshot, session.identity.rows.tenant(), &session.search_path(), name);
    of.cloned().ok_or_else(|| {
        let no_schema = session.place_of(name).err().filter(|_| name.schema.is_some());
        let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"));
        no_schema.unwrap_or_else(missing)
    })
}

/// The types of columns of a table that is made or gets them, by column.
///
/// # Errors
/// Those of [`found`]; 0A000 in a shared table.
pub(super) fn of_columns(session: &Session, columns: &[ColumnClause]) -> Result<Vec<(String, Arc<EnumType>)>> {
    let named = columns.iter().filter_map(|column| Some((column, column.enumerated.as_ref()?)));
    named.map(|(column, name)| Ok((column.name.clone(), found(session, name)?))).collect()
}

/// [`found`], if the role has the rights of its owner.
fn owned(session: &Session, name: &RelationName) -> Result<Arc<EnumType>> {
    let found = found(session, name)?;
    session.check_owner(found.id, false)?;
    Ok(found)
}

async fn create(session: &mut Session, name: &RelationName, labels: &[String]) -> Result<()> {
    let (tenant, place) = (tenant(session)?.0, session.place_of(name)?);
    if place == Schema::Temporary {
        return Err(SqlError::unsupported("a temporary type"));
    }
    session.check_create(&place)?;
    let edit = |snapshot: &Snapshot| {
        let schema = schema_oid(snapshot, &tenant, &place)?;
        let new = EnumType::define(snapshot.next_oid.max(FIRST_OID), schema, &name.name, labels)?;
        Ok(vec![PrivateEdit::CreateEnum(Box::new(new))])
    };
    change(session, edit).await
}

async fn alter(session: &mut Session, before: &EnumType, after: EnumType) -> Result<()> {
    let edit = |_: &Snapshot| Ok(vec![PrivateEdit::AlterEnum(Box::new((before.clone(), after.clone())))]);
    change(session, edit).await
}

async fn add_label(
    session: &mut Session,
    name: &RelationName,
    (label, place): (&str, &LabelPlace),
    if_not_exists: bool,
) -> Result<()> {
    let found = owned(session, name)?;
    if if_not_exists && found.position(label).is_some() {
        skipped(session, &format!("enum label \"{label}\" already exists"));
        return Ok(());
    }
    let after = found.with_label(label, place)?;
    alter(session, &found, after).await
}

async fn move_to(session: &mut Session, name: &RelationName, to: &Schema) -> Result<()> {
    let (tenant, found) = (tenant(session)?.0, owned(session, name)?);
    session.check_create(to)?;
    let schema = lookup::schema_oid(&session.catalog_snapshot(), Some(&tenant), to).ok_or_else(|| to.missing())?;
    alter(session, &found, EnumType { schema, ..found.as_ref().clone() }).await
}

/// `COMMENT ON TYPE`
pub(super) async fn comment(session: &mut Session, name: &RelationName, text: Option<&String>) -> Result<()> {
    let found = owned(session, name)?;
    alter(session, &found, EnumType { comment: text.cloned(), ..found.as_ref().clone() }).await
}

async fn drop(session: &mut Session, names: &[RelationName], if_exists: bool, cascade: bool) -> Result<()> {
    let mut dropped = Vec::with_capacity(names.len());
    for name in names {
        match found(session, name) {
            Ok(of) => {
                session.check_owner(of.id, true)?;
                if !dropped.contains(&of.id) {
                    dropped.push(of.id);
                }
            }
            Err(error)
                if if_exists && [SqlState::UNDEFINED_OBJECT, SqlState::INVALID_SCHEMA_NAME].contains(&error.state) =>
            {
                skipped(session, &format!("type \"{name}\" does not exist"));
            }
            Err(error) => return Err(error),
        }
    }
    if dropped.is_empty() {
        return Ok(());
    }
    let edits = |_: &Snapshot| Ok(dropped.iter().map(|id| PrivateEdit::DropEnum(*id)).collect());
    change(session, edits).await.map_err(|error| match error.state {
        SqlState::DEPENDENT_OBJECTS_STILL_EXIST if cascade => {
            SqlError::unsupported("DROP TYPE … CASCADE of a used type")
                .with_detail(error.detail.unwrap_or_default())
                .with_hint("Drop the columns and views that use it first.")
        }
        _ => error,
    })
}
