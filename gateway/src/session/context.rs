//! What a session hands to each of its statements: the [`StatementContext`], and a [`Query`] with it.

use super::{
    Session,
    cursors::Told,
    prepared::{NamedStatement, SharedStatements},
};
use crate::{
    context::{
        StatementContext,
        introspection::{CursorInfo, PreparedInfo, SessionObjects},
    },
    pg::error::Result,
    query::Query,
    view::View,
};
use std::sync::Arc;

/// The session's prepared statements and cursors, as its statements see them.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) statements: SharedStatements,
    pub(super) cursors: Told,
}

impl SessionObjects for Objects {
    fn prepared_statements(&self) -> Vec<PreparedInfo> {
        let statements = self.statements.lock();
        let mut named: Vec<_> = statements.iter().filter(|(name, _)| !name.is_empty()).collect();
        named.sort_by_key(|(name, _)| *name);
        let info = |(name, statement): (&String, &Arc<NamedStatement>)| PreparedInfo {
            name: name.clone(),
            text: statement.source.text.clone(),
            at_micros: statement.source.at_micros,
            by_statement: statement.source.by_statement,
            parameters: statement.types.clone(),
            columns: statement.prepared.as_ref().and_then(|prepared| prepared.columns.clone()),
        };
        named.into_iter().map(info).collect()
    }

    fn cursors(&self) -> Vec<CursorInfo> {
        self.cursors.lock().values().cloned().collect()
    }
}

impl Session {
    /// The context of a statement that begins now.
    pub(crate) fn statement_context(&self, view: &View) -> StatementContext {
        let now_micros = self.instance.clock.now_micros();
        StatementContext {
            cancelled: crate::pg::cancel_flag::CancelFlag::default(),
            role: self.identity.role.clone(),
            role_oid: self.identity.role_oid,
            database: self.identity.database.clone(),
            tenant: view.rows.tenant().cloned(),
            operator: self.identity.operator,
            process_id: self.process_id,
            now_micros,
            transaction_micros: self.began_micros().unwrap_or(now_micros),
            snapshot: view.snapshot.clone(),
            style: self.settings.style().clone(),
            settings: self.settings(),
            rows: Some(view.rows.clone()),
            last_values: self.last_values.clone(),
            pending_settings: self.pending_settings.clone(),
            pending: self.pending(),
            ear: self.ear().clone(),
            advisory_locks: Some(self.advisory_locks.0.clone()),
            objects: self.objects.clone(),
            conditions: self.conditions.clone(),
            path: view.path.clone(),
            instance: Some(self.instance.clone()),
            // The plan holds the context: the session alone holds the plan.
            ran: Some(Arc::downgrade(&self.ran)),
            needs: Arc::default(),
            known_roles: Arc::default(),
        }
    }

    /// A query of this session over what a view sees.
    ///
    /// # Errors
    /// Those of [`Query::new`].
    pub(crate) fn query(&self, view: View) -> Result<Query> {
        Query::new(Arc::new(self.statement_context(&view)), view)
    }

    /// A query over what is seen now.
    ///
    /// # Errors
    /// Those of [`Session::view`] and [`Query::new`].
    pub(crate) async fn query_now(&mut self) -> Result<Query> {
        let view = self.view().await?;
        self.query(view)
    }

    /// A query for a plan that is in the plan cache.
    ///
    /// # Errors
    /// Those of [`Query::of_cached`].
    pub(crate) fn query_of_cached(&self, view: View) -> Result<Query> {
        Query::of_cached(Arc::new(self.statement_context(&view)), view)
    }
}
