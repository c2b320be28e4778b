//! The transaction status that ReadyForQuery reports.

/// The state of a session's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// No transaction is open: `I`.
    Idle,
    /// A transaction is open: `T`.
    Open,
    /// A transaction is open and has failed: `E`.
    Failed,
}
