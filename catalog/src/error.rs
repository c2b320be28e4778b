//! Errors of the catalog, with message, detail and hint for the user.

/// The result of an operation on the catalog.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an [`Error`]; the gateway maps each to an SQLSTATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A name breaks its rules, or a definition contradicts itself.
    Invalid,
    /// The value of an option is none that it takes.
    InvalidOption,
    /// A value does not fit its type or its column.
    BadValue,
    /// A map holds a key or a value that its family does not take.
    BadKey,
    /// A number or a time is out of its type's range.
    OutOfRange,
    /// A text is longer than its type allows.
    TooLong,
    /// A bit string has another length than its type.
    WrongLength,
    /// A document holds a character that no text may have.
    Untranslatable,
    /// A value has more parts than a limit allows.
    TooMuch,
    /// A key part or a NOT NULL column is NULL.
    NullValue,
    /// No tenant of this name.
    NoTenant,
    /// No table of this name.
    NoTable,
    /// No column or family of this name.
    NoColumn,
    /// No role of this name.
    NoRole,
    /// No schema of this name.
    NoSchema,
    /// A tenant of this name exists.
    TenantExists,
    /// A table of this name exists.
    TableExists,
    /// A column or family of this name exists.
    ColumnExists,
    /// A role of this name exists.
    RoleExists,
    /// A schema of this name exists.
    SchemaExists,
    /// No object of another kind has this name.
    NoObject,
    /// An object of another kind has this name.
    Duplicate,
    /// A sequence has reached its last value.
    SequenceEnds,
    /// Other objects depend on this one.
    InUse,
    /// A grant makes no sense: a role would be a member of itself, or everybody could grant.
    InvalidGrant,
    /// A protobuf descriptor is none, or lacks a part.
    InvalidDescriptor,
    /// A name means several objects.
    Ambiguous,
    /// A view would read itself.
    Recursion,
    /// The name is reserved for the system.
    Reserved,
    /// Not supported.
    Unsupported,
    /// Another change was committed first; try again.
    Conflict,
    /// Stored data cannot be decoded.
    Corrupt,
    /// The store failed; its error is the source.
    Store,
}

/// An error of the catalog: primary message, detail and hint.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    /// More about this case.
    pub detail: Option<String>,
    /// What the user can do.
    pub hint: Option<String>,
    #[source]
    source: Option<Box<keyspan_storage::Error>>,
}

impl Error {
    /// An error with a primary message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), detail: None, hint: None, source: None }
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

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The underlying error of the store, if it is the cause.
    pub fn store(&self) -> Option<&keyspan_storage::Error> {
        self.source.as_deref()
    }
}

impl From<keyspan_storage::Error> for Error {
    fn from(source: keyspan_storage::Error) -> Self {
        let kind =
            if source.kind() == keyspan_storage::ErrorKind::Conflict { ErrorKind::Conflict } else { ErrorKind::Store };
        Self { kind, message: source.to_string(), detail: None, hint: None, source: Some(Box::new(source)) }
    }
}
