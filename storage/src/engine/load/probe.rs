//! Checks whether keys of a load are already in its table.
//!
//! *During the load* each buffer is looked up: in memtables, and in the segments whose key range overlaps. *At the end*
//! only later changes are checked: segments that are newer than the first lookup, and the memtables. That lookup goes
//! the other way round, from the new keys to the load's segments, so it costs as much as what changed, not as much as
//! was loaded.
//!
//! A row whose cells the GC rules have all condemned does not exist for clients. It is deleted, in a commit of its own,
//! which nobody can observe.

use super::buffer::Sorted;
use crate::{
    Commit, Error, KeyRange, Mutation, Result, RowKey, TableName, Validation,
    engine::{
        deletion_vector::{DeletionVector, Position},
        descriptor::Descriptor,
        fetch::Fetched,
        maintain::Maintenance,
        manifest::SegmentId,
        memtable::{Memtable, bounds},
        segment::Segment,
        state::{MemtableLookup, State, Table},
        tablet::reaches_into,
        writer::{Queued, Request},
    },
    row,
};
use bytes::Bytes;
use imbl::ordmap::DiffItem;
use std::{collections::HashSet, ops::Range, sync::Arc};
use tokio::sync::oneshot;

/// Keys that are looked up together.
const KEYS_MAX: usize = 4_096;
/// Attempts to delete a row without live cells while others write it.
const DELETE_ATTEMPTS_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Probe {
    maintenance: Arc<Maintenance>,
    name: TableName,
    descriptor: Arc<Descriptor>,
    /// Segments of the table that were looked up already; `None` before the first buffer.
    looked_up: Option<HashSet<SegmentId>>,
    /// The load's own segments, once all are written.
    own: Vec<Arc<Segment>>,
}

/// What memtables hold of the rows of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memtables {
    /// None of them.
    Absent,
    /// A deleted one: the memtables must be flushed first.
    Deleted,
    /// A live one.
    Present,
}

impl Probe {
    pub(super) fn new(maintenance: Arc<Maintenance>, name: TableName, descriptor: Arc<Descriptor>) -> Self {
        Self { maintenance, name, descriptor, looked_up: None, own: Vec::new() }
    }

    /// The table in this state, which must be unchanged since the load was begun.
    ///
    /// # Errors
    /// [`Error::NoTable`]; [`Error::Conflict`] if it was changed.
    pub(super) fn table<'s>(&self, state: &'s State) -> Result<&'s Table> {
        let table = state.table(&self.name)?;
        // A table that was changed and changed back counts as changed: rules that held meanwhile are past rules now.
        if Arc::ptr_eq(&table.descriptor, &self.descriptor) { Ok(table) } else { Err(Error::Conflict) }
    }

    /// Looks up sorted rows.
    ///
    /// # Errors
    /// [`Error::RowExists`]; errors of reading files.
    pub(super) fn look_up(&mut self, rows: &Sorted) -> Result<()> {
        let state = self.maintenance.shared.published.load_full();
        let table = self.table(&state)?;
        self.looked_up.get_or_insert_with(|| segments_of(table).map(|segment| segment.meta().id).collect());
        let hull = KeyRange::new(Bytes::copy_from_slice(rows.first()), KeyRange::point(rows.last()).end);
        let mut found: Vec<usize> = Vec::new();
        // From the first row with a key that is not less.
        let from = |key: &[u8]| partition_point(rows.len(), |at| rows.key(at) < key);
        for memtable in memtables(table) {
            for (key, slot) in memtable.slots.range::<_, [u8]>(bounds(&hull)) {
                let at = from(key);
                if slot.row.is_some() && at < rows.len() && *rows.key(at) == **key {
                    found.push(at);
                }
            }
        }
        for tablet in table.tablets.of_range(&hull) {
            for segment in &tablet.segments {
                let meta = segment.meta();
                let start = from(&meta.first).max(from(&tablet.range.start));
                let end = from(&KeyRange::point(&meta.last).end.unwrap_or_default());
                let end = end.min(tablet.range.end.as_ref().map_or(rows.len(), |end| from(end)));
                if start >= end {
                    continue;
                }
                let positions = segment.resolve((start..end).map(|at| rows.key(at)))?;
                let live = positions.into_iter().zip(start..end).filter_map(|(position, at)| {
                    position.is_some_and(|position| !table.is_dead(meta.id, position)).then_some(at)
                });
                found.extend(live);
            }
        }
        found.into_iter().try_for_each(|at| self.must_be_empty(rows.key(at), Some(rows.number(at))))
    }

    /// Deletes a row without live cells.
    ///
    /// # Errors
    /// [`Error::RowExists`] for a row with live cells.
    fn must_be_empty(&self, key: &[u8], number: Option<u64>) -> Result<()> {
        let row_key = RowKey::stored(Bytes::copy_from_slice(key))?;
        let shared = &self.maintenance.shared;
        for _ in 0..DELETE_ATTEMPTS_MAX {
            let (state, now_micros) = (shared.published.load_full(), shared.clock.now());
            let table = self.table(&state)?;
            let (row, as_of) = match table.look_up_memtables(key) {
                MemtableLookup::Deleted => return Ok(()),
                MemtableLookup::Row(row, as_of) => (row, as_of),
                MemtableLookup::Absent => match table.locate(key)? {
                    None => return Ok(()),
                    Some(location) => (location.segment.row(location.position)?, Some(location.segment.meta().stamp)),
                },
            };
            let live = row::live(&table.descriptor.schema, table.cells(&row, as_of), now_micros);
            if !live.is_empty() {
                return Err(Error::RowExists { key: row_key, number });
            }
            let commit_micros = state.stamp;
            let fetched = Fetched::none(&state);
            let held = shared.pins.hold(state, now_micros, false);
            let pin = crate::Pin { commit_micros, now_micros, state: held };
            let mut commit = Commit::row(self.name.clone(), row_key.clone(), vec![Mutation::DeleteFromRow]);
            commit.validation = Some(Validation { pin, rows: vec![(self.name.clone(), row_key.clone())] });
            match self.ask(|reply| Request::Commit(commit, fetched, reply)) {
                Err(Error::Conflict) => {}
                done => return done.map(drop),
            }
        }
        Err(Error::Conflict)
    }

    /// Sends a request to the log thread and waits for the answer.
    fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<Result<T>>) -> Request) -> Result<T> {
        let closed = || Error::Unavailable("it was closed".into());
        let (reply, answer) = oneshot::channel();
        let queue = self.maintenance.queue().ok_or_else(closed)?;
        queue.blocking_send(Queued { request: request(reply), room: None }).map_err(|_| closed())?;
        drop(queue);
        answer.blocking_recv().map_err(|_| closed())?
    }

    /// Sets the load's own segments.
    pub(super) fn set_own(&mut self, own: Vec<Arc<Segment>>) {
        self.own = own;
    }

    /// The load's own segments.
    pub(super) fn own(&self) -> &[Arc<Segment>] {
        &self.own
    }

    /// Drops the load's own segments.
    pub(super) fn forget_own(&mut self) {
        self.own.clear();
    }

    /// Whether the table has new segments, which were not looked up and may have rows of the load.
    pub(super) fn has_new_segments(&self, table: &Table) -> bool {
        self.new_segments(table).next().is_some()
    }

    /// New segments, each with the range in which its keys count.
    fn new_segments<'t>(&'t self, table: &'t Table) -> impl Iterator<Item = (&'t Arc<Segment>, &'t KeyRange)> {
        let tablets =
            table.tablets.iter().flat_map(|tablet| tablet.segments.iter().map(move |one| (one, &tablet.range)));
        tablets.filter(|(segment, range)| {
            let meta = segment.meta();
            let is_known = self.looked_up.as_ref().is_some_and(|known| known.contains(&meta.id));
            let overlaps = |own: &Arc<Segment>| {
                own.meta().first <= meta.last && own.meta().last >= meta.first && reaches_into(own.meta(), range)
            };
            !is_known && self.own.iter().any(overlaps)
        })
    }

    /// Looks up the keys of new segments.
    ///
    /// # Errors
    /// [`Error::RowExists`]; errors of reading files.
    pub(super) fn look_up_new_segments(&mut self, table: &Table) -> Result<()> {
        let looked_up: Vec<SegmentId> = segments_of(table).map(|segment| segment.meta().id).collect();
        for (segment, range) in self.new_segments(table) {
            let dead = table.deletion_vectors.get(&segment.meta().id).cloned().unwrap_or_default();
            for own in self.own.iter().filter(|own| reaches_into(own.meta(), range)) {
                let hull = KeyRange::new(own.meta().first.bytes().clone(), KeyRange::point(&own.meta().last).end);
                let positions = segment.positions(&range.intersect(&hull))?;
                for key in common(segment, positions, &dead, own)? {
                    self.must_be_empty(&key, None)?;
                }
            }
        }
        self.looked_up.get_or_insert_default().extend(looked_up);
        Ok(())
    }

    /// What memtables hold of the load's rows; a row without live cells is [deleted](Self::must_be_empty).
    ///
    /// # Errors
    /// [`Error::RowExists`]; errors of reading files.
    pub(super) fn look_up_memtables(&self, table: &Table) -> Result<Memtables> {
        if self.is_range_deleted(table)? {
            return Ok(Memtables::Deleted);
        }
        let mut said = Memtables::Absent;
        for memtable in memtables(table) {
            for own in &self.own {
                let hull = KeyRange::new(own.meta().first.bytes().clone(), KeyRange::point(&own.meta().last).end);
                let mut slots = memtable.slots.range::<_, [u8]>(bounds(&hull)).peekable();
                while slots.peek().is_some() {
                    let keys: Vec<&RowKey> = slots.by_ref().take(KEYS_MAX).map(|(key, _)| key).collect();
                    let positions = own.resolve(keys.iter().map(|key| &key[..]))?;
                    for (key, _) in keys.into_iter().zip(positions).filter(|(_, position)| position.is_some()) {
                        self.must_be_empty(key, None)?;
                        said = Memtables::Deleted;
                    }
                }
            }
        }
        Ok(said)
    }

    /// Changes of the load's rows in memtables since an earlier state, after which no memtable was flushed.
    ///
    /// # Errors
    /// Errors of reading files.
    pub(super) fn changed_since(&self, then: &Table, now: &Table) -> Result<Memtables> {
        if self.is_range_deleted(now)? {
            return Ok(Memtables::Deleted);
        }
        let frozen_now = now.frozen.as_ref().map(|frozen| &frozen.memtable);
        let same_frozen = match (&then.frozen, &now.frozen) {
            (Some(then), Some(now)) => Arc::ptr_eq(then, now),
            (None, None) => true,
            _ => false,
        };
        let empty = Memtable::default();
        let pairs = match (same_frozen, frozen_now) {
            (true, _) => vec![(&then.active, &now.active)],
            // The active memtable was frozen meanwhile.
            (false, Some(frozen)) => vec![(&then.active, frozen), (&empty, &now.active)],
            (false, None) => vec![(&empty, &now.active)],
        };
        for (then, now) in pairs {
            for item in then.slots.diff(&now.slots) {
                let (key, slot) = match item {
                    DiffItem::Add(key, slot) | DiffItem::Update { new: (key, slot), .. } => (key, Some(slot)),
                    DiffItem::Remove(key, _) => (key, None),
                };
                for own in &self.own {
                    if own.find(key)?.is_some() {
                        let is_row = slot.is_some_and(|slot| slot.row.is_some());
                        return Ok(if is_row { Memtables::Present } else { Memtables::Deleted });
                    }
                }
            }
        }
        Ok(Memtables::Absent)
    }

    /// Whether memtables have a deletion of a range with rows of the load.
    fn is_range_deleted(&self, table: &Table) -> Result<bool> {
        for (range, _) in memtables(table).flat_map(|memtable| &memtable.ranges) {
            for own in self.own.iter().filter(|own| reaches_into(own.meta(), range)) {
                if !own.positions(range)?.is_empty() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

fn segments_of(table: &Table) -> impl Iterator<Item = &Arc<Segment>> {
    table.tablets.iter().flat_map(|tablet| &tablet.segments)
}

fn memtables(table: &Table) -> impl Iterator<Item = &Memtable> {
    [Some(&table.active), table.frozen.as_ref().map(|frozen| &frozen.memtable)].into_iter().flatten()
}

/// The keys at live positions of a segment that are also in the load's segment `own`.
fn common(segment: &Segment, positions: Range<Position>, dead: &DeletionVector, own: &Segment) -> Result<Vec<RowKey>> {
    let mut found = Vec::new();
    let mut live = dead.live_runs(positions).flatten().peekable();
    while live.peek().is_some() {
        let keys: Vec<RowKey> = live.by_ref().take(KEYS_MAX).map(|at| segment.key_at(at)).collect::<Result<_>>()?;
        let locations = own.resolve(keys.iter().map(|key| &key[..]))?;
        found.extend(keys.into_iter().zip(locations).filter_map(|(key, location)| location.map(|_| key)));
    }
    Ok(found)
}

/// The first index below `length` for which `is_before` is false.
fn partition_point(length: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, length);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
