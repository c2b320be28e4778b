//! Google's acceptance tests for clients (`read-rows-acceptance-test.json` of google-cloud-bigtable 2.30.1 on PyPI,
//! Apache-2.0, unchanged), and rows that are cut at random.

use super::*;
use base64::{Engine, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Suite {
    read_rows_tests: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    description: String,
    chunks: Vec<JsonChunk>,
    #[serde(default)]
    results: Vec<JsonCell>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct JsonChunk {
    row_key: String,
    family_name: Option<String>,
    qualifier: Option<String>,
    timestamp_micros: String,
    labels: Vec<String>,
    value: String,
    value_size: i32,
    reset_row: bool,
    commit_row: bool,
}

#[derive(Deserialize, Default, Debug, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct JsonCell {
    row_key: String,
    family_name: String,
    qualifier: String,
    timestamp_micros: String,
    value: String,
    label: String,
    error: bool,
}

fn bytes(text: &str) -> Bytes {
    STANDARD.decode(text).unwrap().into()
}

impl JsonChunk {
    fn chunk(&self) -> CellChunk {
        let status = match (self.reset_row, self.commit_row) {
            (true, _) => Some(RowStatus::ResetRow(true)),
            (_, true) => Some(RowStatus::CommitRow(true)),
            _ => None,
        };
        CellChunk {
            row_key: bytes(&self.row_key),
            family_name: self.family_name.clone(),
            qualifier: self.qualifier.as_ref().map(|text| bytes(text).to_vec()),
            timestamp_micros: self.timestamp_micros.parse().unwrap_or(0),
            labels: self.labels.clone(),
            value: bytes(&self.value),
            value_size: self.value_size,
            row_status: status,
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn cells_of(row: &ApiRow) -> impl Iterator<Item = JsonCell> {
    row.cells.iter().map(|cell| JsonCell {
        row_key: text(&row.key),
        family_name: cell.family.to_string(),
        qualifier: text(&cell.qualifier),
        timestamp_micros: if cell.timestamp_micros == 0 { String::new() } else { cell.timestamp_micros.to_string() },
        value: text(&cell.value),
        label: cell.labels.first().cloned().unwrap_or_default(),
        error: false,
    })
}

/// What a stream of these chunks gives; an error as the suite writes it.
fn merged(chunks: Vec<CellChunk>) -> Vec<JsonCell> {
    let (mut merger, mut cells) = (Merger::new(false), Vec::new());
    let error = || JsonCell { error: true, ..JsonCell::default() };
    for chunk in chunks {
        match merger.push(chunk) {
            Ok(row) => cells.extend(row.iter().flat_map(cells_of)),
            Err(_) => {
                cells.push(error());
                return cells;
            }
        }
    }
    if merger.finish().is_err() {
        cells.push(error());
    }
    cells
}

#[test]
fn google_accepts() {
    let suite: Suite = serde_json::from_str(include_str!("read-rows-acceptance-test.json")).unwrap();
    assert_eq!(suite.read_rows_tests.len(), 48);
    for case in suite.read_rows_tests {
        let got = merged(case.chunks.iter().map(JsonChunk::chunk).collect());
        assert_eq!(got, case.results, "{}", case.description);
    }
}

fn chunk(key: &str, value: &str) -> CellChunk {
    CellChunk {
        row_key: Bytes::copy_from_slice(key.as_bytes()),
        family_name: Some("a".into()),
        qualifier: Some(b"q".to_vec()),
        value: Bytes::copy_from_slice(value.as_bytes()),
        row_status: Some(RowStatus::CommitRow(true)),
        ..CellChunk::default()
    }
}

#[test]
fn keys_are_in_the_order_that_was_asked_for() {
    for (reversed, first, second, fits) in
        [(false, "a", "b", true), (false, "b", "a", false), (true, "b", "a", true), (true, "a", "b", false)]
    {
        let mut merger = Merger::new(reversed);
        merger.push(chunk(first, "")).unwrap();
        assert_eq!(merger.push(chunk(second, "")).is_ok(), fits, "{first} {second}");
        let mut merger = Merger::new(reversed);
        merger.scanned(first.into()).unwrap();
        assert_eq!(merger.last_key().unwrap(), first);
        assert_eq!(merger.push(chunk(second, "")).is_ok(), fits, "{first} was scanned, {second}");
        assert_eq!(merger.last_key().unwrap(), if fits { second } else { first });
    }
}

#[test]
fn a_scanned_key_is_between_rows() {
    let mut merger = Merger::new(false);
    merger.push(CellChunk { row_status: None, ..chunk("a", "v") }).unwrap();
    assert!(merger.scanned("b".into()).is_err());
}

#[test]
fn names_and_sizes_are_checked() {
    for bad in [
        CellChunk { family_name: Some("a b".into()), ..chunk("k", "v") },
        CellChunk { row_key: vec![7; 5_000].into(), ..chunk("k", "v") },
        CellChunk { value_size: -1, row_status: None, ..chunk("k", "v") },
    ] {
        assert!(matches!(Merger::new(false).push(bad), Err(Error::Protocol(_))));
    }
    let mut merger = Merger::new(false);
    let most = Bytes::from(vec![0; ROW_BYTES_MAX]);
    merger.push(CellChunk { row_status: None, value: most, ..chunk("k", "") }).unwrap();
    let more = CellChunk { qualifier: Some(b"r".to_vec()), ..chunk("", "x") };
    assert!(matches!(merger.push(more), Err(Error::Protocol("a row is larger than 256 MiB"))));
}

fn cell() -> impl Strategy<Value = (String, Vec<u8>, i64, Vec<u8>)> {
    ("[ab]", prop::collection::vec(0u8..3, 0..2), 0i64..3, prop::collection::vec(any::<u8>(), 0..6))
}

proptest! {
    #[test]
    fn rows_are_whole_however_they_are_cut(
        rows in prop::collection::vec(prop::collection::vec(cell(), 1..4), 1..5),
        cuts in prop::collection::vec(0usize..4, 64),
    ) {
        let (mut merger, mut cuts, mut got) = (Merger::new(false), cuts.into_iter().cycle(), Vec::new());
        let mut want = Vec::new();
        for (number, cells) in rows.iter().enumerate() {
            let key = RowKey::new(vec![u8::try_from(number).unwrap() + 1]).unwrap();
            // A row may be sent in part, and taken back.
            let begins = if cuts.next() == Some(0) { vec![cells.len() / 2, cells.len()] } else { vec![cells.len()] };
            for (turn, &count) in begins.iter().enumerate() {
                let is_last_turn = turn + 1 == begins.len();
                for (at, (family, qualifier, timestamp, value)) in cells.iter().take(count).enumerate() {
                    let cut = cuts.next().unwrap_or(0).min(value.len());
                    let parts = if cut > 0 { vec![&value[..cut], &value[cut..]] } else { vec![&value[..]] };
                    for (part, bytes) in parts.iter().enumerate() {
                        let (first, last) = (part == 0, part + 1 == parts.len());
                        let commits = is_last_turn && last && at + 1 == count;
                        let chunk = CellChunk {
                            row_key: if first && at == 0 { key.bytes().clone() } else { Bytes::new() },
                            family_name: first.then(|| family.clone()),
                            qualifier: first.then(|| qualifier.clone()),
                            timestamp_micros: if first { *timestamp } else { 0 },
                            value: Bytes::copy_from_slice(bytes),
                            value_size: if last { 0 } else { i32::try_from(value.len()).unwrap() },
                            row_status: commits.then_some(RowStatus::CommitRow(true)),
                            labels: Vec::new(),
                        };
                        got.extend(merger.push(chunk).unwrap());
                    }
                }
                if !is_last_turn && count > 0 {
                    let reset = CellChunk { row_status: Some(RowStatus::ResetRow(true)), ..CellChunk::default() };
                    got.extend(merger.push(reset).unwrap());
                }
            }
            let cell = |(family, qualifier, timestamp, value): &(String, Vec<u8>, i64, Vec<u8>)| ApiCell {
                family: FamilyName::new(family).unwrap(),
                qualifier: qualifier.clone().into(),
                timestamp_micros: *timestamp,
                value: value.clone().into(),
                labels: Vec::new(),
            };
            want.push(ApiRow { key, cells: cells.iter().map(cell).collect() });
        }
        merger.finish().unwrap();
        prop_assert_eq!(got, want);
    }
}
