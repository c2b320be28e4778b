//! The internals of a store, for operators: plain values, no handles.
//!
//! [`Store::inspect`](crate::Store::inspect) returns an [`Inspection`]: one state of the store, the one that its next
//! read would see. Counts are those that the store has in memory: no row is read for them.

use crate::{RowKey, TableName};
use bytes::Bytes;

/// Maximum number of compactions in an [`Inspection`]: the running ones and the latest others.
pub const COMPACTIONS_MAX: usize = 256;

/// The internals of a store at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// The segments, by table and first key.
    pub segments: Vec<SegmentInfo>,
    /// The tablets, by table and first key.
    pub tablets: Vec<TabletInfo>,
    /// Compactions, oldest first; at most [`COMPACTIONS_MAX`].
    pub compactions: Vec<CompactionInfo>,
    /// Memory in use.
    pub memory: MemoryInfo,
    /// What was done since the start.
    pub work: WorkInfo,
    /// States that readers hold.
    pub pins: u64,
    /// What the object store of the segments was asked, by kind; empty if they are in a folder.
    pub requests: Vec<RequestInfo>,
    /// Why the store takes no more writes, if it does not.
    pub stopped: Option<String>,
}

/// What a store has done since its start: counts that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkInfo {
    /// Commits and changes of tables that the log took.
    pub commits: u64,
    /// Writes of the log, each with a sync: a group of commits.
    pub log_writes: u64,
    /// Bytes that were written to the log.
    pub log_bytes: u64,
    /// How long writing and syncing the log took, in nanoseconds.
    pub log_nanos: u64,
    /// Memtables that were written to segments.
    pub flushes: u64,
    /// Compactions that have begun.
    pub compactions: u64,
    /// Bytes that compactions have written.
    pub compaction_bytes: u64,
    /// Rows found in the cache of rows, and rows that were not.
    pub row_cache: CacheUse,
    /// Pages of segments found in the cache of pages, and pages that were not.
    pub page_cache: CacheUse,
    /// Tails of segments found in the cache of tails, and tails that were not.
    pub footer_cache: CacheUse,
}

/// Kinds of requests to an object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Read an object, or a range of it.
    Get,
    /// Ask for an object's size.
    Head,
    /// Write an object as a whole, or copy it.
    Put,
    /// Begin an upload in parts, send a part, end or abort it.
    Upload,
    /// Remove an object.
    Delete,
    /// List objects under a prefix.
    List,
}

impl RequestKind {
    /// All kinds, each at the index of its number.
    pub const ALL: [Self; 6] = [Self::Get, Self::Head, Self::Put, Self::Upload, Self::Delete, Self::List];

    /// `get`, `head`, `put`, `upload`, `delete` or `list`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Head => "head",
            Self::Put => "put",
            Self::Upload => "upload",
            Self::Delete => "delete",
            Self::List => "list",
        }
    }
}

/// Requests of a kind since the start: counts that only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The kind.
    pub kind: RequestKind,
    /// Requests, each counted once however often the client retried it.
    pub requests: u64,
    /// Those among them that failed after all retries. A missing object is an answer.
    pub failures: u64,
    /// Bytes of objects that were read or written.
    pub bytes: u64,
}

/// The rows of a range of keys, without reading them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanInfo {
    /// Rows that are alive, those of expired cells among them until a compaction.
    pub rows: u64,
    /// Rows in segments' files that were changed or deleted since.
    pub dead_rows: u64,
    /// Bytes: pages of segments' files, of a page that has rows of other ranges the rows' part, dead rows included; and
    /// keys and rows in memtables.
    pub bytes: u64,
    /// Bytes of the history of these rows, counted likewise.
    pub history_bytes: u64,
}

impl SpanInfo {
    /// The sum of two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            rows: self.rows.saturating_add(other.rows),
            dead_rows: self.dead_rows.saturating_add(other.dead_rows),
            bytes: self.bytes.saturating_add(other.bytes),
            history_bytes: self.history_bytes.saturating_add(other.history_bytes),
        }
    }
}

/// How often a cache was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// What was found.
    pub hits: u64,
    /// What was not.
    pub misses: u64,
}

/// The role of a segment in its tablet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// Written by a compaction: most of the tablet's rows.
    Base,
    /// Written by a flush: later changes.
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
    /// Its number; its file's name is this number as 16 hexadecimal digits.
    pub id: u64,
    /// The start of its tablet: inclusive, empty for the first key of all.
    pub tablet: Bytes,
    /// Its role in its tablet.
    pub kind: SegmentKind,
    /// Number of rows, including dead ones.
    pub rows: u64,
    /// Rows among them that were changed or deleted since: reads skip them.
    pub dead_rows: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Bytes of the file of its large values.
    pub side_bytes: u64,
    /// Its least key.
    pub first_key: RowKey,
    /// Its greatest key.
    pub last_key: RowKey,
    /// The stamp of the last commit that it can include, in microseconds.
    pub stamp_micros: i64,
}

/// A tablet: a range of a table's keys that is compacted separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TabletInfo {
    /// The table.
    pub table: TableName,
    /// Inclusive; empty for the first key of all.
    pub start: Bytes,
    /// Exclusive; `None` for no end.
    pub end: Option<Bytes>,
    /// Number of its segments, including deltas.
    pub segments: u64,
    /// Number of deltas among them.
    pub deltas: u64,
    /// Rows in the segments, including dead ones.
    pub rows: u64,
    /// Dead rows among them.
    pub dead_rows: u64,
    /// Bytes of the segments' files.
    pub bytes: u64,
}

/// The state of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionState {
    /// Under way.
    Running,
    /// Its segments have replaced the inputs.
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

/// A compaction of a tablet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionInfo {
    /// Its number, starting at 1 at each start of the store.
    pub id: u64,
    /// The table.
    pub table: TableName,
    /// The start of the tablet.
    pub tablet: Bytes,
    /// Why the tablet was chosen, in a few words.
    pub reason: &'static str,
    /// Its state.
    pub state: CompactionState,
    /// Its start time, in microseconds.
    pub started_micros: i64,
    /// Its end time; `None` while it runs.
    pub finished_micros: Option<i64>,
    /// Bytes of the input segments.
    pub bytes_read: u64,
    /// Bytes of the segments written so far.
    pub bytes_written: u64,
    /// Rows read so far.
    pub rows_in: u64,
    /// Rows written so far.
    pub rows_out: u64,
    /// The error, if it failed.
    pub error: Option<String>,
}

/// Memory of a store, in bytes, and the log that a start would have to replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryInfo {
    /// The budget for all of it.
    pub budget_bytes: u64,
    /// Active memtables.
    pub memtable_bytes: u64,
    /// Frozen memtables, which are being flushed.
    pub frozen_bytes: u64,
    /// The cache of rows.
    pub row_cache_bytes: u64,
    /// The cache of segments' pages.
    pub page_cache_bytes: u64,
    /// The cache of segments' footers.
    pub footer_cache_bytes: u64,
    /// Bytes of the log's files: on the disk, not in memory.
    pub log_bytes: u64,
}

/// The result of [`Store::purge`](crate::Store::purge).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeReport {
    /// Files deleted.
    pub files_deleted: u64,
    /// Bytes of these files.
    pub bytes_deleted: u64,
    /// Bytes rewritten: rows outside the purged ranges in the same files.
    pub bytes_written: u64,
}

impl PurgeReport {
    /// The difference of two totals.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            files_deleted: self.files_deleted - before.files_deleted,
            bytes_deleted: self.bytes_deleted - before.bytes_deleted,
            bytes_written: self.bytes_written - before.bytes_written,
        }
    }
}
