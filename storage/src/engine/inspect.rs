//! The internals of an engine, for operators.

use super::{Engine, segment::Segment, state::Table, tablet::Tablet};
use crate::{
    TableName,
    inspect::{Inspection, MemoryInfo, SegmentInfo, SegmentKind, TabletInfo, WorkInfo},
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
            stopped: self.shared.stopped.get().cloned(),
        }
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
