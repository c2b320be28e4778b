//! What a statement gives to its client.

use crate::{copy::CopyIn, rights::Needs, sql::ast::copy::CopyOptions};
use datafusion::execution::SendableRecordBatchStream;
use std::sync::Arc;

/// The outcome of a statement.
pub enum Outcome {
    /// Rows, with the word of their command tag (`SELECT`, `FETCH`, `EXPLAIN`, `SHOW`, `INSERT 0` …), to which the wire
    /// adds their number where PostgreSQL does.
    Rows {
        /// The word or words of the command tag.
        tag: &'static str,
        /// The rows.
        rows: SendableRecordBatchStream,
        /// The rights that they need: checked before each part of them.
        needs: Arc<Needs>,
    },
    /// The rows of a `COPY … TO STDOUT`.
    CopyOut {
        /// The rows.
        rows: SendableRecordBatchStream,
        /// How they are written.
        options: CopyOptions,
    },
    /// A `COPY … FROM STDIN`, which waits for its data.
    CopyIn(Box<CopyIn>),
    /// A command, with its whole tag (`CREATE TABLE`, `INSERT 0 5`).
    Done(String),
    /// An empty statement.
    Empty,
}
