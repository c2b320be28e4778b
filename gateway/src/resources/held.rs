//! Memory that statements and sessions hold without a query, counted by tenant once it is more than a little: as memory
//! of queries what a statement is about to write, what a transaction has written, rows of a load; as memory of sessions
//! prepared statements, values of portals, rows that cursors keep.

use crate::{
    pg::error::Result,
    shares::{Share, turns::poll_for},
};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use std::sync::Arc;

/// Bytes that are not counted: most statements write less, and need not ask.
const FREE_BYTES: usize = 128 << 10;
/// What is asked for at a time.
const STEP_BYTES: usize = 256 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pool: Option<Arc<dyn MemoryPool>>,
    /// Whose it is; `None` for that of the statement which first holds something.
    share: Option<Arc<Share>>,
    reservation: Option<MemoryReservation>,
}

impl Held {
    /// Nothing yet, of a pool; without one nothing is counted.
    pub(crate) fn of(pool: Option<Arc<dyn MemoryPool>>) -> Self {
        Self { pool, ..Self::default() }
    }

    /// The same of a tenant, whichever thread holds it.
    pub(crate) fn of_share(pool: Arc<dyn MemoryPool>, share: Arc<Share>) -> Self {
        Self { pool: Some(pool), share: Some(share), reservation: None }
    }

    /// Holds so many bytes now, more than before or fewer, for rows to write.
    ///
    /// # Errors
    /// 53200 where there are no more.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<()> {
        self.resize_for(bytes, "Write fewer rows in a statement or a transaction, or COPY them.")
    }

    /// The same for other things, with what to do where there are no more.
    ///
    /// # Errors
    /// 53200.
    pub(crate) fn resize_for(&mut self, bytes: usize, hint: &str) -> Result<()> {
        self.reserve(bytes).map_err(|error| error.with_hint(hint))
    }

    fn reserve(&mut self, bytes: usize) -> Result<()> {
        let wanted = if bytes <= FREE_BYTES { 0 } else { bytes.div_ceil(STEP_BYTES) * STEP_BYTES };
        let has = self.reservation.as_ref().map_or(0, MemoryReservation::size);
        if wanted == has {
            return Ok(());
        }
        let Some(pool) = &self.pool else { return Ok(()) };
        let register = || poll_for(self.share.as_ref(), || MemoryConsumer::new("held").register(pool));
        let reservation = self.reservation.get_or_insert_with(register);
        Ok(reservation.try_resize(wanted)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg::error::SqlState;
    use datafusion::execution::memory_pool::FairSpillPool;

    #[test]
    fn what_is_held_is_bounded_and_given_back() {
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(1 << 20));
        let (mut one, mut two) = (Held::of(Some(Arc::clone(&pool))), Held::of(Some(Arc::clone(&pool))));
        one.resize(FREE_BYTES).unwrap();
        assert_eq!(pool.reserved(), 0);
        one.resize(600 << 10).unwrap();
        assert_eq!(pool.reserved(), 768 << 10);
        two.resize(200 << 10).unwrap();
        let error = two.resize(300 << 10).unwrap_err();
        assert_eq!((error.state, pool.reserved()), (SqlState::OUT_OF_MEMORY, 1 << 20));
        one.resize(10).unwrap();
        two.resize(300 << 10).unwrap();
        drop((one, two));
        assert_eq!(pool.reserved(), 0);
    }
}
