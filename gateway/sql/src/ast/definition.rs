//! Changes of the catalog: tables, views, sequences, comments, databases, roles.

use super::{
    domain::DomainChange,
    enum_type::TypeChange,
    grant::{RightsChange, RoleSpec},
    schema::SchemaChange,
    view::{AlterView, CreateView, ViewKind},
};
use datafusion::sql::sqlparser::ast::{self, Expr};
use keyspan_catalog::{Encoding, PartOrder, SequenceOptions, SqlType, table::Identity};
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
    /// `ALTER SEQUENCE … OWNED BY`
    AlterSequence(AlterSequence),
    /// `DROP SEQUENCE`
    DropSequences(DropTables),
    /// `CREATE VIEW`
    CreateView(CreateView),
    /// `ALTER [MATERIALIZED] VIEW`
    AlterView(AlterView),
    /// `DROP [MATERIALIZED] VIEW`
    DropViews(ViewKind, DropTables),
    /// `CREATE PROTO DESCRIPTOR`
    CreateProto(CreateProto),
    /// `DROP PROTO DESCRIPTOR`
    DropProtos {
        /// The descriptors.
        names: Vec<String>,
        /// `IF EXISTS`
        if_exists: bool,
    },
    /// `CREATE`, `ALTER`, `DROP SCHEMA`, `ALTER … SET SCHEMA`
    Schema(SchemaChange),
    /// `CREATE`, `ALTER`, `DROP TYPE`
    Type(TypeChange),
    /// `CREATE`, `ALTER`, `DROP DOMAIN`
    Domain(DomainChange),
    /// `CREATE SERVER`
    CreateServer(CreateServer),
    /// `DROP SERVER`
    DropServers(DropServers),
    /// `IMPORT FOREIGN SCHEMA`
    ImportForeignSchema(ImportForeignSchema),
    /// `COMMENT ON`
    Comment(Comment),
    /// `CREATE DATABASE`, which creates a tenant
    CreateDatabase {
        /// The tenant.
        name: String,
        /// `OWNER`; `None` for the role that makes it.
        owner: Option<RoleSpec>,
        /// The tenant whose relations and rows it gets.
        source: Option<DatabaseSource>,
    },
    /// `ALTER DATABASE … SET (…)`, `… RESET (…)`: the quotas of the tenant's sessions
    AlterDatabase {
        /// The tenant.
        name: String,
        /// Names of quotas and their values; `None` removes a quota.
        quotas: Vec<(String, Option<String>)>,
    },
    /// `ALTER ROLE … SET`, `ALTER DATABASE … SET`, and `RESET`: what sessions begin with
    SessionDefaults {
        /// Whose sessions.
        of: SessionsOf,
        /// What is set.
        change: SettingChange,
    },
    /// `DROP DATABASE`
    DropDatabase {
        /// The tenant.
        name: String,
        /// `IF EXISTS`
        if_exists: bool,
        /// Whether sessions that are connected to it are ended.
        force: bool,
    },
    /// `CREATE ROLE`
    CreateRole(String, RoleOptions),
    /// `ALTER ROLE`
    AlterRole(String, RoleOptions),
    /// `DROP ROLE`
    DropRoles {
        /// The roles.
        names: Vec<String>,
        /// `IF EXISTS`
        if_exists: bool,
    },
    /// `GRANT`, `REVOKE`, `ALTER DEFAULT PRIVILEGES`, `ALTER … OWNER TO`, `REASSIGN OWNED`
    Rights(RightsChange),
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

/// `CREATE SERVER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateServer {
    /// The name.
    pub name: String,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// The foreign-data wrapper.
    pub wrapper: String,
    /// `OPTIONS`
    pub options: Vec<(String, String)>,
}

/// `IMPORT FOREIGN SCHEMA`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportForeignSchema {
    /// The schema there.
    pub schema: String,
    /// The tables.
    pub tables: ImportedTables,
    /// The server.
    pub server: String,
    /// The schema here.
    pub into: String,
    /// `OPTIONS`, which each of the tables gets.
    pub options: Vec<(String, String)>,
}

/// Which tables are imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportedTables {
    /// All.
    All,
    /// `LIMIT TO (…)`
    LimitTo(Vec<String>),
    /// `EXCEPT (…)`
    Except(Vec<String>),
}

/// `DROP SERVER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropServers {
    /// The servers.
    pub names: Vec<String>,
    /// `IF EXISTS`
    pub if_exists: bool,
}

/// The tenant that a new one is a copy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseSource {
    /// `TEMPLATE name`
    Template {
        /// The tenant.
        name: String,
        /// The text of a timestamp: `AS OF '…'`.
        as_of: Option<String>,
    },
    /// `FROM BACKUP 'path' TENANT name`
    Backup {
        /// The folder of the backup, on the server's machine.
        path: String,
        /// The tenant.
        tenant: String,
    },
}

/// `CREATE TABLE`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateTable {
    /// The table.
    pub name: RelationName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// The columns in order.
    pub columns: Vec<ColumnClause>,
    /// The parts of the primary key in order; empty without one.
    pub primary_key: Vec<KeyClause>,
    /// The `CHECK` clauses of the table and of its columns.
    pub checks: Vec<CheckClause>,
    /// The `FAMILY` clauses.
    pub families: Vec<FamilyClause>,
    /// The `WITH` options.
    pub options: Vec<OptionClause>,
    /// The `ON COMMIT` clause.
    pub on_commit: Option<OnCommit>,
    /// `SERVER`: where its rows are to be.
    pub server: Option<String>,
    /// `OPTIONS` of `CREATE FOREIGN TABLE`: the table is there already. `None` for `CREATE TABLE`.
    pub found: Option<Vec<(String, String)>>,
}

/// The fate of a temporary table when a transaction commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCommit {
    /// Its rows stay.
    PreserveRows,
    /// Its rows are deleted.
    DeleteRows,
    /// It is dropped.
    Drop,
}

/// The definition of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnClause {
    /// Its name.
    pub name: String,
    /// Its type; text for one of a type that a user made.
    pub kind: SqlType,
    /// The type that a user made.
    pub own_type: Option<RelationName>,
    /// `NOT NULL`, also implied by `serial` and by an identity.
    pub not_null: bool,
    /// The default of its values.
    pub default: Option<DefaultClause>,
    /// `PROTOBUF 'message'`: the message that its cells hold.
    pub protobuf: Option<String>,
    /// `FAMILY`, `QUALIFIER` and `ENCODING`, if there is one of them.
    pub cells: Option<CellsClause>,
}

/// How the cells of a column are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellsClause {
    /// `FAMILY m`
    pub family: Option<String>,
    /// `QUALIFIER 'fan-rpm'`
    pub qualifier: Option<String>,
    /// `ENCODING text`
    pub encoding: Option<Encoding>,
}

/// The default of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultClause {
    /// `DEFAULT expression`
    Expression(Box<Expr>),
    /// `serial`, `bigserial`, `smallserial`: the next value of a sequence that belongs to the column
    Serial,
    /// `GENERATED … AS IDENTITY`: the same, with the sequence's options
    Identity(Identity, OwnSequence),
}

/// The sequence of an identity column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnSequence {
    /// `SEQUENCE NAME`; `None` for the name that PostgreSQL would choose.
    pub name: Option<RelationName>,
    /// Its options.
    pub options: SequenceOptions,
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
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// Its options.
    pub options: SequenceOptions,
}

/// `CREATE PROTO DESCRIPTOR`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateProto {
    /// The descriptor.
    pub name: String,
    /// `OR REPLACE`
    pub or_replace: bool,
    /// The bytes of a FileDescriptorSet.
    pub files: Vec<u8>,
}

/// `ALTER SEQUENCE` with options, or with another name
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterSequence {
    /// The sequence.
    pub name: RelationName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// What changes.
    pub options: SequenceOptions,
    /// `OWNED BY`: the column that shall own it, with its table; the inner `None` for `NONE`.
    pub owner: Option<Option<(RelationName, String)>>,
    /// `RENAME TO`
    pub rename: Option<String>,
}

/// A part of the primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyClause {
    /// The column.
    pub column: String,
    /// `DESC`, `REVERSED`
    pub order: PartOrder,
}

/// `FAMILY m (a, b) OPEN`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyClause {
    /// The family.
    pub name: String,
    /// Its columns.
    pub columns: Vec<String>,
    /// `OPEN`
    pub open: bool,
}

/// `m.max_versions = 5` or `key_encoding = ordered`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionClause {
    /// The family before the dot.
    pub family: Option<String>,
    /// The option, in lower case.
    pub name: String,
    /// The value behind `=`: the text of a string, a number, or a word in lower case; `true` without one.
    pub value: String,
}

/// `ALTER TABLE`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTable {
    /// The table.
    pub name: RelationName,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// The actions, in order.
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
        /// `PRIMARY KEY`
        key: bool,
        /// `IF NOT EXISTS`
        if_not_exists: bool,
    },
    /// `DROP COLUMN`
    DropColumn {
        /// The column.
        name: String,
        /// `IF EXISTS`
        if_exists: bool,
        /// `CASCADE`: objects that depend on it are dropped too.
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
        /// The name of one of the tenant's own.
        own_type: Option<RelationName>,
        /// The value of the new type, by the names of columns.
        using: Option<Box<Expr>>,
    },
    /// `ALTER COLUMN … SET DEFAULT`; `None` for `DROP DEFAULT`.
    SetDefault {
        /// The column.
        column: String,
        /// The expression.
        default: Option<Box<Expr>>,
    },
    /// `ALTER COLUMN … ADD GENERATED … AS IDENTITY`
    AddIdentity {
        /// The column.
        column: String,
        /// Whether statements may supply values for it.
        identity: Identity,
        /// Its sequence.
        sequence: OwnSequence,
    },
    /// `ALTER COLUMN … SET GENERATED …`, `SET INCREMENT …`, `RESTART`: of an identity column
    AlterIdentity {
        /// The column.
        column: String,
        /// Whether statements may supply values for it.
        identity: Option<Identity>,
        /// Its sequence's options.
        options: SequenceOptions,
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
        /// `IF EXISTS`
        if_exists: bool,
    },
    /// `SET (…)`
    SetOptions(Vec<OptionClause>),
    /// `ADD FAMILY`
    AddFamily {
        /// The family.
        name: String,
        /// `OPEN`
        open: bool,
        /// The `WITH` options, with or without the family's name.
        options: Vec<OptionClause>,
        /// `IF NOT EXISTS`
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
    /// `IF EXISTS`
    pub if_exists: bool,
    /// `CASCADE`: objects that depend on them are dropped too.
    pub cascade: bool,
}

/// `CREATE TABLE … AS`, `SELECT … INTO`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTableAs {
    /// The table.
    pub name: RelationName,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// Names for its first columns; the others have those of the query.
    pub columns: Vec<String>,
    /// The `WITH` options.
    pub options: Vec<OptionClause>,
    /// The query of its rows: always [`ast::Statement::Query`].
    pub query: Box<ast::Statement>,
    /// Whether the rows are written: not under `WITH NO DATA`.
    pub with_data: bool,
    /// The `ON COMMIT` clause.
    pub on_commit: Option<OnCommit>,
}

/// The sessions that begin with a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionsOf {
    /// Those of a role.
    Role(String),
    /// Those of a role in a database.
    RoleIn {
        /// The role.
        role: String,
        /// The database.
        database: String,
    },
    /// Those in a database.
    Database(String),
}

/// A change of what sessions begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingChange {
    /// `SET name TO value`; `None` for `DEFAULT`, and for `RESET name`
    Set(String, Option<String>),
    /// `RESET ALL`
    ResetAll,
}

/// The options of `CREATE ROLE` and `ALTER ROLE`; `None` where the statement does not have one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// `LOGIN`, `NOLOGIN`
    pub login: Option<bool>,
    /// `SUPERUSER`, `NOSUPERUSER`: whether it is an operator
    pub operator: Option<bool>,
    /// `PASSWORD '…'`; `Some(None)` for `PASSWORD NULL`.
    pub password: Option<Option<String>>,
    /// `CONNECTION LIMIT`; `Some(None)` for none.
    pub connection_limit: Option<Option<u32>>,
    /// `VALID UNTIL '…'`
    pub valid_until: Option<String>,
    /// `INHERIT`, `NOINHERIT`: whether it has the rights of the roles that it is a member of
    pub inherit: Option<bool>,
}

impl std::fmt::Debug for RoleOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A password never gets into a log.
        let password = self.password.as_ref().map(|password| password.as_ref().map(|_| "…"));
        let mut out = f.debug_struct("RoleOptions");
        out.field("login", &self.login).field("operator", &self.operator).field("password", &password);
        out.field("connection_limit", &self.connection_limit).field("valid_until", &self.valid_until);
        out.field("inherit", &self.inherit).finish()
    }
}

/// `COMMENT ON … IS …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// The object.
    pub on: Commented,
    /// The text; `None` removes the comment.
    pub text: Option<String>,
}

/// The object of a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commented {
    /// A table.
    Table(RelationName),
    /// A view of a kind.
    View(ViewKind, RelationName),
    /// A column of a table or view.
    Column(RelationName, String),
    /// A database.
    Database(String),
    /// A schema.
    Schema(String),
    /// A type.
    Type(RelationName),
    /// A domain.
    Domain(RelationName),
}
