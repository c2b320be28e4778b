//! The table of advisory locks: who holds which numbers, who waits for them, and whether a wait would be for itself.

use super::{LockKey, Request, SessionLocks, mode_name};
use crate::pg::error::{Result, SqlError, SqlState};
use std::{
    collections::{BTreeSet, HashMap, VecDeque, hash_map::Entry},
    fmt::Write as _,
    sync::atomic::Ordering,
};
use tokio::sync::oneshot;

pub(super) type Place = (Option<u32>, LockKey);

#[derive(Debug, Default)]
pub(super) struct LockTable {
    pub(super) last_owner: u64,
    pub(super) last_ticket: u64,
    /// Holders and waiters of all numbers, and the same by database, for those that have some.
    pub(super) count: usize,
    pub(super) by_database: HashMap<Option<u32>, usize>,
    pub(super) locks: HashMap<Place, Lock>,
    /// The numbers that each session holds.
    pub(super) held: HashMap<u64, BTreeSet<LockKey>>,
    /// The numbers that each session waits for: several where its statement runs on several threads.
    pub(super) waiting: HashMap<u64, Vec<LockKey>>,
    /// What each session's transaction has locked, in order.
    pub(super) logs: HashMap<u64, Vec<(LockKey, bool)>>,
}

#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) holders: Vec<Holder>,
    /// In the order of arrival, but for those that hold it already.
    pub(super) waiters: Vec<Waiter>,
}

#[derive(Debug)]
pub(super) struct Holder {
    pub(super) owner: u64,
    pub(super) process_id: i32,
    /// How often the session has locked it: shared, exclusively.
    pub(super) session: [u64; 2],
    /// Whether its transaction has.
    pub(super) transaction: [bool; 2],
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: u64,
    pub(super) owner: u64,
    pub(super) process_id: i32,
    pub(super) request: Request,
    pub(super) since_micros: i64,
    pub(super) granted: oneshot::Sender<()>,
}

/// What became of a request.
pub(super) enum Taken {
    Granted,
    Waits(u64, oneshot::Receiver<()>),
    Refused,
}

impl Holder {
    pub(super) fn has(&self, exclusive: bool) -> bool {
        self.session[usize::from(exclusive)] > 0 || self.transaction[usize::from(exclusive)]
    }

    /// Whether it is in the way of a request of another.
    pub(super) fn excludes(&self, request: Request) -> bool {
        self.has(true) || (request.exclusive && self.has(false))
    }

    /// Counts one more.
    pub(super) fn add(&mut self, request: Request) {
        let at = usize::from(request.exclusive);
        if request.of_transaction {
            self.transaction[at] = true;
        } else {
            self.session[at] += 1;
        }
    }
}

impl Lock {
    pub(super) fn holder(&mut self, owner: u64) -> Option<&mut Holder> {
        self.holders.iter_mut().find(|holder| holder.owner == owner)
    }

    /// Who is in the way of a request: its session, and its process. `ticket` is that of the request, if it waits.
    pub(super) fn blockers(
        &self,
        owner: u64,
        request: Request,
        ticket: Option<u64>,
    ) -> impl Iterator<Item = (u64, i32)> {
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
    pub(super) fn take(
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
    pub(super) fn check_count(&mut self, session: &SessionLocks, key: LockKey) -> Result<()> {
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

    pub(super) fn add_count(&mut self, database: Option<u32>, by: isize) {
        self.count = self.count.saturating_add_signed(by);
        let own = self.by_database.entry(database).or_default();
        *own = own.saturating_add_signed(by);
        if *own == 0 {
            self.by_database.remove(&database);
        }
    }

    pub(super) fn grant(
        &mut self,
        database: Option<u32>,
        key: LockKey,
        (owner, process_id): (u64, i32),
        request: Request,
    ) {
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

    pub(super) fn count_log(&self, session: &SessionLocks) {
        let logged = self.logs.get(&session.owner).map_or(0, Vec::len);
        session.logged.store(logged, Ordering::Relaxed);
    }

    /// Takes back what a session has locked once; false if it has not.
    pub(super) fn release(&mut self, session: &SessionLocks, key: LockKey, request: Request) -> bool {
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
    pub(super) fn release_all(&mut self, session: &SessionLocks, transaction: bool) {
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
    pub(super) fn after_release(&mut self, session: &SessionLocks, key: LockKey) {
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
    pub(super) fn serve(&mut self, database: Option<u32>, key: LockKey) {
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
    pub(super) fn give_up(&mut self, session: &SessionLocks, key: LockKey, request: Request, ticket: u64) {
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
    pub(super) fn tidy(&mut self, database: Option<u32>, key: LockKey) {
        if self.locks.get(&(database, key)).is_some_and(|lock| lock.holders.is_empty() && lock.waiters.is_empty()) {
            self.locks.remove(&(database, key));
        }
    }

    /// The waits from a session back to itself, if there are such.
    pub(super) fn circle(&self, database: Option<u32>, from: u64) -> Option<Vec<Edge>> {
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

    pub(super) fn add_waiter(&mut self, database: Option<u32>, key: LockKey, waiter: Waiter) {
        self.waiting.entry(waiter.owner).or_default().push(key);
        self.locks.entry((database, key)).or_default().waiters.push(waiter);
        self.add_count(database, 1);
    }

    /// Takes a waiter out of its queue.
    pub(super) fn take_waiter(&mut self, database: Option<u32>, key: LockKey, at: usize) -> Option<Waiter> {
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
pub(super) struct Edge {
    pub(super) waits: i32,
    pub(super) exclusive: bool,
    pub(super) place: Place,
    pub(super) by: i32,
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
