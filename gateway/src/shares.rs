//! Shares: what each tenant may take of the server, what it takes, and who goes next.
//!
//! Each tenant has one [`Share`] while the server runs, the operator too. Sessions hold it; a thread that computes for a
//! statement has it at hand ([`turns`]), so that time, memory and temporary files are counted wherever they are used.
//!
//! ```text
//! statement ──► admission   quotas: running statements, rates; waits in a bounded queue
//!     │ short ─► on the connection's thread: nothing holds it up
//!     │ long ──► turns       the gate between tenants: by weight, at each batch
//!     └ commit ► commits     the same order, before the log's queue
//! ```
//!
//! [`schedule`] and [`rate`] are pure. Quotas come from the catalog ([`Quotas`]) at each statement.

pub(crate) mod access;
mod admission;
pub(crate) mod days;
pub(crate) mod errors;
pub(crate) mod gate;
mod hours;
pub(crate) mod parts;
mod rate;
pub(crate) mod schedule;
mod stored;
pub(crate) mod turns;
pub(crate) mod usage;
pub(crate) mod work;

pub(crate) use admission::{Admitted, CommitTurn, Connected, LoadPlace};
pub use days::Days;
pub use hours::Hours;

use crate::{lock::Mutex, pg::error::SqlError};
use admission::{CommitGate, Running};
use gate::Gate;
use keyspan_catalog::{Quotas, Snapshot, TenantState};
use rate::Rate;
use schedule::{Flow, WEIGHT};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use usage::{Amounts, Counters, Minutes};
use work::Work;

/// The shares of a server: as many as tenants, and the operator's.
#[derive(Debug)]
pub struct Shares {
    gate: Arc<Gate>,
    commits: Arc<CommitGate>,
    all: Mutex<HashMap<Flow, Arc<Share>>>,
    /// What those have used that were forgotten.
    forgotten: Mutex<Amounts>,
    began: Instant,
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            gate: Arc::default(),
            commits: Arc::default(),
            all: Mutex::default(),
            forgotten: Mutex::default(),
            began: Instant::now(),
        }
    }
}

impl Shares {
    /// Without the gate: queries and commits run as they come. For comparison.
    pub fn remove_gate(&self) {
        self.gate.remove();
    }

    /// The share of a tenant, given by its OID; `None` for the operator.
    pub(crate) fn of(&self, tenant: Option<u32>) -> Arc<Share> {
        let flow = tenant.unwrap_or_default();
        let mut all = self.all.lock();
        let share = all.entry(flow).or_insert_with(|| {
            let (gate, commits) = (Arc::clone(&self.gate), Arc::clone(&self.commits));
            Arc::new(Share::new(flow, gate, commits, self.began))
        });
        Arc::clone(share)
    }

    /// A place for a large load of a tenant, of so many that the store has: all of them while no other tenant is
    /// connected, all but one while others are. `None` where it has none: rows go through commits.
    pub(crate) fn load_place(&self, share: &Arc<Share>, places: usize) -> Option<LoadPlace> {
        let is_other = |other: &Arc<Share>| other.flow != share.flow && other.connections() > 0;
        let others = self.all.lock().values().any(is_other);
        share.begin_load(if others { places.saturating_sub(1).max(1) } else { places })
    }

    /// All shares, by the OID of the tenant.
    pub(crate) fn all(&self) -> Vec<Arc<Share>> {
        let mut all: Vec<_> = self.all.lock().values().cloned().collect();
        all.sort_by_key(|share| share.flow);
        all
    }

    /// Forgets the shares of tenants that were dropped.
    pub(crate) fn retain(&self, snapshot: &Snapshot) {
        let there: std::collections::HashSet<u32> = snapshot
            .tenants
            .values()
            .filter(|tenant| tenant.state == TenantState::Active)
            .map(|tenant| tenant.oid)
            .collect();
        let mut all = self.all.lock();
        let gone = |(flow, share): &(&Flow, &mut Arc<Share>)| {
            **flow != 0 && !there.contains(flow) && Arc::strong_count(share) == 1
        };
        let mut forgotten = self.forgotten.lock();
        for (_, share) in all.extract_if(|flow, share| gone(&(flow, share))) {
            *forgotten = forgotten.and(share.counters.amounts());
        }
    }

    /// What all have used since the server's start, those that were forgotten too.
    pub(crate) fn total(&self) -> Amounts {
        let all = self.all.lock();
        all.values().fold(*self.forgotten.lock(), |total, share| total.and(share.counters.amounts()))
    }
}

/// The share of a tenant.
#[derive(Debug)]
pub struct Share {
    flow: Flow,
    gate: Arc<Gate>,
    commits: Arc<CommitGate>,
    began: Instant,
    /// As of the last statement.
    quotas: Mutex<Quotas>,
    weight: AtomicU32,
    /// Whether there is a rate: looked at before each turn.
    has_rates: AtomicBool,
    /// Bytes of memory and of temporary files that the tenant's queries may take; `u64::MAX` without a quota.
    memory_max: AtomicU64,
    temporary_max: AtomicU64,
    read: Mutex<Rate>,
    written: Mutex<Rate>,
    running: Mutex<Running>,
    connections: AtomicU32,
    /// Large loads under way.
    loads: AtomicUsize,
    stored: Mutex<Option<Stored>>,
    pub(crate) counters: Counters,
    pub(crate) work: Work,
    pub(crate) minutes: Mutex<Minutes>,
}

/// What is known of a tenant's stored bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    /// As measured, with what was written since.
    pub(crate) bytes: u64,
    pub(crate) measured: Instant,
}

impl Share {
    fn new(flow: Flow, gate: Arc<Gate>, commits: Arc<CommitGate>, began: Instant) -> Self {
        Self {
            flow,
            gate,
            commits,
            began,
            quotas: Mutex::default(),
            weight: AtomicU32::new(WEIGHT),
            has_rates: AtomicBool::default(),
            memory_max: AtomicU64::new(u64::MAX),
            temporary_max: AtomicU64::new(u64::MAX),
            read: Mutex::default(),
            written: Mutex::default(),
            running: Mutex::default(),
            connections: AtomicU32::default(),
            loads: AtomicUsize::default(),
            stored: Mutex::default(),
            counters: Counters::default(),
            work: Work::default(),
            minutes: Mutex::default(),
        }
    }

    pub(crate) fn flow(&self) -> Flow {
        self.flow
    }

    /// The tenant's OID; `None` for the operator's share.
    pub(crate) fn tenant(&self) -> Option<u32> {
        (self.flow != 0).then_some(self.flow)
    }

    /// The tenant's sessions.
    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    pub(crate) fn quotas(&self) -> Quotas {
        *self.quotas.lock()
    }

    /// Takes the quotas of the catalog.
    pub(crate) fn set_quotas(&self, quotas: Quotas) {
        let mut known = self.quotas.lock();
        if *known == quotas {
            return;
        }
        *known = quotas;
        self.weight.store(quotas.weight.unwrap_or(WEIGHT), Ordering::Relaxed);
        let has_rates = quotas.read_bytes_per_second.is_some() || quotas.written_bytes_per_second.is_some();
        self.has_rates.store(has_rates, Ordering::Relaxed);
        // A dry run refuses nothing.
        let bound = |bytes: Option<u64>| bytes.filter(|_| !quotas.dryrun).unwrap_or(u64::MAX);
        self.memory_max.store(bound(quotas.memory_bytes_max), Ordering::Relaxed);
        self.temporary_max.store(bound(quotas.temporary_bytes_max), Ordering::Relaxed);
    }

    /// Counts time that a thread has worked for the tenant.
    pub(crate) fn worked(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counters.busy_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Counts rows and bytes that were read of the store.
    ///
    /// # Errors
    /// 53400 when the tenant has read so much more than its rate that a pause would be too long.
    pub(crate) fn count_read(&self, rows: u64, bytes: u64) -> Result<(), SqlError> {
        self.counters.rows_read.fetch_add(rows, Ordering::Relaxed);
        self.counters.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        if !self.has_rates.load(Ordering::Relaxed) {
            return Ok(());
        }
        let quotas = self.quotas();
        let Some(per_second) = quotas.read_bytes_per_second else { return Ok(()) };
        let pause = {
            let (mut rate, at) = (self.read.lock(), self.began.elapsed());
            rate.count(bytes, per_second, at);
            rate.pause(per_second, at)
        };
        if pause <= rate::PAUSE_MAX {
            return Ok(());
        }
        self.refuse(&quotas, || errors::rate(errors::READ_RATE, per_second, pause))
    }

    /// Counts rows and bytes that were written.
    pub(crate) fn count_written(&self, rows: u64, bytes: u64) {
        self.counters.rows_written.fetch_add(rows, Ordering::Relaxed);
        self.counters.bytes_written.fetch_add(bytes, Ordering::Relaxed);
        if let Some(per_second) = self.quotas().written_bytes_per_second {
            self.written.lock().count(bytes, per_second, self.began.elapsed());
        }
    }

    /// How long the tenant's queries pause, because it has read more than its rate.
    pub(crate) fn pause(&self, now: Instant) -> Duration {
        if !self.has_rates.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let quotas = self.quotas();
        match quotas.read_bytes_per_second.filter(|_| !quotas.dryrun) {
            Some(per_second) => {
                self.read.lock().pause(per_second, now.saturating_duration_since(self.began)).min(rate::PAUSE_MAX)
            }
            None => Duration::ZERO,
        }
    }

    /// Refuses, or only says that it would in a dry run.
    pub(crate) fn refuse(&self, quotas: &Quotas, error: impl FnOnce() -> SqlError) -> Result<(), SqlError> {
        let error = error();
        if quotas.dryrun {
            self.counters.dryrun_refusals.fetch_add(1, Ordering::Relaxed);
            let detail = error.detail.as_deref().unwrap_or_default();
            tracing::warn!(tenant = self.flow, sqlstate = error.state.0, detail, "a quota would have refused: dryrun");
            return Ok(());
        }
        self.counters.refusals.fetch_add(1, Ordering::Relaxed);
        Err(error)
    }

    /// What is known of the stored bytes.
    pub(crate) fn stored(&self) -> Option<Stored> {
        *self.stored.lock()
    }

    /// Takes a measurement of the stored bytes.
    pub(crate) fn set_stored(&self, bytes: u64) -> Stored {
        let stored = Stored { bytes, measured: Instant::now() };
        *self.stored.lock() = Some(stored);
        self.minutes.lock().stored_bytes = Some(bytes);
        stored
    }

    /// Adds what is about to be written to what is stored.
    pub(crate) fn add_stored(&self, bytes: u64) {
        if let Some(stored) = self.stored.lock().as_mut() {
            stored.bytes = stored.bytes.saturating_add(bytes);
        }
    }

    /// Bytes of memory that the tenant's queries may take; `u64::MAX` without a quota.
    pub(crate) fn memory_max(&self) -> u64 {
        self.memory_max.load(Ordering::Relaxed)
    }

    /// Bytes of temporary files that they may take; `u64::MAX` without a quota.
    pub(crate) fn temporary_max(&self) -> u64 {
        self.temporary_max.load(Ordering::Relaxed)
    }

    pub(crate) fn count_refusal(&self) {
        self.counters.refusals.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_leaves_a_place_for_loads_to_others_that_are_there() {
        let shares = Shares::default();
        let (one, other) = (shares.of(Some(1)), shares.of(Some(2)));
        let all: Vec<_> = (0..4).map(|_| shares.load_place(&one, 4)).collect();
        assert!(all.iter().all(Option::is_some) && shares.load_place(&one, 4).is_none());
        drop(all);
        let connected = other.connect("two");
        let some: Vec<_> = (0..4).filter_map(|_| shares.load_place(&one, 4)).collect();
        assert_eq!(some.len(), 3);
        assert!(shares.load_place(&other, 4).is_some());
        drop(some);
        assert!(shares.load_place(&one, 1).is_some(), "the only one is for whoever comes first");
        drop(connected);
    }
}
