//! Prepared statements of a session: those of Parse and those of `PREPARE`, under one set of names. Their memory is
//! counted as held by the session's tenant ([`Held`]).

use super::Prepared;
use crate::{
    lock::{Mutex, MutexGuard},
    pg::{
        datetime::Style,
        error::{Result, SqlError, SqlState},
    },
    resources::Held,
    wire::encoder::RowEncoder,
};
use pgwire::api::Type;
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

/// Prepared statements of a session, at most.
const STATEMENTS_MAX: usize = 4_096;
/// Bytes of the texts of a connection's prepared statements, once one is longer than [`SHORT_TEXT_BYTES`].
const TEXTS_BYTES_MAX: usize = 32 << 20;
/// Texts that are not summed up.
const SHORT_TEXT_BYTES: usize = 4 << 10;

/// Bytes that a short prepared statement takes: its tree, its plan, what is remembered for its next run. Measured, as
/// all of these, by how the process grows: 29 KiB for a look-up by key.
const STATEMENT_BYTES: usize = 24 << 10;
/// Bytes that the tree has for a comma, a bracket or an operator, and what stands beside it: 200 in a sum, 210 in a
/// list of numbers, 270 in rows of VALUES.
const SIGN_BYTES: usize = 280;
/// Copies of the text and of its literals.
const TEXT_COPIES: usize = 3;

/// A prepared statement.
#[derive(Debug)]
pub(crate) struct NamedStatement {
    /// `None` for an empty statement.
    pub(crate) prepared: Option<Prepared>,
    /// The types of the parameters, as the client declared them or the server described them.
    pub(crate) types: Vec<Type>,
    /// The encoder of its rows as text, once it was asked for.
    pub(crate) encoder: OnceLock<RowEncoder>,
    /// Where it comes from.
    pub(crate) source: Source,
    /// About how many bytes it takes: [`kept_bytes`] of its text, which the one without a name does not keep.
    pub(crate) bytes: usize,
}

impl NamedStatement {
    /// The encoder of its rows as text in a style; `None` for a statement without rows.
    ///
    /// # Errors
    /// A fault of ours.
    pub(crate) fn encoder(&self, style: &Arc<Style>) -> Result<Option<RowEncoder>> {
        let Some(columns) = self.prepared.as_ref().and_then(|prepared| prepared.columns.as_ref()) else {
            return Ok(None);
        };
        let encoder = match self.encoder.get() {
            Some(encoder) => encoder.clone(),
            None => {
                let encoder = RowEncoder::new(columns.clone(), &[], style.clone())?;
                self.encoder.get_or_init(|| encoder).clone()
            }
        };
        Ok(Some(encoder.with_style(style.clone())))
    }
}

/// About how many bytes a prepared statement of a text takes. The tree of one without a name is not counted: there is
/// one of a session, and it is gone with the next.
pub(crate) fn kept_bytes(name: &str, text: &str) -> usize {
    let mut quoted = false;
    let is_sign = |byte: &u8| {
        quoted ^= *byte == b'\'';
        !quoted && matches!(byte, b',' | b'(' | b')' | b'+' | b'-' | b'*' | b'/' | b'=' | b'<' | b'>' | b'|')
    };
    let signs = if name.is_empty() { 0 } else { text.bytes().filter(is_sign).count() };
    STATEMENT_BYTES + SIGN_BYTES * signs + TEXT_COPIES * text.len()
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
    /// Of all of them.
    bytes: usize,
    held: Held,
}

impl Statements {
    /// None yet, and where what they take is counted.
    pub(crate) fn counted(held: Held) -> Self {
        Self { held, ..Self::default() }
    }

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
    ///
    /// # Errors
    /// 53200 where there is no memory for it.
    pub(crate) fn insert(&mut self, name: String, statement: NamedStatement) -> Result<()> {
        let bytes = self.bytes + statement.bytes;
        self.held.resize_for(
            bytes,
            "Close or DEALLOCATE prepared statements that are not needed any more, or send shorter ones.",
        )?;
        self.bytes = bytes;
        let before = self.lock().insert(name, Arc::new(statement));
        before.into_iter().for_each(|before| self.gone(before.bytes));
        Ok(())
    }

    fn gone(&mut self, bytes: usize) {
        self.bytes -= bytes;
        // Less is never refused.
        let _ = self.held.resize(self.bytes);
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
        let removed = self.lock().remove(name);
        removed.into_iter().for_each(|removed| self.gone(removed.bytes));
    }

    /// `DEALLOCATE`; `None` for all.
    pub(crate) fn deallocate(&mut self, name: Option<&str>) -> Result<()> {
        match name {
            None => {
                self.lock().clear();
                self.gone(self.bytes);
            }
            Some(name) => {
                self.get(name)?;
                self.remove(name);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_take_what_their_trees_take() {
        let more_of = |name: &str, text: &str| kept_bytes(name, text) - STATEMENT_BYTES - TEXT_COPIES * text.len();
        let more = |text: &str| more_of("p", text);
        assert_eq!(more("SELECT a FROM t WHERE b IN ($1, $2)"), 3 * SIGN_BYTES);
        // A document is one value, whatever is in it.
        assert_eq!(more("SELECT '{\"a\": [1, 2, 3], \"b\": \"it''s (5)\"}'"), 0);
        assert_eq!(more_of("", "SELECT 1, 2, 'it''s', (3)"), 0);
    }
}
