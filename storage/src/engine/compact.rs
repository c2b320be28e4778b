//! Compaction: merges the live rows of a tablet's segments by key into new bases. It neither opens nor deletes files;
//! readers and writers are passed in.
//!
//! ```text
//! sorted inputs ─► merge ─► drop garbage ─► writer, a new one every `cut_bytes` and at boundaries
//!                                       └─► PositionMap: new positions of rows
//! ```
//!
//! The boundaries are those of large [sections](super::sections).
//!
//! A [`Compaction`] proceeds batch by batch: the caller may pause or stop between two [steps](Compaction::step). It
//! holds a batch of each input, without the large rows in it, an output batch, and four bytes for each position of the
//! inputs.
//!
//! Rows keep changing meanwhile. [`PositionMap::remap`] applies deletions since the beginning of the compaction to the
//! new segments.

mod merge;
mod position_map;
#[cfg(test)]
pub(in crate::engine) mod tests;

pub(crate) use merge::Input;
pub(crate) use position_map::PositionMap;

use super::{
    deletion_vector::Position,
    garbage::{Garbage, Remainder, Sieve},
    manifest::SegmentMeta,
    segment::{EncodedRow, SegmentWriter},
};
use crate::{Result, RowKey};
use bytes::Bytes;
use merge::Merge;
use std::collections::VecDeque;

/// Maximum rows of a step.
pub(crate) const STEP_ROWS_MAX: usize = 4_096;
/// Bytes of keys and rows after which a step ends.
pub(crate) const STEP_BYTES_MAX: usize = 4 << 20;
/// Maximum rows of a base: positions are 32 bits wide.
const BASE_ROWS_MAX: u32 = 1 << 26;

/// Creates segments.
pub(crate) trait Outputs {
    /// Writes one segment.
    type Writer: Output;

    /// Begins a segment; `sample` has keys and encoded rows like its own, ascending: the first ones, or some from
    /// everywhere.
    ///
    /// # Errors
    /// Errors of writing.
    fn begin(&mut self, sample: &[(&[u8], &[u8])]) -> Result<Self::Writer>;
}

/// Writes a segment. Dropped before it is finished, it leaves nothing.
pub(crate) trait Output {
    /// Adds an encoded row, in the order of keys; returns its position, or `None` if none of the row is kept.
    ///
    /// # Errors
    /// Errors of writing.
    fn push(&mut self, key: &RowKey, row: &[u8]) -> Result<Option<Position>>;

    /// Approximate bytes of the segment so far.
    fn bytes(&self) -> u64;

    /// Makes the segment durable; `None` if it has no rows.
    ///
    /// # Errors
    /// Errors of writing.
    fn finish(self) -> Result<Option<SegmentMeta>>;
}

impl Output for SegmentWriter {
    fn push(&mut self, key: &RowKey, row: &[u8]) -> Result<Option<Position>> {
        self.push(key, row)
    }

    fn bytes(&self) -> u64 {
        self.bytes()
    }

    fn finish(self) -> Result<Option<SegmentMeta>> {
        self.finish()
    }
}

/// Progress of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CompactionProgress {
    /// Rows read.
    pub(crate) rows_read: u64,
    /// Bytes of keys and encoded rows read.
    pub(crate) bytes_read: u64,
    /// Rows written.
    pub(crate) rows_written: u64,
    /// Approximate bytes of segments written.
    pub(crate) bytes_written: u64,
}

/// The result of a compaction.
#[derive(Debug)]
pub(crate) struct CompactionOutput {
    /// The new bases, in the order of keys.
    pub(crate) segments: Vec<SegmentMeta>,
    /// New positions of the inputs' rows.
    pub(crate) position_map: PositionMap,
    /// Totals.
    pub(crate) progress: CompactionProgress,
}

/// A compaction in progress.
pub(crate) struct Compaction<R, O: Outputs> {
    merge: Merge<R>,
    /// One for each input.
    sieves: Vec<Sieve>,
    outputs: O,
    writer: Option<O::Writer>,
    /// Rows in the current segment.
    writer_rows: u32,
    /// Bytes after which a segment is finished.
    cut_bytes: u64,
    /// Keys at which a segment ends, ascending: those that are left.
    boundaries: VecDeque<Bytes>,
    step_rows: usize,
    segments: Vec<SegmentMeta>,
    position_map: PositionMap,
    /// Without the bytes of the current segment.
    progress: CompactionProgress,
}

/// A row from an input, without garbage.
struct MergedRow {
    input: usize,
    position: Position,
    key: RowKey,
    row: Bytes,
}

impl<R, O> Compaction<R, O>
where
    R: Iterator<Item = Result<Vec<EncodedRow>>>,
    O: Outputs,
{
    /// Begins a compaction into bases of about `base_bytes_target` bytes. No key is in two inputs.
    ///
    /// The garbage's past rules must be complete up to the stamp of the outputs.
    pub(crate) fn new(inputs: Vec<Input<R>>, garbage: &Garbage, outputs: O, base_bytes_target: u64) -> Self {
        let bytes = inputs.iter().map(|input| input.bytes).sum();
        Self {
            sieves: inputs.iter().map(|input| garbage.of(input.stamp)).collect(),
            position_map: PositionMap::new(inputs.iter().map(|input| input.positions.clone())),
            merge: Merge::new(inputs),
            outputs,
            writer: None,
            writer_rows: 0,
            cut_bytes: cut_bytes(bytes, base_bytes_target),
            boundaries: VecDeque::new(),
            step_rows: STEP_ROWS_MAX,
            segments: Vec::new(),
            progress: CompactionProgress::default(),
        }
    }

    /// Sets keys, ascending, at which a segment ends and another begins.
    pub(crate) fn with_boundaries(self, boundaries: impl IntoIterator<Item = Bytes>) -> Self {
        Self { boundaries: boundaries.into_iter().collect(), ..self }
    }

    /// Sets the number of rows in a step.
    pub(crate) fn with_step_rows(self, step_rows: usize) -> Self {
        Self { step_rows, ..self }
    }

    /// Processes the next rows; returns whether they were the last, and the last segment is finished.
    ///
    /// # Errors
    /// Errors of reading and writing. The compaction is over then: [`abandon`](Self::abandon) it.
    pub(crate) fn step(&mut self) -> Result<bool> {
        let (batch, more) = self.gather()?;
        if !batch.is_empty() {
            self.write(&batch)?;
        }
        let is_full = self.writer.as_ref().is_some_and(|writer| writer.bytes() >= self.cut_bytes);
        if is_full || self.writer_rows >= BASE_ROWS_MAX || !more {
            self.cut()?;
        }
        Ok(!more)
    }

    fn write(&mut self, batch: &[MergedRow]) -> Result<()> {
        let mut left = batch;
        while let Some(first) = left.first() {
            if self.boundaries.front().is_some_and(|boundary| boundary[..] <= first.key[..]) {
                self.boundaries.pop_front();
                self.cut()?;
                continue;
            }
            let end = self.boundaries.front().map(|boundary| left.partition_point(|row| row.key[..] < boundary[..]));
            let (now, later) = left.split_at(end.unwrap_or(left.len()));
            self.write_alike(now)?;
            left = later;
        }
        Ok(())
    }

    /// Writes rows of the current segment.
    fn write_alike(&mut self, batch: &[MergedRow]) -> Result<()> {
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => {
                self.position_map.begin_output();
                self.outputs
                    .begin(&batch.iter().map(|passing| (&passing.key[..], &passing.row[..])).collect::<Vec<_>>())?
            }
        };
        for MergedRow { input, position, key, row } in batch {
            if let Some(new) = writer.push(key, row)? {
                self.position_map.set(*input, *position, new);
                self.writer_rows = new + 1;
                self.progress.rows_written += 1;
            }
        }
        self.writer = Some(writer);
        Ok(())
    }

    /// The next rows without their garbage, and whether there may be more.
    fn gather(&mut self) -> Result<(Vec<MergedRow>, bool)> {
        let (mut batch, mut seen, mut bytes) = (Vec::new(), 0, 0);
        while seen < self.step_rows && bytes < STEP_BYTES_MAX {
            let Some((input, EncodedRow { position, key, row })) = self.merge.next()? else {
                return Ok((batch, false));
            };
            let row = row.read()?;
            seen += 1;
            bytes += key.len() + row.len();
            self.progress.rows_read += 1;
            self.progress.bytes_read += (key.len() + row.len()) as u64;
            let row = match self.sieves[input].remainder(&row) {
                Remainder::Whole => row,
                Remainder::Part(row) => row,
                Remainder::Nothing => continue,
            };
            batch.push(MergedRow { input, position, key, row });
        }
        Ok((batch, true))
    }

    /// Finishes the current segment.
    fn cut(&mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        self.writer_rows = 0;
        match writer.finish()? {
            Some(meta) => {
                self.progress.bytes_written += meta.bytes + meta.side_bytes;
                self.segments.push(meta);
            }
            None => self.position_map.drop_output(),
        }
        Ok(())
    }

    /// Progress so far.
    pub(crate) fn progress(&self) -> CompactionProgress {
        let bytes_written = self.progress.bytes_written + self.writer.as_ref().map_or(0, Output::bytes);
        CompactionProgress { bytes_written, ..self.progress }
    }

    /// The result, after the last [step](Self::step).
    pub(crate) fn finish(self) -> CompactionOutput {
        debug_assert!(self.writer.is_none(), "the last step finishes the last segment");
        CompactionOutput { progress: self.progress, segments: self.segments, position_map: self.position_map }
    }

    /// Ends the compaction early; returns the segments that were finished, which the caller deletes.
    pub(crate) fn abandon(self) -> Vec<SegmentMeta> {
        self.segments
    }
}

/// Bytes after which to begin a new base, so that all are about equal in size.
fn cut_bytes(bytes: u64, target: u64) -> u64 {
    let target = target.max(1);
    match bytes.div_ceil(target) {
        0 | 1 => target,
        // A little more than its share, so that the last one is not tiny.
        bases => (bytes / bases + bytes / bases / 16).clamp(1, target),
    }
}
