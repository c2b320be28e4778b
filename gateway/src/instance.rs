//! The server instance: what all its sessions share ([`Instance`]).
//!
//! It holds state only. It imports leaves (resources, locks, sequences, notifications) and no room that runs
//! statements.

use crate::{
    activity::Activities,
    advisory_locks::AdvisoryLocks,
    audit::Audit,
    certificates::Certificates,
    heat::Heat,
    notifications::Rooms,
    purges::Purges,
    resources::Resources,
    row_locks::RowLocks,
    row_numbers::RowNumbers,
    sequences::Sequences,
    shares::{Days, Hours, Shares},
    statistics::Statistics,
    table_locks::TableLocks,
    traces::Traces,
};
use keyspan_catalog::Catalog;
use keyspan_storage::{Clock, SystemClock};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

/// What all sessions of a server share.
#[derive(Debug)]
pub struct Instance {
    /// The catalog.
    pub catalog: Arc<Catalog>,
    /// The wall time.
    pub clock: Arc<dyn Clock>,
    /// Where log-ins, definitions and the like are recorded.
    pub audit: Audit,
    /// The folder into which `COPY … TO` writes files; `None` refuses it.
    pub copy_folder: Option<std::path::PathBuf>,
    /// What running queries share of the machine.
    pub resources: Resources,
    /// The purge of dropped tenants, in the background.
    pub purges: Purges,
    /// The certificates of dropped tenants, as files.
    pub certificates: Certificates,
    /// Keys of rows in tables without a primary key.
    pub row_numbers: Arc<RowNumbers>,
    /// Numbers of sequences.
    pub sequences: Sequences,
    /// Locks of private tables, and when each was last written.
    pub table_locks: TableLocks,
    /// Which rows open transactions hold.
    pub row_locks: Arc<RowLocks>,
    /// Numbers that sessions have locked.
    pub advisory_locks: Arc<AdvisoryLocks>,
    /// Who listens in each database.
    pub rooms: Rooms,
    /// What sessions do.
    pub activities: Arc<Activities>,
    /// `log_min_duration_statement` of sessions that do not set it, in milliseconds; below 0 no statement is logged.
    pub log_min_duration_millis: AtomicI64,
    /// When it was made, in microseconds since 1970.
    pub started_micros: i64,
    /// What the server was started with, as sessions see it.
    pub settings: OnceLock<Vec<(&'static str, String)>>,
    /// What the server has done.
    pub statistics: Arc<Statistics>,
    /// Spans of statements, for a collector.
    pub traces: Arc<Traces>,
    /// What each tenant may take, and what it takes.
    pub shares: Shares,
    /// Which keys are read and written, and when.
    pub heat: Arc<Heat>,
    /// How tables were used on the last days, as it is stored.
    pub days: Arc<Days>,
    /// What tenants used in the last day, as it is stored.
    pub hours: Arc<Hours>,
}

impl Instance {
    /// Over the machine's clock, with default resources, and nowhere to copy to.
    pub fn new(catalog: Arc<Catalog>) -> Self {
        Self {
            catalog,
            clock: Arc::new(SystemClock),
            audit: Audit::default(),
            copy_folder: None,
            resources: Resources::default(),
            purges: Purges::default(),
            certificates: Certificates::default(),
            row_numbers: Arc::default(),
            sequences: Sequences::default(),
            table_locks: TableLocks::default(),
            row_locks: Arc::default(),
            advisory_locks: Arc::default(),
            rooms: Rooms::default(),
            activities: Arc::default(),
            log_min_duration_millis: AtomicI64::new(-1),
            started_micros: SystemClock.now_micros(),
            settings: OnceLock::new(),
            statistics: Arc::default(),
            traces: Arc::default(),
            shares: Shares::default(),
            heat: Arc::default(),
            days: Arc::default(),
            hours: Arc::default(),
        }
    }
    /// How long a statement may take before it is logged; `None` if none is.
    pub(crate) fn log_min_duration(&self) -> Option<Duration> {
        let millis = self.log_min_duration_millis.load(Ordering::Relaxed);
        u64::try_from(millis).ok().map(Duration::from_millis)
    }
}
