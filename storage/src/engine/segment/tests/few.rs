//! Few rows, read from cached pages, compared with the same rows from a full read.

use super::{
    cached::CACHED_ROWS_MAX,
    checked::{Ahead, Pages},
    page::{CachedPage, PageId, pages_with_dictionary},
    *,
};
use crate::ColumnKind;
use std::collections::BTreeSet;

/// The distribution of a column's values.
#[derive(Clone, Copy, Debug)]
enum Values {
    /// Few distinct values, which Parquet puts into a dictionary.
    Repeated,
    /// Distinct values in runs of rows, too large for a dictionary of all of them.
    Some,
    /// All different.
    Different,
    /// Mostly none.
    Rare,
    /// Some values larger than a page.
    Large,
}

/// A table: for each of its columns the index in [`model::DECLARED`], and the distribution of values.
fn columns() -> impl Strategy<Value = Vec<(usize, Values)>> {
    let values =
        prop::sample::select(vec![Values::Repeated, Values::Some, Values::Different, Values::Rare, Values::Large]);
    prop::collection::btree_map(0..model::DECLARED.len(), values, 1..6)
        .prop_map(|columns| columns.into_iter().collect())
}

fn value(row: u32, column: usize, values: Values) -> Option<Vec<u8>> {
    let mixed = (u64::from(row) << 8 | column as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let seed = match values {
        Values::Repeated => mixed % 3,
        Values::Some => u64::from(row / 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1,
        Values::Rare if mixed % 11 > 0 => return None,
        // Some rows have no value.
        _ if mixed % 17 == 0 => return None,
        _ => mixed >> 1,
    };
    let bytes = match (model::DECLARED[column].1, values) {
        (ColumnKind::Bool, _) => return Some(vec![(seed % 2) as u8]),
        (ColumnKind::Int16, _) => 2,
        (ColumnKind::Int32 | ColumnKind::Float32 | ColumnKind::Date32, _) => 4,
        (ColumnKind::Uuid, _) => 16,
        // Digits that begin with a letter are in their shortest form.
        (ColumnKind::Decimal { .. }, _) => 4,
        (ColumnKind::Binary | ColumnKind::Utf8, Values::Large) if mixed % 5 == 0 => 20_000,
        (ColumnKind::Binary | ColumnKind::Utf8, Values::Some) => 500,
        (ColumnKind::Binary | ColumnKind::Utf8, _) => 60 + (mixed % 300) as usize,
        _ => 8,
    };
    // Letters only, since texts must be UTF-8.
    let letter = |at: usize| b'a' + ((seed >> (at % 8 * 7)) as usize + at) as u8 % 26;
    let scale: &[u8] = match model::DECLARED[column].1 {
        ColumnKind::Decimal { .. } => &[0, 0, 0, 2],
        _ => &[],
    };
    Some(scale.iter().copied().chain((0..bytes).map(letter)).collect())
}

fn table(rows: u32, columns: &[(usize, Values)]) -> ModelRows {
    let row = |row: u32| {
        let cells = columns.iter().filter_map(|&(column, values)| {
            let timestamp = 1_000 + i64::from(row % 7 == column as u32);
            Some((0, model::DECLARED[column].0.as_bytes().to_vec(), timestamp, value(row, column, values)?))
        });
        let mut cells: Vec<_> = cells.collect();
        cells.sort_by(|a, b| a.1.cmp(&b.1));
        cells.push((1, b"x".to_vec(), 1_000, vec![row as u8]));
        (row.to_be_bytes().to_vec(), cells)
    };
    (0..rows).map(row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn few_rows_are_those_of_a_whole_read(
        columns in columns(),
        (count, group_rows_max) in (1u32..700, 50u32..500),
        (page_rows_max, page_bytes_target) in (1usize..90, prop::sample::select(vec![200usize, 4 << 10, 64 << 10])),
        chosen in prop::collection::btree_set(0u32..700, 1..40),
        neighbours in 0u32..5,
        cache_bytes in prop::sample::select(vec![0u64, 20 << 10, 1 << 26]),
        decoded_bytes in prop::sample::select(vec![1usize, 3_000, DECODED_BYTES_TARGET]),
        wanted in prop::option::of(0..model::DECLARED.len()),
    ) {
        let rows = table(count, &columns);
        let (blobs, caches) = (Memory::new(), Arc::new(Caches::new(1 << 26, cache_bytes)));
        let limits = Limits { group_rows_max, page_rows_max, page_bytes_target, ..Limits::default() };
        let meta = write(&blobs, &shape(&rows, true), SegmentOptions { limits, ..small(false) }, &rows).meta().clone();
        let segment = Segment::open(blobs, 5, meta, caches.clone());
        let all: Vec<(RowKey, Vec<StoredCell>)> = {
            let found = whole(&segment).into_iter().map(|(key, row)| (RowKey::new(key).unwrap(), stored(&row)));
            found.collect()
        };
        prop_assert_eq!(all.len(), rows.len());
        prop_assert_eq!(caches.bytes().1, 0, "a whole read goes past the cache");

        let positions: BTreeSet<Position> =
            chosen.iter().flat_map(|first| *first..=first + neighbours).filter(|position| *position < count).collect();
        let mut ranges: Vec<Range<Position>> = Vec::new();
        for &position in &positions {
            match ranges.last_mut() {
                Some(last) if last.end == position => last.end += 1,
                _ => ranges.push(position..position + 1),
            }
        }
        let columns = wanted.map(|column| SelectedColumns::These(vec![Bytes::from(model::DECLARED[column].0)]));
        let wanted = match columns.clone() {
            Some(columns) => vec![SelectedFamily { family: FAMILIES[0].0, columns }],
            None => everything(),
        };
        let is_wanted = |cell: &&StoredCell| columns.as_ref().is_none_or(|columns| columns.contains(&cell.qualifier));
        let expected: Vec<_> = positions
            .iter()
            .map(|position| &all[*position as usize])
            .map(|(key, cells)| (key.clone(), cells.iter().filter(is_wanted).cloned().collect::<Vec<_>>()))
            .collect();
        let (dead, older, rows_soon) = (DeletionVector::default(), true, CACHED_ROWS_MAX);
        let request = RowsRequest { ranges, dead, wanted, older, reversed: false, rows_soon, decoded_bytes };
        for _ in 0..2 {
            prop_assert_eq!(&read(&segment, request.clone()), &expected);
            let mut backward = read(&segment, RowsRequest { reversed: true, ..request.clone() });
            backward.reverse();
            prop_assert_eq!(&backward, &expected);
        }
        for &position in &positions {
            let (key, cells) = &all[position as usize];
            prop_assert_eq!(&segment.key_at(position).unwrap(), key);
            prop_assert_eq!(&stored(&segment.row(position).unwrap()), cells);
        }
        prop_assert!(caches.bytes().1 <= cache_bytes);
        prop_assert!(cache_bytes < 1 << 26 || positions.is_empty() || caches.bytes().1 > 0);
    }
}

#[test]
fn a_page_weighs_what_its_values_take() {
    // Distinct texts, and a number that few rows have.
    let text = |row: u32| format!("{row:03}").repeat(50).into_bytes();
    let cells = |row: u32| {
        let number = (row % 50 == 0).then(|| (0, b"i8".to_vec(), 9, u64::from(row).to_be_bytes().to_vec()));
        number.into_iter().chain([(0, b"text".to_vec(), 9, text(row))]).collect()
    };
    let rows: ModelRows = (0..1_000u32).map(|row| (row.to_be_bytes().to_vec(), cells(row))).collect();
    let (blobs, caches) = (Memory::new(), caches());
    let limits = Limits { page_rows_max: 1_000, page_bytes_target: 1 << 20, ..Limits::default() };
    let meta = write(&blobs, &shape(&rows, true), SegmentOptions { limits, ..small(false) }, &rows).meta().clone();
    let segment = Segment::open(blobs, 5, meta, caches.clone());
    let weight_of = |qualifier: &str| {
        let before = caches.bytes().1;
        let columns = SelectedColumns::These(vec![Bytes::copy_from_slice(qualifier.as_bytes())]);
        let wanted = vec![SelectedFamily { family: FAMILIES[0].0, columns }];
        let (dead, older, reversed, decoded_bytes) = (DeletionVector::default(), false, false, DECODED_BYTES_TARGET);
        let ranges = vec![900..901];
        let request = RowsRequest { ranges, dead, wanted, older, reversed, rows_soon: 1, decoded_bytes };
        // Pages are decoded at their second use.
        assert_eq!(read(&segment, request.clone())[0].1.len(), 1);
        assert_eq!(read(&segment, request)[0].1.len(), 1);
        caches.bytes().1 - before
    };
    // The first page, with the keys and the timestamps of rows.
    let (keys, timestamps, overhead) = (1_000 * (4 + 4), 1_000 * 8, 2_000);
    let number = weight_of("i8") - keys - timestamps;
    assert!((20 * 8..20 * 8 + 1_000 / 8 + overhead).contains(&number), "{number} bytes");
    let text = weight_of("text");
    assert!((1_000 * 150..1_000 * (150 + 4) + overhead).contains(&text), "{text} bytes");
}

#[test]
fn a_page_is_decoded_when_it_is_asked_for_again_or_for_many_rows() {
    let rows = table(1_000, &[(1, Values::Different)]);
    let (blobs, caches) = (Memory::new(), caches());
    let limits = Limits { page_rows_max: 100, ..Limits::default() };
    let meta = write(&blobs, &shape(&rows, true), SegmentOptions { limits, ..small(false) }, &rows).meta().clone();
    let segment = Segment::open(blobs, 5, meta, caches.clone());
    let loaded = segment.load().unwrap();
    let column = loaded.footer.column(FAMILIES[0].0, model::DECLARED[1].0.as_bytes()).unwrap();
    let column = loaded.column_indexes().values(column);
    let page_id = |page| PageId { group: 0, column, page };
    let held = || {
        let held = (0..3).map(|page| match caches.page(loaded.id, loaded.locations(0, column)[page].offset as u64) {
            Some(CachedPage::Encoded(_)) => "encoded",
            Some(CachedPage::Decoded(_)) => "decoded",
            None => "nothing",
        });
        held.collect::<Vec<_>>()
    };
    let ask = |ranges: Vec<Range<Position>>| {
        let (dead, older, reversed, decoded_bytes) = (DeletionVector::default(), true, false, DECODED_BYTES_TARGET);
        let (wanted, rows_soon) = (everything(), 100);
        let request = RowsRequest { ranges, dead, wanted, older, reversed, rows_soon, decoded_bytes };
        read(&segment, request);
    };
    let [a, b, c] = [0, 1, 2].map(|page| loaded.rows_of(page_id(page)));
    ask(vec![a.start..a.start + 1, a.start + 5..a.start + 6, c.start + 1..c.start + 2]);
    assert_eq!(held(), ["encoded", "nothing", "encoded"]);
    ask(vec![a.start + 7..a.start + 8]);
    assert_eq!(held(), ["decoded", "nothing", "encoded"]);
    ask(vec![b]);
    assert_eq!(held(), ["decoded", "decoded", "encoded"]);
}

#[test]
fn rows_without_a_value_come_of_pages_that_are_encoded_or_decoded() {
    let rows = table(1_000, &[(0, Values::Rare), (1, Values::Rare), (5, Values::Repeated)]);
    let expected = encode(&rows);
    let (with, without): (Vec<u32>, Vec<u32>) = (0..1_000).partition(|row| value(*row, 0, Values::Rare).is_some());
    assert!(with.len() > 50 && without.len() > 800);
    for first in [&with, &without] {
        for second in [&with, &without] {
            let options = SegmentOptions::delta(SegmentId(1), 5, 1_000);
            let segment = write(&Memory::new(), &shape(&rows, true), options, &rows);
            for row in [first[7], second[9], first[11]] {
                assert_eq!(segment.row(row).unwrap(), expected[row as usize].1, "row {row}");
            }
        }
    }
}

#[test]
fn what_needs_no_dictionary_is_known_beforehand() {
    let (all, some, none) = ((1, Values::Repeated), (0, Values::Some), (7, Values::Different));
    let rows = table(700, &[all, some, none]);
    let limits = Limits { page_rows_max: 20, ..Limits::default() };
    let segment = write(&Memory::new(), &shape(&rows, true), SegmentOptions { limits, ..small(false) }, &rows);
    let loaded = segment.load().unwrap();
    let file = Arc::new(Pages::new(loaded.file.clone(), Ahead::default()));
    let caches = open::Caches::new(1 << 20, 1 << 20);
    let known = |column: usize| {
        let with_dictionary = pages_with_dictionary(loaded.metadata.metadata().row_group(0).column(column));
        let pages = loaded.locations(0, column).len();
        for page in 0..pages {
            let page_id = PageId { group: 0, column, page };
            let values = page::values(&loaded, page_id, &file).unwrap();
            let encoded = page::with_dictionary(&loaded, &caches, page_id, values, &file).unwrap();
            assert_eq!(encoded.len() > 1, page < with_dictionary, "page {page} of column {column}");
        }
        // The dictionary is read once for all pages.
        let chunk = loaded.metadata.metadata().row_group(0).column(column).byte_range().0;
        assert_eq!(caches.has_page(loaded.id, chunk), with_dictionary > 0, "the dictionary of column {column}");
        (with_dictionary, pages)
    };
    let column = |(column, _): (usize, Values)| {
        let found = loaded.footer.column(FAMILIES[0].0, model::DECLARED[column].0.as_bytes());
        loaded.column_indexes().values(found.unwrap())
    };
    let (with_dictionary, pages) = known(column(all));
    assert!(with_dictionary == pages && pages > 1, "{with_dictionary} of {pages}");
    let (with_dictionary, pages) = known(column(some));
    assert!(0 < with_dictionary && with_dictionary < pages, "{with_dictionary} of {pages}");
    assert_eq!(known(open::ColumnIndexes::KEY).0, 0);
}

#[test]
fn a_thread_beside_writes_the_same_file() {
    let columns = [(0, Values::Rare), (1, Values::Repeated), (5, Values::Different), (7, Values::Some)];
    let rows = table(11_000, &columns);
    let limits = Limits { group_rows_max: 9_500, ..Limits::default() };
    let files = |beside| {
        let blobs = Memory::new();
        write(&blobs, &shape(&rows, true), SegmentOptions { limits, beside, ..small(false) }, &rows);
        blobs.0.lock().unwrap().clone()
    };
    assert_eq!(files(true), files(false));

    // One that is given up with a batch on its way leaves no thread behind, and no segment.
    let blobs: Arc<dyn Blobs> = Memory::new();
    let options = SegmentOptions { limits, beside: true, ..small(false) };
    let mut writer = SegmentWriter::new(Arc::clone(&blobs), shape(&rows, true), options).unwrap();
    for (key, row) in encode(&rows).into_iter().take(5_000) {
        writer.push(&key, &row).unwrap();
    }
    drop(writer);
    assert_eq!(blobs.list().unwrap(), []);
}
