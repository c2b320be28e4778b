//! Statements about the session's own state, as they were written: settings, transactions, prepared statements, cursors, channels.

use super::{SelectQuery, Statement};
use datafusion::sql::sqlparser::ast::Expr;
use keyspan_catalog::SqlType;

/// A statement about settings. Names are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `SET [SESSION | LOCAL] name = value`; a value of `None` is `DEFAULT`.
    Set {
        /// The setting.
        name: String,
        /// Its value as text; several are joined by a comma and a space.
        value: Option<String>,
        /// Whether it holds until the transaction's end only.
        local: bool,
    },
    /// `SET TRANSACTION …`, and with `session` `SET SESSION CHARACTERISTICS AS TRANSACTION …`.
    SetTransaction {
        /// How isolated.
        isolation: Option<Isolation>,
        /// Whether it may not write.
        read_only: Option<bool>,
        /// Whether later transactions are meant.
        session: bool,
    },
    /// `RESET name`; `None` for `ALL`.
    Reset(Option<String>),
    /// `SHOW name`; `None` for `ALL`.
    Show(Option<String>),
    /// `DISCARD`, with the word after it in upper case: `ALL`, `PLANS`, `SEQUENCES`, `TEMP`.
    Discard(&'static str),
}

/// The bounds of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// `BEGIN`, `START TRANSACTION`
    Begin {
        /// How isolated; `None` for the session's default.
        isolation: Option<Isolation>,
        /// Whether it may not write; `None` for the session's default.
        read_only: Option<bool>,
        /// Whether it was `START TRANSACTION`: the command tag says so.
        start: bool,
    },
    /// `COMMIT`, `END`
    Commit,
    /// `ROLLBACK`, `ABORT`
    Rollback,
    /// `SAVEPOINT`
    Savepoint(String),
    /// `ROLLBACK TO`
    RollbackTo(String),
    /// `RELEASE`
    Release(String),
}

/// How far a transaction is isolated from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// A pin for each statement.
    #[default]
    ReadCommitted,
    /// One pin.
    RepeatableRead,
}

impl Isolation {
    /// As `SHOW transaction_isolation` says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
        }
    }
}

/// `PREPARE name (types) AS statement`
#[derive(Clone, Debug, PartialEq)]
pub struct Prepare {
    /// Its name.
    pub name: String,
    /// The declared types of `$1`, `$2`, …; `None` to infer.
    pub types: Vec<Option<SqlType>>,
    /// A query or a write.
    pub statement: Box<Statement>,
    /// The text of all of it.
    pub text: String,
}

/// `EXECUTE name (values)`
#[derive(Clone, Debug, PartialEq)]
pub struct Execute {
    /// The prepared statement.
    pub name: String,
    /// The values of its parameters.
    pub arguments: Vec<Expr>,
}

/// A statement about cursors.
#[derive(Clone, Debug, PartialEq)]
pub enum CursorStatement {
    /// `DECLARE … CURSOR FOR`
    Declare(Declare),
    /// `FETCH`
    Fetch(Fetch),
    /// `MOVE`
    Move(Fetch),
    /// `CLOSE`; `None` for all.
    Close(Option<String>),
}

/// `DECLARE name CURSOR FOR query`
#[derive(Clone, Debug, PartialEq)]
pub struct Declare {
    /// Its name.
    pub name: String,
    /// Whether it goes backwards.
    pub scroll: bool,
    /// Whether it outlives its transaction.
    pub hold: bool,
    /// The rows.
    pub query: SelectQuery,
    /// The text of all of it.
    pub text: String,
}

/// Which rows of which cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The cursor.
    pub name: String,
    /// The rows.
    pub direction: Direction,
}

/// Where a cursor goes. `u64::MAX` rows are all that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// So many rows on.
    Forward(u64),
    /// So many rows back.
    Backward(u64),
    /// The row with this number, from 1; negative from the end.
    Absolute(i64),
    /// The row that is so many further on, or back.
    Relative(i64),
}

/// A change of what a session listens to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listening {
    /// `LISTEN`
    To(String),
    /// `UNLISTEN`; `None` for all.
    Not(Option<String>),
}
