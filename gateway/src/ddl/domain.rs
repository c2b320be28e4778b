//! `CREATE DOMAIN`, `ALTER DOMAIN`, `DROP DOMAIN`.
//!
//! What a domain says of its values is planned over a table of one column, [`VALUE`]. A condition that is added, or a
//! NOT NULL, holds for the rows that are there too: they are read with the tables held, or, in a transaction, with
//! COMMIT looking whether others have written them meanwhile.

use super::{
    column_defaults::settled_check,
    drop_type, own_type,
    private::{change, schema_oid, tenant},
    rewrite_rows,
};
use crate::{
    dml::{self, conditions, target::Target},
    lookup::{self, OwnType},
    pg::{
        error::{Result, SqlError, SqlState},
        functions::domains::condition_of,
        names::{RelationName, Schema},
    },
    session::Session,
    sql::ast::{
        definition::CheckClause,
        domain::{CreateDomain, DomainAction, DomainChange},
    },
    view::View,
};
use datafusion::sql::sqlparser::ast::{Expr, Ident};
use futures::TryStreamExt;
use keyspan_catalog::{
    ColumnDefinition, Domain, Edit, PrivateEdit, Snapshot, SqlType, Table, TableDefinition, TableId, Value, domain,
    domain::VALUE, enum_type::bound_name, snapshot::FIRST_OID, table::ColumnDefault,
};
use keyspan_storage::Scan;
use std::{collections::BTreeSet, sync::Arc};

pub(super) async fn execute(session: &mut Session, said: &DomainChange) -> Result<()> {
    if session.identity.operator {
        return Err(SqlError::unsupported(format!("{} in the operator's database", tag(said)))
            .with_hint("A domain belongs to a tenant: create it in the tenant's database."));
    }
    match said {
        DomainChange::Create(said) => create(session, said).await,
        DomainChange::Alter { name, action } => alter(session, name, action).await,
        DomainChange::Drop { names, if_exists, cascade } => {
            drop_type::drop(session, (names, "domain"), *if_exists, *cascade).await
        }
    }
}

/// The command tag.
pub(super) fn tag(said: &DomainChange) -> &'static str {
    match said {
        DomainChange::Create(_) => "CREATE DOMAIN",
        DomainChange::Alter { .. } => "ALTER DOMAIN",
        DomainChange::Drop { .. } => "DROP DOMAIN",
    }
}

async fn create(session: &mut Session, said: &CreateDomain) -> Result<()> {
    let (tenant, place) = (tenant(session)?.0, session.place_of(&said.name)?);
    if place == Schema::Temporary {
        return Err(SqlError::unsupported("a temporary domain"));
    }
    session.check_create(&place)?;
    let (kind, enumerated, over) = match &said.over {
        None => (said.kind, None, None),
        Some(name) => match own_type::found(session, name)? {
            OwnType::Enum(of) => (SqlType::Text, Some(of.id), None),
            OwnType::Domain(of) => (of.kind, of.enumerated, Some(of.id)),
        },
    };
    let mut domain = Domain {
        id: FIRST_OID,
        name: said.name.name.clone(),
        schema: keyspan_catalog::rights::PUBLIC_SCHEMA,
        kind,
        enumerated,
        over,
        not_null: said.not_null,
        default: None,
        checks: Vec::new(),
        comment: None,
    };
    domain.default = default(session, &domain, said.default.as_ref()).await?;
    for check in &said.checks {
        let sql = condition(session, &domain, check).await?;
        domain = domain.with_check(check.name.as_deref(), sql, true)?;
    }
    let edit = |snapshot: &Snapshot| {
        let (id, schema) = (snapshot.next_oid.max(FIRST_OID), schema_oid(snapshot, &tenant, &place)?);
        Ok(vec![PrivateEdit::CreateDomain(Box::new(Domain { id, schema, ..domain.clone() }))])
    };
    change(session, edit).await
}

/// A table of one value of the domain's base type.
fn draft(session: &Session, domain: &Domain) -> Result<Table> {
    let value = ColumnDefinition {
        name: VALUE.to_owned(),
        kind: domain.kind,
        not_null: false,
        family: None,
        encoding: None,
        qualifier: None,
    };
    let mut table = Table::define_private(
        TableId(FIRST_OID),
        &TableDefinition {
            name: domain.name.clone(),
            columns: vec![value],
            primary_key: Vec::new(),
            families: Vec::new(),
            options: Vec::new(),
            remote: None,
        },
    )?;
    for column in &mut table.columns {
        column.enumerated = own_type::enum_type(session, domain.enumerated);
    }
    Ok(table)
}

async fn default(session: &mut Session, domain: &Domain, said: Option<&Expr>) -> Result<Option<ColumnDefault>> {
    let Some(said) = said else { return Ok(None) };
    let draft = draft(session, domain)?;
    dml::settled(&session.query_now().await?, &draft, VALUE, said).await
}

/// A condition as it is stored.
///
/// # Errors
/// What is wrong with it; 0A000 for one that casts to a domain, which might end nowhere.
async fn condition(session: &mut Session, domain: &Domain, check: &CheckClause) -> Result<String> {
    let draft = draft(session, domain)?;
    let (sql, _) = settled_check(session, &draft, &check.condition).await?;
    // As PostgreSQL shows it, however it was written.
    let sql = condition_of(&sql, &Ident::new("VALUE"))?.to_string();
    let snapshot = session.catalog_snapshot();
    let own = snapshot.private_of(session.identity.rows.tenant());
    let names_domain = own.is_some_and(|own| own.domains.keys().any(|id| sql.contains(&bound_name(*id))));
    if names_domain {
        return Err(SqlError::unsupported("a domain in the condition of a domain")
            .with_hint("CREATE DOMAIN … AS the other domain has its conditions, too."));
    }
    Ok(sql)
}

/// The domain of a name, if the role has the rights of its owner.
///
/// # Errors
/// Those of [`own_type::found`]; 42501; 42809 for what is no domain.
fn owned(session: &Session, name: &RelationName) -> Result<Arc<Domain>> {
    let OwnType::Domain(found) = own_type::found(session, name)? else {
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("{name} is not a domain")));
    };
    session.check_owner(found.id, false)?;
    Ok(found)
}

async fn alter(session: &mut Session, name: &RelationName, action: &DomainAction) -> Result<()> {
    let before = owned(session, name)?;
    let mut after = before.as_ref().clone();
    match action {
        DomainAction::Default(said) => after.default = default(session, &before, said.as_ref()).await?,
        DomainAction::NotNull(not_null) => {
            after.not_null = *not_null;
            if *not_null && !before.not_null {
                return stricter(session, &before, after, None).await;
            }
        }
        DomainAction::AddCheck { check, is_valid } => {
            let sql = condition(session, &before, check).await?;
            after = before.with_check(check.name.as_deref(), sql, *is_valid)?;
            let is_new = |name: &&str| before.checks.iter().all(|check| check.name != **name);
            let new = after.checks.iter().map(|check| check.name.as_str()).find(is_new).map(str::to_owned);
            if *is_valid {
                return stricter(session, &before, after, new.as_deref()).await;
            }
        }
        DomainAction::DropConstraint { name, if_exists } => {
            after.checks.retain(|check| check.name != *name);
            if after.checks.len() == before.checks.len() {
                let message = format!("constraint \"{name}\" of domain \"{}\" does not exist", before.name);
                if *if_exists {
                    session.skipped(&message);
                    return Ok(());
                }
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
        }
        DomainAction::RenameConstraint { from, to } => {
            let check = after.check_mut(from)?.clone();
            after.checks.retain(|other| other.name != *from);
            after = after.with_check(Some(to), check.sql, check.is_valid)?;
        }
        DomainAction::Validate(name) => {
            let check = after.check_mut(name)?;
            if !std::mem::replace(&mut check.is_valid, true) {
                return stricter(session, &before, after, Some(name)).await;
            }
        }
        DomainAction::Rename(to) => after.name.clone_from(to),
        DomainAction::Move(to) => {
            let (tenant, to) = (tenant(session)?.0, Schema::named(to));
            session.check_create(&to)?;
            let schema = lookup::schema_oid(&session.catalog_snapshot(), Some(&tenant), &to);
            after.schema = schema.ok_or_else(|| to.missing())?;
        }
    }
    if after == *before {
        return Ok(());
    }
    change(session, |_| Ok(altered(&before, &after, None))).await
}

fn altered(before: &Domain, after: &Domain, held: Option<BTreeSet<TableId>>) -> Vec<PrivateEdit> {
    let (before, after) = (before.clone(), after.clone());
    vec![PrivateEdit::AlterDomain(Box::new(domain::DomainChange { before, after, held }))]
}

/// `COMMENT ON DOMAIN`
pub(super) async fn comment(session: &mut Session, name: &RelationName, text: Option<&String>) -> Result<()> {
    let before = owned(session, name)?;
    let after = Domain { comment: text.cloned(), ..before.as_ref().clone() };
    change(session, |_| Ok(altered(&before, &after, None))).await
}

/// A change after which rows have to fulfil a condition, `None` for NOT NULL, that they had not to before.
async fn stricter(session: &mut Session, before: &Domain, after: Domain, new: Option<&str>) -> Result<()> {
    let (tenant, oid) = tenant(session)?;
    let users = |snapshot: &Snapshot| -> Vec<Arc<Table>> {
        let Some(own) = snapshot.private_of(Some(&tenant)) else { return Vec::new() };
        let ids = own.domains_on(before.id);
        own.tables.values().filter(|table| domain::user(table, &ids).is_some()).cloned().collect()
    };
    let ids: BTreeSet<TableId> = users(&session.catalog_snapshot()).iter().map(|table| table.id).collect();
    let (instance, in_transaction) = (session.instance.clone(), session.in_transaction());
    // In a transaction COMMIT looks whether others have written the tables meanwhile.
    let _held = if in_transaction { None } else { Some(instance.table_locks.lock([], ids.iter().copied()).await) };
    let view = session.view().await?;
    // A table that comes meanwhile is refused by the edit.
    let edits = altered(before, &after, Some(ids));
    let drafted = View { snapshot: Arc::new(session.drafted(&view.snapshot, &edits)?), ..view.clone() };
    for table in &users(&view.snapshot) {
        let target = Target::of_table(&drafted, Arc::clone(table));
        hold(session, (&view, table), &target, (before.id, new)).await?;
        if in_transaction {
            session.depends_on_rows(table.id, &view.pin);
        }
    }
    if in_transaction {
        return session.defined(edits);
    }
    drop((view, drafted));
    let edit = Edit::ChangePrivate(tenant, oid, edits);
    instance.catalog.commit(|_| Ok(edit.clone())).await?;
    Ok(())
}

/// Rows that are held against a condition at a time.
const CHUNK_ROWS: usize = 1_024;

/// Holds all rows of a table against a condition of a domain.
///
/// # Errors
/// 23502, 23514.
async fn hold(
    session: &mut Session,
    (view, table): (&View, &Table),
    target: &Target,
    (domain, new): (u32, Option<&str>),
) -> Result<()> {
    let conditions: Vec<_> =
        target.conditions()?.into_iter().filter(|condition| condition.is_of_domain(domain, new)).collect();
    let columns: Vec<_> = table.columns.iter().collect();
    let query = session.query(view.clone())?;
    let mut rows = view.scan(table, Scan::all());
    while let Some(batch) = rows.try_next().await? {
        for chunk in batch.chunks(CHUNK_ROWS) {
            let values =
                chunk.iter().map(|row| rewrite_rows::values(row, table, &columns)).collect::<Result<Vec<_>>>()?;
            let values: Vec<&[Value]> = values.iter().map(Vec::as_slice).collect();
            let found = Box::pin(conditions::first_violated(&query, target, &conditions, &values)).await;
            let Some((_, condition)) = found.map_err(|(_, error)| error)? else { continue };
            let (column, name) = (condition.column().unwrap_or_default(), &table.name);
            return Err(match new {
                None => {
                    let message = format!("column \"{column}\" of table \"{name}\" contains null values");
                    SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
                }
                Some(_) => {
                    let message = format!(
                        "column \"{column}\" of table \"{name}\" contains values that violate the new constraint"
                    );
                    SqlError::new(SqlState::CHECK_VIOLATION, message)
                }
            });
        }
    }
    Ok(())
}
