//! The internals of an engine, for operators.

use super::{Engine, segment::Segment, state::Table, tablet::Tablet};
use crate::{
    TableName,
    inspect::{Inspection, MemoryInfo, SegmentInfo, SegmentKind, TabletInfo},
};
use std::sync::atomic::Ordering;

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
        Inspection { segments, tablets, compactions: self.maintenance.compactions.infos(), memory }
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
