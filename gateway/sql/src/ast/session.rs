//! Statements about the state of a session: settings, transactions, prepared statements, cursors, channels.

use super::{SelectQuery, Statement};
use datafusion::sql::sqlparser::ast::Expr;
use keyspan_catalog::SqlType;

/// A statement about settings. The names of settings are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `SET [SESSION | LOCAL] name = value`; a value of `None` is `DEFAULT`.
    Set {
        /// The setting.
        name: String,
        /// Its value as text; the items of a list are joined by a comma and a space.
        value: Option<String>,
        /// Whether it ends with the transaction.
        local: bool,
    },
    /// `SET TRANSACTION …`, and with `session` `SET SESSION CHARACTERISTICS AS TRANSACTION …`.
    SetTransaction {
        /// What it says.
        modes: Modes,
        /// Whether it sets the default of the session's later transactions.
        session: bool,
    },
    /// `RESET name`; `None` for `ALL`.
    Reset(Option<String>),
    /// `SHOW name`; `None` for `ALL`.
    Show(Option<String>),
    /// `DISCARD`, with the word after it in upper case: `ALL`, `PLANS`, `SEQUENCES`, `TEMP`.
    Discard(&'static str),
}

/// A statement that begins or ends a transaction or a savepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// `BEGIN`, `START TRANSACTION`
    Begin {
        /// What it says; the session's defaults for the rest.
        modes: Modes,
        /// Whether it was `START TRANSACTION`, which is its command tag.
        start: bool,
    },
    /// `COMMIT`, `END`
    Commit {
        /// `AND CHAIN`: another transaction of its kind begins at once.
        chain: bool,
    },
    /// `ROLLBACK`, `ABORT`
    Rollback {
        /// As of `COMMIT`.
        chain: bool,
    },
    /// `SAVEPOINT`
    Savepoint(String),
    /// `ROLLBACK TO`
    RollbackTo(String),
    /// `RELEASE`
    Release(String),
}

/// The modes of a transaction, as far as a statement has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// `ISOLATION LEVEL …`
    pub isolation: Option<Isolation>,
    /// `READ ONLY` or `READ WRITE`.
    pub read_only: Option<bool>,
    /// `DEFERRABLE` or `NOT DEFERRABLE`, which changes nothing without SERIALIZABLE, as in PostgreSQL.
    pub deferrable: Option<bool>,
}

/// An isolation level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement reads a pin of its own.
    #[default]
    ReadCommitted,
    /// All statements read one pin.
    RepeatableRead,
}

impl Isolation {
    /// The name in `SHOW transaction_isolation`.
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
    /// The name of the prepared statement.
    pub name: String,
    /// The declared types of `$1`, `$2`, …; `None` to infer.
    pub types: Vec<Option<SqlType>>,
    /// A query or a write.
    pub statement: Box<Statement>,
    /// The text of the whole statement.
    pub text: String,
}

/// `EXECUTE name (values)`
#[derive(Clone, Debug, PartialEq)]
pub struct Execute {
    /// The prepared statement.
    pub name: String,
    /// The arguments.
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
    /// The name of the cursor.
    pub name: String,
    /// `SCROLL`: it may move backwards.
    pub scroll: bool,
    /// `WITH HOLD`: it outlives its transaction.
    pub hold: bool,
    /// The query of its rows.
    pub query: SelectQuery,
    /// The text of the whole statement.
    pub text: String,
}

/// `FETCH` or `MOVE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The cursor.
    pub name: String,
    /// Which rows.
    pub direction: Direction,
}

/// The movement of a cursor. A count of `u64::MAX` stands for all rows that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The next rows, by their count.
    Forward(u64),
    /// The previous rows, by their count.
    Backward(u64),
    /// One row by its position, from 1; counted from the end if negative.
    Absolute(i64),
    /// One row by its distance from the current one; backwards if negative.
    Relative(i64),
}

/// A change of the channels that a session listens to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listening {
    /// `LISTEN`
    To(String),
    /// `UNLISTEN`; `None` for all.
    Not(Option<String>),
}
