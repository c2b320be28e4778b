//! The segments of a load: rows in the order of keys become one segment after the other.
//!
//! A segment ends at the size of a base, and before the next base of the table or the next tablet, so that it can have
//! its own tablet.

use super::merge::Item;
use crate::{
    Error, Result, TableName,
    engine::{
        compact::Outputs,
        deletion_vector::Position,
        descriptor::Descriptor,
        install::LoadedRows,
        maintain::{Maintenance, Writers},
        manifest::SegmentMeta,
        sections::{Sections, end_of},
        segment::SegmentWriter,
        state::{ChangedRows, row_hash},
    },
};
use bytes::Bytes;
use std::sync::Arc;

/// Maximum rows of the sample that a segment's writer gets first.
const SAMPLE_ROWS: usize = 4_096;
/// Bytes of rows after which they are written.
pub(super) const STEP_BYTES: usize = 4 << 20;
/// Rows of a segment: positions are 32 bits wide.
const SEGMENT_ROWS_MAX: Position = 1 << 26;
/// Up to this number of rows, each is recorded as changed; beyond it, key ranges are.
const REMEMBERED_ROWS_MAX: usize = 1 << 18;

/// See the module.
pub(super) struct Output {
    maintenance: Arc<Maintenance>,
    name: TableName,
    descriptor: Arc<Descriptor>,
    /// Of the cells, in microseconds.
    stamp: i64,
    writer: Option<SegmentWriter>,
    rows: Position,
    /// Where the current segment should end.
    end: Option<Bytes>,
    /// Segments written, in the order of keys unless an overlapping one is [taken](Self::take_reaching).
    segments: Vec<SegmentMeta>,
    /// The greatest key so far.
    last: Vec<u8>,
    hashes: Option<Vec<u64>>,
}

impl Output {
    pub(super) fn new(maintenance: Arc<Maintenance>, name: TableName, descriptor: Arc<Descriptor>, stamp: i64) -> Self {
        let (segments, hashes) = (Vec::new(), Some(Vec::new()));
        Self {
            maintenance,
            name,
            descriptor,
            stamp,
            writer: None,
            rows: 0,
            end: None,
            segments,
            last: Vec::new(),
            hashes,
        }
    }

    /// The greatest key so far; empty when there is none.
    pub(super) fn last(&self) -> &[u8] {
        &self.last
    }

    /// Writes rows, whose keys are greater than all before.
    ///
    /// # Errors
    /// Errors of writing.
    pub(super) fn write(&mut self, rows: &[(&[u8], &[u8])]) -> Result<()> {
        let mut left = rows;
        while !left.is_empty() {
            let ends = match &self.end {
                Some(end) if self.writer.is_some() => left.partition_point(|(key, _)| **key < end[..]),
                _ => left.len(),
            };
            let mut writer = match self.writer.take() {
                Some(writer) => writer,
                None => self.begin(left)?,
            };
            if ends == 0 {
                // The segment crosses the boundary, unless it is large enough by itself.
                match writer.bytes() >= self.maintenance.options.granularity.delta_bytes_min {
                    true => self.finish(writer)?,
                    false => {
                        self.end = self.end_of(left[0].0).1;
                        self.writer = Some(writer);
                    }
                }
                continue;
            }
            let ends = match &self.end {
                Some(end) => left.partition_point(|(key, _)| **key < end[..]).max(1),
                None => ends,
            };
            let (now, later) = left.split_at(ends);
            for (key, row) in now {
                if let Some(position) = writer.push(key, row)? {
                    self.rows = position + 1;
                }
            }
            self.record_changed(now);
            self.last.clear();
            self.last.extend_from_slice(now[now.len() - 1].0);
            match writer.bytes() >= self.maintenance.options.base_bytes || self.rows >= SEGMENT_ROWS_MAX {
                true => self.finish(writer)?,
                false => self.writer = Some(writer),
            }
            left = later;
        }
        Ok(())
    }

    /// [`write`](Self::write) for merged rows.
    ///
    /// # Errors
    /// Same as there.
    pub(super) fn write_items(&mut self, items: &[Item]) -> Result<()> {
        self.write(&items.iter().map(|item| (&item.key[..], &item.row[..])).collect::<Vec<_>>())
    }

    fn begin(&mut self, rows: &[(&[u8], &[u8])]) -> Result<SegmentWriter> {
        let (base, end) = self.end_of(rows[0].0);
        (self.end, self.rows) = (end, 0);
        let Self { maintenance, name, descriptor, stamp, .. } = self;
        // A load is of one section.
        let layouts = maintenance.layouts.load();
        let section = layouts.as_ref().and_then(|layouts| layouts.0.section(name, rows[0].0));
        let (end, frequencies, sections) = (section.and_then(end_of), Vec::new(), Sections::default());
        let stamp = *stamp;
        let mut writers =
            Writers { maintenance, name, descriptor, stamp, base, frequencies, sections, end, beside: true };
        writers.begin(&rows[..rows.len().min(SAMPLE_ROWS)])
    }

    /// Whether a segment that begins with the key can be a base, and where it should end.
    fn end_of(&self, key: &[u8]) -> (bool, Option<Bytes>) {
        let state = self.maintenance.shared.published.load();
        let Ok(table) = state.table(&self.name) else { return (true, None) };
        let Some(tablet) = table.tablets.of_key(key) else { return (true, None) };
        let mut bases = tablet.segments.iter().map(|segment| segment.meta()).filter(|meta| meta.base);
        if bases.clone().any(|base| base.first[..] <= *key && *key <= base.last[..]) {
            return (false, tablet.range.end.clone());
        }
        let next = bases.find(|base| base.first[..] > *key).map(|base| base.first.bytes().clone());
        (true, next.or_else(|| tablet.range.end.clone()))
    }

    fn record_changed(&mut self, rows: &[(&[u8], &[u8])]) {
        let Some(hashes) = &mut self.hashes else { return };
        if hashes.len() + rows.len() > REMEMBERED_ROWS_MAX {
            self.hashes = None;
            return;
        }
        hashes.extend(rows.iter().map(|(key, _)| row_hash(self.descriptor.number, key)));
    }

    fn finish(&mut self, writer: SegmentWriter) -> Result<()> {
        self.segments.extend(writer.finish()?);
        Ok(())
    }

    /// Ends the current segment.
    ///
    /// # Errors
    /// Errors of writing.
    pub(super) fn cut(&mut self) -> Result<()> {
        match self.writer.take() {
            Some(writer) => self.finish(writer),
            None => Ok(()),
        }
    }

    /// Removes and returns the segments that reach into the keys from `first` to `last`: their rows are to be
    /// rewritten.
    pub(super) fn take_reaching(&mut self, first: &[u8], last: &[u8]) -> Vec<SegmentMeta> {
        debug_assert!(self.writer.is_none(), "it was cut");
        let reaches = |meta: &mut SegmentMeta| meta.first[..] <= *last && meta.last[..] >= *first;
        let taken = self.segments.extract_if(.., reaches).collect();
        // The next segment may lie between others.
        self.last.clear();
        self.hashes = None;
        taken
    }

    /// The segments, in the order of keys.
    pub(super) fn segments(&mut self) -> &[SegmentMeta] {
        self.segments.sort_by(|a, b| a.first.cmp(&b.first));
        &self.segments
    }

    /// Adds the segments of a parallel merge.
    pub(super) fn absorb(&mut self, mut other: Self) {
        self.segments.append(&mut other.take_segments());
        self.last = std::mem::take(&mut self.last).max(other.last);
        self.hashes = None;
    }

    /// Removes and returns all segments.
    pub(super) fn take_segments(&mut self) -> Vec<SegmentMeta> {
        self.writer = None;
        std::mem::take(&mut self.segments)
    }

    /// The rows written, for commits that relied on their absence.
    pub(super) fn changed_rows(&self, stamp: i64) -> Arc<ChangedRows> {
        let number = self.descriptor.number;
        Arc::new(match &self.hashes {
            Some(hashes) => ChangedRows::of_rows(hashes.iter().map(|hash| (*hash, stamp)).collect()),
            None => {
                let range = |meta: &SegmentMeta| LoadedRows::range_of(meta);
                ChangedRows::of_ranges(self.segments.iter().map(|meta| (number, range(meta), stamp)).collect())
            }
        })
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("segments", &self.segments).finish_non_exhaustive()
    }
}

/// Refuses segments with keys in common, which would be a bug of this program.
pub(super) fn check_disjoint(segments: &[SegmentMeta]) -> Result<()> {
    match segments.is_sorted_by(|a, b| a.last < b.first) {
        true => Ok(()),
        false => Err(Error::Unavailable("the segments of a load overlap".into())),
    }
}
