//! Installs the results of the flush and compaction threads in the state. No IO.
//!
//! Rows were written while these threads worked, so the new positions of some rows are already dead: for a flushed
//! memtable, rows that the next memtable has; for a compaction, rows that died in its inputs meanwhile.

use super::{
    compact::PositionMap,
    coordination::Coordination,
    deletion_vector::{DeletionVector, Position},
    manifest::{SegmentId, SegmentMeta},
    memtable::Memtable,
    segment::Segment,
    state::{ChangedRows, State, Table},
    tablet::Tablets,
};
use crate::{KeyRange, RowKey};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        mpsc::{Receiver, Sender},
    },
};

/// A change to be installed.
#[derive(Debug)]
pub(crate) enum Installable {
    /// Segments of the frozen memtables.
    Flushed(FlushedTables),
    /// A compacted tablet.
    Compacted(CompactedTablet),
    /// Tablets with the same rows and other boundaries, by table number.
    BoundariesMoved(BTreeMap<u32, Tablets>),
    /// Nothing: the sender waits for the commits that were in progress.
    Nothing,
    /// A load that is about to be committed to the manifest.
    Loading(Standstill),
}

/// A pause of the log thread: it reports when it has stopped, and waits for the rows of a load, or until the sender is
/// dropped.
#[derive(Debug)]
pub(crate) struct Standstill {
    /// Signalled once.
    pub(crate) reached: Sender<()>,
    /// The loaded rows, which the manifest names.
    pub(crate) loaded: Receiver<LoadedRows>,
}

/// New rows of a table in segments of their own.
#[derive(Debug)]
pub(crate) struct LoadedRows {
    /// The table's number.
    pub(crate) table: u32,
    /// The segments, by key.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// The load's stamp, in microseconds.
    pub(crate) stamp: i64,
    /// Which rows changed.
    pub(crate) changed_rows: Arc<ChangedRows>,
}

impl LoadedRows {
    /// The range from the first to the last key of a segment.
    pub(crate) fn range_of(meta: &SegmentMeta) -> KeyRange {
        KeyRange::new(meta.first.bytes().clone(), KeyRange::point(&meta.last).end)
    }
}

/// The frozen memtables of all tables as segments.
#[derive(Debug)]
pub(crate) struct FlushedTables {
    /// The last frame before they were frozen.
    pub(crate) sequence: u64,
    /// By table number.
    pub(crate) tables: Vec<(u32, Vec<NewDelta>)>,
    /// Which rows changed.
    pub(crate) changed_rows: Arc<ChangedRows>,
}

/// A memtable's rows of one tablet, or of several consecutive ones.
#[derive(Debug)]
pub(crate) struct NewDelta {
    /// The segment.
    pub(crate) segment: Arc<Segment>,
    /// Its keys, by position.
    pub(crate) keys: Vec<RowKey>,
}

/// A compacted tablet.
#[derive(Debug)]
pub(crate) struct CompactedTablet {
    /// The table's number.
    pub(crate) table: u32,
    /// The tablet's keys.
    pub(crate) range: KeyRange,
    /// The inputs.
    pub(crate) inputs: Vec<CompactedInput>,
    /// The new segments, by key.
    pub(crate) outputs: Vec<Arc<Segment>>,
    /// New positions of the inputs' rows.
    pub(crate) position_map: PositionMap,
}

/// A segment that went into a compaction.
#[derive(Debug)]
pub(crate) struct CompactedInput {
    /// The segment.
    pub(crate) id: SegmentId,
    /// Its positions that lie in the tablet.
    pub(crate) positions: Range<Position>,
    /// The positions that were dead when the compaction began.
    pub(crate) dead: DeletionVector,
}

/// Installs a change; returns the sequence up to which segments hold everything now, if that changed.
pub(crate) fn install(state: &mut State, coordination: &Coordination, installable: &Installable) -> Option<u64> {
    match installable {
        Installable::Flushed(flushed) => {
            install_flush(state, flushed);
            coordination.flushed();
            Some(flushed.sequence)
        }
        Installable::Compacted(compacted) => {
            install_compaction(state, compacted);
            coordination.change_job(|frozen| install_compaction(frozen, compacted));
            None
        }
        Installable::BoundariesMoved(moved) => {
            install_boundaries(state, moved);
            coordination.change_job(|frozen| install_boundaries(frozen, moved));
            None
        }
        Installable::Nothing | Installable::Loading(_) => None,
    }
}

/// Installs the rows of a load.
pub(crate) fn install_load(state: &mut State, coordination: &Coordination, loaded: &LoadedRows) {
    put_loaded(state, loaded);
    // Rows that were fetched for commits in progress may be outdated, and commits that relied on the absence of a row
    // must notice.
    state.flushes += 1;
    state.push_changes(Arc::clone(&loaded.changed_rows));
    coordination.change_job(|frozen| put_loaded(frozen, loaded));
}

fn put_loaded(state: &mut State, loaded: &LoadedRows) {
    state.stamp = state.stamp.max(loaded.stamp);
    let Some((name, _)) = state.table_by_number(loaded.table) else { return };
    let name = name.clone();
    let table = state.tables.get_mut(&name).expect("its name was just found");
    table.tablets = table.tablets.with_loaded(&loaded.segments);
}

fn install_flush(state: &mut State, flushed: &FlushedTables) {
    for (number, deltas) in &flushed.tables {
        // The table was dropped meanwhile; its segments belong to nobody.
        let Some((name, _)) = state.table_by_number(*number) else { continue };
        let name = name.clone();
        let table = state.tables.get_mut(&name).expect("its name was just found");
        for NewDelta { segment, keys } in deltas {
            let mut dead = DeletionVector::default();
            for position in superseded(&table.active, keys) {
                dead.insert(position);
            }
            if dead.count() > 0 {
                table.deletion_vectors.insert(segment.meta().id, dead);
            }
        }
        let segments = deltas.iter().map(|delta| Arc::clone(&delta.segment)).collect();
        table.tablets = table.tablets.with_deltas(segments);
    }
    let names: Vec<_> = state.tables.keys().cloned().collect();
    for name in names {
        if state.tables.get(&name).is_some_and(|table| table.frozen.is_some()) {
            let table = state.tables.get_mut(&name).expect("it was just there");
            table.frozen = None;
            forget_past_rules(table);
        }
    }
    state.flushes += 1;
    state.push_changes(Arc::clone(&flushed.changed_rows));
}

/// The positions of those keys, ascending, that have a newer version in the memtable.
fn superseded<'a>(active: &'a Memtable, keys: &'a [RowKey]) -> impl Iterator<Item = u32> + 'a {
    let mut slots = active.slots.keys().peekable();
    keys.iter().zip(0..).filter_map(move |(key, position)| {
        while slots.next_if(|slot| *slot < key).is_some() {}
        slots.peek().is_some_and(|slot| *slot == key).then_some(position)
    })
}

fn install_compaction(state: &mut State, compacted: &CompactedTablet) {
    let Some((name, _)) = state.table_by_number(compacted.table) else { return };
    let name = name.clone();
    let table = state.tables.get_mut(&name).expect("its name was just found");
    let inputs: Vec<SegmentId> = compacted.inputs.iter().map(|input| input.id).collect();
    let Some(tablets) = table.tablets.with_compacted(&compacted.range, &inputs, compacted.outputs.clone()) else {
        return;
    };
    table.tablets = tablets;
    let mut dead = vec![DeletionVector::default(); compacted.outputs.len()];
    for (at, input) in compacted.inputs.iter().enumerate() {
        let now = table.deletion_vectors.get(&input.id).cloned().unwrap_or_default();
        compacted.position_map.remap(at, &input.dead, &now, &mut dead);
        if table.tablets.names(input.id) {
            // Another tablet still reads its own part of the segment.
            table.mark_range_dead(input.id, input.positions.clone());
        } else {
            table.deletion_vectors.remove(&input.id);
        }
    }
    for (output, dead) in compacted.outputs.iter().zip(dead) {
        if dead.count() > 0 {
            table.deletion_vectors.insert(output.meta().id, dead);
        }
    }
    forget_past_rules(table);
}

fn install_boundaries(state: &mut State, moved: &BTreeMap<u32, Tablets>) {
    for (number, tablets) in moved {
        let Some((name, _)) = state.table_by_number(*number) else { continue };
        let name = name.clone();
        let table = state.tables.get_mut(&name).expect("its name was just found");
        let gone: Vec<SegmentId> = table.deletion_vectors.keys().copied().filter(|id| !tablets.names(*id)).collect();
        gone.iter().for_each(|id| drop(table.deletion_vectors.remove(id)));
        table.tablets = tablets.clone();
    }
}

/// Forgets the past rules that are older than every segment.
fn forget_past_rules(table: &mut Table) {
    if table.past_rules.is_empty() {
        return;
    }
    let frozen = table.frozen.iter().map(|frozen| frozen.stamp);
    let segments = table.tablets.iter().flat_map(|tablet| tablet.segments.iter().map(|segment| segment.meta().stamp));
    let oldest = frozen.chain(segments).min().unwrap_or(i64::MAX);
    table.past_rules.retain(|past| past.at_micros > oldest);
}
