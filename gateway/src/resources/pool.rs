//! The memory pool of running queries: DataFusion's fair pool, with a bound for merges.
//!
//! [`FairSpillPool`] divides the memory among consumers that can spill to files. The merge of a sort's files cannot
//! spill; it takes all memory that is free, to merge as many files at once as fit. In a query with several sorts, such
//! as a sort-merge join, the first merge then leaves nothing to the others, and the query fails with 53200. With less
//! memory a merge takes fewer files at once and does not fail. So here no merge gets more than an equal share of the
//! memory. A sort gets no more than that share for its rows either, and merges these in memory. Tenants share the
//! memory by their weights ([`parts`](crate::shares::parts)). What sessions keep is counted in a pool of the same kind,
//! in which nothing sorts.

use crate::{
    lock::Mutex,
    shares::{
        Share, errors,
        parts::{Parts, Refused},
        turns::current,
    },
};
use datafusion::{
    common::resources_err,
    error::Result,
    execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation},
};
use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The prefix of DataFusion's names of consumers that merge a sort's files.
const MERGE: &str = "ExternalSorterMerge";

/// See the module.
#[derive(Debug)]
pub(super) struct QueryPool {
    fair: FairSpillPool,
    bytes: usize,
    /// What each merge may have in any case, since its sort has reserved it.
    aside_bytes: usize,
    merges: AtomicUsize,
    parts: Parts,
    /// The tenants of consumers, by the consumers' numbers: as many as consumers.
    tenants: Mutex<HashMap<usize, Arc<Share>>>,
}

impl QueryPool {
    /// A pool of `bytes`, where each sort reserves `aside_bytes` for its merge.
    pub(super) fn new(bytes: usize, aside_bytes: usize) -> Self {
        Self {
            fair: FairSpillPool::new(bytes),
            bytes,
            aside_bytes,
            merges: AtomicUsize::new(0),
            parts: Parts::new(bytes as u64, Share::memory_max),
            tenants: Mutex::default(),
        }
    }

    /// The tenant that a consumer works for, if it is known.
    fn tenant(&self, consumer: &MemoryConsumer) -> Option<Arc<Share>> {
        self.tenants.lock().get(&consumer.id()).cloned()
    }

    /// The bound of each merge.
    fn merge_bytes(&self) -> usize {
        let merges = self.merges.load(Ordering::Relaxed).max(1);
        (self.bytes / merges).max(self.aside_bytes)
    }
}

fn is_merge(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with(MERGE)
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &'static str {
        "keyspan"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        if is_merge(consumer) {
            self.merges.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(share) = current() {
            self.parts.enter(&share);
            self.tenants.lock().insert(consumer.id(), share);
        }
        self.fair.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if is_merge(consumer) {
            self.merges.fetch_sub(1, Ordering::Relaxed);
        }
        let tenant = self.tenants.lock().remove(&consumer.id());
        if let Some(share) = tenant {
            self.parts.leave(&share);
        }
        self.fair.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if let Some(share) = self.tenant(reservation.consumer()) {
            self.parts.force(&share, additional as u64);
        }
        self.fair.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if let Some(share) = self.tenant(reservation.consumer()) {
            self.parts.shrink(&share, shrink as u64);
        }
        self.fair.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let share = self.merge_bytes();
        if is_merge(reservation.consumer()) && reservation.size() + additional > share {
            return resources_err!(
                "{} may have {share} bytes, and wants {additional} more",
                reservation.consumer().name()
            );
        }
        let Some(share) = self.tenant(reservation.consumer()) else {
            return self.fair.try_grow(reservation, additional);
        };
        // A refusal lets an operator that can spill do so.
        match self.parts.grow(&share, additional as u64) {
            Ok(()) => {}
            Err(Refused::Quota(most)) => return resources_err!("{}", errors::memory(most)),
            Err(Refused::Part(most)) => return resources_err!("{}", errors::part_of_memory(most)),
        }
        let grown = self.fair.try_grow(reservation, additional);
        grown.inspect_err(|_| self.parts.shrink(&share, additional as u64))
    }

    fn reserved(&self) -> usize {
        self.fair.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.fair.memory_limit()
    }
}

impl fmt::Display for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fair.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn merges_share_the_memory() {
        let pool: Arc<dyn MemoryPool> = Arc::new(QueryPool::new(1_600, 100));
        let merge = |at: usize| MemoryConsumer::new(format!("{MERGE}[{at}]")).register(&pool);
        let first = merge(0);
        first.try_grow(1_600).unwrap();
        first.shrink(700);
        let second = merge(1);
        second.try_grow(700).unwrap();
        // The first keeps what it has, and gets no more.
        first.try_grow(1).unwrap_err();
        second.shrink(600);
        second.try_grow(500).unwrap();
        first.shrink(400);
        // So much is free, but it is more than its share.
        second.try_grow(201).unwrap_err();
        drop(second);
        first.try_grow(1_000).unwrap();
        first.free();
        // Other consumers do not change the bound, and what a sort has reserved is always allowed.
        let other = MemoryConsumer::new("other").register(&pool);
        other.try_grow(1_500).unwrap();
        let many: Vec<_> = (0..20).map(merge).collect();
        many[0].try_grow(101).unwrap_err();
        many[0].try_grow(100).unwrap();
    }
}
