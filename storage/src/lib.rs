//! The wide-column store: Bigtable's data model behind one trait, [`Store`].
//!
//! This crate knows neither SQL nor tenants. A table is rows sorted by row key, as bytes; a row holds families, a
//! family columns by qualifier, a column cells by timestamp, newest first.
//!
//! The modules below are declared in groups, in the order in which a write meets them. [`model`] says what may be
//! written and its limits; [`store`] takes it as a [`Commit`]; [`clock`] stamps it; [`row`] folds it into the existing
//! row; [`gc`] condemns the cells that a family's rule no longer keeps. A read names its rows and columns with a
//! [`Scan`] and may pass them through a [`Filter`]. A scan of many rows may instead take Parquet files and read them
//! itself ([`columnar`]); the [`layout`] of a table gives the types of its columns. Many new rows may come as a
//! [`load`], which bypasses the log.
//!
//! Two backends implement [`Store`]: [`memory`], the oracle that defines behaviour, and [`engine`], the embedded store
//! whose commits survive a crash.

// What a client writes and reads: names, keys, cells, mutations and their limits.
pub mod model;

// How a store is called: commits, scans, loads, errors.
pub mod columnar;
pub mod error;
pub mod inspect;
pub mod layout;
pub mod load;
pub mod scan;
pub mod store;

// What a write does to a row and what a read returns of it, in this order: a commit is stamped, folded into the row,
// merged into aggregates, and cleared of cells that a GC rule condemns; a read filters what is left. Pure.
pub mod clock;

pub mod row;

pub mod aggregate;

pub mod gc;

pub mod filter;

// The backends: the oracle, and the engine over a file system.
pub mod memory;

pub mod engine;

pub mod fs;

// Tables of one store here and of others elsewhere, as one store.
pub mod routed;

// What tests of any backend share.
#[cfg(feature = "testing")]
pub mod testing;

pub use clock::{Clock, ClockInfo, SystemClock};
pub use columnar::{
    Columnar, ColumnarRequest, ColumnarScan, Cuts, MemoryPart, MemoryRows, ParquetPart, PartFile, RequestedColumn,
    Rest, TakeRow,
};
pub use error::{Error, ErrorKind, Result};
pub use filter::Filter;
pub use gc::GcRule;
pub use inspect::{Inspection, PurgeReport, SpanInfo};
pub use layout::{Accepts, ColumnKind, KeyDecoder, Layout, LayoutColumn, Layouts};
pub use load::{Load, LoadColumn, NewRows};
pub use model::{
    Aggregate, Cell, ErasedColumns, Family, FamilyName, History, KeyRange, Mutation, Row, RowKey, RowSet, TableName,
    TableSchema, TimestampRange,
};
pub use routed::RoutedStore;
pub use scan::{Columns, Scan, ScanMetrics};
pub use store::{
    Atomicity, CheckAndMutate, Commit, FamilyChange, GcPromise, HistorySize, Pin, Promises, ReadModifyWrite,
    RowMutation, RowSample, RowStream, Store, StoreExt, Validation, Write,
};
