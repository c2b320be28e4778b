//! What a statement sees: one snapshot of the catalog, one pin of the store, and the uncommitted writes of its own
//! transaction.
//!
//! All code that reads rows reads them through a [`View`]. Rows that the transaction has written are read as they will
//! be after its commit (module `overlay`).

pub mod budget;
mod overlay;
#[cfg(test)]
mod tests;

use crate::heat::counter::Counter;
use crate::lookup;
use crate::pg::{
    datetime::OwnedInput,
    error::{SqlError, SqlState},
    names::{RelationName, Schema, SearchPath},
};
use budget::ScanBudget;
use datafusion::execution::memory_pool::MemoryPool;
use futures::{StreamExt, TryStreamExt};
use imbl::OrdMap;
use keyspan_catalog::{Relation, Snapshot, Table, TableId, TenantStore};
use keyspan_storage::{Pin, RowKey, RowMutation, RowStream, Scan, ScanMetrics};
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, atomic::Ordering},
};

/// The buffered writes of a transaction: by table, by key (without the tenant's prefix), mutations in order. A
/// savepoint keeps a copy, which shares all entries that do not change later.
pub type Buffered = BTreeMap<keyspan_catalog::TableId, OrdMap<RowKey, RowMutation>>;

/// A statement's view of catalog and store.
#[derive(Clone, Debug)]
pub struct View {
    /// The tables, views and roles.
    pub snapshot: Arc<Snapshot>,
    /// The version of the store that is read.
    pub pin: Pin,
    /// The tenant's store, or the operator's: the only way to rows.
    pub rows: TenantStore,
    /// Uncommitted writes of the statement's own transaction.
    pub buffered: Arc<Buffered>,
    /// Whether predicates may become ranges of keys: the setting `keyspan.pushdown`.
    pub pushdown: bool,
    /// Whether scans of many rows may read row groups: the setting `keyspan.columnar`.
    pub columnar: bool,
    /// The timestamp, in microseconds, as of which rows are read (`AS OF`); `None` for the newest at the pin.
    pub as_of: Option<i64>,
    /// How much the statement may read; `None` without a bound.
    pub budget: Option<Arc<ScanBudget>>,
    /// The memory of queries; `None` where nothing is counted.
    pub memory: Option<Arc<dyn MemoryPool>>,
    /// Schemas in which names without a schema are looked up.
    pub path: Arc<SearchPath>,
    /// How texts are read as values of columns, by the session's settings.
    pub input: OwnedInput,
    /// The rows that a commit may rely on: a server remembers them.
    pub relied: Relied,
    /// Whether all statements of the transaction read one state, which servers do not keep.
    pub isolated: bool,
}

/// The rows that are read at a view and that a commit may rely on.
#[derive(Clone, Debug, Default)]
pub enum Relied {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Those of the table that the statement writes, once that is known; until then all.
    Target(Arc<OnceLock<TableId>>),
}

impl Relied {
    fn includes(&self, table: TableId) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Target(target) => target.get().is_none_or(|target| *target == table),
        }
    }

    /// Says which table the statement writes.
    pub(crate) fn set_target(&self, table: TableId) {
        if let Self::Target(target) = self {
            // A statement has one.
            let _ = target.set(table);
        }
    }
}

impl View {
    /// The same view as of a timestamp, in microseconds: without the transaction's own writes, and by rows, since row
    /// groups hold the newest values only.
    #[must_use]
    pub fn with_as_of(&self, as_of_micros: i64) -> Self {
        Self { as_of: Some(as_of_micros), buffered: Arc::default(), columnar: false, ..self.clone() }
    }

    /// The same view without a pin, so that it holds no resource of the store. Reading it is an error.
    pub(crate) fn released(&self) -> Self {
        let pin = Pin { state: Arc::new(()), ..self.pin.clone() };
        Self { pin, buffered: Arc::default(), ..self.clone() }
    }

    /// Looks up a table or view by name; returns its schema too.
    pub fn find(&self, name: &RelationName) -> Option<(Schema, Relation<'_>)> {
        lookup::find(&self.snapshot, self.rows.tenant(), &self.path, name)
    }

    /// Looks up the target of a write.
    ///
    /// # Errors
    /// 42P01 if there is no such relation; 0A000 for a view.
    pub fn writable(&self, name: &RelationName) -> Result<&Arc<Table>, SqlError> {
        let found = self.find(name).ok_or_else(|| name.missing("relation"))?.1;
        match found {
            Relation::Table(table) => match table.remote.as_ref().and_then(|remote| remote.found) {
                Some(found) if !found.writable => {
                    let message = format!("cannot change foreign table \"{name}\"");
                    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                        .with_detail("It was found on a server, and is only read.")
                        .with_hint("An operator makes it with OPTIONS (writable 'true')."))
                }
                _ => Ok(table),
            },
            Relation::View(view) if view.materialized.is_some() => {
                let message = format!("cannot change materialized view \"{name}\"");
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_hint("REFRESH MATERIALIZED VIEW fills it anew."))
            }
            Relation::View(_) => {
                let message = format!("cannot change what view \"{name}\" shows");
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                    .with_hint("Write to the tables that it reads."))
            }
        }
    }

    /// The same view, of which a commit may rely on every row that is read.
    #[must_use]
    pub(crate) fn relied(self) -> Self {
        Self { relied: Relied::All, ..self }
    }

    /// The same view, of which a commit may rely on the rows of the table that it writes.
    #[must_use]
    pub(crate) fn relied_of_target(self) -> Self {
        Self { relied: Relied::Target(Arc::default()), ..self }
    }

    /// Scans a table at the view's pin and timestamp, with the buffered writes applied.
    pub fn scan(&self, table: &Table, scan: Scan) -> RowStream {
        let scan =
            Scan { pin: Some(self.pin.clone()), as_of: self.as_of, relied: self.relied.includes(table.id), ..scan };
        if table.remote.is_some() && self.isolated {
            let message = format!("a state of table \"{}\" for a whole transaction: its server keeps none", table.name);
            return keyspan_storage::store::failed(keyspan_storage::Error::Unsupported(message));
        }
        // Whoever has metrics charges the budget.
        if scan.metrics.is_none()
            && let Some(budget) = &self.budget
        {
            let metrics = Arc::<ScanMetrics>::default();
            let counted = self.read(table, Scan { metrics: Some(Arc::clone(&metrics)), ..scan });
            let (budget, counter, mut before) = (Arc::clone(budget), self.counter(table), 0);
            let count = move |rows: &Vec<keyspan_storage::Row>| {
                let seen = metrics.bytes_seen.load(Ordering::Relaxed);
                let bytes = seen.saturating_sub(std::mem::replace(&mut before, seen));
                budget.count(rows.len() as u64, bytes);
                if let Some(counter) = &counter {
                    counter.read(rows, bytes);
                }
            };
            return counted.inspect_ok(count).boxed();
        }
        self.read(table, scan)
    }

    /// Whether a commit may rely on the rows of a table that are read.
    pub(crate) fn relies_on(&self, table: TableId) -> bool {
        self.relied.includes(table)
    }

    /// Where the keys of a table that are read are counted; `None` for nowhere.
    pub(crate) fn counter(&self, table: &Table) -> Option<Counter> {
        self.budget.as_ref()?.heat()?.counter(&self.rows, table, &self.snapshot)
    }

    fn read(&self, table: &Table, scan: Scan) -> RowStream {
        match self.buffered.get(&table.id) {
            Some(own) if !own.is_empty() => overlay::scan(self, table, scan),
            _ => self.rows.scan(table, scan),
        }
    }
}
