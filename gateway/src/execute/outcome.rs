//! What a statement gives to its client.

use crate::{copy::CopyIn, provider::batches::FoundRows, rights::Needs, sql::ast::copy::CopyOptions};
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
    /// Rows of a `SELECT` that were found by their key, to be sent without batches between.
    Found {
        /// The rows.
        rows: FoundRows,
        /// The rights that they need, as above.
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

impl Outcome {
    /// The same with all rows in batches.
    #[must_use]
    pub fn in_batches(self) -> Self {
        match self {
            Self::Found { rows, needs } => Self::Rows { tag: "SELECT", rows: rows.into_batches(), needs },
            other => other,
        }
    }
}
