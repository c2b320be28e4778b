//! Prepared statements of a session: those of Parse and those of `PREPARE`, under one set of names.

use super::Prepared;
use crate::lock::{Mutex, MutexGuard};
use crate::pg::error::{Result, SqlError, SqlState};
use pgwire::api::Type;
use std::{collections::HashMap, sync::Arc};

/// Prepared statements of a session, at most.
const STATEMENTS_MAX: usize = 4_096;
/// Bytes of the texts of a connection's prepared statements, once one is longer than [`SHORT_TEXT_BYTES`].
const TEXTS_BYTES_MAX: usize = 32 << 20;
/// Texts that are not summed up.
const SHORT_TEXT_BYTES: usize = 4 << 10;

/// A prepared statement.
#[derive(Debug)]
pub(crate) struct NamedStatement {
    /// `None` for an empty statement.
    pub(crate) prepared: Option<Prepared>,
    /// The types of the parameters, as the client declared them or the server described them.
    pub(crate) types: Vec<Type>,
    /// Where it comes from.
    pub(crate) source: Source,
}

/// Where a prepared statement comes from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The text that prepared it.
    pub(crate) text: String,
    /// When, in microseconds since 1970.
    pub(crate) at_micros: i64,
    /// Whether `PREPARE` did, rather than a message of the protocol.
    pub(crate) by_statement: bool,
}

/// Statements by name, as the session's own statements see them too.
pub(crate) type SharedStatements = Arc<Mutex<HashMap<String, Arc<NamedStatement>>>>;

/// The prepared statements of a session by name; the unnamed one has the empty name.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    by_name: SharedStatements,
}

impl Statements {
    /// What `pg_prepared_statements` shows.
    pub(crate) fn shown(&self) -> SharedStatements {
        self.by_name.clone()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<NamedStatement>>> {
        self.by_name.lock()
    }

    /// Whether a statement may get a name.
    ///
    /// # Errors
    /// 42P05 for a name that is taken; 54000 beyond [`STATEMENTS_MAX`] and [`TEXTS_BYTES_MAX`].
    pub(crate) fn check_free(&self, name: &str, text: &str) -> Result<()> {
        let by_name = self.lock();
        let taken = by_name.contains_key(name);
        if !name.is_empty() && taken {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        if !taken && by_name.len() >= STATEMENTS_MAX {
            let message = format!("a connection has at most {STATEMENTS_MAX} prepared statements");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                .with_hint("Close statements that are not needed any more."));
        }
        // Short ones have room by their number.
        if !name.is_empty() && text.len() > SHORT_TEXT_BYTES {
            let sum: usize = by_name.values().map(|statement| statement.source.text.len()).sum();
            if sum + text.len() > TEXTS_BYTES_MAX {
                let message = format!(
                    "the prepared statements of a connection have more than {} MiB of text",
                    TEXTS_BYTES_MAX >> 20
                );
                return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                    .with_hint("Close statements that are not needed any more."));
            }
        }
        Ok(())
    }

    /// Gives a statement a name.
    pub(crate) fn insert(&mut self, name: String, statement: NamedStatement) {
        self.lock().insert(name, Arc::new(statement));
    }

    /// # Errors
    /// 26000.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<NamedStatement>> {
        self.lock().get(name).cloned().ok_or_else(|| {
            let message = match name {
                "" => "unnamed prepared statement does not exist".to_owned(),
                name => format!("prepared statement \"{name}\" does not exist"),
            };
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    /// Forgets a statement; one that is not there too.
    pub(crate) fn remove(&mut self, name: &str) {
        self.lock().remove(name);
    }

    /// `DEALLOCATE`; `None` for all.
    pub(crate) fn deallocate(&mut self, name: Option<&str>) -> Result<()> {
        match name {
            None => self.lock().clear(),
            Some(name) => {
                self.get(name)?;
                self.remove(name);
            }
        }
        Ok(())
    }
}
