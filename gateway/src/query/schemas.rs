//! The names that a statement can read: the database, its schemas, and the tables in them.
//!
//! One database, the session's own: `public`, and schemas that users created, hold the tables of the snapshot,
//! `pg_temp` the session's own,
//! `pg_catalog` and `information_schema` the relations of [`pg_catalog`], and `keyspan` what only the operator sees. A
//! name without a schema is one of [`PATH`], which looks it up along the [search path](crate::pg::names::SearchPath).
//! For tables as they were, [`as_of`] makes names of schemas; nothing can be registered, and there are no other names.

use super::{
    as_of,
    views::{self, Nesting},
};
use crate::lookup;
use crate::pg::names::{PATH, target_of};
use crate::{
    context::StatementContext,
    pg::names::{RelationName, Schema as Place},
    pg_catalog,
    provider::KeyspanTable,
    system_relations,
    view::View,
};
use async_trait::async_trait;
use datafusion::{
    catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider},
    error::{DataFusionError, Result},
};
use keyspan_catalog::{Privileges, Relation, Sequence, Table};
use std::{fmt, sync::Arc};

type Open = dyn Fn(&Arc<Table>, RowForm) -> Result<Arc<dyn TableProvider>> + Send + Sync;

/// How rows of a table are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowForm {
    /// As they are.
    Present,
    /// As they are, of the table that a write writes.
    Target,
    /// The same, with the hidden key as the last column.
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
                RowForm::Present | RowForm::Target => KeyspanTable::new(table, view.clone()),
                RowForm::Keyed => KeyspanTable::keyed(table, view.clone()),
                RowForm::AsOf(micros) => {
                    let view = as_of::view(&view, &table, micros)?;
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
    statement: Arc<StatementContext>,
    rows: Rows,
    nesting: Nesting,
}

#[derive(Debug)]
struct Schema {
    /// `None` for the whole path.
    place: Option<Place>,
    /// Of tables.
    form: RowForm,
    statement: Arc<StatementContext>,
    rows: Rows,
    nesting: Nesting,
}

impl Databases {
    /// The session's own database.
    pub fn new(statement: Arc<StatementContext>, rows: Rows, nesting: Nesting) -> Self {
        Self { name: statement.database.clone(), database: Arc::new(Database { statement, rows, nesting }) }
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

/// The schema of a name; that of temporary tables has two.
fn place_of(name: &str, statement: &StatementContext) -> Option<Place> {
    if name == statement.temporary_schema() {
        return Some(Place::Temporary);
    }
    match Place::named(name) {
        Place::Own(own) => statement.snapshot.schema_in(statement.tenant.as_ref(), &own).map(|_| Place::Own(own)),
        known => Some(known),
    }
}

/// The schema of users' relations with an OID.
fn numbered(oid: u32, statement: &StatementContext) -> Option<Place> {
    statement.snapshot.schema_name(statement.tenant.as_ref(), oid).map(Place::named)
}

impl CatalogProvider for Database {
    fn schema_names(&self) -> Vec<String> {
        self.statement.schemas().map(str::to_owned).collect()
    }
    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let (form, place) = if let Some((schema, micros)) = as_of::timestamp_of(name) {
            (RowForm::AsOf(micros), Some(numbered(schema, &self.statement)?))
        } else if let Some((schema, keyed)) = target_of(name) {
            let place = schema.map_or(Some(Place::Temporary), |schema| numbered(schema, &self.statement))?;
            (if keyed { RowForm::Keyed } else { RowForm::Target }, Some(place))
        } else if name == PATH {
            (RowForm::Present, None)
        } else {
            (RowForm::Present, Some(place_of(name, &self.statement)?))
        };
        let (statement, rows, nesting) = (self.statement.clone(), self.rows.clone(), self.nesting.clone());
        Some(Arc::new(Schema { place, form, statement, rows, nesting }))
    }
}

impl Schema {
    /// The places where it looks names up, in order.
    fn places(&self) -> Vec<Place> {
        self.place.as_ref().map_or_else(|| self.statement.path.lookup().collect(), |place| vec![place.clone()])
    }

    /// The names of the tables and views of a schema of users.
    fn relations<'a>(&'a self, place: &'a Place) -> impl Iterator<Item = String> + 'a {
        let tables = self.statement.tables().map(|table| (table.id.0, &table.name));
        let all = tables.chain(pg_catalog::views::all(&self.statement).map(|view| (view.id, &view.name)));
        all.filter(|(oid, _)| self.statement.schema_of(*oid) == *place).map(|(_, name)| name.clone())
    }

    /// The table or view of a name in a schema of users.
    fn relation(&self, place: &Place, name: &str) -> Option<Relation<'_>> {
        let name = RelationName::within(place.clone(), name);
        lookup::find(&self.statement.snapshot, self.statement.tenant.as_ref(), &self.statement.path, &name)
            .map(|(_, found)| found)
    }

    /// Notes that the statement, or the view that it is planned for, reads a relation. What a write reads of its target
    /// is for the write to say (`dml::needs`), which has done so before.
    fn needs_read(&self, relation: u32) {
        let needs = &self.statement.needs;
        if matches!(self.form, RowForm::Target | RowForm::Keyed) && needs.has(relation) {
            return;
        }
        needs.add(&self.statement.snapshot, relation, Privileges::SELECT, self.nesting.reader());
    }

    fn has(&self, place: &Place, name: &str) -> bool {
        if place.is_of_users() {
            return self.relation(place, name).is_some() || self.sequence_named(place, name).is_some();
        }
        system_relations::names(place.name(), self.statement.operator).any(|known| known == name)
    }

    fn sequence_named(&self, place: &Place, name: &str) -> Option<&Arc<Sequence>> {
        let mut all = pg_catalog::objects::sequences(&self.statement);
        all.find(|one| one.name == name && self.statement.schema_of(one.id) == *place)
    }

    /// A sequence read as a table: one row, of its state now rather than at the statement's pin, as in PostgreSQL.
    async fn sequence(&self, place: &Place, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(sequence) = self.sequence_named(place, name) else { return Ok(None) };
        self.needs_read(sequence.id);
        pg_catalog::sequences::relation(sequence, &self.statement).await
    }

    async fn find(&self, place: &Place, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !place.is_of_users() {
            return pg_catalog::relation(place.name(), name, &self.statement);
        }
        let found = self.relation(place, name);
        if let Some(Relation::Table(table)) = found {
            self.needs_read(table.id.0);
            return self.rows.0(table, self.form).map(Some);
        }
        if self.form != RowForm::Present {
            return Ok(None);
        }
        let Some(Relation::View(view)) = found else { return self.sequence(place, name).await };
        self.needs_read(view.id);
        if let Some(table) = view.table() {
            return match view.is_populated() {
                true => self.rows.0(&Arc::new(table), self.form).map(Some),
                false => Ok(Some(Arc::new(views::Unpopulated::of(table)))),
            };
        }
        let opened = Box::pin(views::open(view, &self.statement, &self.rows, &self.nesting)).await;
        opened.map(Some).map_err(|error| DataFusionError::External(Box::new(error)))
    }
}

#[async_trait]
impl SchemaProvider for Schema {
    fn table_names(&self) -> Vec<String> {
        let names = |place: Place| -> Vec<String> {
            if place.is_of_users() {
                return self.relations(&place).collect();
            }
            system_relations::names(place.name(), self.statement.operator).map(str::to_owned).collect()
        };
        self.places().into_iter().flat_map(names).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        for place in self.places() {
            if let Some(found) = self.find(&place, name).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.places().into_iter().any(|place| self.has(&place, name))
    }
}
