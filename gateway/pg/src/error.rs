//! Errors as PostgreSQL reports them: SQLSTATE, primary message, detail, hint, and the name they are about.
//!
//! Every error of the crates beneath becomes a [`SqlError`] here and nowhere else: those of the store and the catalog
//! by their kinds in this file, those of DataFusion, Arrow and Parquet in `datafusion`. An error about a name carries
//! it as its [`Subject`], which a position in the statement's text is found by; who reports the error never reads its
//! message.

use keyspan_catalog::ErrorKind as CatalogKind;
use keyspan_storage::{ErrorKind as StoreKind, engine::REQUEST_BYTES_MAX};
use std::fmt;
use subject::Subject;

mod datafusion;
pub mod subject;

/// A result with an error for the client.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

/// A SQLSTATE (<https://www.postgresql.org/docs/15/errcodes-appendix.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqlState(pub &'static str);

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl SqlState {
            $($(#[$doc])* pub const $name: Self = Self($code);)*

            /// The state of a code; [`INTERNAL_ERROR`](Self::INTERNAL_ERROR) for a code that is not in the list.
            pub fn of(code: &str) -> Self {
                match code { $($code => Self::$name,)* _ => Self::INTERNAL_ERROR }
            }
        }
    };
}

states! {
    /// No error: what notices carry.
    SUCCESSFUL_COMPLETION = "00000";
    /// A feature that is not supported.
    FEATURE_NOT_SUPPORTED = "0A000";
    /// A message that the protocol does not allow.
    PROTOCOL_VIOLATION = "08P01";
    /// A server behind this one cannot be reached.
    CONNECTION_FAILURE = "08006";
    /// More than one row where one is allowed; `ON CONFLICT DO UPDATE` of one row twice.
    CARDINALITY_VIOLATION = "21000";
    /// Text too long for its type.
    STRING_DATA_RIGHT_TRUNCATION = "22001";
    /// A number out of its type's range.
    NUMERIC_VALUE_OUT_OF_RANGE = "22003";
    /// Bits of another length than their type, or than each other.
    STRING_DATA_LENGTH_MISMATCH = "22026";
    /// Bytes that are not UTF-8, or U+0000.
    CHARACTER_NOT_IN_REPERTOIRE = "22021";
    /// A character that no text may have, in a document.
    UNTRANSLATABLE_CHARACTER = "22P05";
    /// Bytes that are not a value of the type.
    INVALID_BINARY_REPRESENTATION = "22P03";
    /// A date or time that does not exist.
    DATETIME_FIELD_OVERFLOW = "22008";
    /// An offset of a time zone that is out of range.
    INVALID_TIME_ZONE_DISPLACEMENT_VALUE = "22009";
    /// A date or time that cannot be read.
    INVALID_DATETIME_FORMAT = "22007";
    /// Division by zero.
    DIVISION_BY_ZERO = "22012";
    /// An escape character that is none.
    INVALID_ESCAPE_SEQUENCE = "22025";
    /// Escape characters where they mean nothing.
    INVALID_USE_OF_ESCAPE_CHARACTER = "2200C";
    /// A part of a text or of bytes with a negative length.
    SUBSTRING_ERROR = "22011";
    /// A parameter out of its domain.
    INVALID_PARAMETER_VALUE = "22023";
    /// Data of a COPY that is not in its format.
    BAD_COPY_FILE_FORMAT = "22P04";
    /// Text that is not a value of the type.
    INVALID_TEXT_REPRESENTATION = "22P02";
    /// A subscript out of bounds, or a dimension that the array does not have.
    ARRAY_SUBSCRIPT_ERROR = "2202E";
    /// A NULL argument where a value is required.
    NULL_VALUE_NOT_ALLOWED = "22004";
    /// An interval out of range.
    INTERVAL_FIELD_OVERFLOW = "22015";
    /// An item of a SQL/JSON path that is no date or time.
    INVALID_ARGUMENT_FOR_SQL_JSON_DATETIME = "22031";
    /// A subscript of a SQL/JSON path.
    INVALID_SQL_JSON_SUBSCRIPT = "22033";
    /// An item of a SQL/JSON path that is no number.
    NON_NUMERIC_SQL_JSON_ITEM = "22036";
    /// Several items of a SQL/JSON path, or none, where one is wanted.
    SINGLETON_SQL_JSON_ITEM_REQUIRED = "22038";
    /// An item of a SQL/JSON path that is no array.
    SQL_JSON_ARRAY_NOT_FOUND = "22039";
    /// A member that an object does not have, of a SQL/JSON path.
    SQL_JSON_MEMBER_NOT_FOUND = "2203A";
    /// A SQL/JSON path's operand that is no number.
    SQL_JSON_NUMBER_NOT_FOUND = "2203B";
    /// An item of a SQL/JSON path that is no object.
    SQL_JSON_OBJECT_NOT_FOUND = "2203C";
    /// A recursive query that reads itself where it may not.
    INVALID_RECURSION = "42P19";
    /// A pattern that is not a regular expression.
    INVALID_REGULAR_EXPRESSION = "2201B";
    /// LIMIT is negative.
    INVALID_ROW_COUNT_IN_LIMIT = "2201W";
    /// OFFSET is negative.
    INVALID_ROW_COUNT_IN_OFFSET = "2201X";
    /// The logarithm of zero or of a negative number.
    INVALID_LOGARITHM = "2201E";
    /// A power that is not a real number: zero to a negative one, or a negative to a fraction.
    INVALID_POWER = "2201F";
    /// Impossible bounds or count for `width_bucket`.
    INVALID_WIDTH_BUCKET = "2201G";
    /// Data that is malformed.
    DATA_EXCEPTION = "22000";
    /// NULL in a NOT NULL column.
    NOT_NULL_VIOLATION = "23502";
    /// A reference to a row that does not exist.
    FOREIGN_KEY_VIOLATION = "23503";
    /// A row with the same key exists.
    UNIQUE_VIOLATION = "23505";
    /// An object of the wrong kind: a view instead of a table, for example.
    WRONG_OBJECT_TYPE = "42809";
    /// A row violates a CHECK constraint.
    CHECK_VIOLATION = "23514";
    /// A sequence reached its limit.
    SEQUENCE_GENERATOR_LIMIT_EXCEEDED = "2200H";
    /// An explicit value for a column GENERATED ALWAYS.
    GENERATED_ALWAYS = "428C9";
    /// A warning.
    WARNING = "01000";
    /// A GRANT that gave nothing, or not all.
    PRIVILEGE_NOT_GRANTED = "01007";
    /// A REVOKE that took nothing, or not all.
    PRIVILEGE_NOT_REVOKED = "01006";
    /// A grant that makes no sense, or that the grantor may not make.
    INVALID_GRANT_OPERATION = "0LP01";
    /// A write in a read-only transaction.
    READ_ONLY_SQL_TRANSACTION = "25006";
    /// A statement that needs a transaction block, outside of one.
    NO_ACTIVE_SQL_TRANSACTION = "25P01";
    /// A percentage of TABLESAMPLE that is none.
    INVALID_TABLESAMPLE_ARGUMENT = "2202H";
    /// Sessions that wait for each other.
    DEADLOCK_DETECTED = "40P01";
    /// A lock that another transaction holds, under NOWAIT or past `lock_timeout`.
    LOCK_NOT_AVAILABLE = "55P03";
    /// A setting that is read-only.
    CANT_CHANGE_RUNTIME_PARAM = "55P02";
    /// A name that means several objects.
    AMBIGUOUS_ALIAS = "42P09";
    /// Columns that do not fit the clause.
    INVALID_COLUMN_REFERENCE = "42P10";
    /// A window function where none may be.
    WINDOWING_ERROR = "42P20";
    /// A statement that a transaction block does not allow.
    ACTIVE_SQL_TRANSACTION = "25001";
    /// A statement in a failed transaction, which accepts only its end.
    IN_FAILED_SQL_TRANSACTION = "25P02";
    /// A wrong role or password.
    INVALID_PASSWORD = "28P01";
    /// A role that may not connect here, or not in this way.
    INVALID_AUTHORIZATION = "28000";
    /// A definition that refers to itself.
    INVALID_OBJECT_DEFINITION = "42P17";
    /// An object that others depend on.
    DEPENDENT_OBJECTS_STILL_EXIST = "2BP01";
    /// A database that does not exist.
    INVALID_CATALOG_NAME = "3D000";
    /// A schema that does not exist.
    INVALID_SCHEMA_NAME = "3F000";
    /// A prepared statement that does not exist.
    INVALID_SQL_STATEMENT_NAME = "26000";
    /// A conflict with another transaction; a retry may succeed.
    SERIALIZATION_FAILURE = "40001";
    /// An option that a foreign-data wrapper does not have.
    FDW_INVALID_OPTION_NAME = "HV00D";
    /// A statement of which only a part was done.
    STATEMENT_COMPLETION_UNKNOWN = "40003";
    /// A savepoint that does not exist.
    INVALID_SAVEPOINT_SPECIFICATION = "3B001";
    /// A cursor or portal that does not exist.
    INVALID_CURSOR_NAME = "34000";
    /// A cursor or portal of the same name is open.
    DUPLICATE_CURSOR = "42P03";
    /// A prepared statement of the same name exists.
    DUPLICATE_PREPARED_STATEMENT = "42P05";
    /// The role lacks the privilege.
    INSUFFICIENT_PRIVILEGE = "42501";
    /// A statement that parses and cannot be planned, for a reason without a code of its own.
    SYNTAX_OR_ACCESS = "42000";
    /// A statement that does not parse.
    SYNTAX_ERROR = "42601";
    /// A column name twice.
    DUPLICATE_COLUMN = "42701";
    /// A column that does not exist.
    UNDEFINED_COLUMN = "42703";
    /// A name longer than 63 bytes.
    NAME_TOO_LONG = "42622";
    /// A role, type or other object that does not exist.
    UNDEFINED_OBJECT = "42704";
    /// An object of the same name exists.
    DUPLICATE_OBJECT = "42710";
    /// A table name or alias twice in FROM.
    DUPLICATE_ALIAS = "42712";
    /// No cast between the two types.
    CANNOT_COERCE = "42846";
    /// A type that does not fit.
    DATATYPE_MISMATCH = "42804";
    /// A function or operator that does not exist for the types.
    UNDEFINED_FUNCTION = "42883";
    /// A column name that fits several columns.
    AMBIGUOUS_COLUMN = "42702";
    /// A call that fits several functions or operators.
    AMBIGUOUS_FUNCTION = "42725";
    /// A name that is reserved for the system.
    RESERVED_NAME = "42939";
    /// A column neither grouped nor aggregated, or an aggregate where none is allowed.
    GROUPING_ERROR = "42803";
    /// An invalid name.
    INVALID_NAME = "42602";
    /// A table, view or sequence that does not exist.
    UNDEFINED_TABLE = "42P01";
    /// A parameter that does not exist.
    UNDEFINED_PARAMETER = "42P02";
    /// A database of the same name exists.
    DUPLICATE_DATABASE = "42P04";
    /// A schema of the same name exists.
    DUPLICATE_SCHEMA = "42P06";
    /// A relation of the same name exists.
    DUPLICATE_TABLE = "42P07";
    /// An invalid definition of a table.
    INVALID_TABLE_DEFINITION = "42P16";
    /// A parameter whose type cannot be inferred.
    INDETERMINATE_DATATYPE = "42P18";
    /// The disk is full.
    DISK_FULL = "53100";
    /// The memory budget is exceeded.
    OUT_OF_MEMORY = "53200";
    /// Too many connections.
    TOO_MANY_CONNECTIONS = "53300";
    /// A limit that the operator set.
    CONFIGURATION_LIMIT_EXCEEDED = "53400";
    /// A limit of the data model is exceeded.
    PROGRAM_LIMIT_EXCEEDED = "54000";
    /// A statement whose tree would be too deep.
    STATEMENT_TOO_COMPLEX = "54001";
    /// An object in use.
    OBJECT_IN_USE = "55006";
    /// An object in the wrong state for the operation.
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000";
    /// Cancelled by the client or by `statement_timeout`.
    QUERY_CANCELED = "57014";
    /// A transaction idle past `idle_in_transaction_session_timeout`.
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03";
    /// A session idle past `idle_session_timeout`.
    IDLE_SESSION_TIMEOUT = "57P05";
    /// The server shuts down.
    ADMIN_SHUTDOWN = "57P01";
    /// The server is starting or stopping, or the store is unavailable.
    CANNOT_CONNECT_NOW = "57P03";
    /// Reading or writing a file failed.
    IO_ERROR = "58030";
    /// Stored data is damaged.
    DATA_CORRUPTED = "XX001";
    /// A snapshot older than the store keeps.
    SNAPSHOT_TOO_OLD = "72000";
    /// A bug of the server.
    INTERNAL_ERROR = "XX000";
}

/// An error as PostgreSQL reports it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SqlError {
    /// The SQLSTATE.
    pub state: SqlState,
    /// The primary message: lower case, no full stop.
    pub message: String,
    /// More about the case at hand: a sentence.
    pub detail: Option<String>,
    /// What to do: a sentence.
    pub hint: Option<String>,
    /// The position in the statement's text, in characters from 1.
    pub position: Option<u32>,
    /// The name that the error is about, for an error without a position yet.
    pub subject: Option<Box<Subject>>,
    /// Where it happened, beside the statement: the line of a COPY.
    pub context: Option<Box<str>>,
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl SqlError {
    /// An error with a primary message.
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        let (detail, hint, position, subject, context) = (None, None, None, None, None);
        Self { state, message: message.into(), detail, hint, position, subject, context }
    }

    /// An error about a file of the server: tenants read `message`, which does not name it, operators and the log
    /// `internal`, which does.
    pub fn of_server_file(state: SqlState, message: impl Into<String>, internal: impl Into<String>) -> Self {
        Self::new(state, message).with_subject(Subject::ServerFile(internal.into()))
    }

    /// The message with the name of the server's file that the error is about, if it is about one.
    pub fn internal(&self) -> Option<&str> {
        match self.subject.as_deref()? {
            Subject::ServerFile(internal) => Some(internal),
            _ => None,
        }
    }

    /// The error as an operator reads it, with the names of the server's files.
    #[must_use]
    pub fn for_operator(self) -> Self {
        match self.internal().map(str::to_owned) {
            Some(message) => Self { message, ..self },
            None => self,
        }
    }

    /// 0A000: `what` is not supported.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// 42601: a statement that does not parse.
    pub fn syntax(message: impl Into<String>) -> Self {
        Self::new(SqlState::SYNTAX_ERROR, message)
    }

    /// 42703: a column that is read, with its table's name or alias, does not exist.
    pub fn undefined_column(table: Option<&str>, name: &str) -> Self {
        let message = match table {
            Some(table) => format!("column {table}.{name} does not exist"),
            None => format!("column \"{name}\" does not exist"),
        };
        let subject = Subject::Column { table: table.map(str::to_owned), name: name.to_owned() };
        Self::new(SqlState::UNDEFINED_COLUMN, message).with_subject(subject)
    }

    /// 42703: a column that is written does not exist in its relation.
    pub fn undefined_column_of(relation: &str, name: &str) -> Self {
        let message = format!("column \"{name}\" of relation \"{relation}\" does not exist");
        Self::new(SqlState::UNDEFINED_COLUMN, message).with_subject(Subject::WrittenColumn(name.to_owned()))
    }

    /// 42P01: a relation does not exist, whose name has its schema before it if the statement says it.
    pub fn undefined_relation(name: &str) -> Self {
        let message = format!("relation \"{name}\" does not exist");
        Self::new(SqlState::UNDEFINED_TABLE, message).with_subject(Subject::Relation(name.to_owned()))
    }

    /// 42883: a function does not exist, whose signature has the types of its arguments if they are known.
    pub fn undefined_function(name: &str, signature: &str) -> Self {
        let message = format!("function {signature} does not exist");
        Self::new(SqlState::UNDEFINED_FUNCTION, message).with_subject(Subject::Function(name.to_owned()))
    }

    /// Adds a detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the name that the error is about.
    #[must_use]
    pub fn with_subject(mut self, subject: Subject) -> Self {
        self.subject = Some(Box::new(subject));
        self
    }
}

impl From<keyspan_storage::Error> for SqlError {
    fn from(error: keyspan_storage::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&keyspan_storage::Error> for SqlError {
    fn from(error: &keyspan_storage::Error) -> Self {
        let hint = store_hint(error).map(str::to_owned);
        let (state, text) = (store_state(error.kind()), with_causes(error));
        match without_files(error) {
            Some(message) => Self { hint, ..Self::of_server_file(state, message, text) },
            None => Self { hint, ..Self::new(state, text) },
        }
    }
}

impl From<keyspan_catalog::Error> for SqlError {
    fn from(error: keyspan_catalog::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&keyspan_catalog::Error> for SqlError {
    fn from(error: &keyspan_catalog::Error) -> Self {
        let state = match (error.kind(), error.store()) {
            (CatalogKind::Store | CatalogKind::Conflict, Some(store)) => store_state(store.kind()),
            (kind, _) => catalog_state(kind),
        };
        let hint = || error.store().and_then(store_hint).map(str::to_owned);
        Self {
            detail: error.detail.clone(),
            hint: error.hint.clone().or_else(hint),
            ..match error.store().and_then(without_files) {
                Some(message) => Self::of_server_file(state, message, with_causes(error)),
                None => Self::new(state, with_causes(error)),
            }
        }
    }
}

/// The message of an error of the store without the names of its files; `None` if it has none.
fn without_files(error: &keyspan_storage::Error) -> Option<String> {
    use keyspan_storage::Error::{
        Corrupt, Forbidden, Io, Locked, NoSpace, Protocol, ReadOnly, Refused, Unavailable, Unreachable,
    };
    match error {
        NoSpace { .. } => Some("no space left to write a file of the store".into()),
        Corrupt { .. } => Some("a file of the store is damaged".into()),
        Locked { .. } => Some("the store is in use by another process".into()),
        Io { action, source, .. } => Some(format!("cannot {action} a file of the store: {}", source.kind())),
        // The reason may be a failed write to a file.
        Unavailable(_) => Some("the store has stopped".into()),
        // The texts of servers name projects and instances.
        Unreachable(_) => Some("the server of a table cannot be reached, or does not answer".into()),
        Forbidden(_) => Some("the server of a table refuses this program".into()),
        ReadOnly(_) => Some(
            "tables on this server can only be read: its application profile permits no single-row transactions".into(),
        ),
        Protocol(_) => Some("the server of a table broke a rule of its protocol".into()),
        Refused(_) => Some("the server of a table refused a request".into()),
        _ => None,
    }
}

/// The message of an error and of its causes, with a colon between them; a cause that the message ends with is left
/// out.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let next_text = next.to_string();
        if !text.ends_with(&next_text) {
            text = format!("{text}: {next_text}");
        }
        cause = next.source();
    }
    text
}

fn store_state(kind: StoreKind) -> SqlState {
    match kind {
        StoreKind::Invalid => SqlState::DATA_EXCEPTION,
        StoreKind::TooLarge => SqlState::PROGRAM_LIMIT_EXCEEDED,
        StoreKind::NotFound => SqlState::UNDEFINED_TABLE,
        StoreKind::AlreadyExists => SqlState::DUPLICATE_TABLE,
        StoreKind::Conflict | StoreKind::Erasing => SqlState::SERIALIZATION_FAILURE,
        StoreKind::PinExpired => SqlState::SNAPSHOT_TOO_OLD,
        StoreKind::NoSpace => SqlState::DISK_FULL,
        StoreKind::Corrupt => SqlState::DATA_CORRUPTED,
        StoreKind::Locked => SqlState::OBJECT_IN_USE,
        StoreKind::Unavailable => SqlState::CANNOT_CONNECT_NOW,
        StoreKind::Unreachable => SqlState::CONNECTION_FAILURE,
        StoreKind::Forbidden => SqlState::INSUFFICIENT_PRIVILEGE,
        StoreKind::ReadOnly => SqlState::READ_ONLY_SQL_TRANSACTION,
        StoreKind::Protocol => SqlState::INTERNAL_ERROR,
        StoreKind::Io => SqlState::IO_ERROR,
        StoreKind::Unsupported | StoreKind::NoHistory => SqlState::FEATURE_NOT_SUPPORTED,
        StoreKind::TooOld => SqlState::SNAPSHOT_TOO_OLD,
        StoreKind::Future => SqlState::INVALID_PARAMETER_VALUE,
    }
}

/// The remedy for an error of the store, where its message does not say it.
fn store_hint(error: &keyspan_storage::Error) -> Option<&'static str> {
    if let keyspan_storage::Error::TooLarge { limit: REQUEST_BYTES_MAX, .. } = error {
        return Some("Write fewer rows at a time.");
    }
    match error.kind() {
        StoreKind::PinExpired => Some("Run the statement again, in a new transaction."),
        StoreKind::NoSpace => Some("Reads go on. Writes do again when there is room."),
        StoreKind::Corrupt => Some("Nothing was served from the damaged part. Restore the file from a backup."),
        StoreKind::NoHistory => Some(NO_HISTORY_HINT),
        StoreKind::ReadOnly => Some(READ_ONLY_HINT),
        _ => None,
    }
}

/// The hint of an error about a write to a server that permits none.
const READ_ONLY_HINT: &str = "Its operator lets the profile route to a single cluster and permit single-row \
    transactions: gcloud bigtable app-profiles update, --route-to and --transactional-writes.";

/// The hint of an error about a table that keeps no history.
pub const NO_HISTORY_HINT: &str = "cells('table') shows the versions that are still stored. \
    An operator lets a table keep history with ALTER TABLE … SET (history = '7 days').";

fn catalog_state(kind: CatalogKind) -> SqlState {
    match kind {
        CatalogKind::Invalid => SqlState::INVALID_TABLE_DEFINITION,
        CatalogKind::BadValue => SqlState::INVALID_TEXT_REPRESENTATION,
        CatalogKind::BadKey => SqlState::INVALID_PARAMETER_VALUE,
        CatalogKind::OutOfRange => SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        CatalogKind::TooLong => SqlState::STRING_DATA_RIGHT_TRUNCATION,
        CatalogKind::Untranslatable => SqlState::UNTRANSLATABLE_CHARACTER,
        CatalogKind::WrongLength => SqlState::STRING_DATA_LENGTH_MISMATCH,
        CatalogKind::TooMuch => SqlState::PROGRAM_LIMIT_EXCEEDED,
        CatalogKind::NullValue => SqlState::NOT_NULL_VIOLATION,
        CatalogKind::NoTenant => SqlState::INVALID_CATALOG_NAME,
        CatalogKind::NoTable => SqlState::UNDEFINED_TABLE,
        CatalogKind::NoColumn => SqlState::UNDEFINED_COLUMN,
        CatalogKind::NoRole => SqlState::UNDEFINED_OBJECT,
        CatalogKind::TenantExists => SqlState::DUPLICATE_DATABASE,
        CatalogKind::TableExists => SqlState::DUPLICATE_TABLE,
        CatalogKind::ColumnExists => SqlState::DUPLICATE_COLUMN,
        CatalogKind::NoSchema => SqlState::INVALID_SCHEMA_NAME,
        CatalogKind::SchemaExists => SqlState::DUPLICATE_SCHEMA,
        CatalogKind::RoleExists => SqlState::DUPLICATE_OBJECT,
        CatalogKind::NoObject => SqlState::UNDEFINED_OBJECT,
        CatalogKind::Duplicate => SqlState::DUPLICATE_OBJECT,
        CatalogKind::SequenceEnds => SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
        CatalogKind::InUse => SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
        CatalogKind::InvalidOption => SqlState::INVALID_PARAMETER_VALUE,
        CatalogKind::InvalidGrant => SqlState::INVALID_GRANT_OPERATION,
        CatalogKind::Recursion | CatalogKind::InvalidDescriptor => SqlState::INVALID_OBJECT_DEFINITION,
        CatalogKind::Ambiguous => SqlState::AMBIGUOUS_ALIAS,
        CatalogKind::Reserved => SqlState::RESERVED_NAME,
        CatalogKind::Unsupported => SqlState::FEATURE_NOT_SUPPORTED,
        CatalogKind::Conflict => SqlState::SERIALIZATION_FAILURE,
        CatalogKind::Corrupt => SqlState::DATA_CORRUPTED,
        CatalogKind::Store => SqlState::IO_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(error: keyspan_storage::Error, expected: Expect) {
        let error_of_store = SqlError::from(&error);
        let hint = error_of_store.hint.as_deref().unwrap_or("none");
        let internal = error_of_store.internal().map(|text| format!(" ({text})")).unwrap_or_default();
        let told = format!("{}: {}{internal}\nHINT: {hint}", error_of_store.state.0, error_of_store.message);
        expected.assert_eq(&told);
        // The catalog passes the error on.
        let error_of_catalog = SqlError::from(keyspan_catalog::Error::from(error));
        assert_eq!(error_of_catalog, error_of_store);
    }

    #[test]
    fn errors_of_the_store_name_the_remedy() {
        use keyspan_storage::Error::{Corrupt, NoSpace, PinExpired};
        check(
            PinExpired { age_seconds: 3_700, age_seconds_max: 3_600 },
            expect![[r#"
                72000: snapshot too old: it was taken 3700 s ago, and the store keeps one for 3600 s
                HINT: Run the statement again, in a new transaction."#]],
        );
        check(
            NoSpace { path: "wal/7.log".into() },
            expect![[r#"
                53100: no space left to write a file of the store (no space left to write wal/7.log)
                HINT: Reads go on. Writes do again when there is room."#]],
        );
        check(
            Corrupt {
                path: "seg/0000.parquet".into(),
                offset: 4_711,
                detail: "a block does not have its checksum".into(),
            },
            expect![[r#"
                XX001: a file of the store is damaged (seg/0000.parquet is damaged at byte 4711: a block does not have its checksum)
                HINT: Nothing was served from the damaged part. Restore the file from a backup."#]],
        );
    }
}
