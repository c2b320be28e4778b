//! The transaction status that ReadyForQuery reports.

/// The state of a session's transaction, as ReadyForQuery tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// None.
    Idle,
    /// In one.
    Open,
    /// In one that failed.
    Failed,
}
