//! The manifest: the list of everything in a store, an immutable value. Each change makes a new version.
//!
//! ```text
//! CURRENT                      the version in force
//! manifest/<version>           tables, tablets and segments, and up to which frame of the log they hold everything
//! dead/<segment>-<version>     the deletion vector of a segment, as of the manifest of that version
//! ```
//!
//! The three files share one envelope (module `envelope`). [`Manifest`] is the value; [`Manifests`] (module `files`)
//! reads and replaces it on disk. A commit is atomic by the rename of `CURRENT.tmp` to `CURRENT`, and durable by the
//! sync of the store's folder after it.
//!
//! The body of a manifest is JSON: keys are hexadecimal digits, segments the 16 digits of their files' names.

mod check;
mod envelope;
mod files;
mod json;
#[cfg(test)]
mod tests;

pub use envelope::FORMAT_VERSION;
pub(crate) use envelope::{Kind, open as open_envelope, seal as seal_envelope};
pub(crate) use files::{CURRENT, MANIFEST_FOLDER, Manifests};
#[cfg(feature = "testing")]
pub(crate) use files::{decode, encode, sealed};

use super::descriptor::LoggedDescriptor;
use crate::{GcRule, KeyRange, RowKey};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// Suffix of the name of a segment's rows.
const PARQUET: &str = ".parquet";
/// Suffix of the name of a segment's large cells.
const SIDE: &str = ".side";
/// Hexadecimal digits of a segment in names.
const SEGMENT_DIGITS: usize = 16;

/// The permanent id of a segment: a unique stamp from its creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentId(pub(crate) u64);

/// Describes a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentMeta {
    /// The id.
    pub(crate) id: SegmentId,
    /// Number of rows, including dead ones.
    pub(crate) rows: u32,
    /// Bytes of its file.
    pub(crate) bytes: u64,
    /// Bytes of its file of large cells; 0 if there is none.
    pub(crate) side_bytes: u64,
    /// Bytes of its file's tail, which readers read first.
    pub(crate) tail_bytes: u32,
    /// CRC-32C of the tail.
    pub(crate) tail_crc: u32,
    /// Its first key.
    #[serde(with = "json::key")]
    pub(crate) first: RowKey,
    /// Its last key.
    #[serde(with = "json::key")]
    pub(crate) last: RowKey,
    /// Its rows are as of this commit stamp, in microseconds.
    pub(crate) stamp: i64,
    /// Whether it is a base, else a delta.
    pub(crate) base: bool,
}

/// A range of keys of a table, and its segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TabletMeta {
    /// The keys that belong to it.
    #[serde(with = "json::range")]
    pub(crate) range: KeyRange,
    /// Bases first, then the deltas, oldest first. A delta may be in several tablets of a table, if a tablet was split
    /// while it was written: only its rows in the range count here.
    pub(crate) segments: Vec<SegmentMeta>,
}

/// Describes a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableMeta {
    /// Its name, families and their numbers.
    pub(crate) descriptor: LoggedDescriptor,
    /// Rules that were in force before, as long as a segment has rows from their time.
    pub(crate) past_rules: Vec<PastRule>,
    /// By key; their ranges are disjoint.
    pub(crate) tablets: Vec<TabletMeta>,
}

/// A rule that was replaced: the cells that it had condemned until then stay condemned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PastRule {
    /// The family's number.
    pub(crate) family: u32,
    /// The rule.
    pub(crate) rule: GcRule,
    /// When it was replaced, in microseconds; it applies to segments of earlier stamps.
    pub(crate) at_micros: i64,
}

/// The file of a segment's deletion vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeletionVectorMeta {
    /// The version of the manifest for which it was written.
    pub(crate) version: u64,
    /// Number of dead positions.
    pub(crate) count: u64,
}

/// The store at one time, without later frames of the log. The default is an empty store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Its version, from 1; 0 for a store without a manifest.
    pub(crate) version: u64,
    /// The frames of the log up to this one are in segments.
    pub(crate) sequence: u64,
    /// The greatest commit stamp up to that frame, in microseconds.
    pub(crate) stamp: i64,
    /// The number of the next table.
    pub(crate) next_table: u32,
    /// The tables, by name.
    pub(crate) tables: Vec<TableMeta>,
    /// The deletion vectors, by segment.
    #[serde(rename = "dead")]
    pub(crate) deletion_vectors: BTreeMap<SegmentId, DeletionVectorMeta>,
}

impl SegmentId {
    /// The name of the file of its rows.
    pub(crate) fn parquet_name(self) -> String {
        format!("{self}{PARQUET}")
    }

    /// The name of the file of its large cells.
    pub(crate) fn side_name(self) -> String {
        format!("{self}{SIDE}")
    }

    /// Parses the segment from the name of one of its files.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        name.strip_suffix(PARQUET).or_else(|| name.strip_suffix(SIDE))?.parse().ok()
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Parses the format of `Display`, and nothing else.
impl FromStr for SegmentId {
    type Err = String;

    fn from_str(digits: &str) -> Result<Self, String> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != SEGMENT_DIGITS || !digits.bytes().all(is_digit) {
            return Err(format!("{digits:?} is no segment"));
        }
        u64::from_str_radix(digits, 16).map(Self).map_err(|error| error.to_string())
    }
}

impl Manifest {
    /// Every segment, once.
    pub(crate) fn segments(&self) -> BTreeMap<SegmentId, &SegmentMeta> {
        let tablets = self.tables.iter().flat_map(|table| &table.tablets);
        tablets.flat_map(|tablet| &tablet.segments).map(|segment| (segment.id, segment)).collect()
    }
}

impl SegmentMeta {
    /// The names of its files, and the bytes of each.
    pub(crate) fn files(&self) -> impl Iterator<Item = (String, u64)> {
        let side = (self.side_bytes > 0).then(|| (self.id.side_name(), self.side_bytes));
        std::iter::once((self.id.parquet_name(), self.bytes)).chain(side)
    }
}
