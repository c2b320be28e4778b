//! `CREATE VIEW`, `ALTER VIEW`, `DROP VIEW`: a tenant's own, as private tables are. The last two also of materialized
//! views, which the room [`execute`](crate::execute) makes and fills.
//!
//! The query of a view is planned once when it is made, to know its columns; what is stored has names bound
//! ([`view_binding`]). That nothing goes which a view uses is the catalog's to see ([`sql_view`]).

use super::private::{change, change_in, check_create, schema_oid, tenant};
use crate::lookup;
use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        names::{RelationName, Schema},
        windows::excluding::has_marker,
    },
    query::{Query, views},
    session::{Found, Session},
    sql::ast::{
        definition::{AlterAction, AlterTable, DropTables},
        view::{AlterView, CreateView, ViewAction, ViewKind},
    },
    view::View,
    view_binding,
};
use datafusion::{logical_expr::LogicalPlan, sql::sqlparser::ast};
use keyspan_catalog::{
    Comments, Edit, Error, ErrorKind, Private, PrivateEdit, Relation, Snapshot, SqlView, TenantId,
    rights::PUBLIC_SCHEMA, snapshot::FIRST_OID, sql_view,
};
use std::{collections::BTreeSet, sync::Arc};

pub(super) async fn create(session: &mut Session, create: &CreateView) -> Result<()> {
    check_tenants(session, "CREATE VIEW")?;
    let view = session.view().await?;
    let tenant = tenant(session)?.0;
    let mut place = session.place_of(&create.name)?;
    let mut draft = drafted(session, &view, create).await?;
    if place != Schema::Temporary && draft.uses.keys().any(|number| view.snapshot.temporary.has_oid(*number)) {
        let message = format!("view \"{}\" will be a temporary view", create.name);
        session.notice(SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
        if create.name.schema.is_some() {
            let message = "cannot create temporary relation in non-temporary schema";
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        place = Schema::Temporary;
    }
    check_create(session, &place)?;
    let there = view.find(&RelationName::within(place.clone(), create.name.name.as_str()));
    if let Some((_, Relation::View(old))) = there.as_ref().filter(|_| create.or_replace) {
        session.check_owner(old.id, false)?;
    }
    let replaceable = |found: &Relation<'_>| matches!(found, Relation::View(view) if view.materialized.is_none());
    if create.or_replace && there.is_some_and(|(_, found)| !replaceable(&found)) {
        return Err(not_a(&create.name, "view"));
    }
    let (_, plan) = planned(session, &view, &draft).await?;
    draft.columns = views::columns(&plan, &create.columns).await?;
    draft = draft.rename(&create.name)?;
    let edit = |snapshot: &Snapshot| {
        let draft = SqlView { schema: schema_oid(snapshot, &tenant, &place)?, ..draft.clone() };
        let own = snapshot.private_of(Some(&tenant)).filter(|_| create.or_replace);
        let old = own.and_then(|own| own.view_within(draft.schema, &draft.name));
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
    change_in(session, &place, edit).await
}

/// The view that a statement makes, without number, schema and columns yet: its query has names bound.
///
/// # Errors
/// 0A000 for what cannot stand in a view.
pub(crate) async fn drafted(session: &Session, view: &View, create: &CreateView) -> Result<SqlView> {
    let database = session.identity.database.clone();
    let mut query = ast::Statement::Query(create.query.clone());
    let planner = session.query(view.clone())?;
    planner.write_out(&mut query).await?;
    planner.statement_context().type_names().bind(&mut query);
    let ast::Statement::Query(query) = query else { return Err(SqlError::unsupported("this view")) };
    let bound = view_binding::bind(&query, &database, |name| Ok(view.find(name).map(|(_, found)| found)))?;
    if has_marker(&bound.sql) {
        return Err(SqlError::unsupported("EXCLUDE in the frame of a window of a view"));
    }
    Ok(SqlView {
        id: FIRST_OID,
        name: create.name.name.clone(),
        schema: PUBLIC_SCHEMA,
        columns: Vec::new(),
        sql: bound.sql,
        uses: bound.uses,
        comments: Comments::default(),
        materialized: None,
    })
}

/// The plan of a drafted view, as it will be read.
///
/// # Errors
/// What is wrong with the query.
pub(crate) async fn planned(session: &Session, view: &View, draft: &SqlView) -> Result<(Query, LogicalPlan)> {
    let tenant = session.identity.rows.tenant();
    let opened = view_binding::opened(draft, |number| lookup::numbered(&view.snapshot, tenant, number))?;
    let query = session.query(view.clone())?;
    let plan = query.plan(&ast::Statement::Query(opened)).await?;
    Ok((query, plan))
}

pub(super) async fn alter(session: &mut Session, alter: &AlterView) -> Result<()> {
    check_tenants(session, "ALTER VIEW")?;
    let tenant = tenant(session)?.0;
    let is_meant = |view: &SqlView| alter.kind.is_none_or(|kind| view.kind() == kind.name());
    let (place, id) = match session.find(&alter.name) {
        Some((place, Found::View(view))) if is_meant(&view) => {
            session.check_owner(view.id, false)?;
            (place, view.id)
        }
        Some(_) => return Err(not_a(&alter.name, alter.kind.map_or("view", ViewKind::name))),
        None if alter.if_exists => {
            session.skipped(&format!("relation \"{}\" does not exist", alter.name));
            return Ok(());
        }
        None => return Err(session.missing(&alter.name, "relation")),
    };
    let edit = |snapshot: &Snapshot| {
        let before = snapshot
            .private_of(Some(&tenant))
            .and_then(|own| own.views.get(&id))
            .ok_or_else(|| Error::new(ErrorKind::NoTable, format!("relation \"{}\" does not exist", alter.name)))?;
        let after = match &alter.action {
            ViewAction::Rename(to) => before.rename(to)?,
            ViewAction::RenameColumn { from, to } => before.rename_column(from, to)?,
        };
        Ok(vec![PrivateEdit::AlterView(Box::new((before.as_ref().clone(), after)))])
    };
    change_in(session, &place, edit).await
}

/// Whether `ALTER TABLE` names a view.
pub(super) fn is_view(session: &Session, name: &RelationName) -> bool {
    matches!(session.find(name), Some((_, Found::View(_))))
}

/// The schema of what cannot be temporary.
///
/// # Errors
/// 0A000; what the search path says against making anything.
pub(crate) fn permanent(session: &Session, name: &RelationName, what: &str) -> Result<Schema> {
    match session.place_of(name)? {
        Schema::Temporary => {
            Err(SqlError::unsupported(what).with_hint("Tables, views and sequences can be temporary."))
        }
        place => Ok(place),
    }
}

/// `ALTER TABLE` of a view: what PostgreSQL allows of it, names.
pub(super) async fn alter_table(session: &mut Session, alter_table: &AlterTable) -> Result<()> {
    let action = match alter_table.actions.as_slice() {
        [AlterAction::RenameTable(to)] => ViewAction::Rename(to.clone()),
        [AlterAction::RenameColumn { from, to }] => ViewAction::RenameColumn { from: from.clone(), to: to.clone() },
        _ => return Err(not_a(&alter_table.name, "table")),
    };
    let AlterTable { name, if_exists, .. } = alter_table;
    alter(session, &AlterView { name: name.clone(), kind: None, if_exists: *if_exists, action }).await
}

pub(super) async fn drop(session: &mut Session, kind: ViewKind, drop: &DropTables) -> Result<()> {
    check_tenants(session, "DROP VIEW")?;
    let mut views: Vec<(Schema, u32)> = Vec::with_capacity(drop.names.len());
    for name in &drop.names {
        match session.find(name) {
            Some((place, Found::View(view))) if view.kind() == kind.name() => {
                session.check_owner(view.id, true)?;
                views.push((place, view.id));
            }
            Some((_, found)) => return Err(wrong_kind(name, kind.name(), &found)),
            None if drop.if_exists => session.skipped(&format!("{} \"{name}\" does not exist", kind.name())),
            None => return Err(session.missing(name, kind.name())),
        }
    }
    if views.is_empty() {
        return Ok(());
    }
    let named: BTreeSet<u32> = views.iter().map(|(_, id)| *id).collect();
    let mut gone = if drop.cascade { cascade(session, named.iter().copied(), None) } else { BTreeSet::new() };
    let (temporary, permanent): (Vec<_>, Vec<_>) =
        views.into_iter().partition(|(place, _)| *place == Schema::Temporary);
    gone.extend(temporary.iter().map(|(_, id)| *id));
    // What is temporary may read what is permanent, never the other way.
    let before = session.drop_temporary_views(&gone).await?;
    let permanent: BTreeSet<u32> = permanent.iter().map(|(_, id)| *id).collect();
    if permanent.is_empty() {
        return Ok(());
    }
    let tenant = tenant(session)?.0;
    let edit = |snapshot: &Snapshot| {
        let more = if drop.cascade { dependents(snapshot, &tenant, &permanent) } else { Vec::new() };
        let all = more.iter().map(|view| view.id).chain(permanent.iter().copied());
        Ok(all.map(PrivateEdit::DropView).collect())
    };
    change(session, edit).await.inspect_err(|_| session.restore_temporary(before))
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

/// Drops the views of all tenants that read a shared table, or these columns of it: one edit for each tenant. Should
/// the table stay after all, they are gone.
pub(super) async fn drop_shared(session: &mut Session, table: u32, columns: Option<&BTreeSet<u16>>) -> Result<()> {
    let catalog = session.instance.catalog.clone();
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
        tell_views(session, &views);
    }
    Ok(())
}

/// The views that go with columns of a table.
pub(super) fn dependents_of_columns(own: &Private, table: u32, columns: &BTreeSet<u16>) -> Vec<Arc<SqlView>> {
    if columns.is_empty() { Vec::new() } else { sql_view::dependents(own, table, Some(columns)) }
}

/// Tells the client what goes with relations, or with columns of them; gives the numbers of the temporary views among
/// it.
pub(super) fn cascade(
    session: &mut Session,
    relations: impl IntoIterator<Item = u32>,
    columns: Option<&BTreeSet<u16>>,
) -> BTreeSet<u32> {
    let views = cascaded(session, &relations.into_iter().collect(), columns);
    tell_views(session, &views);
    let snapshot = session.catalog_snapshot();
    views.iter().map(|view| view.id).filter(|id| snapshot.temporary.has_oid(*id)).collect()
}

/// The views that go with relations, or with columns of them, temporary ones too.
pub(super) fn cascaded(
    session: &Session,
    relations: &BTreeSet<u32>,
    columns: Option<&BTreeSet<u16>>,
) -> Vec<Arc<SqlView>> {
    let snapshot = session.catalog_snapshot();
    let permanent = snapshot.private_of(session.identity.rows.tenant());
    let all = permanent.map_or_else(|| snapshot.temporary.as_ref().clone(), |own| own.union(&snapshot.temporary));
    let mut views: Vec<Arc<SqlView>> = Vec::new();
    for view in relations.iter().flat_map(|relation| match columns {
        Some(columns) => dependents_of_columns(&all, *relation, columns),
        None => sql_view::dependents(&all, *relation, None),
    }) {
        if !relations.contains(&view.id) && views.iter().all(|other| other.id != view.id) {
            views.push(view);
        }
    }
    views
}

/// Tells the client which views go along.
fn tell_views(session: &mut Session, views: &[Arc<SqlView>]) {
    let all: Vec<_> = views.iter().map(|view| (view.kind(), view.id)).collect();
    tell(session, &all);
}

/// Tells the client what goes along: kinds and OIDs.
pub(super) fn tell(session: &mut Session, gone: &[(&str, u32)]) {
    let snapshot = session.catalog_snapshot();
    let line = |(kind, oid): &(&str, u32)| {
        let tenant = session.identity.rows.tenant();
        let relation = snapshot.relation(tenant, *oid).map(|found| found.name().to_owned());
        let sequence = || snapshot.sequence_of(tenant, *oid).map(|sequence| sequence.name.clone());
        let name = RelationName::bare(relation.or_else(sequence).unwrap_or_default());
        let found = session.find(&name).map(|(_, found)| found.oid());
        let visible = found.or_else(|| session.find_sequence(&name).map(|sequence| sequence.id)) == Some(*oid);
        let schema = lookup::schema_of(&snapshot, tenant, *oid);
        let within = if visible { String::new() } else { format!("{}.", schema.name()) };
        format!("drop cascades to {kind} {within}{name}")
    };
    let lines: Vec<String> = gone.iter().map(line).collect();
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

/// 42809 for a relation of another kind than the statement drops.
pub(super) fn wrong_kind(name: &str, wanted: &str, found: &Found) -> SqlError {
    let kind = match found {
        Found::Table(_) => "table",
        Found::View(view) => view.kind(),
    };
    not_a(name, wanted).with_hint(format!("Use DROP {} to remove a {kind}.", kind.to_uppercase()))
}

/// 42809 for a relation of another kind than the statement names.
fn not_a(name: &str, wanted: &str) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a {wanted}"))
}

fn check_tenants(session: &Session, what: &str) -> Result<()> {
    if !session.identity.operator {
        return Ok(());
    }
    Err(SqlError::unsupported(format!("{what} in the operator's database"))
        .with_hint("A view belongs to a tenant: create it in the tenant's database."))
}
