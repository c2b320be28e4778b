//! The errors of quotas: which quota, how much it is, and when it frees.

use crate::pg::error::{SqlError, SqlState};
use std::time::Duration;

/// The names of the quotas in `ALTER DATABASE … SET (…)`.
pub(crate) const CONNECTIONS: &str = "connections";
pub(crate) const STATEMENTS: &str = "statements";
pub(crate) const MEMORY: &str = "memory";
pub(crate) const TEMPORARY: &str = "temporary";
pub(crate) const READ_RATE: &str = "read_rate";
pub(crate) const WRITE_RATE: &str = "write_rate";
pub(crate) const STORED: &str = "stored";

/// 53300, as PostgreSQL says it.
pub(crate) fn connections(database: &str, most: u32) -> SqlError {
    let message = format!("too many connections for database \"{database}\"");
    SqlError::new(SqlState::TOO_MANY_CONNECTIONS, message)
        .with_detail(format!("Quota \"{CONNECTIONS}\" of the database is {most}."))
        .with_hint("A place is free when another session of the database ends.")
}

/// 53400: as many statements run as may, and it has waited, or could not.
pub(crate) fn statements(most: u32, waited: Option<Duration>) -> SqlError {
    let queue = match waited {
        Some(waited) => format!("This one has waited {} s.", waited.as_secs()),
        None => "As many as may wait are waiting.".to_owned(),
    };
    let message = "the database runs as many statements as it may";
    SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
        .with_detail(format!("Quota \"{STATEMENTS}\" of the database is {most}. {queue}"))
        .with_hint("A place is free when one of them ends.")
}

/// 53400: bytes a second.
pub(crate) fn rate(quota: &str, per_second: u64, pause: Duration) -> SqlError {
    let what = if quota == READ_RATE { "reads" } else { "writes" };
    let message = format!("the database {what} more bytes a second than it may");
    let seconds = pause.as_secs_f64().ceil();
    SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
        .with_detail(format!("Quota \"{quota}\" of the database is {per_second} bytes. It is free in {seconds} s."))
}

/// 53100: stored bytes.
pub(crate) fn stored(most: u64, bytes: u64) -> SqlError {
    SqlError::new(SqlState::DISK_FULL, "the database stores as many bytes as it may")
        .with_detail(format!("Quota \"{STORED}\" of the database is {most} bytes, and {bytes} are stored."))
        .with_hint("It is free when rows are deleted.")
}

/// 53100: temporary files.
pub(crate) fn temporary(most: u64) -> SqlError {
    SqlError::new(SqlState::DISK_FULL, "the database's queries take as much temporary space as they may")
        .with_detail(format!("Quota \"{TEMPORARY}\" of the database is {most} bytes."))
        .with_hint("It is free when other queries of the database end.")
}

/// 53100: temporary files, since others want some.
pub(crate) fn part_of_temporary(most: u64) -> SqlError {
    SqlError::new(SqlState::DISK_FULL, "the database's queries take more temporary space than their part")
        .with_detail(format!("While other databases want some, the part of this one is {most} bytes."))
}

/// What becomes the detail of 53200.
pub(crate) fn memory(most: u64) -> String {
    format!("Quota \"{MEMORY}\" of the database is {most} bytes; it is free when other queries of the database end.")
}

/// The same, since others want some.
pub(crate) fn part_of_memory(most: u64) -> String {
    format!("While other databases want some, the part of this one is {most} bytes.")
}
