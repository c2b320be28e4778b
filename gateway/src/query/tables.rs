//! The names that a statement can read: the database, its schemas, and the tables in them.
//!
//! One database, the session's own: `public` holds the tables of the snapshot, `pg_catalog` and `information_schema` the
//! relations of [`pg_catalog`], and `keyspan` what only the operator sees. A name without a schema is looked up
//! in `public`, then in `pg_catalog`. For tables as they were, [`past`] makes names of schemas; nothing can be registered, and
//! there are no other names.

use super::{
    facts::Facts,
    past,
    views::{self, Nesting},
};
use crate::{pg_catalog, provider::KeyspanTable, view::View};
use async_trait::async_trait;
use datafusion::{
    catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider},
    error::{DataFusionError, Result},
};
use keyspan_catalog::Table;
use std::{fmt, sync::Arc};

/// The schema of users' tables.
pub const PUBLIC: &str = "public";
/// The schema of what only the operator sees.
pub const KEYSPAN: &str = "keyspan";
/// The schemas of PostgreSQL's own relations.
pub const SYSTEM: [&str; 2] = ["pg_catalog", "information_schema"];

/// The schema of users' tables with their hidden keys as a column: what writes read.
pub const KEYED: &str = "public with keys";

type Open = dyn Fn(&Arc<Table>, RowForm) -> Result<Arc<dyn TableProvider>> + Send + Sync;

/// How rows of a table are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowForm {
    /// As they are.
    Present,
    /// As they are, with the hidden key as the last column.
    Keyed,
    /// As they were at a moment in microseconds.
    AsOf(i64),
}

/// How a table of the catalog becomes one that DataFusion reads.
#[derive(Clone)]
pub struct Rows(pub Arc<Open>);

impl Rows {
    /// Over the rows that a view sees.
    pub fn of(view: &View) -> Self {
        let view = view.clone();
        Self(Arc::new(move |table, form| {
            let table = table.clone();
            Ok(Arc::new(match form {
                RowForm::Present => KeyspanTable::new(table, view.clone()),
                RowForm::Keyed => KeyspanTable::keyed(table, view.clone()),
                RowForm::AsOf(micros) => {
                    let view = past::view(&view, &table, micros)?;
                    KeyspanTable::new(table, view)
                }
            }))
        }))
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rows")
    }
}

/// The databases of a session: its own.
#[derive(Debug)]
pub struct Databases {
    name: String,
    database: Arc<Database>,
}

#[derive(Debug)]
struct Database {
    facts: Arc<Facts>,
    rows: Rows,
    nesting: Nesting,
}

#[derive(Debug)]
struct Schema {
    name: &'static str,
    /// Of tables.
    form: RowForm,
    facts: Arc<Facts>,
    rows: Rows,
    nesting: Nesting,
}

impl Databases {
    /// The session's own database.
    pub fn new(facts: Arc<Facts>, rows: Rows, nesting: Nesting) -> Self {
        Self { name: facts.database.clone(), database: Arc::new(Database { facts, rows, nesting }) }
    }
}

impl CatalogProviderList for Databases {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }
    fn catalog_names(&self) -> Vec<String> {
        vec![self.name.clone()]
    }
    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == self.name).then(|| self.database.clone() as Arc<dyn CatalogProvider>)
    }
}

/// The schemas of a database.
pub fn schemas(facts: &Facts) -> impl Iterator<Item = &'static str> {
    SYSTEM.into_iter().chain([PUBLIC]).chain(facts.operator.then_some(KEYSPAN))
}

impl CatalogProvider for Database {
    fn schema_names(&self) -> Vec<String> {
        schemas(&self.facts).map(str::to_owned).collect()
    }
    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let form = match past::moment(name) {
            Some(micros) => RowForm::AsOf(micros),
            None if name == KEYED => RowForm::Keyed,
            None => RowForm::Present,
        };
        let known = || schemas(&self.facts).find(|schema| *schema == name);
        let name = if form == RowForm::Present { known()? } else { PUBLIC };
        let (facts, rows, nesting) = (self.facts.clone(), self.rows.clone(), self.nesting.clone());
        Some(Arc::new(Schema { name, form, facts, rows, nesting }))
    }
}

#[async_trait]
impl SchemaProvider for Schema {
    fn table_names(&self) -> Vec<String> {
        match self.name {
            PUBLIC => {
                let tables = self.facts.tables().map(|table| table.name.clone());
                tables.chain(pg_catalog::views::all(&self.facts).map(|view| view.name.clone())).collect()
            }
            schema => pg_catalog::names(schema).map(str::to_owned).collect(),
        }
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.name != PUBLIC {
            return pg_catalog::relation(self.name, name, &self.facts);
        }
        match self.facts.table(name) {
            Some(table) => self.rows.0(table, self.form).map(Some),
            None if self.form != RowForm::Present => Ok(None),
            None => match self.facts.view(name) {
                Some(view) => {
                    let opened = Box::pin(views::open(view, &self.facts, &self.rows, &self.nesting)).await;
                    opened.map(Some).map_err(|error| DataFusionError::External(Box::new(error)))
                }
                None => pg_catalog::relation(SYSTEM[0], name, &self.facts),
            },
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        match self.name {
            PUBLIC => self.facts.table(name).is_some() || self.facts.view(name).is_some(),
            schema => pg_catalog::names(schema).any(|known| known == name),
        }
    }
}
