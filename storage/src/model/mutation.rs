//! Mutations: the changes of a row that a client may request.

use super::FamilyName;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Timestamps from `start`, inclusive, to `end`, exclusive, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimestampRange {
    /// Inclusive.
    pub start: i64,
    /// Exclusive; `None` for no end.
    pub end: Option<i64>,
}

impl TimestampRange {
    /// Every timestamp.
    pub const fn all() -> Self {
        Self { start: i64::MIN, end: None }
    }

    /// Whether the timestamp lies in it.
    pub fn contains(&self, timestamp: i64) -> bool {
        self.start <= timestamp && self.end.is_none_or(|end| timestamp < end)
    }
}

/// One change of a row. The mutations of one row are applied in order, and become visible together or not at all.
///
/// A timestamp of `None` is the commit's stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Writes a cell, replacing one with the same timestamp. Refused in an aggregate family.
    SetCell {
        /// The family.
        family: FamilyName,
        /// The column.
        qualifier: Bytes,
        /// Microseconds.
        timestamp: Option<i64>,
        /// The value.
        value: Bytes,
    },
    /// Adds one input to the cell of an aggregate family.
    AddToCell {
        /// The family.
        family: FamilyName,
        /// The column.
        qualifier: Bytes,
        /// Microseconds: identifies the cell that takes the input.
        timestamp: Option<i64>,
        /// The input: added to a sum, compared with a minimum or maximum, counted by a distinct count.
        input: i64,
    },
    /// Merges a state into the cell of an aggregate family.
    MergeToCell {
        /// The family.
        family: FamilyName,
        /// The column.
        qualifier: Bytes,
        /// Microseconds: identifies the cell that takes the state.
        timestamp: Option<i64>,
        /// A state in the format of the family's cells.
        state: Bytes,
    },
    /// Deletes the cells of a column with a timestamp in the range.
    DeleteFromColumn {
        /// The family.
        family: FamilyName,
        /// The column.
        qualifier: Bytes,
        /// Which cells.
        timestamps: TimestampRange,
    },
    /// Deletes every cell of a family.
    DeleteFromFamily {
        /// The family.
        family: FamilyName,
    },
    /// Deletes the row.
    DeleteFromRow,
}

impl Mutation {
    /// The family that it touches; `None` for the whole row.
    pub fn family(&self) -> Option<&FamilyName> {
        match self {
            Self::SetCell { family, .. }
            | Self::AddToCell { family, .. }
            | Self::MergeToCell { family, .. }
            | Self::DeleteFromColumn { family, .. }
            | Self::DeleteFromFamily { family } => Some(family),
            Self::DeleteFromRow => None,
        }
    }

    /// Size, as counted in limits and batches.
    pub fn size(&self) -> usize {
        let payload = match self {
            Self::SetCell { qualifier, value, .. } => qualifier.len() + value.len(),
            Self::MergeToCell { qualifier, state, .. } => qualifier.len() + state.len(),
            Self::AddToCell { qualifier, .. } | Self::DeleteFromColumn { qualifier, .. } => qualifier.len(),
            Self::DeleteFromFamily { .. } | Self::DeleteFromRow => 0,
        };
        payload + self.family().map_or(0, |family| family.as_str().len()) + size_of::<i64>()
    }
}
