//! Errors of a store, classified by what the caller can do about them.

use std::{io, path::PathBuf};

/// The result of an operation on a store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The remedy for an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request breaks the data model or a limit: correct it.
    Invalid,
    /// A size is over its limit: make it smaller.
    TooLarge,
    /// The table or family does not exist.
    NotFound,
    /// The table, the family or the row exists already.
    AlreadyExists,
    /// A row that the request had read was changed since: read again and retry.
    Conflict,
    /// The column's earlier cells are being erased: try again later.
    Erasing,
    /// The pinned state is older than the store keeps states: read again with a new pin.
    PinExpired,
    /// There is no space for the write; reads work, and writes work again once there is space.
    NoSpace,
    /// A file of the store is damaged: restore it, nothing was served from it.
    Corrupt,
    /// Another process holds the store.
    Locked,
    /// The store has stopped, after a failed sync or because it was closed: start it again.
    Unavailable,
    /// The server of a remote store cannot be reached, or did not say what became of the request: try again later.
    Unreachable,
    /// The server of a remote store refuses this client: its operator has to permit it.
    Forbidden,
    /// The tables of a remote store can only be read: its operator has to permit writes.
    ReadOnly,
    /// The server of a remote store sent what it must not: report it, nothing was made of it.
    Protocol,
    /// The operating system refused.
    Io,
    /// The backend cannot do this.
    Unsupported,
    /// The table keeps no history: read its current rows, or its versions of cells.
    NoHistory,
    /// The requested time is before the history that is kept: request a later one.
    TooOld,
    /// The requested time is in the future: request an earlier one.
    Future,
}

/// An error of a store. [`Error::kind`] gives the remedy; the text names the object concerned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request breaks the data model.
    #[error("{0}")]
    Invalid(String),
    /// Something is larger than its limit allows.
    #[error("{what} of {size} bytes is over the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A request holds more things than the limit allows.
    #[error("{count} {what} are over the limit of {limit}")]
    TooMany {
        /// The things that are too many.
        what: &'static str,
        /// The actual number.
        count: usize,
        /// The maximum number.
        limit: usize,
    },
    /// No table of this name.
    #[error("table {0:?} does not exist")]
    NoTable(String),
    /// No family of this name in the table.
    #[error("family {family:?} does not exist in table {table:?}")]
    NoFamily {
        /// The table's name.
        table: String,
        /// The family's name.
        family: String,
    },
    /// The table exists already.
    #[error("table {0:?} already exists")]
    TableExists(String),
    /// The family exists already.
    #[error("family {family:?} already exists in table {table:?}")]
    FamilyExists {
        /// The table's name.
        table: String,
        /// The family's name.
        family: String,
    },
    /// A row of a load exists already, or occurs twice in it.
    #[error("row {key:?} already exists")]
    RowExists {
        /// Its key.
        key: crate::RowKey,
        /// Its number in the load, or the greater of two; `None` if it is no longer known.
        number: Option<u64>,
    },
    /// A validated row changed after the pin at which it was read.
    #[error("a row changed since it was read")]
    Conflict,
    /// A write to a column whose earlier cells are being erased.
    #[error("column {qualifier:?} of family {family:?} is being erased")]
    ErasedColumn {
        /// The family's name.
        family: String,
        /// The column, escaped.
        qualifier: String,
    },
    /// A pin was held for longer than the store keeps the state that it names.
    #[error("snapshot too old: it was taken {age_seconds} s ago, and the store keeps one for {age_seconds_max} s")]
    PinExpired {
        /// The age of the pin, in seconds.
        age_seconds: u64,
        /// How old a pin may be, in seconds.
        age_seconds_max: u64,
    },
    /// The disk is full.
    #[error("no space left to write {path}")]
    NoSpace {
        /// The file that needed space.
        path: PathBuf,
    },
    /// A file does not hold what was written to it.
    #[error("{path} is damaged at byte {offset}: {detail}")]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// Offset of the damaged part, in bytes.
        offset: u64,
        /// A description of the damage.
        detail: String,
    },
    /// Another process has the store open.
    #[error("the store at {path} is in use by another process")]
    Locked {
        /// The store's folder.
        path: PathBuf,
    },
    /// The store has stopped.
    #[error("the store has stopped: {0}")]
    Unavailable(String),
    /// The server of a remote store cannot be reached, or a write's outcome is not known.
    #[error("{0}")]
    Unreachable(String),
    /// The server of a remote store refuses this client.
    #[error("{0}")]
    Forbidden(String),
    /// The server of a remote store takes no writes that depend on rows, so that its tables can only be read.
    #[error("{0}")]
    ReadOnly(String),
    /// The server of a remote store finds the request wrong.
    #[error("{0}")]
    Refused(String),
    /// The server of a remote store broke a rule of its protocol.
    #[error("{0}")]
    Protocol(String),
    /// The operating system refused.
    #[error("cannot {action} {path}")]
    Io {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The backend cannot do this.
    #[error("{0}")]
    Unsupported(String),
    /// A scan as of a time, of a table that keeps no history.
    #[error("the table keeps no history")]
    NoHistory,
    /// A scan as of a time before the table's history.
    #[error("the table's history does not reach back to the moment asked for")]
    TooOld {
        /// The earliest time that can be requested, in microseconds.
        oldest_micros: i64,
    },
    /// A scan as of a future time.
    #[error("the moment asked for is in the future")]
    Future,
}

impl Error {
    /// The remedy.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_) | Self::Refused(_) => ErrorKind::Invalid,
            Self::TooLarge { .. } | Self::TooMany { .. } => ErrorKind::TooLarge,
            Self::NoTable(_) | Self::NoFamily { .. } => ErrorKind::NotFound,
            Self::TableExists(_) | Self::FamilyExists { .. } | Self::RowExists { .. } => ErrorKind::AlreadyExists,
            Self::Conflict => ErrorKind::Conflict,
            Self::ErasedColumn { .. } => ErrorKind::Erasing,
            Self::PinExpired { .. } => ErrorKind::PinExpired,
            Self::NoSpace { .. } => ErrorKind::NoSpace,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::Locked { .. } => ErrorKind::Locked,
            Self::Unavailable(_) => ErrorKind::Unavailable,
            Self::Unreachable(_) => ErrorKind::Unreachable,
            Self::Forbidden(_) => ErrorKind::Forbidden,
            Self::ReadOnly(_) => ErrorKind::ReadOnly,
            Self::Protocol(_) => ErrorKind::Protocol,
            Self::Io { .. } => ErrorKind::Io,
            Self::Unsupported(_) => ErrorKind::Unsupported,
            Self::NoHistory => ErrorKind::NoHistory,
            Self::TooOld { .. } => ErrorKind::TooOld,
            Self::Future => ErrorKind::Future,
        }
    }
}
