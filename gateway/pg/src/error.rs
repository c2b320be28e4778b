//! What a user is told when something goes wrong: SQLSTATE, primary message, detail, hint.
//!
//! Every error of the crates beneath becomes a [`SqlError`] here and nowhere else.

use keyspan_catalog::ErrorKind as CatalogKind;
use keyspan_storage::ErrorKind as StoreKind;
use std::fmt;

mod datafusion;

/// The result of what a session does.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

/// A SQLSTATE (<https://www.postgresql.org/docs/15/errcodes-appendix.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqlState(pub &'static str);

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl SqlState {
            $($(#[$doc])* pub const $name: Self = Self($code);)*

            /// The state of a code; that of an internal error for a code that is none of these.
            pub fn of(code: &str) -> Self {
                match code { $($code => Self::$name,)* _ => Self::INTERNAL_ERROR }
            }
        }
    };
}

states! {
    /// No error: what notices carry.
    SUCCESSFUL_COMPLETION = "00000";
    /// Something is not supported.
    FEATURE_NOT_SUPPORTED = "0A000";
    /// The protocol was broken.
    PROTOCOL_VIOLATION = "08P01";
    /// `ON CONFLICT DO UPDATE` met one row twice.
    CARDINALITY_VIOLATION = "21000";
    /// Text too long for its type.
    STRING_DATA_RIGHT_TRUNCATION = "22001";
    /// A number out of its type's range.
    NUMERIC_VALUE_OUT_OF_RANGE = "22003";
    /// Bytes that are no UTF-8, or the character of number 0.
    CHARACTER_NOT_IN_REPERTOIRE = "22021";
    /// Binary that is no value of its type.
    INVALID_BINARY_REPRESENTATION = "22P03";
    /// A date or time that does not exist.
    DATETIME_FIELD_OVERFLOW = "22008";
    /// A date or time that cannot be read.
    INVALID_DATETIME_FORMAT = "22007";
    /// Division by zero.
    DIVISION_BY_ZERO = "22012";
    /// A parameter out of its domain.
    INVALID_PARAMETER_VALUE = "22023";
    /// Data of a COPY that are no rows.
    BAD_COPY_FILE_FORMAT = "22P04";
    /// Text that is no value of its type.
    INVALID_TEXT_REPRESENTATION = "22P02";
    /// A subscript or a dimension of an array that there is not.
    ARRAY_SUBSCRIPT_ERROR = "2202E";
    /// NULL where a value has to be.
    NULL_VALUE_NOT_ALLOWED = "22004";
    /// An interval that does not fit.
    INTERVAL_FIELD_OVERFLOW = "22015";
    /// A pattern that is no regular expression.
    INVALID_REGULAR_EXPRESSION = "2201B";
    /// Fewer rows than none, in LIMIT.
    INVALID_ROW_COUNT_IN_LIMIT = "2201W";
    /// Fewer rows than none, in OFFSET.
    INVALID_ROW_COUNT_IN_OFFSET = "2201X";
    /// The logarithm of what has none.
    INVALID_LOGARITHM = "2201E";
    /// The power or root of what has none.
    INVALID_POWER = "2201F";
    /// Buckets that there cannot be.
    INVALID_WIDTH_BUCKET = "2201G";
    /// Data of another shape than expected.
    DATA_EXCEPTION = "22000";
    /// NULL where none may be.
    NOT_NULL_VIOLATION = "23502";
    /// Refers to something that is not there.
    FOREIGN_KEY_VIOLATION = "23503";
    /// The key is there already.
    UNIQUE_VIOLATION = "23505";
    /// Another kind of object is wanted.
    WRONG_OBJECT_TYPE = "42809";
    /// A row contradicts a CHECK.
    CHECK_VIOLATION = "23514";
    /// A sequence has no more numbers.
    SEQUENCE_GENERATOR_LIMIT_EXCEEDED = "2200H";
    /// A value for a column that is always generated.
    GENERATED_ALWAYS = "428C9";
    /// Only a warning.
    WARNING = "01000";
    /// The transaction may not write.
    READ_ONLY_SQL_TRANSACTION = "25006";
    /// Needs a transaction, and there is none.
    NO_ACTIVE_SQL_TRANSACTION = "25P01";
    /// Another transaction holds it, and is not waited for.
    LOCK_NOT_AVAILABLE = "55P03";
    /// A setting that only tells something.
    CANT_CHANGE_RUNTIME_PARAM = "55P02";
    /// Names columns that do not fit the clause.
    INVALID_COLUMN_REFERENCE = "42P10";
    /// Inside a transaction, where it cannot be.
    ACTIVE_SQL_TRANSACTION = "25001";
    /// The transaction has failed; only its end is accepted.
    IN_FAILED_SQL_TRANSACTION = "25P02";
    /// Role or password wrong.
    INVALID_PASSWORD = "28P01";
    /// The role may not connect so.
    INVALID_AUTHORIZATION = "28000";
    /// A view that reads itself.
    INVALID_OBJECT_DEFINITION = "42P17";
    /// Others depend on it.
    DEPENDENT_OBJECTS_STILL_EXIST = "2BP01";
    /// No such database.
    INVALID_CATALOG_NAME = "3D000";
    /// No such schema.
    INVALID_SCHEMA_NAME = "3F000";
    /// A prepared statement or portal of no such name.
    INVALID_SQL_STATEMENT_NAME = "26000";
    /// Another transaction got there first: try again.
    SERIALIZATION_FAILURE = "40001";
    /// No savepoint of this name.
    INVALID_SAVEPOINT_SPECIFICATION = "3B001";
    /// No portal of this name.
    INVALID_CURSOR_NAME = "34000";
    /// A portal of this name is open already.
    DUPLICATE_CURSOR = "42P03";
    /// A prepared statement of this name is there already.
    DUPLICATE_PREPARED_STATEMENT = "42P05";
    /// Not allowed to this role.
    INSUFFICIENT_PRIVILEGE = "42501";
    /// Parses, and makes no sense.
    SYNTAX_OR_ACCESS = "42000";
    /// Does not parse.
    SYNTAX_ERROR = "42601";
    /// A name twice.
    DUPLICATE_COLUMN = "42701";
    /// No such column.
    UNDEFINED_COLUMN = "42703";
    /// A name of more bytes than names have.
    NAME_TOO_LONG = "42622";
    /// No such role or other object.
    UNDEFINED_OBJECT = "42704";
    /// The object is there already.
    DUPLICATE_OBJECT = "42710";
    /// A table twice under one name.
    DUPLICATE_ALIAS = "42712";
    /// No cast from one to the other.
    CANNOT_COERCE = "42846";
    /// Types do not go together.
    DATATYPE_MISMATCH = "42804";
    /// No such function.
    UNDEFINED_FUNCTION = "42883";
    /// A name that several things have.
    AMBIGUOUS_COLUMN = "42702";
    /// An operator of which there are several.
    AMBIGUOUS_FUNCTION = "42725";
    /// A name that is kept for the system.
    RESERVED_NAME = "42939";
    /// A column is neither grouped nor aggregated.
    GROUPING_ERROR = "42803";
    /// A name that breaks the rules for names.
    INVALID_NAME = "42602";
    /// No such table.
    UNDEFINED_TABLE = "42P01";
    /// No such parameter.
    UNDEFINED_PARAMETER = "42P02";
    /// The database is there already.
    DUPLICATE_DATABASE = "42P04";
    /// The schema is there already.
    DUPLICATE_SCHEMA = "42P06";
    /// The table is there already.
    DUPLICATE_TABLE = "42P07";
    /// A definition that contradicts itself.
    INVALID_TABLE_DEFINITION = "42P16";
    /// The parameter's type cannot be told.
    INDETERMINATE_DATATYPE = "42P18";
    /// The disk is full.
    DISK_FULL = "53100";
    /// Over a memory budget.
    OUT_OF_MEMORY = "53200";
    /// Too many connections.
    TOO_MANY_CONNECTIONS = "53300";
    /// A limit that the operator has set.
    CONFIGURATION_LIMIT_EXCEEDED = "53400";
    /// Over a limit of the data model.
    PROGRAM_LIMIT_EXCEEDED = "54000";
    /// In use.
    OBJECT_IN_USE = "55006";
    /// Not in a state in which this can be done.
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000";
    /// Cancelled, or out of time.
    QUERY_CANCELED = "57014";
    /// A transaction in which nothing happened for too long.
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03";
    /// A session in which nothing happened for too long.
    IDLE_SESSION_TIMEOUT = "57P05";
    /// The server stops.
    ADMIN_SHUTDOWN = "57P01";
    /// Not ready, or stopped.
    CANNOT_CONNECT_NOW = "57P03";
    /// A file of the system failed.
    IO_ERROR = "58030";
    /// Stored data is damaged.
    DATA_CORRUPTED = "XX001";
    /// A state that is kept no longer.
    SNAPSHOT_TOO_OLD = "72000";
    /// A fault of ours.
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
    /// Where in the statement, in characters from 1.
    pub position: Option<u32>,
    /// Where it happened, beside the statement: the line of a COPY.
    pub context: Option<String>,
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl SqlError {
    /// An error with a primary message.
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        Self { state, message: message.into(), detail: None, hint: None, position: None, context: None }
    }

    /// Something that is not supported: 0A000.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// A statement that does not parse: 42601.
    pub fn syntax(message: impl Into<String>) -> Self {
        Self::new(SqlState::SYNTAX_ERROR, message)
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
}

impl From<keyspan_storage::Error> for SqlError {
    fn from(error: keyspan_storage::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&keyspan_storage::Error> for SqlError {
    fn from(error: &keyspan_storage::Error) -> Self {
        let hint = store_hint(error.kind()).map(str::to_owned);
        Self { hint, ..Self::new(store_state(error.kind()), with_causes(error)) }
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
        Self {
            state,
            message: with_causes(error),
            detail: error.detail.clone(),
            hint: error.hint.clone().or(error.store().and_then(|store| store_hint(store.kind())).map(str::to_owned)),
            position: None,
            context: None,
        }
    }
}

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
        StoreKind::Conflict => SqlState::SERIALIZATION_FAILURE,
        StoreKind::PinExpired => SqlState::SNAPSHOT_TOO_OLD,
        StoreKind::NoSpace => SqlState::DISK_FULL,
        StoreKind::Corrupt => SqlState::DATA_CORRUPTED,
        StoreKind::Locked => SqlState::OBJECT_IN_USE,
        StoreKind::Unavailable => SqlState::CANNOT_CONNECT_NOW,
        StoreKind::Io => SqlState::IO_ERROR,
        StoreKind::Unsupported | StoreKind::NoHistory => SqlState::FEATURE_NOT_SUPPORTED,
        StoreKind::TooOld => SqlState::SNAPSHOT_TOO_OLD,
        StoreKind::Future => SqlState::INVALID_PARAMETER_VALUE,
    }
}

/// What to do about an error of the store, where the message does not say it.
fn store_hint(kind: StoreKind) -> Option<&'static str> {
    match kind {
        StoreKind::PinExpired => Some("Run the statement again, in a new transaction."),
        StoreKind::NoSpace => Some("Reads go on. Writes do again when there is room."),
        StoreKind::Corrupt => Some("Nothing was served from the damaged part. Restore the file from a backup."),
        StoreKind::NoHistory => Some(NO_HISTORY_HINT),
        _ => None,
    }
}

/// What to do with a table that keeps no history.
pub const NO_HISTORY_HINT: &str = "cells('table') shows the versions that are still stored. An operator lets a table keep history with \
                                   ALTER TABLE … SET (history = '7 days').";

fn catalog_state(kind: CatalogKind) -> SqlState {
    match kind {
        CatalogKind::Invalid => SqlState::INVALID_TABLE_DEFINITION,
        CatalogKind::BadValue => SqlState::INVALID_TEXT_REPRESENTATION,
        CatalogKind::OutOfRange => SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        CatalogKind::TooLong => SqlState::STRING_DATA_RIGHT_TRUNCATION,
        CatalogKind::TooMuch => SqlState::PROGRAM_LIMIT_EXCEEDED,
        CatalogKind::NullValue => SqlState::NOT_NULL_VIOLATION,
        CatalogKind::NoTenant => SqlState::INVALID_CATALOG_NAME,
        CatalogKind::NoTable => SqlState::UNDEFINED_TABLE,
        CatalogKind::NoColumn => SqlState::UNDEFINED_COLUMN,
        CatalogKind::NoRole => SqlState::UNDEFINED_OBJECT,
        CatalogKind::TenantExists => SqlState::DUPLICATE_DATABASE,
        CatalogKind::TableExists => SqlState::DUPLICATE_TABLE,
        CatalogKind::ColumnExists => SqlState::DUPLICATE_COLUMN,
        CatalogKind::RoleExists => SqlState::DUPLICATE_OBJECT,
        CatalogKind::NoObject => SqlState::UNDEFINED_OBJECT,
        CatalogKind::Duplicate => SqlState::DUPLICATE_OBJECT,
        CatalogKind::SequenceEnds => SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
        CatalogKind::InUse => SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
        CatalogKind::Recursion => SqlState::INVALID_OBJECT_DEFINITION,
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
        let told = SqlError::from(&error);
        let hint = told.hint.as_deref().unwrap_or("none");
        expected.assert_eq(&format!("{}: {}\nHINT: {hint}", told.state.0, told.message));
        // The same by way of the catalog.
        let by_catalog = SqlError::from(keyspan_catalog::Error::from(error));
        assert_eq!((by_catalog.state, by_catalog.hint), (told.state, told.hint));
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
                53100: no space left to write wal/7.log
                HINT: Reads go on. Writes do again when there is room."#]],
        );
        check(
            Corrupt {
                path: "seg/0000.parquet".into(),
                offset: 4_711,
                detail: "a block does not have its checksum".into(),
            },
            expect![[r#"
                XX001: seg/0000.parquet is damaged at byte 4711: a block does not have its checksum
                HINT: Nothing was served from the damaged part. Restore the file from a backup."#]],
        );
    }
}
