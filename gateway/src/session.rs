//! A connection's session: who it is, its settings, its transaction.
//!
//! A statement's life: [`Statement::parse`](crate::statement::Statement) → [`Session::prepare`] (types of parameters and columns) →
//! [`Session::execute`] (an [`Outcome`]: rows as a stream, or a command tag). The wire calls these for the simple and the extended
//! protocol alike.

use crate::{error::Result, statement::Statement};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::{execution::SendableRecordBatchStream, scalar::ScalarValue};
use keyspan_catalog::{Catalog, TenantStore};
use keyspan_storage::Clock;
use std::sync::Arc;

/// Who a session is; fixed at authentication.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The role.
    pub role: String,
    /// Whether it is an operator in the operator's database: defines tables, tenants and roles.
    pub operator: bool,
    /// The database: a tenant's id, or `keyspan`.
    pub database: String,
    /// The only door to rows.
    pub rows: TenantStore,
}

/// What all sessions of a server share.
#[derive(Debug)]
pub struct Shared {
    /// The catalog.
    pub catalog: Arc<Catalog>,
    /// The wall time.
    pub clock: Arc<dyn Clock>,
    /// Where an operator's `COPY … TO` may write local files; `None` for nowhere.
    pub copy_folder: Option<std::path::PathBuf>,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    /// What all sessions share.
    pub shared: Arc<Shared>,
    /// Who it is.
    pub identity: Identity,
    /// The number of the connection: `pg_backend_pid()`.
    pub process_id: i32,
    notices: Vec<crate::SqlError>,
}

/// A statement that was analysed: what it takes and what it gives.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The statement.
    pub statement: Arc<Statement>,
    /// The types of `$1`, `$2`, ….
    pub parameters: Vec<DataType>,
    /// The columns of its rows; `None` for a command without rows.
    pub columns: Option<SchemaRef>,
}

/// What a statement did.
pub enum Outcome {
    /// Rows, with the word of their command tag (`SELECT`, `FETCH`, `EXPLAIN`, `SHOW`, `INSERT 0` …), to which the wire adds their
    /// number where PostgreSQL does.
    Rows {
        /// The word or words of the command tag.
        tag: &'static str,
        /// The rows.
        rows: SendableRecordBatchStream,
    },
    /// A command, with its whole tag (`CREATE TABLE`, `INSERT 0 5`).
    Done(String),
    /// An empty statement.
    Empty,
}

/// The state of a session's transaction, as ReadyForQuery tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// None.
    Idle,
    /// In one.
    Open,
    /// In one that failed.
    Failed,
}

impl Session {
    /// A session with default settings.
    pub fn new(shared: Arc<Shared>, identity: Identity, process_id: i32) -> Self {
        Self { shared, identity, process_id, notices: Vec::new() }
    }

    /// Analyses a statement. `hints` are the types that the client declared for `$1`, `$2`, …; `None` to infer.
    ///
    /// # Errors
    /// What is wrong with the statement.
    pub async fn prepare(&mut self, statement: Statement, hints: &[Option<DataType>]) -> Result<Prepared> {
        let _ = (statement, hints);
        todo!()
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// What went wrong before its first row; later errors come from the stream.
    pub async fn execute(&mut self, prepared: &Prepared, parameters: Vec<ScalarValue>) -> Result<Outcome> {
        let _ = (prepared, parameters);
        todo!()
    }

    /// Tells the session that a statement or its rows failed: an open transaction has failed then.
    pub fn failed(&mut self) {}

    /// The state of the transaction.
    pub fn transaction_status(&self) -> TransactionStatus {
        TransactionStatus::Idle
    }

    /// Notices since the last call, for the client.
    pub fn take_notices(&mut self) -> Vec<crate::SqlError> {
        std::mem::take(&mut self.notices)
    }

    /// Sets a setting as `SET name = value` does: startup parameters use it.
    ///
    /// # Errors
    /// An unknown setting or a value that it cannot have.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let _ = (name, value);
        Ok(())
    }

    /// Settings to be reported to the client (ParameterStatus): all at start, later those that changed since the last call.
    pub fn take_parameter_status(&mut self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// `statement_timeout`; `None` for no limit.
    pub fn statement_timeout(&self) -> Option<std::time::Duration> {
        None
    }
}
