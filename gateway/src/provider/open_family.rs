//! Which columns of an open family a scan reads, and the map that it makes of them.
//!
//! A statement may look at some keys of the family's map only, as `props->>'a'` and `props ? 'a'` do. Then the scan
//! reads the cells of these, and gives a map that may lack all others: what the statement says of it is the same. So a
//! [`Wanted`] may have more qualifiers than are looked at, never fewer.

mod narrow;

pub(crate) use narrow::{NarrowMaps, narrowed_copy};

use super::decode::bad_cell;
use crate::pg::error::Result;
use bytes::Bytes;
use keyspan_catalog::{
    Encoding, Table,
    open_map::{self, MapWriter},
    table::OnBadValue,
};
use keyspan_storage::FamilyName;
use std::{collections::BTreeSet, fmt, ops::Bound};

/// Qualifiers of an open family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// All of them.
    #[default]
    All,
    /// These.
    These(BTreeSet<Bytes>),
    /// Those in one of the ranges.
    Within(Vec<(Bound<Bytes>, Bound<Bytes>)>),
}

impl Wanted {
    /// Whether a qualifier is among them.
    pub fn has(&self, qualifier: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::These(these) => these.contains(qualifier),
            Self::Within(ranges) => ranges.iter().any(|(low, high)| {
                let above = match low {
                    Bound::Unbounded => true,
                    Bound::Included(low) => qualifier >= low.as_ref(),
                    Bound::Excluded(low) => qualifier > low.as_ref(),
                };
                let below = match high {
                    Bound::Unbounded => true,
                    Bound::Included(high) => qualifier <= high.as_ref(),
                    Bound::Excluded(high) => qualifier < high.as_ref(),
                };
                above && below
            }),
        }
    }
}

impl fmt::Display for Wanted {
    /// As EXPLAIN shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::These(these) if these.is_empty() => f.write_str("none"),
            Self::These(these) => {
                let keys: Vec<_> = these.iter().map(|one| open_map::key_of(one)).collect();
                f.write_str(&keys.join(", "))
            }
            Self::Within(ranges) => {
                let shown = |(low, high): &(Bound<Bytes>, Bound<Bytes>)| {
                    let low = match low {
                        Bound::Unbounded => "(".to_owned(),
                        Bound::Included(low) => format!("['{}'", open_map::key_of(low)),
                        Bound::Excluded(low) => format!("('{}'", open_map::key_of(low)),
                    };
                    match high {
                        Bound::Unbounded => format!("{low}, )"),
                        Bound::Included(high) => format!("{low}, '{}']", open_map::key_of(high)),
                        Bound::Excluded(high) => format!("{low}, '{}')", open_map::key_of(high)),
                    }
                };
                f.write_str(&ranges.iter().map(shown).collect::<Vec<_>>().join(" "))
            }
        }
    }
}

/// The column of an open family.
#[derive(Clone, Debug)]
pub struct MapColumn {
    /// The column's name in SQL.
    pub name: String,
    /// The family.
    pub family: FamilyName,
    /// How its values are encoded in cells.
    pub encoding: Encoding,
    /// The qualifiers of declared and of dropped columns, sorted: the map does not show them.
    pub hidden: Vec<Bytes>,
    /// The qualifiers whose cells are read; the map may lack others.
    pub wanted: Wanted,
}

impl MapColumn {
    /// The qualifiers that are read, in order; `None` if they are not known, or more than `most`.
    pub(super) fn single_qualifiers(&self, most: usize) -> Option<Vec<Bytes>> {
        let Wanted::These(these) = &self.wanted else { return None };
        let shown = these.iter().filter(|one| self.hidden.binary_search(one).is_err());
        Some(shown.cloned().collect::<Vec<_>>()).filter(|shown| shown.len() <= most)
    }

    /// Adds a cell to a map.
    ///
    /// # Errors
    /// 22P02 for a value that does not decode, with the key of its row if that is known.
    pub(super) fn push(
        &self,
        qualifier: &[u8],
        value: &[u8],
        (key, on_bad_value): (Option<&[u8]>, OnBadValue),
        map: &mut MapWriter,
    ) -> Result<()> {
        match map.push(qualifier, value, &self.encoding) {
            Err(_) if on_bad_value == OnBadValue::Null => map.push_null(qualifier),
            Err(error) => return Err(bad_cell((&self.name, &self.family, qualifier), key, &error.to_string())),
            Ok(()) => {}
        }
        Ok(())
    }
}

/// The qualifiers that a column of an open family does not show, sorted.
pub(super) fn hidden(table: &Table, family: &FamilyName) -> Vec<Bytes> {
    table.hidden_qualifiers(family).into_iter().map(|(qualifier, _)| qualifier).collect()
}
