//! The families of a table.

use super::{FamilyName, limits};
use crate::{Error, GcRule, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How an aggregate family merges what is written into a cell. Inputs are 64-bit integers.
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
    /// Which cells may be forgotten.
    pub gc: GcRule,
    /// Set when cells are merged rather than replaced; fixed at the family's creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<Aggregate>,
}

/// The families of a table, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSchema {
    /// At most [`FAMILIES_MAX`](limits::FAMILIES_MAX).
    pub families: BTreeMap<FamilyName, Family>,
}

impl TableSchema {
    /// Checks the number of families and their rules.
    ///
    /// # Errors
    /// [`Error::TooMany`] families, or an invalid [rule](GcRule::check).
    pub fn check(&self) -> Result<()> {
        if self.families.len() > limits::FAMILIES_MAX {
            return Err(Error::TooMany { what: "families", count: self.families.len(), limit: limits::FAMILIES_MAX });
        }
        self.families.values().try_for_each(|family| family.gc.check())
    }
}
