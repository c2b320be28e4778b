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
    collections::{BTreeSet, HashMap, VecDeque, hash_map::Entry},
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::oneshot;

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

type Place = (Option<u32>, LockKey);

#[derive(Debug, Default)]
struct LockTable {
    last_owner: u64,
    last_ticket: u64,
    /// Holders and waiters of all numbers, and the same by database, for those that have some.
    count: usize,
    by_database: HashMap<Option<u32>, usize>,
    locks: HashMap<Place, Lock>,
    /// The numbers that each session holds.
    held: HashMap<u64, BTreeSet<LockKey>>,
    /// The numbers that each session waits for: several where its statement runs on several threads.
    waiting: HashMap<u64, Vec<LockKey>>,
    /// What each session's transaction has locked, in order.
    logs: HashMap<u64, Vec<(LockKey, bool)>>,
}

#[derive(Debug, Default)]
struct Lock {
    holders: Vec<Holder>,
    /// In the order of arrival, but for those that hold it already.
    waiters: Vec<Waiter>,
}

#[derive(Debug)]
struct Holder {
    owner: u64,
    process_id: i32,
    /// How often the session has locked it: shared, exclusively.
    session: [u64; 2],
    /// Whether its transaction has.
    transaction: [bool; 2],
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    owner: u64,
    process_id: i32,
    request: Request,
    since_micros: i64,
    granted: oneshot::Sender<()>,
}

/// What became of a request.
enum Taken {
    Granted,
    Waits(u64, oneshot::Receiver<()>),
    Refused,
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

impl Holder {
    fn has(&self, exclusive: bool) -> bool {
        self.session[usize::from(exclusive)] > 0 || self.transaction[usize::from(exclusive)]
    }

    /// Whether it is in the way of a request of another.
    fn excludes(&self, request: Request) -> bool {
        self.has(true) || (request.exclusive && self.has(false))
    }

    /// Counts one more.
    fn add(&mut self, request: Request) {
        let at = usize::from(request.exclusive);
        if request.of_transaction {
            self.transaction[at] = true;
        } else {
            self.session[at] += 1;
        }
    }
}

impl Lock {
    fn holder(&mut self, owner: u64) -> Option<&mut Holder> {
        self.holders.iter_mut().find(|holder| holder.owner == owner)
    }

    /// Who is in the way of a request: its session, and its process. `ticket` is that of the request, if it waits.
    fn blockers(&self, owner: u64, request: Request, ticket: Option<u64>) -> impl Iterator<Item = (u64, i32)> {
        let own = self.holders.iter().find(|holder| holder.owner == owner);
        let holders = self.holders.iter().filter(move |holder| holder.owner != owner && holder.excludes(request));
        let ahead = self.waiters.iter().take_while(move |waiter| Some(waiter.ticket) != ticket);
        // Who waits for this session cannot be served before it.
        let waits_for_own = move |waiter: &Waiter| own.is_some_and(|own| own.excludes(waiter.request));
        let waiters = ahead.filter(move |waiter| {
            waiter.owner != owner && (waiter.request.exclusive || request.exclusive) && !waits_for_own(waiter)
        });
        holders.map(|holder| (holder.owner, holder.process_id)).chain(waiters.map(|one| (one.owner, one.process_id)))
    }
}

impl LockTable {
    /// Locks a number for a session; with `wait_micros`, the time, it waits if another is in the way.
    fn take(
        &mut self,
        session: &SessionLocks,
        key: LockKey,
        request: Request,
        wait_micros: Option<i64>,
    ) -> Result<Taken> {
        let owner = session.owner;
        let lock = self.locks.entry((session.database, key)).or_default();
        let is_holder = lock.holder(owner).is_some();
        if lock.holder(owner).is_some_and(|own| own.has(request.exclusive))
            || lock.blockers(owner, request, None).next().is_none()
        {
            if !is_holder {
                self.check_count(session, key)?;
            }
            self.grant(session.database, key, (owner, session.process_id), request);
            self.count_log(session);
            return Ok(Taken::Granted);
        }
        let Some(since_micros) = wait_micros else { return Ok(Taken::Refused) };
        self.check_count(session, key)?;
        self.last_ticket += 1;
        let (ticket, (granted, receiver)) = (self.last_ticket, oneshot::channel());
        let waiter = Waiter { ticket, owner, process_id: session.process_id, request, since_micros, granted };
        self.add_waiter(session.database, key, waiter);
        if let Some(circle) = self.circle(session.database, owner) {
            self.give_up(session, key, request, ticket);
            return Err(deadlock(&circle));
        }
        Ok(Taken::Waits(ticket, receiver))
    }

    /// 53200 where the table has no room for another entry of a database.
    fn check_count(&mut self, session: &SessionLocks, key: LockKey) -> Result<()> {
        let (max, database) = (session.locks.locks_max, session.database);
        let others = self.by_database.keys().filter(|other| **other != database).count();
        let part = max / (others + 1);
        let own = self.by_database.get(&database).copied().unwrap_or_default();
        if self.count < max && own < part {
            return Ok(());
        }
        self.tidy(database, key);
        let message = match part {
            part if part < max => {
                format!("sessions of this database lock more than {part} numbers while others lock some")
            }
            _ => format!("sessions lock more than {max} numbers together"),
        };
        Err(SqlError::new(SqlState::OUT_OF_MEMORY, message).with_hint("Unlock what is no longer needed."))
    }

    fn add_count(&mut self, database: Option<u32>, by: isize) {
        self.count = self.count.saturating_add_signed(by);
        let own = self.by_database.entry(database).or_default();
        *own = own.saturating_add_signed(by);
        if *own == 0 {
            self.by_database.remove(&database);
        }
    }

    fn grant(&mut self, database: Option<u32>, key: LockKey, (owner, process_id): (u64, i32), request: Request) {
        let lock = self.locks.entry((database, key)).or_default();
        let is_new = lock.holder(owner).is_none();
        if is_new {
            lock.holders.push(Holder { owner, process_id, session: [0; 2], transaction: [false; 2] });
        }
        let Some(holder) = lock.holder(owner) else { return };
        let is_logged = request.of_transaction && !holder.transaction[usize::from(request.exclusive)];
        holder.add(request);
        if is_logged {
            self.logs.entry(owner).or_default().push((key, request.exclusive));
        }
        if is_new {
            self.held.entry(owner).or_default().insert(key);
            self.add_count(database, 1);
        }
    }

    fn count_log(&self, session: &SessionLocks) {
        let logged = self.logs.get(&session.owner).map_or(0, Vec::len);
        session.logged.store(logged, Ordering::Relaxed);
    }

    /// Takes back what a session has locked once; false if it has not.
    fn release(&mut self, session: &SessionLocks, key: LockKey, request: Request) -> bool {
        let Some(lock) = self.locks.get_mut(&(session.database, key)) else { return false };
        let Some(holder) = lock.holder(session.owner) else { return false };
        let at = usize::from(request.exclusive);
        let had = if request.of_transaction {
            std::mem::take(&mut holder.transaction[at])
        } else {
            let had = holder.session[at] > 0;
            holder.session[at] = holder.session[at].saturating_sub(1);
            had
        };
        self.after_release(session, key);
        had
    }

    /// Releases all that a session has locked; with `transaction`, what its transaction has too.
    fn release_all(&mut self, session: &SessionLocks, transaction: bool) {
        let keys: Vec<LockKey> = self.held.get(&session.owner).into_iter().flatten().copied().collect();
        for key in keys {
            if let Some(holder) =
                self.locks.get_mut(&(session.database, key)).and_then(|lock| lock.holder(session.owner))
            {
                holder.session = [0; 2];
                if transaction {
                    holder.transaction = [false; 2];
                }
            }
            self.after_release(session, key);
        }
    }

    /// Removes a holder that holds nothing, and serves those that wait.
    fn after_release(&mut self, session: &SessionLocks, key: LockKey) {
        let place = (session.database, key);
        let Some(lock) = self.locks.get_mut(&place) else { return };
        let before = lock.holders.len();
        lock.holders.retain(|holder| holder.has(false) || holder.has(true));
        if lock.holders.len() < before {
            self.add_count(session.database, -1);
            if let Some(held) = self.held.get_mut(&session.owner) {
                held.remove(&key);
                if held.is_empty() {
                    self.held.remove(&session.owner);
                }
            }
        }
        self.serve(session.database, key);
    }

    /// Gives the number to those that wait for it, as far as nobody is in their way.
    fn serve(&mut self, database: Option<u32>, key: LockKey) {
        let place = (database, key);
        loop {
            let Some(lock) = self.locks.get_mut(&place) else { return };
            let is_free =
                |waiter: &Waiter| lock.blockers(waiter.owner, waiter.request, Some(waiter.ticket)).next().is_none();
            let Some(at) = lock.waiters.iter().position(is_free) else { break };
            let Some(waiter) = self.take_waiter(database, key, at) else { return };
            self.grant(database, key, (waiter.owner, waiter.process_id), waiter.request);
            // Who does not listen any more gives it up itself.
            let _ = waiter.granted.send(());
        }
        self.tidy(database, key);
    }

    /// Takes back a request that waits, or that was served meanwhile.
    fn give_up(&mut self, session: &SessionLocks, key: LockKey, request: Request, ticket: u64) {
        let Some(lock) = self.locks.get_mut(&(session.database, key)) else { return };
        if let Some(at) = lock.waiters.iter().position(|waiter| waiter.ticket == ticket) {
            self.take_waiter(session.database, key, at);
            self.serve(session.database, key);
            return;
        }
        if request.of_transaction
            && let Some(log) = self.logs.get_mut(&session.owner)
        {
            log.retain(|logged| *logged != (key, request.exclusive));
            if log.is_empty() {
                self.logs.remove(&session.owner);
            }
        }
        self.release(session, key, request);
    }

    /// Removes the entry of a number that nobody holds or waits for.
    fn tidy(&mut self, database: Option<u32>, key: LockKey) {
        if self.locks.get(&(database, key)).is_some_and(|lock| lock.holders.is_empty() && lock.waiters.is_empty()) {
            self.locks.remove(&(database, key));
        }
    }

    /// The waits from a session back to itself, if there are such.
    fn circle(&self, database: Option<u32>, from: u64) -> Option<Vec<Edge>> {
        let mut reached: HashMap<u64, (u64, Edge)> = HashMap::new();
        let mut open = VecDeque::from([from]);
        while let Some(owner) = open.pop_front() {
            for key in self.waiting.get(&owner).into_iter().flatten() {
                let Some(lock) = self.locks.get(&(database, *key)) else { continue };
                for waiter in lock.waiters.iter().filter(|waiter| waiter.owner == owner) {
                    let (waits, exclusive) = (waiter.process_id, waiter.request.exclusive);
                    for (blocker, by) in lock.blockers(owner, waiter.request, Some(waiter.ticket)) {
                        if let Entry::Vacant(entry) = reached.entry(blocker) {
                            entry.insert((owner, Edge { waits, exclusive, place: (database, *key), by }));
                            open.push_back(blocker);
                        }
                    }
                }
            }
        }
        let (mut owner, mut path) = (from, Vec::new());
        loop {
            let (before, edge) = reached.remove(&owner)?;
            path.push(edge);
            if before == from {
                path.reverse();
                return Some(path);
            }
            owner = before;
        }
    }

    fn add_waiter(&mut self, database: Option<u32>, key: LockKey, waiter: Waiter) {
        self.waiting.entry(waiter.owner).or_default().push(key);
        self.locks.entry((database, key)).or_default().waiters.push(waiter);
        self.add_count(database, 1);
    }

    /// Takes a waiter out of its queue.
    fn take_waiter(&mut self, database: Option<u32>, key: LockKey, at: usize) -> Option<Waiter> {
        let waiter = self.locks.get_mut(&(database, key)).map(|lock| lock.waiters.remove(at))?;
        if let Some(keys) = self.waiting.get_mut(&waiter.owner) {
            if let Some(at) = keys.iter().position(|waits| *waits == key) {
                keys.swap_remove(at);
            }
            if keys.is_empty() {
                self.waiting.remove(&waiter.owner);
            }
        }
        self.add_count(database, -1);
        Some(waiter)
    }
}

/// A session that waits for another.
struct Edge {
    waits: i32,
    exclusive: bool,
    place: Place,
    by: i32,
}

/// 40P01
fn deadlock(circle: &[Edge]) -> SqlError {
    let mut detail = String::new();
    for Edge { waits, exclusive, place: (database, key), by } in circle {
        let place = format!("[{},{},{},{}]", database.unwrap_or_default(), key.class, key.object, key.numbers);
        let mode = mode_name(*exclusive);
        let separator = if detail.is_empty() { "" } else { "\n" };
        let _ = write!(
            detail,
            "{separator}Process {waits} waits for {mode} on advisory lock {place}; blocked by process {by}."
        );
    }
    SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected").with_detail(detail)
}

#[cfg(test)]
mod tests;
