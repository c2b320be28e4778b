//! What a transaction has changed of a tenant's own relations.
//!
//! A definition is derived from the catalog as the transaction sees it, and kept as edits: every later statement's
//! snapshot is the committed one with these edits applied ([`TransactionState::seen`]). Numbers of what is made are
//! reserved in the catalog first, so that rows can be written to a new space and numbers be taken from a new sequence
//! before anybody else knows of them. COMMIT applies the edits to the newest catalog and makes one commit of them and
//! of the rows (`Catalog::begin_edit`).
//!
//! What others do meanwhile: the edits say from what a table was changed, so that another change of it is a conflict; a
//! change that depends on a table's rows says when they were read ([`Definitions::read`]), and a write to it since then
//! is one too. Both are 40001.

use super::{Session, transaction::TransactionState};
use crate::{
    instance::Instance,
    pg::error::{Result, SqlError, SqlState},
    sql::ast::session::Isolation,
    write_set::conflict,
};
use keyspan_catalog::{Edit, Error, ErrorKind, PrivateEdit, Snapshot, Table, TableId, TenantId, erasure::Target};
use keyspan_storage::Pin;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Edits of a transaction, at most.
const EDITS_MAX: usize = 10_000;

/// The versions of snapshots that only a transaction sees: none is given twice, and no catalog that is stored comes to
/// them.
pub(super) static VERSIONS: AtomicU64 = AtomicU64::new(1 << 63);

/// The changes of a transaction.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    edits: Vec<PrivateEdit>,
    /// Tables whose rows changes depend on, and as of when they were read, in microseconds.
    read: Vec<(TableId, i64)>,
    /// Spaces that tables were given: nobody else sees what is there.
    spaces: Vec<u32>,
    /// Numbers that were reserved, used or not.
    reserved: Option<Reserved>,
    /// The snapshot that the edits were last applied to, and what came of it.
    applied: Option<(Arc<Snapshot>, Arc<Snapshot>)>,
}

/// How much a savepoint remembers of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    edits: usize,
    read: usize,
    spaces: usize,
}

impl Definitions {
    pub(super) fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { edits: self.edits.len(), read: self.read.len(), spaces: self.spaces.len() }
    }

    pub(super) fn rollback_to(&mut self, mark: Mark) {
        self.edits.truncate(mark.edits);
        self.read.truncate(mark.read);
        self.spaces.truncate(mark.spaces);
        self.applied = None;
    }

    /// Whether a space was given to a table after a savepoint.
    pub(super) fn has_space_since(&self, mark: Mark, space: u32) -> bool {
        self.spaces.get(mark.spaces..).is_some_and(|spaces| spaces.contains(&space))
    }

    /// The tables whose rows changes depend on.
    pub(super) fn tables_read(&self) -> impl Iterator<Item = TableId> {
        self.read.iter().map(|(table, _)| *table)
    }

    /// Whether a table whose rows changes depend on was written since they were read.
    pub(super) fn is_outdated(&self, instance: &Instance) -> bool {
        self.read.iter().any(|(table, micros)| instance.table_locks.last_write_micros(*table) > *micros)
    }

    /// The tables that are made or changed.
    pub(super) fn tables(&self) -> BTreeSet<TableId> {
        let table = |edit: &PrivateEdit| match edit {
            PrivateEdit::CreateTable(table) => Some(table.id),
            PrivateEdit::AlterTable(change) => Some(change.1.id),
            PrivateEdit::DropTable(id) => Some(*id),
            _ => None,
        };
        self.edits.iter().filter_map(table).collect()
    }

    /// The enumerated types and domains that are changed.
    fn types(&self) -> impl Iterator<Item = u32> {
        self.edits.iter().filter_map(|edit| match edit {
            PrivateEdit::AlterEnum(change) => Some(change.1.id),
            PrivateEdit::AlterDomain(change) => Some(change.after.id),
            _ => None,
        })
    }

    /// A table that is not made or changed itself, as a statement knew it, with the changes of types of its columns.
    pub(super) fn with_types(&self, known: &Arc<Table>, tenant: &TenantId, after: &Snapshot) -> Arc<Table> {
        let now = after.table_of(Some(tenant), known.id);
        let Some((now, own)) = now.zip(after.private_of(Some(tenant))) else { return known.clone() };
        let changed: BTreeSet<u32> = self.types().flat_map(|id| own.domains_on(id).into_iter().chain([id])).collect();
        if changed.is_empty() { known.clone() } else { Arc::new(known.with_types_of(now, &changed)) }
    }

    /// Whether something is erased.
    pub(super) fn erases(&self) -> bool {
        self.edits.iter().any(|edit| matches!(edit, PrivateEdit::Erase(_)))
    }

    /// The tables whose rows are erased as a range: shared ones that were truncated.
    pub(super) fn truncated(&self) -> BTreeSet<TableId> {
        let table = |edit: &PrivateEdit| match edit {
            PrivateEdit::Erase(order) if matches!(order.target, Target::Rows { .. }) => Some(order.table),
            _ => None,
        };
        self.edits.iter().filter_map(table).collect()
    }

    /// As one edit.
    pub(super) fn edit(&self, (tenant, oid): (&TenantId, u32)) -> Edit {
        Edit::ChangePrivate(tenant.clone(), oid, self.edits.clone())
    }

    /// The numbers that the catalog uses now are no longer to be given up.
    pub(super) fn used(&mut self, tenant: &TenantId, now: &Snapshot) {
        if let Some(reserved) = &mut self.reserved {
            let spare = now.private.get(tenant).map(|private| private.spare.clone()).unwrap_or_default();
            reserved.numbers.retain(|number| spare.contains(number));
        }
    }

    /// A snapshot with the changes applied.
    fn seen(&self, door: (&TenantId, u32), base: &Arc<Snapshot>) -> keyspan_catalog::Result<Arc<Snapshot>> {
        if self.edits.is_empty() && self.reserved.is_none() {
            return Ok(base.clone());
        }
        if let Some((known, seen)) = &self.applied
            && Arc::ptr_eq(known, base)
        {
            return Ok(seen.clone());
        }
        let mut seen = self.with_reserved(door.0, base).apply(&self.edit(door))?;
        seen.version = VERSIONS.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(seen))
    }

    /// A snapshot in which the reserved numbers are reserved: one that is older than they are does not know it.
    fn with_reserved(&self, tenant: &TenantId, base: &Snapshot) -> Snapshot {
        let mut snapshot = base.clone();
        if let Some(reserved) = &self.reserved {
            let private = Arc::make_mut(snapshot.private.entry(tenant.clone()).or_default());
            private.spare.extend(&reserved.numbers);
            let next = reserved.numbers.last().map_or(0, |last| last.saturating_add(1));
            snapshot.next_oid = snapshot.next_oid.max(next);
        }
        snapshot
    }
}

/// Numbers that were reserved for what a session makes; those that were not used are given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    instance: Arc<Instance>,
    tenant: TenantId,
    oid: u32,
    numbers: BTreeSet<u32>,
}

impl Reserved {
    /// Reserves `count` numbers that follow each other, and gives the first.
    ///
    /// # Errors
    /// The catalog's.
    pub(crate) async fn new(
        instance: Arc<Instance>,
        (tenant, oid): (&TenantId, u32),
        count: u32,
    ) -> Result<(Self, u32)> {
        let mut reserved = Self { instance, tenant: tenant.clone(), oid, numbers: BTreeSet::new() };
        let first = reserved.more(count).await?;
        Ok((reserved, first))
    }

    /// Reserves more that follow each other, and gives the first of these.
    pub(super) async fn more(&mut self, count: u32) -> Result<u32> {
        let first = self.instance.catalog.reserve(&self.tenant, self.oid, count).await?;
        self.numbers.extend(first..first + count);
        Ok(first)
    }

    /// The numbers.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.numbers.iter().copied()
    }

    /// Takes some of them away, to be given up by themselves.
    pub(super) fn split_off(&mut self, is: impl Fn(u32) -> bool) -> Self {
        let (split, kept) = self.numbers.iter().partition(|number| is(**number));
        self.numbers = kept;
        Self { instance: self.instance.clone(), tenant: self.tenant.clone(), oid: self.oid, numbers: split }
    }

    /// They are used.
    pub(crate) fn used(mut self) {
        self.numbers.clear();
    }

    /// They are not used: what was written there is gone when this is done.
    pub(crate) async fn give_up(mut self) {
        self.release().await;
    }

    fn release(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let (instance, tenant, oid) = (self.instance.clone(), self.tenant.clone(), self.oid);
        let numbers = std::mem::take(&mut self.numbers);
        async move {
            if let Err(error) = instance.catalog.release(&tenant, oid, numbers).await {
                tracing::warn!(%tenant, %error, "rows of what was not made are still in the store");
            }
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.numbers.is_empty() {
            return;
        }
        let release = self.release();
        // Nobody waits where a transaction or a session ends; without a runtime, and after a crash, the next start
        // gives them up.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(release);
        }
    }
}

impl TransactionState {
    /// A snapshot as the transaction sees it.
    ///
    /// # Errors
    /// 40001 when others changed what it has changed.
    pub(super) fn seen(&mut self, door: Option<(&TenantId, u32)>, base: Arc<Snapshot>) -> Result<Arc<Snapshot>> {
        let (Some(definitions), Some(door)) = (self.definitions_mut(), door) else { return Ok(base) };
        let seen = definitions.seen(door, &base).map_err(|error| catalog_error(&error))?;
        definitions.applied = Some((base, seen.clone()));
        Ok(seen)
    }
}

/// An edit that no longer applies: another transaction got there first.
pub(super) fn catalog_error(error: &Error) -> SqlError {
    conflict().with_detail(format!("What the transaction has defined contradicts another: {error}."))
}

impl Session {
    /// The tenant of the session and its number.
    pub(super) fn door(&self) -> Option<(&TenantId, u32)> {
        self.identity.rows.tenant().zip(self.identity.rows.oid())
    }

    /// The catalog as the session sees it now.
    pub(crate) fn catalog_snapshot(&self) -> Arc<Snapshot> {
        let base = self.transaction.state().map_or_else(|| self.instance.catalog.snapshot(), |(snapshot, _)| snapshot);
        let definitions = self.transaction.definitions().zip(self.door());
        // What others contradict is said by the next view.
        let seen = definitions.and_then(|(definitions, door)| definitions.seen(door, &base).ok());
        let seen = seen.unwrap_or(base);
        self.temporary.seen_now(seen)
    }

    /// Reserves `count` numbers for what the session makes, and gives the first; at the transaction's end, those that
    /// were not used are given up.
    pub(crate) async fn reserve(&mut self, count: u32) -> Result<u32> {
        let (instance, door) = (self.instance.clone(), self.door().map(|(tenant, oid)| (tenant.clone(), oid)));
        let (Some(definitions), Some((tenant, oid))) = (self.transaction.definitions_mut(), door) else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a transaction of one tenant was expected"));
        };
        definitions.applied = None;
        match &mut definitions.reserved {
            Some(reserved) => reserved.more(count).await,
            none => {
                let (reserved, first) = Reserved::new(instance, (&tenant, oid), count).await?;
                *none = Some(reserved);
                Ok(first)
            }
        }
    }

    /// Makes a change of what the tenant has in the transaction. What it makes is numbered from the snapshot's next
    /// number on.
    ///
    /// # Errors
    /// What the edits contradict; the catalog's.
    pub(crate) async fn define(
        &mut self,
        derive: impl Fn(&Snapshot) -> keyspan_catalog::Result<Vec<PrivateEdit>> + Send + Sync,
    ) -> Result<()> {
        let seen = self.catalog_snapshot();
        let edits = derive(&seen)?;
        let after = self.drafted(&seen, &edits)?;
        let count = after.next_oid - seen.next_oid;
        if count == 0 {
            return self.defined(edits);
        }
        let first = self.reserve(count).await?;
        let edits = derive(&Snapshot { next_oid: first, ..seen.as_ref().clone() })?;
        self.defined(edits)
    }

    /// A snapshot of the session's after more edits.
    ///
    /// # Errors
    /// What they contradict.
    pub(crate) fn drafted(&self, seen: &Snapshot, edits: &[PrivateEdit]) -> Result<Snapshot> {
        let Some((tenant, oid)) = self.door() else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a session of one tenant was expected"));
        };
        Ok(seen.apply(&Edit::ChangePrivate(tenant.clone(), oid, edits.to_vec()))?)
    }

    /// Takes edits, whose numbers are reserved, into the transaction.
    ///
    /// # Errors
    /// What they contradict; 54000 for too many.
    pub(crate) fn defined(&mut self, edits: Vec<PrivateEdit>) -> Result<()> {
        let door = self.door().map(|(tenant, oid)| (tenant.clone(), oid));
        let base = self.transaction.state().map_or_else(|| self.instance.catalog.snapshot(), |(snapshot, _)| snapshot);
        let (Some(definitions), Some((tenant, oid))) = (self.transaction.definitions_mut(), door) else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a transaction of one tenant was expected"));
        };
        let reserved = definitions.reserved.as_ref().map(|reserved| reserved.numbers.clone()).unwrap_or_default();
        // What was reserved on the way is.
        let edits: Vec<_> = edits
            .into_iter()
            .filter(|edit| !matches!(edit, PrivateEdit::Reserve(number) if reserved.contains(number)))
            .collect();
        if definitions.edits.len() + edits.len() > EDITS_MAX {
            let message = format!("a transaction with more than {EDITS_MAX} definitions");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let mark = definitions.mark();
        let spaces = edits.iter().filter_map(|edit| match edit {
            PrivateEdit::CreateTable(table) => table.space,
            PrivateEdit::AlterTable(change) if change.0.space != change.1.space => change.1.space,
            PrivateEdit::CreateView(view) => view.space(),
            PrivateEdit::AlterView(change) if change.0.space() != change.1.space() => change.1.space(),
            _ => None,
        });
        definitions.spaces.extend(spaces);
        definitions.edits.extend(edits);
        definitions.applied = None;
        let seen = match definitions.seen((&tenant, oid), &base) {
            // A number that was not reserved would be another's.
            Ok(seen) if seen.next_oid > definitions.with_reserved(&tenant, &base).next_oid => {
                definitions.rollback_to(mark);
                let message = "the catalog was changed by another at the same moment";
                return Err(catalog_error(&Error::new(ErrorKind::Conflict, message)));
            }
            Ok(seen) => seen,
            Err(error) => {
                definitions.rollback_to(mark);
                return Err(error.into());
            }
        };
        definitions.applied = Some((base, seen.clone()));
        // The rows of a table or materialized view that is no more, or is another's by now.
        let temporary = self.temporary.state();
        let is_gone = |id: TableId| seen.relation(Some(&tenant), id.0).is_none() && !temporary.has(id);
        self.transaction.forget_rows(is_gone);
        Ok(())
    }

    /// A change of the transaction depends on the rows of a table as of a pin.
    pub(crate) fn depends_on_rows(&mut self, table: TableId, pin: &Pin) {
        if let Some(definitions) = self.transaction.definitions_mut() {
            definitions.read.push((table, pin.commit_micros));
        }
    }

    /// Forgets what the transaction would write to a table: it was written elsewhere, or is to be gone.
    pub(crate) fn forget_rows(&mut self, table: TableId) {
        self.transaction.forget_rows(|id| id == table);
    }

    /// Whether the session is in a transaction that reads one state.
    pub(crate) fn keeps_state(&self) -> bool {
        self.in_transaction() && self.isolation() == Isolation::RepeatableRead
    }

    /// Whether rows of a table can be written at once in the transaction, and be seen by it: its space was made since
    /// the last savepoint, nobody else sees it, no statement wrote other rows to the table, and each statement reads
    /// the newest state.
    pub(crate) fn writes_apart(&self, table: &Table) -> Option<u32> {
        let space = table.space?;
        let fresh = self.isolation() == Isolation::ReadCommitted && self.transaction.has_fresh(space);
        (fresh && self.transaction.buffered().get(&table.id).is_none_or(|rows| rows.is_empty())).then_some(space)
    }
}
