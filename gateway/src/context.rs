//! What functions and relations of the system know of the statement: who runs it, when, and the catalog that it sees.
//!
//! Functions are made once for all sessions; the facts reach them in DataFusion's configuration, as [`Carried`].

use crate::lookup;
use crate::{
    instance::Shared,
    notifications::Ear,
    pg::{
        error::{SqlError, SqlState},
        names::{Schema, SearchPath, TEMPORARY},
        statement_time::StatementTime,
    },
    pg_catalog::objects,
    query::state::STREAMS,
    sequences::Given,
    session::{Held, Session, SharedPending, Shown},
    settings::pending::Wanted,
    view::View,
};
use datafusion::{
    common::{
        config::{ConfigEntry, ConfigExtension, ExtensionOptions},
        exec_err,
    },
    config::ConfigOptions,
    error::Result,
};
use keyspan_catalog::{Relation, Sequence, Snapshot, SqlView, Table, TableId, TenantId, TenantStore};
use std::{
    any::Any,
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

/// What is known of a statement.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The role.
    pub role: String,
    /// The database.
    pub database: String,
    /// The tenant; `None` for the operator's database.
    pub tenant: Option<TenantId>,
    /// Whether it is the operator in the operator's database.
    pub operator: bool,
    /// The number of the connection.
    pub process_id: i32,
    /// When the statement began, in microseconds since 1970.
    pub now_micros: i64,
    /// When its transaction began: what `now()` is.
    pub transaction_micros: i64,
    /// The catalog.
    pub snapshot: Arc<Snapshot>,
    /// The session's settings, by lower-case name.
    pub settings: BTreeMap<String, String>,
    /// The door to rows, for what statements change beside them: sequences. `None` in tests.
    pub rows: Option<TenantStore>,
    /// Numbers that sequences gave the session.
    pub given: Arc<Given>,
    /// Settings that functions ask for.
    pub wanted: Arc<Wanted>,
    /// What the session tells at its commit.
    pub(crate) pending: SharedPending,
    /// What it listens to.
    pub(crate) ear: Arc<Ear>,
    /// The session's prepared statements.
    pub(crate) statements: Shown,
    /// The session's cursors.
    pub(crate) cursors: Held,
    /// Where names without a schema are looked up.
    pub path: Arc<SearchPath>,
    /// The server: its resources, and what of the store only the operator's relations show. `None` without one, in tests.
    pub shared: Option<Arc<Shared>>,
}

impl Facts {
    /// The facts of a statement of a session.
    pub fn of(session: &Session, view: &View) -> Self {
        let now_micros = session.shared.clock.now_micros();
        Self {
            role: session.identity.role.clone(),
            database: session.identity.database.clone(),
            tenant: view.rows.tenant().cloned(),
            operator: session.identity.operator,
            process_id: session.process_id,
            now_micros,
            transaction_micros: session.began_micros().unwrap_or(now_micros),
            snapshot: view.snapshot.clone(),
            settings: session.settings(),
            rows: Some(view.rows.clone()),
            given: session.given.clone(),
            wanted: session.wanted.clone(),
            pending: session.pending(),
            ear: session.ear().clone(),
            statements: session.statements.shown(),
            cursors: session.held_cursors(),
            path: view.path.clone(),
            shared: Some(session.shared.clone()),
        }
    }

    /// The sequence of a name, with or without schema.
    ///
    /// # Errors
    /// 42P01.
    pub fn sequence(&self, name: &str) -> std::result::Result<&Arc<Sequence>, SqlError> {
        // A name that was cast to regclass is a number by now.
        let number = name.parse::<u32>().ok().or_else(|| objects::oid_of_relation(self, name));
        let found = number.and_then(|number| self.snapshot.sequence_of(self.tenant.as_ref(), number));
        found.ok_or_else(|| match number {
            Some(_) => SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a sequence")),
            None => SqlError::undefined_relation(name),
        })
    }

    /// The next number of a sequence.
    ///
    /// # Errors
    /// Those of [`Sequences::next`](crate::sequences::Sequences::next).
    pub fn next_number(&self, sequence: &Sequence) -> std::result::Result<i64, SqlError> {
        let (shared, rows) = self.door()?;
        let number = shared.sequences.next(rows, sequence)?;
        self.given.remember(sequence.id, number, true);
        Ok(number)
    }

    /// Sets the last number of a sequence.
    ///
    /// # Errors
    /// Those of [`Sequences::set`](crate::sequences::Sequences::set).
    pub fn set_number(&self, sequence: &Sequence, last: i64, called: bool) -> std::result::Result<i64, SqlError> {
        let (shared, rows) = self.door()?;
        shared.sequences.set(rows, sequence, last, called)?;
        if called {
            self.given.remember(sequence.id, last, false);
        }
        Ok(last)
    }

    /// Streams in which a query runs at most: what the session says, as far as there are cores for them.
    pub(crate) fn streams(&self) -> usize {
        static CORES: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
        let said = self.settings.get("max_parallel_workers_per_gather").and_then(|said| said.parse().ok());
        said.unwrap_or(STREAMS).clamp(1, STREAMS.max(*CORES))
    }

    fn door(&self) -> std::result::Result<(&Shared, &TenantStore), SqlError> {
        let door = self.shared.as_deref().zip(self.rows.as_ref());
        door.ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "a sequence needs a session"))
    }

    /// The tables of the database, and the session's temporary ones.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> + Clone {
        self.permanent_tables().chain(self.temporary_tables())
    }

    /// The tables of the schema `public`.
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

    /// Whether a number is that of something temporary.
    pub fn is_temporary(&self, number: u32) -> bool {
        self.snapshot.temporary.has_oid(number)
    }

    /// The name of the schema of what is temporary.
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

    /// The table or view with this number in the database.
    pub fn readable(&self, number: u32) -> Option<Relation<'_>> {
        self.snapshot.relation(self.tenant.as_ref(), number)
    }

    /// The same with its schema.
    pub fn numbered(&self, number: u32) -> Option<(Schema, Relation<'_>)> {
        lookup::numbered(&self.snapshot, self.tenant.as_ref(), number)
    }

    /// The table with this number in the database.
    pub fn table_of(&self, id: TableId) -> Option<&Arc<Table>> {
        self.snapshot.table_of(self.tenant.as_ref(), id)
    }

    /// The statement's time, for functions of PostgreSQL.
    pub(crate) fn time(&self) -> StatementTime {
        let clock = self.shared.as_ref().map(|shared| shared.clock.clone());
        StatementTime { now_micros: self.now_micros, transaction_micros: self.transaction_micros, clock }
    }

    /// The facts that a configuration carries.
    ///
    /// # Errors
    /// For a configuration that was not made for a statement: a fault of ours.
    pub fn within(options: &ConfigOptions) -> Result<&Arc<Self>> {
        match options.extensions.get::<Carried>() {
            Some(carried) => Ok(&carried.0),
            None => exec_err!("this function needs a session"),
        }
    }
}

/// [`Facts`] as DataFusion's configuration carries them. Nothing in them can be set by name.
#[derive(Clone, Debug)]
pub struct Carried(pub Arc<Facts>);

impl ConfigExtension for Carried {
    const PREFIX: &'static str = "keyspan_facts";
}

impl ExtensionOptions for Carried {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }
    fn set(&mut self, key: &str, _value: &str) -> Result<()> {
        exec_err!("{key} cannot be set")
    }
    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}
