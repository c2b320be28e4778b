//! Tablets under flushes, loads and compactions, and the choice among them.

use super::{
    choose::{CompactionChoice, CompactionLimits, Conditions, Purge, choose},
    *,
};
use crate::engine::compact::tests::meta;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

type Key = [u8; 1];

/// An event in the life of a table.
#[derive(Clone, Debug)]
enum Event {
    /// These rows are written and flushed, as deltas of that many rows.
    Flush(BTreeSet<Key>, usize),
    /// The tablet of a key is compacted into bases of `rows` rows. `meanwhile` happens during it, and a rule removes
    /// `taken`.
    Compact { tablet: Key, rows: usize, meanwhile: Option<Meanwhile>, taken: BTreeSet<Key> },
    /// Absent ones among these rows are loaded, as segments of that many rows.
    Load(BTreeSet<Key>, usize),
    /// Boundaries are moved out of a range.
    MoveBoundaries(Key, Key),
}

/// An event during a compaction.
#[derive(Clone, Debug)]
enum Meanwhile {
    /// See [`Event::Flush`].
    Flush(BTreeSet<Key>, usize),
    /// See [`Event::Load`].
    Load(BTreeSet<Key>, usize),
}

fn keys() -> impl Strategy<Value = BTreeSet<Key>> {
    prop::collection::btree_set((0u8..24).prop_map(|key| [key]), 1..12)
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let meanwhile = prop_oneof![
        2 => (keys(), 1usize..12).prop_map(|(keys, rows)| Meanwhile::Flush(keys, rows)),
        1 => (keys(), 1usize..6).prop_map(|(keys, rows)| Meanwhile::Load(keys, rows)),
    ];
    let compact = (
        0u8..24,
        1usize..6,
        prop::option::weighted(0.6, meanwhile),
        prop_oneof![keys(), Just((0..24).map(|key| [key]).collect())],
    );
    let event = prop_oneof![
        (keys(), 1usize..12).prop_map(|(keys, rows)| Event::Flush(keys, rows)),
        compact.prop_map(|(tablet, rows, meanwhile, taken)| Event::Compact {
            tablet: [tablet],
            rows,
            meanwhile,
            taken
        }),
        (keys(), 1usize..6).prop_map(|(keys, rows)| Event::Load(keys, rows)),
        (0u8..24, 0u8..24).prop_map(|(start, end)| Event::MoveBoundaries([start], [end])),
    ];
    prop::collection::vec(event, 1..16)
}

/// A table whose segments are sets of keys.
#[derive(Default)]
struct Table {
    tablets: Tablets<SegmentMeta>,
    segments: BTreeMap<SegmentId, BTreeSet<Key>>,
    dead: BTreeSet<(SegmentId, Key)>,
    /// The expected segment of each row.
    locations: BTreeMap<Key, SegmentId>,
    /// The stamp of new segments.
    stamp: i64,
}

impl Table {
    fn segment(&mut self, keys: BTreeSet<Key>, base: bool) -> Arc<SegmentMeta> {
        let key = |key: Option<&Key>| RowKey::new(key.unwrap().to_vec()).unwrap();
        let (first, last, rows) = (key(keys.first()), key(keys.last()), keys.len() as u32);
        let id = self.segments.len() as u64;
        let meta =
            SegmentMeta { base, bytes: u64::from(rows) * 100, stamp: self.stamp, ..meta(id, &first, &last, rows) };
        self.segments.insert(meta.id, keys);
        Arc::new(meta)
    }

    fn flush(&mut self, keys: &BTreeSet<Key>, rows: usize) {
        let keys: Vec<Key> = keys.iter().copied().collect();
        let mut deltas = Vec::new();
        for part in keys.chunks(rows) {
            let delta = self.segment(part.iter().copied().collect(), false);
            for key in part {
                if let Some(old) = self.locations.insert(*key, delta.id) {
                    self.dead.insert((old, *key));
                }
            }
            deltas.push(delta);
        }
        self.tablets = self.tablets.with_deltas(deltas);
    }

    fn load(&mut self, keys: &BTreeSet<Key>, rows: usize) {
        let keys: Vec<Key> = keys.iter().copied().filter(|key| !self.locations.contains_key(key)).collect();
        let mut loaded = Vec::new();
        for part in keys.chunks(rows) {
            let made = self.segment(part.iter().copied().collect(), true);
            let base = self.tablets.has_room_for_base(&made);
            loaded.push(Arc::new(SegmentMeta { base, ..SegmentMeta::clone(&made) }));
            self.locations.extend(part.iter().map(|key| (*key, made.id)));
        }
        let before: usize = self.tablets.iter().map(|tablet| tablet.segments.len()).sum();
        self.tablets = self.tablets.with_loaded(&loaded);
        for base in loaded.iter().filter(|base| base.base) {
            let tablet = self.tablets.of_key(&base.first).unwrap();
            assert!(tablet.segments[0].id == base.id && tablet.range.contains(&base.last), "{tablet:?}");
        }
        assert!(before > 0 || loaded.iter().all(|base| base.base), "an empty table has room");
    }

    fn live(&self, tablet: &Tablet<SegmentMeta>) -> BTreeMap<Key, SegmentId> {
        let mut live = BTreeMap::new();
        for id in tablet.segments.iter().map(|segment| segment.id) {
            for key in self.segments[&id].iter().filter(|key| tablet.range.contains(*key)) {
                if !self.dead.contains(&(id, *key)) {
                    assert_eq!(live.insert(*key, id), None, "a row lives twice: {key:?}");
                }
            }
        }
        live
    }

    fn compact(
        &mut self,
        tablet: &Tablet<SegmentMeta>,
        rows: usize,
        meanwhile: Option<Meanwhile>,
        taken: &BTreeSet<Key>,
    ) {
        let inputs: Vec<SegmentId> = tablet.segments.iter().map(|segment| segment.id).collect();
        let live = self.live(tablet);
        let left: Vec<Key> = live.keys().copied().filter(|key| !taken.contains(key)).collect();
        let bases_before = self.bases();
        match meanwhile {
            Some(Meanwhile::Flush(keys, rows)) => self.flush(&keys, rows),
            Some(Meanwhile::Load(keys, rows)) => self.load(&keys, rows),
            None => {}
        }
        let before = (self.locations.clone(), self.dead.clone());
        let mut bases = Vec::new();
        for part in left.chunks(rows) {
            let base = self.segment(part.iter().copied().collect(), true);
            for key in part {
                if self.locations[key] == live[key] {
                    self.locations.insert(*key, base.id);
                } else {
                    self.dead.insert((base.id, *key));
                }
            }
            bases.push(base);
        }
        for key in live.keys().filter(|key| taken.contains(*key)) {
            if self.locations[key] == live[key] {
                self.locations.remove(key);
            }
        }
        match self.tablets.with_compacted(&tablet.range, &inputs, bases) {
            Some(tablets) => self.tablets = tablets,
            // A base was loaded meanwhile and split the tablet, or is its base: the result is discarded.
            None => {
                assert!(self.bases() > bases_before, "nothing has come that is in the way");
                (self.locations, self.dead) = before;
            }
        }
    }

    fn bases(&self) -> usize {
        self.tablets.iter().flat_map(|tablet| &tablet.segments).filter(|segment| segment.base).count()
    }

    fn move_boundaries(&mut self, start: Key, end: Key) {
        let range = KeyRange::new(start.to_vec(), Some(end.to_vec().into()));
        let ranges: Vec<KeyRange> = [range].into_iter().filter(|range| !range.is_empty()).collect();
        let next = |segment: &SegmentMeta, key: &[u8]| {
            let next = self.segments[&segment.id].iter().find(|other| other[..] >= *key);
            Ok(next.map(|key| RowKey::new(key.to_vec()).unwrap()))
        };
        if let Some(tablets) = self.tablets.without_boundaries_in(&ranges, next).unwrap() {
            self.tablets = tablets;
        }
        assert!(
            self.tablets.without_boundaries_in(&ranges, next).unwrap().is_none(),
            "a second time there is nothing to do"
        );
        for boundary in self.tablets.iter().map(|tablet| &tablet.range.start).filter(|boundary| !boundary.is_empty()) {
            let is_key = self.segments.values().any(|keys| keys.iter().any(|key| key[..] == boundary[..]));
            assert!(is_key || !ranges.iter().any(|range| range.contains(boundary)), "{boundary:?} in {ranges:?}");
        }
    }

    fn compact_of(&mut self, key: Key, rows: usize, meanwhile: Option<Meanwhile>, taken: &BTreeSet<Key>) {
        if let Some(tablet) = self.tablets.of_key(&key).cloned() {
            self.compact(&tablet, rows, meanwhile, taken);
        }
    }

    /// Number of positions without a live row.
    fn dead(&self, id: SegmentId) -> u64 {
        self.segments[&id].iter().filter(|key| self.locations.get(*key) != Some(&id)).count() as u64
    }

    fn check(&self) {
        assert!(
            Tablets::new(self.tablets.0.to_vec()).is_some(),
            "ranges overlap or leave keys out: {:?}",
            self.tablets
        );
        let live: BTreeMap<Key, SegmentId> = self.tablets.iter().flat_map(|tablet| self.live(tablet)).collect();
        assert_eq!(live, self.locations, "{:?}", self.tablets);
        for (key, id) in &self.locations {
            assert!(self.tablets.has_segment(key, *id));
        }
        for tablet in self.tablets.iter() {
            assert!(tablet.segments.iter().all(|segment| reaches_into(segment, &tablet.range)));
            assert!(tablet.segments.iter().skip(1).all(|segment| !segment.base));
        }
    }
}

proptest! {
    #[test]
    fn every_row_lives_in_its_tablet_and_nowhere_else(events in events(), range in (0u8..24, 0u8..24)) {
        let mut table = Table::default();
        for event in events {
            match event {
                Event::Flush(keys, rows) => table.flush(&keys, rows),
                Event::Compact { tablet, rows, meanwhile, taken } => table.compact_of(tablet, rows, meanwhile, &taken),
                Event::Load(keys, rows) => table.load(&keys, rows),
                Event::MoveBoundaries(start, end) => table.move_boundaries(start, end),
            }
            table.check();
        }
        let range = KeyRange::new(vec![range.0], Some(vec![range.1].into()));
        let found: Vec<_> = table.tablets.of_range(&range).iter().map(|tablet| tablet.range.clone()).collect();
        let all = table.tablets.iter().map(|tablet| tablet.range.clone());
        prop_assert_eq!(found, all.filter(|of| !of.intersect(&range).is_empty() && !range.is_empty()).collect::<Vec<_>>());
        let without = table.tablets.without(|segment| segment.id.0 % 2 == 0);
        prop_assert_eq!(without.len(), table.tablets.len());
        for (with, without) in table.tablets.iter().zip(without.iter()) {
            let odd = with.segments.iter().filter(|segment| segment.id.0 % 2 == 1).map(|segment| segment.id);
            prop_assert!(odd.eq(without.segments.iter().map(|segment| segment.id)));
        }
    }
}

proptest! {
    /// Nobody writes, and the clock stands still; every initial segment has a reason to be compacted.
    #[test]
    fn compaction_comes_to_an_end(
        events in events(), rows in 1usize..6, taken in keys(), (deltas_max, changed_bytes_min) in (0usize..3, 1u64..500),
        (asked, purged, outlived, aged) in any::<(bool, bool, bool, bool)>(),
    ) {
        let mut table = Table::default();
        for event in events {
            match event {
                Event::Flush(keys, rows) => table.flush(&keys, rows),
                Event::Compact { tablet, rows, meanwhile, taken } => table.compact_of(tablet, rows, meanwhile, &taken),
                Event::Load(keys, rows) => table.load(&keys, rows),
                Event::MoveBoundaries(start, end) => table.move_boundaries(start, end),
            }
        }
        table.stamp = 100;
        let next = SegmentId(table.segments.len() as u64);
        let purges = purged.then_some(Purge { range: KeyRange::all(), before: next });
        let limits = CompactionLimits { deltas_max, changed_bytes_min, garbage_pause_micros: 1, ..CompactionLimits::default() };
        loop {
            let conditions = Conditions {
                dead: &|id| table.dead(id),
                horizon: &|_: &SegmentMeta| aged.then_some(i64::MIN),
                past_rules_until: outlived.then_some(100),
                purges: purges.as_slice(),
                asked: asked.then_some(next),
                now_micros: next.0 as i64,
            };
            let Some(CompactionChoice { tablet, reason }) = choose(&table.tablets, &conditions, &limits) else { break };
            let tablet = table.tablets.iter().nth(tablet).unwrap().clone();
            let is_old = |segment: &Arc<SegmentMeta>| segment.id < next;
            prop_assert!(tablet.segments.iter().any(is_old), "{:?} is compacted again for {}", tablet, reason);
            table.compact(&tablet, rows, None, &taken);
            table.check();
        }
        // There are reasons.
        let is_old = |segment: &Arc<SegmentMeta>| segment.id < next;
        let left = table.tablets.iter().flat_map(|tablet| &tablet.segments).filter(|segment| is_old(segment)).count();
        prop_assert!(left == 0 || !(purged || outlived || aged), "{} old segments are left", left);
    }
}

/// `text` lists the tablets, separated by `|`. A tablet is its first key, a colon, and segments: `B` or `D`, megabytes,
/// and optionally `/` percent dead, `@` stamp (else 100), `!` horizon, `#` number (else unique, below 1000). A
/// segment's keys are those of its tablets.
fn check_choice(text: &str, past_rules_until: Option<i64>, purges: &[Purge], asked: Option<u64>, expected: &Expect) {
    let tablets: Vec<(&[u8], &str)> = text
        .split('|')
        .map(|tablet| tablet.trim().split_once(':').unwrap())
        .map(|(start, rest)| (start.as_bytes(), rest))
        .collect();
    let (mut dead, mut horizons, mut built) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for (at, (start, segments)) in tablets.iter().enumerate() {
        let end = tablets.get(at + 1).map(|(start, _)| start.to_vec().into());
        let mut of_tablet = Vec::new();
        for (index, segment) in segments.split_whitespace().enumerate() {
            let number = |mark: char| -> Option<i64> {
                let from = &segment[segment.find(mark)? + 1..];
                from[..from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len())].parse().ok()
            };
            let id = SegmentId(number('#').unwrap_or((100 * at + index) as i64) as u64);
            let base = segment.starts_with('B');
            let key = |key: &[u8]| RowKey::new([key, b"k"].concat()).unwrap();
            dead.insert(id, number('/').unwrap_or(0) as u64 * 10);
            horizons.insert(id, number('!'));
            of_tablet.push(Arc::new(SegmentMeta {
                bytes: number(if base { 'B' } else { 'D' }).unwrap() as u64 * 1_000_000,
                stamp: number('@').unwrap_or(100),
                base,
                ..meta(id.0, &key(start), &key(start), 1000)
            }));
        }
        built.push(Tablet { range: KeyRange::new(start.to_vec(), end), segments: of_tablet });
    }
    let tablets = Tablets::new(built).unwrap();
    let conditions = Conditions {
        dead: &|id| dead[&id],
        horizon: &|segment: &SegmentMeta| horizons[&segment.id],
        past_rules_until,
        purges,
        asked: asked.map(SegmentId),
        now_micros: 1_000,
    };
    let choice = choose(
        &tablets,
        &conditions,
        &CompactionLimits { changed_bytes_min: 1_000_000, garbage_pause_micros: 10, ..CompactionLimits::default() },
    );
    let text = choice.map_or("none".into(), |choice| format!("{}: {}", choice.tablet, choice.reason));
    expected.assert_eq(&text);
}

#[test]
fn tablets_are_chosen() {
    let check = |text: &str, expected: Expect| check_choice(text, None, &[], None, &expected);
    check(":B100", expect!["none"]);
    check(":B100/19 D1 D1 D1 D1", expect!["none"]);
    // Deltas: too many, or too large for the base.
    check(":B100 D1 D1 D1 D1 D1", expect!["0: number of deltas"]);
    check(":B100 D1 D1 D1 D1 | b:B100 D1 D1 D1 D1 D1 | c:B100 D1 D1 D1 D1 D1 D1", expect!["2: number of deltas"]);
    check(":B100 | b:B100 D12 D12", expect!["none"]);
    check(":B100 | b:B100 D12 D13", expect!["1: size of deltas"]);
    // A delta without a base counts as one.
    check(":D30", expect!["none"]);
    // Small deltas wait for more.
    check(":B1 D0 D0 D0", expect!["none"]);
    // A delta in two tablets counts for each with its half.
    check(":B100 D30#7 | b:B100 D30#7", expect!["none"]);
    check(":B100 D60#7 | b:B100 D60#7", expect!["0: size of deltas"]);
    // DeletionVector rows.
    check(":B100 | b:B100/20", expect!["1: dead rows"]);
    check(":B4/24 | b:B3", expect!["none"]);
    check(":B4/25 | b:B3", expect!["0: dead rows"]);
    check(":B0/100", expect!["0: dead rows"]);
    check(":B100/30 | b:B100/20 D1 D1 D1 D1 D1", expect!["1: number of deltas"]);
    // Garbage.
    check(":B100!1001", expect!["none"]);
    check(":B100!1000 | b:B100!990", expect!["1: garbage"]);
    // Not immediately after it was written.
    check(":B100!900#990 | b:B100!900#991", expect!["0: garbage"]);
    check(":B100!900#991", expect!["none"]);
}

#[test]
fn past_rules_purges_and_requests_choose_tablets() {
    check_choice(":B100 | b:B100@50", Some(100), &[], None, &expect!["1: past rules"]);
    check_choice(":B100 | b:B100@50", Some(50), &[], None, &expect!["none"]);

    let purges = [Purge { range: KeyRange::prefix(&b"b"[..]), before: SegmentId(100) }];
    check_choice(":B100#50 | b:B100#51 | c:B100#52", None, &purges, None, &expect!["1: purge"]);
    check_choice(":B100#50 | b:B100#100 | c:B100#52", None, &purges, None, &expect!["none"]);
    check_choice(":B100 D1 D1 D1 D1 D1 | b:B100#50", None, &purges, None, &expect!["1: purge"]);

    check_choice(":B100 | b:B100 D1", None, &[], Some(300), &expect!["1: asked"]);
    check_choice(":B100 | b:B100#300 D1#301", None, &[], Some(300), &expect!["none"]);
    check_choice(":B100/1 | b:B100", None, &[], Some(300), &expect!["0: asked"]);
    check_choice(":B100!5 | b:B200", None, &[], Some(300), &expect!["0: asked"]);
}

#[test]
fn tablets_that_do_not_hold_every_key_once_are_refused() {
    let tablets = |ranges: &[(&str, Option<&str>)]| {
        let tablets = ranges.iter().map(|(start, end)| Tablet::<SegmentMeta> {
            range: KeyRange::new(start.as_bytes().to_vec(), end.map(|end| end.as_bytes().to_vec().into())),
            segments: Vec::new(),
        });
        Tablets::new(tablets.collect()).is_some()
    };
    assert!(tablets(&[]) && tablets(&[("", None)]) && tablets(&[("", Some("b")), ("b", None)]));
    assert!(!tablets(&[("", Some("b"))]) && !tablets(&[("b", None)]));
    assert!(!tablets(&[("", Some("b")), ("c", None)]) && !tablets(&[("", Some("c")), ("b", None)]));
    assert!(!tablets(&[("", Some("b")), ("b", Some("b")), ("b", None)]));
}
