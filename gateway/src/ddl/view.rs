//! `CREATE VIEW`, `ALTER VIEW`, `DROP VIEW`: a tenant's own, as private tables are.
//!
//! The query of a view is planned once when it is made, to know its columns; what is stored has names bound
//! ([`bound`]). That nothing goes which a view uses is the catalog's to see ([`sql_view`]).

use super::{
    private::{change, tenant},
    skipped,
};
use crate::{
    error::{Result, SqlError, SqlState},
    names::{RelationName, Schema},
    query::{Query, bound, views},
    session::{Found, Session},
    statement::{AlterAction, AlterTable, AlterView, CreateView, DropTables, ViewAction},
};
use datafusion::sql::sqlparser::ast;
use keyspan_catalog::{
    Comments, Edit, Error, ErrorKind, Private, PrivateEdit, Snapshot, SqlView, TenantId, snapshot::FIRST_OID, sql_view,
};
use std::{collections::BTreeSet, sync::Arc};

pub(super) async fn create(session: &mut Session, create: &CreateView) -> Result<()> {
    check_tenants(session, "CREATE VIEW")?;
    let view = session.view().await?;
    let tenant = tenant(session)?.0;
    permanent(session, &create.name, "CREATE TEMPORARY VIEW")?;
    if create.or_replace && view.snapshot.table_in(Some(&tenant), &create.name).is_some() {
        return Err(wrong_kind(&create.name, "view"));
    }
    let database = session.identity.database.clone();
    let mut query = ast::Statement::Query(create.query.clone());
    Query::new(session, view.clone())?.write_out(&mut query).await?;
    let ast::Statement::Query(query) = query else { return Err(SqlError::unsupported("this view")) };
    let bound =
        bound::bind(&query, &database, |name| match view.find(name) {
            Some((Schema::Temporary, _)) => Err(SqlError::unsupported("a view of a temporary table")
                .with_hint("CREATE TABLE AS keeps what a query shows.")),
            found => Ok(found.map(|(_, found)| found)),
        })?;
    let (sql, uses) = (bound.sql, bound.uses);
    let mut draft = SqlView {
        id: FIRST_OID,
        name: create.name.name.clone(),
        columns: Vec::new(),
        sql,
        uses: uses.clone(),
        comments: Comments::default(),
    };
    // Planned as it will be read.
    let query = bound::opened(&draft, |number| view.snapshot.readable(Some(&tenant), number))?;
    let plan = Query::new(session, view)?.plan(&ast::Statement::Query(query)).await?;
    draft.columns = views::columns(&plan, &create.columns)?;
    draft = draft.rename(&create.name)?;
    let edit = |snapshot: &Snapshot| {
        let old = snapshot.view_in(Some(&tenant), &draft.name).filter(|_| create.or_replace);
        Ok(vec![match old {
            Some(old) => {
                old.check_replaced_by(&draft)?;
                let comments = old.comments.clone();
                let after = SqlView { id: old.id, comments, ..draft.clone() };
                PrivateEdit::AlterView(Box::new((old.as_ref().clone(), after)))
            }
            None => {
                let id = snapshot.next_oid.max(FIRST_OID);
                PrivateEdit::CreateView(Box::new(SqlView { id, ..draft.clone() }))
            }
        }])
    };
    change(session, edit).await
}

pub(super) async fn alter(session: &mut Session, alter: &AlterView) -> Result<()> {
    check_tenants(session, "ALTER VIEW")?;
    let tenant = tenant(session)?.0;
    let found = session.find(&alter.name);
    if !matches!(found, Some((_, Found::View(_)))) {
        if found.is_some() {
            return Err(wrong_kind(&alter.name, "view"));
        }
        if alter.if_exists {
            skipped(session, &format!("relation \"{}\" does not exist", alter.name));
            return Ok(());
        }
        return Err(alter.name.missing("relation"));
    }
    let edit = |snapshot: &Snapshot| {
        let before = snapshot
            .view_in(Some(&tenant), &alter.name)
            .ok_or_else(|| Error::new(ErrorKind::NoTable, format!("relation \"{}\" does not exist", alter.name)))?;
        let after = match &alter.action {
            ViewAction::Rename(to) => before.rename(to)?,
            ViewAction::RenameColumn { from, to } => before.rename_column(from, to)?,
        };
        Ok(vec![PrivateEdit::AlterView(Box::new((before.as_ref().clone(), after)))])
    };
    change(session, edit).await
}

/// Whether `ALTER TABLE` names a view.
pub(super) fn is_view(session: &Session, name: &RelationName) -> bool {
    matches!(session.find(name), Some((_, Found::View(_))))
}

/// Refuses what would be temporary and cannot be.
///
/// # Errors
/// 0A000; what the search path says against making anything.
pub(super) fn permanent(session: &Session, name: &RelationName, what: &str) -> Result<()> {
    match name.schema.map_or_else(|| session.search_path().first(), Ok)? {
        Schema::Temporary => Err(SqlError::unsupported(what).with_hint("Tables can be temporary.")),
        _ => Ok(()),
    }
}

/// `ALTER TABLE` of a view: what PostgreSQL allows of it, names.
pub(super) async fn alter_table(session: &mut Session, alter_table: &AlterTable) -> Result<()> {
    let action = match alter_table.actions.as_slice() {
        [AlterAction::RenameTable(to)] => ViewAction::Rename(to.clone()),
        [AlterAction::RenameColumn { from, to }] => ViewAction::RenameColumn { from: from.clone(), to: to.clone() },
        _ => return Err(wrong_kind(&alter_table.name, "table")),
    };
    let AlterTable { name, if_exists, .. } = alter_table;
    alter(session, &AlterView { name: name.clone(), if_exists: *if_exists, action }).await
}

pub(super) async fn drop(session: &mut Session, drop: &DropTables) -> Result<()> {
    check_tenants(session, "DROP VIEW")?;
    let tenant = tenant(session)?.0;
    let snapshot = session.catalog_snapshot();
    let mut views: Vec<Arc<SqlView>> = Vec::with_capacity(drop.names.len());
    for name in &drop.names {
        match session.find(name) {
            Some((_, Found::View(view))) if views.contains(&view) => {}
            Some((_, Found::View(view))) => views.push(view),
            Some(_) => return Err(wrong_kind(name, "view")),
            None if drop.if_exists => skipped(session, &format!("view \"{name}\" does not exist")),
            None => return Err(name.missing("view")),
        }
    }
    if views.is_empty() {
        return Ok(());
    }
    let named: BTreeSet<u32> = views.iter().map(|view| view.id).collect();
    if drop.cascade {
        tell_cascade(session, &snapshot, &named);
    }
    let edit = |snapshot: &Snapshot| {
        let more = if drop.cascade { dependents(snapshot, &tenant, &named) } else { Vec::new() };
        let all = more.iter().map(|view| view.id).chain(named.iter().copied());
        Ok(all.map(PrivateEdit::DropView).collect())
    };
    change(session, edit).await
}

/// The views that go with relations, those that are named themselves left out.
pub(super) fn dependents(snapshot: &Snapshot, tenant: &TenantId, relations: &BTreeSet<u32>) -> Vec<Arc<SqlView>> {
    let mut found: Vec<Arc<SqlView>> = Vec::new();
    if let Some(own) = snapshot.private_of(Some(tenant)) {
        for view in relations.iter().flat_map(|relation| sql_view::dependents(own, *relation, None)) {
            if !relations.contains(&view.id) && found.iter().all(|other| other.id != view.id) {
                found.push(view);
            }
        }
    }
    found
}

/// Drops the views of all tenants that read a shared table, or these columns of it: one edit for each tenant. Should the table stay
/// after all, they are gone.
pub(super) async fn drop_shared(session: &mut Session, table: u32, columns: Option<&BTreeSet<u16>>) -> Result<()> {
    let catalog = session.shared.catalog.clone();
    let of = |own: &Private| sql_view::dependents(own, table, columns);
    let snapshot = catalog.snapshot();
    let tenants = snapshot.private.iter().filter_map(|(id, own)| Some((snapshot.tenant(id.as_str())?, of(own))));
    for (tenant, views) in tenants.filter(|(_, views)| !views.is_empty()) {
        let edit = |snapshot: &Snapshot| {
            let views = snapshot.private_of(Some(&tenant.id)).map(|own| of(own)).unwrap_or_default();
            let drops = views.iter().map(|view| PrivateEdit::DropView(view.id)).collect();
            Ok(Edit::ChangePrivate(tenant.id.clone(), tenant.oid, drops))
        };
        catalog.commit(edit).await?;
        tell(session, &views);
    }
    Ok(())
}

/// The views that go with columns of a table.
pub(super) fn dependents_of_columns(own: &Private, table: u32, columns: &BTreeSet<u16>) -> Vec<Arc<SqlView>> {
    if columns.is_empty() { Vec::new() } else { sql_view::dependents(own, table, Some(columns)) }
}

/// Tells the client what goes with relations.
pub(super) fn tell_cascade(session: &mut Session, snapshot: &Snapshot, relations: &BTreeSet<u32>) {
    let Some(tenant) = session.identity.rows.tenant().cloned() else { return };
    tell(session, &dependents(snapshot, &tenant, relations));
}

/// Tells the client what goes along.
pub(super) fn tell(session: &mut Session, views: &[Arc<SqlView>]) {
    let lines: Vec<String> = views.iter().map(|view| format!("drop cascades to view {}", view.name)).collect();
    let notice = |message: String| SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message);
    match lines.as_slice() {
        [] => {}
        [only] => session.notice(notice(only.clone())),
        all => {
            let told = notice(format!("drop cascades to {} other objects", all.len()));
            session.notice(told.with_detail(all.join("\n")));
        }
    }
}

/// 42809 for a relation of another kind than the statement names.
pub(super) fn wrong_kind(name: &str, wanted: &str) -> SqlError {
    let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a {wanted}"));
    match wanted {
        "view" => error.with_hint("Use DROP TABLE to remove a table."),
        _ => error.with_hint("Use DROP VIEW to remove a view."),
    }
}

fn check_tenants(session: &Session, what: &str) -> Result<()> {
    if !session.identity.operator {
        return Ok(());
    }
    Err(SqlError::unsupported(format!("{what} in the operator's database"))
        .with_hint("A view belongs to a tenant: create it in the tenant's database."))
}
