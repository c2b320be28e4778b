//! What a store shows of its inside, to those who operate it: plain values, no handle on anything.
//!
//! [`Store::inspect`](crate::Store::inspect) gives an [`Inspection`]: one state of the store, as its next read would find it. What is
//! counted is what the store knows anyway: no row is read for it.

use crate::{RowKey, TableName};
use bytes::Bytes;

/// The compactions that an [`Inspection`] holds at most: the running ones and the latest of the others.
pub const COMPACTIONS_MAX: usize = 256;

/// The inside of a store at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// The segments, by table and first key.
    pub segments: Vec<SegmentInfo>,
    /// The tablets, by table and first key.
    pub tablets: Vec<TabletInfo>,
    /// Compactions, oldest first; at most [`COMPACTIONS_MAX`].
    pub compactions: Vec<CompactionInfo>,
    /// What is in memory.
    pub memory: MemoryInfo,
}

/// What a segment is in its tablet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// Made by a compaction: the bulk of the tablet.
    Base,
    /// Made by a flush: what was written since.
    Delta,
}

impl SegmentKind {
    /// `base` or `delta`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Delta => "delta",
        }
    }
}

/// A segment: an immutable file of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The table.
    pub table: TableName,
    /// Its number; its file's name has it as 16 hexadecimal digits.
    pub id: u64,
    /// Where its tablet begins: inclusive, empty for the first key of all.
    pub tablet: Bytes,
    /// What it is in its tablet.
    pub kind: SegmentKind,
    /// Rows in it, dead ones too.
    pub rows: u64,
    /// Rows of these that were changed or deleted since: no read shows them.
    pub dead_rows: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Bytes of the file of its large values.
    pub side_bytes: u64,
    /// Its least key.
    pub first_key: RowKey,
    /// Its greatest key.
    pub last_key: RowKey,
    /// The stamp of the last commit that it could hold, in microseconds.
    pub stamp_micros: i64,
}

/// A tablet: a range of a table's keys that is compacted by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TabletInfo {
    /// The table.
    pub table: TableName,
    /// Inclusive; empty for the first key of all.
    pub start: Bytes,
    /// Exclusive; `None` for no end.
    pub end: Option<Bytes>,
    /// Its segments, deltas included.
    pub segments: u64,
    /// The deltas among them.
    pub deltas: u64,
    /// Rows in the segments, dead ones too.
    pub rows: u64,
    /// Rows of these that no read shows.
    pub dead_rows: u64,
    /// Bytes of the segments' files.
    pub bytes: u64,
}

/// How far a compaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionState {
    /// Under way.
    Running,
    /// Its segments took the place of the old ones.
    Done,
    /// It changed nothing; [`CompactionInfo::error`] says why.
    Failed,
}

impl CompactionState {
    /// `running`, `done` or `failed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// The rewriting of a tablet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionInfo {
    /// Its number, from 1 at each start of the store.
    pub id: u64,
    /// The table.
    pub table: TableName,
    /// Where the tablet begins.
    pub tablet: Bytes,
    /// Why the tablet was chosen: some words.
    pub reason: &'static str,
    /// How far it is.
    pub state: CompactionState,
    /// When it began, in microseconds.
    pub started_micros: i64,
    /// When it ended; `None` while it runs.
    pub finished_micros: Option<i64>,
    /// Bytes of the segments that it reads.
    pub bytes_read: u64,
    /// Bytes of the segments that it has written.
    pub bytes_written: u64,
    /// Rows that it has read.
    pub rows_in: u64,
    /// Rows that it has written.
    pub rows_out: u64,
    /// Why it failed.
    pub error: Option<String>,
}

/// What a store has in memory, in bytes, and the log that a start would have to replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryInfo {
    /// What all of it may take together.
    pub budget_bytes: u64,
    /// Rows that are written into.
    pub memtable_bytes: u64,
    /// Rows on their way into segments.
    pub frozen_bytes: u64,
    /// Rows that were read lately.
    pub row_cache_bytes: u64,
    /// Parts of segments that were read lately.
    pub page_cache_bytes: u64,
    /// Footers of segments.
    pub footer_cache_bytes: u64,
    /// Bytes of the log's files: on the disk, not in memory.
    pub log_bytes: u64,
}

/// What [`Store::purge`](crate::Store::purge) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeReport {
    /// Files deleted.
    pub files_deleted: u64,
    /// Bytes of these.
    pub bytes_deleted: u64,
    /// Bytes written in their place: the rows of others that they held.
    pub bytes_written: u64,
}
