//! Properties of the pure functions that no store test covers.

use super::*;
use crate::{Columns, GcRule, RowKey, RowSet, Scan, TableSchema, scan::FamilyColumns, testing::arbitrary};
use proptest::prelude::*;

fn cell(family: &str, qualifier: &'static str, timestamp: i64) -> Cell {
    Cell { family: FamilyName::new(family).unwrap(), qualifier: qualifier.into(), timestamp, value: Bytes::new() }
}

fn set(family: &str, timestamp: Option<i64>) -> Mutation {
    let cell = cell(family, "q", 0);
    Mutation::SetCell { family: cell.family, qualifier: cell.qualifier, timestamp, value: Bytes::from_static(b"v") }
}

fn schema(gc: GcRule) -> TableSchema {
    TableSchema::of([(FamilyName::new("f").unwrap(), Family { gc, aggregate: None })])
}

#[test]
fn only_missing_timestamps_are_resolved() {
    let mut mutations = [set("f", None), set("f", Some(3)), Mutation::DeleteFromRow];
    resolve(&mut mutations, 7);
    assert_eq!(mutations, [set("f", Some(7)), set("f", Some(3)), Mutation::DeleteFromRow]);
}

#[test]
fn semantics_2_a_stamp_after_a_read_is_newest() {
    let cells = [cell("f", "a", 5), cell("f", "b", 90), cell("f", "c", 7)];
    assert_eq!(stamp_for(50, false, &cells), 50, "a blind write");
    assert_eq!(stamp_for(50, true, &cells), 91);
    assert_eq!(stamp_for(500, true, &cells), 500);
    assert_eq!(stamp_for(50, true, &[]), 50, "an absent row");
    assert_eq!(stamp_for(0, true, &[cell("f", "a", i64::MAX)]), i64::MAX, "no overflow");
}

#[test]
fn live_leaves_what_the_rules_keep() {
    let cells = vec![cell("e", "q", 9), cell("f", "q", 9), cell("f", "q", 8), cell("f", "r", 7), cell("g", "q", 9)];
    let left = live(&schema(GcRule::MaxVersions(1)), cells, 10);
    assert_eq!(left, [cell("f", "q", 9), cell("f", "r", 7)], "families that are not there are left out");
}

#[test]
fn semantics_6_fold_condemns_before_it_deletes() {
    let cells = vec![cell("f", "q", 9), cell("f", "q", 8)];
    let newest = Mutation::DeleteFromColumn {
        family: FamilyName::new("f").unwrap(),
        qualifier: "q".into(),
        timestamps: TimestampRange { start: 9, end: None },
    };
    assert_eq!(fold(&schema(GcRule::MaxVersions(1)), cells.clone(), std::slice::from_ref(&newest), 10).unwrap(), []);
    assert_eq!(fold(&schema(GcRule::KeepAll), cells, &[newest], 10).unwrap(), [cell("f", "q", 8)]);
}

#[test]
fn a_row_has_a_size_limit_over_all_its_writes() {
    let big = |qualifier: &'static str| Mutation::SetCell {
        family: FamilyName::new("f").unwrap(),
        qualifier: qualifier.into(),
        timestamp: Some(1),
        value: vec![0; ROW_BYTES_MAX / 2].into(),
    };
    let schema = schema(GcRule::KeepAll);
    let half = fold(&schema, Vec::new(), &[big("a")], 10).unwrap();
    let error = fold(&schema, half, &[big("b")], 10).unwrap_err();
    assert!(matches!(error, Error::TooLarge { what: "a row", limit: ROW_BYTES_MAX, .. }), "{error}");
}

proptest! {
    /// The result is in order, has each cell key once, and is unchanged by another evaluation of the rules.
    #[test]
    fn fold_keeps_the_order(mutations in prop::collection::vec(arbitrary::mutation(), 0..30)) {
        let schema = arbitrary::families();
        let mut cells = Vec::new();
        for mutation in &mutations {
            // Invalid mutations are refused, and the row is unchanged.
            if let Ok(next) = fold(&schema, cells.clone(), std::slice::from_ref(mutation), 1_020_000) {
                cells = next;
            }
            prop_assert!(crate::store::is_ordered(&cells));
            prop_assert_eq!(&live(&schema, cells.clone(), 1_020_000), &cells);
        }
    }

    /// A row that is only written to takes another path through [`fold`], with the same result.
    #[test]
    fn writes_alone_are_laid_over(mutations in prop::collection::vec(arbitrary::mutation(), 0..60), split in 0usize..20) {
        let schema = arbitrary::families();
        let sets: Vec<_> = mutations.into_iter().filter(|one| written_cell(one, 1_000_000).is_some()).collect();
        let (before, after) = sets.split_at(split.min(sets.len()));
        let cells = change(&schema, Vec::new(), before, 1_000_000).unwrap();
        let written = after.iter().filter_map(|one| written_cell(one, 1_000_000)).collect();
        prop_assert_eq!(overlay(cells.clone(), written), change(&schema, cells, after, 1_000_000).unwrap());
    }

    /// A reader that gets only the columns that it needs returns the same.
    #[test]
    fn cells_that_a_reader_does_not_want_do_not_matter(
        mutations in prop::collection::vec(arbitrary::mutation(), 0..30),
        scan in arbitrary::scan(),
    ) {
        let schema = arbitrary::families();
        let known = |mutation: &Mutation| mutation.family().is_none_or(|name| schema.families.contains_key(name));
        let mutations: Vec<_> = mutations.into_iter().filter(known).collect();
        let Ok(cells) = fold(&schema, Vec::new(), &mutations, 1_010_000) else { return Ok(()) };
        let Ok(reader) = RowReader::new(&schema, &scan, 1_015_000) else { return Ok(()) };
        let key = crate::RowKey::new("ab").unwrap();
        let wanted = cells.iter().filter(|cell| reader.wants(&cell.family, &cell.qualifier)).cloned().collect();
        prop_assert_eq!(reader.read(key.clone(), cells), reader.read(key, wanted));
    }
}

proptest! {
    #[test]
    fn a_scan_reads_the_columns_that_it_names(
        cells in proptest::collection::btree_set((0..3_usize, 0..12_usize, 0..3_i64), 0..24),
        wanted in proptest::collection::btree_map(
            0..3_usize,
            proptest::option::of(proptest::collection::btree_set(0..12_usize, 0..9)),
            0..3,
        ),
        versions_max in proptest::option::of(1..3_u32),
        (keep_empty, known) in (proptest::bool::ANY, 2..4_usize),
    ) {
        const NAMES: [&str; 12] = ["", "a", "aa", "ab", "b", "ba", "c", "d", "e", "ef", "f", "g"];
        let family = |at: usize| FamilyName::new(["e", "f", "g"][at]).unwrap();
        // Sometimes the last family is one that the table has no more.
        let families = (0..known).map(|at| (family(at), Family { gc: GcRule::KeepAll, aggregate: None }));
        let columns = Columns::Of(
            wanted
                .into_iter()
                .map(|(of, names)| FamilyColumns {
                    family: family(of),
                    qualifiers: names.map(|names| names.into_iter().map(|name| NAMES[name].into()).collect()),
                })
                .collect(),
        );
        let mut cells: Vec<Cell> =
            cells.into_iter().map(|(of, name, at)| cell(["e", "f", "g"][of], NAMES[name], at)).collect();
        cells.sort_by(Cell::order);
        let scan = Scan { columns: columns.clone(), versions_max, keep_empty, ..Scan::of(RowSet::all()) };
        let reader = RowReader::new(&TableSchema::of(families.collect::<BTreeMap<_, _>>()), &scan, 10).unwrap();
        let read = reader.read(RowKey::new("k").unwrap(), cells.clone()).map(|row| row.cells);
        cells.retain(|cell| (0..known).any(|at| cell.family == family(at)));
        let exists = !cells.is_empty();
        cells.retain(|cell| columns.contains(&cell.family, &cell.qualifier));
        if let Some(versions) = versions_max {
            let mut before: Vec<Cell> = Vec::new();
            cells.retain(|cell| {
                before.push(cell.clone());
                before.iter().filter(|other| other.same_column(cell)).count() <= versions as usize
            });
        }
        prop_assert_eq!(read, (exists && (keep_empty || !cells.is_empty())).then_some(cells));
    }
}
