//! Compaction: the living rows of a tablet's segments, merged by key into new bases. It neither opens nor deletes files: readers and
//! writers come in.
//!
//! ```text
//! inputs (each in the order of keys) ─► merge by key ─► without garbage ─► writer, a new one every so many bytes
//!                                                                     └─► PositionMap: where each position went
//! ```
//!
//! A [`Compaction`] goes forward batch by batch: whoever drives it may pause, or stop, between two [steps](Compaction::step). It holds a
//! batch of each input, without the large rows in it, a batch of its own, and four bytes for each position of the inputs.
//!
//! Rows go on changing meanwhile. What died since the compaction began is brought to the new segments by [`PositionMap::remap`].

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

/// Rows that a step takes, at most.
pub(crate) const STEP_ROWS_MAX: usize = 4_096;
/// Bytes of keys and rows after which a step takes no more.
pub(crate) const STEP_BYTES_MAX: usize = 4 << 20;
/// Rows of a base, at most: positions are 32 bits wide.
const BASE_ROWS_MAX: u32 = 1 << 26;

/// Makes segments.
pub(crate) trait Outputs {
    /// Writes one.
    type Writer: Output;

    /// Begins a segment whose rows are like these, which are encoded: the first of them, or some from all over.
    ///
    /// # Errors
    /// Those of writing.
    fn begin(&mut self, sample: &[&[u8]]) -> Result<Self::Writer>;
}

/// Writes a segment. One that is dropped before it is finished leaves nothing.
pub(crate) trait Output {
    /// Adds an encoded row, in the order of keys. Gives its position; `None` when the row has nothing that is to be kept.
    ///
    /// # Errors
    /// Those of writing.
    fn push(&mut self, key: &RowKey, row: &[u8]) -> Result<Option<Position>>;

    /// Bytes of the segment so far, roughly.
    fn bytes(&self) -> u64;

    /// Makes the segment last; `None` when it has no row.
    ///
    /// # Errors
    /// Those of writing.
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

/// How far a compaction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CompactionProgress {
    /// Rows read.
    pub(crate) rows_read: u64,
    /// Bytes of keys and encoded rows read.
    pub(crate) bytes_read: u64,
    /// Rows written.
    pub(crate) rows_written: u64,
    /// Bytes of segments written, roughly.
    pub(crate) bytes_written: u64,
}

/// What a compaction made.
#[derive(Debug)]
pub(crate) struct CompactionOutput {
    /// The new bases, in the order of keys.
    pub(crate) segments: Vec<SegmentMeta>,
    /// Where rows went.
    pub(crate) position_map: PositionMap,
    /// What was done.
    pub(crate) progress: CompactionProgress,
}

/// A compaction under way.
pub(crate) struct Compaction<R, O: Outputs> {
    merge: Merge<R>,
    /// Of each input.
    sieves: Vec<Sieve>,
    outputs: O,
    writer: Option<O::Writer>,
    /// Rows in the segment that is being written.
    writer_rows: u32,
    /// Bytes after which a segment is finished.
    cut_bytes: u64,
    step_rows: usize,
    segments: Vec<SegmentMeta>,
    position_map: PositionMap,
    /// Without the bytes of the segment that is being written.
    progress: CompactionProgress,
}

/// A row on its way.
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
    /// The stamp of the outputs is one up to which the garbage's past rules are complete.
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
            step_rows: STEP_ROWS_MAX,
            segments: Vec::new(),
            progress: CompactionProgress::default(),
        }
    }

    /// With so many rows in a step.
    pub(crate) fn with_step_rows(self, step_rows: usize) -> Self {
        Self { step_rows, ..self }
    }

    /// Takes the next rows; whether that was all, and the last segment is finished.
    ///
    /// # Errors
    /// Those of reading and writing. The compaction is over then: [`abandon`](Self::abandon) it.
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
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => {
                self.position_map.begin_output();
                self.outputs.begin(&batch.iter().map(|passing| &passing.row[..]).collect::<Vec<_>>())?
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

    /// The next rows without their garbage; whether there may be more.
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

    /// Finishes the segment that is being written.
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

    /// How far it is.
    pub(crate) fn progress(&self) -> CompactionProgress {
        let bytes_written = self.progress.bytes_written + self.writer.as_ref().map_or(0, Output::bytes);
        CompactionProgress { bytes_written, ..self.progress }
    }

    /// What it made, after the last [step](Self::step).
    pub(crate) fn finish(self) -> CompactionOutput {
        debug_assert!(self.writer.is_none(), "the last step finishes the last segment");
        CompactionOutput { progress: self.progress, segments: self.segments, position_map: self.position_map }
    }

    /// Gives it up. These segments were finished, and are to be deleted.
    pub(crate) fn abandon(self) -> Vec<SegmentMeta> {
        self.segments
    }
}

/// After how many bytes to begin a new base, so that all become about equal.
fn cut_bytes(bytes: u64, target: u64) -> u64 {
    let target = target.max(1);
    match bytes.div_ceil(target) {
        0 | 1 => target,
        // A little more than its share, lest the last one be tiny.
        bases => (bytes / bases + bytes / bases / 16).clamp(1, target),
    }
}
