//! The internals of an engine, for operators, and the size of ranges of keys without reading their rows.

use super::{Engine, history, memtable, ranges::positions_in, segment::Segment, state::Table, tablet::Tablet};
use crate::{
    KeyRange, Result, TableName,
    inspect::{Inspection, MemoryInfo, SegmentInfo, SegmentKind, SpanInfo, TabletInfo, WorkInfo},
};
use std::sync::atomic::{AtomicU64, Ordering};

impl Engine {
    /// See [`Store::inspect`](crate::Store::inspect).
    pub(super) fn inspection(&self) -> Inspection {
        let state = self.shared.published.load_full();
        let (mut segments, mut tablets) = (Vec::new(), Vec::new());
        for (name, table) in &state.tables {
            for tablet in table.tablets.iter() {
                tablets.push(tablet_info(name, table, tablet));
                segments.extend(tablet.segments.iter().map(|segment| segment_info(name, table, tablet, segment)));
            }
        }
        let (footer_cache_bytes, page_cache_bytes) = self.maintenance.caches.bytes();
        let memory = MemoryInfo {
            budget_bytes: self.budget.total_bytes().max(self.memory_bytes),
            memtable_bytes: state.active_bytes(),
            frozen_bytes: state.frozen_bytes(),
            row_cache_bytes: self.shared.rows.bytes(),
            page_cache_bytes,
            footer_cache_bytes,
            log_bytes: self.shared.log_bytes.load(Ordering::Relaxed),
        };
        Inspection {
            segments,
            tablets,
            compactions: self.maintenance.compactions.infos(),
            memory,
            work: self.work(),
            pins: self.shared.pins.count(),
            requests: self.maintenance.blobs.requests(),
            stopped: self.shared.stopped.get().cloned(),
        }
    }

    /// See [`Store::span`](crate::Store::span).
    pub(super) fn span_info(&self, name: &TableName, rows: &KeyRange) -> Result<SpanInfo> {
        let state = self.shared.published.load_full();
        let span = span_of(state.table(name)?, rows)?;
        let past = state.tables.get(&name.history_table());
        let past = past.map(|past| span_of(past, &history::range(rows))).transpose()?.unwrap_or_default();
        Ok(SpanInfo { history_bytes: past.bytes, ..span })
    }

    fn work(&self) -> WorkInfo {
        let (work, compactions) = (&self.shared.work, &self.maintenance.compactions);
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (footer_cache, page_cache) = self.maintenance.caches.usage();
        WorkInfo {
            commits: of(&work.commits),
            log_writes: of(&work.log_writes),
            log_bytes: of(&work.log_bytes),
            log_nanos: of(&work.log_nanos),
            flushes: of(&work.flushes),
            compactions: compactions.begun(),
            compaction_bytes: compactions.bytes_written(),
            row_cache: self.shared.rows.usage(),
            page_cache,
            footer_cache,
        }
    }
}

/// The size of a range: its part of each segment, and what it has in memtables. The parts of a table
/// are disjoint, so that nothing is counted twice.
fn span_of(table: &Table, range: &KeyRange) -> Result<SpanInfo> {
    let mut span = SpanInfo::default();
    if range.is_empty() {
        return Ok(span);
    }
    for tablet in table.tablets.of_range(range) {
        for segment in &tablet.segments {
            let positions = positions_in(segment, &tablet.range, range)?;
            let count = u64::from(positions.end - positions.start);
            span.bytes += segment.bytes_of(&positions)?;
            let dead = table.deletion_vectors.get(&segment.meta().id).map_or(0, |dead| dead.count_in(positions));
            span.rows += count - dead;
            span.dead_rows += dead;
        }
    }
    let bounds = memtable::bounds(range);
    // A slot of the frozen memtable that the active one has, too, is not the row's place any more.
    let frozen = table.frozen.iter().flat_map(|frozen| frozen.memtable.slots.range::<_, [u8]>(bounds));
    let frozen = frozen.filter(|(key, _)| !table.active.slots.contains_key::<[u8]>(key));
    for (key, slot) in table.active.slots.range::<_, [u8]>(bounds).chain(frozen) {
        if let Some(row) = &slot.row {
            span.rows += 1;
            span.bytes += (key.len() + row.len()) as u64;
        }
    }
    Ok(span)
}

fn dead_rows(table: &Table, segment: &Segment) -> u64 {
    table.deletion_vectors.get(&segment.meta().id).map_or(0, super::deletion_vector::DeletionVector::count)
}

fn segment_info(name: &TableName, table: &Table, tablet: &Tablet<Segment>, segment: &Segment) -> SegmentInfo {
    let meta = segment.meta();
    SegmentInfo {
        table: name.clone(),
        id: meta.id.0,
        tablet: tablet.range.start.clone(),
        kind: if meta.base { SegmentKind::Base } else { SegmentKind::Delta },
        rows: meta.rows.into(),
        dead_rows: dead_rows(table, segment),
        bytes: meta.bytes,
        side_bytes: meta.side_bytes,
        first_key: meta.first.clone(),
        last_key: meta.last.clone(),
        stamp_micros: meta.stamp,
    }
}

fn tablet_info(name: &TableName, table: &Table, tablet: &Tablet<Segment>) -> TabletInfo {
    let metas = || tablet.segments.iter().map(|segment| segment.meta());
    TabletInfo {
        table: name.clone(),
        start: tablet.range.start.clone(),
        end: tablet.range.end.clone(),
        segments: tablet.segments.len() as u64,
        deltas: metas().filter(|meta| !meta.base).count() as u64,
        rows: metas().map(|meta| u64::from(meta.rows)).sum(),
        dead_rows: tablet.segments.iter().map(|segment| dead_rows(table, segment)).sum(),
        bytes: metas().map(|meta| meta.bytes + meta.side_bytes).sum(),
    }
}
