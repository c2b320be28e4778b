//! The compaction thread: rewrites tablets with many deltas, many dead rows, or rows to be purged as new bases.
//!
//! The thread has a low priority (`priority`): a compaction takes the time that reads and the log leave. If they leave
//! too little, deltas pile up until flushes wait ([`DELTAS_LAGGING`]), and then writers wait, which gives it time.
//!
//! It reads the state of the manifest, and leaves out positions that were dead then. Positions that die while it runs
//! are mapped to the new positions when the result is installed.
//!
//! Rules are evaluated at one time for the whole compaction. Cells that were not condemned when a later commit changes
//! rules or history must still be there: [`Maintenance::gc_micros`] ensures that.

use super::{InForce, Maintenance, Writers, tablet_meta};
use crate::{
    Error, KeyRange, Result, TableName,
    engine::{
        compact::{Compaction, Input},
        deletion_vector::DeletionVector,
        garbage::{self, Garbage},
        install::{CompactedInput, CompactedTablet, Installable},
        manifest::SegmentId,
        priority,
        ranges::positions_in,
        sections::Sections,
        segment::{Segment, decoded_bytes},
        state::Table,
        tablet::choose::{CompactionReason, Conditions, Purge, choose},
    },
    inspect::{COMPACTIONS_MAX, CompactionInfo, CompactionState},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How often the thread looks for work by itself: rules by age condemn cells as time passes.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Deltas of one tablet above which a flush waits for a compaction.
pub(super) const DELTAS_LAGGING: usize = 12;

/// Recent compactions, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Compactions {
    /// Held during a compaction: one at a time.
    one: Mutex<()>,
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    last: u64,
    /// By finished compactions.
    bytes_written: u64,
    infos: VecDeque<CompactionInfo>,
}

impl Compactions {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that are kept.
    pub(crate) fn infos(&self) -> Vec<CompactionInfo> {
        self.ring().infos.iter().cloned().collect()
    }

    /// Compactions that have begun.
    pub(crate) fn begun(&self) -> u64 {
        self.ring().last
    }

    /// Bytes written by finished compactions.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.ring().bytes_written
    }

    /// Waits for the compaction in progress, and prevents others from beginning.
    pub(super) fn hold(&self) -> MutexGuard<'_, ()> {
        self.one.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, job: &Job, started_micros: i64) -> u64 {
        let mut ring = self.ring();
        ring.last += 1;
        let id = ring.last;
        ring.infos.push_back(CompactionInfo {
            id,
            table: job.name.clone(),
            tablet: job.range.start.clone(),
            reason: job.reason.name(),
            state: CompactionState::Running,
            started_micros,
            finished_micros: None,
            bytes_read: 0,
            bytes_written: 0,
            rows_in: 0,
            rows_out: 0,
            error: None,
        });
        if ring.infos.len() > COMPACTIONS_MAX {
            ring.infos.pop_front();
        }
        id
    }

    fn end(&self, id: u64) {
        let mut ring = self.ring();
        let written = ring.infos.iter().rev().find(|info| info.id == id).map_or(0, |info| info.bytes_written);
        ring.bytes_written += written;
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut CompactionInfo)) {
        if let Some(info) = self.ring().infos.iter_mut().rev().find(|info| info.id == id) {
            change(info);
        }
    }
}

/// What a caller asks of compaction beyond the automatic choice.
#[derive(Debug, Default)]
pub(crate) struct CompactionRequest<'a> {
    /// Compact segments begun before this one, in this table or in all.
    pub(crate) before: Option<(Option<&'a TableName>, SegmentId)>,
    /// Rows to purge, by table.
    pub(crate) purges: &'a [(TableName, Purge)],
}

/// A tablet to compact.
struct Job {
    name: TableName,
    table: Table,
    range: KeyRange,
    reason: CompactionReason,
    /// Its segments' deletion vectors as of the manifest.
    dead: BTreeMap<SegmentId, DeletionVector>,
    /// The stamp that the result is as of.
    stamp: i64,
}

impl Maintenance {
    /// Compacts tablets that need it until the store is closed.
    pub(crate) fn run_compaction(&self) {
        priority::give_way();
        while self.shared.coordination.await_look(LOOK_EVERY) {
            self.shared.pins.expire(self.shared.clock.now(), self.options.pin_age_max_micros);
            self.collect();
            if !self.options.compacts {
                continue;
            }
            loop {
                match self.compact_next(&CompactionRequest::default()) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(_) if self.shared.coordination.is_closed() => return,
                    Err(error) => {
                        tracing::error!(%error, "a compaction failed; it is tried again later");
                        break;
                    }
                }
            }
            self.shared.coordination.compacted();
        }
    }

    /// Compacts every tablet that is more than one base.
    ///
    /// # Errors
    /// Errors of reading and writing.
    pub(crate) fn compact_table(&self, table: Option<&TableName>) -> Result<()> {
        let before = self.segments_from_now_on();
        while self.compact_next(&CompactionRequest { before: Some((table, before)), purges: &[] })? {}
        Ok(())
    }

    /// Compacts one tablet; `false` if none needs it.
    ///
    /// # Errors
    /// Errors of reading and writing.
    pub(crate) fn compact_next(&self, asked: &CompactionRequest<'_>) -> Result<bool> {
        let _one = self.compactions.hold();
        let Some(job) = self.choose(asked) else { return Ok(false) };
        let id = self.compactions.begin(&job, self.shared.clock.now());
        let result = self.compact(&job, id);
        let finished = Some(self.shared.clock.now());
        self.compactions.end(id);
        self.compactions.change(id, |info| {
            info.finished_micros = finished;
            match &result {
                Ok(()) => info.state = CompactionState::Done,
                Err(error) => {
                    info.state = CompactionState::Failed;
                    info.error = Some(error.to_string());
                }
            }
        });
        self.collect();
        result.map(|()| true)
    }

    /// Whether compaction lags so far behind that a flush should wait.
    pub(crate) fn lags(&self) -> bool {
        let state = self.shared.published.load();
        let tablets = state.tables.values().flat_map(|table| table.tablets.iter());
        self.options.compacts && tablets.into_iter().any(|tablet| tablet.segments.len() > DELTAS_LAGGING)
    }

    fn choose(&self, asked: &CompactionRequest<'_>) -> Option<Job> {
        // Under the lock the published tablets are those of the manifest.
        let in_force = self.manifest();
        let limits = self.options.granularity.compactions();
        let state = self.shared.published.load_full();
        let now_micros = self.shared.clock.now();
        let chosen = state.tables.iter().filter_map(|(name, table)| {
            let purges: Vec<Purge> =
                asked.purges.iter().filter(|(of, _)| of == name).map(|(_, purge)| purge.clone()).collect();
            // A table's history is compacted along with it.
            let past_of = name.of_history();
            let known = past_of.as_ref().unwrap_or(name);
            let before = asked.before.filter(|(of, _)| of.is_none_or(|of| of == known)).map(|(_, before)| before);
            let ages =
                table.descriptor.schema.families.values().any(|family| family.gc.condemns(0, i64::MIN, i64::MAX));
            let conditions = Conditions {
                // As of the manifest, which is what a compaction leaves out. Positions that died since are only mapped,
                // so that counting them would choose the tablet again and again.
                dead: &|id| in_force.deletion_vectors.get(&id).map_or(0, DeletionVector::count),
                horizon: &|segment| ages.then(|| horizon_of(table, segment)).flatten(),
                past_rules_until: table.past_rules.iter().map(|past| past.at_micros).max(),
                purges: &purges,
                asked: before,
                now_micros,
            };
            let choice = choose(&table.tablets, &conditions, &limits)?;
            Some((choice, name, table))
        });
        let (choice, name, table) = chosen.max_by_key(|(choice, ..)| choice.reason)?;
        let tablet = table.tablets.iter().nth(choice.tablet).expect("it was chosen among them");
        let ids = tablet.segments.iter().map(|segment| segment.meta().id);
        let dead = ids.filter_map(|id| Some((id, in_force.deletion_vectors.get(&id)?.clone()))).collect();
        let (range, reason) = (tablet.range.clone(), choice.reason);
        Some(Job { name: name.clone(), table: table.clone(), range, reason, dead, stamp: state.stamp })
    }

    fn compact(&self, job: &Job, id: u64) -> Result<()> {
        let tablet = job.table.tablets.iter().find(|tablet| tablet.range == job.range).expect("it was chosen there");
        let (mut inputs, mut compacted, mut frequencies) = (Vec::new(), Vec::new(), Vec::new());
        let mut marks = Vec::new();
        for segment in &tablet.segments {
            let meta = segment.meta();
            frequencies.extend(segment.column_frequencies()?);
            let positions = positions_in(segment, &tablet.range, &KeyRange::all())?;
            marks.extend(segment.marks(&positions)?);
            let dead = job.dead.get(&meta.id).cloned().unwrap_or_default();
            let most_bytes = decoded_bytes(tablet.segments.len());
            let batches = segment.encoded(vec![positions.clone()], dead.clone(), most_bytes)?;
            inputs.push(Input::new(meta, positions.clone(), &dead, batches));
            compacted.push(CompactedInput { id: meta.id, positions, dead });
        }
        let past_rules: Vec<_> = job.table.past_rules.iter().cloned().collect();
        let Some(gc_micros) = self.gc_micros(&job.table)? else { return Ok(()) };
        let garbage = Garbage::new(Arc::clone(&job.table.descriptor), &past_rules, gc_micros);
        let descriptor = job.table.descriptor.as_ref();
        let sections = match &*self.layouts.load() {
            Some(layouts) => {
                let rows_min = self.options.granularity.section_rows_min;
                Sections::new(marks, rows_min, |key| layouts.0.section(&job.name, key))
            }
            None => Sections::default(),
        };
        let boundaries = sections.boundaries().to_vec();
        let (name, stamp, end) = (&job.name, job.stamp, tablet.range.end.clone());
        let (maintenance, base, beside) = (self, true, false);
        let outputs = Writers { maintenance, name, descriptor, stamp, base, frequencies, sections, end, beside };
        let mut compaction = Compaction::new(inputs, &garbage, outputs, self.options.base_bytes)
            .with_boundaries(boundaries)
            .with_step_rows(self.options.granularity.step_rows_max);
        loop {
            let step = match self.shared.coordination.is_closed() {
                true => Err(Error::Unavailable("it was closed".into())),
                false => compaction.step(),
            };
            match step {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => {
                    self.abandon(compaction.abandon());
                    return Err(error);
                }
            }
            let progress = compaction.progress();
            self.compactions.change(id, |info| {
                info.bytes_read = progress.bytes_read;
                info.bytes_written = progress.bytes_written;
                info.rows_in = progress.rows_read;
                info.rows_out = progress.rows_written;
            });
        }
        let made = compaction.finish();
        self.compactions.change(id, |info| {
            // Includes the last step.
            (info.bytes_read, info.rows_in) = (made.progress.bytes_read, made.progress.rows_read);
            (info.bytes_written, info.rows_out) = (made.progress.bytes_written, made.progress.rows_written);
        });
        let number = job.table.descriptor.number;
        let outputs = made.segments.iter().map(|meta| self.open(number, meta.clone())).collect();
        let range = job.range.clone();
        let compacted =
            CompactedTablet { table: number, range, inputs: compacted, outputs, position_map: made.position_map };
        let mut in_force = self.manifest_as_published()?;
        if !self.put_in_force(&mut in_force, &compacted)? {
            // The table is gone: its files are removed once they are unused.
            return Ok(());
        }
        self.install(Installable::Compacted(compacted))
    }

    /// The time at which the rules of a table are evaluated: now, or for a table that keeps history the oldest time
    /// that a scan may ask for. `None` if the table was changed since.
    fn gc_micros(&self, table: &Table) -> Result<Option<i64>> {
        let now_micros = self.shared.clock.now();
        let schema = &table.descriptor.schema;
        self.settle()?;
        let state = self.shared.published.load();
        let found = state.table_by_number(table.descriptor.number);
        if found.is_none_or(|(_, found)| found.descriptor != table.descriptor) {
            return Ok(None);
        }
        Ok(Some(schema.history.map_or(now_micros, |history| history.oldest_micros(now_micros))))
    }

    /// Puts the manifest in force that names the result; `false` if the tablet no longer exists.
    fn put_in_force(&self, in_force: &mut InForce, compacted: &CompactedTablet) -> Result<bool> {
        let state = self.shared.published.load();
        let Some((_, table)) = state.table_by_number(compacted.table) else { return Ok(false) };
        let mut manifest = in_force.manifest.clone();
        let of_table = manifest.tables.iter_mut().find(|table| table.descriptor.number() == compacted.table);
        let Some(of_table) = of_table else { return Ok(false) };
        let inputs: Vec<SegmentId> = compacted.inputs.iter().map(|input| input.id).collect();
        let tablets = table.tablets.with_compacted(&compacted.range, &inputs, compacted.outputs.clone());
        let Some(tablets) = tablets else { return Ok(false) };
        of_table.tablets = tablets.iter().map(tablet_meta).collect();
        let mut dead = in_force.deletion_vectors.clone();
        let mut of_outputs = vec![DeletionVector::default(); compacted.outputs.len()];
        for (at, input) in compacted.inputs.iter().enumerate() {
            let now = dead.remove(&input.id).unwrap_or_default();
            compacted.position_map.remap(at, &input.dead, &now, &mut of_outputs);
            if tablets.names(input.id) {
                let mut now = now;
                now.insert_range(input.positions.clone());
                dead.insert(input.id, now);
            }
        }
        let outputs = compacted.outputs.iter().zip(of_outputs).filter(|(_, dead)| dead.count() > 0);
        dead.extend(outputs.map(|(output, dead)| (output.meta().id, dead)));
        self.commit(in_force, manifest, dead)?;
        Ok(true)
    }
}

/// The time from which on a segment has much garbage; an unreadable segment is not compacted for that reason.
fn horizon_of(table: &Table, segment: &Segment) -> Option<i64> {
    let least = segment.least_timestamps().ok()?;
    let held_micros = table.descriptor.schema.history.map_or(0, |history| history.keep_micros);
    garbage::horizon(&table.descriptor, segment.meta().stamp, least, held_micros)
}
