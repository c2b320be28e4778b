//! Thread priority: background work gives way to reads and to the log.

/// Niceness of background threads relative to others: while others want the processor, they get about a tenth of one.
const NICENESS: i32 = 10;

/// Lowers the priority of this thread for good.
pub(crate) fn give_way() {
    // On other systems this would affect the whole process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::debug!(%error, "a thread was not made to give way to others");
    }
}
