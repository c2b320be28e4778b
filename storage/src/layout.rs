//! What a store may be told of its tables, so that segments hold typed columns. Hints only: no answer depends on them.
//!
//! The owner of the tables implements [`Layouts`]. When the engine writes a segment, it asks for the [`Layout`] of the table: the
//! columns that deserve one of their own in the file, each with its [`ColumnKind`], and a [`KeyDecoder`] that makes typed columns of
//! the parts of row keys. A value that is not of its column's kind is stored all the same, beside the column.

use crate::{FamilyName, TableName};
use arrow::{
    array::{ArrayRef, BinaryArray},
    datatypes::Field,
};
use bytes::Bytes;
use std::{fmt, sync::Arc};

/// The layouts of a store's tables.
pub trait Layouts: fmt::Debug + Send + Sync + 'static {
    /// The layout of a table; `None` for one of which nothing is known.
    fn layout(&self, table: &TableName) -> Option<Arc<Layout>>;
}

/// How the rows of a table are laid out in segments.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Columns of their own in the file; each family and qualifier at most once.
    pub columns: Vec<LayoutColumn>,
    /// Makes columns of the keys.
    pub key: Option<Arc<dyn KeyDecoder>>,
}

/// A column of cells.
#[derive(Clone, Debug)]
pub struct LayoutColumn {
    /// The family.
    pub family: FamilyName,
    /// The qualifier.
    pub qualifier: Bytes,
    /// What its values are.
    pub kind: ColumnKind,
    /// Which values of the kind's form are values of the column; `None` for all of them.
    pub accepts: Option<Accepts>,
}

/// Some of the values of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Accepts {
    /// Names what `holds` says: files keep it, and what was held against one is not taken for what was held against another.
    pub name: &'static str,
    /// Whether a value, which is of the kind's form, is one of them.
    pub holds: fn(&[u8]) -> bool,
}

/// What the values of a column are. Numbers and times are big-endian in cells, each in its full width; a value of another width is not
/// of the kind.
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
    /// 4 bytes, IEEE 754; the bits are kept, NaNs included.
    Float32,
    /// 8 bytes, IEEE 754; the bits are kept, NaNs included.
    Float64,
    /// 4 bytes: days since 1970-01-01.
    Date32,
    /// 8 bytes: microseconds since 1970-01-01, of no zone.
    Timestamp,
    /// 8 bytes: microseconds since 1970-01-01 UTC.
    TimestampUtc,
    /// 16 bytes.
    Uuid,
}

/// Makes typed columns of row keys. Pure: the same key gives the same parts for ever under the same [`id`](Self::id).
pub trait KeyDecoder: fmt::Debug + Send + Sync {
    /// Names what [`fields`](Self::fields) and [`decode`](Self::decode) do: decoders with one id give the same columns for the same keys.
    fn id(&self) -> String;
    /// The columns. None of them is ever NULL.
    fn fields(&self) -> Vec<Field>;
    /// The columns of these keys; `None` when a key has no such parts.
    fn decode(&self, keys: &BinaryArray) -> Option<Vec<ArrayRef>>;
}
