//! What a statement sees: one snapshot of the catalog, one pin of the store, and the writes of its own transaction.
//!
//! Everything that reads rows reads them through a [`View`]. Rows that the transaction wrote itself are read as they will be after
//! its commit (module `overlay`).

pub mod budget;
mod overlay;
#[cfg(test)]
mod tests;

use crate::lookup;
use crate::pg::{
    error::{SqlError, SqlState},
    names::{RelationName, Schema, SearchPath},
};
use budget::ScanBudget;
use imbl::OrdMap;
use keyspan_catalog::{Relation, Snapshot, Table, TenantStore};
use keyspan_storage::{Pin, RowKey, RowMutation, RowStream, Scan};
use std::{collections::BTreeMap, sync::Arc};

/// The buffered writes of a transaction: by table, by key (without the span), mutations in order.
/// What a savepoint remembers of them is a copy, which shares all that does not change later.
pub type Buffered = BTreeMap<keyspan_catalog::TableId, OrdMap<RowKey, RowMutation>>;

/// What a statement sees.
#[derive(Clone, Debug)]
pub struct View {
    /// The catalog.
    pub snapshot: Arc<Snapshot>,
    /// The state of the store.
    pub pin: Pin,
    /// The door to rows.
    pub rows: TenantStore,
    /// Writes of the own transaction that are not committed.
    pub buffered: Arc<Buffered>,
    /// Whether predicates may become ranges of keys: the setting `keyspan.pushdown`.
    pub pushdown: bool,
    /// Whether scans of many rows may read row groups: the setting `keyspan.columnar`.
    pub columnar: bool,
    /// The moment, in microseconds, as of which rows are read; `None` for as they are.
    pub as_of: Option<i64>,
    /// What the statement may read; `None` for all there is.
    pub budget: Option<Arc<ScanBudget>>,
    /// Where names without a schema are looked up.
    pub path: Arc<SearchPath>,
}

impl View {
    /// The rows as they were at a moment, in microseconds: without the transaction's own writes. No row groups hold them.
    #[must_use]
    pub fn past(&self, as_of_micros: i64) -> Self {
        Self { as_of: Some(as_of_micros), buffered: Arc::default(), columnar: false, ..self.clone() }
    }

    /// The same without rows: nothing of the store is held for it, and to read it is an error.
    pub(crate) fn released(&self) -> Self {
        let pin = Pin { state: Arc::new(()), ..self.pin.clone() };
        Self { pin, buffered: Arc::default(), ..self.clone() }
    }

    /// The table or view of a name, and its schema.
    pub fn find(&self, name: &RelationName) -> Option<(Schema, Relation<'_>)> {
        lookup::find(&self.snapshot, self.rows.tenant(), &self.path, name)
    }

    /// Whether the tenant has made a relation of this name.
    pub fn has_relation(&self, name: &str) -> bool {
        self.snapshot.private_of(self.rows.tenant()).is_some_and(|own| own.has(name))
    }

    /// The table of this name, to be written.
    ///
    /// # Errors
    /// 42P01; 0A000 for a view.
    pub fn writable(&self, name: &RelationName) -> Result<&Arc<Table>, SqlError> {
        let found = self.find(name).ok_or_else(|| name.missing("relation"))?.1;
        match found {
            Relation::Table(table) => Ok(table),
            Relation::View(_) => {
                let message = format!("cannot change what view \"{name}\" shows");
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                    .with_hint("Write to the tables that it reads."))
            }
        }
    }

    /// Reads rows as they would be after the buffered writes, or as they were. Sets the pin.
    pub fn scan(&self, table: &Table, scan: Scan) -> RowStream {
        let scan = Scan { pin: Some(self.pin.clone()), as_of: self.as_of, ..scan };
        match self.buffered.get(&table.id) {
            Some(own) if !own.is_empty() => overlay::scan(self, table, scan),
            _ => self.rows.scan(table, scan),
        }
    }
}
