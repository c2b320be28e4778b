//! Which cells a compaction takes from rows, and when that is worth it. Pure.
//!
//! A cell is garbage when its family was dropped, when a *past rule* had condemned it before it was replaced (which concerns segments of
//! earlier stamps), or when its family's rule condemns it. The rules are applied one after the other, in the order in which they were in
//! force, as [`row::live`] does: what one takes the next does not count.
//!
//! Most rows lose nothing. That is seen without taking their cells out: if no rule condemns a cell of the row as it is, then none does
//! after the others either.

use super::{cells, descriptor::Descriptor, manifest::PastRule};
use crate::{Cell, GcRule, TableSchema, row};
use bytes::Bytes;
use std::{collections::BTreeMap, sync::Arc};

/// The share of a family's cells in a segment, in percent, from which on their age is reason for a compaction.
const GARBAGE_PERCENT: i64 = 20;
/// How long a segment is left alone by the rules at least, in microseconds.
const GARBAGE_PAUSE_MICROS: i64 = 600_000_000;

/// The rules of a table at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Garbage {
    descriptor: Arc<Descriptor>,
    /// In the order in which they were replaced.
    past: Vec<FormerRule>,
    /// For [`row::live`] to judge by, in microseconds.
    gc_micros: i64,
}

/// A rule that was in force.
#[derive(Clone, Debug)]
struct FormerRule {
    family: u32,
    rule: GcRule,
    at_micros: i64,
    /// The table's families with this rule and no other.
    schema: TableSchema,
}

/// What is left of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Remainder {
    /// All of it.
    Whole,
    /// This.
    Part(Bytes),
    /// Nothing.
    Nothing,
}

impl Garbage {
    /// The families as the descriptor has them, to be judged as of `gc_micros`: now, or the last moment that a history does not
    /// need any more.
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
        let keeps_all = rules.iter().all(|rules| rules.as_ref().is_some_and(Vec::is_empty));
        Sieve { descriptor: Arc::clone(&self.descriptor), gc_micros: self.gc_micros, past, rules, keeps_all }
    }
}

/// The rules for the rows of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Sieve {
    descriptor: Arc<Descriptor>,
    gc_micros: i64,
    past: Vec<FormerRule>,
    /// By family number: each rule, and the time by which it gc_micros; `None` where the family is no more.
    rules: Vec<Option<Vec<(GcRule, i64)>>>,
    /// Whether no row can lose a cell.
    keeps_all: bool,
}

impl Sieve {
    /// What is left of an encoded row.
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
            match self.rules.get(cell.family as usize) {
                Some(Some(rules)) => rules.iter().any(|(rule, now)| rule.condemns(index, cell.timestamp, *now)),
                _ => true,
            }
        })
    }
}

/// From when on a segment of this stamp has so much garbage that a compaction is worth it, in microseconds; `None` for never, as far as
/// can be known. `least` has the least timestamp of each family's cells. They are taken to be spread evenly from there to the stamp.
///
/// Only age counts: what exceeds a number of versions goes when a row is written. `held_micros` is for how long a history needs what
/// the rules condemn.
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
