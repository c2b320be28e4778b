//! Cursors of a session: queries under way, whose rows `FETCH` takes some at a time.
//!
//! A cursor keeps its query's stream, which reads at its own pin: it sees nothing that is written later, and one
//! declared `WITH HOLD` simply goes on after its transaction. Without `SCROLL` nothing is kept but the row where it
//! stands. With it, rows that have been read are kept for the way back, up to [`SCROLL_BYTES_MAX`].

use crate::{
    context::introspection::CursorInfo,
    pg::error::{Result, SqlError, SqlState},
    resources::Held,
    rights::Needs,
    shares::Share,
    sql::ast::session::Direction,
};
use arrow::{
    array::{RecordBatch, UInt64Array},
    compute::take_record_batch,
    datatypes::SchemaRef,
};
use datafusion::{
    error::DataFusionError,
    execution::{SendableRecordBatchStream, memory_pool::MemoryPool},
    physical_plan::stream::RecordBatchStreamAdapter,
};
use futures::{StreamExt, TryStreamExt, stream};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Cursors of a session, at most.
const CURSORS_MAX: usize = 256;
/// Bytes of rows that a cursor keeps for the way back.
const SCROLL_BYTES_MAX: usize = 64 << 20;

/// The cursors of a session, by name.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    open: BTreeMap<String, Cursor>,
    /// The same for the session's own statements to see.
    told: Told,
    /// Where the memory of kept rows is counted, and whose it is.
    memory: Option<(Arc<dyn MemoryPool>, Arc<Share>)>,
}

/// What is known of the open cursors, by name.
pub(crate) type Told = Arc<crate::lock::Mutex<BTreeMap<String, CursorInfo>>>;

#[derive(Debug)]
struct Cursor {
    schema: SchemaRef,
    rows: Arc<Mutex<Rows>>,
    told: CursorInfo,
    /// How many savepoints there were when it was declared; `None` when its transaction is over.
    depth: Option<usize>,
    /// The rights that its rows need.
    needs: Arc<Needs>,
}

impl Cursors {
    /// None yet; rows that they keep are counted in a pool.
    pub(crate) fn counted(memory: Arc<dyn MemoryPool>, share: Arc<Share>) -> Self {
        Self { memory: Some((memory, share)), ..Self::default() }
    }

    /// Opens a cursor.
    ///
    /// # Errors
    /// 42P03 for a name that is taken; 54000 beyond [`CURSORS_MAX`].
    pub(crate) fn declare(
        &mut self,
        name: String,
        (stream, needs): (SendableRecordBatchStream, Arc<Needs>),
        told: CursorInfo,
        depth: usize,
    ) -> Result<()> {
        self.check_free(&name)?;
        if self.open.len() >= CURSORS_MAX {
            let message = format!("a session has at most {CURSORS_MAX} cursors");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_hint("Close one."));
        }
        let schema = stream.schema();
        let held = self.memory.clone().map(|(pool, share)| Held::of_share(pool, share)).unwrap_or_default();
        let rows = Arc::new(Mutex::new(Rows::new(stream, told.scroll, held)));
        self.open.insert(name, Cursor { schema, rows, told, depth: Some(depth), needs });
        self.tell();
        Ok(())
    }

    /// 42P03 for a name that is taken.
    pub(crate) fn check_free(&self, name: &str) -> Result<()> {
        if self.open.contains_key(name) {
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")));
        }
        Ok(())
    }

    /// The columns of a cursor.
    ///
    /// # Errors
    /// 34000.
    pub(crate) fn schema(&self, name: &str) -> Result<SchemaRef> {
        self.get(name).map(|cursor| cursor.schema.clone())
    }

    /// The rights that a cursor's rows need: each FETCH checks them.
    ///
    /// # Errors
    /// 34000.
    pub(crate) fn needs(&self, name: &str) -> Result<Arc<Needs>> {
        self.get(name).map(|cursor| cursor.needs.clone())
    }

    /// The rows that a FETCH gives: read as they are asked for.
    ///
    /// # Errors
    /// 34000; 55006 for a cursor that another FETCH is reading; 55000 for the way back without SCROLL.
    pub(crate) async fn fetch(&self, name: &str, direction: Direction) -> Result<SendableRecordBatchStream> {
        let cursor = self.get(name)?;
        let rows = cursor.rows.clone().try_lock_owned().map_err(|_| {
            SqlError::new(SqlState::OBJECT_IN_USE, format!("cursor \"{name}\" is read by another statement"))
        })?;
        let rows = Rows::go(rows, direction).await?;
        Ok(Box::pin(RecordBatchStreamAdapter::new(cursor.schema.clone(), rows)))
    }

    /// Closes a cursor; `None` closes all.
    ///
    /// # Errors
    /// 34000.
    pub(crate) fn close(&mut self, name: Option<&str>) -> Result<()> {
        match name {
            None => self.open.clear(),
            Some(name) => {
                self.get(name)?;
                self.open.remove(name);
            }
        }
        self.tell();
        Ok(())
    }

    /// The transaction was committed: cursors that hold go on.
    pub(crate) fn commit(&mut self) {
        self.open.retain(|_, cursor| cursor.told.hold);
        self.open.values_mut().for_each(|cursor| cursor.depth = None);
        self.tell();
    }

    /// The transaction was forgotten, with the cursors that it declared.
    pub(super) fn rollback(&mut self) {
        self.open.retain(|_, cursor| cursor.depth.is_none());
        self.tell();
    }

    /// What came behind the savepoint of this number was forgotten.
    pub(super) fn rollback_to(&mut self, savepoint: usize) {
        self.open.retain(|_, cursor| cursor.depth.is_none_or(|depth| depth <= savepoint));
        self.tell();
    }

    /// The savepoint of this number, and those behind it, are no more.
    pub(super) fn release(&mut self, savepoint: usize) {
        for cursor in self.open.values_mut() {
            cursor.depth = cursor.depth.map(|depth| depth.min(savepoint));
        }
    }

    /// What `pg_cursors` shows of them.
    pub(super) fn told(&self) -> Told {
        self.told.clone()
    }

    fn tell(&self) {
        let told = self.open.iter().map(|(name, cursor)| (name.clone(), cursor.told.clone())).collect();
        *self.told.lock() = told;
    }

    fn get(&self, name: &str) -> Result<&Cursor> {
        self.open
            .get(name)
            .ok_or_else(|| SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist")))
    }
}

/// The rows of a cursor.
struct Rows {
    stream: SendableRecordBatchStream,
    ended: bool,
    /// The batch that was read last, and how many of its rows were passed: without SCROLL.
    batch: Option<(RecordBatch, usize)>,
    /// Every batch, with the number of rows up to its end: with SCROLL.
    kept: Option<Vec<(RecordBatch, u64)>>,
    kept_bytes: usize,
    /// The memory of these.
    held: Held,
    /// The row where it stands, from 1; 0 before the first.
    at: u64,
    /// Whether it stands behind the last row.
    behind: bool,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("at", &self.at).field("behind", &self.behind).finish_non_exhaustive()
    }
}

type Batches = stream::BoxStream<'static, Result<RecordBatch, DataFusionError>>;

impl Rows {
    fn new(stream: SendableRecordBatchStream, scroll: bool, held: Held) -> Self {
        let kept = scroll.then(Vec::new);
        Self { stream, ended: false, batch: None, kept, kept_bytes: 0, held, at: 0, behind: false }
    }

    /// Goes where it is sent, and gives the rows that are met.
    async fn go(mut rows: OwnedMutexGuard<Self>, direction: Direction) -> Result<Batches> {
        if rows.kept.is_some() {
            let batches = rows.go_among_kept(direction).await?;
            return Ok(stream::iter(batches.into_iter().map(Ok)).boxed());
        }
        let (skip, count) = match direction {
            Direction::Forward(count) => (0, count),
            Direction::Relative(0) => {
                let current = (!rows.behind).then(|| rows.current()).flatten();
                return Ok(stream::iter(current.into_iter().map(Ok)).boxed());
            }
            Direction::Relative(by) if by > 0 => (by.unsigned_abs() - 1, 1),
            Direction::Absolute(to) if to > 0 && to.unsigned_abs() > rows.at => (to.unsigned_abs() - rows.at - 1, 1),
            Direction::Absolute(0) if rows.at == 0 && !rows.behind => (0, 0),
            _ => {
                let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
                return Err(SqlError::new(state, "cursor can only scan forward")
                    .with_hint("Declare it with SCROLL option to enable backward scan."));
            }
        };
        let passed = stream::try_unfold((rows, skip, count), |(mut rows, skip, count)| async move {
            let mut skip = skip;
            while skip > 0 {
                match rows.read(skip).await? {
                    Some(batch) => skip -= batch.num_rows() as u64,
                    None => return Ok(None),
                }
            }
            if count == 0 {
                return Ok(None);
            }
            let batch = rows.read(count).await?;
            Ok::<_, DataFusionError>(batch.map(|batch| {
                let left = if count == u64::MAX { count } else { count - batch.num_rows() as u64 };
                (batch, (rows, 0, left))
            }))
        });
        Ok(passed.boxed())
    }

    /// The row where it stands.
    fn current(&self) -> Option<RecordBatch> {
        let (batch, passed) = self.batch.as_ref()?;
        passed.checked_sub(1).map(|row| batch.slice(row, 1))
    }

    /// The next rows, at most `count`; `None` at the end.
    async fn read(&mut self, most: u64) -> Result<Option<RecordBatch>, DataFusionError> {
        loop {
            if let Some((batch, passed)) = &mut self.batch
                && *passed < batch.num_rows()
            {
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                let rows = batch.slice(*passed, most.min(batch.num_rows() - *passed));
                *passed += rows.num_rows();
                self.at += rows.num_rows() as u64;
                return Ok(Some(rows));
            }
            match self.pull().await? {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => self.batch = Some((batch, 0)),
                None => {
                    self.behind = true;
                    return Ok(None);
                }
            }
        }
    }

    async fn pull(&mut self) -> Result<Option<RecordBatch>, DataFusionError> {
        if self.ended {
            return Ok(None);
        }
        let batch = self.stream.try_next().await?;
        self.ended = batch.is_none();
        Ok(batch)
    }

    /// Keeps rows up to a number, as far as there are any; how many there are then.
    async fn keep(&mut self, wanted: u64) -> Result<u64> {
        loop {
            let there = self.kept.as_ref().and_then(|kept| kept.last()).map_or(0, |(_, end)| *end);
            if there >= wanted {
                return Ok(there);
            }
            let Some(batch) = self.pull().await.map_err(SqlError::from)? else { return Ok(there) };
            self.kept_bytes += batch.get_array_memory_size();
            if self.kept_bytes > SCROLL_BYTES_MAX {
                let message = format!("a cursor with SCROLL keeps at most {} MiB of rows", SCROLL_BYTES_MAX >> 20);
                return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                    .with_hint("Declare it without SCROLL, which keeps none."));
            }
            let kept_bytes = self.kept_bytes;
            self.held.resize_for(kept_bytes, "Declare it without SCROLL, which keeps none.")?;
            let end = there + batch.num_rows() as u64;
            if let Some(kept) = &mut self.kept {
                kept.push((batch, end));
            }
        }
    }

    async fn go_among_kept(&mut self, direction: Direction) -> Result<Vec<RecordBatch>> {
        let here = if self.behind { self.keep(u64::MAX).await?.saturating_add(1) } else { self.at };
        let single = match direction {
            Direction::Forward(count) => {
                let there = self.keep(here.saturating_add(count)).await?;
                let last = here.saturating_add(count).min(there);
                self.stand(here.saturating_add(count), there);
                return self.kept_rows(here + 1, last, false);
            }
            Direction::Backward(count) => {
                let first = here.saturating_sub(count).max(1);
                self.stand(here.saturating_sub(count), u64::MAX);
                return if here == 0 { Ok(Vec::new()) } else { self.kept_rows(first, here - 1, true) };
            }
            Direction::Absolute(to) if to >= 0 => to.unsigned_abs(),
            Direction::Absolute(to) => (self.keep(u64::MAX).await? + 1).saturating_sub(to.unsigned_abs()),
            Direction::Relative(by) => here.saturating_add_signed(by),
        };
        let there = self.keep(single).await?;
        self.stand(single, there);
        if (1..=there).contains(&single) { self.kept_rows(single, single, false) } else { Ok(Vec::new()) }
    }

    /// Stands on a row, before the first, or behind the last.
    fn stand(&mut self, on: u64, there: u64) {
        self.behind = on > there;
        self.at = on.min(there);
    }

    /// Kept rows from and to a number, in their order or backwards.
    fn kept_rows(&self, first: u64, last: u64, back: bool) -> Result<Vec<RecordBatch>> {
        let mut found = Vec::new();
        let mut begin = 0;
        for (batch, end) in self.kept.iter().flatten() {
            let (from, to) = (first.max(begin + 1), last.min(*end));
            if from <= to {
                let rows = batch.slice((from - begin - 1) as usize, (to - from + 1) as usize);
                found.push(if back { backwards(&rows)? } else { rows });
            }
            begin = *end;
        }
        if back {
            found.reverse();
        }
        Ok(found)
    }
}

/// The rows in the opposite order.
fn backwards(rows: &RecordBatch) -> Result<RecordBatch> {
    let order: UInt64Array = (0..rows.num_rows() as u64).rev().collect();
    Ok(take_record_batch(rows, &order)?)
}
