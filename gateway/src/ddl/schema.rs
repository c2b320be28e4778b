//! `CREATE SCHEMA`, `ALTER SCHEMA`, `DROP SCHEMA`, `ALTER … SET SCHEMA`: namespaces of a tenant's own relations.
//!
//! Whoever has the rights of the database's owner may create schemas, which is what PostgreSQL's CREATE on a database
//! is here; a schema then belongs to its owner. `public`, where the shared tables are, stays as it is.

use super::{
    private::{self, change, schema_oid},
    rights::role_oid,
    view::{cascaded, tell},
};
use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        names::{RelationName, Schema},
    },
    session::{Found, Session},
    sql::ast::{
        grant::RoleSpec,
        schema::{Moved, SchemaChange},
    },
};
use keyspan_catalog::{
    Error, ErrorKind, Private, PrivateEdit, Snapshot, TableId, TenantId,
    rights::{DATABASE_OWNER, OPERATORS, PUBLIC},
    snapshot::FIRST_OID,
    table::DefaultValue,
};
use std::collections::BTreeSet;

pub(super) async fn execute(session: &mut Session, said: &SchemaChange) -> Result<()> {
    if session.identity.operator {
        return Err(SqlError::unsupported(format!("{} in the operator's database", tag(said)))
            .with_hint("A schema belongs to a tenant: create it in the tenant's database."));
    }
    match said {
        SchemaChange::Create { name, if_not_exists, owner } => {
            create(session, name.as_deref(), *if_not_exists, owner.as_ref()).await
        }
        SchemaChange::Drop { names, if_exists, cascade } => drop(session, names, *if_exists, *cascade).await,
        SchemaChange::Rename { name, to } => rename(session, name, to).await,
        SchemaChange::Move { kind, name, if_exists, to } => {
            move_to(session, (*kind, name), *if_exists, &Schema::named(to)).await
        }
    }
}

/// The command tag.
pub(super) fn tag(said: &SchemaChange) -> &'static str {
    match said {
        SchemaChange::Create { .. } => "CREATE SCHEMA",
        SchemaChange::Drop { .. } => "DROP SCHEMA",
        SchemaChange::Rename { .. } => "ALTER SCHEMA",
        SchemaChange::Move { kind: Moved::Table, .. } => "ALTER TABLE",
        SchemaChange::Move { kind: Moved::View, .. } => "ALTER VIEW",
        SchemaChange::Move { kind: Moved::Materialized, .. } => "ALTER MATERIALIZED VIEW",
        SchemaChange::Move { kind: Moved::Sequence, .. } => "ALTER SEQUENCE",
    }
}

/// Checks that the role may create schemas in the tenant's database.
///
/// # Errors
/// 42501.
pub(super) fn check_may_create(session: &Session) -> Result<()> {
    let Some((role, tenant)) = session.limited() else { return Ok(()) };
    if session.instance.catalog.snapshot().has_rights_of(Some(tenant), role, DATABASE_OWNER) {
        return Ok(());
    }
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for database {tenant}")))
}

/// The OID of a schema that users created.
///
/// # Errors
/// 3F000 for one that does not exist; 0A000 for one that every database has.
pub(super) fn own(session: &Session, name: &str, what: &str) -> Result<u32> {
    let schema = Schema::named(name);
    let Schema::Own(_) = schema else { return Err(SqlError::unsupported(format!("{what} of schema {name}"))) };
    let tenant = private::tenant(session)?.0;
    session.catalog_snapshot().schema_in(Some(&tenant), name).ok_or_else(|| schema.missing())
}

async fn create(
    session: &mut Session,
    name: Option<&str>,
    if_not_exists: bool,
    owner: Option<&RoleSpec>,
) -> Result<()> {
    let (tenant, snapshot) = (private::tenant(session)?.0, session.catalog_snapshot());
    check_may_create(session)?;
    let owner = match owner {
        None => session.identity.role_oid.unwrap_or(OPERATORS),
        Some(role) => role_oid(session, &snapshot, role)?,
    };
    if owner == PUBLIC {
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, "role \"public\" does not exist"));
    }
    if let Some((me, _)) = session.limited()
        && !snapshot.has_rights_of(Some(&tenant), me, owner)
    {
        let message = format!("must be member of role \"{}\"", snapshot.role_name(owner));
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    let name = name.map_or_else(|| snapshot.role_name(owner), str::to_owned);
    if if_not_exists && snapshot.schema_in(Some(&tenant), &name).is_some() {
        session.skipped(&format!("schema \"{name}\" already exists"));
        return Ok(());
    }
    let edit = |snapshot: &Snapshot| {
        let schema = keyspan_catalog::Schema::define(snapshot.next_oid.max(FIRST_OID), &name)?;
        let owned = PrivateEdit::Own(schema.id, owner);
        Ok(vec![PrivateEdit::CreateSchema(schema), owned])
    };
    change(session, edit).await
}

async fn rename(session: &mut Session, name: &str, to: &str) -> Result<()> {
    let (tenant, oid) = (private::tenant(session)?.0, own(session, name, "ALTER SCHEMA")?);
    session.check_owner(oid, false)?;
    check_may_create(session)?;
    let edit = |snapshot: &Snapshot| {
        let missing = || Error::new(ErrorKind::NoSchema, format!("schema \"{name}\" does not exist"));
        let before = snapshot.private_of(Some(&tenant)).and_then(|own| own.schemas.get(&oid)).ok_or_else(missing)?;
        let named = keyspan_catalog::Schema::define(oid, to)?;
        let after = keyspan_catalog::Schema { comment: before.comment.clone(), ..named };
        Ok(vec![PrivateEdit::AlterSchema(Box::new((before.as_ref().clone(), after)))])
    };
    change(session, edit).await
}

async fn drop(session: &mut Session, names: &[String], if_exists: bool, cascade: bool) -> Result<()> {
    let (tenant, snapshot) = (private::tenant(session)?.0, session.catalog_snapshot());
    let mut schemas = BTreeSet::new();
    for name in names {
        match own(session, name, "DROP SCHEMA") {
            Ok(oid) => {
                session.check_owner(oid, false)?;
                schemas.insert(oid);
            }
            Err(error) if if_exists && error.state == SqlState::INVALID_SCHEMA_NAME => {
                session.skipped(&format!("schema \"{name}\" does not exist"));
            }
            Err(error) => return Err(error),
        }
    }
    let private = snapshot.private_of(Some(&tenant)).cloned().unwrap_or_default();
    let contents = Contents::of(&private, &schemas);
    let relations = contents.relations();
    let mut gone = BTreeSet::new();
    if cascade {
        let views = cascaded(session, &relations, None);
        gone.extend(views.iter().map(|view| view.id).filter(|id| snapshot.temporary.has_oid(*id)));
        let more = views.iter().map(|view| (view.kind(), view.id)).filter(|(_, oid)| !contents.views.contains(oid));
        let all: Vec<_> = contents.each(&private).into_iter().chain(more).collect();
        tell(session, &all);
    }
    let edit = |snapshot: &Snapshot| {
        let Some(private) = snapshot.private_of(Some(&tenant)) else { return Ok(Vec::new()) };
        let contents = Contents::of(private, &schemas);
        contents.check_defaults(private)?;
        let mut edits = Vec::new();
        if cascade {
            let views = super::view::dependents(snapshot, &tenant, &contents.relations());
            edits.extend(views.iter().map(|view| PrivateEdit::DropView(view.id)));
            edits.extend(contents.views.iter().copied().map(PrivateEdit::DropView));
            edits.extend(contents.tables.iter().copied().map(PrivateEdit::DropTable));
            edits.extend(contents.sequences.iter().copied().map(PrivateEdit::DropSequence));
        } else if let Some((kind, oid)) = contents.each(private).first() {
            return Err(contents.refused(private, (kind, *oid)));
        }
        edits.extend(schemas.iter().copied().map(PrivateEdit::DropSchema));
        Ok(edits)
    };
    let before = session.drop_temporary_views(&gone).await?;
    change(session, edit).await.inspect_err(|_| session.restore_temporary(before))
}

/// What schemas have, with the sequences that their tables own.
struct Contents {
    tables: Vec<TableId>,
    sequences: BTreeSet<u32>,
    views: Vec<u32>,
}

impl Contents {
    fn of(private: &Private, schemas: &BTreeSet<u32>) -> Self {
        let (mut tables, mut all, mut views) = (Vec::new(), BTreeSet::new(), Vec::new());
        for schema in schemas {
            let (more_tables, sequences, more_views) = private.relations_within(*schema);
            tables.extend(more_tables);
            all.extend(sequences);
            views.extend(more_views);
        }
        Self { tables, sequences: all, views }
    }

    /// Tables and views, which others may read, and sequences.
    fn relations(&self) -> BTreeSet<u32> {
        let tables = self.tables.iter().map(|table| table.0);
        tables.chain(self.views.iter().copied()).chain(self.sequences.iter().copied()).collect()
    }

    /// Kinds and OIDs, in the order in which they were made; without sequences that go with their tables.
    fn each(&self, private: &Private) -> Vec<(&'static str, u32)> {
        let owned = |oid: &u32| private.sequences.get(oid).is_some_and(|sequence| sequence.owner.is_some());
        let tables = self.tables.iter().map(|table| ("table", table.0));
        let views = self.views.iter().map(|oid| (private.views.get(oid).map_or("view", |view| view.kind()), *oid));
        let sequences = self.sequences.iter().filter(|oid| !owned(oid)).map(|oid| ("sequence", *oid));
        let mut all: Vec<_> = tables.chain(views).chain(sequences).collect();
        all.sort_by_key(|(_, oid)| *oid);
        all
    }

    /// Refuses sequences that defaults of tables elsewhere use.
    fn check_defaults(&self, private: &Private) -> keyspan_catalog::Result<()> {
        for table in private.tables.values().filter(|table| !self.tables.contains(&table.id)) {
            let defaults = table.columns.iter().filter_map(|column| column.default.as_ref());
            let mut used = defaults.filter_map(|default| match default.value {
                DefaultValue::Next(sequence) => {
                    self.sequences.get(&sequence).and_then(|oid| private.sequences.get(oid))
                }
                _ => None,
            });
            if let Some(sequence) = used.next() {
                let message = format!("cannot drop sequence {} because other objects depend on it", sequence.name);
                let detail = format!("A default of table {} depends on sequence {}.", table.name, sequence.name);
                return Err(Error::new(ErrorKind::InUse, message).with_detail(detail));
            }
        }
        Ok(())
    }

    /// Why a schema stays that has something.
    fn refused(&self, private: &Private, (kind, oid): (&str, u32)) -> Error {
        let schema = private.schema_of(oid).and_then(|schema| private.schema_name(schema)).unwrap_or_default();
        let tables = private.tables.get(&TableId(oid)).map(|table| table.name.as_str());
        let views = || private.views.get(&oid).map(|view| view.name.as_str());
        let sequences = || private.sequences.get(&oid).map(|sequence| sequence.name.as_str());
        let name = tables.or_else(views).or_else(sequences).unwrap_or_default();
        let message = format!("cannot drop schema {schema} because other objects depend on it");
        Error::new(ErrorKind::InUse, message)
            .with_detail(format!("{kind} {schema}.{name} depends on schema {schema}"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
    }
}

async fn move_to(
    session: &mut Session,
    (kind, name): (Moved, &RelationName),
    if_exists: bool,
    to: &Schema,
) -> Result<()> {
    let tenant = private::tenant(session)?.0;
    let sequence = session.find_sequence(name);
    let found = session.find(name);
    let (oid, is) = match (&found, &sequence) {
        (Some((Schema::Temporary, _)), _) => return Err(between_temporary()),
        (Some((_, Found::Table(table))), _) => {
            private::check_owner(session, table, false)?;
            (table.id.0, Moved::Table)
        }
        (Some((_, Found::View(view))), _) if view.materialized.is_some() => (view.id, Moved::Materialized),
        (Some((_, Found::View(view))), _) => (view.id, Moved::View),
        (None, Some(sequence)) => (sequence.id, Moved::Sequence),
        (None, None) if if_exists => {
            session.skipped(&format!("relation \"{name}\" does not exist"));
            return Ok(());
        }
        (None, None) => return Err(session.missing(name, "relation")),
    };
    let wanted = match kind {
        Moved::Table => None,
        Moved::View => Some("view").filter(|_| is != kind),
        Moved::Materialized => Some("materialized view").filter(|_| is != kind),
        Moved::Sequence => Some("sequence").filter(|_| is != kind),
    };
    if let Some(wanted) = wanted {
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a {wanted}")));
    }
    session.check_owner(oid, false)?;
    if let Some(owner) = sequence.filter(|_| is == Moved::Sequence).and_then(|sequence| sequence.owner) {
        let snapshot = session.catalog_snapshot();
        let table = snapshot.table_of(Some(&tenant), owner.0).map(|table| table.name.clone()).unwrap_or_default();
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "cannot move an owned sequence into another schema",
        )
        .with_detail(format!("Sequence \"{name}\" is linked to table \"{table}\".")));
    }
    match to {
        Schema::Temporary => return Err(between_temporary()),
        to if !to.is_of_users() => {
            let message = format!("permission denied for schema {}", to.name());
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        to => session.check_create(to)?,
    }
    let edit = |snapshot: &Snapshot| {
        Ok(vec![PrivateEdit::SetSchema(BTreeSet::from([oid]), schema_oid(snapshot, &tenant, to)?)])
    };
    change(session, edit).await
}

fn between_temporary() -> SqlError {
    let message = "cannot move objects into or out of temporary schemas";
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

/// `COMMENT ON SCHEMA`
pub(super) async fn comment(session: &mut Session, name: &str, text: Option<&String>) -> Result<()> {
    let (tenant, oid): (TenantId, u32) = (private::tenant(session)?.0, own(session, name, "COMMENT")?);
    session.check_owner(oid, false)?;
    let edit = |snapshot: &Snapshot| {
        let missing = || Error::new(ErrorKind::NoSchema, format!("schema \"{name}\" does not exist"));
        let before = snapshot.private_of(Some(&tenant)).and_then(|own| own.schemas.get(&oid)).ok_or_else(missing)?;
        let after = keyspan_catalog::Schema { comment: text.cloned(), ..before.as_ref().clone() };
        Ok(vec![PrivateEdit::AlterSchema(Box::new((before.as_ref().clone(), after)))])
    };
    change(session, edit).await
}
