//! Hints about tables, so that segments have typed columns. No result depends on them.
//!
//! The owner of the tables implements [`Layouts`]. When the engine writes a segment, it asks for the [`Layout`] of the
//! table: the columns that should be columns of the file, each with its [`ColumnKind`], and a [`KeyDecoder`] that makes
//! typed columns from the parts of row keys. A value that is not of its column's kind is stored all the same, outside
//! the column.

use crate::{FamilyName, TableName};
use arrow::{
    array::{ArrayRef, BinaryArray},
    datatypes::Field,
};
use bytes::Bytes;
use std::{fmt, sync::Arc};

/// The layouts of a store's tables.
pub trait Layouts: fmt::Debug + Send + Sync + 'static {
    /// The layout of rows of a table with keys like these, ascending; `None` if unknown. They are some of those that a
    /// segment will have, the first among them, and all lie before `end`.
    fn layout(&self, table: &TableName, keys: &[&[u8]], end: Option<&[u8]>) -> Option<Arc<Layout>>;

    /// The *section* of a row: the prefix that its key has in common with all rows that are laid out alike; `None` if
    /// unknown. The table may hold the rows of many owners, each with columns of its own.
    fn section<'a>(&self, _table: &TableName, _key: &'a [u8]) -> Option<&'a [u8]> {
        None
    }
}

/// How the rows of a table are laid out in segments.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Columns of their own in the file; each family and qualifier at most once.
    pub columns: Vec<LayoutColumn>,
    /// Makes columns from the keys.
    pub key: Option<Arc<dyn KeyDecoder>>,
    /// The section that `key` is for, whose rows have row groups of their own; empty for the whole table.
    pub section: Bytes,
}

/// A column of cells.
#[derive(Clone, Debug)]
pub struct LayoutColumn {
    /// The family.
    pub family: FamilyName,
    /// The qualifier.
    pub qualifier: Bytes,
    /// The kind of its values.
    pub kind: ColumnKind,
    /// Check that values of the column must pass, besides being of its kind; `None` for all values of the kind.
    pub accepts: Option<Accepts>,
}

/// A check on values of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Accepts {
    /// The name of the check in files: a value that passed one check is not assumed to pass another.
    pub name: &'static str,
    /// Whether a value, which is of the kind's form, passes.
    pub holds: fn(&[u8]) -> bool,
}

/// The type of a column's values. Numbers and times are big-endian in cells, in their full width; a value of another
/// width is not of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// Any bytes.
    Binary,
    /// UTF-8.
    Utf8,
    /// One byte, 00 or 01.
    Bool,
    /// 2 bytes.
    Int16,
    /// 4 bytes.
    Int32,
    /// 8 bytes.
    Int64,
    /// 4 bytes, IEEE 754; the bits are kept, including NaNs.
    Float32,
    /// 8 bytes, IEEE 754; the bits are kept, including NaNs.
    Float64,
    /// 4 bytes: days since 1970-01-01.
    Date32,
    /// 8 bytes: microseconds since 1970-01-01, without time zone.
    Timestamp,
    /// 8 bytes: microseconds since 1970-01-01 UTC.
    TimestampUtc,
    /// 16 bytes.
    Uuid,
    /// The scale (4 bytes), which is the kind's, and the unscaled integer in two's complement, as few bytes as hold it:
    /// HBase's form of a BigDecimal.
    Decimal {
        /// Digits at most: 1 to 38.
        precision: u8,
        /// Digits after the point: at most the precision.
        scale: u8,
    },
}

/// Makes typed columns from row keys. Pure: under one [`id`](Self::id), a key always has the same parts.
pub trait KeyDecoder: fmt::Debug + Send + Sync {
    /// Identifies the behaviour of [`fields`](Self::fields) and [`decode`](Self::decode): decoders with the same id
    /// return the same columns for the same keys.
    fn id(&self) -> String;
    /// The columns, none of which is ever NULL.
    fn fields(&self) -> Vec<Field>;
    /// The columns of these keys; `None` if a key does not have these parts.
    fn decode(&self, keys: &BinaryArray) -> Option<Vec<ArrayRef>>;
}
