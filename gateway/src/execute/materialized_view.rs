//! `CREATE MATERIALIZED VIEW`, `REFRESH MATERIALIZED VIEW`: views that keep the rows of their query.
//!
//! ```text
//! plan the query → reserve a space → write its rows there, in parts
//!                → the edit that makes the view, or gives it that space
//! ```
//!
//! The edit shows all rows at once, as it does for [`CREATE TABLE … AS`](super::create_table_as): who reads while a view
//! is refreshed reads the rows from before, so that every refresh is what PostgreSQL calls `CONCURRENTLY`, and needs no
//! unique index for it. The old rows are deleted after the edit. A view is refreshed with the rights of its owner. Two
//! refreshes of a view outside of transactions wait for each other; of those in transactions the one that commits later
//! fails with 40001, since it may have read an older state.

use super::create_table_as::{definition, fill, reserve, settle, with_types};
use crate::{
    ddl::{
        private::{change, is_there, schema_oid, tenant, without_storage_parameters},
        view::{drafted, permanent, planned},
    },
    pg::error::{Result, SqlError, SqlState},
    query::{Query, views},
    session::{Found, Session},
    shield::shielded,
    sql::ast::view::{CreateMaterialized, RefreshMaterialized},
    view::View,
};
use datafusion::logical_expr::LogicalPlan;
use keyspan_catalog::{Error, ErrorKind, PrivateEdit, SqlView, Table, TableId};
use std::sync::Arc;

/// Makes a materialized view; gives the command tag.
///
/// # Errors
/// What is wrong with the query or its rows; 42P07; the store's. Nothing of the view is left then.
pub(super) async fn create(session: &mut Session, create: &CreateMaterialized) -> Result<String> {
    const TAG: &str = "CREATE MATERIALIZED VIEW";
    if session.identity.operator {
        return Err(SqlError::unsupported("CREATE MATERIALIZED VIEW in the operator's database")
            .with_hint("A view belongs to a tenant: create it in the tenant's database."));
    }
    let tenant = tenant(session)?.0;
    let view = session.view().await?;
    let name = &create.view.name;
    let place = permanent(session, name, "a temporary materialized view")?;
    if is_there(session, &place, name) {
        let message = format!("relation \"{name}\" already exists");
        if create.if_not_exists {
            session.skipped(&message);
            return Ok(TAG.to_owned());
        }
        return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
    }
    session.check_create(&place)?;
    if let Some(option) = without_storage_parameters(session, &create.options).first() {
        let message = format!("unrecognized parameter \"{}\"", option.name);
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let mut draft = drafted(session, &view, &create.view).await?;
    if draft.uses.keys().any(|number| view.snapshot.temporary.has_oid(*number)) {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "materialized views must not use temporary tables or views",
        ));
    }
    let (query, plan) = planned(session, &view, &draft).await?;
    let columns = Query::columns(&plan).await;
    let definition = definition(name, &create.view.columns, &columns)?;
    draft.columns = views::columns(&plan, &create.view.columns).await?;
    draft = draft.rename(name)?;
    draft.schema = schema_oid(&view.snapshot, &tenant, &place)?;
    let (reserved, number) = reserve(session).await?;
    let made = async {
        draft.id = number;
        draft.materialized = Some(Box::new(with_types(Table::define_private(TableId(number), &definition)?, &columns)));
        let source = create.with_data.then_some((&query, plan));
        make(session, view, draft, source, |filled| PrivateEdit::CreateView(Box::new(filled))).await
    };
    let rows = settle(reserved, Box::pin(made).await).await?;
    Ok(if create.with_data { format!("SELECT {rows}") } else { TAG.to_owned() })
}

/// Fills a materialized view anew, or empties it.
///
/// # Errors
/// 42501 for a role that does not own it, 42809 and 0A000 for other relations, 0A000 and 42601 for `CONCURRENTLY` where
/// it says nothing; what is wrong with the query or its rows; the store's. The rows are those from before then.
pub(super) async fn refresh(session: &mut Session, refresh: &RefreshMaterialized) -> Result<()> {
    let name = &refresh.name;
    let found = match session.find(name) {
        Some((_, Found::View(view))) if view.materialized.is_some() => view,
        Some((_, Found::View(_))) => {
            let message = format!("\"{name}\" is not a table or materialized view");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Some((_, Found::Table(_))) => {
            let message = format!("\"{name}\" is not a materialized view");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        None => return Err(session.missing(name, "relation")),
    };
    session.check_owner(found.id, false)?;
    if refresh.concurrently && !found.is_populated() {
        let message = "CONCURRENTLY cannot be used when the materialized view is not populated";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    if refresh.concurrently && !refresh.with_data {
        return Err(SqlError::syntax("REFRESH options CONCURRENTLY and WITH NO DATA cannot be used together"));
    }
    let instance = session.instance.clone();
    let id = TableId(found.id);
    let _alone = if session.in_transaction() { None } else { Some(instance.table_locks.lock([], [id]).await) };
    let view = session.view().await?;
    let own = view.snapshot.private_of(session.identity.rows.tenant());
    let before = own
        .and_then(|own| own.views.get(&found.id))
        .ok_or_else(|| SqlError::from(Error::new(ErrorKind::NoTable, format!("relation \"{name}\" does not exist"))))?;
    let before = before.as_ref().clone();
    session.forget_rows(id);
    let altered = |after: SqlView| PrivateEdit::AlterView(Box::new((before.clone(), after)));
    if !refresh.with_data {
        make(session, view, before.clone(), None, altered).await?;
        return Ok(());
    }
    let query = session.query(view.clone())?;
    let plan = query.plan_of_view(&before).await?;
    let (reserved, number) = reserve(session).await?;
    let after = before.with_space(Some(number));
    let made = Box::pin(make(session, view, after, Some((&query, plan)), altered)).await;
    settle(reserved, made).await?;
    Ok(())
}

/// Writes the rows of a query, if there is one, into the space of the view, and makes the edit of what came of it;
/// gives the number of rows. Without a query the view has no space.
async fn make(
    session: &mut Session,
    view: View,
    made: SqlView,
    source: Option<(&Query, LogicalPlan)>,
    edit: impl Fn(SqlView) -> PrivateEdit + Send + Sync,
) -> Result<u64> {
    let (made, rows) = match (source, made.table()) {
        (Some(source), Some(table)) => (made, fill(session, view, &Arc::new(table), source).await?),
        _ => (made.with_space(None), 0),
    };
    shielded(change(session, |_| Ok(vec![edit(made.clone())]))).await?;
    Ok(rows)
}
