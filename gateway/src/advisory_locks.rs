//! Advisory locks: numbers that sessions of a database lock, by agreement among its clients.
//!
//! ```text
//! pg_advisory_lock()       SessionLocks ──▶ LockTable: holders and waiters of each number
//! pg_advisory_xact_lock()               ──▶ the same, and in the transaction's log
//! COMMIT, ROLLBACK, an error            ──▶ what the log has is released; ROLLBACK TO releases what came after
//! the session's end                     ──▶ all is released
//! ```
//!
//! As in PostgreSQL, a number is locked shared or exclusively, any number of times, by the session or by its
//! transaction, and a session is never in its own way. Who waits is served in the order of arrival; only who holds the
//! number already goes before those that wait for it. A request that would wait for itself, by way of other sessions,
//! is refused at once (40P01). A database does not see the locks of another. The locks are in memory, at most
//! [`LOCKS_MAX`]; while several databases have some, each may have an equal part.

use crate::{
    lock::Mutex,
    pg::error::{Result, SqlError, SqlState},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

mod table;

use table::{LockTable, Taken, Waiter};

/// Numbers that are locked or waited for, at most, by all sessions of a server; each takes about 200 bytes.
const LOCKS_MAX: usize = 65_536;

/// The advisory locks of a server.
#[derive(Debug)]
pub struct AdvisoryLocks {
    table: Mutex<LockTable>,
    locks_max: usize,
}

/// A number that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockKey {
    /// The first number, or the upper half of the only one: `classid`.
    pub(crate) class: u32,
    /// The second number, or the lower half: `objid`.
    pub(crate) object: u32,
    /// How many numbers there are, 1 or 2: `objsubid`.
    pub(crate) numbers: u8,
}

/// How a number is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    /// Whether it excludes all others, or only those that do.
    pub(crate) exclusive: bool,
    /// Whether it is until the transaction's end, or until it is unlocked.
    pub(crate) of_transaction: bool,
}

/// A lock, or a wait for one, as `pg_locks` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockInfo {
    /// The tenant's OID; `None` in the operator's database.
    pub(crate) database: Option<u32>,
    /// The number.
    pub(crate) key: LockKey,
    /// The session's `pg_backend_pid()`.
    pub(crate) process_id: i32,
    /// Whether it is exclusive.
    pub(crate) exclusive: bool,
    /// Since when the session waits for it, in microseconds; `None` once it has it.
    pub(crate) waits_since_micros: Option<i64>,
}

/// The advisory locks of a session, until this is dropped or they are [released](Self::release).
#[derive(Debug)]
pub(crate) struct SessionLocks {
    locks: Arc<AdvisoryLocks>,
    owner: u64,
    database: Option<u32>,
    process_id: i32,
    /// The length of the transaction's log.
    logged: AtomicUsize,
}

/// A session's locks, which are released with the session, whatever else still knows them.
#[derive(Debug)]
pub(crate) struct OwnLocks(pub(crate) Arc<SessionLocks>);

impl Drop for OwnLocks {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// What a transaction has locked, which is released with it.
#[derive(Debug)]
pub(crate) struct UntilEnd(pub(crate) Arc<SessionLocks>);

impl Drop for UntilEnd {
    fn drop(&mut self) {
        self.0.end_transaction();
    }
}

impl Default for AdvisoryLocks {
    fn default() -> Self {
        Self { table: Mutex::default(), locks_max: LOCKS_MAX }
    }
}

impl LockKey {
    /// Of one number.
    pub(crate) fn of(number: i64) -> Self {
        let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
        Self { class: u32::from_be_bytes([a, b, c, d]), object: u32::from_be_bytes([e, f, g, h]), numbers: 1 }
    }

    /// Of two.
    pub(crate) fn of_two(first: i32, second: i32) -> Self {
        Self { class: first.cast_unsigned(), object: second.cast_unsigned(), numbers: 2 }
    }
}

/// PostgreSQL's name of a mode.
pub(crate) fn mode_name(exclusive: bool) -> &'static str {
    if exclusive { "ExclusiveLock" } else { "ShareLock" }
}

impl AdvisoryLocks {
    /// The locks of a new session: none yet.
    pub(crate) fn session(self: &Arc<Self>, database: Option<u32>, process_id: i32) -> SessionLocks {
        let mut table = self.table.lock();
        table.last_owner += 1;
        SessionLocks {
            locks: Arc::clone(self),
            owner: table.last_owner,
            database,
            process_id,
            logged: AtomicUsize::new(0),
        }
    }

    /// All locks, and all waits for one.
    pub(crate) fn all(&self) -> Vec<LockInfo> {
        let table = self.table.lock();
        let mut all = Vec::with_capacity(table.count);
        for ((database, key), lock) in &table.locks {
            let info = |process_id, exclusive, waits_since_micros| LockInfo {
                database: *database,
                key: *key,
                process_id,
                exclusive,
                waits_since_micros,
            };
            for holder in &lock.holders {
                let modes = [false, true].into_iter().filter(|exclusive| holder.has(*exclusive));
                all.extend(modes.map(|exclusive| info(holder.process_id, exclusive, None)));
            }
            let waits = |waiter: &Waiter| info(waiter.process_id, waiter.request.exclusive, Some(waiter.since_micros));
            all.extend(lock.waiters.iter().map(waits));
        }
        all.sort_by_key(|info| (info.database, info.key, info.process_id, info.exclusive));
        all
    }

    /// The sessions that a session of a database waits for.
    pub(crate) fn blocking(&self, database: Option<u32>, process_id: i32) -> Vec<i32> {
        let table = self.table.lock();
        let mut blocking = Vec::new();
        for (_, lock) in table.locks.iter().filter(|((of, _), _)| *of == database) {
            for waiter in lock.waiters.iter().filter(|waiter| waiter.process_id == process_id) {
                blocking.extend(lock.blockers(waiter.owner, waiter.request, Some(waiter.ticket)).map(|(_, pid)| pid));
            }
        }
        blocking
    }
}

impl SessionLocks {
    /// Locks a number if nobody is in the way; whether it did.
    ///
    /// # Errors
    /// 53200 beyond [`LOCKS_MAX`].
    pub(crate) fn try_lock(&self, key: LockKey, request: Request) -> Result<bool> {
        let mut table = self.locks.table.lock();
        Ok(matches!(table.take(self, key, request, None)?, Taken::Granted))
    }

    /// Locks a number, and waits for it as long as it takes, or as `timeout` says.
    ///
    /// # Errors
    /// 40P01 where that would be for ever; 55P03 after `timeout`; 53200 beyond [`LOCKS_MAX`].
    pub(crate) async fn lock(
        &self,
        key: LockKey,
        request: Request,
        now_micros: i64,
        timeout: Option<Duration>,
    ) -> Result<()> {
        let (ticket, granted) = {
            let mut table = self.locks.table.lock();
            match table.take(self, key, request, Some(now_micros))? {
                Taken::Granted | Taken::Refused => return Ok(()),
                Taken::Waits(ticket, granted) => (ticket, granted),
            }
        };
        let mut waiting = Waiting { session: self, key, request, ticket, granted: false };
        let granted = match timeout {
            None => granted.await.is_ok(),
            Some(timeout) => match tokio::time::timeout(timeout, granted).await {
                Ok(granted) => granted.is_ok(),
                Err(_) => {
                    let message = "canceling statement due to lock timeout";
                    return Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message));
                }
            },
        };
        waiting.granted = true;
        if granted {
            self.locks.table.lock().count_log(self);
            return Ok(());
        }
        Err(SqlError::new(SqlState::ADMIN_SHUTDOWN, "the session has ended"))
    }

    /// Unlocks a number once that the session has locked; false if it has not.
    pub(crate) fn unlock(&self, key: LockKey, exclusive: bool) -> bool {
        self.locks.table.lock().release(self, key, Request { exclusive, of_transaction: false })
    }

    /// Unlocks all that the session has locked, but not what its transaction has.
    pub(crate) fn unlock_all(&self) {
        self.locks.table.lock().release_all(self, false);
    }

    /// How much the transaction has locked: for [`rollback_to`](Self::rollback_to).
    pub(crate) fn mark(&self) -> usize {
        self.logged.load(Ordering::Relaxed)
    }

    /// Releases what the transaction has locked since.
    pub(crate) fn rollback_to(&self, mark: usize) {
        if self.mark() <= mark {
            return;
        }
        let mut table = self.locks.table.lock();
        let since = match table.logs.get_mut(&self.owner) {
            Some(log) if log.len() > mark => log.split_off(mark),
            _ => Vec::new(),
        };
        for (key, exclusive) in since {
            table.release(self, key, Request { exclusive, of_transaction: true });
        }
        if mark == 0 {
            table.logs.remove(&self.owner);
        }
        self.logged.store(mark, Ordering::Relaxed);
    }

    /// Releases what the transaction has locked.
    pub(crate) fn end_transaction(&self) {
        self.rollback_to(0);
    }

    /// Releases all.
    pub(crate) fn release(&self) {
        self.end_transaction();
        self.locks.table.lock().release_all(self, true);
    }
}

impl Drop for SessionLocks {
    fn drop(&mut self) {
        self.release();
    }
}

/// A wait that is given up when this is dropped before it has the lock.
struct Waiting<'a> {
    session: &'a SessionLocks,
    key: LockKey,
    request: Request,
    ticket: u64,
    granted: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.granted {
            self.session.locks.table.lock().give_up(self.session, self.key, self.request, self.ticket);
        }
    }
}

#[cfg(test)]
mod tests;
