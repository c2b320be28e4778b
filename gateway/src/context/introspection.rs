//! What a session shows of itself: the rows of `pg_prepared_statements` and `pg_cursors`.

use arrow::datatypes::SchemaRef;
use pgwire::api::Type;
use std::fmt::Debug;

/// A session's prepared statements and cursors. They are listed when a relation asks for them, not for each statement.
pub trait SessionObjects: Debug + Send + Sync {
    /// The prepared statements that have a name, by name.
    fn prepared_statements(&self) -> Vec<PreparedInfo>;
    /// The open cursors, by name.
    fn cursors(&self) -> Vec<CursorInfo>;
}

/// A prepared statement.
#[derive(Clone, Debug)]
pub struct PreparedInfo {
    /// Its name.
    pub name: String,
    /// The text that prepared it.
    pub text: String,
    /// When it was prepared, in microseconds since 1970.
    pub at_micros: i64,
    /// Whether `PREPARE` made it, not a message of the protocol.
    pub by_statement: bool,
    /// The types of its parameters.
    pub parameters: Vec<Type>,
    /// The columns of its rows; `None` for a command without rows.
    pub columns: Option<SchemaRef>,
}

/// An open cursor.
#[derive(Clone, Debug)]
pub struct CursorInfo {
    /// Its name.
    pub name: String,
    /// The text that declared it.
    pub text: String,
    /// When it was declared, in microseconds since 1970.
    pub at_micros: i64,
    /// Whether it can go backwards.
    pub scroll: bool,
    /// Whether it outlives its transaction.
    pub hold: bool,
}

/// A session without either.
#[derive(Debug)]
pub(crate) struct NoObjects;

impl SessionObjects for NoObjects {
    fn prepared_statements(&self) -> Vec<PreparedInfo> {
        Vec::new()
    }
    fn cursors(&self) -> Vec<CursorInfo> {
        Vec::new()
    }
}
