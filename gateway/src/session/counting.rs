//! What of a statement's text is counted, and which statements are slow.

use super::{Prepared, Session};
use crate::{
    heat::counter::Counter,
    lock::Mutex,
    sql::normal::{self, Normal},
    statistics::statements::Entry,
    write_set::written_bytes,
};
use datafusion::physical_plan::ExecutionPlan;
use keyspan_catalog::Table;
use keyspan_storage::{Mutation, RowKey};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// A statement's text without constants, and where it is counted; both once they are asked for.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    normal: OnceLock<Option<Normal>>,
    entry: Mutex<Option<Arc<Entry>>>,
}

impl Prepared {
    /// Notes the text that it was made of, and the how many of it it is, from 0.
    pub(crate) fn note_text(&self, (text, nth): (&str, usize)) {
        self.counted.normal.get_or_init(|| normal::statement(text, nth));
    }

    /// Its text without constants, if that was noted.
    pub(crate) fn normal(&self) -> Option<&Normal> {
        self.counted.normal.get()?.as_ref()
    }
}

impl Session {
    /// Where a statement is counted by its text.
    pub(crate) fn entry_of(&self, prepared: &Prepared, text: (&str, usize)) -> Option<Arc<Entry>> {
        prepared.note_text(text);
        let normal = prepared.normal()?;
        let mut entry = prepared.counted.entry.lock();
        if entry.as_ref().is_none_or(|entry| entry.is_gone()) {
            let texts = &self.instance.statistics.texts;
            *entry = Some(texts.entry(self.identity.rows.oid(), &self.identity.role, normal));
        }
        entry.clone()
    }

    /// Where keys of a table that are written are counted.
    pub(crate) fn counter(&self, table: &Table) -> Option<Counter> {
        let snapshot = self.instance.catalog.snapshot();
        self.instance.heat.counter(&self.identity.rows, table, &snapshot)
    }

    /// Counts the keys of a table that are about to be written, in order. As in the statistics of PostgreSQL, those of
    /// a commit that fails count too.
    pub(super) fn count_keys<'a>(&self, table: &Table, rows: impl Iterator<Item = (&'a RowKey, &'a [Mutation])>) {
        let rows: Vec<_> = rows.collect();
        let (bytes, _) = written_bytes(rows.iter().copied());
        let work = self.share().work.table(table.id.0);
        work.access.wrote_cells(rows.iter().flat_map(|(_, mutations)| mutations.iter()));
        let keys: Vec<_> = rows.into_iter().map(|(key, _)| key).collect();
        work.access.wrote(&keys);
        if let Some(counter) = self.counter(table) {
            counter.wrote(&keys, bytes);
        }
    }

    /// How long a statement may take before it is logged; `None` if none is.
    pub(crate) fn log_min_duration(&self) -> Option<Duration> {
        self.settings.log_min_duration().unwrap_or_else(|| self.instance.log_min_duration())
    }

    /// The plan of the statement that has ended, if one was noted: from now on nothing of it is held.
    pub(crate) fn take_plan(&self) -> Option<Arc<dyn ExecutionPlan>> {
        self.ran.lock().take()
    }
}
