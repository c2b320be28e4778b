//! What a statement knows while it is planned and run: who runs it, when, and the catalog that it sees.
//!
//! The session builds a [`StatementContext`] for each statement; `query` and `pg_catalog` take it in place of the
//! session. Functions are made once for all sessions: the context reaches them in DataFusion's configuration, as
//! [`Carried`].

pub mod introspection;
pub(crate) mod row_conditions;

use crate::{
    advisory_locks::SessionLocks,
    auth::operator::OPERATOR_ROLE,
    context::{
        introspection::{NoObjects, SessionObjects},
        row_conditions::KeptConditions,
    },
    instance::Instance,
    lock::Mutex,
    lookup::{self, type_names::TypeNames},
    notifications::{Ear, SharedPending},
    pg::{
        cancel_flag::CancelFlag,
        datetime::Style,
        error::{SqlError, SqlState},
        names::{KEYSPAN, PUBLIC, SYSTEM, Schema, SearchPath, TEMPORARY},
        statement_time::StatementTime,
    },
    resources::STREAMS,
    rights::{self, Grantee, Needs},
    sequences::LastValues,
    settings::pending::PendingSettings,
};
use datafusion::{common::exec_err, config::ConfigOptions, error::Result, physical_plan::ExecutionPlan};
use keyspan_catalog::{
    Privileges, Relation, Sequence, Snapshot, SqlView, Table, TableId, TenantId, TenantStore, ids::OPERATOR_DATABASE,
    rights::PUBLIC_SCHEMA,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock, OnceLock, Weak},
};

/// The plan of the statement that runs, if it has one.
pub(crate) type NotedPlan = Mutex<Option<Arc<dyn ExecutionPlan>>>;

/// What a statement knows.
#[derive(Clone, Debug)]
pub struct StatementContext {
    /// The role.
    pub role: String,
    /// The role's OID; `None` in a session without a log-in.
    pub role_oid: Option<u32>,
    /// The database.
    pub database: String,
    /// The tenant; `None` for the operator's database.
    pub tenant: Option<TenantId>,
    /// Whether it is the operator in the operator's database.
    pub operator: bool,
    /// The connection's process id: `pg_backend_pid()`.
    pub process_id: i32,
    /// When the statement began, in microseconds since 1970.
    pub now_micros: i64,
    /// When its transaction began: what `now()` is.
    pub transaction_micros: i64,
    /// The catalog.
    pub snapshot: Arc<Snapshot>,
    /// How values are read and printed, by the session's settings.
    pub style: Arc<Style>,
    /// The session's settings, by lower-case name.
    pub settings: BTreeMap<String, String>,
    /// The tenant store, for what statements change besides rows: sequences. `None` in tests.
    pub rows: Option<TenantStore>,
    /// The last value that the session took from each sequence: `currval()`.
    pub last_values: Arc<LastValues>,
    /// Settings that `set_config()` asks for, until the session takes them.
    pub pending_settings: Arc<PendingSettings>,
    /// Notifications that the session sends at its commit.
    pub(crate) pending: SharedPending,
    /// The channels that it listens to.
    pub(crate) ear: Arc<Ear>,
    /// The numbers that the session has locked. `None` in tests.
    pub(crate) advisory_locks: Option<Arc<SessionLocks>>,
    /// The session's prepared statements and cursors.
    pub(crate) objects: Arc<dyn SessionObjects>,
    /// What the session keeps of the conditions of tables.
    pub(crate) conditions: Arc<KeptConditions>,
    /// Where names without a schema are looked up.
    pub path: Arc<SearchPath>,
    /// Set once nobody waits for the statement's rows any more.
    pub cancelled: CancelFlag,
    /// What all sessions share. `None` in tests.
    pub instance: Option<Arc<Instance>>,
    /// Where its plan is noted until it has ended, for what is told of slow ones. `None` in tests.
    pub(crate) ran: Option<Weak<NotedPlan>>,
    /// The rights that the statement needs, as they are found.
    pub(crate) needs: Arc<Needs>,
    /// The roles that its database knows, once they are asked for.
    pub(crate) known_roles: Arc<OnceLock<BTreeSet<u32>>>,
}

impl StatementContext {
    /// What no session knows: of the server itself, which looks at the newest catalog with an operator's eyes.
    pub(crate) fn of_operator(instance: &Arc<Instance>) -> Self {
        let now_micros = instance.clock.now_micros();
        Self {
            role: OPERATOR_ROLE.to_owned(),
            role_oid: None,
            database: OPERATOR_DATABASE.to_owned(),
            tenant: None,
            operator: true,
            process_id: 0,
            now_micros,
            transaction_micros: now_micros,
            snapshot: instance.catalog.snapshot(),
            style: Arc::default(),
            settings: BTreeMap::new(),
            rows: None,
            last_values: Arc::default(),
            pending_settings: Arc::default(),
            pending: Arc::default(),
            ear: Arc::default(),
            advisory_locks: None,
            objects: Arc::new(NoObjects),
            conditions: Arc::default(),
            path: Arc::default(),
            cancelled: CancelFlag::default(),
            instance: Some(Arc::clone(instance)),
            ran: None,
            needs: Arc::default(),
            known_roles: Arc::default(),
        }
    }

    /// Who runs the statement, as far as rights go.
    pub(crate) fn grantee(&self) -> Grantee<'_> {
        Grantee { role: self.role_oid, tenant: self.tenant.as_ref() }
    }

    /// The roles that a tenant's database knows, and those that the statement's role is a member of.
    pub(crate) fn known_roles(&self) -> &BTreeSet<u32> {
        self.known_roles.get_or_init(|| {
            let (snapshot, tenant) = (&self.snapshot, self.tenant.as_ref());
            let mut known = tenant.map(|tenant| snapshot.roles_in(tenant)).unwrap_or_default();
            let me = self.role_oid.or_else(|| snapshot.role(&self.role).map(|role| role.oid));
            known.extend(me.into_iter().flat_map(|me| snapshot.memberships(tenant, me)));
            known
        })
    }

    /// Checks that the role has the rights that the statement needs, by the newest catalog.
    ///
    /// # Errors
    /// 42501.
    pub(crate) fn authorize(&self) -> std::result::Result<(), SqlError> {
        match &self.instance {
            Some(instance) => self.needs.check(self.grantee(), &instance.catalog.snapshot()),
            None => Ok(()),
        }
    }

    /// Whether the role may read a relation, by the newest catalog.
    pub(crate) fn may_read(&self, relation: u32) -> bool {
        let Some(instance) = &self.instance else { return true };
        let catalogs = (&*instance.catalog.snapshot(), &*self.snapshot);
        rights::has_any(self.grantee(), catalogs, relation, Privileges::SELECT)
    }

    /// Checks that the role has one of some rights on a sequence, by the newest catalog.
    ///
    /// # Errors
    /// 42501.
    pub(crate) fn authorize_sequence(
        &self,
        sequence: &Sequence,
        privileges: Privileges,
    ) -> std::result::Result<(), SqlError> {
        let (Some(instance), Some(tenant)) = (&self.instance, &self.tenant) else { return Ok(()) };
        let catalogs = (&*instance.catalog.snapshot(), &*self.snapshot);
        if rights::has_any(self.grantee(), catalogs, sequence.id, privileges) {
            return Ok(());
        }
        Err(rights::denied(&self.snapshot, tenant, sequence.id))
    }

    /// Checks that the role may use the schema of a relation, by the newest catalog; `public` is looked at when rows
    /// are read.
    ///
    /// # Errors
    /// 42501.
    pub(crate) fn authorize_schema_of(&self, relation: u32) -> std::result::Result<(), SqlError> {
        let (Some(instance), Some(tenant)) = (&self.instance, &self.tenant) else { return Ok(()) };
        let schema = self.snapshot.schema_of(Some(tenant), relation);
        let catalogs = (&*instance.catalog.snapshot(), &*self.snapshot);
        if schema == PUBLIC_SCHEMA || rights::has_any(self.grantee(), catalogs, schema, Privileges::USAGE) {
            return Ok(());
        }
        Err(rights::denied(&self.snapshot, tenant, schema))
    }

    /// The next number of a sequence.
    ///
    /// # Errors
    /// Those of [`Sequences::next`](crate::sequences::Sequences::next).
    pub fn next_number(&self, sequence: &Sequence) -> std::result::Result<i64, SqlError> {
        let (instance, rows) = self.sequences()?;
        let number = instance.sequences.next(rows, sequence)?;
        self.last_values.remember(sequence.id, number, true);
        Ok(number)
    }

    /// Sets the last number of a sequence.
    ///
    /// # Errors
    /// Those of [`Sequences::set`](crate::sequences::Sequences::set).
    pub fn set_number(&self, sequence: &Sequence, last: i64, called: bool) -> std::result::Result<i64, SqlError> {
        let (instance, rows) = self.sequences()?;
        instance.sequences.set(rows, sequence, last, called)?;
        if called {
            self.last_values.remember(sequence.id, last, false);
        }
        Ok(last)
    }

    /// The most partitions of a query: `max_parallel_workers_per_gather`, bounded by the cores.
    pub(crate) fn streams(&self) -> usize {
        static CORES: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
        let said = self.settings.get("max_parallel_workers_per_gather").and_then(|said| said.parse().ok());
        said.unwrap_or(STREAMS).clamp(1, STREAMS.max(*CORES))
    }

    fn sequences(&self) -> std::result::Result<(&Instance, &TenantStore), SqlError> {
        let both = self.instance.as_deref().zip(self.rows.as_ref());
        both.ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "a sequence needs a session"))
    }

    /// The schemas of the database but that of temporary tables.
    pub fn schemas(&self) -> impl Iterator<Item = &str> {
        let own = self.snapshot.private_of(self.tenant.as_ref()).into_iter().flat_map(|own| own.schemas.values());
        let system = SYSTEM.into_iter().chain([PUBLIC]).chain(self.operator.then_some(KEYSPAN));
        system.chain(own.map(|schema| schema.name.as_str()))
    }

    /// The schema of a relation of users.
    pub fn schema_of(&self, number: u32) -> Schema {
        lookup::schema_of(&self.snapshot, self.tenant.as_ref(), number)
    }

    /// The tables of the database, and the session's temporary ones.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> + Clone {
        self.permanent_tables().chain(self.temporary_tables())
    }

    /// The tables of all schemas but the temporary ones.
    pub fn permanent_tables(&self) -> impl Iterator<Item = &Arc<Table>> + Clone {
        self.snapshot.tables_in(self.tenant.as_ref())
    }

    /// The session's temporary tables.
    pub fn temporary_tables(&self) -> impl Iterator<Item = &Arc<Table>> + Clone {
        self.snapshot.temporary.tables.values()
    }

    /// The session's temporary table of this name.
    pub fn temporary_table(&self, name: &str) -> Option<&Arc<Table>> {
        self.snapshot.temporary.table(name)
    }

    /// The session's temporary view of this name.
    pub fn temporary_view(&self, name: &str) -> Option<&Arc<SqlView>> {
        self.snapshot.temporary.view(name)
    }

    /// Whether an OID is that of a temporary table, view or sequence.
    pub fn is_temporary(&self, number: u32) -> bool {
        self.snapshot.temporary.has_oid(number)
    }

    /// The name of the schema of the session's temporary relations.
    pub fn temporary_schema(&self) -> String {
        format!("{TEMPORARY}_{}", self.process_id)
    }

    /// The table of this name in the schema `public`.
    pub fn table(&self, name: &str) -> Option<&Arc<Table>> {
        self.snapshot.table_in(self.tenant.as_ref(), name)
    }

    /// The view of this name in the schema `public`.
    pub fn view(&self, name: &str) -> Option<&Arc<SqlView>> {
        self.snapshot.view_in(self.tenant.as_ref(), name)
    }

    /// The table or view with this OID in the database.
    pub fn readable(&self, number: u32) -> Option<Relation<'_>> {
        self.snapshot.relation(self.tenant.as_ref(), number)
    }

    /// The table or view with this OID, and its schema.
    pub fn numbered(&self, number: u32) -> Option<(Schema, Relation<'_>)> {
        lookup::numbered(&self.snapshot, self.tenant.as_ref(), number)
    }

    /// What names of enumerated types mean.
    pub(crate) fn type_names(&self) -> TypeNames<'_> {
        TypeNames { snapshot: &self.snapshot, tenant: self.tenant.as_ref(), path: &self.path }
    }

    /// The table with this id in the database.
    pub fn table_of(&self, id: TableId) -> Option<&Arc<Table>> {
        self.snapshot.table_of(self.tenant.as_ref(), id)
    }

    /// The statement's time, for functions of PostgreSQL.
    pub(crate) fn time(&self) -> StatementTime {
        let clock = self.instance.as_ref().map(|instance| instance.clock.clone());
        StatementTime { now_micros: self.now_micros, transaction_micros: self.transaction_micros, clock }
    }

    /// The context that a configuration carries.
    ///
    /// # Errors
    /// Internal: the configuration was not made for a statement.
    pub fn within(options: &ConfigOptions) -> Result<&Arc<Self>> {
        match options.extensions.get::<Carried>() {
            Some(carried) => Ok(&carried.0),
            None => exec_err!("this function needs a session"),
        }
    }
}

/// [`StatementContext`] as DataFusion's configuration carries them. Nothing in them can be set by name.
#[derive(Clone, Debug)]
pub struct Carried(pub Arc<StatementContext>);

crate::pg::extension::carried!(Carried, "keyspan_statement");
