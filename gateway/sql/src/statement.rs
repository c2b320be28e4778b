//! Statements: split, parsed, told apart by their heads.
//!
//! The text is cut into tokens once and at semicolons into statements. The first word decides who reads the rest: a
//! definition ([`definition`](super::definition), [`role`](super::role)), a setting or the bounds of a transaction ([`settings`](super::settings)) by parsers of our
//! own, because their syntax is ours or PostgreSQL's alone; queries and writes ([`query`](super::query)) by sqlparser, whose tree is then held
//! against what is supported. Anything that is not a query is ours and never reaches DataFusion's own definitions. Nothing is
//! ignored: what parses and is not supported is 0A000, what does not parse is 42601.

#[cfg(test)]
mod tests;

pub use super::clause::{
    AlterAction, AlterTable, AlterView, CheckClause, ColumnClause, CreateSequence, CreateTable, CreateTableAs,
    CreateView, DefaultClause, DropTables, FamilyClause, KeyClause, OnCommit, OptionClause, RoleOptions, ViewAction,
};
pub use super::comment::{Comment, Commented};
pub use super::copy::{Compression, CopyFormat, CopyFrom, CopyOptions, CopyOut, CopyTo, Forced, Header};
pub use super::cursor::{CursorStatement, Declare, Direction, Fetch};
pub use super::merge::{Merge, MergeAction, MergeClause};
pub use super::prepared::{Execute, Prepare};
pub use super::query::{Explain, OnConflict, assignments, on_conflict, table_name, target};
pub use super::settings::{Isolation, Setting, Transaction};
pub use crate::pg::ident::{fold, quoted};

pub use super::maintenance::Upkeep;

use super::tokens::Cursor;
use crate::{
    listen::Listening,
    pg::{
        error::{Result, SqlError},
        names::RelationName,
    },
};
use datafusion::sql::sqlparser::ast;

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// Nothing between two semicolons.
    Empty,
    /// Something that gives rows and changes nothing: always [`ast::Statement::Query`].
    Query(Box<ast::Statement>),
    /// `EXPLAIN`
    Explain(Explain),
    /// `EXPLAIN DROP DATABASE`: what it would delete.
    ExplainDropDatabase(String),
    /// `INSERT`
    Insert(Box<ast::Insert>),
    /// `UPDATE`
    Update(Box<ast::Update>),
    /// `DELETE`
    Delete(Box<ast::Delete>),
    /// `MERGE`
    Merge(Box<Merge>),
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
        /// Whether the sequences of their columns begin anew.
        restart: bool,
    },
    /// `LISTEN`, `UNLISTEN`
    Listen(Listening),
    /// `NOTIFY`
    Notify {
        /// The channel.
        channel: String,
        /// What goes with it.
        payload: String,
    },
    /// `VACUUM`, `ANALYZE`
    Upkeep(Upkeep),
}

/// A change of the catalog.
#[derive(Clone, Debug, PartialEq)]
pub enum Definition {
    /// `CREATE TABLE`
    CreateTable(CreateTable),
    /// `ALTER TABLE`
    AlterTable(AlterTable),
    /// `DROP TABLE`
    DropTables(DropTables),
    /// `CREATE SEQUENCE`
    CreateSequence(CreateSequence),
    /// `DROP SEQUENCE`
    DropSequences(DropTables),
    /// `CREATE VIEW`
    CreateView(CreateView),
    /// `ALTER VIEW`
    AlterView(AlterView),
    /// `DROP VIEW`
    DropViews(DropTables),
    /// `COMMENT ON`
    Comment(Comment),
    /// `CREATE DATABASE`: a tenant.
    CreateDatabase(String),
    /// `ALTER DATABASE … SET (…)`, `… RESET (…)`: what the tenant's sessions may take.
    AlterDatabase {
        /// The tenant.
        name: String,
        /// Names of quotas, and what they are now; `None` for no bound.
        quotas: Vec<(String, Option<String>)>,
    },
    /// `DROP DATABASE`
    DropDatabase {
        /// The tenant.
        name: String,
        /// Whether its absence is fine.
        if_exists: bool,
    },
    /// `CREATE ROLE`
    CreateRole(String, RoleOptions),
    /// `ALTER ROLE`
    AlterRole(String, RoleOptions),
    /// `DROP ROLE`
    DropRoles {
        /// The roles.
        names: Vec<String>,
        /// Whether their absence is fine.
        if_exists: bool,
    },
    /// `GRANT CONNECT ON DATABASE … TO …`
    GrantConnect {
        /// The tenants.
        databases: Vec<String>,
        /// The roles.
        roles: Vec<String>,
    },
    /// `REVOKE CONNECT ON DATABASE … FROM …`
    RevokeConnect {
        /// The tenants.
        databases: Vec<String>,
        /// The roles.
        roles: Vec<String>,
    },
}

impl Statement {
    /// Splits text into statements and parses each. Text without a statement gives none.
    ///
    /// # Errors
    /// 42601 with a position; 0A000.
    pub fn parse(sql: &str) -> Result<Vec<Self>> {
        Self::parse_in(sql, "")
    }

    /// `INSERT INTO table query`
    ///
    /// # Errors
    /// None that a name and a query could bring.
    pub fn insert_of(table: &RelationName, query: &ast::Statement) -> Result<Self> {
        let text = format!("INSERT INTO {} SELECT 1", table.sql());
        let mut statement = Self::parse(&text)?.swap_remove(0);
        if let (Self::Insert(insert), ast::Statement::Query(query)) = (&mut statement, query) {
            insert.source = Some(query.clone());
        }
        Ok(statement)
    }

    /// The same in a database, with whose name those of tables may begin.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_in(sql: &str, database: &str) -> Result<Vec<Self>> {
        Cursor::split(sql, database)?.into_iter().map(|mut cursor| parse_one(&mut cursor)).collect()
    }
}

/// Parses the rest of the cursor as one statement.
pub(crate) fn parse_one(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let statement = match cursor.head().as_str() {
        "" if cursor.at_end() => Statement::Empty,
        "with" if cursor.behind_with() == "insert" => super::query::parse_insert(cursor)?,
        "with" if cursor.behind_with() == "update" => super::query::parse_update(cursor)?,
        "with" if cursor.behind_with() == "delete" => super::query::parse_delete(cursor)?,
        "" | "select" | "values" | "with" | "table" => super::query::parse_select(cursor)?,
        "insert" => super::query::parse_insert(cursor)?,
        "update" => super::query::parse_update(cursor)?,
        "delete" => super::query::parse_delete(cursor)?,
        "merge" => super::merge::parse_merge(cursor)?,
        "explain" => super::query::parse_explain(cursor)?,
        "copy" => super::copy::parse_copy(cursor)?,
        "create" | "alter" | "drop" => parse_definition(cursor)?,
        "grant" | "revoke" => super::role::parse_grant(cursor)?,
        "set" | "reset" | "show" | "discard" => super::settings::parse_setting(cursor)?,
        "begin" | "start" | "commit" | "end" | "rollback" | "abort" => super::settings::parse_transaction(cursor)?,
        "savepoint" | "release" => super::settings::parse_savepoint(cursor)?,
        "prepare" => super::prepared::parse_prepare(cursor)?,
        "execute" => super::prepared::parse_execute(cursor)?,
        "deallocate" => super::prepared::parse_deallocate(cursor)?,
        "declare" => super::cursor::parse_declare(cursor)?,
        "fetch" | "move" => super::cursor::parse_fetch(cursor)?,
        "close" => super::cursor::parse_close(cursor)?,
        "truncate" => super::maintenance::parse_truncate(cursor)?,
        "vacuum" | "analyze" | "analyse" => super::maintenance::parse_vacuum(cursor)?,
        "listen" | "unlisten" => super::listen::parse_listen(cursor)?,
        "notify" => super::listen::parse_notify(cursor)?,
        "comment" => super::comment::parse_comment(cursor)?.into(),
        "lock" => return Err(super::maintenance::refuse(cursor)),
        _ => return Err(cursor.unknown_statement()),
    };
    cursor.expect_end()?;
    Ok(statement)
}

/// `CREATE`, `ALTER`, `DROP`: the word after them decides.
fn parse_definition(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let verb = cursor.head();
    cursor.advance();
    let what = cursor.head();
    match (verb.as_str(), what.as_str()) {
        ("create", "table") => return super::definition::parse_create_table(cursor, false),
        ("create", "temp" | "temporary") if cursor.head_nth(1) == "table" => {
            cursor.advance();
            return super::definition::parse_create_table(cursor, true);
        }
        ("create", "temp" | "temporary") if matches!(cursor.head_nth(1).as_str(), "view" | "recursive") => {
            super::view::parse_create_view(cursor)
        }
        ("create", "temp" | "temporary") => {
            let what = format!("CREATE TEMPORARY {}", cursor.head_nth(1).to_uppercase());
            Err(SqlError::unsupported(what).with_hint("Tables and views can be temporary."))
        }
        ("alter", "table") => super::definition::parse_alter_table(cursor),
        ("drop", "table") => super::definition::parse_drop_table(cursor),
        ("create", "schema") => return super::maintenance::parse_create_schema(cursor),
        ("create", "sequence") => super::sequence::parse_create_sequence(cursor),
        ("drop", "sequence") => super::sequence::parse_drop_sequence(cursor),
        ("create", "view" | "or" | "recursive") => super::view::parse_create_view(cursor),
        ("alter", "view") => super::view::parse_alter_view(cursor),
        ("drop", "view") => super::view::parse_drop_view(cursor),
        ("create", "database") => super::role::parse_create_database(cursor),
        ("alter", "database") => super::role::parse_alter_database(cursor),
        ("drop", "database") => super::role::parse_drop_database(cursor),
        ("create", "role" | "user") => super::role::parse_create_role(cursor),
        ("alter", "role" | "user") => super::role::parse_alter_role(cursor),
        ("drop", "role" | "user") => super::role::parse_drop_roles(cursor),
        _ if super::definition::is_other_object(&what) => {
            Err(SqlError::unsupported(format!("{} {}", verb.to_uppercase(), what.to_uppercase())))
        }
        _ => Err(cursor.syntax_error()),
    }
    .map(Statement::from)
}

impl From<Definition> for Statement {
    fn from(definition: Definition) -> Self {
        Self::Definition(definition)
    }
}
