//! The settings of a segment, and the settings of Parquet's writer that follow from them.

use super::{
    DICTIONARY_BYTES_MAX, GROUP_BYTES_TARGET, GROUP_ROWS_MAX, PAGE_BYTES_TARGET, PAGE_ROWS_MAX,
    shape::{KEY, SIDE, Shape, TIMESTAMP, timestamps_of},
};
use crate::engine::manifest::SegmentId;
use arrow::datatypes::{DECIMAL64_MAX_PRECISION, DataType, SchemaRef};
use parquet::{
    basic::{self, Encoding, ZstdLevel},
    file::properties::{EnabledStatistics, WriterProperties},
    schema::types::ColumnPath,
};

/// Maximum number of columns of a file with delta encoding. For each of them Parquet's writer allocates a buffer of one
/// MiB before the first value (`DEFAULT_BIT_WRITER_SIZE` of parquet 59), two for keys; further columns use plain
/// encoding.
const DIFFERENCES_COLUMNS_MAX: usize = 16;
/// Rows after which Parquet's writer checks whether a page is full.
const WRITE_ROWS_MAX: usize = 1_024;

/// Compression of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    /// LZ4: fast to read.
    Fast,
    /// zstd: smaller.
    Small,
}

/// The settings of a segment.
#[derive(Clone, Debug)]
pub(crate) struct SegmentOptions {
    pub(crate) id: SegmentId,
    /// The table's number.
    pub(crate) table: u32,
    /// The rows are as of this commit stamp, in microseconds.
    pub(crate) stamp: i64,
    /// Whether it is a tablet's base.
    pub(crate) base: bool,
    pub(crate) compression: Compression,
    /// Whether it has a bloom filter of its keys, which is useful if most lookups are for absent keys.
    pub(crate) bloom: bool,
    /// Whether a thread of its own encodes what is written.
    pub(crate) beside: bool,
    pub(crate) limits: Limits,
}

/// Limits of pages and row groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// See [`GROUP_ROWS_MAX`].
    pub(crate) group_rows_max: u32,
    /// See [`GROUP_BYTES_TARGET`].
    pub(crate) group_bytes_target: usize,
    /// See [`PAGE_ROWS_MAX`].
    pub(crate) page_rows_max: usize,
    /// See [`PAGE_BYTES_TARGET`].
    pub(crate) page_bytes_target: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            group_rows_max: GROUP_ROWS_MAX,
            group_bytes_target: GROUP_BYTES_TARGET,
            page_rows_max: PAGE_ROWS_MAX,
            page_bytes_target: PAGE_BYTES_TARGET,
        }
    }
}

impl SegmentOptions {
    /// The settings of a delta.
    pub(crate) fn delta(id: SegmentId, table: u32, stamp: i64) -> Self {
        Self {
            id,
            table,
            stamp,
            base: false,
            compression: Compression::Fast,
            bloom: true,
            beside: false,
            limits: Limits::default(),
        }
    }

    /// The settings of a base.
    pub(crate) fn base(id: SegmentId, table: u32, stamp: i64) -> Self {
        Self { base: true, bloom: false, ..Self::delta(id, table, stamp) }
    }
}

/// The settings of Parquet's writer for the columns of a shape.
pub(super) fn properties(shape: &Shape, schema: &SchemaRef, options: &SegmentOptions) -> WriterProperties {
    let path = |name: &str| ColumnPath::new(vec![name.to_owned()]);
    let mut properties = WriterProperties::builder()
        .set_created_by("keyspan".to_owned())
        .set_compression(match options.compression {
            Compression::Fast => basic::Compression::LZ4_RAW,
            Compression::Small => basic::Compression::ZSTD(ZstdLevel::default()),
        })
        .set_data_page_row_count_limit(options.limits.page_rows_max)
        .set_data_page_size_limit(options.limits.page_bytes_target)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES_MAX)
        .set_write_batch_size(WRITE_ROWS_MAX.min(options.limits.page_rows_max))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_column_dictionary_enabled(path(KEY), false)
        // Keys are sorted, so most of each is a prefix of the previous one.
        .set_column_encoding(path(KEY), Encoding::DELTA_BYTE_ARRAY)
        .set_column_dictionary_enabled(path(TIMESTAMP), false)
        .set_column_statistics_enabled(path(TIMESTAMP), EnabledStatistics::None)
        .set_column_statistics_enabled(path(SIDE), EnabledStatistics::None);
    for name in differing(shape, schema) {
        properties = properties.set_column_encoding(path(name), Encoding::DELTA_BINARY_PACKED);
    }
    // Rows are in the order of the key: its numbers and times differ little from one row to the next.
    for field in shape.key_fields().iter().filter(|field| is_counted(field.data_type())) {
        properties = properties.set_column_dictionary_enabled(path(field.name()), false);
    }
    for column in shape.columns.iter() {
        let timestamps = path(&timestamps_of(&column.name));
        properties = properties
            .set_column_dictionary_enabled(path(&column.name), column.dictionary)
            .set_column_statistics_enabled(timestamps, EnabledStatistics::None);
        if !column.declared {
            // Nobody compares the bytes, and each of hundreds of columns has a page or more in each row group.
            properties = properties.set_column_statistics_enabled(path(&column.name), EnabledStatistics::None);
        }
    }
    // Overflow and pointers to the side file are never compared, and hardly ever repeat.
    for field in schema.fields().iter().rev().take(shape.families.len() + 1) {
        debug_assert_eq!(field.data_type(), &DataType::Binary);
        properties = properties
            .set_column_dictionary_enabled(path(field.name()), false)
            .set_column_statistics_enabled(path(field.name()), EnabledStatistics::None);
    }
    properties.build()
}

/// Columns of whole numbers with delta encoding, where they have no dictionary: each value is stored as its difference
/// from the previous one, in as few bits as possible. Equal steps take no space and are decoded several times faster
/// than LZ4, which compresses 8-byte numbers poorly. The rows' timestamps and the parts of keys come first. Timestamps
/// of single cells are excluded: most are NULL, or repeat.
fn differing<'a>(shape: &Shape, schema: &'a SchemaRef) -> impl Iterator<Item = &'a str> {
    // The last columns are overflow and side file, which are bytes.
    let before_columns = schema.fields().len() - 2 * shape.columns.len() - shape.families.len() - 1;
    let has_value = move |at: &usize| *at < before_columns || (at - before_columns).is_multiple_of(2);
    let fields =
        schema.fields().iter().enumerate().filter(move |(at, field)| has_value(at) && is_counted(field.data_type()));
    fields.map(|(_, field)| field.name().as_str()).take(DIFFERENCES_COLUMNS_MAX)
}

/// Whether values are whole numbers.
fn is_counted(data: &DataType) -> bool {
    use DataType::{Date32, Int16, Int32, Int64, Time64, Timestamp};
    match data {
        Int16 | Int32 | Int64 | Date32 | Time64(_) | Timestamp(..) => true,
        // More digits are bytes in Parquet.
        DataType::Decimal128(precision, _) => *precision <= DECIMAL64_MAX_PRECISION,
        _ => false,
    }
}
