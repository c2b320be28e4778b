//! Files after a purge, and when a purge ends.

use super::*;
use crate::{FamilyChange, KeyRange, RowMutation};
use std::{fs, path::PathBuf};

/// Occurs in every key that must vanish, and nowhere else. Its bytes are distinct, so that no codec splits it.
const MARK: &str = "bQz7w";

/// Tablets of as many rows as a compaction takes at a time.
fn small_tablets(folder: &Path) -> EngineOptions {
    EngineOptions { base_bytes: 1, compacts: false, ..EngineOptions::new(folder) }
}

fn rows_of(prefix: &str, numbers: std::ops::Range<u32>) -> Vec<RowMutation> {
    let row = |number| RowMutation { key: key(&format!("{prefix}-{number:05}")), mutations: vec![set("v")] };
    numbers.map(row).collect()
}

async fn write(engine: &Engine, prefix: &str, numbers: std::ops::Range<u32>) {
    for row in engine.mutate_rows(&table(), rows_of(prefix, numbers)).await.unwrap() {
        row.unwrap();
    }
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { all_files(&path) } else { vec![path] }).collect()
}

/// The files that contain the mark, as it is or as manifests encode keys.
fn marked(folder: &Path) -> Vec<PathBuf> {
    let digits: String = MARK.bytes().map(|byte| format!("{byte:02x}")).collect();
    let holds = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap();
        [MARK, &digits].iter().any(|mark| bytes.windows(mark.len()).any(|part| part == mark.as_bytes()))
    };
    all_files(folder).into_iter().filter(holds).collect()
}

fn cell(qualifier: &'static str, value: &str) -> Mutation {
    let (family, qualifier) = (FamilyName::new("f").unwrap(), Bytes::from_static(qualifier.as_bytes()));
    Mutation::SetCell { family, qualifier, timestamp: None, value: value.to_owned().into() }
}

fn erase(qualifiers: &[&str]) -> Vec<FamilyChange> {
    let qualifiers = qualifiers.iter().map(|qualifier| qualifier.as_bytes().to_vec()).collect();
    vec![FamilyChange::SetErased(FamilyName::new("f").unwrap(), qualifiers)]
}

/// The values of an erased column, and of its past, leave every file: bases, deltas, the log, memtables; and they stay
/// gone when the store is opened again.
#[tokio::test]
async fn no_file_has_a_cell_of_an_erased_column_after_a_purge() {
    let folder = tempfile::tempdir().unwrap();
    let options = || EngineOptions { compacts: false, ..EngineOptions::new(folder.path()) };
    let engine = Engine::open(options()).await.unwrap();
    let history = Some(crate::History { keep_micros: 3_600_000_000, since_micros: 0 });
    engine.create_table(&table(), TableSchema { history, ..schema(GcRule::KeepAll) }).await.unwrap();
    let write = async |round: u32| {
        let row = |number: u32| RowMutation {
            key: key(&format!("row-{number:04}")),
            mutations: vec![cell("p", &format!("{MARK} {round} {number}")), cell("q", &format!("kept {round}"))],
        };
        engine.mutate_rows(&table(), (0..200).map(row).collect()).await.unwrap();
    };
    write(0).await;
    engine.compact(None).await.unwrap();
    write(1).await;
    engine.flush().await.unwrap();
    write(2).await;
    assert!(marked(folder.path()).len() > 2);
    engine.modify_families(&table(), erase(&["p"])).await.unwrap();
    let seen = async |engine: &Engine| {
        let rows = rows(engine).await;
        let cells = rows.iter().flat_map(|row| &row.cells);
        (rows.len(), cells.filter(|cell| cell.qualifier == "p").count())
    };
    assert_eq!(seen(&engine).await, (200, 0));
    assert!(!marked(folder.path()).is_empty());
    engine.purge_cells(&[table()]).await.unwrap();
    assert_eq!((marked(folder.path()), seen(&engine).await), (vec![], (200, 0)));
    engine.modify_families(&table(), erase(&[])).await.unwrap();
    assert_eq!(seen(&engine).await, (200, 0));
    drop(engine);
    let engine = Engine::open(options()).await.unwrap();
    assert_eq!((marked(folder.path()), seen(&engine).await), (vec![], (200, 0)));
}

async fn purge(engine: &Engine) {
    engine.drop_row_range(&table(), MARK.into()).await.unwrap();
    engine.purge(&[(table(), KeyRange::prefix(MARK))]).await.unwrap();
}

fn boundaries(engine: &Engine) -> Vec<Bytes> {
    engine.inspect().unwrap().tablets.into_iter().map(|tablet| tablet.start).collect()
}

#[tokio::test]
async fn a_purge_in_the_middle_ends_although_nothing_is_written_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let engine = with_table(EngineOptions { compacts: false, ..EngineOptions::new(folder.path()) }).await;
    for prefix in ["a", MARK, "c"] {
        write(&engine, prefix, 0..3).await;
    }
    engine.flush().await.unwrap();
    assert!(!marked(folder.path()).is_empty());
    // Its output reaches from `a` to `c`, across the rows to be purged.
    purge(&engine).await;
    assert_eq!((marked(folder.path()), rows(engine.as_ref()).await.len()), (vec![], 6));
    assert_eq!(engine.inspect().unwrap().compactions.len(), 1);
    purge(&engine).await;
    assert_eq!(rows(engine.as_ref()).await.len(), 6);
}

#[tokio::test]
async fn a_delta_of_several_tablets_and_a_boundary_vanish_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let engine = with_table(small_tablets(folder.path())).await;
    for (prefix, count) in [("a", 5_000), (MARK, 3_600), ("c", 200)] {
        write(&engine, prefix, 0..count).await;
    }
    engine.compact(None).await.unwrap();
    let before = boundaries(&engine);
    assert_eq!(before.len(), 3);
    assert!(before[1].starts_with(b"a-") && before[2].starts_with(MARK.as_bytes()), "{before:?}");
    // A delta in the first tablet, to which no row of the range belongs, and in the second.
    write(&engine, "a", 0..1).await;
    write(&engine, MARK, 10..11).await;
    engine.flush().await.unwrap();
    purge(&engine).await;
    assert!(marked(folder.path()).is_empty());
    assert!(
        boundaries(&engine).iter().all(|boundary| !boundary.starts_with(MARK.as_bytes())),
        "{:?}",
        boundaries(&engine)
    );
    assert_eq!(rows(engine.as_ref()).await.len(), 5_200);
    drop(engine);
    let engine = Engine::open(small_tablets(folder.path())).await.unwrap();
    assert_eq!(rows(engine.as_ref()).await.len(), 5_200);
}

#[tokio::test]
async fn rows_that_are_there_again_stay_and_only_they() {
    let folder = tempfile::tempdir().unwrap();
    let engine = with_table(small_tablets(folder.path())).await;
    for (prefix, count) in [("a", 100), (MARK, 9_000), ("c", 100)] {
        write(&engine, prefix, 0..count).await;
    }
    engine.compact(None).await.unwrap();
    assert_eq!(boundaries(&engine).len(), 3);
    engine.drop_row_range(&table(), MARK.into()).await.unwrap();
    // On both sides of the boundaries, in segments and not.
    let again = [100..103, 4_500..4_503, 8_900..8_903];
    for numbers in again.clone() {
        write(&engine, MARK, numbers).await;
    }
    engine.flush().await.unwrap();
    write(&engine, MARK, 5_000..5_001).await;
    engine.purge(&[(table(), KeyRange::prefix(MARK))]).await.unwrap();
    let keys: Vec<RowKey> = rows(engine.as_ref()).await.into_iter().map(|row| row.key).collect();
    let expected = rows_of("a", 0..100).into_iter().chain(rows_of(MARK, 100..103)).chain(rows_of(MARK, 4_500..4_503));
    let expected = expected.chain(rows_of(MARK, 5_000..5_001)).chain(rows_of(MARK, 8_900..8_903));
    let expected: Vec<RowKey> = expected.chain(rows_of("c", 0..100)).map(|row| row.key).collect();
    assert_eq!(keys, expected);
    for boundary in boundaries(&engine).iter().skip(1) {
        assert!(
            keys.iter().any(|key| key[..] == boundary[..]) || !boundary.starts_with(MARK.as_bytes()),
            "{boundary:?}"
        );
    }
}
