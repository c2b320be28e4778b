//! Private tables: what a tenant's own roles define in its database.
//!
//! Whoever may connect to a tenant's database may define tables in it and change and drop all of its private ones. Shared tables are
//! there too, by the same names: they are the operator's.

use super::{
    skipped,
    table::{apply, definition_of, passed_over},
};
use crate::{
    error::{Result, SqlError, SqlState},
    session::Session,
    statement::{AlterAction, AlterTable, CreateTable, DropTables, OptionClause},
};
use keyspan_catalog::{Edit, Error, ErrorKind, PrivateEdit, Snapshot, Table, TableId, TenantId, snapshot::FIRST_OID};
use std::sync::Arc;

/// PostgreSQL's parameters of tables: they tune a storage that is not here.
const STORAGE_PARAMETERS: [&str; 8] = [
    "fillfactor",
    "log_autovacuum_min_duration",
    "parallel_workers",
    "toast_tuple_target",
    "user_catalog_table",
    "vacuum_index_cleanup",
    "vacuum_truncate",
    "oids",
];

pub(super) async fn create(session: &mut Session, create: &CreateTable) -> Result<()> {
    if create.if_not_exists && find(session, &create.name).is_some() {
        skipped(session, &format!("relation \"{}\" already exists", create.name));
        return Ok(());
    }
    let options = without_storage_parameters(session, &create.options);
    let definition = definition_of(&CreateTable { options, ..create.clone() });
    let edit = |snapshot: &Snapshot| {
        let id = TableId(snapshot.next_oid.max(FIRST_OID));
        Ok(vec![PrivateEdit::CreateTable(Box::new(Table::define_private(id, &definition)?))])
    };
    change(session, edit).await
}

pub(super) async fn alter(session: &mut Session, alter: &AlterTable) -> Result<()> {
    let Some(table) = find(session, &alter.name) else {
        if alter.if_exists {
            skipped(session, &format!("relation \"{}\" does not exist", alter.name));
            return Ok(());
        }
        return Err(no_table("relation", &alter.name));
    };
    check_owner(&table)?;
    let mut actions = Vec::with_capacity(alter.actions.len());
    for action in &alter.actions {
        if let Some(what) = passed_over(&table, action) {
            skipped(session, &what);
        }
        match action {
            AlterAction::SetOptions(options) => {
                let options = without_storage_parameters(session, options);
                if !options.is_empty() {
                    actions.push(AlterAction::SetOptions(options));
                }
            }
            action => actions.push(action.clone()),
        }
    }
    let tenant = tenant(session)?.0;
    let edit = |snapshot: &Snapshot| {
        let found = snapshot.table_in(Some(&tenant), &alter.name).filter(|found| found.id == table.id);
        let before = found
            .ok_or_else(|| Error::new(ErrorKind::NoTable, format!("relation \"{}\" does not exist", alter.name)))?;
        let after = actions.iter().try_fold(before.as_ref().clone(), |table, action| apply(&table, action))?;
        Ok(vec![PrivateEdit::AlterTable(Box::new((before.as_ref().clone(), after)))])
    };
    change(session, edit).await
}

pub(super) async fn drop(session: &mut Session, drop: &DropTables) -> Result<()> {
    let mut tables: Vec<Arc<Table>> = Vec::with_capacity(drop.names.len());
    for name in &drop.names {
        match find(session, name) {
            Some(table) => {
                check_owner(&table)?;
                if !tables.contains(&table) {
                    tables.push(table);
                }
            }
            None if drop.if_exists => skipped(session, &format!("table \"{name}\" does not exist")),
            None => return Err(no_table("table", name)),
        }
    }
    if tables.is_empty() {
        return Ok(());
    }
    change(session, |_| Ok(tables.iter().map(|table| PrivateEdit::DropTable(table.id)).collect())).await
}

/// Makes a change of what the tenant has, derived from the newest catalog.
async fn change(
    session: &mut Session,
    derive: impl Fn(&Snapshot) -> keyspan_catalog::Result<Vec<PrivateEdit>> + Send + Sync,
) -> Result<()> {
    let (tenant, oid) = tenant(session)?;
    let catalog = session.shared.catalog.clone();
    catalog.commit(|snapshot| Ok(Edit::ChangePrivate(tenant.clone(), oid, derive(snapshot)?))).await?;
    Ok(())
}

/// The tenant of the session and its number.
fn tenant(session: &Session) -> Result<(TenantId, u32)> {
    let rows = &session.identity.rows;
    let found = rows.tenant().cloned().zip(rows.oid());
    found.ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "a session of one tenant was expected"))
}

fn find(session: &Session, name: &str) -> Option<Arc<Table>> {
    session.shared.catalog.snapshot().table_in(session.identity.rows.tenant(), name).cloned()
}

fn check_owner(table: &Table) -> Result<()> {
    if table.is_private() {
        return Ok(());
    }
    let message = format!("must be owner of table {}", table.name);
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
        .with_detail("It is a shared table: an operator defines it in database \"keyspan\"."))
}

fn no_table(what: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("{what} \"{name}\" does not exist"))
}

/// The options without those that mean something to PostgreSQL's storage only; the client is told of these.
fn without_storage_parameters(session: &mut Session, options: &[OptionClause]) -> Vec<OptionClause> {
    let (storage, rest): (Vec<_>, Vec<_>) = options.iter().cloned().partition(|option| {
        let name = option.name.as_str();
        let known = STORAGE_PARAMETERS.contains(&name) || name.starts_with("autovacuum_");
        match option.family.as_deref() {
            None => known,
            Some(family) => family == "toast" && known,
        }
    });
    for option in storage {
        let message = format!("storage parameter \"{}\" has no effect", option.name);
        session.notice(SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
    }
    rest
}
