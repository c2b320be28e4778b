//! A segment's own footer: statistics of its columns and row groups, JSON under [`FOOTER_KEY`] in the Parquet footer.
//! Pure.
//!
//! Counts are by row group. A shredded column is *residual* in a row if its newest cell is in the overflow.

use super::kind;
use crate::{ColumnKind, engine::deletion_vector::Position};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{collections::BTreeSet, ops::Range};

/// The key of the footer in Parquet's key-value metadata.
pub(super) const FOOTER_KEY: &str = "keyspan.segment";
/// The format that this program writes, and the only one that it reads.
pub(super) const FORMAT_VERSION: u32 = 1;
/// Maximum qualifiers that a footer lists for a family's overflow; beyond, it says "many".
const QUALIFIERS_MAX: usize = 256;
/// Bytes of those qualifiers.
const QUALIFIERS_BYTES_MAX: usize = 16 << 10;

/// The footer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Footer {
    /// See [`FORMAT_VERSION`].
    pub(super) version: u32,
    /// The segment.
    pub(super) segment: u64,
    /// The number of the table.
    pub(super) table: u32,
    /// The columns of the key decoder.
    pub(super) key: Option<KeyFooter>,
    /// In the order of their names, which is that of cells in a row.
    pub(super) families: Vec<FamilyFooter>,
    /// The shredded columns, in the order of cells in a row.
    pub(super) columns: Vec<ColumnFooter>,
    /// The row groups.
    pub(super) groups: Vec<GroupFooter>,
}

/// The key decoder's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeyFooter {
    /// The decoder's id.
    pub(super) id: String,
    /// The names of its columns in the file.
    pub(super) columns: Vec<String>,
}

/// A family of the table when the segment was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FamilyFooter {
    pub(super) number: u32,
    pub(super) name: String,
    /// The name of the overflow column.
    pub(super) overflow: String,
    /// The columns in the overflow that are not shredded.
    pub(super) qualifiers: Qualifiers,
}

/// A shredded column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ColumnFooter {
    /// The family's number.
    pub(super) family: u32,
    pub(super) qualifier: Escaped,
    #[serde(serialize_with = "kind_to_name", deserialize_with = "kind_from_name")]
    pub(super) kind: ColumnKind,
    /// The name of the check that its values have passed.
    pub(super) accepts: Option<String>,
    /// Its name in the file; that of its timestamps ends with `@ts`.
    pub(super) name: String,
}

/// Statistics of a row group. Lists are as long as the footer's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GroupFooter {
    /// The position of the first row.
    pub(super) first: Position,
    pub(super) rows: u32,
    /// Whether the key decoder decoded every key.
    pub(super) key: bool,
    /// Rows whose overflow is in the side file.
    pub(super) side: u32,
    /// By shredded column: rows with a value in its column of the file.
    pub(super) values: Vec<u32>,
    /// By shredded column: rows whose timestamp differs from `_ts`.
    pub(super) timestamps: Vec<u32>,
    /// By shredded column: rows in which it is residual.
    pub(super) residual: Vec<u32>,
    /// By shredded column: rows with older versions of it.
    pub(super) older: Vec<u32>,
    /// By family: rows with overflow, in the side file or not.
    pub(super) overflow: Vec<u32>,
    /// By family: the least timestamp of the newest cells of its columns; `None` without cells.
    pub(super) newest_least: Vec<Option<i64>>,
    /// By family: the least timestamp of its cells.
    pub(super) least: Vec<Option<i64>>,
}

impl GroupFooter {
    pub(super) fn new(first: Position, families: usize, columns: usize) -> Self {
        Self {
            first,
            rows: 0,
            key: true,
            side: 0,
            values: vec![0; columns],
            timestamps: vec![0; columns],
            residual: vec![0; columns],
            older: vec![0; columns],
            overflow: vec![0; families],
            newest_least: vec![None; families],
            least: vec![None; families],
        }
    }

    /// The positions of its rows.
    pub(super) fn positions(&self) -> Range<Position> {
        self.first..self.first + self.rows
    }
}

impl Footer {
    /// Parses a footer; an error text if it is malformed.
    pub(super) fn parse(json: &str) -> Result<Self, String> {
        let footer: Self = serde_json::from_str(json).map_err(|error| format!("the footer is no footer: {error}"))?;
        if footer.version != FORMAT_VERSION {
            return Err(format!("the format version is {}, this program reads {FORMAT_VERSION}", footer.version));
        }
        let (families, columns) = (footer.families.len(), footer.columns.len());
        let mut next: Position = 0;
        for group in &footer.groups {
            let by_column = [&group.values, &group.timestamps, &group.residual, &group.older];
            let whole = by_column.iter().all(|list| list.len() == columns)
                && [group.overflow.len(), group.newest_least.len(), group.least.len()] == [families; 3];
            if !whole || group.first != next {
                return Err("the footer contradicts itself".into());
            }
            next = next.checked_add(group.rows).ok_or("the footer counts too many rows")?;
        }
        Ok(footer)
    }

    /// The footer as JSON.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers")
    }

    /// Rows of all row groups.
    pub(super) fn rows(&self) -> Position {
        self.groups.last().map_or(0, |group| group.positions().end)
    }

    /// The row group of a position.
    pub(super) fn group_of(&self, position: Position) -> usize {
        self.groups.partition_point(|group| group.positions().end <= position)
    }

    /// The index of a family among the families.
    pub(super) fn family(&self, number: u32) -> Option<usize> {
        self.families.iter().position(|family| family.number == number)
    }

    /// The range of the shredded columns of a family.
    pub(super) fn columns_of(&self, number: u32) -> Range<usize> {
        let start = self.columns.iter().position(|column| column.family == number).unwrap_or(self.columns.len());
        let rest = &self.columns[start..];
        start..start + rest.iter().position(|column| column.family != number).unwrap_or(rest.len())
    }

    /// The index of a column, if it is shredded.
    pub(super) fn column(&self, family: u32, qualifier: &[u8]) -> Option<usize> {
        let of_family = self.columns_of(family);
        let found =
            self.columns[of_family.clone()].binary_search_by(|column| column.qualifier.0.as_ref().cmp(qualifier));
        found.ok().map(|at| of_family.start + at)
    }

    /// Whether the overflow in a row group may hold cells of the column: its newest one, or, with `older`, any.
    pub(super) fn overflow_may_hold(&self, group: usize, family: u32, qualifier: &[u8], older: bool) -> bool {
        let Some(at) = self.family(family) else { return false };
        let group = &self.groups[group];
        group.overflow[at] > 0
            && match self.column(family, qualifier) {
                Some(column) => group.residual[column] > 0 || (older && group.older[column] > 0),
                None => self.families[at].qualifiers.may_hold(qualifier),
            }
    }
}

/// A set of qualifiers, unless it is too large.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Qualifiers {
    /// Exactly these.
    These(BTreeSet<Escaped>),
    /// Too many to list.
    Many,
}

impl Default for Qualifiers {
    fn default() -> Self {
        Self::These(BTreeSet::new())
    }
}

impl Qualifiers {
    pub(super) fn insert(&mut self, qualifier: &[u8]) {
        let Self::These(set) = self else { return };
        if set.contains(qualifier) {
            return;
        }
        let bytes = set.iter().map(|one| one.0.len()).sum::<usize>() + qualifier.len();
        if set.len() == QUALIFIERS_MAX || bytes > QUALIFIERS_BYTES_MAX {
            *self = Self::Many;
        } else {
            set.insert(Escaped(Bytes::copy_from_slice(qualifier)));
        }
    }

    /// Whether the set is certainly empty.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::These(set) if set.is_empty())
    }

    pub(super) fn may_hold(&self, qualifier: &[u8]) -> bool {
        match self {
            Self::These(set) => set.contains(qualifier),
            Self::Many => true,
        }
    }
}

/// A qualifier. In text, bytes other than letters, digits, `_`, `-` or `.` are `%XX`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Escaped(pub(super) Bytes);

impl std::borrow::Borrow<[u8]> for Escaped {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// The qualifier as text.
pub(super) fn escape(qualifier: &[u8]) -> String {
    let mut text = String::with_capacity(qualifier.len());
    for &byte in qualifier {
        match byte {
            b'_' | b'-' | b'.' => text.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => text.push(byte.into()),
            _ => {
                text.push('%');
                for digit in [byte >> 4, byte & 15] {
                    text.push(char::from_digit(digit.into(), 16).expect("below 16").to_ascii_uppercase());
                }
            }
        }
    }
    text
}

/// The inverse of [`escape`]; `None` for any other text.
pub(super) fn unescape(text: &str) -> Option<Bytes> {
    let mut rest = text.bytes();
    let mut qualifier = Vec::with_capacity(text.len());
    while let Some(byte) = rest.next() {
        qualifier.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high << 4 | low).ok()?
            }
            _ => byte,
        });
    }
    (escape(&qualifier) == text).then(|| qualifier.into())
}

impl Serialize for Escaped {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&escape(&self.0))
    }
}

impl<'de> Deserialize<'de> for Escaped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        unescape(&text).map(Self).ok_or_else(|| D::Error::custom("a qualifier is not escaped as it should be"))
    }
}

fn kind_to_name<S: Serializer>(kind: &ColumnKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&kind::name(*kind))
}

fn kind_from_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ColumnKind, D::Error> {
    let name = String::deserialize(deserializer)?;
    kind::of_name(&name).ok_or_else(|| D::Error::custom(format!("no column is of the kind {name:?}")))
}
