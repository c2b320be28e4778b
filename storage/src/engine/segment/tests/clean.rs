//! Which row groups are clean.

use super::*;
use crate::{ColumnKind, GcRule, KeyRange};
use expect_test::{Expect, expect};
use parquet::{
    arrow::ARROW_SCHEMA_META_KEY,
    file::metadata::{ColumnChunkMetaData, RowGroupMetaData},
};
use std::collections::BTreeMap;

/// Rows of two row groups of 23 and 17 rows. In the second, family `c` has cells of a rare column.
fn sample() -> ModelRows {
    let row = |row: u8| {
        let mut cells = vec![(0, b"i8".to_vec(), 100 + i64::from(row), vec![row; 8])];
        if row % 2 == 0 {
            cells.push((0, b"text".to_vec(), 90, b"text".to_vec()));
        }
        if row == 30 {
            cells.push((2, b"x".to_vec(), 1, b"rare".to_vec()));
        }
        (vec![b'k', row], cells)
    };
    (0..40).map(row).collect()
}

fn wanted(&(family, name, kind): &(u32, &str, ColumnKind), accepts: Option<&'static str>) -> CleanColumn {
    CleanColumn { family, qualifier: Bytes::copy_from_slice(name.as_bytes()), kind, accepts, or_bytes: false }
}

/// Checks the clean parts of a request.
fn check(
    change: impl FnOnce(&mut ModelRows),
    rules: &[(u32, GcRule)],
    columns: &[(u32, &str, ColumnKind)],
    key: Option<&str>,
    dead: &[u32],
    ranges: &[Range<Position>],
    expected: &Expect,
) {
    let mut rows = sample();
    change(&mut rows);
    let segment = write(&Memory::new(), &shape(&ModelRows::new(), true), small(false), &rows);
    let families: BTreeMap<u32, Vec<(GcRule, i64)>> =
        rules.iter().map(|(family, rule)| (*family, vec![(rule.clone(), 1_000)])).collect();
    let columns: Vec<CleanColumn> = columns.iter().map(|column| wanted(column, None)).collect();
    let dead = deletion_vectors_of(dead);
    let span = KeyRange::all();
    let request = CleanRequest {
        ranges,
        span: &span,
        dead: &dead,
        columns: &columns,
        key,
        or_row_key: false,
        families: &families,
    };
    let found = segment.clean(&request).unwrap();
    let mut text = String::new();
    for part in found.parts {
        for (group, selection) in &part.row_groups {
            let runs = selection.as_ref().map(|selection| {
                let runs = selection.iter().map(|run| format!("{}{}", if run.skip { "-" } else { "+" }, run.row_count));
                runs.collect::<Vec<_>>().join(" ")
            });
            text += &format!("group {group}: {}\n", runs.unwrap_or("all".into()));
        }
        text += &format!("rows {} columns {:?} key {:?}\n", part.rows, part.columns, part.key_columns);
    }
    text += &format!("rest {:?} rows {}\n", found.rest, found.rest_rows);
    expected.assert_eq(&text);
}

const KEEP: GcRule = GcRule::KeepAll;
const INT: (u32, &str, ColumnKind) = (7, "i8", ColumnKind::Int64);
const TEXT: (u32, &str, ColumnKind) = (7, "text", ColumnKind::Utf8);
const RARE: (u32, &str, ColumnKind) = (3, "x", ColumnKind::Utf8);

fn all_keep() -> [(u32, GcRule); 3] {
    [(7, KEEP), (0, KEEP), (3, KEEP)]
}

#[test]
fn row_groups_are_clean_as_far_as_their_columns_are() {
    let all = std::slice::from_ref(&(0..40));
    check(
        |_| {},
        &all_keep(),
        &[INT, TEXT],
        Some("second byte"),
        &[],
        all,
        &expect![[r#"
        group 0: all
        group 1: all
        rows 40 columns [Some("7:a:i8"), Some("7:a:text")] key ["key:second"]
        rest [] rows 0
    "#]],
    );
    // Another kind, where there are values; a rare column, where there are cells.
    check(
        |_| {},
        &all_keep(),
        &[(7, "i8", ColumnKind::Binary)],
        None,
        &[],
        all,
        &expect![[r#"
        rest [0..23, 23..40] rows 40
    "#]],
    );
    check(
        |_| {},
        &all_keep(),
        &[(7, "f8", ColumnKind::Binary), RARE],
        None,
        &[],
        all,
        &expect![[r#"
        group 0: all
        rows 23 columns [None, None] key []
        rest [23..40] rows 17
    "#]],
    );
    check(
        |_| {},
        &all_keep(),
        &[INT],
        Some("another decoder"),
        &[],
        all,
        &expect![[r#"
        rest [0..23, 23..40] rows 40
    "#]],
    );
}

#[test]
fn residual_cells_and_odd_keys_make_a_row_group_unclean() {
    let all = std::slice::from_ref(&(0..40));
    let residual = |rows: &mut ModelRows| rows.get_mut(&vec![b'k', 3]).unwrap()[0].3 = vec![1, 2, 3];
    check(
        residual,
        &all_keep(),
        &[INT],
        None,
        &[],
        all,
        &expect![[r#"
        group 1: all
        rows 17 columns [Some("7:a:i8")] key []
        rest [0..23] rows 23
    "#]],
    );
    check(
        residual,
        &all_keep(),
        &[TEXT],
        None,
        &[],
        all,
        &expect![[r#"
        group 0: all
        group 1: all
        rows 40 columns [Some("7:a:text")] key []
        rest [] rows 0
    "#]],
    );
    // An older version of another kind is never the newest cell.
    let older = |rows: &mut ModelRows| rows.get_mut(&vec![b'k', 3]).unwrap().insert(1, (0, b"i8".to_vec(), 1, vec![1]));
    check(
        older,
        &all_keep(),
        &[INT],
        None,
        &[],
        all,
        &expect![[r#"
        group 0: all
        group 1: all
        rows 40 columns [Some("7:a:i8")] key []
        rest [] rows 0
    "#]],
    );
    let odd_key = |rows: &mut ModelRows| drop(rows.insert(vec![b'z'], vec![(0, b"i8".to_vec(), 9, vec![0; 8])]));
    check(
        odd_key,
        &all_keep(),
        &[INT],
        Some("second byte"),
        &[],
        std::slice::from_ref(&(0..41)),
        &expect![[r#"
        group 0: all
        rows 23 columns [Some("7:a:i8")] key ["key:second"]
        rest [23..41] rows 18
    "#]],
    );
}

#[test]
fn what_may_be_condemned_is_not_clean() {
    let all = std::slice::from_ref(&(0..40));
    let age = |micros: i64| GcRule::MaxAgeMicros(1_000 - micros);
    // Texts have timestamp 90, numbers 100 to 139: at 90 nothing is condemned, at 91 a text may be.
    let rules = |at| [(7, age(at)), (0, KEEP), (3, KEEP)];
    check(
        |_| {},
        &rules(90),
        &[TEXT],
        None,
        &[],
        all,
        &expect![[r#"
        group 0: all
        group 1: all
        rows 40 columns [Some("7:a:text")] key []
        rest [] rows 0
    "#]],
    );
    check(
        |_| {},
        &rules(91),
        &[TEXT],
        None,
        &[],
        all,
        &expect![[r#"
        rest [0..23, 23..40] rows 40
    "#]],
    );
    check(
        |_| {},
        &[(7, GcRule::MaxVersions(1)), (0, KEEP), (3, KEEP)],
        &[TEXT],
        None,
        &[],
        all,
        &expect![[r#"
        group 0: all
        group 1: all
        rows 40 columns [Some("7:a:text")] key []
        rest [] rows 0
    "#]],
    );
    // Cells of a family that can expire do not matter to rows that have a value elsewhere.
    let elsewhere = |rows: &mut ModelRows| rows.values_mut().for_each(|cells| cells.push((1, vec![], 5, vec![1])));
    let elsewhere_sorted = |rows: &mut ModelRows| {
        elsewhere(rows);
        rows.values_mut().for_each(|cells| cells.sort_by_key(|cell| cell.0));
    };
    check(
        elsewhere_sorted,
        &rules(500),
        &[(0, "", ColumnKind::Binary)],
        None,
        &[],
        all,
        &expect![[r#"
        group 0: all
        group 1: all
        rows 40 columns [Some("0:b:")] key []
        rest [] rows 0
    "#]],
    );
    // Without it a row may be gone, whichever columns are requested; also if a family of its cells was dropped.
    check(
        |_| {},
        &rules(500),
        &[(0, "", ColumnKind::Binary)],
        None,
        &[],
        all,
        &expect![[r#"
        rest [0..23, 23..40] rows 40
    "#]],
    );
    check(
        |_| {},
        &[(0, KEEP), (3, KEEP)],
        &[(0, "", ColumnKind::Binary)],
        None,
        &[],
        all,
        &expect![[r#"
        rest [0..23, 23..40] rows 40
    "#]],
    );
}

#[test]
fn living_rows_of_the_ranges_are_selected() {
    check(
        |_| {},
        &all_keep(),
        &[INT],
        None,
        &[0, 1, 5, 30],
        &[0..10, 20..25],
        &expect![[r#"
        group 0: -2 +3 -1 +4 -10 +3
        group 1: +2 -15
        rows 12 columns [Some("7:a:i8")] key []
        rest [] rows 0
    "#]],
    );
    // Dead row groups are neither parts nor rest.
    let dead: Vec<u32> = (0..23).collect();
    check(
        |_| {},
        &all_keep(),
        &[RARE],
        None,
        &dead,
        std::slice::from_ref(&(0..40)),
        &expect![[r#"
        rest [23..40] rows 17
    "#]],
    );
}

/// Three row groups of one segment: rows of `a`, of `a` and `b`, of `b`.
#[test]
fn border_row_groups_have_no_statistics() {
    let row = |at: u8| (vec![if at < 30 { b'a' } else { b'b' }, at], vec![(0, b"i8".to_vec(), 100, vec![at; 8])]);
    let rows: ModelRows = (0..60).map(row).collect();
    let segment = write(&Memory::new(), &shape(&ModelRows::new(), true), small(false), &rows);
    let families = all_keep().into_iter().map(|(family, rule)| (family, vec![(rule, 1_000)])).collect();
    let columns = [wanted(&INT, None)];
    let parts = |span: &KeyRange, ranges: &[Range<Position>], dead: &[u32]| {
        let dead = deletion_vectors_of(dead);
        let request = CleanRequest {
            ranges,
            span,
            dead: &dead,
            columns: &columns,
            key: None,
            or_row_key: false,
            families: &families,
        };
        let parts = segment.clean(&request).unwrap().parts.into_iter().map(|part| {
            let metadata = &part.metadata;
            let chunks = || metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
            let has_any = |chunk: &ColumnChunkMetaData| {
                let lists = chunk.definition_level_histogram().or(chunk.repetition_level_histogram()).is_some();
                let index = chunk.column_index_offset().or(chunk.bloom_filter_offset()).is_some();
                chunk.statistics().is_some() || chunk.page_encoding_stats_mask().is_some() || lists || index
            };
            let mut pairs = metadata.file_metadata().key_value_metadata().into_iter().flatten();
            let has_footer = pairs.any(|pair| pair.key != ARROW_SCHEMA_META_KEY);
            let has_statistics = metadata.column_index().is_some() || has_footer || chunks().any(has_any);
            assert!(metadata.offset_index().is_some(), "pages are skipped by position");
            assert_eq!(part.is_border, !has_statistics);
            let groups: Vec<usize> = part.row_groups.iter().map(|(at, _)| *at).collect();
            (part.is_border, groups, metadata.num_row_groups(), part.rows)
        });
        parts.collect::<Vec<_>>()
    };
    let (a, b) = (KeyRange::prefix("a"), KeyRange::prefix("b"));
    // All rows of a span: the second row group is of both.
    assert_eq!(parts(&a, &[0..30], &[]), [(true, vec![0], 1, 7), (false, vec![0], 3, 23)]);
    assert_eq!(parts(&b, &[30..60], &[]), [(true, vec![0], 1, 16), (false, vec![2], 3, 14)]);
    // Some rows of a row group in the span, and one that is dead.
    assert_eq!(parts(&a, &[3..20], &[7]), [(false, vec![0], 3, 16)]);
    assert_eq!(parts(&a, &[3..30], &[7]), [(true, vec![0], 1, 7), (false, vec![0], 3, 19)]);
    // The neighbour's rows are all dead: they are in the row group nonetheless.
    let dead: Vec<u32> = (30..60).collect();
    assert_eq!(parts(&a, &[23..30], &dead), [(true, vec![0], 1, 7)]);
    // Who may read all keys.
    assert_eq!(parts(&KeyRange::all(), &[0..60], &[]), [(false, vec![0, 1, 2], 3, 60)]);
    assert_eq!(parts(&KeyRange::all(), &[25..28], &[]), [(false, vec![1], 3, 3)]);
}

#[tokio::test]
async fn a_query_engine_reads_the_part() {
    let rows = sample();
    let segment = write(&Memory::new(), &shape(&rows, true), small(false), &rows);
    let families = all_keep().into_iter().map(|(family, rule)| (family, vec![(rule, 0)])).collect();
    let columns = [wanted(&INT, None)];
    let dead = DeletionVector::default();
    let ranges = std::slice::from_ref(&(0..40));
    let (span, key) = (KeyRange::all(), None);
    let request = CleanRequest {
        ranges,
        span: &span,
        dead: &dead,
        columns: &columns,
        key,
        or_row_key: false,
        families: &families,
    };
    let part = segment.clean(&request).unwrap().parts.remove(0);
    let file = part.file;
    assert_eq!((file.name(), file.size()), ("0000000000000abc.parquet".to_owned(), segment.meta().bytes));
    let size = file.size();
    let read = file.read(&[0..4, size - 4..size, 0..size]).await.unwrap();
    assert_eq!((&read[0][..], &read[1][..], read[2].len() as u64), (&b"PAR1"[..], &b"PAR1"[..], size));
    // Any Parquet reader can read the file.
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(read[2].clone()).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows(), 40);
    let batches: usize = reader.build().unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(batches, 40);
}

#[test]
fn columns_of_families_that_are_gone_are_null() {
    let all = std::slice::from_ref(&(0..40));
    let mut columns = [INT, TEXT];
    columns[1].0 = 99;
    let full = |rows: &mut ModelRows| rows.values_mut().for_each(|cells| cells.push((1, vec![], 5, vec![1])));
    let sorted = |rows: &mut ModelRows| {
        full(rows);
        rows.values_mut().for_each(|cells| cells.sort_by_key(|cell| cell.0));
    };
    check(
        sorted,
        &[(0, KEEP)],
        &columns,
        None,
        &[],
        all,
        &expect![[r#"
        group 0: all
        group 1: all
        rows 40 columns [None, None] key []
        rest [] rows 0
    "#]],
    );
}

#[test]
fn values_must_have_been_held_against_what_they_have_to_be() {
    let even = |row: u8| (vec![b'k', row], vec![(1, b"\0*".to_vec(), 9, vec![0, 0, 0, 2 * row])]);
    let rows: ModelRows = (0..3).map(even).collect();
    let segment = write(&Memory::new(), &shape(&rows, true), small(false), &rows);
    let families = all_keep().into_iter().map(|(family, rule)| (family, vec![(rule, 0)])).collect();
    let is_clean = |accepts| {
        let columns = [wanted(&(0, "\0*", ColumnKind::Int32), accepts)];
        let (dead, ranges, span) = (DeletionVector::default(), &[0..3], &KeyRange::all());
        let request = CleanRequest {
            ranges,
            span,
            dead: &dead,
            columns: &columns,
            key: None,
            or_row_key: false,
            families: &families,
        };
        !segment.clean(&request).unwrap().parts.is_empty()
    };
    assert_eq!([None, Some("even"), Some("odd")].map(is_clean), [true, true, false]);
}

#[test]
fn what_is_not_a_number_is_in_no_bounds() {
    let value = |row: u8| if row == 30 { f64::NAN } else { f64::from(row) };
    let row = |row: u8| (vec![b'k', row], vec![(0, b"f8".to_vec(), 9, value(row).to_be_bytes().to_vec())]);
    let segment = write(&Memory::new(), &shape(&ModelRows::new(), true), small(false), &(0..60).map(row).collect());
    let loaded = segment.load().unwrap();
    let metadata = loaded.metadata.metadata();
    let index_of_column = loaded.column_indexes().values(loaded.footer.column(7, b"f8").unwrap());
    let bounded = |group: usize| {
        let index = &metadata.column_index().unwrap()[group][index_of_column];
        (metadata.row_group(group).column(index_of_column).statistics().is_some(), index.is_sorted())
    };
    assert_eq!([0, 1, 2].map(bounded), [(true, true), (false, false), (true, true)]);
}
