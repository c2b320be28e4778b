//! What can go wrong between here and Bigtable.

use tonic::{Code, Status};

/// The result of an operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of an operation, after all attempts that were worth making.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The server refused, or cannot be reached.
    #[error("{}: {}", code_name(.0.code()), .0.message())]
    Status(Box<Status>),
    /// A message breaks the protocol of chunks: this rule of it.
    #[error("the server broke a rule of its protocol: {0}")]
    Protocol(&'static str),
    /// There are no credentials, or they give no token.
    #[error("no credentials: {0}")]
    Credentials(String),
    /// The settings name no server that could exist.
    #[error("{0}")]
    Config(String),
}

impl Error {
    /// The server's code; `None` for an error found here.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Status(status) => Some(status.code()),
            _ => None,
        }
    }

    /// Whether the server may have done what was asked for though it did not say so.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(
            self.code(),
            Some(Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown | Code::Internal)
        )
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

/// The name of a code as the API's documentation writes it.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
