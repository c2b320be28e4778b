//! The catalog in the store: loading, committing edits, and the newest snapshot. What an edit changes is decided
//! elsewhere, by [`Snapshot::apply`]; this room does the IO.
//!
//! An edit is derived from the newest snapshot, applied to it, and written as one commit of the store: the rows of the
//! changed objects, and the version row, which is validated. When another edit was committed first, the store refuses
//! the commit, and the edit is derived again.
//!
//! Creating or dropping a table of the store is not part of that commit. So that a crash leaves nothing half visible, a
//! table is created before the edit that shows it, and dropped after the edit that hides it. While the store and the
//! catalog disagree, the catalog has a `pending` row, and [`Catalog::open`] finishes what is pending. Families are
//! created before the edit; GC rules are changed and families dropped after it, since cells that a rule condemns do not
//! return. `open` repairs those too. A store that is read-only for now (a full disk, a damaged segment) opens all the
//! same: an interrupted edit was never acknowledged and is invisible; it is finished before the next edit, or by
//! [`Catalog::finish_interrupted`].

mod commit_with_rows;
mod copy;
mod erasures;
mod private;
mod purges;
pub(crate) mod rows;
mod servers;
mod tenants;
#[cfg(test)]
mod tests;

pub use commit_with_rows::Editing;
pub use copy::{Copied, TenantCopy, TenantSource};
pub use tenants::TenantSize;

use crate::{
    Edit, Error, ErrorKind, Exports, Result, Snapshot, Table, Tenant,
    layouts::NewestLayouts,
    private::{private_schema, private_table},
};
use arc_swap::ArcSwap;
use futures::TryStreamExt;
use keyspan_storage::{Commit, FamilyChange, Pin, Scan, Store, StoreExt, TableName, TableSchema, Validation, Write};
use rows::{Loaded, Version};
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Mutex;

/// The name of the catalog's table in the store.
pub const CATALOG_TABLE: &str = "catalog";
/// Attempts to commit an edit when other edits are committed first.
pub const COMMIT_ATTEMPTS_MAX: usize = 16;

/// The catalog of a store.
#[derive(Debug)]
pub struct Catalog {
    store: Arc<dyn Store>,
    newest: Arc<ArcSwap<Snapshot>>,
    /// Held during an edit: edits of one process wait for each other rather than conflict.
    editing: Mutex<()>,
    /// Tenants that a statement of this process is dropping or creating.
    active_tenants: tenants::ActiveTenants,
    /// Whether an interrupted edit may be unfinished.
    interrupted: AtomicBool,
    count_exports: OnceLock<CountExports>,
    /// Where tables may be besides the store; `None` for a store of its own.
    servers: Option<servers::Servers>,
    /// Whether something on a server may be unfinished.
    remote_pending: AtomicBool,
}

/// Counts the files of exports of a tenant.
struct CountExports(Box<dyn Fn(&Tenant) -> Exports + Send + Sync>);

impl fmt::Debug for CountExports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CountExports")
    }
}

impl Catalog {
    /// Loads the catalog; creates its table in an empty store, and finishes interrupted edits if the store accepts
    /// writes.
    ///
    /// # Errors
    /// The store's, and [`Corrupt`](crate::ErrorKind::Corrupt).
    pub async fn open(store: Arc<dyn Store>) -> Result<Self> {
        Self::open_over(store, None).await
    }

    async fn open_over(store: Arc<dyn Store>, servers: Option<servers::Servers>) -> Result<Self> {
        let tables = store.tables().await?;
        // A read-only store already has the table.
        if !tables.iter().any(|(name, _)| *name == rows::catalog_table()) {
            match store.create_table(&rows::catalog_table(), rows::catalog_schema()).await {
                Err(error) if error.kind() != keyspan_storage::ErrorKind::AlreadyExists => return Err(error.into()),
                Ok(()) | Err(_) => {}
            }
        }
        let loaded = load(&store, &store.pin().await?).await?;
        let newest = Arc::new(ArcSwap::from_pointee(loaded.snapshot));
        store.set_layouts(Arc::new(NewestLayouts(Arc::clone(&newest))));
        let (editing, active_tenants, interrupted) =
            (Mutex::new(()), tenants::ActiveTenants::default(), AtomicBool::new(true));
        let count_exports = OnceLock::new();
        let remote_pending = AtomicBool::new(!loaded.pending_remote.is_empty());
        let catalog =
            Self { store, newest, editing, active_tenants, interrupted, count_exports, servers, remote_pending };
        catalog.follow(&catalog.snapshot())?;
        match catalog.finish(&loaded.pending).await {
            Err(error) if takes_no_writes(&error) => {
                tracing::warn!(%error, "a change of the catalog that was interrupted could not be finished yet");
            }
            finished => finished?,
        }
        Ok(catalog)
    }

    /// Finishes interrupted edits, if [`open`](Self::open) could not.
    ///
    /// # Errors
    /// The store's; the call can be repeated.
    pub async fn finish_interrupted(&self) -> Result<()> {
        if !self.interrupted.load(Ordering::SeqCst) {
            return Ok(());
        }
        let _editing = self.editing.lock().await;
        self.finish_before_edit().await
    }

    /// [`finish_interrupted`](Self::finish_interrupted) for a caller that holds the lock `editing`.
    async fn finish_before_edit(&self) -> Result<()> {
        if !self.interrupted.load(Ordering::SeqCst) {
            return Ok(());
        }
        let loaded = load(&self.store, &self.store.pin().await?).await?;
        self.finish(&loaded.pending).await
    }

    async fn finish(&self, pending: &[TableName]) -> Result<()> {
        self.finish_pending(pending).await?;
        self.mend_families().await?;
        self.erase_spare().await?;
        self.interrupted.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Sets how files of exports are counted, which lie outside of the store; once.
    pub fn set_exports(&self, count: impl Fn(&Tenant) -> Exports + Send + Sync + 'static) {
        // A second one would count the same.
        let _ = self.count_exports.set(CountExports(Box::new(count)));
    }

    fn exports(&self, tenant: &Tenant) -> Exports {
        self.count_exports.get().map(|count| (count.0)(tenant)).unwrap_or_default()
    }

    /// The store beneath.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.newest.load_full()
    }

    /// Returns the newest snapshot, after checking whether another gateway has changed the catalog.
    ///
    /// # Errors
    /// The store's, and [`Corrupt`](crate::ErrorKind::Corrupt).
    pub async fn refresh(&self) -> Result<Arc<Snapshot>> {
        let _editing = self.editing.lock().await;
        self.refresh_at(&self.store.pin().await?).await
    }

    /// Derives an edit from the newest snapshot and commits it; retries when another edit is committed first, at most
    /// [`COMMIT_ATTEMPTS_MAX`] attempts. Tables of the store are created, changed and dropped with it: a crash in
    /// between leaves nothing half visible.
    ///
    /// # Errors
    /// Those of `edit` and of [`Snapshot::apply`], [`Conflict`](crate::ErrorKind::Conflict) after the last attempt, and
    /// the store's. After an error of the store the edit may be committed.
    pub async fn commit(&self, edit: impl Fn(&Snapshot) -> Result<Edit> + Send + Sync) -> Result<Arc<Snapshot>> {
        let _editing = self.editing.lock().await;
        self.finish_before_edit().await?;
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let pin = self.store.pin().await?;
            let before = self.refresh_at(&pin).await?;
            let edit = edit(&before)?;
            let after = before.apply(&edit)?;
            if let Edit::DropServer(id) = &edit {
                self.check_nothing_pending(*id).await?;
            }
            match self.commit_at(&pin, &edit, &before, after).await {
                Err(error) if error.kind() == ErrorKind::Conflict => tracing::debug!("another edit came first"),
                Ok(after) => return Ok(self.erase_freed(&edit, &before, after).await),
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Conflict, "the catalog is being changed by others").with_hint("Try again."))
    }

    async fn commit_at(&self, pin: &Pin, edit: &Edit, before: &Snapshot, after: Snapshot) -> Result<Arc<Snapshot>> {
        let result = self.commit_routed(pin, edit, before, after).await;
        // What failed leaves no route.
        self.follow(&self.snapshot())?;
        result
    }

    async fn commit_routed(&self, pin: &Pin, edit: &Edit, before: &Snapshot, after: Snapshot) -> Result<Arc<Snapshot>> {
        self.before_edit(edit, &after)?;
        let mut writes = rows::difference(before, &after);
        match edit {
            Edit::CreateTable(table) if table.is_found() => self.mark_found(table).await?,
            Edit::CreateTable(table) => {
                self.make_table(table).await?;
                writes.push(rows::delete(rows::pending_key(&table.physical)));
            }
            Edit::AlterTable(table) => self.make_families(before.tables.get(&table.id), table).await?,
            Edit::EraseFromTable(change) => {
                self.make_families(before.tables.get(&change.0.id), &change.0).await?;
            }
            Edit::ChangePrivate(..) => self.make_private_table().await?,
            Edit::DropTable(id) => {
                let own = before.tables.get(id).filter(|table| !table.is_found());
                writes.extend(own.map(|table| rows::pending(table)));
            }
            _ => {}
        }
        let validation =
            Some(Validation { pin: pin.clone(), rows: vec![(rows::catalog_table(), rows::version_key())] });
        match self.store.commit(Commit { writes, validation }).await {
            Err(error) if error.kind() == keyspan_storage::ErrorKind::Conflict => {
                if let Edit::CreateTable(table) = edit
                    && !table.is_found()
                {
                    self.drop_pending(&table.physical).await?;
                }
                return Err(error.into());
            }
            committed => committed?,
        };
        let after = Arc::new(after);
        self.newest.store(after.clone());
        match edit {
            Edit::AlterTable(table) => self.match_families(table).await?,
            Edit::EraseFromTable(change) => self.match_families(&change.0).await?,
            Edit::StepErasures(..) => {
                let is_old = |id, table| before.tables.get(id).is_some_and(|old| Arc::ptr_eq(old, table));
                for table in after.tables.iter().filter(|(id, table)| !is_old(id, table)).map(|(_, table)| table) {
                    self.match_families(table).await?;
                }
            }
            Edit::DropTable(id) => {
                let table = before.tables.get(id);
                // No other edit is to wait for a server.
                let is_remote = table.is_some_and(|table| table.remote.is_some());
                self.remote_pending.fetch_or(is_remote, Ordering::SeqCst);
                if let Some(table) = table.filter(|table| table.remote.is_none())
                    && let Err(error) = self.drop_pending(&table.physical).await
                {
                    // The table is already invisible; the next start drops it.
                    tracing::warn!(table = %table.physical, %error, "a dropped table is still in the store");
                }
            }
            _ => {}
        }
        Ok(after)
    }

    /// The snapshot at the pin: the one in memory, if its version is still the stored one.
    async fn refresh_at(&self, pin: &Pin) -> Result<Arc<Snapshot>> {
        let row = self.store.read_row(&rows::catalog_table(), &rows::version_key(), Some(pin.clone())).await?;
        let newest = self.snapshot();
        if Version::read(row.as_ref())? == Version::of(&newest) {
            return Ok(newest);
        }
        let loaded = Arc::new(load(&self.store, pin).await?.snapshot);
        self.newest.store(loaded.clone());
        self.follow(&loaded)?;
        Ok(loaded)
    }

    /// Creates a table of the store that no snapshot shows yet. A pending table of this name is left over from an edit
    /// that failed and is dropped first.
    async fn make_table(&self, table: &Table) -> Result<()> {
        let key = rows::pending_key(&table.physical);
        let leftover = self.store.read_row(&rows::catalog_table(), &key, None).await?.is_some();
        if leftover {
            self.drop_pending(&table.physical).await?;
        }
        self.write(rows::pending(table)).await?;
        match self.store.create_table(&table.physical, table.storage_schema()).await {
            Ok(()) => Ok(()),
            Err(error) => {
                // A table that existed before must not be dropped at the next start.
                self.write(rows::delete(rows::pending_key(&table.physical))).await?;
                Err(error.into())
            }
        }
    }

    async fn drop_pending(&self, physical: &TableName) -> Result<()> {
        match self.store.drop_table(physical).await {
            Err(error) if error.kind() != keyspan_storage::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        self.write(rows::delete(rows::pending_key(physical))).await
    }

    async fn finish_pending(&self, pending: &[TableName]) -> Result<()> {
        let snapshot = self.snapshot();
        for physical in pending {
            if snapshot.tables.values().any(|table| table.physical == *physical) {
                self.write(rows::delete(rows::pending_key(physical))).await?;
            } else {
                tracing::info!(table = %physical, "dropping a table that an interrupted statement left");
                self.drop_pending(physical).await?;
            }
        }
        Ok(())
    }

    /// Creates the families that the changed table adds, and switches history on. A new family that the store already
    /// has is left over from an edit that failed, and is dropped first.
    async fn make_families(&self, old: Option<&Arc<Table>>, table: &Table) -> Result<()> {
        if table.is_found() {
            return Ok(());
        }
        let old = old.map(|old| old.storage_schema()).unwrap_or_default();
        let stored = self.store.table(&table.physical).await?;
        let mut changes = Vec::new();
        for (name, family) in table.storage_schema().families {
            if !old.families.contains_key(&name) {
                if stored.families.contains_key(&name) {
                    changes.push(FamilyChange::Drop(name.clone()));
                }
                changes.push(FamilyChange::Create(name, family));
            }
        }
        if stored.history.is_none() && table.history_micros.is_some() {
            changes.push(FamilyChange::SetHistory(table.history_micros));
        }
        self.change_families(&table.physical, changes).await
    }

    /// Makes the stored families match the table: sets GC rules, drops families that the table does not have, creates
    /// missing ones, and sets how long history is kept.
    async fn match_families(&self, table: &Table) -> Result<()> {
        if table.is_found() {
            return Ok(());
        }
        let stored = self.store.table(&table.physical).await?;
        self.change_families(&table.physical, changes(&stored, &table.storage_schema())).await
    }

    async fn change_families(&self, physical: &TableName, changes: Vec<FamilyChange>) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        Ok(self.store.modify_families(physical, changes).await?)
    }

    async fn mend_families(&self) -> Result<()> {
        let stored = self.store.tables().await?;
        // Those of servers are mended by the next ALTER TABLE: no server is asked here.
        for table in self.snapshot().tables.values().filter(|table| table.remote.is_none()) {
            let Some((_, schema)) = stored.iter().find(|(name, _)| *name == table.physical) else {
                let message = format!("the store has no table \"{}\" for table \"{}\"", table.physical, table.name);
                return Err(Error::new(ErrorKind::Corrupt, message));
            };
            self.change_families(&table.physical, changes(schema, &table.storage_schema())).await?;
        }
        if let Some((name, schema)) = stored.iter().find(|(name, _)| *name == private_table()) {
            self.change_families(name, changes(schema, &private_schema())).await?;
        }
        Ok(())
    }

    async fn write(&self, write: Write) -> Result<()> {
        self.store.commit(Commit { writes: vec![write], validation: None }).await?;
        Ok(())
    }
}

/// Whether the error says that the store is read-only for now.
fn takes_no_writes(error: &Error) -> bool {
    use keyspan_storage::ErrorKind::{NoSpace, Unavailable};
    error.store().is_some_and(|error| matches!(error.kind(), NoSpace | Unavailable))
}

/// The changes that turn the stored families and history into the wanted ones.
fn changes(stored: &TableSchema, wanted: &TableSchema) -> Vec<FamilyChange> {
    let mut changes = Vec::new();
    for name in stored.families.keys().filter(|name| !wanted.families.contains_key(*name)) {
        changes.push(FamilyChange::Drop(name.clone()));
    }
    for (name, family) in &wanted.families {
        match stored.families.get(name) {
            None => changes.push(FamilyChange::Create(name.clone(), family.clone())),
            Some(found) if found.gc != family.gc => changes.push(FamilyChange::SetGc(name.clone(), family.gc.clone())),
            Some(_) => {}
        }
    }
    for name in wanted.families.keys().filter(|name| stored.erased_in(name) != wanted.erased_in(name)) {
        let erased = wanted.erased_in(name).cloned().unwrap_or_default();
        changes.push(FamilyChange::SetErased(name.clone(), erased));
    }
    let keep_micros = |schema: &TableSchema| schema.history.map(|history| history.keep_micros);
    if keep_micros(stored) != keep_micros(wanted) {
        changes.push(FamilyChange::SetHistory(keep_micros(wanted)));
    }
    changes
}

async fn load(store: &Arc<dyn Store>, pin: &Pin) -> Result<Loaded> {
    let mut loaded = Loaded::default();
    let mut batches = store.scan(&rows::catalog_table(), Scan { pin: Some(pin.clone()), ..Scan::all() });
    while let Some(batch) = batches.try_next().await? {
        batch.iter().try_for_each(|row| loaded.take(row))?;
    }
    loaded.snapshot.drops.sort_by_key(|certificate| certificate.order());
    Ok(loaded)
}
