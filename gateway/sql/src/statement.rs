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

use super::tokens::TokenReader;
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
        TokenReader::split(sql, database)?.into_iter().map(|mut tokens| parse_one(&mut tokens)).collect()
    }
}

/// Parses the rest of the cursor as one statement.
pub(crate) fn parse_one(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let statement = match tokens.head().as_str() {
        "" if tokens.at_end() => Statement::Empty,
        "with" if tokens.behind_with() == "insert" => super::query::parse_insert(tokens)?,
        "with" if tokens.behind_with() == "update" => super::query::parse_update(tokens)?,
        "with" if tokens.behind_with() == "delete" => super::query::parse_delete(tokens)?,
        "" | "select" | "values" | "with" | "table" => super::query::parse_select(tokens)?,
        "insert" => super::query::parse_insert(tokens)?,
        "update" => super::query::parse_update(tokens)?,
        "delete" => super::query::parse_delete(tokens)?,
        "merge" => super::merge::parse_merge(tokens)?,
        "explain" => super::query::parse_explain(tokens)?,
        "copy" => super::copy::parse_copy(tokens)?,
        "create" | "alter" | "drop" => parse_definition(tokens)?,
        "grant" | "revoke" => super::role::parse_grant(tokens)?,
        "set" | "reset" | "show" | "discard" => super::settings::parse_setting(tokens)?,
        "begin" | "start" | "commit" | "end" | "rollback" | "abort" => super::settings::parse_transaction(tokens)?,
        "savepoint" | "release" => super::settings::parse_savepoint(tokens)?,
        "prepare" => super::prepared::parse_prepare(tokens)?,
        "execute" => super::prepared::parse_execute(tokens)?,
        "deallocate" => super::prepared::parse_deallocate(tokens)?,
        "declare" => super::cursor::parse_declare(tokens)?,
        "fetch" | "move" => super::cursor::parse_fetch(tokens)?,
        "close" => super::cursor::parse_close(tokens)?,
        "truncate" => super::maintenance::parse_truncate(tokens)?,
        "vacuum" | "analyze" | "analyse" => super::maintenance::parse_vacuum(tokens)?,
        "listen" | "unlisten" => super::listen::parse_listen(tokens)?,
        "notify" => super::listen::parse_notify(tokens)?,
        "comment" => super::comment::parse_comment(tokens)?.into(),
        "lock" => return Err(super::maintenance::refuse(tokens)),
        _ => return Err(tokens.unknown_statement()),
    };
    tokens.expect_end()?;
    Ok(statement)
}

/// `CREATE`, `ALTER`, `DROP`: the word after them decides.
fn parse_definition(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let verb = tokens.head();
    tokens.advance();
    let what = tokens.head();
    match (verb.as_str(), what.as_str()) {
        ("create", "table") => return super::definition::parse_create_table(tokens, false),
        ("create", "temp" | "temporary") if tokens.head_nth(1) == "table" => {
            tokens.advance();
            return super::definition::parse_create_table(tokens, true);
        }
        ("create", "temp" | "temporary") if matches!(tokens.head_nth(1).as_str(), "view" | "recursive") => {
            super::view::parse_create_view(tokens)
        }
        ("create", "temp" | "temporary") => {
            let what = format!("CREATE TEMPORARY {}", tokens.head_nth(1).to_uppercase());
            Err(SqlError::unsupported(what).with_hint("Tables and views can be temporary."))
        }
        ("alter", "table") => super::definition::parse_alter_table(tokens),
        ("drop", "table") => super::definition::parse_drop_table(tokens),
        ("create", "schema") => return super::maintenance::parse_create_schema(tokens),
        ("create", "sequence") => super::sequence::parse_create_sequence(tokens),
        ("drop", "sequence") => super::sequence::parse_drop_sequence(tokens),
        ("create", "view" | "or" | "recursive") => super::view::parse_create_view(tokens),
        ("alter", "view") => super::view::parse_alter_view(tokens),
        ("drop", "view") => super::view::parse_drop_view(tokens),
        ("create", "database") => super::role::parse_create_database(tokens),
        ("alter", "database") => super::role::parse_alter_database(tokens),
        ("drop", "database") => super::role::parse_drop_database(tokens),
        ("create", "role" | "user") => super::role::parse_create_role(tokens),
        ("alter", "role" | "user") => super::role::parse_alter_role(tokens),
        ("drop", "role" | "user") => super::role::parse_drop_roles(tokens),
        _ if super::definition::is_other_object(&what) => {
            Err(SqlError::unsupported(format!("{} {}", verb.to_uppercase(), what.to_uppercase())))
        }
        _ => Err(tokens.syntax_error()),
    }
    .map(Statement::from)
}

impl From<Definition> for Statement {
    fn from(definition: Definition) -> Self {
        Self::Definition(definition)
    }
}
