//! Copying a tenant: `CREATE DATABASE … TEMPLATE`, `… FROM BACKUP`, and the backup of one tenant.
//!
//! ```text
//! begin    one edit     the tenant is there, `creating`: invisible, and nobody writes for it
//! fill     edits        its relations, with new OIDs
//!          commits      its rows, in bounded commits: cells with their timestamps, every version
//! finish   one edit     the tenant is active
//! ```
//!
//! The rows come from a [`TenantSource`], one state of a store: this one, or another that is open beside it. The source
//! is neither locked nor written. Each commit validates the row of the new tenant in the catalog, so that a commit that
//! comes late writes nothing for a creation that was given up.
//!
//! A creation that fails is [given up](TenantCopy::abandon): the tenant is dropped, with a certificate, since its bytes
//! are in the store's files. [`Catalog::finish_drops`] does that for one that was cancelled or that a crash
//! interrupted.

use super::{Catalog, load, rows, tenants::ActiveTenant};
use crate::{
    Edit, Error, ErrorKind, Numbers, Private, Result, Snapshot, Table, Tenant, TenantId, TenantState,
    private::{private_table, space_span},
    tenant_copy::{Renumber, check_agreement, definitions, left_out, rights_of},
    tenant_store::span,
};
use bytes::Bytes;
use futures::TryStreamExt;
use keyspan_storage::{
    Cell, Commit, FamilyName, KeyRange, Mutation, Pin, Row, RowKey, RowMutation, Scan, Store, StoreExt, TableName,
    Validation, Write,
};
use std::{collections::BTreeSet, sync::Arc};

/// Bytes of keys and mutations after which rows are committed.
const COMMIT_BYTES_TARGET: usize = 2 << 20;
/// Mutations of a commit, at most. A row with more cells is written by several.
const COMMIT_MUTATIONS_MAX: usize = 20_000;
/// Attempts at a commit. It is refused when the store can no longer tell whether the validated row has changed.
const COMMIT_ATTEMPTS_MAX: usize = 64;

/// A tenant in one state of a store.
#[derive(Clone, Debug)]
pub struct TenantSource {
    store: Arc<dyn Store>,
    pin: Pin,
    snapshot: Arc<Snapshot>,
    tenant: TenantId,
    /// The time as of which rows are read, in microseconds; `None` for those of the pin.
    as_of: Option<i64>,
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Rows, among them those of sequences.
    pub rows: u64,
    /// Bytes of their keys and cells.
    pub bytes: u64,
}

/// A tenant that is being created as the copy of another.
#[derive(Debug)]
pub struct TenantCopy<'a> {
    catalog: &'a Catalog,
    source: TenantSource,
    tenant: Arc<Tenant>,
    _active: ActiveTenant<'a>,
}

/// Rows that are copied: from the span of one table to the span of another.
struct Part<'a> {
    from: (&'a TableName, Bytes),
    to: (&'a TableName, Bytes),
    /// Columns that are not copied.
    left_out: BTreeSet<(FamilyName, Bytes)>,
    /// Families whose cells are states of aggregates.
    aggregates: BTreeSet<FamilyName>,
    /// The shared table; `None` for a private relation.
    shared: Option<&'a Table>,
}

impl TenantSource {
    /// The newest state of a tenant, or as of a time in microseconds; `None` if the store has no such tenant. The state
    /// stays readable for as long as the source lives.
    ///
    /// # Errors
    /// The store's, [`Corrupt`](ErrorKind::Corrupt).
    pub async fn open(store: Arc<dyn Store>, tenant: &str, as_of: Option<i64>) -> Result<Option<Self>> {
        let pin = store.lasting_pin().await?;
        let snapshot = Arc::new(load(&store, &pin).await?.snapshot);
        let Some(found) = snapshot.tenant(tenant) else { return Ok(None) };
        let tenant = found.id.clone();
        Ok(Some(Self { store, pin, snapshot, tenant, as_of }))
    }

    /// The catalog of that state.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The tenant.
    pub fn tenant(&self) -> Option<&Arc<Tenant>> {
        self.snapshot.tenant(self.tenant.as_str())
    }

    fn own(&self) -> Arc<Private> {
        self.snapshot.private_of(Some(&self.tenant)).cloned().unwrap_or_default()
    }

    fn scan(&self, table: &TableName, span: Bytes) -> Scan {
        let as_of = self.as_of.filter(|_| *table != private_table());
        Scan { pin: Some(self.pin.clone()), as_of, ..Scan::of(KeyRange::prefix(span)) }
    }

    /// Fails for a time before now if a table has no history: its rows would be those of another time.
    fn check_history(&self) -> Result<()> {
        let tables = self.snapshot.tables_in(Some(&self.tenant));
        let Some(table) = tables.clone().find(|table| table.history_micros.is_none()).filter(|_| self.as_of.is_some())
        else {
            return Ok(());
        };
        let message = format!("relation \"{}\" keeps no history", table.name);
        Err(Error::new(ErrorKind::Unsupported, message)
            .with_detail("A copy as of a time needs the history of every table, also of those that are private.")
            .with_hint("An operator lets a table keep history with ALTER TABLE … SET (history = '7 days')."))
    }
}

impl Catalog {
    /// Begins a copy. `make` makes the new tenant of an OID; it is invisible until the copy is
    /// [finished](TenantCopy::finish).
    ///
    /// # Errors
    /// [`TenantExists`](ErrorKind::TenantExists); [`Unsupported`](ErrorKind::Unsupported) for the past of a table
    /// without history; the store's.
    pub async fn begin_copy(
        &self,
        source: TenantSource,
        id: &TenantId,
        make: impl Fn(u32) -> Tenant + Send + Sync,
    ) -> Result<TenantCopy<'_>> {
        source.check_history()?;
        let exists = || Error::new(ErrorKind::TenantExists, format!("database \"{id}\" already exists"));
        let _active = self.active_tenants.begin(id).ok_or_else(|| exists().with_detail("It is being changed."))?;
        let edit = |snapshot: &Snapshot| {
            let tenant = make(snapshot.next_oid);
            Ok(Edit::CreateTenant(Tenant { id: id.clone(), state: TenantState::Creating, ..tenant }))
        };
        let snapshot = self.commit(edit).await?;
        let tenant = snapshot.tenants.get(id).cloned().ok_or_else(exists)?;
        Ok(TenantCopy { catalog: self, source, tenant, _active })
    }
}

impl TenantCopy<'_> {
    /// Copies relations and rows. Can be given up at any point; then the tenant stays invisible.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a table that differs in the source, [`NoTable`](ErrorKind::NoTable) for one
    /// that is missing here; [`Conflict`](ErrorKind::Conflict) when a relation was changed meanwhile; errors of reading
    /// the past; the store's.
    pub async fn fill(&self, renumber: Renumber) -> Result<Copied> {
        let shared = self.shared_tables().await?;
        let own = self.source.own();
        let numbers = self.define(&own, &shared, renumber).await?;
        let mut copied = Copied::default();
        for (source, target) in &shared {
            let part = self.shared_part(source, target);
            self.copy_rows(&part, &mut copied).await?;
        }
        let private = private_table();
        let spaces = own.with_rows().filter_map(|table| Some((table.space?, table.id.0)));
        for (space, id) in spaces.chain(own.sequences.keys().map(|id| (*id, *id))) {
            let from = space_span(&self.source.tenant, space);
            let to = space_span(&self.tenant.id, numbers.relation(id)?);
            let (left_out, aggregates) = (BTreeSet::new(), BTreeSet::new());
            let part = Part { from: (&private, from), to: (&private, to), left_out, aggregates, shared: None };
            self.copy_rows(&part, &mut copied).await?;
        }
        Ok(copied)
    }

    /// Makes the tenant usable, with everything that was copied.
    ///
    /// # Errors
    /// The store's.
    pub async fn finish(self) -> Result<Arc<Tenant>> {
        let (id, oid) = (&self.tenant.id, self.tenant.oid);
        let snapshot = self.catalog.commit(|_| Ok(Edit::FinishCreateTenant(id.clone(), oid))).await?;
        Ok(snapshot.tenant(id.as_str()).unwrap_or(&self.tenant).clone())
    }

    /// Gives the creation up: drops the tenant and what was copied.
    ///
    /// # Errors
    /// The store's; then [`Catalog::finish_drops`] does the rest.
    pub async fn abandon(self, dropped_by: &str, now_micros: i64) -> Result<()> {
        let (id, oid) = (&self.tenant.id, self.tenant.oid);
        self.catalog.commit(|_| Ok(Edit::AbandonTenant(id.clone(), oid))).await?;
        self.catalog.finish_drop(&self.tenant, dropped_by, now_micros).await.map(drop)
    }

    fn is_same_store(&self) -> bool {
        Arc::ptr_eq(&self.source.store, &self.catalog.store)
    }

    /// The shared tables of the source that matter to the tenant, each with the table here that takes its rows.
    async fn shared_tables(&self) -> Result<Vec<(Arc<Table>, Arc<Table>)>> {
        let (here, mut tables) = (self.catalog.snapshot(), Vec::new());
        if self.is_same_store() {
            // A table that was dropped meanwhile has no rows to take.
            let both = |(id, table): (_, &Arc<Table>)| Some((table.clone(), here.tables.get(id)?.clone()));
            // What was found on a server is not ours to copy.
            let own = self.source.snapshot.tables.iter().filter(|(_, table)| !table.is_found());
            return Ok(own.filter_map(both).collect());
        }
        let own = self.source.own();
        for source in self.source.snapshot.tables.values() {
            let is_read = own.views.values().any(|view| view.uses.contains_key(&source.id.0));
            if source.remote.is_some() && !is_read {
                // Its rows are on a server: no part of the backup.
                continue;
            }
            if source.remote.is_some() {
                let message = format!("a view of relation \"{}\", which the backup does not have", source.name);
                return Err(Error::new(ErrorKind::Unsupported, message).with_detail("Its rows are on a server."));
            }
            if !is_read && !self.has_rows(source).await? {
                continue;
            }
            let target = here.table(&source.name).cloned().ok_or_else(|| {
                Error::new(ErrorKind::NoTable, format!("relation \"{}\" does not exist", source.name))
                    .with_detail("It is a shared table of the backup, and the database has rows in it or reads it.")
                    .with_hint("Create it first, as it is in the backup.")
            })?;
            check_agreement(source, &target)?;
            tables.push((source.clone(), target));
        }
        Ok(tables)
    }

    async fn has_rows(&self, table: &Table) -> Result<bool> {
        let scan = Scan { rows_max: Some(1), ..self.source.scan(&table.physical, span(&self.source.tenant)) };
        Ok(self.source.store.scan(&table.physical, scan).try_next().await?.is_some())
    }

    /// Defines the private relations; returns the numbers of all.
    async fn define(&self, own: &Private, shared: &[(Arc<Table>, Arc<Table>)], renumber: Renumber) -> Result<Numbers> {
        let (id, oid) = (&self.tenant.id, self.tenant.oid);
        let count = own.tables.len() + own.sequences.len() + own.views.len() + own.protos.len() + own.schemas.len();
        let count = count + own.enum_types.len() + own.domains.len();
        let count = u32::try_from(count).expect("the relations of a tenant have a limit");
        let first = if count == 0 { 0 } else { self.catalog.reserve(id, oid, count).await? };
        let mut numbers = Numbers::of_private(own, first);
        shared.iter().for_each(|(source, target)| numbers.add_shared(source, target));
        for edits in definitions(own, &numbers, renumber)? {
            self.catalog.commit(|_| Ok(Edit::ChangePrivate(id.clone(), oid, edits.clone()))).await?;
        }
        // The roles of another store are others.
        if self.is_same_store() {
            let rights = vec![rights_of(own, &numbers)];
            self.catalog.commit(|_| Ok(Edit::ChangePrivate(id.clone(), oid, rights.clone()))).await?;
        }
        Ok(numbers)
    }

    fn shared_part<'a>(&self, source: &'a Table, target: &'a Table) -> Part<'a> {
        let aggregates = target.families.iter().filter(|family| family.aggregate.is_some());
        Part {
            from: (&source.physical, span(&self.source.tenant)),
            to: (&target.physical, span(&self.tenant.id)),
            left_out: left_out(source, target),
            aggregates: aggregates.map(|family| family.name.clone()).collect(),
            shared: Some(target),
        }
    }

    async fn copy_rows(&self, part: &Part<'_>, copied: &mut Copied) -> Result<()> {
        let (table, span) = &part.from;
        let mut batches = self.source.store.scan(table, self.source.scan(table, span.clone()));
        let mut batch = Batch::default();
        while let Some(found) = batches.try_next().await? {
            for row in found {
                copied.rows += 1;
                copied.bytes += row.size() as u64;
                let (key, mutations) = part.row(row)?;
                for mutations in mutations.chunks(COMMIT_MUTATIONS_MAX) {
                    batch.add(part.to.0, &key, mutations);
                    if batch.is_full() && !self.commit(part, &mut batch).await? {
                        return Ok(());
                    }
                }
            }
        }
        self.commit(part, &mut batch).await.map(drop)
    }

    /// Commits the rows; `false` if their table was dropped.
    async fn commit(&self, part: &Part<'_>, batch: &mut Batch) -> Result<bool> {
        let writes = std::mem::take(batch).writes;
        if writes.is_empty() {
            return Ok(true);
        }
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let pin = self.catalog.store.pin().await?;
            let rows = vec![self.creating_row(&pin).await?];
            let commit = Commit { writes: writes.clone(), validation: Some(Validation { pin, rows }) };
            match self.catalog.store.commit(commit).await {
                Err(error) if error.kind() == keyspan_storage::ErrorKind::Conflict => {}
                Err(error) if error.kind() == keyspan_storage::ErrorKind::NotFound => {
                    return self.is_kept(part).await;
                }
                committed => return Ok(committed.map(|_| true)?),
            }
        }
        Err(Error::new(ErrorKind::Conflict, "rows could not be copied, since others write too much at the same time"))
    }

    /// What it means that a table or a family is not found: `false` if the table was dropped.
    async fn is_kept(&self, part: &Part<'_>) -> Result<bool> {
        let Some(table) = part.shared else {
            return Err(Error::new(ErrorKind::Corrupt, "the store has no table of private tables"));
        };
        if !self.catalog.refresh().await?.tables.contains_key(&table.id) {
            return Ok(false);
        }
        let message = format!("relation \"{}\" was changed by another at the same moment", table.name);
        Err(Error::new(ErrorKind::Conflict, message).with_hint("Try again."))
    }

    /// The tenant's row in the catalog, to be validated; an error unless the tenant is still being created.
    async fn creating_row(&self, pin: &Pin) -> Result<(TableName, RowKey)> {
        let (table, key) = (rows::catalog_table(), rows::tenant_key(&self.tenant.id));
        let row = self.catalog.store.read_row(&table, &key, Some(pin.clone())).await?;
        let tenant = row.as_ref().map(rows::decode::<Tenant>).transpose()?;
        let is_creating = |tenant: &Tenant| tenant.oid == self.tenant.oid && tenant.state == TenantState::Creating;
        if !tenant.as_ref().is_some_and(is_creating) {
            let message = format!("the creation of database \"{}\" was given up", self.tenant.id);
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        Ok((table, key))
    }
}

impl Part<'_> {
    /// The key of a row in the copy, and its cells.
    fn row(&self, row: Row) -> Result<(RowKey, Vec<Mutation>)> {
        let rest = row.key.bytes().slice(self.from.1.len()..);
        let key = RowKey::new([&self.to.1[..], &rest[..]].concat())?;
        let is_copied = |cell: &Cell| {
            self.left_out.is_empty() || !self.left_out.contains(&(cell.family.clone(), cell.qualifier.clone()))
        };
        let cells = row.cells.into_iter().filter(is_copied);
        let mutation = |cell: Cell| {
            let Cell { family, qualifier, timestamp, value } = cell;
            let timestamp = Some(timestamp);
            match self.aggregates.contains(&family) {
                true => Mutation::MergeToCell { family, qualifier, timestamp, state: value },
                false => Mutation::SetCell { family, qualifier, timestamp, value },
            }
        };
        Ok((key, cells.map(mutation).collect()))
    }
}

/// Rows of one commit.
#[derive(Default)]
struct Batch {
    writes: Vec<Write>,
    bytes: usize,
    mutations: usize,
}

impl Batch {
    fn add(&mut self, table: &TableName, key: &RowKey, mutations: &[Mutation]) {
        self.bytes += key.len() + mutations.iter().map(Mutation::size).sum::<usize>();
        self.mutations += mutations.len();
        let row = RowMutation { key: key.clone(), mutations: mutations.to_vec() };
        self.writes.push(Write::Row { table: table.clone(), row });
    }

    /// Whether another row might be too much.
    fn is_full(&self) -> bool {
        self.bytes >= COMMIT_BYTES_TARGET || self.mutations >= COMMIT_MUTATIONS_MAX
    }
}
