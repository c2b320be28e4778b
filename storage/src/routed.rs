//! One store of several: tables that have a server are there, all others are here.
//!
//! A [`RoutedStore`] has the store *here*, with the catalog, and any number of *servers*. A [pin](Pin) is one of each.
//! A commit writes rows of one of them. One that writes rows of a server may rely on rows here as well, as writes of a
//! tenant rely on its row of the catalog: these are checked here, before the server is asked. In between, no commit
//! here may change them. So writes of servers hold a place, which commits to *watched* tables wait for and take alone;
//! the catalog's table is watched, tables with many writes are not. The price is that an edit of the catalog waits for
//! the writes of servers in progress, no longer than these may take.
//!
//! A table may have another name on its server: several tables here may show the same one there.
//!
//! A server that is down fails the requests about its tables, and no others: it is not asked for its tables, which only
//! [`Store::table`] shows.

mod down;
mod load;

pub use down::Down;

use crate::{
    CheckAndMutate, ClockInfo, Columnar, ColumnarRequest, ColumnarScan, Commit, Cuts, Error, FamilyChange, History,
    HistorySize, Inspection, KeyRange, Layouts, Load, LoadColumn, Pin, Promises, PurgeReport, ReadModifyWrite, Rest,
    Result, Row, RowKey, RowMutation, RowSample, RowSet, RowStream, Scan, SpanInfo, Store, TableName, TableSchema,
    Validation, Write, store::failed,
};
use async_trait::async_trait;
use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};

/// Servers of a store.
pub const SERVERS_MAX: usize = 100;
/// How long samples of a table of a server are taken for those of now.
const SAMPLES_AGE: Duration = Duration::from_secs(60);
/// How long a server may take to give them.
const SAMPLES_WAIT: Duration = Duration::from_secs(5);
/// Samples of a table that are kept: of more every second, every third.
const SAMPLES_MAX: usize = 1_000;
/// Tables whose samples are kept.
const SAMPLED_MAX: usize = 1_000;
/// The rows that a planner is told of in a table of a server.
const ROWS_GUESS: u64 = 1_000_000;

/// A store here, and tables of other stores.
#[derive(Debug)]
pub struct RoutedStore {
    here: Arc<dyn Store>,
    /// Tables here whose rows writes of servers rely on.
    watched: BTreeSet<TableName>,
    routes: RwLock<Routes>,
    /// What was sampled last of tables of servers, by the name here; nothing of one that failed.
    samples: Mutex<BTreeMap<TableName, Sampled>>,
    /// Held by writes of servers; taken alone by commits to watched tables.
    places: tokio::sync::RwLock<()>,
}

#[derive(Debug, Default)]
struct Routes {
    servers: BTreeMap<String, Arc<dyn Store>>,
    /// The server of a table and its name there, by the name here.
    tables: BTreeMap<TableName, (String, TableName)>,
}

/// When a table was sampled, and what came of it.
type Sampled = (Instant, Option<Arc<[RowSample]>>);

/// A table on a server.
#[derive(Clone, Debug)]
struct There {
    server: String,
    store: Arc<dyn Store>,
    /// The table's name on the server.
    table: TableName,
}

/// The state of a pin: one of the store here, and one of each server.
#[derive(Debug)]
struct Pins {
    here: Pin,
    servers: BTreeMap<String, Pin>,
}

impl RoutedStore {
    /// A store whose tables are all here, until some get a server.
    pub fn new(here: Arc<dyn Store>, watched: impl IntoIterator<Item = TableName>) -> Self {
        let watched = watched.into_iter().collect();
        let (routes, samples, places) = (RwLock::default(), Mutex::default(), tokio::sync::RwLock::default());
        Self { here, watched, routes, samples, places }
    }

    /// Adds a server, or replaces its store. Pins that exist do not know a new one.
    ///
    /// # Errors
    /// [`Error::TooMany`] servers.
    pub fn add_server(&self, name: &str, store: Arc<dyn Store>) -> Result<()> {
        let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        let count = routes.servers.len() + 1;
        if count > SERVERS_MAX && !routes.servers.contains_key(name) {
            return Err(Error::TooMany { what: "servers", count, limit: SERVERS_MAX });
        }
        routes.servers.insert(name.to_owned(), store);
        Ok(())
    }

    /// Removes a server. Its tables stay there, and are no longer known.
    pub fn remove_server(&self, name: &str) {
        let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        routes.servers.remove(name);
        routes.tables.retain(|_, (server, _)| server != name);
    }

    /// Says that a table is on a server, under a name of its own, whether it exists there or will be created.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a server that does not exist, and a watched table.
    pub fn route(&self, table: &TableName, server: &str, there: &TableName) -> Result<()> {
        if self.watched.contains(table) {
            return Err(Error::Invalid(format!("table {table:?} stays here")));
        }
        let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        if !routes.servers.contains_key(server) {
            return Err(Error::Invalid(format!("there is no server {server:?}")));
        }
        routes.tables.insert(table.clone(), (server.to_owned(), there.clone()));
        Ok(())
    }

    /// Forgets where a table is; the table stays.
    pub fn forget(&self, table: &TableName) {
        self.routes.write().unwrap_or_else(PoisonError::into_inner).tables.remove(table);
    }

    /// The store of a server.
    pub fn server(&self, name: &str) -> Option<Arc<dyn Store>> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner).servers.get(name).cloned()
    }

    /// The tables that are on servers.
    pub fn routed(&self) -> Vec<TableName> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner).tables.keys().cloned().collect()
    }

    /// Where a table is; `None` for a table here.
    fn there(&self, table: &TableName) -> Option<There> {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        let (server, table) = routes.tables.get(table)?;
        let store = routes.servers.get(server)?.clone();
        Some(There { server: server.clone(), store, table: table.clone() })
    }

    /// The store of a table, and the table's name there.
    fn store(&self, table: &TableName) -> (Arc<dyn Store>, TableName) {
        self.there(table).map_or_else(|| (self.here.clone(), table.clone()), |there| (there.store, there.table))
    }

    async fn pinned(&self, here: Pin) -> Pin {
        let servers: Vec<(String, Arc<dyn Store>)> = {
            let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
            routes.servers.iter().map(|(name, store)| (name.clone(), store.clone())).collect()
        };
        let mut pins = BTreeMap::new();
        for (name, store) in servers {
            // Without a pin, reads of this server's tables fail, and no others.
            match store.pin().await {
                Ok(pin) => drop(pins.insert(name, pin)),
                Err(error) => tracing::warn!(server = name, %error, "a server gives no pin"),
            }
        }
        let (commit_micros, now_micros) = (here.commit_micros, here.now_micros);
        Pin { commit_micros, now_micros, state: Arc::new(Pins { here, servers: pins }) }
    }

    /// The part of a pin for a store: that of a server, or the one here.
    fn part(pin: &Pin, server: Option<&str>) -> Result<Pin> {
        let foreign = || Error::Invalid("the pin is one of another store".into());
        let pins = pin.state.downcast_ref::<Pins>().ok_or_else(foreign)?;
        match server {
            None => Ok(pins.here.clone()),
            Some(name) => {
                let missing = || Error::Unreachable(format!("server {name:?} was not there when the state was pinned"));
                pins.servers.get(name).cloned().ok_or_else(missing)
            }
        }
    }

    fn scan_of(server: Option<&str>, scan: Scan) -> Result<Scan> {
        let pin = scan.pin.as_ref().map(|pin| Self::part(pin, server)).transpose()?;
        Ok(Scan { pin, ..scan })
    }

    /// The one server whose rows are written; `None` for rows here.
    fn target(&self, writes: &[Write]) -> Result<Option<(String, Arc<dyn Store>)>> {
        let mut targets = writes.iter().map(|write| self.there(table_of(write)));
        let Some(target) = targets.next() else { return Ok(None) };
        let name = target.as_ref().map(|there| there.server.clone());
        if targets.any(|other| other.map(|there| there.server) != name) {
            return Err(Error::Unsupported("rows of several servers cannot be written in one transaction".into()));
        }
        Ok(target.map(|there| (there.server, there.store)))
    }

    /// A validation, divided into the rows here and those of servers.
    fn divided(&self, validation: Option<Validation>) -> Option<(Validation, Validation)> {
        let Validation { pin, rows } = validation?;
        let (there, here): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(table, _)| self.there(table).is_some());
        Some((Validation { pin: pin.clone(), rows: here }, Validation { pin, rows: there }))
    }

    async fn commit_here(&self, writes: Vec<Write>, validation: Option<Validation>) -> Result<i64> {
        let validation = match self.divided(validation) {
            Some((_, there)) if !there.rows.is_empty() => {
                return Err(Error::Unsupported("a write here cannot rely on rows of a server".into()));
            }
            Some((here, _)) => Some(Validation { pin: Self::part(&here.pin, None)?, rows: here.rows }),
            None => None,
        };
        let commit = Commit { writes, validation };
        if commit.writes.iter().any(|write| self.watched.contains(table_of(write))) {
            let _alone = self.places.write().await;
            return self.here.commit(commit).await;
        }
        self.here.commit(commit).await
    }

    /// Writes rows of a server. The future has to run to its end: dropped within, it lets go of its place while the
    /// server may still write.
    async fn commit_there(
        &self,
        (name, store): (String, Arc<dyn Store>),
        mut writes: Vec<Write>,
        validation: Option<Validation>,
    ) -> Result<i64> {
        let _place = self.places.read().await;
        for write in &mut writes {
            let (Write::Row { table, .. } | Write::DeleteRange { table, .. }) = write;
            *table = self.table_on(&name, table)?;
        }
        let Some((here, mut there)) = self.divided(validation) else {
            return store.commit(Commit { writes, validation: None }).await;
        };
        for (table, _) in &mut there.rows {
            *table = self.table_on(&name, table)?;
        }
        if !here.rows.is_empty() {
            // What is watched cannot change until the place is free; a commit of nothing checks it.
            let pin = Self::part(&here.pin, None)?;
            let nothing = Commit { writes: Vec::new(), validation: Some(Validation { pin, rows: here.rows }) };
            self.here.commit(nothing).await?;
        }
        let validation = if there.rows.is_empty() {
            None
        } else {
            Some(Validation { pin: Self::part(&there.pin, Some(&name))?, rows: there.rows })
        };
        store.commit(Commit { writes, validation }).await
    }

    /// The name that a table has on this server.
    fn table_on(&self, server: &str, table: &TableName) -> Result<TableName> {
        let there = self.there(table).filter(|there| there.server == server);
        let elsewhere = || Error::Unsupported("a write cannot rely on rows of another server".into());
        there.map(|there| there.table).ok_or_else(elsewhere)
    }
}

fn table_of(write: &Write) -> &TableName {
    match write {
        Write::Row { table, .. } | Write::DeleteRange { table, .. } => table,
    }
}

#[async_trait]
impl Store for RoutedStore {
    async fn create_table(&self, table: &TableName, schema: TableSchema) -> Result<()> {
        let (store, table) = self.store(table);
        store.create_table(&table, schema).await
    }

    async fn drop_table(&self, table: &TableName) -> Result<()> {
        let (store, table) = self.store(table);
        store.drop_table(&table).await
    }

    /// The tables here.
    async fn tables(&self) -> Result<Vec<(TableName, TableSchema)>> {
        self.here.tables().await
    }

    async fn table(&self, table: &TableName) -> Result<TableSchema> {
        let (store, table) = self.store(table);
        store.table(&table).await
    }

    async fn modify_families(&self, table: &TableName, changes: Vec<FamilyChange>) -> Result<()> {
        let (store, table) = self.store(table);
        store.modify_families(&table, changes).await
    }

    async fn pin(&self) -> Result<Pin> {
        Ok(self.pinned(self.here.pin().await?).await)
    }

    async fn lasting_pin(&self) -> Result<Pin> {
        Ok(self.pinned(self.here.lasting_pin().await?).await)
    }

    fn scan(&self, table: &TableName, scan: Scan) -> RowStream {
        let there = self.there(table);
        match Self::scan_of(there.as_ref().map(|there| there.server.as_str()), scan) {
            Ok(scan) => match there {
                Some(there) => there.store.scan(&there.table, scan),
                None => self.here.scan(table, scan),
            },
            Err(error) => failed(error),
        }
    }

    async fn sample_row_keys(&self, table: &TableName) -> Result<Vec<RowSample>> {
        let (store, table) = self.store(table);
        store.sample_row_keys(&table).await
    }

    async fn recent_samples(&self, table: &TableName) -> Result<Vec<RowSample>> {
        let Some(there) = self.there(table) else { return self.here.recent_samples(table).await };
        if let Some(known) = self.known_samples(table) {
            return Ok(known?.to_vec());
        }
        let sampled = tokio::time::timeout(SAMPLES_WAIT, there.store.sample_row_keys(&there.table)).await;
        let sampled = sampled.unwrap_or_else(|_| Err(not_sampled()));
        let every = sampled.as_ref().map_or(1, |all| all.len().div_ceil(SAMPLES_MAX).max(1));
        let sampled = sampled.map(|all| all.into_iter().skip(every - 1).step_by(every).collect::<Vec<_>>());
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.retain(|_, (at, _)| at.elapsed() < SAMPLES_AGE);
        if samples.len() < SAMPLED_MAX {
            let kept = sampled.as_ref().ok().map(|all| Arc::from(all.as_slice()));
            samples.insert(table.clone(), (Instant::now(), kept));
        }
        sampled
    }

    async fn commit(&self, commit: Commit) -> Result<i64> {
        match self.target(&commit.writes)? {
            None => self.commit_here(commit.writes, commit.validation).await,
            Some(server) => self.commit_there(server, commit.writes, commit.validation).await,
        }
    }

    async fn mutate_rows(&self, table: &TableName, rows: Vec<RowMutation>) -> Result<Vec<Result<()>>> {
        self.refuse_watched(table)?;
        let (store, table) = self.store(table);
        store.mutate_rows(&table, rows).await
    }

    async fn load(&self, table: &TableName, columns: &[LoadColumn]) -> Result<Option<Box<dyn Load>>> {
        self.refuse_watched(table)?;
        // Rows of servers are written by commits.
        if self.there(table).is_some() {
            return Ok(None);
        }
        let load = self.here.load(table, columns).await?;
        let routed = self.routed().into_iter().collect();
        Ok(load.map(|load| Box::new(load::RoutedLoad::new(load, routed)) as Box<dyn Load>))
    }

    async fn check_and_mutate(&self, table: &TableName, request: CheckAndMutate) -> Result<bool> {
        self.refuse_watched(table)?;
        let (store, table) = self.store(table);
        store.check_and_mutate(&table, request).await
    }

    async fn read_modify_write(&self, table: &TableName, key: RowKey, rules: Vec<ReadModifyWrite>) -> Result<Row> {
        self.refuse_watched(table)?;
        let (store, table) = self.store(table);
        store.read_modify_write(&table, key, rules).await
    }

    async fn drop_row_range(&self, table: &TableName, prefix: Bytes) -> Result<()> {
        self.refuse_watched(table)?;
        let (store, table) = self.store(table);
        store.drop_row_range(&table, prefix).await
    }

    async fn purge(&self, ranges: &[(TableName, KeyRange)]) -> Result<PurgeReport> {
        self.refuse_purge(ranges.iter().map(|(table, _)| table))?;
        self.here.purge(ranges).await
    }

    async fn purge_cells(&self, tables: &[TableName]) -> Result<PurgeReport> {
        self.refuse_purge(tables)?;
        self.here.purge_cells(tables).await
    }

    async fn history_size(&self, table: &TableName, rows: &KeyRange, pin: Option<Pin>) -> Result<HistorySize> {
        let server = self.there(table).map(|there| there.server);
        let pin = pin.map(|pin| Self::part(&pin, server.as_deref())).transpose()?;
        let (store, table) = self.store(table);
        store.history_size(&table, rows, pin).await
    }

    fn clock(&self) -> Option<ClockInfo> {
        self.here.clock()
    }

    fn confirm_clock(&self) -> Option<ClockInfo> {
        self.here.confirm_clock()
    }

    fn span(&self, table: &TableName, rows: &KeyRange) -> Result<Option<SpanInfo>> {
        let (store, table) = self.store(table);
        store.span(&table, rows)
    }

    fn inspect(&self) -> Option<Inspection> {
        self.here.inspect()
    }

    fn history(&self, table: &TableName) -> Option<History> {
        let (store, table) = self.store(table);
        store.history(&table)
    }

    /// Those of the store here.
    fn promises(&self) -> Promises {
        self.here.promises()
    }

    fn promises_of(&self, table: &TableName) -> Promises {
        let (store, table) = self.store(table);
        store.promises_of(&table)
    }

    fn set_layouts(&self, layouts: Arc<dyn Layouts>) {
        self.here.set_layouts(layouts);
    }

    fn columnar(&self) -> Option<&dyn ColumnarScan> {
        self.here.columnar().map(|_| self as &dyn ColumnarScan)
    }

    async fn close(&self) -> Result<()> {
        let servers: Vec<Arc<dyn Store>> = {
            let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
            routes.servers.values().cloned().collect()
        };
        for server in servers {
            server.close().await?;
        }
        self.here.close().await
    }
}

impl RoutedStore {
    /// Writes of watched tables are commits: no other kind waits for places.
    fn refuse_watched(&self, table: &TableName) -> Result<()> {
        if self.watched.contains(table) {
            return Err(Error::Unsupported(format!("table {table:?} is written by commits only")));
        }
        Ok(())
    }

    /// The samples of a table of a server that are known and not old, or that there are none.
    fn known_samples(&self, table: &TableName) -> Option<Result<Arc<[RowSample]>>> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, kept) = samples.get(table)?;
        (at.elapsed() < SAMPLES_AGE).then(|| kept.clone().ok_or_else(not_sampled))
    }

    fn refuse_purge<'a>(&self, tables: impl IntoIterator<Item = &'a TableName>) -> Result<()> {
        match tables.into_iter().find_map(|table| self.there(table)) {
            None => Ok(()),
            Some(There { server, .. }) => Err(Error::Unsupported(format!(
                "server {server:?} does not say when the bytes of deleted rows are gone"
            ))),
        }
    }
}

fn not_sampled() -> Error {
    Error::Unavailable("the server gives no samples of its keys".into())
}

impl ColumnarScan for RoutedStore {
    /// Rows of a server come as rows.
    fn columnar(&self, table: &TableName, request: ColumnarRequest) -> Result<Columnar> {
        let Some(There { server, store, table }) = self.there(table) else {
            let columnar =
                self.here.columnar().ok_or_else(|| Error::Unsupported("there are no columns here".into()))?;
            let pin = request.pin.as_ref().map(|pin| Self::part(pin, None)).transpose()?;
            return columnar.columnar(table, ColumnarRequest { pin, ..request });
        };
        let pin = request.pin.as_ref().map(|pin| Self::part(pin, Some(&server))).transpose()?;
        let read = move |scan| store.scan(&table, Scan { pin: pin.clone(), ..scan });
        Ok(Columnar { parts: Vec::new(), memory: Vec::new(), rest: Rest::new(ROWS_GUESS, read) })
    }

    fn cuts(&self, table: &TableName, rows: &RowSet, pin: Option<&Pin>, parts: usize) -> Result<Cuts> {
        let Some(columnar) = self.here.columnar().filter(|_| self.there(table).is_none()) else {
            return Ok(Cuts::default());
        };
        let pin = pin.map(|pin| Self::part(pin, None)).transpose()?;
        columnar.cuts(table, rows, pin.as_ref(), parts)
    }

    fn runs_inline(&self, table: &TableName, request: &ColumnarRequest) -> bool {
        if self.there(table).is_some() {
            return true;
        }
        let pin = request.pin.as_ref().and_then(|pin| Self::part(pin, None).ok());
        let request = ColumnarRequest { pin, ..request.clone() };
        self.here.columnar().is_some_and(|columnar| columnar.runs_inline(table, &request))
    }

    fn few_rows(&self, table: &TableName, rows: &RowSet) -> Option<u64> {
        self.here.columnar().filter(|_| self.there(table).is_none())?.few_rows(table, rows)
    }
}

#[cfg(test)]
mod tests;
