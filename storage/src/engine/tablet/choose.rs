//! Chooses the next tablet to compact, and the reason. Pure.
//!
//! [`CompactionReason`] lists the reasons by priority. Among tablets with the same reason, the one that gains most is
//! chosen. The cost of a compaction is bounded by the size of a base. Its gain is bounded from below by the limits in
//! [`CompactionLimits`]: between two compactions a tablet must have changed by a share of its size.
//!
//! A tablet that was just compacted is one base, begun just now, without dead rows. No reason applies to such
//! a tablet, whatever the clock does and whether anybody commits or not: dead rows and deltas do not exist; purges and
//! requests concern segments *begun before* them; past rules concern segments of an earlier stamp than the rule's,
//! which the compacted state had; and garbage counts only a [while](GARBAGE_PAUSE_MICROS) after a segment was begun. So
//! compaction ends when writing does.

use super::{Stored, Tablet, Tablets, reaches_into};
use crate::{
    KeyRange,
    engine::manifest::{SegmentId, SegmentMeta},
};
use std::{collections::HashMap, fmt};

/// Maximum deltas of a tablet.
pub(crate) const DELTAS_MAX: usize = 4;
/// The share of dead rows in a segment, in percent, from which on it is compacted.
pub(crate) const DEAD_PERCENT: u64 = 20;
/// The share of deltas in the bytes of the base, in percent, from which on the tablet is compacted.
pub(crate) const DELTA_PERCENT: u64 = 25;
/// Bytes below which the shares of dead rows and of deltas do not count: small tablets would be rewritten all the time.
pub(crate) const CHANGED_BYTES_MIN: u64 = 1 << 20;

/// How long garbage collection ignores a segment after it was begun, in microseconds.
pub(crate) const GARBAGE_PAUSE_MICROS: i64 = 600_000_000;

/// Limits that trigger compactions.
#[derive(Clone, Debug)]
pub(crate) struct CompactionLimits {
    /// See [`DELTAS_MAX`].
    pub(crate) deltas_max: usize,
    /// See [`DEAD_PERCENT`].
    pub(crate) dead_percent: u64,
    /// See [`DELTA_PERCENT`].
    pub(crate) delta_percent: u64,
    /// See [`CHANGED_BYTES_MIN`].
    pub(crate) changed_bytes_min: u64,
    /// See [`GARBAGE_PAUSE_MICROS`]; at least 1.
    pub(crate) garbage_pause_micros: i64,
}

impl Default for CompactionLimits {
    fn default() -> Self {
        Self {
            deltas_max: DELTAS_MAX,
            dead_percent: DEAD_PERCENT,
            delta_percent: DELTA_PERCENT,
            changed_bytes_min: CHANGED_BYTES_MIN,
            garbage_pause_micros: GARBAGE_PAUSE_MICROS,
        }
    }
}

/// Rows of this range are to be purged from every file.
#[derive(Clone, Debug)]
pub(crate) struct Purge {
    /// The keys.
    pub(crate) range: KeyRange,
    /// Segments from this one on never held the rows. Compared by id, not by stamp: a compaction's output has the stamp
    /// of the last commit, which may be that of the drop.
    pub(crate) before: SegmentId,
}

/// The facts about a table, besides its tablets, on which the choice depends.
pub(crate) struct Conditions<'a, S> {
    /// Number of dead positions of a segment.
    pub(crate) dead: &'a dyn Fn(SegmentId) -> u64,
    /// The time from which on a segment has much garbage, in microseconds; `None` for never.
    pub(crate) horizon: &'a dyn Fn(&S) -> Option<i64>,
    /// When the last past rule was replaced, in microseconds: segments of earlier stamps need the rule.
    pub(crate) past_rules_until: Option<i64>,
    /// Purges in progress.
    pub(crate) purges: &'a [Purge],
    /// Requested: compact segments begun before this one.
    pub(crate) asked: Option<SegmentId>,
    /// The current time.
    pub(crate) now_micros: i64,
}

/// The reason of a compaction, in ascending priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CompactionReason {
    /// Much of the tablet is garbage by now.
    Garbage,
    /// It has segments to which past rules still apply.
    PastRules,
    /// Too many rows of a segment are dead.
    DeadRows,
    /// Its deltas are large compared with its base.
    DeltaBytes,
    /// It has too many deltas.
    Deltas,
    /// It has rows to purge.
    Purge,
    /// It was requested.
    Requested,
}

impl CompactionReason {
    /// The name of the reason.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Garbage => "garbage",
            Self::PastRules => "past rules",
            Self::DeadRows => "dead rows",
            Self::DeltaBytes => "size of deltas",
            Self::Deltas => "number of deltas",
            Self::Purge => "purge",
            Self::Requested => "asked",
        }
    }
}

impl fmt::Display for CompactionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A tablet to be compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactionChoice {
    /// Its index among the tablets.
    pub(crate) tablet: usize,
    /// The reason.
    pub(crate) reason: CompactionReason,
}

/// The next tablet to compact; `None` if no tablet needs it.
pub(crate) fn choose<S: Stored>(
    tablets: &Tablets<S>,
    conditions: &Conditions<'_, S>,
    limits: &CompactionLimits,
) -> Option<CompactionChoice> {
    // A delta in several tablets counts for each with its share only.
    let mut tablets_of: HashMap<SegmentId, u64> = HashMap::new();
    for segment in tablets.iter().flat_map(|tablet| &tablet.segments) {
        *tablets_of.entry(segment.meta().id).or_default() += 1;
    }
    let part = |meta: &SegmentMeta| (meta.bytes + meta.side_bytes) / tablets_of.get(&meta.id).copied().unwrap_or(1);
    let judged = tablets.iter().enumerate().filter_map(|(at, tablet)| {
        let (reason, gain) = judge(tablet, conditions, limits, &part)?;
        Some((reason, gain, std::cmp::Reverse(at)))
    });
    judged.max().map(|(reason, _, at)| CompactionChoice { tablet: at.0, reason })
}

/// The reason to compact a tablet, and the gain, in a unit specific to the reason.
fn judge<S: Stored>(
    tablet: &Tablet<S>,
    conditions: &Conditions<'_, S>,
    limits: &CompactionLimits,
    part: &dyn Fn(&SegmentMeta) -> u64,
) -> Option<(CompactionReason, u64)> {
    let metas = || tablet.segments.iter().map(|segment| segment.meta());
    let dead_bytes = |meta: &SegmentMeta| share(part(meta), (conditions.dead)(meta.id), u64::from(meta.rows));
    let bytes = |base: bool| metas().filter(|meta| meta.base == base).map(part).sum::<u64>();
    let (base_bytes, delta_bytes) = (bytes(true), bytes(false));
    let deltas = metas().filter(|meta| !meta.base).count();
    let changed = deltas > 0 || metas().any(|meta| (conditions.dead)(meta.id) > 0);

    let past = conditions.past_rules_until;
    let needs_past_rules = metas().filter(|meta| past.is_some_and(|until| meta.stamp < until)).count();
    let pauses = |meta: &SegmentMeta| {
        let begun = i64::try_from(meta.id.0).unwrap_or(i64::MAX);
        begun.saturating_add(limits.garbage_pause_micros) > conditions.now_micros
    };
    let rested = tablet.segments.iter().filter(|segment| !pauses(segment.meta()));
    let horizon = rested.filter_map(|segment| (conditions.horizon)(segment)).min();
    let overdue = horizon.and_then(|horizon| u64::try_from(conditions.now_micros.saturating_sub(horizon)).ok());
    let purged = metas().filter(|meta| conditions.purges.iter().any(|purge| concerns(purge, meta))).map(part);
    let asked = metas().any(|meta| conditions.asked.is_some_and(|asked| meta.id < asked));
    let is_mostly_dead = |meta: &&SegmentMeta| {
        let dead = (conditions.dead)(meta.id);
        dead >= u64::from(meta.rows)
            || dead_bytes(meta) >= limits.changed_bytes_min && dead * 100 >= u64::from(meta.rows) * limits.dead_percent
    };
    let mostly_dead: Vec<u64> = metas().filter(is_mostly_dead).map(dead_bytes).collect();

    use CompactionReason::{DeadRows, DeltaBytes, Deltas, Garbage, PastRules, Purge, Requested};
    let reasons = [
        // Rewriting an unchanged base would give the same base.
        (
            Requested,
            (asked && (changed || needs_past_rules > 0 || overdue.is_some())).then_some(base_bytes + delta_bytes),
        ),
        (Purge, purged.reduce(|a, b| a + b)),
        (Deltas, (deltas > limits.deltas_max).then_some(deltas as u64)),
        (
            DeltaBytes,
            (base_bytes > 0 && delta_bytes >= limits.changed_bytes_min.max(base_bytes * limits.delta_percent / 100))
                .then_some(delta_bytes),
        ),
        (DeadRows, (!mostly_dead.is_empty()).then(|| mostly_dead.iter().sum())),
        (PastRules, (needs_past_rules > 0).then_some(needs_past_rules as u64)),
        (Garbage, overdue),
    ];
    reasons.into_iter().find_map(|(reason, gain)| Some((reason, gain?)))
}

/// Whether the segment must be rewritten to purge the rows. Its bytes of these rows may belong to another tablet, which
/// was compacted before: they are in the file all the same.
fn concerns(purge: &Purge, meta: &SegmentMeta) -> bool {
    meta.id < purge.before && reaches_into(meta, &purge.range)
}

/// The fraction `some / all` of `whole`.
fn share(whole: u64, some: u64, all: u64) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(some) / u128::from(all.max(1))).unwrap_or(u64::MAX)
}
