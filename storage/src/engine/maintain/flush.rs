//! The flush thread: writes frozen memtables as one delta for each tablet that they touch.

use super::{InForce, Maintenance, Writers, deletion_vectors_of, table_meta};
use crate::{
    Result,
    engine::{
        coordination::FlushJob,
        deletion_vector::DeletionVector,
        flush::{FlushedSegment, flush},
        install::{FlushedTables, Installable, NewDelta},
        manifest::{Manifest, SegmentId},
        sections::Sections,
        state::{ChangedRows, Table},
    },
};
use bytes::Bytes;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How often a flush that waits for compactions checks whether it may go on.
const LAG_LOOK_EVERY: Duration = Duration::from_millis(100);

impl Maintenance {
    /// Flushes frozen memtables until the store is closed.
    pub(crate) fn run_flush(&self) {
        while self.shared.coordination.await_job() {
            // Deltas that pile up make every read slower: writers wait for the compactions instead.
            while self.lags() && self.shared.coordination.await_compacted(LAG_LOOK_EVERY) {}
            let Err(error) = self.flush() else { continue };
            if self.shared.coordination.is_closed() {
                return;
            }
            tracing::error!(%error, "memtables could not be written to segments; it is tried again when they are full");
            self.shared.coordination.failed(error);
            self.wake();
        }
    }

    fn flush(&self) -> Result<()> {
        let mut in_force = self.manifest();
        let Some(job) = self.shared.coordination.job() else { return Ok(()) };
        let mut written = Vec::new();
        if let Err(error) = self.write_all(&job, &mut written) {
            self.abandon(
                written.into_iter().flat_map(|(_, deltas)| deltas.into_iter().map(|delta: FlushedSegment| delta.meta)),
            );
            return Err(error);
        }
        let tables: Vec<(u32, Vec<NewDelta>)> = written
            .into_iter()
            .map(|(number, deltas)| {
                let opened = deltas.into_iter().map(|delta| {
                    let FlushedSegment { meta, keys } = delta;
                    NewDelta { segment: self.open(number, meta), keys }
                });
                (number, opened.collect())
            })
            .collect();
        let (manifest, dead) = manifest_of(&in_force, &job, &tables);
        self.commit(&mut in_force, manifest, dead)?;
        let changed_rows = Arc::new(ChangedRows::of(&job.state));
        let sequence = job.sequence;
        drop(job);
        self.install(Installable::Flushed(FlushedTables { sequence, tables, changed_rows }))?;
        drop(in_force);
        self.collect();
        self.shared.coordination.look();
        Ok(())
    }

    /// Writes the rows of every table. Adds the deltas to `written`, also if it fails later.
    fn write_all(&self, job: &FlushJob, written: &mut Vec<(u32, Vec<FlushedSegment>)>) -> Result<()> {
        for (name, table) in &job.state.tables {
            let Some(frozen) = &table.frozen else { continue };
            let rows = || frozen.memtable.slots.iter().filter_map(|(key, slot)| Some((key, slot.row.as_ref()?)));
            let (descriptor, stamp) = (&table.descriptor, frozen.stamp);
            let (last, sections) = (rows().next_back(), Sections::default());
            let end = last.map(|(key, _)| Bytes::from([&key[..], &[0]].concat()));
            let mut outputs = Writers {
                maintenance: self,
                name,
                descriptor,
                stamp,
                base: false,
                frequencies: Vec::new(),
                sections,
                end,
                beside: false,
            };
            written.push((table.descriptor.number, Vec::new()));
            let (_, deltas) = written.last_mut().expect("it was just pushed");
            flush(rows(), &table.tablets, &mut outputs, self.options.granularity.delta_bytes_min, deltas)?;
        }
        Ok(())
    }
}

/// The manifest with the new deltas, and with the deletion vectors as of the freeze.
fn manifest_of(
    in_force: &InForce,
    job: &FlushJob,
    tables: &[(u32, Vec<NewDelta>)],
) -> (Manifest, BTreeMap<SegmentId, DeletionVector>) {
    let with_deltas = |table: &Table| {
        let deltas = tables.iter().filter(|(number, _)| *number == table.descriptor.number);
        let segments = deltas.flat_map(|(_, deltas)| deltas.iter().map(|delta| Arc::clone(&delta.segment)));
        Table { tablets: table.tablets.with_deltas(segments.collect()), ..table.clone() }
    };
    let state = &job.state;
    let manifest = Manifest {
        version: 0,
        sequence: job.sequence,
        stamp: state.stamp,
        next_table: state.next_table,
        tables: state.tables.iter().map(|(name, table)| table_meta(name, &with_deltas(table))).collect(),
        deletion_vectors: in_force.manifest.deletion_vectors.clone(),
    };
    (manifest, deletion_vectors_of(state))
}
