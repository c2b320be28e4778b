//! The priority of threads: what may wait gives way to reads and to the log.

/// By how much the niceness of a thread that gives way is above that of others: while others want the processor it gets about a tenth of one.
const NICENESS: i32 = 10;

/// Lets this thread give way from now on: it cannot be taken back.
pub(crate) fn give_way() {
    // On other systems this would concern the whole process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::debug!(%error, "a thread was not made to give way to others");
    }
}
