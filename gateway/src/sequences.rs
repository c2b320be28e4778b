//! Numbers of sequences: `nextval`, `currval`, `lastval`, `setval`, and defaults of columns.
//!
//! How far a sequence has come stands in the store ([`TenantStore::advance`]). A gateway takes numbers from there by
//! blocks and gives them to all of its sessions, one by one; what is left of a block when it stops is a gap, as
//! PostgreSQL has them after a crash. A block is larger each time, up to [`BLOCK_MAX`], so that a large load seldom
//! waits for the store.

use crate::lock::{Mutex, MutexGuard};
use crate::pg::error::{Result, SqlError, SqlState};
use keyspan_catalog::{Sequence, SequenceState, TenantStore, sequence::SequenceValues};
use std::{
    collections::HashMap,
    sync::{LazyLock, mpsc},
};
use tokio::runtime::{Builder, Runtime};

/// Numbers in the first block of a sequence, as many as PostgreSQL logs ahead.
const BLOCK_MIN: u64 = 32;
/// Numbers in a block, at most.
const BLOCK_MAX: u64 = 4_096;
/// Sequences with a block at a time. Beyond, all blocks are given up.
const BLOCKS_MAX: usize = 10_000;
/// Sequences whose last value a session remembers. Beyond this number it forgets all.
const REMEMBERED_MAX: usize = 10_000;

/// The blocks of a gateway.
#[derive(Debug, Default)]
pub struct Sequences(Mutex<HashMap<u32, Block>>);

#[derive(Clone, Copy, Debug)]
struct Block {
    left: Option<SequenceValues>,
    size: u64,
    /// Of the sequence that it was taken of: increment, bounds, whether it wraps. One of others is given up.
    of: (i64, i64, i64, bool),
}

/// The last value that a session took from each sequence.
#[derive(Debug, Default)]
pub struct LastValues(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    by_sequence: HashMap<u32, i64>,
    newest: Option<u32>,
}

impl Sequences {
    /// The next number. It may wait for the store and block the caller's thread: callers are functions, which cannot give way.
    ///
    /// # Errors
    /// 2200H at the sequence's end; 42P01 when it was dropped; the store's.
    pub fn next(&self, rows: &TenantStore, sequence: &Sequence) -> Result<i64> {
        let size = {
            let mut blocks = lock(&self.0);
            if blocks.get(&sequence.id).is_some_and(|block| block.of != ways(sequence)) {
                blocks.remove(&sequence.id);
            }
            match blocks.get_mut(&sequence.id) {
                Some(Block { left: left @ Some(_), .. }) => {
                    if let Some(numbers) = left.take() {
                        *left = behind(sequence, numbers);
                        return Ok(numbers.first);
                    }
                    BLOCK_MIN
                }
                Some(Block { size, .. }) => (*size * 2).min(BLOCK_MAX),
                None => BLOCK_MIN,
            }
        };
        let (store, of) = (rows.clone(), sequence.clone());
        let numbers = waited(async move { store.advance(&of, |state| of.next(state, size)).await })?;
        let mut blocks = lock(&self.0);
        if blocks.len() >= BLOCKS_MAX {
            blocks.clear();
        }
        let (left, of) = (behind(sequence, numbers), ways(sequence));
        blocks.insert(sequence.id, Block { left, size, of });
        Ok(numbers.first)
    }

    /// The last number that was given, and whether one was: what a sequence shows when it is read as a table. Numbers
    /// of a block that are left count as not given.
    ///
    /// # Errors
    /// The store's.
    pub async fn state(&self, rows: &TenantStore, sequence: &Sequence) -> Result<SequenceState> {
        let left = || lock(&self.0).get(&sequence.id).and_then(|block| block.left);
        let before = left();
        let stored = rows.sequence_state(sequence).await?;
        // A number that was given meanwhile, from this block or another, makes `before` older than what is stored.
        let given = left().filter(|_| before.is_some()).and_then(|left| left.first.checked_sub(sequence.increment));
        let last = given.map(|last| SequenceState { last, called: true });
        Ok(last.or(stored).unwrap_or(SequenceState { last: sequence.start, called: false }))
    }

    /// Gives what is left of the block back, if nobody has taken another one since; the state of the sequence then.
    ///
    /// # Errors
    /// The store's.
    pub fn give_back(&self, rows: &TenantStore, sequence: &Sequence) -> Result<SequenceState> {
        let left = lock(&self.0).remove(&sequence.id).and_then(|block| block.left);
        let (store, of) = (rows.clone(), sequence.clone());
        let (start, increment) = (sequence.start, sequence.increment);
        let before = move |stored: Option<SequenceState>| {
            let state = stored.unwrap_or(SequenceState { last: start, called: false });
            let end = |left: SequenceValues| {
                let more = i128::from(left.count - 1) * i128::from(increment);
                i128::from(left.first) + more == i128::from(state.last)
            };
            // The number before the first that is left was given.
            let given = left.filter(|left| end(*left)).and_then(|left| left.first.checked_sub(increment));
            given.map_or(state, |last| SequenceState { last, called: true })
        };
        waited(async move {
            store
                .advance(&of, |stored| {
                    let state = before(stored);
                    Ok((state, state))
                })
                .await
        })
    }

    /// [`state`](Self::state), for which the caller's thread waits.
    ///
    /// # Errors
    /// The store's.
    pub fn state_now(&self, rows: &TenantStore, sequence: &Sequence) -> Result<SequenceState> {
        let left = lock(&self.0).get(&sequence.id).and_then(|block| block.left);
        let (store, of) = (rows.clone(), sequence.clone());
        let stored = waited(async move { store.sequence_state(&of).await })?;
        let given = left.and_then(|left| left.first.checked_sub(sequence.increment));
        let last = given.map(|last| SequenceState { last, called: true });
        Ok(last.or(stored).unwrap_or(SequenceState { last: sequence.start, called: false }))
    }

    /// `setval`: the next number is the one after `last`, or `last` itself.
    ///
    /// # Errors
    /// 22003 for a number that the sequence does not have; the store's.
    pub fn set(&self, rows: &TenantStore, sequence: &Sequence, last: i64, called: bool) -> Result<()> {
        let state = sequence.set(last, called)?;
        let (store, of) = (rows.clone(), sequence.clone());
        waited(async move { store.advance(&of, |_| Ok((state, ()))).await })?;
        lock(&self.0).remove(&sequence.id);
        Ok(())
    }
}

impl LastValues {
    /// Remembers a number that the session was given.
    pub fn remember(&self, sequence: u32, number: i64, newest: bool) {
        let mut last = lock(&self.0);
        if last.by_sequence.len() >= REMEMBERED_MAX {
            last.by_sequence.clear();
        }
        last.by_sequence.insert(sequence, number);
        if newest {
            last.newest = Some(sequence);
        }
    }

    /// `currval`
    ///
    /// # Errors
    /// 55000 before the session was given one.
    pub fn current(&self, sequence: &Sequence) -> Result<i64> {
        lock(&self.0).by_sequence.get(&sequence.id).copied().ok_or_else(|| {
            let message = format!("currval of sequence \"{}\" is not yet defined in this session", sequence.name);
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    /// `lastval`
    ///
    /// # Errors
    /// 55000 before the session was given one.
    pub fn newest(&self) -> Result<i64> {
        let last = lock(&self.0);
        last.newest.and_then(|newest| last.by_sequence.get(&newest).copied()).ok_or_else(|| {
            let message = "lastval is not yet defined in this session";
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    /// `DISCARD SEQUENCES`
    pub fn forget(&self) {
        *lock(&self.0) = Last::default();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept is whole after each step.
    mutex.lock()
}

/// What decides which numbers come.
fn ways(sequence: &Sequence) -> (i64, i64, i64, bool) {
    (sequence.increment, sequence.min, sequence.max, sequence.cycle)
}

/// The numbers without the first of them.
fn behind(sequence: &Sequence, numbers: SequenceValues) -> Option<SequenceValues> {
    let first = numbers.first.checked_add(sequence.increment)?;
    (numbers.count > 1).then(|| SequenceValues { first, count: numbers.count - 1 })
}

/// Waits for the store, whose work a thread of sequences does: the caller's may be one that runs other sessions, or a
/// query's.
fn waited<T: Send + 'static>(work: impl Future<Output = keyspan_catalog::Result<T>> + Send + 'static) -> Result<T> {
    static THREAD: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
        Builder::new_multi_thread().worker_threads(1).thread_name("keyspan-sequence").enable_all().build()
    });
    let failed = |what: &str| SqlError::new(SqlState::INTERNAL_ERROR, format!("the thread of sequences {what}"));
    let thread = THREAD.as_ref().map_err(|error| failed(&error.to_string()))?;
    let (answer, answered) = mpsc::sync_channel(1);
    thread.spawn(async move {
        // Nobody waits any more only if the caller's thread is gone.
        let _ = answer.send(work.await);
    });
    Ok(answered.recv().map_err(|_| failed("panicked"))??)
}
