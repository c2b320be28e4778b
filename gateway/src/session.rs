//! A connection's session: who it is, its settings, its transaction.
//!
//! State only: [`execute`](crate::execute) prepares and runs its statements. Each statement takes a [`View`], one
//! snapshot and one pin; in a transaction with [`Isolation::RepeatableRead`](crate::sql::ast::session::Isolation) the
//! first statement's.

use crate::activity::{Activity, Listed};
use crate::advisory_locks::OwnLocks;
use crate::context::{NotedPlan, row_conditions::KeptConditions};
use crate::lookup;
use crate::pg::datetime::{OwnedInput, Style};
use crate::wire::transaction_status::TransactionStatus;
use crate::{identity::Identity, instance::Instance};
mod activity;
mod context;
pub(crate) mod counting;
mod cursors;
mod erasure;
mod listening;
mod pending_ddl;
pub(crate) mod plan_cache;
pub(crate) mod prepared;
mod quota;
mod rights;
mod temporary;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod transaction;

pub use crate::advisory_locks::AdvisoryLocks;
pub use crate::row_locks::RowLocks;
pub use crate::settings::Settings;
pub use crate::settings::pending::PendingSettings;
pub use crate::table_locks::TableLocks;
pub(crate) use pending_ddl::Reserved;
pub(crate) use transaction::{Lock, changed};

use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        names::{RelationName, Schema, SearchPath},
        types::ParameterType,
    },
    point,
    provider::batches::FoundRows,
    query::plan_cache::PreparedPlan,
    resources::Held,
    rights::Needs,
    sequences::LastValues,
    shares::{Connected, Share},
    sql::ast::Statement,
    view::{View, budget::ScanBudget},
    wire::reply::Severity,
};
use arrow::datatypes::SchemaRef;
use cursors::Cursors;
use datafusion::scalar::ScalarValue;
use keyspan_catalog::{Relation, Snapshot, SqlView, Table};
use plan_cache::PlanCache;
pub(crate) use prepared::{NamedStatement, Source, Statements, kept_bytes};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use temporary::Temporary;
use transaction::TransactionState;

/// A session.
#[derive(Debug)]
pub struct Session {
    /// What all sessions share.
    pub instance: Arc<Instance>,
    /// Who it is.
    pub identity: Identity,
    /// The number of the connection: `pg_backend_pid()`.
    pub process_id: i32,
    notices: Vec<SqlError>,
    pub(crate) settings: Settings,
    transaction: TransactionState,
    temporary: Temporary,
    /// Prepared statements.
    pub(crate) statements: Statements,
    /// Prepared statements by what the client sent.
    pub(crate) plan_cache: PlanCache,
    pub(crate) cursors: Cursors,
    /// Both of them, as the session's statements see them.
    objects: Arc<context::Objects>,
    /// The conditions of tables that it writes.
    conditions: Arc<KeptConditions>,
    notifications: listening::Notifications,
    /// Numbers that it has locked.
    pub(crate) advisory_locks: OwnLocks,
    /// Numbers that sequences gave.
    pub(crate) last_values: Arc<LastValues>,
    /// Settings that functions asked for.
    pub(crate) pending_settings: Arc<PendingSettings>,
    /// What others see of it.
    activity: Listed,
    /// The plan of the statement that runs.
    ran: Arc<NotedPlan>,
    /// What its database may take of the server.
    share: Arc<Share>,
    /// Its place among the sessions of the database.
    connected: Option<Connected>,
}

/// A statement that was analysed: what it takes and what it gives.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The statement.
    pub statement: Arc<Statement>,
    /// The types of `$1`, `$2`, ….
    pub parameters: Vec<ParameterType>,
    /// The columns of its rows; `None` for a command without rows.
    pub columns: Option<SchemaRef>,
    /// How it goes around the optimizer, if it does.
    pub(crate) kept: Arc<point::CompiledPlan>,
    /// Its plan, if it is a query that goes to the optimizer.
    pub(crate) plans: Arc<PreparedPlan>,
    /// What it runs as, if it is a query that others are like.
    pub(crate) parameterized: Option<plan_cache::Parameterized>,
    /// What is counted of its text.
    pub(crate) counted: Arc<counting::Counted>,
}

impl Prepared {
    /// A statement that leaves nothing in the session.
    pub(crate) fn new(statement: Statement, parameters: Vec<ParameterType>, columns: Option<SchemaRef>) -> Self {
        let (statement, kept, plans) = (Arc::new(statement), Arc::default(), Arc::default());
        Self { statement, parameters, columns, kept, plans, parameterized: None, counted: Arc::default() }
    }

    fn analysed(&self) -> point::Analysed<'_> {
        let columns = self.columns.as_ref();
        point::Analysed { statement: &self.statement, parameters: &self.parameters, columns }
    }

    /// Its rows and the rights that they need, if it is a query that goes around the optimizer.
    ///
    /// # Errors
    /// 42501.
    pub(crate) fn point_read(
        &self,
        session: &Session,
        values: &[ScalarValue],
        view: &View,
    ) -> Result<Option<(FoundRows, Arc<Needs>)>> {
        self.kept.read(&self.analysed(), values, view, |needs| session.authorize(needs))
    }

    /// What it writes, if it is a write that goes around the optimizer.
    ///
    /// # Errors
    /// Those of the general way; 42501.
    pub(crate) async fn point_write(
        &self,
        session: &Session,
        values: &[ScalarValue],
        view: &View,
    ) -> Result<Option<point::Written>> {
        let authorize = |needs: &Needs| session.authorize(needs);
        self.kept.write(&self.analysed(), values, view, authorize, || session.statement_context(view)).await
    }
}

/// A relation that was found by its name.
pub(crate) enum Found {
    Table(Arc<Table>),
    View(Arc<SqlView>),
}

impl Found {
    /// The OID.
    pub(crate) fn oid(&self) -> u32 {
        match self {
            Self::Table(table) => table.id.0,
            Self::View(view) => view.id,
        }
    }
}

impl Session {
    /// A session with default settings.
    pub fn new(instance: Arc<Instance>, identity: Identity, process_id: i32) -> Self {
        let settings = Settings::new(&identity, instance.settings.get().unwrap_or(&Vec::new()));
        let transaction = TransactionState::default();
        let activity = Activity::new(&identity, process_id, instance.clock.now_micros());
        let activity = instance.activities.list(activity);
        let (share, pool) = (instance.shares.of(identity.rows.oid()), &instance.resources.sessions);
        let statements = Statements::counted(Held::of_share(Arc::clone(pool), Arc::clone(&share)));
        let cursors = Cursors::counted(Arc::clone(pool), Arc::clone(&share));
        let objects = Arc::new(context::Objects { statements: statements.shown(), cursors: cursors.told() });
        let advisory_locks = instance.advisory_locks.session(identity.rows.oid(), process_id);
        let advisory_locks = OwnLocks(Arc::new(advisory_locks));
        Self {
            instance,
            identity,
            process_id,
            notices: Vec::new(),
            settings,
            transaction,
            temporary: Temporary::default(),
            statements,
            plan_cache: PlanCache::default(),
            cursors,
            objects,
            conditions: Arc::default(),
            notifications: listening::Notifications::default(),
            advisory_locks,
            last_values: Arc::default(),
            pending_settings: Arc::default(),
            activity,
            ran: Arc::default(),
            share,
            connected: None,
        }
    }

    /// Takes a place among the sessions of the database.
    ///
    /// # Errors
    /// 53300 when there is none.
    pub(crate) fn connect(&mut self) -> Result<()> {
        self.connected = Some(self.share().connect(&self.identity.database)?);
        Ok(())
    }

    /// Nothing that the session keeps yet: its memory is counted for its tenant.
    pub(crate) fn held(&self) -> Held {
        Held::of_share(Arc::clone(&self.instance.resources.sessions), Arc::clone(&self.share))
    }

    /// What its database may take of the server, by the newest catalog.
    pub(crate) fn share(&self) -> &Arc<Share> {
        let snapshot = self.instance.catalog.snapshot();
        if let Some(tenant) = self.identity.rows.tenant().and_then(|id| snapshot.tenant(id.as_str())) {
            self.share.set_quotas(tenant.quotas);
        }
        &self.share
    }

    /// Tells the session that a statement or its rows failed: an open transaction has failed then.
    pub fn failed(&mut self) {
        self.pending_settings.forget();
        if self.transaction.is_of_statement() {
            self.rollback();
        }
        self.transaction.fail();
        // In a block it is forgotten with the block, or with what comes behind a savepoint.
        if !self.in_transaction() {
            self.notifications.forget();
            self.advisory_locks.0.end_transaction();
        }
    }

    /// The state of the transaction.
    pub fn transaction_status(&self) -> TransactionStatus {
        self.transaction.status()
    }

    /// Notices since the last call, for the client.
    pub fn take_notices(&mut self) -> Vec<SqlError> {
        if self.notices.is_empty() {
            return Vec::new();
        }
        let level = self.settings.get("client_min_messages").unwrap_or_default();
        let told = |notice: &SqlError| match level.as_str() {
            "error" => false,
            "warning" => Severity::of_notice(notice) == Severity::Warning,
            _ => true,
        };
        let told: Vec<_> = self.notices.iter().filter(|notice| told(notice)).cloned().collect();
        self.notices.clear();
        told
    }

    /// Sets a setting as `SET name = value` does: startup parameters use it.
    ///
    /// # Errors
    /// An unknown setting or a value that it cannot have.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.settings.set(name, Some(value))
    }

    /// Sets a setting to what was stored for the role or the database.
    ///
    /// # Errors
    /// As [`Settings::set_stored`].
    pub(crate) fn set_stored(&mut self, name: &str, value: &str) -> Result<()> {
        self.settings.set_stored(name, value)
    }

    /// The startup parameters are set: RESET goes back to the settings as they are now.
    pub fn started(&mut self) {
        self.settings.keep_as_initial();
        self.pending_settings.started(self.settings.initial().clone());
    }

    /// The settings as text, by name in lower case.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let mut all = self.settings.all();
        all.insert("transaction_isolation".into(), self.isolation().name().into());
        let word = |is: bool| if is { "on" } else { "off" };
        all.insert("transaction_read_only".into(), word(self.is_read_only()).into());
        all.insert("transaction_deferrable".into(), word(self.is_deferrable()).into());
        all
    }

    /// Settings to be reported to the client (ParameterStatus): all at start, later those that changed since the last
    /// call.
    pub fn take_parameter_status(&mut self) -> Vec<(String, String)> {
        self.set_wanted();
        self.settings.take_reports()
    }

    /// Sets what `set_config` has asked for.
    pub(crate) fn set_wanted(&mut self) {
        for (name, local, value) in self.pending_settings.take() {
            // Outside of a transaction block it held for its statement only.
            if local && !self.remember_local(&name) {
                continue;
            }
            if let Err(error) = self.settings.set(&name, value.as_deref()) {
                tracing::warn!(%name, %error, "a setting that was checked could not be set");
            }
        }
    }

    /// `statement_timeout`, or the quota of the database if that is less; `None` for no limit.
    pub fn statement_timeout(&self) -> Option<Duration> {
        let own = self.settings.statement_timeout();
        let quotas = self.share().quotas();
        let quota = quotas.statement_timeout_millis.filter(|_| !quotas.dryrun).map(Duration::from_millis);
        own.into_iter().chain(quota).min()
    }

    /// How long the session may wait for its next statement, and the error when none comes.
    pub(crate) fn idle_timeout(&self) -> Option<(Duration, SqlError)> {
        let (name, state, what) = match self.transaction_status() {
            TransactionStatus::Idle => ("idle_session_timeout", SqlState::IDLE_SESSION_TIMEOUT, "idle-session"),
            _ => {
                let state = SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT;
                ("idle_in_transaction_session_timeout", state, "idle-in-transaction")
            }
        };
        let timeout = self.settings.timeout(name)?;
        Some((timeout, SqlError::new(state, format!("terminating connection due to {what} timeout"))))
    }

    /// The columns of a cursor, if there is one of this name.
    pub(crate) fn cursor_columns(&self, name: &str) -> Option<SchemaRef> {
        self.cursors.schema(name).ok()
    }

    /// A view for one statement.
    ///
    /// # Errors
    /// 57P01 when the session may not be here any more; the store's.
    pub async fn view(&mut self) -> Result<View> {
        let snapshot = self.instance.catalog.snapshot();
        self.identity.check_rights(&snapshot)?;
        let rows = self.identity.rows.clone();
        let (pushdown, columnar) = (self.settings.pushdown(), self.settings.columnar());
        let (snapshot, pin) = match self.transaction.state() {
            Some(state) => state,
            None => (snapshot, rows.pin().await?),
        };
        // Once more: the pin may be younger than a drop, and than another tenant of the same id.
        self.check_rights()?;
        self.transaction.keep_state(&snapshot, &pin);
        let door = self.identity.rows.tenant().zip(self.identity.rows.oid());
        let snapshot = self.transaction.seen(door, snapshot)?;
        let snapshot = self.temporary.seen(snapshot);
        let path = self.path_in(&snapshot);
        let quotas = rows.tenant().and_then(|tenant| Some(snapshot.tenant(tenant.as_str())?.quotas));
        let bytes_max = quotas.unwrap_or_default().scan_bytes_max;
        let budget = ScanBudget::new(bytes_max, Arc::clone(&self.share)).with_heat(Arc::clone(&self.instance.heat));
        let budget = Some(Arc::new(budget));
        let buffered = self.transaction.buffered();
        let memory = Some(Arc::clone(&self.instance.resources.runtime.memory_pool));
        let input = self.input();
        let (as_of, relied) = (None, crate::view::Relied::None);
        let isolated = self.in_transaction() && self.isolation() == crate::sql::ast::session::Isolation::RepeatableRead;
        Ok(View {
            snapshot,
            pin,
            rows,
            buffered,
            pushdown,
            columnar,
            as_of,
            budget,
            memory,
            path,
            input,
            relied,
            isolated,
        })
    }

    /// How texts are read as values now.
    pub(crate) fn input(&self) -> OwnedInput {
        let now_micros = self.began_micros().unwrap_or_else(|| self.instance.clock.now_micros());
        OwnedInput { style: self.style().clone(), now_micros }
    }

    /// How values are printed.
    pub(crate) fn style(&self) -> &Arc<Style> {
        self.settings.style()
    }

    /// Where names without a schema are looked up.
    pub(crate) fn search_path(&self) -> Arc<SearchPath> {
        self.path_in(&self.catalog_snapshot())
    }

    /// Where names without a schema are looked up in a snapshot: in schemas that exist, and that the role may use.
    fn path_in(&self, snapshot: &Snapshot) -> Arc<SearchPath> {
        let tenant = self.identity.rows.tenant();
        let own = snapshot.private_of(tenant).filter(|own| !own.schemas.is_empty());
        let Some((tenant, own)) = tenant.zip(own) else { return Arc::clone(self.settings.search_path()) };
        let role = self.identity.role_oid;
        let may_use = |oid: u32| role.is_none_or(|role| snapshot.may_use_schema(tenant, role, oid));
        let has = |name: &str| own.schema(name).is_some_and(may_use);
        Arc::new(self.settings.search_path_among(&self.identity.role, has))
    }

    /// The table or view of a name, and its schema.
    pub(crate) fn find(&self, name: &RelationName) -> Option<(Schema, Found)> {
        let snapshot = self.catalog_snapshot();
        let path = self.path_in(&snapshot);
        let (schema, found) = lookup::find(&snapshot, self.identity.rows.tenant(), &path, name)?;
        Some((
            schema,
            match found {
                Relation::Table(table) => Found::Table(table.clone()),
                Relation::View(view) => Found::View(view.clone()),
            },
        ))
    }

    /// Whether its transaction has written a row of a table on a server, which is atomic by row.
    pub(crate) fn writes_on_server(&self) -> bool {
        self.transaction.writes_on_server()
    }

    /// Whether statements may go around the optimizer.
    pub(crate) fn takes_fast_path(&self) -> bool {
        self.settings.point()
    }

    /// Adds a notice for the client.
    pub(crate) fn notice(&mut self, notice: SqlError) {
        self.notices.push(notice);
    }

    /// Tells the client that something was passed over.
    pub(crate) fn skipped(&mut self, what: &str) {
        self.notice(SqlError::new(SqlState::SUCCESSFUL_COMPLETION, format!("{what}, skipping")));
    }

    /// Checks that the session may still be here, by the newest catalog: before each statement, and before more rows of
    /// one under way.
    ///
    /// # Errors
    /// 57P01, which ends the session.
    pub(crate) fn check_rights(&self) -> Result<()> {
        self.identity.check_rights(&self.instance.catalog.snapshot())
    }
}
