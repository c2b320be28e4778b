//! What functions and relations of the system know of the statement: who runs it, when, and the catalog that it sees.
//!
//! Functions are made once for all sessions; the facts reach them in DataFusion's configuration, as [`Carried`].

use crate::{
    session::{Session, Shared},
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
use keyspan_catalog::{Snapshot, Table, TableId, TenantId};
use std::{any::Any, collections::BTreeMap, sync::Arc};

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
    /// The catalog.
    pub snapshot: Arc<Snapshot>,
    /// The session's settings, by lower-case name.
    pub settings: BTreeMap<String, String>,
    /// The server: its resources, and what of the store only the operator's relations show. `None` without one, in tests.
    pub shared: Option<Arc<Shared>>,
}

impl Facts {
    /// The facts of a statement of a session.
    pub fn of(session: &Session, view: &View) -> Self {
        Self {
            role: session.identity.role.clone(),
            database: session.identity.database.clone(),
            tenant: view.rows.tenant().cloned(),
            operator: session.identity.operator,
            process_id: session.process_id,
            now_micros: session.shared.clock.now_micros(),
            snapshot: view.snapshot.clone(),
            settings: session.settings(),
            shared: Some(session.shared.clone()),
        }
    }

    /// The tables of the database.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> + Clone {
        self.snapshot.tables_in(self.tenant.as_ref())
    }

    /// The table of this name in the database.
    pub fn table(&self, name: &str) -> Option<&Arc<Table>> {
        self.snapshot.table_in(self.tenant.as_ref(), name)
    }

    /// The table with this number in the database.
    pub fn table_of(&self, id: TableId) -> Option<&Arc<Table>> {
        self.snapshot.table_of(self.tenant.as_ref(), id)
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
