//! The wide-column store: Bigtable's data model behind one trait, [`Store`].
//!
//! This crate knows neither SQL nor tenants. A table is rows sorted by row key, as bytes; a row holds families, a family
//! columns by qualifier, a column cells by timestamp, newest first.
//!
//! The modules stand in the order in which a write meets them: the [`model`] says what may be written and its limits,
//! [`store`] takes it as a [`Commit`], [`clock`] stamps it, [`row`] folds it into what the row held, [`gc`] condemns what a
//! family's rule no longer keeps; a read names its rows and columns with a [`Scan`] and may pass them through a [`Filter`]. A scan of
//! many rows may instead take files and read them itself ([`columnar`]), where the [`layout`] of a table says how its columns are typed.
//! Many new rows may come as a [`load`], which goes past the log.
//! Two backends implement the trait: [`memory`], the oracle that defines behaviour, and [`engine`], the embedded store whose
//! commits survive a crash.

pub mod aggregate;
pub mod clock;
pub mod columnar;
pub mod engine;
pub mod error;
pub mod filter;
pub mod fs;
pub mod gc;
pub mod inspect;
pub mod layout;
pub mod load;
pub mod memory;
pub mod model;
pub mod row;
pub mod scan;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;

pub use clock::{Clock, SystemClock};
pub use columnar::{
    Columnar, ColumnarRequest, ColumnarScan, MemoryPart, MemoryRows, ParquetPart, PartFile, RequestedColumn, Rest,
    TakeRow,
};
pub use error::{Error, ErrorKind, Result};
pub use filter::Filter;
pub use gc::GcRule;
pub use inspect::{Inspection, PurgeReport};
pub use layout::{Accepts, ColumnKind, KeyDecoder, Layout, LayoutColumn, Layouts};
pub use load::{Load, LoadColumn, NewRows};
pub use model::{
    Aggregate, Cell, Family, FamilyName, History, KeyRange, Mutation, Row, RowKey, RowSet, TableName, TableSchema,
    TimestampRange,
};
pub use scan::{Columns, Scan, ScanMetrics};
pub use store::{
    Atomicity, CheckAndMutate, Commit, FamilyChange, Pin, ReadModifyWrite, RowMutation, RowSample, RowStream, Store,
    StoreExt, Validation, Write,
};
