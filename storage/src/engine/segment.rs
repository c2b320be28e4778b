//! Segments: files of rows sorted by key, one row for each key, written once and never changed. A row is all of its
//! cells.
//!
//! A segment is a Parquet file, which any reader of Parquet understands, and which a query engine may scan by itself,
//! plus occasionally a side file for large values.
//!
//! ```text
//! <id>.parquet
//!   "PAR1"
//!   row groups             of at most GROUP_ROWS_MAX rows and about GROUP_BYTES_TARGET; pages of PAGE_ROWS_MAX rows,
//!                          PAGE_BYTES_TARGET
//!   tail                   its length and CRC-32C are in the manifest (SegmentMeta)
//!     own part             drawn in module `tail`: checksums of all blocks before the tail, first key of each page,
//!                          bloom filter
//!     page index, footer   Parquet's own; its key-value metadata holds "keyspan.segment": JSON, module `footer`
//!
//! columns, in this order
//!   _key                   binary: the row key
//!   _ts                    int64: the timestamp of most cells in columns of their own
//!   key:<field>            typed parts of the key (`KeyDecoder`); null if the key does not decode
//!   <N>:<family>:<qual>    newest value of a *shredded* column, if it is of the column's kind; N is the family's
//!                          number, and bytes of the qualifier other than letters, digits, `_`, `-` or `.` are escaped
//!                          as %XX
//!   <N>:<family>:<qual>@ts int64: its timestamp; null where it is that of `_ts`
//!   <N>:<family>:*         binary: all other cells of the family (`engine::cells`), its *overflow*: older versions,
//!                          columns that are not shredded, values that are not of their column's kind or too large
//!                          (VALUE_BYTES_MAX, ROW_VALUES_BYTES_MAX); null where there are none
//!   _side                  binary: pointer to the overflow of all families of the row in the side file (module
//!                          `side`), if it is larger than OVERFLOW_BYTES_MAX; mostly null
//! ```
//!
//! Writing: `shape` chooses the columns, `options` the page settings; `writer` takes rows one by one, `columns` splits
//! each into its columns, `batch` collects them, `encoder` makes pages of full batches, `sink` checksums the bytes of
//! the file.
//!
//! Reading: `open` loads the tail through a bounded cache, `keys` finds positions, `checked` reads bytes and verifies
//! their checksums. `page` decodes a page for reads of few rows, `cached` takes rows out of such pages, `levels` tells
//! which rows of one have a value. `projection` chooses the columns to read, `decode` makes rows of them, `walk` steps
//! through positions, `rows` and `row` are the interface to callers, `span` tells which part of the files some rows
//! take, `clean` finds the row groups that a query engine may read by itself. `verify` reads everything.

mod batch;
mod cached;
mod checked;
mod clean;
mod columns;
mod decode;
mod encoder;
mod footer;
#[cfg(feature = "testing")]
mod fuzz;
mod keys;
mod kind;
mod levels;
mod open;
mod options;
mod page;
mod projection;
mod row;
mod rows;
mod shape;
mod side;
mod sink;
mod span;
mod tail;
#[cfg(test)]
#[allow(
    clippy::single_range_in_vec_init,
    clippy::manual_is_multiple_of,
    reason = "lists of one range are what is tested"
)]
mod tests;
mod verify;
mod walk;
mod writer;

pub(crate) use clean::{CleanColumn, CleanRequest};
#[cfg(feature = "testing")]
pub(crate) use fuzz::{fuzz_footer, fuzz_tail};
pub(crate) use open::{Caches, Segment};
pub(crate) use options::{Compression, Limits, SegmentOptions};
pub(crate) use rows::{
    DecodedRow, EncodedRow, EncodedRows, Rows, RowsRequest, SegmentRow, SelectedColumns, SelectedFamily,
};
pub(crate) use shape::{ColumnFrequency, Shape};
pub(crate) use writer::SegmentWriter;

use super::manifest::{SegmentId, SegmentMeta};

/// Bytes of decoded columns for each of `segments` segments that are read at the same time.
pub(crate) fn decoded_bytes(segments: usize) -> usize {
    (DECODED_BYTES_TARGET / segments.max(1)).max(DECODED_BYTES_MIN)
}

/// Maximum rows of a row group.
pub(crate) const GROUP_ROWS_MAX: u32 = 128 << 10;
/// Bytes of keys and encoded rows after which a row group ends; it may hold one row more.
pub(crate) const GROUP_BYTES_TARGET: usize = 64 << 20;
/// Rows after which a page ends, approximately: a point read decodes that many of each column. Parquet's writer checks
/// only after each batch of rows.
pub const PAGE_ROWS_MAX: usize = 4_096;
/// Bytes after which a page ends; it may hold one value more.
pub const PAGE_BYTES_TARGET: usize = 64 << 10;
/// Maximum bytes of a dictionary, which every read of a page of its column decodes as well.
pub const DICTIONARY_BYTES_MAX: usize = 32 << 10;
/// Approximate bytes of decoded columns that a scan or a compaction holds, over all segments that it reads at the same
/// time.
pub(crate) const DECODED_BYTES_TARGET: usize = 4 << 20;
/// Minimum of these bytes for each segment, however many there are.
pub(crate) const DECODED_BYTES_MIN: usize = 256 << 10;
/// Maximum bytes of a value in a column of its own.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of the values of a row in columns of their own.
pub(crate) const ROW_VALUES_BYTES_MAX: usize = 4 << 20;
/// Maximum bytes of the overflow of a row in the Parquet file.
pub(crate) const OVERFLOW_BYTES_MAX: usize = 1 << 20;
