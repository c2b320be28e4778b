//! `COPY`: rows as files and as streams.
//!
//! `COPY … TO 'file'` writes Parquet on the server ([`parquet`]). `COPY … TO STDOUT` sends rows in PostgreSQL's three
//! formats ([`encode`]); `COPY … FROM STDIN` takes them: bytes are cut into records ([`lines`], [`binary`]), records
//! into fields ([`fields`]), and fields become rows of a load ([`from`]). Neither direction holds more than a bounded
//! part of the rows.

pub mod binary;
pub mod encode;
pub mod fields;
pub mod from;
pub mod lines;
pub mod parquet;

pub use from::CopyIn;
pub use parquet::{copy_to, remove_parts, target, to_parquet};
