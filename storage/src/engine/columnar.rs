//! The fast path: the row groups of each segment that a query engine may read itself, the rows of memtables, and the
//! rest.

mod memory;

use super::{
    Engine, apply,
    inline::{few_rows, runs_inline},
    ranges::positions_in,
    read::{Parts, Reading},
    sections::Mark,
    segment::{CleanColumn, CleanRequest, Segment},
    state::Table,
};
use crate::{
    Columnar, ColumnarRequest, ColumnarScan, Cuts, GcRule, MemoryPart, Pin, Result, RowSet, TableName, columnar::Rest,
    store::failed,
};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

/// A memtable is flushed for the scans that read it only if it has at least one `SCANNED_SHARE`th of a full one's
/// bytes: many small deltas would cost the scans more.
const SCANNED_SHARE: u64 = 4;

impl ColumnarScan for Engine {
    fn columnar(&self, name: &TableName, request: ColumnarRequest) -> Result<Columnar> {
        self.check_open()?;
        let pin = request.pin.clone().unwrap_or_else(|| self.pin_now());
        let held = apply::pinned_state(&pin)?;
        let table = held.state()?.table(name)?.clone();
        let descriptor = &table.descriptor;
        // A missing family has no cells.
        let number_of = |family| descriptor.number_of(family).unwrap_or(u32::MAX);
        let columns = request.columns.iter().map(|column| CleanColumn {
            family: number_of(&column.family),
            qualifier: column.qualifier.clone(),
            kind: column.kind,
            accepts: column.accepts,
            or_bytes: column.or_bytes,
        });
        let columns: Vec<CleanColumn> = columns.collect();
        let mut parts = Vec::new();
        let mut rest: HashMap<_, Vec<Range<u32>>> = HashMap::new();
        let mut rest_rows = 0;
        for (segment, ranges) in positions(&table, &request.rows)? {
            let id = segment.meta().id;
            let dead = table.deletion_vectors.get(&id).cloned().unwrap_or_default();
            let families = with_erased(&table, rules(&table, segment.meta().stamp, pin.now_micros));
            let clean = segment.clean(&CleanRequest {
                ranges: &ranges,
                span: &request.span,
                dead: &dead,
                columns: &columns,
                key: request.key.as_deref(),
                or_row_key: request.or_row_key,
                families: &families,
            })?;
            parts.extend(clean.parts);
            if clean.rest_rows > 0 {
                rest_rows += clean.rest_rows;
                rest.insert(id, clean.rest);
            }
        }
        let memory = memory::parts(&held, &table, &request.rows, &columns, pin.now_micros);
        self.flush_what_is_often_scanned(name, memory.iter().map(MemoryPart::rows_estimate).sum());
        if rest_rows == 0 {
            return Ok(Columnar { parts, memory, rest: Rest::none() });
        }
        let (shared, rest) = (Arc::clone(&self.shared), Arc::new(rest));
        let rest = Rest::new(rest_rows, move |scan| {
            let owned = (Arc::clone(&held), Arc::clone(&shared));
            let reading =
                Reading::new(owned, (table.clone(), Parts::Segments(Arc::clone(&rest))), scan, pin.now_micros, false);
            reading.map_or_else(failed, Reading::stream)
        });
        Ok(Columnar { parts, memory, rest })
    }

    fn cuts(&self, name: &TableName, rows: &RowSet, pin: Option<&Pin>, parts: usize) -> Result<Cuts> {
        self.check_open()?;
        let pin = pin.cloned().unwrap_or_else(|| self.pin_now());
        let held = apply::pinned_state(&pin)?;
        let table = held.state()?.table(name)?.clone();
        let (mut marks, mut count) = (Vec::new(), 0);
        for (segment, ranges) in positions(&table, rows)? {
            for range in ranges {
                count += u64::from(range.end - range.start);
                marks.extend(segment.marks(&range)?);
            }
        }
        Ok(Cuts { keys: cut(marks, rows, parts), rows: count })
    }

    fn runs_inline(&self, name: &TableName, request: &ColumnarRequest) -> bool {
        // The current state is good enough: it is about the one that a pin has.
        let published = self.shared.published.load();
        self.is_local && published.tables.get(name).is_some_and(|table| runs_inline(table, &request.rows))
    }

    fn few_rows(&self, name: &TableName, rows: &RowSet) -> Option<u64> {
        // As above: a pin may have more of them, which takes time alone.
        let published = self.shared.published.load();
        few_rows(published.tables.get(name).filter(|_| self.is_local)?, rows)
    }
}

impl Engine {
    /// Requests a flush of the active memtables once scans have read this table's so often that segments would have
    /// been cheaper.
    fn flush_what_is_often_scanned(&self, name: &TableName, rows: u64) {
        if rows == 0 {
            return;
        }
        let published = self.shared.published.load();
        let Some(table) = published.tables.get(name) else { return };
        let is_large = table.active.bytes >= self.budget.memtable_bytes / SCANNED_SHARE;
        if table.active.count_scanned(rows) && is_large && !self.shared.is_often_scanned.swap(true, Ordering::Relaxed) {
            self.maintenance.wake();
        }
    }
}

/// Positions of a segment, ascending and disjoint.
type PositionsOf = (Arc<Segment>, Vec<Range<u32>>);

/// The positions of rows, by segment.
fn positions(table: &Table, rows: &RowSet) -> Result<Vec<PositionsOf>> {
    let mut found: Vec<PositionsOf> = Vec::new();
    let mut indexes = HashMap::new();
    for tablet in table.tablets.iter() {
        for range in rows.ranges() {
            let both = tablet.range.intersect(range);
            if both.is_empty() {
                continue;
            }
            for segment in &tablet.segments {
                let positions = positions_in(segment, &tablet.range, range)?;
                if positions.is_empty() {
                    continue;
                }
                let index = *indexes.entry(segment.meta().id).or_insert_with(|| {
                    found.push((Arc::clone(segment), Vec::new()));
                    found.len() - 1
                });
                let ranges = &mut found[index].1;
                match ranges.last_mut() {
                    Some(last) if last.end == positions.start => last.end = positions.end,
                    _ => ranges.push(positions),
                }
            }
        }
    }
    Ok(found)
}

/// The first keys of pages that cut the rows into parts of about as many, fewer than `parts`.
fn cut(mut marks: Vec<Mark>, rows: &RowSet, parts: usize) -> Vec<Bytes> {
    marks.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    let part = marks.iter().map(|mark| mark.rows).sum::<u64>() / parts.max(1) as u64;
    let (mut before, mut keys) = (0, Vec::new());
    for mark in marks {
        // A page may begin before the rows, with those of another range.
        let begins = before >= part && rows.ranges().iter().any(|range| range.contains(&mark.key));
        if begins && keys.len() + 1 < parts {
            keys.push(mark.key);
            before = 0;
        }
        before += mark.rows;
    }
    keys.dedup();
    keys
}

/// The rules, so that no row group with cells of a family with erased columns is clean: they are read row by row, which
/// leaves those cells out, until a purge has rewritten the segments.
fn with_erased(table: &Table, mut rules: BTreeMap<u32, Vec<(GcRule, i64)>>) -> BTreeMap<u32, Vec<(GcRule, i64)>> {
    for number in table.descriptor.schema.erased.keys().filter_map(|family| table.descriptor.number_of(family)) {
        rules.entry(number).or_default().push((GcRule::MaxAgeMicros(1), i64::MAX));
    }
    rules
}

/// The rules for cells that are as of a stamp, by family, each with the time at which it is evaluated.
fn rules(table: &Table, as_of: i64, now_micros: i64) -> BTreeMap<u32, Vec<(GcRule, i64)>> {
    let descriptor = &table.descriptor;
    let now = descriptor
        .schema
        .families
        .iter()
        .filter_map(|(name, family)| Some((descriptor.number_of(name)?, vec![(family.gc.clone(), now_micros)])));
    let mut rules: BTreeMap<u32, Vec<(GcRule, i64)>> = now.collect();
    for past in table.past_rules.iter().filter(|past| past.at_micros > as_of) {
        if let Some(rules) = rules.get_mut(&past.family) {
            rules.push((past.rule.clone(), past.at_micros));
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyRange;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cuts_lie_in_the_rows_and_ascend(
            marks in prop::collection::vec((any::<u8>(), 1_u64..100), 0..40),
            from in any::<u8>(),
            parts in 0_usize..6,
        ) {
            let marks = marks.into_iter().map(|(key, rows)| Mark { key: vec![key].into(), rows }).collect();
            let rows = RowSet::from(KeyRange::new(vec![from], None));
            let keys = cut(marks, &rows, parts);
            prop_assert!(keys.len() < parts.max(1) && keys.is_sorted_by(|a, b| a < b));
            prop_assert!(keys.iter().all(|key| key[0] >= from));
        }

        #[test]
        fn parts_have_about_as_many_rows(rows in prop::collection::vec(1_u64..20, 64..200), parts in 2_usize..6) {
            let mark = |(at, rows): (usize, &u64)| Mark { key: (at as u32).to_be_bytes().to_vec().into(), rows: *rows };
            let keys = cut(rows.iter().enumerate().map(mark).collect(), &RowSet::all(), parts);
            let places = keys.iter().map(|key| u32::from_be_bytes(key[..].try_into().unwrap()) as usize);
            let ends: Vec<usize> = [0].into_iter().chain(places).chain([rows.len()]).collect();
            let sums = ends.windows(2).map(|two| rows[two[0]..two[1]].iter().sum::<u64>());
            let fair = rows.iter().sum::<u64>() / parts as u64;
            prop_assert_eq!(keys.len() + 1, parts);
            let beside = 20 * parts as u64;
            prop_assert!(sums.into_iter().all(|sum| sum + beside >= fair && sum <= fair + beside));
        }
    }
}
