//! Changes of the catalog as they were written: tables, views, sequences, comments, databases, roles.

use datafusion::sql::sqlparser::ast::{self, Expr, Query};
use keyspan_catalog::{SequenceOptions, SqlType, table::Identity};
use keyspan_pg::names::RelationName;

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

/// `CREATE TABLE`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateTable {
    /// The table.
    pub name: RelationName,
    /// Whether it may be there already.
    pub if_not_exists: bool,
    /// The columns in order.
    pub columns: Vec<ColumnClause>,
    /// The parts of the key in order; empty when none is declared.
    pub primary_key: Vec<KeyClause>,
    /// The `CHECK` clauses, those of columns included.
    pub checks: Vec<CheckClause>,
    /// The `FAMILY` clauses.
    pub families: Vec<FamilyClause>,
    /// The `WITH` options.
    pub options: Vec<OptionClause>,
    /// The `ON COMMIT` clause.
    pub on_commit: Option<OnCommit>,
}

/// What becomes of a temporary table when a transaction commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCommit {
    /// Its rows stay.
    PreserveRows,
    /// Its rows go.
    DeleteRows,
    /// It goes.
    Drop,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnClause {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: SqlType,
    /// Whether `NOT NULL` stands there.
    pub not_null: bool,
    /// Where its values come from when none is given.
    pub default: Option<DefaultClause>,
}

/// Where values come from that are not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultClause {
    /// `DEFAULT expression`
    Expression(Box<Expr>),
    /// `serial` and its kin: a sequence of the column's own.
    Serial,
    /// `GENERATED … AS IDENTITY`: the same, with options.
    Identity(Identity, SequenceOptions),
}

/// `CONSTRAINT name CHECK (condition)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckClause {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The condition.
    pub condition: Expr,
}

/// `CREATE SEQUENCE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSequence {
    /// The sequence.
    pub name: RelationName,
    /// Whether it may be there already.
    pub if_not_exists: bool,
    /// What is said of it.
    pub options: SequenceOptions,
}

/// A part of the primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyClause {
    /// The column.
    pub column: String,
    /// Whether `DESC` stands there.
    pub descending: bool,
}

/// `FAMILY m (a, b)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyClause {
    /// The family.
    pub name: String,
    /// Its columns.
    pub columns: Vec<String>,
}

/// `m.max_versions = 5` or `key_encoding = ordered`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionClause {
    /// The family before the dot.
    pub family: Option<String>,
    /// The option, in lower case.
    pub name: String,
    /// What was written after `=`: the text of a string, a number, or a word in lower case; `true` when there is none.
    pub value: String,
}

/// `ALTER TABLE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTable {
    /// The table.
    pub name: RelationName,
    /// Whether its absence is fine.
    pub if_exists: bool,
    /// What is done, in order.
    pub actions: Vec<AlterAction>,
}

/// A part of `ALTER TABLE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterAction {
    /// `ADD COLUMN … FAMILY …`
    AddColumn {
        /// The column.
        column: ColumnClause,
        /// Its `CHECK` clauses.
        checks: Vec<CheckClause>,
        /// Whether it becomes the primary key.
        key: bool,
        /// Its family; `None` for the table's default.
        family: Option<String>,
        /// Whether it may be there already.
        if_not_exists: bool,
    },
    /// `DROP COLUMN`
    DropColumn {
        /// The column.
        name: String,
        /// Whether its absence is fine.
        if_exists: bool,
        /// Whether what depends on it goes too.
        cascade: bool,
    },
    /// `RENAME COLUMN from TO to`
    RenameColumn {
        /// The column.
        from: String,
        /// Its new name.
        to: String,
    },
    /// `RENAME TO`
    RenameTable(String),
    /// `ALTER COLUMN … TYPE`
    SetType {
        /// The column.
        column: String,
        /// Its new type.
        kind: SqlType,
    },
    /// `ALTER COLUMN … SET DEFAULT`; `None` for `DROP DEFAULT`.
    SetDefault {
        /// The column.
        column: String,
        /// The expression.
        default: Option<Box<Expr>>,
    },
    /// `ALTER COLUMN … SET NOT NULL`
    SetNotNull(String),
    /// `ADD PRIMARY KEY`, with or without `CONSTRAINT name`
    AddPrimaryKey(Vec<KeyClause>),
    /// `ADD CHECK`, with or without `CONSTRAINT name`
    AddCheck(CheckClause),
    /// `ALTER COLUMN … DROP NOT NULL`
    DropNotNull(String),
    /// `DROP CONSTRAINT`
    DropConstraint {
        /// The constraint.
        name: String,
        /// Whether its absence is fine.
        if_exists: bool,
    },
    /// `SET (…)`
    SetOptions(Vec<OptionClause>),
    /// `ADD FAMILY`
    AddFamily {
        /// The family.
        name: String,
        /// Whether it may be there already.
        if_not_exists: bool,
    },
    /// `DROP FAMILY`
    DropFamily(String),
}

/// `DROP TABLE`, `DROP SEQUENCE`, `DROP VIEW`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropTables {
    /// Their names.
    pub names: Vec<RelationName>,
    /// Whether their absence is fine.
    pub if_exists: bool,
    /// Whether what depends on them goes too.
    pub cascade: bool,
}

/// `CREATE VIEW`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// The view.
    pub name: RelationName,
    /// Whether it takes the place of one that is there.
    pub or_replace: bool,
    /// The names of its first columns.
    pub columns: Vec<String>,
    /// What it shows.
    pub query: Box<Query>,
}

/// `CREATE TABLE … AS`, `SELECT … INTO`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTableAs {
    /// The table.
    pub name: RelationName,
    /// Whether it may be there already.
    pub if_not_exists: bool,
    /// The names of its first columns.
    pub columns: Vec<String>,
    /// The `WITH` options.
    pub options: Vec<OptionClause>,
    /// What it begins with: always a query.
    pub query: Box<ast::Statement>,
    /// Whether the rows are written too.
    pub with_data: bool,
    /// The `ON COMMIT` clause.
    pub on_commit: Option<OnCommit>,
}

/// `ALTER VIEW`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterView {
    /// The view.
    pub name: RelationName,
    /// Whether its absence is fine.
    pub if_exists: bool,
    /// What is done.
    pub action: ViewAction,
}

/// What `ALTER VIEW` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewAction {
    /// `RENAME TO`
    Rename(String),
    /// `RENAME COLUMN from TO to`
    RenameColumn {
        /// The column.
        from: String,
        /// Its new name.
        to: String,
    },
}

/// The options of `CREATE ROLE` and `ALTER ROLE`; `None` where nothing was said.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// `LOGIN`, `NOLOGIN`
    pub login: Option<bool>,
    /// `SUPERUSER`, `NOSUPERUSER`: an operator.
    pub operator: Option<bool>,
    /// `PASSWORD '…'`; `Some(None)` for `PASSWORD NULL`.
    pub password: Option<Option<String>>,
}

impl std::fmt::Debug for RoleOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A password never gets into a log.
        let password = self.password.as_ref().map(|password| password.as_ref().map(|_| "…"));
        let mut shown = f.debug_struct("RoleOptions");
        shown.field("login", &self.login).field("operator", &self.operator).field("password", &password).finish()
    }
}

/// `COMMENT ON … IS …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// What it is about.
    pub on: Commented,
    /// What it says; `None` takes it away.
    pub text: Option<String>,
}

/// What a comment is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commented {
    /// A table.
    Table(RelationName),
    /// A view.
    View(RelationName),
    /// A column of either.
    Column(RelationName, String),
    /// A database.
    Database(String),
}
