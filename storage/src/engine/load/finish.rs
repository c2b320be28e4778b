//! The end of a load: the manifest and the state get its segments at the same time.

use super::{loader::Loader, probe::Memtables};
use crate::{
    Error, ErrorKind, Result, Validation,
    engine::{
        apply::validate,
        install::LoadedRows,
        maintain::{InForce, tablet_meta},
        manifest::{Manifest, SegmentMeta},
        segment::Segment,
        state::State,
    },
};
use std::{sync::Arc, time::Duration};

/// How often a load that waits for compactions checks whether it may go on.
const LAG_LOOK_EVERY: Duration = Duration::from_millis(100);
/// A segment below this part of a base's bytes does not become a base: there would be many small tablets.
const BASE_PART_MIN: u64 = 8;

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The rows are visible, with this stamp, in microseconds.
    Done(i64),
    /// Memtables must be flushed first.
    Flush,
    /// Another writer has changed something meanwhile.
    Again,
    /// A row that was relied on has changed.
    Refused,
}

impl Loader {
    /// Makes the rows visible, if no other writer interferes.
    ///
    /// # Errors
    /// [`RowExists`](crate::Error::RowExists); [`Conflict`](crate::Error::Conflict); errors of reading and of writing a
    /// manifest.
    pub(super) fn finish(&mut self, validation: Option<&Validation>) -> Result<Step> {
        self.control.check()?;
        let maintenance = Arc::clone(&self.maintenance);
        let shared = &maintenance.shared;
        if self.output.segments().is_empty() {
            return self.finish_empty(validation);
        }
        if self.probe.own().is_empty() {
            let metas = self.output.segments().to_vec();
            self.probe.set_own(metas.into_iter().map(|meta| self.open(meta)).collect());
        }
        // The slow part, before anybody has to wait.
        let before = shared.published.load_full();
        self.probe.look_up_new_segments(self.probe.table(&before)?)?;
        if self.probe.look_up_memtables(self.probe.table(&before)?)? != Memtables::Absent {
            return Ok(Step::Flush);
        }
        // Deltas that pile up make every read slower.
        while maintenance.lags() && shared.coordination.await_compacted(LAG_LOOK_EVERY) {
            self.control.check()?;
        }

        let mut in_force = maintenance.manifest();
        let now = shared.published.load_full();
        if self.probe.has_new_segments(self.probe.table(&now)?) {
            return Ok(Step::Again);
        }
        if !self.is_named_as_it_is(&in_force) {
            // The table was created or changed since: the manifest cannot name its segments yet.
            return Ok(Step::Flush);
        }
        let still = maintenance.stand_still()?;
        let now = shared.published.load_full();
        let table = self.probe.table(&now)?;
        self.control.check()?;
        if !is_valid(&now, validation)? {
            return Ok(Step::Refused);
        }
        match self.probe.changed_since(self.probe.table(&before)?, table)? {
            Memtables::Absent => {}
            Memtables::Deleted => return Ok(Step::Flush),
            Memtables::Present => return Ok(Step::Again),
        }
        let stamp = shared.clock.stamp();
        let segments = self.classified(&now)?;
        let changed_rows = self.output.changed_rows(stamp);
        maintenance.watched(|_| {
            let tablets = table.tablets.with_loaded(&segments);
            let mut manifest: Manifest = in_force.manifest.clone();
            manifest.stamp = manifest.stamp.max(stamp);
            for meta in &mut manifest.tables {
                if meta.descriptor.number() == self.descriptor.number {
                    meta.tablets = tablets.iter().map(tablet_meta).collect();
                }
            }
            let dead = in_force.deletion_vectors.clone();
            // Even after an error the next start may find the new manifest: the segments stay.
            self.done = true;
            maintenance.commit(&mut in_force, manifest, dead).inspect_err(|error| {
                self.done = error.kind() != ErrorKind::NoSpace;
            })?;
            still.end_with(LoadedRows { table: self.descriptor.number, segments, stamp, changed_rows });
            Ok(())
        })?;
        drop(in_force);
        self.probe.forget_own();
        shared.coordination.look();
        Ok(Step::Done(stamp))
    }

    /// Finishes a load without rows.
    fn finish_empty(&mut self, validation: Option<&Validation>) -> Result<Step> {
        let state = self.maintenance.shared.published.load_full();
        self.probe.table(&state)?;
        if !is_valid(&state, validation)? {
            return Ok(Step::Refused);
        }
        self.done = true;
        Ok(Step::Done(state.stamp))
    }

    fn is_named_as_it_is(&self, in_force: &InForce) -> bool {
        let logged = self.descriptor.to_logged(&self.name);
        in_force.manifest.tables.iter().any(|table| table.descriptor == logged)
    }

    fn open(&self, meta: SegmentMeta) -> Arc<Segment> {
        self.maintenance.open(self.descriptor.number, meta)
    }

    /// Classifies the segments: bases, where there is room for them and they are not small, or deltas.
    fn classified(&self, state: &State) -> Result<Vec<Arc<Segment>>> {
        let tablets = &self.probe.table(state)?.tablets;
        let bytes_min = self.maintenance.options.base_bytes / BASE_PART_MIN;
        let one = |segment: &Arc<Segment>| {
            let meta = segment.meta();
            let base = meta.bytes + meta.side_bytes >= bytes_min && tablets.has_room_for_base(meta);
            match meta.base == base {
                true => Arc::clone(segment),
                false => self.open(SegmentMeta { base, ..meta.clone() }),
            }
        };
        Ok(self.probe.own().iter().map(one).collect())
    }
}

/// Whether all rows that were relied on are unchanged.
fn is_valid(state: &State, validation: Option<&Validation>) -> Result<bool> {
    match validation.map(|validation| validate(state, validation)) {
        None | Some(Ok(())) => Ok(true),
        Some(Err(Error::Conflict)) => Ok(false),
        Some(Err(error)) => Err(error),
    }
}
