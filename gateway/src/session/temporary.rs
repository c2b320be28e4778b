//! Temporary tables, views and sequences: what a session has made for itself alone.
//!
//! The catalog knows nothing of them but numbers that are reserved: the definitions are in the session's memory, and
//! only its own snapshots have them ([`Temporary::seen`]). Their rows are written, as those of private tables are, to
//! spaces; since no table of the catalog has these, nobody else reads or writes there. A space that no temporary table
//! uses any more is given up with its rows: when the transaction that dropped the table is over, and when the session
//! ends. After a crash the next start gives all of them up.
//!
//! Definitions are immutable values, so that BEGIN and SAVEPOINT remember them and ROLLBACK goes back to them. `ON
//! COMMIT DELETE ROWS` means that no row ever outlives its transaction: what it has buffered for the table is forgotten
//! instead of committed.
//!
//! A temporary view may read what is permanent, too. The session's own changes of that are held against it; other
//! sessions do not know of it, so that it may outlive what it reads: reading it is an error then (`query::views`).

use super::{
    Session,
    pending_ddl::{Reserved, VERSIONS},
};
use crate::{
    pg::error::{Result, SqlError, SqlState},
    sql::ast::definition::OnCommit,
};
use keyspan_catalog::{Private, PrivateEdit, Snapshot, TableId, sql_view};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
};

/// Temporary tables, views and sequences by themselves of a session, at most.
const RELATIONS_MAX: usize = 1_000;

/// What there is at a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    own: Arc<Private>,
    /// What COMMIT does to tables, where it does something.
    on_commit: BTreeMap<TableId, OnCommit>,
}

impl State {
    /// Whether the table is one of them.
    pub(super) fn has(&self, table: TableId) -> bool {
        self.own.tables.contains_key(&table)
    }
}

/// A session's temporary tables.
#[derive(Debug)]
pub(super) struct Temporary {
    state: Arc<State>,
    /// Numbers that were reserved for them; dropped, they are given up.
    reserved: Option<Reserved>,
    /// The snapshot that they were last added to, and what came of it.
    seen: Option<(Arc<Snapshot>, Arc<Snapshot>)>,
    /// [`RELATIONS_MAX`]; a test gives fewer.
    pub(super) relations_max: usize,
}

impl Default for Temporary {
    fn default() -> Self {
        Self { state: Arc::default(), reserved: None, seen: None, relations_max: RELATIONS_MAX }
    }
}

impl Temporary {
    /// What there is, to go [back](Self::restore) to.
    pub(super) fn state(&self) -> Arc<State> {
        self.state.clone()
    }

    pub(super) fn restore(&mut self, state: Arc<State>) {
        self.state = state;
        self.seen = None;
    }

    /// The spaces of their rows.
    pub(super) fn spaces(&self) -> BTreeSet<u32> {
        if self.state.own.tables.is_empty() { BTreeSet::new() } else { self.state.own.used_spaces() }
    }

    /// Whether no row of a table outlives its transaction.
    pub(super) fn is_emptied(&self, table: TableId) -> bool {
        self.state.on_commit.contains_key(&table)
    }

    /// The tables whose rows end with the transaction (`ON COMMIT DELETE ROWS`).
    pub(super) fn emptied(&self) -> BTreeSet<TableId> {
        self.state.on_commit.keys().copied().collect()
    }

    /// A transaction is over that was committed: `ON COMMIT DROP`.
    pub(super) fn committed(&mut self) {
        let gone = |what: &OnCommit| *what == OnCommit::Drop;
        if !self.state.on_commit.values().any(gone) {
            return;
        }
        let mut state = self.state.as_ref().clone();
        let own = Arc::make_mut(&mut state.own);
        let dropped: BTreeSet<_> = state.on_commit.iter().filter(|(_, what)| gone(what)).map(|(id, _)| *id).collect();
        let views = dropped.iter().flat_map(|id| sql_view::dependents(own, id.0, None)).map(|view| view.id);
        let views: BTreeSet<u32> = views.collect();
        own.views.retain(|id, _| !views.contains(id));
        own.tables.retain(|id, _| !dropped.contains(id));
        own.sequences.retain(|_, sequence| sequence.owner.is_none_or(|(table, _)| !dropped.contains(&table)));
        state.on_commit.retain(|id, _| !dropped.contains(id));
        self.restore(Arc::new(state));
    }

    /// Gives up the numbers that nothing uses any more; never within a transaction, which may go back to what used
    /// them.
    pub(super) fn tidy(&mut self) {
        let used = self.state.own.used_spaces();
        if let Some(reserved) = &mut self.reserved {
            drop(reserved.split_off(|number| !used.contains(&number)));
        }
    }

    /// A snapshot with them.
    pub(super) fn seen(&mut self, base: Arc<Snapshot>) -> Arc<Snapshot> {
        if self.state.own.is_empty() {
            return base;
        }
        let seen = self.seen_now(base.clone());
        self.seen = Some((base, seen.clone()));
        seen
    }

    /// The same without remembering it: what is remembered is given again.
    pub(super) fn seen_now(&self, base: Arc<Snapshot>) -> Arc<Snapshot> {
        if self.state.own.is_empty() {
            return base;
        }
        match &self.seen {
            Some((known, seen)) if Arc::ptr_eq(known, &base) => seen.clone(),
            _ => Arc::new(self.added_to(&base)),
        }
    }

    /// A snapshot with them, of a version that no other has.
    fn added_to(&self, base: &Snapshot) -> Snapshot {
        let version = VERSIONS.fetch_add(1, Ordering::Relaxed);
        Snapshot { temporary: self.state.own.clone(), version, ..base.clone() }
    }
}

impl Session {
    /// A snapshot in which what is temporary stands where a tenant's own is, and nothing else does: what definitions
    /// are derived from. What is permanent stands where others have what is temporary, so that views may read it.
    pub(crate) fn temporary_snapshot(&self) -> Snapshot {
        let base = self.instance.catalog.snapshot();
        let mut snapshot = Snapshot { tables: BTreeMap::new(), private: BTreeMap::new(), ..base.as_ref().clone() };
        if let Some((tenant, _)) = self.door() {
            let seen = self.catalog_snapshot();
            let mut permanent = seen.private_of(Some(tenant)).map(|own| own.as_ref().clone()).unwrap_or_default();
            permanent.tables.extend(seen.tables.iter().map(|(id, table)| (*id, table.clone())));
            snapshot.temporary = Arc::new(permanent);
            let mut own = self.temporary.state.own.as_ref().clone();
            // What its columns may be of; it has none itself.
            if let Some(seen) = seen.private_of(Some(tenant)) {
                own.enum_types.clone_from(&seen.enum_types);
                own.domains.clone_from(&seen.domains);
            }
            let used = own.used_spaces();
            let numbers = self.temporary.reserved.iter().flat_map(Reserved::numbers);
            own.spare = numbers.filter(|number| !used.contains(number)).collect();
            snapshot.private.insert(tenant.clone(), Arc::new(own));
        }
        snapshot
    }

    /// Reserves `count` numbers for what is temporary, and gives the first.
    ///
    /// # Errors
    /// The catalog's.
    pub(crate) async fn reserve_temporary(&mut self, count: u32) -> Result<u32> {
        let door = self.door().map(|(tenant, oid)| (tenant.clone(), oid));
        let Some((tenant, oid)) = door else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a session of one tenant was expected"));
        };
        match &mut self.temporary.reserved {
            Some(reserved) => reserved.more(count).await,
            none => {
                let (reserved, first) = Reserved::new(self.instance.clone(), (&tenant, oid), count).await?;
                *none = Some(reserved);
                Ok(first)
            }
        }
    }

    /// Makes a change of what is temporary, derived from [`temporary_snapshot`](Self::temporary_snapshot). What it
    /// makes is numbered from the snapshot's next number on.
    ///
    /// # Errors
    /// What the edits contradict; 54000 for too many tables; the catalog's.
    pub(crate) async fn define_temporary(
        &mut self,
        derive: impl Fn(&Snapshot) -> keyspan_catalog::Result<Vec<PrivateEdit>> + Send + Sync,
    ) -> Result<()> {
        let seen = self.temporary_snapshot();
        let mut after = self.drafted(&seen, &derive(&seen)?)?;
        let count = after.next_oid - seen.next_oid;
        if count > 0 {
            let next_oid = self.reserve_temporary(count).await?;
            let numbered = Snapshot { next_oid, ..seen };
            after = self.drafted(&numbered, &derive(&numbered)?)?;
        }
        let own = self.door().and_then(|(tenant, _)| after.private_of(Some(tenant)));
        let mut own = own.map(|own| own.as_ref().clone()).unwrap_or_default();
        own.spare.clear();
        let most = self.temporary.relations_max;
        let by_themselves = own.sequences.values().filter(|sequence| sequence.owner.is_none()).count();
        if own.tables.len() + own.views.len() + by_themselves > most {
            let message = format!("a session has at most {most} temporary tables, views and sequences");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_hint("DROP some."));
        }
        self.replace_temporary(own);
        Ok(())
    }

    /// Remembers what COMMIT does to a temporary table.
    pub(crate) fn on_commit(&mut self, name: &str, what: Option<OnCommit>) {
        let Some(what) = what.filter(|what| *what != OnCommit::PreserveRows) else { return };
        let mut state = self.temporary.state.as_ref().clone();
        if let Some(id) = state.own.table(name).map(|table| table.id) {
            state.on_commit.insert(id, what);
            self.temporary.restore(Arc::new(state));
        }
        if !self.in_transaction() {
            // The statement is a transaction of its own.
            self.temporary.committed();
            self.temporary.tidy();
        }
    }

    /// Takes temporary views away; gives what to [go back](Self::restore_temporary) to.
    ///
    /// # Errors
    /// What depends on them.
    pub(crate) async fn drop_temporary_views(&mut self, views: &BTreeSet<u32>) -> Result<Arc<State>> {
        let before = self.temporary.state();
        if !views.is_empty() {
            self.define_temporary(|_| Ok(views.iter().copied().map(PrivateEdit::DropView).collect())).await?;
        }
        Ok(before)
    }

    /// Goes back to the temporary tables and views that there were in the same statement.
    pub(crate) fn restore_temporary(&mut self, state: Arc<State>) {
        self.temporary.restore(state);
    }

    /// `DISCARD TEMP`
    pub(crate) fn discard_temporary(&mut self) {
        self.replace_temporary(Private::default());
    }

    fn replace_temporary(&mut self, own: Private) {
        let before = self.temporary.state();
        let kept = |id: &TableId| own.tables.contains_key(id);
        let gone: BTreeSet<TableId> = before.own.tables.keys().filter(|id| !kept(id)).copied().collect();
        let on_commit = before.on_commit.iter().filter(|(id, _)| kept(id)).map(|(id, what)| (*id, *what)).collect();
        self.temporary.restore(Arc::new(State { own: Arc::new(own), on_commit }));
        self.transaction.forget_rows(|id| gone.contains(&id));
        self.temporary_settled();
    }

    /// What no temporary table uses is given up, unless a transaction may still go back to it.
    pub(crate) fn temporary_settled(&mut self) {
        if !self.in_transaction() {
            self.temporary.tidy();
        }
    }
}
