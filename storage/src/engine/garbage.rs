//! Which cells a compaction removes from rows, and when that is worth it. Pure.
//!
//! A cell is garbage if its family was dropped, if its column is erased, if a *past rule* had condemned it before the
//! rule was replaced (this concerns segments of earlier stamps), or if its family's rule condemns it. The rules are
//! applied in the order in which they were in force, as [`row::live`] does: a cell that one rule removes does not count
//! for the next.
//!
//! Most rows lose nothing. That is decided without removing cells: if no rule condemns a cell of the row as it is, none
//! does after the others either.

use super::{cells, descriptor::Descriptor, manifest::PastRule};
use crate::{Cell, GcRule, TableSchema, row};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The share of a family's cells in a segment, in percent, from which on their age is a reason to compact.
const GARBAGE_PERCENT: i64 = 20;
/// Minimum time for which rules leave a segment alone, in microseconds.
const GARBAGE_PAUSE_MICROS: i64 = 600_000_000;

/// The rules of a table at one time.
#[derive(Clone, Debug)]
pub(crate) struct Garbage {
    descriptor: Arc<Descriptor>,
    /// In the order in which they were replaced.
    past: Vec<FormerRule>,
    /// The time at which [`row::live`] evaluates the rules, in microseconds.
    gc_micros: i64,
}

/// A rule that was in force.
#[derive(Clone, Debug)]
struct FormerRule {
    family: u32,
    rule: GcRule,
    at_micros: i64,
    /// The table's families, with this rule in place of the current one.
    schema: TableSchema,
}

/// The result of removing garbage from a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Remainder {
    /// The row has no garbage.
    Whole,
    /// The encoded rest of the row.
    Part(Bytes),
    /// All of the row is garbage.
    Nothing,
}

impl Garbage {
    /// The rules of the descriptor's families, evaluated at `gc_micros`: now, or the last time that a history no longer
    /// needs.
    pub(crate) fn new<'a>(
        descriptor: Arc<Descriptor>,
        past_rules: impl IntoIterator<Item = &'a PastRule>,
        gc_micros: i64,
    ) -> Self {
        let mut spared = descriptor.schema.clone();
        spared.families.values_mut().for_each(|family| family.gc = GcRule::KeepAll);
        let past = past_rules.into_iter().filter_map(|past| {
            let mut schema = spared.clone();
            schema.families.get_mut(descriptor.family(past.family)?)?.gc = past.rule.clone();
            Some(FormerRule { family: past.family, rule: past.rule.clone(), at_micros: past.at_micros, schema })
        });
        Self { past: past.collect(), descriptor: Arc::clone(&descriptor), gc_micros }
    }

    /// The rules for rows that are as of a stamp.
    pub(crate) fn of(&self, stamp: i64) -> Sieve {
        let past: Vec<FormerRule> = self.past.iter().filter(|past| past.at_micros > stamp).cloned().collect();
        let schema = &self.descriptor.schema;
        let rules = self.descriptor.names().enumerate().map(|(number, name)| {
            let family = schema.families.get(name?)?;
            let past = past.iter().filter(|past| past.family as usize == number);
            let past = past.map(|past| (past.rule.clone(), past.at_micros));
            let now = (family.gc.clone(), self.gc_micros);
            Some(past.chain([now]).filter(|(rule, _)| *rule != GcRule::KeepAll).collect())
        });
        let rules: Vec<Option<Vec<(GcRule, i64)>>> = rules.collect();
        let erased = self.descriptor.names().map(|name| schema.erased_in(name?).cloned()).collect();
        let keeps_all = schema.erased.is_empty() && rules.iter().all(|rules| rules.as_ref().is_some_and(Vec::is_empty));
        Sieve { erased, descriptor: Arc::clone(&self.descriptor), gc_micros: self.gc_micros, past, rules, keeps_all }
    }
}

/// The rules for the rows of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Sieve {
    descriptor: Arc<Descriptor>,
    gc_micros: i64,
    past: Vec<FormerRule>,
    /// By family number: each rule, and the time at which it is evaluated; `None` if the family was dropped.
    rules: Vec<Option<Vec<(GcRule, i64)>>>,
    /// The erased qualifiers by family number; `None` if there are none.
    erased: Vec<Option<BTreeSet<Vec<u8>>>>,
    /// Whether no row can lose a cell.
    keeps_all: bool,
}

impl Sieve {
    /// Removes garbage from an encoded row.
    pub(crate) fn remainder(&self, row: &Bytes) -> Remainder {
        if self.keeps_all || !self.condemns_any(row) {
            return Remainder::Whole;
        }
        let cells = cells::decode(row).filter_map(|cell| {
            Some(Cell {
                family: self.descriptor.family(cell.family)?.clone(),
                qualifier: row.slice_ref(cell.qualifier),
                timestamp: cell.timestamp,
                value: row.slice_ref(cell.value),
            })
        });
        let past = self.past.iter().map(|past| (&past.schema, past.at_micros));
        let rules = past.chain([(&self.descriptor.schema, self.gc_micros)]);
        let left = rules.fold(cells.collect(), |cells, (schema, now_micros)| row::live(schema, cells, now_micros));
        if left.is_empty() {
            return Remainder::Nothing;
        }
        let number_of = |family: &_| self.descriptor.number_of(family).expect("its number was looked up");
        Remainder::Part(cells::encode(&left, number_of))
    }

    /// Whether any rule condemns any cell of the row as it is.
    fn condemns_any(&self, row: &[u8]) -> bool {
        let mut index = 0;
        cells::decode(row).any(|cell| {
            index = if cell.new_column { 0 } else { index + 1 };
            let erased = self.erased.get(cell.family as usize).and_then(Option::as_ref);
            if erased.is_some_and(|erased| erased.contains(cell.qualifier)) {
                return true;
            }
            match self.rules.get(cell.family as usize) {
                Some(Some(rules)) => rules.iter().any(|(rule, now)| rule.condemns(index, cell.timestamp, *now)),
                _ => true,
            }
        })
    }
}

/// The time from which on a segment of this stamp has enough garbage to be compacted, in microseconds; `None` if that
/// never happens or is unknown. `least` has the least timestamp of each family's cells, which are assumed to be spread
/// evenly from there to the stamp.
///
/// Only age counts: a write of a row removes excess versions. `held_micros` is how long a history needs condemned
/// cells.
pub(crate) fn horizon(
    descriptor: &Descriptor,
    stamp: i64,
    least: &BTreeMap<u32, i64>,
    held_micros: i64,
) -> Option<i64> {
    let of_family = |(&number, &least): (&u32, &i64)| {
        let Some(name) = descriptor.family(number) else { return Some(i64::MIN) };
        let age = descriptor.schema.families.get(name)?.gc.age_max_micros()?;
        let span = stamp.saturating_sub(least).max(0);
        Some(least.saturating_add(age).saturating_add(span / 100 * GARBAGE_PERCENT).saturating_add(held_micros))
    };
    let first = least.iter().filter_map(of_family).min()?;
    Some(first.max(stamp.saturating_add(GARBAGE_PAUSE_MICROS)))
}

#[cfg(test)]
mod tests;
