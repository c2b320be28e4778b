//! What the store consists of: the manifest, an immutable value of which each change makes a new version.
//!
//! ```text
//! CURRENT                      the version in force
//! manifest/<version>           the tables, their tablets and segments, and up to which frame of the log they hold everything
//! dead/<segment>-<version>     the dead positions of a segment, as of the manifest of that version
//! ```
//!
//! Three files, one envelope (module `envelope`). [`Manifest`] is the value; [`Manifests`] (module `files`) reads and replaces
//! it on the disk. What makes a commit atomic is the rename of `CURRENT.tmp` to `CURRENT`; what makes it last is the sync of the
//! store's folder after it.
//!
//! The body of a manifest is JSON: keys in hexadecimal digits, segments by the 16 digits of their files' names.

mod check;
mod envelope;
mod files;
mod json;
#[cfg(test)]
mod tests;

pub(crate) use envelope::{Kind, open as open_envelope, seal as seal_envelope};
pub(crate) use files::{CURRENT, MANIFEST_FOLDER, Manifests};
#[cfg(feature = "testing")]
pub(crate) use files::{decode, encode, sealed};

use super::descriptor::LoggedDescriptor;
use crate::{GcRule, KeyRange, RowKey};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// Ends the name of a segment's rows.
const PARQUET: &str = ".parquet";
/// Ends the name of a segment's large cells.
const SIDE: &str = ".side";
/// Hexadecimal digits of a segment in names.
const SEGMENT_DIGITS: usize = 16;

/// A segment, for ever: the stamp of the commit from which on it was there. No two have the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentId(pub(crate) u64);

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentMeta {
    /// Which.
    pub(crate) id: SegmentId,
    /// Its rows, the dead ones too.
    pub(crate) rows: u32,
    /// Bytes of its file.
    pub(crate) bytes: u64,
    /// Bytes of its file of large cells; 0 when there is none.
    pub(crate) side_bytes: u64,
    /// Bytes of its file's tail: what is read of it first.
    pub(crate) tail_bytes: u32,
    /// CRC-32C of the tail.
    pub(crate) tail_crc: u32,
    /// Its first key.
    #[serde(with = "json::key")]
    pub(crate) first: RowKey,
    /// Its last key.
    #[serde(with = "json::key")]
    pub(crate) last: RowKey,
    /// Its rows are those of this commit stamp, in microseconds.
    pub(crate) stamp: i64,
    /// Whether it is a base, and not a delta.
    pub(crate) base: bool,
}

/// A range of keys of a table, and where its rows are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TabletMeta {
    /// The keys that belong to it.
    #[serde(with = "json::range")]
    pub(crate) range: KeyRange,
    /// Bases first, then the deltas, oldest first. A delta may be in several tablets of a table, when a tablet was split while it
    /// was written: of its rows those in the range count here.
    pub(crate) segments: Vec<SegmentMeta>,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableMeta {
    /// Its name, families and their numbers.
    pub(crate) descriptor: LoggedDescriptor,
    /// Rules that were in force before, as long as a segment holds rows from their time.
    pub(crate) past_rules: Vec<PastRule>,
    /// By key; no two have a key in common.
    pub(crate) tablets: Vec<TabletMeta>,
}

/// A rule that was replaced: the cells that it had condemned until then stay condemned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PastRule {
    /// The family's number.
    pub(crate) family: u32,
    /// The rule.
    pub(crate) rule: GcRule,
    /// When it was replaced, in microseconds; it concerns segments of earlier stamps.
    pub(crate) at_micros: i64,
}

/// The file of a segment's dead positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeletionVectorMeta {
    /// The version of the manifest that it was written for.
    pub(crate) version: u64,
    /// How many positions are dead.
    pub(crate) count: u64,
}

/// The store at one moment, but for what the log holds after it. The default is an empty store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Its version, from 1; 0 for a store without a manifest.
    pub(crate) version: u64,
    /// The frames of the log up to this one are in segments.
    pub(crate) sequence: u64,
    /// The greatest commit stamp up to that frame, in microseconds.
    pub(crate) stamp: i64,
    /// The number of the next table to be made.
    pub(crate) next_table: u32,
    /// The tables, by name.
    pub(crate) tables: Vec<TableMeta>,
    /// The segments with dead positions.
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

    /// The segment that a file belongs to, by the file's name.
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

/// Reads what `Display` writes, and nothing else.
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
