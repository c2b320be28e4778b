//! Filters: select and transform the cells of each row of a read. Bigtable's tree of filters, over the cells of one
//! row.
//!
//! A filter takes the cells of a row in order and returns cells in order; a row without remaining cells is not
//! returned. A [`Filter`] is checked and compiled once for a read, as a [`CompiledFilter`], and applied to each row.

mod compiled;
mod pattern;

pub use compiled::CompiledFilter;

use crate::{
    Error, FamilyName, Result, TimestampRange,
    model::limits::{FILTER_BYTES_MAX, FILTER_COPIES_MAX, FILTER_DEPTH_MAX},
};
use bytes::Bytes;
use std::ops::Bound;

/// A filter over the cells of a row.
///
/// Patterns are regular expressions over bytes, in the syntax of the `regex` crate (close to RE2, which Bigtable uses;
/// `\\C` for any byte is supported too). They match the whole text. `.` is any byte but a line feed.
///
/// The semantics are those of Bigtable's `RowFilter`
/// (<https://cloud.google.com/bigtable/docs/reference/data/rpc/google.bigtable.v2#rowfilter>).
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
    /// The newest cells of each column, up to this number.
    CellsPerColumn(u32),
    /// The first cells of the row, up to this number.
    CellsPerRow(u32),
    /// All but this number of first cells of the row.
    CellsPerRowOffset(u32),
    /// Every cell, with an empty value.
    StripValue,
    /// Each filter, applied to the result of the previous one.
    Chain(Vec<Filter>),
    /// The results of all of the filters, in order. A cell in several results is repeated, in the order of the filters.
    Interleave(Vec<Filter>),
    /// One of two filters, depending on whether a third returns any cell of the row.
    Condition {
        /// The condition; its cells are not returned.
        predicate: Box<Filter>,
        /// Applied if the predicate returns a cell; `None` blocks all.
        then: Option<Box<Filter>>,
        /// Applied if it returns none; `None` blocks all.
        otherwise: Option<Box<Filter>>,
    },
}

impl Filter {
    /// Checks patterns, nesting and size.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid) for a pattern that does not parse, a limit of zero cells, or an empty combination;
    /// [`TooMany`](Error::TooMany) above [`FILTER_DEPTH_MAX`] or [`FILTER_COPIES_MAX`]; [`TooLarge`](Error::TooLarge)
    /// above [`FILTER_BYTES_MAX`].
    pub fn check(&self) -> Result<()> {
        CompiledFilter::new(self).map(drop)
    }

    /// Checks nesting and size, before anything is compiled. Counts a byte for each filter, and the bytes of its
    /// patterns and values.
    fn check_size(&self) -> Result<()> {
        let size = self.size_at(1)?;
        if size > FILTER_BYTES_MAX {
            return Err(Error::TooLarge { what: "a filter", size, limit: FILTER_BYTES_MAX });
        }
        let count = self.copies();
        if count > FILTER_COPIES_MAX {
            return Err(Error::TooMany { what: "copies of a cell in a filter", count, limit: FILTER_COPIES_MAX });
        }
        Ok(())
    }

    /// Maximum number of copies that it returns of one cell.
    fn copies(&self) -> usize {
        match self {
            Self::Chain(parts) => parts.iter().map(Self::copies).fold(1, usize::saturating_mul),
            Self::Interleave(parts) => parts.iter().map(Self::copies).fold(0, usize::saturating_add),
            // The predicate's cells are computed, though not returned.
            _ => self.parts().map(Self::copies).fold(1, usize::max),
        }
    }

    fn size_at(&self, depth: usize) -> Result<usize> {
        if depth > FILTER_DEPTH_MAX {
            return Err(Error::TooMany { what: "levels of a filter", count: depth, limit: FILTER_DEPTH_MAX });
        }
        let bound = |bound: &Bound<Bytes>| match bound {
            Bound::Included(bytes) | Bound::Excluded(bytes) => bytes.len(),
            Bound::Unbounded => 0,
        };
        let own = match self {
            Self::RowKeyRegex(pattern)
            | Self::FamilyRegex(pattern)
            | Self::QualifierRegex(pattern)
            | Self::ValueRegex(pattern) => pattern.len(),
            Self::QualifierRange { family, start, end } => family.as_str().len() + bound(start) + bound(end),
            Self::ValueRange { start, end } => bound(start) + bound(end),
            _ => 0,
        };
        self.parts().try_fold(own + 1, |size, part| Ok(size + part.size_at(depth + 1)?))
    }

    /// The filters that it consists of.
    fn parts(&self) -> impl Iterator<Item = &Self> {
        let (many, few): (&[Self], [Option<&Self>; 3]) = match self {
            Self::Chain(parts) | Self::Interleave(parts) => (parts, [None; 3]),
            Self::Condition { predicate, then, otherwise } => {
                (&[], [Some(predicate), then.as_deref(), otherwise.as_deref()])
            }
            _ => (&[], [None; 3]),
        };
        many.iter().chain(few.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests;
