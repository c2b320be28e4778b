//! The families of a table.

use super::{FamilyName, TableName, limits};
use crate::{Error, FamilyChange, GcRule, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The qualifiers that are erased, by family.
pub type ErasedColumns = BTreeMap<FamilyName, BTreeSet<Vec<u8>>>;

/// How an aggregate family merges writes into a cell. Inputs are 64-bit integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregate {
    /// The sum, as 8 bytes big-endian; it wraps on overflow, as Bigtable's does.
    Sum,
    /// The least input, as 8 bytes big-endian.
    Min,
    /// The greatest input, as 8 bytes big-endian.
    Max,
    /// An estimate of the number of distinct inputs; the state is a serialised HyperLogLog sketch.
    Hll,
}

/// A column family.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    /// Which cells may be dropped.
    pub gc: GcRule,
    /// Set if writes are merged into cells instead of replacing them; fixed at the family's creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Aggregate>,
}

/// How long a table keeps previous versions of its rows, for [`Scan::as_of`](crate::Scan::as_of).
///
/// For every change of a row, the store keeps the row before the change (or that it was absent) under the key and the
/// stamp of the change. The version of a row at a time is the one under the least later stamp; if there is none, the
/// row has not changed since, and the current row is that version. Versions superseded longer ago than
/// [`keep_micros`](Self::keep_micros) are dropped.
///
/// History begins when it is switched on. It begins anew with every change of a family's rule, every drop of a family
/// and every erasure of a column: cells that such a change removes are removed from history too. A deletion of a range
/// is a purge and removes history too, and so does the drop of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// How long, in microseconds; at least [`HISTORY_MICROS_MIN`](limits::HISTORY_MICROS_MIN).
    pub keep_micros: i64,
    /// The stamp of the commit from which on history is complete, in microseconds; set by the store.
    pub since_micros: i64,
}

impl History {
    /// The earliest time that can be requested at the time `now_micros`.
    pub fn oldest_micros(&self, now_micros: i64) -> i64 {
        self.since_micros.max(self.forgotten_micros(now_micros))
    }

    /// Versions superseded at this time or before are dropped at the time `now_micros`. A row of a table with history
    /// must not lose cells to a rule that did not condemn them by then.
    pub fn forgotten_micros(&self, now_micros: i64) -> i64 {
        now_micros.saturating_sub(self.keep_micros)
    }

    /// A table's history after a commit with this stamp sets how long it is kept. Keeping longer does not bring dropped
    /// versions back.
    pub(crate) fn changed(before: Option<Self>, keep_micros: Option<i64>, stamp_micros: i64) -> Option<Self> {
        let keep_micros = keep_micros?;
        let since_micros = before.map_or(stamp_micros, |before| before.oldest_micros(stamp_micros));
        Some(Self { keep_micros, since_micros })
    }
}

/// The families of a table, by name, and its history settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSchema {
    /// At most [`FAMILIES_MAX`](limits::FAMILIES_MAX).
    pub families: BTreeMap<FamilyName, Family>,
    /// Set if previous versions are kept. [`Store::create_table`](crate::Store::create_table) only uses
    /// [`keep_micros`](History::keep_micros).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// Columns whose cells are gone from every read, though files may still have them. Writes to them are refused, so
    /// that no new cell goes with the old ones. [`Store::purge_cells`](crate::Store::purge_cells) removes the bytes;
    /// then the column may be taken off this list.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub erased: ErasedColumns,
}

impl TableSchema {
    /// A table that keeps no history.
    pub fn of(families: impl Into<BTreeMap<FamilyName, Family>>) -> Self {
        Self { families: families.into(), ..Self::default() }
    }

    /// The erased qualifiers of a family; `None` if there are none.
    pub fn erased_in(&self, family: &FamilyName) -> Option<&BTreeSet<Vec<u8>>> {
        self.erased.get(family)
    }

    /// Whether a column is erased.
    pub fn is_erased(&self, family: &FamilyName, qualifier: &[u8]) -> bool {
        self.erased_in(family).is_some_and(|erased| erased.contains(qualifier))
    }

    /// The schema after a change by a commit with this stamp; not [checked](Self::check) yet. A change that removes
    /// cells lets history begin anew.
    ///
    /// # Errors
    /// [`Error::FamilyExists`], [`Error::NoFamily`]; they name the `table`.
    pub fn changed(&self, table: &TableName, change: FamilyChange, stamp_micros: i64) -> Result<Self> {
        let absent = |family: &FamilyName| Error::NoFamily { table: table.to_string(), family: family.to_string() };
        let mut schema = self.clone();
        match change {
            FamilyChange::Create(name, family) => {
                if schema.families.contains_key(&name) {
                    return Err(Error::FamilyExists { table: table.to_string(), family: name.to_string() });
                }
                schema.families.insert(name, family);
            }
            FamilyChange::SetGc(name, gc) => {
                schema.families.get_mut(&name).ok_or_else(|| absent(&name))?.gc = gc;
            }
            FamilyChange::Drop(name) => {
                schema.families.remove(&name).ok_or_else(|| absent(&name))?;
                schema.erased.remove(&name);
            }
            FamilyChange::SetErased(name, qualifiers) => {
                schema.families.get(&name).ok_or_else(|| absent(&name))?;
                if qualifiers.is_empty() {
                    schema.erased.remove(&name);
                } else {
                    schema.erased.insert(name, qualifiers);
                }
            }
            FamilyChange::SetHistory(keep_micros) => {
                schema.history = History::changed(schema.history, keep_micros, stamp_micros);
            }
        }
        if self.loses_cells_in(&schema) {
            schema = schema.created(stamp_micros);
        }
        Ok(schema)
    }

    /// Whether `next`, the schema after this one, lacks a family, has another rule for one, or erases a column.
    pub(crate) fn loses_cells_in(&self, next: &Self) -> bool {
        let erases = |(family, qualifiers): (&FamilyName, &BTreeSet<Vec<u8>>)| {
            qualifiers.iter().any(|qualifier| !self.is_erased(family, qualifier))
        };
        self.families.iter().any(|(name, family)| next.families.get(name) != Some(family))
            || next.erased.iter().any(erases)
    }

    /// The schema with a history that begins at a commit with this stamp.
    pub(crate) fn created(mut self, stamp_micros: i64) -> Self {
        self.history = self.history.map(|history| History { since_micros: stamp_micros, ..history });
        self
    }

    /// Checks the number of families, their rules, and how long history is kept.
    ///
    /// # Errors
    /// [`Error::TooMany`] families, an invalid [rule](GcRule::check), or too short a history.
    pub fn check(&self) -> Result<()> {
        if self.families.len() > limits::FAMILIES_MAX {
            return Err(Error::TooMany { what: "families", count: self.families.len(), limit: limits::FAMILIES_MAX });
        }
        if self.history.is_some_and(|history| history.keep_micros < limits::HISTORY_MICROS_MIN) {
            return Err(Error::Invalid("history must be kept for at least a millisecond".into()));
        }
        let erased = self.erased.values().map(BTreeSet::len).sum::<usize>();
        if erased > limits::ERASED_COLUMNS_MAX {
            let limit = limits::ERASED_COLUMNS_MAX;
            return Err(Error::TooMany { what: "columns that are being erased", count: erased, limit });
        }
        self.families.values().try_for_each(|family| family.gc.check())
    }
}
