//! `CREATE TYPE … AS ENUM`, `ALTER TYPE`, `DROP TYPE`: a tenant's enumerated types.

use super::{
    drop_type, own_type,
    private::{change, schema_oid, tenant},
};
use crate::{
    lookup::{self, OwnType},
    pg::{
        error::{Result, SqlError, SqlState},
        names::{RelationName, Schema},
    },
    session::Session,
    sql::ast::enum_type::TypeChange,
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
        TypeChange::Drop { names, if_exists, cascade } => {
            drop_type::drop(session, (names, "type"), *if_exists, *cascade).await
        }
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

/// The enumerated type of a name, if the role has the rights of its owner.
///
/// # Errors
/// Those of [`own_type::found`]; 42501; 42809 for a domain.
fn owned(session: &Session, name: &RelationName) -> Result<Arc<EnumType>> {
    let found = own_type::found(session, name)?;
    session.check_owner(found.id(), false)?;
    match found {
        OwnType::Enum(found) => Ok(found),
        OwnType::Domain(_) => Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("{name} is a domain"))
            .with_hint("Use ALTER DOMAIN instead.")),
    }
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
        session.skipped(&format!("enum label \"{label}\" already exists"));
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
