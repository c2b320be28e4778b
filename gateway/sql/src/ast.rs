//! Statements as types: the output of the parsers.
//!
//! Queries and writes are sqlparser's trees; all other statements have types of their own in this file and in those
//! below it, none of which imports a parser.

pub mod copy;
pub mod definition;
pub mod domain;
pub mod enum_type;
pub mod grant;
pub mod merge;
pub mod schema;
pub mod session;
pub mod view;

use copy::{CopyFrom, CopyOut, CopyTo};
use datafusion::sql::sqlparser::ast;
use definition::{AlterTable, CreateTableAs, Definition};
use keyspan_pg::names::RelationName;
use merge::Merge;
use session::{CursorStatement, Execute, Listening, Prepare, Setting, Transaction};
use view::{CreateMaterialized, RefreshMaterialized};

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// No statement: an empty text, or one of comments only.
    Empty,
    /// A query that locks nothing: always [`ast::Statement::Query`].
    Query(Box<ast::Statement>),
    /// A query that locks the rows that it returns: `SELECT … FOR UPDATE`.
    LockingQuery(LockingQuery),
    /// `EXPLAIN`
    Explain(Explain),
    /// `EXPLAIN DROP DATABASE`: the database.
    ExplainDropDatabase(String),
    /// `EXPLAIN ALTER TABLE`: what it would forget.
    ExplainAlterTable(Box<AlterTable>),
    /// `INSERT`
    Insert(Box<ast::Insert>),
    /// `UPDATE`
    Update(Box<ast::Update>),
    /// `DELETE`
    Delete(Box<ast::Delete>),
    /// `DELETE … ERASE`
    Erase(Box<ast::Delete>),
    /// `MERGE`
    Merge(Box<Merge>),
    /// `WITH` whose queries write: its parts in the order in which they run, the statement behind WITH last.
    WritingWith(Vec<WithPart>),
    /// `COPY … TO 'file'`
    CopyTo(CopyTo),
    /// `COPY … TO STDOUT`
    CopyOut(CopyOut),
    /// `COPY … FROM STDIN`
    CopyFrom(CopyFrom),
    /// A change of the catalog.
    Definition(Definition),
    /// `CREATE TABLE … AS`, `SELECT … INTO`
    CreateTableAs(CreateTableAs),
    /// `CREATE MATERIALIZED VIEW`
    CreateMaterialized(CreateMaterialized),
    /// `REFRESH MATERIALIZED VIEW`
    RefreshMaterialized(RefreshMaterialized),
    /// `SET`, `RESET`, `SHOW`, `DISCARD`
    Setting(Setting),
    /// `BEGIN`, `COMMIT`, `ROLLBACK`, `SAVEPOINT`, …
    Transaction(Transaction),
    /// `PREPARE`
    Prepare(Prepare),
    /// `EXECUTE`
    Execute(Execute),
    /// `DEALLOCATE`; `None` for all.
    Deallocate(Option<String>),
    /// `DECLARE`, `FETCH`, `MOVE`, `CLOSE`
    Cursor(CursorStatement),
    /// `TRUNCATE`
    Truncate {
        /// The tables.
        tables: Vec<RelationName>,
        /// `RESTART IDENTITY`: the sequences of their columns restart.
        restart: bool,
    },
    /// `LOCK … IN ACCESS SHARE MODE`
    Lock(Vec<RelationName>),
    /// `LISTEN`, `UNLISTEN`
    Listen(Listening),
    /// `NOTIFY`
    Notify {
        /// The channel.
        channel: String,
        /// The payload; empty without one.
        payload: String,
    },
    /// `VACUUM`, `ANALYZE`, `CREATE SCHEMA IF NOT EXISTS`
    Maintenance(Maintenance),
    /// `SHOW TABLES`, `SHOW COLUMNS`, `SHOW CREATE`, `DESCRIBE`
    Describe(Description),
}

/// A part of a statement with a WITH whose queries write: a query of WITH, or the statement behind it. Those behind
/// read the rows of the first from a function that is called [`WITH_ROWS`] with `_0` behind it, and so on.
///
/// [`WITH_ROWS`]: crate::WITH_ROWS
#[derive(Clone, Debug, PartialEq)]
pub struct WithPart {
    /// A query, a write, or such with a lock.
    pub statement: Statement,
    /// The parameters that it has, by number from 1.
    pub parameters: Vec<usize>,
}

/// What is told of relations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// `SHOW TABLES`
    Tables,
    /// `DESCRIBE`, `SHOW COLUMNS FROM`
    Columns(RelationName),
    /// `SHOW CREATE`, of a `table`, a `view` or a `sequence`
    Create(&'static str, RelationName),
}

/// A query, by whether it locks the rows that it returns.
#[derive(Clone, Debug, PartialEq)]
pub enum SelectQuery {
    /// It locks nothing: always [`ast::Statement::Query`].
    Plain(Box<ast::Statement>),
    /// It locks rows.
    Locking(LockingQuery),
}

/// A query with `FOR UPDATE`, `FOR SHARE` or their variants behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct LockingQuery {
    /// The query with these clauses.
    pub query: Box<ast::Query>,
    /// The query without them, for where nothing is locked: always [`ast::Statement::Query`].
    pub unlocked: Box<ast::Statement>,
}

impl SelectQuery {
    /// The query without clauses that lock.
    pub fn unlocked(&self) -> &ast::Statement {
        match self {
            Self::Plain(query) => query,
            Self::Locking(query) => &query.unlocked,
        }
    }
}

impl From<Box<ast::Query>> for SelectQuery {
    fn from(query: Box<ast::Query>) -> Self {
        if query.locks.is_empty() {
            Self::Plain(Box::new(ast::Statement::Query(query)))
        } else {
            Self::Locking(LockingQuery::from(query))
        }
    }
}

impl From<Box<ast::Query>> for LockingQuery {
    fn from(query: Box<ast::Query>) -> Self {
        let mut unlocked = query.clone();
        unlocked.locks.clear();
        Self { query, unlocked: Box::new(ast::Statement::Query(unlocked)) }
    }
}

impl From<SelectQuery> for Statement {
    fn from(query: SelectQuery) -> Self {
        match query {
            SelectQuery::Plain(query) => Self::Query(query),
            SelectQuery::Locking(query) => Self::LockingQuery(query),
        }
    }
}

impl From<Definition> for Statement {
    fn from(definition: Definition) -> Self {
        Self::Definition(definition)
    }
}

/// The form of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExplainFormat {
    /// Lines.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// One XML document.
    Xml,
}

/// `EXPLAIN`
#[derive(Clone, Debug, PartialEq)]
pub struct Explain {
    /// `ANALYZE`: the statement runs and its metrics are reported.
    pub analyze: bool,
    /// `VERBOSE`
    pub verbose: bool,
    /// `FORMAT`
    pub format: ExplainFormat,
    /// A query, a write, or `EXECUTE` of one.
    pub statement: Box<Statement>,
}

/// A statement that has no effect, since the store maintains itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// `VACUUM` of tables; empty for all.
    Vacuum(Vec<RelationName>),
    /// `ANALYZE` of tables; empty for all.
    Analyze(Vec<RelationName>),
    /// `CREATE SCHEMA IF NOT EXISTS` of a schema that exists.
    Schema(String),
    /// `ALTER SYSTEM CONFIRM CLOCK`
    ConfirmClock,
}
